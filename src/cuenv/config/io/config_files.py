"""Whether there are settings at all: this runs before every command, so it imports nothing but what is there."""

from __future__ import annotations

import os
from collections.abc import Mapping

OWN = "cuenv.toml"
PROJECT = "pyproject.toml"


def upward() -> tuple[str, ...]:
    """The working folder and those above it, nearest first; none when it was removed."""
    try:
        folder = os.getcwd()  # noqa: PTH109 - strings, for speed
    except OSError:
        return ()
    parts = folder.rstrip("/").split("/")
    return tuple("/".join(parts[:count]) or "/" for count in range(len(parts), 0, -1))


def exists(path: str) -> bool:
    """Whether something is there that can be looked at; a link that runs in a circle is."""
    try:
        os.stat(path)  # noqa: PTH116 - as above
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    except OSError:
        return True
    return True


def anything(environ: Mapping[str, str], *, files: bool) -> bool:
    """Whether a variable or a file may set something. A file of a project that does not know cuenv counts here."""
    if any(name.startswith("CUENV_") for name in environ):
        return True
    return files and any(exists(f"{folder}/{name}") for folder in upward() for name in (OWN, PROJECT))
