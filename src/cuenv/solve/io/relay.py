"""What rattler reads of channels on the network, fetched and judged here first.

rattler unpacks what a server sends without a bound, gives one request so many seconds in all, starts from zero and says
nothing meanwhile. So its client is led to a server of this process: it answers with what `repodata_download` fetched
within bounds. Every other address is a proxy to rattler's client, and that proxy, the same server, refuses.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, LifoQueue
from threading import BoundedSemaphore, Lock, Thread
from urllib.parse import urlsplit

from rattler.networking import Client
from rattler.networking.middleware import MirrorMiddleware

from cuenv.core.errors import CuenvError
from cuenv.core.io.process import tell
from cuenv.core.record import replace
from cuenv.core.urls import origin, printable, redact, short_channel, strip_credentials
from cuenv.solve.io.cache import unwritable
from cuenv.solve.io.connection import ENVIRONMENT, Connection
from cuenv.solve.io.repodata_download import ASKED, FailedError, Fetched, fetch, status
from cuenv.solve.io.sources import Sources, place_of
from cuenv.solve.io.unpacking import ALL, TooMuchError, readable_size

_KEY = b"shards_base_url"
_LONGEST = 2000  # characters of an address; a longer one is left as it is, and the relay refuses it


def through_relay(found: Fetched, url: str, elsewhere: Callable[[str], str]) -> Fetched:
    """The same index, its shards below the index itself where it puts them on another host.

    Args:
        found: the answer.
        url: canonical, of the index.
        elsewhere: the relative address for a base on another host.
    """
    import zstandard  # noqa: PLC0415 - only for channels with shards

    packed = found.body.read()
    found.body.seek(0)
    try:
        with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
            data = reader.read()
    except zstandard.ZstdError:
        return found  # whoever reads it says so
    made, here = bytearray(), 0
    home = urlsplit(url)
    while (at := data.find(_KEY, here)) >= 0:
        at += len(_KEY)
        made += data[here:at]
        begin, end = _text(data, at)
        base = data[begin:end].decode(errors="replace")
        there = urlsplit(base) if "//" in base else home
        if len(base) <= _LONGEST and (there.scheme or home.scheme, there.netloc) != (home.scheme, home.netloc):
            whole = base if there.scheme else f"{home.scheme}:{base}"
            made += _packed(elsewhere(whole if whole.endswith("/") else f"{whole}/").encode())
        else:
            made += data[at:end]
        here = max(end, at)
    if bytes(made) + data[here:] == data:
        return found
    body = zstandard.ZstdCompressor(level=1).compress(bytes(made) + data[here:])
    return replace(found, body=io.BytesIO(body), size=len(body))


def _text(data: bytes, at: int) -> tuple[int, int]:
    """Where the MessagePack string that begins at a byte has its text; nowhere for anything else."""
    mark = data[at] if at < len(data) else 0
    if 0xA0 <= mark <= 0xBF:
        return at + 1, min(at + 1 + mark - 0xA0, len(data))
    width = {0xD9: 1, 0xDA: 2, 0xDB: 4}.get(mark)
    if width is None:
        return at, at
    begin = at + 1 + width
    return begin, min(begin + int.from_bytes(data[at + 1 : begin], "big"), len(data))


def _packed(text: bytes) -> bytes:
    return b"\xda" + len(text).to_bytes(2, "big") + text


_EVERY = 0.2  # seconds between two lines


class Counter:
    """The bytes of all downloads, as one line of progress."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parts: dict[object, tuple[int, int | None]] = {}
        self._began = time.monotonic()
        self._said = 0.0

    def of(self, name: str) -> Callable[[int, int | None], None]:
        """What one download tells how far it is."""
        key = object()

        def told(have: int, total: int | None) -> None:
            now = time.monotonic()
            with self._lock:
                if not self._parts:
                    self._began = now
                self._parts[key] = (have, total)
                if now - self._said < _EVERY:
                    return
                self._said = now
                line = self._line(name, now - self._began)
            tell(line)

        return told

    def _line(self, name: str, seconds: float) -> str:
        have = sum(part for part, _ in self._parts.values())
        totals = [total for _, total in self._parts.values()]
        whole = None if None in totals else sum(total for total in totals if total is not None)
        of = f" of {readable_size(whole)}" if whole else ""
        rate = f", {readable_size(have / seconds)}/s" if seconds > 1 else ""
        return f"downloading records of {name}: {readable_size(have)}{of}{rate}"


_AT_ONCE = 16  # connections to servers at the same time
_NEVER = 7 * 24 * 3600  # seconds that rattler waits for the relay, which itself knows when to give up
_POLL = 0.05
ELSEWHERE = ".cuenv-elsewhere"
"""A folder that no channel has: what stands behind it is the address of a host that an index of shards names."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


class RelayFault(Exception):  # noqa: N818 - it is what happened, kept until the main thread asks
    """Why something could not be fetched.

    Args:
        text: what happened; empty when ``error`` says it all.
        error: what the user is to see, when it is not about the channel.
    """

    def __init__(self, url: str, text: str = "", error: CuenvError | None = None) -> None:
        super().__init__(text)
        self.url = url
        self.text = text
        self.error = error


class Relay:
    """The server, for one `Sources`."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._word = secrets.token_urlsafe(24)  # other users of this machine can reach the port, and do not know it
        self._origins: list[str] = []
        self._faults: list[RelayFault] = []
        self._sizes: dict[str, int] = {}
        self._idle: LifoQueue[Connection] = LifoQueue()
        self._gate = BoundedSemaphore(_AT_ONCE)
        self._counter = Counter()
        self._lock = Lock()
        handler = type("Handler", (_Handler,), {"relay": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        Thread(target=self._server.serve_forever, args=(_POLL,), name="cuenv-relay", daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def client(self, channels: tuple[str, ...]) -> Client:
        """A client that reads these channels, by their canonical URLs, through the relay and reaches nothing else."""
        for channel in channels:
            if origin(channel) not in self._origins:
                self._origins.append(origin(channel))
        mirrors = {f"{name}/": [f"{self._base(number)}/"] for number, name in enumerate(self._origins)}
        with ENVIRONMENT, _with_proxy(self.url):
            return Client([MirrorMiddleware(mirrors)], user_agent="cuenv", timeout=_NEVER)

    def _base(self, number: int) -> str:
        return f"{self.url}/{self._word}/{number}"

    def begin(self) -> None:
        """Forget what went wrong before."""
        with self._lock:
            self._faults.clear()

    def fault(self) -> RelayFault | None:
        """The first thing that went wrong since `begin`."""
        with self._lock:
            return self._faults[0] if self._faults else None

    def translate(self, text: str) -> str:
        """Words of rattler with the addresses that people know."""
        for number, name in enumerate(self._origins):
            text = text.replace(self._base(number), name)
        return text

    def get(self, path: str, headers: Mapping[str, str], *, body: bool) -> Fetched:
        """Answer a request of rattler.

        Raises:
            Fault: it cannot be had.
        """
        url = self._canonical(path)
        self._fail_again(url)
        try:
            return self._fetched(url, headers, body=body)
        except RelayFault as fault:
            with self._lock:
                self._faults.append(fault)
            raise

    def refuse(self, address: str) -> None:
        """Note that rattler was led to an address that is not of a channel."""
        with self._lock:
            self._faults.append(
                RelayFault(
                    "", f"the answer leads to {printable(address)[:100]}, which is not an address of the channel"
                )
            )

    def _canonical(self, path: str) -> str:
        word, _, rest = path.removeprefix("/").partition("/")
        number, _, rest = rest.partition("/")
        if not secrets.compare_digest(word.encode(), self._word.encode()):
            raise RelayFault("", "somebody else asks")
        return f"{self._origins[int(number)]}/{rest}"

    def _fail_again(self, url: str) -> None:
        """A server that does not answer is not asked for more."""
        there = origin(self.sources.target(url))
        with self._lock:
            for fault in self._faults:
                if fault.error or origin(self.sources.target(fault.url)) == there:
                    raise RelayFault(url, fault.text, fault.error)

    def _fetched(self, url: str, headers: Mapping[str, str], *, body: bool) -> Fetched:
        place = place_of(url, self.sources)
        before, mark, packed = url.partition(f"/{ELSEWHERE}/")
        if mark:
            address, _, name = packed.partition("/")
            url = f"{before}/{name}"
            place = place_of(urlsafe_b64decode(address).decode() + name, self.sources)
        if place.path is not None:
            raise RelayFault(url, "the answer leads to a folder of this machine")
        with self._connection() as connection:
            try:
                if not body:
                    return Fetched(status(place, connection), "")
                count = self._counter.of(short_name(url))
                found = fetch(place, headers, connection, self.sources.repodata_folder(), count)
            except (FailedError, TooMuchError) as error:
                raise RelayFault(url, str(error)) from error
            except CuenvError as error:
                raise RelayFault(url, error=error) from error
            except OSError as error:
                raise RelayFault(url, error=unwritable(self.sources.cache_folder(), error)) from error
        self._add(url, found.unpacked)
        if found.status == 200 and url.endswith("/repodata_shards.msgpack.zst"):
            found = through_relay(found, url, _elsewhere)
        return found

    def _add(self, url: str, size: int) -> None:
        subdir = url.partition("/shards/")[0] if "/shards/" in url else url.rpartition("/")[0]
        with self._lock:
            self._sizes[subdir] = total = self._sizes.get(subdir, 0) + size
        if total > ALL:
            raise RelayFault(
                url, f"the answers have more than {readable_size(ALL)}, which is more than any channel has"
            )

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with self._gate:
            try:
                connection = self._idle.get_nowait()
            except Empty:
                connection = Connection(self.sources, {}, shared=True)
            try:
                yield connection
            finally:
                self._idle.put(connection)


def short_name(url: str) -> str:
    """A file of a channel for people: ``conda-forge linux-64``."""
    folder = url.partition("/shards/")[0] if "/shards/" in url else url.rpartition("/")[0]
    channel, _, subdir = folder.rpartition("/")
    return f"{short_channel(channel)} {subdir}"


def _elsewhere(base: str) -> str:
    """A base of shards on another host as a folder beside the index."""
    return f"./{ELSEWHERE}/{urlsafe_b64encode(base.encode()).decode()}/"


@contextmanager
def _with_proxy(url: str) -> Iterator[None]:
    """Let a client that is made now take an address for its proxy, whatever it asks for."""
    names = (*_PROXIES, *(name.upper() for name in _PROXIES), "no_proxy", "NO_PROXY")
    before = {name: os.environ[name] for name in names if name in os.environ}
    try:
        for name in names:
            os.environ[name] = "" if name.lower() == "no_proxy" else url
        yield
    finally:
        for name in names:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    """Answers rattler, and nobody else."""

    protocol_version = "HTTP/1.1"
    relay: Relay

    def do_GET(self) -> None:
        """Answer with a file."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer whether there is a file."""
        self._answer(body=False)

    def do_CONNECT(self) -> None:
        """Refuse to lead elsewhere."""
        self.relay.refuse(self.path.removesuffix(":443"))
        self._say(Fetched(403, "Forbidden"), body=True)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle(self) -> None:
        """Let rattler go away whenever it likes."""
        try:
            super().handle()
        except OSError:
            self.close_connection = True

    def _answer(self, *, body: bool) -> None:
        path = self.path.removeprefix(self.relay.url)
        if "://" in path:
            self.relay.refuse(strip_credentials(redact(path)))
            found = Fetched(403, "Forbidden")
        else:
            try:
                found = self.relay.get(
                    path, {name: self.headers[name] for name in ASKED if name in self.headers}, body=body
                )
            except RelayFault:
                found = Fetched(502, "Bad Gateway")
        with found.body:
            self._say(found, body=body)

    def _say(self, found: Fetched, *, body: bool) -> None:
        self.send_response_only(found.status, "".join(mark for mark in found.reason if mark.isprintable()) or None)
        for name, value in found.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(found.size))
        self.end_headers()
        if body:
            shutil.copyfileobj(found.body, self.wfile, 1 << 18)
