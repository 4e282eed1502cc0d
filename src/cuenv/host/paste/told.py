"""What a reader of a paste yields: facts in words, each with the line that tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from re import Pattern
from typing import Any

from cuenv.core.record import NamedTuple
from cuenv.core.regex import regex
from cuenv.core.urls import printable, redact

SHOWN = 160
"""Characters of a line that evidence keeps."""

DRIVER = r"[1-9][0-9]{2}\.[0-9]{1,3}(?:\.[0-9]{1,3})?"
"""How a driver writes its version."""
LEVEL = r"[1-9][0-9]?\.[0-9]{1,2}"
"""How a CUDA release is written."""


class Told(NamedTuple):
    """One fact that a line tells.

    Attributes:
        fact: its name; ``driver.version``, ``gpu.name``, ``package``; `reading.py` makes facts of them.
        value: as the line has it.
        line: number of the line, from 1.
        shows: the line, for people.
        about: which of several things of this kind: the index of a GPU, the name of a package.
        host: which of several hosts; empty where a text tells of one.
    """

    fact: str
    value: str
    line: int
    shows: str
    about: str = ""
    host: str = ""


class PasteReader(NamedTuple):
    """A reader of the output of one tool.

    Attributes:
        name: of the tool, for evidence.
        marks: texts one of which stands in every such output; a log is searched for them before anything is read.
        reach: lines after a mark that belong to the output.
        looks_like: whether a text holds such an output.
        read: the facts in it. It takes any text, and lines of others yield nothing.
        of_host: whether it tells of the host itself, so that ``--host FILE`` takes it; others tell of software alone.
    """

    name: str
    marks: tuple[str, ...]
    reach: int
    looks_like: Callable[[str], bool]
    read: Callable[[str], tuple[Told, ...]]
    of_host: bool = True


class DocumentReader(NamedTuple):
    """A reader of the JSON of one tool.

    Attributes:
        name: of the tool, for evidence.
        looks_like: whether a decoded document is of this tool.
        read: the facts in it; gets the number of its first line. Whatever else stands in it yields nothing.
    """

    name: str
    looks_like: Callable[[object], bool]
    read: Callable[[Any, int], tuple[Told, ...]]


def textual(value: object) -> str:
    """A text or number of a document as text; anything else as nothing."""
    return value if isinstance(value, str) else str(value) if type(value) in (int, float) else ""


_BEFORE = regex(r"^(?:[>\s]*> ?)?(?:\ufeff)?")


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers; a line that holds escaped line ends, as JSON does, is several."""
    for number, line in enumerate(text.split("\n"), start=1):
        whole = line.rstrip("\r")
        for part in whole.split("\\n") if "\\n" in whole else (whole,):
            yield number, _BEFORE.sub("", part.removesuffix("\\r"))


def searched(text: str, patterns: Iterable[tuple[str, Pattern[str]]]) -> Iterator[Told]:
    """What patterns find line by line: the value is a group of this name, else the first; ``about`` says of what."""
    rows = tuple(patterns)
    for number, line in numbered(text):
        for fact, pattern in rows:
            found = pattern.search(line)
            if found:
                groups = found.groupdict()
                yield Told(
                    fact, (groups.get("value") or found[1]).strip(), number, shown(line), groups.get("about") or ""
                )


def shown(line: str) -> str:
    """A line as evidence: no control characters, no credentials, not endless."""
    text = " ".join(redact(printable(line)).split())
    return text[:SHOWN] + ("..." if len(text) > SHOWN else "")


def by_patterns(
    name: str,
    marks: tuple[str, ...],
    reach: int,
    patterns: Iterable[tuple[str, Pattern[str]]],
    more: Callable[[str], Iterable[Told]] = lambda _: (),
    *,
    of_host: bool = True,
) -> PasteReader:
    """A reader to which a mark is proof enough: each pattern tells a fact, `more` what no line tells alone."""
    return PasteReader(
        name,
        marks,
        reach,
        lambda text: any(mark in text for mark in marks),
        lambda text: (*searched(text, patterns), *more(text)),
        of_host,
    )
