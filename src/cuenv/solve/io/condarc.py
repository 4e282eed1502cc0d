"""What the user's ``.condarc`` files say about channels. rattler does not read them, so cuenv does.

Places and order as in the conda documentation ("Using the .condarc conda configuration file", searching for
.condarc): later files win, mappings are merged key by key, lists are put before those of earlier files. Only the keys
about reaching channels are read, and ``envs_dirs``. Nothing here runs conda, so the root of an installation is known
only by ``CONDA_ROOT``.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

from cuenv.core.errors import InputError
from cuenv.core.io.files import LIMIT, at_home, is_file, is_folder, look, opened, shown
from cuenv.core.reading import Faults, Reader, describe
from cuenv.core.urls import channel_url, redact, strip_credentials
from cuenv.solve.io.sources import DEFAULTS, HOST, Mirror, Sources, place

_NAMES = (".condarc", "condarc", "condarc.d")
_VARIABLE = re.compile(r"\$(?:\{([^}]+)\}|(\w+))")
VERIFY = ("CONDA_SSL_VERIFY", "MAMBA_SSL_VERIFY")
"""The variables that say ``ssl_verify``, in their order."""
_VERIFY: Mapping[str, bool] = {
    **dict.fromkeys(("0", "false", "no", "off"), False),
    **dict.fromkeys(("1", "true", "yes", "on", "system", "truststore"), True),
}
_SCHEMES = ("http://", "https://", "file://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condarc:
    """The settings of all files together; ``None`` and empty mean that no file says anything.

    Attributes:
        channel_alias: URL that channel names are put behind, credentials included.
        custom_channels: pairs of channel name and the URL that the name is put behind.
        proxies: pairs of scheme and proxy URL.
        ssl_verify: ``True``, ``False``, or the path of a file with authorities.
        envs_dirs: the folders that hold environments by name; ``~`` as it is written.
        files: the files that were read, lowest priority first.
    """

    channel_alias: str | None = field(default=None, repr=False)
    custom_channels: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    default_channels: tuple[str, ...] = field(default=(), repr=False)
    proxies: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    ssl_verify: bool | str | None = None
    offline: bool | None = None
    envs_dirs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def condarc_files(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that exist, lowest priority first.

    Args:
        environment: for HOME, XDG_CONFIG_HOME, CONDA_ROOT, CONDA_PREFIX and CONDARC.
    """
    home = at_home(environment.get("HOME") or "~")
    config = at_home(environment.get("XDG_CONFIG_HOME") or home / ".config")
    folders = [Path("/etc/conda"), Path("/var/lib/conda")]
    if environment.get("CONDA_ROOT"):
        folders.append(Path(environment["CONDA_ROOT"]))
    folders += [config / "conda", home / ".config" / "conda", home / ".conda"]
    places = [folder / name for folder in folders for name in _NAMES]
    places.append(home / ".condarc")
    if environment.get("CONDA_PREFIX"):
        places += [Path(environment["CONDA_PREFIX"]) / name for name in _NAMES]
    if environment.get("CONDARC"):
        places.append(at_home(environment["CONDARC"]))
    found: list[Path] = []
    for path in dict.fromkeys(places):
        if path.suffix == ".d":
            found += sorted(item for ending in ("*.yml", "*.yaml") for item in path.glob(ending))
        elif os.path.exists(path):  # noqa: PTH110 - Path.exists raises where a folder above cannot be searched
            found.append(path)
    return tuple(found)


def read_condarc(paths: Iterable[Path], environment: Mapping[str, str]) -> Condarc:
    """Read files, lowest priority first.

    Args:
        paths: from `condarc_files`.
        environment: for ``$NAME`` inside the settings, as conda expands them.

    Raises:
        InputError: a file cannot be read, is no YAML, or has a setting of the wrong type.
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
    if told and isinstance(verify, str) and not (is_file(at_home(verify)) or is_folder(at_home(verify))):
        raise InputError(
            f"{told[0]} names {shown(verify)}, and there is no such file",
            hint=f"unset {told[0]}",
        )
    return Sources(
        mirrors=tuple(chosen.values()),
        default_channels=condarc.default_channels or DEFAULTS,
        proxies=condarc.proxies,
        verify=verify is not False,
        certificates=str(at_home(verify)) if isinstance(verify, str) else None,
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
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InputError(f"{path}: cannot be read: {reason}", hint=look(path)) from error
    try:
        data: object = load(text, str(path))
    except InputError as error:
        what = redact(error.message.removeprefix(f"{path}: "))
        raise InputError(f"{path}: no valid YAML: {what}", hint=shlex.join(["mv", str(path), f"{path}.off"])) from error
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
