"""Files over HTTP, from where they broke off: the only place that downloads with requests."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from threading import Lock, local
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from rattler import Client
from rattler.config import Config
from rattler.networking.middleware import (
    AddHeadersMiddleware,
    AuthenticationMiddleware,
    MirrorMiddleware,
    RetryMiddleware,
)

from cuenv.core.errors import ChannelError, InputError
from cuenv.core.io.files import expand_home
from cuenv.core.regex import regex
from cuenv.core.urls import credentials, host, origin, printable, redact
from cuenv.solve.io.sources import Place, Sources, no_home

if TYPE_CHECKING:
    import requests
T = TypeVar("T")

_CONNECT = 20
_CHUNK = 1 << 16
_LIMIT = 1 << 36  # bytes that no package has: a server that never ends is stopped
_RANGE = regex(r"bytes (\d+)-")
ENVIRONMENT = Lock()  # held while the proxies of this process are read, or set for a moment
PAUSE = 0.25  # seconds before the second attempt; it doubles with each that fails
_PROGRESS_BYTES = 1 << 18  # bytes that make an attempt that broke off count as none
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class RetryError(Exception):
    """What failed may work in a moment.

    Args:
        text: what happened.
        wait: seconds that the server asks to wait; ``None`` when it does not say.
    """

    def __init__(self, text: str, wait: float | None = None) -> None:
        super().__init__(text)
        self.wait = wait


def with_retries(
    attempt: Callable[[], T],
    have: Callable[[], int],
    pause: Callable[[float, RetryError], None],
    *,
    most: int,
    longest: float,
) -> T:
    """Try until it works: what broke off goes on, and a server without progress is given up.

    urllib3's `Retry` repeats a request before its answer is read; here the body breaks off as well, and the next
    attempt asks for the rest. An attempt that brought bytes does not count.

    Raises:
        RetryError: the last failure.
    """
    failed = 0
    while True:
        before = have()
        try:
            return attempt()
        except RetryError as error:
            failed = 0 if have() - before >= _PROGRESS_BYTES else failed + 1
            if failed > most:
                raise
            pause(min(error.wait if error.wait is not None else PAUSE * 2**failed, longest), error)


class Connection:
    """Sessions for some sources, one for each thread; one in all where the threads take turns."""

    def __init__(self, sources: Sources, logins: Mapping[str, tuple[str, str]], *, shared: bool = False) -> None:
        self.sources = sources
        self.logins = logins
        self._local = SimpleNamespace() if shared else local()

    def close(self) -> None:
        """Close the session of this thread."""
        session: requests.Session | None = getattr(self._local, "session", None)
        if session:
            session.close()

    @contextmanager
    def open(self, place: Place, have: int) -> Iterator[tuple[int, Iterator[bytes], int | None]]:
        """Ask for a file from a byte on; where the answer really begins, its bytes, and the size of the whole.

        Raises:
            RetryError: it may work in a moment.
            ChannelError: it will not.
            InputError: credentials would go over a connection that is not checked.
        """
        import requests  # noqa: PLC0415 - only to download

        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
        try:
            with self.send(place, headers) as answer:
                yield _start(answer, place, have), _bytes(answer), _whole(answer)
        except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema) as error:
            message = f"{place.shown}: cannot be asked for: {error_text(error)}"
            raise ChannelError(message, hint="try again, or read the channel elsewhere: --mirror") from error
        except requests.exceptions.SSLError as error:
            hint = "set your company's certificate authorities: SSL_CERT_FILE=/path/to/ca.pem"
            raise ChannelError(f"{place.shown}: {error_text(error)}", hint=hint) from error
        except requests.exceptions.RequestException as error:
            raise RetryError(error_text(error)) from error

    def send(self, place: Place, headers: Mapping[str, str], *, method: str = "GET") -> requests.Response:
        """Ask for a file, with the login that its host gets. Whatever requests raises passes.

        Raises:
            InputError: credentials would go over a connection that is not checked.
        """
        import requests  # noqa: PLC0415 - only to download

        login = self.logins.get(origin(place.url)) or requests.utils.get_netrc_auth(place.url)
        if not self.sources.verify and (login or credentials(place.url)):
            message = f"{host(place.url)} requires a login, but certificates are not checked (ssl_verify: false)"
            hint = "set your company's certificate authorities instead: ssl_verify: /path/to/ca.pem"
            raise InputError(message, hint=hint)
        return self._send(method, place, headers=dict(headers), auth=None if credentials(place.url) else login)

    def _send(self, method: str, place: Place, **more: Any) -> requests.Response:
        import requests  # noqa: PLC0415 - only to download

        session = self._session()
        with ENVIRONMENT:
            proxies = {**dict(self.sources.proxies), **requests.utils.get_environ_proxies(place.url)}
        waits = (min(_CONNECT, self.sources.timeout), self.sources.timeout)
        return session.request(method, place.url, stream=True, timeout=waits, proxies=proxies, **more)

    def _session(self) -> requests.Session:
        found: requests.Session | None = getattr(self._local, "session", None)
        if found is None:
            import requests  # noqa: PLC0415 - as above

            found = self._local.session = requests.Session()
            found.headers["User-Agent"] = "cuenv"
            # What the environment says is asked for by name: requests would send the login of .netrc along a redirect.
            found.trust_env = False
            named = os.environ.get("SSL_CERT_FILE") or self.sources.certificates or requests_authorities(os.environ)
            if named and self.sources.verify and not os.path.exists(named):  # noqa: PTH110 - never an error
                message = f"{printable(named)}, which should contain the certificate authorities, does not exist"
                hint = "env | grep -E 'SSL_CERT_FILE|CA_BUNDLE|SSL_VERIFY'; grep -H ssl_verify ~/.condarc"
                raise InputError(message, hint=hint)
            found.verify = named if named and self.sources.verify else self.sources.verify
            if found.verify is True:
                found.mount("https://", _with_system_authorities())
            if not found.verify:
                import urllib3  # noqa: PLC0415 - as above

                urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return found


def _with_system_authorities() -> requests.adapters.BaseAdapter:
    """An adapter that trusts the authorities of this machine beside those that come with requests.

    A company puts its own into the system's store; rattler, conda with ``ssl_verify: truststore`` and curl read it.
    """
    import ssl  # noqa: PLC0415 - only to download

    from requests.adapters import HTTPAdapter  # noqa: PLC0415 - as above

    context = ssl.create_default_context()

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **more: Any) -> None:
            super().init_poolmanager(*args, **more, ssl_context=context)

        def proxy_manager_for(self, *args: Any, **more: Any) -> Any:
            return super().proxy_manager_for(*args, **more, ssl_context=context)

    return Adapter()


def _start(answer: requests.Response, place: Place, have: int) -> int:
    """The byte that an answer begins with; anything but a file is an error."""
    status = answer.status_code
    if status == 200:
        return 0
    found = _RANGE.match(answer.headers.get("Content-Range", ""))
    if status == 206 and have and found and int(found[1]) <= have:
        return int(found[1])
    if status == 416 and have:
        answer.close()
        return have  # there is nothing more; the hash says whether that is right
    if status in PASSING:
        raise RetryError(f"the server answers {status} {_reason(answer)}".rstrip(), retry_after(answer))
    if status in (401, 403, 407):
        message = f"{place.shown}: the server answers {status}: it requires a login, or refuses the one given"
        raise ChannelError(message, hint="a line in ~/.netrc, or --mirror CHANNEL=https://USER:PASSWORD@HOST/CHANNEL")
    hint = "read it elsewhere: --mirror" if status in (404, 410) else None
    raise ChannelError(f"{place.shown}: the server answers {status} {_reason(answer)}".rstrip(), hint=hint)


def _whole(answer: requests.Response) -> int | None:
    """The bytes of the whole file, where the server says them."""
    told = {200: answer.headers.get("Content-Length", ""), 206: answer.headers.get("Content-Range", "")}
    text = "" if answer.headers.get("Content-Encoding") else told.get(answer.status_code, "").rpartition("/")[2]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _bytes(answer: requests.Response) -> Iterator[bytes]:
    if answer.status_code == 416:
        return
    total = 0
    for chunk in answer.iter_content(_CHUNK):
        total += len(chunk)
        if total > _LIMIT:
            raise RetryError("the server does not stop sending")
        yield chunk


def _reason(answer: requests.Response) -> str:
    return printable(answer.reason or "")[:80]


def retry_after(answer: requests.Response) -> float | None:
    """Seconds, from a number or a date."""
    text = answer.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    aware = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
    return max((aware - datetime.now(timezone.utc)).total_seconds(), 0.0)


def error_text(error: BaseException) -> str:
    """What happened, in words of people and without credentials: the innermost cause that has a name here."""
    chain: list[BaseException] = [error]
    while len(chain) < 12 and (inner := _cause(chain[-1])) is not None:
        chain.append(inner)
    for one in reversed(chain):
        said = _cause_text(one)
        if said:
            return printable(redact(said))[:300]
    return printable(redact(str(chain[-1]) or "it failed without a reason"))[:300]


def _cause(error: BaseException) -> BaseException | None:
    """The cause of an error; urllib3 keeps one as ``reason``, requests one as its argument."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException):
        return reason
    inside = next((item for item in error.args if isinstance(item, BaseException)), None)
    return inside or error.__cause__ or error.__context__


_SAID = {
    "IncompleteRead": "the connection ended early",
    "RemoteDisconnected": "the server closed the connection without an answer",
    "ConnectionResetError": "the server ended the connection",
    "TooManyRedirects": "too many redirects",
    "InvalidSchema": "a redirect leads to an address other than http or https",
    "MissingSchema": "a redirect leads to an address other than http or https",
    "InvalidURL": "it is not a valid address",
    "LocationParseError": "it is not a valid address",
    "InvalidChunkLength": "the server sends an incorrectly chunked body",
    "BadStatusLine": "the server does not speak HTTP",
    "DecodeError": "the server sends a body that cannot be unpacked",
}
"""Errors of the libraries for HTTP by name, so that none of those has to be imported for it."""


def _cause_text(error: BaseException) -> str:
    kind = type(error).__name__
    if kind == "gaierror":
        return f"dns error: {getattr(error, 'strerror', None) or 'the host name is unknown'}"
    if isinstance(error, TimeoutError) or "Timeout" in kind:
        return "timed out: the server did not answer in time"
    if kind == "SSLCertVerificationError":
        return f"certificate verify failed: {getattr(error, 'verify_message', '') or 'it is not trusted'}"
    if kind in _SAID:
        return _SAID[kind]
    if isinstance(error, OSError) and error.strerror:
        return f"connection failed: {error.strerror}"
    return ""


def requests_authorities(environ: Mapping[str, str]) -> str | None:
    """The file or folder that requests, and so conda and pip, take from the user's variables."""
    return environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE") or None


def authorities(environ: Mapping[str, str], *places: str | None) -> dict[str, str]:
    """The variable that rustls and OpenSSL read, for those who named their authorities in another way.

    Args:
        environ: the user's variables; SSL_CERT_FILE wins, and nothing is to be set then.
        places: files or folders that were named elsewhere, best first.
    """
    path = None if environ.get("SSL_CERT_FILE") else next(filter(None, places), None)
    if path is None:
        return {}
    whole = os.path.expanduser(path)  # noqa: PTH111 - it stays the text that somebody wrote
    return {"SSL_CERT_DIR" if os.path.isdir(whole) else "SSL_CERT_FILE": whole}  # noqa: PTH112 - as above


_AGENT = "cuenv"


def make_client(sources: Sources) -> Client:
    """A client for these sources.

    The mirror middleware drops ``user:password@`` of a mirror's URL (rattler 0.28), so a header brings it, to that
    host alone. Proxies and certificates reach rattler through the environment of this process.

    Raises:
        InputError: a mirror with credentials and no check of certificates: the password would go to anybody.
    """
    mirrors = {f"{mirror.origin}/": [f"{mirror.target}/"] for mirror in sources.mirrors if not mirror.local}
    headers = _headers(sources)
    _set_environment(sources)
    if not sources.verify:
        if headers:
            message = "a mirror has credentials, but certificates are not checked (ssl_verify: false)"
            hint = "set your company's certificate authorities instead: ssl_verify: /path/to/ca.pem"
            raise InputError(message, hint=hint)
        text = "tls-no-verify = true\n[mirrors]\n"
        text += "".join(f"{json.dumps(origin)} = [{json.dumps(target[0])}]\n" for origin, target in mirrors.items())
        return Client.from_config(
            Config.from_toml(text), max_retries=sources.retries, user_agent=_AGENT, timeout=sources.timeout
        )
    if not expand_home("~").is_absolute():
        raise no_home()
    parts = [RetryMiddleware(sources.retries), MirrorMiddleware(mirrors), AuthenticationMiddleware()]
    if headers:
        parts.append(AddHeadersMiddleware(lambda name, _: headers.get(name.lower())))
    return Client(parts, user_agent=_AGENT, timeout=sources.timeout)  # type: ignore[arg-type] # a list of one union is invariant


def _headers(sources: Sources) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for mirror in sources.mirrors:
        pair = None if mirror.local else credentials(mirror.target)
        if pair:
            word = b64encode(":".join(pair).encode()).decode()
            found[host(mirror.target)] = {"Authorization": f"Basic {word}"}
    return found


def _set_environment(sources: Sources) -> None:
    """What the environment says already wins, as with conda."""
    for scheme, proxy in sources.proxies:
        name = f"{scheme}_proxy"
        if name not in os.environ and name.upper() not in os.environ:
            os.environ[name] = proxy
    os.environ.update(authorities(os.environ, sources.certificates, requests_authorities(os.environ)))
