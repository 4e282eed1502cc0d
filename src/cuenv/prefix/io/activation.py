"""Activate an environment as ``conda activate`` does: which variables that sets, and how a program runs in it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from cuenv.core.errors import InputError, UsageError
from cuenv.core.io.files import exists, is_file, is_folder, ls_command, may_run, names_in, path_text, read_text, text_at
from cuenv.core.io.process import become, run, which
from cuenv.core.regex import VARIABLE
from cuenv.prefix.activation_sh import Shell, follow_script
from cuenv.prefix.inventory import Prefix
from cuenv.prefix.shell_hook import Activation, bash_script
from cuenv.prefix.toolchain import hook as hook_scripts
from cuenv.prefix.toolchain.hook import VARIABLES, Hook

_SECONDS = 30.0
_LONGEST = 512 * 1024
_VARIABLES = frozenset(
    {
        *("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"),
        *("CUDA_HOME", "CUDA_PATH", "CUDA_INC_PATH", "CUDNN_HOME", "CUDNN_PATH"),
        *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
        *("CC", "CXX", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"),
        *("TORCH_CUDA_ARCH_LIST", "TORCH_EXTENSIONS_DIR"),
    }
)
"""The variables that a build of an extension reads; no others are passed to it."""
_UNSET = "***unset***"  # the value that conda stores for a variable that was unset
_SHELLS_OWN = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
# The scripts may print; only the text after the mark is the answer.
_SOURCE = 'for script; do . "$script" 1>&2; done; printf "\\0cuenv\\0"; command -p env -0'


def activation_variables(
    prefix: Prefix, environ: Mapping[str, str], *, running: bool
) -> tuple[dict[str, str], str | None]:
    """The variables of a build in an activated environment, and why they are not completely known, if so.

    For the active environment they are those of this process. For another environment the scripts in ``activate.d``
    are interpreted, or sourced by bash as conda does, without the values that belong to the active environment.

    Args:
        running: whether the scripts may be run.
    """
    mine = {name: environ[name] for name in _VARIABLES if name in environ}
    name = "CONDA_PREFIX" if prefix.kind == "conda" else "VIRTUAL_ENV"
    active = environ.get(name, "")
    # The variable may be inherited; PATH shows which environment is really active.
    if active and os.path.realpath(active) == prefix.path and f"{active}/bin" in mine.get("PATH", "").split(":"):
        return {**mine, name: active}, None
    for other in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        mine = _without_environment(mine, environ.get(other, ""))
    mine["PATH"] = ":".join(part for part in (f"{prefix.path}/bin", mine.get("PATH", "")) if part)
    if prefix.kind != "python":
        mine[name] = prefix.path
    if prefix.kind != "conda":
        return mine, None
    mine |= stored_variables(Path(prefix.path))
    folder = Path(prefix.path) / "etc/conda/activate.d"
    scripts = [str(folder / item) for item in names_in(folder) if item.endswith(".sh") and is_file(folder / item)]
    if not scripts:
        return mine, None
    return _source_scripts(scripts, mine) if running else _read_scripts(scripts, mine)


def _without_environment(values: dict[str, str], other: str) -> dict[str, str]:
    """The variables without those that name another environment; of PATH only its entries are removed."""
    if len(other) < 2:
        return values
    found = {}
    for name, value in values.items():
        if name == "PATH":
            found[name] = ":".join(part for part in value.split(":") if not f"{part}/".startswith(f"{other}/"))
        elif other not in value:
            found[name] = value
    return found


def stored_variables(prefix: Path) -> dict[str, str]:
    """The variables that conda sets without a script: those of packages, then the ``variables:`` of a file.

    Invalid entries are ignored.
    """
    packages = [f"etc/conda/env_vars.d/{name}" for name in names_in(prefix / "etc/conda/env_vars.d")]
    found: dict[str, str] = {}
    for place in (name for name in packages if name.endswith(".json")):
        found |= _valid_variables(_json(prefix, place))
    state = _json(prefix, "conda-meta/state")
    return found | _valid_variables(state.get("env_vars") if isinstance(state, dict) else None)


def _json(prefix: Path, name: str) -> object:
    try:
        data: object = json.loads(text_at(prefix / name))
    except (ValueError, RecursionError):
        return None
    return data


def _valid_variables(pairs: object) -> dict[str, str]:
    texts = ((name, value) for name, value in pairs.items()) if isinstance(pairs, dict) else ()
    return {
        name: value
        for name, value in texts
        if isinstance(value, str) and VARIABLE.fullmatch(name) and value != _UNSET and "\0" not in value
    }


def _read_scripts(scripts: list[str], mine: dict[str, str]) -> tuple[dict[str, str], str | None]:
    """The variables that the scripts set, by interpreting them, and a sentence on those that remain unknown."""
    shell = Shell(values=dict(mine), exported=set(mine), file_test=_file_test)
    for path in scripts:
        text = _script_text(path)
        hook = hook_scripts.parse_hook(text)
        if hook is None:
            follow_script(text, path.rpartition("/")[2], shell)
        else:
            shell.values |= _hook_variables(hook, mine["CONDA_PREFIX"], shell.values)
            shell.exported |= set(VARIABLES)
        if shell.ended:
            return mine, f"{shell.ended} ends the shell"
    found = {name: shell.values.get(name) for name in shell.exported}
    known = {name: value for name, value in found.items() if value is not None and name not in _SHELLS_OWN}
    told = {name: shell.unknown[name] for name in sorted(_VARIABLES & shell.unknown.keys() & shell.exported)}
    parts = [f"{name} is set by {where}" for name, where in told.items()]
    if shell.anything:
        parts.append(f"{shell.anything} may set any variable")
    return known, f"{'; '.join(parts)}: it was read, not run" if parts else None


def _script_text(path: str) -> str:
    """The text of a script; for an unreadable one, a text that the interpreter rejects."""
    try:
        return read_text(Path(path), limit=_LONGEST)
    except InputError:
        return "("


def _hook_variables(hook: Hook, prefix: str, values: Mapping[str, str | None]) -> dict[str, str | None]:
    """The variables that cuenv's own hook sets."""
    found: dict[str, str | None] = {}
    if hook.home is not None:
        found |= dict.fromkeys(("CUDA_HOME", "CUDA_PATH"), f"{prefix}/{hook.home}" if hook.home else prefix)
    for name, folders in (("CPATH", hook.includes), ("LIBRARY_PATH", hook.libraries)):
        there = values.get(name, "")
        if folders and there is not None:
            own = [f"{prefix}/{folder}" for folder in folders]
            found[name] = ":".join([*own, *(part for part in there.split(":") if part and part not in own)])
    if hook.arch_list is not None:
        found["TORCH_CUDA_ARCH_LIST"] = hook.arch_list
    return found


def _file_test(asked: str, path: str) -> bool:
    """Evaluate the test of a file as a shell does."""
    if asked == "d":
        return is_folder(path)
    if asked in "xr":
        return os.access(path, os.X_OK if asked == "x" else os.R_OK)
    return is_file(path) or (asked == "e" and is_folder(path))


def _source_scripts(scripts: list[str], mine: dict[str, str]) -> tuple[dict[str, str], str | None]:
    bash = which("bash", mine) or "/bin/bash"
    done = run([bash, "--norc", "--noprofile", "-c", _SOURCE, "bash", *scripts], _SECONDS, mine, more=mine)
    _, mark, answer = done.out.partition("\0cuenv\0")
    if not mark:
        why = done.reason if done.code is None else "one of its scripts ends the shell"
        return mine, f"activate.d: {why}"
    pairs = (item.partition("=") for item in answer.split("\0") if item)
    return {name: value for name, _, value in pairs if name not in _SHELLS_OWN and not name.startswith("BASH_")}, None


_ENDINGS = ("sh", "fish")


def find_activation(folder: Path, environ: Mapping[str, str]) -> Activation:
    """What activating an environment changes, given the variables of the current shell.

    An active conda environment is deactivated first, and recorded so that ``conda deactivate`` returns to it.

    Args:
        folder: the folder of a conda environment or a venv.

    Raises:
        InputError: it is not an environment, or its path cannot stand in PATH.
    """
    prefix = os.path.abspath(folder)  # noqa: PTH100 - as it is typed: links in it stay, as with conda
    path = Path(prefix)
    if not is_folder(path):
        make = f"cuenv install --prefix {shlex.quote(path_text(path))}"
        raise InputError(f"{path_text(path)} is not a folder", hint=ls_command(path) if exists(path) else make)
    if ":" in prefix or not prefix.isprintable():
        raise InputError(f"{path_text(path)}: PATH cannot contain such a path", hint="move the environment")
    if is_folder(path / "conda-meta"):
        return _conda_activation(path, environ)
    if is_file(path / "pyvenv.cfg"):
        left = environ.get("VIRTUAL_ENV", "")
        sets = {"VIRTUAL_ENV": prefix, "PATH": _path(prefix, left, environ)}
        removes = tuple(name for name in ("PYTHONHOME",) if name in environ)
        return Activation(prefix=prefix, sets=sets, removes=removes, leaving={}, scripts={})
    message = f"{path_text(path)} is not an environment: conda-meta and pyvenv.cfg are missing"
    raise InputError(message, hint=f"cuenv install --prefix {path_text(path)}")


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
        UsageError: there is no such program.
        InputError: it is not an environment.
        OutsideError: the program cannot be started.
    """
    entry: Activation = find_activation(prefix, environ)
    inside = {name: value for name, value in environ.items() if name not in entry.removes}
    inside.update(entry.sets)
    name = words[0]
    found = name if "/" in name else which(name, inside)
    if found is None or not may_run(found):
        message = f"program {name} was not found in {entry.prefix}/bin or on PATH"
        raise UsageError(message, hint=f"ls {shlex.quote(f'{entry.prefix}/bin')}")
    if not entry.scripts.get("sh") and not entry.leaving.get("sh"):
        become([found, *words[1:]], inside, name=name)
    bash = which("bash", environ) or "/bin/bash"
    become([bash, "--norc", "--noprofile", "-c", bash_script(entry), "cuenv", *words], environ)
