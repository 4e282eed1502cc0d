"""Marks in a text: the sieve for long texts finds what the keys find, and a scan is the same with either."""

from __future__ import annotations

import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import quick_and_slow
from cuenv.diagnosis.log import seek
from cuenv.diagnosis.log.lines import shape_of
from cuenv.diagnosis.log.marks import MarkIndex
from cuenv.diagnosis.log.scan import scan
from failure_logs import CASES, rows, tables
from thorough import examples

MARKS = frozenset(shape_of(mark.encode()) for row in rows().values() for mark in row.search_marks) | {
    "没有那个文件或目录".encode(),
    "Недостаточно памяти".encode(),
    "ߒߞߏ".encode(),  # bytes that make halves of wide characters
    b"xy",
    b"z",
}
KEYS = MarkIndex(MARKS, sieved=1 << 60)
SIEVE = MarkIndex(MARKS, sieved=-1)
WHOLE = st.sampled_from(sorted(MARKS))
PIECES = st.lists(
    st.one_of(
        WHOLE,
        st.builds(lambda mark, cut: mark[cut:], WHOLE, st.integers(1, 6)),
        st.builds(lambda mark, cut: mark[:-cut], WHOLE, st.integers(1, 6)),
        st.binary(max_size=4),
        st.just(b"\n"),
    ),
    max_size=40,
)


@given(pieces=PIECES)
@examples(300)
def test_the_sieve_finds_the_marks_that_the_keys_find(pieces: list[bytes]) -> None:
    text = b"".join(pieces)
    assert SIEVE.lines(text) == KEYS.lines(text)
    assert {mark for mark in SIEVE.candidates(text) if mark in text} == {mark for mark in MARKS if mark in text}


def test_a_mark_is_found_at_every_place_of_a_text() -> None:
    for mark in sorted(MARKS):
        for before in (b"", b"\n", b"q", b"qq"):
            assert mark in SIEVE.lines(before + mark)[(before + mark).strip(b"\n")], mark


def test_a_word_that_stands_often_hides_no_mark_behind_it() -> None:
    index = MarkIndex(frozenset([b"checkpointfailed"]), sieved=-1)
    text = b"checkpoint\n" * 500 + b"checkpointfailed\n"
    assert index.lines(text) == {b"checkpointfailed": {b"checkpointfailed"}}


def noisy(chance: random.Random, step: int) -> bytes:
    """Every so many-th log of the tests between lines of which each is another."""
    parts: list[bytes] = []
    for case in CASES[chance.randrange(step) :: step]:
        parts += [b"%x %s" % (chance.getrandbits(200), chance.choice([b"checkpoint", b"shard", b"\xe2\x96\x88"]))] * 2
        parts += case.read_bytes().splitlines()
    return b"\n".join(parts) + b"\n"


@pytest.mark.slow
@pytest.mark.parametrize("step", quick_and_slow(32, 3))
def test_a_scan_is_the_same_with_the_sieve_and_without(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log = noisy(random.Random(step), step)
    blocks = [log[at : at + 9000] for at in range(0, len(log), 9000)]
    found = []
    for sieved in (-1, 1 << 60):
        for varied in (True, False):
            monkeypatch.setattr(seek, "MarkIndex", partial(MarkIndex, sieved=sieved))
            monkeypatch.setattr(seek, "_is_varied", lambda flat, varied=varied: varied and b"\x1b" not in flat)
            found.append(scan(blocks, tables()[1].symptoms))
    assert len(found[0].matches) > 500 // step
    assert all(one == found[0] for one in found)
