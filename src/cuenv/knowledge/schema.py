"""How a table is declared, read and written: each column once, with its form, its meaning and its default.

A row type is a subclass of `TableRow` whose fields are columns. From it come the strict reader (unknown keys, wrong
types and missing cells are faults, each with its path, such as ``torch[12].cuda``), the canonical text of the file, and
the tables of columns in ``data/README.md``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from packaging.version import Version

from cuenv.core.errors import KnowledgeError
from cuenv.core.reading import Faults, describe
from cuenv.core.record import NamedTuple
from cuenv.core.regex import regex
from cuenv.core.versions import Capability, DeviceCode, arch_list, check_driver, parse_arch_list, version

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        """Tells a type checker alone that columns are the arguments of a row."""
        return lambda cls: cls


class CellError(ValueError):
    """A mistake in a cell, at an index such as ``[3]``."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where = where


class Cell(NamedTuple):
    """The format of a cell in words, its strict reader, and its writer."""

    form: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


def _unchanged(value: Any) -> Any:
    return value


def _read_text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"expected a string, got {describe(value)}")
    if not value or not value.isprintable():
        raise ValueError(f"expected printable text, got {describe(value)}")
    return value


def _read_whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"expected a whole number, got {describe(value)}")
    if not 0 <= value < 1_000_000:
        raise ValueError(f"expected a whole number from 0 to 999999, got {describe(value)}")
    return value


def _read_flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"expected true or false, got {describe(value)}")
    return value


def _cached_reader(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    """A reader that reads each text once, because the rows of a table repeat most of their texts."""
    once = lru_cache(maxsize=1024)(lambda text: read(_read_text(text)))
    return lambda value: once(value) if type(value) is str else _read_text(value)  # which says what is wrong with it


def parsed(form: str, parse: Callable[[str], Any], write: Callable[[Any], str] = str) -> Cell:
    """Text that a function parses, in the canonical form that ``write`` gives it."""

    def read(text: str) -> Any:
        found = parse(text)
        if write(found) != text:  # "12.09" and " 12.9" would have more than one spelling
            raise ValueError(f"expected {write(found)!r}, got {describe(text)}")
        return found

    return Cell(form, _cached_reader(read), write)


def matching(pattern: str, form: str) -> Cell:
    """Text that matches a pattern completely."""
    shape = regex(pattern)

    def read(text: str) -> str:
        if not shape.fullmatch(text):
            raise ValueError(f"expected {form}, got {describe(text)}")
        return text

    return Cell(form, _cached_reader(read), _unchanged)


def one_of(*words: str) -> Cell:
    """A cell that contains one of some words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected one of {', '.join(words)}, got {describe(text)}")
        return text

    return Cell(" or ".join(f"`{word}`" for word in words), _cached_reader(read), _unchanged)


def list_of(cell: Cell, *, empty: bool = False) -> Cell:
    """A list of cells without duplicates."""

    @lru_cache(maxsize=512, typed=True)  # many rows hold the same list; typed: true is no 1
    def once(*value: Any) -> tuple[Any, ...]:
        return read_each(value)

    def read_all(value: Any) -> tuple[Any, ...]:
        """The rows of tables that cite sources, with unique keys and existing sources."""
        if type(value) is not list:
            raise ValueError(f"expected a list, got {describe(value)}")
        if not value and not empty:
            raise ValueError("expected at least one entry, got an empty list")
        try:
            return once(*value)
        except TypeError:  # a mapping or a list within: no reader takes it
            return read_each(value)

    def read_each(value: Iterable[Any]) -> tuple[Any, ...]:
        found = []
        for index, item in enumerate(value):
            try:
                found.append(cell.read(item))
            except ValueError as error:  # noqa: PERF203 - the index belongs into the message
                raise CellError(f"[{index}]", str(error)) from error
        if len(set(found)) != len(found):
            raise ValueError(f"expected every entry once, got a list of {len(found)}")
        return tuple(found)

    return Cell(f"list: {cell.form}", read_all, lambda values: [cell.write(value) for value in values])


@lru_cache(maxsize=256)
def device_code(text: str, cuda: Version | None) -> DeviceCode:
    """The device code of a build from its arch list; its PTX has the ISA of the build's CUDA release."""
    return parse_arch_list(text, cuda)


TEXT = Cell("text", _read_text, _unchanged)
WHOLE = Cell("whole number", _read_whole, _unchanged)
FLAG = Cell("`true` or `false`", _read_flag, _unchanged)
RELEASE: Cell = parsed("release", version)
CAPABILITY: Cell = parsed("capability X.Y", Capability.parse)
DRIVER: Cell = parsed("driver release", check_driver)
DAY: Cell = matching(r"\d{4}-\d{2}-\d{2}", "a day YYYY-MM-DD")
_CODE: Cell = parsed("", lambda text: parse_arch_list(text, None), arch_list)
ARCH_LIST = Cell(
    "as in `TORCH_CUDA_ARCH_LIST`",
    lambda value: "" if value == "" else arch_list(_CODE.read(value)),  # `device_code` reads it with the CUDA release
    arch_list,
)


Joined: TypeAlias = Callable[[Any, Any], Any]


class _Required:
    """The default of a column that has none."""


REQUIRED = _Required()
_CELLS = "_cells"  # where a row keeps its cells, its place in the table, and where faults are noted


class Column:
    """A column of a table: its key in the file, its field, its cell format, its meaning and its default."""

    __slots__ = ("cell", "default", "field", "joined", "key", "meaning")

    def __init__(self, cell: Cell, meaning: str, default: Any, key: str, joined: Joined | None) -> None:
        self.cell, self.meaning, self.default, self.key, self.joined = cell, meaning, default, key, joined
        self.field = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.field = name
        self.key = self.key or name

    def __get__(self, row: TableRow | None, owner: type) -> Any:
        """The value in a row, read from its cell on first use, because a run needs few of them.

        Raises:
            KnowledgeError: the cell is wrong, or needed and not there.
        """
        if row is None:
            return self
        cells, place, faults = row.__dict__[_CELLS]
        try:
            value = self.read(cells)
        except ValueError as error:
            faults.add(*self.fault(place, error))
            raise faults.whole() from error
        if self.joined and value is not None:
            value = self.joined(row, value)
        row.__dict__[self.field] = value
        return value

    def read(self, cells: Mapping[str, Any]) -> Any:
        """The value of this column among the cells of a row.

        Raises:
            ValueError: the cell is wrong, or needed and not there.
        """
        if self.key in cells:
            return self.cell.read(cells[self.key])
        if self.default is REQUIRED:
            raise ValueError("expected a value, got nothing")
        return self.default

    def fault(self, place: str, error: ValueError) -> tuple[str, str]:
        """The path and the message of a mistake in this column of a row."""
        return f"{place}.{self.key}{error.where if isinstance(error, CellError) else ''}", str(error)


def column(cell: Cell, meaning: str, *, default: Any = REQUIRED, key: str = "", joined: Joined | None = None) -> Any:
    """Declare a column of a row type.

    Args:
        cell: what stands in it.
        meaning: in words, with its unit, for the README of the knowledge base.
        default: what a row has whose cell is left out; without one the cell is needed.
        key: its key in the file, when the field has another name.
        joined: makes the value of the row and of what the cell holds, where another column has a say.
    """
    return Column(cell, meaning, default, key, joined)


class Schema(NamedTuple):
    """The columns, the key and the defaults that a row type declares."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]  # the fields that are unique together, and give the order
    defaults: Mapping[str, Any]


@dataclass_transform(kw_only_default=True, eq_default=False, frozen_default=True, field_specifiers=(column,))
class TableRow:
    """A row; a subclass declares the columns as its fields.

    A row is itself and no other: nobody asks whether two rows say the same. Rows are no dataclasses, since making
    those classes cost 10 ms at every start.
    """

    schema: ClassVar[Schema] = Schema((), (), {})

    def __init_subclass__(cls, *, key: tuple[str, ...] = ()) -> None:
        """Collect the columns: own ones before those of every row; a redeclared column replaces the inherited one."""
        own = {item.key: item for item in vars(cls).values() if isinstance(item, Column)}
        first: type[TableRow] = cls.__mro__[-3]  # above it stand TableRow and object
        common = first.schema.columns if first is not cls else ()
        before = [own.pop(item.key, item) for item in cls.schema.columns if item not in common]
        columns = (*before, *own.values(), *common)
        cls.schema = Schema(
            columns=columns,
            key=key,
            defaults={item.field: item.default for item in columns if item.default is not REQUIRED},
        )

    def __init__(self, **values: Any) -> None:
        whole = {**self.schema.defaults, **values}
        if whole.keys() != {item.field for item in self.schema.columns}:
            raise TypeError(f"{type(self).__name__} has other columns than {', '.join(values)}")
        self.__dict__.update(whole)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a row does not change: {name}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values().items())})"

    @classmethod
    def from_cells(cls, cells: Mapping[str, Any], place: str, faults: Faults) -> Self:
        """The row of these cells, which are read on first use; a mistake is noted with their place."""
        row = cls.__new__(cls)
        vars(row)[_CELLS] = cells, place, faults
        return row

    def _values(self) -> dict[str, Any]:
        return {item.field: getattr(self, item.field) for item in self.schema.columns}

    def replaced(self, **changes: Any) -> Self:
        """The same row with other values."""
        return type(self)(**{**self._values(), **changes})

    def sort_key(self) -> Any:
        """The key: unique in the table, whose rows are in its order."""
        names = self.schema.key
        return getattr(self, names[0]) if len(names) == 1 else tuple(getattr(self, name) for name in names)


Rows = TypeVar("Rows", bound=TableRow)


def table_text(name: str, of: type[TableRow], rows: Iterable[Any], edition: str | None = None) -> str:
    """The canonical text of a table file: rows by key, columns in order, defaults left out."""
    head = {"schema": f"cuenv/kb/{name}/1"} | ({"edition": edition} if edition else {})
    lines = (json.dumps(_cells_of(of, row), ensure_ascii=False) for row in sorted(rows, key=of.sort_key))
    start = "".join(f"{json.dumps(key)}: {json.dumps(value)}, " for key, value in head.items())
    return f'{{{start}"rows": [\n' + ",\n".join(lines) + "\n]}\n"


def _cells_of(of: type[TableRow], row: Any) -> dict[str, Any]:
    pairs = ((item, getattr(row, item.field)) for item in of.schema.columns)
    return {item.key: item.cell.write(value) for item, value in pairs if value != item.default}


def rows_in(name: str, of: type[Rows], data: object, faults: Faults, *, strict: bool = True) -> Iterator[Rows | None]:
    """The rows of a table file; ``None`` for a row with a mistake, so that indexes stay right.

    Args:
        strict: whether every cell is read at once, and not when it is asked for.
    """
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
        place = f"{name}[{index}]"
        if type(cells) is not dict:
            faults.add(place, f"expected a mapping, got {describe(cells)}")
            yield None
        else:
            sound = not strict or _is_valid_row(place, of.schema, cells, faults)
            yield of.from_cells(cells, place, faults) if sound else None


def read_all(
    tables: Mapping[str, type[TableRow]],
    data: Mapping[str, object],
    where: str = "",
    known: frozenset[str] = frozenset(),
    *,
    faults: Faults | None = None,
) -> dict[str, tuple[Any, ...]]:
    """The rows of tables that cite sources, each key once, each cited source there.

    Args:
        tables: with ``sources`` among them.
        data: the decoded JSON of every table, by its name.
        where: what to call it in an error.
        known: ids of further sources that may be cited.
        faults: where to note what is wrong, when not with the paths alone.

    Raises:
        KnowledgeError: with every fault in it and its path.
    """
    faults = faults or Faults(where, KnowledgeError)
    rows: dict[str, list[Any]] = {name: list(rows_in(name, of, data.get(name), faults)) for name, of in tables.items()}
    ids = known | {row.id for row in rows["sources"] if row}
    for name, found in rows.items():
        check_keys(name, found, faults)
    check_sources(rows, ids, faults)
    faults.check()
    return {name: tuple(found) for name, found in rows.items()}


def check_keys(name: str, rows: Iterable[TableRow | None], faults: Faults) -> dict[Any, Any]:
    """The rows by their keys; duplicate keys are noted."""
    seen: dict[Any, int] = {}
    found: dict[Any, Any] = {}
    for index, row in enumerate(rows):
        if row is None:
            continue
        key = row.sort_key()
        if key in found:
            faults.add(f"{name}[{index}]", f"has the key of {name}[{seen[key]}]")
        else:
            found[key], seen[key] = row, index
    return found


def check_sources(rows: Mapping[str, Iterable[Any]], ids: frozenset[str], faults: Faults) -> None:
    """Note the rows that cite an unknown source."""
    for name, found in rows.items():
        for index, row in enumerate(found):
            cited = getattr(row, "sources", ())  # sources themselves, and codes, cite none
            if not ids.issuperset(cited):
                lost = ", ".join(repr(source) for source in cited if source not in ids)
                faults.add(f"{name}[{index}].src", f"no source has the id {lost}")


def _is_valid_row(place: str, schema: Schema, cells: Mapping[str, Any], faults: Faults) -> bool:
    """Whether every cell of a row can be read; mistakes are noted."""
    before = len(faults.items)
    keys = [item.key for item in schema.columns]
    for key in cells:
        if key not in keys:
            faults.add(place, f"unknown key {describe(key)}; choose from {', '.join(keys)}")
    for item in schema.columns:
        try:
            item.read(cells)
        except ValueError as error:  # noqa: PERF203 - every cell is read, and every fault noted
            faults.add(*item.fault(place, error))
    return len(faults.items) == before
