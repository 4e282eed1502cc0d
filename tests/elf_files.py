"""Small ELF files and fat binaries, made byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from cuenv.binary.code import ENTRY, HEADER, MAGIC

PTX, CUBIN, LTO, TILE = 1, 2, 8, 0x80
LZ4, ZSTD, EXACT, FAMILY = 0x2000, 0x8000, 0x100000, 0x200000
LARGE = 100_000
"""An uncompressed size that leaves room for kernels."""
EXTRA = 64 + 2 * 56
"""Where ``linked`` puts bytes that a test adds."""

_SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclass(frozen=True)
class Part:
    """A section to be."""

    name: str
    content: bytes
    kind: int = 1
    flags: int = 2


def entry(kind: int, arch: int, *, flags: int = LZ4, isa: tuple[int, int] = (8, 0), size: int = LARGE) -> bytes:
    """One entry with a compressed payload of 16 bytes that claims to be ``size`` when it is unpacked."""
    header = ENTRY.pack(kind, 0x101, ENTRY.size, 16, 13, 0, isa[1], isa[0], arch, 0, 0, flags | 0x11, 0, size)
    return header + bytes(16)


def container(*entries: bytes, size: int | None = None, header: int = HEADER.size, version: int = 1) -> bytes:
    """A container of entries; its header may lie."""
    body = b"".join(entries)
    return HEADER.pack(MAGIC, version, header, len(body) if size is None else size) + body


def cubins(*archs: int) -> bytes:
    """A container with machine code for these architectures."""
    return container(*(entry(CUBIN, arch) for arch in archs))


def fatbin(*containers: bytes, name: str = ".nv_fatbin") -> Part:
    """A section of containers."""
    return Part(name, b"".join(containers))


def elf(*parts: Part, machine: int = 62, kind: int = 3) -> bytes:
    """A shared object with these sections."""
    names = b"\0" + b"".join(part.name.encode() + b"\0" for part in (*parts, Part(".shstrtab", b"")))
    every = (*parts, Part(".shstrtab", names, kind=3, flags=0))
    body, rows, at, name_at = b"", [_SECTION.pack(*(0,) * 10)], 64, 1
    for part in every:
        rows.append(_SECTION.pack(name_at, part.kind, part.flags, 0, at, len(part.content), 0, 0, 8, 0))
        padded = part.content + bytes(-len(part.content) % 8)
        body += padded
        at += len(padded)
        name_at += len(part.name) + 1
    return header(machine=machine, kind=kind, sections_at=at, sections=len(rows)) + body + b"".join(rows)


def header(
    *,
    machine: int = 62,
    kind: int = 3,
    sections_at: int = 0,
    sections: int = 0,
    segments_at: int = 0,
    segments: int = 0,
) -> bytes:
    """An ELF header; the names of the sections are in the last one."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    numbers = (kind, machine, 1, 0, segments_at, sections_at, 0, 64, 56, segments, 64, sections, max(0, sections - 1))
    return ident + struct.pack("<HHIQQQIHHHHHH", *numbers)


def linked(
    *,
    soname: str | None = None,
    needed: Sequence[str] = (),
    rpath: str | None = None,
    runpath: str | None = None,
    more: Sequence[tuple[int, int]] = (),
    extra: bytes = b"",
) -> bytes:
    """A shared object of segments alone, as ``sstrip`` leaves it: one that is loaded whole, and the dynamic one.

    Args:
        soname, needed, rpath, runpath: what the dynamic section says.
        more: further tags of it.
        extra: bytes that lie at the address EXTRA.
    """
    texts = b"\0"
    tags: list[tuple[int, int]] = []
    named = [(14, soname), *((1, name) for name in needed), (15, rpath), (29, runpath)]
    for tag, text in named:
        if text is not None:
            tags.append((tag, len(texts)))
            texts += text.encode("utf-8", "surrogateescape") + b"\0"
    start = EXTRA + len(extra) + -len(extra) % 8
    tags += [(5, start), (10, len(texts)), *more, (0, 0)]
    padded = texts + bytes(-len(texts) % 8)
    dynamic = b"".join(struct.pack("<qQ", *tag) for tag in tags)
    at, end = start + len(padded), start + len(padded) + len(dynamic)
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, end, end, 4096)
    place = struct.pack("<IIQQQQQQ", 2, 4, at, at, at, len(dynamic), len(dynamic), 8)
    return header(segments_at=64, segments=2) + load + place + extra.ljust(start - EXTRA, b"\0") + padded + dynamic


def cubin(arch: int, *, abi: int = 2, suffix: str = "") -> bytes:
    """An ELF file for a GPU, as ptxas writes it: the architecture in its flags, the variant in a note."""
    note = Part(".note.nv.tkinfo", f"ptxas\0-arch sm_{arch}{suffix} -m 64 \0".encode(), flags=0)
    made = bytearray(elf(*([note] if abi == 2 else []), machine=190, kind=2))
    flags = arch << 8 if abi == 2 else arch | (0x800 if suffix else 0)
    made[7:9] = (0x41, 8) if abi == 2 else (51, 7)
    made[48:52] = flags.to_bytes(4, "little")
    return bytes(made)


def archive(**members: bytes) -> bytes:
    """A static library, as ``ar`` writes it."""
    found = b"!<arch>\n"
    for name, content in members.items():
        head = (
            f"{name}.o/".ljust(16)
            + "0".ljust(12)
            + "0".ljust(6) * 2
            + "644".ljust(8)
            + str(len(content)).ljust(10)
            + "`\n"
        )
        found += head.encode() + content + b"\n" * (len(content) % 2)
    return found
