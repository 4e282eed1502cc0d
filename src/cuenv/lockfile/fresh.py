"""Freshness: whether a lock still belongs to its environment file and to the options of a command."""

from __future__ import annotations

import shlex
from pathlib import Path

from cuenv.core.findings import Finding, Report, report
from cuenv.core.io.files import exists
from cuenv.host.describe import host_options
from cuenv.host.facts import HostFacts
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.companions import companion_findings
from cuenv.lockfile.files import (
    LOCK_NAME,
    host_metadata,
    locks,
    read_environment,
    read_lock,
    recorded_host,
    virtual_version,
)
from cuenv.resolver.solution_policy import edited
from cuenv.solve.model import Lock


def out_of_date(path: Path, options: HostOptions, knowledge: Knowledge, platforms: tuple[str, ...] = ()) -> Report:
    """Whether a lock still belongs to its environment file and to the given options: no solve, no GPU, no network.

    Args:
        path: the environment file.
        options: host options; only those that are given are compared with what the lock recorded.
        knowledge: the tables.
        platforms: asked for, where the options ask for several.
    """
    spec, _ = read_environment(path)
    target = path.parent / LOCK_NAME
    if not exists(target):
        missing = Finding(
            code="CU107",
            severity="error",
            subject=LOCK_NAME,
            message=f"{target} is not there",
            fix=f"cuenv lock {shlex.quote(str(path))}",
        )
        return report(str(target), [missing])
    lock = read_lock(target)
    facts = (
        host_facts(options, knowledge)
        if options.given
        else recorded_host(lock, HostFacts(label="", platform=""), knowledge)
    )
    again = shlex.join(["cuenv", "lock", str(path), *(host_options(facts) if facts else ())])
    if platforms or (options.platform and "--platform" not in again):
        again += "".join(f" --platform {name}" for name in platforms or (options.platform,))
    found = [*edited(lock), *companion_findings(lock, target)]
    recorded = lock.metadata.get("cuenv_environment")
    if recorded is None:
        found.append(_foreign(target))
    elif not locks(lock, spec):
        found.append(_changed(f"{path.name}", "its content has changed since the lock was made", again))
    if options.given and facts:
        asked = _asked(options, facts, platforms, spec.platforms)
        found += [
            _changed(name, f"locked for {old or 'nothing'}, asked for {value or 'nothing'}", again)
            for name, value in asked.items()
            if value != (old := _recorded(lock, name))
        ]
    return report(str(target), found)


def _asked(
    options: HostOptions, facts: HostFacts, platforms: tuple[str, ...], of_file: tuple[str, ...]
) -> dict[str, str | None]:
    """What the options say about the host, as a lock would record it; what they leave open is not compared."""
    now = host_metadata(facts)
    asked: dict[str, str | None] = {}
    if options.hosts or options.gpus:
        asked["gpus"] = now.get("cuenv_gpus")
    if options.hosts or options.driver:
        asked["driver"] = now.get("cuenv_driver")
    if options.hosts or options.glibc:
        asked["glibc"] = str(facts.libc.version) if facts.libc else None
    if options.platform:
        asked["platform"] = " ".join(sorted(platforms or (options.platform,)))
    elif options.hosts:
        asked["platform"] = " ".join(sorted(of_file or (facts.platform,)))
    return asked


def _recorded(lock: Lock, name: str) -> str | None:
    platforms = [solution.platform for solution in lock.solutions]
    if name == "glibc":
        return virtual_version(lock.solutions[0], "__glibc") if lock.solutions else None
    return " ".join(sorted(platforms)) if name == "platform" else lock.metadata.get(f"cuenv_{name}")


def _changed(what: str, how: str, again: str) -> Finding:
    return Finding(code="CU107", severity="error", subject=what, message=f"{what} changed: {how}", fix=again)


def _foreign(target: Path) -> Finding:
    return Finding(
        code="CU107",
        severity="error",
        subject=target.name,
        message=f"{target.name} was not made by cuenv, so its environment file is unknown",
        fix="cuenv lock",
    )
