"""Writing files whole, with one writer at a time: what several files say together must be of one run.

`filelock` would replace the flock call alone. A lock file that is gone while nobody writes, what killed writers leave,
file systems without locks, and signals that wait for the end of a write would stay here.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import signal
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

from cuenv.core.errors import OutsideError
from cuenv.core.io.exclusive import is_same_file
from cuenv.core.io.files import is_file, ls_command, path_text, reason_of, refuse_untrusted

NAME = ".cuenv-writing"
"""The file that is locked: there only while somebody writes, and after a writer was killed until the next one."""
LEFTOVERS = ".cuenv-*.tmp"  # what a writer that was killed leaves beside its targets
PATIENCE = 30.0  # seconds to wait for another writer, which needs milliseconds
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def remove_own(path: Path, own: str) -> None:
    """Remove a file of ours that no longer holds; any other stays.

    Args:
        path: the file, which need not be there.
        own: how a file of ours begins.
    """
    if not is_file(path):
        return
    try:
        if path.read_bytes().startswith(own.encode()):
            path.unlink()
    except OSError as error:
        message = f"cannot remove {path_text(path)}: {reason_of(error)}"
        raise OutsideError(message, hint=ls_command(path, error)) from error


def write_atomically(path: Path, data: str | bytes) -> None:
    """Write a file so that after a crash or on a full disk the old one is still whole.

    The bytes go into a new file in the same folder, reach the disk, and take the name of the old one. A symbolic
    link stays a link and its target is replaced. An existing file keeps its mode (and its owner where allowed); a
    write-protected one is refused. A device or pipe (``/dev/null``) is written directly.

    Raises:
        OutsideError: the file cannot be written; nothing is left behind.
    """
    write_together([(path, data)])


def write_together(files: Iterable[tuple[Path, str | bytes]], *, gone: Mapping[Path, str] | None = None) -> None:
    """Write several files as `write_atomically` does: none takes its name before all of them are on the disk.

    Two processes that write the same files take turns, and Ctrl-C waits while names are taken: what stands there in the
    end is all of one run, unless it was killed between two names.

    Args:
        files: take their names in this order.
        gone: files that no longer hold, each with how one of ours begins; any other stays.

    Raises:
        OutsideError: one cannot be written; no file has changed then, unless a name could not be taken.
    """
    wanted = [(path, data.encode() if isinstance(data, str) else data) for path, data in files]
    folders = {folder for path, _ in wanted if (folder := _folder_of(path))}
    with only_writer(folders):
        _write_all_of(wanted)
        for path, own in (gone or {}).items():
            remove_own(path, own)
    for folder in folders:
        _sync_folder(folder)


def _folder_of(path: Path) -> Path | None:
    """Where the new file will lie; none for a device and for what cannot be, which the write will say."""
    try:
        target = path.resolve()
        return None if target.exists() and not target.is_file() else target.parent
    except (OSError, ValueError, RuntimeError):
        return None


def _write_all_of(wanted: Iterable[tuple[Path, bytes]]) -> None:
    ready: list[tuple[Path, Path, Path, int]] = []
    path = Path()
    try:
        for path, data in wanted:
            prepared = _prepare(path, data)
            ready += [(path, *prepared)] if prepared else []
        for path, _, _, handle in ready:  # noqa: B007 - the error names the path that it failed for
            os.fsync(handle)
        with defer_signals():
            for path, beside, target, _ in ready:  # noqa: B007 - as above
                beside.replace(target)
    except (OSError, ValueError, RuntimeError) as error:
        missing = isinstance(error, FileNotFoundError)
        reason = f"there is no folder {path_text(path.parent)}" if missing else reason_of(error)
        hint = f"mkdir -p {shlex.quote(str(path.parent))}" if missing else ls_command(path, error)
        raise OutsideError(f"cannot write {path_text(path)}: {reason}", hint=hint) from error
    finally:
        for _, beside, _, handle in ready:
            os.close(handle)
            with suppress(OSError):
                beside.unlink()


def _prepare(path: Path, raw: bytes) -> tuple[Path, Path, int] | None:
    """The bytes in a new file beside the target, the target, and the open file; ``None`` for a device, written now."""
    refuse_untrusted(path)
    target = path.resolve()
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        with target.open("wb", buffering=0) as stream:
            _write_all(stream.fileno(), raw)
        return None
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    beside = target.with_name(f".cuenv-{os.urandom(8).hex()}.tmp")
    # O_EXCL with a fresh mode lets the umask of the user decide about a new file.
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        if old is not None:
            with suppress(OSError):
                os.fchown(handle, old.st_uid, old.st_gid)
            os.fchmod(handle, stat.S_IMODE(old.st_mode))
        _write_all(handle, raw)
    except BaseException:
        os.close(handle)
        with suppress(OSError):
            beside.unlink()
        raise
    return beside, target, handle


def _write_all(handle: int, raw: bytes) -> None:
    rest = memoryview(raw)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _sync_folder(folder: Path) -> None:
    """Let the new name reach the disk; some file systems cannot do this, and the file itself is safe already."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def only_writer(folders: Iterable[Path]) -> Iterator[None]:
    """Be the only writer of folders for the length of a block; what killed writers left there is cleared away.

    A folder that cannot be written, or whose file system knows no locks (some network mounts), gives none: then nothing
    is cleared away, and two writers may meet.
    """
    with ExitStack() as stack:
        for folder in sorted(set(folders)):  # everybody in the same order: nobody waits in a circle
            path = folder / NAME
            handle = _lock(path)
            if handle is not None:
                stack.callback(_release, path, handle)
                _remove_leftovers(folder)
        yield


@contextmanager
def defer_signals() -> Iterator[None]:
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


def _lock(path: Path) -> int | None:
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
                with suppress(OSError):
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
        if is_same_file(path, handle):
            return handle
        os.close(handle)  # its holder removed it between our two steps


def _release(path: Path, handle: int) -> None:
    with suppress(OSError):
        path.unlink()  # while it is held: whoever waits sees that it is gone, and makes a new one
    os.close(handle)


def _remove_leftovers(folder: Path) -> None:
    for left in folder.glob(LEFTOVERS):
        with suppress(OSError):
            left.unlink()
