"""Locking the pip part: after conda's solve, uv resolves it for each platform beside conda's packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cuenv.core.errors import OutsideError, Progress
from cuenv.core.findings import UNREADABLE, FileEdit, Finding, first_of
from cuenv.core.io.exclusive import run_parallel
from cuenv.core.record import NamedTuple, replace
from cuenv.core.regex import regex
from cuenv.core.versions import version
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.formats.requirements_txt import LEFT_OUT, UNLOCKED
from cuenv.lockfile.pip_findings import (
    NO_HASH,
    NVIDIA,
    aside_findings,
    built_lines,
    conflict_finding,
    findings_aside,
    ignored_lines,
    origin_findings,
    pip_findings,
)
from cuenv.lockfile.setups import compiles, name_on_index, with_build_needs
from cuenv.resolver.wheels import made_for
from cuenv.solve.environment_spec import EnvironmentSpec, normalise, requirement_name
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Lock, PipLocked, SetAside, Solution
from cuenv.solve.pip_lines import PipLines, WrongLine, line_text, read_lines
from cuenv.solve.pip_part import PipConflict, PipRequest, Unbuilt, direct_conflicts, glibc_of, provided


def before_pip(spec: EnvironmentSpec, allow: tuple[str, ...] = ()) -> tuple[Finding, ...]:
    """What refuses a pip part before anything is solved: lines that pip refuses as well."""
    if not spec.pip or UNLOCKED in allow:
        return ()
    wrong = read_lines(spec.pip, dict(spec.unread)).wrong
    kinds = dict.fromkeys((item.why, item.fix) for item in wrong)
    return tuple(_unreadable_finding([item for item in wrong if (item.why, item.fix) == kind]) for kind in kinds)


def _unreadable_finding(lines: list[WrongLine]) -> Finding:
    """The finding on lines that have the same fault."""
    one, texts = len(lines) == 1, tuple(item.text for item in lines)
    better = tuple(text for item in lines for text in item.better)
    edits = (
        FileEdit(how="remove", entries=texts, pip=True),
        *((FileEdit(how="add", entries=better, pip=True),) if better else ()),
    )
    message = (
        f"pip: {first_of(texts, 3)} cannot be locked, and pip does not take {'it' if one else 'them'}: {lines[0].why}"
    )
    subject = (requirement_name(texts[0]) or texts[0]) if one else "pip"
    return Finding(
        code=UNREADABLE,
        severity="error",
        subject=subject,
        message=message,
        fix=lines[0].fix,
        edits=edits,
        about=texts,
    )


def beforehand(spec: EnvironmentSpec, folder: Path | None, knowledge: Knowledge) -> tuple[Finding, ...]:
    """What ``cuenv lock`` will say of the lines of a pip part, before anything is solved.

    Args:
        folder: where it lies, for the folders that it names; ``None`` where nobody knows.
    """
    if not spec.pip:
        return ()
    lines = with_build_needs(read_lines(spec.pip, dict(spec.unread)), folder, knowledge)
    own = () if lines.options.lines() else lines.requirements  # an index of the user's own may have wheels
    built = (text for text in own if compiles(name_on_index(text), knowledge))
    aside = (*lines.aside, *(SetAside(text=line_text(text), why=_COMPILED, build=True) for text in built))
    return (*before_pip(spec), *findings_aside(aside, None), *ignored_lines(lines), *built_lines(lines))


class PipJob(NamedTuple):
    """A pip part to lock."""

    spec: EnvironmentSpec
    folder: Path
    knowledge: Knowledge
    environ: Mapping[str, str]
    sources: Sources  # the authorities to trust, whether the network may be asked, and the day of the builds
    old: Lock | None  # the lock that would be replaced; its packages for pip stay while they satisfy the file
    update: tuple[str, ...] = ()  # packages of that lock that may move
    allow: tuple[str, ...] = ()  # codes that the user allowed; CU501 leaves the pip part out
    builds: bool = False  # whether torch may be downloaded to read what a source distribution requires
    quick: bool = False  # whether a conflict is enough, and no repair of it is looked for
    # what earlier resolutions of the command could not build, by the minor of Python, or under "" for each; it grows
    unbuilt: dict[str, tuple[Unbuilt, ...]] | None = None
    of_list: bool = False  # whether it is a list for pip, to which no entry of conda can be added
    progress: Progress | None = None


def lock_pip(job: PipJob, solutions: list[Solution]) -> tuple[list[Solution], list[Finding]]:
    """Add the pip part to the solution of every platform.

    Returns:
        The solutions with the pip part, and findings that say what refuses it, and what is set aside.
    """
    if not job.spec.pip:
        return solutions, []
    lines = read_lines(job.spec.pip, dict(job.spec.unread))
    if UNLOCKED in job.allow:
        whole = _left_out(lines)
        made = [replace(item, aside=whole, options=lines.options.lines()) for item in solutions]
        return made, [finding for item in made for finding in findings_aside(item.aside, None)]
    made, found = [], [*ignored_lines(lines), *built_lines(lines)]
    lines = with_build_needs(lines, job.folder, job.knowledge)
    for solution in solutions:
        part, findings = _lock_platform(job, lines, solution)
        made.append(part)
        found += findings
    return made, found


def _lock_platform(job: PipJob, lines: PipLines, solution: Solution) -> tuple[Solution, list[Finding]]:
    """The solution of one platform with its pip part, and findings; without it where it does not resolve."""
    python = solution.package("python")
    release = python.version if python else solution.python
    if not release:
        return solution, [_no_python(job.spec)]
    answer, request, replaced = _resolve(job, _request(job, lines, solution, release))
    if isinstance(answer, PipConflict):
        return solution, [_conflict_finding(job, request, answer)]
    broken = next((item for item in replaced if _breaks_conda(item, answer, solution)), None)
    if broken:
        return solution, [conflict_finding(broken, free=True)]
    day = job.sources.as_of
    silent = [item for item in answer if day and not item.uploaded and not _in_tables(item, job)]
    undated = (*solution.undated, *(f"{item.name} {item.version}" for item in silent))
    failed = {item.name: item for item in request.unbuilt} | _against_torch(answer, request, job)
    whole = _without_unlockable(replace(solution, pip=answer, undated=undated), failed, lines, job.knowledge)
    found = [
        *aside_findings(whole, job.folder),
        *pip_findings(whole, "" if python else "pip"),
        *origin_findings(whole.pip),
        *(() if job.of_list else _over_conda(replaced, whole.pip)),
    ]
    return whole, found


def _request(job: PipJob, lines: PipLines, solution: Solution, python: str) -> PipRequest:
    """What uv is asked for one platform."""
    from cuenv.solve.io.pip import pypi_names  # noqa: PLC0415 - only where there are pip packages

    kept = job.old.solution(solution.platform) if job.old else None
    moving = set(map(normalise, job.update))
    links = tuple(url if "://" in url else str((job.folder / url).absolute()) for url in lines.options.links)
    return PipRequest(
        requirements=lines.requirements,
        python=python,
        platform=solution.platform,
        glibc=glibc_of(solution.virtual_packages),
        provided=provided(solution.packages, pypi_names()),
        prefer=tuple(item for item in kept.pip if item.name not in moving) if kept else (),
        constraints=read_lines(job.spec.constraints).requirements,
        options=replace(lines.options, links=links),
        builds=job.builds,
        as_of=job.sources.as_of,
        undated=tuple(_on_undated_index(lines, job)) if job.sources.as_of else (),
    )


def _resolve(
    job: PipJob, request: PipRequest
) -> tuple[tuple[PipLocked, ...] | PipConflict, PipRequest, list[PipConflict]]:
    """Ask uv; what cannot be built is taken without its requirements, and pip's release over conda's where that may be.

    Returns:
        The packages, or the conflict; the request that was asked last; and the conflicts that pip's release ended.

    Raises:
        ChannelError: a package index cannot be read.
        OutsideError: uv cannot be run, or too many packages cannot be built.
    """
    from cuenv.solve.io.pip import resolve  # noqa: PLC0415 - only where there are pip packages

    replaced = [item for item in direct_conflicts(request) if _replaceable(item, job.spec)][:_MOST_UNBUILT]
    over = [item.provided for item in replaced]
    minor, known = ".".join(request.python.split(".")[:2]), {} if job.unbuilt is None else job.unbuilt
    given = tuple(item for item in request.provided if item not in over)
    request = replace(request, unbuilt=(*known.get("", ()), *known.get(minor, ())), provided=given)
    while request.requirements:
        answer = resolve(
            request,
            job.environ,
            certificates=job.sources.certificates,
            offline=job.sources.offline,
            progress=job.progress,
            ended=lambda conflict: job.quick or _replaceable(conflict, job.spec),
        )
        if isinstance(answer, PipConflict) and _replaceable(answer, job.spec) and len(replaced) < _MOST_UNBUILT:
            replaced.append(answer)
            given = tuple(item for item in request.provided if item != answer.provided)
            request = replace(request, provided=given)
            continue
        if not isinstance(answer, Unbuilt):
            return answer, request, replaced
        if len(request.unbuilt) >= _MOST_UNBUILT:
            message = f"uv could not resolve the pip part: {answer.name} {answer.version}: {answer.why}"
            raise OutsideError(message, hint="cuenv lock --allow CU501 leaves the pip part unlocked")
        if job.progress:
            job.progress(f"setting {answer.name} {answer.version} aside: {answer.why}")
        request = replace(request, unbuilt=(*request.unbuilt, answer))
        if "://" not in answer.version:  # a release, not any
            on = "" if answer.build else minor  # what a build lacks, it lacks with every Python
            known[on] = (*known.get(on, ()), answer)
    return (), request, replaced


def _conflict_finding(job: PipJob, request: PipRequest, conflict: PipConflict) -> Finding:
    """The finding that the pip part does not resolve."""
    day = job.sources.as_of
    conflict = replace(conflict, text=f"as of {day}, {conflict.text}") if day else conflict
    torch = next((item for item in request.provided if item.name == "torch"), None)
    if torch and any(made_for(text, version(torch.version), job.knowledge) is False for text in conflict.repair):
        conflict = replace(conflict, repair=())  # it was compiled for another torch
    pin = job.spec.pin(conflict.provided.conda) if conflict.provided else None
    return conflict_finding(conflict, free=not (pin and pin.version), named=" ".join(job.spec.pip))


_PYTORCH_BUILD = regex(r"([A-Za-z0-9._-]+)\s*==\s*([0-9][0-9.]*)\+(?:cu\d+|cpu)\s*(?:;.*)?")


def _on_undated_index(lines: PipLines, job: PipJob) -> Iterator[str]:
    """Packages of which the file names one build of PyTorch's own index, which tells no days.

    What the tables know to be of a later day is not among them, so that uv finds no such build.
    """
    for text in lines.requirements:
        found = _PYTORCH_BUILD.fullmatch(text.strip())
        row = job.knowledge.released(version(found[2])) if found and normalise(found[1]) == "torch" else None
        if found and not (row and row.released > job.sources.as_of):
            yield normalise(found[1])


def _in_tables(item: PipLocked, job: PipJob) -> bool:
    """Whether the tables tell that a file was there; what a URL names was put there on a day that nobody tells."""
    row = job.knowledge.released(version(item.version.partition("+")[0])) if item.name == "torch" else None
    return row is not None and row.released <= job.sources.as_of and not item.direct


_NEVER_REPLACED = ("torch", "torchvision", "torchaudio", "torchtriton", "triton", "numpy")
"""What pip may not put over conda's in any case: the libraries of the environment are made for it."""


def _replaceable(conflict: PipConflict, spec: EnvironmentSpec) -> bool:
    """Whether pip may put its release over conda's: of a package for which the file names no release to conda."""
    gives = conflict.provided
    if gives is None or gives.name in _NEVER_REPLACED or NVIDIA.fullmatch(gives.name):
        return False
    return not any(pin.name == gives.conda and (pin.version or pin.build) for pin in spec.pins)


def _breaks_conda(conflict: PipConflict, packages: tuple[PipLocked, ...], solution: Solution) -> bool:
    """Whether a conda package does not take the release that pip puts over conda's."""
    from cuenv.solve.io.solver import matches  # noqa: PLC0415 - rare, and the solver is heavy

    gives = conflict.provided
    item = next((item for item in packages if gives and item.name == gives.name), None)
    there = solution.package(gives.conda) if gives else None
    if item is None or there is None:
        return False
    changed = replace(there, version=item.version)
    asked = [text.split()[:2] for package in solution.packages for text in package.depends]
    return not all(matches(" ".join(words), changed) for words in asked if words[:1] == [there.name])


def _over_conda(over: list[PipConflict], packages: tuple[PipLocked, ...]) -> Iterator[Finding]:
    """Findings on packages that pip installs over conda's."""
    new = {item.name: item.version for item in packages}
    for item in over:
        gives = item.provided
        if gives and gives.name in new:
            who = f"{item.parent} requires" if item.parent else "the pip part asks for"
            yield Finding(
                code="CU519",
                severity="warning",
                subject=gives.name,
                message=f"pip installs {gives.name} {new[gives.name]} over conda's {gives.shown or gives.version}: "
                f"{who} {item.demand}",
                edits=(FileEdit(how="add", entries=(f"{gives.conda}={new[gives.name]}",)),),
            )


_MOST_UNBUILT = 40  # packages whose setup fails, before the whole is given up


def _against_torch(packages: tuple[PipLocked, ...], request: PipRequest, job: PipJob) -> dict[str, Unbuilt]:
    """The source distributions that build against torch, of which uv had to build none to know what they require."""
    done = {item.name for item in request.unbuilt}
    asked = [item for item in packages if item.from_source and item.name not in done]
    asked = [item for item in asked if not compiles(item.name, job.knowledge)]
    if not asked or job.sources.offline:
        return {}
    from cuenv.solve.io.pip import logins  # noqa: PLC0415 - only where there are such packages
    from cuenv.solve.io.source_distribution import builds_against_torch  # noqa: PLC0415 - as above

    if job.progress:
        job.progress(
            f"reading how {first_of([item.name for item in asked], _SHOWN)} {'is' if len(asked) < 2 else 'are'} built"
        )
    sources, pairs = Sources(certificates=job.sources.certificates, timeout=_PATIENCE, retries=0), logins(job.environ)
    reasons = run_parallel(lambda item: builds_against_torch(item, sources, pairs), asked)
    return {
        item.name: Unbuilt(name=item.name, version=item.version, why=why, build=True)
        for item, why in zip(asked, reasons, strict=True)
        if why
    }


def _without_unlockable(
    solution: Solution, failed: Mapping[str, Unbuilt], lines: PipLines, knowledge: Knowledge
) -> Solution:
    """The solution without what no hash can pin, or what pip can build in the finished environment alone."""
    locked: list[PipLocked] = []
    aside = list(lines.aside)
    for item in solution.pip:
        why = failed.get(item.name)
        if item.from_source and (why or compiles(item.name, knowledge)):
            exact = f"{item.name} @ {item.url}#sha256={item.sha256}" if item.sha256 else f"{item.name}=={item.version}"
            told = why.why if why else _COMPILED
            aside.append(SetAside(text=exact, why=told, build=why.build if why else True))
        elif not item.sha256 and item.url and not item.direct:
            aside.append(SetAside(text=f"{item.name}=={item.version}", why=NO_HASH))
        else:
            locked.append(item)
    options = lines.options.lines() if aside else ()
    return replace(solution, pip=tuple(locked), aside=tuple(aside), options=options)


_SHOWN = 3
_PATIENCE = 10  # seconds of silence after which a file that is only read to know more of it is given up
_COMPILED = "its setup.py imports torch and compiles CUDA code"


def _left_out(lines: PipLines) -> tuple[SetAside, ...]:
    """All requirements as what pip installs afterwards, since the pip part is not locked."""
    texts = [line_text(text) for text in lines.requirements] + [item.text for item in lines.aside]
    return tuple(SetAside(text=text, why=LEFT_OUT) for text in texts)


def _no_python(spec: EnvironmentSpec) -> Finding:
    """The finding that there is no Python to install the pip part with."""
    return Finding(
        code="CU515",
        severity="error",
        subject="python",
        message=f"the environment has pip requirements ({len(spec.pip)}) but no Python",
        edits=(FileEdit(how="add", entries=("python", "pip")),),
    )
