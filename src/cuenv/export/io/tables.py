"""Reads the tables of deliveries that come with the package."""

from __future__ import annotations

from cuenv.core.io.files import DATA
from cuenv.export.tables import TABLES, Delivery, parse_delivery
from cuenv.knowledge.io.load import decode

FOLDER = DATA / "delivery"


def load_delivery() -> Delivery:
    """Read them.

    Raises:
        KnowledgeError: a table cannot be read, or a row in it is wrong.
    """
    return parse_delivery({name: decode(FOLDER / f"{name}.json") for name in TABLES}, str(FOLDER))
