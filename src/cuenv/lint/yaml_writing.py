"""How a lint of YAML writes what mends: the form of its fixes, and texts as scalars."""

from __future__ import annotations

import re

WRITE = "write "
"""A fix that begins so is the text that stands for the entry which the finding is about."""

_PLAIN = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_/.:=*<>~+|;-]*")


def written(text: str, *, plain: bool) -> str:
    """A text as a YAML scalar, in quotes unless ``plain`` is wanted and safe, also within ``[]``."""
    if plain and _PLAIN.fullmatch(text) and ": " not in text:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
