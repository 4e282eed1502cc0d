"""The pip part: what pip adds to the conda packages of one platform, and why it may not fit them.

What conda provides is a constraint and is never pulled again: a torch from pip over conda's is the classic way to break
a CUDA environment. Which conda package provides which distribution of PyPI is said by a small table
(``data/pip/names.json``), and else by the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest

from cuenv.core.record import dataclass, field
from cuenv.core.regex import regex
from cuenv.core.versions import version, version_or_none
from cuenv.host.facts import VirtualPackage
from cuenv.knowledge.rows import MACHINES
from cuenv.solve.environment_spec import NUMBERS, normalise, requirement_name
from cuenv.solve.model import LockedPackage, PipLocked
from cuenv.solve.pip_lines import PipOptions

_VARIANT = regex(r"\.post[1-9]\d\d$")
_PYTHONS = frozenset({"python", "python_abi"})
_GLIBC = ((2, 17), (2, 28), *((2, minor) for minor in range(31, 41)))  # the platforms manylinux_X_Y that uv knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Provided:
    """A distribution of PyPI that a conda package already installs."""

    name: str  # on PyPI, normalised
    version: str  # as PyPI writes it
    conda: str  # the conda package, such as ``pytorch``
    shown: str = ""  # its version and channel for people: ``2.5.1 from conda-forge``


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbuilt:
    """A package of which only a source distribution exists, and whose setup fails here."""

    name: str
    version: str  # of the source distribution; its URL where the requirement names that
    why: str  # the reason, a main clause
    build: bool = False  # whether its setup needs torch, or another package of the environment


@dataclass(frozen=True, slots=True, kw_only=True)
class PipRequest:
    """What is asked of uv."""

    requirements: tuple[str, ...]  # as pip reads them (PEP 508)
    python: str  # the locked Python, such as ``3.12.7``
    platform: str
    glibc: str | None = None  # lowest C library of the hosts, such as ``2.35``; ``None`` where it is unknown
    provided: tuple[Provided, ...] = ()  # what conda installs; a constraint that is never pulled
    prefer: tuple[PipLocked, ...] = ()  # packages of an existing lock that stay while they satisfy the rest
    constraints: tuple[str, ...] = ()  # further conditions on what is installed
    options: PipOptions = field(default_factory=PipOptions)  # indexes of the pip part
    unbuilt: tuple[Unbuilt, ...] = ()  # packages whose requirements nobody can read here; they are taken as they are
    # whether a build that only tells a package's requirements may download torch and CUDA libraries for it
    builds: bool = False
    as_of: str = ""  # the day (UTC) by which a file must have been uploaded to its index; empty for all files
    undated: tuple[str, ...] = ()  # packages that are taken although their index does not say when

    @property
    def machine(self) -> str:
        """The machine in the names of wheels: ``x86_64``."""
        return MACHINES[self.platform]

    @property
    def target(self) -> str:
        """The platform as uv names it, glibc rounded down: ``x86_64-manylinux_2_28``."""
        own = glibc_number(self.glibc)
        major, minor = max((item for item in _GLIBC if own is not None and item <= own), default=_GLIBC[0])
        return f"{self.machine}-manylinux_{major}_{minor}"


_UNBUILT = regex(r"Failed to (?:download and )?build `([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:==|@)\s*([^`]+)`")
_RAISED = regex(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*: ")
"""The first line of what an exception says; the lines behind it quote what it is about."""
_SHOWN = 4
_NO_MODULE = regex(r"No module named ['\"]([A-Za-z0-9_]+)")
LARGE = (
    *("torch", "torchvision", "torchaudio", "triton", "tensorflow", "tensorflow-cpu", "tensorflow-gpu", "jaxlib"),
    *("paddlepaddle", "paddlepaddle-gpu", "mxnet"),
)
"""Packages of hundreds of megabytes, most of which bring the CUDA libraries too."""


def unbuilt(text: str, request: PipRequest) -> Unbuilt | None:
    """The package whose setup failed, by uv's words; ``None`` where they speak of none."""
    found = _UNBUILT.search(text)
    if not found:
        return None
    name, number = normalise(found[1]), found[2].strip()
    tail = text[found.end() :]
    wanted = re.search(rf"you require ({'|'.join(LARGE)})<0", tail)
    if wanted:
        why = (
            f"its build requires {wanted[1]}, whose download with "
            "CUDA libraries takes gigabytes; --allow-builds permits it"
        )
        return Unbuilt(name=name, version=number, why=why, build=True)
    module = _NO_MODULE.search(tail)
    if module:
        there = {item.name for item in request.provided} | set(map(requirement_name, request.requirements))
        build = module[1] == "torch" or normalise(module[1]) in there
        where = ", which its isolated build does not have" if build else ", which it does not declare"
        return Unbuilt(name=name, version=number, why=f"its setup.py imports {module[1]}{where}", build=build)
    said = tail.partition("\nhint:")[0]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    raised = [line for line in lines[-_SHOWN:] if _RAISED.match(line)]
    last = (*lines, *raised)[-1].removeprefix("cause: ") if lines else "no reason was given"
    return Unbuilt(name=name, version=number, why=f"its setup.py fails: {last[:160]}")


# What uv says where no release of a package has a wheel for the Python, or for the platform.
_NO_PYTHON = regex(r"(\S+==\S+) has no wheels with a matching Python (?:ABI|version|implementation) tag")
_NO_PLATFORM = regex(r"(\S+) has no wheels with a matching platform tag")
_OTHER_PYTHON = regex(r"Python (?:ABI|implementation) tag|[Rr]equires-[Pp]ython|Python ?[<>=!~]=?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipConflict:
    """No packages satisfy the pip part, and what contradicts what."""

    text: str  # the resolver's own words
    parent: str = ""  # what demands it: ``vllm==0.11.1``; empty when only requirements contradict each other
    demand: str = ""  # what it demands: ``torch==2.9.0``
    provided: Provided | None = None  # what conda gives instead; ``None`` when conda has no part in it
    requirement: str = ""  # the line of the pip part that leads there
    # lines in other releases, proven by resolving again: ``vllm==0.7.0``; none where a few do not help
    repair: tuple[str, ...] = ()
    absent: str = ""  # the package that none of the indexes has, in no release; empty where the trouble is another
    then: tuple[str, ...] = ()  # the resolver's words on what else contradicts, once the lines before it are loosened

    @property
    def lacks_python(self) -> str:
        """The release that has no wheel for the Python, ``numba==0.56.4``; empty if there is none."""
        found = _NO_PYTHON.search(" ".join(self.text.split()))
        return found[1] if found else ""

    @property
    def lacks_platform(self) -> str:
        """The package of which no release has a wheel for the platform; empty if there is none."""
        found = _NO_PLATFORM.search(" ".join(self.text.split()))
        return found[1] if found else ""

    @property
    def other_python(self) -> bool:
        """Whether something of the pip part is for other Pythons."""
        return any(_OTHER_PYTHON.search(text) for text in (self.text, *self.then))

    def lines(self, requirements: Iterable[str]) -> Iterator[str]:
        """The lines of a pip part that lead there: the one that is named, then others of which the words speak."""
        if not self.requirement:
            return
        yield self.requirement
        named = {requirement_name(text) for text in self.text.split()}
        yield from (line for line in requirements if requirement_name(line) in named and line != self.requirement)


def abi_of(minor: tuple[int, int]) -> str:
    """The ABI tag of a CPython, as ``cp312``; before 3.8 it ends with the ``m`` of pymalloc (PEP 3149)."""
    return f"cp{minor[0]}{minor[1]}{'m' if minor < (3, 8) else ''}"


def glibc_number(text: str | None) -> tuple[int, int] | None:
    """``2.35`` as numbers; ``None`` for what is none."""
    found = re.match(r"(\d{1,3})\.(\d{1,3})", text or "")
    return (int(found[1]), int(found[2])) if found else None


def provided(packages: Iterable[LockedPackage], names: Mapping[str, str]) -> tuple[Provided, ...]:
    """What conda packages provide to pip: those of the table, and every one that runs on Python, by its own name.

    Args:
        names: conda names and the names on PyPI, where they differ.
    """
    found: dict[str, Provided] = {}
    for package in packages:
        number = _pypi_version(package.version)
        needs = {text.split()[0] for text in package.depends if text.split()}
        if number is None or not (package.name in names or needs & _PYTHONS) or package.name in _PYTHONS:
            continue
        name = names.get(package.name) or normalise(package.name)
        if requirement_name(name) != name:  # conda's own, such as _ipython_minor_entry_point: no index has such a name
            continue
        shown = f"{package.version} from {package.channel_name}"
        found.setdefault(name, Provided(name=name, version=number, conda=package.name, shown=shown))
    return tuple(item for _, item in sorted(found.items()))


def _pypi_version(text: str) -> str | None:
    """A conda version as PyPI writes it; what is none (``9e``) by its release numbers.

    ``2.1.0.post300`` is conda-forge's way to tell the CUDA variants of a release apart: to pip it is the release.
    """
    try:
        return str(version(_VARIANT.sub("", text)))
    except ValueError:
        found = NUMBERS.match(text)
        return found[0] if found else None


def conflict(text: str, request: PipRequest) -> PipConflict:
    """Understand the resolver's no: who demands what, and what conda gives instead.

    Args:
        text: uv's words, such as ``Because vllm==0.11.1 depends on torch==2.9.0 and torch==2.5.1, ...``.

    Returns:
        of several demands on one package, the one nearest to what conda gives.
    """
    words = " ".join(text.split())
    gives = {item.name: item for item in request.provided}
    broken = [
        (parent, demand, item)
        for parent, demand in _demands(words)
        if (item := gives.get(requirement_name(demand))) and not _admits(demand, item.version)
    ]
    if not broken:
        return PipConflict(text=words, requirement=_line(request.requirements, "", words))
    parent, demand, item = min(broken, key=lambda found: _distance(found[1], found[2].version))
    line = _line(request.requirements, parent, words)
    return PipConflict(text=words, parent=parent, demand=demand, provided=item, requirement=line)


_EXACT = regex(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([0-9][A-Za-z0-9.!]*)")


def direct_conflicts(request: PipRequest) -> Iterator[PipConflict]:
    """The contradictions that need no resolver: a line asks for one release, and conda gives another."""
    gives = {item.name: item for item in request.provided}
    for line in request.requirements:
        found = _EXACT.fullmatch(line.strip())
        item = gives.get(normalise(found[1])) if found else None
        if found and item and not _admits(found[0], item.version):
            both = f"{item.name}=={found[2]} and {item.name}=={item.version}"
            yield conflict(
                f"Because you require {both}, we can conclude that your requirements are unsatisfiable.", request
            )


def _distance(demand: str, number: str) -> list[int]:
    """How far a demanded release is from the one that is there: each release of a package may demand another."""
    pairs = [
        [int(part) for part in found[0].split(".")] if (found := NUMBERS.search(text)) else []
        for text in (demand.lstrip("abcdefghijklmnopqrstuvwxyz0123456789._-"), number)
    ]
    return [abs(left - right) for left, right in zip_longest(*pairs, fillvalue=0)]


_SPEC = r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]*\])?(?:[<>=!~]=?=?[A-Za-z0-9.*+!]+)?(?:,[<>=!~]=?=?[A-Za-z0-9.*+!]+)*"
_DEPENDS = regex(rf"({_SPEC}) depends? on ({_SPEC})")
_REQUIRE = regex(rf"you require ({_SPEC})(?: and ({_SPEC}))?")


def _demands(words: str) -> Iterator[tuple[str, str]]:
    """Pairs of what demands and what is demanded; the environment file itself is the empty parent."""
    yield from _DEPENDS.findall(words)
    for first, second in _REQUIRE.findall(words):
        yield from (("", item) for item in (first, second) if item)


def _admits(demand: str, number: str) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - only after a no

    try:
        return Requirement(demand).specifier.contains(number, prereleases=True)
    except InvalidRequirement:
        return True


def _line(requirements: tuple[str, ...], parent: str, words: str) -> str:
    """The requirement that leads to a conflict: the one on the parent, else the first that is named."""
    wanted = [requirement_name(parent)] if parent else []
    wanted += [requirement_name(item) for pair in _REQUIRE.findall(words) for item in pair if item]
    for name in wanted:
        for line in requirements:
            if requirement_name(line) == name:
                return line
    return requirements[0] if len(requirements) == 1 else ""


def loosened(requirement: str, *, major: bool = False) -> str | None:
    """The requirement without its versions; ``None`` when it names none.

    Args:
        requirement: as it is written.
        major: with the releases from the one that it names on to the next major; ``None`` when it names no single one.
    """
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - only after a no
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - as above

    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        return None
    if not parsed.specifier or parsed.url:
        return None
    exact = [item for item in parsed.specifier if item.operator == "==" and "*" not in item.version]
    release = version_or_none(exact[0].version) if len(exact) == len(parsed.specifier) == 1 else None
    if major and (release is None or not release.major):
        return None
    parsed.specifier = SpecifierSet(f">={release.public},<{release.major + 1}" if major and release else "")
    extras = f"[{','.join(sorted(parsed.extras))}]" if parsed.extras else ""
    marker = f" ; {parsed.marker}" if parsed.marker else ""
    return f"{parsed.name}{extras}{parsed.specifier}{marker}"


def glibc_of(packages: Iterable[VirtualPackage]) -> str | None:
    """The C library among virtual packages."""
    return next((item.version for item in packages if item.name == "__glibc"), None)
