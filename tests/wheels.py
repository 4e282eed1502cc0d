"""Real wheels of the Python index for slow tests: fetched once, kept outside the project, skipped without an index."""

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
"""Where the wheels are kept; what is there already is not fetched again."""


@lru_cache(maxsize=64)
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
                done = subprocess.run([*command, requirement], capture_output=True, timeout=400, check=False, text=True)
            except (OSError, subprocess.TimeoutExpired) as error:
                pytest.skip(f"no {requirement}: {error}")
            made = list(Path(folder).glob(f"{stem}*.whl"))
            if not made:
                pytest.skip(f"no {requirement} from the index: {done.stderr[-200:]}")
            made[0].replace(CACHE / made[0].name)
            found = [CACHE / made[0].name]
    return found[0]


def content(requirement: str) -> dict[str, bytes]:
    """Every file of a wheel by its path."""
    with ZipFile(wheel(requirement)) as archive:
        return {item.filename: archive.read(item) for item in archive.infolist() if not item.is_dir()}


def unpack(requirement: str, site: Path) -> None:
    """Put a wheel into a site-packages folder as an installer does: programs are made executable."""
    for name, data in content(requirement).items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if "/bin/" in name:
            path.chmod(0o755)
