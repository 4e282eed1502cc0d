"""Freshness: whether a lock still belongs to its environment file and to the options of a command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from cuenv.core.findings import Finding, Report, report
from cuenv.core.io.files import exists
from cuenv.core.record import replace
from cuenv.host.describe import host_options
from cuenv.host.facts import HostFacts
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.companions import companion_findings
from cuenv.lockfile.files import (
    LOCK_NAME,
    day_in,
    host_metadata,
    is_locked_from,
    read_environment,
    read_lock,
    recorded_host,
    solved_glibc,
)
from cuenv.lockfile.formats import LockPart
from cuenv.lockfile.wheel_lock import wheel_locks, wheel_path
from cuenv.resolver.solution_policy import edit_findings
from cuenv.solve import WHEEL_LOCKS
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.model import AS_OF, Lock


def out_of_date(
    path: Path,
    options: HostOptions,
    knowledge: Knowledge,
    platforms: tuple[str, ...] = (),
    *,
    wheels: str = "",
    output: Path | None = None,
    as_of: str = "",
) -> Report:
    """Whether a lock still belongs to its environment file and to the given options: no solve, no GPU, no network.

    Args:
        options: host options; only those that are given are compared with what the lock recorded.
        platforms: asked for, where the options ask for several.
        wheels: the lock without conda that is meant, one of `cuenv.solve.WHEEL_LOCKS`; without it every lock of the
            file that lies beside it.
        output: the file of that lock, where it has another name than usual.
        as_of: the day as of which builds are asked for; empty for the one that the file names, if any.
    """
    spec, _ = read_environment(path)
    target = path.parent / LOCK_NAME
    usual = () if wheels else (target,)
    others = wheel_locks(path, wheels, output)
    found: list[Finding] = []
    if not others and not (usual and exists(target)):
        missing = output or (wheel_path(wheels, path.parent) if wheels else target)
        again = ["cuenv", "lock", str(path), *(["--format", wheels] if wheels else [])]
        again += ["-o", str(output)] if output else []
        message, fix = f"{missing} does not exist", shlex.join(again)
        found.append(Finding(code="CU107", severity="error", subject=missing.name, message=message, fix=fix))
        return report(str(missing), found)
    there = [item for item in (*usual, *others) if exists(item)]
    for item in there:
        # a lock without conda is for one platform: its siblings are the others that were asked for
        own = platforms if item == target else ()
        found += _lock_findings(item, path, spec, knowledge, options, platforms=own, output=output, as_of=as_of)
    have = {solution.platform for item in others for solution in read_lock(item, LockPart()).solutions}
    for name in platforms if wheels else ():
        if name not in have:
            message = f"{path.name} has no lock of the format {wheels} for {name}"
            every = [word for each in platforms for word in ("--platform", each)]
            also = shlex.join(["cuenv", "lock", str(path), "--format", wheels, *every])
            found.append(Finding(code="CU107", severity="error", subject=name, message=message, fix=also))
    return report(", ".join(map(str, there)), found)


def _lock_findings(
    target: Path,
    path: Path,
    spec: EnvironmentSpec,
    knowledge: Knowledge,
    options: HostOptions,
    *,
    platforms: tuple[str, ...],
    output: Path | None,
    as_of: str,
) -> Iterator[Finding]:
    """Where one lock does not belong to its environment file, the day or the options any more."""
    own = target == path.parent / LOCK_NAME
    lock = read_lock(target, None if own else LockPart())
    facts = (
        host_facts(options, knowledge)
        if options.given
        else recorded_host(lock, HostFacts(label="", platform=""), knowledge)
    )
    again = shlex.join(["cuenv", "lock", str(path), *(host_options(facts) if facts else ())])
    if own and (platforms or (options.platform and "--platform" not in again)):
        again += "".join(f" --platform {name}" for name in platforms or (options.platform,))
    if not own:
        again += f" --format {WHEEL_LOCKS[target.suffix != '.toml']}"
        again += f" -o {shlex.quote(str(output))}" if output else ""
    day, locked_day = as_of or day_in(path), lock.metadata.get(AS_OF, "")
    again += f" --as-of {day or locked_day}" if day or locked_day else ""
    yield from (replace(item, fix=again) if not own else item for item in edit_findings(lock))
    yield from companion_findings(lock, target)
    recorded = lock.metadata.get("cuenv_environment")
    if recorded is None:
        yield _foreign_lock_finding(target) if own else replace(_foreign_lock_finding(target), fix=again)
    elif not is_locked_from(lock, spec):
        made = "the lock" if own else target.name
        yield _changed_finding(f"{path.name}", f"it has changed since {made} was made", again)
    if day and day != locked_day:
        then = f"as of {locked_day}" if locked_day else "with builds of any day"
        yield _changed_finding("--as-of", f"locked {then}, but requested as of {day}", again)
    if options.given and facts:
        asked = _asked_host(options, facts, platforms, spec.platforms)
        if not own:
            asked.pop("platform", None)
        yield from (
            _changed_finding(name, f"locked for {old or 'nothing'}, but requested for {value or 'nothing'}", again)
            for name, value in asked.items()
            if value != (old := _recorded_host_value(lock, name))
        )


def _asked_host(
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


def _recorded_host_value(lock: Lock, name: str) -> str | None:
    """What a lock records of the host under the name of an option."""
    platforms = [solution.platform for solution in lock.solutions]
    if name == "glibc":
        own = lock.metadata.get("cuenv_glibc")
        return own or (solved_glibc(lock.solutions[0]) if lock.solutions else None)
    return " ".join(sorted(platforms)) if name == "platform" else lock.metadata.get(f"cuenv_{name}")


def _changed_finding(what: str, how: str, again: str) -> Finding:
    """The finding that something changed since the lock was made."""
    return Finding(code="CU107", severity="error", subject=what, message=f"{what} changed: {how}", fix=again)


def _foreign_lock_finding(target: Path) -> Finding:
    message = f"{target.name} was not made by cuenv, so its environment file is unknown"
    return Finding(code="CU107", severity="error", subject=target.name, message=message, fix="cuenv lock")
