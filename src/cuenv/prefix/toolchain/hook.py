"""What activation of an environment should tell builds of CUDA extensions, so that they find its CUDA.

The scripts are templates: POSIX sh for whatever shell the user has, under ``set -u`` and ``set -e`` as well, with every
expansion quoted and no command that may fail; and fish. What was set before is kept in exported variables with a level,
because environments are stacked and shells are started inside of them; both kinds keep it in the same ones, so that
a fish inside of another shell, or the other way round, takes back what that one set.
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
FIRST_LINE = f"{WRITTEN_BY} hook"
"""How a hook of ours begins."""
_HOME_LINE = regex(r'^  export CUDA_HOME="\$CONDA_PREFIX"(?:/(.*))?$', re.MULTILINE)
_FRONT_LINE = regex(r'^  _cuenv_at="\$CONDA_PREFIX"/(.*)\n  case ":\$\{([A-Z_]+)-\}:" in$', re.MULTILINE)
_ARCHS_LINE = regex(r"^  export TORCH_CUDA_ARCH_LIST=(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """What is set. Folders are relative to the environment, so that a copy of it elsewhere keeps working.

    Attributes:
        home: for CUDA_HOME and CUDA_PATH; empty for the environment's own folder, ``None`` to leave both alone.
        includes: put in front of CPATH.
        libraries: put in front of LIBRARY_PATH.
        arch_list: for TORCH_CUDA_ARCH_LIST; ``None`` to leave it alone.
    """

    home: str | None = None
    includes: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    arch_list: str | None = None

    @property
    def sets(self) -> tuple[str, ...]:
        """The variables that it sets."""
        given = (self.home is not None, self.home is not None, self.includes, self.libraries, self.arch_list)
        return tuple(name for name, value in zip(VARIABLES, given, strict=True) if value)


def arch_list(capabilities: Iterable[Capability], able: Iterable[Capability]) -> tuple[str | None, tuple[str, ...]]:
    """The value of TORCH_CUDA_ARCH_LIST for GPUs, and what had to be left out.

    Args:
        able: what nvcc compiles for; empty when nobody knows.
    """
    known = tuple(able)
    targets = {item: target_for(item, known) if known else item for item in capabilities}
    served = dict.fromkeys(target for target in targets.values() if target)
    left = (item for item, target in targets.items() if target is None)
    notes = tuple(f"{item} is not in TORCH_CUDA_ARCH_LIST: nvcc cannot compile for it" for item in left)
    return ";".join(map(str, served)) or None, notes


def activate_script(hook: Hook, shell: str = "sh") -> str:
    """The script that sets the variables, once however often it is sourced; ``shell`` is ``sh`` or ``fish``."""
    quote = quoter(shell)
    place = f'"$CONDA_PREFIX"/{quote(hook.home)}' if hook.home else '"$CONDA_PREFIX"'
    return fill(f"hook_activate.{shell}", {"variables": " ".join(VARIABLES)}, _blocks(hook, place, quote, quote))


def deactivate_script(shell: str = "sh") -> str:
    """The script that restores what was set before; what was not kept is left alone."""
    return fill(f"hook_deactivate.{shell}", {"variables": " ".join(VARIABLES)})


def export_lines(hook: Hook, prefix: str, shell: str = "sh") -> str:
    """Lines for a shell to evaluate, with whole paths."""
    quote = quoter(shell)
    place = quote(f"{prefix}/{hook.home}" if hook.home else prefix)
    return fill(f"hook_exports.{shell}", {}, _blocks(hook, place, lambda folder: quote(f"{prefix}/{folder}"), quote))


def _blocks(hook: Hook, place: str, folder: Callable[[str], str], quote: Callable[[str], str]) -> Blocks:
    """What stands in a script. Each folder goes in front of what is there, so the first comes last."""
    lists = (("CPATH", hook.includes), ("LIBRARY_PATH", hook.libraries))
    return {
        "home": [] if hook.home is None else [{"place": place}],
        "front": [{"name": name, "folder": folder(item)} for name, items in lists for item in reversed(items)],
        "archs": [] if hook.arch_list is None else [{"archs": quote(hook.arch_list)}],
    }


def parse_hook(text: str) -> Hook | None:
    """The hook whose script for ``sh`` this is, letter by letter; ``None`` for any other text."""
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
    """A word as it stood before `shlex.quote`; what is not written like that does not come out the same again."""
    return word[1:-1].replace("'\"'\"'", "'") if word.startswith("'") else word


def quoter(shell: str) -> Callable[[str], str]:
    """How a text becomes one word of a shell."""
    return _fish_word if shell == "fish" else shlex.quote


def _fish_word(text: str) -> str:
    """In single quotes of fish a backslash hides itself and the quote alone."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
