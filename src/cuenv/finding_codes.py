"""What each finding code means: the rows of the table ``codes``, and the page that ``cuenv why CU203`` prints.

``docs/reference.md`` carries the same table; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuenv.diagnosis.symptoms import Symptom
from cuenv.errors import UsageError
from cuenv.guidance import Erratum, Guidance


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
        known = f"; of its kind there are {near[0]} to {near[-1]}" if near else ""
        raise UsageError(f"why {wanted}: no such code{known}", hint=f"cuenv why {near[0] if near else 'CU401'}")
    return CodePage(
        code=row.code,
        severities=row.severities,
        means=row.means,
        by=row.by,
        rule=row.rule,
        symptoms=tuple(item for item in guidance.symptoms if wanted in item.codes),
        errata=tuple(item for item in guidance.errata if wanted in item.codes),
    )
