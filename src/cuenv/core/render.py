"""Findings as text, JSON, Markdown, annotations of GitHub Actions, SARIF, and Code Quality of GitLab."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from cuenv.core import __version__
from cuenv.core.findings import CheckResult, ComponentSupport, FileEdit, Finding, Report, counted
from cuenv.core.urls import printable

if TYPE_CHECKING:  # types alone
    from cuenv.core.documents import EditFields, FindingFields, LayerFields, ReportDocument


def report_lines(report: Report, *, verbose: bool = False, strict: bool = False, most: int | None = None) -> list[str]:
    """A report as lines: the title, the findings with fixes and, if verbose, evidence, and the verdict.

    Args:
        most: the most findings of one code that are shown; ``None`` for all.
    """
    lines = [f"{report.title}: {', '.join(report.looked_at)}" if report.looked_at else report.title]
    told: Counter[tuple[str, str]] = Counter()
    shown: list[Finding] = []
    for finding in report.findings:
        told[finding.code, finding.severity] += 1
        if most is None or told[finding.code, finding.severity] <= most:
            shown.append(finding)
    for finding, following in zip_longest(shown, shown[1:]):
        lines.append(f"{finding.severity} {finding.code} {finding.message}")
        lines += [f"        - {item}" for item in finding.evidence if verbose]
        same = following is not None and following.fix == finding.fix  # said once, behind the last of them
        lines += [f"        fix: {finding.fix}"] if finding.fix and not same else []
    over = {code: count - (most or 0) for (code, _), count in told.items() if most and count > most}
    lines += [f"        ... and {count} more {code}: -v shows them" for code, count in over.items()]
    counts = Counter(finding.severity for finding in report.findings)
    verdict = counted(counts["error"], "error") if counts["error"] else report.verdict(strict=strict)
    also = f", {counted(counts['warning'], 'warning')}" if counts["warning"] else ""
    return [*lines, f"{verdict}{also}"]


def check_lines(results: Iterable[CheckResult], *, strict: bool, verbose: bool, most: int) -> list[str]:
    """The output of ``cuenv check``: each report, with a line for each check below its title.

    Args:
        verbose: whether to show evidence, all findings, and how each component supports the GPUs.
        most: the most findings of one code that are shown of an environment.
    """
    lines: list[str] = []
    for told in results:
        shown = None if verbose or not told.checks else most
        head, *findings = report_lines(told.report, verbose=verbose, strict=strict, most=shown)
        width = max((len(check.name) for check in told.checks), default=0)
        checks = [f"{check.status:<5}{check.name:<{width}}  {check.says}" for check in told.checks]
        components = [f"support {component}" for component in told.components if verbose]
        lines += [*([""] if lines else []), head, *checks, *findings, *components]
    return lines


def place_lines(results: Sequence[CheckResult]) -> list[str]:
    """One line ``FILE:LINE:COLUMN`` for each finding with its fix below, and the totals at the end."""
    lines = []
    findings = [(told.file, finding) for told in results for finding in told.report.findings]
    for file, finding in findings:
        where = ":".join(map(str, (file, *(finding.at or (1, 1)))))
        lines.append(printable(f"{where}: {finding.severity} {finding.code} {finding.message}"))
        if finding.fix:
            lines.append(f"        fix: {printable(finding.fix)}{'  (cuenv lint --fix does it)' * finding.fixable}")
    counts = Counter(finding.severity for _, finding in findings)
    files = counted(len(results), "file")
    unknown = any(finding.unknown for _, finding in findings)
    if not counts["error"] and not counts["warning"]:
        return [*lines, f"{files}: {'unknown: the lines above say what was not checked' if unknown else 'fine'}"]
    able = sum(finding.fixable for _, finding in findings)
    tail = f"; --fix corrects {able}" if able else ""
    tail += "; unknown: the lines above say what was not checked" if unknown and not counts["error"] else ""
    return [*lines, f"{files}: {counted(counts['error'], 'error')}, {counted(counts['warning'], 'warning')}{tail}"]


def finding_json(finding: Finding) -> FindingFields:
    """A finding as JSON."""
    fields: FindingFields = {
        "code": finding.code,
        "severity": finding.severity,
        "subject": finding.subject,
        "message": finding.message,
        "evidence": list(finding.evidence),
        "fix": finding.fix,
    }
    if finding.edits:
        fields["edits"] = [_edit_json(edit) for edit in finding.edits]
    return fields


def _edit_json(edit: FileEdit) -> EditFields:
    fields: EditFields = {"how": edit.how, "entries": list(edit.entries), "pip": edit.pip}
    if edit.over:
        fields["over"] = edit.over
    return fields


def report_json(report: Report) -> ReportDocument:
    """A report as JSON (schema ``cuenv/report/1``); findings with the severity ``info`` are notes."""
    return {
        "schema": "cuenv/report/1",
        "title": report.title,
        "ok": not report.errors,
        "findings": [finding_json(item) for item in report.findings if item.severity != "info"],
        "notes": [finding_json(item) for item in report.findings if item.severity == "info"],
    }


def component_json(component: ComponentSupport) -> LayerFields:
    """How a component supports the GPUs of a host, as JSON."""
    support = {str(device): how for device, how in component.support}
    return {"layer": component.name, "package": component.package, "served": support, "because": component.because}


def check_json(results: Sequence[CheckResult], *, strict: bool) -> ReportDocument:
    """The report as JSON; if there are two, that of the lock, which contains that of the environment."""
    plain = []
    for told in results:
        more = report_json(told.report)
        more["host"], more["ok"] = told.host, told.report.verdict(strict=strict) != "not fine"
        if told.file is not None:
            more["layers"] = [component_json(component) for component in told.components]
        if told.part:
            more["part"] = told.part
        if told.checks:
            more["checks"] = [
                {
                    "name": check.name,
                    "status": check.status,
                    "says": check.says,
                    "codes": sorted({finding.code for finding in check.findings}),
                }
                for check in told.checks
            ]
        plain.append(more)
    first, *others = plain
    for other in others:
        first["ok"] = first["ok"] and other["ok"]
        first["environment"] = other
    return first


_KINDS = {"error": "error", "warning": "warning", "info": "notice"}
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


def github(results: Iterable[CheckResult], *, verbose: bool = False, **_: bool) -> str:
    """Findings as annotations of GitHub Actions, one workflow command on each line."""
    return "\n".join(
        _annotation(finding, told, verbose=verbose) for told in results for finding in told.report.findings
    )


def _annotation(finding: Finding, told: CheckResult, *, verbose: bool) -> str:
    line, column = finding.at or (1, 1)
    properties = {"file": told.file, "line": str(line)} if told.file else {}
    if told.file and column > 1:
        properties["col"] = str(column)
    properties["title"] = f"{finding.code} {finding.subject}"
    shown = ",".join(f"{key}={_escaped(value, _PROPERTY)}" for key, value in properties.items())
    # A path outside the checkout would be refused: an environment has its folder in the message instead.
    text = [f"{'' if told.file else f'{told.report.title}: '}{finding.message}"]
    text += [f"- {item}" for item in finding.evidence if verbose]
    text += [f"fix: {finding.fix}"] if finding.fix else []
    return f"::{_KINDS[finding.severity]} {shown}::{_escaped(chr(10).join(text), _DATA)}"


def _escaped(text: str, marks: Mapping[str, str]) -> str:
    return "".join(marks.get(mark, mark) if mark in marks else printable(mark) for mark in text)


def markdown(results: Iterable[CheckResult], *, strict: bool = False, verbose: bool = False) -> str:
    """Reports as sections with tables in Markdown, with foreign text escaped."""
    return "\n\n".join("\n".join(_section(told, strict=strict, verbose=verbose)) for told in results) + "\n"


def _section(told: CheckResult, *, strict: bool, verbose: bool) -> Iterator[str]:
    verdict = told.report.verdict(strict=strict)
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
    where = f"line {finding.at[0]}: " if finding.at else ""
    what = [f"{where}{cell(finding.message)}", *(f"- {cell(item)}" for item in finding.evidence if verbose)]
    return f"| {finding.code} | {finding.severity} | {'<br>'.join(what)} | {code(finding.fix or '')} |"


# Inside a word, as in py312_0, an underscore means nothing.
_SPECIAL = r"([\\`*{}\[\]<>|#~@!$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))"
_AUTOLINK = r"(?i)\b(https?|www)([:.])"


def cell(foreign: str) -> str:
    """A text for a cell of a table, in which markup, links, mentions and line ends have no effect."""
    plain = printable(" ".join(foreign.split()))
    return re.sub(_AUTOLINK, r"\1&#8203;\2", re.sub(_SPECIAL, r"\\\1", plain))


def code(command: str) -> str:
    """A command in backticks for a cell of a table."""
    if not command:
        return ""
    plain = printable(" ".join(command.split())).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", plain)), default=0))
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{space}{plain}{space}{fence}"


_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def sarif(results: Iterable[CheckResult], **_: bool) -> str:
    """Findings as SARIF 2.1.0 (OASIS), which code hosts show beside the lines."""
    found = [(told.file, finding) for told in results for finding in told.report.findings]
    codes = sorted({finding.code for _, finding in found})
    return json_text(
        {
            "version": "2.1.0",
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "runs": [
                {
                    "tool": {
                        "driver": {"name": "cuenv", "version": __version__, "rules": [{"id": code} for code in codes]}
                    },
                    "columnKind": "unicodeCodePoints",
                    "results": [
                        {
                            "ruleId": finding.code,
                            "ruleIndex": codes.index(finding.code),
                            "level": _LEVELS[finding.severity],
                            "message": {
                                "text": printable(finding.message + (f" Fix: {finding.fix}" if finding.fix else ""))
                            },
                            **_locations(file, finding),
                        }
                        for file, finding in found
                    ],
                }
            ],
        }
    )


def _locations(file: str | None, finding: Finding) -> dict[str, Any]:
    if file is None:
        return {}
    from urllib.parse import quote  # noqa: PLC0415 - only for SARIF

    line, column = finding.at or (1, 1)
    region = {"startLine": line, "startColumn": column}
    place = {"artifactLocation": {"uri": quote(file, safe="/-._~")}, "region": region}
    return {"locations": [{"physicalLocation": place}]}


_QUALITY = {"error": "critical", "warning": "minor", "info": "info"}


def codequality(results: Iterable[CheckResult], **_: bool) -> str:
    """Findings as Code Quality of GitLab, which it shows in a merge request; equal findings have equal fingerprints.

    Reference: https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
    """
    from hashlib import sha256  # noqa: PLC0415 - only for this form

    seen: Counter[tuple[str, ...]] = Counter()
    rows = []
    for told in results:
        for finding in told.report.findings:
            path = told.file or told.report.title
            key = (path, finding.code, finding.subject, finding.message)
            seen[key] += 1  # the same words in two places are two findings
            rows.append(
                {
                    "description": printable(finding.message + (f" Fix: {finding.fix}" if finding.fix else "")),
                    "check_name": finding.code,
                    "fingerprint": sha256("\0".join([*key, str(seen[key])]).encode()).hexdigest(),
                    "severity": _QUALITY[finding.severity],
                    "location": {"path": printable(path), "lines": {"begin": (finding.at or (1, 1))[0]}},
                }
            )
    return json_text(rows)


def json_text(data: Any) -> str:
    """Readable JSON, in which unprintable characters (terminal controls, direction marks) are escaped."""
    import json  # noqa: PLC0415 - only for JSON

    text = json.dumps(data, indent=2, ensure_ascii=False)
    odd = {ord(mark): json.dumps(mark)[1:-1] for mark in set(text) if not mark.isprintable() and mark != "\n"}
    odd.update({0x7F: "\\u007f"} if 0x7F in odd else {})  # json leaves this one as it is
    return text.translate(odd) if odd else text


RENDERERS: Mapping[str, Callable[..., str]] = {
    "markdown": markdown,
    "github": github,
    "sarif": sarif,
    "codequality": codequality,
}
"""The formats of `FORMS` that are the same for every command."""
