"""Reads the tables of guidance that come with the package."""

from __future__ import annotations

from functools import lru_cache

from cuenv.core.io.files import DATA
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import TABLES, Guidance, parse_guidance
from cuenv.knowledge.io.load import decode

FOLDER = DATA / "guidance"


def load_guidance(knowledge: Knowledge) -> Guidance:
    """Read them; they may cite the sources of the tables of facts.

    Raises:
        KnowledgeError: a table cannot be read, or a row in it is wrong.
    """
    return _citing(frozenset(knowledge.sources))


@lru_cache(maxsize=4)
def _citing(sources: frozenset[str]) -> Guidance:
    """The tables of the package, read once for the sources that they may cite: linting asks for every file."""
    tables = {name: decode(FOLDER / f"{name}.json") for name in TABLES}
    return parse_guidance(tables, sources, str(FOLDER))
