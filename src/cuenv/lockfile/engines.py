"""Which solver answers: the embedded one, or stock conda-lock with the user's own conda, whose answer is compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cuenv.core.errors import ChannelError, HashError, Progress, UsageError
from cuenv.core.findings import Finding, first_of
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.solve import ENGINES
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, with_named
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import LockedPackage, Solution, SolveRequest, Unsatisfiable

_LACKING = regex(r"([a-z0-9_][a-z0-9_.-]*)(?: [^\n]*)?, for which no candidates were found")
"""The name of a package that another one requires, in the words of the solver."""
_SHOWN = 5  # requirements that a finding names


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The solver that a lock asks."""

    name: str = ENGINES[0]  # one of `ENGINES`
    # the client that conda-lock drives, by path or by name; ``None`` for the one that is found
    conda: str | None = None

    @property
    def foreign(self) -> bool:
        """Whether it is not the embedded one."""
        return self.name != ENGINES[0]

    def refuse(self, option: str, value: str) -> None:
        """Refuse an option that only the embedded solver can serve; ``value`` is what the hint shows behind it."""
        if self.foreign:
            raise UsageError(
                f"{option} needs the embedded solver, which can keep single packages and exclude builds by date;  "
                f"{self.name} always solves everything",
                hint=f"cuenv lock --engine {ENGINES[0]} {option} {value}",
            )


def solve_with(
    engine: Engine, question: SolveRequest, sources: Sources, environ: Mapping[str, str], progress: Progress | None
) -> Solution | Unsatisfiable:
    """Ask the engine for one platform.

    Raises:
        UsageError: the engine cannot take a mirror, or there is no such client.
        ChannelError: a channel cannot be read.
        OutsideError: the engine failed, or there is no client.
    """
    if not engine.foreign:
        from cuenv.solve.io.solver import solve  # noqa: PLC0415 - the solver is heavy

        answer = solve(question, sources, progress=progress)
        return answer if isinstance(answer, Solution) else _with_defaults(answer, question, sources, progress)
    from cuenv.lockfile.io import conda_lock  # noqa: PLC0415 - only with this engine
    from cuenv.lockfile.io.conda_client import find_client  # noqa: PLC0415 - as above

    client = find_client(engine.conda, environ)
    return conda_lock.solve(question, sources, client, environ=environ, progress=progress)


def _with_defaults(
    answer: Unsatisfiable, question: SolveRequest, sources: Sources, progress: Progress | None
) -> Solution | Unsatisfiable:
    """The answer with conda's default channels behind those of the file, as conda adds them.

    Priority is strict, so they only bring names that no channel of the file has: without such a name nobody asks them.
    """
    from cuenv.solve.io.solver import pins_without_record, solve  # noqa: PLC0415 - as above

    asked = [pin.name for pin in question.spec.pins if pin.yaml_text() in answer.missing and not pin.channel]
    names = [Pin(name=name) for name in dict.fromkeys([*asked, *_LACKING.findall(answer.text)])]
    if not names or "defaults" in question.channels or question.spec.nodefaults or question.spec.ours:
        return answer
    named = pins_without_record(names, with_named(question.channels, question.spec.pins), question.platform, sources)
    if not named:
        return answer
    shown = first_of([pin.name for pin in named], _SHOWN)
    where = " and ".join(short_channel(url) for url in sources.default_channels)
    adds = f"The channels of the file do not have {shown}. conda adds its default channels ({where}); they "
    more = replace(question, channels=(*question.channels, "defaults"))
    try:
        again = solve(more, sources, progress=progress)
    except ChannelError as error:
        # Which of their parts is the first that cannot be read differs from run to run.
        return replace(answer, text=f"{adds}cannot be read here: {error.reason}\n{answer.text}")
    if isinstance(again, Solution):
        return again
    have = pins_without_record(named, with_named(more.channels, question.spec.pins), question.platform, sources)
    if not have:
        return again
    left = "it either" if len(have) == 1 else "them either"
    return replace(again, text=f"{adds}do not have {left}\n{again.text}")


def default_channel_findings(
    spec: EnvironmentSpec, solutions: Iterable[Solution], sources: Sources
) -> tuple[Finding, ...]:
    """Packages that come from conda's default channels, which the file does not name."""
    named, default = set(sources.urls(spec.channels)), set(sources.urls(("defaults",)))
    found = {
        package.name: short_channel(package.channel)
        for solution in solutions
        for package in solution.packages
        if package.channel in default - named
    }
    if not found or not spec.channels:
        return ()
    names = list(found)
    homes = " and ".join(dict.fromkeys(found.values()))
    return (
        Finding(
            code="CU118",
            severity="warning",
            subject="channels",
            message=f"{first_of(names, _SHOWN)} {'comes' if len(names) == 1 else 'come'} from conda's default channels "
            f"({homes}), which the file does not name and conda adds",
            fix="add to channels: defaults, or conda-forge and nodefaults",
        ),
    )


def verify_answer(
    engine: Engine, spec: EnvironmentSpec, solutions: list[Solution], sources: Sources
) -> tuple[list[Solution], list[Finding]]:
    """Another solver's answer, completed from the records of the channels, with what it does not meet.

    conda-lock drops the builds of requirements and all ``constrains``; the records have both, and the hashes.
    """
    if not engine.foreign:
        return solutions, []
    made, found = [], []
    for solution in solutions:
        whole, findings = _verify_one(engine, spec, solution, sources)
        made.append(whole)
        found += findings
    return made, found


def _verify_one(
    engine: Engine, spec: EnvironmentSpec, solution: Solution, sources: Sources
) -> tuple[Solution, list[Finding]]:
    """The answer for one platform with the records of its channels, and what it does not meet."""
    from cuenv.solve.io.solver import (  # noqa: PLC0415 - as above
        records_of_packages,
        unmet,
        url_stem,
    )

    channels = spec.reached
    findings, unknown = [], []
    try:
        records = records_of_packages(solution.packages, channels, solution.platform, sources)
    except ChannelError as error:
        records = {}
        findings.append(_unverified_finding(engine, len(solution.packages), error.message))
    else:
        unknown = [
            f"the channels do not contain {package.name} {package.version} {package.build}"
            for package in solution.packages
            if url_stem(package.url) not in records
        ]
    packages = tuple(_recorded_package(package, records.get(url_stem(package.url))) for package in solution.packages)
    whole = replace(solution, packages=packages)
    wrong = list(dict.fromkeys([*unmet(spec.pins, whole, channels, sources), *unknown]))
    if wrong:
        findings.append(_unmet_finding(wrong, solution))
    return whole, findings


def _recorded_package(package: LockedPackage, record: LockedPackage | None) -> LockedPackage:
    """The package as the channel records it."""
    if record is None:
        return package
    if record.url != package.url:  # the same build in the other archive format: its hashes are other ones
        return replace(package, depends=record.depends, constrains=record.constrains)
    for kind, ours, theirs in (("md5", record.md5, package.md5), ("sha256", record.sha256, package.sha256)):
        if ours and theirs and ours != theirs:
            raise HashError(
                f"{package.name} {package.version} {package.build}: its {kind} is {theirs} in the client's answer, "
                f"but {ours} in the record of {package.channel_name}",
                hint="conda clean --index-cache",
            )
    return record


def _unverified_finding(engine: Engine, count: int, why: str) -> Finding:
    """The finding that the channels cannot be read, so that an answer is not compared."""
    message = (
        f"the {count} packages of {engine.name} are not compared with the records of their "
        f"channels, and their requirements are recorded without builds: {why}"
    )
    return Finding(code="CU114", severity="warning", subject=engine.name, message=message)


def _unmet_finding(wrong: list[str], solution: Solution) -> Finding:
    """The finding that an answer does not meet the request."""
    more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    message = f"the solution of {solution.solver} does not meet the request: {'; '.join(wrong[:_SHOWN])}{more}"
    fix = f"cuenv lock --engine {ENGINES[0]}"
    return Finding(code="CU113", severity="error", subject=solution.platform, message=message, fix=fix)
