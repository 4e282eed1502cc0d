"""The tables of the knowledge base, between JSON and `Knowledge`: strict reading, laying over, canonical text.

One file is one table: ``{"schema": "cuenv/kb/<table>/1", "rows": [...]}``, one row per line; ``data/README.md``
names the columns. Reading is strict: unknown keys, wrong types, control characters, sources that do not exist, a
second row with the same key and references into nothing are faults, each with its path (``torch[12].cuda``). Of the
tables of the package, which the tests read strictly, a cell is read when a run asks for it (`read_table`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from cuenv.core.errors import KnowledgeError
from cuenv.core.reading import Faults, describe
from cuenv.core.versions import Capability, DeviceCode, minor
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import (
    Branch,
    Component,
    ComputeCapability,
    Conflict,
    Cuda,
    CudaVariant,
    Discontinued,
    Extension,
    Feature,
    GpuModel,
    LabelFit,
    LibrarySupport,
    MinimumDriver,
    Program,
    Regression,
    Source,
    State,
    Toolkit,
    TorchBuild,
    TorchWheel,
)
from cuenv.knowledge.schema import DAY, TableRow, check_keys, check_sources, rows_in, table_text

Rows: TypeAlias = dict[str, list[Any]]
"""The rows of each table in the order of its file; ``None`` stands for one that could not be read."""

_HINT = "the README of the knowledge base says what each table and column means"

TABLES: Mapping[str, type[TableRow]] = {
    "sources": Source,
    "toolkits": Toolkit,
    "cudas": Cuda,
    "branches": Branch,
    "floors": MinimumDriver,
    "generations": ComputeCapability,
    "gpus": GpuModel,
    "torch": TorchBuild,
    "wheels": TorchWheel,
    "layers": LibrarySupport,
    "components": Component,
    "twins": CudaVariant,
    "labels": LabelFit,
    "endings": Discontinued,
    "extensions": Extension,
    "regressions": Regression,
    "programs": Program,
    "conflicts": Conflict,
    "features": Feature,
    "states": State,
}
"""Every table of facts, sources first."""

_REFERENCES: tuple[tuple[str, str, str, Callable[[Any], Iterable[Any]]], ...] = (
    ("toolkits", "version", "cudas", lambda row: (minor(row.version),)),
    ("cudas", "targets", "generations", lambda row: row.targets),
    ("gpus", "capability", "generations", lambda row: (row.capability,)),
    ("features", "capability", "generations", lambda row: (row.capability,)),
    ("torch", "cuda", "cudas", lambda row: (row.cuda,) if row.cuda else ()),
    ("torch", "arch_list", "generations", lambda row: _capabilities(row.code)),
    ("wheels", "cuda", "cudas", lambda row: (row.cuda,) if row.cuda else ()),
    ("wheels", "arch_list", "generations", lambda row: _capabilities(row.code)),
    ("layers", "serves_from", "generations", lambda row: (row.serves_from,)),
    ("labels", "cuda", "cudas", lambda row: (row.cuda,)),
    ("extensions", "cuda", "cudas", lambda row: row.cuda),
    ("extensions", "tolerates", "cudas", lambda row: row.tolerates),
    ("extensions", "ptxas", "cudas", lambda row: row.ptxas),
)
"""Which column of which table names rows of which other table."""


def _capabilities(code: DeviceCode | None) -> Iterable[Capability]:
    return (target.capability for target in code.sass) if code else ()


def parse(tables: Mapping[str, object], where: str = "knowledge base", *, faults: Faults | None = None) -> Knowledge:
    """Read the whole base.

    Args:
        tables: the decoded JSON of every table, by its name.
        where: what to call it in an error.
        faults: where to note what is wrong, when not with the paths alone.

    Raises:
        KnowledgeError: with every fault in it and its path.
    """
    faults = faults or Faults(where, KnowledgeError)
    for name in TABLES:
        if name not in tables:
            faults.add(name, "expected a table, got nothing")
    rows, edition = _read_tables(tables, faults, frozenset())
    if not edition:
        faults.add("sources.edition", "expected a day YYYY-MM-DD, got nothing")
    return _join_rows({}, rows, edition, faults)


def merge(
    base: Knowledge, overlay: Mapping[str, object], where: str = "knowledge", *, faults: Faults | None = None
) -> Knowledge:
    """Lay tables over a base: a row with a known key replaces that row, others are added.

    Args:
        base: what is known already; the overlay may cite its sources.
        overlay: the decoded JSON of some tables, by name.
        where: what to call the overlay in an error.
        faults: where to note what is wrong, when not with the paths alone.

    Raises:
        KnowledgeError: with every fault in it and its path.
    """
    faults = faults or Faults(where, KnowledgeError)
    rows, edition = _read_tables(overlay, faults, frozenset(base.sources))
    return _join_rows({name: rows_of(base, name) for name in TABLES}, rows, edition or base.edition, faults)


def read_table(name: str, table: object, where: str) -> tuple[Any, ...]:
    """The rows of one table as they are, each cell read on first use; `parse` checks the rest.

    Raises:
        KnowledgeError: it is no table; later, a cell is wrong.
    """
    faults = Faults(where, KnowledgeError)
    rows = tuple(rows_in(name, TABLES[name], table, faults, strict=False))
    faults.check(hint=_HINT)
    return rows


def rows_of(knowledge: Knowledge, table: str) -> tuple[Any, ...]:
    """The rows of a table by its name."""
    return tuple(knowledge.sources.values()) if table == "sources" else tuple(getattr(knowledge, table))


def dump(knowledge: Knowledge, table: str) -> str:
    """The canonical text of a table file."""
    edition = knowledge.edition if table == "sources" else None
    return table_text(table, TABLES[table], rows_of(knowledge, table), edition)


def _read_tables(tables: Mapping[str, object], faults: Faults, known: frozenset[str]) -> tuple[Rows, str]:
    """The rows of each existing table with every cell checked, and the edition if there is one."""
    for name in tables:
        if name not in TABLES:
            faults.add("", f"no such table {describe(name)}; choose from {', '.join(TABLES)}")
    rows: Rows = {name: list(rows_in(name, TABLES[name], tables[name], faults)) for name in TABLES if name in tables}
    ids = known | {row.id for row in rows.get("sources", ()) if row}
    check_sources(rows, ids, faults)
    return rows, edition_of(tables.get("sources"), faults)


def edition_of(sources: object, faults: Faults) -> str:
    """The edition that the table of sources names; empty without one."""
    if not isinstance(sources, dict) or "edition" not in sources:
        return ""
    try:
        return str(DAY.read(sources["edition"]))
    except ValueError as error:
        faults.add("sources.edition", str(error))
        return "?"


def _join_rows(known: Mapping[str, tuple[Any, ...]], rows: Rows, edition: str, faults: Faults) -> Knowledge:
    """Known and new rows as a base, with unique keys, in order, and with valid references."""
    joined: dict[str, tuple[Any, ...]] = {}
    for name in TABLES:
        joined[name] = known.get(name, ())
        if new := check_keys(name, rows.get(name, ()), faults):
            merged = {**{row.sort_key(): row for row in joined[name]}, **new}
            joined[name] = tuple(merged[key] for key in sorted(merged))
    _check_references(joined, rows, faults)
    faults.check(hint=_HINT)
    sources = {row.id: row for row in joined.pop("sources")}
    return Knowledge(edition=edition, sources=sources, **joined)


def _check_references(joined: Mapping[str, tuple[Any, ...]], rows: Rows, faults: Faults) -> None:
    """Check that every CUDA release and capability in a new row has a row of its own."""
    there: dict[str, set[Any]] = {}
    for name, column, target, named in _REFERENCES:
        if rows.get(name) and target not in there:
            there[target] = {row.sort_key() for row in joined[target]}
        for index, row in enumerate(rows.get(name, ())):
            for wanted in named(row) if row else ():
                if wanted not in there[target]:
                    faults.add(f"{name}[{index}].{column}", f"the table {target} has no row {wanted}")
