"""Locks between several runs of cuenv, and threads."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from cuenv.core.errors import OutsideError, Progress
from cuenv.core.io.files import path_text

T = TypeVar("T")
U = TypeVar("U")

_PAUSE = 0.2  # seconds between two attempts while another run is busy
_MOST = 8  # the most threads


def run_parallel(ask: Callable[[T], U], each: Sequence[T], *, busy: bool = False) -> list[U]:
    """Call a function for each item in threads; the results are in the order of the items.

    After an error or Ctrl-C no further call begins, and running calls are not awaited.

    Args:
        busy: whether a call keeps a core busy, so that more at once than there are cores would not end sooner.
    """
    if len(each) < 2:
        return [ask(item) for item in each]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - most runs ask one question

    most = min(_MOST, max(2, len(os.sched_getaffinity(0)))) if busy else _MOST
    pool = ThreadPoolExecutor(min(len(each), most), thread_name_prefix="cuenv-ask")
    try:
        return [future.result() for future in [pool.submit(ask, item) for item in each]]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def begin(ask: Callable[[], T]) -> Callable[[], T]:
    """Call a function in a thread; the function that is returned waits for its result, or raises its error.

    After an error or Ctrl-C of the caller the thread is not awaited.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as above

    pool = ThreadPoolExecutor(1, thread_name_prefix="cuenv-ask")
    asked = pool.submit(ask)
    pool.shutdown(wait=False)
    return asked.result


class BusyError(OutsideError):
    """Another run holds the lock."""


def retry_while_busy(attempt: Callable[[], T], progress: Progress | None = None) -> T:
    """Call a function again until it does not raise `BusyError`.

    Args:
        attempt: the function, which has no effect when it raises `BusyError`.
    """
    while True:
        try:
            return attempt()
        except BusyError as error:  # noqa: PERF203 - each try is followed by a pause
            if progress:
                progress(f"waiting: {error.message}")
            time.sleep(_PAUSE)


@contextmanager
def hold(path: Path, place: Path) -> Iterator[None]:
    """Lock a file or folder for a block.

    Args:
        path: the file or folder, which may be removed meanwhile.
        place: its name in messages.

    Raises:
        BusyError: another run holds the lock or has just removed the file.
        OSError: it cannot be opened.
    """
    busy = BusyError(f"another cuenv is working on {path_text(place)}", hint="wait for it, or stop it")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise busy from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise busy from error
        except OSError:  # the file system has no locks
            pass
        if not is_same_file(path, handle):
            raise busy
        yield
    finally:
        os.close(handle)


@contextmanager
def wait_for_folder(folder: Path) -> Iterator[None]:
    """Wait for the lock of a folder and hold it for a block; without effect if the folder cannot be locked."""
    handle = -1
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle >= 0:
            os.close(handle)


def is_same_file(path: Path, handle: int) -> bool:
    """Whether a path still leads to the open file."""
    try:
        now, mine = path.stat(), os.fstat(handle)
    except OSError:
        return False
    return (now.st_ino, now.st_dev) == (mine.st_ino, mine.st_dev)
