"""What errors look like in a log: the rows of the table ``symptoms``, and how one is found in a line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cuenv.knowledge import columns
from cuenv.knowledge.columns import Column
from cuenv.knowledge.rows import Row

LAYERS = ("driver", "device", "install", "loader", "build", "extension", "memory", "multi-gpu", "container", "solve")
KINDS = ("cause", "effect", "remark")
ANY = "any"
"""In ``follows``: the row follows every cause that stands in the same log."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Symptom(Row):
    """An error message, what it means and what cures it.

    Attributes:
        id: stable, such as ``cusparse-header``.
        layer: one of `LAYERS`.
        kind: ``cause``; ``effect``, which something else has caused; ``remark``, which harms nothing.
        says: what it is, in one sentence.
        marks: a line can only be meant that holds one of these, letter by letter.
        patterns: one of them is found in the line; named groups are what the line tells.
        beside: one of these stands somewhere in the log; empty where the line alone is enough.
        cause: why it happens; ``{name}`` is what the line or the host tells.
        remedy: what helps, in words.
        command: the one command; ``{host}`` stands for the options that name the host.
        join: what of the host and the environment it is compared with, a name in `on_host.JOINS`.
        follows: causes that it is a mere follower of: ids, ``layer:NAME``, or ``any``.
        codes: findings by which cuenv notices the cause before it fails.
        seen: threads where it was met, ``owner/repository#number``.
    """

    id: str
    layer: str
    kind: str
    says: str
    marks: tuple[str, ...]
    patterns: tuple[str, ...]
    beside: tuple[str, ...]
    cause: str
    remedy: str
    command: str
    join: str | None
    follows: tuple[str, ...]
    codes: tuple[str, ...]
    seen: tuple[str, ...]

    def follower_of(self, other: Symptom) -> bool:
        """Whether another symptom of the same log explains this one."""
        if other.id in self.follows or f"layer:{other.layer}" in self.follows:
            return other.id != self.id
        return ANY in self.follows and other.kind == "cause" and ANY not in other.follows


@lru_cache(maxsize=512)
def compiled(pattern: str) -> re.Pattern[bytes]:
    """A pattern as it is looked for: in the bytes of a line, whatever their encoding."""
    return re.compile(pattern.encode())


def _pattern(value: Any) -> str:
    text = columns.text(value)
    try:
        compiled(text)
    except re.error as error:
        raise ValueError(f"expected a regular expression, got {text!r}: {error}") from error
    return text


_ID = columns.shaped(r"[a-z0-9]+(-[a-z0-9]+)*", "an id such as cusparse-header")
_FOLLOWED = columns.shaped(r"any|layer:[a-z-]+|[a-z0-9]+(-[a-z0-9]+)*", "an id, layer:NAME or any")
_THREAD = columns.shaped(r"[\w.-]+/[\w.-]+#[0-9]+", "a thread such as owner/repository#1")

SYMPTOM = (
    Column("id", _ID, columns.same),
    Column("layer", columns.one_of(*LAYERS), columns.same),
    Column("kind", columns.one_of(*KINDS), columns.same, absent="cause"),
    Column("says", columns.text, columns.same),
    Column("marks", columns.several(columns.text), list),
    Column("patterns", columns.several(_pattern), list),
    Column("beside", columns.several(columns.text), list, absent=()),
    Column("cause", columns.text, columns.same),
    Column("remedy", columns.text, columns.same),
    Column("command", columns.text, columns.same),
    Column("join", columns.shaped(r"[a-z]+(_[a-z]+)*", "a name such as driver_floor"), columns.same, absent=None),
    Column("follows", columns.several(_FOLLOWED), list, absent=()),
    Column("codes", columns.several(columns.shaped(r"CU[1-6][0-9]{2}", "a code such as CU203")), list, absent=()),
    Column("seen", columns.several(_THREAD), list, absent=()),
)
