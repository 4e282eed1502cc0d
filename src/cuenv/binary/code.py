"""The device code of a file: its loadable objects, and what each GPU gets of them.

Read are ELF files with fat binaries in them, archives of such files (``.a``), and what the CUDA compilers write by
itself: ``.fatbin``, ``.cubin`` (an ELF file for a GPU) and ``.ptx``.

A fat binary has containers of device code, which are read by their headers alone. Layout, little endian. A container:
u32 magic, u16 version, u16 header size, u64 size of what follows. Then entries, each a header and its payload: u16
kind, u16 version, u32 header size, u64 padded payload size, u32 compressed size, u32 options offset, u16 minor and u16
major (of the PTX ISA), u32 architecture, u32 and u32 of an identifier, u64 flags, and at 0x38 the uncompressed size.

Checked against the files of CUDA 11.8 to 13.0, torch, cuDNN, cuBLAS, cuFFT and NCCL, and against cuobjdump. Payloads
are never read: what is inside of them does not change for whom they were compiled.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal

from cuenv.binary.data import BinaryError, Data, numbers, take
from cuenv.binary.elf import NOBITS, Elf, Section, read_elf
from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
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
    """A piece of device code in a container."""

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
        """The containers of a section with nothing else: their offset in the file and their entries.

        Raises:
            BinaryError: it holds something else, or sizes that cannot be.
        """
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
        """The entries of the container at an offset, and where it ends.

        Raises:
            BinaryError: its sizes cannot be.
        """
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
        """Count a container, or something that begins like one.

        Raises:
            BinaryError: there are more than any library has.
        """
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
            message = f"damaged: an entry of {header} and {padded} bytes at byte {at}, which ends before {limit}"
            raise BinaryError(message)
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
    """The size in bytes below which a cubin contains no kernel.

    Measured with ptxas of CUDA 11.8, 12.1, 12.9 and 13.0: an empty kernel takes 1544 bytes or more up to 8.9, 2416 on
    9.0 and 4840 from 10.0 on; a cubin without any takes at most 1464, 1728 and 2248.
    """
    return 1500 if arch < 90 else 2000 if arch < 100 else 3000


LOADABLE = ".nv_fatbin"  # section of what the runtime loads
RELOCATABLE = "__nv_relfatbin"  # section of code that a device linker may still turn into something loadable

_EXECUTABLE, _ALLOCATED, _PROGBITS = 4, 2, 1
_MAGIC = struct.pack("<I", MAGIC)
_STEP = 1 << 20  # bytes that are searched at once
_ANYWHERE = regex(re.escape(_MAGIC) + rb"|\x7fELF\x02\x01\x01[\x33\x41]|\.target[ \t]+sm_")
"""Where a container, a cubin or PTX may begin; what follows says whether it does."""
_LONGEST_MARK = 16
_CUBIN = struct.Struct("<7xBB7xHHIQQQI")
_CUDA, _CUBIN_ABI_2 = 190, 0x41
_EXACT_ABI_1 = 0x800
_ARCH_OPTION = regex(rb"-arch[ =]sm_(\d+)([af]?)\b")
_NOTE = ".note.nv.tkinfo"
_LONGEST_NOTE = 1 << 16
_PTX = regex(
    rb"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*\.version\s+(\d+)\.(\d+)\s(?:\s|//[^\n]*\n)*\.target\s+sm_(\d+)([af]?)"
)
_PTX_HEAD = 1 << 13  # bytes in which PTX says its version and target
_ARCHIVE, _THIN = b"!<arch>\n", b"!<thin>\n"
_MEMBER = struct.Struct("16s12s6s6s8s10s2s")
_MOST_MEMBERS = 1 << 16
_MOST_SECTIONS = 4096


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A container of device code; the runtime loads it as a whole and uses one entry that fits the GPU."""

    section: str  # where it lies
    offset: int  # of its first byte in the file
    entries: tuple[Entry, ...]  # its pieces of code, in their order

    @property
    def bare(self) -> bool:
        """Whether it cannot contain a kernel, as the code of a source file without device code."""
        return all(entry.bare for entry in self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCode:
    """The device code of one file."""

    machine: str  # of the host code
    objects: tuple[CodeObject, ...]  # the loadable ones that can hold a kernel
    bare: int = 0  # how many loadable ones cannot
    possible: tuple[CodeObject, ...] = ()  # relocatable ones (``__nv_relfatbin``): a device linker may have used them
    # those found in other sections, which the library itself loads; ``None`` when nobody looked
    elsewhere: tuple[CodeObject, ...] | None = None

    @property
    def holds_code(self) -> bool:
        """Whether there is any device code, loadable or not."""
        return bool(self.objects or self.bare or self.possible or self.elsewhere)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The device code of several objects together."""

    objects: int  # how many they are
    sass: Mapping[Target, int]  # targets with machine code, and in how many objects each is
    ptx: Mapping[tuple[Target, tuple[int, int]], int]  # targets with PTX by their ISA, likewise
    lto: Mapping[Target, int]  # targets with NVVM IR, likewise
    tile: Mapping[Target, int]  # targets with Tile IR, likewise

    @property
    def everywhere(self) -> tuple[Target, ...]:
        """Targets with machine code in every object."""
        return tuple(target for target, count in self.sass.items() if count == self.objects)

    @property
    def partial(self) -> Mapping[Target, int]:
        """Targets with machine code in some objects only."""
        return {target: count for target, count in self.sass.items() if count < self.objects}


def summary(objects: tuple[CodeObject, ...]) -> Summary:
    """Count the targets of objects, each once for each object, the lowest first."""
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
    """The objects grouped by section."""
    found: dict[str, list[CodeObject]] = {}
    for item in objects:
        found.setdefault(item.section, []).append(item)
    return {section: tuple(items) for section, items in found.items()}


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a file as data."""

    data: Data
    start: int
    size: int

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, wanted: slice, /) -> bytes | bytearray | memoryview:
        end = self.size if wanted.stop is None else min(wanted.stop, self.size)
        return self.data[self.start + (wanted.start or 0) : self.start + end]


def read_file(data: Data, *, deep: bool = False) -> FileCode:
    """The device code of a file of any supported kind.

    Args:
        deep: also search the sections in which many of NVIDIA's own libraries keep code.

    Raises:
        BinaryError: it is of no such kind, or damaged.
    """
    start = bytes(data[0:8])
    if start.startswith(_MAGIC):
        return _files(
            "cuda", (CodeObject("file", at, entries) for at, entries in FatbinReader(data).containers(0, len(data)))
        )
    if start == _ARCHIVE:
        return _of_archive(data, deep=deep)
    if start == _THIN:
        raise BinaryError("a thin archive: its members are other files, which can be scanned", fault="unsupported")
    ptx = _PTX.match(bytes(data[0:_PTX_HEAD])) if not start.startswith(b"\x7fELF") else None
    if ptx:
        return _files("cuda", (CodeObject("file", 0, (_ptx_entry(ptx),)),))
    elf = read_elf(data)
    if elf.machine == "cuda":
        return _files("cuda", (CodeObject("file", 0, (_cubin_entry(data, elf),)),))
    return read_code(data, elf, deep=deep)


def _files(machine: str, objects: Iterable[CodeObject]) -> FileCode:
    found = tuple(objects)
    return FileCode(
        machine=machine, objects=tuple(item for item in found if not item.bare), bare=sum(item.bare for item in found)
    )


def _of_archive(data: Data, *, deep: bool) -> FileCode:
    """The device code of an archive's members together; members that are not ELF files have none."""
    found: list[FileCode] = []
    at = len(_ARCHIVE)
    for _ in range(_MOST_MEMBERS):
        if at >= len(data):
            break
        *_, length, end = numbers(data, at, _MEMBER, "the head of a member")
        if end != b"`\n" or not length.strip().isdigit():
            raise BinaryError(f"damaged: no member of the archive at byte {at}")
        first, size = at + _MEMBER.size, int(length)
        if first + size > len(data):
            raise BinaryError(f"truncated: a member at byte {at} ends at byte {first + size}, the file at {len(data)}")
        if bytes(data[first : first + 4]) == b"\x7fELF":
            found.append(_moved(read_file(_Part(data, first, size), deep=deep), first))
        at = first + size + size % 2
    else:
        raise BinaryError(f"hostile: more than {_MOST_MEMBERS} members in an archive")
    return FileCode(
        machine=next((item.machine for item in found), "none"),
        objects=tuple(chain.from_iterable(item.objects for item in found)),
        bare=sum(item.bare for item in found),
        possible=tuple(chain.from_iterable(item.possible for item in found)),
        elsewhere=tuple(chain.from_iterable(item.elsewhere or () for item in found)) if deep else None,
    )


def _moved(code: FileCode, by: int) -> FileCode:
    """The code of a member with its offsets in the archive."""

    def moved(objects: tuple[CodeObject, ...]) -> tuple[CodeObject, ...]:
        return tuple(CodeObject(item.section, item.offset + by, item.entries) for item in objects)

    elsewhere = None if code.elsewhere is None else moved(code.elsewhere)
    return replace(code, objects=moved(code.objects), possible=moved(code.possible), elsewhere=elsewhere)


def _ptx_entry(found: re.Match[bytes]) -> Entry:
    major, minor, arch, suffix = found.groups()
    return Entry("ptx", _architecture(int(arch), suffix), (int(major), int(minor)))


def _cubin_entry(data: Data, elf: Elf) -> Entry:
    """The entry of a cubin: its header has the architecture, a compiler note the variant.

    ABI 1 (to CUDA 12) has the architecture in the lowest byte of the flags and marks ``a`` by a bit, ABI 2 (from CUDA
    13 on) in the second byte: LLVM's ELF.h, EF_CUDA_SM and EF_CUDA_SM_MASK; checked with ptxas 12.4 and 13.0.
    """
    abi, *_, flags = numbers(data, 0, _CUBIN, "the head of a cubin")
    arch = flags >> 8 & 0xFF if abi == _CUBIN_ABI_2 else flags & 0xFF
    suffix = b"a" if abi != _CUBIN_ABI_2 and flags & _EXACT_ABI_1 and arch >= 90 else b""
    note = next((item for item in elf.sections if item.name == _NOTE), None)
    if note and note.size <= _LONGEST_NOTE:
        option = _ARCH_OPTION.search(take(data, note.offset, note.size, _NOTE))
        suffix = option[2] if option and int(option[1]) == arch else suffix
    return Entry("sass", _architecture(arch, suffix))


def _architecture(arch: int, suffix: bytes) -> Target:
    if not 10 <= arch < 1000:
        raise BinaryError(f"damaged: code for architecture {arch}")
    return Target(Capability(*divmod(arch, 10)), suffix.decode())


def read_code(data: Data, elf: Elf, *, deep: bool = False) -> FileCode:
    """The device code of an ELF file.

    Args:
        deep: also search the other sections with data, in which many of NVIDIA's own libraries keep code.

    Raises:
        BinaryError: a container is damaged.
    """
    reader = FatbinReader(data)
    return replace(
        _files(elf.machine, _of_section(reader, elf, LOADABLE)),
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
    """Containers, cubins and PTX in data; each failed attempt is counted."""
    at, first, chunk = start, start, b""
    while at + HEADER.size <= end:
        if at + _LONGEST_MARK > first + len(chunk) and first + len(chunk) < end:
            first, chunk = at, bytes(reader.data[at : min(at + _STEP, end)])
            if len(chunk) < min(HEADER.size, end - at):
                raise BinaryError("the file shrank while it was read")
        mark = _ANYWHERE.search(chunk, at - first)
        if mark is None:
            at = first + len(chunk) - _LONGEST_MARK + 1 if first + len(chunk) < end else end
            continue
        at = first + mark.start()
        reader.count_try()
        try:
            entries, following = _at(reader, at, end)
        except BinaryError:
            entries, following = (), at
        if entries:
            yield at, entries
        at = max(following, at + len(_MAGIC))


def _at(reader: FatbinReader, at: int, end: int) -> tuple[tuple[Entry, ...], int]:
    """The entries at an offset, and their end if it is known."""
    start = bytes(reader.data[at : at + len(_MAGIC)])
    if start == _MAGIC:
        return reader.container(at, end)
    if start == b"\x7fELF":
        part = _Part(reader.data, at, end - at)
        if numbers(part, 0, _CUBIN, "the head of a cubin")[3] != _CUDA:
            return (), at
        elf = read_elf(part)
        last = max((item.offset + item.size for item in elf.sections if item.kind != NOBITS), default=0)
        return (_cubin_entry(part, elf),), at + last
    head = max(0, at - _PTX_HEAD)
    text = bytes(reader.data[head : min(end, at + _LONGEST_MARK + 8)])
    begins = text.rfind(b".version", 0, at - head)
    found = _PTX.match(text, begins) if begins >= 0 else None
    return ((_ptx_entry(found),) if found and found.start(3) > at - head else ()), at
