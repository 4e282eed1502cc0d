"""Split a text into JSON documents: one, several in sequence, or one on each line, as programs on many nodes print.

Text between documents and invalid documents are reported with their line; the other documents are still read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cuenv.core.reading import describe, no_constant, unique_keys
from cuenv.core.record import NamedTuple
from cuenv.core.regex import regex

_OWN = '"cuenv/host/'
_DIGITS = 400  # the most digits of a number
_BLANK = regex(r"[\s\ufeff]*")
_NODE = r"[A-Za-z0-9][\w.@-]{0,250}"
_ANSIBLE = rf"(?P<host>{_NODE}) \| (?:SUCCESS|CHANGED|FAILED!?|UNREACHABLE!)[^\n]{{0,40}}(?:=> ?|>>\s)"
_BEFORE = rf"(?:(?P<node>{_NODE}): ?|{_ANSIBLE})?"
_FIRST = regex(rf"\A[\s\ufeff]*{_BEFORE}[\[{{]")
_START = regex(rf"{_BEFORE}(?=[\[{{])")
_NEXT = regex(rf"\n(?={_BEFORE}[\[{{])")


class JsonPart(NamedTuple):
    """One document of a text, or a part that is not a document."""

    line: int  # the number of its first line, from 1
    data: Any = None  # the decoded document; ``None`` if there is a fault
    node: str = ""  # the name of a node in front of it, as ``clush`` prints it
    fault: str = ""  # why it is not a document; empty if it is
    place: tuple[int, int] = (0, 0)  # its start and end in the text


def looks_like_json(text: str) -> bool:
    """Whether a text begins with JSON, possibly after the name of a node, or contains a host that cuenv wrote."""
    return _FIRST.match(text) is not None or _OWN in text


def split_json(text: str) -> Iterator[JsonPart]:
    """Every document of a text and every line outside of documents, in their order."""
    decoder = json.JSONDecoder(
        object_pairs_hook=unique_keys, parse_constant=no_constant, parse_int=_integer, parse_float=_float
    )
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
            yield JsonPart(line, fault=f"expected the JSON of a host, got {describe(text[at : min(end, at + 200)])}")
            at = end
            continue
        try:
            data, at = _decode(decoder, text, start.end())
        except RecursionError:
            fault = "nested too deeply for the JSON of a host"
        except json.JSONDecodeError as error:
            fault = f"not JSON: {error.msg} (character {error.pos - (start.end() if error.doc is text else 0) + 1})"
        except ValueError as error:
            fault = f"not JSON: {error}"
        else:
            yield JsonPart(line, data, _node_name(start["node"] or start["host"]), place=(start.end(), at))
            continue
        yield JsonPart(line, None, _node_name(start["node"] or start["host"]), fault, (start.end(), start.end()))
        following = _NEXT.search(text, start.end())
        at = following.end() if following else len(text)


def _decode(decoder: json.JSONDecoder, text: str, at: int) -> tuple[Any, int]:
    """A document and its end. One line is tried first, because an error takes time in proportion to the text."""
    end = text.find("\n", at)
    line = text[at : len(text) if end < 0 else end]
    try:
        data, length = decoder.raw_decode(line)
    except json.JSONDecodeError as error:
        if end < 0 or error.pos < len(line.rstrip()):
            raise
        return decoder.raw_decode(text, at)
    return data, at + length


def _node_name(node: str | None) -> str:
    """The name of a node in a prefix; empty for the task number of ``srun -l``."""
    return "" if node is None or node.isdigit() else node


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _float(digits: str) -> float:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return float(digits)
