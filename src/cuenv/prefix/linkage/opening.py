"""What happens when an environment's binaries are opened as Python would: which file wins for every library.

Python starts; torch opens ``libtorch_global_deps`` for everybody and then its extension; every further extension opens
in a process that has torch already. Python opens with RTLD_NOW: a symbol that nobody defines fails at once,
so the versions and symbols that each file needs are looked for in the files that win.
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
    """A file that something opens by its path.

    Attributes:
        label: how to name it: a path relative to site-packages, or to the environment.
        kind: ``library`` is one of NVIDIA's, opened alone.
        owner: the distribution that holds it, for a command that builds it again; empty when that is not known.
        needed: when it fails, what holds it does not work at all; otherwise a part of it does not.
        built: torch compiled it on first use, and does so again when its folder is gone.
    """

    path: str
    label: str
    kind: RootKind
    owner: str = ""
    needed: bool = True
    built: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Preload:
    """A library that torch opens by path.

    Attributes:
        pattern: as torch writes it: ``libcudart.so.*[0-9]``.
        path: the file that fits; ``None`` when none does, which ends what torch is about, unless it is optional.
    """

    pattern: str
    path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchPlan:
    """How torch begins, read from ``torch/__init__.py``.

    Attributes:
        first: ``libtorch_global_deps.so``, which is opened for everybody.
        rescue: when that misses one of these libraries, all are opened by path and ``first`` again.
        after: opened by path after ``first``, where that has brought libcudart; errors are passed over.
        then: the extension, and what torch opens when it is used.
    """

    first: Root | None
    fallback: tuple[Preload, ...] = ()
    preloads: tuple[Preload, ...] = ()
    modules: tuple[Root, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is opened in an environment.

    Attributes:
        python: its interpreter, links resolved; ``None`` when it has none.
        roots: the further files, each opened on its own after torch.
    """

    python: str | None
    torch: TorchPlan | None
    roots: tuple[Root, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkageContext:
    """What the findings are judged against.

    Attributes:
        home: the environment, for the commands that mend it.
        own: the libraries in the environment's folders of libraries: name to paths.
        packages: stem of a library to the package that brings it, as it is called here.
        pinned: the releases of NVIDIA's wheels that torch pins.
        owner: who brought a file; asked where a command has to name it.
        fitting: what brings a build of a library for the torch that is here.
        glibc: of the host that it is judged for; ``None`` when that is not known.
        driver: the host is this machine and has an NVIDIA driver.
    """

    prefix: Prefix
    own: Mapping[str, tuple[str, ...]]
    packages: Mapping[str, str]
    pinned: Mapping[str, str] = field(default_factory=dict)
    owner: Callable[[str], FileOwner | None] = lambda _: None
    rebuild: Callable[[str], str] = str
    glibc: Version | None = None
    driver: bool = False

    def inside(self, path: str) -> bool:
        """Whether a file belongs to the environment."""
        return path.startswith(f"{self.prefix.path}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A root, what opening it brought, and the process it was opened in.

    Attributes:
        mended: opened again as if what it misses were there, so that what comes after is judged on its own.
    """

    root: Root
    opened: Opened
    process: Process
    mended: bool = False

    @property
    def scope(self) -> tuple[Loaded, ...]:
        """The objects that its symbols are looked up in, in the loader's order."""
        return tuple(dict.fromkeys((*self.process.shared, *self.opened.closure)))


def open_all(process: Process, plan: Plan) -> Iterator[Opening]:
    """Open what a plan names, in its order.

    Args:
        process: a fresh one; it holds Python and torch at the end.
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
    """Go on as if torch could be imported: one missing library of its own is no fault of all that comes after."""
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
    """Open a file; what it misses and what lies beside it is opened first, as packages do for their own libraries."""
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
    """Torch opens each of its libraries by path and begins again; one that is not there ends it."""
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
    """A library's name without its ending: ``libcudart`` for ``libcudart.so.12``."""
    return name.split(".so", 1)[0]


def is_driver_library(name: str) -> bool:
    """Whether a library comes with the NVIDIA driver, and with no package."""
    stem = stem_of(name)
    return stem in {"libcuda", "libcudadebugger", "libnvcuvid"} or stem.startswith("libnvidia-")


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


SymbolFailure = NoVersion | NoSymbol | Unreadable


class SymbolCheck:
    """Checks what openings bring; each library's table is opened once."""

    def __init__(self, contents: Contents, context: LinkageContext) -> None:
        self._contents, self._context = contents, context
        self._finders: dict[str, Finder | None] = {}
        self._left = _MOST_WANTED
        self._memory = Memory()
        self._done: set[tuple[str, tuple[str, ...]]] = set()

    def failures(self, opening: Opening) -> Iterator[SymbolFailure]:
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
        last: dict[str, Loaded] = {}  # who defined the symbol before that begins alike: mostly the same again
        for want in wants:
            # Without the executable, what Python itself defines cannot be told from what nobody does.
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
            self._finders[item.path] = None  # not known: no failure is made of it; `Unreadable` says so
            return True


def is_torch_symbol(name: str) -> bool:
    """Whether a symbol is of torch's own C++ namespaces, or of its Python binding."""
    return _TORCH.match(name) is not None


def demangled(name: str) -> str:
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
