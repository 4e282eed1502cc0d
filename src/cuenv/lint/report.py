"""What lint found, for people, for programs (``cuenv/lint/1``), for code review (SARIF 2.1.0), and as a patch."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cuenv.core.reading import lines_of
from cuenv.core.render import annotation
from cuenv.core.urls import printable
from cuenv.lint import Lint, place

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A file and what is to be told about it: what was found, or what is left after it was mended."""

    path: str
    kind: str
    text: str
    lints: tuple[Lint, ...]

    @property
    def errors(self) -> int:
        """How many errors there are."""
        return sum(item.finding.severity == "error" for item in self.lints)

    @property
    def warnings(self) -> int:
        """How many warnings there are."""
        return sum(item.finding.severity == "warning" for item in self.lints)


def lines(results: Iterable[Result], word: Callable[[str], str]) -> list[str]:
    """One line for a finding, ``FILE:LINE:COLUMN``, its fix below, and the sum at the end."""
    results = tuple(results)
    found = []
    for result in results:
        for item in result.lints:
            line, column = place(result.text, item.at)
            where = printable(f"{result.path}:{line}:{column}:")
            found.append(f"{where} {word(item.finding.severity)} {item.finding.code} {printable(item.finding.message)}")
            if item.finding.fix:
                by = "  (cuenv lint --fix does it)" if item.edits else ""
                found.append(f"        fix: {printable(item.finding.fix)}{by}")
    errors, warnings = sum(item.errors for item in results), sum(item.warnings for item in results)
    able = sum(bool(lint.edits) for item in results for lint in item.lints)
    files = f"{len(results)} file{'s' if len(results) != 1 else ''}"
    if not errors and not warnings:
        return [*found, f"{files}: {word('fine')}"]
    tail = f"; --fix mends {able}" if able else ""
    return [*found, f"{files}: {errors} error(s), {warnings} warning(s){tail}"]


def plain(results: Iterable[Result]) -> dict[str, Any]:
    """As plain data, schema ``cuenv/lint/1``."""
    files = [{"path": item.path, "kind": item.kind, "findings": _findings(item)} for item in results]
    return {"schema": "cuenv/lint/1", "files": files}


def _findings(result: Result) -> list[dict[str, Any]]:
    found = []
    for item in result.lints:
        line, column = place(result.text, item.at)
        finding = item.finding
        found.append(
            {
                "code": finding.code,
                "severity": finding.severity,
                "subject": finding.subject,
                "line": line,
                "column": column,
                "message": finding.message,
                "evidence": list(finding.evidence),
                "fix": finding.fix,
                "fixable": bool(item.edits),
            }
        )
    return found


def github(results: Iterable[Result], *, verbose: bool = False) -> list[str]:
    """As annotations of GitHub Actions, each at its line."""
    return [
        annotation(item.finding, file=result.path, at=place(result.text, item.at), verbose=verbose)
        for result in results
        for item in result.lints
    ]


def sarif(results: Iterable[Result], version: str) -> dict[str, Any]:
    """As SARIF 2.1.0 (OASIS), which code hosts show beside the lines."""
    results = tuple(results)
    codes = sorted({item.finding.code for result in results for item in result.lints})
    return {
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [
            {
                "tool": {"driver": {"name": "cuenv", "version": version, "rules": [{"id": code} for code in codes]}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(result, item, codes) for result in results for item in result.lints],
            }
        ],
    }


def _result(result: Result, item: Lint, codes: list[str]) -> dict[str, Any]:
    line, column = place(result.text, item.at)
    finding = item.finding
    text = finding.message + (f" Fix: {finding.fix}" if finding.fix else "")
    return {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.severity],
        "message": {"text": printable(text)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(result.path)},
                    "region": {"startLine": line, "startColumn": column},
                }
            }
        ],
    }


def _uri(path: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415 - only for SARIF

    return quote(path, safe="/-._~")


def diff(path: str, before: str, after: str) -> str:
    """A patch that ``patch -p0`` takes; empty when nothing changes."""
    parts = []
    for line in difflib.unified_diff(lines_of(before), lines_of(after), path, path):
        parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)
