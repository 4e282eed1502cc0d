"""The tables of the knowledge base, between JSON and `Knowledge`: strict reading, laying over, canonical text.

One file is one table: ``{"schema": "cuenv/kb/<table>/1", "rows": [...]}``, one row per line; ``data/README.md``
names the columns. Reading is strict: unknown keys, wrong types, control characters, sources that do not exist, a
second row with the same key and references into nothing are faults, each with its path (``torch[12].cuda``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from packaging.version import Version

from cuenv.core.errors import KnowledgeError
from cuenv.core.reading import Faults, describe
from cuenv.core.versions import Capability, DeviceCode, minor, version
from cuenv.knowledge import columns
from cuenv.knowledge import columns as extension_columns
from cuenv.knowledge import columns as state_columns
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.columns import device_code
from cuenv.knowledge.rows import (
    Branch,
    Component,
    Cuda,
    Ending,
    Extension,
    Feature,
    Floor,
    Generation,
    GpuModel,
    LabelFit,
    Layer,
    Regression,
    Source,
    State,
    Toolkit,
    TorchBuild,
    Twin,
)
from cuenv.knowledge.table import Table, check_sources, facts_table, plain_table, rows_in, text_of

Rows: TypeAlias = dict[str, list[Any]]
"""The rows of each table in the order of its file; ``None`` stands for one that could not be read."""

_HINT = "the README of the knowledge base says what each table and column means"
_OLDEST = version("0")


def _torch_build(*, code: str | None, cuda: Version | None, **rest: Any) -> TorchBuild:
    return TorchBuild(code=None if code is None else device_code(code, cuda), cuda=cuda, **rest)


TABLES: Mapping[str, Table] = {
    "sources": plain_table(Source, columns.SOURCE, lambda row: row.id),
    "toolkits": facts_table(Toolkit, columns.TOOLKIT, lambda row: row.version),
    "cudas": facts_table(Cuda, columns.CUDA, lambda row: row.version),
    "branches": facts_table(Branch, columns.BRANCH, lambda row: row.number),
    "floors": facts_table(Floor, columns.FLOOR, lambda row: row.major),
    "generations": facts_table(Generation, columns.GENERATION, lambda row: row.capability),
    "gpus": facts_table(GpuModel, columns.GPU, lambda row: row.name),
    "torch": facts_table(
        _torch_build,
        columns.TORCH,
        lambda row: (row.stack, row.version, row.cuda or _OLDEST, row.platform),
    ),
    "layers": facts_table(Layer, columns.LAYER, lambda row: (row.library, row.cuda or 0, row.first or _OLDEST)),
    "components": facts_table(Component, columns.COMPONENT, lambda row: row.name),
    "twins": facts_table(Twin, columns.TWIN, lambda row: (row.channel, row.package)),
    "labels": facts_table(LabelFit, columns.LABEL, lambda row: (row.cuda, version(row.label))),
    "endings": facts_table(Ending, columns.ENDING, lambda row: (row.channel, row.package)),
    "extensions": facts_table(
        Extension,
        extension_columns.EXTENSION,
        lambda row: (row.package, row.comes, row.first or min(row.releases, default=_OLDEST), row.cuda, row.platforms),
    ),
    "regressions": facts_table(Regression, extension_columns.REGRESSION, lambda row: (row.package, row.releases)),
    "features": facts_table(Feature, state_columns.FEATURE, lambda row: (row.capability, row.chip)),
    "states": facts_table(State, state_columns.STATE, lambda row: row.about),
}
"""Every table, sources first."""

_REFERENCES: tuple[tuple[str, str, str, Callable[[Any], Iterable[Any]]], ...] = (
    ("toolkits", "version", "cudas", lambda row: (minor(row.version),)),
    ("cudas", "targets", "generations", lambda row: row.targets),
    ("gpus", "capability", "generations", lambda row: (row.capability,)),
    ("features", "capability", "generations", lambda row: (row.capability,)),
    ("torch", "cuda", "cudas", lambda row: (row.cuda,) if row.cuda else ()),
    ("torch", "arch_list", "generations", lambda row: _capabilities(row.code)),
    ("layers", "serves_from", "generations", lambda row: (row.serves_from,)),
    ("labels", "cuda", "cudas", lambda row: (row.cuda,)),
    ("extensions", "cuda", "cudas", lambda row: row.cuda),
    ("extensions", "tolerates", "cudas", lambda row: row.tolerates),
)
"""Which column of which table names rows of which other table."""


def _capabilities(code: DeviceCode | None) -> Iterable[Capability]:
    return (target.capability for target in code.sass) if code else ()


def parse(tables: Mapping[str, object], where: str = "knowledge base") -> Knowledge:
    """Read the whole base.

    Args:
        tables: the decoded JSON of every table, by its name.
        where: what to call it in an error.

    Raises:
        KnowledgeError: with every fault in it and its path.
    """
    faults = Faults(where, KnowledgeError)
    for name in TABLES:
        if name not in tables:
            faults.add(name, "expected a table, got nothing")
    rows, edition = _read(tables, faults, frozenset())
    if not edition:
        faults.add("sources.edition", "expected a day YYYY-MM-DD, got nothing")
    return _join({}, rows, edition, faults)


def merge(base: Knowledge, overlay: Mapping[str, object], where: str = "knowledge") -> Knowledge:
    """Lay further tables over a base: a row with the key of one there replaces it, others are added.

    Args:
        base: what is known already; the overlay may cite its sources.
        overlay: the decoded JSON of some tables, by name.
        where: what to call the overlay in an error.

    Raises:
        KnowledgeError: with every fault in it and its path.
    """
    faults = Faults(where, KnowledgeError)
    rows, edition = _read(overlay, faults, frozenset(base.sources))
    known = {name: {TABLES[name].key(row): row for row in rows_of(base, name)} for name in TABLES}
    return _join(known, rows, edition or base.edition, faults)


def rows_of(knowledge: Knowledge, table: str) -> tuple[Any, ...]:
    """The rows of a table by its name."""
    return tuple(knowledge.sources.values()) if table == "sources" else tuple(getattr(knowledge, table))


def dump(knowledge: Knowledge, table: str) -> str:
    """The canonical text of the file of a table: rows by key, columns in order, defaults left out."""
    edition = knowledge.edition if table == "sources" else None
    return text_of(table, TABLES[table], rows_of(knowledge, table), edition)


def _read(tables: Mapping[str, object], faults: Faults, known: frozenset[str]) -> tuple[Rows, str]:
    """The rows of each table that is there, every cell checked, and the edition when one is given."""
    for name in tables:
        if name not in TABLES:
            faults.add("", f"no such table {describe(name)}; there are {', '.join(TABLES)}")
    rows = {name: list(rows_in(name, TABLES[name], tables[name], faults)) for name in TABLES if name in tables}
    ids = known | {row.id for row in rows.get("sources", ()) if row}
    check_sources(rows, ids, faults)
    return rows, _edition(tables.get("sources"), faults)


def _edition(sources: object, faults: Faults) -> str:
    if not isinstance(sources, dict) or "edition" not in sources:
        return ""
    try:
        return columns.day(sources["edition"])
    except ValueError as error:
        faults.add("sources.edition", str(error))
        return "?"


def _join(known: Mapping[str, Mapping[Any, Any]], rows: Rows, edition: str, faults: Faults) -> Knowledge:
    """Known rows and new ones as a base, each key once, in order, and every reference into a row that exists."""
    joined: dict[str, tuple[Any, ...]] = {}
    for name, table in TABLES.items():
        merged = dict(known.get(name, {}))
        seen: dict[Any, int] = {}
        for index, row in enumerate(rows.get(name, ())):
            if row is None:
                continue
            key = table.key(row)
            if key in seen:
                faults.add(f"{name}[{index}]", f"has the key of {name}[{seen[key]}]")
            seen[key] = index
            merged[key] = row
        joined[name] = tuple(merged[key] for key in sorted(merged))
    _check_references(joined, rows, faults)
    faults.check(hint=_HINT)
    sources = {row.id: row for row in joined.pop("sources")}
    return Knowledge(edition=edition, sources=sources, **joined)


def _check_references(joined: Mapping[str, tuple[Any, ...]], rows: Rows, faults: Faults) -> None:
    """Every CUDA release and every capability that a new row names must have a row of its own."""
    there = {name: {TABLES[name].key(row) for row in joined[name]} for name in ("cudas", "generations")}
    for name, column, target, named in _REFERENCES:
        for index, row in enumerate(rows.get(name, ())):
            for wanted in named(row) if row else ():
                if wanted not in there[target]:
                    faults.add(f"{name}[{index}].{column}", f"no row of {target} has {wanted}")
