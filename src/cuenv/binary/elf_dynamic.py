"""The dynamic section of an ELF file: what the loader will do with it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from cuenv.binary.data import BinaryError, Data, Strings, numbers, take
from cuenv.binary.elf_values import NOBITS, Dynamic, Section, Segment, Tables, VersionNeed, file_offset

_ENTRY = struct.Struct("<qQ")
_NEED = struct.Struct("<HHIII")
_NEED_AUX = struct.Struct("<IHHII")
_DEFINE = struct.Struct("<HHHHIII")
_DEFINE_AUX = struct.Struct("<II")

_PT_DYNAMIC, _SHT_DYNAMIC = 2, 6
_NEEDED, _SONAME, _RPATH, _RUNPATH, _FLAGS_1 = 1, 14, 15, 29, 0x6FFFFFFB
_STRTAB, _STRSZ, _SYMTAB, _HASH, _GNU_HASH = 5, 10, 6, 4, 0x6FFFFEF5
_VERSYM, _VERNEED, _VERNEEDNUM, _VERDEF, _VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFE, 0x6FFFFFFF, 0x6FFFFFFC, 0x6FFFFFFD

_MOST_ENTRIES = 1 << 16
_BUDGET = 4 << 20  # bytes that all names of one dynamic section may have
_WEAK, _BASE = 2, 1  # VER_FLG_WEAK, VER_FLG_BASE


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of an ELF file, which say where addresses lie."""

    sections: tuple[Section, ...]
    segments: tuple[Segment, ...]

    def offset(self, address: int, what: str) -> tuple[int, int]:
        """Where in the file an address lies, and how many bytes follow.

        Raises:
            BinaryError: no bytes of the file are mapped there.
        """
        found = file_offset(address, self.segments, self.sections)
        if found is None:
            raise BinaryError(f"damaged: {what} is at address {address:#x}, where the file has no bytes")
        return found


@dataclass(frozen=True, slots=True)
class Version:
    """A symbol version by the index that symbols refer to; ``file`` only for one that is needed."""

    index: int
    name: str
    file: str | None
    weak: bool


def read_dynamic(data: Data, layout: Layout) -> Dynamic | None:
    """Read the dynamic section; ``None`` when there is none (or only its header, as in files of debug symbols).

    Raises:
        BinaryError: it is damaged.
    """
    place = _place(layout)
    if place is None:
        return None
    last: dict[int, int] = {}
    needed: list[int] = []
    raw = take(data, *place, "the dynamic section")
    for tag, value in _ENTRY.iter_unpack(raw[: len(raw) // _ENTRY.size * _ENTRY.size]):
        if tag == 0:
            break
        if tag == _NEEDED:
            needed.append(value)
        last[tag] = value
    tables = _tables(last)
    strings = strings_of(data, layout, tables, _BUDGET)
    texts = {tag: strings.at(last[tag]) for tag in (_SONAME, _RPATH, _RUNPATH) if tag in last and strings}
    needs: dict[str, list[tuple[str, bool]]] = {}
    for item in needed_versions(data, layout, tables, strings):
        needs.setdefault(item.file or "", []).append((item.name, item.weak))
    return Dynamic(
        soname=texts.get(_SONAME),
        needed=tuple(strings.at(index) for index in needed) if strings else (),
        rpath=tuple(texts[_RPATH].split(":")) if _RPATH in texts else None,
        runpath=tuple(texts[_RUNPATH].split(":")) if _RUNPATH in texts else None,
        needs=tuple(VersionNeed(file=file, versions=tuple(versions)) for file, versions in needs.items()),
        defines=tuple(item.name for item in defined_versions(data, layout, tables, strings)),
        flags_1=last.get(_FLAGS_1, 0),
        tables=tables,
    )


def _place(layout: Layout) -> tuple[int, int] | None:
    """Offset and size of the dynamic section, by the segment, else by the section."""
    section = next((item for item in layout.sections if item.kind == _SHT_DYNAMIC), None)
    segment = next((item for item in layout.segments if item.kind == _PT_DYNAMIC), None)
    if segment is not None and segment.file_size and not _is_header_only(segment, layout.sections):
        offset, size = segment.offset, segment.file_size
    elif section is not None and section.size:
        offset, size = section.offset, section.size
    else:
        return None
    if size > _MOST_ENTRIES * _ENTRY.size:
        raise BinaryError(f"damaged: the dynamic section claims {size} bytes")
    return offset, size


def _is_header_only(segment: Segment, sections: tuple[Section, ...]) -> bool:
    """A file of debug symbols keeps the headers of what it was taken from, and no bytes."""
    return any(item.kind == NOBITS and item.name == ".dynamic" for item in sections) and segment.file_size > 0


def _tables(last: dict[int, int]) -> Tables:
    return Tables(
        strings=last.get(_STRTAB),
        strings_size=last.get(_STRSZ, 0),
        symbols=last.get(_SYMTAB),
        versions=last.get(_VERSYM),
        hash=last.get(_HASH),
        gnu_hash=last.get(_GNU_HASH),
        needs=last.get(_VERNEED),
        needs_count=last.get(_VERNEEDNUM, 0),
        defines=last.get(_VERDEF),
        defines_count=last.get(_VERDEFNUM, 0),
    )


def strings_of(data: Data, layout: Layout, tables: Tables, budget: int) -> Strings | None:
    """The dynamic string table; ``None`` when the file names none.

    Raises:
        BinaryError: no bytes of the file are where it should be.
    """
    if tables.strings is None:
        return None
    offset, room = layout.offset(tables.strings, "the dynamic string table")
    size = min(tables.strings_size, room, max(0, len(data) - offset))
    return Strings(data, offset, size, budget=budget, what="the dynamic string table")


def needed_versions(data: Data, layout: Layout, tables: Tables, strings: Strings | None) -> Iterator[Version]:
    """The versions that are needed of other libraries (DT_VERNEED).

    Raises:
        BinaryError: the table is damaged.
    """
    if tables.needs is None or strings is None:
        return
    offset, left = layout.offset(tables.needs, "the table of needed versions")[0], _MOST_ENTRIES
    for _ in range(min(tables.needs_count, _MOST_ENTRIES)):
        _, count, file, first, following = numbers(data, offset, _NEED, "a needed version")
        name, aux = strings.at(file), offset + first
        left = _spend(left, count)
        for _ in range(count):
            _, flags, index, version, step = numbers(data, aux, _NEED_AUX, "a needed version")
            yield Version(index & 0x7FFF, strings.at(version), name, bool(flags & _WEAK))
            if not step:
                break
            aux += step
        if not following:
            break
        offset += following


def defined_versions(data: Data, layout: Layout, tables: Tables, strings: Strings | None) -> Iterator[Version]:
    """The versions that are defined here (DT_VERDEF), without the base one.

    Raises:
        BinaryError: the table is damaged.
    """
    if tables.defines is None or strings is None:
        return
    offset = layout.offset(tables.defines, "the table of defined versions")[0]
    for _ in range(min(tables.defines_count, _MOST_ENTRIES)):
        _, flags, index, count, _, aux, following = numbers(data, offset, _DEFINE, "a defined version")
        if count and not flags & _BASE:
            name, _ = numbers(data, offset + aux, _DEFINE_AUX, "a defined version")
            yield Version(index & 0x7FFF, strings.at(name), None, bool(flags & _WEAK))
        if not following:
            break
        offset += following


def _spend(left: int, count: int) -> int:
    if count > left:
        raise BinaryError(f"hostile: more than {_MOST_ENTRIES} needed versions")
    return left - count
