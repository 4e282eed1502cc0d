"""New rows for the tables from the records of a channel: facts as facts, and what only follows marked as inferred."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from packaging.version import Version

from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import DeviceCode, version, version_or_none
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.requirement import Requirement
from cuenv.knowledge.rows import Cuda, CudaVariant, Extension, Source, TorchBuild
from cuenv.knowledge.tables import TABLES, dump, merge, rows_of
from cuenv.maintain.audit import loosest_requirement, release_of, row_faults
from cuenv.solve.match_spec import split_name
from cuenv.solve.model import names_cpu, names_cuda
from cuenv.solve.observed import ChannelBuild, Record

_GLOBS = ("cuda*", "*_cuda", "*_cuda*", "*cuda*", "*_cu*", "gpu*", "*gpu*")
"""What CUDA builds are told apart by, the narrowest first."""
_MINOR = regex(r"(?:cuda_?|_cu)(1\d)\.?(\d)")
_TORCH = ("pytorch", "libtorch")
_NOT_ON_TORCH = {*_TORCH, "pytorch-gpu", "pytorch-cpu"}


def variants_of(records: Iterable[Record], channel: str, knowledge: Knowledge, source: Source) -> list[CudaVariant]:
    """The packages with CPU and CUDA builds that no row lists.

    Such a package has both of one release, or names the one ``cpu`` and the other by CUDA. That its CPU build defeats
    the purpose of a CUDA environment is inferred: whoever knows better writes the row.
    """
    packages: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        packages[record.name].append(record)
    found = []
    for name in sorted(packages):
        glob = None
        known = knowledge.is_component(name) or knowledge.cuda_variant(name, channel)
        if not known and not name.endswith("-cpu"):
            glob = _build_glob(packages[name])
        if glob:
            found.append(
                CudaVariant(
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


def _build_glob(records: list[Record]) -> str | None:
    """The glob that matches every CUDA build of a package and no CPU build."""
    cuda = [record for record in records if names_cuda(record.build)]
    other = [record for record in records if not names_cuda(record.build)]
    both = {item.version for item in cuda} & {item.version for item in other}
    if not cuda or not (both or any(names_cpu(item.build) for item in other)):
        return None
    last = max(map(release_of, cuda))
    newest = [item for item in cuda if release_of(item) == last]
    return _common_glob(cuda, other) or _common_glob(newest, other)


def _common_glob(cuda: list[Record], other: list[Record]) -> str | None:
    fits = (
        glob
        for glob in _GLOBS
        if all(fnmatchcase(item.build, glob) for item in cuda)
        and not any(fnmatchcase(item.build, glob) for item in other)
    )
    return next(fits, None)


def extensions_of(
    records: Iterable[Record], channel: str, platform: str, knowledge: Knowledge, source: Source
) -> list[Extension]:
    """The libraries whose CUDA builds require one range of torch, by release, if no row has it.

    Builds of one release for several minors of torch become one range; where a minor between them is left out, the
    newest stretch counts.
    """
    asked: dict[tuple[str, Version], dict[Version, set[Requirement]]] = defaultdict(lambda: defaultdict(set))
    for record in records:
        key, cuda, torch = version_or_none(record.version), _cuda_of(record), _torch_of(record)
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
            if not any(_row_agrees(row, torch, cudas, platform) for row in rows):
                found.append(
                    Extension(
                        package=name,
                        comes=(channel,),
                        releases=(release,),
                        torch=torch,
                        cuda=tuple(cudas),
                        platforms=(platform,),
                        sources=(source.id,),
                    )
                )
    return found


def _row_agrees(row: Extension, torch: Requirement, cudas: Iterable[Version], platform: str) -> bool:
    """Whether a row says the same about builds as their records."""
    if row.platforms and platform not in row.platforms:
        return False
    mine, asked = row.torch, (torch.first, torch.below)
    if mine is None or None in asked or not set(cudas) <= set(row.cuda):
        return False
    return mine.overlaps(*asked) and _within(mine, torch)


def _within(outer: Requirement, inner: Requirement) -> bool:
    """Whether a range is within another; the patch release of the lower bound does not count."""
    starts = outer.first is None or inner.first is None or outer.first.release[:2] <= inner.first.release[:2]
    return starts and (outer.below is None or (inner.below is not None and inner.below <= outer.below))


def _cuda_of(record: Record) -> Version | None:
    """The CUDA minor in a build string: ``cuda129_py312``, ``cuda_129py312``, ``py312_cu126``."""
    found = _MINOR.search(record.build)
    return version(f"{found[1]}.{found[2]}") if found else None


def _torch_of(record: Record) -> Requirement | None:
    """The range of torch that a record requires."""
    for text in record.depends:
        name, asked = split_name(text)
        if name in _TORCH and asked.startswith(">=") and "," in asked:
            try:
                return Requirement.parse(asked.split(" ")[0].replace(".0a0", "").replace("a0", ""))
            except ValueError:
                continue
    return None


def _joined(ranges: Iterable[Requirement]) -> Requirement:
    """Touching ranges joined into one; of several separate ranges the newest."""
    ordered = sorted((item.first, item.below) for item in ranges if item.first and item.below)
    first, below = ordered[-1]
    for start, end in reversed(ordered[:-1]):
        if end < first and end.release[:2] != first.release[:2]:
            break
        first = min(first, start)
    return Requirement(package="", first=first, below=below)


_RULE = Source(
    id="learned_rule",
    title="Inferred: device code as in the newest build of the same CUDA release, which recipes seldom change",
    publisher="cuenv",
    locator="tables torch and cudas, newest row",
    read_on="",
)


def learn(
    seen: Iterable[ChannelBuild],
    knowledge: Knowledge,
    *,
    nvccs: Iterable[Version],
    stack: str,
    platform: str,
    day: str,
    records: Iterable[Record] = (),
) -> Knowledge:
    """The tables with the rows that a channel's records add.

    Args:
        nvccs: CUDA minors that conda-forge has ``cuda-nvcc`` for; empty for another channel.
        day: ``YYYY-MM-DD``, the day of the records.
        records: of further packages, in which CPU and CUDA builds under one name are found, and libraries on torch.

    Returns:
        the tables with the new rows; the very same when there is nothing to learn.
    """
    source = Source(
        id=f"learned_{stack}_{platform}".replace("-", "_"),
        title=f"Package records of {stack}, read by cuenv kb learn",
        publisher=stack,
        locator=f"repodata of {platform}: pytorch, cuda-nvcc",
        read_on=day,
    )
    torch = [row for build in seen if (row := _torch_row(build, source, knowledge))]
    cudas = _cuda_rows(torch, nvccs, source, knowledge)
    other = source.replaced(
        id=f"learned_libraries_{stack}_{platform}".replace("-", "_"),
        locator=f"repodata of {platform}: packages with CUDA builds",
    )
    further = tuple(records)
    twins = variants_of(further, stack, knowledge, other)
    extensions = extensions_of(further, stack, platform, knowledge, other)
    if not (torch or cudas or twins or extensions):
        return knowledge
    cited = {item for row in (*torch, *cudas, *twins, *extensions) for item in row.sources}
    sources = [item for item in (source, other, _RULE.replaced(read_on=day)) if item.id in cited]
    found: dict[str, list[Any]] = {
        "sources": sources,
        "cudas": cudas,
        "torch": torch,
        "twins": twins,
        "extensions": extensions,
    }
    edition = max(knowledge.edition, day)
    return merge(knowledge, texts_of(_tables_with(knowledge, found, edition)), f"what {stack} says")


def new_rows(base: Knowledge, merged: Knowledge) -> Knowledge:
    """The rows of ``merged`` that are not rows of ``base``."""
    found: dict[str, list[Any]] = {}
    for name in TABLES:
        there = {id(row) for row in rows_of(base, name)}
        found[name] = [row for row in rows_of(merged, name) if id(row) not in there]
    return _tables_with(merged, found, merged.edition)


def table_texts(overlay: Knowledge) -> dict[str, str]:
    """The canonical text of each table that has rows."""
    return {name: dump(overlay, name) for name in TABLES if rows_of(overlay, name)}


def texts_of(overlay: Knowledge) -> dict[str, object]:
    """The same as decoded JSON."""
    return {name: json.loads(text) for name, text in table_texts(overlay).items()}


def _tables_with(knowledge: Knowledge, found: Mapping[str, Iterable[Any]], edition: str) -> Knowledge:
    """A knowledge base with only the given rows."""
    rows: dict[str, Any] = {name: tuple(found.get(name, ())) for name in TABLES}
    sources = {row.id: row for row in rows.pop("sources")}
    return replace(knowledge, edition=edition, sources=sources, **rows)


def _torch_row(build: ChannelBuild, source: Source, knowledge: Knowledge) -> TorchBuild | None:
    """The new or corrected row of a build; ``None`` if the known row is right."""
    row = next((item for item in knowledge.torch if item.key == build.key), None)
    if row is None:
        return _new_build_row(build, source, knowledge) if _is_covered(build, knowledge) else None
    wrong = {fault.cell for fault in row_faults(build, row)}
    if not wrong and row.seen:
        return None
    note = f"{', '.join(sorted(wrong))} as in the records of {source.read_on}" if wrong else ""
    return row.replaced(
        build=build.glob if "build" in wrong else row.build,
        pythons=tuple(sorted({*row.pythons, *build.pythons}, key=version)),
        cudnn=loosest_requirement(build.cudnn) if "cudnn" in wrong else row.cudnn,
        nccl=loosest_requirement(build.nccl) if "nccl" in wrong else row.nccl,
        glibc=build.glibc[0] if "glibc" in wrong else row.glibc,
        seen=max(row.seen or "", build.day or source.read_on),
        since=min(filter(None, (row.since, build.first)), default=None),
        sources=tuple(dict.fromkeys((*row.sources, source.id))),
        note=f"{row.note}; {note}" if row.note and note not in row.note else row.note or note,
    )


def _is_covered(build: ChannelBuild, knowledge: Knowledge) -> bool:
    """Whether the tables cover such a build: not older than their first, and a CPU build only if they have some."""
    rows = [row for row in knowledge.torch if (row.stack, row.platform) == (build.stack, build.platform)]
    first = min((row.version for row in rows), default=build.version)
    return build.version >= first and (build.cuda is not None or not rows or any(row.cuda is None for row in rows))


def _new_build_row(build: ChannelBuild, source: Source, knowledge: Knowledge) -> TorchBuild:
    model = _similar_build(build, knowledge) if build.cuda else None
    code = model.code if model else None
    sources: tuple[str, ...] = (source.id,)
    low, note = False, ""
    if build.cuda is None:
        code = DeviceCode(sass=(), ptx=())
    elif model:
        sources, low = (source.id, _RULE.id, *model.sources), True
        note = f"device code inferred from pytorch {model.version} {model.build}; everything else is read from records"
    else:
        low, note = True, "device code unknown: no earlier build of this CUDA release is known"
    return TorchBuild(
        stack=build.stack,
        version=build.version,
        cuda=build.cuda,
        build=build.glob,
        platform=build.platform,
        pythons=build.pythons,
        code=code,
        glibc=build.glibc[0] if build.glibc else None,
        cudnn=loosest_requirement(build.cudnn) if build.cudnn else None,
        nccl=loosest_requirement(build.nccl) if build.nccl else None,
        seen=build.day or source.read_on,
        since=build.first or None,
        sources=tuple(dict.fromkeys(sources)),
        low=low,
        note=note,
    )


def _similar_build(build: ChannelBuild, knowledge: Knowledge) -> TorchBuild | None:
    """The newest known build of the same stack and CUDA release, preferably of the same platform."""
    same = [
        row
        for row in knowledge.torch
        if (row.stack, row.cuda) == (build.stack, build.cuda) and row.code is not None and row.version < build.version
    ]
    return max(same, key=lambda row: (row.platform == build.platform, row.version), default=None)


def _cuda_rows(
    torch: Iterable[TorchBuild], nvccs: Iterable[Version], source: Source, knowledge: Knowledge
) -> list[Cuda]:
    """Rows of CUDA releases that a build or compiler names and that the tables lack, or lack the compiler of."""
    compilers = set(nvccs)
    named = compilers | {row.cuda for row in torch if row.cuda}
    found = []
    for minor in sorted(named):
        row = knowledge.cuda(minor)
        if row is None:
            found.append(_cuda_row(minor, source, knowledge, compiler=minor in compilers))
        elif minor in compilers and not row.conda_nvcc:
            sources = tuple(dict.fromkeys((*row.sources, source.id)))
            found.append(row.replaced(conda_nvcc=True, sources=sources))
    return found


def _cuda_row(minor: Version, source: Source, knowledge: Knowledge, *, compiler: bool) -> Cuda:
    earlier = [row for row in knowledge.cudas if row.version.major == minor.major and row.version < minor]
    model = max(earlier, key=lambda row: row.version, default=None)
    return Cuda(
        version=minor,
        targets=model.targets if model else (),
        conda_nvcc=compiler,
        sources=tuple(dict.fromkeys((source.id, *((_RULE.id, *model.sources) if model else ())))),
        low=True,
        note=f"targets inferred: as in CUDA {model.version}" if model else "what its compiler targets is unknown",
    )
