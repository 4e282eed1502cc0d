"""What a distribution says in its dist-info: the text of a file there, and the files that RECORD lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cuenv.errors import InputError
from cuenv.installed.prefix import Wheel
from cuenv.world.files import is_file, read_text

_LIMIT = 16 << 20


def text_of(wheel: Wheel, name: str) -> str:
    """A file of the dist-info, such as ``METADATA``; empty when it cannot be read."""
    path = Path(wheel.folder) / wheel.info / name
    try:
        return read_text(path, limit=_LIMIT) if is_file(path) else ""
    except InputError:
        return ""


def files_of(wheel: Wheel) -> Iterator[str]:
    """The files that its RECORD lists, relative to the folder of packages; what lies outside of that is left out."""
    for line in text_of(wheel, "RECORD").splitlines():
        name = line[1:].partition('"')[0] if line.startswith('"') else line.partition(",")[0]
        if not name.startswith("/") and ".." not in name.split("/"):
            yield name
