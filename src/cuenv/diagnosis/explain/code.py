"""The page of ``cuenv why`` about one finding code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuenv.core.errors import UsageError
from cuenv.core.record import dataclass
from cuenv.knowledge.guidance import Erratum, Guidance, Symptom
from cuenv.resolver.rules import RULES

if TYPE_CHECKING:
    from cuenv.diagnosis.documents import CodeDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePage:
    """A finding code and the guidance that refers to it."""

    code: str
    severities: tuple[str, ...]
    means: str
    why: str
    cure: str
    example: str
    by: tuple[str, ...]
    rule: str | None
    symptoms: tuple[Symptom, ...]  # errors that its finding announces
    errata: tuple[Erratum, ...]  # half-true recipes that lead to it


def code_page(text: str, guidance: Guidance) -> CodePage:
    """The page about a finding code.

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
        text.append(f"rule      {page.rule}; 'cuenv resolve' applies it too")
    if page.symptoms:
        text.append("uncorrected, it leads to one of these errors (cuenv diagnose LOG finds the one in a log):")
        text += [f"  {item.id:28} {item.says}" for item in page.symptoms]
    else:
        text.append("no known error message belongs to it")
    if page.errata:
        text.append("recipes that cause it:")
        text += [f"  {f'cuenv explain {item.id}':28} {item.says}" for item in page.errata]
    return text


def plain(page: CodePage) -> CodeDocument:
    """The page as JSON."""
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
