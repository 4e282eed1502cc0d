"""Read a log of any size in bounded memory: which symptoms stand in it, on which lines, and what the lines tell.

The log is bytes: ranks interleaved, colours, carriage returns of progress bars, text that is no UTF-8. Nothing is
decoded but the few lines that are shown. Work is linear: each byte is looked at once for each mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.core.urls import printable, redact
from cuenv.host.paste.reading import Passages
from cuenv.host.paste.told import Told
from cuenv.knowledge.guidance import Symptom, compiled

LINE = 64 * 1024
"""Bytes after which an endless line is cut."""
WINDOW = 2000
"""Bytes before and after a mark that a pattern may look at."""
MANY = 1000
"""Sightings of one symptom that are counted."""
_OVERLAP = 1024
_KEY = 5
_FAILURES = 3
_SHOWN = 300

_COLOURS = regex(rb"\x1b(?:\[[0-9;:?<=>]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[@-Z\\^_])")
_FAILURE_MARKS = (
    b"rror",
    b"RROR",
    b"Traceback",
    b"xception",
    b"atal",
    b"FATAL",
    b"Killed",
    b"ailed",
    b"FAILED",
    b"critical",
)
_FAILURE = regex(
    rb"Traceback \(most recent call last\)|\b[A-Za-z_.]{0,60}(?:Error|Exception)\b(?::|$)|"
    rb"\b(?:fatal )?error(?:\[[^\]\n]{0,40}\])?: (?![-+.0-9])|\bERROR\b|\bFATAL\b|\bfatal\b ?:|^Killed\b|\bFAILED\b|"
    rb"\b[Ff]ailed (?:to|with)\b|\b(?:error|critical) {1,8}libmamba\b",
    re.MULTILINE,
)
_MENTIONS: Mapping[str, tuple[bytes, re.Pattern[bytes]]] = {
    "torch": (b"+cu", re.compile(rb"\b([1-9]\.[0-9]{1,2}\.[0-9]{1,2}\+cu[0-9]{2,3})\b")),
    "cuda": (b"CUDA used to build PyTorch: ", re.compile(rb"CUDA used to build PyTorch: ([0-9]{1,2}\.[0-9])\b")),
    "driver": (b"Driver Version: ", re.compile(rb"Driver Version: ([0-9]{3}\.[0-9]{1,3}(?:\.[0-9]{1,3})?)\b")),
    "deepspeed": (b"deepspeed", re.compile(rb"deepspeed(?:==|[ =:-]{1,30}| info: version=)([0-9]+\.[0-9]+\.[0-9]+)\b")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SymptomMatch:
    """A symptom in a log.

    Attributes:
        line: number of the first line that shows it, from 1.
        text: that line, for people: no control characters, no credentials, shortened.
        told: what its named groups hold.
        count: lines that show it, up to `MANY`.
    """

    symptom: Symptom
    line: int
    text: str
    told: Mapping[str, str]
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a log holds.

    Attributes:
        sightings: in the order of their first lines.
        failures: the last lines that look like a failure, each with its number, whether a symptom knows them or not.
        mentions: what the log says in passing: ``torch``, its ``cuda``, ``driver``, ``deepspeed``.
        told: what outputs of tools in it tell of the host and of packages.
    """

    sightings: tuple[SymptomMatch, ...]
    failures: tuple[tuple[int, str], ...]
    mentions: Mapping[str, str] = field(default_factory=dict)
    told: tuple[Told, ...] = ()
    lines: int = 0
    size: int = 0


def scan(blocks: Iterable[bytes], symptoms: Iterable[Symptom]) -> Scan:
    """Look through a log.

    Args:
        blocks: its bytes, in pieces of any length.
        symptoms: the table.
    """
    rows = tuple(symptoms)
    seeker = _Seeker(rows)
    passages = Passages()
    size = lines = 0
    for text, first, raw in _whole_lines(blocks):
        size += raw
        seeker.look(text, first)
        passages.look(text, first)
        lines = first - 1 + text.count(b"\n") + (not text.endswith(b"\n"))
    return Scan(
        sightings=seeker.sightings(),
        failures=tuple(seeker.failures),
        mentions=seeker.mentions,
        told=passages.told(),
        lines=lines if size else 0,
        size=size,
    )


def shown(line: bytes, at: int = 0) -> str:
    """A line for people: the part around a place, without colours, control characters and credentials."""
    start = max(0, at - _SHOWN // 2) if at > _SHOWN else 0
    part = line[start : start + _SHOWN]
    text = redact(printable(part.decode("utf-8", "replace").strip()))
    return ("..." if start else "") + text + ("..." if start + _SHOWN < len(line) else "")


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, int, int]]:
    """Pieces of whole lines, the number of their first line, and how many bytes they were in the log."""
    rest, number, raw = b"", 1, 0
    for block in blocks:
        raw += len(block)
        text = rest + block
        cut = text.rfind(b"\n") + 1
        if not cut and len(text) < LINE:
            rest = text
            continue
        if not cut:  # an endless line: its end is looked at again, so that nothing is cut in two
            yield _plain(text), number, raw
            rest, raw = text[-_OVERLAP:], 0
            continue
        rest = text[cut:]
        yield _plain(text[:cut]), number, raw
        raw = 0
        number += text.count(b"\n", 0, cut)
    if rest or raw:
        yield _plain(rest), number, raw


def _plain(text: bytes) -> bytes:
    """Without colours, and UTF-16 as the ASCII in it."""
    if b"\0" in text:
        text = text.replace(b"\0", b"")
    if b"\x1b" in text:
        text = _COLOURS.sub(b"", text)
    return text


class _Seeker:
    """What was found so far."""

    def __init__(self, rows: tuple[Symptom, ...]) -> None:
        self.by_mark: dict[bytes, list[Symptom]] = {}
        for row in rows:
            for mark in row.marks:
                self.by_mark.setdefault(mark.encode(), []).append(row)
        self.by_key = keyed(frozenset(self.by_mark))
        self.order = {row.id: index for index, row in enumerate(rows)}
        self.besides = {mark.encode() for row in rows for mark in row.beside}
        self.first: dict[str, SymptomMatch] = {}
        self.where: dict[str, set[int]] = {row.id: set() for row in rows}
        self.there: set[bytes] = set()
        self.mentions: dict[str, str] = {}
        self.failures: list[tuple[int, str]] = []

    def look(self, text: bytes, first: int) -> None:
        """Look at whole lines, the first of which has this number."""
        for key, marks in self.by_key.items():
            if key in text:
                for mark in marks:
                    self._mark(mark, text, first)
        self.there.update(mark for mark in self.besides - self.there if mark in text)
        for name, (mark, pattern) in _MENTIONS.items():
            if name not in self.mentions and mark in text and (found := pattern.search(text)):
                self.mentions[name] = found[1].decode()
        self._last_failures(text, first)

    def _mark(self, mark: bytes, text: bytes, first: int) -> None:
        wanted = [row for row in self.by_mark[mark] if len(self.where[row.id]) < MANY]
        at = text.find(mark) if wanted else -1
        done, line = 0, first
        while at >= 0:
            start, end = _around(text, at)
            line += text.count(b"\n", done, start)
            done = start
            for row in wanted:
                self._match(row, text[start:end], line)
            at = text.find(mark, max(end, at + len(mark)))

    def _match(self, row: Symptom, part: bytes, line: int) -> None:
        for pattern in row.patterns:
            found = compiled(pattern).search(part)
            if not found:
                continue
            if len(self.where[row.id]) < MANY:
                self.where[row.id].add(line)
            if row.id not in self.first or line < self.first[row.id].line:
                told = {name: value.decode("ascii", "replace") for name, value in found.groupdict().items() if value}
                shows = shown(part, found.start())
                self.first[row.id] = SymptomMatch(symptom=row, line=line, text=shows, told=told)
            return

    def _last_failures(self, text: bytes, first: int) -> None:
        """The last lines that look like a failure: as many of the whole log are kept as are shown."""
        found: list[tuple[int, str]] = []
        places = {mark: text.rfind(mark) for mark in _FAILURE_MARKS}
        while len(found) < _FAILURES and (at := max(places.values())) >= 0:
            start, end = _around(text, at)
            if _FAILURE.search(text, start, end):
                found.append((first + text.count(b"\n", 0, start), shown(text[start:end], at - start)))
            for mark, place in places.items():
                if place >= start:  # the others are looked for no second time: the work stays linear
                    places[mark] = text.rfind(mark, 0, start)
        self.failures = [*self.failures, *reversed(found)][-_FAILURES:]

    def sightings(self) -> tuple[SymptomMatch, ...]:
        """All of them in the order of the log, but those whose company is missing."""
        found = []
        for name, item in self.first.items():
            needs = item.symptom.beside
            if needs and not any(mark.encode() in self.there for mark in needs):
                continue
            found.append(replace(item, count=len(self.where[name])))
        return tuple(sorted(found, key=lambda item: (item.line, self.order[item.symptom.id])))


@lru_cache(maxsize=4)
def keyed(marks: frozenset[bytes]) -> Mapping[bytes, tuple[bytes, ...]]:
    """A few short keys, and the marks that hold each: where no key stands, none of its marks needs to be looked for.

    The fewer keys, the fewer searches; the key that most marks share is taken first.
    """
    left = sorted(marks)
    found: dict[bytes, tuple[bytes, ...]] = {}
    while left:
        holders: dict[bytes, list[bytes]] = {}
        for mark in left:
            for key in {mark[at : at + _KEY] for at in range(max(1, len(mark) - _KEY + 1))}:
                holders.setdefault(key, []).append(mark)
        key = max(holders, key=lambda item: (len(holders[item]), item))
        found[key] = tuple(holders[key])
        left = [mark for mark in left if mark not in found[key]]
    return found


def _around(text: bytes, at: int) -> tuple[int, int]:
    """The line of a place, no more of it than a window; a carriage return ends a line as well."""
    low, high = max(0, at - WINDOW), min(len(text), at + WINDOW)
    start = max(text.rfind(b"\n", low, at), text.rfind(b"\r", low, at)) + 1 or low
    ends = [end for end in (text.find(b"\n", at, high), text.find(b"\r", at, high)) if end >= 0]
    return start, min(ends, default=high)
