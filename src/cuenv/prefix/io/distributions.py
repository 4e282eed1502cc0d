"""What a distribution says in its dist-info, and the torch of an environment by its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuenv.core.errors import InputError
from cuenv.core.io.files import is_file, read_text
from cuenv.host.io.system import read
from cuenv.host.io.torch_files import parse_version_py
from cuenv.prefix.inventory import Prefix, Wheel

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchHere:
    """A torch.

    Attributes:
        folder: of the package: ``.../site-packages/torch``.
        version: as ``torch/version.py`` says it, ``2.7.1+cu128``.
        cuda: the CUDA it was built with, ``12.8``; ``None`` for a CPU build.
    """

    folder: Path
    version: str
    cuda: str | None


def find_torch_here(prefix: Prefix) -> TorchHere | None:
    """The torch that the environment's Python finds first among its own folders."""
    for site in prefix.site_packages:
        folder = Path(site) / "torch"
        if not is_file(folder / "version.py"):
            continue
        told = parse_version_py(read(folder, "version.py").text)
        if told:
            return TorchHere(folder=folder, version=told[0], cuda=told[1])
    return None
