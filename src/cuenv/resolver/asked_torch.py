"""What the pip part of an environment file asks of torch, and the wheels that it admits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeAlias

from packaging.version import Version

from cuenv.core.record import NamedTuple, replace
from cuenv.core.regex import regex
from cuenv.core.versions import VersionSpec, version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Extension, TorchBuild, TorchWheel
from cuenv.resolver.candidates import Candidate, admits, wheel_candidates
from cuenv.resolver.requirements import Demand, meets, pip_demand
from cuenv.solve.environment_spec import index_option, requirement_name

PYTORCH_INDEX = regex(r"https?://download\.pytorch\.org/whl(?:/(?P<tag>cu\d{2,3}|cpu|rocm[0-9.]+|xpu))?(?:/|$)")
TAG = regex(r"cu\d{2,3}")
_OTHERS = ("cpu", "rocm", "xpu")  # how the tags begin of wheels that use no NVIDIA GPU
_MAIN_INDEX = ("-i", "--index-url")
EXACT = regex(r"={2,3}([0-9.]+(?:post[0-9]+)?)")
_WHEEL_FILE = regex(
    r"(?:torch\s*@\s*)?(?:https?|file)://\S*/torch-(?P<release>[0-9.]+(?:\.?post[0-9]+)?)"
    r"(?:(?:%2B|\+)(?P<tag>[a-z0-9.]+))?-cp[0-9]+-[a-z0-9_]+-(?:many)?linux\S*\.whl(?:#\S*)?\s*(?:;.*)?",
    re.IGNORECASE,
)
"""One wheel of torch for Linux, by its place."""
CONDA_TORCHES = ("pytorch", "pytorch-gpu", "pytorch-cpu")
"""The torches of conda, beside which another from pip is a mistake of its own."""


class AskedTorch(NamedTuple):
    """What a pip part asks of torch."""

    text: str  # the requirement as it is written
    demand: Demand  # its condition on the release, without a local version
    exact: Version | None  # the one release that it names; ``None`` for a range
    tag: str  # the local version that it names: ``cu118``, ``cpu``; empty for none
    tags: tuple[str, ...]  # the tags of PyTorch's own indexes that the pip part names
    pypi: bool  # whether PyPI is asked as well
    elsewhere: bool  # whether it names an index of others, or the page of all tags: nobody knows which wheels are there
    anywhere: bool  # whether it names one beside PyPI or its mirror, or that page, from which any wheel may come

    @property
    def of_cpu(self) -> bool:
        """Whether it asks for a CPU build."""
        return all(tag.startswith(_OTHERS) for tag in ([self.tag] if self.tag else self.tags or [""]))

    def has(self, row: TorchWheel) -> bool:
        """Whether a wheel is one that the requirement and the indexes admit."""
        if not self.demand.admits(row.version):
            return False
        if self.tag or self.anywhere:
            return self.tag in ("", row.build)
        return ("index" in row.comes and row.build in self.tags) or (self.pypi and "pypi" in row.comes)

    def rank(self, row: TorchBuild) -> int:
        """Which of several wheels of one release pip takes first: one of an index that is named, then PyPI's."""
        if not self.exact or row.build in self.tags:
            return 0
        return 1 if isinstance(row, TorchWheel) and "pypi" in row.comes else 2


def torch_asked(requirements: Iterable[str]) -> AskedTorch | None:
    """What a pip part asks of torch; ``None`` where it asks for none on Linux, or by a URL that names no release."""
    lines = tuple(requirements)
    options = [option for option in map(index_option, lines) if option]
    main = [option for option in options if option[0] in _MAIN_INDEX]
    options = [option for option in options if option not in main[:-1]]  # of several pip takes the last
    own = [(option, found["tag"]) for option, url in options if (found := PYTORCH_INDEX.match(url))]
    tags = tuple(dict.fromkeys(tag for _, tag in own if tag))
    alone = any(option in _MAIN_INDEX for option, _ in own)
    # The page of all tags, also one that a variable of a shell names; of nightly builds nobody knows which are there.
    whole = any(PYTORCH_INDEX.match(url) and "/nightly" not in url for _, url in options) and not all(
        tag for _, tag in own
    )
    for line in lines:
        text = wheel_as_requirement(line) or line
        demand = pip_demand(text) if requirement_name(text) == "torch" else None
        if demand is None or not on_linux(text):
            continue
        condition, _, local = demand.condition.partition("+")
        named = EXACT.fullmatch(condition)
        exact = version(named[1]) if named else None
        foreign = [option for option, url in options if (found := PYTORCH_INDEX.match(url)) is None or not found["tag"]]
        return AskedTorch(
            text=demand.text.strip(),
            demand=replace(demand, condition=condition),
            exact=exact,
            tag=local,
            tags=tags,
            pypi=not alone,
            elsewhere=bool(foreign) or text != line,
            anywhere=any(option not in _MAIN_INDEX for option in foreign) or whole,
        )
    return None


def wheel_as_requirement(line: str) -> str:
    """The release of torch that a line names by the file of its wheel, as a requirement; empty for another line."""
    found = _WHEEL_FILE.fullmatch(line.strip())
    return f"torch=={found['release']}{'+' if found['tag'] else ''}{found['tag'] or ''}" if found else ""


_Place: TypeAlias = tuple[str, int]  # a machine, and the minor of a Python 3
_ANYWHERE = frozenset((machine, minor) for machine in ("x86_64", "aarch64") for minor in range(6, 16))


@lru_cache(maxsize=256)
def places_on_linux(marker: str, extra: str = "") -> frozenset[_Place]:
    """Where on Linux a marker holds; everywhere for one that nobody can read."""
    if not marker.strip():
        return _ANYWHERE
    from packaging.markers import InvalidMarker, Marker, UndefinedComparison  # noqa: PLC0415 - few lines have one

    of_linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": extra}
    try:
        found = Marker(marker.strip())
        return frozenset(
            (machine, minor)
            for machine, minor in _ANYWHERE
            if found.evaluate(
                of_linux
                | {"platform_machine": machine, "python_version": f"3.{minor}", "python_full_version": f"3.{minor}.9"}
            )
        )
    except (InvalidMarker, UndefinedComparison):
        return _ANYWHERE


def on_linux(text: str) -> frozenset[_Place]:
    """Where on Linux the marker of a requirement holds."""
    return places_on_linux(text.partition(";")[2])


def library_requiring_torch(requirements: Iterable[str], knowledge: Knowledge) -> tuple[str, Version | None] | None:
    """The first library of a pip part that requires one release of torch, else the first that requires any.

    ``None`` for the release where it is another condition, and for all where the tables know no such library, or the
    pip part names a torch by its URL.
    """
    lines = tuple(requirements)
    first: tuple[str, Version | None] | None = None
    for text in lines if "torch" not in map(requirement_name, lines) else ():
        demand = None if not on_linux(text) else pip_demand(text)
        rows = knowledge.extension(demand.name) if demand else ()
        rows = tuple(row for row in rows if row.torch and "wheel" in row.comes and row.package != "triton")
        if demand is None or not rows:
            continue
        exact = EXACT.fullmatch(demand.condition)
        spans = {row.torch.span for row in rows if row.torch and exact and row.covers(version(exact[1]))}
        one = re.fullmatch(r"[0-9.]+", spans.pop()) if len(spans) == 1 else None
        if one:
            return text, version(one[0])
        first = first or (text, None)
    return first


def wheels_asked(
    asked: AskedTorch, platform: str, python: VersionSpec | None, knowledge: Knowledge, beside: Iterable[str] = ()
) -> tuple[Candidate, ...]:
    """The wheels for CUDA that a pip part admits, each with the Python that suits it best.

    Args:
        beside: what pip resolves together with torch; a release of torch that this rules out is taken by nobody. Where
            it rules out all of them, another finding says so.
    """
    rows = [row for row in wheels_here(platform, python, knowledge) if asked.has(row)]
    others = [] if asked.exact else [item for line in beside if on_linux(line) and (item := pip_demand(line))]
    suits = [row for row in rows if all(goes_with(row, item, knowledge) for item in others if item.condition)]
    able = {row.key for row in suits or rows}
    return tuple(item for item in wheel_candidates(knowledge, platform, python) if item.build.key in able)


def goes_with(row: TorchWheel, demand: Demand, knowledge: Knowledge) -> bool:
    """Whether pip can install a wheel of torch with a release of another package that a requirement admits."""
    for pin in filter(None, map(pip_demand, row.pins)):
        if pin.name == demand.name:
            return any(pin.admits(point) and demand.admits(point) for point in (*pin.points(), *demand.points()))
    every = tuple(each for each in knowledge.extension(demand.name) if each.torch and "wheel" in each.comes)
    if demand.name == "triton":  # each torch from 2.0 on requires one
        mine = [each for each in every if made_for_any(each, (row.version,))]
        return not mine or any(meets(demand, each) for each in mine)
    if any("wheel" not in each.comes and each.builds for each in knowledge.extension(demand.name)):
        return True  # pip compiles it for whatever torch is there
    meant = [each for each in every if meets(demand, each)]
    if not meant or any(made_for_any(each, (row.version,)) for each in meant):
        return True
    later = [wheel.version for wheel in knowledge.wheels if wheel.version > row.version]
    return demand.admits(_LAST) and not any(made_for_any(each, later) for each in meant)


_LAST = version("9999")


def wheels_here(platform: str, python: VersionSpec | None, knowledge: Knowledge) -> Iterator[TorchWheel]:
    """The CUDA wheels of torch for a platform, and for a Python that is asked for."""
    for row in knowledge.wheels:
        if row.platform == platform and row.cuda and (not python or any(admits(python, each) for each in row.pythons)):
            yield row


def made_for_any(row: Extension, releases: Iterable[Version]) -> bool:
    """Whether a library is made for one of some releases of torch."""
    return row.torch is not None and any(map(row.torch.admits, releases))
