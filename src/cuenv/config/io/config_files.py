"""Whether there are settings at all: this runs before every command, so it imports nothing but what is there."""

from __future__ import annotations

import os
from collections.abc import Mapping

OWN = "cuenv.toml"
PROJECT = "pyproject.toml"


def parent_folders() -> tuple[str, ...]:
    """The working folder and its parents, nearest first; empty if it was removed."""
    try:
        folder = os.getcwd()  # noqa: PTH109 - strings, for speed
    except OSError:
        return ()
    parts = folder.rstrip("/").split("/")
    return tuple("/".join(parts[:count]) or "/" for count in range(len(parts), 0, -1))


def exists(path: str) -> bool:
    """Whether a path exists, also as a link that leads in a circle."""
    try:
        os.stat(path)  # noqa: PTH116 - as above
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    except OSError:
        return True
    return True


def settings_may_exist(environ: Mapping[str, str], *, files: bool) -> bool:
    """Whether a variable or a file may contain settings."""
    if any(name.startswith("CUENV_") for name in environ):
        return True
    return files and any(exists(f"{folder}/{name}") for folder in parent_folders() for name in (OWN, PROJECT))
