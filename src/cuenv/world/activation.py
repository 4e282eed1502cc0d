"""The variables of an environment as activation leaves them, without activating it in any shell of the user's."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from cuenv.installed.prefix import Prefix
from cuenv.world.files import is_file, names_in
from cuenv.world.process import run, which
from cuenv.world.system import read

_SECONDS = 30.0
_VARIABLES = frozenset(
    {
        *("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"),
        *("CUDA_HOME", "CUDA_PATH", "CUDA_INC_PATH", "CUDNN_HOME", "CUDNN_PATH"),
        *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
        *("CC", "CXX", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"),
        *("TORCH_CUDA_ARCH_LIST", "TORCH_EXTENSIONS_DIR"),
    }
)
"""What a build of an extension asks for; nothing else of this process reaches it."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")
_UNSET = "***unset***"
"""What conda keeps of a variable that was taken away."""
_SHELLS_OWN = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
# The scripts talk on standard output; only what follows the mark is the answer.
_SOURCE = 'for script; do . "$script" 1>&2; done; printf "\\0cuenv\\0"; command -p env -0'


def activated(prefix: Prefix, environ: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """The variables that a build in an environment would have, and why activation could not be followed.

    An environment that is active already has them. For another one the scripts in ``activate.d`` are sourced by a
    bash of its own, as conda does it; what belongs to the environment that is active instead is left out.

    Args:
        prefix: the environment.
        environ: the variables of this process.
    """
    mine = {name: environ[name] for name in _VARIABLES if name in environ}
    name = "CONDA_PREFIX" if prefix.kind == "conda" else "VIRTUAL_ENV"
    active = environ.get(name, "")
    # The variable alone may be inherited: whose programs run says PATH.
    if active and os.path.realpath(active) == prefix.path and f"{active}/bin" in mine.get("PATH", "").split(":"):
        return {**mine, name: active}, None
    for other in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        mine = _without(mine, environ.get(other, ""))
    mine["PATH"] = ":".join(part for part in (f"{prefix.path}/bin", mine.get("PATH", "")) if part)
    if prefix.kind != "python":
        mine[name] = prefix.path
    if prefix.kind != "conda":
        return mine, None
    mine |= kept_variables(Path(prefix.path))
    folder = Path(prefix.path) / "etc/conda/activate.d"
    scripts = [str(folder / item) for item in names_in(folder) if item.endswith(".sh") and is_file(folder / item)]
    return _sourced(scripts, mine) if scripts else (mine, None)


def _without(values: dict[str, str], other: str) -> dict[str, str]:
    """The variables without what an environment put there; entries of lists alone, else the whole value."""
    if len(other) < 2:
        return values
    found = {}
    for name, value in values.items():
        if name == "PATH":
            found[name] = ":".join(part for part in value.split(":") if not f"{part}/".startswith(f"{other}/"))
        elif other not in value:
            found[name] = value
    return found


def kept_variables(prefix: Path) -> dict[str, str]:
    """The ``variables:`` of an environment's file, as conda keeps them; what is not as conda writes it is left out."""
    text = read(prefix, "conda-meta/state").text if is_file(prefix / "conda-meta/state") else ""
    try:
        pairs = json.loads(text or "{}")["env_vars"].items()
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}
    texts = ((name, value) for name, value in pairs if isinstance(value, str))
    return {name: value for name, value in texts if _NAME.fullmatch(name) and value != _UNSET and "\0" not in value}


def _sourced(scripts: list[str], mine: dict[str, str]) -> tuple[dict[str, str], str | None]:
    bash = which("bash", mine) or "/bin/bash"
    done = run([bash, "--norc", "--noprofile", "-c", _SOURCE, "bash", *scripts], _SECONDS, mine, more=mine)
    _, mark, answer = done.out.partition("\0cuenv\0")
    if not mark:
        why = done.reason if done.code is None else "one of its scripts ends the shell"
        return mine, f"activate.d: {why}"
    pairs = (item.partition("=") for item in answer.split("\0") if item)
    return {name: value for name, _, value in pairs if name not in _SHELLS_OWN and not name.startswith("BASH_")}, None
