"""What ``cuenv check`` prints: reports as text, JSON, annotations or Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cuenv.checks import Check, Checked
from cuenv.cli.output import emit, emit_json, emit_lines, layer_plain, report_json, report_lines
from cuenv.errors import ExitCode

_MOST = 8
"""Findings of one code that are shown of an environment, which may lack a hundred packages of its lock."""


def show(reports: Sequence[Checked], values: dict[str, Any]) -> int:
    """Print reports as the options want, and say how the command ends.

    Args:
        reports: the lock's first.
        values: of the command: ``form``, ``as_json``, ``strict``, ``verbose``, ``quiet``.
    """
    strict, verbose = values["strict"], values["verbose"]
    negative = any(told.negative(strict=strict) for told in reports)
    form = "json" if values["as_json"] else values["form"]
    if form == "json":
        emit_json(_plain(reports, strict=strict))
    elif form == "github":
        from cuenv.formats import report_github  # noqa: PLC0415 - only when asked for

        lines = list(report_github.lines(reports, verbose=verbose))
        if lines:
            emit("\n".join(lines))
    elif form == "markdown":
        from cuenv.formats import report_markdown  # noqa: PLC0415 - as above

        emit(report_markdown.text(reports, strict=strict, verbose=verbose))
    elif not values["quiet"] or negative:
        several = [[*_lines(told, strict=strict, verbose=verbose), ""] for told in reports]
        emit_lines([line for lines in several for line in lines][:-1])
    return ExitCode.NEGATIVE if negative else ExitCode.OK


def _lines(told: Checked, *, strict: bool, verbose: bool) -> Iterator[str]:
    most = _MOST if told.checks and not verbose else None
    head, *findings, verdict = report_lines(told.report, verbose=verbose, strict=strict, most=most)
    yield head
    width = max((len(check.name) for check in told.checks), default=0)
    yield from (_check_line(check, width) for check in told.checks)
    yield from findings
    yield verdict
    if verbose:
        yield from (f"layer {layer}" for layer in told.layers)


def _check_line(check: Check, width: int) -> str:
    return f"{check.status:<5}{check.name:<{width}}  {check.says}"


def _plain(reports: Sequence[Checked], *, strict: bool) -> dict[str, Any]:
    """One report as it is; of two the lock's, with the environment's inside."""
    first, *others = (_report(told, strict=strict) for told in reports)
    for other in others:
        first["ok"] = first["ok"] and other["ok"]
        first["environment"] = other
    return first


def _report(told: Checked, *, strict: bool) -> dict[str, Any]:
    more: dict[str, Any] = {"host": told.host}
    if told.file is not None:
        more["layers"] = [layer_plain(layer) for layer in told.layers]
    if told.checks:
        more["checks"] = [_check(check) for check in told.checks]
    return {**report_json(told.report, **more), "ok": not told.negative(strict=strict)}


def _check(check: Check) -> dict[str, Any]:
    codes = sorted({finding.code for finding in check.findings})
    return {"name": check.name, "status": check.status, "says": check.says, "codes": codes}
