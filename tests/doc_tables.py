"""The tables of docs/ that are made from the source: `python tests/doc_tables.py` writes them anew.

A table begins behind a comment ``<!-- made by tests/doc_tables.py: NAME -->`` and ends with its last row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from cuenv.knowledge.io.guidance import load_guidance
from cuenv.knowledge.io.load import load

DOCS = Path(__file__).resolve().parents[1] / "docs"
_MADE = re.compile(r"(<!-- made by tests/doc_tables\.py: (\w+) -->\n\n)((?:\|.*\n)*)")


def codes() -> list[str]:
    """Every finding code with its severities and its meaning."""
    rows = load_guidance(load(None)).codes
    table = [f"| {row.code} | {', '.join(row.severities)} | {row.means} |" for row in rows]
    return ["| code | severity | meaning |", "| --- | --- | --- |", *table]


TABLES: Mapping[str, Callable[[], list[str]]] = {"codes": codes}


def made(text: str) -> str:
    """A page with its tables made anew."""
    return _MADE.sub(lambda found: found[1] + "".join(f"{line}\n" for line in TABLES[found[2]]()), text)


if __name__ == "__main__":
    for page in DOCS.glob("*.md"):
        page.write_text(made(page.read_text(encoding="utf-8")), encoding="utf-8")
