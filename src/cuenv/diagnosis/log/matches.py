"""What a scan finds in a log: symptoms, lines that fail and belong to none, and what the log tells in passing."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cuenv.core.record import dataclass, field
from cuenv.diagnosis.log.frames import Frame
from cuenv.diagnosis.log.lines import (
    Grade,
)
from cuenv.host.paste.reader import PastedFact
from cuenv.knowledge.guidance import Symptom


@dataclass(frozen=True, slots=True, kw_only=True)
class SymptomMatch:
    """A symptom in a log.

    Attributes:
        line: number of the first line that shows it, from 1.
        text: that line, for people: no control characters, no credentials, shortened.
        groups: the text of each named group of the pattern.
        count: lines that show it, up to `MANY`.
        kind: as the row has it; a remark that the log proves to be more is a cause.
        grade: how the line says it; of several lines, the gravest.
        last: number of the last line that says it so.
        ranks: the first ranks whose lines show it, as far as prefixes tell.
        frame: the frame that raised the exception, if a traceback near the end of the log shows it.
    """

    symptom: Symptom
    line: int
    text: str
    groups: Mapping[str, str]
    count: int = 1
    kind: str = "cause"
    grade: Grade = "line"
    last: int = 0
    ranks: tuple[str, ...] = ()
    frame: Frame | None = None

    @property
    def earlier(self) -> bool:
        """Whether it is an error that was made a remark, because the run went on long after it."""
        return self.kind == "remark" and self.symptom.kind != "remark" and self.grade in ("exception", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedLine:
    """A line that fails and belongs to no symptom.

    Attributes:
        outer: it says that something failed and not what.
        gpu: it may have to do with GPUs, torch or what is installed.
        own: it is an exception of the user's own data or program.
        said: the row that lets it speak for itself, where its message is a sentence.
    """

    line: int
    text: str
    grade: Grade
    outer: bool = False
    gpu: bool = False
    own: bool = False
    said: SymptomMatch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a log holds.

    Attributes:
        sightings: in the order of their first lines.
        failures: lines that fail and belong to no symptom, the first and the last of them.
        weak: lines at the end of the log that may fail, in weaker words.
        mentions: what the log says in passing: ``torch``, its ``cuda``, ``driver``, ``deepspeed``.
        pasted: the facts about the host and its packages from tool outputs in the log.
        chain: the line on which the last exception begins, with those that it is chained to; 0 without any.
        many: whether the log is of several processes.
        root: the rank that failed first, as the launcher says; empty where it does not.
        goes_on: the last line that shows a run at work; 0 where none near the end does.
        worked: the last line of a run that makes steps before its last failure; 0 without any.
        outlived: what stands up to this line has not ended the run, which makes steps long after it; 0 without any.
    """

    sightings: tuple[SymptomMatch, ...]
    failures: tuple[FailedLine, ...]
    weak: tuple[FailedLine, ...] = ()
    mentions: Mapping[str, str] = field(default_factory=dict)
    pasted: tuple[PastedFact, ...] = ()
    lines: int = 0
    size: int = 0
    chain: int = 0
    many: bool = False
    root: str = ""
    goes_on: int = 0
    worked: int = 0
    outlived: int = 0


def group_texts(found: re.Match[bytes]) -> dict[str, str]:
    """What the named groups of a pattern hold, as text."""
    return {name: value.decode("ascii", "replace") for name, value in found.groupdict().items() if value}
