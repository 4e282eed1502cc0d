"""The loader's search in words: where it looked, what it passed over, and what lies where it does not look."""

from __future__ import annotations

import posixpath
from itertools import groupby

from cuenv.binary.loader import Loaded, candidates
from cuenv.binary.process import Missing
from cuenv.linkage.opening import Ground, Opening, stem_of

_FOLDERS = 4
_COPIES = 6


def looked(opening: Opening, item: Missing) -> tuple[str, ...]:
    """Where the loader looked for a library, one line for each part of the search."""
    process = opening.process
    lines = []
    tried = candidates(item.name, item.asker, process.main, process.system)
    for via, group in groupby(tried, key=lambda candidate: candidate.via):
        folders = [posixpath.dirname(candidate.path) for candidate in group]
        plain = list(dict.fromkeys(folder for folder in folders if "glibc-hwcaps" not in folder))
        more = f" and {len(plain) - _FOLDERS} more" if len(plain) > _FOLDERS else ""
        lines.append(f"looked in {via}: {', '.join(map(_clean, plain[:_FOLDERS]))}{more}")
    return tuple(lines)


def forbidden(opening: Opening, item: Missing) -> str | None:
    """A file that the search comes upon and may not read, which the loader passes over."""
    process = opening.process
    tried = candidates(item.name, item.asker, process.main, process.system)
    seen = (process.look(candidate.path) for candidate in tried)
    return next((found.path for found in seen if found.kind == "denied" and found.identity != (0, 0)), None)


def elsewhere(name: str, ground: Ground) -> tuple[str, ...]:
    """Copies in the environment of a library that the search does not find."""
    return ground.own.get(name, ())


def other_releases(name: str, ground: Ground) -> tuple[str, ...]:
    """Libraries of the environment that differ in the number of their name alone: ``libcudart.so.12``."""
    start = f"{stem_of(name)}.so."
    return tuple(sorted(other for other in ground.own if other.startswith(start) and other != name))


def copies(name: str, asker: Loaded, winner: Loaded, opening: Opening, ground: Ground) -> tuple[str, ...]:
    """The files that could have been chosen, in the order of the search, the winner first."""
    process = opening.process
    lines: list[str] = []
    seen: set[tuple[int, int]] = set()
    for candidate in candidates(name, asker, process.main, process.system):
        found = process.look(candidate.path)
        if found.kind == "elf" and found.identity not in seen:
            seen.add(found.identity)
            word = "wins" if found.path == winner.path else "passed over"
            lines.append(f"{word}: {_clean(found.path)} ({candidate.via})")
    for path in elsewhere(name, ground):
        if process.look(path).identity not in seen:
            lines.append(f"not searched from there: {_clean(path)}")
    return tuple(lines[:_COPIES])


def _clean(path: str) -> str:
    text = posixpath.normpath(path)
    return text if text.isprintable() else repr(text)
