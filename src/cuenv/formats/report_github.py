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
