"""Reading YAML: the plain form in which cuenv itself writes it, and for all else the parser of PyYAML.

To load PyYAML takes as long as to read a lock of two hundred packages with it, and most files that are read are cuenv's
own. Their form has one value to a line, and no text that needs an escape. A file in any other form goes to PyYAML
as a whole: both give the same value for the same text, and PyYAML alone says what is wrong with one.
"""

from __future__ import annotations

import re
from typing import Any

from cuenv.core.errors import InputError
from cuenv.core.regex import regex
from cuenv.core.yaml_write import is_word

_MAX_TEXT = 64 * 1024 * 1024
_MAX_PLAIN = 16 * 1024 * 1024
_MAX_DEPTH = 20
_QUOTED = r'"[ !#-\[\]-~]*(?:\\(?:["\\]|x23)[ !#-\[\]-~]*)*"'
_LINE = regex(
    r"( *)(- )?"
    r'(?:([A-Za-z_][\w./-]{0,200}|"[ !#-\[\]-~]{0,200}"):(?: |$))?'
    rf"({_QUOTED}|[A-Za-z_][\w./+=<>!~*,|-]*(?:::?[\w./+=<>!~*,|-]+)*|0|[1-9]\d{{,8}}|\[\]|\{{\}})?"
    r"| *#[ -~]*"
)
"""Indent, dash, key, value; or a comment. What has no quotes is what `scalar` leaves without them."""
_ESCAPED = regex(r"\\(x23|.)")


def load(text: str, source: str) -> Any:
    """Read one YAML document of mappings, lists and scalars (YAML 1.1, as PyYAML and conda-lock read it).

    Returns:
        the value; ``None`` for an empty document.

    Raises:
        InputError: no YAML; several documents; tags, merge keys or duplicate keys; deeper than 24 or larger than
            two million nodes, aliases counted with what they stand for.
    """
    if len(text) > _MAX_TEXT:
        raise InputError(f"{source}: {len(text)} characters are more than the limit of {_MAX_TEXT}")
    found = plain_document(text)
    if found is not None:
        return found
    from cuenv.core.yaml_events import document  # noqa: PLC0415 - see the module docstring

    return document(text, source)


def plain_document(text: str) -> dict[str, Any] | None:
    """The mapping in a text of the plain form; ``None`` for a text in any other form, right or wrong."""
    if len(text) > _MAX_PLAIN or not text.isascii():
        return None
    reader, match = _Plain(), _LINE.fullmatch
    try:
        for line in text.split("\n"):
            if line:
                found = match(line)
                if not found:
                    return None
                blanks, dash, key, value = found.groups()
                if blanks is not None:  # else a comment
                    reader.take(len(blanks), dash, key, value)
    except _OtherFormError:
        return None
    return None if reader.waiting else reader.root or None


class _OtherFormError(Exception):
    """The text is not in the plain form."""


class _Plain:
    """Makes a mapping of lines in the plain form.

    Attributes:
        stack: the open containers, each with its indent.
        waiting: a key whose value begins in the next line, with its indent and its mapping.
    """

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self.stack: list[tuple[int, Any]] = [(0, self.root)]
        self.waiting: tuple[int, dict[str, Any], str] | None = None

    def take(self, indent: int, dash: str | None, key: str | None, value: str | None) -> None:
        """Take a line in.

        Raises:
            _OtherFormError: it does not belong there, or the key in it is no plain one.
        """
        if self.waiting:
            self._open(indent, dash)
        stack = self.stack
        while stack[-1][0] > indent or (not dash and stack[-1][0] == indent and type(stack[-1][1]) is list):
            stack.pop()
        begins, container = stack[-1]
        if begins != indent or (type(container) is list) is not bool(dash):
            raise _OtherFormError
        if not key:
            if not dash or value is None:
                raise _OtherFormError
            container.append(_value(value))
            return
        if dash:
            entry: dict[str, Any] = {}
            container.append(entry)
            container, indent = entry, indent + 2
            stack.append((indent, entry))
        name = key[1:-1] if key[0] == '"' else key
        if name in container or (name is key and is_word(key)):
            raise _OtherFormError
        if value is None:
            self.waiting = indent, container, name
        else:
            container[name] = _value(value)

    def _open(self, indent: int, dash: str | None) -> None:
        """Begin the value of the key that waits: a list may stand below the key itself, a mapping is indented."""
        at, parent, name = self.waiting or (0, self.root, "")
        if indent < at or (indent == at and not dash) or len(self.stack) > _MAX_DEPTH:
            raise _OtherFormError
        new: Any = [] if dash else {}
        parent[name] = new
        self.stack.append((indent, new))
        self.waiting = None


def _value(text: str) -> Any:
    first = text[0]
    if first == '"':
        return _ESCAPED.sub(_unescaped, text[1:-1]) if "\\" in text else text[1:-1]
    if first in "[{":
        return [] if first == "[" else {}
    if first.isdigit():
        return int(text)
    if is_word(text):
        if text not in ("true", "false"):
            raise _OtherFormError
        return text == "true"
    return text


def _unescaped(found: re.Match[str]) -> str:
    return "#" if found[1] == "x23" else found[1]
