"""Rows on further packages from the records of a channel: CPU and CUDA builds of one name, and libraries on torch."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from packaging.version import Version

from cuenv.extensions.rows import Extension
from cuenv.knowledge import Knowledge
from cuenv.lockfile import names_cpu, names_cuda
from cuenv.observed import Record
from cuenv.rows import Requirement, Source, Twin
from cuenv.specs import split_name
from cuenv.versions import version

_GLOBS = ("cuda*", "*_cuda", "*_cuda*", "*cuda*", "*_cu*", "gpu*", "*gpu*")
"""What CUDA builds are told apart by, the narrowest first."""
_MINOR = re.compile(r"(?:cuda_?|_cu)(1\d)\.?(\d)")
_TORCH = ("pytorch", "libtorch")
_NOT_ON_TORCH = {*_TORCH, "pytorch-gpu", "pytorch-cpu"}


def twins_of(records: Iterable[Record], channel: str, knowledge: Knowledge, source: Source) -> list[Twin]:
    """The packages with CPU and CUDA builds that no row knows.

    Such a package has both of one release, or names the one ``cpu`` and the other by CUDA. That its CPU build defeats
    the purpose of a CUDA environment is inferred: whoever knows better writes the row.
    """
    packages: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        packages[record.name].append(record)
    found = []
    for name in sorted(packages):
        glob = None
        known = knowledge.is_component(name) or knowledge.twin(name, channel)
        if not known and not name.endswith("-cpu"):
            glob = _told_apart(packages[name])
        if glob:
            found.append(
                Twin(
                    package=name,
                    channel=channel,
                    guard=glob,
                    any_cuda=glob,
                    essential=True,
                    sources=(source.id,),
                    low=True,
                    note="that its CPU build defeats the purpose is inferred",
                )
            )
    return found


def _told_apart(records: list[Record]) -> str | None:
    """The glob that every CUDA build matches and no other build, of a package that has both."""
    cuda = [record for record in records if names_cuda(record.build)]
    other = [record for record in records if not names_cuda(record.build)]
    both = {item.version for item in cuda} & {item.version for item in other}
    if not cuda or not (both or any(names_cpu(item.build) for item in other)):
        return None
    last = max(map(_number, cuda))
    newest = [item for item in cuda if _number(item) == last]
    return _glob(cuda, other) or _glob(newest, other)


def _glob(cuda: list[Record], other: list[Record]) -> str | None:
    fits = (
        glob
        for glob in _GLOBS
        if all(fnmatchcase(item.build, glob) for item in cuda)
        and not any(fnmatchcase(item.build, glob) for item in other)
    )
    return next(fits, None)


def _number(record: Record) -> Version:
    return _release(record) or version("0")


class _Seen(NamedTuple):
    """Builds of one release of a library for some CUDA minors."""

    package: str
    release: Version
    cudas: tuple[Version, ...]
    channel: str
    platform: str
    source: str


def extensions_of(
    records: Iterable[Record], channel: str, platform: str, knowledge: Knowledge, source: Source
) -> list[Extension]:
    """The libraries whose CUDA builds ask for one range of torch, release by release, where no row says it.

    Builds of one release for several minors of torch become one range; where a minor between them is left out, the
    newest stretch counts.
    """
    asked: dict[tuple[str, Version], dict[Version, set[Requirement]]] = defaultdict(lambda: defaultdict(set))
    for record in records:
        key, cuda, torch = _release(record), _cuda_of(record), _torch_of(record)
        if record.name in _NOT_ON_TORCH or key is None or cuda is None or torch is None:
            continue
        asked[record.name, key][cuda].add(torch)
    found = []
    for (name, release), minors in sorted(asked.items()):
        same: dict[str, tuple[Requirement, list[Version]]] = {}
        for cuda in sorted(minors):
            torch = _joined(minors[cuda])
            same.setdefault(str(torch), (torch, []))[1].append(cuda)
        rows = [row for row in knowledge.extension(name) if channel in row.comes and row.covers(release)]
        for torch, cudas in same.values():
            if not any(_says(row, torch, cudas, platform) for row in rows):
                seen = _Seen(name, release, tuple(cudas), channel, platform, source.id)
                found.append(_row(seen, torch))
    return found


def _says(row: Extension, torch: Requirement, cudas: Iterable[Version], platform: str) -> bool:
    """Whether a row says of builds what their records say."""
    if row.platforms and platform not in row.platforms:
        return False
    mine, asked = row.torch, (torch.first, torch.below)
    if mine is None or None in asked or not set(cudas) <= set(row.cuda):
        return False
    return mine.overlaps(*asked) and _within(mine, torch)


def _within(outer: Requirement, inner: Requirement) -> bool:
    """Whether a range lies within another; the patch release that a build asks for at least is no matter of a row."""
    starts = outer.first is None or inner.first is None or outer.first.release[:2] <= inner.first.release[:2]
    return starts and (outer.below is None or (inner.below is not None and inner.below <= outer.below))


def _row(seen: _Seen, torch: Requirement) -> Extension:
    """A row on the builds of one release for one platform."""
    return Extension(
        package=seen.package,
        comes=(seen.channel,),
        releases=(seen.release,),
        first=None,
        below=None,
        torch=torch,
        cuda=seen.cudas,
        match="exact",
        platforms=(seen.platform,),
        serves_from=None,
        nvcc=None,
        tolerates=(),
        checks=False,
        headers=(),
        tools=(),
        sources=(seen.source,),
        low=False,
        note="",
    )


def _release(record: Record) -> Version | None:
    try:
        return version(record.version)
    except ValueError:
        return None


def _cuda_of(record: Record) -> Version | None:
    """The CUDA minor in a build string: ``cuda129_py312``, ``cuda_129py312``, ``py312_cu126``."""
    found = _MINOR.search(record.build)
    return version(f"{found[1]}.{found[2]}") if found else None


def _torch_of(record: Record) -> Requirement | None:
    """The range of torch that a record asks for."""
    for text in record.depends:
        name, asked = split_name(text)
        if name in _TORCH and asked.startswith(">=") and "," in asked:
            try:
                return Requirement.parse(asked.split(" ")[0].replace(".0a0", "").replace("a0", ""))
            except ValueError:
                continue
    return None


def _joined(ranges: Iterable[Requirement]) -> Requirement:
    """Ranges that touch as one; of several stretches the newest."""
    ordered = sorted(_ends(ranges))
    first, below = ordered[-1]
    for start, end in reversed(ordered[:-1]):
        if end < first and end.release[:2] != first.release[:2]:
            break
        first = min(first, start)
    return Requirement(package="", first=first, below=below)


def _ends(ranges: Iterable[Requirement]) -> Iterator[tuple[Version, Version]]:
    for item in ranges:
        if item.first is not None and item.below is not None:
            yield item.first, item.below
