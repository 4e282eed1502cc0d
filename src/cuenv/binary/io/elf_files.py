"""Binaries on disk as the loader would see them, each looked at once: only what is asked for is read, nothing is run.

They are read by offset and not mapped: a mapped file that somebody cuts short while it is read ends the process.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Callable

from cuenv.binary.data import BinaryError, Data
from cuenv.binary.elf import Elf, read_elf
from cuenv.binary.loader import Loaded, Seen
from cuenv.core.io.files import why

_HEADER = 64
_MOST_FILES = 8192
_MOST_OPEN = 200
_MOST_LOOKS = 2_000_000
_LITTLE = 1
_BLOCK, _MOST_BLOCKS = 8192, 512
"""Headers, names and versions are small and lie close together: they are read by blocks, of which the last are kept."""


class ElfFiles:
    """Looks at paths and remembers; to be closed at the end.

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
        """Let go of the files."""
        while self._open:
            os.close(self._open.popitem()[1])

    @property
    def count(self) -> int:
        """How many files were read."""
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
        """The bytes of an object that was looked at, and its headers."""
        identity = self._seen[item.path].identity
        return self._data[identity], item.elf

    def _look(self, path: str) -> Seen:
        try:
            told = os.stat(path)  # noqa: PTH116 - asked thousands of times, and most paths are absent
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ENOTDIR):
                return Seen(path=path, kind="absent")
            return self._refuse(path, why(error))
        identity = (told.st_dev, told.st_ino)
        if not stat.S_ISREG(told.st_mode):
            return Seen(path=path, kind="broken", why="it is no regular file", identity=identity)
        if identity not in self._data:
            if len(self._data) >= _MOST_FILES:
                return self._refuse(path, f"more than {_MOST_FILES} binaries: not read")
            try:
                self._descriptor(path)
            except OSError as error:
                return self._refuse(path, why(error), identity)
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
        """The open file; few are open at a time. Opening never waits, as a FIFO in its place would make it."""
        found = self._open.get(path)
        if found is None:
            if len(self._open) >= _MOST_OPEN:
                os.close(self._open.popitem(last=False)[1])
            found = self._open[path] = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return found


class _FileData:
    """The bytes of a file, read where they are asked for."""

    def __init__(self, path: str, size: int, read: Callable[[str, int, int], bytes]) -> None:
        self._path, self._size, self._read = path, size, read

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, wanted: slice, /) -> bytes:
        start, end, _ = wanted.indices(self._size)
        try:
            return self._read(self._path, start, end) if end > start else b""
        except OSError as error:
            raise BinaryError(why(error)) from error
