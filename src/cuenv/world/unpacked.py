"""How much a ``.conda`` may unpack to, by the heads of its blocks alone: nothing is unpacked to know it.

A tar keeps the name of a file that is long in an entry of its own, which its readers take into memory whole. So an
archive of some kilobytes could take all of it; what stands here is asked before any reader is.
"""

from __future__ import annotations

import mmap
import zipfile
from collections.abc import Iterator
from pathlib import Path

_FRAME, _SKIPPED = 0xFD2FB528, 0x184D2A50
_BLOCK = 1 << 17
"""Bytes that a compressed block holds at most."""
_RAW, _REPEATED, _COMPRESSED = 0, 1, 2


def most_unpacked(path: Path) -> int:
    """The bytes that the parts of a ``.conda`` unpack to at most; 0 for what is none.

    Where the bytes stop to be zstandard it ends: no reader gets further.

    Raises:
        OSError: it cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as whole:
            parts = [(item.header_offset, item.compress_size) for item in whole.infolist() if not item.is_dir()]
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return sum(sum(_blocks(data, _start(data, offset), size)) for offset, size in parts)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, IndexError):
        return 0


def _start(data: mmap.mmap, offset: int) -> int:
    """Where the bytes of a part begin, behind its own head."""
    return offset + 30 + _number(data, offset + 26, 2) + _number(data, offset + 28, 2)


def _number(data: mmap.mmap, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _blocks(data: mmap.mmap, at: int, size: int) -> Iterator[int]:
    """The most that each block of a part holds."""
    end = min(at + size, len(data))
    while at + 4 < end:
        magic = _number(data, at, 4)
        if magic & ~0xF == _SKIPPED:
            at += 8 + _number(data, at + 4, 4)
            continue
        if magic != _FRAME:
            return
        flags = data[at + 4]
        single, checksum = flags >> 5 & 1, flags >> 2 & 1
        at += 5 + (not single) + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6]
        last = False
        while not last and at + 3 <= end:
            head = _number(data, at, 3)
            last, kind, count = bool(head & 1), head >> 1 & 3, head >> 3
            if kind > _COMPRESSED:
                return
            at += 3 + (1 if kind == _REPEATED else count)
            yield _BLOCK if kind == _COMPRESSED else count
        at += 4 * checksum
