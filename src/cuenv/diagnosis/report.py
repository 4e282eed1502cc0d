"""Write a diagnosis as text, as findings, and as the JSON document ``cuenv/diagnosis/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuenv.core.findings import CheckResult, Finding, Report, Severity, counted
from cuenv.core.urls import printable
from cuenv.diagnosis.causes import Cause, Diagnosis
from cuenv.diagnosis.explain.pages import sources_of
from cuenv.diagnosis.log.matches import SymptomMatch
from cuenv.diagnosis.log.seek import MANY
from cuenv.host.describe import host_line
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import Guidance
from cuenv.resolver.decision_json import source_fields

if TYPE_CHECKING:  # types alone
    from cuenv.diagnosis.documents import CauseFields, LogDiagnosisDocument, SymptomFields

SEND = "cuenv inspect --json > host.json"  # the command whose output helps to explain an unknown log

_HEADS = {
    "known": "",
    "effect": "this log shows only consequences; the cause is earlier, or in the log of another rank",
    "harmless": "the log shows no failure",
    "unknown": "the log shows a failure that cuenv does not know",
    "clean": "the log shows nothing that looks like a failure",
}
_SURVIVED = "the run continued long after each error in the log, so none of them ended it"
_IN_WORDS = "cuenv knows nothing about this failure beyond the error message"


def lines(found: Diagnosis, guidance: Guidance, knowledge: Knowledge, *, verbose: bool, brief: bool) -> list[str]:
    """Return a diagnosis as lines of text, each with a label."""
    size = counted(found.lines, "line")
    text: list[str] = []
    words = found.in_words
    if found.verdict != "known":
        head = _IN_WORDS if words else _SURVIVED if found.survived else _HEADS[found.verdict]
        text.append(f"{found.verdict}  {size}: {head}")
    if found.verdict == "unknown" and not words:
        shown = {cause.match.line for cause in found.causes}
        text += [f"         line {number}: {line}" for number, line in found.unexplained if number not in shown]
    for index, cause in enumerate(found.causes):
        word = "also" if index or found.verdict == "unknown" else "cause"
        text += _cause(cause, guidance, knowledge, word=word, verbose=verbose, brief=brief)
    if found.verdict in ("unknown", "effect"):
        text.append("send     the logs of all ranks from the first error on, and the output of:")
        text.append(f"         {SEND}")
    if found.facts is not None and not brief and found.verdict == "known":
        text.append(f"host     {host_line(found.facts)}")
        if verbose:
            text += [f"         {item.fact}: {item.source}: {item.text}" for item in found.facts.evidence]
    text += [f"differs  {item}" for item in found.contradictions]
    return [printable(line) for line in text]


def _cause(
    cause: Cause, guidance: Guidance, knowledge: Knowledge, *, word: str, verbose: bool, brief: bool
) -> list[str]:
    row = cause.symptom
    mark = {"cause": word, "effect": "effect", "remark": "harmless", "words": "error", "raised": word}[cause.kind]
    mark = "earlier" if cause.match.survived else mark
    says = cause.match.text if cause.kind == "words" and brief else row.says
    text = [f"{mark:8} {says} ({row.id})"]
    if brief:
        return [*text, *([f"         {cause.command}"] if cause.command else [])]
    by = "do       (an administrator, when the machine is idle)" if cause.for_administrators else "do      "
    text += _line_text(cause.match)
    text.append(f"why      {cause.why}")
    text += [f"here     {item}" for item in cause.because]
    text.append(f"{by} {cause.remedy}")
    text += [f"         {cause.command}"] if cause.command else []
    if row.codes:
        text.append(
            f"codes    {', '.join(row.codes)}: cuenv why {row.codes[0]} names the check that finds this earlier"
        )
    if cause.followers:
        names = ", ".join(f"{item.symptom.id} (line {item.line})" for item in cause.followers)
        text.append(f"follows  {names}")
    if verbose:
        text.append(f"leads    {cause.reason}")
        for item in cause.followers:
            text += _line_text(item)
        text += [f"source   {source.shown}" for source in sources_of(row, guidance, knowledge)]
        if row.seen:
            text.append(f"seen     {', '.join(row.seen)}")
        if row.note:
            text.append(f"note     {row.note}")
    return text


def _line_text(item: SymptomMatch) -> list[str]:
    more = f" (and {item.count - 1}{'+' if item.count >= MANY else ''} more)" if item.count > 1 else ""
    return [f"line {item.line}{more}: {item.text}"]


def results(found: Diagnosis, log: str) -> list[CheckResult]:
    """Return the causes as findings at their lines of the log; the finding code is the id of the symptom."""
    severities: dict[str, Severity] = {"cause": "error", "words": "error", "raised": "error", "effect": "warning"}
    findings = [
        Finding(
            code=cause.symptom.id,
            severity=severities.get(cause.kind, "info"),
            subject=cause.symptom.layer,
            message=f"{cause.symptom.says}: {cause.why}",
            evidence=(cause.match.text, *cause.because),
            fix=cause.command or None,
            at=(cause.match.line, 1),
        )
        for cause in found.causes
    ]
    findings += [
        Finding(code="unknown", severity="error", subject="log", message=text, at=(number, 1))
        for number, text in found.unexplained
        if not found.in_words
    ]
    size = counted(found.lines, "line")
    report = Report(title=printable(log), findings=tuple(findings), looked_at=(size,))
    return [CheckResult(report=report, host=host_line(found.facts) if found.facts else "", file=printable(log))]


def document(found: Diagnosis, guidance: Guidance, knowledge: Knowledge) -> LogDiagnosisDocument:
    """Return a diagnosis as its JSON document."""
    return {
        "schema": "cuenv/diagnosis/1",
        "verdict": found.verdict,
        "ok": found.fine,
        "lines": found.lines,
        "bytes": found.size,
        "host": host_line(found.facts) if found.facts else None,
        "evidence": [
            {"fact": item.fact, "source": item.source, "text": item.text}
            for item in (found.facts.evidence if found.facts else ())
        ],
        "contradictions": list(found.contradictions),
        "mentions": dict(found.mentions),
        "causes": [_cause_fields(cause, rank, guidance, knowledge) for rank, cause in enumerate(found.causes, 1)],
        "unknown": [{"line": number, "text": text} for number, text in found.unexplained],
        "send": SEND if found.verdict in ("unknown", "effect") else None,
    }


def _cause_fields(cause: Cause, rank: int, guidance: Guidance, knowledge: Knowledge) -> CauseFields:
    row = cause.symptom
    return {
        **_symptom_fields(cause.match),
        "layer": row.layer,
        "kind": cause.kind,
        "rank": rank,
        "leads": cause.reason,
        "told": dict(cause.match.groups),
        "why": cause.why,
        "because": list(cause.because),
        "remedy": cause.remedy,
        "command": cause.command,
        "administrator": cause.for_administrators,
        "codes": list(row.codes),
        "followers": [_symptom_fields(item) for item in cause.followers],
        "confidence": "low" if row.low else "high",
        "sources": [source_fields(source) for source in sources_of(row, guidance, knowledge)],
        "seen": list(row.seen),
    }


def _symptom_fields(item: SymptomMatch) -> SymptomFields:
    return {
        "symptom": item.symptom.id,
        "says": item.symptom.says,
        "line": item.line,
        "text": item.text,
        "count": item.count,
    }
