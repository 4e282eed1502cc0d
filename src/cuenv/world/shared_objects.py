"""The linkage of a shared object on disk; the file is mapped, and only its tables are read."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path

from cuenv.binary.elf import BinaryError, Dynamic, read_elf


def linkage(path: Path) -> Dynamic | None:
    """What the loader is told by a file; ``None`` for one that is no shared object or cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return None
        with mmap.mmap(handle, 0, access=mmap.ACCESS_READ) as data:
            return read_elf(data).dynamic
    except (OSError, ValueError, BinaryError):
        return None
    finally:
        os.close(handle)
