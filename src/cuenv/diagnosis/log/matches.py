"""The result of a scan: symptom matches, failures without a symptom, and facts that other lines mention."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cuenv.core.record import dataclass, field
from cuenv.diagnosis.log.frames import Frame
from cuenv.diagnosis.log.lines import Grade
from cuenv.host.paste.reader import PastedFact
from cuenv.knowledge.guidance import Symptom


@dataclass(frozen=True, slots=True, kw_only=True)
class SymptomMatch:
    """A symptom that lines of a log match."""

    symptom: Symptom
    line: int  # the number of the first matching line, from 1
    text: str  # that line, shortened, without control characters and credentials
    groups: Mapping[str, str]  # the text of each named group of the pattern
    count: int = 1  # the number of matching lines, up to `MANY`
    kind: str = "cause"  # the kind of the row, or ``cause`` for a remark that the log proves to be a cause
    grade: Grade = "line"  # the most severe grade of the matching lines
    last: int = 0  # the number of the last line with that grade
    ranks: tuple[str, ...] = ()  # the first ranks whose lines match, from the prefixes of the lines
    frame: Frame | None = None  # the frame that raised the exception, if a traceback near the end of the log shows it

    @property
    def survived(self) -> bool:
        """Return whether it is an error that became a remark because the run continued long after it."""
        return self.kind == "remark" and self.symptom.kind != "remark" and self.grade in ("exception", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedLine:
    """A line that reports a failure and matches no symptom."""

    line: int
    text: str
    grade: Grade
    without_cause: bool = False  # whether it reports a failure without its cause ("returned non-zero exit status")
    gpu_related: bool = False  # whether it may concern GPUs, torch or installed packages
    user_error: bool = False  # whether the exception comes from the user's data or program
    match: SymptomMatch | None = None  # the match with a row for any error message, if the message is a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The content of a log."""

    matches: tuple[SymptomMatch, ...]  # the symptom matches, in the order of their first lines
    failures: tuple[FailedLine, ...]  # the first and the last failures that match no symptom
    # lines at the end of the log that may report a failure ("cannot", "not found")
    weak_failures: tuple[FailedLine, ...] = ()
    # versions that lines mention: ``torch``, its ``cuda``, ``driver``, ``deepspeed``
    mentions: Mapping[str, str] = field(default_factory=dict)
    pasted: tuple[PastedFact, ...] = ()  # the facts about the host and its packages from tool outputs in the log
    lines: int = 0
    size: int = 0
    last_exception: int = 0  # the line where the last chain of exceptions begins, or 0
    many_processes: bool = False  # whether several processes wrote the log
    first_failed_rank: str = ""  # the rank that failed first according to the launcher, or an empty text
    last_activity: int = 0  # the last line near the end that shows a running program, or 0
    last_step: int = 0  # the last line with a step of the run (training, progress) before its last failure, or 0
    survived_until: int = 0  # the run continued long after this line, so that no error up to it ended the run; or 0


def group_texts(found: re.Match[bytes]) -> dict[str, str]:
    """Return the text of each named group of a match."""
    return {name: value.decode("ascii", "replace") for name, value in found.groupdict().items() if value}
