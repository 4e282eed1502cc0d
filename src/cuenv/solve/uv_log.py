"""What packages for pip require, read from what uv says of its resolving (``RUST_LOG=uv_resolver=debug``).

uv's ``pylock.toml`` does not tell dependencies, and its annotations tell names without versions. Its log tells both,
for the target platform and Python, at no cost: one line for each, in the same words from uv 0.8 to 0.13:
``DEBUG Adding transitive dependency for accelerate==1.2.0: huggingface-hub>=0.21.0``. Where the words change,
nothing is found. Versions are written as ranges, and are put back into the form of PEP 440 here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise

from cuenv.solve.model import PipLocked
from cuenv.solve.pip_part import normalise

LOG = "uv_resolver=debug"
"""The value of ``RUST_LOG``."""

_NAME = r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[^\]]*\])?(?:\{[^}]*\})?"
_LINE = re.compile(rf"DEBUG Adding transitive dependency for {_NAME}==(\S+): {_NAME}((?:[*<>=].*)?)")
_ANY_LINE = re.compile(r"(?:TRACE|DEBUG|INFO|WARN) .*")
_LAST = re.compile(r"(\d+)$")


def without_log(text: str) -> str:
    """What uv said beside its log."""
    return "\n".join(line for line in text.splitlines() if not _ANY_LINE.match(line))


def requirements(text: str, packages: Iterable[PipLocked], given: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """What each package requires, as ``name>=1,<2``, sorted; by the name of the package.

    Args:
        text: uv's standard error.
        packages: what came out; what was tried and given up does not count.
        given: names and versions of what conda provides: uv repeats those as requirements of everybody.
    """
    kept = {item.name: item.version for item in packages}
    found: dict[str, dict[str, dict[str, None]]] = {}
    for line in text.splitlines():
        hit = _LINE.fullmatch(line)
        parent, child = (normalise(hit[1]), normalise(hit[3])) if hit else ("", "")
        if hit and parent != child and kept.get(parent) == hit[2]:
            found.setdefault(parent, {}).setdefault(child, {})[specifier(hit[4]) or ""] = None
    return {
        parent: tuple(sorted(f"{child}{_joined(texts, given.get(child))}" for child, texts in children.items()))
        for parent, children in found.items()
    }


def _joined(texts: Iterable[str], given: str | None) -> str:
    """Several ranges on one name as one; the version that conda gives is no wish of the package, unless alone."""
    known = [text for text in texts if text]
    own = [text for text in known if given is None or text != f"=={given}"] if len([*texts]) > 1 else known
    return ",".join(dict.fromkeys(part for text in own for part in text.split(",")))


def specifier(text: str) -> str | None:
    """A range of uv as PEP 440 writes it; empty for every version, ``None`` for what PEP 440 cannot say.

    ``<1.5 | >=1.5+`` is ``!=1.5``: a plus behind a number stands for the number with every local label.
    """
    if text in ("", "*"):
        return ""
    segments = [_segment(part) for part in text.split(" | ")]
    if not all(segments) or (len(segments) > 1 and ("==", "") in {item[0] for item in segments if item}):
        return None
    bounds = [item for item in segments if item]
    first, last = bounds[0][0], bounds[-1][1]
    gaps = [_gap(before[1], after[0]) for before, after in pairwise(bounds)]
    if not all(gaps):
        return None
    outer = _whole(first, last) if len(bounds) == 1 else [_lower(first), _upper(last)]
    return ",".join(filter(None, [*outer, *(gap or "" for gap in gaps)]))


_Bound = tuple[str, str]


def _segment(text: str) -> tuple[_Bound, _Bound] | None:
    """The lower and the upper end of one stretch, as operator and version."""
    lower, upper = ("", ""), ("", "")
    for part in text.split(", "):
        hit = re.fullmatch(r"(==|<=|>=|<|>)([0-9][0-9A-Za-z.!+_-]*)", part)
        if not hit:
            return None
        if hit[1] == "==":
            return (">=", hit[2]), ("<=", hit[2])
        if hit[1][0] == ">":
            lower = (hit[1], hit[2])
        else:
            upper = (hit[1], hit[2])
    return lower, upper


def _whole(lower: _Bound, upper: _Bound) -> list[str]:
    """One stretch: a single version, a prefix, or its two ends."""
    if lower[0] == ">=" and upper in (("<=", lower[1]), ("<", f"{lower[1]}+")):
        return [f"=={lower[1]}"]
    prefix = _prefix(lower, upper)
    return [f"=={prefix}.*"] if prefix else [_lower(lower), _upper(upper)]


def _gap(upper: _Bound, lower: _Bound) -> str | None:
    """What lies between two stretches, as an exclusion; ``None`` when it is neither a version nor a prefix."""
    if upper[0] == "<" and lower == (">=", f"{upper[1]}+"):
        return f"!={upper[1]}"
    prefix = _prefix((">=", upper[1]), ("<", lower[1])) if (upper[0], lower[0]) == ("<", ">=") else None
    return f"!={prefix}.*" if prefix else None


def _prefix(lower: _Bound, upper: _Bound) -> str | None:
    """``1.5`` for what lies from 1.5.dev0 to 1.6.dev0."""
    first, last = lower[1].removesuffix(".dev0"), upper[1].removesuffix(".dev0")
    if (lower[0], upper[0]) != (">=", "<") or first == lower[1] or last == upper[1]:
        return None
    following = _LAST.sub(lambda hit: str(int(hit[1]) + 1), first)
    return first if following == last else None


def _lower(bound: _Bound) -> str:
    operator, number = bound
    if number.endswith("+"):
        return f">{number[:-1]}"
    return f"{operator}{number}"


def _upper(bound: _Bound) -> str:
    operator, number = bound
    if number.endswith("+"):
        return f"<={number[:-1]}"
    return f"{operator}{number.removesuffix('.dev0') if operator == '<' else number}"
