"""Libraries built on torch, as they are requested: which releases a spec admits, and which of them are broken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from packaging.version import Version

from cuenv.core.findings import FileEdit, Finding
from cuenv.core.record import dataclass, replace
from cuenv.core.versions import releases_named, satisfies, version, version_or_none
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Extension, Regression, TorchWheel
from cuenv.solve.environment_spec import NVCC, EnvironmentSpec, Pin, normalise, together
from cuenv.solve.pip_lines import without_options

_FIRST, _LAST = version("0"), version("9999")
_WHOLE_TOOLKIT = ("cuda", "cuda-toolkit", "cuda-libraries-dev", "cuda-toolkit-dev", "cudatoolkit-dev")
"""Metapackages that bring every header of the toolkit."""
_TOOLS = {"gxx": ("gxx", "gxx_linux-*", "cxx-compiler", "gxx_impl_linux-*", "compilers"), "ninja": ("ninja",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A library that is asked for."""

    name: str
    text: str  # as it was asked for
    condition: str  # on its releases, in the notation of pip; empty for any
    ways: tuple[str, ...]  # in which it may come, as in `Extension.comes`

    def admits(self, release: Version) -> bool:
        """Whether a release satisfies the condition."""
        return not self.condition or satisfies(release, self.condition)

    def excludes(self, other: Demand) -> bool:
        """Whether no release satisfies both conditions, by the releases that they name."""
        points = (_FIRST, *self.points(), *other.points(), _LAST)
        return bool(self.condition and other.condition) and not any(
            self.admits(point) and other.admits(point) for point in points
        )

    def points(self) -> tuple[Version, ...]:
        """The releases that the condition names, each with one right after it."""
        if not self.condition:
            return ()
        named = [version_or_none(text.removesuffix(".*")) for text in releases_named(self.condition)]
        return tuple(point for item in named if item for point in (item, _after(item)))


def _after(release: Version) -> Version:
    return version(f"{release.base_version}.0.0.1")


@lru_cache(maxsize=512)
def pip_demand(text: str) -> Demand | None:
    """A requirement of pip; ``None`` for one that names no release range (a URL, a path, an option)."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - few requests ask pip for anything

    text, _ = without_options(text)
    try:
        found = Requirement(text)
    except InvalidRequirement:
        return None
    if found.url:
        return None
    return Demand(name=normalise(found.name), text=text, condition=str(found.specifier), ways=("source", "wheel"))


def pin_demand(pin: Pin) -> Demand | None:
    """A conda requirement; ``None`` for one whose condition has no like in the notation of pip."""
    condition = pin.condition()
    if condition and condition[0] not in "<>=!~":
        # Three numbers name one release to people, and to conda a prefix of it.
        condition = f"=={condition.removesuffix('.*') if condition.count('.') > 2 else condition}"
    try:
        Demand(name=pin.name, text="", condition=condition, ways=()).points()
    except ValueError:
        return None
    ways = (pin.channel,) if pin.channel in ("conda-forge", "pytorch") else ("conda-forge", "pytorch")
    return Demand(name=pin.name, text=pin.yaml_text(), condition=condition, ways=ways)


def over_pins(findings: Iterable[Finding], spec: EnvironmentSpec) -> Iterator[Finding]:
    """Findings whose fix replaces an entry of the file where a bound beside it would contradict it."""
    for item in findings:
        edits = tuple(new for edit in item.edits for new in _over_pins(edit, spec))
        yield item if edits == item.edits else replace(item, fix=None, edits=edits)


def _over_pins(edit: FileEdit, spec: EnvironmentSpec) -> Iterator[FileEdit]:
    from cuenv.solve.match_spec import parse_spec  # noqa: PLC0415 - its patterns cost 2 ms

    added = []
    for text in edit.entries if edit.how == "add" and not edit.pip else ():
        pin = parse_spec(text)
        new = pin_demand(pin)
        olds = [(old, demand) for old in spec.pins if old.name == pin.name and (demand := pin_demand(old))]
        gone = next((old for old, demand in olds if new and new.condition and demand.excludes(new)), None)
        if gone:
            kept = text if pin.channel or not gone.channel else replace(pin, channel=gone.channel).yaml_text()
            yield FileEdit(how="write", entries=(kept,), over=gone.yaml_text())
        else:
            added.append(text)
    if len(added) == len(edit.entries) or edit.how != "add" or edit.pip:
        yield edit
    elif added:
        yield replace(edit, entries=tuple(added))


@lru_cache(maxsize=64)
def demands(packages: tuple[str, ...], pip: tuple[str, ...]) -> tuple[Demand, ...]:
    """What a request asks for, conda packages and requirements of pip; what cannot be read is left to who reads it."""
    if not packages and not pip:
        return ()
    from cuenv.solve.match_spec import parse_spec  # noqa: PLC0415 - its patterns cost 2 ms

    found = []
    for text in packages:
        try:
            found.append(pin_demand(parse_spec(text)))
        except ValueError:  # noqa: PERF203 - one bad spec among several is left to who reads it
            continue
    found += [pip_demand(text) for text in pip]
    return tuple(item for item in found if item)


def demands_of(spec: EnvironmentSpec, knowledge: Knowledge) -> tuple[Demand, ...]:
    """What an environment file asks for of the libraries that the tables know."""
    found = [*map(pin_demand, spec.pins), *map(pip_demand, spec.pip)]
    return tuple(item for item in found if item and (knowledge.extension(item.name) or knowledge.regression(item.name)))


@lru_cache(maxsize=4096)
def meets(demand: Demand, row: Extension, broken: tuple[Version, ...] = ()) -> bool:
    """Whether a demand admits any release that a row speaks of, broken ones left out."""
    if not set(row.comes) & set(demand.ways):
        return False
    start = row.first or _FIRST
    points = (*(row.releases or (start, _after(start))), *demand.points())
    return any(row.covers(point) and point not in broken and demand.admits(point) for point in points)


@lru_cache(maxsize=256)
def covered(demand: Demand, rows: tuple[Extension, ...], every: tuple[Extension, ...]) -> bool:
    """Whether rows speak of every release that a demand admits, from the first on that any row of ``every`` knows."""
    starts = [row.first or min(row.releases, default=_FIRST) for row in every if set(row.comes) & set(demand.ways)]
    bounds = [bound for row in rows for bound in (row.first, row.below, *row.releases) if bound]
    points = {*bounds, *map(_after, bounds), *demand.points(), _LAST}
    asked = [point for point in points if point >= min(starts) and demand.admits(point)]
    return all(any(row.covers(point) for row in rows) for point in asked)


def broken(demand: Demand, knowledge: Knowledge) -> tuple[tuple[Regression, tuple[Version, ...]], ...]:
    """The rows on broken releases of a library, each with those releases that a demand admits."""
    pairs = ((row, tuple(filter(demand.admits, row.releases))) for row in knowledge.regression(demand.name))
    return tuple((row, releases) for row, releases in pairs if releases)


def newest_is_broken(demand: Demand, knowledge: Knowledge) -> tuple[tuple[Regression, tuple[Version, ...]], ...]:
    """As `broken`, where a demand admits no release that mends it; of a range every resolver takes the newest."""
    return tuple(pair for pair in broken(demand, knowledge) if not demand.admits(pair[0].mended))


def _excluded(
    found: tuple[tuple[Regression, tuple[Version, ...]], ...], when: tuple[str, ...]
) -> tuple[list[str], tuple[str, ...]]:
    """What to add to a condition so that broken releases are out, and why."""
    hit = [(row, releases) for row, releases in found if row.when in when]
    parts = [f"!={item}" for _, releases in hit for item in releases]
    reasons = tuple(
        f"{row.package} {' and '.join(map(str, releases))} is excluded: {row.says} ({row.issue})"
        for row, releases in hit
    )
    return parts, reasons


def broken_when(offload: str) -> tuple[str, ...]:
    """What a team does that some releases are broken with."""
    return () if offload == "none" else ("offload",)


def pip_part(request: Request, knowledge: Knowledge) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The requirements of pip without the releases that are broken for this team, and why each is left out."""
    pairs = [without_broken(text, broken_when(request.offload), knowledge) for text in request.pip]
    return tuple(text for text, _ in pairs), tuple(reason for _, reasons in pairs for reason in reasons)


def with_libraries_by_pip(request: Request, knowledge: Knowledge) -> Request:
    """A request with the conda packages that use torch as requirements of pip: beside a wheel, theirs is one too."""
    from cuenv.solve.match_spec import parse_spec  # noqa: PLC0415 - its patterns cost 2 ms

    conda, pip = [], []
    for text in request.packages:
        try:
            demand = pin_demand(parse_spec(text))
        except ValueError:  # left to who reads it
            demand = None
        rows = knowledge.extension(demand.name) if demand else ()
        if demand and any({"source", "wheel"} & set(row.comes) for row in rows):
            pip.append(demand.name + demand.condition)
        else:
            conda.append(text)
    return replace(request, packages=tuple(conda), pip=(*request.pip, *pip)) if pip else request


OF_TORCH = ("torchaudio", "torchvision")
"""Libraries of PyTorch: each release is made for one torch, and its wheels lie beside those of that torch."""


def with_torch(text: str, build: TorchWheel, knowledge: Knowledge) -> str:
    """A requirement of pip beside a wheel of torch: of torchvision and torchaudio the release that is made for it."""
    demand = pip_demand(text)
    if demand is None or demand.name not in OF_TORCH or "index" not in build.comes:
        return text
    rows = [row for row in knowledge.extension(demand.name) if "wheel" in row.comes and row.torch]
    able = [row for row in rows if row.torch and row.torch.admits(build.version)]
    releases = [release for row in able for release in row.releases if demand.admits(release)]
    if releases:
        return with_condition(text, f"=={max(releases)}+{build.build}")
    first = max((row.first for row in able if row.first), default=None)
    return with_condition(text, f">={first}") if first and not demand.condition else text


def without_broken(text: str, when: tuple[str, ...], knowledge: Knowledge) -> tuple[str, tuple[str, ...]]:
    """A requirement of pip with the releases excluded that are broken ``when``, and the reasons."""
    demand = pip_demand(text) if when else None
    parts, reasons = _excluded(broken(demand, knowledge), when) if demand else ([], ())
    if demand is None or not parts:
        return text, ()
    body, mark, marker = text.partition(";")
    joint = "," if demand.condition else ""
    added = ",".join(parts)
    body = body.strip()
    changed = f"{body[:-1]}{joint}{added})" if body.endswith(")") else f"{body}{joint}{added}"
    return f"{changed} {mark}{marker}" if mark else changed, reasons


def with_condition(text: str, condition: str) -> str:
    """A requirement of pip with another condition on its releases; extras and marker stay as they are written."""
    body, mark, marker = text.strip().partition(";")
    extras = re.search(r"\[[^\]]*\]", body)
    name = re.match(r"[A-Za-z0-9._-]*", body)
    return f"{name[0] if name else ''}{extras[0] if extras else ''}{condition}{f' ;{marker}' if mark else ''}"


def pin_without_broken(pin: Pin, when: tuple[str, ...], knowledge: Knowledge) -> Pin:
    """A conda requirement with the releases excluded that are broken ``when``."""
    demand = pin_demand(pin) if when else None
    parts, reasons = _excluded(broken(demand, knowledge), when) if demand else ([], ())
    if not parts:
        return pin
    return replace(pin, version=together((pin.condition(), *parts)), why=(*pin.why, *reasons))


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRequirement:
    """What a library compiles with and an environment file does not list."""

    package: str
    what: str  # the header file, or ``nvcc``, ``ninja``, ``gxx``
    holder: str | None  # a package that brings it; ``None`` when no row knows one
    sources: tuple[str, ...]


def headers_missing(spec: EnvironmentSpec, knowledge: Knowledge) -> tuple[MissingRequirement, ...]:
    """What the libraries of an environment file compile with, on first use, and the file does not list."""
    names = {pin.name for pin in spec.pins}
    found: dict[tuple[str, str], MissingRequirement] = {}
    for demand in demands_of(spec, knowledge):
        rows = [row for row in knowledge.extension(demand.name) if meets(demand, row)]
        # Where some way of the library compiles nothing, nothing is missing.
        if not rows or any(row.nvcc is None for row in rows):
            continue
        for what, holder in _needs(rows[-1], names, knowledge):
            found[demand.name, what] = MissingRequirement(
                package=demand.name, what=what, holder=holder, sources=rows[-1].sources
            )
    return tuple(found.values())


def _needs(row: Extension, names: set[str], knowledge: Knowledge) -> Iterator[tuple[str, str | None]]:
    if not names & set(NVCC):
        yield "nvcc", "cuda-nvcc"
    if not names & set(_WHOLE_TOOLKIT):
        for header in row.headers:
            holder = knowledge.package_with_header(header)
            if holder is None or holder not in names:
                yield header, holder
    for tool in row.tools:
        if not any(fnmatchcase(name, glob) for name in names for glob in _TOOLS[tool]):
            yield tool, "gxx_linux-64" if tool == "gxx" else tool
