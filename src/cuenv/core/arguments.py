"""Check the types of arguments of the public API, with errors that name arguments instead of options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from cuenv.core.errors import UsageError
from cuenv.core.regex import regex

T = TypeVar("T")

_NAMES: Mapping[str, str] = {"--gpu": "gpus", "--mirror": "mirrors", "--with": "packages", "--allow": "allow"}
_OPTION = regex(r"(?<![\w-])--(?:gpu|driver|glibc|platform|host|mirror|with|allow|pytorch|cuda|python|as-of)(?![\w-])")


def text(value: object, what: str, example: str) -> str:
    """Return an argument that must be a string.

    Raises:
        TypeError: it is not a string.
    """
    if isinstance(value, str):
        return value
    raise TypeError(f"{what} takes a text such as {example!r}, got {_describe(value)}")


def text_or_none(value: object, what: str, example: str) -> str | None:
    """Return an argument that must be a string or ``None``.

    Raises:
        TypeError: it is neither.
    """
    return None if value is None else text(value, what, example)


def several(values: object, what: str, example: str = "") -> tuple[str, ...]:
    """Return one string or path, or several, as a tuple; a string is not split into its letters.

    Raises:
        TypeError: it is neither.
    """
    if _is_path(values):
        return (_fspath(values),)
    if isinstance(values, (bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{what} takes a text{_example(example)}, or a list of them, got {_describe(values)}")
    found = []
    for value in values:
        if not _is_path(value):
            raise TypeError(f"{what} takes texts{_example(example)}, got {_describe(value)} among them")
        found.append(_fspath(value))
    return tuple(found)


def instance(value: Any, kind: type[T], what: str, where: str) -> T:
    """Return an argument that must be an instance of a class of cuenv.

    Args:
        value: the argument.
        kind: the class.
        what: the function and the argument, for the error.
        where: the function that makes such a value, for the error.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, kind):
        return value
    raise TypeError(f"{what} takes what {where} gives, got {_describe(value)}")


def _is_path(value: object) -> bool:
    return isinstance(value, str) or hasattr(value, "__fspath__")


def _fspath(value: Any) -> str:
    text = value if isinstance(value, str) else value.__fspath__()
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else str(text)


def _example(example: str) -> str:
    return f" such as {example!r}" if example else ""


def _describe(value: object) -> str:
    if isinstance(value, (int, float, complex)) and not isinstance(value, bool):
        return f"the number {value!r}"
    if value is None or isinstance(value, (bool, str)):
        shown = repr(value)
        return shown if len(shown) <= 60 else f"{shown[:57]}..."
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


@contextmanager
def naming_arguments() -> Iterator[None]:
    """Replace options by arguments in the usage errors of a block.

    Raises:
        UsageError: the error of the block with the replaced words.
    """
    try:
        yield
    except UsageError as error:
        hint = error.hint if error.hint is None or error.hint.startswith("cuenv ") else _in_python(error.hint)
        raise UsageError(_in_python(error.message), hint=hint) from error


def _in_python(text: str) -> str:
    return _OPTION.sub(lambda found: _NAMES.get(found[0], found[0][2:].replace("-", "_")), text)
