"""An environment on disk, read without running anything of it: conda, venv or an interpreter's own prefix."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from cuenv.errors import InputError
from cuenv.prefix import Kind, Prefix, Wheel
from cuenv.urls import strip_credentials
from cuenv.world.conda_meta import read_conda_meta
from cuenv.world.files import is_file, is_folder, names_in, shown
from cuenv.world.system import read

_HINT = "name an environment's folder: cuenv check --prefix $CONDA_PREFIX"
_DIST_INFO = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,200}?)-(?P<version>[^-/\s]{1,100})\.dist-info")
_PYTHON = re.compile(r"python(3\.[0-9]{1,2})t?")


def find_prefix(path: Path) -> Prefix:
    """The environment in a folder.

    Raises:
        InputError: it is no folder, or no environment, or a record of conda in it cannot be read.
    """
    if not is_folder(path):
        raise InputError(
            f"{path} is no folder", hint="name an environment's folder: cuenv check --prefix $CONDA_PREFIX"
        )
    real = Path(os.path.realpath(path))
    kind = _kind(real)
    python = _python(real)
    if kind is None or (kind == "python" and python is None):
        raise InputError(
            f"{shown(path)} is no environment: it holds neither conda-meta, nor pyvenv.cfg, nor a Python", hint=_HINT
        )
    folders = tuple(_site_packages(real, python)) if python else ()
    return Prefix(
        path=str(real),
        kind=kind,
        python=python,
        site_packages=folders,
        conda=read_conda_meta(real) if kind == "conda" else (),
        wheels=tuple(wheel for folder in folders for wheel in _wheels(Path(folder))),
    )


def _kind(prefix: Path) -> Kind | None:
    if is_folder(prefix / "conda-meta"):
        return "conda"
    if is_file(prefix / "pyvenv.cfg"):
        return "venv"
    return "python"


def _python(prefix: Path) -> str | None:
    """The release that ``bin/python3`` leads to, else the only one that has a folder of packages."""
    names = [match[1] for name in names_in(prefix / "lib") if (match := _PYTHON.fullmatch(name))]
    real = _PYTHON.fullmatch(Path(os.path.realpath(prefix / "bin/python3")).name)
    if real and real[1] in names:
        return real[1]
    return names[0] if len(names) == 1 else None


def _site_packages(prefix: Path, python: str) -> Iterator[str]:
    for lib in ("lib", "lib64"):
        folder = prefix / lib / f"python{python}" / "site-packages"
        if is_folder(folder) and not (lib == "lib64" and os.path.realpath(prefix / "lib64") == str(prefix / "lib")):
            yield str(folder)


def _wheels(folder: Path) -> Iterator[Wheel]:
    for name in names_in(folder):
        found = _DIST_INFO.fullmatch(name)
        if not found or not is_file(folder / name / "METADATA"):
            continue
        word = read(folder, f"{name}/INSTALLER").text.strip().lower()
        yield Wheel(
            name=re.sub(r"[-_.]+", "-", found["name"]).lower(),
            version=found["version"],
            folder=str(folder),
            installer=word if re.fullmatch(r"[\w.-]{1,40}", word, re.ASCII) else None,
            url=_direct_url(folder, name),
        )


def _direct_url(folder: Path, name: str) -> str | None:
    text = read(folder, f"{name}/direct_url.json").text
    if not text:
        return None
    try:
        url = json.loads(text)["url"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return strip_credentials(url) if isinstance(url, str) and url.isprintable() else None
