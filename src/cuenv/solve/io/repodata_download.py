"""Fetching one file of a channel within bounds, and going on where it broke off."""

from __future__ import annotations

import io
import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cuenv.core.io import process as telling
from cuenv.core.record import dataclass, field
from cuenv.core.urls import host
from cuenv.solve.io.connection import PASSING, PAUSE, Connection, RetryError, error_text, retry_after, with_retries
from cuenv.solve.io.download import partial_download
from cuenv.solve.io.sources import Place
from cuenv.solve.io.unpacking import SMALL, Limits, TooMuchError, check, limits_of, measure, readable_size

if TYPE_CHECKING:
    import requests

KEPT = ("ETag", "Last-Modified", "Cache-Control", "Expires", "Age", "Date")  # headers of an answer that caches live on
ASKED = ("If-None-Match", "If-Modified-Since", "Cache-Control", "Pragma")  # headers of a question that caches live on
COMING = "coming"  # the folder in the cache of what is not whole yet
_CHUNK = 1 << 16
_LEAST = 100  # bytes a second below which a server counts as silent
_LONGEST = 10.0  # seconds that a server may ask to wait before the next attempt

Tell = Callable[[int, int | None], None]  # told how many bytes came, and how many there will be when the server says so


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer of a server: ``body`` is read from its beginning to its end."""

    status: int
    reason: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: IO[bytes] = field(default_factory=io.BytesIO)
    size: int = 0
    unpacked: int = 0


class FailedError(Exception):
    """A file cannot be had; the text says why, without the place."""


def fetch(place: Place, asked: Mapping[str, str], connection: Connection, folder: Path, tell: Tell) -> Fetched:
    """Fetch a file of a channel, unless the caller's copy is still good.

    Args:
        place: on the network.
        asked: what the caller knows of its copy.
        connection: how to ask.
        folder: of the cache: what breaks off is kept there for the next run.
        tell: told how far it is.

    Raises:
        FailedError: it cannot be had.
        TooMuchError: it is larger than such a file is.
        InputError: a login would go over a connection that is not checked.
        OSError: it cannot be kept.
    """

    def pause(seconds: float, error: RetryError) -> None:
        if seconds > 1:
            telling.tell(f"waiting {seconds:.0f} s for {host(place.url)}: {error}")
        time.sleep(seconds)

    limits = limits_of(place.url.partition("?")[0])
    with _spool(place, limits, folder) as spool:
        try:
            return with_retries(
                lambda: _attempt(place, asked, connection, spool, tell),
                spool.size,
                pause,
                most=connection.sources.retries,
                longest=_LONGEST,
            )
        except RetryError as error:
            raise FailedError(str(error)) from error


def status(place: Place, connection: Connection) -> int:
    """What a server answers to the question whether it has a file.

    Raises:
        FailedError: it does not answer.
    """
    left = connection.sources.retries
    while True:
        found, why = _status_once(place, connection)
        if found or not left:
            break
        left -= 1
        time.sleep(PAUSE)
    if not found:
        raise FailedError(why)
    return found


def _status_once(place: Place, connection: Connection) -> tuple[int, str]:
    """The status, or 0 and why there is none for now."""
    try:
        with _translated(), connection.send(place, {"Accept-Encoding": "identity"}, method="HEAD") as answer:
            return answer.status_code, ""
    except RetryError as error:
        return 0, str(error)


class _Spool:
    """Where a body grows: in memory, or in a file of the cache with a note of which answer it is the beginning of."""

    def __init__(self, stream: IO[bytes], limits: Limits, note: Path | None = None) -> None:
        self.stream = stream
        self.limits = limits
        self.mark = ""
        self._note = note
        if note:
            with suppress(OSError, ValueError, AttributeError):
                self.mark = str(json.loads(note.read_bytes()).get("mark", ""))
        if not self.mark:
            self.clear()

    def size(self) -> int:
        return self.stream.seek(0, io.SEEK_END)

    def clear(self, mark: str = "") -> None:
        self.stream.seek(0)
        self.stream.truncate()
        self.mark = mark
        if self._note:
            self._note.write_text(json.dumps({"mark": mark}))

    def whole(self) -> IO[bytes]:
        """The body, which is no longer this spool's."""
        stream, self.stream = self.stream, io.BytesIO()
        stream.seek(0)
        return stream


@contextmanager
def _spool(place: Place, limits: Limits, folder: Path) -> Iterator[_Spool]:
    if limits is SMALL:
        yield _Spool(io.BytesIO(), limits)
        return
    name = sha256(place.url.encode()).hexdigest()[:32]  # the URL may hold a password
    base = folder / COMING
    base.mkdir(parents=True, exist_ok=True)
    with partial_download(base / name) as path:
        note = path.with_name(f"{path.name}.json")
        path.touch()
        spool = _Spool(path.open("r+b"), limits, note)
        try:
            yield spool
        except BaseException as error:
            if not spool.mark or not spool.size() or isinstance(error, TooMuchError):  # nobody is to go on with it
                path.unlink(missing_ok=True)
                note.unlink(missing_ok=True)
            raise
        else:
            path.unlink(missing_ok=True)  # its bytes live as long as somebody reads them
            note.unlink(missing_ok=True)
        finally:
            spool.stream.close()


def _attempt(place: Place, asked: Mapping[str, str], connection: Connection, spool: _Spool, tell: Tell) -> Fetched:
    have, limits = spool.size(), spool.limits
    plain = place.url.partition("?")[0].endswith(".json")
    headers = {"Accept-Encoding": "gzip" if plain and not have else "identity", **asked}
    if have:
        headers = {"Accept-Encoding": "identity", "Range": f"bytes={have}-", "If-Range": spool.mark}
    with _translated(), connection.send(place, headers) as answer:
        code, reason = answer.status_code, answer.reason or ""
        if code in PASSING:
            raise _PassingError(f"({code} {reason})", retry_after(answer))
        if code == 304 and not any(name in asked for name in ("If-None-Match", "If-Modified-Since")):
            if "no-cache" not in asked.get("Cache-Control", ""):
                return _attempt(place, {**asked, "Cache-Control": "no-cache"}, connection, spool, tell)
            raise FailedError("(304 Not Modified)")
        if code == 416 and have:
            spool.clear()
            raise RetryError("the server has a shorter file than before", 0)
        if code not in (200, 206):
            return Fetched(code, reason, _kept_headers(answer))
        _fill(answer, spool, tell, connection.sources.timeout)
        sent = spool.size()
        unpacked = measure(spool.stream, place.url.partition("?")[0], limits, sent=sent)
        return Fetched(200, "OK", _kept_headers(answer), spool.whole(), sent, unpacked)


class _PassingError(RetryError):
    """A status that may be another in a moment."""


def _fill(answer: requests.Response, spool: _Spool, tell: Tell, patience: float) -> None:
    """Let the body grow to its end."""
    limits = spool.limits
    start = _start(answer, spool)
    length = answer.headers.get("Content-Length", "")
    left = int(length) if length.isascii() and length.isdigit() and len(length) < 19 else None
    total = start + left if left is not None else None
    if total is not None and total > limits.packed:
        raise TooMuchError(
            f"the answer has {readable_size(total)}, and the most is {readable_size(limits.packed)}, "
            "which is more than any channel has"
        )
    packing = answer.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
    if packing not in ("identity", "gzip", "x-gzip"):
        raise FailedError(f"the server uses a compression that was not requested ({packing[:20]})")
    if start == 0:
        spool.clear("" if packing != "identity" else _validator(answer))
    gunzip = zlib.decompressobj(31) if packing != "identity" else None
    sent = start
    for chunk in _chunks(answer, patience):
        sent += len(chunk)
        if sent > limits.packed:
            message = f"the answer has more than {readable_size(limits.packed)}, which is more than any channel has"
            raise TooMuchError(message)
        _write_chunk(spool.stream, chunk, gunzip, limits, sent)
        tell(sent, total)
    if gunzip and not gunzip.eof:
        raise RetryError("the connection ended early")
    if total is not None and sent < total:
        raise RetryError(f"the connection ended after {readable_size(sent)} of {readable_size(total)}")


def _start(answer: requests.Response, spool: _Spool) -> int:
    """The byte that an answer begins with."""
    if answer.status_code != 206:
        return 0
    have = spool.size()
    if answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
        return have
    spool.clear()
    raise RetryError("the server sends another part than requested", 0)


def _write_chunk(stream: IO[bytes], chunk: bytes, gunzip: Any, limits: Limits, sent: int) -> None:
    if gunzip is None:
        stream.write(chunk)
        return
    try:
        while chunk:
            stream.write(gunzip.decompress(chunk, _CHUNK))
            check(stream.tell(), limits, sent=sent)
            chunk = gunzip.unconsumed_tail
    except zlib.error as error:
        raise FailedError("the server sends a body that cannot be unpacked") from error


def _chunks(answer: requests.Response, patience: float) -> Iterator[bytes]:
    """The body as it comes; a server that sends hardly anything for a while counts as silent."""
    read = getattr(answer.raw, "read1", answer.raw.read)  # urllib3 before 2.1 has none
    since, came = time.monotonic(), 0
    while chunk := read(_CHUNK if read == getattr(answer.raw, "read1", None) else 1024):
        yield chunk
        came += len(chunk)
        now = time.monotonic()
        if now - since > patience:
            if came < _LEAST * patience:
                raise RetryError(f"timed out: {came} bytes in {now - since:.0f} seconds")
            since, came = now, 0


def _validator(answer: requests.Response) -> str:
    """What names this very answer, to go on with it; a weak mark does not."""
    mark: str = answer.headers.get("ETag", "")
    return mark if mark.startswith('"') else answer.headers.get("Last-Modified", "") if not mark else ""


def _kept_headers(answer: requests.Response) -> dict[str, str]:
    return {name: answer.headers[name] for name in KEPT if name in answer.headers}


@contextmanager
def _translated() -> Iterator[None]:
    """What may work in a moment as `RetryError`, everything else of the libraries as `FailedError`."""
    import requests  # noqa: PLC0415 - only to download
    import urllib3  # noqa: PLC0415 - as above

    lasting = (
        requests.exceptions.SSLError,
        requests.exceptions.TooManyRedirects,
        requests.exceptions.InvalidURL,
        requests.exceptions.InvalidSchema,
        requests.exceptions.MissingSchema,
    )
    try:
        yield
    except lasting as error:
        raise FailedError(error_text(error)) from error
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError) as error:
        raise RetryError(error_text(error)) from error
