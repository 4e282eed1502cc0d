"""Split a log of any size into lines, find its last lines, remove boxes, and print a line safely.

A log is bytes: interleaved ranks, colours, carriage returns of progress bars, UTF-16, or invalid UTF-8.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from cuenv.core.regex import regex
from cuenv.core.urls import printable, redact
from cuenv.diagnosis.log.lines import without_border, without_colours

LINE = 64 * 1024  # bytes after which an endless line is cut
_OVERLAP = 1024
_OF_FAILURES = (b"rror", b"RROR", b"xception", b"ailed", b"illed", b"atal", b"CUDA", b"nvidia")
"""Almost every failure contains one of these: the inside of an endless line is read only around them."""
_SHOWN = 300
_AT_END = 8
_BEFORE = 400
AT_WORK = regex(
    rb"(?i)running on http|startup complete|Starting server|To see the GUI|Prompt executed in [0-9]|"
    rb"\bStarted \w{0,40}(?:Service|server)\b|\bready in [0-9]|\blistening (?:on|at)\b|: Success$|"
    rb"\" 200\b|^\[GIN\][^\n|]{1,40}\| 200 \|| 200$|"
    rb"Successfully (?!opened)|\b(?:done|finished|completed|complete[.!]?$|saved|saving)(?:\b|$)|"
    rb"\b100%|'loss'|(?:\b|_)loss[:= ]|\bepoch\b|(?<!job )\bstep\b(?! (?:memory|creation|task|for job|[0-9]+\.))|"
    rb"(?:\b|[0-9])(?:it/s|s/it)\b|\[I [0-9][^\]\n]{1,60}App\]|"
    rb"^\s*(?:\S{1,200}/)?[\w-]{0,40}(?:nvcc|gcc|g\+\+|cc|c\+\+) -[^\n]{1,9000} -o \S|"
    rb"^\W{0,12}(?:[0-9]{1,3}%|[0-9]{1,5}/[0-9]{1,5})\] (?:Building|Linking|Built)\b|"
    rb"^\s*(?:building '|running (?:build|install|bdist)|creating build/|copying \S{1,300} -> )"
)
"""Signs of a running program."""
_STEPS = regex(
    rb"[0-9](?:it/s|s/it)\b|\" 200 OK\b|^\[GIN\][^\n|]{1,40}\| 200 \||\w:? ?\[ ?[0-9]{1,9} ?/ ?[0-9]{1,9}\]|"
    rb"\bloss['\"]?[:= ]{1,3}[0-9]|\b[Ee]poch[ :#=\[]{1,3}[0-9]|"
    rb"\b(?:[Ss]tep|[Ii]ter(?:ation)?)[ :#=\[]{1,3}[0-9]{1,9}(?![0-9.])"
)
"""Signs of a step (training, progress): no earlier line ended the run."""
_RUN_ENDED = regex(
    rb"ChildFailedError|\[launch\.py:[0-9]{1,5}:sigkill_handler\]|slurmstepd: error: \*\*\* JOB [0-9_]{1,20} ON "
)
"""Messages of a launcher or Slurm after all processes ended: later steps belong to a later run."""
_LATER_STEPS = 3
_QUOTED_BREAK = b"\\n"
_BREAKS = regex(rb"(?:\\{1,2}r)?\\{1,2}n")


def whole_lines(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, int, int]]:
    """Yield pieces of whole lines, the number of their first line, and their size in the log."""
    rest, number, raw = b"", 1, 0
    wide: codecs.IncrementalDecoder | None = None
    for block in blocks:
        if number == 1 and not rest and not raw and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            wide = codecs.getincrementaldecoder("utf-16")("replace")
        raw += len(block)
        text = rest + (wide.decode(block).encode("utf-8", "replace") if wide else block)
        cut = text.rfind(b"\n") + 1
        if not cut and len(text) < LINE:
            rest = text
            continue
        if not cut:  # an endless line: its end is looked at again, so that nothing is cut in two
            yield _readable(_without_bulk(text)), number, raw
            rest, raw = text[-_OVERLAP:], 0
            continue
        rest = text[cut:]
        yield _readable(_without_bulk(text[:cut])), number, raw
        raw = 0
        number += text.count(b"\n", 0, cut)
    if rest or raw:
        yield _readable(rest), number, raw


def _without_bulk(text: bytes) -> bytes:
    """Remove the parts of an endless line, such as JSON, that contain no word of a failure."""
    if len(text) < 2 * LINE:
        return text
    parts = []
    for at in range(0, len(text), LINE):
        if text.find(b"\n", at, at + LINE) >= 0 or text.find(b"\r", at, at + LINE) >= 0:
            parts.append(text[at : at + LINE])
            continue
        start, end = max(0, at - _OVERLAP), at + LINE + _OVERLAP
        if any(text.find(word, start, end) >= 0 for word in _OF_FAILURES):
            parts.append(text[at : at + LINE])
    return b"".join(parts) if sum(map(len, parts)) < len(text) else text


def _readable(text: bytes) -> bytes:
    """Reduce UTF-16 to its ASCII, and use the line ends of Linux."""
    if b"\0" in text:
        text = text.replace(b"\0", b"")
    return text.replace(b"\r\n", b"\n") if b"\r" in text else text


def quoted_lines(line: bytes) -> list[bytes]:
    """Return the lines of a traceback inside a string, such as a JSON record; else the line alone."""
    if _QUOTED_BREAK not in line or b"Traceback (most recent" not in line:
        return [line]
    return [part.replace(b'\\"', b'"').rstrip(b'"}],') for part in _BREAKS.split(line)]


def printable_line(line: bytes, at: int = 0) -> str:
    """Return the part of a line around a position, without colours, control characters and credentials."""
    start = max(0, at - _SHOWN // 2) if at > _SHOWN else 0
    part = line[start : start + _SHOWN]
    text = redact(printable(part.decode("utf-8", "replace").strip()))
    return ("..." if start else "") + text + ("..." if start + _SHOWN < len(line) else "")


def last_lines(tail: bytes, total: int) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and texts of the last lines that are not empty, from the end."""
    lines = tail.rstrip(b"\n").split(b"\n")
    last = total - max(0, len(tail) - len(tail.rstrip(b"\n")) - 1)
    count = 0
    for back, line in enumerate(reversed(lines)):
        if line.strip():
            count += 1
            yield max(1, last - back), line
        if count >= _AT_END:
            return


def last_activity(tail: bytes, total: int) -> int:
    """Return the last line that shows a running program, or 0."""
    return next((number for number, line in last_lines(tail, total) if AT_WORK.search(line)), 0)


_INSTALLED = regex(rb"^[^A-Za-z]{0,40}Successfully (?:installed|built) [A-Za-z]")


def pip_success(tail: bytes, total: int) -> int:
    """Return the line near the end in which pip reports success, or 0."""
    return next((number for number, line in last_lines(tail, total) if _INSTALLED.search(line)), 0)


def last_step(tail: bytes, total: int, before: int) -> int:
    """Return the last line with a step of the run before the line ``before``, or 0."""
    lines = tail.split(b"\n")
    first = total - (len(lines) - (2 if tail.endswith(b"\n") else 1))
    end = before - first
    for index in range(end - 1, max(-1, end - 1 - _BEFORE), -1):
        if _STEPS.search(lines[index][-LINE:]):
            return first + index
    return 0


def survived_until(tail: bytes, total: int, distance: int, *, ends: bool) -> int:
    """Return the last line that the run survived: a step or its good end comes this many bytes later; or 0.

    Fewer bytes prove nothing: a program may write its buffered output only when it ends, after its last error. Steps
    after a launcher reported failed processes belong to a later run, however near they are.
    """
    steps = [found.end() for found in _STEPS.finditer(tail)]
    at = len(tail) if ends else steps[-1] if steps else 0
    before = max(0, at - distance)
    if len(steps) >= _LATER_STEPS:
        for found in _RUN_ENDED.finditer(tail, before, steps[-_LATER_STEPS]):
            before = found.end()
    if not before:
        return 0
    first = total - tail.count(b"\n") + tail.endswith(b"\n")
    begins = tail.rfind(b"\n", 0, at - 1)
    return first + min(tail.count(b"\n", 0, before), tail.count(b"\n", 0, begins + 1) - 1)


def lines_without_borders(text: bytes, first: int) -> tuple[list[bytes], list[int]]:
    """Return the lines without the borders of boxes, and their numbers."""
    lines, numbers = [], []
    for index, raw in enumerate(text.split(b"\n")):
        for part in raw.split(b"\r"):
            line = without_border(without_colours(part))
            if line is not None and line.strip():
                lines.append(line.strip())
                numbers.append(first + index)
    return lines, numbers
