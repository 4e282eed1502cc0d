"""The tables of the knowledge base, between JSON and `Knowledge`: strict reading, laying over, canonical text.

One file is one table: ``{"schema": "cuenv/kb/<table>/1", "rows": [...]}``, one row per line; ``data/README.md``
names the columns. Reading is strict: unknown keys, wrong types, control characters, sources that do not exist, a
second row with the same key and references into nothing are faults, each with its path (``torch[12].cuda``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from packaging.version import Version

from cuenv import columns, extension_columns, state_columns
from cuenv.columns import NEEDED, CellError, Column, device_code
from cuenv.errors import KnowledgeError
from cuenv.extension_rows import Extension, Regression
from cuenv.knowledge import Knowledge
from cuenv.reading import Faults, describe
from cuenv.rows import (
    Branch,
    Component,
    Cuda,
    Ending,
    Floor,
    Generation,
    GpuModel,
    LabelFit,
    Layer,
    Source,
    Toolkit,
    TorchBuild,
    Twin,
)
from cuenv.state_rows import Feature, State
from cuenv.versions import Capability, DeviceCode, minor, version

Rows: TypeAlias = dict[str, list[Any]]
"""The rows of each table in the order of its file; ``None`` stands for one that could not be read."""

_HINT = "the README of the knowledge base says what each table and column means"
_OLDEST = version("0")


class Table(NamedTuple):
    """A table: what makes its rows, its columns, and the key of a row, which is unique and gives the order."""

    make: Callable[..., Any]
    columns: tuple[Column, ...]
    key: Callable[[Any], Any]
    by_key: Mapping[str, Column]
    needed: frozenset[str]
    absent: Mapping[str, Any]


def _torch_build(*, code: str | None, cuda: Version | None, **rest: Any) -> TorchBuild:
    return TorchBuild(code=None if code is None else device_code(code, cuda), cuda=cuda, **rest)


def _table(make: Callable[..., Any], of: tuple[Column, ...], key: Callable[[Any], Any]) -> Table:
    return Table(
        make=make,
        columns=of,
        key=key,
        by_key={column.key: column for column in of},
        needed=frozenset(column.key for column in of if column.absent is NEEDED),
        absent={column.field: column.absent for column in of if column.absent is not NEEDED},
    )


def _facts(make: Callable[..., Any], of: tuple[Column, ...], key: Callable[[Any], Any]) -> Table:
    return _table(make, (*of, *columns.COMMON), key)


TABLES: Mapping[str, Table] = {
    "sources": _table(Source, columns.SOURCE, lambda row: row.id),
    "toolkits": _facts(Toolkit, columns.TOOLKIT, lambda row: row.version),
    "cudas": _facts(Cuda, columns.CUDA, lambda row: row.version),
    "branches": _facts(Branch, columns.BRANCH, lambda row: row.number),
    "floors": _facts(Floor, columns.FLOOR, lambda row: row.major),
    "generations": _facts(Generation, columns.GENERATION, lambda row: row.capability),
    "gpus": _facts(GpuModel, columns.GPU, lambda row: row.name),
    "torch": _facts(
        _torch_build,
        columns.TORCH,
        lambda row: (row.stack, row.version, row.cuda or _OLDEST, row.platform),
    ),
    "layers": _facts(Layer, columns.LAYER, lambda row: (row.library, row.first or _OLDEST)),
    "components": _facts(Component, columns.COMPONENT, lambda row: row.name),
    "twins": _facts(Twin, columns.TWIN, lambda row: (row.channel, row.package)),
    "labels": _facts(LabelFit, columns.LABEL, lambda row: (row.cuda, version(row.label))),
    "endings": _facts(Ending, columns.ENDING, lambda row: (row.channel, row.package)),
    "extensions": _facts(
        Extension,
        extension_columns.EXTENSION,
        lambda row: (row.package, row.comes, row.first or min(row.releases, default=_OLDEST), row.cuda),
    ),
    "regressions": _facts(Regression, extension_columns.REGRESSION, lambda row: (row.package, row.releases)),
    "features": _facts(Feature, state_columns.FEATURE, lambda row: (row.capability, row.chip)),
    "states": _facts(State, state_columns.STATE, lambda row: row.about),
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
    of = TABLES[table]
    head: dict[str, str] = {"schema": f"cuenv/kb/{table}/1"}
    if table == "sources":
        head["edition"] = knowledge.edition
    lines = (json.dumps(_cells(of, row), ensure_ascii=False) for row in sorted(rows_of(knowledge, table), key=of.key))
    start = "".join(f"{json.dumps(key)}: {json.dumps(value)}, " for key, value in head.items())
    return f'{{{start}"rows": [\n' + ",\n".join(lines) + "\n]}\n"


def _cells(of: Table, row: Any) -> dict[str, Any]:
    pairs = ((column, getattr(row, column.field)) for column in of.columns)
    return {
        column.key: column.write(value) for column, value in pairs if column.absent is NEEDED or value != column.absent
    }


def _read(tables: Mapping[str, object], faults: Faults, known: frozenset[str]) -> tuple[Rows, str]:
    """The rows of each table that is there, every cell checked, and the edition when one is given."""
    for name in tables:
        if name not in TABLES:
            faults.add("", f"no such table {describe(name)}; there are {', '.join(TABLES)}")
    rows = {name: list(_rows(name, tables[name], faults)) for name in TABLES if name in tables}
    ids = known | {row.id for row in rows.get("sources", ()) if row}
    for name, found in rows.items():
        for index, row in enumerate(found):
            if row and name != "sources" and not ids.issuperset(row.sources):
                lost = ", ".join(repr(source) for source in row.sources if source not in ids)
                faults.add(f"{name}[{index}].src", f"no source has the id {lost}")
    return rows, _edition(tables.get("sources"), faults)


def _edition(sources: object, faults: Faults) -> str:
    if not isinstance(sources, dict) or "edition" not in sources:
        return ""
    try:
        return columns.day(sources["edition"])
    except ValueError as error:
        faults.add("sources.edition", str(error))
        return "?"


def _rows(name: str, data: object, faults: Faults) -> Iterator[Any]:
    """The rows of a table file; ``None`` for one with a fault, so that indexes stay right."""
    if not isinstance(data, dict):
        faults.add(name, f"expected a mapping, got {describe(data)}")
        return
    schema = f"cuenv/kb/{name}/1"
    if data.get("schema") != schema:
        faults.add(f"{name}.schema", f"expected {schema!r}, got {describe(data.get('schema'))}")
    for key in data:
        if key not in ("schema", "rows") and not (key == "edition" and name == "sources"):
            faults.add(name, f"unknown key {describe(key)}")
    found = data.get("rows")
    if type(found) is not list:
        faults.add(f"{name}.rows", f"expected a list, got {describe(found)}")
        return
    for index, cells in enumerate(found):
        yield _row(name, index, cells, faults)


def _row(name: str, index: int, cells: object, faults: Faults) -> Any:
    """One row, or ``None`` when it has a fault."""
    if type(cells) is not dict:
        faults.add(f"{name}[{index}]", f"expected a mapping, got {describe(cells)}")
        return None
    table = TABLES[name]
    sound = True
    values = dict(table.absent)
    for key, raw in cells.items():
        column = table.by_key.get(key)
        if column is None:
            faults.add(f"{name}[{index}]", f"unknown key {describe(key)}; there are {', '.join(table.by_key)}")
            sound = False
            continue
        try:
            values[column.field] = column.read(raw)
        except CellError as error:
            faults.add(f"{name}[{index}].{key}{error.where}", str(error))
            sound = False
        except ValueError as error:
            faults.add(f"{name}[{index}].{key}", str(error))
            sound = False
    for key in table.needed.difference(cells):
        faults.add(f"{name}[{index}].{key}", "expected a value, got nothing")
        sound = False
    return table.make(**values) if sound else None


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
