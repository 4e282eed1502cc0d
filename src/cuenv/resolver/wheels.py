"""Torch as pip brings it: which wheel it is, and the candidate that the rules judge as they judge a conda build.

`wheel_candidate` turns the pip packages of a lock, of whatever format, into a `Candidate`: the row of the table of
wheels (``2.7.1+cu126``, or PyPI's plain ``2.7.1`` with the CUDA release of its own), and the releases of cuDNN and NCCL
that stand beside it. `cuda_of_wheels` is the CUDA release of wheels without a torch (JAX, CuPy).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from packaging.version import Version

from cuenv.core.findings import FileEdit, Finding, WheelFix
from cuenv.core.regex import regex
from cuenv.core.versions import Capability, minor, support_of, version, version_or_none
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import WHEELS, Extension, TorchBuild, TorchWheel
from cuenv.resolver.candidates import Candidate, distance, no_row
from cuenv.resolver.engine import Judge
from cuenv.resolver.requirements import pip_demand
from cuenv.resolver.rules import Context, rule_named
from cuenv.solve.environment_spec import NUMBERS, requirement_name
from cuenv.solve.model import PipLocked

INDEX = "https://download.pytorch.org/whl/"
"""PyTorch's own indexes of wheels, each in a folder with the name of its tag."""

_TAG = r"cu(?P<major>\d{1,2})(?P<minor>\d)"
_LOCAL = regex(rf"{_TAG}(?!\d)")
_MADE_FOR = regex(r"cu(?P<major>1\d|9)(?P<minor>\d)?(?!\d)")  # a library may name a CUDA major alone: ``cu12torch2.7``
_NOT_NVIDIA = regex(r"cpu|rocm|xpu|hpu")  # how the local versions begin of builds that use no NVIDIA GPU
_INDEX_FOLDER = regex(rf"/whl/(?:nightly/|test/)?(?:{_TAG}|(?P<cpu>cpu))/")
_PYTHON = regex(r"-cp(\d)(\d{1,2})-cp\d+[a-z]*-|-cp(\d)(\d{1,2})-abi3-")
_NUMBERS = regex(r"\d{1,4}\.\d{1,4}")
_CUDA_IN_NAME = regex(r"(?!nvidia-).+-cu(?:da)?(?P<major>1\d)x?(?:-.+)?")
"""A program whose name bears the CUDA major that it is made for: ``cupy-cuda12x``, ``jax-cuda12-plugin``."""
_PROGRAMS = regex(r"tensorflow|jaxlib|(?!nvidia-).+-gpu")
"""Other programs that use CUDA; jaxlib does so by itself where its local version says that."""
_RUNTIMES = regex(r"nvidia-cuda-(?:runtime|nvrtc)(?:-cu\d\d)?|cuda-toolkit")
_CPU = "cpu"


def wheel_candidate(
    packages: Iterable[PipLocked], platform: str, knowledge: Knowledge, python: str = ""
) -> Candidate | None:
    """The torch that pip brings as a candidate of the stack `WHEELS`; ``None`` without a torch among the packages.

    Its row is that of the table; a wheel that no row knows gets a row without sources, which admits to knowing nothing.

    Args:
        packages: name, version and, where it is known, URL of what is locked for one platform.
        python: the minor, such as ``3.12``; where it is not given, the file of torch names it.
    """
    by_name = {item.name: item for item in packages}
    torch = by_name.get("torch")
    release = version_or_none(torch.version) if torch else None
    if torch is None or release is None:
        return None
    row = wheel_row(release, torch.url, cuda_of_wheels(by_name.values()), platform, knowledge)
    tags = _PYTHON.search(torch.url.rpartition("/")[2])
    own = ".".join(part for part in tags.groups() if part) if tags else "3"
    return Candidate(
        build=row,
        cuda=row.cuda,
        python=python or own,
        cudnn=_library("cudnn", by_name.values()),
        nccl=_library("nccl", by_name.values()),
    )


def wheel_row(release: Version, url: str, runtime: Version | None, platform: str, knowledge: Knowledge) -> TorchBuild:
    """The row of a wheel of torch.

    Its CUDA release is named by its local version (``+cu118``), else by the index in its URL, else by the CUDA runtime
    that was resolved with it; else it is the one that PyPI has.
    """
    rows = knowledge.wheels_of(release, platform)
    local, place = _LOCAL.match(release.local or ""), _INDEX_FOLDER.search(url)
    if _NOT_NVIDIA.match(release.local or "") or (not release.local and place and place["cpu"]):
        return no_row(WHEELS, release, None, release.local or _CPU, platform)
    found = local or place
    cuda = version(f"{found['major']}.{found['minor']}") if found else None
    plain = next((row for row in rows if "pypi" in row.comes), None)
    if not (cuda or release.local) and plain and (plain.cuda is None or runtime is None):
        return plain
    cuda = cuda or runtime
    official = not release.local or local
    known = next((row for row in rows if official and cuda and row.cuda == cuda), None)
    return known or no_row(WHEELS, release, cuda, f"cu{cuda}".replace(".", "") if cuda else "", platform)


def uses_no_gpu(build: TorchBuild) -> bool:
    """Whether a wheel is known to hold nothing for an NVIDIA GPU."""
    return build.stack == WHEELS and build.cuda is None and build.build != ""


def cuda_of_wheels(packages: Iterable[PipLocked]) -> Version | None:
    """The CUDA release of NVIDIA's runtime among pip packages (``nvidia-cuda-runtime-cu12``, ``cuda-toolkit``)."""
    found = [item for item in packages if _RUNTIMES.fullmatch(item.name)]
    found.sort(key=lambda item: ("runtime" not in item.name, item.name))
    named = [numbers[0] for item in found if (numbers := _NUMBERS.match(item.version))]
    return minor(version(named[0])) if named else None


def cuda_in_names(packages: Iterable[PipLocked]) -> Version | None:
    """The oldest release of the CUDA major that wheels bear in their names (``cupy-cuda12x``, ``cudf-cu12``)."""
    majors = [int(found["major"]) for item in packages if (found := _CUDA_IN_NAME.fullmatch(item.name))]
    return version(f"{max(majors)}.0") if majors else None


def gpu_programs(packages: Iterable[PipLocked]) -> tuple[PipLocked, ...]:
    """Wheels other than torch that hold GPU code of which the tables say nothing: TensorFlow, JAX, CuPy."""
    return tuple(
        item
        for item in packages
        if _CUDA_IN_NAME.fullmatch(item.name)
        or (_PROGRAMS.fullmatch(item.name) and (item.name != "jaxlib" or "cuda" in item.version))
    )


def _library(library: str, packages: Iterable[PipLocked]) -> Version | None:
    found = (item.version for item in packages if re.fullmatch(rf"nvidia-{library}-cu\d\d", item.name))
    return next(filter(None, map(version_or_none, found)), None)


def wheel_for(release: Version | None, facts: HostFacts, knowledge: Knowledge, python: str = "") -> TorchWheel | None:
    """The wheel that runs on every GPU of a host: of this release, else of the next that has one, else of one before.

    Of several the one with the highest CUDA that the driver supports by itself, else the lowest, which runs by
    minor-version compatibility. ``None`` where no driver is known, or no wheel runs.

    Args:
        python: the minor that the wheel must be for; empty for any.
    """
    levels = [machine.driver.cuda for machine in facts.machines if machine.driver]
    if release is None or len(levels) < len(facts.machines) or None in levels:
        return None
    level = min(item for item in levels if item)
    runs = runs_on(facts, knowledge)
    rows = [row for row in knowledge.wheels if row.cuda and "index" in row.comes and python in ("", *row.pythons)]
    asked, every = version(release.public), sorted({row.version for row in rows})
    for wanted in (*(item for item in every if item >= asked), *(item for item in reversed(every) if item < asked)):
        able = [row for row in rows if row.version == wanted and runs(row)]
        below = [row for row in able if row.cuda and row.cuda <= level]
        if able:
            return below[-1] if below else able[0]
    return None


def _dropped_later(wheel: TorchWheel, facts: HostFacts, knowledge: Knowledge) -> tuple[Capability, ...]:
    """The GPUs of a host that no later wheel has code for; none where it is of the last release."""
    later = [row for row in knowledge.wheels if row.platform == wheel.platform and row.version > wheel.version]
    able = [row.code for row in later if row.code]
    return tuple(item for item in facts.capabilities if later and not any(support_of(code, item) for code in able))


def last_wheel_note(wheel: TorchWheel, facts: HostFacts, knowledge: Knowledge) -> tuple[str, ...]:
    """That no later wheel is made for a GPU of the host, in a sentence without a full stop; empty where one is."""
    lost = _dropped_later(wheel, facts, knowledge)
    if not lost:
        return ()
    newest = max(row.version for row in knowledge.wheels if row.platform == wheel.platform)
    last = max(
        row.version
        for row in knowledge.wheels
        if row.platform == wheel.platform and row.code and all(support_of(row.code, item) for item in lost)
    )
    gpus = ", ".join(map(str, lost))
    return (f"torch {last} is the last release with wheels for compute capability {gpus}; the newest is {newest}",)


def wheel_advice(
    candidate: Candidate, facts: HostFacts, knowledge: Knowledge
) -> tuple[WheelFix | None, tuple[FileEdit, ...]]:
    """The requirement, and the index that has it, of a wheel that runs on a host, in words and as edits.

    None where no wheel is known to run. It is for the Python of the candidate, where there is one for it.
    """
    release, python = candidate.build.version, candidate.python if "." in candidate.python else ""
    wheel = (wheel_for(release, facts, knowledge, python) if python else None) or wheel_for(release, facts, knowledge)
    if wheel is None:
        return None, ()
    lost = _dropped_later(wheel, facts, knowledge)
    last = f" (the last wheel for compute capability {', '.join(map(str, lost))})" if lost else ""
    needs = f" with Python {wheel.pythons[0]} to {wheel.pythons[-1]}" if python not in ("", *wheel.pythons) else ""
    name, index = f"torch=={wheel.name}", f"{INDEX}{wheel.build}"
    edits = [
        FileEdit(how="write", entries=(name,), pip=True),
        FileEdit(how="add", entries=(f"--extra-index-url {index}",), pip=True),
    ]
    if needs:
        edits.append(FileEdit(how="write", entries=(f"python={max(wheel.pythons, key=version)}",)))
    return WheelFix.of((name,), note=f"{needs}{last}", url=index), tuple(edits)


_RUNS = ("platform", "driver-gpu", "driver-floor", "device-code", "cudnn", "glibc")
"""The rules on whether a wheel runs at all; NCCL is called with several GPUs alone."""


def runs_on(facts: HostFacts, knowledge: Knowledge) -> Callable[[TorchWheel], bool]:
    """Whether a wheel runs on a host as far as the rules know; PTX alone is years older than the GPU, and no choice."""
    judge = Judge(Context(facts=facts, request=Request(), knowledge=knowledge), map(rule_named, _RUNS))
    bad = {"device-code": ("reject", "warn")}

    def runs(row: TorchWheel) -> bool:
        candidate = Candidate(build=row, cuda=row.cuda, python=min(row.pythons, key=distance))
        return all(verdict.outcome not in bad.get(verdict.rule, ("reject",)) for verdict in judge.verdicts(candidate))

    return runs


def locked_libraries(packages: Iterable[PipLocked], knowledge: Knowledge) -> tuple[str, ...]:
    """The wheels that are compiled for one torch, as requirements of exactly their releases.

    These are the wheels of which the tables speak, and those with compiled code that require torch, but no release of
    it. A wheel that its requirement names by a URL is somebody's own build, of which the tables say nothing.
    """
    found = []
    for item in packages:
        release = version_or_none(item.version)
        if release is None or item.from_source or item.direct:
            continue
        rows = [row for row in knowledge.extension(item.name) if "wheel" in row.comes]
        if any(row.covers(release) for row in rows) or (not rows and _compiled_for_unknown_torch(item)):
            found.append(f"{item.name}=={release.public}")
    return tuple(found)


def _compiled_for_unknown_torch(item: PipLocked) -> bool:
    """Whether a wheel holds compiled code and requires torch, so that it may load with one release of torch alone."""
    torch = [text for text in item.depends if requirement_name(text) == "torch"]
    return bool(torch) and item.url.endswith(".whl") and "-none-any." not in item.url and "==" not in "".join(torch)


def library_advice(
    requirements: Iterable[str], torch: Version, knowledge: Knowledge, suits: Callable[[str], bool]
) -> tuple[FileEdit, ...]:
    """For libraries that are made for another torch, their releases for this one: ``vllm>=0.8,<0.9``.

    Of several the nearest after the release that is asked for is taken, else the nearest before it; the newest where
    none is asked for.

    Args:
        suits: whether a requirement works with all the rest, such as CUDA and the GPUs.
    """
    better: list[FileEdit] = []
    for demand in filter(None, map(pip_demand, requirements)):
        if made_for(demand.text, torch, knowledge):
            continue
        rows = knowledge.extension(demand.name)
        fit = [row for row in rows if "wheel" in row.comes and (row.torch is None or row.torch.admits(torch))]
        asked = NUMBERS.search(demand.condition)
        after = [row for row in fit if asked and _newest(row) > Version(asked[0])]
        nearest = [*after, *(row for row in reversed(fit) if row not in after)]
        texts = (f"{demand.name}{_condition(row)}" for row in nearest if _condition(row))
        better += [FileEdit(how="write", entries=(text,), pip=True) for text in texts if suits(text)][:1]
    return tuple(better)


def _newest(row: Extension) -> Version:
    """The newest release that a row lists, or what ends its range; an open range has no end."""
    return max(row.releases) if row.releases else row.below or Version("99999")


def _condition(row: Extension) -> str:
    """The newest of the releases that a row lists, or its range."""
    if row.releases:
        return f"=={max(row.releases)}"
    bounds = (f">={row.first}" if row.first else "", f"<{row.below}" if row.below else "")
    return ",".join(filter(None, bounds))


def made_for(requirement: str, torch: Version, knowledge: Knowledge) -> bool | None:
    """Whether wheels of a library are made for a torch in releases that a requirement admits; ``None`` if no row says.

    The requirement names one release, or a range of which the rows list the releases.
    """
    demand = pip_demand(requirement)
    rows = [row for row in knowledge.extension(demand.name) if "wheel" in row.comes and row.torch] if demand else []
    if demand is None or not rows:
        return None
    exact = version_or_none(demand.condition.removeprefix("=="))
    mine = [row for row in rows if (exact and row.covers(exact)) or any(map(demand.admits, row.releases))]
    return any(row.torch and row.torch.admits(torch) for row in mine) if mine else None


def cuda_major_findings(packages: Iterable[PipLocked], torch: TorchBuild) -> Iterator[Finding]:
    """Libraries whose local version names another CUDA major than torch has: they refuse to be imported beside it."""
    for item in packages:
        release = version_or_none(item.version)
        local = _MADE_FOR.match(release.local or "") if release else None
        if local is None or item.name == "torch" or torch.cuda is None or int(local["major"]) == torch.cuda.major:
            continue
        message = (
            f"{item.name} {item.version} is made for CUDA {'.'.join(filter(None, local.groups()))}, "
            f"and torch {torch.version} for CUDA {torch.cuda}"
        )
        fix = f"take {item.name} from the index of torch: --extra-index-url {INDEX}{torch.build}"
        yield Finding(code="CU102", severity="error", subject=item.name, message=message, fix=fix)
