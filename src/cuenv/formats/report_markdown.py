"""Reports as Markdown, for a pull request or a job's summary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from cuenv.checks import Checked
from cuenv.report import Finding
from cuenv.urls import printable

# Inside a word, as in py312_0, an underscore means nothing.
_SPECIAL = re.compile(r"([\\`*{}\[\]<>|#~@!$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
_AUTOLINK = re.compile(r"(?i)\b(https?|www)([:.])")


def text(reports: Iterable[Checked], *, strict: bool = False, verbose: bool = False) -> str:
    """Reports as sections with tables, foreign text escaped.

    Args:
        reports: of ``cuenv check``.
        strict: warnings make it a no as well.
        verbose: with the evidence.
    """
    return "\n\n".join("\n".join(_section(told, strict=strict, verbose=verbose)) for told in reports) + "\n"


def _section(told: Checked, *, strict: bool, verbose: bool) -> Iterator[str]:
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
