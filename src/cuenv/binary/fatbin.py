"""Fat binaries: the containers of device code inside a host binary, read by their headers alone.

Layout, little endian. A container: u32 magic, u16 version, u16 header size, u64 size of what follows. Then entries,
each a header and its payload: u16 kind, u16 version, u32 header size, u64 padded payload size, u32 compressed size,
u32 options offset, u16 minor and u16 major (of the PTX ISA), u32 architecture, u32 and u32 of an identifier,
u64 flags, and at 0x38 the uncompressed size.

Checked against the files of CUDA 11.8 to 13.0, torch, cuDNN, cuBLAS, cuFFT and NCCL, and against cuobjdump. Payloads
are never read: what is inside of them does not change for whom they were compiled.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal

from cuenv.binary.data import BinaryError, Data, numbers, take
from cuenv.core.record import dataclass, field
from cuenv.core.versions import Capability, Target

EntryKind = Literal["sass", "ptx", "lto", "tile", "other"]

MAGIC = 0xBA55ED50
HEADER = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")

_KINDS: dict[int, EntryKind] = {1: "ptx", 2: "sass", 8: "lto", 0x80: "tile"}
_VERSION = 1
_COMPRESSED = 0x2000 | 0x8000
_EXACT, _FAMILY = 0x100000, 0x200000
_MOST_CONTAINERS, _MOST_ENTRIES = 1 << 18, 1 << 20
_MOST_PADDING = 1 << 16  # steps of eight bytes
_ALIGNED = 8
_LONGEST_HEADER = 1 << 16

_BARE_PTX = 72
"""A PTX text of fewer bytes has only its three directives. Measured: 56 without and over 100 with a kernel."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One piece of device code in a container."""

    # ``sass`` machine code, ``ptx``, ``lto`` (NVVM IR that a linker compiles), ``tile`` (Tile IR), ``other``
    kind: EntryKind
    target: Target  # what it was compiled for
    isa: tuple[int, int] | None = None  # major and minor of the PTX ISA, for PTX alone
    # it is too small to hold a kernel or a variable: what nvcc writes for a source without device code
    bare: bool = False


@dataclass(slots=True)
class FatbinReader:
    """Reads the containers of one file; equal lists of entries are one tuple, so that many objects need little room."""

    data: Data
    _entries: dict[tuple[int, ...], Entry] = field(default_factory=dict)
    _lists: dict[tuple[Entry, ...], tuple[Entry, ...]] = field(default_factory=dict)
    _containers_left: int = _MOST_CONTAINERS
    _entries_left: int = _MOST_ENTRIES
    _padding_left: int = _MOST_PADDING

    def containers(self, start: int, end: int) -> Iterator[tuple[int, tuple[Entry, ...]]]:
        """The containers of a section that holds nothing else: offset in the file and entries of each."""
        at = start
        while at + HEADER.size <= end:
            magic, _, _, _ = self._header(at)
            if magic != MAGIC:
                self._padding_left -= 1
                if magic or self._padding_left < 0:
                    raise BinaryError(f"damaged: no container of device code at byte {at}")
                at += _ALIGNED - at % _ALIGNED  # padding between containers
                continue
            entries, following = self.container(at, end)
            yield at, entries
            at = following
        if at < end and any(take(self.data, at, end - at, "a container of device code")):
            raise BinaryError(f"truncated or damaged: {end - at} bytes at byte {at} are not a container of device code")

    def container(self, at: int, end: int) -> tuple[tuple[Entry, ...], int]:
        """The entries of the container at an offset, and where it ends."""
        _, version, header, size = self._header(at)
        if version != _VERSION or header < HEADER.size or header > _LONGEST_HEADER:
            raise BinaryError(f"damaged: a container of version {version} with a header of {header} bytes at byte {at}")
        first, last = at + header, at + header + size
        if last > end:
            raise BinaryError(f"truncated or damaged: the container at byte {at} ends at byte {last}, beyond {end}")
        self.count_try()
        found: list[Entry] = []
        open_end = size == 0  # then it ends where no further entry is
        limit = end if open_end else last
        while first + ENTRY.size <= limit and not (open_end and not self._goes_on(first, limit)):
            entry, first = self._entry(first, limit)
            found.append(entry)
        if not open_end and first != last:
            raise BinaryError(f"damaged: the entries of the container at byte {at} do not fill it")
        listed = tuple(found)
        return self._lists.setdefault(listed, listed), first

    def count_try(self) -> None:
        """Count a container, or what only begins like one."""
        self._containers_left -= 1
        if self._containers_left < 0:
            raise BinaryError(f"hostile: more than {_MOST_CONTAINERS} containers of device code")

    def _header(self, at: int) -> tuple[int, int, int, int]:
        magic, version, header, size = numbers(self.data, at, HEADER, "a container of device code")
        return magic, version, header, size

    def _goes_on(self, at: int, limit: int) -> bool:
        kind, _, header, size = numbers(self.data, at, ENTRY, "an entry")[:4]
        return kind in _KINDS and ENTRY.size <= header <= _LONGEST_HEADER and at + header + size <= limit

    def _entry(self, at: int, limit: int) -> tuple[Entry, int]:
        fields = numbers(self.data, at, ENTRY, "an entry of device code")
        kind, _, header, padded, packed, _, minor, major, arch, _, _, flags, _, whole = fields
        following = at + header + padded
        if not ENTRY.size <= header <= _LONGEST_HEADER or following > limit:
            raise BinaryError(
                f"damaged: an entry of {header} and {padded} bytes at byte {at}, which ends before {limit}"
            )
        self._entries_left -= 1
        if self._entries_left < 0:
            raise BinaryError(f"hostile: more than {_MOST_ENTRIES} entries of device code")
        size = whole if packed and flags & _COMPRESSED else padded
        bare = (kind == 2 and size < _smallest_cubin(arch)) or (kind == 1 and size < _BARE_PTX)
        key = (kind, arch, flags & (_EXACT | _FAMILY), major, minor, bare)
        known = self._entries.get(key)
        if known is None:
            if not 10 <= arch < 1000:
                raise BinaryError(f"damaged: an entry at byte {at} is for architecture {arch}")
            known = self._entries[key] = Entry(
                kind=_KINDS.get(kind, "other"),
                target=_target(arch, flags),
                isa=(major, minor) if kind == 1 else None,
                bare=bare,
            )
        return known, following


def _target(arch: int, flags: int) -> Target:
    suffix = "a" if flags & _EXACT else "f" if flags & _FAMILY else ""
    return Target(Capability(*divmod(arch, 10)), suffix)


def _smallest_cubin(arch: int) -> int:
    """Bytes below which a cubin holds no kernel.

    Measured with ptxas of CUDA 11.8, 12.1, 12.9 and 13.0: an empty kernel takes 1544 bytes or more up to 8.9, 2416 on
    9.0 and 4840 from 10.0 on; a cubin without any takes at most 1464, 1728 and 2248.
    """
    return 1500 if arch < 90 else 2000 if arch < 100 else 3000
