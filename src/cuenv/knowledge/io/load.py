"""Reads the tables of the knowledge base: those in the package, and a folder that is laid over them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from cuenv.core.errors import KnowledgeError
from cuenv.core.io.files import DATA, make_folder, opened, path_text
from cuenv.core.reading import Faults, unique_keys
from cuenv.knowledge.base import Knowledge, LazyTable
from cuenv.knowledge.tables import TABLES, edition_of, merge, read_table

if TYPE_CHECKING:
    from pathlib import Path

    from cuenv.knowledge.guidance import Guidance

FOLDER: str | Path = DATA
"""Where `load` finds the tables: those that come with the package. Tests put a frozen copy in their place."""

GUIDANCE = f"{DATA}/guidance"  # where the tables of guidance lie

_HINT = "a table is a file such as torch.json; the README of the knowledge base names their columns"


def load(extra: Path | None = None) -> Knowledge:
    """Read the knowledge base.

    Args:
        extra: a folder with tables of its own (any of ``torch.json``, ``gpus.json`` ...), which replace rows with
            the same key and add the others.

    Raises:
        KnowledgeError: a table cannot be read, or a row in it is wrong.
    """
    base = load_from(FOLDER)
    return base if extra is None else _overlaid(base, extra)


@lru_cache(maxsize=2)
def load_from(folder: str | Path) -> Knowledge:
    """The tables of a folder, each read once and on first use.

    That every source and every row that they name is there, is a matter of `cuenv kb format` and of the tests.
    """
    later = {name: _lazy_table(folder, name) for name in TABLES}
    return Knowledge.from_lazy_tables({**later, "edition": LazyTable(partial(_edition, folder))})


def _edition(folder: str | Path) -> str:
    """The edition, which the table of sources names."""
    faults = Faults(str(folder), KnowledgeError)
    found = edition_of(decode(f"{folder}/sources.json"), faults)
    faults.check(hint=_HINT)
    return found


def _lazy_table(folder: str | Path, name: str) -> LazyTable:
    """A table of a folder.

    Raises:
        KnowledgeError: when it is asked for: it cannot be read, or a row in it is wrong.
    """
    path = f"{folder}/{name}.json"
    text = lru_cache(maxsize=1)(partial(_table_text, path))

    def read() -> Any:
        rows = read_table(name, decode(path), str(folder))
        return {row.id: row for row in rows} if name == "sources" else rows

    return LazyTable(
        read=read,
        names=lambda package: f'"package": {json.dumps(package, ensure_ascii=False)}' in text(),  # as `dump` writes it
    )


def overlay(base: Knowledge, folder: Path) -> Knowledge:
    """The knowledge base with the rows of a folder added; a missing or empty folder adds nothing.

    Raises:
        KnowledgeError: a table cannot be read, or a row in it is wrong.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return base
    return _overlaid(base, folder)


def _overlaid(base: Knowledge, folder: Path) -> Knowledge:
    return merge(base, {path.stem: decode(path, strict=True) for path in _tables_in(folder)}, path_text(folder))


def save(folder: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Write each table into a file of a folder, which is created if needed.

    Raises:
        OutsideError: it cannot be written.
    """
    from cuenv.core.io.writing import write_together  # noqa: PLC0415 - most runs write nothing

    make_folder(folder)
    files = [(folder / f"{name}.json", text) for name, text in texts.items()]
    write_together(files)
    return tuple(path for path, _ in files)


def read_texts(folder: Path) -> dict[str, str]:
    """The text of each table in a folder by its name.

    Raises:
        KnowledgeError: there is none, or one cannot be read.
    """
    return {path.stem: _table_text(path) for path in _tables_in(folder)}


def _table_text(path: str | Path) -> str:
    try:
        with opened(path) as stream:
            return bytes(stream.read()).decode()
    except OSError as error:
        raise KnowledgeError(f"{path_text(path)}: cannot be read: {error.strerror}", hint=_HINT) from error
    except UnicodeDecodeError as error:
        raise KnowledgeError(f"{path_text(path)}: not text in UTF-8: {error}", hint=_HINT) from error


def _tables_in(folder: Path) -> list[Path]:
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        raise KnowledgeError(f"{path_text(folder)}: cannot be read: {error.strerror}", hint=_HINT) from error
    if not found:
        raise KnowledgeError(f"{path_text(folder)}: holds no table (*.json)", hint=_HINT)
    return found


def decode(path: str | Path, *, strict: bool = False) -> object:
    """The JSON of a file; ``strict`` refuses a duplicate key in a mapping."""
    try:
        with opened(path) as stream:
            raw = stream.read()
        return json.loads(raw, object_pairs_hook=unique_keys if strict else None)
    except OSError as error:
        raise KnowledgeError(f"{path_text(path)}: cannot be read: {error.strerror}", hint=_HINT) from error
    except RecursionError as error:
        raise KnowledgeError(f"{path_text(path)}: nested too deep for a table", hint=_HINT) from error
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError among them
        raise KnowledgeError(f"{path_text(path)}: is not a table: {error}", hint=_HINT) from error


def load_guidance(knowledge: Knowledge) -> Guidance:
    """Read the tables of guidance, which may cite the sources of the facts.

    Raises:
        KnowledgeError: a table cannot be read, or a row in it is wrong.
    """
    return _guidance_citing(frozenset(knowledge.sources))


@lru_cache(maxsize=4)
def _guidance_citing(sources: frozenset[str]) -> Guidance:
    """The shipped tables, cached by the sources that they may cite."""
    from cuenv.knowledge import guidance  # noqa: PLC0415 - to decide nobody needs it

    tables = {name: decode(f"{GUIDANCE}/{name}.json") for name in guidance.TABLES}
    return guidance.parse_guidance(tables, sources, GUIDANCE)
