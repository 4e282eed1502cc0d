"""Fetching files whose hashes are known: what was begun goes on, what fails for the moment is tried again.

A file grows as ``NAME.part`` and takes its name when its hash is right, so a file that has its name is whole. The hash
alone decides: a server may drop, truncate, lie about lengths or ignore ``Range``, and the answer is right or an error.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock
from typing import IO

from cuenv.core.errors import ChannelError, HashError, OfflineError, OutsideError, Progress
from cuenv.core.io.exclusive import is_same_file
from cuenv.core.io.files import is_file, ls_command, names_in, path_text, reason_of
from cuenv.core.record import dataclass, field
from cuenv.core.urls import host
from cuenv.solve.io.connection import Connection, RetryError, with_retries
from cuenv.solve.io.sources import Place, Sources, place_of
from cuenv.solve.io.unpacking import readable_size

JOBS = 4
_CHUNK = 1 << 20
_LONGEST = 30.0  # seconds that are waited before the next attempt, however many a server asks for
_LIMIT = 1 << 34  # bytes that no package has: a server that never ends is stopped
_SPARE = 1 << 20
"""Bytes that may come beyond twice of what the channel says of a file: only a server without end is stopped by it."""
_TICK = 0.2
_LEFT = 2 * 86400  # seconds after which nobody writes a growing file any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A file to download, and where it goes."""

    url: str  # canonical; where it is really read is said by the `Sources`
    path: Path  # where it shall lie
    sha256: str | None
    md5: str | None = None
    size: int | None = None  # bytes that it has; ``None`` when nobody says
    seeds: tuple[Path, ...] = ()  # files that may hold the same bytes already

    @property
    def limit(self) -> int:
        """Bytes that are taken at most."""
        return _LIMIT if self.size is None else min(2 * self.size + _SPARE, _LIMIT)


class _TooLargeError(ChannelError):
    """More comes than a file has: nothing of it is kept."""


@dataclass(slots=True)
class _Count:
    """What all workers have done so far, and whether they shall stop."""

    files: int = 0
    moved: int = 0  # bytes that were sent or copied in this run
    grown: dict[Path, int] = field(default_factory=dict)  # bytes that each file has, by its path
    sizes: dict[Path, int] = field(default_factory=dict)  # bytes that each file will have, as far as anybody says
    waits: dict[Path, str] = field(default_factory=dict)  # what is waited for, by path
    stop: Event = field(default_factory=Event)
    lock: Lock = field(default_factory=Lock)

    def add(self, item: Wanted, size: int, whole: int) -> None:
        """Note that a file grew by a size to a whole; too much of it is an error."""
        with self.lock:
            self.moved += size
            self.grown[item.path] = whole
        if self.stop.is_set():
            raise ChannelError("stopped")
        if whole > item.limit:
            said = f", and the channel says {item.size}" if item.size is not None else ""
            message = f"{path_text(item.path.name)}: the server sends more than {item.limit} bytes{said}"
            raise _TooLargeError(message, hint="read it elsewhere: --mirror")

    def expect(self, item: Wanted, size: int | None) -> None:
        """Note what a server says of a size, where nobody else does."""
        if size is not None:
            with self.lock:
                self.sizes.setdefault(item.path, size)

    def wait(self, item: Wanted, text: str, seconds: float) -> None:
        """Wait, and let it be told."""
        with self.lock:
            self.waits[item.path] = text
        self.stop.wait(seconds)
        with self.lock:
            self.waits.pop(item.path, None)


def fetch(
    wanted: Sequence[Wanted],
    sources: Sources,
    *,
    logins: Mapping[str, tuple[str, str]] | None = None,
    jobs: int = JOBS,
    progress: Progress | None = None,
) -> None:
    """Have every file at its path, with its hash right.

    Args:
        wanted: files; those that lie there already are hashed and stay.
        logins: user and password by scheme and host: ``https://index.example.com``.
        jobs: files fetched at the same time.

    Raises:
        ChannelError: a file cannot be had.
        HashError: what a server sends, or a folder holds, is not what the hash says.
        OutsideError: it cannot be written.
    """
    count, began = _Count(sizes={item.path: item.size for item in wanted if item.size is not None}), time.monotonic()
    pool = ThreadPoolExecutor(max(1, jobs), thread_name_prefix="cuenv-fetch")
    connection = Connection(sources, logins or {})
    items = {pool.submit(_obtain, item, connection, count): item for item in wanted}
    todo = set(items)
    try:
        while todo:
            done, todo = wait(todo, timeout=_TICK, return_when=FIRST_EXCEPTION)
            count.files += len(done)
            for future in done:
                _raise(future, items[future])
            if progress:
                progress(_line(count, len(wanted), time.monotonic() - began))
    except BaseException:
        count.stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _raise(future: Future[None], item: Wanted) -> None:
    error = future.exception()
    if isinstance(error, OSError):
        path = error.filename or item.path
        message = f"cannot write {path_text(path)}: {reason_of(error)}"
        raise OutsideError(message, hint=ls_command(path, error)) from error
    if error:
        raise error


def _line(count: _Count, total: int, seconds: float) -> str:
    """How far it is: files, bytes, percent, rate and the time that is left, as far as they are known."""
    with count.lock:
        have, sizes, waits = sum(count.grown.values()), dict(count.sizes), tuple(count.waits.values())
        rate = count.moved / seconds if seconds > 1 else 0.0
    text = f"fetched {count.files} of {total} files, {readable_size(have)}"
    if len(sizes) == total:
        whole = max(sum(sizes.values()), have)
        text += f" of {readable_size(whole)}, {100 * have // max(whole, 1)}%"
        left = (whole - have) / rate if rate else 0
        text += f", {readable_size(rate)}/s" if rate else ""
        text += f", {duration(left)} left" if left >= 1 else ""
    else:
        text += f", {100 * count.files // max(total, 1)}% of the files" + (f", {readable_size(rate)}/s" if rate else "")
    return f"{text}; {waits[0]}" if waits else text


def duration(seconds: float) -> str:
    """Seconds as people say them: ``40 s``, ``12 min``, ``1.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def digest(path: Path, kind: str) -> str:
    """The hash of a file, as hex.

    Raises:
        OSError: it cannot be read.
    """
    total = hashlib.new(kind, usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            total.update(chunk)
    return total.hexdigest()


def hash_difference(path: Path, item: Wanted) -> str | None:
    """How a file is not what it should be: ``its sha256 is X, expected Y``; ``None`` when it is.

    Raises:
        OSError: it cannot be read.
    """
    known = [(kind, expected) for kind, expected in (("sha256", item.sha256), ("md5", item.md5)) if expected]
    for kind, expected in known:
        found = digest(path, kind)
        if found != expected:
            return f"its {kind} is {found}, but the lock says {expected}"
    return None if known else "the lock has no hash for it"


def _obtain(item: Wanted, connection: Connection, count: _Count) -> None:
    if count.stop.is_set():
        return
    if _is_there(item):
        size = item.path.stat().st_size
        count.expect(item, size)
        count.add(item, 0, size)
        return
    item.path.parent.mkdir(parents=True, exist_ok=True)
    place = place_of(item.url, connection.sources)
    with partial_download(item.path) as part:
        try:
            if not any(_from_seed(seed, item, part, count) for seed in item.seeds):
                _get(place, item, part, connection, count)
        except _TooLargeError:
            part.unlink(missing_ok=True)
            raise
        part.replace(item.path)


def _is_there(item: Wanted) -> bool:
    try:
        return is_file(item.path) and hash_difference(item.path, item) is None
    except OSError:  # a file that is not ours to read is replaced
        return False


def _from_seed(seed: Path, item: Wanted, part: Path, count: _Count) -> bool:
    try:
        reader = seed.open("rb")
    except OSError:  # it is not there, or not ours to read
        return False
    with reader:
        return _copy(reader, item, part, count) is None


@contextmanager
def partial_download(end: Path) -> Iterator[Path]:
    """The growing file beside its end, locked; another process that fetches the same gets a name of its own."""
    path = end.with_name(f"{end.name}.part")
    _remove_abandoned(path)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        shared = _locked(path, handle)
        if not shared:
            path = path.with_name(f"{path.name}-{os.getpid()}")
            path.unlink(missing_ok=True)
        yield path
    finally:
        os.close(handle)
        with suppress(OSError):
            if not shared or path.stat().st_size == 0:  # nobody would go on with one of another process
                path.unlink()


def _remove_abandoned(path: Path) -> None:
    """Remove what second processes left that were killed days ago: nobody goes on with it."""
    with suppress(OSError):
        for name in names_in(path.parent):
            if name.startswith(f"{path.name}-") and time.time() - (path.parent / name).lstat().st_mtime > _LEFT:
                (path.parent / name).unlink()


def _locked(path: Path, handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return is_same_file(path, handle)  # else its holder gave it its real name between our two steps


def _copy(reader: IO[bytes], item: Wanted, part: Path, count: _Count) -> str | None:
    """Copy a local file; how it is not what it should be, or ``None``."""
    whole = 0
    with part.open("wb") as writer:
        while chunk := reader.read(_CHUNK):
            whole += len(chunk)
            count.add(item, len(chunk), whole)
            writer.write(chunk)
    wrong = hash_difference(part, item)
    if wrong:
        part.unlink()
    return wrong


def _get(place: Place, item: Wanted, part: Path, connection: Connection, count: _Count) -> None:
    """Fill the growing file from a folder or the network."""
    if place.path is not None:
        _get_local(place.path, item, part, count)
        return
    if connection.sources.offline:
        message = f"--offline was given, but {item.path.name} is not in the cache"
        raise OfflineError(message, hint="run it once without --offline, which fills the cache")
    begun = part.stat().st_size > 0 if part.exists() else False
    _resume(place, item, part, connection, count)
    wrong = hash_difference(part, item)
    if wrong and begun:  # what an earlier run left may have been something else: once more, from nothing
        part.unlink()
        _resume(place, item, part, connection, count)
        wrong = hash_difference(part, item)
    if wrong:
        part.unlink()
        message = f"{place.shown}: {wrong}"
        raise HashError(message, hint="it is not the locked file: lock again, or find out who changed it")


def _get_local(path: Path, item: Wanted, part: Path, count: _Count) -> None:
    try:
        reader = path.open("rb")
    except OSError as error:
        raise ChannelError(f"{path_text(path)}: {reason_of(error)}", hint="copy it from its channel again") from error
    with reader:
        wrong = _copy(reader, item, part, count)
    if wrong:
        raise HashError(f"{path_text(path)}: {wrong}", hint="copy it from its channel again")


def _resume(place: Place, item: Wanted, part: Path, connection: Connection, count: _Count) -> None:
    """Let the file grow to its end."""

    def pause(seconds: float, error: RetryError) -> None:
        count.wait(item, f"waiting {duration(seconds)} for {host(place.url)}: {error}", seconds)

    try:
        with_retries(
            lambda: _append(place, item, part, connection, count),
            lambda: part.stat().st_size if part.exists() else 0,
            pause,
            most=connection.sources.retries,
            longest=_LONGEST,
        )
    except RetryError as error:
        message = f"{place.shown}: {error}"
        raise ChannelError(message, hint="run the same command again; finished downloads are kept") from error


def _append(place: Place, item: Wanted, part: Path, connection: Connection, count: _Count) -> None:
    """Let the growing file grow by what it lacks."""
    have = part.stat().st_size if part.exists() else 0
    with connection.open(place, have) as (start, chunks, size), part.open("r+b" if have else "wb") as writer:
        count.expect(item, size)
        writer.seek(start)
        writer.truncate()
        whole = start
        for chunk in chunks:
            whole += len(chunk)
            count.add(item, len(chunk), whole)
            writer.write(chunk)
