"""What a channel's records say about its torch builds, in the terms of the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from packaging.version import Version

from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.versions import version
from cuenv.knowledge.requirement import Requirement
from cuenv.knowledge.rows import BuildKey
from cuenv.solve.match_spec import split_name
from cuenv.solve.model import build_cuda

LIBRARIES: Mapping[str, tuple[str, ...]] = {"cudnn": ("cudnn", "libcudnn"), "nccl": ("nccl",)}
"""The packages of each layer that a torch build asks for."""

_PYTHON_RANGE = regex(r">=(\d\.\d{1,2}),<")
_PYTHON_BUILD = regex(r"py(\d)\.?(\d{1,2})(?!\d)")
_ABI = regex(r"(\d\.\d{1,2})\.\*")
_PYTHONS = {"python": _PYTHON_RANGE, "python_abi": _ABI}
_GLIBC = regex(r">=(\d+\.\d+)")
_CUDNN_INSIDE = regex(r"_cudnn(\d+(?:\.\d+)*)_")
_PRE = regex(r"(\.0)?\.?a0\b")
"""The mark of the first pre-release that conda-build's upper bounds carry: ``<10.0a0`` is ``<10``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A package record of a channel, as far as the tables speak of it."""

    name: str
    version: str
    build: str
    depends: tuple[str, ...] = ()
    day: str = ""  # of its upload, ``YYYY-MM-DD``; empty when the channel does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelBuild:
    """The records of one torch build: all that share stack, release, CUDA minor and platform."""

    stack: str
    version: Version
    cuda: Version | None  # ``None`` for the CPU build
    platform: str
    builds: tuple[str, ...]  # every build string
    pythons: tuple[str, ...]
    # cudnn, nccl, glibc: what the records ask for; of those that ask for nothing there is no entry
    cudnn: tuple[Requirement, ...]
    nccl: tuple[Requirement, ...]
    glibc: tuple[Version, ...]
    day: str = ""  # of the newest upload; empty when no record tells it
    first: str = ""  # the day of the oldest upload; empty as well

    @property
    def key(self) -> BuildKey:
        """What a row of the table ``torch`` is known by."""
        return (self.stack, self.version, self.cuda, self.platform)

    @property
    def glob(self) -> str:
        """The glob over its build strings that a row of its stack has."""
        if self.cuda is None:
            return "cpu*" if self.stack == "conda-forge" else "*_cpu_*"
        short = f"cuda{self.cuda.major}{self.cuda.minor}*"
        return short if self.stack == "conda-forge" else f"*cuda{self.cuda}*"

    def __str__(self) -> str:
        return f"pytorch {self.version} {self.glob} of {self.stack} for {self.platform}"


def seen_builds(
    records: Iterable[Record], stack: str, platform: str
) -> tuple[tuple[ChannelBuild, ...], tuple[Record, ...]]:
    """Group the records of ``pytorch`` by the key of the tables.

    Args:
        records: of the package ``pytorch``; others are left out.
        stack: the channel they are of, ``conda-forge`` or ``pytorch``.

    Returns:
        the builds in order, and the records that no build could be made of.
    """
    groups: dict[tuple[Version, Version], list[Record]] = {}
    strange: list[Record] = []
    for record in records:
        if record.name != "pytorch":
            continue
        key = _key(record)
        if key is None or _python(record) is None:
            strange.append(record)
        else:
            groups.setdefault(key, []).append(record)
    found = (_build(key, groups[key], stack, platform) for key in sorted(groups))
    return tuple(found), tuple(strange)


def newest_day(records: Iterable[Record]) -> str:
    """The day of the newest record; empty when none has one."""
    return max((record.day for record in records), default="")


_CPU = version("0")


def _key(record: Record) -> tuple[Version, Version] | None:
    cuda = build_cuda(record.build)
    if cuda is None and "cpu" not in record.build:
        return None
    try:
        return version(record.version), cuda or _CPU
    except ValueError:
        return None


def _build(key: tuple[Version, Version], records: list[Record], stack: str, platform: str) -> ChannelBuild:
    pythons = {python for record in records if (python := _python(record))}
    return ChannelBuild(
        stack=stack,
        version=key[0],
        cuda=None if key[1] == _CPU else key[1],
        platform=platform,
        builds=tuple(sorted({record.build for record in records})),
        pythons=tuple(sorted(pythons, key=version)),
        cudnn=_unique(item for record in records for item in (*_asked(record, "cudnn"), *_inside(record))),
        nccl=_unique(item for record in records for item in _asked(record, "nccl")),
        glibc=tuple(sorted({floor for record in records for floor in _glibc(record)})),
        day=newest_day(records),
        first=min((record.day for record in records if record.day), default=""),
    )


def _unique(items: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(set(items), key=str))


def _python(record: Record) -> str | None:
    """The Python minor of a record: by what it depends on, else by its build string."""
    for text in record.depends:
        name, asked = split_name(text)
        shape = _PYTHONS.get(name)
        found = shape.match(asked) if shape else None
        if found:
            return found[1]
    built = _PYTHON_BUILD.search(record.build)
    return f"{built[1]}.{built[2]}" if built else None


def _asked(record: Record, library: str) -> Iterator[Requirement]:
    """What a record asks of a layer, where it is a range of releases."""
    for text in record.depends:
        name, asked = split_name(text)
        if name in LIBRARIES[library]:
            bounds = _PRE.sub("", asked.split(" ")[0])
            if bounds.startswith(">="):  # a cap beside it, a glob or an exact pin is no range of its own
                with suppress(ValueError):
                    yield Requirement.parse(f"{name} {bounds}")


def _inside(record: Record) -> Iterator[Requirement]:
    """The cuDNN inside a build of the pytorch channel, which its build string names."""
    found = _CUDNN_INSIDE.search(record.build)
    if found:
        yield Requirement.parse(found[1])


def _glibc(record: Record) -> Iterator[Version]:
    for text in record.depends:
        name, asked = split_name(text)
        found = _GLIBC.match(asked) if name == "__glibc" else None
        if found:
            yield version(found[1])
