"""Where glibc's loader looks for a library, which file wins, and what is loaded then (ld.so(8); elf/dl-load.c).

In this order: DT_RPATH of the object that asks, of the one that loaded it and so on up to the executable, unless the
object that asks has DT_RUNPATH; LD_LIBRARY_PATH; its DT_RUNPATH; the cache; the default folders. In each folder the
subfolders ``glibc-hwcaps`` come first. Not modelled: LD_AUDIT, the platform subfolders that glibc 2.37 gave up.

What an executable needs is loaded breadth first. A name that something loaded already answers to (its path, its SONAME,
a name by which it was asked for) is not searched again: what comes first decides for all that come later.
"""

from __future__ import annotations

import posixpath
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from cuenv.binary.data import BinaryError, Strings, numbers, take
from cuenv.binary.elf import Elf
from cuenv.core.record import dataclass, field
from cuenv.core.regex import regex

Kind = Literal["absent", "denied", "other", "broken", "elf"]

_TOKEN = regex(r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM)(?![A-Za-z0-9_]))")
_NO_DEFAULT = 0x800  # DF_1_NODEFLIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What lies at a path."""

    path: str  # as the loader spells it
    # ``elf`` can be loaded; ``other`` is an ELF file for another machine, which the loader passes over in silence, as
    # what is ``absent`` or ``denied`` (no permission); ``broken`` stops it with an error
    kind: Kind
    why: str = ""  # for what is broken, denied or other
    identity: tuple[int, int] = (0, 0)  # device and inode; two names of one file are loaded once
    elf: Elf | None = None  # its headers


Look = Callable[[str], Seen]  # how a path is looked at. What is wrong with a file is part of the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The settings of the machine and the process for the search."""

    library_path: str = ""  # LD_LIBRARY_PATH as it is written
    preload: str = ""  # LD_PRELOAD as it is written
    cache: Mapping[str, str] = field(default_factory=dict)  # the path that the loader's cache gives for a name
    defaults: tuple[str, ...] = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")  # the loader's own folders
    hwcaps: tuple[str, ...] = ()  # the subfolders of ``glibc-hwcaps`` that the processor can use, best first
    lib: str = "lib64"  # what ``$LIB`` stands for
    platform: str = "x86_64"  # what ``$PLATFORM`` stands for
    cwd: str = "/"  # the working folder, for relative and empty entries


@dataclass(eq=False, slots=True, kw_only=True)
class Loaded:
    """A loaded object."""

    path: str  # by which it was opened; links in it are not resolved, and ``$ORIGIN`` is its folder
    elf: Elf
    # the object whose NEEDED brought it; ``None`` for the executable and for what was opened by path
    loader: Loaded | None = None
    via: str = ""  # which part of the search found it
    # each name of NEEDED with what it became; ``None`` when it is missing
    needed: tuple[tuple[str, Loaded | None], ...] = ()

    @property
    def rpath(self) -> tuple[str, ...]:
        """The effective DT_RPATH: it is ignored beside DT_RUNPATH, or if it is empty."""
        dynamic = self.elf.dynamic
        if dynamic is None or dynamic.runpath is not None or dynamic.rpath in (None, ("",)):
            return ()
        return dynamic.rpath or ()

    @property
    def runpath(self) -> tuple[str, ...] | None:
        """DT_RUNPATH; an empty one still switches DT_RPATH off."""
        return self.elf.dynamic.runpath if self.elf.dynamic else None


@dataclass(frozen=True, slots=True)
class LibraryCandidate:
    """A path that the loader tries, and the part of the search that it belongs to."""

    path: str
    via: str


def candidates(name: str, asker: Loaded | None, main: Loaded | None, system: System) -> Iterator[LibraryCandidate]:
    """The paths that the loader tries for a name in NEEDED or dlopen, in order.

    Args:
        name: with a slash it is a path, and nothing is searched.
        asker: the object whose NEEDED holds the name; ``None`` when nothing is known of the caller.
    """
    if "/" in name:
        yield LibraryCandidate(_absolute(_expand(name, asker, system), system), "path")
        return
    inside = [*(f"glibc-hwcaps/{hwcap}/{name}" for hwcap in system.hwcaps), name]
    for folder, via in _folders(asker, main, system):
        yield from (LibraryCandidate(f"{folder.rstrip('/')}/{place}", via) for place in inside)
    no_default = asker is not None and asker.elf.dynamic is not None and asker.elf.dynamic.flags_1 & _NO_DEFAULT
    cached = system.cache.get(name)
    if cached and not (no_default and cached.startswith(tuple(f"{folder}/" for folder in system.defaults))):
        yield LibraryCandidate(cached, "ld.so.cache")
    for folder in () if no_default else system.defaults:
        yield from (LibraryCandidate(f"{folder.rstrip('/')}/{place}", "default folder") for place in inside)


def _folders(asker: Loaded | None, main: Loaded | None, system: System) -> Iterator[tuple[str, str]]:
    """The folders that are searched before the cache."""
    if asker is None or asker.runpath is None:
        did_main = False
        link = asker
        while link is not None:
            yield from _listed(link.rpath, link, f"RPATH of {posixpath.basename(link.path)}", system)
            did_main = did_main or link is main
            link = link.loader
        if main is not None and not did_main:
            yield from _listed(main.rpath, main, f"RPATH of {posixpath.basename(main.path)}", system)
    if system.library_path:
        yield from _listed(tuple(re.split("[:;]", system.library_path)), main, "LD_LIBRARY_PATH", system)
    if asker is not None and asker.runpath not in (None, ("",)):
        via = f"RUNPATH of {posixpath.basename(asker.path)}"
        yield from _listed(asker.runpath or (), asker, via, system)


def _listed(entries: tuple[str, ...], owner: Loaded | None, via: str, system: System) -> Iterator[tuple[str, str]]:
    """The folders in a list, each once; an empty entry is the working folder."""
    seen = set()
    for entry in entries:
        folder = _absolute(_expand(entry, owner, system), system)
        if folder not in seen:
            seen.add(folder)
            yield folder, via


def _expand(text: str, owner: Loaded | None, system: System) -> str:
    if "$" not in text:
        return text
    values = {
        "ORIGIN": posixpath.dirname(owner.path) if owner else system.cwd,
        "LIB": system.lib,
        "PLATFORM": system.platform,
    }
    return _TOKEN.sub(lambda match: values[match[1] or match[2]], text)


def _absolute(path: str, system: System) -> str:
    return path if path.startswith("/") else posixpath.join(system.cwd, path)


def search(name: str, asker: Loaded | None, main: Loaded | None, system: System, look: Look) -> tuple[Seen | None, str]:
    """The file that the loader takes for a name, and the part of the search; ``None`` if it finds none.

    What is broken wins too: the loader stops there with an error.
    """
    for candidate in candidates(name, asker, main, system):
        seen = look(candidate.path)
        if seen.kind in ("elf", "broken"):
            return seen, candidate.via
    return None, ""


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
    """A library in the cache."""

    name: str  # its SONAME (or file name), as NEEDED asks for it
    path: str  # the file
    flags: int  # of which ABI it is
    hwcap: str = ""  # the subfolder of ``glibc-hwcaps`` that it lies in, such as ``x86-64-v3``; empty outside of them


def parse_ld_cache(data: bytes) -> tuple[CacheEntry, ...]:
    """The entries of the loader's cache in their order.

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
        raise BinaryError("damaged: the extension of the cache cannot be read")
    for number in range(count):
        at = offset + _EXTENSION.size + number * _SECTION.size
        tag, _, place, size = numbers(data, at, _SECTION, "the extension")
        if tag == _HWCAPS_TAG:
            words = take(data, place, min(size, 4096) // 4 * 4, "the names of the subfolders")
            strings = _strings(data, 0)
            return tuple(strings.at(index) for (index,) in struct.iter_unpack("<I", words))
    return ()


def chosen(entries: Sequence[CacheEntry], machine: str, hwcaps: Sequence[str]) -> dict[str, str]:
    """The path in the cache that the loader takes for each name.

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


_MOST_OBJECTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingLibrary:
    """A needed library that is not found or cannot be loaded."""

    name: str  # as NEEDED has it
    asker: Loaded  # who needs it
    broken: Seen | None = None  # what was found and cannot be loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The result of opening a file."""

    root: Loaded | None  # the object; ``None`` when the file itself cannot be loaded
    seen: Seen  # the file
    new: tuple[Loaded, ...] = ()  # the objects that were not there before, in the order of loading
    closure: tuple[Loaded, ...] = ()  # the objects that its symbols are looked up in, itself first
    missing: tuple[MissingLibrary, ...] = ()  # what the loader would stop at; nothing stays loaded then


class Process:
    """The address space of a process; opening a file changes it."""

    def __init__(self, system: System, look: Look) -> None:
        self.system, self.look = system, look
        self.main: Loaded | None = None
        self.shared: tuple[Loaded, ...] = ()
        """The objects whose symbols everybody sees: the executable's, and those opened for all (RTLD_GLOBAL)."""
        self._names: dict[str, Loaded] = {}
        self._files: dict[tuple[int, int], Loaded] = {}

    @property
    def objects(self) -> tuple[Loaded, ...]:
        """The loaded objects in the order of loading."""
        return tuple(self._files.values())

    def by_name(self, name: str) -> Loaded | None:
        """The loaded object with a name."""
        return self._names.get(name)

    def copy(self) -> Process:
        """A copy of the process that can be changed independently."""
        other = Process(self.system, self.look)
        other.main, other.shared = self.main, self.shared
        other._names, other._files = dict(self._names), dict(self._files)
        return other

    def start(self, path: str) -> Opened:
        """Start an executable with the libraries of LD_PRELOAD; must be the first call."""
        seen = self.look(path)
        if seen.elf is None:
            return Opened(root=None, seen=seen)
        main = self.main = Loaded(path=path, elf=seen.elf)
        self._enter(main, seen, path)
        interpreter = self.look(seen.elf.interpreter) if seen.elf.interpreter else None
        if interpreter is not None and interpreter.elf is not None:
            loader = Loaded(path=interpreter.path, elf=interpreter.elf, via="interpreter")
            self._enter(loader, interpreter, interpreter.path)
        before = len(self._files)
        queue = [main]
        for name in re.split("[ :]+", self.system.preload):
            found = self._bring(name, main) if name else None
            if isinstance(found, Loaded) and found not in queue:
                found.via = "LD_PRELOAD"
                queue.append(found)
        missing = self._map(queue)
        self.shared = tuple(queue)
        return Opened(root=main, seen=seen, new=self.objects[before:], closure=tuple(queue), missing=missing)

    def open(self, path: str, *, everybody: bool = False, mended: bool = False) -> Opened:
        """Open a file by its path, as Python's import or ctypes does; after a failure nothing of it stays loaded.

        Args:
            everybody: its symbols are for all that is loaded later (RTLD_GLOBAL).
            mended: as if what it misses were there: all that was found stays.
        """
        seen = self.look(path)
        root = self._names.get(path) or self._files.get(seen.identity)
        names, files = dict(self._names), dict(self._files)
        if root is None:
            if seen.elf is None:
                return Opened(root=None, seen=seen)
            root = Loaded(path=path, elf=seen.elf, via="path")
            self._enter(root, seen, path)
        queue = [root]
        missing = self._map(queue)
        new = tuple(self._files.values())[len(files) :]
        if missing and not mended:
            self._names, self._files = names, files
        elif everybody:
            self.shared = tuple(dict.fromkeys((*self.shared, *queue)))
        return Opened(root=root, seen=seen, new=new, closure=tuple(queue), missing=missing)

    def _map(self, queue: list[Loaded]) -> tuple[MissingLibrary, ...]:
        """Load what the objects of a list need, and append it to the list."""
        missing: list[MissingLibrary] = []
        listed = set(map(id, queue))
        for asker in queue:
            if asker.needed or asker.elf.dynamic is None:
                found = [item for _, item in asker.needed if item is not None]
            else:
                found = self._needs(asker, missing)
            for item in found:
                if id(item) not in listed and len(queue) < _MOST_OBJECTS:
                    listed.add(id(item))
                    queue.append(item)
        return tuple(missing)

    def _needs(self, asker: Loaded, missing: list[MissingLibrary]) -> list[Loaded]:
        needed: list[tuple[str, Loaded | None]] = []
        for name in asker.elf.dynamic.needed if asker.elf.dynamic else ():
            found = self._bring(name, asker)
            if isinstance(found, Loaded):
                needed.append((name, found))
            else:
                needed.append((name, None))
                missing.append(MissingLibrary(name=name, asker=asker, broken=found))
        asker.needed = tuple(needed)
        return [item for _, item in needed if item is not None]

    def _bring(self, name: str, asker: Loaded) -> Loaded | Seen | None:
        """The object for a name: a loaded one, or a file that is loaded now."""
        known = self._names.get(name)
        if known is not None:
            return known
        seen, via = search(name, asker, self.main, self.system, self.look)
        if seen is None or seen.elf is None:
            return seen
        same = self._files.get(seen.identity)
        if same is not None:
            self._names.setdefault(name, same)
            return same
        found = Loaded(path=seen.path, elf=seen.elf, loader=asker, via=via)
        self._enter(found, seen, name)
        return found

    def _enter(self, item: Loaded, seen: Seen, name: str) -> None:
        self._files[seen.identity] = item
        soname = item.elf.dynamic.soname if item.elf.dynamic else None
        for known in (item.path, name, soname):
            if known:
                self._names.setdefault(known, item)
