"""The loader's cache, ``/etc/ld.so.cache``, as ldconfig writes it (glibc: format 1.1, alone or behind the old one).

Entries of ``glibc-hwcaps`` subfolders carry an index into an extension of the file (glibc >= 2.33). Its places count
from the first byte of the file, as the loader takes them; ldconfig counts its names from the start of format 1.1, so
behind an old table (``ldconfig -c compat``) the loader finds other names there, and passes these entries over.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from cuenv.binary.data import BinaryError, Strings, numbers, take

_OLD, _NEW = b"ld.so-1.7.0", b"glibc-ld.so.cache1.1"
_OLD_HEADER = struct.Struct("<11sxI")
_OLD_ENTRY = 12
_HEADER = struct.Struct("<20sIIB3xI12x")
_ENTRY = struct.Struct("<iIIIQ")
_EXTENSION = struct.Struct("<II")
_SECTION = struct.Struct("<IIII")
_EXTENSION_MAGIC, _HWCAPS_TAG = 0xEAA42174, 1
_BIG_ENDIAN = 3
_MOST = 1 << 18
_EXTENSION_BIT = 1 << 62
_FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03}


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A library in the cache.

    Attributes:
        name: its SONAME (or file name), as NEEDED asks for it.
        path: the file.
        flags: of which ABI it is.
        hwcap: the subfolder of ``glibc-hwcaps`` that it lies in, such as ``x86-64-v3``; empty outside of them.
    """

    name: str
    path: str
    flags: int
    hwcap: str = ""


def parse_ld_cache(data: bytes) -> tuple[CacheEntry, ...]:
    """The entries in the order of the file.

    Those of the platform subfolders that glibc 2.37 gave up (``haswell``, ``tls`` and the like) are left out.

    Raises:
        BinaryError: it is no such cache, truncated, or damaged.
    """
    start = _start(data)
    magic, count, _, endian, extension = numbers(data, start, _HEADER, "the header")
    if magic != _NEW:
        raise BinaryError("not a cache of the loader in format 1.1")
    if endian & 3 == _BIG_ENDIAN:
        raise BinaryError("a big-endian cache")
    if count > _MOST:
        raise BinaryError(f"hostile: {count} entries")
    strings = _strings(data, start)
    hwcaps = _hwcaps(data, extension) if extension else ()
    rows = take(data, start + _HEADER.size, count * _ENTRY.size, "the entries")
    found = []
    for flags, key, value, _, hwcap in _ENTRY.iter_unpack(rows):
        name = ""
        if hwcap & _EXTENSION_BIT:
            index = hwcap & 0xFFFFFFFF
            name = hwcaps[index] if index < len(hwcaps) else ""
            if not name:
                continue
        elif hwcap:
            continue
        found.append(CacheEntry(strings.at(key), strings.at(value), flags, name))
    return tuple(found)


def _start(data: bytes) -> int:
    """Where the format 1.1 begins: at once, or behind a table of the old format."""
    if not data.startswith(_OLD):
        return 0
    _, count = numbers(data, 0, _OLD_HEADER, "the old header")
    if count > _MOST:
        raise BinaryError(f"hostile: {count} entries")
    end = _OLD_HEADER.size + int(count) * _OLD_ENTRY
    return (end + 7) // 8 * 8


def _strings(data: bytes, start: int) -> Strings:
    return Strings(data, start, len(data) - start, budget=2 * len(data) + (64 << 10), what="the strings")


def _hwcaps(data: bytes, offset: int) -> tuple[str, ...]:
    """The names of the ``glibc-hwcaps`` subfolders, by index."""
    magic, count = numbers(data, offset, _EXTENSION, "the extension")
    if magic != _EXTENSION_MAGIC or count > 1024:
        raise BinaryError("damaged: the extension of the cache is none")
    for number in range(count):
        at = offset + _EXTENSION.size + number * _SECTION.size
        tag, _, place, size = numbers(data, at, _SECTION, "the extension")
        if tag == _HWCAPS_TAG:
            words = take(data, place, min(size, 4096) // 4 * 4, "the names of the subfolders")
            strings = _strings(data, 0)
            return tuple(strings.at(index) for (index,) in struct.iter_unpack("<I", words))
    return ()


def chosen(entries: Sequence[CacheEntry], machine: str, hwcaps: Sequence[str]) -> dict[str, str]:
    """The path that the loader takes out of the cache for each name.

    Args:
        entries: in the order of the file.
        machine: ``x86_64`` or ``aarch64``; entries for other ABIs do not count.
        hwcaps: the subfolders that this processor may use, best first.
    """
    wanted = _FLAGS.get(machine)
    rank = {name: number for number, name in enumerate(hwcaps)}
    best: dict[str, tuple[int, str]] = {}
    for entry in entries:
        if entry.flags != wanted or (entry.hwcap and entry.hwcap not in rank):
            continue
        place = rank[entry.hwcap] if entry.hwcap else len(rank)
        if entry.name not in best or place < best[entry.name][0]:
            best[entry.name] = (place, entry.path)
    return {name: path for name, (_, path) in best.items()}
