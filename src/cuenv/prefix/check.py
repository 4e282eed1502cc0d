"""Check an installed environment: what its records say, what its files hold, and what the host makes of both."""

from __future__ import annotations

import importlib
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from cuenv.core.findings import Check, Report, report
from cuenv.host.describe import host_line
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, checked_host, outside
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.files import read_lock, recorded_host
from cuenv.lockfile.io.conda_client import client_at_hand
from cuenv.prefix.causes import FIRST, one_each
from cuenv.prefix.checks import CHECKS, NO_LOCK, Subject
from cuenv.prefix.inventory import Prefix
from cuenv.prefix.io.prefix import find_prefix, installed_digest
from cuenv.prefix.packages import as_locked
from cuenv.solve.model import Lock


@dataclass(frozen=True, kw_only=True)
class PrefixChecked:
    """The checks of an environment in their order, their findings as one report, and what they were made for."""

    prefix: Prefix
    facts: HostFacts
    checks: tuple[Check, ...]
    report: Report


def check_prefix(
    path: Path,
    options: HostOptions,
    knowledge: Knowledge,
    *,
    lock: Path | None = None,
    named: bool = True,
    wish: Request | None = None,
    facts: HostFacts | None = None,
    running: bool = False,
) -> PrefixChecked:
    """Check an environment for a host; nothing of it is run unless that is asked for.

    Args:
        path: its folder.
        options: the host; this machine when none is named.
        knowledge: the tables.
        lock: the lock that it was made from.
        named: whether the user said so; else it is only at hand, and the environment may be another's.
        wish: the profile whose memory and disk the machine should have.
        facts: the host of the options, where it was asked already.
        running: its activation scripts and its compilers may be run.

    Raises:
        InputError: it is no environment, or the lock cannot be read.
    """
    prefix = find_prefix(path)
    made_from = read_lock(lock) if lock else None
    facts = facts or checked_host(outside(options, prefix.path), knowledge, wish)
    other = None if named or made_from is None else _of_another(prefix, made_from, facts)
    if other:
        made_from = None
    client = client_at_hand(options.environ)
    anew = _anew(prefix, lock) if lock and made_from else ""
    prefix = replace(prefix, client=client, anew=anew)
    recorded = None if options.given or facts.gpus or made_from is None else recorded_host(made_from, facts, knowledge)
    subject = Subject(
        prefix=prefix,
        facts=recorded or facts,
        knowledge=knowledge,
        environ=options.environ,
        lock=made_from,
        profile=wish,
        running=running,
        no_lock=f"{lock}: {other}" if other else NO_LOCK,
    )
    checks = tuple(_check(name, subject) for name in CHECKS)
    findings = one_each(finding for check in checks for finding in check.findings)
    looked = (f"{subject.prefix.kind} environment", host_line(subject.facts))
    return PrefixChecked(
        prefix=subject.prefix, facts=subject.facts, checks=checks, report=report(str(path), findings, looked, FIRST)
    )


def _anew(prefix: Prefix, lock: Path) -> str:
    """The command that makes an environment anew from its lock, of one that cuenv made."""
    if not installed_digest(Path(prefix.path)):
        return ""
    return shlex.join(["cuenv", "install", str(lock), "--prefix", prefix.path, "--replace"])


def _of_another(prefix: Prefix, lock: Lock, facts: HostFacts) -> str | None:
    """Why a lock that nobody named is taken for that of another environment; ``None`` when it is this one's."""
    solution = lock.solution(facts.platform)
    if prefix.kind != "conda" or solution is None:
        return f"not compared: it locks conda packages for {', '.join(one.platform for one in lock.solutions)}"
    same = as_locked(prefix.conda, solution)
    if 2 * same >= len(solution.packages):
        return None
    return (
        f"not compared: {same} of its {len(solution.packages)} packages are here as locked, so it is taken for "
        "another environment's; --lock says that it is this one's"
    )


def _check(name: str, subject: Subject) -> Check:
    module = importlib.import_module(f"cuenv.prefix.checks.{name}")
    check: Check = module.check(subject)
    return check
