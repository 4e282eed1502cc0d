"""A model of how Python and torch load an environment's libraries: which file is loaded for each name.

Python starts; torch opens ``libtorch_global_deps`` with RTLD_GLOBAL and then its extension; every other extension is
opened in a process that has loaded torch. Python opens with RTLD_NOW, so an undefined symbol fails at once; therefore
the versions and symbols that each file needs are looked up in the files that are loaded.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from packaging.version import Version

from cuenv.binary.data import BinaryError, Data
from cuenv.binary.elf import Elf, Symbol
from cuenv.binary.exports import Exports, Finder, Memory, gnu_hash, wanted
from cuenv.binary.loader import Loaded, MissingLibrary, Opened, Process
from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.prefix.fixes import FileOwner
from cuenv.prefix.inventory import Prefix

RootKind = Literal["python", "torch", "extension", "library"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A file that Python or torch opens by its path."""

    path: str
    label: str  # its path relative to site-packages or to the environment, for messages
    kind: RootKind  # ``library`` is an NVIDIA library, opened alone
    owner: str = ""  # the distribution that it belongs to, for a command that builds it again; empty if unknown
    # whether its package does not work at all when it fails; otherwise only a part of the package fails
    needed: bool = True
    built: bool = False  # whether torch compiled it on first use; torch does so again when its folder is removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Preload:
    """A library that torch opens by path."""

    pattern: str  # torch's pattern, such as ``libcudart.so.*[0-9]``
    # the first file that matches; ``None`` if there is none, where torch gives up unless it is optional
    path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchPlan:
    """Which libraries ``import torch`` opens, read from ``torch/__init__.py``."""

    first: Root | None  # ``libtorch_global_deps.so``, which is opened with RTLD_GLOBAL
    # if ``first`` lacks one of these libraries, torch opens all of them by path and then ``first`` again
    fallback: tuple[Preload, ...] = ()
    preloads: tuple[Preload, ...] = ()  # opened by path after ``first`` if that loaded libcudart; torch ignores errors
    modules: tuple[Root, ...] = ()  # the extension, and the libraries that torch opens when they are used


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The files that are opened in an environment."""

    python: str | None  # its interpreter, with links resolved; ``None`` without one
    torch: TorchPlan | None
    roots: tuple[Root, ...]  # the other files, each opened alone in a process that has loaded torch


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkageContext:
    """The environment and the host that the findings are about."""

    prefix: Prefix  # the environment
    own: Mapping[str, tuple[str, ...]]  # the paths of the libraries in the environment's library folders, by file name
    packages: Mapping[str, str]  # the package of each library, by the stem of its file name
    pinned: Mapping[str, str] = field(default_factory=dict)  # the releases of NVIDIA's wheels that torch pins
    owner: Callable[[str], FileOwner | None] = lambda _: None  # finds the package that a file belongs to
    rebuild: Callable[[str], str] = str  # makes the command that installs a build of a library for the installed torch
    glibc: Version | None = None  # the host's glibc; ``None`` if unknown
    driver: bool = False  # whether the host is this machine and has an NVIDIA driver

    def inside(self, path: str) -> bool:
        """Whether a file belongs to the environment."""
        return path.startswith(f"{self.prefix.path}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A root, the result of opening it, and the process in which it was opened."""

    root: Root
    opened: Opened
    process: Process
    # whether its missing libraries were assumed to be there, so that the following files can be judged
    mended: bool = False

    @property
    def scope(self) -> tuple[Loaded, ...]:
        """The objects in which its symbols are looked up, in the loader's order."""
        return tuple(dict.fromkeys((*self.process.shared, *self.opened.closure)))


def open_all(process: Process, plan: Plan) -> Iterator[Opening]:
    """Open the files of a plan in its order.

    Args:
        process: a new process; at the end it has loaded Python and torch.
    """
    if plan.python:
        root = Root(path=plan.python, label="python", kind="python", needed=False)  # a script may start it
        yield Opening(root=root, opened=process.start(plan.python), process=process)
    if plan.torch:
        openings = tuple(_open_torch(process, plan.torch))
        yield from openings
        if any(item.process is process and item.opened.missing for item in openings):
            yield from _as_if_complete(process, plan.torch)
    for root in plan.roots:
        own = process.copy()
        yield Opening(root=root, opened=_with_neighbours(own, root.path), process=own)


def _as_if_complete(process: Process, plan: TorchPlan) -> Iterator[Opening]:
    """Open torch's files as if no library were missing, so that the other extensions can be judged."""
    if plan.first:
        opened = process.open(plan.first.path, everybody=True, mended=True)
        yield Opening(root=plan.first, opened=opened, process=process, mended=True)
    for item in (*plan.fallback, *plan.preloads):
        if item.path:
            root = Root(path=item.path, label=posixpath.basename(item.path), kind="torch")
            yield Opening(root=root, opened=process.open(item.path, mended=True), process=process, mended=True)
    for root in plan.modules[:1]:
        yield Opening(root=root, opened=process.open(root.path, mended=True), process=process, mended=True)


def _with_neighbours(process: Process, path: str) -> Opened:
    """Open a file after the missing libraries that lie in its folder, which packages load themselves."""
    opened = process.open(path)
    beside = [f"{posixpath.dirname(path)}/{item.name}" for item in opened.missing if "/" not in item.name]
    there = [other for other in beside if process.look(other).kind == "elf"]
    if not there:
        return opened
    firsts = [process.open(other) for other in there]
    opened = process.open(path)
    new = tuple(dict.fromkeys(item for part in (*firsts, opened) for item in part.new))
    return replace(opened, new=new, missing=(*opened.missing, *(item for part in firsts for item in part.missing)))


def _open_torch(process: Process, plan: TorchPlan) -> Iterator[Opening]:
    if plan.first:
        opened = process.open(plan.first.path, everybody=True)
        stems = {stem_of(item.pattern) for item in plan.fallback}
        if any(stem_of(item.name) in stems for item in opened.missing):
            yield from _preload_and_retry(process, plan, plan.first, opened)
        else:
            yield Opening(root=plan.first, opened=opened, process=process)
            _preload(process, plan.preloads)
    for number, root in enumerate(plan.modules):
        own = process if number == 0 else process.copy()
        yield Opening(root=root, opened=own.open(root.path), process=own)


def _preload_and_retry(process: Process, plan: TorchPlan, first: Root, opened: Opened) -> Iterator[Opening]:
    """Open each fallback library by path and then the first file again; stop at a library that is missing."""
    for item in plan.fallback:
        if item.path is None:
            asker = opened.missing[0].asker
            opened = replace(opened, missing=(MissingLibrary(name=item.pattern, asker=asker),))
            yield Opening(root=first, opened=opened, process=process)
            return
        brought = process.open(item.path)
        root = Root(path=item.path, label=first.label, kind="torch", owner=first.owner)
        yield Opening(root=root, opened=brought, process=process)
        if brought.missing:
            return
    yield Opening(root=first, opened=process.open(first.path, everybody=True), process=process)


def _preload(process: Process, items: tuple[Preload, ...]) -> None:
    if not any(posixpath.basename(item.path).startswith("libcudart.so") for item in process.objects):
        return
    for item in items:
        if item.path is None or process.open(item.path).missing:
            return


def stem_of(name: str) -> str:
    """The name of a library without ``.so`` and version: ``libcudart`` for ``libcudart.so.12``."""
    return name.split(".so", 1)[0]


def is_driver_library(name: str) -> bool:
    """Whether a library belongs to the NVIDIA driver and to no package."""
    stem = stem_of(name)
    return stem in {"libcuda", "libcudadebugger", "libnvcuvid"} or stem.startswith("libnvidia-")


Contents = Callable[[Loaded], tuple[Data, Elf]]  # returns the bytes and the headers of an object

_TORCH = regex(r"_Z(?:T[ISTV]|GV)?(?:N[KVrRO]*(?:2at|3c10|5torch|6caffe2)[0-9]|\d+THP)")
_ALIKE = 7
_MOST_WANTED = 500_000
_NAMED = regex(r"([1-9][0-9]{0,3})([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class NoVersion:
    """A version that an object needs from a library, and that the loaded file does not define."""

    asker: Loaded
    file: str
    version: str
    winner: Loaded


@dataclass(frozen=True, slots=True)
class NoSymbol:
    """An undefined symbol."""

    asker: Loaded  # the object that needs the symbol
    root: Root  # the file that was opened and loaded that object
    symbol: Symbol  # its name, and for a versioned symbol the library and the version
    winner: Loaded | None  # the loaded file of that library; ``None`` for a symbol without version


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file whose symbol tables cannot be read, and the reason."""

    item: Loaded
    reason: str


SymbolFailure = NoVersion | NoSymbol | Unreadable


class SymbolCheck:
    """Looks up the symbols of loaded objects; the table of each library is read once."""

    def __init__(self, contents: Contents, context: LinkageContext) -> None:
        self._contents, self._context = contents, context
        self._finders: dict[str, Finder | None] = {}
        self._left = _MOST_WANTED
        self._memory = Memory()
        self._done: set[tuple[str, tuple[str, ...]]] = set()

    def failures(self, opening: Opening) -> Iterator[SymbolFailure]:
        """The errors of the loader about the new objects of an opening.

        If a library is missing, the loader stops before it looks up symbols, so there are none; where missing
        libraries are assumed (`Opening.mended`), symbols of the others are still checked.
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
        """Missing versions, as elf/dl-version.c finds them: a library without versions provides every version."""
        for file, versions in item.elf.dynamic.needs.items() if item.elf.dynamic else ():
            winner = opening.process.by_name(file)
            dynamic = winner.elf.dynamic if winner else None
            if winner is None or dynamic is None or dynamic.tables.defines is None:
                continue
            for version, weak in versions:
                if not weak and version not in dynamic.defines and version != dynamic.soname:
                    yield NoVersion(item, file, version, winner)

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
        last: dict[str, Loaded] = {}  # the object that defined the last similar symbol usually defines this one as well
        for want in wants:
            # Without the executable it is unknown which symbols Python itself defines.
            if not complete and want.version is None and not is_torch_symbol(want.name):
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
            self._finders[item.path] = None  # unknown, so it is no failure; `Unreadable` reports it
            return True


def is_torch_symbol(name: str) -> bool:
    """Whether a symbol belongs to torch's C++ namespaces or its Python binding."""
    return _TORCH.match(name) is not None


def demangled(name: str) -> str:
    """The readable part of a mangled name: ``c10::TensorImpl::decref`` for ``_ZN3c1010TensorImpl6decrefEv``."""
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
