"""Read an environment from its files: a conda environment, a venv, or the prefix of an interpreter.

Python searches PYTHONPATH first, then the user site (``~/.local``), then the environment, and in a venv with
``include-system-site-packages`` the packages of its base last (https://docs.python.org/3/library/site.html).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuenv.core.errors import InputError
from cuenv.core.io.files import exists, is_file, is_folder, ls_command, names_in, path_text, text_at
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.prefix.inventory import DamagedRecord, Kind, Prefix, Site, Wheel
from cuenv.prefix.io.conda_meta import DIST_INFO, CondaDist, CondaRecords, read_conda_records, torch_in, wheels_in
from cuenv.solve.environment_spec import normalise

_HINT = "name the folder of an environment; conda env list shows those of conda"
_LEFT_BY_PIP = regex(r"~[A-Za-z0-9._-]{1,300}")
_PYTHON = regex(r"python(3\.[0-9]{1,2})t?")
_NOTHING = CondaRecords(packages=(), dists={}, damaged=())


OWN_DIGEST = "conda-meta/cuenv"  # the file with the digest of what cuenv installed


def installed_digest(prefix: Path) -> str:
    """The digest of what cuenv installed in an environment; empty if cuenv did not make the environment."""
    try:
        with (prefix / OWN_DIGEST).open(encoding="ascii") as stream:
            return stream.read(80).strip()
    except (OSError, ValueError):
        return ""


def find_prefix(path: Path) -> Prefix:
    """Read the environment in a folder.

    Raises:
        InputError: it is not a folder, or not an environment.
    """
    if not is_folder(path):
        make = f"cuenv install --prefix {shlex.quote(path_text(path))}"
        raise InputError(f"{path_text(path)} is not a folder", hint=ls_command(path) if exists(path) else make)
    if not os.access(path, os.R_OK | os.X_OK):
        raise InputError(f"{path_text(path)} cannot be read: permission denied", hint=ls_command(path))
    real = Path(os.path.realpath(path))
    kind: Kind = "conda" if is_folder(real / "conda-meta") else "venv" if is_file(real / "pyvenv.cfg") else "python"
    library = _python_folder(real)
    found = _PYTHON.fullmatch(library or "")
    python = found[1] if found else None
    if kind == "python" and python is None:
        message = f"{path_text(path)} is not an environment: conda-meta, pyvenv.cfg and Python are missing"
        raise InputError(message, hint=_HINT)
    folders = tuple(_site_packages(real, library)) if library else ()
    records = read_conda_records(real) if kind == "conda" else _NOTHING
    wheels = [_with_conda_package(wheel, records.dists) for folder in folders for wheel in wheels_in(Path(folder))]
    there = {wheel.dist_info for wheel in wheels}
    return Prefix(
        path=str(real),
        kind=kind,
        python=python,
        site_packages=folders,
        conda=records.packages,
        files=records.files,
        wheels=tuple(wheels),
        removed=tuple(_removed_wheels(records, there, folders[0])) if folders else (),
        damaged=(*records.damaged, *(text for folder in folders for text in _interrupted_installs(Path(folder)))),
    )


def _python_folder(prefix: Path) -> str | None:
    """The name of Python's library folder (``python3.13t``): that of ``bin/python3``, or the only one."""
    names = [name for name in names_in(prefix / "lib") if _PYTHON.fullmatch(name)]
    real = Path(os.path.realpath(prefix / "bin/python3")).name
    if real in names:
        return real
    return names[0] if len(names) == 1 else None


def _site_packages(prefix: Path, library: str) -> Iterator[str]:
    for lib in ("lib", "lib64"):
        folder = prefix / lib / library / "site-packages"
        if is_folder(folder) and not (lib == "lib64" and os.path.realpath(prefix / "lib64") == str(prefix / "lib")):
            yield str(folder)


def _with_conda_package(wheel: Wheel, dists: Mapping[str, CondaDist]) -> Wheel:
    """The wheel with the conda package that contains it, and whether its files were overwritten since."""
    dist = dists.get(wheel.dist_info)
    if dist is None:
        return wheel
    base = Path(wheel.folder) / wheel.dist_info
    changed = any(_digest(base / name) not in (digest, None) for name, digest in dist.sha256.items())
    return replace(wheel, conda=dist.package, replaced=changed)


def _digest(path: Path) -> str | None:
    import hashlib  # noqa: PLC0415 - OpenSSL costs 3 ms, and a venv digests nothing

    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if is_file(path) else ""
    except OSError:
        return None


def _removed_wheels(records: CondaRecords, there: set[str], folder: str) -> Iterator[Wheel]:
    for info, dist in sorted(records.dists.items()):
        found = DIST_INFO.fullmatch(info)
        if found and info not in there:
            yield Wheel(
                name=normalise(found["name"]),
                version=found["version"],
                folder=folder,
                dist_info=info,
                conda=dist.package,
            )


def _interrupted_installs(folder: Path) -> Iterator[DamagedRecord]:
    """The leftovers of an interrupted pip: dist-info folders without METADATA, and folders that pip renamed."""
    for name in names_in(folder):
        path = folder / name
        if _LEFT_BY_PIP.fullmatch(name):
            yield DamagedRecord(str(path), f"{path_text(path)}: pip renamed it and was interrupted")
        elif name.endswith(".dist-info") and not is_file(path / "METADATA"):
            reason = f"{path_text(path)}: it has no METADATA: an installation was interrupted"
            yield DamagedRecord(str(path), reason)


_SETTING = regex(r"^\s*(home|include-system-site-packages)\s*=\s*(.{1,1000}?)\s*$", re.MULTILINE)
_MOST = 32


def outside_sites(prefix: Prefix, environ: Mapping[str, str]) -> tuple[Site, ...]:
    """The folders outside of an environment from which its Python imports, given the variables of this process."""
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
            torch = torch_in(str(folder))
            found[real] = Site(
                path=str(folder), via=via, first=first, wheels=wheels, torch=torch.version if torch else None
            )
    return tuple(found.values())


def _folders(prefix: Prefix, library: str, environ: Mapping[str, str]) -> Iterator[tuple[Path, str, bool]]:
    for text in environ.get("PYTHONPATH", "").split(os.pathsep)[:_MOST]:
        if text.startswith("/"):
            yield Path(text), "PYTHONPATH", True
    settings = dict(_SETTING.findall(text_at(f"{prefix.path}/pyvenv.cfg"))) if prefix.kind == "venv" else {}
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
