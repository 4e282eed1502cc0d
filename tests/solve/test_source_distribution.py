"""What a source distribution tells of its build: a file of strangers, which may hold anything."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

from cases import collect
from cuenv.solve.io.source_distribution import builds_against_torch
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import PipLocked

TORCH = '[build-system]\nrequires = ["setuptools", "torch~=2.5"]\n'


def archive(**files: str) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"kernels-1.0/{name.replace('_py', '.py').replace('_toml', '.toml')}")
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return held.getvalue()


def told(folder: Path, content: bytes, sha256: str | None = None) -> str:
    path = folder / "kernels-1.0.tar.gz"
    path.write_bytes(content)
    digest = sha256 or hashlib.sha256(content).hexdigest()
    item = PipLocked(name="kernels", version="1.0", url=path.as_uri(), sha256=digest, size=len(content))
    return builds_against_torch(item, Sources(), {})


def test_what_its_build_asks_for_and_imports_is_told(tmp_path: Path) -> None:
    assert told(tmp_path, archive(pyproject_toml=TORCH)).startswith("its build requires torch")
    assert told(tmp_path, archive(setup_py="import sys\nimport torch\n")).startswith("its setup.py imports torch")
    assert not told(tmp_path, archive(setup_py="import torchlight\n", pyproject_toml=TORCH.replace("torch", "torchx")))
    assert not told(tmp_path, archive(**{"tests/setup_py": "import torch\n"}))


@collect(
    "content",
    [
        b"",
        b"no archive",
        archive(pyproject_toml=TORCH)[:-40],
        archive(pyproject_toml="[build-system\nrequires = 'torch'"),
        archive(pyproject_toml="build-system = 'torch'"),
        archive(pyproject_toml="[build-system]\nrequires = 'torch'"),
        archive(pyproject_toml="x = " + "[" * 5000),
    ],
)
def test_what_cannot_be_read_tells_nothing(tmp_path: Path, content: bytes) -> None:
    assert told(tmp_path, content) == ""


def test_another_file_than_the_index_promised_tells_nothing(tmp_path: Path) -> None:
    assert told(tmp_path, archive(pyproject_toml=TORCH), "0" * 64) == ""
