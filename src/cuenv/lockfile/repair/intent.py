"""What an environment file that cannot work requests, and what becomes of each of its entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from packaging.version import Version

from cuenv.core.errors import UsageError
from cuenv.core.findings import first_of
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.core.versions import VersionSpec, minor, parse_version_spec, version
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.asked_cuda import cuda_pins
from cuenv.resolver.asked_torch import CONDA_TORCHES
from cuenv.resolver.candidates import Candidate, admits
from cuenv.solve.environment_spec import NUMBERS, RELEASE, EnvironmentSpec, Pin, requirement_name
from cuenv.solve.model import names_cpu, names_cuda
from cuenv.solve.pip_lines import read_lines

_TORCH = ("pytorch", "pytorch-gpu")
_RUNTIME = ("pytorch-cuda", "cuda-version", "cudatoolkit", "cuda-runtime", "cuda-libraries")
_COMPILERS = ("cudatoolkit-dev", "cuda", "cuda-compiler", "cuda-libraries-dev", "cuda-nvcc-dev", "nvcc_linux-64")
_CPU = ("cpuonly", "cpu-only", "pytorch-cpu", "pytorch-mutex")
_OURS = ("conda-forge", "pytorch", "defaults", "nvidia")
_NAME = regex(r"[ =<>!~\[@;]")  # what ends the name of a package in an entry
_LACKED = regex(r"the channels have no \S+ for (\S+): .*")
_SHOWN = 6  # names of each reason that are shown
OF_CHANNELS = "channels:"  # what the reason for other channels stands under; no package has such a name


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryChange:
    """What became of one entry of a file."""

    entry: str
    fate: Literal["kept", "replaced", "dropped", "added"]
    became: str = ""
    why: str = ""

    def __str__(self) -> str:
        by = f" by {self.became}" if self.fate == "replaced" and self.became else ""
        as_ = f" as {self.became}" if self.fate == "kept" and self.became not in ("", self.entry) else ""
        return f"{self.fate:<9} {self.entry}{by}{as_}{': ' if self.why else ''}{self.why}"


def dropped(changes: Iterable[EntryChange]) -> str:
    """What was dropped, grouped by the reason, in one sentence; empty where nothing was."""
    groups: dict[str, list[str]] = {}
    for item in changes:
        if item.fate == "dropped":
            by_pip = item.entry.startswith("pip: ")
            name = _NAME.split(item.entry.removeprefix("pip: ").rpartition("::")[2], maxsplit=1)[0]
            why = item.why.replace(f"no release of {name} ", "no release ")
            why = _LACKED.sub(r"the channels have none for \1", why)
            groups.setdefault(why, []).append(f"pip: {name}" if by_pip else name)
    count = sum(map(len, groups.values()))
    told = sorted(groups.items(), key=lambda group: -len(group[1]))
    texts = (f"{first_of(names, _SHOWN)}{f' ({why})' if why else ''}" for why, names in told)
    return f"dropped {count}: {'; '.join(texts)}" if count else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a file requests."""

    # pytorch, python: as requested, when a version is named; ``release`` is the number in the version spec of torch
    pytorch: VersionSpec | None
    release: Version | None
    python: VersionSpec | None
    cuda: Version | None  # the CUDA minor that is named
    dev: bool
    packages: tuple[Pin, ...]  # further conda packages, without foreign channels and build strings of CPU twins
    pip: tuple[str, ...]  # requirements for pip as they will stand
    channels: tuple[str, ...]  # listed channels that hold no part of CUDA

    def profile(self) -> Request:
        """What decides which candidates fit at all; versions only say what is nearer."""
        return Request(dev=self.dev, pip=self.pip)


def intent_of(spec: EnvironmentSpec, knowledge: Knowledge) -> Intent:
    """Read what a file asks for, whatever stands in its way."""
    torch = next((pin for name in CONDA_TORCHES if (pin := spec.pin(name))), None)
    python = spec.pin("python")
    pip = [_requirement(text, knowledge) for text in spec.pip]
    return Intent(
        pytorch=_spec(torch),
        release=_number(torch),
        python=_spec(python),
        cuda=next((minor(found) for pin in cuda_pins(spec) if (found := _number(pin))), None),
        dev=any(_role(pin, knowledge) == "cudatoolkit-dev" for pin in spec.pins),
        packages=tuple(
            _package(pin, knowledge)
            for pin in spec.pins
            if _role(pin, knowledge) in (None, *(() if spec.pip else ("pip",)))  # a pip part brings its own
        ),
        pip=tuple(text for text, _ in pip if text),
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


def further(pin: Pin, knowledge: Knowledge) -> bool:
    """Whether a pin is of a further package: no part of what the decision chooses."""
    return _role(pin, knowledge) is None and not pin.name.startswith("__")


def _package(pin: Pin, knowledge: Knowledge) -> Pin:
    """A further package, free of the channel and the build that were for another stack."""
    home = pin.channel if pin.channel.split("/")[0] not in _OURS else ""
    if knowledge.is_component(pin.name):
        return Pin(name=pin.name)
    variant = any(row.package == pin.name for row in knowledge.twins)
    return replace(
        pin, channel=home, version=pin.condition() if variant else pin.version, build="" if variant else pin.build
    )


def release_pins(pin: Pin) -> tuple[Pin, ...]:
    """What may stand for a pin without another release: other builds, and for Python the patches of its minor."""
    found = [pin]
    if pin.build:
        whole = pin.condition()
        word = "*cu*" if names_cuda(pin.build) else "*cpu*" if names_cpu(pin.build) else ""
        found += [replace(pin, build=word, version=whole)] if word else [replace(pin, build="", version=pin.version)]
    number = RELEASE.fullmatch(pin.version)
    if number and pin.name not in _TORCH and number[1].count(".") > 1:
        found.append(replace(pin, build="", version=".".join(number[1].split(".")[:2]) + ".*"))
    return tuple(found)


def _spec(pin: Pin | None) -> VersionSpec | None:
    try:
        return parse_version_spec(pin.version, what=pin.name) if pin and pin.version else None
    except UsageError:
        return None


def _number(pin: Pin | None) -> Version | None:
    found = NUMBERS.search(pin.version) if pin else None
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

    What a version spec admits is as near as can be: among the releases of ``>=2.0`` none is nearer than another.
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
    asked = NUMBERS.search(request.text) if request else None
    return abs(version(python).minor - version(asked[0]).minor) if asked else 0


def changes(
    spec: EnvironmentSpec,
    made: EnvironmentSpec,
    why: Mapping[str, str],
    knowledge: Knowledge,
    *,
    anew: bool,
    instead: Mapping[str, str],
) -> tuple[EntryChange, ...]:
    """What became of each entry of a file.

    Args:
        spec: as it was.
        made: the environment in its place.
        why: by name, why a package is not as it was.
        anew: whether torch and its CUDA were decided anew, by what the file meant.
        instead: by name, the package that takes the place of one that cannot be installed.
    """
    found = [_channels(spec, made, why.get(OF_CHANNELS, ""), anew=anew), _platforms(spec, made)]
    old = {pin.name for pin in spec.pins}
    by_cuda = made.pin("pytorch-cuda") if "pytorch-cuda" not in old else None
    by_gpu = made.pin("tensorflow") if "tensorflow" not in old else None
    for pin in spec.pins:
        same = made.pin(pin.name) or {"cudatoolkit": by_cuda, "tensorflow-gpu": by_gpu}.get(pin.name)
        old |= {same.name} if same else set()
        by_pip = next((text for text in made.pip if text not in spec.pip and requirement_name(text) == pin.name), "")
        became = f"pip: {by_pip}" if by_pip else instead.get(pin.name, "")
        if same is None and became:
            reason = why.get(pin.name, "")
            found.append(EntryChange(entry=pin.yaml_text(), fate="replaced", became=became, why=reason))
            continue
        found.append(_change(pin, made, why, knowledge) if anew else _moved(pin, same, why))
    added = [pin for pin in made.pins if pin.name not in old and not anew]
    found += [EntryChange(entry=pin.yaml_text(), fate="added", why=why.get(pin.name, "")) for pin in added]
    return (*(item for item in found if item), *_pip_changes(spec, made, why, knowledge))


def _channels(spec: EnvironmentSpec, made: EnvironmentSpec, why: str, *, anew: bool) -> EntryChange | None:
    if spec.channels == made.channels:
        return EntryChange(entry=f"channels {', '.join(spec.channels)}", fate="kept", why=why) if why else None
    more = made.channels[len(spec.channels) :]
    if not anew and spec.channels and made.channels[: len(spec.channels)] == spec.channels:
        lacking = "the file's channels do not have everything that it lists"
        return EntryChange(entry=f"channels {', '.join(more)}", fate="added", why=lacking)
    return EntryChange(
        entry=f"channels {', '.join(spec.channels) or '(none)'}",
        fate="replaced",
        became=", ".join(made.channels),
        why="; ".join(
            filter(
                None, ("all CUDA components must come from one channel" if made.ours and wants_one(made) else "", why)
            )
        ),
    )


def wants_one(made: EnvironmentSpec) -> bool:
    """Whether an environment brings CUDA, whose components come from one channel."""
    return any(pin.role == "pytorch-cuda" for pin in made.pins)


def _platforms(spec: EnvironmentSpec, made: EnvironmentSpec) -> EntryChange | None:
    lost = [item for item in spec.platforms if item not in made.platforms]
    if not lost:
        return None
    here = ", ".join(made.platforms)
    why = f"a repair is for one platform, here {here}; for several use cuenv resolve with --platform for each"
    return EntryChange(entry=f"platforms {', '.join(lost)}", fate="dropped", why=why)


def _pip_changes(
    spec: EnvironmentSpec, made: EnvironmentSpec, why: Mapping[str, str], knowledge: Knowledge
) -> Iterator[EntryChange]:
    """What became of each line of the pip part, and what was added to it."""
    left = [text for text in made.pip if text not in spec.pip]
    broken = {item.text: item for item in read_lines(spec.pip).wrong}
    for text in spec.pip:
        parts = [line for part in broken[text].better for line in left if _same(part, line)] if text in broken else []
        if parts:
            left = [line for line in left if line not in parts]
            became, reason = ", ".join(parts), broken[text].why
            yield EntryChange(entry=f"pip: {text}", fate="replaced", became=became, why=reason)
            continue
        name = "" if text.startswith("-") else requirement_name(text)
        same = next((line for line in left if name and requirement_name(line) == name), None)
        better, change = _requirement(text, knowledge)
        if text in made.pip:
            yield EntryChange(entry=f"pip: {text}", fate="kept")
        elif same is None:
            reason = change.why if change.fate == "dropped" else why.get(name, "")
            yield EntryChange(entry=f"pip: {text}", fate="dropped", why=reason)
        else:
            left.remove(same)
            reason = change.why if same == better else why.get(name, "")
            yield EntryChange(entry=f"pip: {text}", fate="replaced", became=same, why=reason)
    for text in left:
        yield EntryChange(entry=f"pip: {text}", fate="added", why=why.get(text, ""))


def _same(part: str, line: str) -> bool:
    """Whether a line is the one that a repair wrote, perhaps in another release by now."""
    return part == line or ("-" not in (part[:1], line[:1]) and requirement_name(part) == requirement_name(line))


def _moved(pin: Pin, same: Pin | None, why: Mapping[str, str]) -> EntryChange:
    """An entry and what stands in its place: kept where the release may be as it was asked for."""
    text, reason = pin.yaml_text(), why.get(pin.name, "")
    if same is None:
        return EntryChange(entry=text, fate="dropped", why=reason)
    if same.yaml_text() == text:
        return EntryChange(entry=text, fate="kept")
    if _same_release(pin, same):
        return EntryChange(entry=text, fate="kept", became=same.yaml_text(), why=reason or _of_build(pin, same))
    return EntryChange(entry=text, fate="replaced", became=same.yaml_text(), why=reason)


def _of_build(pin: Pin, same: Pin) -> str:
    return "the build string excludes the CPU variant" if "cu" in same.build and not pin.build else ""


def _same_release(pin: Pin, same: Pin) -> bool:
    if pin.condition() in ("", same.condition()):
        return True
    asked, now = RELEASE.fullmatch(pin.version), RELEASE.fullmatch(same.version)
    if asked and now:
        return asked[1] == now[1]
    return same.condition().startswith(f"{pin.condition()},") or same.condition().endswith(f",{pin.condition()}")


def _change(pin: Pin, made: EnvironmentSpec, why: Mapping[str, str], knowledge: Knowledge) -> EntryChange:
    text, role = pin.yaml_text(), _role(pin, knowledge)
    same = made.pin("pytorch" if role == "pytorch" else pin.name)
    if role == "cpu" and same is None:
        return _of_mutex(pin, made)
    if role in ("pytorch", "python") and same:
        return _versioned(pin, same, role)
    if role in ("pytorch-cuda", "cudatoolkit-dev", "cudnn", "nccl"):
        return _filled(pin, made, role, knowledge)
    if same is None and role == "pip":
        return EntryChange(entry=text, fate="dropped", why="no pip requirement is left")
    if same and role == "pip" and pin.version and not same.version:
        free = "any release of pip installs what is locked"
        return EntryChange(entry=text, fate="replaced", became=same.yaml_text(), why=free)
    return _moved(pin, same, why)


def _of_mutex(pin: Pin, made: EnvironmentSpec) -> EntryChange:
    """What became of a package that only says CPU or CUDA."""
    torch, text = made.pin("pytorch"), pin.yaml_text()
    if torch is None or (wants_one(made) and (names_cpu(pin.build) or pin.name != "pytorch-mutex")):
        return EntryChange(entry=text, fate="dropped", why="it forces the CPU build" if torch else "")
    why = "the build string of torch chooses between CPU and CUDA"
    return EntryChange(entry=text, fate="replaced", became=torch.yaml_text(), why=why)


def _versioned(pin: Pin, same: Pin, role: str) -> EntryChange:
    request, number = _spec(pin), _number(same)
    if pin.build and same.build != pin.build:
        why = "the nearest build that fits the host and that the channels can satisfy"
        return EntryChange(entry=pin.yaml_text(), fate="replaced", became=same.yaml_text(), why=why)
    if request is None or (number is not None and (request.admits(number) or _prefixes(request, number))):
        other = "CUDA" if names_cpu(same.build) else "CPU"
        why = f"the build string excludes the {other} build" if role == "pytorch" else ""
        return EntryChange(entry=pin.yaml_text(), fate="kept", became=same.yaml_text(), why=why)
    nearest = "the release nearest to it that the channels can satisfy"
    why = nearest if role == "pytorch" else "the PyTorch build that was chosen exists for this Python"
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
        torch = made.pin("pytorch")
        became = torch.yaml_text() if torch else ""
        return EntryChange(entry=pin.yaml_text(), fate="replaced", became=became, why="this PyTorch build contains it")
    same = made.pin(pin.name)
    if same and (not pin.version or _same_release(pin, same)):
        why = same.why[0] if same.version and same.why else "from the one CUDA channel"
        return EntryChange(entry=pin.yaml_text(), fate="kept", became=same.yaml_text(), why=why)
    old, new = _number(pin), next((found for name in _RUNTIME if (found := _number(made.pin(name)))), None)
    if role == "pytorch-cuda" and old and new and minor(old) != minor(new):
        why += f"; the PyTorch build that was chosen goes with CUDA {new}"
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
