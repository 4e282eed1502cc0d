"""What people hand to the public API, as the flows take it; `cuenv` and `cuenv.ask` read it alike.

A value of a wrong type is a TypeError that names the argument. An error of a flow speaks of the argument as well, and
not of the option of the command line that asks for the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from cuenv.errors import UsageError

if TYPE_CHECKING:  # types only: `import cuenv` stays light
    from cuenv.flows.hosts import HostOptions

T = TypeVar("T")

_NAMES: Mapping[str, str] = {"--gpu": "gpus", "--mirror": "mirrors", "--with": "packages", "--allow": "allow"}
_OPTION = re.compile(r"(?<![\w-])--(?:gpu|driver|glibc|platform|host|mirror|with|allow|pytorch|cuda|python)(?![\w-])")


def text(value: object, what: str, example: str) -> str:
    """A text.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, str):
        return value
    raise TypeError(f"{what} takes a text such as {example!r}, got {_described(value)}")


def text_or_none(value: object, what: str, example: str) -> str | None:
    """A text, or nothing.

    Raises:
        TypeError: it is neither.
    """
    return None if value is None else text(value, what, example)


def several(values: object, what: str, example: str = "") -> tuple[str, ...]:
    """One text or path, or several: a text is never taken for its letters.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(values, (str, os.PathLike)):
        return (_fspath(values),)
    if isinstance(values, (bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{what} takes a text{_such(example)}, or a list of them, got {_described(values)}")
    found = []
    for value in values:
        if not isinstance(value, (str, os.PathLike)):
            raise TypeError(f"{what} takes texts{_such(example)}, got {_described(value)} among them")
        found.append(_fspath(value))
    return tuple(found)


def instance(value: Any, kind: type[T], what: str, where: str) -> T:
    """A value of a type of ours.

    Args:
        value: what was handed over.
        kind: what it must be.
        what: the function and the argument.
        where: what makes such a value.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, kind):
        return value
    raise TypeError(f"{what} takes what {where} gives, got {_described(value)}")


def _fspath(value: Any) -> str:
    return os.fsdecode(os.fspath(value))


def _such(example: str) -> str:
    return f" such as {example!r}" if example else ""


def _described(value: object) -> str:
    if isinstance(value, (int, float, complex)) and not isinstance(value, bool):
        return f"the number {value!r}"
    if value is None or isinstance(value, (bool, str)):
        shown = repr(value)
        return shown if len(shown) <= 60 else f"{shown[:57]}..."
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


@contextmanager
def spoken() -> Iterator[None]:
    """Let the errors of a block speak of arguments.

    Raises:
        UsageError: that of the block, in these words.
    """
    try:
        yield
    except UsageError as error:
        hint = error.hint if error.hint is None or error.hint.startswith("cuenv ") else _in_python(error.hint)
        raise UsageError(_in_python(error.message), hint=hint) from error


def _in_python(text: str) -> str:
    return _OPTION.sub(lambda found: _NAMES.get(found[0], found[0][2:]), text)


def host_options(
    host: object, gpus: object, driver: object, glibc: object = None, platform: object = None, *, of: str
) -> HostOptions:
    """The options of the command line that name the same host.

    Raises:
        TypeError: one is of a wrong type.
    """
    from cuenv.flows.hosts import HostOptions  # noqa: PLC0415 - whoever imports this module may ask nothing

    return HostOptions(
        hosts=several(host, f"{of}: host", "rtx4090-535"),
        gpus=several(gpus, f"{of}: gpus", "RTX 4090"),
        driver=text_or_none(driver, f"{of}: driver", "535.129.03"),
        glibc=text_or_none(glibc, f"{of}: glibc", "2.31"),
        platform=text_or_none(platform, f"{of}: platform", "linux-64"),
    )
