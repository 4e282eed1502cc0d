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


def line(topic: str, guidance: Guidance) -> str:
    """A topic in one line: its question, else what recipes say first about it."""
    answer = next((row for row in guidance.answers if row.topic == topic), None)
    if answer:
        return f"{topic:28} {answer.asks}"
    rows = [row for row in guidance.errata if row.topic == topic]
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return f"{topic:28} {rows[0].says}{more}"


def errata_lines(row: Erratum, guidance: Guidance, knowledge: Knowledge, *, brief: bool = False) -> list[str]:
    """A statement, what is true, what to do, and where that stands."""
    found = [row.topic]
    parts = [("recipes say", row.says), (row.verdict, row.truth), ("do", row.do or ""), ("codes", ", ".join(row.codes))]
    if not brief:
        parts += [("source", item.shown) for item in sources_of(row, guidance, knowledge)]
        parts += [("note", row.note)]
    for name, text in parts:
        if text:
            found.append(named(name, text))
    return found


def answer_lines(
    row: AnswerPage, here: Iterable[str], guidance: Guidance, knowledge: Knowledge, *, brief: bool = False
) -> list[str]:
    """A question, its answer, and what the tables say for the host; yes or no goes first."""
    told = tuple(here)
    first = [item for item in told if item.startswith(("Yes", "No:", "No,"))]
    text = [row.asks, *(f"  {item}" for item in (*first, *row.says))]
    text += [named("here", item) for item in told if item not in first]
    text.append(named("do", row.do))
    return text if brief else [*text, *(named("source", item.shown) for item in sources_of(row, guidance, knowledge))]


def error_lines(row: Symptom, guidance: Guidance, knowledge: Knowledge, *, brief: bool = False) -> list[str]:
    """An error: what it means and what helps; with its log `cuenv diagnose` says more."""
    text = [f"{row.says} ({row.id})", named("why", unfilled(row.cause)), named("do", unfilled(row.remedy))]
    text += [named("", unfilled(row.command))] if row.command else []
    text += [named("codes", ", ".join(row.codes))] if row.codes else []
    return text if brief else [*text, *(named("source", item.shown) for item in sources_of(row, guidance, knowledge))]


def errata_plain(
    rows: Iterable[Erratum],
    guidance: Guidance,
    knowledge: Knowledge,
    asked: AskedQuestion | None = None,
    heres: Mapping[str, tuple[str, ...]] | None = None,
) -> ExplainDocument:
    """Pages as plain data, each with its sources in full."""

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
            "why": unfilled(row.cause),
            "remedy": unfilled(row.remedy),
            "command": unfilled(row.command),
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
    """The sources that a row of guidance names, its own or those of the facts."""
    return [guidance.sources.get(item) or knowledge.sources[item] for item in row.sources]


_OPEN = regex(r" ?\{([a-z]+)\}(?:\.x)?")


def unfilled(text: str) -> str:
    """A text of a symptom without a log: what a line would tell is left open."""
    return _OPEN.sub(lambda slot: {"host": "", "prefix": " $CONDA_PREFIX"}.get(slot[1], " ..."), text).strip()


def named(name: str, text: str) -> str:
    """A part behind its name, as one line: whoever prints it knows how wide the terminal is."""
    return f"  {name + ':' if name else '':12} {text}"
