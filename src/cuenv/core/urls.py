"""Remove credentials from URLs, and control characters from foreign text.

The URL of a channel can contain credentials in three places: ``user:password@``, ``/t/TOKEN/`` (tokens of anaconda.org)
and the query string (signed links).
"""

from __future__ import annotations

from cuenv.core.regex import regex

# A scheme is short: without a bound, a long run of letters would take quadratic time.
_URL = regex(r"([A-Za-z][A-Za-z0-9+.-]{0,30}://)([^\s'\"<>\x00-\x1f]*)")
_TOKEN = regex(r"/t/[^/]*(?=/|$)")
_FIRST_TOKEN = regex(r"^/t/[^/]{12,}(?=/|$)")
_PORT = regex(r"(?:\[[^\]]*\]|[^:]*)(?::\d*)?")

CANONICAL = "https://conda.anaconda.org/"


def short_channel(url: str) -> str:
    """The short name of a channel on conda.anaconda.org, otherwise its URL."""
    return url.rstrip("/").removeprefix(CANONICAL)


def channel_url(name: str) -> str:
    """The URL of a channel name on conda.anaconda.org; a URL stays unchanged."""
    return name.rstrip("/") if "://" in name else CANONICAL + name.strip("/")


def strip_credentials(url: str) -> str:
    """The URL without user, password, token and query string; other texts stay unchanged.

    The fragment stays, because explicit lock files have the hash in it.
    """
    scheme, mark, rest = url.partition("://")
    if not mark or not any(sign in rest for sign in ("@", "?", "/t/")):
        return url
    body, hash_mark, fragment = rest.partition("#")
    body = body.partition("?")[0]
    authority, slash, path = _split(body)
    return f"{scheme}://{authority}{_without_tokens(slash + path)}{hash_mark}{fragment}"


def index_url(url: str) -> str:
    """The URL of a Python package index, or of a file on one, without user, password, token and query string.

    ``/t/NAME/`` inside a path is a letter of the alphabet there (``/packages/t/torch/``), and a token only in front.
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    authority, slash, path = _split(rest.partition("#")[0].partition("?")[0])
    return f"{scheme}://{authority}{_FIRST_TOKEN.sub('', slash + path)}"


def redact(text: str) -> str:
    """A text without the credentials of the URLs in it."""
    return _URL.sub(lambda found: strip_credentials(found[0]), text)


def credentials(url: str) -> tuple[str, str] | None:
    """The decoded user and password of a URL; ``None`` without a user."""
    from urllib.parse import unquote  # noqa: PLC0415 - only where somebody gave credentials

    authority = url.partition("://")[2].partition("/")[0]
    userinfo, mark, _ = authority.rpartition("@")
    if not mark:
        return None
    user, _, password = userinfo.partition(":")
    return unquote(user), unquote(password)


def host(url: str) -> str:
    """The host of a URL in lower case, without credentials and port; empty without a host."""
    authority = strip_credentials(url).partition("://")[2].partition("/")[0].lower()
    if authority.startswith("["):
        return authority.partition("]")[0].removeprefix("[")
    return authority.partition(":")[0]


def origin(url: str) -> str:
    """Scheme, host and port of a URL in lower case: where a login may be sent to."""
    scheme, _, rest = strip_credentials(url).partition("://")
    return f"{scheme}://{rest.partition('/')[0]}".lower()


def printable(text: str) -> str:
    """Foreign text with escaped control characters; line ends are kept."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() or mark == "\n" else repr(mark)[1:-1] for mark in text)


def one_line(text: str) -> str:
    """Foreign text as one line, so that a name with a line end cannot imitate a line of cuenv."""
    return text if text.isprintable() else printable(text).replace("\n", "\\n")


def blanked(text: str) -> str:
    """Foreign text for a one-line comment, with spaces for unprintable characters."""
    return text if text.isprintable() else "".join(mark if mark.isprintable() else " " for mark in text)


def _split(body: str) -> tuple[str, str, str]:
    """The authority without user, the slash, and the path. A password may contain an unencoded slash."""
    authority, slash, path = body.partition("/")
    if "@" in authority:
        return authority.rpartition("@")[2], slash, path
    if "@" in path and not _PORT.fullmatch(authority):
        authority, slash, path = path.rpartition("@")[2].partition("/")
    return authority, slash, path


def _without_tokens(path: str) -> str:
    while (shorter := _TOKEN.sub("", path)) != path:
        path = shorter
    return path
