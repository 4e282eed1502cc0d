"""An environment on disk, read without running anything of it: conda, venv or an interpreter.

PYTHONPATH goes first, then the user's own site (``~/.local``), then the environment; a venv with
``include-system-site-packages`` asks the packages of its base last. (https://docs.python.org/3/library/site.html)
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from cuenv.core.errors import InputError, UsageError
from cuenv.core.io.files import exists, is_file, is_folder, look, names_in, shown, text_at
from cuenv.core.reading import describe
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.urls import strip_credentials
from cuenv.prefix.inventory import Kind, Prefix, Site, Wheel
from cuenv.prefix.io.conda_meta import CondaDist, CondaRecords, read_conda_records, torch_in
from cuenv.solve.environment_spec import normalise

_HINT = "name an environment's folder: cuenv check --prefix $CONDA_PREFIX"
_DIST_INFO = regex(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,200}?)-(?P<version>[^-/\s]{1,100})\.dist-info")
_LEFT_BY_PIP = regex(r"~[A-Za-z0-9._-]{1,300}")
_PYTHON = regex(r"python(3\.[0-9]{1,2})t?")
_NOTHING = CondaRecords(packages=(), dists={}, damaged=())


OWN_DIGEST = "conda-meta/cuenv"
"""Where cuenv keeps the digest of what it installed."""


def installed_digest(prefix: Path) -> str:
    """The digest of what cuenv installed there; empty when cuenv did not."""
    try:
        with (prefix / OWN_DIGEST).open(encoding="ascii") as stream:
            return stream.read(80).strip()
    except (OSError, ValueError):
        return ""


def find_prefix(path: Path) -> Prefix:
    """The environment in a folder.

    Raises:
        InputError: it is not a folder, or no environment.
    """
    if not is_folder(path):
        make = f"cuenv install --prefix {shlex.quote(shown(path))}"
        raise InputError(f"{shown(path)} is not a folder", hint=look(path) if exists(path) else make)
    if not os.access(path, os.R_OK | os.X_OK):
        raise InputError(f"{shown(path)} cannot be read: permission denied", hint=look(path))
    real = Path(os.path.realpath(path))
    kind: Kind = "conda" if is_folder(real / "conda-meta") else "venv" if is_file(real / "pyvenv.cfg") else "python"
    library = _library(real)
    found = _PYTHON.fullmatch(library or "")
    python = found[1] if found else None
    if kind == "python" and python is None:
        raise InputError(
            f"{shown(path)} is not an environment: conda-meta, pyvenv.cfg and Python are missing", hint=_HINT
        )
    folders = tuple(_site_packages(real, library)) if library else ()
    records = read_conda_records(real) if kind == "conda" else _NOTHING
    wheels = [_owned(wheel, records.dists) for folder in folders for wheel in wheels_in(Path(folder))]
    there = {wheel.info for wheel in wheels}
    return Prefix(
        path=str(real),
        kind=kind,
        python=python,
        site_packages=folders,
        conda=records.packages,
        files=records.files,
        wheels=tuple(wheels),
        gone=tuple(_gone(records, there, folders[0])) if folders else (),
        damaged=(*records.damaged, *(text for folder in folders for text in _damaged(Path(folder)))),
    )


def _library(prefix: Path) -> str | None:
    """The name of the folder of the Python that ``bin/python3`` leads to, else of the only one: ``python3.13t``."""
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


def wheels_in(folder: Path) -> Iterator[Wheel]:
    """The distributions in a folder of packages, by their dist-info; one without METADATA is none."""
    for name in names_in(folder):
        found = _DIST_INFO.fullmatch(name)
        if not found or not is_file(folder / name / "METADATA"):
            continue
        word = text_at(folder / name / "INSTALLER").strip().lower()
        yield Wheel(
            name=normalise(found["name"]),
            version=found["version"],
            folder=str(folder),
            installer=word if re.fullmatch(r"[\w.-]{1,40}", word, re.ASCII) else None,
            url=_direct_url(folder, name),
            info=name,
        )


def _direct_url(folder: Path, name: str) -> str | None:
    try:
        url = json.loads(text_at(folder / name / "direct_url.json"))["url"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return strip_credentials(url) if isinstance(url, str) and url.isprintable() else None


def _owned(wheel: Wheel, dists: Mapping[str, CondaDist]) -> Wheel:
    """A wheel with the conda package that brought it, and whether its files are still those of that package."""
    dist = dists.get(wheel.info)
    if dist is None:
        return wheel
    base = Path(wheel.folder) / wheel.info
    changed = any(_digest(base / name) not in (digest, None) for name, digest in dist.sha256.items())
    return replace(wheel, conda=dist.package, replaced=changed)


def _digest(path: Path) -> str | None:
    import hashlib  # noqa: PLC0415 - OpenSSL costs 3 ms, and a venv digests nothing

    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if is_file(path) else ""
    except OSError:
        return None


def _gone(records: CondaRecords, there: set[str], folder: str) -> Iterator[Wheel]:
    for info, dist in sorted(records.dists.items()):
        found = _DIST_INFO.fullmatch(info)
        if found and info not in there:
            yield Wheel(
                name=normalise(found["name"]), version=found["version"], folder=folder, info=info, conda=dist.package
            )


def _damaged(folder: Path) -> Iterator[tuple[str, str]]:
    """What an interrupted pip leaves: a dist-info without METADATA, and folders that it had put aside."""
    for name in names_in(folder):
        path = folder / name
        if _LEFT_BY_PIP.fullmatch(name):
            yield str(path), f"{shown(path)}: pip renamed it and was interrupted"
        elif name.endswith(".dist-info") and not is_file(path / "METADATA"):
            yield str(path), f"{shown(path)}: it has no METADATA: an installation was interrupted"


_SETTING = regex(r"^\s*(home|include-system-site-packages)\s*=\s*(.{1,1000}?)\s*$", re.MULTILINE)
_MOST = 32


def outside_sites(prefix: Prefix, environ: Mapping[str, str]) -> tuple[Site, ...]:
    """The folders outside of an environment from which its Python would take packages in this process's variables."""
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


_BASES = ("base", "root")
_NEW = regex(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,100}")
_MOST_NAMES = 4096


def active_environment(environ: Mapping[str, str]) -> Path | None:
    """The folder of the environment that is active; where conda's and a venv are, the one that PATH asks first."""
    found = [Path(environ[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)]
    path = environ.get("PATH", "").split(os.pathsep)
    place = {str(prefix): path.index(f"{prefix}/bin") for prefix in found if f"{prefix}/bin" in path}
    return min(found, key=lambda prefix: place.get(str(prefix), len(path)), default=None)


def is_conda_base(prefix: Path) -> bool:
    """Whether it is the environment that conda itself lives in, which shells activate on their own."""
    return is_folder(prefix / "conda-meta") and is_folder(prefix / "condabin")


def is_of_cuenv_alone(prefix: Path) -> bool:
    """Whether it is the venv that this cuenv runs from, and holds no torch: activated to have cuenv on PATH."""
    return (
        is_file(prefix / "pyvenv.cfg")
        and os.path.realpath(prefix) == os.path.realpath(sys.prefix)
        and find_spec("torch") is None
    )


def new_environment(name: str, environ: Mapping[str, str]) -> Path:
    """Where an environment of a name is made: where there is one, else as conda chooses, else ``~/.conda/envs``.

    Args:
        name: as ``conda create -n`` takes it.

    Raises:
        UsageError: it is a path or no name, several are known, or no folder for environments can be written.
        InputError: a ``.condarc`` is not valid.
    """
    if not _NEW.fullmatch(name) or name in _BASES:
        raise UsageError(
            f"--name {describe(name)} is not a valid name for a new environment",
            hint="name its folder: cuenv install --prefix DIR",
        )
    if name in environments(environ):
        return named_environment(name, environ)
    for folder in _named_folders(environ):
        above = next((item for item in (folder, *folder.parents) if os.path.lexists(item)), None)
        if folder.is_absolute() and above and above.is_dir() and os.access(above, os.W_OK | os.X_OK):
            return folder / name
    raise UsageError(
        f"--name {name}: the directories for environments are not writable",
        hint="name its folder: cuenv install --prefix DIR",
    )


def chosen_environment(
    prefix: Path | None, name: str | None, environ: Mapping[str, str], command: str, *, active: bool = False
) -> Path:
    """The folder of the environment that ``--prefix`` or ``--name`` names.

    Args:
        active: the one that is activated will do where none is named.

    Raises:
        UsageError: none is named, or two are.
    """
    if prefix and name is not None:
        raise UsageError("--prefix and --name exclude each other", hint=f"{command} --prefix DIR")
    if name is not None:
        return named_environment(name, environ, command)
    found = active_environment(environ) if prefix is None and active else prefix
    if found is None:
        raise UsageError(f"no environment is named{' or active' if active else ''}", hint=f"{command} --prefix DIR")
    return found


def named_environment(name: str, environ: Mapping[str, str], command: str = "cuenv check") -> Path:
    """The folder of an environment of conda by its name.

    Args:
        name: as ``conda activate`` takes it.
        environ: for HOME, CONDA_ENVS_DIRS, CONDA_ENVS_PATH, MAMBA_ROOT_PREFIX, CONDA_EXE and what names ``.condarc``.
        command: what is to be typed again, for hints.

    Raises:
        UsageError: it is a path, or no such environment is known, or several are.
        InputError: a ``.condarc`` is not valid.
    """
    if not name or "/" in name or not name.isprintable():
        what = f"--name {describe(name)} is a path" if "/" in name else f"--name {describe(name)} is not a name"
        raise UsageError(what, hint=f"name its folder: {command} --prefix DIR")
    known = environments(environ)
    found = known.get(name, ())
    if not found:
        from difflib import get_close_matches  # noqa: PLC0415 - only for a name that is none

        near = get_close_matches(name, known, n=3)
        some = f"; near: {', '.join(near)}" if near else f"; known: {', '.join(list(known)[:8])}" if known else ""
        hint = f"{command} --name {near[0]}" if near else f"{command} --prefix DIR"
        raise UsageError(f"--name {name}: conda has no environment with this name{some}", hint=hint)
    if len(found) > 1:
        listed = ", ".join(map(shown, found))
        raise UsageError(
            f"--name {name}: there are {len(found)}: {listed}",
            hint=f"{command} --prefix {shlex.quote(str(found[0]))}",
        )
    return found[0]


def environments(environ: Mapping[str, str]) -> dict[str, tuple[Path, ...]]:
    """The environments of conda by name; several folders only where ``environments.txt`` alone knows them."""
    found: dict[str, tuple[Path, ...]] = {}
    for folder in _named_folders(environ):
        for name in names_in(folder)[:_MOST_NAMES]:
            if name.isprintable() and is_folder(folder / name / "conda-meta"):
                found.setdefault(name, (folder / name,))
    _of_both(found, environ)
    for root in _roots(environ):
        if is_folder(root / "conda-meta"):
            for name in _BASES:
                found.setdefault(name, (root,))
    listed: dict[str, dict[str, Path]] = {}
    for prefix in _listed(environ):
        listed.setdefault(prefix.name, {})[os.path.realpath(prefix)] = prefix
    for name, places in listed.items():
        found.setdefault(name, tuple(places.values()))
    return dict(sorted(found.items()))


def _of_both(found: dict[str, tuple[Path, ...]], environ: Mapping[str, str]) -> None:
    """Add what conda and micromamba each have under one name: nothing says which of them is meant."""
    mamba, conda = environ.get("MAMBA_ROOT_PREFIX"), environ.get("CONDA_EXE")
    if not mamba or not conda:
        return
    roots = (Path(mamba) / "envs", Path(conda).parent.parent / "envs")
    for name, places in found.items():
        of_mamba = places[0].is_relative_to(roots[0])
        other = roots[1 if of_mamba else 0] / name
        if is_folder(other / "conda-meta") and os.path.realpath(other) != os.path.realpath(places[0]):
            found[name] = (*places, other)


def _named_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """The folders that hold environments, first one first."""
    for variable in ("CONDA_ENVS_DIRS", "CONDA_ENVS_PATH"):
        for text in environ.get(variable, "").split(os.pathsep):
            if text.startswith(("/", "~")):
                yield _at_home(text, environ)
    from cuenv.solve.io.sources import condarc_files, read_condarc  # noqa: PLC0415 - only for a name

    for text in read_condarc(condarc_files(environ), environ).envs_dirs:
        yield _at_home(text, environ)
    for root in _roots(environ):
        yield root / "envs"
    if environ.get("HOME"):
        yield Path(environ["HOME"]) / ".conda/envs"


def _roots(environ: Mapping[str, str]) -> Iterator[Path]:
    """The roots of installations: mamba's, conda's own, and the one that the active environment belongs to."""
    if environ.get("MAMBA_ROOT_PREFIX"):
        yield Path(environ["MAMBA_ROOT_PREFIX"])
    if environ.get("CONDA_EXE"):
        yield Path(environ["CONDA_EXE"]).parent.parent
    active = environ.get("CONDA_PREFIX")
    if active:
        folder = Path(active)
        yield folder.parent.parent if folder.parent.name == "envs" else folder


def _listed(environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME") or "/nowhere")
    for line in text_at(home / ".conda/environments.txt").splitlines()[:_MOST_NAMES]:
        text = line.strip()
        if text.startswith("/") and text.isprintable() and is_folder(Path(text) / "conda-meta"):
            yield Path(text)


def _at_home(text: str, environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME", "")
    return Path(home + text[1:]) if home and (text == "~" or text.startswith("~/")) else Path(text)
