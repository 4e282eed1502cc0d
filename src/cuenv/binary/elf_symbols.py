"""The dynamic symbols of an ELF file, with the versions that bind them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from cuenv.binary.data import BinaryError, Data, numbers, take
from cuenv.binary.elf_dynamic import Layout, Version, defined_versions, needed_versions, strings_of
from cuenv.binary.elf_values import Elf, Symbol, Tables

SYMBOL = struct.Struct("<IBBHQQ")
HASH_HEADER = struct.Struct("<IIII")
_WORDS = struct.Struct("<II")

_SHT_DYNSYM = 11
_WEAK = 2
_LOCAL = 0
_LARGEST_STRINGS = 256 << 20
_MOST = 1 << 22
_STEP = 4096  # symbols read at once


def symbols(data: Data, elf: Elf, *, most: int | None = None) -> Iterator[Symbol]:
    """The dynamic symbols, local and nameless ones left out, in their order.

    Args:
        data: the bytes that ``elf`` was read from.
        elf: the file.
        most: how many to look at, from the first one on; all when it is ``None``.

    Raises:
        BinaryError: a table is damaged.
    """
    layout = Layout(elf.sections, elf.segments)
    if elf.dynamic is None or elf.dynamic.tables.symbols is None or elf.dynamic.tables.strings is None:
        return
    tables = elf.dynamic.tables
    start, count = _extent(data, layout, tables, most)
    names = _Names(data, layout, tables)
    versions = _versions(data, layout, tables)
    indexes = layout.offset(tables.versions, "the symbol versions")[0] if tables.versions is not None else None
    for first in range(0, count, _STEP):
        many = min(_STEP, count - first)
        raw = take(data, start + first * SYMBOL.size, many * SYMBOL.size, "the symbol table")
        bound: tuple[int, ...] = (0,) * many
        if indexes is not None:
            bound = struct.unpack(f"<{many}H", take(data, indexes + first * 2, many * 2, "the symbol versions"))
        for (name, info, _, section, _, _), version in zip(SYMBOL.iter_unpack(raw), bound, strict=True):
            text = names.at(name) if name and info >> 4 != _LOCAL else ""
            if text:
                known = versions.get((version & 0x7FFF, section == 0))
                yield Symbol(
                    name=text,
                    defined=section != 0,
                    weak=info >> 4 == _WEAK,
                    version=known.name if known else None,
                    file=known.file if known else None,
                )


class _Names:
    """The string table, read once: there are too many symbols to ask the file for each."""

    def __init__(self, data: Data, layout: Layout, tables: Tables) -> None:
        offset, room = layout.offset(tables.strings or 0, "the dynamic string table")
        size = min(tables.strings_size, room)
        if size > _LARGEST_STRINGS:
            raise BinaryError(f"hostile: a dynamic string table of {size} bytes")
        self._raw = take(data, offset, size, "the dynamic string table")
        self._left = 8 * size + (1 << 20)

    def at(self, index: int) -> str:
        end = self._raw.find(b"\0", index)
        if end < 0:
            raise BinaryError(f"damaged: a symbol name at {index} of {len(self._raw)} bytes has no end")
        self._left -= end - index + 1
        if self._left < 0:
            raise BinaryError("hostile: the symbol names overlap beyond reason")
        return self._raw[index:end].decode("utf-8", "surrogateescape")


def _versions(data: Data, layout: Layout, tables: Tables) -> dict[tuple[int, bool], Version]:
    """The versions by index, those that are needed (``True``) apart from those that are defined."""
    strings = strings_of(data, layout, tables, 4 << 20)
    found = {(item.index, False): item for item in defined_versions(data, layout, tables, strings)}
    for item in needed_versions(data, layout, tables, strings):
        found[item.index, True] = item
        # A copy relocation of an executable is defined here and versioned by the library it comes from.
        found.setdefault((item.index, False), item)
    return found


def _extent(data: Data, layout: Layout, tables: Tables, most: int | None) -> tuple[int, int]:
    """Where the symbol table starts in the file, and how many of its symbols to look at."""
    address = tables.symbols or 0
    start, room = layout.offset(address, "the symbol table")
    count = _count(data, layout, tables, address) if most is None else most
    count = min(count, room // SYMBOL.size)
    if count > _MOST:
        raise BinaryError(f"hostile: {count} dynamic symbols")
    return start, count


def _count(data: Data, layout: Layout, tables: Tables, address: int) -> int:
    """The dynamic section does not say how many symbols there are: a section or a hash table does."""
    for section in layout.sections:
        if section.kind == _SHT_DYNSYM and section.address == address:
            return section.size // SYMBOL.size
    if tables.hash is not None:
        _, chains = numbers(data, layout.offset(tables.hash, "the hash table")[0], _WORDS, "the hash table")
        return int(chains)
    after = ((tables.strings or 0) - address) // SYMBOL.size
    counted = gnu_count(data, layout, tables.gnu_hash) if tables.gnu_hash is not None else 0
    # A hash table without any defined symbol counts none of the wanted ones; strings follow the symbols.
    return counted or max(0, after)


def gnu_count(data: Data, layout: Layout, address: int) -> int:
    """Symbols up to the last one of the last chain; 0 when no symbol is hashed."""
    offset, room = layout.offset(address, "the hash table")
    buckets, first, blooms, _ = numbers(data, offset, HASH_HEADER, "the hash table")
    skip = HASH_HEADER.size + blooms * 8
    if skip + buckets * 4 > room or buckets > _MOST:
        raise BinaryError(f"damaged: a hash table with {buckets} buckets in {room} bytes")
    heads = struct.unpack(f"<{buckets}I", take(data, offset + skip, buckets * 4, "the hash table"))
    last = max(heads, default=0)
    if last < first or last == 0:
        return 0
    at = offset + skip + buckets * 4 + (last - first) * 4
    end = offset + room
    while at < end:
        chunk = take(data, at, min(4096, end - at) // 4 * 4, "the hash table")
        if not chunk:
            break
        for (word,) in struct.iter_unpack("<I", chunk):
            last += 1
            if word & 1:
                return last
        at += len(chunk)
    raise BinaryError("damaged: the last chain of the hash table has no end")
