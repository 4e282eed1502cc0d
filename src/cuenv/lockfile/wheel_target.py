"""Which packages and which wheels of a lock for several platforms are for one platform and one Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from cuenv.core.record import NamedTuple, dataclass, field
from cuenv.core.regex import regex
from cuenv.knowledge.rows import MACHINES
from cuenv.solve.pip_part import abi_of

if TYPE_CHECKING:  # a conda lock is read without them
    from packaging.tags import Tag

T = TypeVar("T")

_FIRST_MINOR, _LAST_MINOR = 8, 14  # minors of Python 3 among which one is chosen where a lock names none
_OLD_NAMES = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
_LAST_GLIBC = 60
_COMMON_GLIBC = 28
"""The minor of the C library of RHEL 8, for which most wheels are built: https://github.com/pypa/manylinux."""
_GLIBC = regex(r"manylinux_2_(\d+)_")
_LONGEST = 20_000  # characters of a marker
_EXTRA = regex(r"\bextra\s*(==|!=)\s*(['\"])([^'\"]*)\2")
_TRUE, _FALSE = "os_name != ''", "os_name == ''"
_LAST_PATCH = 20
"""Markers may ask for a patch release; where only the minor is known, it is a late one, and the last that is tried."""


class NamedFile(NamedTuple):
    """A file that a lock names, with its hash and its bytes where the lock says them."""

    url: str
    sha256: str | None
    size: int | None = None


@dataclass(frozen=True)
class WheelTarget:
    """A platform and a Python."""

    platform: str
    python: str  # ``3.12``, or with its patch release
    _seen: dict[tuple[str, frozenset[str]], bool] = field(default_factory=dict, repr=False, compare=False)

    @property
    def minor(self) -> tuple[int, int]:
        """The minor release of its Python, as numbers."""
        major, small = self.python.split(".")[:2]
        return int(major), int(small)

    @property
    def environment(self) -> dict[str, str]:
        """What markers are compared with (PEP 508)."""
        full = self.python if self.python.count(".") > 1 else f"{self.python}.{_LAST_PATCH}"
        return {
            "implementation_name": "cpython",
            "implementation_version": full,
            "os_name": "posix",
            "platform_machine": MACHINES.get(self.platform, ""),
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": full,
            "python_version": ".".join(map(str, self.minor)),
            "sys_platform": "linux",
        }

    def meets(self, marker: str, extras: frozenset[str] = frozenset()) -> bool:
        """Whether a marker holds.

        Args:
            marker: as PEP 508 writes it; empty: it always holds.
            extras: what counts as an extra. uv writes its exclusive extras and groups in this way as well.

        Raises:
            ValueError: it is not a marker.
        """
        if not marker:
            return True
        key = (marker, extras)
        if key not in self._seen:
            self._seen[key] = _holds(marker, self.environment, extras)
        return self._seen[key]

    def tags(self) -> Iterator[Tag]:
        """The tags of wheels that run there, best first; of equal ones that of the oldest glibc comes first."""
        from packaging.tags import compatible_tags, cpython_tags  # noqa: PLC0415 - a conda lock is read without them

        machine = MACHINES.get(self.platform, "")
        platforms = []
        for minor in range(5 if machine == "x86_64" else 17, _LAST_GLIBC):
            platforms.append(f"manylinux_2_{minor}_{machine}")
            if minor in _OLD_NAMES:
                platforms.append(f"{_OLD_NAMES[minor]}_{machine}")
        platforms.append(f"linux_{machine}")
        yield from cpython_tags(self.minor, abis=[abi_of(self.minor)], platforms=platforms)
        short = f"cp{self.minor[0]}{self.minor[1]}"
        yield from compatible_tags(self.minor, interpreter=short, platforms=platforms)

    def best(self, files: Iterable[tuple[str, T]]) -> T | None:
        """The wheel that is installed there, of those that run on the oldest glibc; ``None`` where none is for it.

        Where the better one is for a recent glibc alone, it is one that older machines install in its place.
        """
        ranks = _ranks(self)
        found: tuple[tuple[bool, int], T] | None = None
        for name, item in files:
            rank = min(((_recent(tag), ranks[tag]) for tag in _tags_of(name) if tag in ranks), default=None)
            if rank is not None and (found is None or rank < found[0]):
                found = (rank, item)
        return found[1] if found else None


def _recent(tag: Tag) -> bool:
    """Whether a wheel is for a glibc that not every machine has whose driver runs CUDA 12."""
    found = _GLIBC.match(tag.platform)
    return found is not None and int(found[1]) > _COMMON_GLIBC


_RANKS: dict[tuple[str, tuple[int, int]], Mapping[Tag, int]] = {}


def _ranks(target: WheelTarget) -> Mapping[Tag, int]:
    key = (target.platform, target.minor)
    if key not in _RANKS:
        ranks: dict[Tag, int] = {}
        for place, tag in enumerate(target.tags()):
            ranks.setdefault(tag, place)
        _RANKS[key] = ranks
    return _RANKS[key]


def _tags_of(name: str) -> Collection[Tag]:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename  # noqa: PLC0415 - as above

    try:
        return parse_wheel_filename(name)[3]
    except (InvalidWheelFilename, ValueError):
        return ()


def file_name(url: str) -> str:
    """The name of the file of a URL or path."""
    from urllib.parse import unquote  # noqa: PLC0415 - as above

    return unquote(url.partition("#")[0].partition("?")[0].replace("\\", "/").rpartition("/")[2])


def _holds(marker: str, environment: dict[str, str], extras: frozenset[str]) -> bool:
    from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName  # noqa: PLC0415 - as above

    if len(marker) > _LONGEST:
        raise ValueError(f"a marker of {len(marker)} characters is longer than the limit of {_LONGEST}")

    def told(found: re.Match[str]) -> str:
        return _TRUE if (found[3] in extras) == (found[1] == "==") else _FALSE

    try:
        return Marker(_EXTRA.sub(told, marker)).evaluate({**environment, "extra": ""})
    except (ValueError, UndefinedComparison, UndefinedEnvironmentName, RecursionError) as error:
        raise ValueError(f"a marker cannot be understood: {ascii(marker)[:120]}") from error


def pythons(requires: str) -> list[str]:
    """The Pythons that a lock admits, one of each minor, newest first; with a patch where not all patches are admitted.

    Args:
        requires: such as ``>=3.10,<3.14`` or ``==3.12.8``; empty: any.

    Raises:
        ValueError: it is not a range of versions.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - as above

    try:
        wanted = SpecifierSet(requires)
    except InvalidSpecifier as error:
        raise ValueError(f"expected a range such as '>=3.10', got {ascii(requires)[:80]}") from error
    minors = [f"3.{minor}" for minor in range(_LAST_MINOR, _FIRST_MINOR - 1, -1)]
    patches = (next((n for n in range(_LAST_PATCH, -1, -1) if wanted.contains(f"{text}.{n}")), None) for text in minors)
    found = [(text, patch) for text, patch in zip(minors, patches, strict=True) if patch is not None]
    return [text if patch == _LAST_PATCH else f"{text}.{patch}" for text, patch in found]


def best_python(minors: Iterable[str], judged: Callable[[str], tuple[bool, int]]) -> str:
    """The Python that a lock is read for where nothing names one: the newest that has torch and lacks fewest wheels.

    Args:
        minors: newest first.
        judged: whether torch is missing there, and how many packages have no wheel for it.
    """
    found: dict[tuple[bool, int], str] = {}
    for minor in minors:
        found.setdefault(judged(minor), minor)
        if (False, 0) in found:
            break
    return found[min(found)]
