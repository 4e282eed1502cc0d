"""Folders outside of an environment from which its Python also takes packages, in the order of its ``site`` module.

PYTHONPATH goes first, then the user's own site (``~/.local``), then the environment; a venv with
``include-system-site-packages`` asks the packages of its base last. (https://docs.python.org/3/library/site.html)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuenv.installed.prefix import Prefix, Site
from cuenv.world.files import is_file, is_folder
from cuenv.world.prefix import wheels_in
from cuenv.world.system import read
from cuenv.world.torchfiles import parse_version_py

_SETTING = re.compile(r"^\s*(home|include-system-site-packages)\s*=\s*(.{1,1000}?)\s*$", re.MULTILINE)
_MOST = 32


def outside_sites(prefix: Prefix, environ: Mapping[str, str]) -> tuple[Site, ...]:
    """The folders outside of an environment from which its Python would take packages in this process's variables.

    Args:
        prefix: the environment.
        environ: for PYTHONPATH, PYTHONNOUSERSITE, PYTHONUSERBASE and HOME.
    """
    if prefix.python is None:
        return ()
    own = {os.path.realpath(folder) for folder in prefix.site_packages}
    found: dict[str, Site] = {}
    # The user's site has the folder's name as well: python3.13t for a Python without the GIL.
    library = Path(prefix.site_packages[0]).parent.name if prefix.site_packages else f"python{prefix.python}"
    for folder, via, first in _folders(prefix, library, environ):
        real = os.path.realpath(folder)
        if real not in own and real not in found and is_folder(folder):
            wheels = tuple(wheels_in(folder))
            found[real] = Site(path=str(folder), via=via, first=first, wheels=wheels, torch=torch_in(folder))
    return tuple(found.values())


def torch_in(folder: Path) -> str | None:
    """The version of the torch in a folder of packages, by ``torch/version.py``."""
    file = folder / "torch/version.py"
    told = parse_version_py(read(folder, "torch/version.py").text) if is_file(file) else None
    return told[0] if told else None


def _folders(prefix: Prefix, library: str, environ: Mapping[str, str]) -> Iterator[tuple[Path, str, bool]]:
    for text in environ.get("PYTHONPATH", "").split(os.pathsep)[:_MOST]:
        if text.startswith("/"):
            yield Path(text), "PYTHONPATH", True
    settings = _settings(Path(prefix.path)) if prefix.kind == "venv" else {}
    shared = settings.get("include-system-site-packages", "").lower() == "true"
    base = environ.get("PYTHONUSERBASE") or (f"{environ['HOME']}/.local" if environ.get("HOME") else "")
    if base and not environ.get("PYTHONNOUSERSITE") and (prefix.kind != "venv" or shared):
        yield Path(base) / "lib" / library / "site-packages", "user site", True
    home = settings.get("home", "")
    if shared and home.startswith("/"):
        root = Path(home).parent
        yield root / "lib" / library / "site-packages", "base of the venv", False
        yield root / "local/lib" / library / "dist-packages", "base of the venv", False
        yield root / "lib/python3/dist-packages", "base of the venv", False


def _settings(prefix: Path) -> dict[str, str]:
    return dict(_SETTING.findall(read(prefix, "pyvenv.cfg").text))
