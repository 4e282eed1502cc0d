"""What recipes say about CUDA and PyTorch, and what to know when training on a GPU, each with its sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from cuenv.core.errors import UsageError
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.versions import Capability
from cuenv.host.facts import sentence
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import Advice, AnswerPage, Erratum, Guidance, Symptom
from cuenv.knowledge.rows import Feature, GpuModel, Row, Source
from cuenv.resolver.decision_json import source_fields
from cuenv.resolver.lookup import which_gpu
from cuenv.resolver.rules import RULES

if TYPE_CHECKING:
    from cuenv.core.documents import (
        AdviceFields,
        AnswerFields,
        CodeDocument,
        ErratumFields,
        ExplainDocument,
        ExplainGpuDocument,
        KnownErrorFields,
        SourceFields,
    )
    from cuenv.diagnosis.answers import AskedQuestion


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


_OPEN = regex(r" ?\{([a-z]+)\}")


def unfilled(text: str) -> str:
    """A text of a symptom without a log: what a line would tell is left open."""
    return _OPEN.sub(lambda slot: {"host": "", "prefix": " $CONDA_PREFIX"}.get(slot[1], " ..."), text).strip()


def named(name: str, text: str) -> str:
    """A part behind its name, as one line: whoever prints it knows how wide the terminal is."""
    return f"  {name + ':' if name else '':12} {text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPage:
    """A GPU and what there is to say about it; ``model`` is ``None`` when only its capability is known."""

    capability: Capability
    model: GpuModel | None
    feature: Feature | None
    advice: tuple[Advice, ...]

    @property
    def title(self) -> str:
        """Its name, else its capability."""
        return self.model.name if self.model else f"compute capability {self.capability}"


def page(text: str, guidance: Guidance, knowledge: Knowledge) -> GpuPage:
    """What there is to say about a GPU.

    Args:
        text: a product or a capability.
        guidance: with the advice.
        knowledge: the tables.

    Raises:
        UsageError: no such GPU is known.
    """
    model, capability = which_gpu(text, knowledge)
    feature = knowledge.feature(capability, model.chip if model else "")
    name, tensor = (model.name if model else ""), (feature.tensor if feature else ())
    # Of a GPU that no row of features speaks of nobody can say what it lacks.
    rows = tuple(row for row in guidance.advice if row.concerns(name, tensor) and (feature or not row.lacks))
    return GpuPage(capability=capability, model=model, feature=feature, advice=rows)


def advice_lines(found: GpuPage, guidance: Guidance, knowledge: Knowledge, *, brief: bool = False) -> list[str]:
    """The page as text; ``brief`` leaves the sources out."""
    text = [found.title]
    for about, says, do, row in _parts(found):
        low = " (low confidence)" if row.low else ""
        text.append(named(about, f"{says}{low}"))
        text += [named("do", do)] if do else []
        if not brief:
            text += [named("source", item.shown) for item in sources_of(row, guidance, knowledge)]
    return text


def advice_plain(found: GpuPage, guidance: Guidance, knowledge: Knowledge) -> ExplainGpuDocument:
    """The page as plain data, schema ``cuenv/explain/1``."""
    entries: list[AdviceFields] = [
        {
            "about": about,
            "says": says,
            "do": do,
            "confidence": "low" if row.low else "high",
            "note": row.note,
            "sources": [source_fields(item) for item in sources_of(row, guidance, knowledge)],
        }
        for about, says, do, row in _parts(found)
    ]
    return {"schema": "cuenv/explain/1", "gpu": found.title, "capability": str(found.capability), "entries": entries}


def _parts(found: GpuPage) -> Iterator[tuple[str, str, str | None, Row]]:
    """What it is about, what is said, what to do, and the row that says so."""
    model, feature = found.model, found.feature
    if model:
        memory = "/".join(map(str, model.memory_gb))
        yield "card", f"compute capability {found.capability}, {model.architecture}, {model.kind}", None, model
        if memory:
            yield "memory", f"{memory} GB as sold", None, model
    if feature:
        yield "numbers", sentence(feature), None, feature
    for row in found.advice:
        yield row.about, row.says, row.do, row


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePage:
    """A code, and what is linked with it.

    Attributes:
        symptoms: errors that its finding announces.
        errata: half-true recipes that lead to it.
    """

    code: str
    severities: tuple[str, ...]
    means: str
    why: str
    cure: str
    example: str
    by: tuple[str, ...]
    rule: str | None
    symptoms: tuple[Symptom, ...]
    errata: tuple[Erratum, ...]


def code_page(text: str, guidance: Guidance) -> CodePage:
    """What is known about a code.

    Raises:
        UsageError: there is no such code.
    """
    wanted = text.strip().upper()
    row = next((row for row in guidance.codes if row.code == wanted), None)
    if row is None:
        near = [item.code for item in guidance.codes if item.code[:3] == wanted[:3]]
        known = f"; codes of this kind are {near[0]} to {near[-1]}" if near else ""
        raise UsageError(f"why {wanted}: unknown code{known}", hint=f"cuenv why {near[0] if near else 'CU401'}")
    return CodePage(
        code=row.code,
        severities=row.severities,
        means=row.means,
        why=row.why,
        cure=row.cure,
        example=row.example,
        by=row.by,
        rule=next((rule.name for rule in RULES if rule.locked and rule.code == wanted), None),
        symptoms=tuple(item for item in guidance.symptoms if wanted in item.codes),
        errata=tuple(item for item in guidance.errata if wanted in item.codes),
    )


def lines(page: CodePage) -> list[str]:
    """The page as lines."""
    text = [f"{page.code} ({', '.join(page.severities)}): {page.means}"]
    text += [
        f"{name:9} {said}" for name, said in (("why", page.why), ("cure", page.cure), ("example", page.example)) if said
    ]
    text.append(f"found by  {', '.join(page.by)}")
    if page.rule:
        text.append(f"rule      {page.rule}; 'cuenv resolve' applies it, too")
    if page.symptoms:
        text.append("if nobody mends it, you see one of these errors (cuenv diagnose LOG finds the one in a log):")
        text += [f"  {item.id:28} {item.says}" for item in page.symptoms]
    else:
        text.append("no known error message belongs to it")
    if page.errata:
        text.append("recipes that cause it:")
        text += [f"  {f'cuenv explain {item.id}':28} {item.says}" for item in page.errata]
    return text


def plain(page: CodePage) -> CodeDocument:
    """The page as plain data."""
    return {
        "schema": "cuenv/code/1",
        "code": page.code,
        "severities": list(page.severities),
        "means": page.means,
        "why": page.why,
        "cure": page.cure,
        "example": page.example,
        "found_by": list(page.by),
        "rule": page.rule,
        "symptoms": [{"symptom": item.id, "layer": item.layer, "says": item.says} for item in page.symptoms],
        "errata": [{"id": item.id, "topic": item.topic, "says": item.says} for item in page.errata],
    }
