"""Reading TOML: the standard library from Python 3.11 on, tomli (the same parser) before."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def loads(text: str) -> dict[str, Any]:
    """The document as plain values.

    Raises:
        ValueError: it is no TOML.
    """
    try:
        found: dict[str, Any] = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    return found
