"""Entering and leaving the process.

py-rattler can kill the interpreter while it finalises, after complete work (a few percent of short runs). So the
process ends by ``os._exit`` with the right code, after both streams are flushed. The ``try`` stands before every
heavy import: Ctrl-C during an import is no traceback either.
"""

from __future__ import annotations

import gc
import os
import sys

_FAILED = 4
_INTERRUPTED, _TERMINATED = 130, 143
_stopped = False
"""Whether it was another signal than that of Ctrl-C."""
_STREAMS = ("stdin", "stdout", "stderr")


def main() -> None:
    """Run the command line and leave with its exit code. Does not return."""
    code = _FAILED
    try:
        code = _run()
    except BaseException as error:  # noqa: BLE001 - the last place: everything becomes a code here
        code = _code_of(error)
    finally:
        leave(code)


def leave(code: int) -> None:
    """Flush both streams and end the process without finalising the interpreter. Does not return.

    A reader that went away (``cuenv kb | head -1``) had what it wanted: no message, and the code stays. Output that
    cannot be written otherwise (a full disk) is a failure of the outside.
    """
    try:
        import signal  # noqa: PLC0415 - see the module docstring

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if code == _INTERRUPTED and _stopped:
            code = _TERMINATED
        code = max(code, _flush(told=code == _FAILED))
    except BaseException:  # noqa: BLE001 - a second Ctrl-C must not bring back what os._exit avoids
        code = _INTERRUPTED
    os._exit(code)


def _run() -> int:
    _stop_alike()
    gc.set_threshold(100_000, 50, 50)  # short runs with few cycles: collecting costs a tenth of them
    _fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    from cuenv.cli.main import run  # noqa: PLC0415 - see the module docstring

    return int(run(sys.argv[1:]))


def _stop_alike() -> None:
    """Let a polite kill (a scheduler's, a container's) and a terminal that goes away end it as Ctrl-C does."""
    import signal  # noqa: PLC0415 - see the module docstring

    def stop(*_: object) -> None:
        global _stopped  # noqa: PLW0603 - a signal is of the process
        _stopped = True
        raise KeyboardInterrupt

    def again(told: sys.UnraisableHookArgs) -> None:
        """Ctrl-C that arrives within a callback of the interpreter is printed and lost there: it comes once more."""
        if issubclass(told.exc_type, KeyboardInterrupt):
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        else:
            sys.__unraisablehook__(told)

    sys.unraisablehook = again
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, stop)


def _code_of(error: BaseException) -> int:
    if _holds(error, KeyboardInterrupt):
        return _INTERRUPTED
    if _holds(error, BrokenPipeError):  # click makes SystemExit(1) of it, but 1 is our negative answer
        return 0
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    from cuenv.core.errors import CuenvError  # noqa: PLC0415 - see the module docstring

    if isinstance(error, CuenvError):
        _say(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
        return int(error.exit)
    if isinstance(error, OSError):
        import errno  # noqa: PLC0415 - see the module docstring

        stream = not getattr(error, "filename", None) and error.errno in (errno.EBADF, errno.ENOSPC)
        _say(f"error: {'cannot write to standard output: ' if stream else ''}{_words(error)}")
        return _FAILED
    _say_bug(error)
    return _FAILED


def _holds(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether an error is of a kind or comes from one: a compiled module that is being imported wraps Ctrl-C."""
    for _ in range(20):
        if error is None:
            return False
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


def _say_bug(error: BaseException) -> None:
    import traceback  # noqa: PLC0415 - bugs only

    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    _say(f"{lines}\nerror: this is a bug in cuenv; please report it with the lines above and 'cuenv --version'")


def _words(error: Exception) -> str:
    """The system's words without its number, and the file if there is one."""
    import errno  # noqa: PLC0415 - see the module docstring

    closed = getattr(error, "errno", None) == errno.EBADF
    words = "it is closed" if closed else getattr(error, "strerror", None) or str(error)
    filename = getattr(error, "filename", None)
    return f"{filename}: {words}" if filename else words


def _say(text: str) -> None:
    from cuenv.core.urls import printable, redact  # noqa: PLC0415 - see the module docstring

    try:
        sys.stderr.write(printable(redact(text)) + "\n")
    except (OSError, ValueError):
        return


def _flush(*, told: bool) -> int:
    """Flush stdout, then stderr: `_FAILED` when stdout could not be written, else 0.

    Args:
        told: a failure was said already, most likely this one.
    """
    code = 0
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except (OSError, ValueError) as error:
        if not told:
            _say(f"error: cannot write to standard output: {_words(error)}")
        code = _FAILED
    try:  # noqa: SIM105 - contextlib is not loaded yet, and not worth it
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
    return code


def _fill_closed_streams() -> None:
    """Open the null device where a standard stream is closed.

    Otherwise the next file that is opened, a lock perhaps, gets its number, and what is printed goes there. For
    standard output it is opened for reading: a product that nobody can get is an error, and a command without one does
    its work.
    """
    for number, name in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for life


if __name__ == "__main__":
    main()
