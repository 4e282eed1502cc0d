"""One file is one table: strict reading of its rows, and their canonical text.

A table says which columns it has, what makes a row of their values, and what the key of a row is. Unknown keys,
wrong types and missing cells are faults, each with its path (``torch[12].cuda``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from cuenv.core.errors import KnowledgeError
from cuenv.core.reading import Faults, describe
from cuenv.knowledge import columns
from cuenv.knowledge.columns import NEEDED, CellError, Column


class Table(NamedTuple):
    """A table: what makes its rows, its columns, and the key of a row, which is unique and gives the order.

    Attributes:
        cells: the field and the reader of each column, by its key in the file: asked for every cell.
    """

    make: Callable[..., Any]
    columns: tuple[Column, ...]
    key: Callable[[Any], Any]
    cells: Mapping[str, tuple[str, Callable[[Any], Any]]]
    needed: frozenset[str]
    absent: Mapping[str, Any]


def plain_table(make: Callable[..., Any], of: tuple[Column, ...], key: Callable[[Any], Any]) -> Table:
    """A table with just these columns."""
    return Table(
        make=make,
        columns=of,
        key=key,
        cells={column.key: (column.field, column.read) for column in of},
        needed=frozenset(column.key for column in of if column.absent is NEEDED),
        absent={column.field: column.absent for column in of if column.absent is not NEEDED},
    )


def facts_table(make: Callable[..., Any], of: tuple[Column, ...], key: Callable[[Any], Any]) -> Table:
    """A table whose rows name their sources."""
    return plain_table(make, (*of, *columns.COMMON), key)


def text_of(name: str, of: Table, rows: Iterable[Any], edition: str | None = None) -> str:
    """The canonical text of a table's file: rows by key, columns in order, defaults left out."""
    head = {"schema": f"cuenv/kb/{name}/1"} | ({"edition": edition} if edition else {})
    lines = (json.dumps(_cells(of, row), ensure_ascii=False) for row in sorted(rows, key=of.key))
    start = "".join(f"{json.dumps(key)}: {json.dumps(value)}, " for key, value in head.items())
    return f'{{{start}"rows": [\n' + ",\n".join(lines) + "\n]}\n"


def _cells(of: Table, row: Any) -> dict[str, Any]:
    pairs = ((column, getattr(row, column.field)) for column in of.columns)
    return {
        column.key: column.write(value) for column, value in pairs if column.absent is NEEDED or value != column.absent
    }


def rows_in(name: str, of: Table, data: object, faults: Faults) -> Iterator[Any]:
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
        yield _row(f"{name}[{index}]", of, cells, faults)


def read_all(
    tables: Mapping[str, Table], data: Mapping[str, object], where: str, known: frozenset[str] = frozenset()
) -> dict[str, tuple[Any, ...]]:
    """The rows of tables that cite sources, each key once, each cited source there.

    Args:
        tables: with ``sources`` among them.
        data: the decoded JSON of every table, by its name.
        where: what to call it in an error.
        known: ids of further sources that may be cited.

    Raises:
        KnowledgeError: with every fault in it and its path.
    """
    faults = Faults(where, KnowledgeError)
    rows = {name: list(rows_in(name, of, data.get(name), faults)) for name, of in tables.items()}
    ids = known | {row.id for row in rows["sources"] if row}
    for name, of in tables.items():
        seen: set[Any] = set()
        for index, row in enumerate(rows[name]):
            if row is None:
                continue
            if of.key(row) in seen:
                faults.add(f"{name}[{index}]", f"a second row has the key {describe(of.key(row))}")
            seen.add(of.key(row))
    check_sources(rows, ids, faults)
    faults.check()
    return {name: tuple(found) for name, found in rows.items()}


def check_sources(rows: Mapping[str, Iterable[Any]], ids: frozenset[str], faults: Faults) -> None:
    """Note the rows that cite a source which is none of these."""
    for name, found in rows.items():
        for index, row in enumerate(found):
            cited = getattr(row, "sources", ())  # sources themselves, and codes, cite none
            if not ids.issuperset(cited):
                lost = ", ".join(repr(source) for source in cited if source not in ids)
                faults.add(f"{name}[{index}].src", f"no source has the id {lost}")


def _row(where: str, of: Table, cells: object, faults: Faults) -> Any:
    """One row, or ``None`` when it has a fault."""
    if type(cells) is not dict:
        faults.add(where, f"expected a mapping, got {describe(cells)}")
        return None
    sound = True
    values = dict(of.absent)
    for key, raw in cells.items():
        known = of.cells.get(key)
        if known is None:
            faults.add(where, f"unknown key {describe(key)}; there are {', '.join(of.cells)}")
            sound = False
            continue
        field, read = known
        try:
            values[field] = read(raw)
        except CellError as error:
            faults.add(f"{where}.{key}{error.where}", str(error))
            sound = False
        except ValueError as error:
            faults.add(f"{where}.{key}", str(error))
            sound = False
    for key in of.needed.difference(cells):
        faults.add(f"{where}.{key}", "expected a value, got nothing")
        sound = False
    return of.make(**values) if sound else None
