"""What an ELF file holds, as values (System V ABI, gABI chapters 4 and 5; symbol versions: LSB Core, chapter 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["shared", "executable", "relocatable", "core", "other"]

NOBITS = 8
"""Section type of what has an address and no bytes in the file."""
LOAD = 1
"""Segment type of what the loader maps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section header: kind is ``sh_type``, offset and size are bytes in the file."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A program header: kind is ``p_type``; ``file_size`` bytes at ``offset`` are mapped at ``address``."""

    kind: int
    offset: int
    address: int
    file_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionNeed:
    """The symbol versions that are needed of one library.

    Attributes:
        file: the SONAME as it stands in NEEDED.
        versions: each version and whether the need is weak (the loader only warns).
    """

    file: str
    versions: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Where the dynamic section says that its tables are: addresses, sizes and counts; ``None`` where there is none."""

    strings: int | None = None
    strings_size: int = 0
    symbols: int | None = None
    versions: int | None = None
    hash: int | None = None
    gnu_hash: int | None = None
    needs: int | None = None
    needs_count: int = 0
    defines: int | None = None
    defines_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dynamic:
    """What the loader is told.

    Attributes:
        soname: DT_SONAME.
        needed: DT_NEEDED in their order.
        rpath: DT_RPATH, split at colons, as written (``$ORIGIN`` is not expanded); ``None`` when there is none.
        runpath: DT_RUNPATH likewise. Where both are there, the loader ignores DT_RPATH.
        needs: the versions needed, library by library (DT_VERNEED).
        defines: the versions defined here (DT_VERDEF), without the base one, which is the file's own name.
        flags_1: DT_FLAGS_1.
        tables: where the symbol tables are.
    """

    soname: str | None
    needed: tuple[str, ...]
    rpath: tuple[str, ...] | None
    runpath: tuple[str, ...] | None
    needs: tuple[VersionNeed, ...]
    defines: tuple[str, ...]
    flags_1: int
    tables: Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """An ELF64 little-endian file.

    Attributes:
        machine: ``x86_64``, ``aarch64``, or the number of ``e_machine`` as text.
        kind: a position-independent executable counts as ``executable`` where its flags say so (DF_1_PIE).
        interpreter: the loader that it asks for (PT_INTERP).
        dynamic: ``None`` for a static executable or an object file.
    """

    machine: str
    kind: Kind
    sections: tuple[Section, ...]
    segments: tuple[Segment, ...]
    interpreter: str | None
    dynamic: Dynamic | None

    def section(self, name: str) -> Section | None:
        """The first section of this name."""
        return next((item for item in self.sections if item.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """An entry of the dynamic symbol table.

    Attributes:
        defined: here, or wanted from another library.
        weak: a weak symbol that nobody defines is no failure.
        version: the version it has or wants; ``None`` when it is unversioned.
        file: for a wanted one, the SONAME that its version is looked for in.
    """

    name: str
    defined: bool
    weak: bool
    version: str | None
    file: str | None


def file_offset(address: int, segments: tuple[Segment, ...], sections: tuple[Section, ...]) -> tuple[int, int] | None:
    """Where in the file an address lies, and how many bytes of the file follow it there.

    Segments are asked first, as the loader does; sections where there are none (object files).
    """
    for segment in segments:
        if segment.kind == LOAD and segment.address <= address < segment.address + segment.file_size:
            into = address - segment.address
            return segment.offset + into, segment.file_size - into
    for section in sections:
        if section.address and section.kind != NOBITS and section.address <= address < section.address + section.size:
            into = address - section.address
            return section.offset + into, section.size - into
    return None
