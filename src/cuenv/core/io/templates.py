"""The templates that ship as files in ``data/templates``, and the one substitution that fills them.

A placeholder is ``__word__``, so that a template is a valid script, Dockerfile or workflow for linters.
Lines between ``#[ word`` and ``#]`` are a block: it stands once for each mapping that is given for it. Comments for
shellcheck are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import groupby

from cuenv.core.io.files import DATA, read_text
from cuenv.core.regex import regex

_FOLDER = f"{DATA}/templates"
_PLACEHOLDER = regex(r"(?<!\.)__([a-z]+)__")  # behind a dot it is an attribute, as torch.__version__
_OPEN = regex(r"#\[ ([a-z]+)")
_CLOSE = "#]"
_LINTER = regex(r"\s*# shellcheck ")

Blocks = Mapping[str, Iterable[Mapping[str, str]] | bool]


def fill(name: str, values: Mapping[str, str], blocks: Blocks | None = None) -> str:
    """The text of a template. Values are put in once, and are quoted already for where they stand.

    Args:
        blocks: for each block its further values, once for each time that it stands; or whether it stands at all.

    Raises:
        KeyError: the template has a placeholder or a block that is not given.
    """
    parts: list[str] = []
    for block, lines in _parsed(name):
        given = (blocks or {})[block] if block else True
        rows: Iterable[Mapping[str, str]] = ([{}] if given else []) if isinstance(given, bool) else given
        for row in rows:
            known = {**values, **row}
            parts.append(_PLACEHOLDER.sub(lambda found, known=known: known[found[1]], lines))  # type: ignore[misc]
    return "".join(parts)


@cache
def _parsed(name: str) -> tuple[tuple[str, str], ...]:
    """The stretches of a template: the block that each belongs to, empty for none, and its text."""
    found: list[tuple[int, str, str]] = []
    block, number = "", 0
    for line in read_text(f"{_FOLDER}/{name}").splitlines(keepends=True):
        opened = _OPEN.fullmatch(line.strip())
        if opened or line.strip() == _CLOSE:
            block, number = opened[1] if opened else "", number + 1
        elif not _LINTER.match(line):
            found.append((number, block, line))
    return tuple(
        (block, "".join(line for _, _, line in lines)) for (_, block), lines in groupby(found, lambda item: item[:2])
    )
