"""What a finding code means and what it is linked with: text for people, and schema ``cuenv/code/1``."""

from __future__ import annotations

from typing import Any

from cuenv.finding_codes import CodePage


def lines(page: CodePage) -> list[str]:
    """The page as lines."""
    text = [f"{page.code} ({', '.join(page.severities)}): {page.means}", f"found by  {', '.join(page.by)}"]
    if page.rule:
        text.append(f"rule      {page.rule}, which also decides what 'cuenv resolve' chooses")
    if page.symptoms:
        text.append("shows as, where nobody looked before (cuenv diagnose LOG tells them apart):")
        text += [f"  {item.id:28} {item.says}" for item in page.symptoms]
    else:
        text.append("shows as  no error of the catalogue")
    if page.errata:
        text.append("recipes that lead to it:")
        text += [f"  {f'cuenv explain {item.id}':28} {item.says}" for item in page.errata]
    return text


def plain(page: CodePage) -> dict[str, Any]:
    """The page as plain data."""
    return {
        "schema": "cuenv/code/1",
        "code": page.code,
        "severities": list(page.severities),
        "means": page.means,
        "found_by": list(page.by),
        "rule": page.rule,
        "symptoms": [{"symptom": item.id, "layer": item.layer, "says": item.says} for item in page.symptoms],
        "errata": [{"id": item.id, "topic": item.topic, "says": item.says} for item in page.errata],
    }
