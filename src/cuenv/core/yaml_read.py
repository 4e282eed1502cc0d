"""Read foreign YAML within limits.

PyYAML's loaders are recursive: two hundred thousand opening brackets crash the C loader with a segmentation fault. This
module reads the parser's events instead, and limits depth, size, aliases and duplicate keys in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import yaml

from cuenv.core.errors import InputError

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the loader that parses YAML; its positions count characters
_RESOLVERS = yaml.SafeLoader.yaml_implicit_resolvers
_MAX_DEPTH = 24
_MAX_NODES = 2_000_000
_MAX_TEXT = 64 * 1024 * 1024
_MAX_TYPED = 64  # no number or date is longer; reading a long base-60 number costs quadratic time
_NO_KEY = object()  # no key has been read yet


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
    try:
        events = iter(LOADER(text.removeprefix("\ufeff")).get_event, None)
        return _Builder(source).build(events)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        tab = "\t" in _line(text, mark.line) if mark else False
        problem = f"not valid YAML: {where}{ascii(error.problem or 'no YAML')[1:-1]}"
        if mark and "nesting depth" in str(error.problem):  # libyaml's own bound, met while it looks ahead
            problem = f"line {mark.line + 1}: nested deeper than {_MAX_DEPTH}"
        message = f"{source}: {problem}"
        hint = "YAML is indented with spaces, not tabs" if tab else None
        raise InputError(message, hint=hint, line=mark.line + 1 if mark else 0) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise InputError(f"{source}: not a text file, or not in UTF-8") from error


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number] if number < len(lines) else ""


class _Builder:
    """Builds the value of one document from its events."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.nodes = 0
        self.anchors: dict[str, tuple[Any, int]] = {}
        # Per open container: the container, the key in waiting, its anchor, the node count when it began.
        self.stack: list[tuple[Any, str | None, int]] = []
        self.key: Any = _NO_KEY
        self.keys: list[Any] = []

    def build(self, events: Iterator[Any]) -> Any:
        root: Any = None
        seen = False
        for event in events:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                value = self._scalar(event)
                if event.anchor:
                    self.anchors[event.anchor] = (value, 1)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._begin(event, {} if kind is yaml.MappingStartEvent else [])
                continue
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                value = self._end()
            elif kind is yaml.AliasEvent:
                value = self._alias(event)
            elif kind is yaml.DocumentStartEvent and seen:
                raise self.fault(event, "a second document begins here; a file may have only one")
            else:
                seen = seen or kind is yaml.DocumentStartEvent
                continue
            if self.stack:
                self._add(value, event)
            else:
                root = value
        return root

    def _scalar(self, event: Any) -> Any:
        """The value of a scalar, in one method because a lock has thousands of them."""
        self.nodes += 1
        if event.tag is not None or self.nodes > _MAX_NODES:
            raise self._refusal(event)
        if event.style:
            return event.value
        try:
            return _value(event.value)
        except (ValueError, yaml.YAMLError) as error:
            raise self.fault(event, f"invalid value: {event.value[:60]!a}") from error

    def _begin(self, event: Any, container: Any) -> None:
        self.nodes += 1
        if event.tag is not None or self.nodes > _MAX_NODES:
            raise self._refusal(event)
        if len(self.stack) >= _MAX_DEPTH:
            raise self.fault(event, f"nested deeper than {_MAX_DEPTH}")
        if self.stack and type(self.stack[-1][0]) is dict and self.key is _NO_KEY:
            raise self.fault(event, "a key must be a plain text, not a mapping or list")
        self.keys.append(self.key)
        self.key = _NO_KEY
        self.stack.append((container, event.anchor, self.nodes))

    def _end(self) -> Any:
        container, anchor, began = self.stack.pop()
        self.key = self.keys.pop()
        if anchor:
            self.anchors[anchor] = (container, self.nodes - began + 1)
        return container

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self.anchors:
            raise self.fault(event, "an alias (*) comes before its anchor")
        value, size = self.anchors[event.anchor]
        self.nodes += size
        if self.nodes > _MAX_NODES:
            raise self._refusal(event)
        return value

    def _add(self, value: Any, event: Any) -> None:
        container = self.stack[-1][0]
        if type(container) is list:
            container.append(value)
        elif self.key is not _NO_KEY:
            container[self.key] = value
            self.key = _NO_KEY
        elif isinstance(value, (dict, list)):
            raise self.fault(event, "a key must be a plain text, not a mapping or list")
        elif value == "<<" and type(event) is yaml.ScalarEvent and not event.style:
            raise self.fault(event, "merge keys (<<) are not supported")
        elif value in container:
            raise self.fault(event, f"the key {value!a} appears twice")
        else:
            self.key = value

    def _refusal(self, event: Any) -> InputError:
        """The error on a tag or on too many nodes."""
        tagged = event.tag if type(event) is not yaml.AliasEvent else None
        return self.fault(
            event, f"more than {_MAX_NODES} nodes" if tagged is None else f"tags are not supported: {tagged!a}"
        )

    def fault(self, event: Any, message: str) -> InputError:
        line = event.start_mark.line + 1
        return InputError(f"{self.source}: line {line}: {message}", line=line)


@lru_cache(maxsize=512)
def _value(text: str) -> Any:
    """The value of a scalar without quotes; PyYAML converts those that are not strings."""
    typed = text != "<<" and len(text) <= _MAX_TYPED
    if typed and any(pattern.match(text) for _, pattern in _RESOLVERS.get(text[:1], ())):
        return yaml.load(text, Loader=LOADER)  # noqa: S506 - the safe loader, on one plain scalar
    return text
