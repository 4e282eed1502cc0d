"""Read a log of any size in bounded memory: which symptoms stand in it, on which lines, and what the lines tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.diagnosis.log.frames import Frame, frame_before, frame_named
from cuenv.diagnosis.log.lines import fails, in_rank, is_exception, of_an_installation, of_the_gpu, plain, reports
from cuenv.diagnosis.log.matches import FailedLine, Scan, SymptomMatch, group_texts
from cuenv.diagnosis.log.seek import Seeker, SoughtMarks
from cuenv.diagnosis.log.text import goes_on, installed, outlived, quoted_lines, shown, whole_lines, worked
from cuenv.host.paste.one_host import Passages
from cuenv.knowledge.guidance import Symptom, compiled

_HEAD, _TAIL = 64 * 1024, 256 * 1024
_BUFFERED, _BUFFERED_OF_MANY, _OF_MANY = 16 * 1024, 32 * 1024, 128 * 1024

_TRACEBACK = b"Traceback (most recent call last"
_PIP_FAILED = "pip-build-failed"
_UNNAMED = regex(rb"^(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{2,60}(?:: \S|\s*$)")
"""An exception of any name."""
_PYTHON = regex(rb"\b(?:Key|Index|Type|Attribute|Value|ZeroDivision|UnboundLocal|Name|Assertion)Error\b")
"""What Python itself raises."""
_OF_CODE = regex(rb"\b(?:Key|Index|Type|Attribute|ZeroDivision|UnboundLocal|Name)Error\b")
"""The same, as far as hardly a program raises it to refuse something."""


def scan(blocks: Iterable[bytes], symptoms: Iterable[Symptom]) -> Scan:
    """Look through a log.

    Args:
        blocks: its bytes, in pieces of any length.
        symptoms: the table.
    """
    passages = Passages()
    seeker = Seeker(tuple(symptoms), passages)
    size = lines = 0
    head = tail = b""
    for text, first, raw in whole_lines(blocks):
        size += raw
        seeker.look(text, first)
        lines = first - 1 + text.count(b"\n") + (not text.endswith(b"\n"))
        head = head if len(head) >= _HEAD else (head + text)[:_HEAD]
        tail = (tail + text[-_TAIL:])[-_TAIL:]
    total = lines if size else 0
    seeker.look_wrapped(tail, total - tail.count(b"\n") + (1 if tail.endswith(b"\n") else 0))
    if len(head) >= _HEAD:
        seeker.look_wrapped(head, 1)
    weak = seeker.weak(tail, total)
    ends = _End(tail, total)
    sightings = tuple(ends.placed(one) for one in seeker.sightings())
    failed = seeker.failures(total)
    known = {*(one.line for one in failed), *(line for where in seeker.where.values() for line in where)}
    failed = tuple(sorted((*failed, *ends.unnamed(known)), key=lambda one: one.line))
    failures = tuple(ends.judged(one, seeker.wanted) for one in failed)
    done = 0 if seeker.chain else installed(tail, total)
    if done and not any(one.symptom.id == _PIP_FAILED for one in sightings):
        failures = tuple(one for one in failures if one.line > done)
        sightings = tuple(_probed(one) if one.last < done else one for one in sightings)
    causes = [one.last for one in sightings if one.kind != "remark" and one.grade != "warning"]
    last = max((*causes, *(one.line for one in (*failures, *weak))), default=0)
    on = goes_on(tail, total)
    far = (_BUFFERED_OF_MANY if on > last else _OF_MANY) if seeker.many else _BUFFERED
    return Scan(
        sightings=sightings,
        failures=failures,
        weak=weak,
        mentions=seeker.mentions,
        pasted=passages.facts(),
        lines=total,
        size=size,
        chain=seeker.chain,
        many=seeker.many,
        root=seeker.root,
        goes_on=on,
        worked=worked(tail, total, _last_failure(sightings, (*failures, *weak), seeker.chain)),
        outlived=max(seeker.begun, outlived(tail, total, far, ends=on > last)),
    )


def _probed(one: SymptomMatch) -> SymptomMatch:
    """What a build only tried, which pip ended well."""
    return replace(one, kind="remark") if one.symptom.layer == "build" and one.grade != "exception" else one


class _End:
    """The lines at the end of a log: where the exceptions among them were raised."""

    def __init__(self, tail: bytes, total: int) -> None:
        self.lines = tail.split(b"\n")
        self.first = total - tail.count(b"\n") + tail.endswith(b"\n")

    def raising_frame(self, number: int) -> Frame | None:
        """Where the exception of a line was raised; ``None`` where the line is not near the end."""
        lines, index = self._place(number)
        return frame_before(lines, index) if lines else None

    def _place(self, number: int) -> tuple[list[bytes], int]:
        """The lines among which an exception stands, and which of them it is; those of a string where it is in one."""
        index = number - self.first
        if not 0 <= index < len(self.lines):
            return [], 0
        inside = quoted_lines(self.lines[index])
        at = next((at for at in range(len(inside) - 1, 0, -1) if is_exception(inside[at])), 0)
        return (inside, at) if at else (self.lines, index)

    def unnamed(self, known: set[int]) -> Iterator[FailedLine]:
        """Exceptions whose names do not tell that they are some: what stands behind the frames of a traceback."""
        inside = False
        for index, raw in enumerate(self.lines):
            if _TRACEBACK in raw:
                inside = b"ignored" not in self.lines[index - 1]
                continue
            line = in_rank(plain(raw))
            if not inside or not line.strip() or line[:1] in (b" ", b"\t"):
                continue
            inside = False
            number = self.first + index
            if _UNNAMED.search(line) and number not in known and not fails(line):
                yield FailedLine(line=number, text=shown(raw), grade="exception", gpu=of_the_gpu(line))

    def placed(self, one: SymptomMatch) -> SymptomMatch:
        """A symptom with the place where it was raised."""
        if one.grade not in ("exception", "error"):
            return one
        return replace(one, frame=self.raising_frame(one.line) or self.raising_frame(one.last))

    def judged(self, one: FailedLine, wanted: SoughtMarks) -> FailedLine:
        """An exception that no row knows, judged by the file in which it was raised.

        One that Python raised in a package stays unknown, but names the package.
        """
        lines, index = self._place(one.line)
        if one.grade != "exception" or one.outer or not lines:
            return one
        line = plain(lines[index])
        frame = self.raising_frame(one.line) or frame_named(line)
        if frame is None:
            return one
        if frame.checked and reports(line):
            return replace(one, outer=True, said=None)
        for row in wanted.raised_rows:
            if not _judges(row, frame, line):
                continue
            found = next((hit for hit in (compiled(text).search(line) for text in row.patterns) if hit), None)
            if found:
                return replace(one, said=_raised(row, one, found, frame))
        if one.said:
            return replace(one, said=replace(one.said, frame=frame))
        said = next((_raised(row, one, found, frame) for row in wanted.words if (found := _PYTHON.search(line))), None)
        return replace(one, said=said) if said and frame.package else one


def _judges(row: Symptom, frame: Frame, line: bytes) -> bool:
    """Whether a row speaks of exceptions that are raised in such a place."""
    if row.within in ("setup", "setup-code"):
        refuses = frame.checked or not _OF_CODE.search(line)
        return frame.file.endswith("setup.py") and refuses == (row.within == "setup")
    if frame.built or (row.within == "package") != bool(frame.package):
        return False
    return row.within == "program" or (frame.checked and not of_an_installation(line))


def _raised(row: Symptom, one: FailedLine, found: re.Match[bytes], frame: Frame) -> SymptomMatch:
    """What a row makes of an exception by the file in which it was raised."""
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


def _last_failure(sightings: Iterable[SymptomMatch], failures: Iterable[FailedLine], chain: int) -> int:
    """The line with which the last failure begins: the last exception's chain, else the last line that fails."""
    causes = (one.last for one in sightings if one.kind != "remark")
    return chain or max((*causes, *(one.line for one in failures)), default=0)
