"""What is in the address space after an executable starts and opens libraries, as glibc's loader maps them.

Breadth first over NEEDED. A name that something loaded already answers to (its path, its SONAME, a name by which it was
asked for) is not searched again: what comes first decides for all that come later.
"""

from __future__ import annotations

import posixpath
import re

from cuenv.binary.loader import Loaded, Look, Seen, System, search
from cuenv.core.record import dataclass

_MOST_OBJECTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingLibrary:
    """A needed library that the search does not find, or that stops it.

    Attributes:
        name: as NEEDED has it.
        asker: who needs it.
        broken: what was found and cannot be loaded.
    """

    name: str
    asker: Loaded
    broken: Seen | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What opening a file brought.

    Attributes:
        root: the object; ``None`` when the file itself cannot be loaded.
        new: the objects that were not there before, in the order of loading.
        closure: the objects that its symbols are looked up in, itself first.
        missing: what the loader would stop at; nothing stays loaded then.
        seen: the file.
    """

    root: Loaded | None
    seen: Seen
    new: tuple[Loaded, ...] = ()
    closure: tuple[Loaded, ...] = ()
    missing: tuple[MissingLibrary, ...] = ()


class Process:
    """An address space; opening a file changes it."""

    def __init__(self, system: System, look: Look) -> None:
        self.system, self.look = system, look
        self.main: Loaded | None = None
        self.shared: tuple[Loaded, ...] = ()
        """The objects whose symbols everybody sees: the executable's, and those opened for all (RTLD_GLOBAL)."""
        self._names: dict[str, Loaded] = {}
        self._files: dict[tuple[int, int], Loaded] = {}

    @property
    def objects(self) -> tuple[Loaded, ...]:
        """All that is loaded, in the order of loading."""
        return tuple(self._files.values())

    def by_name(self, name: str) -> Loaded | None:
        """The loaded object that answers to a name."""
        return self._names.get(name)

    def copy(self) -> Process:
        """The same address space, to be changed on its own."""
        other = Process(self.system, self.look)
        other.main, other.shared = self.main, self.shared
        other._names, other._files = dict(self._names), dict(self._files)
        return other

    def start(self, path: str) -> Opened:
        """Start an executable, with what LD_PRELOAD names; to be called once, first."""
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
        """Open a file by its path, as an import of Python or ctypes does; what fails leaves nothing behind.

        Args:
            path: of the file.
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
        """Load what the objects of a list need; the list grows to the whole closure."""
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
        """The object that a name becomes: one that is loaded, or the file that wins."""
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


def library(item: Loaded) -> str:
    """What to call an object: its SONAME, else its file name."""
    return (item.elf.dynamic.soname if item.elf.dynamic else None) or posixpath.basename(item.path)
