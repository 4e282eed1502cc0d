"""The scripts by which builds of CUDA extensions find the CUDA of an activated environment.

The scripts are templates for POSIX sh and for fish. Those for sh also work under ``set -u`` and ``set -e``: every
expansion is quoted, and no command may fail. The former values are kept in exported variables with a level, because
environments are stacked and shells are started inside of them. sh and fish use the same variables, so that each can
restore what the other set.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable

from cuenv.core.io.templates import Blocks, fill
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.versions import Capability, target_for
from cuenv.solve.environment_spec import WRITTEN_BY

VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CPATH", "LIBRARY_PATH", "TORCH_CUDA_ARCH_LIST")
"""Every variable that a hook may set."""
FIRST_LINE = f"{WRITTEN_BY} hook"  # the first line of a script that cuenv wrote
_HOME_LINE = regex(r'^  export CUDA_HOME="\$CONDA_PREFIX"(?:/(.*))?$', re.MULTILINE)
_FRONT_LINE = regex(r'^  _cuenv_at="\$CONDA_PREFIX"/(.*)\n  case ":\$\{([A-Z_]+)-\}:" in$', re.MULTILINE)
_ARCHS_LINE = regex(r"^  export TORCH_CUDA_ARCH_LIST=(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """The variables of a hook. Folders are relative to the environment, so that a copy of it keeps working."""

    # the value of CUDA_HOME and CUDA_PATH; empty for the environment itself, ``None`` to leave both unchanged
    home: str | None = None
    includes: tuple[str, ...] = ()  # folders that are prepended to CPATH
    libraries: tuple[str, ...] = ()  # folders that are prepended to LIBRARY_PATH
    arch_list: str | None = None  # the value of TORCH_CUDA_ARCH_LIST; ``None`` to leave it unchanged

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the variables that it sets."""
        given = (self.home is not None, self.home is not None, self.includes, self.libraries, self.arch_list)
        return tuple(name for name, value in zip(VARIABLES, given, strict=True) if value)


def arch_list(capabilities: Iterable[Capability], able: Iterable[Capability]) -> tuple[str | None, tuple[str, ...]]:
    """The value of TORCH_CUDA_ARCH_LIST for GPUs, and a note on each compute capability that is left out.

    Args:
        able: the targets of nvcc; empty if unknown.
    """
    known = tuple(able)
    targets = {item: target_for(item, known) if known else item for item in capabilities}
    served = dict.fromkeys(target for target in targets.values() if target)
    left = (item for item, target in targets.items() if target is None)
    notes = tuple(f"{item} is not in TORCH_CUDA_ARCH_LIST, because nvcc cannot compile for it" for item in left)
    return ";".join(map(str, served)) or None, notes


def activate_script(hook: Hook, shell: str = "sh") -> str:
    """The script that sets the variables and may be sourced repeatedly; ``shell`` is ``sh`` or ``fish``."""
    quote = quoter(shell)
    place = f'"$CONDA_PREFIX"/{quote(hook.home)}' if hook.home else '"$CONDA_PREFIX"'
    return fill(f"hook_activate.{shell}", {"variables": " ".join(VARIABLES)}, _blocks(hook, place, quote, quote))


def deactivate_script(shell: str = "sh") -> str:
    """The script that restores the former values of the variables."""
    return fill(f"hook_deactivate.{shell}", {"variables": " ".join(VARIABLES)})


def export_lines(hook: Hook, prefix: str, shell: str = "sh") -> str:
    """Lines for a shell to evaluate, with absolute paths."""
    quote = quoter(shell)
    place = quote(f"{prefix}/{hook.home}" if hook.home else prefix)
    return fill(f"hook_exports.{shell}", {}, _blocks(hook, place, lambda folder: quote(f"{prefix}/{folder}"), quote))


def _blocks(hook: Hook, place: str, folder: Callable[[str], str], quote: Callable[[str], str]) -> Blocks:
    """The blocks of a script's template. Each folder is prepended, so the first one comes last."""
    lists = (("CPATH", hook.includes), ("LIBRARY_PATH", hook.libraries))
    return {
        "home": [] if hook.home is None else [{"place": place}],
        "front": [{"name": name, "folder": folder(item)} for name, items in lists for item in reversed(items)],
        "archs": [] if hook.arch_list is None else [{"archs": quote(hook.arch_list)}],
    }


def parse_hook(text: str) -> Hook | None:
    """The hook that a script for ``sh`` was made from; ``None`` unless it is exactly such a script."""
    if not text.startswith(FIRST_LINE):
        return None
    home, folders, archs = _HOME_LINE.search(text), _FRONT_LINE.findall(text), _ARCHS_LINE.search(text)
    found = Hook(
        home=_unquoted(home[1] or "") if home else None,
        includes=tuple(_unquoted(folder) for folder, name in reversed(folders) if name == "CPATH"),
        libraries=tuple(_unquoted(folder) for folder, name in reversed(folders) if name == "LIBRARY_PATH"),
        arch_list=_unquoted(archs[1]) if archs else None,
    )
    return found if activate_script(found) == text else None


def _unquoted(word: str) -> str:
    """The inverse of `shlex.quote`; `parse_hook` detects a word that was quoted in another way."""
    return word[1:-1].replace("'\"'\"'", "'") if word.startswith("'") else word


def quoter(shell: str) -> Callable[[str], str]:
    """The function that quotes a text as one word of a shell."""
    return _fish_word if shell == "fish" else shlex.quote


def _fish_word(text: str) -> str:
    """Quote for fish: in its single quotes, a backslash escapes only a backslash or a quote."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
