"""Which package brings which library: a table that ships, in the names of the environment at hand."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path

from cuenv.installed.prefix import Prefix

_LIBRARIES = Path(__file__).parent.parent / "data" / "linkage" / "libraries.json"
_SUFFIX = re.compile(r"nvidia-[a-z-]+(-cu\d+)")


@lru_cache(maxsize=1)
def _rows() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(_LIBRARIES.read_bytes())["libraries"]
    return found


def library_packages(prefix: Prefix) -> dict[str, str]:
    """The package for each stem (``libcudart``): a conda package, or a wheel with the suffix of those that are here."""
    conda = prefix.kind == "conda" and not any(wheel.name.startswith("nvidia-") for wheel in prefix.wheels)
    if conda:
        return {stem: row["conda"] for stem, row in _rows().items() if "conda" in row}
    suffixes = [found[1] for wheel in prefix.wheels if (found := _SUFFIX.fullmatch(wheel.name))]
    suffix = max(set(suffixes), key=suffixes.count) if suffixes else ""
    return {stem: row["wheel"] + suffix if "wheel" in row else "" for stem, row in _rows().items()}
