"""Find which of many short texts, the marks, occur in a text of any size.

A few keys of five bytes cover all marks, and are looked for one by one. That reads 8 MB a second where every word
differs. A long text therefore goes through a sieve: seen as characters of two bytes, from its first byte and from its
second, three characters of a mark that are rare elsewhere are found by one regular expression, however many marks are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from heapq import heapify, heapreplace

_KEY_LENGTH = 5
_GRAM, _SHORT = 6, 4
_SIEVE_FROM = 512 * 1024  # bytes from which on building the sieve is quicker than looking for the keys
_TRIES = 8  # places of a part that are looked at; where it stands more often, its marks are looked for themselves
_RARE_LETTERS = b"jqxzkvwbpyg"
_COMMON_PAIRS = frozenset(
    b"th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro "
    b"ic ne ea ra ce li ch ll be ma si om ur ct ec ss us un il ut ho lo mo tr pe em ac la ta el ns di po so im".split()
)
"""Pairs of letters of which English consists for three quarters."""
_COMMON_FREQUENCY = 40
_SAMPLE = 64 * 1024
_SURROGATES = frozenset(range(0xD8, 0xE0))  # bytes that make a pair the half of a character of four bytes


class MarkIndex:
    """The marks, prepared for searches.

    Attributes:
        by_key: the marks that hold each key.
    """

    def __init__(self, marks: frozenset[bytes], *, sieved: int = _SIEVE_FROM) -> None:
        """Take the marks.

        Args:
            marks: the texts.
            sieved: bytes from which on the sieve is used.
        """
        self.by_key = marks_by_key(marks)
        self._ascii = _ascii_keys(marks)
        self._marks = marks
        self._left = sieved
        self._made: Sieve | None = None

    def candidates(self, text: bytes) -> Iterator[bytes]:
        """The marks that may occur in a text: all that do, and some that share a few bytes with it."""
        if self._long(text):
            yield from sorted(self._sieve(text).marks(text), key=_key_order(self._marks).__getitem__)
            return
        for key in self._ascii if text.isascii() else self.by_key:
            if key in text:
                yield from self.by_key[key]

    def lines(self, text: bytes) -> dict[bytes, set[bytes]]:
        """The lines that contain a mark, and the marks of each."""
        found: dict[bytes, set[bytes]] = {}
        if self._long(text):
            places = self._sieve(text).places(text)
        else:
            places = (place for mark in self.candidates(text) for place in _places_of_mark(mark, text))
        start = end = -1
        for mark, at in places:
            if not start <= at < end:  # a line may be as long as the text: its ends are looked for once
                start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
                end = len(text) if end < 0 else end
            found.setdefault(text[start:end], set()).add(mark)
        return found

    def _long(self, text: bytes) -> bool:
        """Whether the text so far is long enough that building the sieve pays."""
        self._left -= len(text)
        return self._left < 0

    def _sieve(self, text: bytes) -> Sieve:
        """The sieve for texts like this one, whose beginning shows which bytes are rare."""
        if self._made is None:
            self._made = _sieve(self._marks, text[:_SAMPLE])
        return self._made


@lru_cache(maxsize=4)
def marks_by_key(marks: frozenset[bytes]) -> Mapping[bytes, tuple[bytes, ...]]:
    """A few short keys with the marks that contain each: without a key none of its marks can occur.

    The fewer keys, the fewer searches: a mark takes a key that is there already, else the one that most marks share.
    """
    parts = {mark: {mark[at : at + _KEY_LENGTH] for at in range(max(1, len(mark) - _KEY_LENGTH + 1))} for mark in marks}
    often = Counter(key for keys in parts.values() for key in keys)
    found: dict[bytes, list[bytes]] = {}
    for mark in sorted(marks, key=lambda mark: (len(parts[mark]), mark)):
        key = max(parts[mark], key=lambda key: (key in found, often[key], key))
        found.setdefault(key, []).append(mark)
    return {key: tuple(held) for key, held in found.items()}


@lru_cache(maxsize=4)
def _ascii_keys(marks: frozenset[bytes]) -> tuple[bytes, ...]:
    """The keys that can occur in ASCII text."""
    return tuple(key for key in marks_by_key(marks) if key.isascii())


@lru_cache(maxsize=4)
def _key_order(marks: frozenset[bytes]) -> Mapping[bytes, int]:
    """The position of each mark in the order of the keys; only the sieve needs it."""
    return {mark: index for index, mark in enumerate(mark for held in marks_by_key(marks).values() for mark in held)}


@lru_cache(maxsize=4)
def _sieve(marks: frozenset[bytes], sample: bytes) -> Sieve:
    """The cached sieve for marks and a sample."""
    return Sieve(marks, sample)


class Sieve:
    """One regular expression that finds a few bytes of every mark; it takes about 50 ms to build."""

    def __init__(self, marks: Iterable[bytes], sample: bytes = b"") -> None:
        """Take the marks.

        Args:
            marks: the texts.
            sample: a part of the text that is to be looked through: what is frequent in it is not looked for.
        """
        often = _frequency_in(sample)
        grams = {mark: tuple(_grams_of_mark(mark)) for mark in marks}
        self._short = {mark for mark, held in grams.items() if not held}
        pairs = _choose_pairs([{gram[:2] for gram in held} for held in grams.values() if held], often)
        self._marks: dict[bytes, list[tuple[bytes, int]]] = {}
        for mark, held in grams.items():
            if held:
                able = (gram for gram in held if gram[:2] in pairs)
                gram = min(able, key=lambda gram: (-len(gram), often(gram[2:4]) * often(gram[4:])))
                self._marks.setdefault(gram, []).append((mark, mark.index(gram)))
        whole = {gram for gram in self._marks if len(gram) == _GRAM}
        brief = set(self._marks) - whole
        self._found = [_pattern(*({gram[at : at + 2] for gram in whole} for at in range(0, _GRAM, 2)))]
        if brief:
            self._found.append(_pattern({gram[:2] for gram in brief}, {gram[2:] for gram in brief}))
        self._of = {tuple(gram.decode("utf-16-le")): gram for gram in self._marks}

    def marks(self, text: bytes) -> set[bytes]:
        """The marks of which a few bytes occur in a text."""
        held = {mark for gram in self._held(text) for mark, _ in self._marks[gram]}
        return held | {mark for mark in self._short if mark in text}

    def places(self, text: bytes) -> Iterator[tuple[bytes, int]]:
        """The marks in a text and their positions, at least the first in each line."""
        for mark in self._short:
            yield from _places_of_mark(mark, text)
        for gram in self._held(text):
            tries, at = 0, text.find(gram)
            while at >= 0 and tries < _TRIES:
                for mark, before in self._marks[gram]:
                    if at >= before and text.startswith(mark, at - before):
                        yield mark, at
                tries, at = tries + 1, text.find(gram, at + 1)
            if at >= 0:  # it stands in a usual word
                for mark, _ in self._marks[gram]:
                    yield from _places_of_mark(mark, text)

    def _held(self, text: bytes) -> set[bytes]:
        """The grams in a text."""
        found: set[tuple[str, ...]] = set()
        for start in (0, 1):
            pairs = _as_pairs(text, start)
            for pattern in self._found:
                found |= self._of.keys() & set(pattern.findall(pairs))
        return {self._of[pairs] for pairs in found}


def _as_pairs(text: bytes, start: int) -> str:
    """A text from an offset on, with two bytes as one character."""
    wide = text[start:] + b"\n\n"
    return wide[: len(wide) // 2 * 2].decode("utf-16-le", "surrogatepass")


def _places_of_mark(mark: bytes, text: bytes) -> Iterator[tuple[bytes, int]]:
    """A mark and its first position in each line of a text."""
    at = text.find(mark)
    while at >= 0:
        yield mark, at
        end = text.find(b"\n", at)
        at = text.find(mark, end) if end >= 0 else -1


def _grams_of_mark(mark: bytes) -> Iterator[bytes]:
    """The parts of a mark by which the sieve finds it: long ones if possible; empty for a short mark."""
    for size in (_GRAM, _SHORT):
        found = [mark[at : at + size] for at in range(len(mark) - size + 1)]
        if able := [gram for gram in found if _SURROGATES.isdisjoint(gram)]:
            yield from able
            return


def _usual_frequency(pair: bytes) -> int:
    """The rough frequency of two bytes: common pairs of letters, other letters, rare letters and capitals."""
    if pair in _COMMON_PAIRS:
        return _COMMON_FREQUENCY
    return 1 if any(byte in _RARE_LETTERS or not 0x61 <= byte <= 0x7A for byte in pair) else 8


def _frequency_in(sample: bytes) -> Callable[[bytes], float]:
    """The frequency of two bytes in texts like a sample, or in any text if the sample lacks them.

    Every platform of CUDA is little-endian; elsewhere the sieve is slower and finds as much.
    """
    count: Counter[int] = Counter()
    for start in (0, 1):
        count.update(memoryview(sample[start : start + (len(sample) - start) // 2 * 2]).cast("H"))
    return cache(lambda pair: count[int.from_bytes(pair, "little")] + _usual_frequency(pair) / _COMMON_FREQUENCY)


def _choose_pairs(wanted: list[set[bytes]], often: Callable[[bytes], float]) -> set[bytes]:
    """Rare pairs of bytes so that each set has one: greedily the pair in most sets for its frequency."""
    count = Counter(pair for pairs in wanted for pair in pairs)
    share = {pair: often(pair) for pair in count}
    holders: dict[bytes, list[int]] = {}
    for index, pairs in enumerate(wanted):
        for pair in pairs:
            holders.setdefault(pair, []).append(index)
    open_ = set(range(len(wanted)))
    chosen: set[bytes] = set()
    best = [(-count[pair] / share[pair], pair) for pair in count]
    heapify(best)
    while open_:
        worth, pair = best[0]
        now = -count[pair] / share[pair]
        if now > worth:  # others have taken some of its sets
            heapreplace(best, (now, pair))
            continue
        chosen.add(pair)
        for index in holders[pair]:
            if index in open_:
                open_.discard(index)
                count.subtract(wanted[index])
    return chosen


def _pattern(first: Iterable[bytes], *after: Iterable[bytes]) -> re.Pattern[str]:
    """A pattern for a pair of bytes before others; the second pair may begin the next match."""
    return re.compile(f"({_character_class(first)})(?={''.join(f'({_character_class(pairs)})' for pairs in after)})")


def _character_class(pairs: Iterable[bytes]) -> str:
    return f"[{''.join(map(re.escape, sorted(pair.decode('utf-16-le') for pair in pairs)))}]"
