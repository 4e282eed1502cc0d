"""The page of ``cuenv explain`` about one GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cuenv.core.record import dataclass
from cuenv.core.versions import Capability
from cuenv.host.facts import feature_sentence
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import Advice, Guidance
from cuenv.knowledge.rows import Feature, GpuModel, Row
from cuenv.resolver.decision_json import source_fields
from cuenv.resolver.lookup import which_gpu

if TYPE_CHECKING:
    from cuenv.diagnosis.documents import AdviceFields, ExplainGpuDocument


from cuenv.diagnosis.explain.pages import labelled, sources_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPage:
    """A GPU and the advice for it; ``model`` is ``None`` if only its compute capability is known."""

    capability: Capability
    model: GpuModel | None
    feature: Feature | None
    advice: tuple[Advice, ...]

    @property
    def title(self) -> str:
        """The name of the GPU, or its compute capability."""
        return self.model.name if self.model else f"compute capability {self.capability}"


def page(text: str, guidance: Guidance, knowledge: Knowledge) -> GpuPage:
    """The page about a GPU.

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
        text.append(labelled(about, f"{says}{low}"))
        text += [labelled("do", do)] if do else []
        if not brief:
            text += [labelled("source", item.shown) for item in sources_of(row, guidance, knowledge)]
    return text


def advice_plain(found: GpuPage, guidance: Guidance, knowledge: Knowledge) -> ExplainGpuDocument:
    """The page as JSON, schema ``cuenv/explain/1``."""
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
    """The subject, the statement, the advice, and the row of each."""
    model, feature = found.model, found.feature
    if model:
        memory = "/".join(map(str, model.memory_gb))
        yield "card", f"compute capability {found.capability}, {model.architecture}, {model.kind}", None, model
        if memory:
            yield "memory", f"{memory} GB as sold", None, model
    if feature:
        yield "numbers", feature_sentence(feature), None, feature
    for row in found.advice:
        yield row.about, row.says, row.do, row
