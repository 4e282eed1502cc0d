"""Binaries on this machine: reading one safely, and finding those below a folder."""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from cuenv.binary.code import FileCode, read_file
from cuenv.binary.data import BinaryError, Data
from cuenv.binary.elf import Dynamic, Elf, read_elf
from cuenv.binary.loader import Loaded, Seen
from cuenv.core.io.files import ls_command, path_text, reason_of
from cuenv.core.record import dataclass

_NOT_REGULAR = (
    (stat.S_ISDIR, "it is a folder"),
    (stat.S_ISFIFO, "it is a pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
)

NEVER_BINARY = frozenset(
    [
        *(".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".inc", ".pxd", ".py", ".pyc", ".pyi", ".pyx", ".sh"),
        *(".cfg", ".cmake", ".csv", ".html", ".ipynb", ".json", ".la", ".md", ".pc", ".rst", ".tcl", ".toml", ".txt"),
        *(".css", ".gz", ".jpg", ".js", ".png", ".svg", ".ts", ".typed", ".xml", ".yaml", ".yml", ".zip"),
    ]
)
"""Endings of files that are not even opened below a folder: an environment has ten thousands of them."""


_AHEAD = 512


class FileData:
    """The bytes of an open file, which are read on demand.

    The size is that of the moment of opening; a file that shrinks later yields short slices.
    """

    def __init__(self, handle: int, size: int) -> None:
        self._handle, self._size = handle, size
        self._at, self._ahead = 0, b""

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, wanted: slice, /) -> bytes:
        start = wanted.start or 0
        end = self._size if wanted.stop is None else min(wanted.stop, self._size)
        if 0 < end - start <= _AHEAD // 4:  # headers follow each other closely
            if not self._at <= start <= end <= self._at + len(self._ahead):
                self._at, self._ahead = start, os.pread(self._handle, min(_AHEAD, self._size - start), start)
            return self._ahead[start - self._at : end - self._at]
        left, parts = end - start, []
        while left > 0:  # one read yields at most 2 GiB
            part = os.pread(self._handle, left, end - left)
            if not part:
                break
            parts.append(part)
            left -= len(part)
        return b"".join(parts) if len(parts) != 1 else parts[0]


@contextmanager
def open_binary(path: str | os.PathLike[str], *, everything: bool = False) -> Iterator[FileData]:
    """Open a regular file for reading on demand; pipes, sockets and devices are refused.

    Args:
        path: the file; symbolic links are followed.
        everything: it will be read from end to end, and not only here and there.

    Raises:
        BinaryError: it cannot be opened or read, is not a regular file, or was changed while it was read.
    """
    name = path_text(path)
    handle = -1
    try:
        _regular(os.stat(path), name)  # noqa: PTH116 - Path would refuse names that are no text
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        before = _regular(os.fstat(handle), name)
        if not everything:
            # What is read lies far apart: without this, the system would read far ahead each time.
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        try:
            yield FileData(handle, before.st_size)
        except BinaryError as error:
            if _changed(before, os.fstat(handle)):
                raise BinaryError("it was changed while it was read", file=name, fault="unreadable") from error
            raise BinaryError(error.reason, file=name, fault=error.fault) from error
        if _changed(before, os.fstat(handle)):
            raise BinaryError("it was changed while it was read", file=name, fault="unreadable")
    except (OSError, ValueError) as error:
        raise BinaryError(reason_of(error), file=name, fault="unreadable", hint=ls_command(path, error)) from error
    finally:
        if handle >= 0:
            os.close(handle)


def _regular(found: os.stat_result, name: str) -> os.stat_result:
    if not stat.S_ISREG(found.st_mode):
        what = next((text for test, text in _NOT_REGULAR if test(found.st_mode)), "it is not a regular file")
        raise BinaryError(what, file=name, fault="unreadable")
    return found


def _changed(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)


def scan(path: str | os.PathLike[str], *, deep: bool = False) -> FileCode:
    """The device code of a file, cached until the file changes.

    Args:
        deep: also search sections in which NVIDIA's own libraries keep code.

    Raises:
        BinaryError: it is of no kind that holds device code, damaged, or cannot be read.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except (OSError, ValueError) as error:
        raise BinaryError(
            reason_of(error), file=path_text(path), fault="unreadable", hint=ls_command(path, error)
        ) from error
    return _scan(os.fspath(path), deep, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))


@lru_cache(maxsize=256)
def _scan(path: str, deep: bool, state: tuple[int, ...]) -> FileCode:  # noqa: ARG001 - the state is the key
    with open_binary(path, everything=deep) as data:
        return read_file(data, deep=deep)


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A folder that cannot be listed, and the reason."""

    path: str
    reason: str


def files_below(folder: str | os.PathLike[str]) -> Iterator[str | Unlisted]:
    """The regular files below a folder, each once, and the folders that cannot be listed.

    Links to folders are not followed, so that a circle ends. Links to files are, since some installers make an
    environment of links; the real file goes first where both are below.
    """
    seen: set[tuple[int, int]] = set()
    links: list[str] = []
    waiting = [os.fspath(folder)]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
            waiting += [entry.path for entry in reversed(entries) if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            yield Unlisted(here, reason_of(error))
            continue
        for entry in entries:
            if entry.is_symlink():
                links.append(entry.path)
            elif entry.is_file(follow_symlinks=False) and _is_new(entry.path, seen):
                yield entry.path
    yield from (path for path in links if os.path.isfile(path) and _is_new(path, seen))  # noqa: PTH113 - as above


def _is_new(path: str, seen: set[tuple[int, int]]) -> bool:
    """Whether a file is seen for the first time; only possible binaries are checked."""
    if not may_be_binary(path):
        return True
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return True
    key = (found.st_dev, found.st_ino)
    if key in seen:
        return False
    seen.add(key)
    return True


def may_be_binary(path: str) -> bool:
    """Whether a file can be a binary according to its suffix."""
    return Path(path).suffix.lower() not in NEVER_BINARY


def linkage(path: Path) -> Dynamic | None:
    """The dynamic section of a file; ``None`` if it is not a shared object or cannot be read."""
    try:
        with open_binary(path) as data:
            return read_elf(data).dynamic
    except BinaryError:
        return None


_HEADER = 64
_MOST_FILES = 8192
_MOST_OPEN = 200
_MOST_LOOKS = 2_000_000
_LITTLE = 1
_BLOCK, _MOST_BLOCKS = 8192, 512
"""Headers, names and versions are small and lie close together: they are read by blocks, of which the last are kept."""


class ElfFiles:
    """Looks at paths for the loader model and caches the results; must be closed.

    Args:
        machine: for which files are loadable: ``x86_64`` or ``aarch64``; by default whatever comes.
    """

    def __init__(self, machine: str | None = None) -> None:
        self.machine = machine
        self.refused: dict[str, str] = {}
        """Paths that exist and could not be looked at, with the reason."""
        self._left = _MOST_LOOKS
        self._seen: dict[str, Seen] = {}
        self._data: dict[tuple[int, int], _FileData] = {}
        self._elves: dict[tuple[int, int], Elf] = {}
        self._open: OrderedDict[str, int] = OrderedDict()
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def close(self) -> None:
        """Close all files."""
        while self._open:
            os.close(self._open.popitem()[1])

    @property
    def count(self) -> int:
        """The number of files that were read."""
        return len(self._data)

    def look(self, path: str) -> Seen:
        """What the loader would make of a path.

        Raises:
            BinaryError: search paths without end have asked for more than anybody could want.
        """
        self._left -= 1
        if self._left < 0:
            raise BinaryError(f"hostile: the search paths name more than {_MOST_LOOKS} files")
        found = self._seen.get(path)
        if found is None:
            found = self._seen[path] = self._look(path)
        return found

    def data(self, item: Loaded) -> tuple[Data, Elf]:
        """The bytes and headers of an object that was looked at."""
        identity = self._seen[item.path].identity
        return self._data[identity], item.elf

    def _look(self, path: str) -> Seen:
        try:
            told = os.stat(path)  # noqa: PTH116 - asked thousands of times, and most paths are absent
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ENOTDIR):
                return Seen(path=path, kind="absent")
            return self._refuse(path, reason_of(error))
        identity = (told.st_dev, told.st_ino)
        if not stat.S_ISREG(told.st_mode):
            return Seen(path=path, kind="broken", why="it is not a regular file", identity=identity)
        if identity not in self._data:
            if len(self._data) >= _MOST_FILES:
                return self._refuse(path, f"more than {_MOST_FILES} binaries: not read")
            try:
                self._descriptor(path)
            except OSError as error:
                return self._refuse(path, reason_of(error), identity)
            self._data[identity] = _FileData(path, told.st_size, self._read)
        return self._judge(path, identity)

    def _judge(self, path: str, identity: tuple[int, int]) -> Seen:
        data = self._data[identity]
        try:
            ident = data[:_HEADER]
        except BinaryError as error:
            return self._refuse(path, error.reason)
        if len(ident) < _HEADER:
            return Seen(path=path, kind="broken", why="file too short", identity=identity)
        if ident[:4] == b"\x7fELF" and (ident[4] != 2 or ident[5] != _LITTLE):
            return Seen(path=path, kind="other", why="an ELF file of another class", identity=identity)
        try:
            elf = self._elves.get(identity) or read_elf(data)
        except BinaryError as error:
            return Seen(path=path, kind="broken", why=error.reason, identity=identity)
        self._elves[identity] = elf
        if self.machine and elf.machine != self.machine:
            return Seen(path=path, kind="other", why=f"for {elf.machine}", identity=identity)
        if elf.kind not in ("shared", "executable"):
            return Seen(path=path, kind="broken", why=f"an ELF file of kind {elf.kind}", identity=identity)
        return Seen(path=path, kind="elf", identity=identity, elf=elf)

    def _refuse(self, path: str, reason: str, identity: tuple[int, int] = (0, 0)) -> Seen:
        self.refused[path] = reason
        return Seen(path=path, kind="denied", why=reason, identity=identity)

    def _read(self, path: str, start: int, end: int) -> bytes:
        if end - start > _BLOCK // 4 or start // _BLOCK != (end - 1) // _BLOCK:
            return os.pread(self._descriptor(path), end - start, start)
        key = (path, start // _BLOCK)
        block = self._blocks.get(key)
        if block is None:
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.popitem(last=False)
            block = self._blocks[key] = os.pread(self._descriptor(path), _BLOCK, key[1] * _BLOCK)
        return block[start % _BLOCK : start % _BLOCK + end - start]

    def _descriptor(self, path: str) -> int:
        """The open file; only a few are open at a time."""
        found = self._open.get(path)
        if found is None:
            if len(self._open) >= _MOST_OPEN:
                os.close(self._open.popitem(last=False)[1])
            found = self._open[path] = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return found


class _FileData:
    """The bytes of a file, which are read on demand."""

    def __init__(self, path: str, size: int, read: Callable[[str, int, int], bytes]) -> None:
        self._path, self._size, self._read = path, size, read

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, wanted: slice, /) -> bytes:
        start, end, _ = wanted.indices(self._size)
        try:
            return self._read(self._path, start, end) if end > start else b""
        except OSError as error:
            raise BinaryError(reason_of(error)) from error
