"""Where channel data is read from: mirrors, proxies, certificates. The lock keeps canonical URLs whatever stands here.

A mirror replaces the beginning of a canonical channel URL; the longest one that ends at a slash wins. It comes from
``--mirror FROM=TO`` or from ``.condarc`` (``channel_alias``, ``custom_channels``), or is implied by a channel that
was given with credentials.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

from cuenv.core.errors import InputError, UsageError
from cuenv.core.io.files import at_home, is_file
from cuenv.core.urls import CANONICAL, channel_url, printable, strip_credentials
from cuenv.solve.model import digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place to read a file.

    Attributes:
        url: with credentials, never shown; empty for a path.
        path: of a file on this machine; ``None`` for the network.
        shown: for people.
    """

    url: str = field(repr=False)
    path: Path | None
    shown: str


def place_of(url: str, sources: Sources) -> Place:
    """Where a canonical URL is read, by the mirrors of the sources."""
    target = sources.target(url)
    if target.startswith("file://"):
        target = unquote(target.removeprefix("file://").removeprefix("localhost"))
    if "://" not in target:
        plain, decoded = Path(target), Path(unquote(target))
        return Place(url="", path=plain if is_file(plain) else decoded, shown=printable(target))
    return Place(url=target, path=None, shown=printable(strip_credentials(target)))


DEFAULTS = ("https://repo.anaconda.com/pkgs/main", "https://repo.anaconda.com/pkgs/r")
"""What the channel name ``defaults`` means. Source: conda documentation, settings, default_channels."""

HOST = CANONICAL.rstrip("/")
"""The host that ``channel_alias`` replaces."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_.+-]+)*")
_HINT = "write --mirror conda-forge=https://mirror.example.com/conda-forge or --mirror conda-forge=/srv/conda-forge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A replacement for the beginning of channel URLs.

    Attributes:
        origin: canonical URL, without credentials and without a slash at the end.
        target: ``http(s)://`` URL, credentials included (never shown), or the absolute path of a folder.
    """

    origin: str
    target: str = field(repr=False)

    @property
    def local(self) -> bool:
        """Whether the target is a folder."""
        return "://" not in self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """How to reach channels.

    Attributes:
        default_channels: what the name ``defaults`` stands for.
        proxies: pairs of scheme (``http``, ``https``) and proxy URL.
        verify: check TLS certificates; ``False`` only when somebody asked for it.
        certificates: file with the authorities to trust; ``None`` for the system's.
        offline: use only what the cache holds, whatever its age.
        cache: folder of the repodata cache; empty for the user's cache folder.
        timeout: seconds of silence after which a server is given up.
        retries: how often a request that failed for the moment is made again.
    """

    mirrors: tuple[Mirror, ...] = ()
    default_channels: tuple[str, ...] = DEFAULTS
    proxies: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    verify: bool = True
    certificates: str | None = None
    offline: bool = False
    cache: str = ""
    timeout: int = 60
    retries: int = 2

    def urls(self, channels: Iterable[str]) -> tuple[str, ...]:
        """The canonical URLs of channels, each once, in order; ``defaults`` becomes what it stands for."""
        found: list[str] = []
        for name in channels:
            names = self.default_channels if name == "defaults" else (name,)
            found.extend(strip_credentials(channel_url(item)).rstrip("/") for item in names)
        return tuple(dict.fromkeys(found))

    def target(self, url: str) -> str:
        """Where a canonical URL is really read from: itself, a mirror's URL or a path."""
        fits = [mirror for mirror in self.mirrors if _covers(mirror.origin, url)]
        best = max(fits, key=lambda mirror: len(mirror.origin), default=None)
        if best is None:
            return url
        base, mark, query = best.target.partition("?") if "://" in best.target else (best.target, "", "")
        return f"{base}{url[len(best.origin) :]}{mark}{query}"  # a signature stands behind the whole path

    def folder(self, url: str) -> Path | None:
        """The folder that a channel is read from, or ``None`` when it is on the network."""
        target = self.target(url)
        return Path(target) if "://" not in target else None

    def reaching(self, channels: Sequence[str]) -> Sources:
        """The same, with a mirror for every channel whose URL was given with credentials."""
        given = [name for name in (*channels, *self.default_channels) if strip_credentials(name) != name]
        implied = [Mirror(origin=strip_credentials(name).rstrip("/"), target=name.rstrip("/")) for name in given]
        known = {mirror.origin for mirror in self.mirrors}
        fresh = [mirror for mirror in implied if mirror.origin not in known]
        return replace(self, mirrors=(*self.mirrors, *fresh)) if fresh else self

    def repodata_folder(self) -> Path:
        """The repodata cache of this mapping: its entries are keyed by canonical URL, so mappings must not share."""
        mapping = [part for mirror in self.mirrors for part in (mirror.origin, mirror.target)]
        return self.cache_folder() / "repodata" / (digest(*mapping)[:16] if mapping else "canonical")

    def package_folder(self) -> Path:
        """The cache of unpacked packages."""
        return self.cache_folder() / "pkgs"

    def archive_folder(self) -> Path:
        """The store of downloaded archives and wheels, each in a folder of its hash."""
        return self.cache_folder() / "archives"

    def cache_folder(self, *, default: bool = False) -> Path:
        """The folder of the cache; ``default``: where it is when nobody says anything."""
        user = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        named = "" if default else self.cache or os.environ.get("CUENV_CACHE_DIR")
        found = at_home(named or f"{user}/cuenv")
        if found.parts[:1] == ("~",):
            raise no_home()
        return found


def no_home() -> InputError:
    """The error for a machine on which nobody knows a home: the cache lies there, and rattler's store of logins."""
    return InputError(f"HOME is not set, and user {os.getuid()} of this machine has no home", hint="export HOME=/tmp")


def parse_mirror(text: str) -> Mirror:
    """Read ``FROM=TO``: a channel name or URL (or only the host), and an http(s) URL, a file URL or a folder.

    Raises:
        UsageError: the text has another form.
    """
    shown = printable(strip_credentials(text))
    origin, mark, target = (part.strip() for part in text.partition("="))
    if not (origin and mark and target):
        raise UsageError(f"--mirror: {shown!r} is not FROM=TO", hint=_HINT)
    try:
        return Mirror(origin=_origin(origin), target=place(target))
    except ValueError as error:
        raise UsageError(f"--mirror: {error}", hint=_HINT) from error


def parse_mirrors(texts: Iterable[str]) -> tuple[Mirror, ...]:
    """Read several ``FROM=TO``.

    Raises:
        UsageError: a text has another form, or two replace the same channel.
    """
    mirrors = tuple(parse_mirror(text) for text in texts)
    seen: set[str] = set()
    for mirror in mirrors:
        if mirror.origin in seen:
            raise UsageError(f"--mirror: {mirror.origin} is replaced twice", hint="give one mirror for each channel")
        seen.add(mirror.origin)
    return mirrors


def _origin(text: str) -> str:
    if text.startswith(("http://", "https://")):
        return strip_credentials(text).rstrip("/")
    if text == "defaults":
        raise UsageError(f"--mirror: 'defaults' stands for several channels: {', '.join(DEFAULTS)}", hint=_HINT)
    if not _NAME.fullmatch(text):
        raise UsageError(f"--mirror: {printable(strip_credentials(text))!r} is no channel name or URL", hint=_HINT)
    return channel_url(text)


def place(text: str) -> str:
    """A place as `Mirror.target` wants it: an http(s) URL, or the absolute path that a file URL or a path means.

    Raises:
        ValueError: it is a URL of another kind, or one without a host.
    """
    scheme, mark, rest = text.partition("://")
    if not mark:
        return str(at_home(text).absolute())
    if scheme in {"http", "https"} and rest.strip("/"):
        return text.rstrip("/")
    path = rest.removeprefix("localhost")
    if scheme == "file" and path.startswith("/"):
        from urllib.parse import unquote  # noqa: PLC0415 - only file URLs need it

        return unquote(path).rstrip("/") or "/"
    raise ValueError(f"cannot read channels from {printable(strip_credentials(text))!r}")


def _covers(origin: str, url: str) -> bool:
    return url == origin or url.startswith(origin + "/")
