"""The catalogue of symptoms: every row has real lines that it finds first, and no row claims another's."""

from __future__ import annotations

import importlib
import re
import sys
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from cases import collect, quick_and_slow
from cuenv.diagnosis.cures import CURES
from cuenv.diagnosis.log.lines import shape_of
from cuenv.diagnosis.log.marks import marks_by_key
from cuenv.diagnosis.log.scan import scan
from cuenv.diagnosis.log.seek import WINDOW
from cuenv.knowledge.guidance import ANY, LAYERS, compile_pattern
from failure_logs import CASES, LOGS, read, rows, tables

NAMES = [f"{path.parent.name}/{path.stem}" for path in CASES]

WRAPS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "ranks of torchrun": lambda lines: [b"[rank%d]: %s" % (index % 4, line) for index, line in enumerate(lines)],
    "ranks of mpirun": lambda lines: [b"[1,%d]<stderr>:%s" % (index % 4, line) for index, line in enumerate(lines)],
    "time stamps of a CI": lambda lines: [b"2024-05-01T12:00:00.1234567Z " + line for line in lines],
    "steps of docker build": lambda lines: [b"#12 3.456 " + line for line in lines],
    "names of docker compose": lambda lines: [b"trainer-1  | " + line for line in lines],
    "colours": lambda lines: [b"\x1b[1;31m" + line + b"\x1b[0m\x1b[K" for line in lines],
    "carriage returns": lambda lines: [line + b"\r" for line in lines],
    "a progress bar before": lambda lines: [b"\r 10%|#  |\r 20%|## |\r" + line for line in lines],
    "broken UTF-8": lambda lines: [b"\xff\xfe\xe2\x28 " + line + b" \x80" for line in lines],
}


def test_there_are_many_and_each_has_a_log() -> None:
    assert len(rows()) >= 60
    assert {path.name for path in LOGS.iterdir()} == set(rows())
    assert {row.layer for row in rows().values()} <= set(LAYERS)


@collect("case", CASES)
def test_a_case_finds_its_symptom_and_nothing_else_stands_beside_it(case: Path) -> None:
    found = read(case.read_bytes())
    assert [cause.symptom.id for cause in found.causes] == [case.parent.name]
    row = rows()[case.parent.name]
    kind = "cause" if any(proof.encode() in case.read_bytes() for proof in row.proof) else row.kind
    verdicts = {"cause": "known", "raised": "known", "effect": "effect", "remark": "harmless", "words": "unknown"}
    assert found.verdict == verdicts[kind]
    cause = found.causes[0]
    for text in (cause.why, cause.remedy, cause.command, *cause.because):
        assert not re.search(r"\{[a-z]+\}", text), text


@pytest.mark.parametrize("step", quick_and_slow(113, 1))
@collect("wrap", WRAPS)
def test_a_case_is_found_whatever_stands_around_its_lines(wrap: str, step: int) -> None:
    """Quickly each wrap stands around other logs, slowly around all."""
    for case in CASES[list(WRAPS).index(wrap) % step :: step]:
        lines = WRAPS[wrap](case.read_bytes().splitlines())
        noise = b"{'loss': 1.25, 'epoch': 0.1}\n" * 3
        found = read(noise + b"\n".join(lines) + b"\n" + noise)
        assert [cause.symptom.id for cause in found.causes] == [case.parent.name], case


@pytest.mark.parametrize("step", quick_and_slow(28, 1))
def test_a_case_in_utf_16_is_found(step: int) -> None:
    for case in CASES[::step]:
        found = read(case.read_text(encoding="utf-8").encode("utf-16"))
        assert found.causes[0].symptom.id == case.parent.name


JOINED = ("a800-470", "rtx4090-560-nvcc101", "no-gpu", "pool-v100", "v100-rtx5090-575")


@pytest.mark.parametrize("step", quick_and_slow(16 * len(JOINED), 1))
@collect("host", JOINED)
def test_every_case_is_joined_with_every_host(host: str, step: int) -> None:
    """Quickly a sixteenth of the cases with one host, slowly each with each."""
    for case in CASES[JOINED.index(host) % step :: step]:
        cause = read(case.read_bytes(), host).causes[0]
        for text in (cause.why, cause.remedy, *cause.because):
            assert text
        for text in (cause.why, cause.remedy, cause.command, *cause.because):
            assert not re.search(r"\{[a-z]+\}|driver None|  ", text), (case, text)


@pytest.mark.parametrize("step", quick_and_slow(24, 1))
def test_what_a_line_tells_is_short_and_safe_in_a_command(step: int) -> None:
    """Groups go into commands: none may hold what a shell takes for its own."""
    knowledge, guidance = tables()
    hostile = rb"`$(reboot);|&><'\"\\ " + b"A" * 50
    for case in CASES[::step]:
        data = case.read_bytes()
        for text in (data, re.sub(rb"[0-9]+", lambda found: found[0] + hostile, data)):
            for item in scan([text], guidance.symptoms).matches:
                for value in item.groups.values():
                    assert re.fullmatch(r"[\w.+/ -]{1,80}", value), value
    assert knowledge.edition


def test_every_row_follows_what_exists_and_joins_what_exists() -> None:
    known = set(rows())
    for row in rows().values():
        assert row.join is None or row.join in CURES, row.id
        for name in row.follows:
            assert name == ANY or name in known or name.removeprefix("layer:") in LAYERS, (row.id, name)
        assert row.id not in row.follows
        assert row.kind != "effect" or ANY in row.follows, row.id
        assert row.kind != "remark" or not row.follows, row.id
        assert row.low == ("gk_errata" in row.sources) or (row.low and row.note), row.id
        assert row.seen or row.sources != ("threads",), row.id


def test_no_two_rows_explain_each_other() -> None:
    """A cascade has a head: following is never a circle."""
    following = [row for row in rows().values() if row.follows]
    for row, other in combinations(following, 2):
        assert not (row.follows_from(other) and other.follows_from(row)), (row.id, other.id)


def test_every_join_is_used() -> None:
    assert {row.join for row in rows().values() if row.join} == set(CURES)


def test_every_mark_is_in_a_line_that_its_row_finds() -> None:
    """A mark that no case needs would be a guess: each row's own cases use at least one of its marks."""
    for row in rows().values():
        text = b"".join(path.read_bytes() for path in LOGS.joinpath(row.id).glob("*.log"))
        assert any(mark.encode() in text for mark in row.marks), row.id


def _texts(parsed: Any) -> list[list[str]]:
    """What a parsed pattern finds, one list of literal runs for each of its alternatives."""
    texts = [[""]]
    for code, value in parsed:
        name, inner = str(code), None
        if name == "LITERAL":
            inner = [[chr(value)]]
        elif name == "SUBPATTERN":
            inner = _texts(value[3])
        elif name == "BRANCH":
            inner = [text for branch in value[1] for text in _texts(branch)]
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and value[1] == 1:
            inner = _texts(value[2]) + ([[""]] if value[0] == 0 else [])
        elif name == "IN" and len(value) <= 3 and all(str(one) == "LITERAL" for one, _ in value):
            inner = [[chr(letter)] for _, letter in value]
        elif name in ("AT", "ASSERT", "ASSERT_NOT"):
            continue
        inner = [["", ""]] if inner is None else inner
        texts = [[*text[:-1], text[-1] + new[0], *new[1:]] for text in texts for new in inner][:4000]
    return texts


BY_PLACES = ("cuda-status", "download-failed", "nvcc-refused", "scope-windows", "source-refused", "tensorrt-failed")
"""Rows whose patterns have alternatives that hold no word: a mark reaches them in the text that stands between."""


def test_every_alternative_of_a_pattern_is_reached_by_a_mark() -> None:
    """A line that holds no mark is never looked at: its pattern would be there for nothing."""
    parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
    for row in rows().values():
        marks = [shape_of(mark.encode()) for mark in row.search_marks]
        assert all(marks), row.id  # digits alone leave nothing to look for
        for pattern in row.patterns if row.id not in BY_PLACES and row.kind != "words" else ():
            for text in _texts(parser.parse(pattern)):
                shapes = (shape_of("".join(text).encode()), shape_of("\0".join(text).encode()))
                assert any(mark in shape for mark in marks for shape in shapes), (row.id, pattern, text)


def test_the_keys_cover_every_mark() -> None:
    marks = frozenset(mark.encode() for row in rows().values() for mark in row.marks)
    by_key = marks_by_key(marks)
    assert {mark for held in by_key.values() for mark in held} == marks
    assert all(key in mark for key, held in by_key.items() for mark in held)
    assert len(by_key) < len(marks)


@pytest.mark.parametrize("size", quick_and_slow(WINDOW // 2, 2 * WINDOW))
def test_no_pattern_is_slow_on_what_almost_matches(size: int) -> None:
    """Repeated beginnings of real lines, in a window: milliseconds of this process, whatever else the machine does."""
    for row in rows().values():
        text = b"\n".join(path.read_bytes() for path in LOGS.joinpath(row.id).glob("*.log"))
        for pattern in map(compile_pattern, row.patterns):
            units = {
                found[0][: max(1, len(found[0]) * part // 4)] for found in pattern.finditer(text) for part in (1, 2, 3)
            }
            for unit in (*units, *(mark.encode() for mark in row.marks)):
                hostile = (unit * (size // len(unit) + 1))[:size]
                start = time.process_time()
                pattern.search(hostile)
                assert time.process_time() - start < 0.05, (row.id, pattern.pattern, unit)
