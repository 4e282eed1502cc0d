"""What an environment file that cannot work was meant to be: its wishes, and what becomes of each of its entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from packaging.version import Version

from cuenv.core.errors import UsageError
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.core.versions import VersionSpec, minor, parse_version_spec, version
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.candidates import Candidate, admits
from cuenv.resolver.policy import cuda_pins
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, requirement_name

_TORCH = ("pytorch", "pytorch-gpu")
_RUNTIME = ("pytorch-cuda", "cuda-version", "cudatoolkit", "cuda-runtime", "cuda-libraries")
_COMPILERS = ("cudatoolkit-dev", "cuda", "cuda-compiler", "cuda-libraries-dev", "cuda-nvcc-dev", "nvcc_linux-64")
_CPU = ("cpuonly", "cpu-only", "pytorch-cpu", "pytorch-mutex")
_OURS = ("conda-forge", "pytorch", "defaults", "nvidia")
_NUMBERS = regex(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryChange:
    """What became of one entry of a file."""

    entry: str
    fate: Literal["kept", "replaced", "dropped"]
    became: str = ""
    why: str = ""

    def __str__(self) -> str:
        by = f" by {self.became}" if self.fate == "replaced" and self.became else ""
        as_ = f" as {self.became}" if self.fate == "kept" and self.became not in ("", self.entry) else ""
        return f"{self.fate:<9} {self.entry}{by}{as_}{': ' if self.why else ''}{self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The wishes of a file.

    Attributes:
        pytorch, python: as wished, when a version is named; ``release`` is the number in the wish for torch.
        cuda: the CUDA minor that is named.
        packages: further conda packages, without foreign channels and build strings of CPU twins.
        pip: requirements for pip as they will stand; ``pip_changes`` says what became of each.
        channels: listed channels that hold no part of CUDA.
    """

    pytorch: VersionSpec | None
    release: Version | None
    python: VersionSpec | None
    cuda: Version | None
    dev: bool
    packages: tuple[Pin, ...]
    pip: tuple[str, ...]
    pip_changes: tuple[EntryChange, ...]
    channels: tuple[str, ...]

    def profile(self) -> Request:
        """The wishes that decide which candidates fit at all; versions only say what is nearer."""
        return Request(dev=self.dev, pip=self.pip)


def intent_of(spec: EnvironmentSpec, knowledge: Knowledge) -> Intent:
    """Read what a file asks for, whatever stands in its way."""
    torch = next((pin for name in _TORCH if (pin := spec.pin(name))), None)
    python = spec.pin("python")
    pip = [_requirement(text, knowledge) for text in spec.pip]
    return Intent(
        pytorch=_spec(torch),
        release=_number(torch),
        python=_spec(python),
        cuda=next((minor(found) for pin in cuda_pins(spec) if (found := _number(pin))), None),
        dev=any(_role(pin, knowledge) == "cudatoolkit-dev" for pin in spec.pins),
        packages=tuple(_package(pin, knowledge) for pin in spec.pins if _role(pin, knowledge) is None),
        pip=tuple(text for text, _ in pip if text),
        pip_changes=tuple(change for _, change in pip),
        channels=tuple(item for item in spec.channels if short_channel(item).split("/")[0] not in _OURS),
    )


def _role(pin: Pin, knowledge: Knowledge) -> str | None:
    """What a pin is to the decision: a role, torch, python, pip, a CPU package; ``None`` for a further package."""
    if pin.name in _TORCH:
        return "pytorch"
    if pin.name in ("python", "pip"):
        return pin.name
    if pin.name in _CPU:
        return "cpu"
    if pin.name in _RUNTIME:
        return "pytorch-cuda"
    if pin.name in _COMPILERS:
        return "cudatoolkit-dev"
    row = knowledge.component(pin.name)
    return row.role or None if row else None


def _package(pin: Pin, knowledge: Knowledge) -> Pin:
    """A further package, free of the channel and the build that were for another stack."""
    home = pin.channel if pin.channel.split("/")[0] not in _OURS else ""
    if knowledge.is_component(pin.name):
        return Pin(name=pin.name)
    twin = any(row.package == pin.name for row in knowledge.twins)
    return replace(pin, channel=home, version=pin.condition() if twin else pin.version, build="" if twin else pin.build)


def _spec(pin: Pin | None) -> VersionSpec | None:
    try:
        return parse_version_spec(pin.version, what=pin.name) if pin and pin.version else None
    except UsageError:
        return None


def _number(pin: Pin | None) -> Version | None:
    found = _NUMBERS.search(pin.version) if pin else None
    return version(found[0]) if found else None


def _requirement(text: str, knowledge: Knowledge) -> tuple[str, EntryChange]:
    """A requirement for pip as it will stand, and what became of it; empty when it is dropped."""
    from cuenv.resolver.requirements import broken, meets, pip_demand, without_broken  # noqa: PLC0415 - only a pip part needs it

    if requirement_name(text) == "torch":  # by URL as well
        return "", EntryChange(entry=f"pip: {text}", fate="dropped", why="it would install torch over conda's")
    demand = pip_demand(text)
    found = broken(demand, knowledge) if demand and demand.condition else ()
    if not demand or not found:
        return text, EntryChange(entry=f"pip: {text}", fate="kept")
    out = tuple(release for _, releases in found for release in releases)
    better, _ = without_broken(text, tuple(row.when for row, _ in found), knowledge)
    if not any(meets(demand, row, out) for row in knowledge.extension(demand.name)):
        better = _from(text, max(row.mended for row, _ in found))  # one of them alone was asked for
    why = "; ".join(f"broken with {row.when}: {row.says} ({row.issue})" for row, _ in found)
    return better, EntryChange(entry=f"pip: {text}", fate="replaced", became=better, why=why)


def _from(text: str, release: Version) -> str:
    from packaging.requirements import Requirement  # noqa: PLC0415 - as above
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - as above

    found = Requirement(text)
    found.specifier = SpecifierSet(f">={release}")
    return str(found)


def nearness(candidate: Candidate, intent: Intent, level: Version | None) -> tuple[object, ...]:
    """How far a candidate is from what was meant; smaller is nearer: torch first, then CUDA, then Python.

    What a wish admits is as near as can be: among the releases of ``>=2.0`` none is nearer than another.
    """
    release, cuda = candidate.build.version, candidate.cuda
    meant = intent.pytorch is None or intent.pytorch.admits(release)
    torch = (not meant, *(() if meant else _away(release, intent.release)))
    python = intent.python is not None and not admits(intent.python, candidate.python)
    asked = intent.cuda
    other_major = asked is not None and cuda is not None and cuda.major != asked.major
    above = level is not None and cuda is not None and cuda > level
    distance = abs(cuda.minor - asked.minor) if asked and cuda and not other_major else 0
    minors = _python_away(candidate.python, intent.python) if python else 0
    return (torch, other_major, python, minors, above, distance)


def _away(release: Version, asked: Version | None) -> tuple[int, ...]:
    """How many minors and patches a release is from the asked one; of two as far, the later first."""
    if asked is None:
        return (0,)
    minors = (release.major - asked.major) * 100 + release.minor - asked.minor
    patches = release.micro - asked.micro if minors == 0 else 0
    return (abs(minors), abs(patches), minors < 0, patches < 0, -release.micro if minors else 0)


def _python_away(python: str, request: VersionSpec | None) -> int:
    asked = _NUMBERS.search(request.text) if request else None
    return abs(version(python).minor - version(asked[0]).minor) if asked else 0


def changes(
    spec: EnvironmentSpec, made: EnvironmentSpec, intent: Intent, lost: Mapping[str, str], knowledge: Knowledge
) -> tuple[EntryChange, ...]:
    """What became of each entry of a file.

    Args:
        spec: as it was.
        made: the environment in its place.
        intent: what was read from it.
        lost: packages that had to go, and why.
        knowledge: the tables.
    """
    found = [_channels(spec, made), _platforms(spec, made)]
    for pin in spec.pins:
        found.append(_change(pin, made, lost, knowledge))
    return (*(item for item in found if item), *intent.pip_changes)


def _channels(spec: EnvironmentSpec, made: EnvironmentSpec) -> EntryChange | None:
    if spec.channels == made.channels:
        return None
    return EntryChange(
        entry=f"channels {', '.join(spec.channels) or '(none)'}",
        fate="replaced",
        became=", ".join(made.channels),
        why="all CUDA components must come from one channel",
    )


def _platforms(spec: EnvironmentSpec, made: EnvironmentSpec) -> EntryChange | None:
    lost = [item for item in spec.platforms if item not in made.platforms]
    if not lost:
        return None
    here = ", ".join(made.platforms)
    why = f"a repair is for one platform, here {here}; for several use cuenv resolve with --platform for each"
    return EntryChange(entry=f"platforms {', '.join(lost)}", fate="dropped", why=why)


def _change(pin: Pin, made: EnvironmentSpec, lost: Mapping[str, str], knowledge: Knowledge) -> EntryChange:
    text, role = pin.yaml_text(), _role(pin, knowledge)
    same = made.pin("pytorch" if role == "pytorch" else pin.name)
    if pin.name in lost:
        return EntryChange(entry=text, fate="dropped", why=lost[pin.name])
    if role == "cpu":
        return EntryChange(entry=text, fate="dropped", why="it forces the CPU build")
    if role in ("pytorch", "python") and same:
        return _versioned(pin, same, role)
    if role in ("pytorch-cuda", "cudatoolkit-dev", "cudnn", "nccl"):
        return _filled(pin, made, role, knowledge)
    became = same.yaml_text() if same else ""
    why = "the build string excludes the CPU variant" if same and same.build and not pin.build else ""
    return EntryChange(entry=text, fate="kept", became=became, why=why)


def _versioned(pin: Pin, same: Pin, role: str) -> EntryChange:
    request, number = _spec(pin), _number(same)
    if pin.build and same.build != pin.build:
        why = "the nearest build that fits the host and that the channels can satisfy"
        return EntryChange(entry=pin.yaml_text(), fate="replaced", became=same.yaml_text(), why=why)
    if request is None or (number is not None and (request.admits(number) or _prefixes(request, number))):
        why = "the build string excludes the CPU build" if role == "pytorch" else ""
        return EntryChange(entry=pin.yaml_text(), fate="kept", became=same.yaml_text(), why=why)
    why = f"the {'release' if role == 'pytorch' else 'Python'} nearest to it that the channels can satisfy"
    return EntryChange(entry=pin.yaml_text(), fate="replaced", became=same.yaml_text(), why=why)


def _prefixes(request: VersionSpec, number: Version) -> bool:
    return request.prefix is not None and request.prefix[: len(number.release)] == number.release


def _filled(pin: Pin, made: EnvironmentSpec, role: str, knowledge: Knowledge) -> EntryChange:
    """A role that other packages fill now."""
    parts = [item for item in made.pins if item.role == role and item.name != "pytorch"]
    fillers = [item.yaml_text() for item in parts]
    ending = knowledge.discontinued(pin.name)
    capped = next((item.why[0] for item in parts if item.version and role in ("cudnn", "nccl")), "")
    why = capped or (ending.says if ending else _INSTEAD[role])
    if any(item == pin.yaml_text() for item in fillers):
        return EntryChange(entry=pin.yaml_text(), fate="kept")
    if not fillers:
        return EntryChange(entry=pin.yaml_text(), fate="dropped", why="this PyTorch build contains it")
    same = made.pin(pin.name)
    if same and not pin.version:
        why = same.why[0] if same.version else "from the one CUDA channel"
        return EntryChange(entry=pin.yaml_text(), fate="kept", became=same.yaml_text(), why=why)
    old, new = _number(pin), next((found for name in _RUNTIME if (found := _number(made.pin(name)))), None)
    if role == "pytorch-cuda" and old and new and minor(old) != minor(new):
        why += f"; CUDA {new} is the nearest to {old} that the channels can satisfy"
    return EntryChange(entry=pin.yaml_text(), fate="replaced", became=", ".join(fillers), why=why)


_INSTEAD = {
    "pytorch-cuda": "it pins the release of all CUDA components, from one channel",
    "cudatoolkit-dev": "compiler and headers from one CUDA channel",
    "cudnn": "the release that this PyTorch build requires",
    "nccl": "the release that this PyTorch build requires",
}


def notes(pin: Pin, spec: EnvironmentSpec) -> Iterator[str]:
    """What to say above a pin of the new file about the entry it comes from."""
    old = spec.pin(pin.name)
    if old is not None and old.yaml_text() != pin.yaml_text():
        yield f"was: {old.yaml_text()}"
