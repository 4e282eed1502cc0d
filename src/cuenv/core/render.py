"""Findings as GitHub annotations and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from cuenv.core.findings import CheckResult, Finding
from cuenv.core.urls import printable

_KINDS = {"error": "error", "warning": "warning", "info": "notice"}
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


def lines(reports: Iterable[CheckResult], *, verbose: bool = False) -> Iterator[str]:
    """The annotations of reports, one line each.

    Args:
        reports: of ``cuenv check``.
        verbose: with the evidence.
    """
    for told in reports:
        for finding in told.report.findings:
            # A path outside the checkout would be refused: an environment has its folder in the message instead.
            about = "" if told.file else f"{told.report.title}: "
            yield annotation(finding, file=told.file, about=about, verbose=verbose)


def annotation(
    finding: Finding, *, file: str | None, at: tuple[int, int] = (1, 1), about: str = "", verbose: bool = False
) -> str:
    """A finding as one workflow command.

    Args:
        finding: what is told.
        file: that it is shown at; ``None`` for none.
        at: line and column in it, from 1.
        about: what goes before the message.
        verbose: with the evidence.
    """
    properties = {"file": file, "line": str(at[0])} if file else {}
    if file and at[1] > 1:
        properties["col"] = str(at[1])
    properties["title"] = f"{finding.code} {finding.subject}"
    shown = ",".join(f"{key}={_escaped(value, _PROPERTY)}" for key, value in properties.items())
    text = [f"{about}{finding.message}"]
    text += [f"- {item}" for item in finding.evidence] if verbose else []
    text += [f"fix: {finding.fix}"] if finding.fix else []
    return f"::{_KINDS[finding.severity]} {shown}::{_escaped(chr(10).join(text), _DATA)}"


def _escaped(text: str, marks: dict[str, str]) -> str:
    return "".join(marks.get(mark, mark) if mark in marks else printable(mark) for mark in text)


# Inside a word, as in py312_0, an underscore means nothing.
_SPECIAL = re.compile(r"([\\`*{}\[\]<>|#~@!$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
_AUTOLINK = re.compile(r"(?i)\b(https?|www)([:.])")


def text(reports: Iterable[CheckResult], *, strict: bool = False, verbose: bool = False) -> str:
    """Reports as sections with tables, foreign text escaped.

    Args:
        reports: of ``cuenv check``.
        strict: warnings make it a no as well.
        verbose: with the evidence.
    """
    return "\n\n".join("\n".join(_section(told, strict=strict, verbose=verbose)) for told in reports) + "\n"


def _section(told: CheckResult, *, strict: bool, verbose: bool) -> Iterator[str]:
    verdict = "not fine" if told.negative(strict=strict) else "fine"
    yield f"### {cell(told.report.title)}: {verdict}"
    yield ""
    yield cell(", ".join(told.report.looked_at))
    if told.checks:
        yield from ("", "| check | result | what was looked at |", "| --- | --- | --- |")
        yield from (f"| {cell(one.name)} | {one.status} | {cell(one.says)} |" for one in told.checks)
    if told.report.findings:
        yield from ("", "| finding | severity | what | fix |", "| --- | --- | --- | --- |")
        yield from (_row(finding, verbose=verbose) for finding in told.report.findings)


def _row(finding: Finding, *, verbose: bool) -> str:
    what = [cell(finding.message), *(f"- {cell(item)}" for item in finding.evidence if verbose)]
    return f"| {finding.code} | {finding.severity} | {'<br>'.join(what)} | {_code(finding.fix or '')} |"


def cell(foreign: str) -> str:
    """Text that means nothing but itself in a cell: no markup, no link, no mention, no line end."""
    plain = printable(" ".join(foreign.split()))
    return _AUTOLINK.sub(r"\1&#8203;\2", _SPECIAL.sub(r"\\\1", plain))


def _code(command: str) -> str:
    """A command in backticks, longer ones than it holds itself; a bar would end the cell."""
    if not command:
        return ""
    plain = printable(" ".join(command.split())).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", plain)), default=0))
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{space}{plain}{space}{fence}"
