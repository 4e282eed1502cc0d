"""Where Python packages come from, as users of uv and pip say it: their variables, ``uv.toml`` and ``pip.conf``.

uv reads neither pip's variables nor pip's file, and cuenv keeps its settings files away from it, so that a stray one
changes nothing but the indexes. All goes to uv in variables: an argument with a password could be seen by others.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from cuenv.core.errors import InputError
from cuenv.core.io import files as toml
from cuenv.core.io.files import DATA, at_home, is_file, read_text
from cuenv.core.reading import Faults, Reader
from cuenv.core.urls import credentials, index_url, origin
from cuenv.solve.io.client import authorities, of_requests

_NAMES = DATA / "pip" / "names.json"


@lru_cache(maxsize=1)
def pypi_names() -> Mapping[str, str]:
    """Conda names and names on PyPI, where they differ or nothing else shows that it is a distribution."""
    found: dict[str, str] = json.loads(_NAMES.read_bytes())["names"]
    return found


_PASSED = re.compile(
    r"UV_(?:INDEX|DEFAULT_INDEX|INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|INDEX_STRATEGY|INDEX_\w+_(?:USERNAME|PASSWORD)"
    r"|KEYRING_PROVIDER|HTTP_\w+|REQUEST_TIMEOUT|INSECURE_HOST|NATIVE_TLS|SYSTEM_CERTS|CACHE_DIR|NO_CACHE|EXCLUDE_NEWER"
    r"|CONCURRENT_\w+|PRERELEASE|CREDENTIALS_DIR)"
    r"|NETRC|SSL_CERT_FILE|SSL_CERT_DIR|SSL_CLIENT_CERT|XDG_CACHE_HOME|XDG_DATA_HOME|AWS_\w+"
    r"|(?:HTTP|HTTPS|ALL|NO)_PROXY|(?:http|https|all|no)_proxy"
)
"""What reaches uv of the user's variables: indexes, credentials, certificates, proxies, the cache."""


_NAMED = re.compile(r"[\w-]+=(?=\w+://)")
_KINDS = (
    ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
    ("UV_FIND_LINKS",),
    ("UV_NO_INDEX",),
)


def index_variables(environ: Mapping[str, str], certificates: str | None = None) -> dict[str, str]:
    """The variables that tell uv where packages are, and whom to trust.

    uv's settings count where there are any: its variables, then ``uv.toml``. Else those of pip: its variables, then
    ``pip.conf``. The two are not mixed: an index that only pip knows would be a surprise beside one given to uv. With
    pip's indexes the best release of all of them counts, as it does for pip; with uv's the first index that has one.

    Args:
        environ: the user's variables; HOME and XDG_CONFIG_HOME say where the settings files are.
        certificates: file or folder with authorities of a settings file, for when the variables name none.

    Raises:
        InputError: a settings file cannot be read.
    """
    found = {name: value for name, value in environ.items() if value and _PASSED.fullmatch(name)}
    _fill(found, _uv_toml(environ))
    conf: Mapping[str, str] = {}
    if not {name for kind in _KINDS for name in kind} & found.keys():
        conf = _pip_conf(environ)
        _fill(found, _pip_variables(environ))
        _fill(found, conf)
        if "UV_EXTRA_INDEX_URL" in found:
            found.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    if "UV_FIND_LINKS" in found:
        found["UV_FIND_LINKS"] = _absolute(found["UV_FIND_LINKS"])
    return found | authorities(environ, environ.get("PIP_CERT"), conf.get("cert"), of_requests(environ), certificates)


def _fill(found: dict[str, str], source: Mapping[str, str]) -> None:
    """Take of a source the kinds of setting that no better source has."""
    for kind in _KINDS:
        if not set(kind) & found.keys():
            found.update({name: source[name] for name in kind if source.get(name)})


def _pip_variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        "UV_INDEX_URL": environ.get("PIP_INDEX_URL", ""),
        "UV_EXTRA_INDEX_URL": environ.get("PIP_EXTRA_INDEX_URL", ""),
        "UV_FIND_LINKS": ",".join(environ.get("PIP_FIND_LINKS", "").split()),
        "UV_NO_INDEX": "1" if environ.get("PIP_NO_INDEX", "").lower() in ("1", "true", "yes", "on") else "",
    }


def _folders(environ: Mapping[str, str]) -> tuple[Path, Path]:
    home = at_home(environ.get("HOME") or "~")
    return home, at_home(environ.get("XDG_CONFIG_HOME") or home / ".config")


def _uv_toml(environ: Mapping[str, str]) -> dict[str, str]:
    """The indexes of the file that UV_CONFIG_FILE names, else of the user's, else of the system's."""
    named = environ.get("UV_CONFIG_FILE")
    if environ.get("UV_NO_CONFIG") and not named:
        return {}
    config = _folders(environ)[1]
    for path in (Path(named),) if named else (config / "uv" / "uv.toml", Path("/etc/uv/uv.toml")):
        if is_file(path):
            return _uv_settings(path, "unset UV_CONFIG_FILE" if named else "UV_NO_CONFIG=1 leaves it out")
    return {}


def _uv_settings(path: Path, leave_out: str) -> dict[str, str]:
    try:
        data = toml.load_toml(read_text(path))
    except ValueError as error:
        raise InputError(f"{path} is no TOML: {error}", hint=leave_out) from error
    faults = Faults(str(path))
    top = Reader(data, faults)
    pip = top.reader("pip") or Reader({}, faults)
    usual, default = [], ""
    for index in top.readers("index"):
        name, url = index.get("name", str), index.text("url")
        whole = f"{name}={url}" if name else url
        if index.get("default", bool):
            default = default or whole
        elif not index.get("explicit", bool):
            usual.append(whole)
    found = {
        "UV_DEFAULT_INDEX": default,
        "UV_INDEX_URL": pip.get("index-url", str) or top.get("index-url", str) or "",
        "UV_INDEX": " ".join(usual),
        "UV_EXTRA_INDEX_URL": " ".join(pip.texts("extra-index-url") or top.texts("extra-index-url")),
        "UV_FIND_LINKS": ",".join(pip.texts("find-links") or top.texts("find-links")),
        "UV_NO_INDEX": "1" if pip.get("no-index", bool, top.get("no-index", bool)) else "",
    }
    faults.check(hint=leave_out)
    return found


def _pip_conf(environ: Mapping[str, str]) -> dict[str, str]:
    """The indexes of pip's files: system, user, virtual environment, PIP_CONFIG_FILE; later ones win."""
    home, config = _folders(environ)
    named = environ.get("PIP_CONFIG_FILE")
    paths = [] if named == "/dev/null" else [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf")]
    paths += [] if named == "/dev/null" else [home / ".pip" / "pip.conf", config / "pip" / "pip.conf"]
    if environ.get("VIRTUAL_ENV") and named != "/dev/null":
        paths.append(Path(environ["VIRTUAL_ENV"]) / "pip.conf")
    paths += [Path(named)] if named and named != "/dev/null" else []
    values: dict[str, str] = {}
    for path in paths:
        if is_file(path):
            values.update(_ini(path))
    return {
        "cert": values.get("cert", ""),
        "UV_INDEX_URL": values.get("index-url", ""),
        "UV_EXTRA_INDEX_URL": " ".join(values.get("extra-index-url", "").split()),
        "UV_FIND_LINKS": ",".join(values.get("find-links", "").split()),
        "UV_NO_INDEX": "1" if values.get("no-index", "").lower() in ("1", "true", "yes", "on") else "",
    }


def _ini(path: Path) -> Iterator[tuple[str, str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(read_text(path))
    except configparser.Error as error:
        reason = type(error).__name__  # the text of the error quotes lines, and a line may hold a password
        raise InputError(f"{path} cannot be read: {reason}", hint="PIP_CONFIG_FILE=/dev/null leaves it out") from error
    for section in ("global", "install"):
        if parser.has_section(section):
            yield from ((name.replace("_", "-"), value) for name, value in parser.items(section))


def _absolute(links: str) -> str:
    """Uv runs in a scratch folder: folders are named from the root."""
    return ",".join(item if "://" in item else str(at_home(item).absolute()) for item in links.split(",") if item)


def shown_indexes(variables: Mapping[str, str]) -> str:
    """The indexes for a message, without credentials."""
    names = ("UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_FIND_LINKS")
    words = [word for name in names for word in re.split(r"[\s,]+", variables.get(name, "")) if word]
    urls = [index_url(_NAMED.sub("", word, count=1)) for word in words]
    return ", ".join(dict.fromkeys(map(shlex.quote, urls))) or "the default index"


def logins(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """User and password of each index that the user's settings give one for, by scheme and host of its URL.

    Raises:
        InputError: a settings file cannot be read.
    """
    variables = index_variables(environ)
    found = {}
    for name in ("UV_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_INDEX", "UV_DEFAULT_INDEX", "UV_FIND_LINKS"):
        for word in re.split(r"[\s,]+", variables.get(name, "")):
            mark, _, url = word.partition("=") if _NAMED.match(word) else ("", "", word)
            key = re.sub(r"[^A-Z0-9]", "_", mark.upper())
            user = variables.get(f"UV_INDEX_{key}_USERNAME", "")
            own = (user, variables.get(f"UV_INDEX_{key}_PASSWORD", "")) if mark and user else None
            pair = credentials(url) or own
            if pair:
                found[origin(url)] = pair
    return found
