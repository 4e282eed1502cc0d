"""The tables of docs/ that are made from the source: `python tests/doc_tables.py` writes them anew.

A table begins behind a comment ``<!-- made by tests/doc_tables.py: NAME -->`` and ends with its last row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from cuenv.knowledge.io.load import load, load_guidance
from cuenv.resolver.rules import RULES

DOCS = Path(__file__).resolve().parents[1] / "docs"
_MADE = re.compile(r"(<!-- made by tests/doc_tables\.py: (\w+) -->\n\n)((?:\|.*\n)*)")


def codes() -> list[str]:
    """Every finding code with its severities and its meaning."""
    rows = load_guidance(load(None)).codes
    table = [f"| {row.code} | {', '.join(row.severities)} | {row.means} |" for row in rows]
    return ["| code | severity | meaning |", "| --- | --- | --- |", *table]


def rules() -> list[str]:
    """Every rule with its code and the first line of its documentation."""
    table = [f"| `{rule.name}` | {rule.code} | {str(rule.judge.__doc__).splitlines()[0]} |" for rule in RULES]
    return ["| rule | code | holds when |", "| --- | --- | --- |", *table]


TABLES: Mapping[str, Callable[[], list[str]]] = {"codes": codes, "rules": rules}


def made(text: str) -> str:
    """A page with its tables made anew."""
    return _MADE.sub(lambda found: found[1] + "".join(f"{line}\n" for line in TABLES[found[2]]()), text)


if __name__ == "__main__":
    for page in DOCS.glob("*.md"):
        page.write_text(made(page.read_text(encoding="utf-8")), encoding="utf-8")
