"""The types of readers of pasted output, the facts that they find, and functions that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from re import Pattern
from typing import Any

from cuenv.core.record import NamedTuple
from cuenv.core.regex import regex
from cuenv.core.urls import printable, redact

_MOST_CHARACTERS = 160  # the most characters of a line in evidence

DRIVER_VERSION = r"[1-9][0-9]{2}\.[0-9]{1,3}(?:\.[0-9]{1,3})?"  # the pattern of a driver version
CUDA_RELEASE = r"[1-9][0-9]?\.[0-9]{1,2}"  # the pattern of a CUDA release


class PastedFact(NamedTuple):
    """One fact in a line."""

    fact: str  # its name, such as ``driver.version``, ``gpu.name`` or ``package``; `one_host.py` combines them
    value: str  # the value in the line
    line: int  # the number of the line, from 1
    shows: str  # the line for people
    about: str = ""  # which of several things of this kind: the index of a GPU, the name of a package
    host: str = ""  # which of several hosts; empty if the text is about one


class PasteReader(NamedTuple):
    """A reader of the output of one tool."""

    name: str  # the name of the tool
    marks: tuple[str, ...]  # strings, one of which is in every such output; logs are searched for them first
    reach: int  # the number of lines after a mark that belong to the output
    looks_like: Callable[[str], bool]  # whether a text contains such output
    read: Callable[[str], tuple[PastedFact, ...]]  # returns the facts in a text and ignores other lines
    # whether the output describes a host, so that ``--host FILE`` reads it; otherwise only software
    of_host: bool = True


class DocumentReader(NamedTuple):
    """A reader of the JSON of one tool."""

    name: str  # the name of the tool
    looks_like: Callable[[object], bool]  # whether a decoded document is from this tool
    # returns the facts in a document, given the number of its first line, and ignores everything else
    read: Callable[[Any, int], tuple[PastedFact, ...]]


def as_text(value: object) -> str:
    """A string or number in a document as text; empty for anything else."""
    return value if isinstance(value, str) else str(value) if type(value) in (int, float) else ""


_BEFORE = regex(r"^(?:[>\s]*> ?)?(?:\ufeff)?")


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers; a line with escaped line ends, as in JSON, is split."""
    for number, line in enumerate(text.split("\n"), start=1):
        whole = line.rstrip("\r")
        for part in whole.split("\\n") if "\\n" in whole else (whole,):
            yield number, _BEFORE.sub("", part.removesuffix("\\r"))


def search_lines(text: str, patterns: Iterable[tuple[str, Pattern[str]]]) -> Iterator[PastedFact]:
    """The facts that patterns find in lines: the value is the group ``value`` or the first; ``about`` is optional."""
    rows = tuple(patterns)
    for number, line in numbered_lines(text):
        for fact, pattern in rows:
            found = pattern.search(line)
            if found:
                groups = found.groupdict()
                yield PastedFact(
                    fact,
                    (groups.get("value") or found[1]).strip(),
                    number,
                    evidence_text(line),
                    groups.get("about") or "",
                )


def evidence_text(line: str) -> str:
    """A line as evidence: without control characters and credentials, and shortened."""
    text = " ".join(redact(printable(line)).split())
    return text[:_MOST_CHARACTERS] + ("..." if len(text) > _MOST_CHARACTERS else "")


def pattern_reader(
    name: str,
    marks: tuple[str, ...],
    reach: int,
    patterns: Iterable[tuple[str, Pattern[str]]],
    more: Callable[[str], Iterable[PastedFact]] = lambda _: (),
    *,
    of_host: bool = True,
) -> PasteReader:
    """A reader for which a mark suffices: each pattern finds a fact, and `more` finds those that need several lines."""
    return PasteReader(
        name,
        marks,
        reach,
        lambda text: any(mark in text for mark in marks),
        lambda text: (*search_lines(text, patterns), *more(text)),
        of_host,
    )
