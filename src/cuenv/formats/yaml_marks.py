"""Where the values of a YAML file stand; the file must have been read by `yaml_read.load`, which sets the bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import yaml

from cuenv.formats.yaml_read import LOADER, load
from cuenv.lint.tree import Node


def marked(text: str, source: str) -> Node | None:
    """The tree of a YAML document with the place of each value; an alias stands for no value.

    Raises:
        InputError: as `yaml_read.load`.
    """
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
            node = _scalar(event, shift)
        elif kind is yaml.AliasEvent:
            start, end = event.start_mark.index + shift, event.end_mark.index + shift
            node = Node(kind="plain", start=start, end=end)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            node = _closed(*open_.pop(), event.end_mark.index + shift)
        else:
            continue
        if open_:
            open_[-1][2].append(node)
        else:
            done = node
    return done


def _scalar(event: Any, shift: int) -> Node:
    return Node(
        kind="text" if event.style else "plain",
        start=event.start_mark.index + shift,
        end=event.end_mark.index + shift,
        text=event.value,
    )


def _closed(kind: str, start: int, nodes: list[Node], end: int) -> Node:
    """A list or mapping; a block ends with its last value, not with the blank lines behind it."""
    if kind == "list":
        return Node(kind="list", start=start, end=end, items=tuple(nodes))
    entries = tuple(zip(nodes[::2], nodes[1::2], strict=True))
    return Node(kind="map", start=start, end=end, entries=entries)
