"""Locking the pip part: after conda's solve, for each platform, with conda's packages as what is already there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from cuenv.core.errors import Progress
from cuenv.core.findings import Finding
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.urls import index_url, printable, redact
from cuenv.lockfile.formats.requirements_txt import UNLOCKED
from cuenv.resolver.wheels import INDEX, cuda_of_wheels
from cuenv.solve.environment_spec import EnvironmentSpec, names_index, normalise, requirement_name
from cuenv.solve.model import Lock, LockedPackage, PipLocked, Solution
from cuenv.solve.pip_part import PipConflict, provided


def before_pip(spec: EnvironmentSpec, allow: tuple[str, ...]) -> tuple[Finding, ...]:
    """What can be said of a pip part before anything is solved."""
    if not spec.pip:
        return ()
    if UNLOCKED not in allow:
        return tuple(requirement_findings(spec.pip))
    return (
        Finding(
            code="CU501",
            severity="warning",
            subject="pip",
            message=f"the pip requirements are not locked ({len(spec.pip)}): {redact(', '.join(spec.pip))[:120]}",
            fix="install them in the environment afterwards: python -m pip install REQUIREMENT",
        ),
    )


def lock_pip(
    spec: EnvironmentSpec,
    solutions: list[Solution],
    old: Lock | None,
    *,
    update: tuple[str, ...] = (),
    environ: Mapping[str, str],
    allow: tuple[str, ...],
    certificates: str | None = None,
    offline: bool,
    progress: Progress | None,
) -> tuple[list[Solution], list[Finding]]:
    """Add the pip part to every solution; findings say what refuses it.

    Args:
        spec: the environment file.
        solutions: conda's answers.
        old: the lock that would be replaced; its packages for pip stay while they satisfy the file.
        update: packages of that lock that may move.
        environ: the user's variables: indexes, credentials, proxies.
        allow: codes that the user allowed; CU501 leaves the pip part out.
        certificates: authorities that ``.condarc`` names.
        offline: take only what uv's cache holds.
        progress: told in a few words what is being done.

    Raises:
        ChannelError: a package index cannot be read.
        OutsideError: uv cannot be run, or a package's setup failed.
    """
    if not spec.pip or UNLOCKED in allow:
        return solutions, []
    made, found = [], []
    for solution in solutions:
        part, findings = _one(
            spec, solution, old, update, environ=environ, certificates=certificates, offline=offline, progress=progress
        )
        made.append(part)
        found += findings
    return made, found


def _one(
    spec: EnvironmentSpec,
    solution: Solution,
    old: Lock | None,
    update: tuple[str, ...],
    *,
    environ: Mapping[str, str],
    certificates: str | None,
    offline: bool,
    progress: Progress | None,
) -> tuple[Solution, list[Finding]]:
    from cuenv.solve.environment_spec import normalise  # noqa: PLC0415 - as above
    from cuenv.solve.io.pip import pypi_names, resolve  # noqa: PLC0415 - only where there are pip packages
    from cuenv.solve.pip_part import PipConflict, PipRequest, glibc_of, provided  # noqa: PLC0415 - as above

    python = solution.package("python")
    release = python.version if python else solution.python
    if not release:
        return solution, [_no_python(spec)]
    kept = old.solution(solution.platform) if old else None
    moving = set(map(normalise, update))
    request = PipRequest(
        requirements=spec.pip,
        python=release,
        platform=solution.platform,
        glibc=glibc_of(solution.virtual_packages),
        provided=provided(solution.packages, pypi_names()),
        prefer=tuple(item for item in kept.pip if item.name not in moving) if kept else (),
    )
    answer = resolve(request, environ, certificates=certificates, offline=offline, progress=progress)
    if isinstance(answer, PipConflict):
        return solution, [conflict_finding(answer)]
    whole = replace(solution, pip=answer)
    return whole, [*pip_findings(whole, "" if python else "pip"), *origin_findings(answer)]


def _no_python(spec: EnvironmentSpec) -> Finding:
    return Finding(
        code="CU515",
        severity="error",
        subject="python",
        message=f"the environment has pip requirements ({len(spec.pip)}) but no Python",
        fix="add to dependencies: python and pip",
    )


_HASHED = regex(r"#(?:[^#]*&)?sha256=[0-9a-f]{64}(?:&|$)")
_LOCAL = regex(r"\.{0,2}/|~|[A-Za-z]:\\")
# From CUDA 13 on the wheels of the toolkit bear no suffix; cudnn-frontend is a layer over whatever cuDNN is there.
_NVIDIA = regex(
    r"(?:nvidia|cuda)-[a-z0-9-]+-cu\d\d|nvidia-(?!cudnn-frontend)(?:cublas|cuda|cudnn|cufft|cufile|curand|cusolver"
    r"|cusparse|nccl|npp|nvfatbin|nvjitlink|nvjpeg|nvptxcompiler|nvshmem|nvtx|nvvm)[a-z0-9-]*"
)
_TORCHES = ("pytorch", "pytorch-gpu", "pytorch-cpu")
_DIRECT = regex(r"\s*[A-Za-z0-9][A-Za-z0-9._-]*\s*(?:\[[^\]]*\])?\s*@\s*(.+)")
_FILES = (".whl", ".zip", ".tar.gz", ".tgz")
_SHOWN = 3
_LENIENT = ("uv", "pixi")
"""Programs that install a locked file without a hash; PyTorch's own indexes give none for some wheels."""


def requirement_findings(requirements: Iterable[str]) -> Iterator[Finding]:
    """Requirements that no lock can hold: options, local paths, version control, URLs without a hash, typing errors."""
    for text in requirements:
        why = _unlockable(text)
        if why:
            shown = printable(_without_secret(text))
            yield Finding(
                code="CU514",
                severity="error",
                subject=requirement_name(text) or shown,
                message=f"pip: {shown} cannot be locked: {why[0]}",
                fix=why[1],
            )


def _unlockable(text: str) -> tuple[str, str] | None:
    """Why a requirement cannot be locked, and what to do; ``None`` when it can."""
    named = _DIRECT.fullmatch(text)
    release = "write a release from an index: NAME==VERSION"
    if names_index(text):
        return None if index_url(text) == text else ("its URL contains a login", "give the login by ~/.netrc")
    if text.startswith("-"):
        return ("it is an option of pip", "take it out of the pip part: only options that name an index count there")
    target = named[1] if named else text
    if re.match(r"(?:git|hg|svn|bzr)(?:\+|@|:)", target):
        return ("the requirement names a repository, whose branch can move", release)
    if _LOCAL.match(target) or target.startswith("file:") or ("://" not in target and target.endswith(_FILES)):
        return ("it is a path on this machine", release)
    if "://" in target and not named:
        return ("it is a URL without a name", "write NAME @ URL#sha256=HASH")
    if "://" in target:
        return None if _HASHED.search(target) else ("it is a URL without a hash", "write NAME @ URL#sha256=HASH")
    return _invalid(text)


def _invalid(text: str) -> tuple[str, str] | None:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - only with a pip part

    try:
        Requirement(text)
    except InvalidRequirement as error:
        return (
            f"it is not a valid requirement ({str(error).splitlines()[0]})",
            "write NAME, NAME>=1 or NAME[extra]==1.2",
        )
    return None


def _without_secret(text: str) -> str:
    return re.sub(r"[A-Za-z][A-Za-z0-9+.-]*://\S+", lambda found: index_url(found[0]), text)


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
            fix="add to dependencies: pip",
        )
    yield from _hashes(solution.pip, program)
    yield from _seconds(solution)


def _hashes(packages: Collection[PipLocked], program: str) -> Iterator[Finding]:
    """The files that pip cannot verify, in one finding; a folder of the project and a commit have no hash."""
    files = [item for item in packages if not item.direct or item.url.endswith(_FILES)]
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
    torch = next((found for name in _TORCHES if (found := solution.package(name))), None)
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
            message=f"conda-lock.yml names {len(local)} local files, such as {printable(local[0].url)}: "
            "elsewhere install the pip part from the requirements file, which names versions and hashes",
        )
    for item in packages:
        if item.from_source:
            yield Finding(
                code="CU511",
                severity="warning",
                subject=item.name,
                message=f"pip: {item.name} {item.version} exists only as a source distribution: "
                "its setup code ran here to "
                "find its requirements (unless uv had them cached) and runs again where it is installed",
            )


_CUDA_TAG = regex(r"torch\s*==\s*[0-9.]+\+(cu\d{2,3})\s*(?:;.*)?")


def _index_of(requirement: str) -> str | None:
    """The line that makes a torch with a local version be found: it lies in the index of its tag."""
    found = _CUDA_TAG.fullmatch(requirement.strip())
    return f"add to the pip part: --extra-index-url {INDEX}{found[1]}" if found else None


def conflict_finding(conflict: PipConflict) -> Finding:
    """The pip part's no as a finding: both parents, and the smallest repair."""
    gives = conflict.provided
    if gives is None:
        return Finding(
            code="CU510",
            severity="error",
            subject=requirement_name(conflict.requirement) or "pip",
            message=f"the pip requirements cannot be resolved: {printable(_end(conflict.text))}",
            evidence=(printable(conflict.text),),
            fix=_index_of(conflict.requirement) or (f"write {conflict.repair}" if conflict.repair else None),
        )
    who = f"{conflict.parent} requires" if conflict.parent else "the environment file requires"
    through = f" (through pip: {conflict.requirement})" if _indirect(conflict) else ""
    other = f"pin {gives.conda} to a release that meets {conflict.demand}, and resolve again"
    return Finding(
        code="CU510",
        severity="error",
        subject=requirement_name(conflict.parent) or gives.name,
        message=f"pip: {who} {conflict.demand}{through}, and conda's {gives.conda} is {gives.shown or gives.version}",
        evidence=(printable(conflict.text),),
        fix=f"in the pip part, write {conflict.repair}" if conflict.repair else other,
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

    if requirements and not solution.pip:
        yield from requirements
        return
    by_conda = {item.name: item.version for item in provided(solution.packages, names)}
    have = {**by_conda, **{item.name: item.version for item in solution.pip}}
    for text in requirements:
        if names_index(text):
            continue
        try:
            asked = Requirement(text)
        except InvalidRequirement:
            yield text
            continue
        name = normalise(asked.name)
        if asked.marker and name not in have:
            continue
        if name not in have or not (asked.url or asked.specifier.contains(have[name], prereleases=True)):
            yield text
