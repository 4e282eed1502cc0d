"""Determine the variables that activating an environment sets."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from cuenv.core.errors import InputError
from cuenv.core.io.files import is_file, is_folder, names_in, read_text, text_at
from cuenv.core.io.process import run, which
from cuenv.core.regex import VARIABLE
from cuenv.prefix.activation_sh import Shell, follow_script
from cuenv.prefix.inventory import Prefix
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
