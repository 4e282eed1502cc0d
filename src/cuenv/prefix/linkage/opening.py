"""What happens when an environment's binaries are opened as Python would: which file wins for every library.

Python starts; torch opens ``libtorch_global_deps`` for everybody and then its extension; every further extension opens
in a process that has torch already. Python opens with RTLD_NOW: a symbol that nobody defines fails at once.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from packaging.version import Version

from cuenv.binary.loader import Loaded
from cuenv.binary.process import MissingLibrary, Opened, Process
from cuenv.core.record import dataclass, field, replace
from cuenv.prefix.fixes import Owner
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
    rescue: tuple[Preload, ...] = ()
    after: tuple[Preload, ...] = ()
    then: tuple[Root, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is opened in an environment.

    Attributes:
        python: its interpreter, links resolved; ``None`` when it has none.
        torch: ``None`` without a torch.
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

    home: Prefix
    own: Mapping[str, tuple[str, ...]]
    packages: Mapping[str, str]
    pinned: Mapping[str, str] = field(default_factory=dict)
    owner: Callable[[str], Owner | None] = lambda _: None
    fitting: Callable[[str], str] = str
    glibc: Version | None = None
    driver: bool = False

    @property
    def prefix(self) -> str:
        """The folder of the environment."""
        return self.home.path

    def inside(self, path: str) -> bool:
        """Whether a file belongs to the environment."""
        return path.startswith(f"{self.prefix}/")


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
        plan: what to open.
    """
    if plan.python:
        root = Root(path=plan.python, label="python", kind="python", needed=False)  # a script may start it
        yield Opening(root=root, opened=process.start(plan.python), process=process)
    if plan.torch:
        openings = tuple(_torch(process, plan.torch))
        yield from openings
        if any(item.process is process and item.opened.missing for item in openings):
            yield from _mended(process, plan.torch)
    for root in plan.roots:
        own = process.copy()
        yield Opening(root=root, opened=_with_neighbours(own, root.path), process=own)


def _mended(process: Process, plan: TorchPlan) -> Iterator[Opening]:
    """Go on as if torch could be imported: one missing library of its own is no fault of all that comes after."""
    if plan.first:
        opened = process.open(plan.first.path, everybody=True, mended=True)
        yield Opening(root=plan.first, opened=opened, process=process, mended=True)
    for item in (*plan.rescue, *plan.after):
        if item.path:
            root = Root(path=item.path, label=posixpath.basename(item.path), kind="torch")
            yield Opening(root=root, opened=process.open(item.path, mended=True), process=process, mended=True)
    for root in plan.then[:1]:
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


def _torch(process: Process, plan: TorchPlan) -> Iterator[Opening]:
    if plan.first:
        opened = process.open(plan.first.path, everybody=True)
        stems = {stem_of(item.pattern) for item in plan.rescue}
        if any(stem_of(item.name) in stems for item in opened.missing):
            yield from _rescued(process, plan, plan.first, opened)
        else:
            yield Opening(root=plan.first, opened=opened, process=process)
            _preload(process, plan.after)
    for number, root in enumerate(plan.then):
        own = process if number == 0 else process.copy()
        yield Opening(root=root, opened=own.open(root.path), process=own)


def _rescued(process: Process, plan: TorchPlan, first: Root, opened: Opened) -> Iterator[Opening]:
    """Torch opens each of its libraries by path and begins again; one that is not there ends it."""
    for item in plan.rescue:
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


def is_driver(name: str) -> bool:
    """Whether a library comes with the NVIDIA driver, and with no package."""
    stem = stem_of(name)
    return stem in {"libcuda", "libcudadebugger", "libnvcuvid"} or stem.startswith("libnvidia-")
