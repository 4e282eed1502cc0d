"""Search the lines of a log for symptoms, in bounded memory.

The search reads the first line of each shape (`lines.shape_of`), and all lines of a shape that contains a mark.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.diagnosis.log.lines import (
    FAILURE_MARKS,
    Grade,
    clean_line,
    fails,
    fails_weakly,
    failure_in,
    foreign_marks,
    grade_of,
    in_build_step,
    is_gpu_related,
    is_user_error,
    lacks_cause,
    message_of,
    raises,
    rank_of,
    shape_of,
    statuses_in,
    to_english,
    with_line_breaks,
    without_colours,
    without_echo,
)
from cuenv.diagnosis.log.marks import MarkIndex
from cuenv.diagnosis.log.matches import FailedLine, SymptomMatch, group_texts
from cuenv.diagnosis.log.text import AT_WORK, last_lines, lines_without_borders, printable_line, quoted_lines
from cuenv.host.paste.one_host import Passages
from cuenv.knowledge.guidance import Symptom, compile_pattern

WINDOW = 2000  # bytes before and after a mark that a pattern may look at
MANY = 1000  # the most matches of one symptom that are counted
_KEPT = 16
_OFTEN = 64
_SHAPES = 16 * 1024 * 1024
_SAMPLE = 8 * 1024
_WRAPPED_FROM = 36
_WRAPPED_OVER = 6
_NEAR = 12
_LAST = 3

_MENTIONS: Mapping[str, tuple[bytes, re.Pattern[bytes]]] = {
    "torch": (
        b"+cu",
        re.compile(rb"(?<!was trained with torch )(?<!/torch-)\b([1-9]\.[0-9]{1,2}\.[0-9]{1,2}\+cu[0-9]{2,3})\b"),
    ),
    "cuda": (b"CUDA used to build PyTorch: ", re.compile(rb"CUDA used to build PyTorch: ([0-9]{1,2}\.[0-9])\b")),
    "driver": (b"Driver Version: ", re.compile(rb"Driver Version: ([0-9]{3}\.[0-9]{1,3}(?:\.[0-9]{1,3})?)\b")),
    "deepspeed": (b"deepspeed", re.compile(rb"deepspeed(?:==|[ =:-]{1,30}| info: version=)([0-9]+\.[0-9]+\.[0-9]+)\b")),
    "extension": (b"-DTORCH_EXTENSION_NAME", re.compile(rb"-D(TORCH_EXTENSION)_NAME=")),
    "early": (b"torch/lib/include", re.compile(rb"-packages/(torch)/lib/include")),  # of torch 1.1 and before
    "inductor": (b"torch/_", re.compile(rb"/torch/_(dynamo|inductor)/")),
    "override": (b"BNB_CUDA_VERSION=", re.compile(rb"BNB_CUDA_VERSION=([0-9]{2,3}) environment variable detected")),
    "index": (
        b"Looking in ",
        re.compile(rb"Looking in (?:indexes|links): [^\n]{0,200}/whl/(cu[0-9]{2,3}|torch_stable)\b"),
    ),
}
_HOOK = b"Error in sys.excepthook:"  # Python prints this after an exception has already ended the program
_ASIDE = (b"Exception ignored in", b"Exception ignored while", b"Error in atexit.", _HOOK)
_DEBUG = regex(rb"\bDEBUG\b[^\n]{0,200}\b[Ff]ail")
"""A failure that a logger reports only for debugging: the traceback below it belongs to it."""
_ASIDE_REACH = 30
_CMAKE = b"CMake Error"
_TRACEBACK = b"Traceback (most recent call last"
_CHAINED = (b"During handling of the above exception", b"direct cause of the following exception")
_RANKS = (b"[rank", b"torch.distributed.elastic", b"local_rank", b"<stderr>", b"multiprocessing.spawn", b"[default")
_ROOT = b"(local_rank: "
_JOB_ENDED = b"slurmstepd: error: *** JOB"
_ENDED = (b"ChildFailedError", b":sigkill_handler]", _JOB_ENDED)
_BEGINS = (
    b"Setting OMP_NUM_THREADS environment variable for each process",
    b"Starting elastic_operator with launch configs",
    b"The following values were not passed to `accelerate launch`",
    b"WORLD INFO DICT",
)
"""Messages of launchers when a run has failed, and when one begins: after both, a later run follows in the log."""
_OTHERS, _FIRST = b"Failures:", b"Root Cause (first observed failure)"
"""Between these, torchrun lists the ranks that failed later."""
_STOPPED = regex(rb"exitcode {0,3}: -(?:9|15)\b|: Signal (?:9|15) \(SIG(?:KILL|TERM)\) received by PID")
"""How torchrun itself ends the ranks that are left: by SIGTERM, and after 30 seconds by SIGKILL."""
_ROOT_RANK = regex(rb"rank {0,8}: ([0-9]{1,5}) \(local_rank: ")
_RAISED_ORDER = {"setup": 0, "setup-code": 0, "package-code": 2}
"""The order in which rows for raised exceptions are tried: any other is 1."""
_BARE = regex(
    r"(?::|Error|Exception|StopIteration)$|(?:Error|Exception): \S{1,300}\.(?:cc|cpp|cuh?|hp?p?)[(: ] ?[0-9]{1,6}\)?$"
)
"""An exception without words of its own: it ends after its name, or has only the place in a source file."""
_QUIET = regex(rb"\b(?:INFO|DEBUG|info|debug|notice)\b|\[I |^I[0-9]{4} |^W: |warn|: [IW] (?:tensorflow|external)/")


class _LineShape:
    """A shape of lines: the rows and other marks in it, and the number of its lines so far."""

    __slots__ = ("count", "fails", "passages", "rows", "special")

    def __init__(
        self,
        rows: tuple[Symptom, ...],
        *,
        fails: bool,
        special: frozenset[bytes] | None = None,
        passages: tuple[bytes, ...] = (),
    ) -> None:
        self.rows = rows
        self.fails = fails
        self.special = special
        self.passages = passages
        self.count = 0


class SearchMarks:
    """The marks to search for, from the symptom table and from the tool outputs that a log may contain."""

    def __init__(self, rows: tuple[Symptom, ...], pasted: tuple[bytes, ...]) -> None:
        self.pasted_marks = {brief: mark for mark in pasted if (brief := shape_of(mark))}
        self.by_mark: dict[bytes, list[Symptom]] = {}
        self.words = tuple(row for row in rows if row.kind == "words")
        raised = (row for row in rows if row.kind == "raised")
        self.raised_rows = tuple(sorted(raised, key=lambda row: _RAISED_ORDER.get(row.within or "", 1)))
        for row in rows:
            for mark in () if row.kind in ("words", "raised") else row.search_marks:
                self.by_mark.setdefault(shape_of(mark.encode()), []).append(row)
        self.besides = {mark.encode() for row in rows for mark in (*row.beside, *row.proof, *row.unless)}
        self.by_shape: dict[bytes, set[bytes]] = {}
        for beside in self.besides:
            self.by_shape.setdefault(shape_of(beside), set()).add(beside)
        self.order = {row.id: index for index, row in enumerate(rows)}
        self.failing = frozenset(shape_of(mark.encode()) for mark in FAILURE_MARKS)
        self.foreign = frozenset(foreign_shapes())
        mentions = (mark for mark, _ in _MENTIONS.values())
        launched = (*_RANKS, _ROOT, _OTHERS, _FIRST, *_ENDED, *_BEGINS)
        special = (_TRACEBACK, *_CHAINED, *launched, *self.besides, *mentions)
        self.watched = frozenset(map(shape_of, special))
        self.marks = frozenset((*self.by_mark, *self.watched, *self.failing, *self.pasted_marks, *self.foreign))


_sought = lru_cache(maxsize=2)(SearchMarks)  # the marks of a table are computed once per process


class LogSearch:
    """The state of a search: the matches, failures and mentions so far."""

    def __init__(self, rows: tuple[Symptom, ...], passages: Passages) -> None:
        self.passages = passages
        self.sought = _sought(rows, passages.marks)
        self.marks = MarkIndex(self.sought.marks)
        self.first: dict[str, SymptomMatch] = {}
        self.lines_of: defaultdict[str, set[int]] = defaultdict(set)
        self.seen_marks: set[bytes] = set()
        self.mentions: dict[str, str] = {}
        self.without_marks: set[bytes] = set()
        self.with_marks: dict[bytes, _LineShape | None] = {}
        self.kept = 0
        self.early: list[FailedLine] = []
        self.late: deque[FailedLine] = deque(maxlen=_KEPT)
        self.without_cause: deque[FailedLine] = deque(maxlen=_LAST)
        self.exception = 0
        self.cmake = 0
        self.warned = 0
        self.aside = 0
        self.left = 0
        self.last_exception = 0
        self.linked = False
        self.many_processes = False
        self.first_failed_rank = ""
        self.others = False
        self.ended = False
        self.later_run = 0

    def feed(self, text: bytes, first: int) -> None:
        """Search whole lines; ``first`` is the number of the first one."""
        flat = shape_of(text)
        new = self._varied(flat) if _is_varied(flat) else self._learnt({*flat.split(b"\n")})
        there = new & self.with_marks.keys()
        pasted = {mark for shape in there for mark in self._pasted(shape)}
        if self.passages.wants(pasted, first):
            self.passages.look(without_colours(text), first, pasted)
        there = {shape for shape in there if not self._done(shape)}
        if not there:
            return
        shapes = flat.split(b"\n")
        lines = with_line_breaks(text).split(b"\n")
        hits = [index for index, shape in enumerate(shapes) if shape in there]
        last = {shapes[index]: index for index in hits}
        starts = list(accumulate((len(line) + 1 for line in lines), initial=0)) if b"\r" in text else []
        done, number = 0, first
        for index in hits:
            about = self.with_marks[shapes[index]]
            if about is not None:
                about.count += 1
                if about.count > _OFTEN and last[shapes[index]] != index and self._repeats(about):
                    continue
            if starts:
                number += text.count(b"\n", done, starts[index])
                done = starts[index]
            else:
                number = first + index
            for part in quoted_lines(lines[index]):
                self._line(part, number, about)

    def _pasted(self, shape: bytes) -> Iterable[bytes]:
        """Return the marks of tool outputs in a shape."""
        about = self.with_marks[shape]
        return about.passages if about else (mark for brief, mark in self.sought.pasted_marks.items() if brief in shape)

    def _done(self, shape: bytes) -> bool:
        """Return whether further lines of a shape add nothing; such a shape is dropped."""
        about = self.with_marks[shape]
        if about is None or about.rows or about.fails or about.count <= _OFTEN:
            return False
        wanted = {
            shape_of(mark) for mark in (_TRACEBACK, *_CHAINED, _OTHERS, _FIRST, *self.sought.besides - self.seen_marks)
        }
        wanted |= {shape_of(mark) for mark in _RANKS if not self.many_processes}
        wanted |= {shape_of(mark) for name, (mark, _) in _MENTIONS.items() if name not in self.mentions}
        wanted |= set() if self.first_failed_rank else {shape_of(_ROOT)}
        if about.special is None or about.special & wanted or self.passages.wants(about.passages, 1 << 62):
            return False
        del self.with_marks[shape]
        self.without_marks.add(shape)
        return True

    def _repeats(self, about: _LineShape) -> bool:
        """Return whether all rows of a frequent shape have `MANY` matches: then the last line of a block is enough."""
        return all(len(self.lines_of[row.id]) >= MANY for row in about.rows)

    def _learnt(self, new: set[bytes]) -> set[bytes]:
        """Sort new shapes into those with a mark and those without, which are never searched again."""
        fresh = new - self.without_marks - self.with_marks.keys()
        if fresh:
            coloured = {shape for shape in fresh if b"\x1b" in shape}
            for shape in coloured:
                bare = without_colours(shape)
                marks = {mark for mark in self.marks.candidates(bare) if mark in bare}
                if marks:
                    self._keep(shape, marks, bare)
            for shape, marks in self.marks.lines(b"\n".join(fresh - coloured)).items():
                self._keep(shape, marks, shape)
            self.without_marks |= fresh - self.with_marks.keys()
            self._count(fresh)
        return new

    def _varied(self, flat: bytes) -> set[bytes]:
        """Return the shapes with a mark in a text whose shapes rarely repeat."""
        found = self.marks.lines(flat)
        fresh = found.keys() - self.without_marks - self.with_marks.keys()
        for shape in fresh:
            self._keep(shape, found[shape], shape)
        self._count(fresh)
        return {*found}

    def _keep(self, shape: bytes, marks: set[bytes], bare: bytes) -> None:
        self.with_marks[shape] = self._about(marks, bare)

    def _count(self, fresh: set[bytes]) -> None:
        """Count the memory for shapes; when it is full, keep only the fresh ones."""
        self.kept += sum(map(len, fresh)) + 60 * len(fresh)
        if self.kept > _SHAPES:
            self.without_marks &= fresh
            self.with_marks = {shape: about for shape, about in self.with_marks.items() if shape in fresh}
            self.kept = sum(map(len, fresh)) + 60 * len(fresh)

    def _about(self, marks: set[bytes], shape: bytes) -> _LineShape | None:
        """Return the marks of a shape; ``None`` if each line needs a look because it is in another language."""
        if b"&" in shape or marks & self.sought.foreign:
            return None
        rows = {row.id: row for mark in marks for row in self.sought.by_mark.get(mark, ())}
        pasted = tuple(self.sought.pasted_marks[mark] for mark in marks if mark in self.sought.pasted_marks)
        return _LineShape(
            tuple(sorted(rows.values(), key=lambda row: self.sought.order[row.id])),
            fails=bool(marks & self.sought.failing),
            special=frozenset(marks & self.sought.watched),
            passages=pasted,
        )

    def _line(self, line: bytes, number: int, about: _LineShape | None) -> None:
        line = self._cleaned(line)
        if about is None:
            line = to_english(line)
            about = self._of_english(shape_of(line))
        if any(mark in line for mark in _ASIDE) or _DEBUG.search(line):
            self.aside = number
        if about.special is None or about.special:
            self._special(line, number, about.special)
        if self.others and _STOPPED.search(line):
            return
        known = False
        found = any(self._row(row, line, number) for row in about.rows if row.kind == "remark")
        if not found:  # a line that is a notice is nothing else
            for row in about.rows:
                if not row.general and self._row(row, line, number):
                    sure = self._companion_seen(row)
                    found, known = found or sure, known or (sure and row.kind == "cause")
            if not known and any(row.general for row in about.rows) and _fails(line[:WINDOW]):
                found = any(self._row(row, line, number) for row in about.rows if row.general) or found
        if about.fails and not found:
            self._failure(line, number)

    def _cleaned(self, line: bytes) -> bytes:
        """Return a line without its prefixes and what its commands would print."""
        if in_build_step(line):
            self.mentions.setdefault("step", "docker build")
        return without_echo(clean_line(line))

    def _is_aside(self, number: int, grade: Grade) -> bool:
        """Return whether a line belongs to an exception that Python ignores: at exit, or while it frees an object."""
        if number in (self.aside, self.left):
            return True
        if grade != "exception" or not self.left or number - self.left > _ASIDE_REACH:
            return False
        self.left = 0
        return True

    def _companion_seen(self, row: Symptom) -> bool:
        """Return whether the log has shown one of the marks that a row needs beside it."""
        return not row.beside or any(mark.encode() in self.seen_marks for mark in row.beside)

    def _of_english(self, shape: bytes) -> _LineShape:
        rows = {row.id: row for mark, rows in self.sought.by_mark.items() if mark in shape for row in rows}
        return _LineShape(tuple(rows.values()), fails=True)

    def _special(self, line: bytes, number: int, special: frozenset[bytes] | None) -> None:
        """Note tracebacks, ranks, mentions, and the marks that rows need beside them.

        ``special`` holds these marks of the line's shape, if they are known.
        """
        if _TRACEBACK in line and self.aside and number == self.aside + 1:
            self.left = number
        elif _TRACEBACK in line:
            self.last_exception = self.last_exception if self.linked and self.last_exception else number
            self.linked = False
        elif any(mark in line for mark in _CHAINED):
            self.linked = True
        self.many_processes = self.many_processes or any(mark in line for mark in _RANKS)
        self.ended = self.ended or any(mark in line for mark in _ENDED)
        if self.ended and any(mark in line for mark in _BEGINS):
            self.later_run, self.ended, self.last_exception, self.first_failed_rank = number, False, 0, ""
        if not self.first_failed_rank and _ROOT in line and (found := _ROOT_RANK.search(line)):
            self.first_failed_rank = found[1].decode()
        self.others = _FIRST not in line and (self.others or _OTHERS in line)
        wanted = self.sought.besides - self.seen_marks
        if special is not None:
            wanted &= {mark for brief in special for mark in self.sought.by_shape.get(brief, ())}
        self.seen_marks.update(mark for mark in wanted if mark in line)
        for name, (mark, pattern) in _MENTIONS.items():
            if name not in self.mentions and mark in line and (mentioned := pattern.search(line)):
                self.mentions[name] = mentioned[1].decode()

    def _row(self, row: Symptom, line: bytes, number: int) -> bool:
        for part in _parts(line, row):
            for pattern in row.patterns:
                found = compile_pattern(pattern).search(part)
                if found:
                    self._add_match(row, part, found, number)
                    return True
            for status in statuses_in(part) if row.statuses else ():
                if status.decode() in row.statuses and (found := re.search(rb"\b" + status + rb"\b", part)):
                    self._add_match(row, part, found, number)
                    return True
        return False

    def _add_match(self, row: Symptom, part: bytes, found: re.Match[bytes], number: int) -> None:
        grade = self._graded(part, found.start(), number)
        if len(self.lines_of[row.id]) < MANY:
            self.lines_of[row.id].add(number)
        rank = rank_of(part)
        before = self.first.get(row.id)
        if before is None or before.last < self.later_run:
            self.first[row.id] = SymptomMatch(
                symptom=row,
                line=number,
                text=printable_line(part, found.start()),
                groups=group_texts(found),
                kind=row.kind,
                grade=grade,
                last=number,
                ranks=(rank,) if rank else (),
            )
            return
        ranks = before.ranks
        if rank and rank not in ranks and len(ranks) < _KEPT:
            ranks = (*ranks, rank)
        if _GRAVITY[grade] < _GRAVITY[before.grade]:
            quoted = before.text.lstrip(" >").startswith("raise ")
            line, text = (number, printable_line(part, found.start())) if quoted else (before.line, before.text)
            before = replace(before, grade=grade, last=number, line=line, text=text)
        elif grade == before.grade:
            if _JOB_ENDED in part:  # the log of several jobs: the last one counts
                before = replace(before, line=number, text=printable_line(part, found.start()))
            before = replace(before, last=number)
        if grade == "exception":
            self.exception = 0
        self.first[row.id] = replace(before, ranks=ranks)

    def _graded(self, part: bytes, at: int, number: int) -> Grade:
        """Return the grade of a line at a position, with regard to the lines before it."""
        self.cmake = number if _CMAKE in part else self.cmake
        grade = grade_of(part, at)
        if self._is_aside(number, grade) or (self.warned and number == self.warned + 1):
            return "warning"  # it is only printed, or the message of a warning goes on
        if grade == "line" and 0 <= number - self.exception <= _LAST and self.exception:
            return "exception"  # the message of an exception goes on
        if grade == "line" and self.cmake and number - self.cmake <= _NEAR:
            return "error"  # the message of CMake stands below its head
        return grade

    def _failure(self, line: bytes, number: int) -> None:
        part = line[:WINDOW]
        message = message_of(part)
        if not message or not fails(part):
            return
        grade = grade_of(part, failure_in(part))
        if self._is_aside(number, grade) and _HOOK not in part:
            return
        if grade == "warning" and part.rstrip().endswith(b":"):
            self.warned = number
        outer = lacks_cause(part)
        if grade == "exception" and part.rstrip().endswith((b":", b"Error", b"Exception")):
            self.exception = number
        one = FailedLine(
            line=number,
            text=printable_line(part),
            grade=grade,
            without_cause=outer,
            gpu_related=is_gpu_related(part),
            user_error=grade == "exception" and is_user_error(part),
            match=None
            if outer or grade in ("warning", "line")
            else self._match_by_message(part, message, grade, number),
        )
        if outer:
            self.without_cause.append(one)
        else:
            if len(self.early) < _LAST and grade != "warning":
                self.early.append(one)
            self.late.append(one)

    def _match_by_message(self, part: bytes, message: bytes, grade: Grade, number: int) -> SymptomMatch | None:
        """Return the match of an error with a row for any error message."""
        for row in self.sought.words:
            found = next((hit for hit in (compile_pattern(one).search(message) for one in row.patterns) if hit), None)
            if found and not is_user_error(part):
                text = printable_line(part, found.start() if message is part else 0)
                return SymptomMatch(
                    symptom=row, line=number, text=text, groups={}, kind=row.kind, grade=grade, last=number
                )
        return None

    def failures(self, total: int) -> tuple[FailedLine, ...]:
        """Return the failures that match no symptom, in their order; warnings only at the end of the log."""
        matches = self.matches()
        known = {line for item in matches for line in self.lines_of[item.symptom.id]}
        effects = [item for item in matches if item.kind == "effect"]
        causes = {line for item in matches if item.kind != "effect" for line in self.lines_of[item.symptom.id]}
        outer = {
            line for item in effects if item.symptom.layer != "multi-gpu" for line in self.lines_of[item.symptom.id]
        }
        found = {one.line: one for one in (*self.without_cause, *self.early, *self.late) if one.line not in known}
        kept = []
        for one in found.values():
            if one.grade == "warning" and one.line <= total - _LAST:
                continue
            bare = one.grade == "exception" and bool(_BARE.search(one.text))
            if bare and any(one.line - 1 <= line <= one.line + _NEAR for line in causes):
                continue  # its message is known, or the line of the program that raised it
            if bare and any(one.line < line <= one.line + _LAST for line in outer):
                continue  # its message is that of an outer error, and no launcher's report
            kept.append(one)
        return tuple(sorted(kept, key=lambda item: item.line))

    def weak_failures(self, tail: bytes, total: int) -> tuple[FailedLine, ...]:
        """Return weak failures at the end of the log, unless the program continues after them."""
        known = {line for where in self.lines_of.values() for line in where}
        found: list[FailedLine] = []
        for count, (number, raw) in enumerate(last_lines(tail, total), 1):
            line = to_english(clean_line(raw))[:WINDOW]
            if AT_WORK.search(line) and not fails(line):
                break
            weakly = fails_weakly(line) and (count <= _LAST or not _QUIET.search(line))
            if number not in known and (weakly or raises(line)):
                found.append(
                    FailedLine(line=number, text=printable_line(line), grade="line", gpu_related=is_gpu_related(line))
                )
        return tuple(reversed(found[:_LAST]))

    def feed_wrapped(self, text: bytes, first: int) -> None:
        """Search for messages that are wrapped over lines or in a box, for rows without a match."""
        if any(
            item.kind == "cause" and item.grade in ("exception", "error") and not item.symptom.general
            for item in self.first.values()
        ):
            return
        read = {name for name, item in self.first.items() if not item.symptom.general}
        known = {line for name in read for line in self.lines_of[name]}
        lines, numbers = lines_without_borders(text, first)
        shapes = [shape_of(line) for line in lines]
        whole = b"".join(shapes)
        starts = list(accumulate(map(len, shapes), initial=0))
        for mark in (mark for mark in self.marks.candidates(whole) if mark in self.sought.by_mark):
            at, tries = whole.find(mark), 0
            while at >= 0 and tries < _KEPT:
                tries += 1
                index = bisect_right(starts, at) - 1
                if numbers[index] not in known:
                    self._wrapped(mark, lines, numbers, index, known)
                at = whole.find(
                    mark, starts[min(index + 1, len(starts) - 1)] + (len(mark) if index + 1 >= len(lines) else 0)
                )

    def _wrapped(
        self, mark: bytes, lines: Sequence[bytes], numbers: Sequence[int], index: int, known: Container[int]
    ) -> None:
        """Search in a line and the lines around it, up to the next line that a row explains already."""
        rows = [row for row in self.sought.by_mark[mark] if row.id not in self.first and not row.general]
        if not rows or len(lines[index]) < _WRAPPED_FROM:
            return
        low = index
        while low > 0 and index - low < 2 and len(lines[low - 1]) >= _WRAPPED_FROM and numbers[low - 1] not in known:
            low -= 1
        after = range(index + 1, min(index + _WRAPPED_OVER, len(lines)))
        part = lines[low : next((one for one in after if numbers[one] in known), index + _WRAPPED_OVER)]
        for between in (b" ", b""):
            joined = to_english(clean_line(between.join(map(without_echo, part))))
            for row in rows:
                for pattern in row.patterns:
                    found = compile_pattern(pattern).search(joined)
                    if found and row.id not in self.first:
                        self._add_match(row, joined, found, numbers[index])

    def matches(self) -> tuple[SymptomMatch, ...]:
        """Return the matches in the order of the log, without rows that lack their mark beside them."""
        found = []
        for name, seen in self.first.items():
            item, row = seen, seen.symptom
            if not self._companion_seen(row):
                continue
            if row.kind == "remark" and any(mark.encode() in self.seen_marks for mark in row.proof):
                item = replace(item, kind="cause", grade="error")
            if any(mark.encode() in self.seen_marks for mark in row.unless):
                item = replace(item, kind="remark")
            found.append(replace(item, count=len(self.lines_of[name])))
        return tuple(sorted(found, key=lambda item: (item.line, self.sought.order[item.symptom.id])))


_GRAVITY: Mapping[Grade, int] = {"exception": 0, "error": 1, "line": 2, "warning": 3}


def _is_varied(flat: bytes) -> bool:
    """Return whether most shapes at the start of a text differ; always false for text with colours."""
    sample = flat[:_SAMPLE].split(b"\n")
    return b"\x1b" not in flat and 2 * len({*sample}) > len(sample)


def _fails(part: bytes) -> bool:
    """Return whether a general row may match a line."""
    return fails(part) or fails_weakly(part)


def _parts(line: bytes, row: Symptom) -> Iterator[bytes]:
    """Yield a line, or the surroundings of each mark in a long line."""
    if len(line) <= 2 * WINDOW:
        yield line
        return
    for mark in row.search_marks:
        at = line.find(mark.encode())
        while at >= 0:
            yield line[max(0, at - WINDOW) : at + WINDOW]
            at = line.find(mark.encode(), at + WINDOW)


@lru_cache(maxsize=1)
def foreign_shapes() -> tuple[bytes, ...]:
    """Return the shapes of the messages in other languages."""
    return tuple({shape_of(mark) for mark in foreign_marks()})
