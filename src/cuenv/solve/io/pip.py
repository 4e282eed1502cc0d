"""The only user of uv: resolves the pip part for another platform and Python, with hashes.

What conda provides goes in three ways, since one alone is not enough: as constraints, so that a contradiction is
seen; as metadata without requirements, so that conda's torch pulls nothing; and as tiny wheels, so that it exists
where the index does not have conda's release. None of it comes out again. uv runs in a scratch folder, with a
settings file that cuenv writes: a ``uv.toml`` beside the environment file would be an input.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from time import monotonic
from zipfile import ZipFile

from cuenv.core.errors import ChannelError, InputError, OfflineError, OutsideError, Progress
from cuenv.core.io import files as toml
from cuenv.core.io.files import DATA, expand_home, is_file, private_folder, read_text
from cuenv.core.io.process import Completed, run
from cuenv.core.reading import FALSE, TRUE, Faults, Reader
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.urls import credentials, index_url, origin, printable
from cuenv.solve import uv_output
from cuenv.solve.environment_spec import index_option, requirement_name
from cuenv.solve.io.connection import authorities, requests_authorities
from cuenv.solve.model import PipLocked
from cuenv.solve.pip_lines import PipOptions
from cuenv.solve.pip_part import LARGE, PipConflict, PipRequest, Provided, Unbuilt, conflict, loosened, unbuilt

_TIMEOUT = 1800.0  # seconds for one run: a package may be built to learn what it requires
_LOG_LIMIT = 64 * 1024 * 1024  # bytes of uv's log, which also tells every release that was tried and given up
_ALWAYS = {"UV_PYTHON_DOWNLOADS": "never", "PYTHONDONTWRITEBYTECODE": "1", "RUST_LOG": uv_output.LOG}
_LOGIN = regex(r"401 Unauthorized|403 Forbidden|lack of valid authentication")
_FAR = regex(r"Failed to fetch|error sending request|Request failed|Network connectivity is disabled")
_ABSENT = regex(r"([A-Za-z0-9][\w.-]*)\S* was not found in (?:the package registry|the cache|the provided)")
_MISSING = regex(r"there is no version of ([A-Za-z0-9][\w.-]*==[\w.+!-]*[\w])")
_URL = regex(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s`'\")]+")


def resolve(
    request: PipRequest,
    environ: Mapping[str, str],
    *,
    certificates: str | None = None,
    offline: bool = False,
    progress: Progress | None = None,
    ended: Callable[[PipConflict], bool] = lambda _: False,
) -> tuple[PipLocked, ...] | PipConflict | Unbuilt:
    """Resolve the pip part; a contradiction is a value, with a repair where one was found.

    A package whose setup fails is a value as well: who asks may take it without its requirements.

    Args:
        request: requirements, the Python, the platform, and what conda provides.
        certificates: authorities of a settings file, for when the variables name none.
        offline: take only what uv's cache holds.
        ended: whether a contradiction is ended in another way, so that no repair is looked for.

    Raises:
        ChannelError: an index cannot be reached, is not there, or wants a login.
        OutsideError: uv cannot be run.
    """
    began = monotonic()
    variables = with_options(index_variables(environ, certificates), request.options)
    answer = _compile(request, environ, variables, offline=offline, progress=progress)
    if isinstance(answer, PipConflict) and ended(answer):
        return answer
    again, asked, moved, then = answer, request.requirements, dict[str, str](), list[str]()
    most = (
        1 if isinstance(answer, PipConflict) and answer.provided else _MOVED
    )  # else conda's package is the one to move
    while isinstance(again, PipConflict) and not again.absent:
        line, free = next(((line, text) for line in again.lines(asked) if (text := loosened(line))), ("", ""))
        once = requirement_name(line) in moved
        if not free or (not once and len(moved) >= most) or (moved and monotonic() - began > _ENOUGH):
            break
        # the releases up to the next major come first, then any; conda's package is in one release alone
        near = None if once or again.provided else loosened(line, major=True)
        asked = tuple((near or free) if item == line else item for item in asked)
        moved[requirement_name(free)] = re.split(r"\s*;", free, maxsplit=1)[0]
        again = _compile(replace(request, requirements=asked), environ, variables, offline=offline, progress=progress)
        if isinstance(again, Unbuilt):
            return again
        then += [again.text] if isinstance(again, PipConflict) and not near else []
    if not isinstance(answer, PipConflict) or not isinstance(again, tuple):
        return answer
    kept = {item.name: item.version for item in again}
    lines = (f"{moved[name]}=={kept[name]}" for name in moved if name in kept)
    return replace(answer, repair=tuple(text for text in lines if text not in request.requirements), then=tuple(then))


_MOVED = 4  # lines of a pip part that are loosened together to end a conflict; each is one more resolution
_ENOUGH = 20  # seconds after which no second line is loosened


def _compile(
    request: PipRequest,
    environ: Mapping[str, str],
    variables: Mapping[str, str],
    *,
    offline: bool,
    progress: Progress | None,
) -> tuple[PipLocked, ...] | PipConflict | Unbuilt:
    """One run of uv."""
    if progress:
        progress(f"resolving {len(request.requirements)} requirements for pip ({request.platform})")
    with private_folder("pip") as scratch:
        target = scratch / "pylock.cuenv.toml"
        _prepare(scratch, request, target)
        with (scratch / "uv.toml").open("a", encoding="utf-8") as settings:
            settings.write(_kept_files(variables))
        links = ",".join(filter(None, (str(scratch / "stubs"), variables.get("UV_FIND_LINKS"))))
        done = run(
            [*_command(request), *(["--offline"] if offline else []), *_no_index(variables)],
            _TIMEOUT,
            environ,
            more={**variables, "UV_FIND_LINKS": links, **_ALWAYS},
            folder=str(scratch),
            limit=_LOG_LIMIT,
        )
        if done.reason is None:
            found = uv_output.parse(toml.load_toml(target.read_text(encoding="utf-8")), request, "uv's pylock.toml")
            needs = uv_output.requirements(done.err, found, {item.name: item.version for item in request.provided})
            return tuple(replace(item, depends=needs.get(item.name, ())) for item in found)
    return _failed(done, request, environ, variables, offline=offline)


def _command(request: PipRequest) -> list[str]:
    command = [uv_program(), "pip", "compile", "requirements.in", "--quiet", "--no-progress", "--color", "never"]
    command += ["--config-file", "uv.toml", "--constraints", "constraints.txt", *request.options.flags]
    command += [] if request.builds else ["--build-constraints", "builds.txt"]
    command += ["--format", "pylock.toml", "--output-file", "pylock.cuenv.toml", "--no-header"]
    command += ["--python", sys.executable, "--python-version", request.python, "--python-platform", request.target]
    for item in request.provided:
        command += ["--no-emit-package", item.name]
    if request.as_of:
        end = date.fromisoformat(request.as_of) + timedelta(days=1)  # uv leaves out what is of this moment or later
        command += ["--exclude-newer", f"{end}T00:00:00Z"]
        command += [word for name in request.undated for word in ("--exclude-newer-package", f"{name}=false")]
    return command


def uv_program() -> str:
    """The uv that was installed with cuenv."""
    from uv import find_uv_bin  # noqa: PLC0415 - only with a pip part

    try:
        return str(find_uv_bin())
    except FileNotFoundError as error:
        raise OutsideError("uv, which resolves the pip part, is not installed", hint="pip install uv") from error


def _no_index(variables: Mapping[str, str]) -> list[str]:
    """The option: uv has no variable for it, pip has one, and both have a setting."""
    return ["--no-index"] if variables.get("UV_NO_INDEX", "0").lower() not in FALSE else []


def _prepare(scratch: Path, request: PipRequest, target: Path) -> None:
    """Write uv's inputs; packages of an older lock lie where uv will write, which it takes as a preference."""
    stubs = scratch / "stubs"
    stubs.mkdir()
    for item in request.provided:
        _stub(stubs, item)
    lines = [f"{item.name}=={item.version}" for item in request.provided]
    metadata = [
        f"[[dependency-metadata]]\nname = {json.dumps(item.name)}\nversion = {json.dumps(item.version)}\n"
        "requires-dist = []\n"
        for item in request.provided
    ]
    for one in request.unbuilt:
        number = "" if "://" in one.version else f"version = {json.dumps(one.version)}\n"
        metadata.append(f"[[dependency-metadata]]\nname = {json.dumps(one.name)}\n{number}requires-dist = []\n")
    lines += request.constraints
    (scratch / "builds.txt").write_text("".join(f"{name}<0\n" for name in LARGE), encoding="utf-8")
    (scratch / "requirements.in").write_text("\n".join([*request.requirements, ""]), encoding="utf-8")
    (scratch / "constraints.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    (scratch / "uv.toml").write_text("\n".join(metadata), encoding="utf-8")
    if request.prefer:
        target.write_text(uv_output.render(request.prefer), encoding="utf-8")


def _stub(folder: Path, item: Provided) -> None:
    """A wheel without content that stands for a conda package."""
    stem = f"{item.name.replace('-', '_')}-{item.version}"
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: {item.name}\nVersion: {item.version}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: cuenv\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(f"{stem}.dist-info/{name}", text)


def _failed(
    done: Completed, request: PipRequest, environ: Mapping[str, str], variables: Mapping[str, str], *, offline: bool
) -> PipConflict | Unbuilt:
    """The value or the error that a failed run stands for. Order matters: a login also reads as "not found"."""
    text = _clean(uv_output.without_log(done.err), environ)
    where = shown_indexes(variables)
    skip = "cuenv lock --allow CU501 leaves the pip part unlocked"
    if not request.provided:
        skip = "UV_DEFAULT_INDEX and UV_INDEX name other indexes"
    if _LOGIN.search(text):
        hint = "UV_INDEX_<NAME>_USERNAME and _PASSWORD, or a line in ~/.netrc"
        raise ChannelError(f"the Python package index requires a login, or refuses the one given: {where}", hint=hint)
    failed = None if _FAR.search(text) else unbuilt(text, request)
    if failed and failed not in request.unbuilt:
        return failed
    absent = _ABSENT.search(text)
    if absent and offline:
        message = f"--offline was given, but uv's cache does not have {absent[1]}"
        raise OfflineError(message, hint="run it once without --offline, which fills the cache")
    if absent and _answers(environ, variables):
        line = next((item for item in request.requirements if requirement_name(item) == absent[1].lower()), "")
        why = f"no searched Python package index has {absent[1]}: {where}"
        return PipConflict(text=why, requirement=line, absent=absent[1])
    if absent:
        message = f"no Python package index has {absent[1]}, or there is no index at {where} (404)"
        raise ChannelError(message, hint=f"check the name and UV_DEFAULT_INDEX; {skip}")
    missing = _MISSING.search(text)
    if missing and offline:  # without a network nobody knows which releases there are
        message = f"--offline was given, but uv's cache does not have {missing[1]}"
        raise OfflineError(message, hint="run it once without --offline, which fills the cache")
    if "No solution found" in text:
        return conflict(_story(text), request)
    if _FAR.search(text):
        raise ChannelError(f"a Python package index cannot be reached ({_last(text)}): {where}", hint=skip)
    raise OutsideError(f"uv could not resolve the pip part: {_last(text) or done.reason}", hint=skip)


def _kept_files(variables: Mapping[str, str]) -> str:
    """Settings for uv's own index, where it is asked: what PyPI says of its answers, which a proxy may leave out.

    A file never changes, and a list of files counts for ten minutes. uv then asks for each once, and not in each of the
    resolutions that one lock or repair takes.
    """
    if {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & variables.keys() or _no_index(variables):
        return ""
    url = _usual_index()
    keeps = 'cache-control = { api = "max-age=600", files = "max-age=365000000, immutable" }'
    return f"[[index]]\nurl = {json.dumps(url)}\ndefault = true\n{keeps}\n" if url else ""


@lru_cache(maxsize=1)
def _usual_index() -> str:
    """The index that uv asks where no setting names another."""
    return next((url for name, url in _said_indexes({}, {}) if name == "--index-url"), "")


def indexes(options: PipOptions, environ: Mapping[str, str], certificates: str | None = None) -> tuple[str, ...]:
    """The package indexes that uv asks, the usual one first, without credentials; none where it asks no index.

    uv itself says them, so that they are those of its settings, of pip's, of the pip part, or its own.
    """
    found = _said_indexes(with_options(index_variables(environ, certificates), options), environ)
    usual = [url for name, url in found if name == "--index-url"]
    extra = [url for name, url in found if name == "--extra-index-url"]
    return tuple(dict.fromkeys(index_url(url).rstrip("/") for url in (*usual, *extra))) if usual else ()


def _said_indexes(variables: Mapping[str, str], environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The options that name the indexes which uv asks, as it says them."""
    with private_folder("pip") as scratch:
        (scratch / "nothing.in").write_text("", encoding="utf-8")
        command = [uv_program(), "pip", "compile", "nothing.in", "--quiet", "--no-header", "--no-config", "--offline"]
        command += ["--emit-index-url", "--python", sys.executable, *_no_index(variables)]
        done = run(command, _TIMEOUT, environ, more={**variables, **_ALWAYS}, folder=str(scratch), limit=_LOG_LIMIT)
    return [option for line in done.out.splitlines() if (option := index_option(line))]


_EVERYWHERE = ("pip", "torch")
"""Packages of which every general index has one, and every index of PyTorch's wheels the other."""


def _answers(environ: Mapping[str, str], variables: Mapping[str, str]) -> bool:
    """Whether an index is there at all: one that is not says of every package that it was not found."""
    for name in _EVERYWHERE:
        with private_folder("pip") as scratch:
            (scratch / "requirements.in").write_text(f"{name}\n", encoding="utf-8")
            command = [uv_program(), "pip", "compile", "requirements.in", "--quiet", "--no-deps", "--no-config"]
            command += ["--python", sys.executable, "--no-build", *_no_index(variables)]
            done = run(command, _TIMEOUT, environ, more={**variables, **_ALWAYS}, folder=str(scratch), limit=_LOG_LIMIT)
        if done.reason is None or not (_ABSENT.search(done.err) or _FAR.search(done.err)):
            return True
    return False


def _clean(text: str, environ: Mapping[str, str]) -> str:
    """Uv's words without credentials and control characters."""
    for name, value in environ.items():
        if name.startswith("UV_INDEX_") and name.endswith(("_PASSWORD", "_USERNAME")) and len(value) > 3:
            text = text.replace(value, "***")
    return printable(_URL.sub(lambda found: index_url(found[0]), text))


def _story(text: str) -> str:
    """The sentences behind ``cause:``, without hints."""
    return re.split(r"\nhint:", text.partition("cause: ")[2] or text, maxsplit=1)[0].strip()


def _last(text: str) -> str:
    """The causes in one line, most general first."""
    causes = [
        line.strip().removeprefix("error: ").removeprefix("cause: ") for line in text.splitlines() if line.strip()
    ]
    return "; ".join(causes[:4])[:400]


_NAMES = Path(DATA, "pip", "names.json")


@lru_cache(maxsize=1)
def pypi_names() -> Mapping[str, str]:
    """Conda names and names on PyPI, where they differ or nothing else shows that it is a distribution."""
    found: dict[str, str] = json.loads(_NAMES.read_bytes())["names"]
    return found


_PASSED = regex(
    r"UV_(?:INDEX|DEFAULT_INDEX|INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|INDEX_STRATEGY|INDEX_\w+_(?:USERNAME|PASSWORD)"
    r"|KEYRING_PROVIDER|HTTP_\w+|REQUEST_TIMEOUT|INSECURE_HOST|NATIVE_TLS|SYSTEM_CERTS|CACHE_DIR|NO_CACHE|EXCLUDE_NEWER"
    r"|CONCURRENT_\w+|PRERELEASE|CREDENTIALS_DIR)"
    r"|NETRC|SSL_CERT_FILE|SSL_CERT_DIR|SSL_CLIENT_CERT|XDG_CACHE_HOME|XDG_DATA_HOME|AWS_\w+"
    r"|(?:HTTP|HTTPS|ALL|NO)_PROXY|(?:http|https|all|no)_proxy"
)
"""What reaches uv of the user's variables: indexes, credentials, certificates, proxies, the cache."""
_NAMED = regex(r"[\w-]+=(?=\w+://)")
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
    return found | authorities(
        environ, environ.get("PIP_CERT"), conf.get("cert"), requests_authorities(environ), certificates
    )


def with_options(variables: Mapping[str, str], options: PipOptions) -> dict[str, str]:
    """The variables with what a pip part says itself, as pip takes it: its index replaces the usual one.

    What a file names is a plain URL: a name before it (``NAME=URL``) would bring the login of the user's own index of
    that name to a host that the file chooses.
    """
    found = dict(variables)
    if options.index:
        found.pop("UV_INDEX_URL", None)
        found["UV_DEFAULT_INDEX"] = options.index
    if options.extra:
        mine = [found.pop(name, "") for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL")]
        found["UV_INDEX"] = " ".join(filter(None, [*mine, *options.extra]))
        found.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    if options.links:
        links = [url.replace(",", "%2C") for url in options.links]
        found["UV_FIND_LINKS"] = ",".join(filter(None, [found.get("UV_FIND_LINKS", ""), *links]))
    if options.alone:
        found["UV_NO_INDEX"] = "1"
    return found


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
        "UV_NO_INDEX": "1" if environ.get("PIP_NO_INDEX", "").lower() in TRUE else "",
    }


def _folders(environ: Mapping[str, str]) -> tuple[Path, Path]:
    home = expand_home(environ.get("HOME") or "~")
    return home, expand_home(environ.get("XDG_CONFIG_HOME") or home / ".config")


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
        raise InputError(f"{path} is not valid TOML: {error}", hint=leave_out) from error
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
        "UV_NO_INDEX": "1" if values.get("no-index", "").lower() in TRUE else "",
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
    return ",".join(item if "://" in item else str(expand_home(item).absolute()) for item in links.split(",") if item)


def shown_indexes(variables: Mapping[str, str]) -> str:
    """The indexes for a message, without credentials."""
    names = ("UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_FIND_LINKS")
    words = [word for name in names for word in re.split(r"[\s,]+", variables.get(name, "")) if word]
    urls = [index_url(_NAMED.sub("", word, count=1)) for word in words]
    known = list(dict.fromkeys(map(shlex.quote, urls)))
    usual = any(variables.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL")) or _no_index(variables)
    return ", ".join(known if usual else [*known, "the default index"])


def logins(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """User and password of each index that the user's settings give one for, by scheme and host of its URL."""
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
