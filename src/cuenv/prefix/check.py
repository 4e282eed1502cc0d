"""Check an installed environment: its records, its files, and whether it runs on the host."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cuenv.core.errors import InputError, Progress, UsageError
from cuenv.core.findings import Check, CheckResult, Finding, Report, report, skipped
from cuenv.core.io.files import exists
from cuenv.core.notebook import Drawable
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.host.describe import host_line
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, checked_host, this_machine, without_environment
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.check import check
from cuenv.lockfile.files import LOCK_NAME, command_to_lock, lock_file, read_lock, recorded_host
from cuenv.lockfile.formats import LockPart
from cuenv.solve.model import Lock

if TYPE_CHECKING:  # a lock is checked without them
    from cuenv.prefix.inventory import Prefix
    from cuenv.prefix.probes import ProbeOutcome


_OTHER_LOCKS = ("pixi.lock", "uv.lock", "pylock.toml")  # what is checked in a folder without conda-lock.yml


@dataclass(frozen=True, kw_only=True)
class PrefixCheck(Drawable):
    """The checks of an environment, and one report of all their findings."""

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
    request: Request | None = None,
    facts: HostFacts | None = None,
    running: bool = False,
    part: LockPart | None = None,
) -> PrefixCheck:
    """Check an environment for a host, without running anything of it unless ``running`` is set.

    Args:
        options: the host; this machine when none is named.
        lock: the lock that it was made from.
        named: whether the user named the lock; a lock that was only found may belong to another environment.
        request: the profile whose memory and disk the machine should have.
        facts: the host, if it is known already.
        running: whether its activation scripts and compilers may be run.
        part: which of several environments or platforms in the lock is meant.

    Raises:
        InputError: it is not an environment, or the lock cannot be read.
    """
    from cuenv.lockfile.io.conda_client import client_at_hand  # noqa: PLC0415 - a lock is checked without them
    from cuenv.prefix.checked import NO_LOCK, CheckedEnvironment  # noqa: PLC0415 - as above
    from cuenv.prefix.checks import CHECKS  # noqa: PLC0415 - as above
    from cuenv.prefix.io.prefix import find_prefix  # noqa: PLC0415 - as above

    prefix = find_prefix(path)
    part = part or LockPart()
    if prefix.python and not part.python:
        part = part._replace(python=prefix.python, python_from="the environment")
    made_from = read_lock(lock, part) if lock else None
    facts = facts or checked_host(without_environment(options, prefix.path), knowledge, request)
    other = None if named or made_from is None else _lock_of_another_environment(prefix, made_from, facts)
    if other:
        made_from = None
    client = client_at_hand(options.environ)
    anew = _remake_command(prefix, lock) if lock and made_from else ""
    prefix = replace(prefix, client=client, remake=anew)
    recorded = None if options.given or facts.gpus or made_from is None else recorded_host(made_from, facts, knowledge)
    env = CheckedEnvironment(
        prefix=prefix,
        facts=recorded or facts,
        knowledge=knowledge,
        environ=options.environ,
        lock=made_from,
        profile=request,
        running=running,
        no_lock=f"{lock}: {other}" if other else NO_LOCK,
    )
    checks = tuple(check(env) for check in CHECKS.values())
    findings = fold_effects(finding for check in checks for finding in check.findings)
    looked = (f"{env.prefix.kind} environment", host_line(env.facts))
    return PrefixCheck(
        prefix=env.prefix, facts=env.facts, checks=checks, report=report(str(path), findings, looked, CODE_ORDER)
    )


def _remake_command(prefix: Prefix, lock: Path) -> str:
    """The command that makes the environment again from its lock; empty if cuenv did not make the environment."""
    from cuenv.prefix.io.prefix import installed_digest  # noqa: PLC0415 - a lock is checked without it

    if not installed_digest(Path(prefix.path)):
        return ""
    return shlex.join(["cuenv", "install", str(lock), "--prefix", prefix.path, "--replace"])


def _lock_of_another_environment(prefix: Prefix, lock: Lock, facts: HostFacts) -> str | None:
    """Why a lock that was only found does not belong to this environment; ``None`` if it does."""
    from cuenv.prefix.checked import other_platforms  # noqa: PLC0415 - a lock is checked without it

    solution = lock.solution(facts.platform)
    if solution is None:
        return other_platforms(lock)
    if prefix.kind != "conda":
        return f"not compared: no evidence that this {prefix.kind} environment was made from it"
    from cuenv.prefix.lock_comparison import count_as_locked  # noqa: PLC0415 - a lock is checked without it

    same = count_as_locked(prefix.conda, solution)
    if 2 * same >= len(solution.packages):
        return None
    return (
        f"not compared: {same} of its {len(solution.packages)} packages are installed as locked, so it seems "
        "to belong to another environment; --lock selects it anyway"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """What ``cuenv check`` looks at: a lock, an environment, or both."""

    lock: Path | None = None
    prefix: Path | None = None
    against: Path | None = None  # the lock that the environment is compared with
    # whether the user named that lock; a lock that was only found may belong to another environment
    named: bool = False
    part: LockPart | None = None  # which of several environments or platforms in the lock is meant


def parse_check_request(
    path: Path | None,
    environ: Mapping[str, str],
    *,
    prefix: Path | None = None,
    name: str | None = None,
    lock: Path | None = None,
    part: LockPart | None = None,
    words: Iterable[str] = (),
) -> CheckRequest:
    """What ``cuenv check`` has to check, according to its arguments and the working folder.

    A lock that is named is checked by itself, an environment that is named as well. With neither, both that are at
    hand are: the lock in the working folder, and the environment that is active.

    Args:
        lock: the value of ``--lock``: the lock that the environment was made from.
        part: which of several environments or platforms in the lock is meant.
        words: the host options as they were typed, for the command in a hint.

    Raises:
        UsageError: options exclude each other, or nothing has that name.
        InputError: there is nothing to check.
    """
    if prefix and name:
        raise UsageError("--prefix and --name exclude each other", hint="cuenv check --prefix DIR")
    if path and lock:
        hint = f"cuenv check --lock {shlex.quote(str(lock))}"
        raise UsageError("the lock is given twice: LOCK and --lock", hint=hint)
    if path and prefix is None and name is None:
        return CheckRequest(lock=path, part=part)
    from cuenv.prefix.io.environments import active_environment, named_environment  # noqa: PLC0415 - not for a lock

    here = Path(LOCK_NAME)
    if name is not None:
        prefix = named_environment(name, environ)
    if prefix is None and lock is not None:
        prefix = active_environment(environ)
        if prefix is None:
            message = "--lock needs an environment, but no environment is named or active"
            raise UsageError(message, hint=f"cuenv check --prefix DIR --lock {shlex.quote(str(lock))}")
    against = lock or path or (here if exists(here) else None)
    if prefix is not None:
        return CheckRequest(lock=path, prefix=prefix, against=against, named=bool(lock or path), part=part)
    return _request_from_folder(here, active_environment(environ), part, words)


def find_lock() -> Path | None:
    """The lock in the working folder; ``None`` if there is none."""
    return next((Path(name) for name in (LOCK_NAME, *_OTHER_LOCKS) if exists(name)), None)


def _request_from_folder(here: Path, active: Path | None, part: LockPart | None, words: Iterable[str]) -> CheckRequest:
    from cuenv.prefix.io.environments import is_conda_base, is_venv_of_cuenv  # noqa: PLC0415 - only without arguments

    if exists(here):
        # Shells activate conda's own environment unasked, and people that of cuenv: neither is that of the lock.
        nobodys = active is None or is_conda_base(active) or is_venv_of_cuenv(active)
        return CheckRequest(lock=here, prefix=None if nobodys else active, against=here, part=part)
    other = next((name for name in _OTHER_LOCKS if exists(name)), None)
    if other:
        return CheckRequest(lock=Path(other), part=part)
    if active is None or is_venv_of_cuenv(active):
        why = "the active environment contains cuenv but no torch" if active else "no environment is active"
        raise InputError(f"{LOCK_NAME} does not exist, and {why}", hint=command_to_lock(Path(), words))
    return CheckRequest(prefix=active)


def run_check_request(
    what: CheckRequest,
    options: HostOptions,
    knowledge: Knowledge,
    request: Request | None = None,
    *,
    limit: float | None = None,
    say: Progress | None = None,
) -> tuple[CheckResult, ...]:
    """Run the checks that were requested; the report on the lock comes first.

    Args:
        limit: run the environment as well, with this time limit in seconds for each probe.

    Raises:
        InputError: the lock or the environment cannot be read.
        UsageError: there is no environment to run.
    """
    if limit is not None and what.prefix is None:
        message = "--run needs an environment, but no environment is named or active"
        raise UsageError(message, hint="cuenv check --run --prefix DIR")
    facts = None
    if what.lock and what.prefix:  # asked once for both
        facts = checked_host(without_environment(options, str(what.prefix)), knowledge, request)
    found = []
    if what.lock:
        one = check(what.lock, options, knowledge, request, facts, part=what.part)
        file = str(lock_file(what.lock))
        found.append(
            CheckResult(
                report=one.report, host=host_line(one.facts), file=file, components=one.components, part=one.part
            )
        )
    if what.prefix:
        other = check_prefix(
            what.prefix,
            options,
            knowledge,
            lock=what.against,
            named=what.named,
            request=request,
            facts=facts,
            running=limit is not None,
            part=what.part,
        )
        if limit is not None:
            other = _add_probe_checks(other, options.environ, knowledge, limit, say)
        found.append(CheckResult(report=other.report, host=host_line(other.facts), checks=other.checks))
    return tuple(found)


CODE_ORDER = (
    *("CU207", "CU206", "CU208", "CU215", "CU204", "CU205", "CU201", "CU202", "CU209"),
    *("CU234", "CU401", "CU402", "CU403", "CU290", "CU231", "CU210", "CU213", "CU214", "CU211", "CU212", "CU216"),
    *("CU230", "CU233", "CU235", "CU236", "CU257", "CU250", "CU251"),
)
"""The order of findings with the same severity: the installation itself, the host, CUDA libraries, loading them,
builds of extensions. Other codes follow in numerical order."""

_MISSING = frozenset({"CU211", "CU213", "CU214", "CU230"})  # codes of findings on a missing library
_CAUSES = ("CU215", "CU231", "CU213", "CU214", "CU211")
"""Codes of findings that may explain a missing library, the most basic first."""
_LIBRARY = regex(r"\blib[\w+.-]+\.so(?:\.[0-9]+)*\b")


def fold_effects(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, each effect of another finding moved into the evidence of its cause.

    A missing library is reported once, by the most basic finding on it: its package has lost files, the file is
    damaged, or torch needs it. That loading fails is a consequence.
    """
    left = list(findings)
    for code in _CAUSES:
        for cause in [item for item in left if item.code == code and item.severity == "error"]:
            names = _library_names(cause)
            effects = [item for item in left if item is not cause and _explains(cause, names, item)]
            if effects:
                told = dict.fromkeys((*cause.evidence, *(f"so {item.code}: {item.message}" for item in effects)))
                left = [item for item in left if item not in effects]
                left[left.index(cause)] = replace(cause, evidence=tuple(told))
    led = {path for item in left if item.code == "CU212" for path in item.evidence}
    return [
        item for item in left if not (item.code == "CU412" and any(path.startswith(f"{item.subject}/") for path in led))
    ]


def _library_names(cause: Finding) -> frozenset[str]:
    if cause.code == "CU215":
        return frozenset(map(posixpath.basename, cause.evidence))
    return frozenset(_LIBRARY.findall(cause.subject))


def _explains(cause: Finding, names: frozenset[str], item: Finding) -> bool:
    if item.code not in _MISSING or (item.code == cause.code and cause.code != "CU215"):
        return False
    if item.code == "CU230" or _CAUSES.index(item.code) > _CAUSES.index(cause.code):
        from cuenv.prefix.cuda_files import family  # noqa: PLC0415 - a lock is checked without it

        if item.code == "CU230" and ", " in cause.subject and family(item.subject.partition("*")[0].rstrip(".")):
            return True  # where several are gone, all of NVIDIA's are
        libraries = item.subject.split(", ")
        return all(any(_matches_pattern(wanted, name) for name in names) for wanted in libraries)
    return False


def _matches_pattern(wanted: str, name: str) -> bool:
    """Whether a file name matches a name or one of torch's patterns, such as ``libcublas.so.*[0-9]``."""
    stem, star, _ = wanted.partition("*")
    return name.startswith(stem) if star else name == wanted


def _add_probe_checks(
    checked: PrefixCheck, environ: Mapping[str, str], knowledge: Knowledge, limit: float, say: Progress | None
) -> PrefixCheck:
    """The result with the checks that run the environment on this machine."""
    here = checked.facts if checked.facts.detected else this_machine(environ, knowledge)
    ran = tuple(run_probes(checked.prefix, len(here.gpus), environ, timeout=limit, say=say))
    findings = (*checked.report.findings, *(finding for check in ran for finding in check.findings))
    told = report(checked.report.title, findings, checked.report.looked_at, CODE_ORDER)
    return replace(checked, checks=(*checked.checks, *ran), report=told)


def run_probes(
    prefix: Prefix, gpus: int, environ: Mapping[str, str], *, timeout: float, say: Progress | None = None
) -> Iterator[Check]:
    """Run the probes in the environment and yield a check for each; nothing in the environment changes.

    Args:
        gpus: the number of GPUs of this machine.
        timeout: the time limit of each probe in seconds.

    Raises:
        OutsideError: no folder can be made for what the probes build.
    """
    from cuenv.prefix.io.probe import probe_setup, run_probe  # noqa: PLC0415 - only with --run
    from cuenv.prefix.probes import PROBES, ProbeContext, probe_check  # noqa: PLC0415 - as above

    without: str | None = None
    with probe_setup(prefix, environ) as place:
        around = ProbeContext(prefix=prefix.path, python=place.python, gpus=gpus, environ=place.given)
        for probe in PROBES:
            if without:
                yield skipped(f"run:{probe.name}", without)
                continue
            if say:
                say(f"run:{probe.name}")
            outcome = run_probe(probe.name, place, timeout)
            yield probe_check(probe, outcome, around)
            if probe.name == "torch":
                without = _torch_missing(outcome)
            elif probe.name == "cuda" and outcome.answer is None:
                without = "torch hangs or crashes while it looks for GPUs"


def _torch_missing(outcome: ProbeOutcome) -> str | None:
    """Why the other probes cannot run; ``None`` if torch works."""
    if outcome.answer is None or outcome.answer.failed:
        return "torch does not run"
    return None if outcome.answer.done else "torch is not installed"
