"""Diagnose a log for a host and an environment; without a log, check the host and its active environment."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cuenv.core.errors import InputError, Progress, UsageError
from cuenv.core.findings import Finding, Report, report
from cuenv.core.io.files import is_file, size_of
from cuenv.core.record import dataclass, replace
from cuenv.core.urls import printable
from cuenv.diagnosis.causes import Diagnosis, diagnose_scan
from cuenv.diagnosis.io.logs import log_blocks
from cuenv.diagnosis.log.host import log_host
from cuenv.diagnosis.log.scan import scan
from cuenv.host.facts import HostFacts
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import Guidance
from cuenv.knowledge.io.load import load_guidance
from cuenv.lockfile.files import ENVIRONMENT
from cuenv.prefix.io.prefix import find_prefix

if TYPE_CHECKING:  # a log needs none of it
    from cuenv.prefix.check import CheckRequest

STDIN = "-"
NEW = "environment.new.yml"
_HOST = ("--host", "--gpu", "--driver", "--glibc", "--platform")
_MEGA = 1_000_000
_PIPE = "python train.py 2>&1 | cuenv diagnose -"


@dataclass(frozen=True, kw_only=True)
class LogDiagnosis:
    """A diagnosis and the tables that it is based on."""

    diagnosis: Diagnosis
    guidance: Guidance


@dataclass(frozen=True, kw_only=True)
class HostDiagnosis:
    """The findings on a host and its active environment, without a log."""

    report: Report  # the findings: what fails or may fail
    fine: tuple[str, ...]  # what works, one line each
    shows: dict[str, tuple[str, ...]]  # the symptoms that each finding code would cause in a log
    facts: HostFacts
    guidance: Guidance


def diagnose_log(
    log: str, options: HostOptions, knowledge: Knowledge, prefix: Path | None = None, say: Progress | None = None
) -> LogDiagnosis:
    """Diagnose a log.

    Args:
        log: a path, or ``-`` for standard input.
        options: the options that name the host of the log; without them the log decides.
        knowledge: the tables.
        prefix: the environment of the log.
        say: called with the progress.

    Raises:
        UsageError: the log and a host both want standard input.
        InputError: the log cannot be read, is empty or no text, or the folder is not an environment.
    """
    if log == STDIN and STDIN in options.hosts:
        raise UsageError("the log and --host cannot both be standard input", hint=f"cuenv diagnose LOG --host {STDIN}")
    guidance = load_guidance(knowledge)
    environment = find_prefix(prefix) if prefix else None
    blocks = log_blocks(log)
    if say is not None:
        blocks = _with_progress(blocks, 0 if log == STDIN else size_of(Path(log)), say)
    read = scan(blocks, guidance.symptoms)
    if not read.size:
        raise InputError(f"{'standard input' if log == STDIN else printable(log)} is empty", hint=_PIPE)
    found = diagnose_scan(read, knowledge, log_host(read, options, knowledge, is_file_here), environment)
    if is_file(ENVIRONMENT):
        found = replace(
            found, causes=tuple(replace(item, command=_keep_environment_file(item.command)) for item in found.causes)
        )
    return LogDiagnosis(diagnosis=found, guidance=guidance)


def is_file_here(path: str) -> bool:
    """Return whether this machine has a file of a traceback."""
    return is_file(Path(path))


def _keep_environment_file(command: str) -> str:
    """Keep an existing environment.yml: the command repairs it, or writes another file.

    A command with more options than those of the host cannot become a repair, so it writes another file.
    """
    words = shlex.split(command)
    if words[:2] != ["cuenv", "resolve"] or words[-2:] != ["-o", ENVIRONMENT]:
        return command
    host = words[2:-2]
    if all(word in _HOST for word in host[::2]):
        return shlex.join(["cuenv", "lock", "--repair", *host, "-o", NEW])
    return shlex.join([*words[:-1], NEW])


def _with_progress(blocks: Iterator[bytes], size: int, say: Progress) -> Iterator[bytes]:
    """Yield the blocks and report the progress of reading."""
    whole = f" of {size / _MEGA:.0f}" if size else ""
    done = 0
    for block in blocks:
        done += len(block)
        say(f"reading {done / _MEGA:.0f}{whole} MB")
        yield block


def diagnose_host(options: HostOptions, knowledge: Knowledge, prefix: Path | None = None) -> HostDiagnosis:
    """Check a host and an environment: the named one, else the active one, else the lock in this folder.

    Raises:
        InputError: the named folder is not an environment.
    """
    from cuenv.prefix.check import run_check_request  # noqa: PLC0415 - a log needs none of it
    from cuenv.resolver.health import machine_findings  # noqa: PLC0415 - as above

    guidance = load_guidance(knowledge)
    facts = host_facts(options, knowledge)
    what = _environment_to_check(options, prefix)
    found: list[Finding] = []
    fine: list[str] = []
    for one in run_check_request(what, options, knowledge) if what else ():
        found += one.report.findings
        fine += [f"{check.name}: {check.says}" for check in one.checks if check.status == "ok"]
    if what is None or what.prefix is None:
        found += machine_findings(facts, None, knowledge)
    codes = {finding.code for finding in found}
    found += () if codes & {"CU409", "CU417"} else _missing_gpus(facts)
    found += () if "CU232" in codes else _shadowing_libraries(facts)
    shows = {item.code: tuple(row.id for row in guidance.symptoms if item.code in row.codes) for item in found}
    looked = [str(path) for path in (what.lock, what.prefix) if path] if what else []
    title = f"{facts.label}: {' and '.join(looked) or 'no environment is active, and this directory has no lock'}"
    fine += _working_parts(facts, found)
    return HostDiagnosis(report=report(title, found), fine=tuple(fine), shows=shows, facts=facts, guidance=guidance)


def _environment_to_check(options: HostOptions, prefix: Path | None) -> CheckRequest | None:
    """Return the named environment; else the active one of this machine, or the lock in this folder."""
    from cuenv.prefix.check import parse_check_request  # noqa: PLC0415 - a log needs none of it

    environ = {} if options.given else options.environ
    try:
        what = parse_check_request(None, environ, prefix=prefix)
        if prefix is None and what.prefix is not None:
            find_prefix(what.prefix)
    except InputError:
        if prefix is not None:
            raise
        return None  # nothing is there, or what the variables name is gone
    return what


def _missing_gpus(facts: HostFacts) -> Iterator[Finding]:
    for machine in facts.machines:
        if machine.detected and (machine.driver is None or not machine.gpus):
            missing = "no NVIDIA driver" if machine.driver is None else "no GPU"
            inside = f" inside {machine.environment.container}" if machine.environment.container else ""
            yield Finding(
                code="CU409",
                severity="error",
                subject=machine.label,
                message=f"{machine.label} has {missing}{inside}, so CUDA programs cannot run here",
                evidence=tuple(f"{gap.fact} from {gap.source}: {gap.reason}" for gap in machine.gaps),
                fix="docker run --gpus all IMAGE" if inside else "cuenv inspect -v",
            )


def _shadowing_libraries(facts: HostFacts) -> Iterator[Finding]:
    for machine in facts.machines:
        for entry in machine.environment.library_path:
            yield Finding(
                code="CU312",
                severity="warning",
                subject=entry.path,
                message=f"LD_LIBRARY_PATH names {entry.path}, whose libraries can shadow those of torch",
                evidence=entry.libraries,
                fix="unset LD_LIBRARY_PATH",
            )


def _working_parts(facts: HostFacts, found: Iterable[Finding]) -> Iterator[str]:
    """Yield what works on the host: known facts without a finding."""
    from cuenv.host.describe import gpu_text  # noqa: PLC0415 - as above

    codes = {finding.code for finding in found}
    for machine in facts.machines:
        driver = machine.driver
        if driver and driver.version and "CU411" not in codes:
            level = f", which supports CUDA {driver.cuda}" if driver.cuda else ""
            yield f"driver: {driver.version}{level}"
        if machine.gpus:
            yield f"GPUs: {gpu_text(machine)}"
        if machine.libc:
            yield f"C library: {machine.libc.family} {machine.libc.version}"
    if not any(machine.environment.library_path for machine in facts.machines):
        yield "LD_LIBRARY_PATH: contains no CUDA library"
