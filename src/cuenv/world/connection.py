"""Files over HTTP, from where they broke off: the only place that downloads with requests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from threading import local
from typing import TYPE_CHECKING, Any

from cuenv.errors import ChannelError, InputError
from cuenv.urls import credentials, host, origin, printable, redact
from cuenv.world.places import Place
from cuenv.world.sources import Sources

if TYPE_CHECKING:
    import requests

_CONNECT, _READ = 20, 60
_CHUNK = 1 << 16
_LIMIT = 1 << 36
"""Bytes that no package has: a server that never ends is stopped."""
_RANGE = re.compile(r"bytes (\d+)-")
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class Again(Exception):  # noqa: N818 - a wish, not an error yet
    """What failed may work in a moment.

    Args:
        text: what happened.
        wait: seconds that the server asks to wait; ``None`` when it does not say.
    """

    def __init__(self, text: str, wait: float | None = None) -> None:
        super().__init__(text)
        self.wait = wait


class Connection:
    """Sessions for some sources, one for each thread."""

    def __init__(self, sources: Sources, logins: Mapping[str, tuple[str, str]]) -> None:
        self.sources = sources
        self.logins = logins
        self._local = local()

    @contextmanager
    def open(self, place: Place, have: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Ask for a file from a byte on; where the answer really begins, and its bytes.

        Args:
            place: on the network.
            have: bytes that are here already.

        Raises:
            Again: it may work in a moment.
            ChannelError: it will not.
            InputError: credentials would go over a connection that is not checked.
        """
        import requests  # noqa: PLC0415 - only to download

        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
        login = self.logins.get(origin(place.url)) or requests.utils.get_netrc_auth(place.url)
        if not self.sources.verify and (login or credentials(place.url)):
            raise InputError(
                f"{host(place.url)} wants a login, but certificates are not checked (ssl_verify: false)",
                hint="name your company's authorities instead: ssl_verify: /path/to/ca.pem",
            )
        try:
            with self._get(place, headers=headers, auth=None if credentials(place.url) else login) as answer:
                yield _start(answer, place, have), _bytes(answer)
        except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema) as error:
            raise ChannelError(
                f"{place.shown}: cannot be asked for: {_words(error)}",
                hint="try again, or read the channel elsewhere: --mirror",
            ) from error
        except requests.exceptions.SSLError as error:
            hint = "name your company's authorities: SSL_CERT_FILE=/path/to/ca.pem"
            raise ChannelError(f"{place.shown}: {_words(error)}", hint=hint) from error
        except requests.exceptions.RequestException as error:
            raise Again(_words(error)) from error

    def status(self, place: Place) -> int:
        """What a server answers to one who has nothing of a file yet; 0 when it does not answer."""
        import requests  # noqa: PLC0415 - as above

        try:
            with self._get(place) as answer:
                return answer.status_code
        except requests.exceptions.RequestException:
            return 0

    def _get(self, place: Place, **more: Any) -> requests.Response:
        session = self._session()
        # said here again, since requests takes its variables before what a session says
        return session.get(place.url, stream=True, timeout=(_CONNECT, _READ), verify=session.verify, **more)

    def _session(self) -> requests.Session:
        found: requests.Session | None = getattr(self._local, "session", None)
        if found is None:
            import requests  # noqa: PLC0415 - as above

            found = self._local.session = requests.Session()
            found.headers["User-Agent"] = "cuenv"
            found.proxies.update(dict(self.sources.proxies))
            # requests reads REQUESTS_CA_BUNDLE where this is True
            named = os.environ.get("SSL_CERT_FILE") or self.sources.certificates
            found.verify = named if named and self.sources.verify else self.sources.verify
            if not found.verify:
                import urllib3  # noqa: PLC0415 - as above

                urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return found


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
    if status in _PASSING:
        raise Again(f"the server answers {status} {_reason(answer)}".rstrip(), _retry_after(answer))
    if status in (401, 403, 407):
        raise ChannelError(
            f"{place.shown}: the server answers {status}: it wants a login, or refuses it",
            hint="a line in ~/.netrc, or --mirror CHANNEL=https://USER:PASSWORD@HOST/CHANNEL",
        )
    hint = "read it elsewhere: --mirror" if status in (404, 410) else None
    raise ChannelError(f"{place.shown}: the server answers {status} {_reason(answer)}".rstrip(), hint=hint)


def _bytes(answer: requests.Response) -> Iterator[bytes]:
    if answer.status_code == 416:
        return
    total = 0
    for chunk in answer.iter_content(_CHUNK):
        total += len(chunk)
        if total > _LIMIT:
            raise Again("the server sends without end")
        yield chunk


def _reason(answer: requests.Response) -> str:
    return printable(answer.reason or "")[:80]


def _retry_after(answer: requests.Response) -> float | None:
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


def _words(error: Exception) -> str:
    """The innermost cause in a few words, without credentials."""
    inner: BaseException = error
    for _ in range(10):
        inner = inner.__cause__ or inner.__context__ or inner
    return printable(redact(f"{type(error).__name__}: {inner}"))[:300]
