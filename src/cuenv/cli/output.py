"""Printing: lines with colour, JSON, findings in all formats, and progress."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from cuenv.core.errors import OutsideError, Progress
from cuenv.core.findings import CheckResult, counted
from cuenv.core.regex import regex
from cuenv.core.urls import one_line

if TYPE_CHECKING:  # types alone
    from cuenv.cli.documents import Document, ErrorDocument
    from cuenv.solve.model import Solution

_COLOURS: Mapping[str, str] = {
    word: colour
    for colour, words in {
        "red": ("error", "fail", "not fine"),
        "yellow": ("warning", "warn", "unknown"),
        "cyan": ("info", "skip", "hint"),
        "green": ("ok", "fine", "choice"),
    }.items()
    for word in words
}
"""The colours of words at the beginning of a line or after a position in a file."""
_WORD = regex(
    r"(?P<before>(?: {3}|\S+:\d+:\d+: |\d+ files?: )?)(?P<word>(?P<count>[1-9]\d* errors?)|not fine|[a-z]+)(?!\w)"
)
_DEFAULT_COLUMNS = 80  # the width of a terminal that does not report its width
_LOG_SECONDS = 30.0  # seconds between two lines of progress in a log
_MIN_COLUMNS = 40  # the smallest width at which lines are wrapped
_COMMAND = regex(
    r"(?:(?<=: )|(?<=or )|(?<=  )|^)(?:\w+=\S* )*(?:\S*/)?(?:cuenv|conda|mamba|micromamba|pixi|pip|uv|sh|eval|mkdir|ls"
    r"|df|ldd|nvidia-smi|python3?|tar|cp|unset|export|source|\.) \S.*$"
)
"""A command at the end of a line, which is never wrapped so that it can be copied."""
_COLUMN = regex(r"\S {2,}(?=\S)")


def wants_colour(stream: IO[str], option: str = "auto") -> bool:
    """Whether to colour a stream, by the option, NO_COLOR, FORCE_COLOR, TERM, and whether it is a terminal."""
    if option != "auto":
        return option == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") not in ("dumb", "unknown") and stream.isatty()


def styled(word: str, kind: str, stream: IO[str] | None = None, colours: Mapping[str, str] = _COLOURS) -> str:
    """The word in the colour of its kind, if the stream is coloured."""
    if kind in colours and wants_colour(stream or sys.stderr, _colour_option()):
        return click.style(word, fg=colours[kind], bold=colours[kind] == "red")
    return word


def _colour_option() -> str:
    """The value of ``--color``."""
    context = click.get_current_context(silent=True)
    return str(context.params.get("color") or "auto") if context else _typed_colour


_typed_colour = "auto"  # the value of ``--color`` for errors that are printed after the command has ended


def remember_colour(option: str) -> None:
    """Remember the value of ``--color``."""
    global _typed_colour  # noqa: PLW0603 - one process has one command line
    _typed_colour = option


def format_line(line: str, stream: IO[str], colours: Mapping[str, str] = _COLOURS) -> str:
    """One line for a stream: without line ends in it, its first word in colour, wrapped on a terminal."""
    lines = _wrap(one_line(line), _columns(stream)) if stream.isatty() else [one_line(line)]
    if wants_colour(stream, _colour_option()) and (found := _WORD.match(lines[0])):
        word = found["word"]
        kind = "error" if found["count"] else word
        lines[0] = f"{found['before']}{styled(word, kind, stream, colours)}{lines[0][found.end() :]}"
    return "\n".join(lines)


def _wrap(line: str, width: int) -> list[str]:
    """Wrap a line under its last column; a command at its end gets a line of its own, which is not wrapped.

    A terminal wraps a long command itself, and still copies it as one line.
    """
    if len(line) <= width or width < _MIN_COLUMNS:
        return [line]
    import textwrap  # noqa: PLC0415 - only on a terminal

    bare = len(line) - len(line.lstrip(" "))
    columns = [found.end() for found in _COLUMN.finditer(line, 0, width // 2)]
    hang = max([columns[-1]] if columns else [bare + 2 if bare else 8])
    found = _COMMAND.search(line)
    if found and found.start() <= hang:
        return [line]
    text, command = (line[: found.start()].rstrip(), line[found.start() :]) if found else (line, "")
    lines = textwrap.wrap(
        text[bare:],
        width,
        initial_indent=" " * bare,
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*lines, " " * hang + command] if command else lines


def say(lines: Iterable[str], *, quiet: bool = False) -> None:
    """Print lines on stderr, each with its first word in colour."""
    if quiet:
        return
    for line in lines:
        sys.stderr.write(f"{format_line(line, sys.stderr)}\n")


def emit_lines(lines: Iterable[str], colours: Mapping[str, str] = _COLOURS) -> None:
    """Print the result for people on stdout, each line with its first word in colour.

    Raises:
        OutsideError: as `emit`.
    """
    emit("\n".join(format_line(line, sys.stdout, colours) for line in lines))


def emit(text: str) -> None:
    """Print the result on stdout without any change.

    Raises:
        OutsideError: stdout cannot be written (the disk is full); a closed pipe remains a BrokenPipeError.
    """
    try:
        click.echo(text, nl=not text.endswith("\n"), color=True)  # the text has its colours already
    except BrokenPipeError:
        raise
    except OSError as error:
        closed = error.errno == errno.EBADF
        hint = "> /dev/null discards it" if closed else "df -h ."
        reason = "it is closed" if closed else error.strerror
        raise OutsideError(f"cannot write to standard output: {reason}", hint=hint) from error


def emit_json(data: Document) -> None:
    """Print the result as JSON on stdout."""
    from cuenv.core.render import json_text  # noqa: PLC0415 - most runs print no JSON

    emit(json_text(data))


def emit_findings(
    results: Sequence[CheckResult],
    values: Mapping[str, Any],
    document: Callable[[], Document],
    lines: Callable[[], Sequence[str]],
) -> None:
    """Print findings in the format of ``--format`` or ``--json``.

    Args:
        results: the findings, for the formats that are the same for all commands.
        document: returns the JSON document.
        lines: returns the lines for people.
    """
    from cuenv.core.render import RENDERERS  # noqa: PLC0415 - not every command has findings

    form = "json" if values["as_json"] else values["form"]
    if form == "json":
        emit_json(document())
    elif form == "text":
        if told := lines():
            emit_lines(told)
    elif text := RENDERERS[form](results, strict=values.get("strict", False), verbose=values["verbose"]):
        emit(text)


def package_count(solution: Solution) -> str:
    """The number of packages in a solution in words: ``120 packages and 3 for pip``."""
    also = f" and {len(solution.pip)} for pip" if solution.pip else ""
    return f"{counted(len(solution.packages), 'package')}{also}"


def error_json(code: str, message: str, hint: str | None) -> str:
    """An error as JSON (schema ``cuenv/error/1``)."""
    from cuenv.core.render import json_text  # noqa: PLC0415 - most runs print no JSON

    data: ErrorDocument = {"schema": "cuenv/error/1", "error": {"code": code, "message": message, "hint": hint}}
    return json_text(data)


@contextmanager
def progress(*, quiet: bool) -> Iterator[Progress | None]:
    """Show the progress of a block: on a terminal in one line, which is removed at the end, else as lines of a log."""
    show = _progress(quiet)
    try:
        yield show
    finally:
        if show and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _progress(quiet: bool) -> Progress | None:
    context = click.get_current_context(silent=True)
    if quiet or (context and context.params.get("no_progress")):
        return None
    from cuenv.core.io.process import listen  # noqa: PLC0415 - only where a command tells how far it is

    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{one_line(text)[: _columns(sys.stderr) - 1]}")
        sys.stderr.flush()

    told = show if sys.stderr.isatty() else _log_progress(time.monotonic)
    listen(told)
    return told


def _log_progress(clock: Callable[[], float]) -> Progress:
    """A progress function that prints a line only every half minute."""
    last = clock()

    def show(text: str) -> None:
        nonlocal last
        if clock() - last >= _LOG_SECONDS:
            last = clock()
            sys.stderr.write(f"{one_line(text)}\n")
            sys.stderr.flush()

    return show


def _columns(stream: IO[str]) -> int:
    """The width of a stream's terminal; a longer line of progress could not be overwritten."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_COLUMNS
    except (OSError, ValueError):
        return _DEFAULT_COLUMNS
