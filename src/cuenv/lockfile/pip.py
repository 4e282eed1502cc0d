"""Locking the pip part: after conda's solve, for each platform, with conda's packages as what is already there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from cuenv.core.errors import OutsideError, Progress
from cuenv.core.findings import SET_ASIDE, UNREADABLE, FileEdit, Finding, counted, first_of, mended_by
from cuenv.core.record import NamedTuple, replace
from cuenv.core.regex import regex
from cuenv.core.urls import printable
from cuenv.core.versions import version
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.formats.requirements_txt import LEFT_OUT, UNLOCKED
from cuenv.lockfile.formats.unlocked_txt import aside_command
from cuenv.lockfile.setups import compiles, with_setups
from cuenv.resolver.asked_torch import CONDA_TORCHES
from cuenv.resolver.wheels import INDEX, cuda_of_wheels
from cuenv.solve.environment_spec import EnvironmentSpec, normalise, requirement_name
from cuenv.solve.model import Lock, LockedPackage, PipLocked, SetAside, Solution
from cuenv.solve.pip_lines import FILES, HASHED, PipLines, project_of, read_lines, shown
from cuenv.solve.pip_part import PipConflict, PipRequest, Unbuilt, glibc_of, provided


def before_pip(spec: EnvironmentSpec, allow: tuple[str, ...] = ()) -> tuple[Finding, ...]:
    """What refuses a pip part before anything is solved: lines that pip refuses as well."""
    if not spec.pip or UNLOCKED in allow:
        return ()
    wrong = read_lines(spec.pip, dict(spec.unread)).wrong
    kinds = dict.fromkeys((why, fix) for _, why, fix in wrong)
    return tuple(_wrong([text for text, *kind in wrong if (why, fix) == tuple(kind)], why, fix) for why, fix in kinds)


def _wrong(texts: list[str], why: str, fix: str) -> Finding:
    """Lines of which the same is wrong."""
    one = len(texts) == 1
    return Finding(
        code=UNREADABLE,
        severity="error",
        subject=(requirement_name(texts[0]) or texts[0]) if one else "pip",
        message=f"pip: {first_of(texts, _SHOWN)} cannot be locked, and pip does not take "
        f"{'it' if one else 'them'}: {why}",
        fix=fix,
    )


def beforehand(spec: EnvironmentSpec, folder: Path | None, knowledge: Knowledge) -> tuple[Finding, ...]:
    """What ``cuenv lock`` will say of the lines of a pip part, before anything is solved.

    Args:
        folder: where it lies, for the folders that it names; ``None`` where nobody knows.
        knowledge: the tables, which name libraries that compile CUDA code.
    """
    if not spec.pip:
        return ()
    lines = read_lines(spec.pip, dict(spec.unread))
    aside = with_setups(lines.aside, folder, knowledge)
    return (*before_pip(spec), *_aside_findings(aside, None), *_ignored(lines), *_built(lines))


def lock_pip(
    spec: EnvironmentSpec,
    solutions: list[Solution],
    old: Lock | None,
    *,
    knowledge: Knowledge,
    folder: Path,
    update: tuple[str, ...] = (),
    environ: Mapping[str, str],
    allow: tuple[str, ...],
    builds: bool = False,
    certificates: str | None = None,
    offline: bool,
    as_of: str = "",
    progress: Progress | None,
) -> tuple[list[Solution], list[Finding]]:
    """Add the pip part to every solution; findings say what refuses it, and what is set aside.

    Args:
        solutions: conda's answers.
        old: the lock that would be replaced; its packages for pip stay while they satisfy the file.
        knowledge: the tables, which name libraries that compile CUDA code.
        folder: where the environment file lies.
        update: packages of that lock that may move.
        environ: the user's variables: indexes, credentials, proxies.
        allow: codes that the user allowed; CU501 leaves the pip part out.
        builds: whether torch may be downloaded to read what a source distribution requires.
        certificates: authorities that ``.condarc`` names.
        offline: take only what uv's cache holds.
        as_of: the day by which a file must have been uploaded; empty for all files.
        progress: told in a few words what is being done.

    Raises:
        ChannelError: a package index cannot be read.
        OutsideError: uv cannot be run.
    """
    if not spec.pip:
        return solutions, []
    lines = read_lines(spec.pip, dict(spec.unread))
    if UNLOCKED in allow:
        whole = _left_out(lines)
        made = [replace(item, aside=whole, options=lines.options.lines()) for item in solutions]
        return made, [finding for item in made for finding in _aside_findings(item.aside, None)]
    made, found = [], [*_ignored(lines), *_built(lines)]
    lines = replace(lines, aside=with_setups(lines.aside, folder, knowledge))
    for solution in solutions:
        kept = old.solution(solution.platform) if old else None
        moving = set(map(normalise, update))
        prefer = tuple(item for item in kept.pip if item.name not in moving) if kept else ()
        run = PipRun(spec, knowledge, lines, prefer, folder, environ, certificates, builds, offline, progress, as_of)
        part, findings = _one(run, solution)
        made.append(part)
        found += findings
    return made, found


class PipRun(NamedTuple):
    """What the pip part of each platform is locked from; the names are those of `lock_pip`.

    Attributes:
        lines: the pip part, understood.
        prefer: packages of an existing lock that stay while they satisfy the rest.
        folder: where the environment file lies.
    """

    spec: EnvironmentSpec
    knowledge: Knowledge
    lines: PipLines
    prefer: tuple[PipLocked, ...]
    folder: Path
    environ: Mapping[str, str]
    certificates: str | None
    builds: bool
    offline: bool
    progress: Progress | None
    as_of: str


def _one(run: PipRun, solution: Solution) -> tuple[Solution, list[Finding]]:
    from cuenv.solve.io.pip import pypi_names, resolve  # noqa: PLC0415 - only where there are pip packages

    python = solution.package("python")
    release = python.version if python else solution.python
    if not release:
        return solution, [_no_python(run.spec)]
    options = run.lines.options
    links = tuple(url if "://" in url else str((run.folder / url).absolute()) for url in options.links)
    request = PipRequest(
        requirements=run.lines.requirements,
        python=release,
        platform=solution.platform,
        glibc=glibc_of(solution.virtual_packages),
        provided=provided(solution.packages, pypi_names()),
        prefer=run.prefer,
        constraints=read_lines(run.spec.constraints).requirements,
        options=replace(options, links=links),
        builds=run.builds,
        as_of=run.as_of,
        undated=tuple(_of_pytorch(run)) if run.as_of else (),
    )
    answer: tuple[PipLocked, ...] | PipConflict | Unbuilt = ()
    over: list[PipConflict] = []
    while request.requirements:
        answer = resolve(
            request, run.environ, certificates=run.certificates, offline=run.offline, progress=run.progress
        )
        if isinstance(answer, PipConflict) and _replaceable(answer, run.spec) and len(over) < _MOST_UNBUILT:
            over.append(answer)
            given = tuple(item for item in request.provided if item != answer.provided)
            request = replace(request, provided=given)
            continue
        if not isinstance(answer, Unbuilt):
            break
        if len(request.unbuilt) >= _MOST_UNBUILT:
            raise OutsideError(
                f"uv could not resolve the pip part: {answer.name} {answer.version}: {answer.why}",
                hint="cuenv lock --allow CU501 leaves the pip part unlocked",
            )
        if run.progress:
            run.progress(f"setting {answer.name} {answer.version} aside: {answer.why}")
        request = replace(request, unbuilt=(*request.unbuilt, answer))
    if isinstance(answer, PipConflict):
        answer = replace(answer, text=f"as of {run.as_of}, {answer.text}") if run.as_of else answer
        pin = run.spec.pin(answer.provided.conda) if answer.provided else None
        return solution, [conflict_finding(answer, free=not (pin and pin.version), named=" ".join(run.spec.pip))]
    packages = answer if isinstance(answer, tuple) else ()
    broken = next((item for item in over if _breaks_conda(item, packages, solution)), None)
    if broken:
        return solution, [conflict_finding(broken, free=True)]
    silent = [item for item in packages if run.as_of and not item.uploaded and not _in_tables(item, run)]
    undated = (*solution.undated, *(f"{item.name} {item.version}" for item in silent))
    whole = _parted(replace(solution, pip=packages, undated=undated), request, run.lines, run.knowledge)
    found = [
        *aside_findings(whole, run.folder),
        *pip_findings(whole, "" if python else "pip"),
        *origin_findings(whole.pip),
        *_over_conda(over, whole.pip),
    ]
    return whole, found


_EXACTLY = regex(r"([A-Za-z0-9._-]+)\s*==\s*([0-9][0-9.]*)\+(?:cu\d+|cpu)\s*(?:;.*)?")


def _of_pytorch(run: PipRun) -> Iterator[str]:
    """Packages of which the file names one build of PyTorch's own index, which tells no days.

    What the tables know to be of a later day is not among them, so that uv finds no such build.
    """
    for text in run.lines.requirements:
        found = _EXACTLY.fullmatch(text.strip())
        row = run.knowledge.released(version(found[2])) if found and normalise(found[1]) == "torch" else None
        if found and not (row and row.released > run.as_of):
            yield normalise(found[1])


def _in_tables(item: PipLocked, run: PipRun) -> bool:
    """Whether the tables tell that a file was there; what a URL names was put there on a day that nobody tells."""
    row = run.knowledge.released(version(item.version.partition("+")[0])) if item.name == "torch" else None
    return row is not None and row.released <= run.as_of and not item.direct


_OURS = ("torch", "torchvision", "torchaudio", "torchtriton", "triton", "numpy")
"""What pip may not put over conda's in any case: the libraries of the environment are made for it."""


def _replaceable(conflict: PipConflict, spec: EnvironmentSpec) -> bool:
    """Whether pip may put its release over conda's: of a package for which the file names no release to conda."""
    gives = conflict.provided
    if gives is None or gives.name in _OURS or _NVIDIA.fullmatch(gives.name):
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


_MOST_UNBUILT = 40
"""Packages whose setup fails, before the whole is given up."""


def _parted(solution: Solution, request: PipRequest, lines: PipLines, knowledge: Knowledge) -> Solution:
    """The solution without what no hash can pin, or what pip can build in the finished environment alone."""
    failed = {item.name: item for item in request.unbuilt}
    locked: list[PipLocked] = []
    aside = list(lines.aside)
    for item in solution.pip:
        why = failed.get(item.name)
        if item.from_source and (why or compiles(item.name, knowledge)):
            exact = f"{item.name} @ {item.url}#sha256={item.sha256}" if item.sha256 else f"{item.name}=={item.version}"
            told = why.why if why else _COMPILED
            aside.append(SetAside(text=exact, why=told, build=why.build if why else True))
        elif not item.sha256 and item.url and not item.direct:
            aside.append(SetAside(text=f"{item.name}=={item.version}", why=_NO_HASH))
        else:
            locked.append(item)
    options = lines.options.lines() if aside else ()
    return replace(solution, pip=tuple(locked), aside=tuple(aside), options=options)


_COMPILED = "its setup imports torch and compiles CUDA code"
_NO_HASH = "the index gives no sha256 for it"


def _left_out(lines: PipLines) -> tuple[SetAside, ...]:
    texts = [shown(text) for text in lines.requirements] + [item.text for item in lines.aside]
    return tuple(SetAside(text=text, why=LEFT_OUT) for text in texts)


def aside_findings(solution: Solution, folder: Path | None = None) -> Iterator[Finding]:
    """What a lock leaves for pip to install afterwards, one finding for each reason, with the command.

    Args:
        solution: of one platform.
        folder: where the lock lies.
    """
    yield from _aside_findings(solution.aside, aside_command(solution, folder))


def _aside_findings(aside: tuple[SetAside, ...], command: str | None) -> Iterator[Finding]:
    for why in dict.fromkeys(item.why for item in aside):
        mine = [item.text for item in aside if item.why == why]
        names = first_of([*map(_label, mine)], _SHOWN)
        left_out = why == LEFT_OUT
        because = why if len(mine) == 1 else _of_each(why)
        said = (
            f"the pip requirements are not locked ({len(mine)}), because {why}: {names}"
            if left_out
            else f"pip: {names} {'are' if len(mine) > 1 else 'is'} not locked but set aside: {because}"
        )
        yield Finding(
            code=UNLOCKED if left_out else SET_ASIDE,
            severity="warning",
            subject="pip" if len(mine) > 1 or left_out else project_of(mine[0]) or mine[0],
            message=said,
            fix=f"install afterwards, in the environment: {command}" if command else None,
        )


def _of_each(why: str) -> str:
    """A reason that holds for several lines, which is written for one."""
    for one, each in (("it ", "each "), ("its setup ", "the setup of each ")):
        if why.startswith(one):
            return each + why.removeprefix(one)
    return why.replace(" for it", " for them") if why == _NO_HASH else why


def _label(text: str) -> str:
    """A line for people: of a file of an index, its name is enough."""
    name, mark, url = text.partition(" @ ")
    return f"{name} ({url.partition('#')[0].rpartition('/')[2]})" if mark and HASHED.search(url) else text


def _ignored(lines: PipLines) -> Iterator[Finding]:
    for text, why in lines.ignored:
        yield Finding(
            code=SET_ASIDE,
            severity="info",
            subject="pip",
            message=f"pip: the option {text} is not used: {why}",
        )


def _built(lines: PipLines) -> Iterator[Finding]:
    """Lines of ``pip freeze`` in an environment of conda: the folder that they name was on another machine."""
    if not lines.built:
        return
    names = [project_of(text) for text in lines.built]
    listed = first_of(names, _SHOWN)
    they, them = ("they name", "their names") if len(names) > 1 else ("it names", "its name")
    yield Finding(
        code="CU522",
        severity="warning",
        subject="pip" if len(names) > 1 else names[0],
        message=(
            f"pip: {listed} {'are' if len(names) > 1 else 'is'} taken by {them}, in a release that fits: {they} the "
            f"folder in which conda built {'each' if len(names) > 1 else 'it'} (such as "
            f"{lines.built[0].partition('file://')[2]}), as pip freeze writes it, which is on no other machine"
        ),
        fix="where the environment is installed, write its releases: python -m pip list --format=freeze",
    )


def _no_python(spec: EnvironmentSpec) -> Finding:
    return Finding(
        code="CU515",
        severity="error",
        subject="python",
        message=f"the environment has pip requirements ({len(spec.pip)}) but no Python",
        edits=(FileEdit(how="add", entries=("python", "pip")),),
    )


# From CUDA 13 on the wheels of the toolkit bear no suffix; cudnn-frontend is a layer over whatever cuDNN is there.
_NVIDIA = regex(
    r"(?:nvidia|cuda)-[a-z0-9-]+-cu\d\d|nvidia-(?!cudnn-frontend)(?:cublas|cuda|cudnn|cufft|cufile|curand|cusolver"
    r"|cusparse|nccl|npp|nvfatbin|nvjitlink|nvjpeg|nvptxcompiler|nvshmem|nvtx|nvvm)[a-z0-9-]*"
)
_SHOWN = 3
_LENIENT = ("uv", "pixi")
"""Programs that install a locked file without a hash; PyTorch's own indexes give none for some wheels."""


def pip_findings(solution: Solution, program: str = "") -> Iterator[Finding]:
    """Judge the pip part of a lock: pip is there to install it, every file has a hash, nothing doubles conda's.

    Args:
        solution: of one platform.
        program: whose lock it is; those of other programs need no pip in the environment.
    """
    if not solution.pip:
        return
    if solution.package("pip") is None and not program:
        yield Finding(
            code="CU515",
            severity="error",
            subject="pip",
            message=f"{len(solution.pip)} packages are for pip, and pip itself is not among the conda packages: "
            "conda-lock would install nothing of them and say nothing",
            edits=(FileEdit(how="add", entries=("pip",)),),
        )
    yield from _hashes(solution.pip, program)
    yield from _seconds(solution)


def _hashes(packages: Collection[PipLocked], program: str) -> Iterator[Finding]:
    """The files that pip cannot verify, in one finding; a folder of the project and a commit have no hash."""
    files = [item for item in packages if not item.direct or item.url.endswith(FILES)]
    bare = [f"{item.name} {item.version}" for item in files if not item.sha256]
    if not bare:
        return
    shown = ", ".join(bare[:_SHOWN]) + (", ..." if len(bare) > _SHOWN else "")
    several = f"{len(bare)} of {len(files)} packages have no sha256 hash ({shown})"
    them = "them" if len(bare) > 1 else "it"
    lenient = program in _LENIENT
    yield Finding(
        code="CU513",
        severity="warning" if lenient else "error",
        subject=bare[0].partition(" ")[0] if len(bare) == 1 else "pip",
        message=f"pip: {several if len(bare) > 1 else f'{bare[0]} has no sha256 hash'}: "
        + (f"{program} installs {them} without verifying" if lenient else f"pip --require-hashes refuses {them}"),
        fix="lock from an index that gives sha256: UV_DEFAULT_INDEX=URL cuenv lock",
    )


def _seconds(solution: Solution) -> Iterator[Finding]:
    """Packages that pip would put over conda's: torch, numpy, triton by name, NVIDIA's libraries as a second CUDA."""
    torch = next((found for name in CONDA_TORCHES if (found := solution.package(name))), None)
    conda = {normalise(item.name): item for item in solution.packages}
    for item in solution.pip:
        over = torch if item.name == "torch" else conda.get(item.name) if item.name in ("numpy", "triton") else None
        if over:
            yield _second(f"{item.name} {item.version}", item.name, over)
    cuda = next((item for item in solution.packages if item.name in ("cuda-version", "pytorch-cuda")), None)
    libraries = [item for item in solution.pip if _NVIDIA.fullmatch(item.name)]
    if not cuda or not libraries:
        return
    shown = ", ".join(f"{item.name} {item.version}" for item in libraries[:_SHOWN])
    count = f"{len(libraries)} packages with CUDA libraries ({shown}, ...)" if len(libraries) > _SHOWN else shown
    if torch is None and any(item.name == "torch" for item in solution.pip):
        own = cuda_of_wheels(solution.pip)
        if solution.package("cuda-nvcc") and own and cuda.version.partition(".")[0] == str(own.major):
            return  # the compiler and the headers of torch's own major are beside it on purpose
        yield Finding(
            code="CU512",
            severity="warning",
            subject="torch",
            message=f"pip's torch brings its own CUDA libraries beside conda's {cuda.name} {cuda.version}: {count}",
            fix="install torch from conda as well, or take the CUDA libraries out of the conda dependencies",
        )
    else:
        yield _second(count, libraries[0].name, cuda)


def _second(what: str, name: str, over: LockedPackage) -> Finding:
    return Finding(
        code="CU512",
        severity="error",
        subject=name,
        message=f"pip would put {what} over conda's {over.name} {over.version} from {over.channel_name}",
        fix=f"take out of the pip part what requires {name}, or add it to the conda dependencies",
    )


def origin_findings(packages: Collection[PipLocked]) -> Iterator[Finding]:
    """Packages that come as source alone, whose setup is a program that runs; and files of this machine."""
    local = [item for item in packages if item.url.startswith("file:")]
    if local:
        yield Finding(
            code="CU516",
            severity="info",
            subject="pip",
            message=f"conda-lock.yml names {counted(len(local), 'local file')}, such as "
            f"{printable(local[0].url)}: "
            "elsewhere install the pip part from the requirements file, which names versions and hashes",
        )
    sources = [f"{item.name} {item.version}" for item in packages if item.from_source]
    if sources:
        one = len(sources) == 1
        yield Finding(
            code="CU511",
            severity="warning",
            subject=sources[0].split()[0] if one else "pip",
            message=f"pip: {first_of(sources, _SHOWN)} {'exists' if one else 'exist'} only as "
            f"{'a source distribution: its' if one else 'source distributions: their'} setup code ran here to find "
            f"{'its' if one else 'their'} requirements (unless uv had them cached) and runs again where "
            f"{'it is' if one else 'they are'} installed",
            evidence=tuple(sources[_SHOWN:]),
        )


_CUDA_TAG = regex(r"torch\s*==\s*[0-9.]+\+(cu\d{2,3})\s*(?:;.*)?")


def _index_of(requirement: str, named: str) -> tuple[FileEdit, ...]:
    """The line that makes a torch with a local version be found: it lies in the index of its tag; ``named`` has it."""
    found = _CUDA_TAG.fullmatch(requirement.strip())
    missing = found and f"{INDEX}{found[1]}" not in named
    index = f"--extra-index-url {INDEX}{found[1]}" if found else ""
    return (FileEdit(how="add", entries=(index,), pip=True),) if missing else ()


def _repaired(conflict: PipConflict) -> tuple[FileEdit, ...]:
    """The smallest change of the pip part that ends a conflict."""
    return (FileEdit(how="write", entries=(conflict.repair,), pip=True),) if conflict.repair else ()


_EXACT = regex(r"[A-Za-z0-9._-]+==([0-9][0-9.]*)")


_OTHER_PYTHON = regex(r"(\S+==\S+) has no wheels with a matching Python (?:ABI|version|implementation) tag")
_CONDITION = regex(r"^[A-Za-z0-9._-]+(?:\[[^\]]*\])?\s*")
"""What stands before the versions of a requirement."""


def conflict_finding(conflict: PipConflict, *, free: bool = False, named: str = "") -> Finding:
    """The pip part's no as a finding: both parents, and the smallest repair.

    Args:
        conflict: the no.
        free: the file leaves the release of the conda package open.
        named: the lines of the pip part, whose indexes were asked.
    """
    gives = conflict.provided
    if conflict.absent:
        asked, index = conflict.requirement, _index_of(conflict.requirement, named)
        whose = "" if asked else ", which a package of the pip part requires"
        return Finding(
            code="CU510",
            severity="error",
            subject=requirement_name(asked) or conflict.absent,
            message=f"pip: {asked or conflict.absent} cannot be locked: {conflict.text}{whose}",
            fix=None if index else "correct the name, or name its index: --extra-index-url URL in the pip part",
            edits=index or ((FileEdit(how="remove", entries=(asked,), pip=True),) if asked else ()),
        )
    if gives is None:
        lacking = _OTHER_PYTHON.search(" ".join(conflict.text.split()))
        python = f"take a Python for which {lacking[1]} has wheels" if lacking else ""
        return Finding(
            code="CU510",
            severity="error",
            subject=requirement_name(conflict.requirement) or "pip",
            message=f"the pip requirements cannot be resolved: {printable(_end(conflict.text))}",
            evidence=(printable(conflict.text),),
            fix=", or ".join(filter(None, (python, mended_by(_repaired(conflict))))) if python else None,
            edits=_index_of(conflict.requirement, named) or _repaired(conflict),
        )
    who = f"{conflict.parent} requires" if conflict.parent else "the environment file requires"
    through = f" (through pip: {conflict.requirement})" if _indirect(conflict) else ""
    exact = _EXACT.fullmatch(conflict.demand) if free else None
    wanted = f"={exact[1]}" if exact else (_CONDITION.sub("", conflict.demand) or None)
    bound = (FileEdit(how="add", entries=(f"{gives.conda}{wanted}",)),) if wanted else ()
    other = f"pin {gives.conda} to a release that meets {conflict.demand}, and resolve again"
    either = f"{mended_by(bound)}, or {mended_by(_repaired(conflict))}" if free and bound and conflict.repair else None
    return Finding(
        code="CU510",
        severity="error",
        subject=requirement_name(conflict.parent) or gives.name,
        message=f"pip: {who} {conflict.demand}{through}, and conda's {gives.conda} is {gives.shown or gives.version}",
        evidence=(printable(conflict.text),),
        fix=either or (None if conflict.repair or exact else other),
        edits=_repaired(conflict) or bound,
    )


def _end(text: str) -> str:
    """The end of a long story: the part that leads to the no."""
    head, mark, tail = text.rpartition(" Because ")
    return f"Because {tail}" if mark and len(head) > 200 else text


def _indirect(conflict: PipConflict) -> bool:
    """Whether what demands it stands in the pip part only by what requires it."""
    line = requirement_name(conflict.requirement)
    return bool(conflict.parent and line) and requirement_name(conflict.parent) != line


def unlocked(requirements: Collection[str], solution: Solution, names: Mapping[str, str]) -> Iterator[str]:
    """The requirements that a lock does not hold, in the version they ask for.

    Args:
        requirements: of an environment file that changed.
        solution: what is locked.
        names: conda names and names on PyPI, where they differ.
    """
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - only when the file changed

    lines = read_lines(requirements)
    aside = {item.text for item in solution.aside}
    apart = [item.text for item in lines.aside if item.text not in aside]
    if lines.requirements and not solution.pip and not aside:
        yield from (*lines.requirements, *apart)
        return
    by_conda = {item.name: item.version for item in provided(solution.packages, names)}
    have: dict[str, str | None] = {**by_conda, **{item.name: item.version for item in solution.pip}}
    have |= {name: None for text in aside if (name := requirement_name(text))}
    for text in lines.requirements:
        if shown(text) in aside:
            continue
        try:
            asked = Requirement(text)
        except InvalidRequirement:
            yield text
            continue
        name = normalise(asked.name)
        if asked.marker and name not in have:
            continue
        number = have.get(name)
        if name not in have or (number and not asked.url and not asked.specifier.contains(number, prereleases=True)):
            yield text
    yield from apart
