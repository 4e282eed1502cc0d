"""Work at one place, where the second run waits for the first, and work side by side."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from cuenv.core.errors import OutsideError, Progress
from cuenv.core.io.files import shown

T = TypeVar("T")
U = TypeVar("U")

_PAUSE = 0.2
"""Seconds between two looks whether another run is done."""
_MOST = 8
"""Threads at most: one for each question up to here."""


def side_by_side(ask: Callable[[T], U], each: Sequence[T]) -> list[U]:
    """Ask for each at the same time; the answers come in the order of the questions.

    After an error or Ctrl-C what has not begun never does, and what is under way is not waited for.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - most runs ask one question

    pool = ThreadPoolExecutor(min(len(each), _MOST), thread_name_prefix="cuenv-ask")
    try:
        return [future.result() for future in [pool.submit(ask, item) for item in each]]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def meanwhile(ask: Callable[[], U], work: Callable[[], T]) -> tuple[U, T]:
    """Ask in a thread while the caller works; the answer and the work, and the error of the question before its own.

    After an error or Ctrl-C the question is not waited for.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as above

    pool = ThreadPoolExecutor(1, thread_name_prefix="cuenv-ask")
    try:
        asked = pool.submit(ask)
        done = work()
        return asked.result(), done
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class BusyError(OutsideError):
    """Another run is at work there."""


def patiently(attempt: Callable[[], T], progress: Progress | None = None) -> T:
    """Try until no other run is at work there any more.

    Args:
        attempt: what is tried; it leaves nothing behind when it raises `BusyError`.
    """
    while True:
        try:
            return attempt()
        except BusyError as error:  # noqa: PERF203 - each try is followed by a pause
            if progress:
                progress(f"waiting: {error.message}")
            time.sleep(_PAUSE)


@contextmanager
def alone(path: Path, place: Path) -> Iterator[None]:
    """Hold a file or folder for the time of a block.

    Args:
        path: what is held; it may vanish meanwhile.
        place: what people know it by.

    Raises:
        BusyError: another run holds it, or has just taken it away.
        OSError: it cannot be opened.
    """
    busy = BusyError(f"another cuenv is working on {shown(place)}", hint="wait for it, or stop it")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise busy from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise busy from error
        except OSError:  # a file system without locks: go on without
            pass
        if not still_there(path, handle):
            raise busy
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


def still_there(path: Path, handle: int) -> bool:
    """Whether an open file still has the name that it was opened by."""
    try:
        now, mine = path.stat(), os.fstat(handle)
    except OSError:
        return False
    return (now.st_ino, now.st_dev) == (mine.st_ino, mine.st_dev)
