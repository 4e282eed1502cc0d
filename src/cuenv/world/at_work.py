"""Two runs at one place: the first one holds it, the second one says so. A run that was killed holds nothing."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cuenv.errors import OutsideError
from cuenv.world.files import shown


@contextmanager
def alone(path: Path, place: Path) -> Iterator[None]:
    """Hold a file or folder for the time of a block.

    Args:
        path: what is held; it may vanish meanwhile.
        place: what people know it by.

    Raises:
        OutsideError: another run holds it.
        OSError: it cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutsideError(f"another cuenv is at work on {shown(place)}", hint="wait for it, or stop it") from error
        except OSError:  # a file system without locks: go on without
            pass
        yield
    finally:
        os.close(handle)


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Wait for a folder and hold it for a moment; where that is not possible, go on."""
    handle = -1
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle >= 0:
            os.close(handle)
