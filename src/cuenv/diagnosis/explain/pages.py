"""The pages of ``cuenv explain``: answers, errors, and what recipes say and what is true, each with its sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cuenv.core.regex import regex
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import AnswerPage, Erratum, Guidance, Symptom
from cuenv.knowledge.rows import Row, Source
from cuenv.resolver.decision_json import source_fields

if TYPE_CHECKING:
    from cuenv.core.documents import SourceFields
    from cuenv.diagnosis.documents import AnswerFields, ErratumFields, ExplainDocument, KnownErrorFields
    from cuenv.diagnosis.explain.question import AskedQuestion


def topic_line(topic: str, guidance: Guidance) -> str:
    """A topic in one line: its question, or the first statement of recipes about it."""
    answer = next((row for row in guidance.answers if row.topic == topic), None)
    if answer:
        return f"{topic:28} {answer.asks}"
    rows = [row for row in guidance.errata if row.topic == topic]
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return f"{topic:28} {rows[0].says}{more}"


def errata_lines(row: Erratum, guidance: Guidance, knowledge: Knowledge, *, brief: bool = False) -> list[str]:
    """A statement, the correction, the advice, and the sources."""
    found = [row.topic]
    parts = [("recipes say", row.says), (row.verdict, row.truth), ("do", row.do or ""), ("codes", ", ".join(row.codes))]
    if not brief:
        parts += [("source", item.shown) for item in sources_of(row, guidance, knowledge)]
        parts += [("note", row.note)]
    for name, text in parts:
        if text:
            found.append(labelled(name, text))
    return found


def answer_lines(
    row: AnswerPage, here: Iterable[str], guidance: Guidance, knowledge: Knowledge, *, brief: bool = False
) -> list[str]:
    """A question, its answer, and the lines of the tables for the host; yes or no comes first."""
    told = tuple(here)
    first = [item for item in told if item.startswith(("Yes", "No:", "No,"))]
    text = [row.asks, *(f"  {item}" for item in (*first, *row.says))]
    text += [labelled("here", item) for item in told if item not in first]
    text.append(labelled("do", row.do))
    return (
        text if brief else [*text, *(labelled("source", item.shown) for item in sources_of(row, guidance, knowledge))]
    )


def error_lines(row: Symptom, guidance: Guidance, knowledge: Knowledge, *, brief: bool = False) -> list[str]:
    """An error, its meaning and its remedy, without the details that only a log has."""
    text = [
        f"{row.says} ({row.id})",
        labelled("why", with_open_slots(row.cause)),
        labelled("do", with_open_slots(row.remedy)),
    ]
    text += [labelled("", with_open_slots(row.command))] if row.command else []
    text += [labelled("codes", ", ".join(row.codes))] if row.codes else []
    return (
        text if brief else [*text, *(labelled("source", item.shown) for item in sources_of(row, guidance, knowledge))]
    )


def errata_plain(
    rows: Iterable[Erratum],
    guidance: Guidance,
    knowledge: Knowledge,
    asked: AskedQuestion | None = None,
    heres: Mapping[str, tuple[str, ...]] | None = None,
) -> ExplainDocument:
    """Pages as JSON, each with its sources in full."""

    def cited(row: Row) -> list[SourceFields]:
        return [source_fields(item) for item in sources_of(row, guidance, knowledge)]

    entries: list[ErratumFields] = [
        {
            "id": row.id,
            "topic": row.topic,
            "says": row.says,
            "verdict": row.verdict,
            "true": row.truth,
            "do": row.do,
            "codes": list(row.codes),
            "confidence": "low" if row.low else "high",
            "note": row.note,
            "sources": cited(row),
        }
        for row in rows
    ]
    answers: list[AnswerFields] = [
        {
            "id": row.id,
            "topic": row.topic,
            "asks": row.asks,
            "says": list(row.says),
            "here": list((heres or {}).get(row.id, ())),
            "do": row.do,
            "confidence": "low" if row.low else "high",
            "note": row.note,
            "sources": cited(row),
        }
        for row in (asked.answers if asked else ())
    ]
    errors: list[KnownErrorFields] = [
        {
            "symptom": row.id,
            "says": row.says,
            "why": with_open_slots(row.cause),
            "remedy": with_open_slots(row.remedy),
            "command": with_open_slots(row.command),
            "codes": list(row.codes),
            "sources": cited(row),
        }
        for row in (asked.symptoms if asked else ())
    ]
    return {
        "schema": "cuenv/explain/1",
        "question": asked.question if asked else None,
        "answers": answers,
        "errors": errors,
        "entries": entries,
        "beside": list(asked.beside) if asked else [],
    }


def sources_of(row: Row, guidance: Guidance, knowledge: Knowledge) -> list[Source]:
    """The sources of a row of guidance."""
    return [guidance.sources.get(item) or knowledge.sources[item] for item in row.sources]


_OPEN_SLOT = regex(r" ?\{([a-z]+)\}(?:\.x)?")


def with_open_slots(text: str) -> str:
    """A text of a symptom without a log, in which the slots for the line stay open."""
    return _OPEN_SLOT.sub(lambda slot: {"host": "", "prefix": " $CONDA_PREFIX"}.get(slot[1], " ..."), text).strip()


def labelled(name: str, text: str) -> str:
    """A text after its label, as one line; the caller wraps it."""
    return f"  {name + ':' if name else '':12} {text}"
