"""The torch of an environment, by its files; it is never imported, which would take seconds and run foreign code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cuenv.installed.prefix import Prefix
from cuenv.world.files import is_file
from cuenv.world.system import read
from cuenv.world.torchfiles import parse_version_py


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
