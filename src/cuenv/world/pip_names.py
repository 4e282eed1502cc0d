"""The table of names in conda and on PyPI: it ships, and is never downloaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

_NAMES = Path(__file__).parent.parent / "data" / "pip" / "names.json"


@lru_cache(maxsize=1)
def pypi_names() -> Mapping[str, str]:
    """Conda names and names on PyPI, where they differ or nothing else shows that it is a distribution."""
    found: dict[str, str] = json.loads(_NAMES.read_bytes())["names"]
    return found
