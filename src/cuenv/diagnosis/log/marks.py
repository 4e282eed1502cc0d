"""Which of many short texts, the marks, stand in a text of any size.

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

_KEY = 5
_GRAM, _SHORT = 6, 4
_SIEVED = 512 * 1024  # bytes from which on building the sieve is quicker than looking for the keys
_TRIES = 8  # places of a part that are looked at; where it stands more often, its marks are looked for themselves
_RARE = b"jqxzkvwbpyg"
_USUAL = frozenset(
    b"th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro "
    b"ic ne ea ra ce li ch ll be ma si om ur ct ec ss us un il ut ho lo mo tr pe em ac la ta el ns di po so im".split()
)
"""Pairs of letters of which English consists for three quarters."""
_USUALLY = 40
_SAMPLE = 64 * 1024
_HALVES = frozenset(range(0xD8, 0xE0))  # bytes that make a pair the half of a character of four bytes


class MarkIndex:
    """Marks, as they are looked for in texts.

    Attributes:
        by_key: the marks that hold each key.
    """

    def __init__(self, marks: frozenset[bytes], *, sieved: int = _SIEVED) -> None:
        """Take the marks.

        Args:
            marks: the texts.
            sieved: bytes from which on the sieve is used.
        """
        self.by_key = keyed(marks)
        self._ascii = _ascii(marks)
        self._marks = marks
        self._left = sieved
        self._made: Sieve | None = None

    def there(self, text: bytes) -> Iterator[bytes]:
        """The marks that may stand in a text: all that do, and some of those that share a few bytes with it."""
        if self._long(text):
            yield from sorted(self._sieve(text).marks(text), key=_order(self._marks).__getitem__)
            return
        for key in self._ascii if text.isascii() else self.by_key:
            if key in text:
                yield from self.by_key[key]

    def lines(self, text: bytes) -> dict[bytes, set[bytes]]:
        """The lines that hold a mark, and the marks of each."""
        found: dict[bytes, set[bytes]] = {}
        if self._long(text):
            places = self._sieve(text).places(text)
        else:
            places = (place for mark in self.there(text) for place in _all(mark, text))
        start = end = -1
        for mark, at in places:
            if not start <= at < end:  # a line may be as long as the text: its ends are looked for once
                start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
                end = len(text) if end < 0 else end
            found.setdefault(text[start:end], set()).add(mark)
        return found

    def _long(self, text: bytes) -> bool:
        """Whether so much was looked through that the sieve is worth its making."""
        self._left -= len(text)
        return self._left < 0

    def _sieve(self, text: bytes) -> Sieve:
        """The sieve for logs like this one, whose beginning tells what is rare in it."""
        if self._made is None:
            self._made = _sieve(self._marks, text[:_SAMPLE])
        return self._made


@lru_cache(maxsize=4)
def keyed(marks: frozenset[bytes]) -> Mapping[bytes, tuple[bytes, ...]]:
    """A few short keys, and the marks that hold each: where no key stands, none of its marks needs to be looked for.

    The fewer keys, the fewer searches: a mark takes a key that is there already, else the one that most marks share.
    """
    parts = {mark: {mark[at : at + _KEY] for at in range(max(1, len(mark) - _KEY + 1))} for mark in marks}
    often = Counter(key for keys in parts.values() for key in keys)
    found: dict[bytes, list[bytes]] = {}
    for mark in sorted(marks, key=lambda mark: (len(parts[mark]), mark)):
        key = max(parts[mark], key=lambda key: (key in found, often[key], key))
        found.setdefault(key, []).append(mark)
    return {key: tuple(held) for key, held in found.items()}


@lru_cache(maxsize=4)
def _ascii(marks: frozenset[bytes]) -> tuple[bytes, ...]:
    """The keys that may stand in a text of ASCII."""
    return tuple(key for key in keyed(marks) if key.isascii())


@lru_cache(maxsize=4)
def _order(marks: frozenset[bytes]) -> Mapping[bytes, int]:
    """The place of each mark among all, in the order of their keys; only the sieve needs it."""
    return {mark: index for index, mark in enumerate(mark for held in keyed(marks).values() for mark in held)}


@lru_cache(maxsize=4)
def _sieve(marks: frozenset[bytes], sample: bytes) -> Sieve:
    """The sieve for marks and a sample, made once."""
    return Sieve(marks, sample)


class Sieve:
    """One regular expression that finds a few bytes of every mark; making it takes some 50 ms."""

    def __init__(self, marks: Iterable[bytes], sample: bytes = b"") -> None:
        """Take the marks.

        Args:
            marks: the texts.
            sample: a part of the text that is to be looked through: what is frequent in it is not looked for.
        """
        often = _often(sample)
        grams = {mark: tuple(_grams(mark)) for mark in marks}
        self._short = {mark for mark, held in grams.items() if not held}
        pairs = _pairs([{gram[:2] for gram in held} for held in grams.values() if held], often)
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
        """The marks of which a few bytes stand in a text."""
        held = {mark for gram in self._held(text) for mark, _ in self._marks[gram]}
        return held | {mark for mark in self._short if mark in text}

    def places(self, text: bytes) -> Iterator[tuple[bytes, int]]:
        """The marks in a text and where they stand: the first place in each line at least."""
        for mark in self._short:
            yield from _all(mark, text)
        for gram in self._held(text):
            tries, at = 0, text.find(gram)
            while at >= 0 and tries < _TRIES:
                for mark, before in self._marks[gram]:
                    if at >= before and text.startswith(mark, at - before):
                        yield mark, at
                tries, at = tries + 1, text.find(gram, at + 1)
            if at >= 0:  # it stands in a usual word
                for mark, _ in self._marks[gram]:
                    yield from _all(mark, text)

    def _held(self, text: bytes) -> set[bytes]:
        """The grams in a text."""
        found: set[tuple[str, ...]] = set()
        for start in (0, 1):
            pairs = _paired(text, start)
            for pattern in self._found:
                found |= self._of.keys() & set(pattern.findall(pairs))
        return {self._of[pairs] for pairs in found}


def _paired(text: bytes, start: int) -> str:
    """A text from a place on, two bytes as one character."""
    wide = text[start:] + b"\n\n"
    return wide[: len(wide) // 2 * 2].decode("utf-16-le", "surrogatepass")


def _all(mark: bytes, text: bytes) -> Iterator[tuple[bytes, int]]:
    """A mark and its first place in each line of a text."""
    at = text.find(mark)
    while at >= 0:
        yield mark, at
        end = text.find(b"\n", at)
        at = text.find(mark, end) if end >= 0 else -1


def _grams(mark: bytes) -> Iterator[bytes]:
    """The parts of a mark by which it may be found: long ones where it has any; a shorter mark is looked for itself."""
    for size in (_GRAM, _SHORT):
        found = [mark[at : at + size] for at in range(len(mark) - size + 1)]
        if able := [gram for gram in found if _HALVES.isdisjoint(gram)]:
            yield from able
            return


def _share(pair: bytes) -> int:
    """How often two bytes follow each other, roughly: usual pairs of letters, other letters, rare ones and capitals."""
    if pair in _USUAL:
        return _USUALLY
    return 1 if any(byte in _RARE or not 0x61 <= byte <= 0x7A for byte in pair) else 8


def _often(sample: bytes) -> Callable[[bytes], float]:
    """How often two bytes follow each other in texts like a sample; of those that it lacks, in texts of any kind.

    Every platform of CUDA is little-endian; elsewhere the sieve is slower and finds as much.
    """
    count: Counter[int] = Counter()
    for start in (0, 1):
        count.update(memoryview(sample[start : start + (len(sample) - start) // 2 * 2]).cast("H"))
    return cache(lambda pair: count[int.from_bytes(pair, "little")] + _share(pair) / _USUALLY)


def _pairs(wanted: list[set[bytes]], often: Callable[[bytes], float]) -> set[bytes]:
    """Rare pairs of bytes, one of which is in each of the sets: greedily the pair that serves most for its share."""
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
    """A pair of bytes before other ones; the second may be the first of the next find."""
    return re.compile(f"({_class_of(first)})(?={''.join(f'({_class_of(pairs)})' for pairs in after)})")


def _class_of(pairs: Iterable[bytes]) -> str:
    return f"[{''.join(map(re.escape, sorted(pair.decode('utf-16-le') for pair in pairs)))}]"
