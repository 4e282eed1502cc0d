"""The only user of uv: resolves the pip part for another platform and Python, with hashes.

What conda provides goes in three ways, since one alone is not enough: as constraints, so that a contradiction is
seen; as metadata without requirements, so that conda's torch pulls nothing; and as tiny wheels, so that it exists
where the index does not have conda's release. None of it comes out again. uv runs in a scratch folder, with a
settings file that cuenv writes: a ``uv.toml`` beside the environment file would be an input.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

from cuenv.core.errors import ChannelError, OutsideError
from cuenv.core.io import files as toml
from cuenv.core.io.files import private_folder
from cuenv.core.io.process import Completed, run
from cuenv.core.urls import index_url, printable
from cuenv.solve import pylock, uv_log
from cuenv.solve.io.pip_index import index_variables, shown_indexes
from cuenv.solve.model import PipLocked
from cuenv.solve.pip_part import PipConflict, PipRequest, Provided, conflict, loosened, requirement_name

_TIMEOUT = 1800.0
"""Seconds for one run: a package may be built to learn what it requires."""
_LOG_LIMIT = 64 * 1024 * 1024
"""Bytes of uv's log, which also tells every release that was tried and given up."""
_ALWAYS = {"UV_PYTHON_DOWNLOADS": "never", "PYTHONDONTWRITEBYTECODE": "1", "RUST_LOG": uv_log.LOG}
_LOGIN = re.compile(r"401 Unauthorized|403 Forbidden|lack of valid authentication")
_FAR = re.compile(r"Failed to fetch|error sending request|Request failed|Network connectivity is disabled")
_ABSENT = re.compile(r"([A-Za-z0-9][\w.-]*)\S* was not found in (?:the package registry|the cache|the provided)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s`'\")]+")

Progress = Callable[[str], None]


def resolve(
    request: PipRequest,
    environ: Mapping[str, str],
    *,
    certificates: str | None = None,
    offline: bool = False,
    progress: Progress | None = None,
) -> tuple[PipLocked, ...] | PipConflict:
    """Resolve the pip part; a contradiction is a value, with the smallest repair where one was found.

    Args:
        request: requirements, the Python, the platform, and what conda provides.
        environ: the user's variables: indexes, credentials, proxies.
        certificates: authorities of a settings file, for when the variables name none.
        offline: take only what uv's cache holds.
        progress: told in a few words what is being done.

    Raises:
        ChannelError: an index cannot be reached, wants a login, or does not hold a package at all.
        OutsideError: uv cannot be run, or a package's setup failed.
    """
    variables = index_variables(environ, certificates)
    answer = _compile(request, environ, variables, offline=offline, progress=progress)
    if not isinstance(answer, PipConflict) or not answer.requirement:
        return answer
    looser = loosened(answer.requirement)
    if looser is None:
        return answer
    asked = tuple(looser if item == answer.requirement else item for item in request.requirements)
    again = _compile(replace(request, requirements=asked), environ, variables, offline=offline, progress=progress)
    if isinstance(again, PipConflict):
        return answer
    name = requirement_name(looser)
    kept = next((item.version for item in again if item.name == name), None)
    head = re.split(r"\s*;", looser, maxsplit=1)[0]
    return replace(answer, repair=f"{head}=={kept}") if kept else answer


def _compile(
    request: PipRequest,
    environ: Mapping[str, str],
    variables: Mapping[str, str],
    *,
    offline: bool,
    progress: Progress | None,
) -> tuple[PipLocked, ...] | PipConflict:
    if progress:
        progress(f"resolving {len(request.requirements)} requirements for pip ({request.platform})")
    with private_folder("pip") as scratch:
        target = scratch / "pylock.cuenv.toml"
        _prepare(scratch, request, target)
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
            found = pylock.parse(toml.load_toml(target.read_text(encoding="utf-8")), request, "uv's pylock.toml")
            needs = uv_log.requirements(done.err, found, {item.name: item.version for item in request.provided})
            return tuple(replace(item, depends=needs.get(item.name, ())) for item in found)
    return _failed(done, request, environ, variables, offline=offline)


def _command(request: PipRequest) -> list[str]:
    command = [uv_program(), "pip", "compile", "requirements.in", "--quiet", "--no-progress", "--color", "never"]
    command += ["--config-file", "uv.toml", "--constraints", "constraints.txt"]
    command += ["--format", "pylock.toml", "--output-file", "pylock.cuenv.toml", "--no-header"]
    command += ["--python", sys.executable, "--python-version", request.python, "--python-platform", request.target]
    for item in request.provided:
        command += ["--no-emit-package", item.name]
    return command


def uv_program() -> str:
    """The uv that was installed with cuenv.

    Raises:
        OutsideError: there is none.
    """
    from uv import find_uv_bin  # noqa: PLC0415 - only with a pip part

    try:
        return str(find_uv_bin())
    except FileNotFoundError as error:
        raise OutsideError("uv, which resolves the pip part, is not installed", hint="pip install uv") from error


def _no_index(variables: Mapping[str, str]) -> list[str]:
    """The option: uv has no variable for it, pip has one, and both have a setting."""
    return ["--no-index"] if variables.get("UV_NO_INDEX", "0").lower() not in ("0", "false", "no", "off") else []


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
    (scratch / "requirements.in").write_text("\n".join([*request.requirements, ""]), encoding="utf-8")
    (scratch / "constraints.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    (scratch / "uv.toml").write_text("\n".join(metadata), encoding="utf-8")
    if request.prefer:
        target.write_text(pylock.render(request.prefer), encoding="utf-8")


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
    done: Completed,
    request: PipRequest,
    environ: Mapping[str, str],
    variables: Mapping[str, str],
    *,
    offline: bool,
) -> PipConflict:
    """The value or the error that a failed run stands for. Order matters: a login also reads as "not found"."""
    text = _clean(uv_log.without_log(done.err), environ)
    where = shown_indexes(variables)
    skip = "cuenv lock --allow CU501 leaves the pip part unlocked"
    if _LOGIN.search(text):
        hint = "UV_INDEX_<NAME>_USERNAME and _PASSWORD, or a line in ~/.netrc"
        raise ChannelError(f"the Python package index wants a login, or refuses it: {where}", hint=hint)
    absent = _ABSENT.search(text)
    if absent and offline:
        raise ChannelError(f"offline, and uv's cache does not hold {absent[1]}", hint="once without --offline")
    if absent:
        raise ChannelError(
            f"no Python package index holds {absent[1]}, or there is no index at {where} (404)",
            hint=f"check the name and UV_DEFAULT_INDEX; {skip}",
        )
    if "No solution found" in text:
        return conflict(_story(text), request)
    if _FAR.search(text):
        raise ChannelError(f"a Python package index cannot be reached ({_last(text)}): {where}", hint=skip)
    raise OutsideError(f"uv could not resolve the pip part: {_last(text) or done.reason}", hint=skip)


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
