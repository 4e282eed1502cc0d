"""Check an installed environment: what its records say, what its files hold, and what the host makes of both."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from cuenv.checks import Check
from cuenv.facts import HostFacts
from cuenv.flows.hosts import HostOptions, host_facts
from cuenv.flows.lock_files import read_lock
from cuenv.flows.prefix_checks import CHECKS, Subject
from cuenv.host_text import host_line
from cuenv.knowledge import Knowledge
from cuenv.prefix import Prefix
from cuenv.report import Report, report
from cuenv.world.prefix import find_prefix


@dataclass(frozen=True, kw_only=True)
class PrefixChecked:
    """The checks of an environment in their order, their findings as one report, and what they were made for."""

    prefix: Prefix
    facts: HostFacts
    checks: tuple[Check, ...]
    report: Report


def check_prefix(path: Path, options: HostOptions, knowledge: Knowledge, *, lock: Path | None = None) -> PrefixChecked:
    """Check an environment for a host, without running anything of it.

    Args:
        path: its folder.
        options: the host; this machine when none is named.
        knowledge: the tables.
        lock: the lock that it was made from.

    Raises:
        InputError: it is no environment, or the lock cannot be read.
    """
    subject = Subject(
        prefix=find_prefix(path),
        facts=host_facts(options, knowledge),
        knowledge=knowledge,
        environ=options.environ,
        lock=read_lock(lock) if lock else None,
    )
    checks = tuple(_check(name, subject) for name in CHECKS)
    findings = [finding for check in checks for finding in check.findings]
    looked = (f"{subject.prefix.kind} environment", host_line(subject.facts))
    return PrefixChecked(
        prefix=subject.prefix, facts=subject.facts, checks=checks, report=report(str(path), findings, looked)
    )


def _check(name: str, subject: Subject) -> Check:
    module = importlib.import_module(f"cuenv.flows.prefix_checks.{name}")
    check: Check = module.check(subject)
    return check
