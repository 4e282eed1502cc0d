"""``cuenv export pixi`` and ``cuenv lock --format pixi``: a pixi workspace with its lock."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from cuenv.core import __version__
from cuenv.core.errors import CuenvError, InputError, Progress
from cuenv.core.findings import allowed
from cuenv.core.record import dataclass, replace
from cuenv.core.urls import channel_url, redact
from cuenv.export.container import Refused
from cuenv.export.export import Exported, save
from cuenv.export.pixi_project import CPU, CUDA, DEFAULT, PixiPart, PixiProject, counted, cpu_twin_spec, lock, manifest
from cuenv.host.facts import HostFacts, virtual_packages
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.formats import LockedFile, unlocked_txt
from cuenv.lockfile.formats.others.pixi_lock import LOCK, MANIFEST
from cuenv.lockfile.lock import Locked, LockRequest, lock_spec
from cuenv.lockfile.pip import PipJob, lock_pip
from cuenv.solve import PIXI
from cuenv.solve.environment_spec import WRITTEN_BY, EnvironmentSpec, Pin
from cuenv.solve.io.pip import indexes, pypi_names
from cuenv.solve.io.solver import solve
from cuenv.solve.model import AS_OF, Solution, SolveRequest
from cuenv.solve.pip_lines import read_lines


@dataclass(frozen=True, kw_only=True)
class PixiRequest:
    """The request for a workspace."""

    lock: LockRequest  # the environment file and the host; what it writes is written into the folder instead
    spec: EnvironmentSpec | None = None  # the environment, where it is no file
    twin: bool = True  # whether there is to be a CPU twin for machines without a GPU
    version: int = 7  # of the lock's format


@dataclass(frozen=True, kw_only=True)
class PixiAnswer:
    """The workspace as files, and the result of the lock."""

    made: Exported
    locked: Locked


def export_pixi(asked: PixiRequest, knowledge: Knowledge, progress: Progress | None = None) -> PixiAnswer:
    """Solve an environment and its CPU twin, and render the manifest and the lock; nothing is written.

    Raises:
        InputError: the file or a channel cannot be read, or nothing says which index the packages for pip come from.
        OutsideError: the solver crashed.
    """
    from cuenv.lockfile.files import read_environment  # noqa: PLC0415 - a decision is no file

    spec, warnings = (asked.spec, ()) if asked.spec else read_environment(asked.lock.path)
    answer = replace(lock_spec(asked.lock, spec, knowledge, progress=progress), warnings=warnings, wheels=PIXI)
    if answer.lock is None:
        return PixiAnswer(made=Exported(kind="pixi", refused=_refused(answer, asked)), locked=answer)
    usual = PixiPart(name=DEFAULT, feature=_kind(answer, knowledge), asked=spec, solutions=answer.lock.solutions)
    twin = _twin(asked, spec, answer, knowledge, progress) if asked.twin and usual.feature == CUDA else ""
    parts = (usual, twin) if isinstance(twin, PixiPart) else (usual,)
    project = _project(asked, answer, parts, knowledge)
    notes = [f"no environment {CPU} for machines without a GPU: {twin}"] if twin and isinstance(twin, str) else []
    notes += [f"{name}: pixi expands $ in its value" for name, text in spec.variables.items() if "$" in text]
    files = {MANIFEST: manifest(project), LOCK: lock(project, asked.version)}
    for item in answer.lock.solutions:
        if item.aside:
            file = LockedFile(answer.lock, item, Path(), lambda: spec, project.head[0])
            files[unlocked_txt.FORMAT.path(Path(), item.platform).name] = unlocked_txt.FORMAT.write(file)
    made = Exported(
        kind="pixi",
        files=files,
        talk=(*(f"note    {text}" for text in notes), *_talk(project)),
        more={
            "environments": [
                {
                    "name": name,
                    "platform": place.name,
                    "subdir": place.subdir,
                    "virtual_packages": list(place.virtual),
                    "packages": len(item.packages),
                    "pip": len(item.pip),
                }
                for name, place, item in counted(project)
            ],
            "because": list(notes),
        },
    )
    return PixiAnswer(made=made, locked=answer)


def write_pixi(answer: PixiAnswer, folder: Path) -> PixiAnswer:
    """Write the files into a folder, the lock before the manifest that it belongs to.

    Raises:
        OutsideError: one cannot be written.
    """
    files = {folder / name: text for name, text in [*answer.made.files.items()][::-1]}
    written, kept = save(files, WRITTEN_BY)
    return replace(answer, locked=replace(answer.locked, written=written[::-1], kept=kept))


def _kind(answer: Locked, knowledge: Knowledge) -> str:
    """Whether the environment needs a driver: it contains CUDA packages, and the host has a driver."""
    found = answer.lock.solutions if answer.lock else ()
    conda = [one for item in found for one in item.packages]
    asks = any(text.startswith("__cuda") for one in conda for text in one.depends)
    wheels = any(one.name == "torch" and not one.version.endswith("+cpu") for item in found for one in item.pip)
    driver = answer.facts.driver is not None and answer.facts.driver.cuda is not None
    return CUDA if driver and (asks or wheels or any(knowledge.is_component(one.name) for one in conda)) else CPU


def _refused(answer: Locked, asked: PixiRequest) -> Refused:
    words = ["cuenv", "lock", str(asked.lock.path)] if asked.spec is None else ["cuenv", "lock", "--resolve"]
    errors = answer.whole_report.errors or answer.report.findings
    return Refused(
        "; ".join(f"{item.code} {item.message}" for item in errors), shlex.join([*words, *asked.lock.host.words])
    )


def _twin(
    asked: PixiRequest, spec: EnvironmentSpec, answer: Locked, knowledge: Knowledge, progress: Progress | None
) -> PixiPart | str:
    """The environment for machines without a GPU, with the same releases if they exist; otherwise the reason."""
    found = cpu_twin_spec(spec, knowledge)
    if isinstance(found, str) or answer.lock is None:
        return str(found)
    pins = (*found.pins, *([Pin(name="pip")] if found.pip and not found.pin("pip") else []))
    request, solutions, day = asked.lock, [], answer.lock.metadata.get(AS_OF, "")
    sources = replace(request.sources, as_of=day)
    try:
        for item in answer.lock.solutions:
            if progress:
                progress(f"solving for {item.platform} without CUDA")
            question = SolveRequest(
                spec=replace(found, pins=pins),
                channels=found.channels or ("defaults",),
                platform=item.platform,
                virtual_packages=virtual_packages(
                    HostFacts(label="", platform=item.platform, libc=answer.facts.libc, kernel=answer.facts.kernel)
                ),
                prefer=item.packages,
            )
            one = solve(question, sources, progress=progress)
            if not isinstance(one, Solution):
                missing = f": {', '.join(one.missing)}" if one.missing else ""
                return f"the channels cannot satisfy it on {item.platform}{missing}"
            solutions.append(one)
        pip = PipJob(
            spec=found,
            folder=request.path.parent,
            knowledge=knowledge,
            environ=request.host.environ,
            sources=sources,
            old=answer.lock,
            allow=request.allow,
            builds=request.builds,
            progress=progress,
        )
        solutions, of_pip = lock_pip(pip, solutions)
    except CuenvError as error:
        return error.message
    wrong = next((item for item in allowed(of_pip, request.allow) if item.severity == "error"), None)
    if wrong:
        return wrong.message
    return PixiPart(name=CPU, feature=CPU, asked=found, solutions=tuple(solutions))


def _project(asked: PixiRequest, answer: Locked, parts: tuple[PixiPart, ...], knowledge: Knowledge) -> PixiProject:
    """The workspace, with its channels and the index of its packages for pip."""
    spec, request = parts[0].asked, asked.lock
    pip = [item for part in parts for item in part.solutions if item.pip]
    options = read_lines(spec.pip).options
    index = indexes(options, request.host.environ, request.sources.certificates) if pip else ()
    if pip and not index:
        raise InputError(
            f"the file does not name the index of the pip packages, which {LOCK} must name",
            hint="write it into the pip part: --index-url https://HOST/simple",
        )
    named = answer.lock.channels if answer.lock else spec.channels
    defaults = request.sources.default_channels  # conda's own, which pixi is told one by one
    channels = [url for name in named for url in (defaults if name == "defaults" else (redact(channel_url(name)),))]
    return PixiProject(
        parts=parts,
        channels=tuple(dict.fromkeys(channels)),
        knowledge=knowledge,
        names=pypi_names(),
        index=index[0] if index else "",
        extra=index[1:],
        head=tuple(_head(asked, answer)),
    )


def _head(asked: PixiRequest, answer: Locked) -> Iterator[str]:
    from cuenv.host.describe import host_line, host_options  # noqa: PLC0415 - only for a lock that was made

    words = ["cuenv", "lock", asked.lock.path.name, "--format", "pixi", *host_options(answer.facts)]
    source = "a decision" if asked.spec else f"{asked.lock.path.name}; change that file, then: {shlex.join(words)}"
    yield f"{WRITTEN_BY.removeprefix('# ')} {__version__} from {source}"
    yield f"For {host_line(answer.facts)}."


def _talk(project: PixiProject) -> Iterator[str]:
    for name, place, item in counted(project):
        pip = f" and {len(item.pip)} for pip" if item.pip else ""
        gate = f" ({', '.join(place.virtual)})" if place.virtual else ""
        yield f"{name:7} {len(item.packages)} packages{pip} for {place.name}{gate}"
