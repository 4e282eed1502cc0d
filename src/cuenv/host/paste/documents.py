"""The JSON documents in a text: one, several one after another, or one on each line, as programs on many nodes print.

What stands between them is told with the number of its line, and so is a document that is broken: the others count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cuenv.core.reading import describe, no_constant, once
from cuenv.core.record import NamedTuple
from cuenv.core.regex import regex

_OWN = '"cuenv/host/'
_DIGITS = 400
"""Digits that a number may have."""
_BLANK = regex(r"[\s\ufeff]*")
_NODE = r"[A-Za-z0-9][\w.@-]{0,250}"
_ANSIBLE = rf"(?P<host>{_NODE}) \| (?:SUCCESS|CHANGED|FAILED!?|UNREACHABLE!)[^\n]{{0,40}}(?:=> ?|>>\s)"
_BEFORE = rf"(?:(?P<node>{_NODE}): ?|{_ANSIBLE})?"
_FIRST = regex(rf"\A[\s\ufeff]*{_BEFORE}[\[{{]")
_START = regex(rf"{_BEFORE}(?=[\[{{])")
_NEXT = regex(rf"\n(?={_BEFORE}[\[{{])")


class Document(NamedTuple):
    """One document of a text.

    Attributes:
        line: number of its first line, from 1.
        data: what was decoded; ``None`` where there is a fault.
        node: what stands before it, as ``clush`` puts the name of a node there.
        fault: why it is none.
        place: where it begins and ends in the text.
    """

    line: int
    data: Any = None
    node: str = ""
    fault: str = ""
    place: tuple[int, int] = (0, 0)


def looks_like_json(text: str) -> bool:
    """Whether a text begins as JSON, perhaps behind the name of a node, or holds a host of cuenv's further below."""
    return _FIRST.match(text) is not None or _OWN in text


def documents_of(text: str) -> Iterator[Document]:
    """Every document of a text, and every line that belongs to none, in their order."""
    decoder = json.JSONDecoder(object_pairs_hook=once, parse_constant=no_constant, parse_int=_number, parse_float=_real)
    at = counted = 0
    line = 1
    while at < len(text):
        blank = _BLANK.match(text, at)
        if blank and blank.end() > at:
            at = blank.end()
            continue
        line += text.count("\n", counted, at)
        counted = at
        start = _START.match(text, at)
        if start is None:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            yield Document(line, fault=f"expected the JSON of a host, got {describe(text[at : min(end, at + 200)])}")
            at = end
            continue
        try:
            data, at = _decoded(decoder, text, start.end())
        except RecursionError:
            fault = "nested too deeply for the JSON of a host"
        except json.JSONDecodeError as error:
            fault = f"not JSON: {error.msg} (character {error.pos - (start.end() if error.doc is text else 0) + 1})"
        except ValueError as error:
            fault = f"not JSON: {error}"
        else:
            yield Document(line, data, _named(start["node"] or start["host"]), place=(start.end(), at))
            continue
        yield Document(line, None, _named(start["node"] or start["host"]), fault, (start.end(), start.end()))
        following = _NEXT.search(text, start.end())
        at = following.end() if following else len(text)


def _decoded(decoder: json.JSONDecoder, text: str, at: int) -> tuple[Any, int]:
    """A document and where it ends: first within its line, since an error costs as much as the text before it."""
    end = text.find("\n", at)
    line = text[at : len(text) if end < 0 else end]
    try:
        data, length = decoder.raw_decode(line)
    except json.JSONDecodeError as error:
        if end < 0 or error.pos < len(line.rstrip()):
            raise
        return decoder.raw_decode(text, at)
    return data, at + length


def _named(node: str | None) -> str:
    """A prefix as a name; that of ``srun -l`` is the number of a task."""
    return "" if node is None or node.isdigit() else node


def _number(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _real(digits: str) -> float:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return float(digits)
