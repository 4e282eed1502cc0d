"""Reading TOML: the standard library from Python 3.11 on, tomli (the same parser) before."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """The document as plain values.

    Raises:
        ValueError: it is no TOML.
    """
    module = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    found: dict[str, Any] = module.loads(text)
    return found
