"""One writer at a time, and not stopped half way: what several files say together must be of one run."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType

from cuenv.core.errors import OutsideError

NAME = ".cuenv-writing"
"""The file that is locked: there only while somebody writes, and after a writer was killed until the next one."""
LEFT = ".cuenv-*.tmp"
"""What a writer that was killed leaves beside its targets."""
PATIENCE = 30.0
"""Seconds to wait for another writer, which needs milliseconds."""
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def alone_in(folders: Iterable[Path]) -> Iterator[None]:
    """Be the only writer of folders for the length of a block; what killed writers left there is cleared away.

    A folder that cannot be written, or whose file system knows no locks (some network mounts), gives none: then nothing
    is cleared away, and two writers may meet.

    Raises:
        OutsideError: another writer does not end.
    """
    with contextlib.ExitStack() as stack:
        for folder in sorted(set(folders)):  # everybody in the same order: nobody waits in a circle
            path = folder / NAME
            handle = _locked(path)
            if handle is not None:
                stack.callback(_release, path, handle)
                _clear(folder)
        yield


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let Ctrl-C and a polite kill wait for the end of a short block; ``kill -9`` does not."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.getsignal(number) for number in _DEFERRED}
    ours = {number: old for number, old in before.items() if old is not None and old != signal.SIG_IGN}
    try:
        for number in ours:
            signal.signal(number, note)
        yield
    finally:
        for number, old in ours.items():
            signal.signal(number, old)
        for late in dict.fromkeys(came):
            signal.raise_signal(late)


def _locked(path: Path) -> int | None:
    import fcntl  # noqa: PLC0415 - most runs write nothing

    until = time.monotonic() + PATIENCE
    while True:
        try:
            # private, and no link is followed: in a folder of everybody's, somebody else could put one there
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return None  # whatever it is, the write itself meets it and says it
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno not in _BUSY:
                with contextlib.suppress(OSError):
                    path.unlink()
                return None
            if time.monotonic() > until:
                raise OutsideError(
                    f"cannot write into {ascii(str(path.parent))[1:-1]}: another process has been writing there "
                    f"for {PATIENCE:.0f} s (it holds {NAME})",
                    hint="wait for the other cuenv, or end it",
                ) from error
            time.sleep(0.01)
            continue
        if still_there(path, handle):
            return handle
        os.close(handle)  # its holder removed it between our two steps


def still_there(path: Path, handle: int) -> bool:
    """Whether an open file still has the name that it was opened by."""
    try:
        now, mine = path.stat(), os.fstat(handle)
    except OSError:
        return False
    return (now.st_ino, now.st_dev) == (mine.st_ino, mine.st_dev)


def _release(path: Path, handle: int) -> None:
    with contextlib.suppress(OSError):
        path.unlink()  # while it is held: whoever waits sees that it is gone, and makes a new one
    os.close(handle)


def _clear(folder: Path) -> None:
    for left in folder.glob(LEFT):
        with contextlib.suppress(OSError):
            left.unlink()
