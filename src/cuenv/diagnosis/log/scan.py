"""Scan a log of any size in bounded memory for symptoms, failures, and facts about the host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.diagnosis.log.frames import Frame, frame_before, frame_named
from cuenv.diagnosis.log.lines import (
    clean_line,
    fails,
    is_exception,
    is_gpu_related,
    is_installation_check,
    is_report,
    without_rank,
)
from cuenv.diagnosis.log.matches import FailedLine, Scan, SymptomMatch, group_texts
from cuenv.diagnosis.log.seek import LogSearch, SearchMarks
from cuenv.diagnosis.log.text import (
    last_activity,
    last_step,
    pip_success,
    printable_line,
    quoted_lines,
    survived_until,
    whole_lines,
)
from cuenv.host.paste.one_host import Passages
from cuenv.host.paste.reader import PastedFact
from cuenv.knowledge.guidance import Symptom, compile_pattern

_HEAD, _TAIL = 64 * 1024, 256 * 1024
_DISTANCE, _DISTANCE_MANY_AT_WORK, _DISTANCE_MANY_PROCESSES = 16 * 1024, 32 * 1024, 128 * 1024

_TRACEBACK = b"Traceback (most recent call last"
_PIP_FAILED = "pip-build-failed"
_CAPITALIZED_NAME = regex(rb"^(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{2,60}(?:: \S|\s*$)")  # an exception with any name
_PYTHON_ERROR = regex(rb"\b(?:Key|Index|Type|Attribute|Value|ZeroDivision|UnboundLocal|Name|Assertion)Error\b")
"""Exceptions that Python itself raises."""
_PROGRAMMING_ERROR = regex(rb"\b(?:Key|Index|Type|Attribute|ZeroDivision|UnboundLocal|Name)Error\b")
"""Exceptions of Python that programs rarely raise to refuse a value."""


def scan(blocks: Iterable[bytes], symptoms: Iterable[Symptom]) -> Scan:
    """Scan a log.

    Args:
        blocks: its bytes, in pieces of any length.
        symptoms: the table.
    """
    passages = Passages()
    search = LogSearch(tuple(symptoms), passages)
    size = lines = 0
    head = tail = b""
    for text, first, raw in whole_lines(blocks):
        size += raw
        search.feed(text, first)
        lines = first - 1 + text.count(b"\n") + (not text.endswith(b"\n"))
        head = head if len(head) >= _HEAD else (head + text)[:_HEAD]
        tail = (tail + text[-_TAIL:])[-_TAIL:]
    total = lines if size else 0
    search.feed_wrapped(tail, total - tail.count(b"\n") + (1 if tail.endswith(b"\n") else 0))
    if len(head) >= _HEAD:
        search.feed_wrapped(head, 1)
    weak = search.weak_failures(tail, total)
    log_end = _LogEnd(tail, total)
    matches = tuple(log_end.with_frame(one) for one in search.matches())
    failed = search.failures(total)
    known = {*(one.line for one in failed), *(line for where in search.lines_of.values() for line in where)}
    failed = tuple(sorted((*failed, *log_end.unnamed_exceptions(known)), key=lambda one: one.line))
    failures = tuple(log_end.with_message(log_end.classified(one, search.sought)) for one in failed)
    done = 0 if search.last_exception else pip_success(tail, total)
    failed_build = any(one.symptom.id == _PIP_FAILED for one in matches)
    if done and (not failed_build or log_end.names_all(done, passages.facts())):
        failures = tuple(one for one in failures if one.line > done)
        matches = tuple(_as_remark_if_built(one) if one.last < done else one for one in matches)
    causes = [one.last for one in matches if one.kind != "remark" and one.grade != "warning"]
    last = max((*causes, *(one.line for one in (*failures, *weak))), default=0)
    on = last_activity(tail, total)
    far = (_DISTANCE_MANY_AT_WORK if on > last else _DISTANCE_MANY_PROCESSES) if search.many_processes else _DISTANCE
    return Scan(
        matches=matches,
        failures=failures,
        weak_failures=weak,
        mentions=search.mentions,
        pasted=passages.facts(),
        lines=total,
        size=size,
        last_exception=search.last_exception,
        many_processes=search.many_processes,
        first_failed_rank=search.first_failed_rank,
        last_activity=on,
        last_step=last_step(tail, total, _last_failure(matches, (*failures, *weak), search.last_exception)),
        survived_until=max(search.later_run, survived_until(tail, total, far, ends=on > last)),
    )


def _as_remark_if_built(one: SymptomMatch) -> SymptomMatch:
    """Make an error of a build a remark, because pip reported success after it."""
    return replace(one, kind="remark") if one.symptom.layer == "build" and one.grade != "exception" else one


class _LogEnd:
    """The lines at the end of a log, to find the frames that raised their exceptions."""

    def __init__(self, tail: bytes, total: int) -> None:
        self.lines = tail.split(b"\n")
        self.first = total - tail.count(b"\n") + tail.endswith(b"\n")

    def names_all(self, number: int, facts: Iterable[PastedFact]) -> bool:
        """Return whether a line of pip names every package whose wheel it could not build: it found another way."""
        failed = {fact.value.lower() for fact in facts if fact.fact == "failed"}
        said = printable_line(self.lines[number - self.first]).lower()
        return bool(failed) and all(re.search(rf" {re.escape(name)}-[0-9]", said) for name in failed)

    def raising_frame(self, number: int) -> Frame | None:
        """Return the frame that raised the exception of a line; ``None`` if the line is not near the end."""
        lines, index = self._lines_around(number)
        return frame_before(lines, index) if lines else None

    def _lines_around(self, number: int) -> tuple[list[bytes], int]:
        """Return the lines around an exception and its index; for an exception in a string, the lines of the string."""
        index = number - self.first
        if not 0 <= index < len(self.lines):
            return [], 0
        inside = quoted_lines(self.lines[index])
        at = next((at for at in range(len(inside) - 1, 0, -1) if is_exception(inside[at])), 0)
        return (inside, at) if at else (self.lines, index)

    def unnamed_exceptions(self, known: set[int]) -> Iterator[FailedLine]:
        """Yield exceptions that have no usual exception name, but follow the frames of a traceback."""
        inside = False
        for index, raw in enumerate(self.lines):
            if _TRACEBACK in raw:
                inside = b"ignored" not in self.lines[index - 1]
                continue
            line = without_rank(clean_line(raw))
            if not inside or not line.strip() or line[:1] in (b" ", b"\t"):
                continue
            inside = False
            number = self.first + index
            if _CAPITALIZED_NAME.search(line) and number not in known and not fails(line):
                yield FailedLine(
                    line=number, text=printable_line(raw), grade="exception", gpu_related=is_gpu_related(line)
                )

    def with_frame(self, one: SymptomMatch) -> SymptomMatch:
        """Return a match with the frame that raised its exception."""
        if one.grade not in ("exception", "error"):
            return one
        return replace(one, frame=self.raising_frame(one.line) or self.raising_frame(one.last))

    def with_message(self, one: FailedLine) -> FailedLine:
        """Return a failure whose line ends with a colon with the next line, which is its message."""
        index = one.line - self.first + 1
        if not one.text.endswith(":") or not 0 < index < len(self.lines):
            return one
        message = printable_line(clean_line(self.lines[index]))
        return replace(one, text=f"{one.text} {message}") if message else one

    def classified(self, one: FailedLine, sought: SearchMarks) -> FailedLine:
        """Match an exception without a row to a row for its file: of the program, a package, or a setup.py.

        An exception that Python raised in a package stays unknown, but its match names the package.
        """
        lines, index = self._lines_around(one.line)
        if one.grade != "exception" or one.without_cause or not lines:
            return one
        line = clean_line(lines[index])
        frame = self.raising_frame(one.line) or frame_named(line)
        if frame is None:
            return one
        if frame.checked and is_report(line):
            return replace(one, without_cause=True, match=None)
        for row in sought.raised_rows:
            if not _row_applies(row, frame, line):
                continue
            found = next((hit for hit in (compile_pattern(text).search(line) for text in row.patterns) if hit), None)
            if found:
                return replace(one, match=_raised_match(row, one, found, frame))
        if one.match:
            return replace(one, match=replace(one.match, frame=frame))
        said = next(
            (_raised_match(row, one, found, frame) for row in sought.words if (found := _PYTHON_ERROR.search(line))),
            None,
        )
        return replace(one, match=said) if said and frame.package else one


def _row_applies(row: Symptom, frame: Frame, line: bytes) -> bool:
    """Return whether a row is about exceptions from this frame."""
    if row.within in ("setup", "setup-code"):
        refuses = frame.checked or not _PROGRAMMING_ERROR.search(line)
        return frame.file.endswith("setup.py") and refuses == (row.within == "setup")
    if frame.built or (row.within in ("package", "package-code")) != bool(frame.package):
        return False
    if row.within == "package-code":
        return not (frame.checked and is_installation_check(line))
    return row.within == "program" or (frame.checked and not is_installation_check(line))


def _raised_match(row: Symptom, one: FailedLine, found: re.Match[bytes], frame: Frame) -> SymptomMatch:
    """Return the match of an exception with a row for the file that raised it."""
    return SymptomMatch(
        symptom=row,
        line=one.line,
        text=one.text,
        groups=group_texts(found),
        kind=row.kind,
        grade=one.grade,
        last=one.line,
        frame=frame,
    )


def _last_failure(matches: Iterable[SymptomMatch], failures: Iterable[FailedLine], chain: int) -> int:
    """Return the line where the last failure begins: the last chain of exceptions, else the last failed line."""
    causes = (one.last for one in matches if one.kind != "remark")
    return chain or max((*causes, *(one.line for one in failures)), default=0)
