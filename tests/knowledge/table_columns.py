"""The columns of all tables as the README of the knowledge base shows them; run as a script, this writes them there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuenv.core.io.files import DATA
from cuenv.export import tables as delivery
from cuenv.knowledge import guidance, tables
from cuenv.knowledge.rows import Row
from cuenv.knowledge.schema import REQUIRED, Column, TableRow

PAGE = Path(DATA, "README.md")
BEGIN = "<!-- The rest is written by tests/knowledge/table_columns.py from the row types: change it there. -->\n"

GROUPS: Mapping[str, Mapping[str, type[TableRow]]] = {
    "": tables.TABLES,
    "guidance/": guidance.TABLES,
    "delivery/": delivery.TABLES,
}


def page() -> str:
    """The README with the columns as they are declared."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[0] + BEGIN + "\n".join(_columns())


def _columns() -> Iterator[str]:
    yield "\n## What every row carries\n"
    yield "All but `sources` and `guidance/codes.json` have these columns as well.\n"
    yield from _lines(Row)
    yield "\n## The tables\n"
    yield "The columns in **bold** are unique together. A cell that equals its default, or has no value, is left out."
    for folder, group in GROUPS.items():
        for name, of in group.items():
            if of is not tables.TABLES["sources"] or not folder:
                text = re.sub(r"``(.*?)``", r"`\1`", inspect.cleandoc(of.__doc__ or ""))
                yield f"\n### `{folder}{name}.json`\n\n{text}\n"
                yield from _lines(of)
    yield ""


def _lines(of: type[TableRow]) -> Iterator[str]:
    yield "| column | form | meaning | default |"
    yield "|---|---|---|---|"
    common = Row.schema.columns if issubclass(of, Row) and of is not Row else ()
    for item in of.schema.columns:
        if item not in common:
            key = f"**`{item.key}`**" if item.field in of.schema.key else f"`{item.key}`"
            yield f"| {key} | {item.cell.form} | {item.meaning} | {_default(item)} |"


def _default(item: Column) -> str:
    if item.default is REQUIRED:
        return "needed"
    words = {None: "", "": "empty", (): "empty", False: "`false`"}
    return words.get(item.default, f"`{item.default}`")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
