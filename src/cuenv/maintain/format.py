"""Tables that a person has edited, in canonical order and form; what is wrong in them is named with its line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cuenv.core.errors import KnowledgeError
from cuenv.core.io.files import is_folder, shown
from cuenv.core.reading import Faults, once
from cuenv.core.regex import regex
from cuenv.export import tables as delivery
from cuenv.knowledge import guidance, tables
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.io.load import load, read_texts
from cuenv.knowledge.schema import TableRow, read_all, rows_in, text_of

GROUPS: Mapping[str, Mapping[str, type[TableRow]]] = {"guidance": guidance.TABLES, "delivery": delivery.TABLES}
"""The tables that lie in folders beside those of facts; each is checked whole."""

_HINT = "correct these lines and run it again; no file was changed. The README of the knowledge base names the columns"
_PATH = regex(r"(\w+)(?:\[(\d+)\])?")
_ROWS = regex(r'"rows"\s*:\s*\[')
_GAP = regex(r"[\s,]*")


class LineFaults(Faults):
    """Faults that begin with the file and the line of the row."""

    def __init__(self, folder: str, below: str, texts: Mapping[str, str]) -> None:
        super().__init__(folder, KnowledgeError)
        self.below, self.texts = below, texts

    def add(self, path: str, message: str) -> None:
        """Note a fault at a path such as ``torch[12].cuda``."""
        found = _PATH.match(path)
        if found and found[1] in self.texts:
            lines = row_lines(self.texts[found[1]]) if found[2] else []
            line = f":{lines[int(found[2])]}" if found[2] and int(found[2]) < len(lines) else ""
            path = f"{self.below}{found[1]}.json{line}: {path}"
        super().add(path, message)


def format_tables(folder: Path) -> dict[Path, tuple[str, str]]:
    """The text of each table in a folder, as it is and in canonical form.

    Raises:
        KnowledgeError: with every fault, its file and its line.
    """
    base = load()
    texts = read_texts(folder)
    found = {
        folder / f"{name}.json": (texts[name], text) for name, text in formatted(texts, base, shown(folder)).items()
    }
    known = frozenset(base.sources) | {row["id"] for row in json.loads(texts.get("sources", '{"rows": []}'))["rows"]}
    for group in GROUPS:
        if is_folder(folder / group):
            inner = read_texts(folder / group)
            new = formatted_group(group, inner, known, shown(folder))
            found |= {folder / group / f"{name}.json": (inner[name], text) for name, text in new.items()}
    return found


def formatted(texts: Mapping[str, str], base: Knowledge, folder: str) -> dict[str, str]:
    """The canonical texts of tables of facts.

    Args:
        texts: of each file, by the name of its table.
        base: what is known besides, when these are not all tables.
        folder: what to call it in an error.

    Raises:
        KnowledgeError: with every fault, its file and its line.
    """
    faults = LineFaults(folder, "", texts)
    data = _decoded(texts, faults)
    if set(data) >= set(tables.TABLES):
        tables.parse(data, faults=faults)
    else:
        tables.merge(base, data, faults=faults)
    return {name: _text(name, tables.TABLES[name], data[name], faults) for name in texts}


def formatted_group(group: str, texts: Mapping[str, str], known: frozenset[str], folder: str) -> dict[str, str]:
    """The same for the tables of a folder in `GROUPS`, which may cite known sources of the facts.

    Raises:
        KnowledgeError: with every fault, its file and its line.
    """
    faults = LineFaults(folder, f"{group}/", texts)
    data = _decoded(texts, faults)
    for name in sorted(set(data) - set(GROUPS[group])):
        faults.add(name, f"no such table; there are {', '.join(GROUPS[group])}")
    read_all(GROUPS[group], data, faults=faults, known=known)
    return {name: _text(name, GROUPS[group][name], data[name], faults) for name in texts}


def row_lines(text: str) -> list[int]:
    """The line at which each row of a table begins."""
    return [text.count("\n", 0, start) + 1 for start in _starts(text)]


def _starts(text: str) -> Iterator[int]:
    head = _ROWS.search(text)
    at = head.end() if head else len(text)
    while (at := _end_of_gap(text, at)) < len(text) and text[at] != "]":
        yield at
        try:
            at = json.JSONDecoder().raw_decode(text, at)[1]
        except ValueError:
            return


def _end_of_gap(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


def _decoded(texts: Mapping[str, str], faults: LineFaults) -> dict[str, Any]:
    found = {}
    for name, text in texts.items():
        try:
            found[name] = json.loads(text, object_pairs_hook=once)
        except json.JSONDecodeError as error:  # noqa: PERF203 - every file is looked at
            faults.add("", f"{faults.below}{name}.json:{error.lineno}: not JSON: {error.msg} at column {error.colno}")
        except RecursionError:
            faults.add(name, "nested too deep for a table")
        except ValueError as error:  # a key stands twice
            faults.add(f"{name}{_row_with_fault(text)}", str(error))
    faults.check(hint=_HINT)
    return found


def _row_with_fault(text: str) -> str:
    """The index of the first row in which a key stands twice, as ``[3]``; empty when it is outside of the rows."""
    strict = json.JSONDecoder(object_pairs_hook=once)
    for index, start in enumerate(_starts(text)):
        try:
            strict.raw_decode(text, start)
        except ValueError:  # noqa: PERF203 - the first that fails is the answer
            return f"[{index}]"
    return ""


def _text(name: str, of: type[TableRow], data: Any, faults: Faults) -> str:
    return text_of(name, of, rows_in(name, of, data, faults), data.get("edition"))
