"""Findings as annotations of GitHub Actions: one workflow command a line, shown at the file that they are about.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cuenv.checks import Checked
from cuenv.report import Finding
from cuenv.urls import printable

_KINDS = {"error": "error", "warning": "warning", "info": "notice"}
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


def lines(reports: Iterable[Checked], *, verbose: bool = False) -> Iterator[str]:
    """The annotations of reports, one line each.

    Args:
        reports: of ``cuenv check``.
        verbose: with the evidence.
    """
    for told in reports:
        for finding in told.report.findings:
            yield _annotation(told, finding, verbose=verbose)


def _annotation(told: Checked, finding: Finding, *, verbose: bool) -> str:
    # A path outside the checkout would be refused: an environment has its folder in the message instead.
    properties = {"file": told.file, "line": "1"} if told.file else {}
    title = f"{finding.code} {finding.subject}"
    shown = ",".join(
        f"{key}={_escaped(value or '', _PROPERTY)}" for key, value in {**properties, "title": title}.items()
    )
    text = [finding.message if told.file else f"{told.report.title}: {finding.message}"]
    text += [f"- {item}" for item in finding.evidence] if verbose else []
    text += [f"fix: {finding.fix}"] if finding.fix else []
    return f"::{_KINDS[finding.severity]} {shown}::{_escaped(chr(10).join(text), _DATA)}"


def _escaped(text: str, marks: dict[str, str]) -> str:
    return "".join(marks.get(mark, mark) if mark in marks else printable(mark) for mark in text)
