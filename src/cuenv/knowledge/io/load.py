"""Reads the tables of the knowledge base: those in the package, and a folder that is laid over them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from cuenv.core.errors import KnowledgeError
from cuenv.core.io.files import DATA, make_folder, opened, shown
from cuenv.core.reading import Faults, unique_keys
from cuenv.knowledge.base import Knowledge, PutOff
from cuenv.knowledge.tables import TABLES, edition_of, merge, read_table

if TYPE_CHECKING:
    from pathlib import Path

    from cuenv.knowledge.guidance import Guidance

FOLDER: str | Path = DATA
"""Where `load` finds the tables: those that come with the package. Tests put a frozen copy in their place."""

GUIDANCE = f"{DATA}/guidance"
"""Where the tables of guidance lie."""

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
    return base if extra is None else _merged(base, extra)


@lru_cache(maxsize=2)
def load_from(folder: str | Path) -> Knowledge:
    """The tables of a folder, each read when it is asked for, and once: they do not change while it runs.

    That every source and every row that they name is there, is a matter of `cuenv kb format` and of the tests.
    """
    later = {name: _put_off(folder, name) for name in TABLES}
    return Knowledge.putting_off({**later, "edition": PutOff(partial(_edition, folder))})


def _edition(folder: str | Path) -> str:
    """The edition, which stands in the table of sources, whose rows are seldom asked for."""
    faults = Faults(str(folder), KnowledgeError)
    found = edition_of(decode(f"{folder}/sources.json"), faults)
    faults.check(hint=_HINT)
    return found


def _put_off(folder: str | Path, name: str) -> PutOff:
    """A table of a folder.

    Raises:
        KnowledgeError: when it is asked for: it cannot be read, or a row in it is wrong.
    """
    path = f"{folder}/{name}.json"
    text = lru_cache(maxsize=1)(partial(_text, path))

    def read() -> Any:
        rows = read_table(name, decode(path), str(folder))
        return {row.id: row for row in rows} if name == "sources" else rows

    return PutOff(
        read=read,
        names=lambda package: f'"package": {json.dumps(package, ensure_ascii=False)}' in text(),  # as `dump` writes it
    )


def lay_over(base: Knowledge, folder: Path) -> Knowledge:
    """Lay the tables of a folder over others; a folder that is not there, or empty, adds nothing.

    Raises:
        KnowledgeError: a table cannot be read, or a row in it is wrong.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return base
    return _merged(base, folder)


def _merged(base: Knowledge, folder: Path) -> Knowledge:
    return merge(base, {path.stem: decode(path, strict=True) for path in _tables_in(folder)}, shown(folder))


def save(folder: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Write tables into a folder, a file for each; the folder is made.

    Raises:
        OutsideError: it cannot be written.
    """
    from cuenv.core.io.writing import write_together  # noqa: PLC0415 - most runs write nothing

    make_folder(folder)
    files = [(folder / f"{name}.json", text) for name, text in texts.items()]
    write_together(files)
    return tuple(path for path, _ in files)


def read_texts(folder: Path) -> dict[str, str]:
    """The text of each table in a folder, by its name.

    Raises:
        KnowledgeError: there is none, or one cannot be read.
    """
    return {path.stem: _text(path) for path in _tables_in(folder)}


def _text(path: str | Path) -> str:
    try:
        with opened(path) as stream:
            return bytes(stream.read()).decode()
    except OSError as error:
        raise KnowledgeError(f"{shown(path)}: cannot be read: {error.strerror}", hint=_HINT) from error
    except UnicodeDecodeError as error:
        raise KnowledgeError(f"{shown(path)}: not text in UTF-8: {error}", hint=_HINT) from error


def _tables_in(folder: Path) -> list[Path]:
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        raise KnowledgeError(f"{shown(folder)}: cannot be read: {error.strerror}", hint=_HINT) from error
    if not found:
        raise KnowledgeError(f"{shown(folder)}: holds no table (*.json)", hint=_HINT)
    return found


def decode(path: str | Path, *, strict: bool = False) -> object:
    """The JSON of a file; ``strict`` refuses a key that appears twice in one mapping."""
    try:
        with opened(path) as stream:
            raw = stream.read()
        return json.loads(raw, object_pairs_hook=unique_keys if strict else None)
    except OSError as error:
        raise KnowledgeError(f"{shown(path)}: cannot be read: {error.strerror}", hint=_HINT) from error
    except RecursionError as error:
        raise KnowledgeError(f"{shown(path)}: nested too deep for a table", hint=_HINT) from error
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError among them
        raise KnowledgeError(f"{shown(path)}: is not a table: {error}", hint=_HINT) from error


def load_guidance(knowledge: Knowledge) -> Guidance:
    """Read the tables of guidance; they may cite the sources of the tables of facts.

    Raises:
        KnowledgeError: a table cannot be read, or a row in it is wrong.
    """
    return _citing(frozenset(knowledge.sources))


@lru_cache(maxsize=4)
def _citing(sources: frozenset[str]) -> Guidance:
    """The tables of the package, read once for the sources that they may cite: linting asks for every file."""
    from cuenv.knowledge import guidance  # noqa: PLC0415 - to decide nobody needs it

    tables = {name: decode(f"{GUIDANCE}/{name}.json") for name in guidance.TABLES}
    return guidance.parse_guidance(tables, sources, GUIDANCE)
