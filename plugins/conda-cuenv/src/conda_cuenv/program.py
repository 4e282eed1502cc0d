"""Find the program cuenv, run it, and read what it says."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

VARIABLE = "CUENV_EXE"
INSTALL = "install it with 'pipx install cuenv' or 'uv tool install cuenv', or let CUENV_EXE name the program"
_MOST = 32 * 1024 * 1024
"""Bytes of an answer; no document of cuenv comes near."""


class Unanswered(Exception):  # noqa: N818 - it is no error of conda's, and never reaches conda
    """cuenv did not answer; the text says why."""


def places() -> Iterator[Path]:
    """Where cuenv may lie beside the folders of PATH, the likelier first."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    yield Path(os.environ.get("UV_TOOL_DIR") or data / "uv/tools") / "cuenv/bin/cuenv"
    pipx = os.environ.get("PIPX_HOME")
    for folder in [Path(pipx)] if pipx else [data / "pipx", home / ".local/pipx"]:
        yield folder / "venvs/cuenv/bin/cuenv"
    for name in ("PIPX_BIN_DIR", "UV_TOOL_BIN_DIR", "XDG_BIN_HOME"):
        if os.environ.get(name):
            yield Path(os.environ[name]) / "cuenv"
    yield home / ".local/bin/cuenv"
    yield Path(sys.prefix) / "envs/cuenv/bin/cuenv"
    yield home / ".conda/envs/cuenv/bin/cuenv"
    yield Path(sys.prefix) / "bin/cuenv"


def program() -> str:
    """The path of cuenv.

    Raises:
        Unanswered: it does not exist.
    """
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(os.path.expanduser(named))  # noqa: PTH111 - a bare name stays one
        if not found:
            raise Unanswered(f"{VARIABLE} is {named!r}, which is not a program that can be run")
        return found
    found = shutil.which("cuenv")
    if found:
        return found
    with suppress(OSError, RuntimeError):  # no home
        for path in places():
            if os.access(path, os.X_OK) and path.is_file():
                return str(path)
    raise Unanswered(f"the program cuenv was not found; {INSTALL}")


def hand_over(arguments: Sequence[str]) -> int:
    """Run cuenv with the terminal's own streams, and return its exit code."""
    try:
        process = subprocess.Popen([program(), *_as_typed(arguments)])  # noqa: S603 - as the user typed it
    except (Unanswered, OSError) as error:
        sys.stderr.write(f"conda cuenv: {error}\n")
        return 127
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:  # it had the same Ctrl-C, and says itself what becomes of it
            continue
        return code if code >= 0 else 128 - code


def _as_typed(arguments: Sequence[str]) -> list[str]:
    """The arguments with a ``--`` that argparse swallowed on the way."""
    typed = sys.argv[1:]
    for index, word in enumerate(typed):
        rest = typed[index + 1 :]
        if word == "cuenv" and [one for one in rest if one != "--"] == [one for one in arguments if one != "--"]:
            return rest
    return list(arguments)


def answer(*words: str, seconds: float) -> dict[str, Any]:
    """The JSON document that cuenv prints.

    Args:
        words: what is asked.
        seconds: how long it may take.

    Raises:
        Unanswered: cuenv is missing, fails, takes too long, or prints something else.
    """
    data, code = output(*words, seconds=seconds)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):  # bytes that are not UTF-8 are a ValueError
        document = None
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith("cuenv/"):
        raise Unanswered(f"'cuenv {words[0]}' did not print the JSON document that was expected (exit code {code})")
    if str(document["schema"]).startswith("cuenv/error/"):
        raise Unanswered(f"'cuenv {words[0]}' failed: {line(_told(document))}")
    return document


def _told(document: dict[str, Any]) -> object:
    inner = document.get("error")
    return inner.get("message") if isinstance(inner, dict) else document.get("message", "it does not say why")


def output(*words: str, seconds: float) -> tuple[bytes, int]:
    """What cuenv prints on standard output, and its exit code; it and its children end when the time is up.

    Raises:
        Unanswered: cuenv is missing, cannot be started, takes too long, or prints without end.
    """
    command = [program(), *words]
    try:
        process = subprocess.Popen(  # noqa: S603 - cuenv, with words of our own
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise Unanswered(f"{command[0]} cannot be started: {error.strerror or error}") from error
    try:
        return _read(process, words[0], time.monotonic() + seconds, seconds)
    finally:
        if process.poll() is None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout:
            process.stdout.close()


def _read(process: subprocess.Popen[bytes], verb: str, end: float, seconds: float) -> tuple[bytes, int]:
    late = f"'cuenv {verb}' did not answer within {seconds:g} seconds"
    pipe = process.stdout.fileno() if process.stdout else -1
    data = bytearray()
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise Unanswered(late)
        part = os.read(pipe, 65536)
        data += part
        if len(data) > _MOST:
            raise Unanswered(f"'cuenv {verb}' printed more than {_MOST // 1024 // 1024} MB")
        if not part:
            break
    try:
        code = process.wait(timeout=max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise Unanswered(late) from error
    return bytes(data), code


def line(text: object) -> str:
    """A text of another program as one line without control characters."""
    return " ".join("".join(one if one.isprintable() else " " for one in str(text)).split())


def say(text: str, stream: Any = None) -> None:
    """Print a line, also where the terminal cannot show all its characters."""
    out = stream or sys.stdout
    try:
        out.write(f"{text}\n")
    except UnicodeEncodeError:
        coding = getattr(out, "encoding", None) or "ascii"
        out.write(f"{text.encode(coding, 'replace').decode(coding)}\n")
    out.flush()
