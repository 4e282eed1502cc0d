"""Drafts: environments that may take the place of a file, and what became of its entries in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from packaging.version import Version

from cuenv.core.record import dataclass, field, replace
from cuenv.core.urls import short_channel
from cuenv.core.versions import minor as series
from cuenv.core.versions import version
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.repair.intent import further, release_pins
from cuenv.lockfile.repair.relax import forms_of
from cuenv.resolver.asked_cuda import CPU_PACKAGES, of_nvidia, version_spec_of
from cuenv.resolver.asked_torch import CONDA_TORCHES
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.requirements import OF_TORCH
from cuenv.solve.environment_spec import RELEASE, EnvironmentSpec, Pin, requirement_name
from cuenv.solve.environment_yml import parse, render
from cuenv.solve.model import Solution, build_cuda, names_cpu, names_cuda

if TYPE_CHECKING:  # the solver is heavy
    from cuenv.solve.io.records import RecordIndex

_OLDEST, _NEWEST = 5, 20  # minors of Python 3 that are looked for
FORGE = "conda-forge"
CORE = (*CONDA_TORCHES, "python", "pytorch-cuda", "cuda-version", "cudatoolkit")
"""Packages whose release is meant as it is written, as long as that can be."""
TOGETHER = "cannot be satisfied together with the rest"
"""Why something else stands for an entry, as long as nobody knows what of the rest it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMinors:
    """The minors of torch and of Python 3 that are kept to; ``None`` where any will do."""

    torch: Version | None = None
    python: int | None = None

    def __str__(self) -> str:
        kept = [f"torch {self.torch}"] if self.torch else []
        kept += [f"python 3.{self.python}"] if self.python else []
        return " and ".join(kept) or "any torch and any Python"

    def takes(self, item: Assessment) -> bool:
        """Whether a candidate keeps to them."""
        build, python = item.candidate.build, item.candidate.python
        return self.torch in (None, series(build.version)) and self.python in (None, version(python).minor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An environment that may take the place of the file."""

    spec: EnvironmentSpec
    bound: frozenset[str] = frozenset()  # names of pins that stand as they are
    why: tuple[tuple[str, str], ...] = ()  # by name, why an entry is not as it was
    anew: bool = False  # torch and its CUDA were decided anew, by what the file meant
    lost: frozenset[str] = frozenset()  # names of entries that the solver could not install
    instead: tuple[tuple[str, str], ...] = ()  # of those, and the package that excludes each and takes its place
    near: KeptMinors = field(default_factory=KeptMinors)  # the minors of torch and of Python that it keeps to

    def noting(self, names: Iterable[str], why: str) -> Draft:
        """With a reason for what became of some entries, where none was given."""
        have = dict(self.why)
        return replace(self, why=(*self.why, *((name, why) for name in names if name not in have)))

    def saying(self, reasons: Mapping[str, str]) -> Draft:
        """With other reasons for what became of some entries."""
        return replace(self, why=(*(item for item in self.why if item[0] not in reasons), *reasons.items()))

    def losing(self, name: str) -> Draft:
        """Without an entry: what was said of another release of it is no longer why."""
        return replace(self, lost=self.lost | {name}, why=tuple(item for item in self.why if item[0] != name))


def with_torch_of_pip(draft: Draft) -> Draft:
    """A draft whose torchvision and torchaudio come from pip where its torch does: those of conda bring another."""
    spec = draft.spec
    names = {requirement_name(text) for text in spec.pip if not text.startswith("-")}
    moved = [pin for pin in spec.pins if pin.name in OF_TORCH and torch_of(spec) is None and "torch" in names]
    if not moved:
        return draft
    lines = (*spec.pip, *(pin.name for pin in moved if pin.name not in names))
    pins = tuple(pin for pin in spec.pins if pin not in moved)
    why = "torch comes from pip, and the package of conda would bring another torch"
    return replace(draft, spec=replace(spec, pins=pins, pip=lines)).noting([pin.name for pin in moved], why)


def with_cpu_torch(draft: Draft, index: RecordIndex) -> Draft:
    """A draft that asks for the CPU build by the build string of torch where the channels have no other way to."""
    spec, torch = draft.spec, draft.spec.pin("pytorch")
    listed = [pin for pin in spec.pins if pin.name in CPU_PACKAGES]
    if torch is None or torch.build or not listed or any(index.has(Pin(name=pin.name)) for pin in listed):
        return draft
    cpu = replace(torch, version=torch.condition().removeprefix("=="), build="*cpu*")
    pins = tuple(cpu if pin == torch else pin for pin in spec.pins if pin not in listed)
    why = f"the channels have no {listed[0].name}, and the build string of torch asks for the CPU build as well"
    return replace(draft, spec=replace(spec, pins=pins)).noting([torch.name, *(pin.name for pin in listed)], why)


def with_tensorflow(draft: Draft, index: RecordIndex) -> Draft:
    """A draft with the CUDA build of tensorflow in place of tensorflow-gpu, which requires just that, if it is gone."""
    spec, old = draft.spec, draft.spec.pin("tensorflow-gpu")
    new = Pin(name="tensorflow", version=old.version if old else "", build="*cuda*")
    if not old or spec.pin(new.name) or index.has(Pin(name=old.name)) or not index.has(replace(new, version="")):
        return draft
    pins = tuple(new if pin == old else pin for pin in spec.pins)
    why = f"the channels have no {old.name} for {index.platform}, which only requires a CUDA build of {new.name}"
    return replace(draft, spec=replace(spec, pins=pins)).noting([old.name], why)


def without_triton(draft: Draft) -> Draft | None:
    """A draft whose pip part names no triton, which binds it to one release of torch; ``None`` where it names none."""
    lines = tuple(text for text in draft.spec.pip if text.startswith("-") or requirement_name(text) != "triton")
    return replace(draft, spec=replace(draft.spec, pip=lines)) if lines != draft.spec.pip else None


def pythons_near(pin: Pin, index: RecordIndex, *, only: int | None = None) -> Iterator[Pin]:
    """What may stand for the Python of a file: its release, its minor, the nearest minors, any; or one minor."""
    asked = minor_of(pin)
    if asked is None:
        yield from (form for form in forms_of(pin) if index.has(form))
        return
    forms = [*release_pins(pin)]
    minors = sorted(range(_OLDEST, _NEWEST), key=lambda minor: (abs(minor - asked), minor < asked))
    minors = [minor for minor in minors if only in (None, minor)]
    forms += (replace(pin, version=f"3.{minor}.*", build="") for minor in minors)
    forms += [replace(pin, version="", build="")] if only is None else []
    yield from (form for form in dict.fromkeys(forms) if index.has(form))


def with_core(draft: Draft, torch: Pin, solution: Solution, knowledge: Knowledge, *, build: str = "*cuda*") -> Draft:
    """A draft with the torch of a solution, and with its Python, CUDA and libraries of torch where they differ.

    Args:
        draft: to begin with.
        torch: its entry for torch.
        solution: with another torch.
        knowledge: the tables.
        build: which builds of that torch are meant, if it is for CUDA.
    """
    from cuenv.solve.io.solver import matches  # noqa: PLC0415 - the solver is heavy

    pins: list[Pin] = []
    by_cuda = solution.package("pytorch-cuda")
    for pin in draft.spec.pins:
        package = solution.package(pin.name)
        if pin.name == "cudatoolkit" and package is None and by_cuda and not draft.spec.pin("pytorch-cuda"):
            pins.append(Pin(name="pytorch-cuda", version=by_cuda.version, channel=torch.channel))
            draft = draft.noting([pin.name, "pytorch-cuda"], "this torch takes its CUDA by pytorch-cuda")
            continue
        if package is None or (pin != torch and matches(pin.match_spec(), package)):
            pins.append(pin)
        elif pin == torch or pin.name in OF_TORCH:
            cuda = pin == torch and build_cuda(package.build)
            pins.append(replace(pin, version=package.version, build=build if cuda else of_variant(pin)))
        elif pin.name == "python" or not further(pin, knowledge):
            pins.append(replace(pin, version=str(series(version(package.version))), build=""))
            how = "was found beside" if pin.name == "pip" else "goes with"
            draft = draft.noting([pin.name], f"the release that {how} that torch")
        else:
            pins.append(pin)
    why = "the nearest release that was found beside which the channels have the other entries"
    moved = replace(draft, spec=replace(draft.spec, pins=tuple(pins)), bound=draft.bound | {torch.name})
    return moved.noting([torch.name], why).noting(OF_TORCH, "the release for that torch")


def with_entries(draft: Draft, entries: Sequence[Pin], chosen: Sequence[Pin | None], index: RecordIndex) -> Draft:
    """A draft with what was chosen for some of its entries, and why each is not as it was."""
    by_name = dict(zip((pin.name for pin in entries), zip(entries, chosen, strict=True), strict=True))
    pins: list[Pin] = []
    channels = ", ".join(map(short_channel, draft.spec.channels or ("defaults",)))
    for pin in draft.spec.pins:
        old, new = by_name.get(pin.name, (pin, pin))
        pins += [new] if new else []
        if new is None or (old.condition() not in ("", new.condition()) or (old.build and new.build != old.build)):
            bare = old.yaml_text() if new else old.name
            asked = old if new else Pin(name=old.name)
            if index.unhashed(asked):
                why = f"the record of {bare} has neither sha256 nor md5: a lock file cannot pin it"
            elif not index.has(asked):
                why = f"the channels have no {bare} for {index.platform}: {channels}"
            else:
                why = f"{bare} {TOGETHER}"
            draft = (draft if new else draft.losing(old.name)).noting([old.name], why)
    return replace(draft, spec=replace(draft.spec, pins=tuple(pins)))


def forge_first(channels: Sequence[str]) -> tuple[str, ...] | None:
    """Channels with conda-forge before what hides its libraries; ``None`` where that is so.

    That is ``pytorch``, which has a few old libraries, and without it ``nvidia``, whose CUDA libraries are not those
    that torch of conda-forge is built with.
    """
    short = list(map(short_channel, channels))
    if FORGE not in short:
        return None
    forge = short.index(FORGE)
    if "pytorch" in short[:forge]:
        home = channels[short.index("pytorch")]
        nvidia = [item for item in channels if of_nvidia(item)]
        return (*nvidia, *(item for item in channels if item not in (home, *nvidia)), home)
    if "pytorch" not in short and any(map(of_nvidia, channels[:forge])):
        return (channels[forge], *channels[:forge], *channels[forge + 1 :])
    return None


def of_torch(pin: Pin) -> bool:
    """Whether a pin is of torch, of what decides with it, or of a library of torch."""
    return pin.name in CORE or pin.name.startswith("torch")


def torch_of(spec: EnvironmentSpec) -> Pin | None:
    """The pin of torch of an environment."""
    return next((pin for name in CONDA_TORCHES if (pin := spec.pin(name))), None)


def kept_minors(spec: EnvironmentSpec) -> dict[KeptMinors, int]:
    """The minors of torch and Python that a file names, then less of that, with the place of each."""
    pin = torch_of(spec)
    torch, python = (series_of(pin) if pin else None), minor_of(spec.pin("python"))
    found: dict[KeptMinors, int] = {}
    order = (KeptMinors(torch=torch, python=python), KeptMinors(torch=torch), KeptMinors(python=python), KeptMinors())
    for place, near in enumerate(order):
        found.setdefault(near, place)
    return found


def losses(draft: Draft) -> tuple[int, int]:
    """How much a draft has lost; of torchvision and torchaudio first."""
    return len(draft.lost.intersection(OF_TORCH)), len(draft.lost)


def of_variant(torch: Pin) -> str:
    """The build string of the CUDA or CPU variant that a pin asks for."""
    return "*cuda*" if names_cuda(torch.build) else "*cpu*" if names_cpu(torch.build) else ""


def series_of(pin: Pin) -> Version | None:
    """The release X.Y that a pin names."""
    numbers = _numbers(pin)
    return version(".".join(map(str, numbers[:2]))) if len(numbers) > 1 else None


def minor_of(python: Pin | None) -> int | None:
    """The minor of Python 3 that a pin names."""
    numbers = _numbers(python)
    return numbers[1] if len(numbers) > 1 and numbers[0] == 3 else None


def _numbers(pin: Pin | None) -> tuple[int, ...]:
    """The numbers of the release or series that a pin names, exactly (``==3.11``) or as a prefix; none of a range."""
    asked = version_spec_of(pin)
    exact = RELEASE.fullmatch(pin.version) if pin and asked and asked.prefix is None else None
    return tuple(map(int, exact[1].split("."))) if exact else (asked.prefix or ()) if asked else ()


def as_read(spec: EnvironmentSpec) -> EnvironmentSpec:
    """An environment as a reader of its file gets it."""
    read = parse(render(replace(spec, constrained=())), "environment.yml")[0]
    return replace(read, ours=spec.ours, constraints=spec.constraints, constrained=spec.constrained)
