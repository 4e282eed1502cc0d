"""Errata as text for people, and as plain data, schema ``cuenv/explain/1``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cuenv.formats.decision_json import source_fields
from cuenv.guidance import Erratum, Guidance
from cuenv.knowledge import Knowledge
from cuenv.rows import Row, Source


def line(topic: str, guidance: Guidance) -> str:
    """A topic in one line: what the first statement about it says."""
    rows = [row for row in guidance.errata if row.topic == topic]
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return f"{topic:28} {rows[0].says}{more}"


def lines(row: Erratum, guidance: Guidance, knowledge: Knowledge, *, brief: bool = False) -> list[str]:
    """A statement, what is true, what to do, and where that stands."""
    found = [f"{row.topic} ({row.id})"]
    parts = [("said", row.says), (row.verdict, row.truth), ("do", row.do or ""), ("codes", ", ".join(row.codes))]
    if not brief:
        parts += [("source", item.shown) for item in sources_of(row, guidance, knowledge)]
        parts += [("note", row.note)]
    for name, text in parts:
        if text:
            found.append(named(name, text))
    return found


def plain(rows: Iterable[Erratum], guidance: Guidance, knowledge: Knowledge) -> dict[str, Any]:
    """Statements as plain data, each with its sources in full."""
    entries = [
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
            "sources": [source_fields(item) for item in sources_of(row, guidance, knowledge)],
        }
        for row in rows
    ]
    return {"schema": "cuenv/explain/1", "entries": entries}


def sources_of(row: Row, guidance: Guidance, knowledge: Knowledge) -> list[Source]:
    """The sources that a row of guidance names, its own or those of the facts."""
    return [guidance.sources.get(item) or knowledge.sources[item] for item in row.sources]


def named(name: str, text: str) -> str:
    """A part behind its name, as one line: whoever prints it knows how wide the terminal is."""
    return f"  {name + ':':12} {text}"
