"""What one library defines and what another wants of it, without reading either whole.

A library has up to hundreds of thousands of symbols. Those it wants stand in front of the hashed ones, and whether a
name is defined is asked of the hash table that the loader asks (DT_GNU_HASH; glibc, elf/dl-lookup.c). An executable has
few, and hashes the functions of others whose address it takes: it is read whole.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from operator import mul

from cuenv.binary.data import BinaryError, Data, numbers, take
from cuenv.binary.elf import (
    HASH_HEADER,
    SYMBOL,
    Elf,
    Layout,
    Symbol,
    defined_versions,
    gnu_hash_count,
    strings_of,
    symbols,
)

_HIDDEN = 0x8000
_BUDGET = 4 << 20
_LONGEST_CHAIN = 4096
_MOST = 1 << 22
_SAME = 2  # two hashes that differ in their last bit alone, which a chain uses for its end
_BOUND, _NAME_SECTION = struct.Struct("<H"), struct.Struct("<IxxH")
_LONGEST_NAME = 4096
_POWERS = tuple(pow(33, power, 1 << 32) for power in range(_LONGEST_NAME - 1, -1, -1))


class Memory:
    """The number of bytes of tables to keep in memory; more is read in pieces.

    Attributes:
        left: bytes that are not given away yet.
    """

    def __init__(self, left: int = 64 << 20) -> None:
        self.left = left


def wanted(data: Data, elf: Elf) -> Iterator[Symbol]:
    """The symbols that another library must define, without weak ones.

    Raises:
        BinaryError: a table is damaged.
    """
    table = None if elf.kind == "executable" else _Hashed.of(data, elf)
    every = symbols(data, elf, most=table.first if table else None)
    return (symbol for symbol in every if not symbol.defined and not symbol.weak)


Finder = Callable[[bytes, str | None, int], bool]
"""Whether a library defines a symbol, as the loader sees it: its name, its version, and `gnu_hash` of the name."""


class Exports:
    """Whether a library defines a symbol."""

    def __init__(self, data: Data, elf: Elf, memory: Memory | None = None) -> None:
        self._data, self._elf = data, elf
        self._table = _Hashed.of(data, elf, memory)
        self._all: dict[str, list[str | None]] | None = None
        self.finder: Finder = self._table.finder() if self._table else self._unhashed

    def _unhashed(self, name: bytes, version: str | None, _hashed: int) -> bool:
        found = self._everything().get(name.decode("utf-8", "surrogateescape"))
        return found is not None and (version is None or version in found or None in found)

    def _everything(self) -> dict[str, list[str | None]]:
        """All defined symbols, where there is no hash table to ask (NVIDIA's older libraries are small enough)."""
        if self._all is None:
            self._all = {}
            for symbol in symbols(self._data, self._elf):
                if symbol.defined:
                    self._all.setdefault(symbol.name, []).append(symbol.version)
        return self._all


class _Table:
    """A table of a library, read on first use; data beyond its size is read in pieces."""

    def __init__(self, data: Data, at: int, memory: Memory, what: str) -> None:
        self._data, self._at, self._memory, self._what = data, at, memory, what
        self._raw: bytes | None = None
        self.size = 0

    def take(self, offset: int, size: int) -> bytes:
        """The bytes at an offset in the table, exactly as many as asked.

        Raises:
            BinaryError: the file ends before them.
        """
        if self._raw is None:
            self._raw = self._read()
        found = self._raw[offset : offset + size]
        return found if len(found) == size else take(self._data, self._at + offset, size, self._what)

    def begins(self, offset: int, text: bytes) -> bool:
        """Whether these bytes are at an offset in the table."""
        if self._raw is None:
            self._raw = self._read()
        if offset + len(text) <= len(self._raw):
            return self._raw.startswith(text, offset)
        return bytes(self._data[self._at + offset : self._at + offset + len(text)]) == text

    def _read(self) -> bytes:
        size = min(self.size, len(self._data) - self._at)
        if not 0 < size <= self._memory.left:
            return b""
        self._memory.left -= size
        return bytes(self._data[self._at : self._at + size])


class _Hashed:
    """The GNU hash table of a library."""

    def __init__(self, data: Data, elf: Elf, layout: Layout, address: int, memory: Memory) -> None:
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
        self._chain: Sequence[int] | None = None
        self._symbols = self._table(self.tables.symbols or 0, memory, "the symbol table")
        self._strings = self._table(self.tables.strings or 0, memory, "the dynamic string table")
        bound = self.tables.versions
        self._bound = self._table(bound, memory, "the symbol versions") if bound is not None else None
        count = max(self._heads)  # the last chain is short: what lies beyond its head is read piece by piece
        self._symbols.size, self._strings.size = SYMBOL.size * count, self.tables.strings_size
        if self._bound:
            self._bound.size = _BOUND.size * count
        self._known: dict[int, str] | None = None

    def _table(self, address: int, memory: Memory, what: str) -> _Table:
        return _Table(self.data, self.layout.offset(address, what)[0], memory, what)

    @classmethod
    def of(cls, data: Data, elf: Elf, memory: Memory | None = None) -> _Hashed | None:
        """The hash table; ``None`` without one, or if the end of the symbols is unknown."""
        tables = elf.dynamic.tables if elf.dynamic else None
        if tables is None or tables.gnu_hash is None or tables.symbols is None or tables.strings is None:
            return None
        found = cls(data, elf, Layout(elf.sections, elf.segments), tables.gnu_hash, memory or Memory())
        return found if any(found._heads) else None

    def finder(self) -> Finder:
        """What answers whether a symbol is defined; asked ten thousands of times, so all it needs is at hand."""
        bloom, blooms, shift, heads, buckets = self._bloom, len(self._bloom), self._shift, self._heads, self._buckets
        first, links, symbol, begins, serves = (
            self.first,
            self._links(),
            self._symbols.take,
            self._strings.begins,
            self._serves,
        )
        width, fields = SYMBOL.size, _NAME_SECTION.unpack_from

        def defines(name: bytes, version: str | None, hashed: int) -> bool:
            word = bloom[(hashed >> 6) % blooms]
            if not (word >> (hashed & 63)) & (word >> ((hashed >> shift) & 63)) & 1:
                return False
            index = heads[hashed % buckets]
            if index < first:
                return False
            for at in range(index, min(index + _LONGEST_CHAIN, first + len(links))):
                link = links[at - first]
                if (link ^ hashed) < _SAME:
                    text, section = fields(symbol(at * width, width))
                    if section and begins(text, name + b"\0") and serves(at, version):
                        return True
                if link & 1:
                    return False
            raise BinaryError("damaged: a chain of the hash table has no end")

        return defines

    def _links(self) -> Sequence[int]:
        """The hashes of the symbols, the first hashed one first; the last bit is set where a chain ends."""
        if self._chain is None:
            count = gnu_hash_count(self.data, self.layout, self.tables.gnu_hash or 0) - self.first
            if count > _MOST:
                raise BinaryError(f"hostile: {count} symbols in a hash table")
            self._chain = memoryview(take(self.data, self._chains, 4 * max(0, count), "the hash table")).cast("I")
        return self._chain

    def _serves(self, index: int, version: str | None) -> bool:
        """elf/dl-lookup.c, check_match: what is unversioned and not hidden serves every version."""
        if self._bound is None:
            return True
        (bound,) = _BOUND.unpack(self._bound.take(index * 2, 2))
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
    for start in range(0, len(name), _LONGEST_NAME):
        part = name[start : start + _LONGEST_NAME]
        here = sum(map(mul, part, _POWERS[_LONGEST_NAME - len(part) :]))
        value = (value * pow(33, len(part), 1 << 32) + here) & 0xFFFFFFFF
    return value
