"""The device code of a binary: its loadable objects, and what each GPU gets of them."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cuenv.binary.data import BinaryError, Data
from cuenv.binary.elf_values import NOBITS, Elf, Section
from cuenv.binary.fatbin import HEADER, MAGIC, Entry, FatbinReader
from cuenv.versions import Target

LOADABLE = ".nv_fatbin"
"""Section of what the runtime loads."""
RELOCATABLE = "__nv_relfatbin"
"""Section of code that a device linker may still turn into something loadable."""

_EXECUTABLE, _ALLOCATED, _PROGBITS = 4, 2, 1
_MAGIC = struct.pack("<I", MAGIC)
_STEP = 1 << 20  # bytes that are searched at once
_MOST_SECTIONS = 4096


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A container of device code: the runtime loads it as a whole, and takes from it one entry that suits the GPU.

    Attributes:
        section: where it lies.
        offset: of its first byte in the file.
        entries: its pieces of code, in their order.
    """

    section: str
    offset: int
    entries: tuple[Entry, ...]

    @property
    def bare(self) -> bool:
        """Whether nothing in it can be a kernel: what nvcc writes for a source without device code."""
        return all(entry.bare for entry in self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCode:
    """The device code of one file.

    Attributes:
        machine: of the host code.
        objects: the loadable ones that can hold a kernel.
        bare: how many loadable ones cannot.
        possible: relocatable ones (``__nv_relfatbin``): a device linker may have used them.
        elsewhere: those found in other sections, which the library itself loads; ``None`` when nobody looked.
    """

    machine: str
    objects: tuple[CodeObject, ...]
    bare: int = 0
    possible: tuple[CodeObject, ...] = ()
    elsewhere: tuple[CodeObject, ...] | None = None

    @property
    def holds_code(self) -> bool:
        """Whether there is any device code, loadable or not."""
        return bool(self.objects or self.bare or self.possible or self.elsewhere)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What several objects hold together.

    Attributes:
        objects: how many they are.
        sass: targets with machine code, and in how many objects each is.
        ptx: targets with PTX by their ISA, likewise.
        lto: targets with NVVM IR, likewise.
        tile: targets with Tile IR, likewise.
    """

    objects: int
    sass: Mapping[Target, int]
    ptx: Mapping[tuple[Target, tuple[int, int]], int]
    lto: Mapping[Target, int]
    tile: Mapping[Target, int]

    @property
    def everywhere(self) -> tuple[Target, ...]:
        """Targets with machine code in every object."""
        return tuple(target for target, count in self.sass.items() if count == self.objects)

    @property
    def partial(self) -> Mapping[Target, int]:
        """Targets with machine code in some objects only."""
        return {target: count for target, count in self.sass.items() if count < self.objects}


def summary(objects: tuple[CodeObject, ...]) -> Summary:
    """Count the targets of objects, each once per object, lowest first."""
    shapes = Counter(item.entries for item in objects)
    counts: dict[str, Counter[Target]] = {kind: Counter() for kind in ("sass", "lto", "tile")}
    ptx: Counter[tuple[Target, tuple[int, int]]] = Counter()
    for entries, count in shapes.items():
        for entry in {Entry(item.kind, item.target, item.isa) for item in entries}:
            if entry.isa:
                ptx[entry.target, entry.isa] += count
            elif entry.kind in counts:
                counts[entry.kind][entry.target] += count
    ordered = {kind: dict(sorted(found.items())) for kind, found in counts.items()}
    return Summary(
        objects=len(objects),
        sass=ordered["sass"],
        ptx=dict(sorted(ptx.items())),
        lto=ordered["lto"],
        tile=ordered["tile"],
    )


def by_section(objects: tuple[CodeObject, ...]) -> dict[str, tuple[CodeObject, ...]]:
    """Objects by the section in which they lie."""
    found: dict[str, list[CodeObject]] = {}
    for item in objects:
        found.setdefault(item.section, []).append(item)
    return {section: tuple(items) for section, items in found.items()}


def read_code(data: Data, elf: Elf, *, deep: bool = False) -> FileCode:
    """The device code of an ELF file.

    Args:
        data: the bytes that ``elf`` was read from.
        elf: the file.
        deep: also search the other sections with data, in which many of NVIDIA's own libraries keep code.

    Raises:
        BinaryError: a container is damaged.
    """
    reader = FatbinReader(data)
    loadable = _of_section(reader, elf, LOADABLE)
    return FileCode(
        machine=elf.machine,
        objects=tuple(item for item in loadable if not item.bare),
        bare=sum(item.bare for item in loadable),
        possible=_of_section(reader, elf, RELOCATABLE),
        elsewhere=tuple(_found(reader, elf)) if deep else None,
    )


def _of_section(reader: FatbinReader, elf: Elf, name: str) -> tuple[CodeObject, ...]:
    found: list[CodeObject] = []
    for section in elf.sections:
        if section.name == name and section.kind != NOBITS:
            end = _end(reader.data, section)
            found += (CodeObject(name, at, entries) for at, entries in reader.containers(section.offset, end))
    return tuple(found)


def _end(data: Data, section: Section) -> int:
    end = section.offset + section.size
    if end > len(data):
        raise BinaryError(f"truncated or damaged: {section.name} ends at byte {end}, the file at byte {len(data)}")
    return end


def _found(reader: FatbinReader, elf: Elf) -> Iterator[CodeObject]:
    """Containers anywhere in the data of the file. Sections that overlap are searched once."""
    searched = 0
    for section in sorted(elf.sections, key=lambda item: item.offset)[:_MOST_SECTIONS]:
        wanted = section.flags & _ALLOCATED and not section.flags & _EXECUTABLE and section.kind == _PROGBITS
        if wanted and section.name not in (LOADABLE, RELOCATABLE):
            end = _end(reader.data, section)
            start = max(section.offset, searched)
            for at, entries in _search(reader, start, end):
                yield CodeObject(section.name, at, entries)
            searched = max(searched, end)


def _search(reader: FatbinReader, start: int, end: int) -> Iterator[tuple[int, tuple[Entry, ...]]]:
    """Look for the magic number; what follows it must be a container with entries, or it was there by chance."""
    at, first, chunk = start, start, b""
    while at + HEADER.size <= end:
        if at + len(_MAGIC) > first + len(chunk):
            first, chunk = at, bytes(reader.data[at : min(at + _STEP, end)])
            if len(chunk) < len(_MAGIC):
                raise BinaryError("the file shrank while it was read")
        place = chunk.find(_MAGIC, at - first)
        if place < 0:
            at = first + len(chunk) - len(_MAGIC) + 1
            continue
        at = first + place
        try:
            entries, following = reader.container(at, end)
        except BinaryError:
            entries, following = (), at
        if entries:
            yield at, entries
        at = following if entries else at + len(_MAGIC)
