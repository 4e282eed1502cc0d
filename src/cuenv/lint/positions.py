"""Readers of JSON and YAML that keep the place of each value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import yaml

from cuenv.core.errors import InputError
from cuenv.core.record import dataclass, field
from cuenv.core.regex import regex
from cuenv.core.yaml_read import LOADER, load
from cuenv.lint import Node

_MAX_DEPTH = 64
_SPACE = regex(r"[ \t\r\n\ufeff]+")
_COMMENT = regex(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = regex(r'"(?:[^"\\\n]|\\.)*"')
_PLAIN = regex(r"true|false|null|NaN|-?Infinity|-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_REST_OF_WORD = regex(r"[^\s,:\[\]{}\"#/]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFile:
    """A JSON file as a tree."""

    tree: Node
    comments: tuple[int, ...]  # where comments begin; strict JSON has none
    commas: tuple[int, ...]  # where there is a comma before a closing bracket; strict JSON has none
    duplicates: tuple[Node, ...]  # keys that occur again in the same mapping


def parse_json(text: str, source: str) -> JsonFile:
    """Read a JSON file that may have comments and trailing commas.

    Raises:
        InputError: it is not valid JSON even so; the message names the line.
    """
    reader = _JsonReader(text, source)
    tree = reader.value(0)
    reader.blank()
    if reader.at < len(text):
        raise reader.fault("unexpected text after the end of the value")
    return JsonFile(
        tree=tree, comments=tuple(reader.comments), commas=tuple(reader.commas), duplicates=tuple(reader.duplicates)
    )


@dataclass(slots=True)
class _JsonReader:
    text: str
    source: str
    at: int = 0
    comments: list[int] = field(default_factory=list)
    commas: list[int] = field(default_factory=list)
    duplicates: list[Node] = field(default_factory=list)

    def fault(self, message: str) -> InputError:
        line = self.text.count("\n", 0, self.at) + 1
        return InputError(f"{self.source}: line {line}: {message}", line=line)

    def blank(self) -> None:
        """Skip white space and comments."""
        while True:
            space = _SPACE.match(self.text, self.at)
            if space:
                self.at = space.end()
            comment = _COMMENT.match(self.text, self.at)
            if not comment:
                return
            self.comments.append(self.at)
            self.at = comment.end()

    def value(self, depth: int) -> Node:
        self.blank()
        if depth > _MAX_DEPTH:
            raise self.fault(f"nested deeper than {_MAX_DEPTH}")
        mark = self.text[self.at : self.at + 1]
        if mark == "{":
            return self.mapping(depth)
        if mark == "[":
            return self.sequence(depth)
        return self.scalar()

    def scalar(self) -> Node:
        start = self.at
        quoted = _STRING.match(self.text, start)
        found = quoted or _PLAIN.match(self.text, start)
        rest = _REST_OF_WORD.match(self.text, found.end() if found else start)
        if not found or (rest and rest[0]):
            what = ascii(self.text[start : start + 20]) if start < len(self.text) else "the end of the file"
            raise self.fault(f"expected a value, got {what}")
        self.at = found.end()
        text = found[0][1:-1] if quoted else found[0]
        return Node(kind="text" if quoted else "plain", start=start, end=self.at, text=text)

    def sequence(self, depth: int) -> Node:
        start, items = self.at, []
        self.at += 1
        while not self.closes("]"):
            items.append(self.value(depth + 1))
            self.comma("]")
        return Node(kind="list", start=start, end=self.at, items=tuple(items))

    def mapping(self, depth: int) -> Node:
        start, entries, seen = self.at, [], set[str]()
        self.at += 1
        while not self.closes("}"):
            key = self.scalar()
            if key.kind != "text":
                raise self.fault(f"a key must be in quotes: {key.text[:60]!a}")
            if key.text in seen:
                self.duplicates.append(key)
            seen.add(key.text)
            self.blank()
            if self.text[self.at : self.at + 1] != ":":
                raise self.fault(f"expected ':' after the key {key.text[:60]!a}")
            self.at += 1
            entries.append((key, self.value(depth + 1)))
            self.comma("}")
        return Node(kind="map", start=start, end=self.at, entries=tuple(entries))

    def closes(self, bracket: str) -> bool:
        self.blank()
        if self.text[self.at : self.at + 1] != bracket:
            if self.at >= len(self.text):
                raise self.fault(f"the file ends before {bracket!r}")
            return False
        self.at += 1
        return True

    def comma(self, bracket: str) -> None:
        """Skip the comma between two values, and note a comma before the closing bracket."""
        self.blank()
        mark = self.text[self.at : self.at + 1]
        if mark == ",":
            comma, self.at = self.at, self.at + 1
            self.blank()
            if self.text[self.at : self.at + 1] == bracket:
                self.commas.append(comma)
        elif mark != bracket:
            raise self.fault(
                f"expected ',' or {bracket!r}, got {mark!a}" if mark else f"the file ends before {bracket!r}"
            )


def parse_yaml(text: str, source: str) -> Node | None:
    """The tree of a YAML document with the place of each value; an alias is an empty value."""
    load(text, source)
    shift = len(text) - len(text.removeprefix("\ufeff"))
    open_: list[tuple[str, int, list[Node]]] = []
    done: Node | None = None
    for event in cast("Iterator[Any]", yaml.parse(text[shift:], Loader=LOADER)):
        kind = type(event)
        if kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            open_.append(("map" if kind is yaml.MappingStartEvent else "list", event.start_mark.index + shift, []))
            continue
        if kind is yaml.ScalarEvent:
            node = _scalar_node(event, shift)
        elif kind is yaml.AliasEvent:
            start, end = event.start_mark.index + shift, event.end_mark.index + shift
            node = Node(kind="plain", start=start, end=end)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            node = _collection_node(*open_.pop(), event.end_mark.index + shift)
        else:
            continue
        if open_:
            open_[-1][2].append(node)
        else:
            done = node
    return done


def _scalar_node(event: Any, shift: int) -> Node:
    return Node(
        kind="text" if event.style else "plain",
        start=event.start_mark.index + shift,
        end=event.end_mark.index + shift,
        text=event.value,
    )


def _collection_node(kind: str, start: int, nodes: list[Node], end: int) -> Node:
    """A list or mapping; a block ends with its last value, not with the blank lines after it."""
    if kind == "list":
        return Node(kind="list", start=start, end=end, items=tuple(nodes))
    entries = tuple(zip(nodes[::2], nodes[1::2], strict=True))
    return Node(kind="map", start=start, end=end, entries=entries)
