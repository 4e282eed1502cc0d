"""A file of nested values with the place of each: what YAML and JSON have in common."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "plain", "list", "map"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value and where it stands.

    Attributes:
        kind: ``text`` is a scalar in quotes, ``plain`` one without.
        start, end: of the value in the text, quotes and brackets included.
        text: of a scalar, without quotes.
        items: of a list.
        entries: keys and values of a mapping, in order.
    """

    kind: Kind
    start: int
    end: int
    text: str = ""
    items: tuple[Node, ...] = ()
    entries: tuple[tuple[Node, Node], ...] = ()

    def get(self, key: str) -> Node | None:
        """The value of a key of a mapping."""
        return next((value for name, value in self.entries if name.text == key), None)

    @property
    def scalar(self) -> bool:
        """Whether it is a text, a number or a word."""
        return self.kind in ("text", "plain")


WRITE = "write "
"""A fix that begins so is the text that stands for the entry which the finding is about."""

_PLAIN = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_/.:=*<>~+|;-]*")


def written(text: str, *, plain: bool) -> str:
    """A text as a YAML scalar, in quotes unless ``plain`` is wanted and safe, also within ``[]``."""
    if plain and _PLAIN.fullmatch(text) and ": " not in text:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
