"""Lint: mistakes in a file as it is written, their places, and the edits that correct them.

A rule yields `Lint` values over the text of one file. Edits are spans of that text, so that comments, order and
style of everything else survive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeVar

from cuenv.core.findings import Finding, Severity
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.versions import Capability

if TYPE_CHECKING:  # a type alone
    from cuenv.host.facts import HostFacts

KINDS = ("environment.yml", "conda-lock.yml", "requirements.txt", "pyproject.toml", "Dockerfile", "ds_config", "shell")
"""The kinds of files that are read."""

Place = TypeVar("Place")
_MAX_ROUNDS = 8  # an edit may uncover another finding; no file needs more rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The host that the files are for; a lint that needs a fact which is missing here reports nothing."""

    gpus: tuple[Capability, ...] = ()  # the compute capability of each GPU; empty where no host is named
    memory_mib: int | None = None  # of the host; ``None`` where it is not known
    facts: HostFacts | None = None  # everything that is known of the host; ``None`` where no host is named


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A replacement of the characters from ``start`` up to ``end``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """A finding at a place of a file."""

    finding: Finding
    at: int  # index of the character that it is about
    edits: tuple[Edit, ...] = ()  # what mends it without asking; none where somebody has to choose


def make_lint(  # noqa: PLR0917 - in the order of a printed finding; rules read better without names
    code: str, severity: Severity, at: int, subject: str, message: str, fix: str | None, *edits: Edit
) -> Lint:
    """A lint without evidence, at a character."""
    finding = Finding(code=code, severity=severity, subject=subject, message=message, fix=fix)
    return Lint(finding=finding, at=at, edits=edits)


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Line and column of a character, both from 1."""
    before = text[: max(0, at)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def sorted_lints(text: str, lints: Iterable[Lint]) -> tuple[Lint, ...]:
    """The lints by place, each once; a finding that is unknown is reported only at its first place."""
    unique: dict[tuple[str, int | None, str], Lint] = {}
    for item in sorted(lints, key=lambda item: (line_and_column(text, item.at), item.finding.code)):
        unique.setdefault((item.finding.code, None if item.finding.unknown else item.at, item.finding.message), item)
    return tuple(unique.values())


def apply_edits(text: str, lints: Iterable[Lint]) -> str:
    """The text with the edits of lints; of two edits on the same characters only the first is applied."""
    parts: list[str] = []
    done = 0
    changes = {(edit.start, edit.end, edit.text): lint.edits for lint in lints for edit in lint.edits}
    for start, end, new in sorted(changes):
        if start < done:
            continue
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def fix_text(text: str, rules: Callable[[str], Iterable[Lint]]) -> str:
    """The text with all edits applied, repeatedly until nothing changes, so that a second run changes nothing."""
    for _ in range(_MAX_ROUNDS):
        after = apply_edits(text, sorted_lints(text, rules(text)))
        if after == text:
            break
        text = after
    return text


def whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """The start and end of the whole lines that a span covers, with their line ends."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", max(start, end - 1))
    return first, len(text) if last < 0 else last + 1


Kind = Literal["text", "plain", "list", "map"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value and its place in the text."""

    kind: Kind  # ``text`` is a scalar in quotes, ``plain`` one without
    # start, end: of the value in the text, quotes and brackets included
    start: int
    end: int
    text: str = ""  # of a scalar, without quotes
    items: tuple[Node, ...] = ()  # of a list
    entries: tuple[tuple[Node, Node], ...] = ()  # keys and values of a mapping, in order

    def get(self, key: str) -> Node | None:
        """The value of a key of a mapping."""
        return next((value for name, value in self.entries if name.text == key), None)

    @property
    def scalar(self) -> bool:
        """Whether the value is a text, a number or a word."""
        return self.kind in ("text", "plain")


def place_of(finding: Finding, places: Mapping[str, Place]) -> Place | None:
    """The place of the first entry that a finding is about; ``None`` where no place is known.

    Args:
        places: of the entries of the file, by their texts.
    """
    return next((places[text] for text in finding.about if text in places), None)


def replacement_entry(finding: Finding) -> str:
    """The entry that the edit of a finding writes in place of the old one; empty without such an edit."""
    edit = finding.edits[0] if len(finding.edits) == 1 else None
    return edit.entries[0] if edit and edit.how == "write" and not (edit.over or edit.near) else ""


_PLAIN_SCALAR = regex(r"[A-Za-z0-9_/][A-Za-z0-9_/.:=*<>~+|;-]*")


def yaml_scalar(text: str, *, plain: bool) -> str:
    """A text as a YAML scalar, in quotes unless ``plain`` is requested and safe, also within ``[]``."""
    if plain and _PLAIN_SCALAR.fullmatch(text) and ": " not in text:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def fix_for_commands(finding: Finding) -> str | None:
    """The fix of a finding in words for commands, without the parts of an environment file."""
    if finding.mended_by_edits:
        return ", and ".join(edit.for_command for edit in finding.edits) or None
    return finding.fix
