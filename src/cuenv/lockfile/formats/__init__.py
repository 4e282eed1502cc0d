"""The registry of lock formats: every module of this package declares one as ``FORMAT``, and nothing else lists them.

Writing, reading, the comparison with the lock, lint, the commands that ``cuenv lock`` prints and its help go through
`formats`. A new format is one module here and its test.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import NamedTuple

from cuenv.solve.environment_spec import WRITTEN_BY, EnvironmentSpec
from cuenv.solve.model import Lock, Solution

PLATFORM = "<platform>"
"""Stands for the platform in the name of a file that holds one platform."""
CLIENTS = ("cuenv", "conda", "micromamba", "conda-lock")
"""The order in which the commands of clients are shown; further clients follow."""


class LockedFile(NamedTuple):
    """What a file is written from, compared with, and installed as.

    Attributes:
        lock: every platform.
        solution: the platform of the file; the first one for a file that holds every platform.
        folder: where the file lies.
        asked: the environment file that was locked; in a comparison ``None`` where that is gone or changed.
        origin: the first line of the comment at the top.
    """

    lock: Lock
    solution: Solution
    folder: Path
    asked: Callable[[], EnvironmentSpec | None]
    origin: str = ""

    @property
    def spec(self) -> EnvironmentSpec:
        """The environment file, where the lock is written."""
        found = self.asked()
        if found is None:
            raise AssertionError(self.folder)
        return found

    @property
    def name(self) -> str:
        """The name of the environment that is made of it, as a word of a shell."""
        return shlex.quote(self.spec.name or "cuenv")


def _no_commands(_: LockedFile) -> Iterable[tuple[str, str]]:
    return ()


def _always(_: Solution) -> bool:
    return True


class LockFormat(NamedTuple):
    """One kind of file that ``cuenv lock`` writes.

    Attributes:
        file: its name; with `PLATFORM` in it there is one file per platform.
        order: its place in lists.
        purpose: what it is for, in the help of ``cuenv lock``.
        write: the text of the file.
        holds: whether there is such a file for a platform.
        install: pairs of a client and the command by which it makes the environment of the file.
        differences: what a text says otherwise than the lock; ``None`` for the lock that the others are compared with.
        own: how a file of ours begins, which is replaced without a copy.
        content: what a text of this format contains; ``None`` for a format that is not read.
        read: the lock in a text, given the name of its source for errors.
        lint: names of files that ``cuenv lint`` takes for locks of this format; ``None`` for a format it leaves alone.
    """

    file: str
    order: int
    purpose: str
    write: Callable[[LockedFile], str]
    holds: Callable[[Solution], bool] = _always
    install: Callable[[LockedFile], Iterable[tuple[str, str]]] = _no_commands
    differences: Callable[[LockedFile, str], Iterable[str]] | None = None
    own: str = WRITTEN_BY
    content: re.Pattern[str] | None = None
    read: Callable[[str, str], Lock] | None = None
    lint: re.Pattern[str] | None = None

    def path(self, folder: Path, platform: str) -> Path:
        """The file of a platform in a folder."""
        return folder / self.file.replace(PLATFORM, platform)

    @property
    def per_platform(self) -> bool:
        """Whether there is one file per platform."""
        return PLATFORM in self.file


@lru_cache(maxsize=1)
def formats() -> tuple[LockFormat, ...]:
    """Every format in its order; the first is the lock that vouches for the others."""
    found: list[LockFormat] = [import_module(f"{__name__}.{item.name}").FORMAT for item in iter_modules(__path__)]
    return tuple(sorted(found, key=lambda item: item.order))


def parse_lock(text: str, source: str) -> Lock:
    """Read a text in the format that its content shows; what shows none is read as the first format.

    Raises:
        InputError: it is not valid.
    """
    start = "\n".join(text.splitlines()[:200])
    readers = [item for item in formats() if item.read and item.content]
    chosen = next((item for item in readers[1:] if item.content and item.content.search(start)), readers[0])
    if chosen.read is None:
        raise AssertionError(chosen.file)
    return chosen.read(text, source)
