"""A strict reader for all data that people or other programs write.

It checks types exactly and refuses unknown keys; an error names the place: ``gpus[3].capability: expected 'X.Y', got
86``. All faults of one input are reported together.
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
FALSE = frozenset({"0", "false", "no", "off"})  # the words for yes and no in settings and variables, in lower case


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends, split only at line feeds, unlike str.splitlines."""
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


class Faults:
    """Collects the faults of one input, and raises them as one error."""

    def __init__(self, source: str, error: type[InputError] = InputError) -> None:
        self.source = source
        self.error = error
        self.items: list[str] = []

    def add(self, path: str, message: str) -> None:
        """Add a fault at a path such as ``gpus[3].capability``, as one line without credentials."""
        self.items.append(one_line(redact(f"{path}: {message}" if path else message)))

    def check(self, hint: str | None = None) -> None:
        """Raise the collected faults, if there are any."""
        if self.items:
            raise self.whole(hint)

    def whole(self, hint: str | None = None) -> InputError:
        """The collected faults as one error."""
        shown, source = self.items[:_MAX_FAULTS], one_line(self.source)
        if len(self.items) > _MAX_FAULTS:
            shown.append(f"... and {len(self.items) - _MAX_FAULTS} more")
        if len(shown) == 1:
            return self.error(f"{source}: {shown[0]}", hint=hint)
        lines = "\n".join(f"  {item}" for item in shown)
        return self.error(f"{source}: {len(self.items)} faults\n{lines}", hint=hint)


def describe(value: object) -> str:
    """A value for an error: shortened, on one line, without control characters."""
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


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The ``object_pairs_hook`` that refuses duplicate keys, of which json silently keeps the last.

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
    """The ``parse_constant`` that refuses NaN and Infinity, which json accepts but JSON does not have.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{name} is not a JSON number")


def shell_words(text: str) -> list[str]:
    """The words of a text as a shell splits it; split only at spaces if a quote is not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


class Reader:
    """Reads one mapping. Every method marks its key as known; ``done`` refuses all other keys."""

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
        """Whether the key exists and is not null."""
        self._known.add(key)
        return self._data.get(key) is not None

    def raw(self, key: str) -> Any:
        """The unchecked value, or ``None``."""
        self._known.add(key)
        return self._data.get(key)

    def get(self, key: str, kind: type[T], default: T | None = None, *, required: bool = False) -> T | None:
        """The value if it has exactly this type, otherwise the default; a wrong type is a fault."""
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
        """A string, converted by ``parse``; a ValueError becomes a fault at this path."""
        value = self.get(key, str, required=required)
        return None if value is None else self._try(parse, value, self.at(key))

    def texts(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(value for _, value in self._list(key, str, required=required))

    def parsed_list(self, key: str, parse: Callable[[str], T], *, required: bool = False) -> tuple[T, ...]:
        """A list of strings, converted by ``parse``."""
        found = (self._try(parse, value, path) for path, value in self._list(key, str, required=required))
        return tuple(value for value in found if value is not None)

    def readers(self, key: str, *, required: bool = False) -> Iterator[Reader]:
        """A list of mappings, each as a reader."""
        for path, value in self._list(key, dict, required=required):
            yield Reader(value, self.faults, path)

    def reader(self, key: str) -> Reader | None:
        """A mapping as a reader, or ``None`` without the key."""
        value = self.raw(key)
        return None if value is None else Reader(value, self.faults, self.at(key))

    def one(self, key: str, make: Callable[[Reader], T]) -> T | None:
        """A mapping that ``make`` reads completely; ``None`` without the key."""
        inner = self.reader(key)
        return None if inner is None else inner.read(make)

    def each(self, key: str, make: Callable[[Reader], T], *, required: bool = False) -> tuple[T, ...]:
        """A list of mappings that ``make`` reads completely."""
        return tuple(inner.read(make) for inner in self.readers(key, required=required))

    def read(self, make: Callable[[Reader], T]) -> T:
        """What ``make`` reads from this mapping; keys that it does not read are faults."""
        found = make(self)
        self.done()
        return found

    def done(self) -> None:
        """Add a fault for every key that was not read."""
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


def read_by_schema(value: Any, schema: Mapping[str, Any], faults: Faults, path: str = "", kinds: Any = None) -> Any:
    """The parts of a JSON value that a schema describes; a missing part or a wrong type is a fault at its path.

    Whole numbers are counts or positions, so they must be between zero and a billion.
    """
    kinds = schema.get("$defs", {}) if kinds is None else kinds
    if "$ref" in schema:
        schema = kinds[schema["$ref"].rpartition("/")[2]]
    if "const" in schema or (value is None and ("anyOf" in schema or "null" in schema["type"])):
        return value
    if "anyOf" in schema:  # with null
        return read_by_schema(value, schema["anyOf"][0], faults, path, kinds)
    names = schema["type"]
    kind = _OF_SCHEMA[names if isinstance(names, str) else names[0]]
    fits = type(value) is kind
    if not fits or (kind is int and not 0 <= value < _MANY):
        what = "a count" if kind is int else _NAMES[kind]
        faults.add(path, f"expected {what}, got {describe(value)}")
        return kind()
    if kind is list:
        return [read_by_schema(item, schema["items"], faults, f"{path}[{at}]", kinds) for at, item in enumerate(value)]
    if kind is dict:
        wanted = ((key, of) for key, of in schema["properties"].items() if key in value or key in schema["required"])
        return {
            key: read_by_schema(value.get(key), of, faults, f"{path}.{key}".lstrip("."), kinds) for key, of in wanted
        }
    return value


def _nearest(word: str, known: set[str]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - only when something is wrong

    return next(iter(get_close_matches(word, known, n=1)), None)


def md5_hash(text: str) -> str:
    """Return an MD5 in hexadecimal digits.

    Raises:
        ValueError: it is not an MD5.
    """
    return _hexadecimal(text, 32)


def sha256_hash(text: str) -> str:
    """Return a SHA-256 in hexadecimal digits.

    Raises:
        ValueError: it is not a SHA-256.
    """
    return _hexadecimal(text, 64)


def _hexadecimal(text: str, count: int) -> str:
    if len(text) != count or not set(text) <= _HEXADECIMAL:
        raise ValueError(f"expected {count} hexadecimal digits, got {describe(text)}")
    return text


def sha256_of(data: bytes) -> str:
    """The SHA-256 in hexadecimal digits by Python's own code, because `hashlib` loads OpenSSL, which takes 3 ms."""
    for name in ("_sha2", "_sha256", "hashlib"):  # since Python 3.12; before; where Python was built without its own
        with suppress(ImportError):
            return str(import_module(name).sha256(data).hexdigest())
    raise ImportError("hashlib")
