"""cuenv as it is typed: whole processes, away from the settings of whoever runs the tests."""

from __future__ import annotations

import atexit
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import uv

import forking

HOST = ("--host", "rtx4090-535")
"""A recorded host that ships: the answer does not depend on this machine."""

SCHEMAS = Path(__file__).resolve().parent.parent / "src/cuenv/data/schemas"
"""The files that ship."""

_KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
_OF_AN_INDEX = {"UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_FIND_LINKS", "UV_OFFLINE"}
"""With one of these a command is about to ask uv."""
_AT_THE_START = ("PYTHON", "LANG", "LC_", "LD_", "TZ", "COVERAGE_")
"""What an interpreter, or what it is linked with, reads when it starts."""


@cache
def _validator(name: str) -> jsonschema.protocols.Validator:
    """Of one document; closed: what a command prints today is declared, all of it."""
    data = json.loads((SCHEMAS / f"{name.removeprefix('cuenv/').replace('/', '-')}.json").read_text(encoding="utf-8"))

    def close(part: Any) -> None:
        for item in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            close(item)
        if isinstance(part, dict) and isinstance(part.get("properties"), dict):
            part.setdefault("additionalProperties", False)

    close(data)
    return jsonschema.Draft202012Validator(data)


def hold_to_schema(words: Sequence[object], stdout: str | None) -> None:
    """Hold what a command printed with ``--json`` against the schema of its document."""
    if not ("--json" in words or "--format=json" in words or ("--format", "json") in pairwise(words)):
        return
    if "--" in words or not (stdout or "").startswith("{"):
        return  # of another program, nothing, or help
    data = json.loads(stdout or "")
    fault = jsonschema.exceptions.best_match(_validator(data["schema"]).iter_errors(data)) if "schema" in data else None
    assert fault is None, f"{words}: {fault}"


def run(
    *words: str | Path,
    folder: Path,
    python: tuple[str, ...] = (),
    stdout: int | None = subprocess.PIPE,
    text: str = "",
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m cuenv WORDS`` in a folder, which is its home as well.

    Where nothing is asked of the interpreter's start, the process is forked from one that has loaded cuenv.

    Args:
        words: what is typed after ``cuenv``.
        folder: the working folder.
        python: options of the interpreter.
        stdout: where standard output goes, when not into the result.
        text: standard input.
        environ: more environment variables.
    """
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    home = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / ".cache"), "NO_COLOR": "1", "UV_HTTP_RETRIES": "0"}
    typed, variables = [str(word) for word in words], {**kept, **home, **environ}
    _let_uv_know_python(variables)
    if not python and _of_the_start(variables) == forks_with():
        return _held(_forked(typed, folder, variables, stdout, text))
    done = subprocess.run(
        [sys.executable, *python, "-m", "cuenv", *typed],
        cwd=folder,
        env=variables,
        stdout=stdout,
        stderr=subprocess.PIPE,
        input=text,
        text=True,
        timeout=60,
        check=False,
    )
    return _held(done, typed)


def _held(
    done: subprocess.CompletedProcess[str], typed: Sequence[str] | None = None
) -> subprocess.CompletedProcess[str]:
    hold_to_schema(done.args if typed is None else typed, done.stdout)
    return done


def _let_uv_know_python(environ: Mapping[str, str]) -> None:
    if _OF_AN_INDEX & environ.keys() and "UV_NO_CACHE" not in environ:
        know_python(Path(environ.get("UV_CACHE_DIR") or f"{environ['XDG_CACHE_HOME']}/uv"))


def know_python(cache: Path) -> None:
    """Give a new cache of uv what another one knows of this Python: to ask it costs more than most of what follows."""
    if not cache.exists():
        cache.mkdir(parents=True)
        for folder in _what_uv_knows().glob("interpreter-*"):
            (cache / folder.name).symlink_to(folder)


@cache
def _what_uv_knows() -> Path:
    """A cache of uv that holds this Python and no package; it ends with this process."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    words = (
        "pip",
        "compile",
        "--quiet",
        "--no-config",
        "--no-index",
        "--cache-dir",
        folder,
        "--python",
        sys.executable,
    )
    alone = {"HOME": str(folder), "PATH": os.defpath}
    subprocess.run([uv.find_uv_bin(), *words, "-"], cwd="/", env=alone, input=b"", capture_output=True, check=True)
    return folder


def in_shell() -> str:
    """A command for shell scripts that does what ``python -m cuenv`` does, as one line without its words."""
    return shlex.join([sys.executable, "-I", "-S", str(Path(forking.__file__)), forks(), "cuenv"])


def _of_the_start(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(_AT_THE_START)}


@cache
def forks_with() -> Mapping[str, str]:
    """The variables of a start with which the process that forks was started: none that measures each process."""
    kept = _of_the_start({name: os.environ[name] for name in _KEPT if name in os.environ})
    return {name: value for name, value in kept.items() if not name.startswith("COVERAGE_")}


@cache
def forks() -> str:
    """The socket of the process that forks; it ends with this one."""
    folder = tempfile.mkdtemp(dir="/tmp")  # the name of a socket must be short
    place = f"{folder}/socket"
    words = [sys.executable, forking.__file__, place]
    process = subprocess.Popen(
        words, cwd="/", env={**forks_with()}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin
    assert process.stdout

    @atexit.register
    def end() -> None:
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:  # a test that failed has left a command that waits for something
            os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(folder)

    assert process.stdout.readline() == b"ready\n"
    return place


class Begun:
    """A command that was forked and may still run: what of `subprocess.Popen` the tests need."""

    def __init__(
        self, words: list[str], folder: Path, environ: dict[str, str], stdout: int | None = None, text: str = ""
    ) -> None:
        self.returncode: int | None = None
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - until `communicate`
        with tempfile.TemporaryFile() as given:
            given.write(text.encode())
            given.seek(0)
            streams = given.fileno(), self._out.fileno() if stdout is None else stdout, self._err.fileno()
            self._connection = forking.ask(forks(), words, str(folder), environ, streams)
            self.pid = forking.answer(self._connection)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                self.returncode = forking.answer(self._connection)
            except TimeoutError:
                raise subprocess.TimeoutExpired("cuenv", timeout or 0) from None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        self.wait(timeout)
        printed = []
        for stream in (self._out, self._err):
            stream.seek(0)
            printed.append(stream.read())
        return printed[0], printed[1]

    def __enter__(self) -> Begun:  # noqa: PYI034 - Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        for each in (self._out, self._err, self._connection):
            each.close()


def _forked(
    words: list[str], folder: Path, environ: dict[str, str], stdout: int | None, text: str
) -> subprocess.CompletedProcess[str]:
    with Begun(words, folder, environ, None if stdout == subprocess.PIPE else stdout, text) as begun:
        try:
            printed = begun.communicate(60)
        except subprocess.TimeoutExpired:
            begun.send_signal(signal.SIGKILL)
            raise
    out, err = (stream.decode().replace("\r\n", "\n").replace("\r", "\n") for stream in printed)
    return subprocess.CompletedProcess(words, begun.returncode or 0, out, err)


class _Typed(io.StringIO):
    """Standard input with a text, as bytes too."""

    @property
    def buffer(self) -> io.BytesIO:
        return io.BytesIO(self.getvalue().encode())


def inside(*words: str | Path, folder: Path, text: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, for tests with many runs: ten times as fast, without the start and the end of one."""
    from cuenv.cli.main import run as main

    before, here = dict(os.environ), Path.cwd()
    home = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / ".cache"), "NO_COLOR": "1", "UV_HTTP_RETRIES": "0"}
    out, err = io.StringIO(), io.StringIO()
    typed = [str(word) for word in words]
    stdin = sys.stdin
    try:
        sys.stdin = _Typed(text)
        os.environ.clear()
        os.environ.update({**{name: before[name] for name in _KEPT if name in before}, **home, **environ})
        _let_uv_know_python(os.environ)
        os.chdir(folder)
        with redirect_stdout(out), redirect_stderr(err):
            code = int(main(typed))
    finally:
        sys.stdin = stdin
        os.environ.clear()
        os.environ.update(before)
        os.chdir(here)
    return _held(subprocess.CompletedProcess(typed, code, out.getvalue(), err.getvalue()))
