"""The cache: where it is, how large, and how it is emptied without touching anything else."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from cuenv.core.errors import InputError, OutsideError
from cuenv.core.io.exclusive import BusyError
from cuenv.core.io.files import expand_home, is_folder, ls_command, path_text, reason_of
from cuenv.core.record import dataclass
from cuenv.solve.io.sources import Sources

KINDS: Mapping[str, str] = {
    "repodata": "records of channels",
    "archives": "downloaded packages and wheels",
    "pkgs": "unpacked packages; environments keep the files that they share with them",
}
"""The folders in the cache, and what they hold."""
TAG = "CACHEDIR.TAG"  # the file by which programs for backups know a cache, and cuenv knows that it made the folder
_SIGNATURE = "Signature: 8a477f597d28d172789f06886806bc55"
_TEXT = f"{_SIGNATURE}\n# The cache of cuenv: see `cuenv cache info`. About this file: https://bford.info/cachedir/\n"
_IN_USE = ".cuenv-in-use"
_held: dict[Path, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One kind of what lies in the cache."""

    kind: str
    files: int
    size: int


def use(sources: Sources) -> None:
    """Make the cache unless it is there, and keep others from emptying it while this process lives."""
    folder = sources.cache_folder()
    if folder in _held:
        return
    try:
        if not folder.is_dir() or not any(folder.iterdir()):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / TAG).write_text(_TEXT, encoding="ascii")
        handle = _open(folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    _held[folder] = handle
    with suppress(OSError):  # a file system that knows no locks
        fcntl.flock(handle, fcntl.LOCK_SH)


def unwritable(folder: Path, error: OSError) -> OutsideError:
    """The error for a cache that cannot be written."""
    return OutsideError(
        f"cannot write to the cache, {path_text(error.filename or folder)}: {reason_of(error)}",
        hint="name a folder that you can write to, with some GB free: export CUENV_CACHE_DIR=/path/to/cache",
    )


def stored(folder: Path) -> tuple[Stored, ...]:
    """What lies in the cache, by kind; nothing where there is no cache. Files with several names count once."""
    return tuple(_measured(folder, kind) for kind in KINDS)


def clean(folder: Path, kinds: Iterable[str] = KINDS) -> tuple[Stored, ...]:
    """Remove what lies in the cache, by kind. Nothing else in the folder, and nothing behind a link, is touched.

    Returns:
        what was removed.

    Raises:
        InputError: the folder is not a cache that cuenv made.
        BusyError: another cuenv uses it.
        OutsideError: something cannot be removed.
    """
    if not is_folder(folder):
        return ()
    refuse_odd(folder)
    import shutil  # noqa: PLC0415 - with its compressors 2 ms, and a lock empties no cache

    gone = tuple(_measured(folder, kind) for kind in kinds)
    try:
        handle = _open(folder)
        try:
            _alone(handle, folder)
            for kind in kinds:
                if (folder / kind).is_dir():
                    shutil.rmtree(folder / kind)
        finally:
            os.close(handle)
    except OSError as error:
        message = f"cannot remove {path_text(error.filename or folder)}: {reason_of(error)}"
        raise OutsideError(message, hint=ls_command(error.filename or folder, error)) from error
    return gone


def refuse_odd(folder: Path) -> None:
    """Refuse a folder that cuenv did not make, and a home.

    Raises:
        InputError: it is one, or a kind of cached data is a link there.
    """
    real, home = folder.resolve(), expand_home("~").resolve()
    name = path_text(folder)
    if real == home or real in home.parents:
        message = f"{name} is or contains your home folder, so it is not a cache"
        raise InputError(message, hint="name the cache: CUENV_CACHE_DIR=~/.cache/cuenv cuenv cache clean")
    if not _made_here(real):
        message = f"{name} has no {TAG} of cuenv; cuenv empties only folders that it made"
        raise InputError(message, hint=f"look at it, and remove cuenv's files by hand: ls -la {name}")
    for kind in KINDS:
        if (folder / kind).is_symlink():
            raise InputError(f"{name}/{kind} is a link, and cuenv removes nothing behind it", hint=f"rm {name}/{kind}")


def _made_here(folder: Path) -> bool:
    if folder == Sources().cache_folder(default=True).resolve():
        return True
    try:
        with (folder / TAG).open(encoding="ascii", errors="replace") as stream:
            text = stream.read(400)
    except OSError:
        return False
    return text.startswith(_SIGNATURE) and "cuenv" in text


def _open(folder: Path) -> int:
    return os.open(folder / _IN_USE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _alone(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BusyError(f"another cuenv uses the cache, {path_text(folder)}", hint="wait for it") from error


def _measured(folder: Path, kind: str) -> Stored:
    seen: set[tuple[int, int]] = set()
    size = 0
    for place, _, names in os.walk(folder / kind):  # links to folders are not followed
        for name in names:
            with suppress(OSError):
                about = os.lstat(f"{place}/{name}")
                if (about.st_dev, about.st_ino) not in seen:
                    seen.add((about.st_dev, about.st_ino))
                    size += about.st_size
    return Stored(kind=kind, files=len(seen), size=size)
