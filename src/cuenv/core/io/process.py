"""Running another program: no shell, the C locale, no input, bounded output and time; a failure is a value."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from cuenv.core.errors import OutsideError, Progress
from cuenv.core.io.files import is_file, ls_command, path_text, reason_of
from cuenv.core.record import dataclass

if TYPE_CHECKING:
    import subprocess
_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR")
LIMIT = 1024 * 1024  # bytes of each stream that are kept; a program that writes more is stopped
_TICK = 1.0  # seconds between two calls of `run`'s ``tick``
_GRACE = 2.0  # seconds that a program which was killed may take to end


def environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ


def machine() -> tuple[str, str]:
    """The system and the processor that this process runs on: ``("Linux", "x86_64")``."""
    found = os.uname()
    return found.sysname, found.machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a program ended."""

    code: int | None  # its exit status (negative: the signal); ``None`` when it did not start or was stopped
    out: str = ""  # what it wrote on standard output, as text
    err: str = ""  # the same for standard error
    reason: str | None = None  # why there is no good answer, in a few words; ``None`` after exit status 0
    late: bool = False  # it was stopped at its time limit


Run = Callable[[Sequence[str], float, Mapping[str, str]], Completed]
"""What starts a program: its words, its time limit, the variables. Tests put another in the place of `run`."""


def run(
    argv: Sequence[str],
    timeout: float | None,
    environ: Mapping[str, str] | None = None,
    *,
    more: Mapping[str, str] | None = None,
    folder: str | None = None,
    limit: int = LIMIT,
    tick: Callable[[], None] | None = None,
) -> Completed:
    """Run a program to its end; what fails is told in the value's ``reason``.

    Args:
        argv: the program (looked up in PATH unless it holds a slash) and its arguments.
        timeout: seconds after which it is stopped, with all its children; ``None`` waits for ever.
        environ: where PATH, HOME, LD_LIBRARY_PATH and TMPDIR come from; nothing else of it reaches the program.
        more: further variables for the program.
        folder: its working folder; this process's when none is named.
        limit: bytes of each stream that are read; more is a failure.
        tick: called about once a second while the program says nothing.
    """
    import subprocess  # noqa: PLC0415 - 8 ms that a run without it does not need

    source = os.environ if environ is None else environ
    clean = (
        {name: source[name] for name in _KEPT if name in source} | {"LC_ALL": "C", "LANGUAGE": "C"} | dict(more or {})
    )
    program = argv[0] if "/" in argv[0] else which(argv[0], source)
    if program is None:
        return Completed(code=None, reason="not on PATH")
    try:
        process = subprocess.Popen(  # noqa: S603 - no shell; the program is one that a caller of ours names
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean,
            cwd=folder,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Completed(code=None, reason=f"cannot be started: {getattr(error, 'strerror', None) or error}")
    try:
        return _collect(process, float("inf") if timeout is None else timeout, limit, tick)
    finally:
        _close(process)


def become(argv: Sequence[str], environ: Mapping[str, str], *, name: str = "") -> NoReturn:
    """Let another program take the place of this process.

    Args:
        name: what it is told to be called; its path when empty.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and what is ignored stays so
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(argv[0], [name or argv[0], *argv[1:]], dict(environ))  # noqa: S606 - what the user typed
    except (OSError, ValueError) as error:
        message = f"cannot start {path_text(argv[0])}: {reason_of(error)}"
        raise OutsideError(message, hint=ls_command(argv[0], error)) from error


def which(name: str, environ: Mapping[str, str]) -> str | None:
    """The first executable file of that name on PATH; relative entries are not searched."""
    for folder in environ.get("PATH", "").split(":"):
        path = f"{folder}/{name}"
        if folder.startswith("/") and is_file(path) and os.access(path, os.X_OK):
            return path
    return None


def _collect(
    process: subprocess.Popen[bytes], timeout: float, limit: int, tick: Callable[[], None] | None
) -> Completed:
    deadline = time.monotonic() + timeout
    out, err = bytearray(), bytearray()
    code: int | None = None
    try:
        reason = _drain(process, out, err, deadline, limit=limit, tick=tick)
        if reason is None:
            code, reason = _wait(process, deadline)
    finally:
        if process.returncode is None:
            with contextlib.suppress(OSError):  # it may just have ended
                os.killpg(process.pid, signal.SIGKILL)
    late = reason == "late"
    reason = f"no answer within {timeout:g} s" if late else reason
    return Completed(code=code, out=_text(out, limit), err=_text(err, limit), reason=reason, late=late)


def _close(process: subprocess.Popen[bytes]) -> None:
    """Close its streams and see its end; one that hangs in the kernel, as with a driver that hangs, has none."""
    import subprocess  # noqa: PLC0415 - loaded by run

    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)


def _drain(
    process: subprocess.Popen[bytes],
    out: bytearray,
    err: bytearray,
    deadline: float,
    *,
    limit: int,
    tick: Callable[[], None] | None,
) -> str | None:
    import selectors  # noqa: PLC0415 - subprocess has loaded it

    with selectors.DefaultSelector() as selector:
        for stream, kept in ((process.stdout, out), (process.stderr, err)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, kept)
        while selector.get_map():
            left = max(deadline - time.monotonic(), 0)
            ready = selector.select(min(left, _TICK))
            if not ready and left <= _TICK:
                return "late"
            if not ready and tick:
                tick()
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                key.data.extend(data)
                if not data:
                    selector.unregister(key.fileobj)
                if len(key.data) > limit:
                    return f"wrote more than {limit} bytes"
    return None


def _wait(process: subprocess.Popen[bytes], deadline: float) -> tuple[int | None, str | None]:
    import subprocess  # noqa: PLC0415 - loaded by run

    try:
        code = process.wait(max(deadline - time.monotonic(), 0.01))
    except subprocess.TimeoutExpired:
        return None, "late"
    if code < 0:
        return code, f"killed by signal {-code}"
    return code, f"exit status {code}" if code else None


def _text(data: bytearray, limit: int) -> str:
    return data[:limit].decode("utf-8", "replace")


def setup_command(environ: Mapping[str, str], called: str = "") -> str:
    """The line to type once so that the commands that are printed work; empty where they work as they are.

    Args:
        called: how the program was called, a path; what started this process by default.
    """
    import shutil  # noqa: PLC0415 - 2 ms

    if shutil.which("cuenv", path=environ.get("PATH", "")):
        return ""
    program = called or sys.argv[0]
    folder = os.path.dirname(program)  # noqa: PTH120 - as it was typed: a relative path stays one
    if os.path.basename(program) != "cuenv" or not folder:  # noqa: PTH119 - as above
        return f"alias cuenv={shlex.quote(f'{shlex.quote(sys.executable)} -m cuenv')}"
    activate = f"{folder}/activate"
    if os.path.exists(activate):  # noqa: PTH110 - as above
        return f". {shlex.quote(activate)}"
    return f"PATH={shlex.quote(os.path.abspath(folder))}:$PATH"  # noqa: PTH100 - as above


_listeners: list[Progress] = []


def listen(listener: Progress | None) -> None:
    """Let one listener hear from now on; ``None`` for nobody."""
    _listeners[:] = [listener] if listener else []


def tell(text: str) -> None:
    """Say how far it is, from any thread."""
    for listener in _listeners:
        listener(text)
