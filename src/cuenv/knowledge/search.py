"""Find the page that answers a question: by shared words, of which rare ones count most.

No list of questions lies behind it. Words are stripped of endings and mapped to one word for each thing; a page matches
when it covers the words of the question that tell pages apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import log

from cuenv.core.record import NamedTuple
from cuenv.core.regex import regex

_MAX_CHARACTERS = 600
_WORD = regex(r"[a-z_]*[a-z][a-z0-9_+]*|[0-9]+(?:\.[0-9x]+)+|[0-9]{3,5}")
LACKS = regex(
    r"\b(?:(?:is |was )?not (?:be )?found|(?:can ?not|could not|can't) (?:find|be found)|no such file or directory)\b"
)
"""How a question says that something is missing."""
_SYNONYMS = {
    word: one
    for one, words in {
        "available": ("unavailable",),
        "capability": ("sm", "cc", "compute", "capabilities"),
        "conda": ("anaconda", "miniconda", "mamba", "micromamba"),
        "container": ("docker", "podman", "containers"),
        "differ": ("different", "differs", "disagree", "mismatch", "mismatches"),
        "driver": ("drivers",),
        "gpu": ("card", "cards", "graphics", "device", "devices", "gpus", "videocard"),
        "install": ("setup", "installation"),
        "kernel": ("kernels",),
        "library": ("libs", "libraries"),
        "memory": ("oom", "vram", "ram"),
        "minimum": ("lowest", "minimal"),
        "missing": ("lacking", "absent", "lacks"),
        "need": ("requires", "required", "require", "needs", "needed", "necessary", "must"),
        "new": ("newer", "newest", "latest"),
        "nvidia-smi": ("smi", "nvidia_smi"),
        "old": ("older", "oldest"),
        "pytorch": ("torch",),
        "run": ("runs", "running"),
        "see": (
            "detected",
            "detect",
            "found",
            "find",
            "recognized",
            "recognised",
            "recognize",
            "sees",
            "seen",
            "visible",
        ),
        "segmentation": ("segfault", "crash", "crashes"),
        "support": ("supported", "supports", "serves", "serve", "works", "work", "compatible"),
        "toolkit": ("toolkits", "cudatoolkit"),
        "use": ("utilized", "utilization", "used", "using", "uses", "ignored"),
        "version": ("versions", "releases", "release"),
    }.items()
    for word in words
}
"""Words that mean one thing here."""
_STOP_WORDS = regex(
    r"(?:a|about|ok|okay|fine|actually|all|am|an|and|any|are|as|at|be|been|between|but|by|can|cannot|could|did|do|does|"
    r"doing|don|exactly|explain|fix|fixed|fixing|for|from|get|gets|give|has|have|having|he|help|how|i|if|in|into|is|isn|it|"
    r"it's|its|just|know|let|like|make|many|may|me|mean|means|mine|more|most|much|my|no|not|of|on|once|one|"
    r"only|or|other|our|out|over|own|please|question|really|say|says|shall|she|should|show|shows|so|solve|some|"
    r"still|such|tell|than|that|the|their|them|then|there|these|they|thing|this|those|though|to|too|under|"
    r"until|up|us|versus|vs|want|was|we|were|what|when|where|which|while|who|whose|why|will|with|without|"
    r"would|you|your)"
)
_MIN_SHARE = 0.5  # the share of a question, by weight, that a page has to cover
_OF_AN_ERROR = 0.75  # the same of a page on an error: a question about something else shares words with many
_UNKNOWN = 0.4  # the weight of a word that no page has, beside that of the rarest word that one has


class WordPage(NamedTuple):
    """A page that the search can find."""

    kind: str  # ``answer``, ``erratum``, ``symptom``
    key: str  # of the row
    titles: tuple[str, ...]  # texts that say what it is about; their words count in full
    body: str = ""  # what it says; its words count half


class Hit(NamedTuple):
    """A page, and its share of the words of the question, from 0 to 1."""

    page: WordPage
    share: float


@lru_cache(maxsize=1 << 14)  # all pages have fewer texts: a smaller cache drops each text before its next use
def significant_words(text: str) -> tuple[str, ...]:
    """The significant words of a text, each in one form."""
    lowered = LACKS.sub(" missing ", text[:_MAX_CHARACTERS].lower().replace("nvidia-smi", "nvidia_smi"))
    found = (_stem(word) for word in _WORD.findall(lowered))
    return tuple(dict.fromkeys(word for word in found if word and not _STOP_WORDS.fullmatch(word)))


def _stem(word: str) -> str:
    word = word.removeprefix("sm_") if word.startswith("sm_") else word
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    if _STOP_WORDS.fullmatch(word) or len(word) < 5 or not word.isalpha():
        return word
    for ending in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return _SYNONYMS.get(word[: -len(ending)], word[: -len(ending)])
    return word


def rank_pages(question: str, pages: Iterable[WordPage]) -> tuple[Hit, ...]:
    """The pages that a question may be about, best first; empty if no page covers enough of it."""
    asked = significant_words(question)
    every = tuple(pages)
    if not asked or not every:
        return ()
    titles = {page: frozenset(word for text in page.titles for word in significant_words(text)) for page in every}
    bodies = {page: frozenset(significant_words(page.body)) for page in every}
    weights = _word_weights(asked, every, titles, bodies)
    total = sum(weights.values())
    phrases = _shared_phrases(question, [page for page in every if page.kind == "answer"])
    hits = []
    for page in every:
        got = sum(
            weight * (1.0 if word in titles[page] else 0.5 if word in bodies[page] else 0.0)
            for word, weight in weights.items()
        )
        enough = _OF_AN_ERROR if page.kind == "symptom" else _MIN_SHARE
        if got / total >= enough and not titles[page].isdisjoint(weights):
            head = frozenset(word for text in page.titles[:2] for word in significant_words(text))
            focus = sum(weight for word, weight in weights.items() if word in head) / total
            rank = got / total + focus / 2 + _PHRASE * phrases.get(page, 0.0) + _KINDS.get(page.kind, 0)
            hits.append((rank, focus, Hit(page, got / total)))
    hits.sort(key=lambda hit: (-round(hit[0], 2), -hit[1]))
    return tuple(hit for *_, hit in hits)


def _shared_phrases(question: str, pages: Sequence[WordPage]) -> dict[WordPage, float]:
    """How many pairs of neighbouring words of a question are in the titles of each page; rare ones count more."""
    asked = _word_pairs(question)
    held = {page: asked & frozenset().union(*map(_word_pairs, page.titles)) for page in pages} if asked else {}
    holders = Counter(pair for found in held.values() for pair in found)
    weights = {pair: log(1 + len(pages) / (holders[pair] or 1)) for pair in asked}
    total = sum(weights.values())
    return {page: sum(weights[pair] for pair in found) / total for page, found in held.items() if found}


@lru_cache(maxsize=4096)
def _word_pairs(text: str) -> frozenset[tuple[str, str]]:
    """Neighbouring words, except pairs of two common words: *driver too*, *too old*, *without gpu*."""
    words = [_stem(word) for word in _WORD.findall(text[:_MAX_CHARACTERS].lower().replace("nvidia-smi", "nvidia_smi"))]
    said = [word for word in words if word not in _ARTICLES]
    return frozenset(pair for pair in pairwise(said) if not all(map(_STOP_WORDS.fullmatch, pair)))


_ARTICLES = frozenset(("a", "an", "any", "mine", "my", "our", "the", "your"))
_PHRASE = 0.3
"""The weight of words that stand in the same order: *is my driver too old* is no question on old environments."""
_KINDS = {"answer": 0.5, "symptom": 0.01}
"""A page that answers a question goes before one that only speaks of the same things."""


def _word_weights(
    asked: Sequence[str],
    pages: Sequence[WordPage],
    titles: Mapping[WordPage, frozenset[str]],
    bodies: Mapping[WordPage, frozenset[str]],
) -> dict[str, float]:
    """The weight of each word: rare words count more, version numbers little."""
    found = {}
    for word in asked:
        holders = sum(1 for page in pages if word in titles[page] or word in bodies[page])
        weight = log(1 + len(pages) / holders) if holders else log(1 + len(pages)) * _UNKNOWN
        found[word] = weight * (0.2 if word[0].isdigit() else 1.0)
    return found
