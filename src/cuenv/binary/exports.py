"""What one library defines and what another wants of it, without reading either whole.

A library has up to hundreds of thousands of symbols. Those it wants stand in front of the hashed ones, and whether a
name is defined is asked of the hash table that the loader asks (DT_GNU_HASH; glibc, elf/dl-lookup.c). An executable has
few, and hashes the functions of others whose address it takes: it is read whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from cuenv.binary.data import BinaryError, Data, numbers, take
from cuenv.binary.elf import Elf, symbols
from cuenv.binary.elf_dynamic import Layout, defined_versions, needed_versions, strings_of

_SYMBOL = struct.Struct("<IBBHQQ")
_HEADER = struct.Struct("<IIII")
_WEAK, _LOCAL = 2, 0
_HIDDEN = 0x8000
_MOST = 1 << 22
_LARGEST_STRINGS = 256 << 20
_BUDGET = 4 << 20
_LONGEST_CHAIN = 4096


@dataclass(frozen=True, slots=True)
class Wanted:
    """A symbol that must come from another library; ``file`` is the one that its version is looked for in."""

    name: str
    version: str | None
    file: str | None


def wanted(data: Data, elf: Elf) -> Iterator[Wanted]:
    """The symbols that somebody has to define: weak ones are left out.

    Raises:
        BinaryError: a table is damaged.
    """
    table = None if elf.kind == "executable" else _Hashed.of(data, elf)
    if table is None:
        for symbol in symbols(data, elf):
            if not symbol.defined and not symbol.weak:
                yield Wanted(symbol.name, symbol.version, symbol.file)
        return
    layout, tables = table.layout, table.tables
    strings = strings_of(data, layout, tables, _BUDGET)
    versions = {item.index: item for item in needed_versions(data, layout, tables, strings)}
    names = table.names()
    left = 8 * len(names) + (1 << 20)
    rows = _SYMBOL.iter_unpack(take(data, table.symbols, table.first * _SYMBOL.size, "the symbol table"))
    bound: tuple[int, ...] = (0,) * table.first
    if table.versions is not None:
        bound = struct.unpack(f"<{table.first}H", take(data, table.versions, table.first * 2, "the symbol versions"))
    for (name, info, _, section, _, _), index in zip(rows, bound, strict=True):
        if name and section == 0 and info >> 4 not in (_WEAK, _LOCAL):
            known = versions.get(index & 0x7FFF)
            end = names.find(b"\0", name)
            left -= end - name + 1
            if end < 0 or left < 0:
                raise BinaryError("damaged: a symbol name has no end, or the names overlap beyond reason")
            text = names[name:end].decode("utf-8", "surrogateescape")
            yield Wanted(text, known.name if known else None, known.file if known else None)


class Exports:
    """Whether a library defines a symbol."""

    def __init__(self, data: Data, elf: Elf) -> None:
        self._data, self._elf = data, elf
        self._table = _Hashed.of(data, elf)
        self._all: dict[str, list[str | None]] | None = None

    def defines(self, name: str, version: str | None = None, *, hashed: int | None = None) -> bool:
        """Whether it does, as the loader sees it: a library without versions serves every version.

        Args:
            name: of the symbol.
            version: that is wanted.
            hashed: `gnu_hash` of the name, where it is known already.

        Raises:
            BinaryError: a table is damaged.
        """
        if self._table is None:
            found = self._everything().get(name)
            if found is None:
                return False
            return version is None or version in found or None in found
        raw = name.encode("utf-8", "surrogateescape")
        return self._table.defines(raw, version, gnu_hash(raw) if hashed is None else hashed)

    def _everything(self) -> dict[str, list[str | None]]:
        """All defined symbols, where there is no hash table to ask (NVIDIA's older libraries are small enough)."""
        if self._all is None:
            self._all = {}
            for symbol in symbols(self._data, self._elf):
                if symbol.defined:
                    self._all.setdefault(symbol.name, []).append(symbol.version)
        return self._all


class _Hashed:
    """The GNU hash table of a library."""

    def __init__(self, data: Data, elf: Elf, layout: Layout, address: int) -> None:
        assert elf.dynamic is not None  # noqa: S101 - `of` has looked
        self.data, self.layout, self.tables = data, layout, elf.dynamic.tables
        at, room = layout.offset(address, "the hash table")
        self._buckets, self.first, blooms, self._shift = numbers(data, at, _HEADER, "the hash table")
        skip = _HEADER.size + blooms * 8
        if not self._buckets or not blooms or skip + self._buckets * 4 > room or self.first > _MOST:
            raise BinaryError(f"damaged: a hash table with {self._buckets} buckets in {room} bytes")
        self._bloom = struct.unpack(f"<{blooms}Q", take(data, at + _HEADER.size, blooms * 8, "the hash table"))
        self._heads = struct.unpack(f"<{self._buckets}I", take(data, at + skip, self._buckets * 4, "the hash table"))
        self._chains = at + skip + self._buckets * 4
        self.symbols = layout.offset(self.tables.symbols or 0, "the symbol table")[0]
        self._strings, self._strings_room = layout.offset(self.tables.strings or 0, "the dynamic string table")
        indexes = self.tables.versions
        self.versions = layout.offset(indexes, "the symbol versions")[0] if indexes is not None else None
        self._known: dict[int, str] | None = None

    @classmethod
    def of(cls, data: Data, elf: Elf) -> _Hashed | None:
        """The table; ``None`` where there is none, or none that says where the wanted symbols end."""
        tables = elf.dynamic.tables if elf.dynamic else None
        if tables is None or tables.gnu_hash is None or tables.symbols is None or tables.strings is None:
            return None
        found = cls(data, elf, Layout(elf.sections, elf.segments), tables.gnu_hash)
        return found if any(found._heads) else None

    def names(self) -> bytes:
        size = min(self.tables.strings_size, self._strings_room)
        if size > _LARGEST_STRINGS:
            raise BinaryError(f"hostile: a dynamic string table of {size} bytes")
        return take(self.data, self._strings, size, "the dynamic string table")

    def defines(self, name: bytes, version: str | None, hashed: int) -> bool:
        word = self._bloom[(hashed >> 6) % len(self._bloom)]
        if not (word >> (hashed & 63)) & (word >> ((hashed >> self._shift) & 63)) & 1:
            return False
        index = self._heads[hashed % self._buckets]
        if index < self.first:
            return False
        for _ in range(_LONGEST_CHAIN):
            chain = self._chains + (index - self.first) * 4
            (link,) = struct.unpack("<I", take(self.data, chain, 4, "the hash table"))
            if (link ^ hashed) >> 1 == 0 and self._is(index, name) and self._serves(index, version):
                return True
            if link & 1:
                return False
            index += 1
        raise BinaryError("damaged: a chain of the hash table has no end")

    def _is(self, index: int, name: bytes) -> bool:
        where = self.symbols + index * _SYMBOL.size
        text, _, _, section, _, _ = _SYMBOL.unpack(take(self.data, where, _SYMBOL.size, "the symbol table"))
        at = self._strings + text
        return section != 0 and bytes(self.data[at : at + len(name) + 1]) == name + b"\0"

    def _serves(self, index: int, version: str | None) -> bool:
        """elf/dl-lookup.c, check_match: what is unversioned and not hidden serves every version."""
        if self.versions is None:
            return True
        (bound,) = struct.unpack("<H", take(self.data, self.versions + index * 2, 2, "the symbol versions"))
        known = self._versions().get(bound & 0x7FFF)
        if version is None:
            return not bound & _HIDDEN or known is None
        return known == version or (known is None and not bound & _HIDDEN)

    def _versions(self) -> dict[int, str]:
        if self._known is None:
            strings = strings_of(self.data, self.layout, self.tables, _BUDGET)
            found = defined_versions(self.data, self.layout, self.tables, strings)
            self._known = {item.index: item.name for item in found}
        return self._known


def gnu_hash(name: bytes) -> int:
    """The hash of DT_GNU_HASH: 32 bits, h * 33 + c from 5381."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value
