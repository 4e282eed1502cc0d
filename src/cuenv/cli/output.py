"""How things are said: streams, colour, JSON, reports and progress."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import IO, Any

import click

from cuenv.errors import OutsideError
from cuenv.report import Finding, Report
from cuenv.urls import one_line, printable

_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan", "ok": "green", "hint": "cyan", "choice": "green"}
_USUAL = 80
"""Columns of a terminal that does not say."""


def wants_colour(stream: IO[str], option: str = "auto") -> bool:
    """Whether a stream is coloured: the option, NO_COLOR, FORCE_COLOR, TERM=dumb, then whether it is a terminal."""
    if option != "auto":
        return option == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") not in ("dumb", "unknown") and stream.isatty()


def styled(word: str, kind: str, stream: IO[str] | None = None) -> str:
    """A word in the colour of its kind, where the stream is coloured."""
    context = click.get_current_context(silent=True)
    option = context.params.get("color", "auto") if context else "auto"
    if kind in _COLOURS and wants_colour(stream or sys.stderr, option):
        return click.style(word, fg=_COLOURS[kind], bold=kind == "error")
    return word


def say(lines: Iterable[str], *, quiet: bool = False) -> None:
    """Talk: lines on stderr, their first word in colour."""
    if quiet:
        return
    for line in lines:
        word, space, rest = line.partition(" ")
        sys.stderr.write(f"{styled(word, word)}{space}{printable(rest)}\n" if word else f"{printable(line)}\n")


def emit(text: str) -> None:
    """The product, on stdout.

    Raises:
        OutsideError: stdout cannot be written (a full disk); a reader that went away stays a BrokenPipeError.
    """
    try:
        click.echo(text, nl=not text.endswith("\n"))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutsideError(f"cannot write to standard output: {error.strerror}", hint="df -h .") from error


def emit_json(data: Any) -> None:
    """A product as JSON, on stdout."""
    emit(_json(data))


def error_json(code: str, message: str, hint: str | None) -> str:
    """An error as JSON, schema ``cuenv/error/1``."""
    error = {"code": code, "message": message, "hint": hint}
    return _json({"schema": "cuenv/error/1", "error": error})


def _json(data: Any) -> str:
    """Readable JSON; what does not print (controls of a terminal, marks that turn text around) as an escape."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    odd = {ord(mark): json.dumps(mark)[1:-1] for mark in set(text) if not mark.isprintable() and mark != "\n"}
    odd.update({0x7F: "\\u007f"} if 0x7F in odd else {})  # json leaves this one as it is
    return text.translate(odd) if odd else text


def report_lines(report: Report, *, verbose: bool = False, strict: bool = False, most: int | None = None) -> list[str]:
    """A report as lines: its head, then each finding, its evidence when asked, its fix; last the verdict.

    Args:
        report: the report.
        verbose: with evidence.
        strict: warnings are a no as well.
        most: findings that are shown of one code; all when ``None``.
    """
    head = f"{report.title}: {', '.join(report.looked_at)}" if report.looked_at else report.title
    lines = [one_line(head)]
    told: dict[tuple[str, str], int] = {}
    for finding in report.findings:
        kind = (finding.code, finding.severity)
        told[kind] = told.get(kind, 0) + 1
        if most is not None and told[kind] > most:
            continue
        said = one_line(f"{finding.code} {finding.message}")
        lines.append(f"{styled(finding.severity, finding.severity, sys.stdout)} {said}")
        if verbose:
            lines += [f"        - {one_line(item)}" for item in finding.evidence]
        if finding.fix:
            lines.append(f"        fix: {one_line(finding.fix)}")
    over = {code: told[code, severity] - (most or 0) for code, severity in told if most and told[code, severity] > most}
    lines += [f"        ... and {count} more {code}: -v shows them" for code, count in over.items()]
    counts = {kind: sum(item.severity == kind for item in report.findings) for kind in ("error", "warning")}
    refused = strict and counts["warning"] > 0
    verdict = f"{counts['error']} error(s)" if counts["error"] else "not fine" if refused else "fine"
    also = f", {counts['warning']} warning(s)" if counts["warning"] else ""
    return [*lines, f"{styled(verdict, 'ok' if verdict == 'fine' else 'error', sys.stdout)}{also}"]


def report_json(report: Report, **more: Any) -> dict[str, Any]:
    """A report as JSON, schema ``cuenv/report/1``: errors and warnings are findings, what is only said is a note."""
    told: dict[str, list[dict[str, Any]]] = {"findings": [], "notes": []}
    for item in report.findings:
        told["notes" if item.severity == "info" else "findings"].append(finding_json(item))
    return {"schema": "cuenv/report/1", "title": report.title, "ok": not report.errors, **told, **more}


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as plain data."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "subject": finding.subject,
        "message": finding.message,
        "evidence": list(finding.evidence),
        "fix": finding.fix,
    }


def layer_plain(layer: Any) -> dict[str, Any]:
    """How a layer serves the GPUs of a host, as plain data."""
    served = {str(device): how for device, how in layer.served}
    return {"layer": layer.layer, "package": layer.package, "served": served, "because": layer.because}


def progress(*, quiet: bool) -> Callable[[str], None] | None:
    """A line on stderr that is written over, on a terminal only."""
    context = click.get_current_context(silent=True)
    if quiet or not sys.stderr.isatty() or (context and context.params.get("no_progress")):
        return None

    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{printable(text)[: _columns() - 1]}")
        sys.stderr.flush()

    return show


def _columns() -> int:
    """The width of the terminal of stderr: a line that runs over could not be written over."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL
    except (OSError, ValueError):
        return _USUAL


def progress_done(show: Callable[[str], None] | None) -> None:
    """Take the progress line away."""
    if show:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
