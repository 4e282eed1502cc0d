"""What one library defines and what another wants of it, without reading either whole.

A library has up to hundreds of thousands of symbols. Those it wants stand in front of the hashed ones, and whether a
name is defined is asked of the hash table that the loader asks (DT_GNU_HASH; glibc, elf/dl-lookup.c). An executable has
few, and hashes the functions of others whose address it takes: it is read whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from cuenv.binary.data import BinaryError, Data, numbers, take
from cuenv.binary.elf_dynamic import Layout, defined_versions, strings_of
from cuenv.binary.elf_symbols import HASH_HEADER, SYMBOL, symbols
from cuenv.binary.elf_values import Elf, Symbol

_HIDDEN = 0x8000
_BUDGET = 4 << 20
_LONGEST_CHAIN = 4096


def wanted(data: Data, elf: Elf) -> Iterator[Symbol]:
    """The symbols that somebody else has to define: weak ones are left out.

    Raises:
        BinaryError: a table is damaged.
    """
    table = None if elf.kind == "executable" else _Hashed.of(data, elf)
    every = symbols(data, elf, most=table.first if table else None)
    return (symbol for symbol in every if not symbol.defined and not symbol.weak)


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
        self._buckets, self.first, blooms, self._shift = numbers(data, at, HASH_HEADER, "the hash table")
        skip = HASH_HEADER.size + blooms * 8
        if not self._buckets or not blooms or skip + self._buckets * 4 > room:
            raise BinaryError(f"damaged: a hash table with {self._buckets} buckets in {room} bytes")
        self._bloom = struct.unpack(f"<{blooms}Q", take(data, at + HASH_HEADER.size, blooms * 8, "the hash table"))
        self._heads = struct.unpack(f"<{self._buckets}I", take(data, at + skip, self._buckets * 4, "the hash table"))
        self._chains = at + skip + self._buckets * 4
        self.symbols = layout.offset(self.tables.symbols or 0, "the symbol table")[0]
        self._strings = layout.offset(self.tables.strings or 0, "the dynamic string table")[0]
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
        where = self.symbols + index * SYMBOL.size
        text, _, _, section, _, _ = SYMBOL.unpack(take(self.data, where, SYMBOL.size, "the symbol table"))
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
