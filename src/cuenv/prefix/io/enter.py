"""Activate an environment as ``conda activate`` does, and run a program in it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from cuenv.core.errors import InputError, UsageError
from cuenv.core.io.files import exists, is_file, is_folder, look, may_run, names_in, shown
from cuenv.core.io.process import become, which
from cuenv.prefix.io.activation import stored_variables
from cuenv.prefix.shell_hook import Activation, bash_script

_ENDINGS = ("sh", "fish")


def find_activation(folder: Path, environ: Mapping[str, str]) -> Activation:
    """What activating an environment changes, given the variables of the current shell.

    An active conda environment is deactivated first, and recorded so that ``conda deactivate`` returns to it.

    Args:
        folder: the folder of a conda environment or a venv.
    """
    prefix = os.path.abspath(folder)  # noqa: PTH100 - as it is typed: links in it stay, as with conda
    path = Path(prefix)
    if not is_folder(path):
        make = f"cuenv install --prefix {shlex.quote(shown(path))}"
        raise InputError(f"{shown(path)} is not a folder", hint=look(path) if exists(path) else make)
    if ":" in prefix or not prefix.isprintable():
        raise InputError(f"{shown(path)}: PATH cannot contain such a path", hint="move the environment")
    if is_folder(path / "conda-meta"):
        return _conda_activation(path, environ)
    if is_file(path / "pyvenv.cfg"):
        left = environ.get("VIRTUAL_ENV", "")
        sets = {"VIRTUAL_ENV": prefix, "PATH": _path(prefix, left, environ)}
        removes = tuple(name for name in ("PYTHONHOME",) if name in environ)
        return Activation(prefix=prefix, sets=sets, removes=removes, leaving={}, scripts={})
    raise InputError(
        f"{shown(path)} is not an environment: conda-meta and pyvenv.cfg are missing",
        hint=f"cuenv install --prefix {shown(path)}",
    )


def _conda_activation(path: Path, environ: Mapping[str, str]) -> Activation:
    prefix, old = str(path), environ.get("CONDA_PREFIX", "")
    level = _level(environ) if old else 0
    again = old == prefix
    sets = {
        "PATH": _path(prefix, old if level else "", environ),
        "CONDA_PREFIX": prefix,
        "CONDA_SHLVL": str(level if again and level else level + 1),
        "CONDA_DEFAULT_ENV": path.name if path.parent.name == "envs" else prefix,
    }
    sets["CONDA_PROMPT_MODIFIER"] = f"({sets['CONDA_DEFAULT_ENV']}) "
    if level and not again:
        sets[f"CONDA_PREFIX_{level}"] = old
    before = Path(old) if level and is_folder(old) else None
    own = stored_variables(path)
    removes = stored_variables(before) if before else {}
    return Activation(
        prefix=prefix,
        sets={**sets, **{name: value for name, value in own.items() if name not in sets}},
        removes=tuple(name for name in removes if name not in own and name not in sets),
        leaving={ending: _scripts(before, "deactivate.d", ending)[::-1] for ending in _ENDINGS} if before else {},
        scripts={ending: _scripts(path, "activate.d", ending) for ending in _ENDINGS},
    )


def _level(environ: Mapping[str, str]) -> int:
    text = environ.get("CONDA_SHLVL", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0


def _path(prefix: str, left: str, environ: Mapping[str, str]) -> str:
    """PATH with the environment prepended, and without the formerly active one."""
    parts = environ.get("PATH", os.defpath).split(":")
    return ":".join([f"{prefix}/bin", *(part for part in parts if part not in (f"{prefix}/bin", f"{left}/bin"))])


def _scripts(prefix: Path, folder: str, ending: str) -> tuple[str, ...]:
    place = prefix / "etc/conda" / folder
    names = sorted(name for name in names_in(place) if name.endswith(f".{ending}") and name.isprintable())
    return tuple(f"{place}/{name}" for name in names if is_file(place / name))


def run_inside(prefix: Path, words: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program that runs in an environment.

    If there are activation scripts, bash runs them and then executes the program; otherwise no shell is started.

    Raises:
        InputError: it is not an environment.
        OutsideError: the program cannot be started.
    """
    entry: Activation = find_activation(prefix, environ)
    inside = {name: value for name, value in environ.items() if name not in entry.removes}
    inside.update(entry.sets)
    name = words[0]
    found = name if "/" in name else which(name, inside)
    if found is None or not may_run(found):
        raise UsageError(
            f"program {name} was not found in {entry.prefix}/bin or on PATH",
            hint=f"ls {shlex.quote(f'{entry.prefix}/bin')}",
        )
    if not entry.scripts.get("sh") and not entry.leaving.get("sh"):
        become([found, *words[1:]], inside, name=name)
    bash = which("bash", environ) or "/bin/bash"
    become([bash, "--norc", "--noprofile", "-c", bash_script(entry), "cuenv", *words], environ)
