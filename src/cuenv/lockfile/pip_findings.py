"""What is said of a pip part: lines that are set aside, packages over conda's, missing hashes, and why uv gave up."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from cuenv.core.findings import SET_ASIDE, FileEdit, Finding, LockFix, counted, first_of, mended_by
from cuenv.core.regex import regex
from cuenv.core.urls import printable
from cuenv.lockfile.formats.requirements_txt import LEFT_OUT, UNLOCKED
from cuenv.lockfile.formats.unlocked_txt import aside_command
from cuenv.resolver.asked_torch import CONDA_TORCHES
from cuenv.resolver.wheels import INDEX, cuda_of_wheels
from cuenv.solve.environment_spec import normalise, requirement_name
from cuenv.solve.model import LockedPackage, PipLocked, SetAside, Solution
from cuenv.solve.pip_lines import FILES, HASHED, PipLines, line_text, project_of, read_lines
from cuenv.solve.pip_part import PipConflict, loosened, provided

NO_HASH = "the index has no sha256 for it"


def aside_findings(solution: Solution, folder: Path | None = None) -> Iterator[Finding]:
    """What a lock leaves for pip to install afterwards, one finding for each reason, with the command."""
    yield from findings_aside(solution.aside, aside_command(solution, folder))


def findings_aside(aside: tuple[SetAside, ...], command: str | None) -> Iterator[Finding]:
    """As `aside_findings`, of lines that no lock holds yet."""
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
            about=tuple(mine),
        )


def _of_each(why: str) -> str:
    """A reason that holds for several lines, which is written for one."""
    for one, each in (("it ", "each "), ("its setup.py ", "the setup.py of each ")):
        if why.startswith(one):
            return each + why.removeprefix(one)
    return why.replace(" for it", " for them") if why == NO_HASH else why


def _label(text: str) -> str:
    """A line for people: of a file of an index, its name is enough."""
    name, mark, url = text.partition(" @ ")
    return f"{name} ({url.partition('#')[0].rpartition('/')[2]})" if mark and HASHED.search(url) else text


def ignored_lines(lines: PipLines) -> Iterator[Finding]:
    """Options that change nothing of what is locked."""
    for text, why in lines.ignored:
        message = f"pip: the option {text} is not used: {why}"
        yield Finding(code=SET_ASIDE, severity="info", subject="pip", message=message, about=(text,))


def built_lines(lines: PipLines) -> Iterator[Finding]:
    """Lines of ``pip freeze`` in an environment of conda: the folder that they name was on another machine."""
    if not lines.built:
        return
    names = [project_of(text) for text in lines.built]
    listed = first_of(names, _SHOWN)
    they, them = ("they name", "their names") if len(names) > 1 else ("it names", "its name")
    message = (
        f"pip: {listed} {'are' if len(names) > 1 else 'is'} taken by {them}, in a release that fits: {they} the "
        f"folder in which conda built {'each' if len(names) > 1 else 'it'} (such as "
        f"{lines.built[0].partition('file://')[2]}), as pip freeze writes it, which is on no other machine"
    )
    fix = "where the environment is installed, write its releases: python -m pip list --format=freeze"
    subject = "pip" if len(names) > 1 else names[0]
    about = tuple(lines.built)
    yield Finding(code="CU522", severity="warning", subject=subject, message=message, fix=fix, about=about)


# From CUDA 13 on the wheels of the toolkit bear no suffix; cudnn-frontend is a layer over whatever cuDNN is there, and
# nothing of conda's CUDA is in CUTLASS, nvCOMP and nvImageCodec.
NVIDIA = regex(
    r"(?:nvidia|cuda)-(?!cutlass|nvcomp|nvimgcodec)[a-z0-9-]+-cu\d\d|nvidia-(?!cudnn-frontend)(?:cublas|cuda|cudnn|cufft|cufile|curand|cusolver"
    r"|cusparse|nccl|npp|nvfatbin|nvjitlink|nvjpeg|nvptxcompiler|nvshmem|nvtx|nvvm)[a-z0-9-]*"
)
_SHOWN = 3
_LENIENT = ("uv", "pixi")
"""Programs that install a locked file without a hash; PyTorch's own indexes give none for some wheels."""


def pip_findings(solution: Solution, program: str = "") -> Iterator[Finding]:
    """Judge the pip part of a lock: pip is there to install it, every file has a hash, nothing doubles conda's.

    Args:
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
    # no file of them is for the platform
    nowhere = {name for item in solution.remarks if item.code == "CU106" for name in item.subject.split(", ")}
    yield from _hashes([item for item in solution.pip if item.name not in nowhere], program)
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
        fix=None if lenient else LockFix.of(before="lock with an index that has sha256: UV_DEFAULT_INDEX=URL "),
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
    libraries = [item for item in solution.pip if NVIDIA.fullmatch(item.name)]
    by_pip = any(item.name == "torch" for item in solution.pip)
    if not cuda or not libraries or (torch and by_pip):  # they come with the second torch, which is told
        return
    shown = ", ".join(f"{item.name} {item.version}" for item in libraries[:_SHOWN])
    count = f"{len(libraries)} packages with CUDA libraries ({shown}, ...)" if len(libraries) > _SHOWN else shown
    if by_pip:
        own = cuda_of_wheels(solution.pip)
        if solution.package("cuda-nvcc") and own and cuda.version.partition(".")[0] == str(own.major):
            return  # the compiler and the headers of torch's own major are beside it on purpose
        message = f"pip's torch brings its own CUDA libraries beside conda's {cuda.name} {cuda.version}: {count}"
        fix = "install torch from conda as well, or remove the CUDA libraries from the conda dependencies"
        yield Finding(code="CU512", severity="warning", subject="torch", message=message, fix=fix)
    else:
        yield _second(count, libraries[0].name, cuda)


def _second(what: str, name: str, over: LockedPackage) -> Finding:
    message = f"pip would put {what} over conda's {over.name} {over.version} from {over.channel_name}"
    fix = f"remove from the pip part what requires {name}, or add it to the conda dependencies"
    return Finding(code="CU512", severity="error", subject=name, message=message, fix=fix)


def origin_findings(packages: Collection[PipLocked]) -> Iterator[Finding]:
    """Packages that come as source alone, whose setup is a program that runs; and files of this machine."""
    local = [item for item in packages if item.url.startswith("file:")]
    if local:
        message = (
            f"{counted(len(local), 'package')} for pip {'come' if len(local) > 1 else 'comes'} from files of "
            f"this machine, such as {printable(local[0].url)}: "
            "elsewhere install the pip part from the requirements file, which names versions and hashes"
        )
        yield Finding(code="CU516", severity="info", subject="pip", message=message)
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
    return (FileEdit(how="write", entries=conflict.repair, pip=True),) if conflict.repair else ()


def _of_elsewhere(conflict: PipConflict) -> tuple[FileEdit, ...]:
    """The line that asks for any release of a package that has no wheel for the platform in any: it goes."""
    lacking, line = conflict.lacks_platform, conflict.requirement
    gone = lacking and requirement_name(lacking) == requirement_name(line) and loosened(line) is None
    return (FileEdit(how="remove", entries=(line,), pip=True),) if gone else ()


_EXACT = regex(r"[A-Za-z0-9._-]+==([0-9][0-9.]*)")
_CONDITION = regex(r"^[A-Za-z0-9._-]+(?:\[[^\]]*\])?\s*")  # what stands before the versions of a requirement


def conflict_finding(conflict: PipConflict, *, free: bool = False, named: str = "") -> Finding:
    """The pip part's no as a finding: both parents, and the smallest repair.

    Args:
        free: the file leaves the release of the conda package open.
        named: the lines of the pip part, whose indexes were asked.
    """
    gives = conflict.provided
    then = "".join(f"; and once that is loosened: {printable(_end(text)).rstrip('.')}" for text in conflict.then)
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
        whole = printable(_end(conflict.text))
        lacking = conflict.lacks_python
        python = f"use a Python for which {lacking} has wheels" if lacking else ""
        return Finding(
            code="CU510",
            severity="error",
            subject=requirement_name(conflict.requirement) or "pip",
            message=f"the pip requirements cannot be resolved: {whole.rstrip('.') if then else whole}{then}",
            evidence=(printable(conflict.text),),
            fix=", or ".join(filter(None, (python, mended_by(_repaired(conflict))))) if python else None,
            edits=_index_of(conflict.requirement, named) or _repaired(conflict) or _of_elsewhere(conflict),
            other_python=conflict.other_python,
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
        subject=requirement_name(conflict.requirement or conflict.parent) or gives.name,
        message=f"pip: {who} {conflict.demand}{through}, and conda's {gives.conda} is {gives.shown or gives.version}"
        f"{then}",
        evidence=(printable(conflict.text),),
        fix=either or (None if conflict.repair or (free and bound) else other),
        edits=_repaired(conflict) or bound,
        other_python=conflict.other_python,
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
        if line_text(text) in aside:
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
