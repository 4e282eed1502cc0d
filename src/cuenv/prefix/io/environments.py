"""Find environments: the active one, conda's by name, and the folder of a new one."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from cuenv.core.errors import UsageError
from cuenv.core.io.files import is_file, is_folder, names_in, path_text, text_at
from cuenv.core.reading import describe
from cuenv.core.regex import regex

_BASES = ("base", "root")
_NEW = regex(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,100}")
_MOST_NAMES = 4096


def active_environment(environ: Mapping[str, str]) -> Path | None:
    """The folder of the active environment; if conda's and a venv are active, the one that comes first in PATH."""
    found = [Path(environ[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)]
    path = environ.get("PATH", "").split(os.pathsep)
    place = {str(prefix): path.index(f"{prefix}/bin") for prefix in found if f"{prefix}/bin" in path}
    return min(found, key=lambda prefix: place.get(str(prefix), len(path)), default=None)


def is_conda_base(prefix: Path) -> bool:
    """Whether it is conda's base environment, which shells activate automatically."""
    return is_folder(prefix / "conda-meta") and is_folder(prefix / "condabin")


def is_venv_of_cuenv(prefix: Path) -> bool:
    """Whether it is the venv from which this cuenv runs, and has no torch: it is active to have cuenv on PATH."""
    return (
        is_file(prefix / "pyvenv.cfg")
        and os.path.realpath(prefix) == os.path.realpath(sys.prefix)
        and find_spec("torch") is None
    )


def new_environment(name: str, environ: Mapping[str, str]) -> Path:
    """The folder for an environment with a name: an existing one, otherwise conda's choice, or ``~/.conda/envs``.

    Args:
        name: the name as for ``conda create -n``.

    Raises:
        UsageError: it is not a name, several environments have it, or no folder for environments is writable.
        InputError: a ``.condarc`` is not valid.
    """
    if not _NEW.fullmatch(name) or name in _BASES:
        message = f"--name {describe(name)} is not a valid name for a new environment"
        raise UsageError(message, hint="name its folder: cuenv install --prefix DIR")
    if name in environments(environ):
        return named_environment(name, environ)
    for folder in _envs_folders(environ):
        above = next((item for item in (folder, *folder.parents) if os.path.lexists(item)), None)
        if folder.is_absolute() and above and above.is_dir() and os.access(above, os.W_OK | os.X_OK):
            return folder / name
    message = f"--name {name}: the directories for environments are not writable"
    raise UsageError(message, hint="name its folder: cuenv install --prefix DIR")


def chosen_environment(
    prefix: Path | None, name: str | None, environ: Mapping[str, str], command: str, *, active: bool = False
) -> Path:
    """The folder of the environment that ``--prefix`` or ``--name`` names.

    Args:
        active: whether the active environment is the default.

    Raises:
        UsageError: no environment is named, or two are.
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
    """The folder of a conda environment by its name.

    Args:
        name: the name as for ``conda activate``.
        environ: HOME, CONDA_ENVS_DIRS, CONDA_ENVS_PATH, MAMBA_ROOT_PREFIX, CONDA_EXE and those that name ``.condarc``.
        command: the command for hints.

    Raises:
        UsageError: it is not a name, no environment has it, or several have.
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
        listed = ", ".join(map(path_text, found))
        message = f"--name {name}: there are {len(found)}: {listed}"
        raise UsageError(message, hint=f"{command} --prefix {shlex.quote(str(found[0]))}")
    return found[0]


def environments(environ: Mapping[str, str]) -> dict[str, tuple[Path, ...]]:
    """The conda environments by name; a name has several folders if it is ambiguous."""
    found: dict[str, tuple[Path, ...]] = {}
    for folder in _envs_folders(environ):
        for name in names_in(folder)[:_MOST_NAMES]:
            if name.isprintable() and is_folder(folder / name / "conda-meta"):
                found.setdefault(name, (folder / name,))
    _add_ambiguous(found, environ)
    for root in _install_roots(environ):
        if is_folder(root / "conda-meta"):
            for name in _BASES:
                found.setdefault(name, (root,))
    listed: dict[str, dict[str, Path]] = {}
    for prefix in _from_environments_txt(environ):
        listed.setdefault(prefix.name, {})[os.path.realpath(prefix)] = prefix
    for name, places in listed.items():
        found.setdefault(name, tuple(places.values()))
    return dict(sorted(found.items()))


def _add_ambiguous(found: dict[str, tuple[Path, ...]], environ: Mapping[str, str]) -> None:
    """Add the other folder to names that both conda and micromamba use."""
    mamba, conda = environ.get("MAMBA_ROOT_PREFIX"), environ.get("CONDA_EXE")
    if not mamba or not conda:
        return
    roots = (Path(mamba) / "envs", Path(conda).parent.parent / "envs")
    for name, places in found.items():
        of_mamba = places[0].is_relative_to(roots[0])
        other = roots[1 if of_mamba else 0] / name
        if is_folder(other / "conda-meta") and os.path.realpath(other) != os.path.realpath(places[0]):
            found[name] = (*places, other)


def _envs_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """The folders that contain environments, in the order of search."""
    for variable in ("CONDA_ENVS_DIRS", "CONDA_ENVS_PATH"):
        for text in environ.get(variable, "").split(os.pathsep):
            if text.startswith(("/", "~")):
                yield _expand_home(text, environ)
    from cuenv.solve.io.sources import condarc_files, read_condarc  # noqa: PLC0415 - only for a name

    for text in read_condarc(condarc_files(environ), environ).envs_dirs:
        yield _expand_home(text, environ)
    for root in _install_roots(environ):
        yield root / "envs"
    if environ.get("HOME"):
        yield Path(environ["HOME"]) / ".conda/envs"


def _install_roots(environ: Mapping[str, str]) -> Iterator[Path]:
    """The root folders of mamba, of conda, and of the installation to which the active environment belongs."""
    if environ.get("MAMBA_ROOT_PREFIX"):
        yield Path(environ["MAMBA_ROOT_PREFIX"])
    if environ.get("CONDA_EXE"):
        yield Path(environ["CONDA_EXE"]).parent.parent
    active = environ.get("CONDA_PREFIX")
    if active:
        folder = Path(active)
        yield folder.parent.parent if folder.parent.name == "envs" else folder


def _from_environments_txt(environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME") or "/nowhere")
    for line in text_at(home / ".conda/environments.txt").splitlines()[:_MOST_NAMES]:
        text = line.strip()
        if text.startswith("/") and text.isprintable() and is_folder(Path(text) / "conda-meta"):
            yield Path(text)


def _expand_home(text: str, environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME", "")
    return Path(home + text[1:]) if home and (text == "~" or text.startswith("~/")) else Path(text)
