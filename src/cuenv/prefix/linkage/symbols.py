"""Whether what was opened finds the versions and symbols that it needs in the files that win."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from cuenv.binary.data import BinaryError, Data
from cuenv.binary.elf import Elf, Symbol
from cuenv.binary.exports import Exports, Finder, Memory, gnu_hash, wanted
from cuenv.binary.loader import Loaded
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.prefix.linkage.opening import LinkageContext, Opening, Root

Contents = Callable[[Loaded], tuple[Data, Elf]]
"""The bytes of an object, and its headers."""

_TORCH = regex(r"_Z(?:T[ISTV]|GV)?(?:N[KVrRO]*(?:2at|3c10|5torch|6caffe2)[0-9]|\d+THP)")
_ALIKE = 7
_MOST_WANTED = 500_000
_NAMED = regex(r"([1-9][0-9]{0,3})([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class NoVersion:
    """A version that an object needs of a library, which the file that wins does not define."""

    asker: Loaded
    file: str
    version: str
    winner: Loaded


@dataclass(frozen=True, slots=True)
class NoSymbol:
    """A symbol that nobody defines.

    Attributes:
        asker: who needs it.
        root: what was opened and brought the asker.
        symbol: its name, and the library and version it is asked of.
        winner: that library as it is loaded, for a versioned one.
    """

    asker: Loaded
    root: Root
    symbol: Symbol
    winner: Loaded | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file whose tables cannot be read, and why."""

    item: Loaded
    reason: str


Failure = NoVersion | NoSymbol | Unreadable


class SymbolCheck:
    """Checks what openings bring; each library's table is opened once."""

    def __init__(self, contents: Contents, context: LinkageContext) -> None:
        self._contents, self._context = contents, context
        self._finders: dict[str, Finder | None] = {}
        self._left = _MOST_WANTED
        self._memory = Memory()
        self._done: set[tuple[str, tuple[str, ...]]] = set()

    def failures(self, opening: Opening) -> Iterator[Failure]:
        """What the loader would say about the new objects of an opening.

        Nothing, when a library is missing: it would not come so far. As if it were mended, what is asked of a library
        that is there can be told all the same.
        """
        if opening.opened.missing and not opening.mended:
            return
        scope = opening.scope
        for item in opening.opened.new:
            key = (item.path, tuple(became.path for _, became in item.needed if became))
            if key in self._done:
                continue
            self._done.add(key)
            lacking = list(self._versions(item, opening))
            yield from lacking
            if self._context.inside(item.path) or item is opening.opened.root:
                yield from self._symbols(item, scope, opening, {failure.version for failure in lacking})

    def _versions(self, item: Loaded, opening: Opening) -> Iterator[NoVersion]:
        """elf/dl-version.c: a library without versions serves every version, with a warning."""
        for need in item.elf.dynamic.needs if item.elf.dynamic else ():
            winner = opening.process.by_name(need.file)
            dynamic = winner.elf.dynamic if winner else None
            if winner is None or dynamic is None or dynamic.tables.defines is None:
                continue
            for version, weak in need.versions:
                if not weak and version not in dynamic.defines and version != dynamic.soname:
                    yield NoVersion(item, need.file, version, winner)

    def _symbols(
        self, item: Loaded, scope: Sequence[Loaded], opening: Opening, lacking: set[str]
    ) -> Iterator[NoSymbol | Unreadable]:
        try:
            wants = [want for want in wanted(*self._contents(item)) if want.version not in lacking]
        except BinaryError as error:
            yield Unreadable(item, error.reason)
            return
        self._left -= len(wants)
        if self._left < 0:
            yield Unreadable(item, f"more than {_MOST_WANTED} symbols are wanted in all")
            return
        complete = opening.process.main is not None
        order = tuple(dict.fromkeys((*scope, item)))
        last: dict[str, Loaded] = {}  # who defined the symbol before that begins alike: mostly the same again
        for want in wants:
            # Without the executable, what Python itself defines cannot be told from what nobody does.
            if not complete and want.version is None and not is_torch(want.name):
                continue
            if opening.mended and not (want.version and want.file and opening.process.by_name(want.file)):
                continue
            key = want.file or want.name[:_ALIKE]
            guess = last.get(key) or (opening.process.by_name(want.file) if want.file else None)
            raw = want.name.encode("utf-8", "surrogateescape")
            asked = (raw, want.version, gnu_hash(raw))
            if guess is not None and self._defines(guess, asked):
                continue
            definer = next((other for other in order if self._defines(other, asked)), None)
            if definer is None:
                yield NoSymbol(item, opening.root, want, opening.process.by_name(want.file) if want.file else None)
            else:
                last[key] = definer

    def _defines(self, item: Loaded, asked: tuple[bytes, str | None, int]) -> bool:
        try:
            if item.path not in self._finders:
                self._finders[item.path] = Exports(*self._contents(item), self._memory).finder
            finder = self._finders[item.path]
            return finder is None or finder(*asked)
        except BinaryError:
            self._finders[item.path] = None  # not known: no failure is made of it; `Unreadable` says so
            return True


def is_torch(name: str) -> bool:
    """Whether a symbol is of torch's own C++ namespaces, or of its Python binding."""
    return _TORCH.match(name) is not None


def readable(name: str) -> str:
    """The readable piece of a mangled name: ``c10::TensorImpl::decref`` of ``_ZN3c1010TensorImpl6decrefEv``."""
    head = re.match(r"_Z(?:T[ISTV]|GV)?N?[KVrRO]*", name)
    if head is None:
        return name
    parts, at = [], head.end()
    while (found := _NAMED.match(name, at)) is not None:
        start = found.start(2)
        end = start + int(found[1])
        # Digits of a length may run into those that a name cannot begin with.
        if end > len(name):
            break
        parts.append(name[start:end])
        at = end
    return "::".join(parts) or name
