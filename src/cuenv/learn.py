"""New rows for the tables from the records of a channel: facts as facts, and what only follows marked as inferred."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from packaging.version import Version

from cuenv.audit import faults, loosest
from cuenv.knowledge import Knowledge
from cuenv.learn_libraries import extensions_of, twins_of
from cuenv.observed import Record, SeenBuild
from cuenv.rows import Cuda, Source, TorchBuild
from cuenv.tables import TABLES, dump, merge, rows_of
from cuenv.versions import DeviceCode

_RULE = Source(
    id="learned_rule",
    title="Inferred: device code as in the newest build of the same CUDA release, which recipes seldom change",
    publisher="cuenv",
    locator="tables torch and cudas, newest row",
    read_on="",
)


def learn(
    seen: Iterable[SeenBuild],
    knowledge: Knowledge,
    *,
    nvccs: Iterable[Version],
    stack: str,
    platform: str,
    day: str,
    records: Iterable[Record] = (),
) -> Knowledge:
    """Lay over the tables what a channel's records say and the tables do not.

    Args:
        seen: the torch builds of the channel.
        knowledge: the tables so far.
        nvccs: CUDA minors that conda-forge has ``cuda-nvcc`` for; empty for another channel.
        stack: the channel, ``conda-forge`` or ``pytorch``.
        platform: of the records.
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
    torch = [row for build in seen if (row := _torch(build, source, knowledge))]
    cudas = _cudas(torch, nvccs, source, knowledge)
    other = replace(
        source,
        id=f"learned_libraries_{stack}_{platform}".replace("-", "_"),
        locator=f"repodata of {platform}: packages with CUDA builds",
    )
    further = tuple(records)
    twins = twins_of(further, stack, knowledge, other)
    extensions = extensions_of(further, stack, platform, knowledge, other)
    if not (torch or cudas or twins or extensions):
        return knowledge
    cited = {item for row in (*torch, *cudas, *twins, *extensions) for item in row.sources}
    sources = [item for item in (source, other, replace(_RULE, read_on=day)) if item.id in cited]
    found: dict[str, list[Any]] = {
        "sources": sources,
        "cudas": cudas,
        "torch": torch,
        "twins": twins,
        "extensions": extensions,
    }
    edition = max(knowledge.edition, day)
    return merge(knowledge, texts_of(_only(knowledge, found, edition)), f"what {stack} says")


def own(base: Knowledge, merged: Knowledge) -> Knowledge:
    """The rows that were laid over a base: those of ``merged`` that are not the very rows of ``base``."""
    found: dict[str, list[Any]] = {}
    for name in TABLES:
        there = {id(row) for row in rows_of(base, name)}
        found[name] = [row for row in rows_of(merged, name) if id(row) not in there]
    return _only(merged, found, merged.edition)


def texts_of(overlay: Knowledge) -> dict[str, object]:
    """The tables of an overlay that have rows, as decoded JSON, in the form of the files."""
    return {name: json.loads(dump(overlay, name)) for name in TABLES if rows_of(overlay, name)}


def _only(knowledge: Knowledge, found: Mapping[str, Iterable[Any]], edition: str) -> Knowledge:
    """Tables that hold the given rows and nothing else."""
    rows: dict[str, Any] = {name: tuple(found.get(name, ())) for name in TABLES}
    sources = {row.id: row for row in rows.pop("sources")}
    return replace(knowledge, edition=edition, sources=sources, **rows)


def _torch(build: SeenBuild, source: Source, knowledge: Knowledge) -> TorchBuild | None:
    """The row of a build: new, or the known one mended; ``None`` when the known one is right."""
    row = next((item for item in knowledge.torch if item.key == build.key), None)
    if row is None:
        return _fresh(build, source, knowledge) if _in_reach(build, knowledge) else None
    wrong = {fault.cell for fault in faults(build, row)}
    if not wrong and row.seen:
        return None
    note = f"{', '.join(sorted(wrong))} as in the records of {source.read_on}" if wrong else ""
    return replace(
        row,
        build=build.glob if "build" in wrong else row.build,
        pythons=tuple(sorted({*row.pythons, *build.pythons}, key=_python_key)),
        cudnn=loosest(build.cudnn) if "cudnn" in wrong else row.cudnn,
        nccl=loosest(build.nccl) if "nccl" in wrong else row.nccl,
        glibc=build.glibc[0] if "glibc" in wrong else row.glibc,
        seen=max(row.seen or "", build.day or source.read_on),
        sources=tuple(dict.fromkeys((*row.sources, source.id))),
        note=f"{row.note}; {note}" if row.note and note not in row.note else row.note or note,
    )


def _in_reach(build: SeenBuild, knowledge: Knowledge) -> bool:
    """Whether the tables speak of such builds: none older than their first, no CPU build where they have none."""
    rows = [row for row in knowledge.torch if (row.stack, row.platform) == (build.stack, build.platform)]
    first = min((row.version for row in rows), default=build.version)
    return build.version >= first and (build.cuda is not None or not rows or any(row.cuda is None for row in rows))


def _fresh(build: SeenBuild, source: Source, knowledge: Knowledge) -> TorchBuild:
    model = _model(build, knowledge) if build.cuda else None
    code = model.code if model else None
    sources: tuple[str, ...] = (source.id,)
    low, note = False, ""
    if build.cuda is None:
        code = DeviceCode(sass=(), ptx=())
    elif model:
        sources, low = (source.id, _RULE.id, *model.sources), True
        note = f"device code inferred: as in pytorch {model.version} {model.build}; all else is read from records"
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
        cudnn=loosest(build.cudnn) if build.cudnn else None,
        nccl=loosest(build.nccl) if build.nccl else None,
        seen=build.day or source.read_on,
        sources=tuple(dict.fromkeys(sources)),
        low=low,
        note=note,
    )


def _model(build: SeenBuild, knowledge: Knowledge) -> TorchBuild | None:
    """The newest known build of the same stack and CUDA release, of the same platform if there is one."""
    same = [
        row
        for row in knowledge.torch
        if (row.stack, row.cuda) == (build.stack, build.cuda) and row.code is not None and row.version < build.version
    ]
    return max(same, key=lambda row: (row.platform == build.platform, row.version), default=None)


def _cudas(torch: Iterable[TorchBuild], nvccs: Iterable[Version], source: Source, knowledge: Knowledge) -> list[Cuda]:
    """Rows of CUDA releases that a build or a compiler names and no row knows, or knows without conda's compiler."""
    compilers = set(nvccs)
    named = compilers | {row.cuda for row in torch if row.cuda}
    found = []
    for minor in sorted(named):
        row = knowledge.cuda(minor)
        if row is None:
            found.append(_cuda(minor, source, knowledge, compiler=minor in compilers))
        elif minor in compilers and not row.conda_nvcc:
            sources = tuple(dict.fromkeys((*row.sources, source.id)))
            found.append(replace(row, conda_nvcc=True, sources=sources))
    return found


def _cuda(minor: Version, source: Source, knowledge: Knowledge, *, compiler: bool) -> Cuda:
    earlier = [row for row in knowledge.cudas if row.version.major == minor.major and row.version < minor]
    model = max(earlier, key=lambda row: row.version, default=None)
    return Cuda(
        version=minor,
        isa=None,
        targets=model.targets if model else (),
        gcc_min=None,
        gcc_max=None,
        conda_gcc_max=None,
        conda_nvcc=compiler,
        labels=(),
        glibc=None,
        sources=tuple(dict.fromkeys((source.id, *((_RULE.id, *model.sources) if model else ())))),
        low=True,
        note=f"targets inferred: as in CUDA {model.version}" if model else "what its compiler targets is unknown",
    )


def _python_key(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
