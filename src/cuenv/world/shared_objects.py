"""The linkage of a shared object on disk; only its tables are read."""

from __future__ import annotations

from pathlib import Path

from cuenv.binary.elf import BinaryError, Dynamic, read_elf
from cuenv.world.binaries import open_binary


def linkage(path: Path) -> Dynamic | None:
    """What the loader is told by a file; ``None`` for one that is no shared object or cannot be read."""
    try:
        with open_binary(path) as data:
            return read_elf(data).dynamic
    except BinaryError:
        return None
