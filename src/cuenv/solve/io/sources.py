"""Where channel data is read from: mirrors, proxies, certificates. The lock keeps canonical URLs whatever stands here.

A mirror replaces the beginning of a canonical channel URL; the longest one that ends at a slash wins. It comes from
``--mirror FROM=TO`` or from ``.condarc`` (``channel_alias``, ``custom_channels``), or is implied by a channel that
was given with credentials.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote

from cuenv.core.errors import InputError, UsageError
from cuenv.core.io.files import LIMIT, expand_home, is_file, is_folder, ls_command, names_in, opened, path_text
from cuenv.core.reading import FALSE, TRUE, Faults, Reader, describe
from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.core.urls import CANONICAL, channel_url, printable, redact, strip_credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place to read a file."""

    url: str = field(repr=False)  # with credentials, never shown; empty for a path
    path: Path | None  # of a file on this machine; ``None`` for the network
    shown: str  # for people


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

HOST = CANONICAL.rstrip("/")  # the host that ``channel_alias`` replaces

_NAME = regex(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_.+-]+)*")
_HINT = "write --mirror conda-forge=https://mirror.example.com/conda-forge or --mirror conda-forge=/srv/conda-forge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A replacement for the beginning of channel URLs."""

    origin: str  # canonical URL, without credentials and without a slash at the end
    # ``http(s)://`` URL, credentials included (never shown), or the absolute path of a folder
    target: str = field(repr=False)

    @property
    def local(self) -> bool:
        """Whether the target is a folder."""
        return "://" not in self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """How to reach channels."""

    mirrors: tuple[Mirror, ...] = ()
    default_channels: tuple[str, ...] = DEFAULTS  # what the name ``defaults`` stands for
    # pairs of scheme (``http``, ``https``) and proxy URL
    proxies: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    verify: bool = True  # check TLS certificates; ``False`` only when somebody asked for it
    certificates: str | None = None  # file with the authorities to trust; ``None`` for the system's
    as_of: str = ""  # the day ``YYYY-MM-DD`` (UTC) by which a build must have been there to count; empty for all builds
    offline: bool = False  # use only what the cache holds, whatever its age
    cache: str = ""  # folder of the repodata cache; empty for the user's cache folder
    timeout: int = 60  # seconds of silence after which a server is given up
    retries: int = 2  # how often a request that failed for the moment is made again

    def urls(self, channels: Iterable[str]) -> tuple[str, ...]:
        """The canonical URLs of channels, each once, in order; ``defaults`` becomes what it stands for."""
        found: list[str] = []
        for name in channels:
            names = self.default_channels if name == "defaults" else (name,)
            found.extend(strip_credentials(channel_url(item)).rstrip("/") for item in names)
        return tuple(dict.fromkeys(found))

    def target(self, url: str) -> str:
        """Where a canonical URL is really read from: itself, a mirror's URL or a path."""
        fits = [mirror for mirror in self.mirrors if f"{url}/".startswith(f"{mirror.origin}/")]
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
        if not mapping:
            return self.cache_folder() / "repodata" / "canonical"
        from cuenv.solve.model import digest  # noqa: PLC0415 - most runs have no mirror

        return self.cache_folder() / "repodata" / digest(*mapping)[:16]

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
        found = expand_home(named or f"{user}/cuenv")
        if found.parts[:1] == ("~",):
            raise no_home()
        return found


def no_home() -> InputError:
    """The error for a machine on which nobody knows a home: the cache lies there, and rattler's store of logins."""
    return InputError(f"HOME is not set, and user {os.getuid()} of this machine has no home", hint="export HOME=/tmp")


def parse_mirror(text: str) -> Mirror:
    """Read ``FROM=TO``: a channel name or URL (or only the host), and an http(s) URL, a file URL or a folder."""
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
            raise UsageError(f"--mirror: {mirror.origin} has two mirrors", hint="give one mirror for each channel")
        seen.add(mirror.origin)
    return mirrors


def _origin(text: str) -> str:
    if text.startswith(("http://", "https://")):
        return strip_credentials(text).rstrip("/")
    if text == "defaults":
        raise UsageError(f"--mirror: 'defaults' stands for several channels: {', '.join(DEFAULTS)}", hint=_HINT)
    if not _NAME.fullmatch(text):
        raise UsageError(f"--mirror: {printable(strip_credentials(text))!r} is not a channel name or URL", hint=_HINT)
    return channel_url(text)


def place(text: str) -> str:
    """A place as `Mirror.target` wants it: an http(s) URL, or the absolute path that a file URL or a path means.

    Raises:
        ValueError: it is a URL of another kind, or one without a host.
    """
    scheme, mark, rest = text.partition("://")
    if not mark:
        return str(expand_home(text).absolute())
    if scheme in {"http", "https"} and rest.strip("/"):
        return text.rstrip("/")
    path = rest.removeprefix("localhost")
    if scheme == "file" and path.startswith("/"):
        from urllib.parse import unquote  # noqa: PLC0415 - only file URLs need it

        return unquote(path).rstrip("/") or "/"
    raise ValueError(f"cannot read channels from {printable(strip_credentials(text))!r}")


_NAMES = (".condarc", "condarc", "condarc.d")
_VARIABLE = regex(r"\$(?:\{([^}]+)\}|(\w+))")
VERIFY = ("CONDA_SSL_VERIFY", "MAMBA_SSL_VERIFY")  # the variables that say ``ssl_verify``, in their order
_VERIFY: Mapping[str, bool] = {**dict.fromkeys(FALSE, False), **dict.fromkeys((*TRUE, "system", "truststore"), True)}
_SCHEMES = ("http://", "https://", "file://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condarc:
    """The settings of all files together; ``None`` and empty mean that no file says anything."""

    # URL that channel names are put behind, credentials included
    channel_alias: str | None = field(default=None, repr=False)
    # pairs of channel name and the URL that the name is put behind
    custom_channels: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    default_channels: tuple[str, ...] = field(default=(), repr=False)
    proxies: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # pairs of scheme and proxy URL
    ssl_verify: bool | str | None = None  # ``True``, ``False``, or the path of a file with authorities
    offline: bool | None = None
    envs_dirs: tuple[str, ...] = ()  # the folders that hold environments by name; ``~`` as it is written
    files: tuple[str, ...] = ()  # the files that were read, lowest priority first


def condarc_files(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that exist, lowest priority first."""
    home = expand_home(environment.get("HOME") or "~")
    config = expand_home(environment.get("XDG_CONFIG_HOME") or home / ".config")
    folders = [Path("/etc/conda"), Path("/var/lib/conda")]
    if environment.get("CONDA_ROOT"):
        folders.append(Path(environment["CONDA_ROOT"]))
    folders += [config / "conda", home / ".config" / "conda", home / ".conda"]
    places = [folder / name for folder in folders for name in _NAMES]
    places.append(home / ".condarc")
    if environment.get("CONDA_PREFIX"):
        places += [Path(environment["CONDA_PREFIX"]) / name for name in _NAMES]
    if environment.get("CONDARC"):
        places.append(expand_home(environment["CONDARC"]))
    found: list[Path] = []
    for path in dict.fromkeys(places):
        if path.suffix == ".d":
            found += [path / name for name in names_in(path) if name.endswith((".yml", ".yaml"))]
        elif os.path.exists(path):  # noqa: PTH110 - Path.exists raises where a folder above cannot be searched
            found.append(path)
    return tuple(found)


def read_condarc(paths: Iterable[Path], environment: Mapping[str, str]) -> Condarc:
    """Read files, lowest priority first.

    Args:
        paths: from `condarc_files`.
        environment: for ``$NAME`` inside the settings, as conda expands them.

    Raises:
        InputError: a file cannot be read, is not valid YAML, or has a setting of the wrong type.
    """
    merged = Condarc()
    for path in paths:
        merged = _merge(merged, _parse(_load(path), str(path), environment))
    return merged


def ssl_verify_of(environment: Mapping[str, str]) -> tuple[str, bool | str] | None:
    """The variable by which conda or mamba is told how to check certificates, and what it says; it beats the files."""
    for name in VERIFY:
        text = environment.get(name, "").strip()
        if text:
            return name, _VERIFY.get(text.strip("<>").lower(), text)
    return None


def sources_here(mirrors: Iterable[str], environment: Mapping[str, str], *, offline: bool) -> Sources:
    """How to reach channels on this machine: mirrors as ``FROM=TO``, and the files of conda.

    Raises:
        UsageError: a mirror has another form.
        InputError: a file is not valid, or a variable names authorities that are not there.
    """
    condarc = read_condarc(condarc_files(environment), environment)
    return sources_from(condarc, parse_mirrors(mirrors), offline=offline, environment=environment)


def sources_from(
    condarc: Condarc,
    mirrors: Iterable[Mirror] = (),
    *,
    offline: bool = False,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Sources:
    """How to reach channels: the mirrors of the command line first, then the variables, then what ``.condarc`` says.

    Raises:
        InputError: a variable names authorities that are not there.
    """
    chosen = {mirror.origin: mirror for mirror in _mirrors_of(condarc)} | {mirror.origin: mirror for mirror in mirrors}
    told = ssl_verify_of(environment)
    verify = told[1] if told else condarc.ssl_verify
    if told and isinstance(verify, str) and not (is_file(expand_home(verify)) or is_folder(expand_home(verify))):
        raise InputError(f"{told[0]} names {path_text(verify)}, which does not exist", hint=f"unset {told[0]}")
    return Sources(
        mirrors=tuple(chosen.values()),
        default_channels=condarc.default_channels or DEFAULTS,
        proxies=condarc.proxies,
        verify=verify is not False,
        certificates=str(expand_home(verify)) if isinstance(verify, str) else None,
        offline=offline or bool(condarc.offline),
    )


def _mirrors_of(condarc: Condarc) -> list[Mirror]:
    found = []
    if condarc.channel_alias and strip_credentials(condarc.channel_alias) != HOST:
        found.append(Mirror(origin=HOST, target=place(condarc.channel_alias)))
    for name, base in condarc.custom_channels:
        target = place(f"{base.rstrip('/')}/{name}")
        if target != channel_url(name):
            found.append(Mirror(origin=channel_url(name), target=target))
    return found


def _load(path: Path) -> object:
    from cuenv.core.yaml_read import load  # noqa: PLC0415 - only where there is a .condarc

    try:
        with opened(path) as stream:
            text = stream.read(LIMIT).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path}: cannot be read: {reason}", hint=ls_command(path)) from error
    try:
        data: object = load(text, str(path))
    except InputError as error:
        what = redact(error.message.removeprefix(f"{path}: ").removeprefix("not valid YAML: "))
        hint = shlex.join(["mv", str(path), f"{path}.off"])
        raise InputError(f"{path}: not valid YAML: {what}", hint=hint) from error
    return data


def _parse(data: object, path: str, environment: Mapping[str, str]) -> Condarc:
    if data is None:
        return Condarc(files=(path,))
    faults = Faults(path)
    reader = Reader(data, faults)
    alias = reader.get("channel_alias", str)
    custom = _pairs(reader, "custom_channels", faults)
    defaults = reader.texts("default_channels")
    proxies = _pairs(reader, "proxy_servers", faults)
    verify = reader.raw("ssl_verify")
    if verify is not None and not isinstance(verify, (bool, str)):
        faults.add("ssl_verify", f"expected true, false or a path, got {describe(verify)}")
        verify = None
    if isinstance(verify, str) and verify.strip("<>") in {"truststore", "system"}:
        verify = True
    offline = reader.get("offline", bool)
    envs = raw if isinstance(raw := reader.raw("envs_dirs"), list) else []  # whoever reaches channels needs none
    expand = partial(_expand, environment=environment)
    found = Condarc(
        channel_alias=expand(alias).rstrip("/") if alias else None,
        custom_channels=tuple((name.strip("/"), expand(url)) for name, url in custom),
        default_channels=tuple(expand(url) for url in defaults),
        proxies=tuple((name, expand(url)) for name, url in proxies),
        ssl_verify=expand(verify) if isinstance(verify, str) else verify,
        offline=offline,
        envs_dirs=tuple(expand(folder) for folder in envs if isinstance(folder, str)),
        files=(path,),
    )
    _check_urls(found, faults)
    faults.check(hint="conda config --show-sources")
    return found


def _pairs(reader: Reader, key: str, faults: Faults) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for name, value in (reader.get(key, dict) or {}).items():
        if isinstance(name, str) and isinstance(value, str):
            found.append((name, value))
        elif value is not None:
            shown = name if isinstance(name, str) else describe(name)
            faults.add(f"{key}.{shown}", f"expected a URL, got {describe(value)}")
    return tuple(found)


def _check_urls(found: Condarc, faults: Faults) -> None:
    aliases = [("channel_alias", found.channel_alias)] if found.channel_alias else []
    for key, url in [*aliases, *((f"custom_channels.{name}", url) for name, url in found.custom_channels)]:
        what = "file:///PATH" if url.startswith("file:") else "a URL of http, https or file"
        if not (url.startswith(_SCHEMES) and _is_place(url)):
            faults.add(key, f"expected {what}, got {describe(redact(url))}")


def _is_place(url: str) -> bool:
    try:
        return bool(place(url))
    except ValueError:
        return False


def _expand(text: str, environment: Mapping[str, str]) -> str:
    """Put variables into a text as ``os.path.expandvars`` does, from a given environment; unknown ones stay."""
    return _VARIABLE.sub(lambda found: environment.get(found[1] or found[2], found[0]), text)


def _merge(low: Condarc, high: Condarc) -> Condarc:
    return Condarc(
        channel_alias=high.channel_alias or low.channel_alias,
        custom_channels=tuple((dict(low.custom_channels) | dict(high.custom_channels)).items()),
        default_channels=tuple(dict.fromkeys((*high.default_channels, *low.default_channels))),
        proxies=tuple((dict(low.proxies) | dict(high.proxies)).items()),
        ssl_verify=low.ssl_verify if high.ssl_verify is None else high.ssl_verify,
        offline=low.offline if high.offline is None else high.offline,
        envs_dirs=tuple(dict.fromkeys((*high.envs_dirs, *low.envs_dirs))),
        files=(*low.files, *high.files),
    )
