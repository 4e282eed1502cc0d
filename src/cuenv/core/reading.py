"""One strict reader for everything that a person or a stranger may have written.

Exact types, unknown keys refused, and an error says where: ``gpus[3].capability: expected 'X.Y', got 86``.
All faults of one input are collected and reported together.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar

from cuenv.core.errors import InputError
from cuenv.core.urls import one_line, redact

T = TypeVar("T")

_NAMES = {str: "a string", int: "a whole number", bool: "true or false", dict: "a mapping", list: "a list"}
_MAX_FAULTS = 12
_HEXADECIMAL = frozenset("0123456789abcdef")


TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})
"""How settings and variables say yes and no, in lower case."""


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends, for tools that break them at line feeds alone, unlike str.splitlines."""
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


class Faults:
    """Collects what is wrong with one input, then raises it as one error."""

    def __init__(self, source: str, error: type[InputError] = InputError) -> None:
        self.source = source
        self.error = error
        self.items: list[str] = []

    def add(self, path: str, message: str) -> None:
        """Note one fault at a path such as ``gpus[3].capability``, as one line; credentials of a URL are left out."""
        self.items.append(one_line(redact(f"{path}: {message}" if path else message)))

    def check(self, hint: str | None = None) -> None:
        """Raise what was collected; do nothing when there is nothing."""
        if self.items:
            raise self.whole(hint)

    def whole(self, hint: str | None = None) -> InputError:
        """What was collected, as one error."""
        shown, source = self.items[:_MAX_FAULTS], one_line(self.source)
        if len(self.items) > _MAX_FAULTS:
            shown.append(f"... and {len(self.items) - _MAX_FAULTS} more")
        if len(shown) == 1:
            return self.error(f"{source}: {shown[0]}", hint=hint)
        lines = "\n".join(f"  {item}" for item in shown)
        return self.error(f"{source}: {len(self.items)} faults\n{lines}", hint=hint)


def describe(value: object) -> str:
    """Name a value in an error: short, on one line, without control characters."""
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list)):
        return f"{_NAMES[type(value)]} of {len(value)}"
    if hasattr(value, "isoformat"):
        return f"the date {value.isoformat()}"  # YAML and TOML read one without quotes as such
    try:
        text = repr(value)
    except ValueError:  # 0xff...: Python reads it, and writes no whole number of more than 4300 digits
        return "a whole number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The ``object_pairs_hook`` that refuses a key which appears twice; json itself keeps the last in silence.

    Raises:
        ValueError: a key appears twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {describe(twice)} appears twice in one mapping")
    return found


def no_constant(name: str) -> Any:
    """The ``parse_constant`` that refuses NaN and Infinity, which json takes and JSON does not have.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{name} is not a JSON number")


def shell_words(text: str) -> list[str]:
    """A text as a shell splits it; at blanks alone where a quote is left open."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


class Reader:
    """Reads one mapping. Every ``get`` marks its key as known; ``done`` refuses the rest."""

    def __init__(self, data: object, faults: Faults, path: str = "") -> None:
        self.faults = faults
        self.path = path
        self._known: set[str] = set()
        self._data: Mapping[Any, Any] = data if isinstance(data, dict) else {}
        self._is_mapping = isinstance(data, dict)
        if not self._is_mapping:
            faults.add(path, f"expected a mapping, got {describe(data)}")

    def at(self, key: str) -> str:
        """The path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        self._known.add(key)
        return self._data.get(key) is not None

    def raw(self, key: str) -> Any:
        """The value as it is, or ``None``."""
        self._known.add(key)
        return self._data.get(key)

    def get(self, key: str, kind: type[T], default: T | None = None, *, required: bool = False) -> T | None:
        """The value when it has exactly the type, else the default (with a fault where that is wrong)."""
        self._known.add(key)
        value = self._data.get(key)
        if value is None:
            if required and self._is_mapping:
                self.faults.add(self.at(key), f"expected {_NAMES.get(kind, kind.__name__)}, got nothing")
            return default
        if type(value) is not kind:
            self.faults.add(self.at(key), f"expected {_NAMES.get(kind, kind.__name__)}, got {describe(value)}")
            return default
        return value

    def text(self, key: str, default: str = "") -> str:
        """A required string."""
        found = self.get(key, str, required=True)
        return default if found is None else found

    def parsed(self, key: str, parse: Callable[[str], T], *, required: bool = False) -> T | None:
        """A string that ``parse`` understands; its ValueError becomes a fault at this path."""
        value = self.get(key, str, required=required)
        return None if value is None else self._try(parse, value, self.at(key))

    def texts(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(value for _, value in self._list(key, str, required=required))

    def parsed_list(self, key: str, parse: Callable[[str], T], *, required: bool = False) -> tuple[T, ...]:
        """A list of strings that ``parse`` understands."""
        found = (self._try(parse, value, path) for path, value in self._list(key, str, required=required))
        return tuple(value for value in found if value is not None)

    def readers(self, key: str, *, required: bool = False) -> Iterator[Reader]:
        """A list of mappings, each as a reader."""
        for path, value in self._list(key, dict, required=required):
            yield Reader(value, self.faults, path)

    def reader(self, key: str) -> Reader | None:
        """A mapping as a reader, or ``None`` when it is absent."""
        value = self.raw(key)
        return None if value is None else Reader(value, self.faults, self.at(key))

    def one(self, key: str, make: Callable[[Reader], T]) -> T | None:
        """A mapping that ``make`` reads, every key of it; ``None`` when it is absent."""
        inner = self.reader(key)
        return None if inner is None else inner.read(make)

    def each(self, key: str, make: Callable[[Reader], T], *, required: bool = False) -> tuple[T, ...]:
        """A list of mappings that ``make`` reads, every key of each."""
        return tuple(inner.read(make) for inner in self.readers(key, required=required))

    def read(self, make: Callable[[Reader], T]) -> T:
        """What ``make`` reads of this mapping, every key of it."""
        found = make(self)
        self.done()
        return found

    def done(self) -> None:
        """Refuse every key that nobody asked for."""
        for key in self._data:
            if key not in self._known:
                near = _nearest(str(key), self._known)
                self.faults.add(
                    self.path, f"unknown key {describe(key)}" + (f" (did you mean {near!r}?)" if near else "")
                )

    def _list(self, key: str, kind: type[T], *, required: bool) -> Iterator[tuple[str, T]]:
        items = self.get(key, list, required=required)
        for index, value in enumerate(items or ()):
            path = f"{self.at(key)}[{index}]"
            if type(value) is kind:
                yield path, value
            else:
                self.faults.add(path, f"expected {_NAMES.get(kind, kind.__name__)}, got {describe(value)}")

    def _try(self, parse: Callable[[str], T], value: str, path: str) -> T | None:
        try:
            return parse(value)
        except ValueError as error:
            self.faults.add(path, str(error))
            return None


_OF_SCHEMA: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list}
_MANY = 10**9


def fitted(value: Any, schema: Mapping[str, Any], faults: Faults, path: str = "", kinds: Any = None) -> Any:
    """What a schema that ships names of a JSON value; what is absent or of another type is a fault at its path.

    A whole number in it is a count or a place: none is negative, or as many as a billion.
    """
    kinds = schema.get("$defs", {}) if kinds is None else kinds
    if "$ref" in schema:
        schema = kinds[schema["$ref"].rpartition("/")[2]]
    if "const" in schema or (value is None and ("anyOf" in schema or "null" in schema["type"])):
        return value
    if "anyOf" in schema:  # with null
        return fitted(value, schema["anyOf"][0], faults, path, kinds)
    names = schema["type"]
    kind = _OF_SCHEMA[names if isinstance(names, str) else names[0]]
    fits = type(value) is kind
    if not fits or (kind is int and not 0 <= value < _MANY):
        what = "a count" if kind is int else _NAMES[kind]
        faults.add(path, f"expected {what}, got {describe(value)}")
        return kind()
    if kind is list:
        return [fitted(item, schema["items"], faults, f"{path}[{at}]", kinds) for at, item in enumerate(value)]
    if kind is dict:
        wanted = ((key, of) for key, of in schema["properties"].items() if key in value or key in schema["required"])
        return {key: fitted(value.get(key), of, faults, f"{path}.{key}".lstrip("."), kinds) for key, of in wanted}
    return value


def _nearest(word: str, known: set[str]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - only when something is wrong

    return next(iter(get_close_matches(word, known, n=1)), None)


def md5_hash(text: str) -> str:
    """An MD5 as it is written.

    Raises:
        ValueError: it is not one.
    """
    return _digits(text, 32)


def sha256_hash(text: str) -> str:
    """A SHA-256 as it is written.

    Raises:
        ValueError: it is not one.
    """
    return _digits(text, 64)


def _digits(text: str, count: int) -> str:
    if len(text) != count or not set(text) <= _HEXADECIMAL:
        raise ValueError(f"expected {count} hexadecimal digits, got {describe(text)}")
    return text


def sha256_of(data: bytes) -> str:
    """SHA-256 as hex by Python's own code, as `random` takes it: `hashlib` loads OpenSSL, which costs 3 ms."""
    for name in ("_sha2", "_sha256", "hashlib"):  # since Python 3.12; before; where Python was built without its own
        with suppress(ImportError):
            return str(import_module(name).sha256(data).hexdigest())
    raise ImportError("hashlib")
