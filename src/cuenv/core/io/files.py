"""Reading and writing files, with errors that name the file and say what to do."""

from __future__ import annotations

import codecs
import errno
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from cuenv.core.errors import InputError, OutsideError

if TYPE_CHECKING:
    from pathlib import Path

DATA = os.path.realpath(f"{__file__}/../../../data")  # a string: pathlib costs a quick command a twentieth of its time
"""What ships with the package: tables, recorded hosts, templates."""

_MOST = 40  # links in one path, as for the kernel


class UntrustedError(PermissionError):
    """Somebody else could have chosen where the bytes go."""

    says = True
    """Its text is for people."""


def refuse_untrusted(path: str | os.PathLike[str]) -> None:
    """Refuse to write through a link, or to a file or folder, of another user in a folder of everybody's.

    Root's are trusted, as everywhere.

    Raises:
        PlantedError: so it is.
        OSError: it cannot be looked at.
    """
    here, links = "/", 0
    rest = [*reversed(os.path.join(os.getcwd(), path).split("/"))]  # noqa: PTH109, PTH118 - no `..` is taken out
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)  # noqa: PTH120 - strings are kept
            continue
        step = f"{here.rstrip('/')}/{part}"
        links += os.path.islink(step)  # noqa: PTH114 - as above
        if not os.path.islink(step) or links > _MOST:  # noqa: PTH114 - as above
            here = step
            continue
        _judge_link(step)
        target = os.readlink(step)  # noqa: PTH115 - as above
        here = "/" if target.startswith("/") else here
        rest += reversed(target.split("/"))
    _judge_file(here)


def _judge_link(link: str) -> None:
    if _open_to_all(link) and not _trusted(os.lstat(link).st_uid):
        raise UntrustedError(
            errno.EPERM, f"{link} is another user's link in a folder to which everyone can write", link
        )


def _judge_file(path: str) -> None:
    try:
        about = os.lstat(path)
    except FileNotFoundError:
        return
    sticky = os.stat(os.path.dirname(path)).st_mode & stat.S_ISVTX  # noqa: PTH116, PTH120 - as above
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}
    kind = kinds.get(stat.S_IFMT(about.st_mode))
    if sticky and kind and _open_to_all(path) and not _trusted(about.st_uid):
        raise UntrustedError(
            errno.EPERM, f"{path} is another user's {kind} in a folder to which everyone can write", path
        )


def _open_to_all(path: str) -> bool:
    return bool(os.stat(os.path.dirname(path) or "/").st_mode & stat.S_IWOTH)  # noqa: PTH116, PTH120 - as above


def _trusted(owner: int) -> bool:
    return owner in (0, os.geteuid())


@contextmanager
def private_folder(purpose: str) -> Iterator[Path]:
    """A folder that only this user may enter, and that is gone afterwards."""
    try:
        import tempfile  # noqa: PLC0415 - most runs need none

        folder = tempfile.TemporaryDirectory(prefix=f"cuenv-{purpose}-", ignore_cleanup_errors=True)
    except OSError as error:
        raise OutsideError(f"no temporary folder: {error.strerror}", hint="df -h ${TMPDIR:-/tmp}") from error
    from pathlib import Path  # noqa: PLC0415 - see DATA

    with folder as path:
        yield Path(path)


LIMIT = 64 * 1024 * 1024  # bytes that a text file may have unless the caller knows better

_OTHER = "name a text file in UTF-8"
_WHY = {
    errno.ENOENT: "no such file",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.EISDIR: "it is a folder",
    errno.EEXIST: "something else has this name",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.ELOOP: "its symbolic links form a loop",
    errno.ENAMETOOLONG: "the name is too long",
}
_MADE_BY = {"conda-lock.yml": "cuenv lock", "environment.yml": "cuenv resolve -o environment.yml"}
"""The files that a folder may lack, and the command that makes each."""


def path_text(path: str | os.PathLike[str]) -> str:
    """A path for a message: as it is, or quoted when it holds characters that do not print."""
    text = os.fspath(path)
    return text if text and text.isprintable() else repr(text)


def reason_of(error: OSError | ValueError | RuntimeError) -> str:
    """The reason of a failed file operation in a few words."""
    if isinstance(error, OSError):
        if getattr(error, "says", False):
            return str(error.strerror)
        return _WHY.get(error.errno or 0, error.strerror or type(error).__name__)
    return "its symbolic links form a loop" if isinstance(error, RuntimeError) else "the path is invalid"


def ls_command(path: str | os.PathLike[str], error: Exception | None = None) -> str:
    """The command that shows why something cannot be read or written: for the hint of an error."""
    typed = os.fspath(path)
    folder = os.path.dirname(typed.rstrip("/")) or ("/" if typed.startswith("/") else ".")  # noqa: PTH120 - as typed
    made_by = _MADE_BY.get(os.path.basename(os.fspath(path)))  # noqa: PTH119 - as above
    if made_by and folder == "." and getattr(error, "errno", None) == errno.ENOENT:
        return made_by
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return f"df -h {shlex.quote(path_text(folder))}"
    if os.path.lexists(path):
        return f"ls -ld {shlex.quote(path_text(path))}"
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder) or "."  # noqa: PTH120 - as above
    seen = "ls" if getattr(error, "errno", None) == errno.ENOENT and is_folder(folder) else "ls -ld"
    return f"{seen} {shlex.quote(path_text(folder))}"


def expand_home(path: str | Path) -> Path:
    """A path with its ``~`` replaced; where nobody knows that home it stays as it is written; never an error."""
    from pathlib import Path  # noqa: PLC0415 - see DATA

    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises for a user without a home


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it, unless it is there."""
    try:
        refuse_untrusted(folder)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make the folder {path_text(folder)}: {reason_of(error)}"
        raise OutsideError(message, hint=ls_command(folder, error)) from error


def is_file(path: str | Path) -> bool:
    """Whether it is a file that can be looked at; never an error."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for a forbidden folder before Python 3.14


def is_folder(path: str | Path) -> bool:
    """Whether it is a folder that can be looked at; never an error."""
    return os.path.isdir(path)  # noqa: PTH112 - as above


def exists(path: str | Path) -> bool:
    """Whether anything lies there; a broken link does not count.

    Raises:
        InputError: nobody can tell: a folder above may not be searched, or links run in a circle.
    """
    try:
        os.stat(path)  # noqa: PTH116 - Path.exists hides the circle, and pathlib is loaded late
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return False
        raise InputError(f"cannot read {path_text(path)}: {reason_of(error)}", hint=ls_command(path, error)) from error
    except ValueError:
        return False
    return True


def lexists(path: str | Path) -> bool:
    """Whether anything has that name, a broken link too."""
    return os.path.lexists(path)


def absolute(path: str | Path) -> Path:
    """The path from the root; links are not followed."""
    from pathlib import Path  # noqa: PLC0415 - see DATA

    return Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links


def first_bytes(path: Path, count: int) -> bytes:
    """How a regular file begins; empty for anything else."""
    if not is_file(path):
        return b""
    with path.open("rb") as stream:
        return stream.read(count)


def real_path(path: str | Path) -> str:
    """The path with all links followed."""
    return os.path.realpath(path)


def relative_path(path: str | Path, folder: str | Path) -> str:
    """The path as it is written from a folder."""
    return os.path.relpath(path, folder)


def may_write_in(folder: Path) -> bool:
    """Whether this user may make files there."""
    return os.access(folder, os.W_OK | os.X_OK)


def may_run(path: str | Path) -> bool:
    """Whether this user may run a file."""
    return os.access(path, os.X_OK)


def names_in(folder: str | Path) -> tuple[str, ...]:
    """The sorted names in a folder; none when it cannot be listed."""
    try:
        return tuple(sorted(os.listdir(folder)))  # noqa: PTH208 - names are wanted, not paths
    except (OSError, ValueError):
        return ()


def read_text(path: str | os.PathLike[str], *, limit: int = LIMIT, lenient: bool = False) -> str:
    """The text of a file in UTF-8, or in UTF-16 with its byte order mark (a mark is dropped).

    Args:
        path: a file, or anything that can be read to its end, such as ``/dev/fd/63`` of a shell.
        limit: bytes above which the file is refused.
        lenient: bytes that are no such text are replaced, as in a paste that was cut.

    Raises:
        InputError: it is missing, a folder, unreadable, too large, or no UTF-8 text.
    """
    return _decode(_read(path, limit), path_text(path), limit, "replace" if lenient else "strict")


def text_at(path: str | Path) -> str:
    """The text of a file; empty for one that is missing, unreadable, huge, or a pipe that nobody writes to."""
    try:
        return read_text(path, lenient=True) if is_file(path) else ""
    except InputError:
        return ""


def read_bytes(path: Path, *, limit: int) -> bytes:
    """The bytes of a file.

    Raises:
        InputError: it is missing, a folder, unreadable or too large.
    """
    data = _read(path, limit)
    if len(data) > limit:
        raise _too_large(path_text(path), limit)
    return data


def _read(path: str | os.PathLike[str], limit: int) -> bytes:
    """One byte more than the limit at most."""
    try:
        with opened(path) as stream:
            return stream.read(limit + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path_text(path)}: {reason_of(error)}", hint=ls_command(path, error)) from error


def opened(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file to read it; a named pipe is none, since nobody may ever write to it.

    What a shell makes of ``<(command)``, and ``/dev/stdin``, are pipes that have a writer.

    Raises:
        OSError: it cannot be opened, or is a named pipe.
    """
    stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb")
    named = not os.path.realpath(path).startswith(("/dev/", "/proc/"))
    if named and stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise OSError(errno.EINVAL, "it is a named pipe, not a file", os.fspath(path))
    os.set_blocking(stream.fileno(), True)
    return stream


def read_stdin(*, limit: int = LIMIT, lenient: bool = False) -> str:
    """Standard input to its end, as `read_text` reads a file.

    Raises:
        InputError: it is closed, cannot be read, is too large, or no UTF-8 text.
    """
    if sys.stdin is None:
        raise InputError("cannot read standard input: it is closed", hint="name a file instead of -")
    try:
        data = sys.stdin.buffer.read(limit + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read standard input: {reason_of(error)}", hint="name a file instead of -") from error
    return _decode(data, "standard input", limit, "replace" if lenient else "strict")


def _too_large(source: str, limit: int) -> InputError:
    hint = f"ls -lh {shlex.quote(source)}" if exists(source) else _OTHER
    return InputError(f"cannot read {source}: it is larger than {limit} bytes", hint=hint)


def _decode(data: bytes, source: str, limit: int, errors: str = "strict") -> str:
    if len(data) > limit:
        raise _too_large(source, limit)
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # what PowerShell's > writes
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig", errors)
    except UnicodeDecodeError as error:
        said = f"byte {error.start} is not {'UTF-16' if wide else 'UTF-8'} text"
        raise InputError(f"cannot read {source}: {said}", hint=_OTHER) from error
    if "\0" in text:
        raise InputError(f"cannot read {source}: it is a binary file", hint=_OTHER)
    return text


BLOCK = 1024 * 1024  # bytes that are read at once


def file_blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, or of anything that can be read to its end, such as a pipe.

    Raises:
        InputError: it is missing, a folder, or cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as stream:
            yield from _blocks(stream)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path_text(path)}: {reason_of(error)}", hint=ls_command(path, error)) from error


def size_of(path: Path) -> int:
    """The bytes of a file; 0 where that cannot be told, as of a pipe."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0


def stdin_blocks() -> Iterator[bytes]:
    """The bytes of standard input to its end.

    Raises:
        InputError: it is closed or cannot be read.
    """
    if sys.stdin is None:
        raise InputError("cannot read standard input: it is closed", hint="cuenv diagnose train.log")
    try:
        yield from _blocks(sys.stdin.buffer)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read standard input: {reason_of(error)}", hint="cuenv diagnose train.log") from error


def stdin_holds_nothing() -> bool:
    """Whether nobody feeds standard input: it is a terminal, closed, or the null device of a batch job."""
    if sys.stdin is None or sys.stdin.isatty():
        return True
    with suppress(OSError, ValueError):
        return os.path.samestat(os.fstat(sys.stdin.fileno()), os.stat(os.devnull))  # noqa: PTH116 - no Path here
    return False


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    while block := stream.read(BLOCK):
        yield block


def load_toml(text: str) -> dict[str, Any]:
    """A TOML document as plain values.

    Raises:
        ValueError: it is not TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 - most commands read none
    else:
        import tomli as tomllib  # noqa: PLC0415 - as above
    try:
        found: dict[str, Any] = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return found
