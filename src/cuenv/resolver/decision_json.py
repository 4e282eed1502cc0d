"""Decisions and answers as JSON: schemas ``cuenv/decision/1`` and ``cuenv/why/1``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cuenv.core.findings import Finding
from cuenv.core.versions import Native
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Source
from cuenv.resolver.compose import cuda_channel
from cuenv.resolver.decision import Decision
from cuenv.resolver.explain import gpu_support, hints
from cuenv.resolver.rules import Verdict
from cuenv.resolver.why import Answer

if TYPE_CHECKING:  # types alone
    from cuenv.core.documents import SourceFields
    from cuenv.resolver.documents import ChosenFields, DecisionDocument, VerdictFields, WhyDocument
    from cuenv.resolver.resolve import Resolution


def decision_plain(decision: Decision, findings: Iterable[Finding] = ()) -> DecisionDocument:
    """A decision as plain data; ``chosen`` is null when nothing fits."""
    plain: DecisionDocument = {
        "schema": "cuenv/decision/1",
        "chosen": _chosen(decision),
        "host": decision.context.facts.label,
        "gpus": [
            {"capability": capability, "how": "native" if isinstance(how, Native) else "jit"}
            for capability, how in gpu_support(decision)
        ],
        "minimum_driver": decision.minimum_driver,
        "proven": decision.proven,
        "notes": [
            {"rule": verdict.rule, "outcome": verdict.outcome, "because": verdict.because}
            for verdict in (decision.chosen.verdicts if decision.chosen else ())
            if verdict.outcome in ("warn", "unknown")
        ],
        "skipped": [{"candidate": str(candidate), "missing": missing} for candidate, missing in decision.skipped],
        "rejected": [
            {"rule": group.rule, "because": group.because, "count": group.count, "example": str(group.example)}
            for group in decision.rejections
        ],
        "hints": [{"text": hint.text, "command": hint.command} for hint in hints(decision)],
        "warnings": [
            {"code": item.code, "severity": item.severity, "message": item.message, "fix": item.fix}
            for item in findings
        ],
    }
    if decision.context.request.as_of:
        plain["as_of"] = decision.context.request.as_of
    if decision.context.facts.members:  # a single machine's is that of the decision
        plain["minimum_drivers"] = [{"host": machine.label, "driver": low} for machine, low in decision.minimum_drivers]
    return plain


def resolution_plain(answer: Resolution) -> DecisionDocument:
    """A decision with its findings as plain data, and what it rests on."""
    plain = decision_plain(answer.decision, answer.findings)
    plain["records"] = answer.records or None
    if answer.lacking:
        plain["lacking"] = answer.lacking
    return plain


def _chosen(decision: Decision) -> ChosenFields | None:
    if decision.chosen is None:
        return None
    item = decision.chosen.candidate
    return {
        "stack": item.build.stack,
        "channel": cuda_channel(item) if item.cuda else None,
        "torch_channel": item.build.stack,
        "pytorch": str(item.build.version),
        "cuda": str(item.cuda) if item.cuda else None,
        "build": item.build.build,
        "python": item.python,
        "platform": item.build.platform,
    }


def answer_plain(answer: Answer, knowledge: Knowledge) -> WhyDocument:
    """An answer as plain data, each reason with its sources in full."""
    return {
        "schema": "cuenv/why/1",
        "question": answer.question,
        "answer": answer.says,
        "verdicts": [_verdict(verdict, count, knowledge) for verdict, count in answer.verdicts],
        "losses": [
            {"criterion": loss.criterion, "chosen": loss.chosen, "other": loss.other, "example": loss.example}
            for loss in answer.losses
        ],
    }


def _verdict(verdict: Verdict, count: int, knowledge: Knowledge) -> VerdictFields:
    return {
        "rule": verdict.rule,
        "outcome": verdict.outcome,
        "because": verdict.because,
        "grounds": [
            {
                "kind": reason.kind,
                "says": reason.says,
                "sources": [source_plain(item, knowledge) for item in reason.sources],
                "confidence": "low" if reason.low else "high",
            }
            for reason in verdict.reasons
        ],
        "remedy": verdict.remedy.text if verdict.remedy else None,
        "count": count,
    }


def source_plain(identifier: str, knowledge: Knowledge) -> SourceFields:
    """A source in full; evidence of a host has only its name."""
    source = knowledge.sources.get(identifier)
    return {"id": identifier} if source is None else source_fields(source)


def source_fields(source: Source) -> SourceFields:
    """Title, publisher, where in it, and the day, as plain data."""
    fields: SourceFields = {
        "id": source.id,
        "title": source.title,
        "publisher": source.publisher,
        "locator": source.locator,
        "read_on": source.read_on,
    }
    return {**fields, "url": source.url} if source.url else fields
