"""Lines for a shell that switch to a CUDA toolkit of the machine, and back.

They are sourced or evaluated by whatever shell the user has, under ``set -u`` and ``set -e`` as well: POSIX sh, every
expansion quoted, no command that may fail. What was set before is kept in variables, so that a second switch begins
where the first one did. LD_LIBRARY_PATH only ever loses entries: torch has its own libraries, and those of a toolkit
would be loaded in their place.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from cuenv.environment import WRITTEN_BY
from cuenv.urls import one_line

VARIABLES = ("CUDA_HOME", "CUDA_PATH", "PATH", "LD_LIBRARY_PATH")
"""Every variable that is set, and restored."""

_RESTORE = """\
if [ -n "${_CUENV_SHELL_ON-}" ]; then
  for _cuenv_v in VARIABLES; do
    _cuenv_at=
    eval "_cuenv_at=\\"\\${_CUENV_SHELL_$_cuenv_v-}\\""
    case "$_cuenv_at" in
      s*) eval "export $_cuenv_v=\\"\\${_cuenv_at#s}\\"" ;;
      u) unset "$_cuenv_v" ;;
    esac
    unset "_CUENV_SHELL_$_cuenv_v"
  done
  unset _CUENV_SHELL_ON _cuenv_v _cuenv_at
fi
""".replace("VARIABLES", " ".join(VARIABLES))
_KEEP = """\
for _cuenv_v in VARIABLES; do
  eval "_cuenv_at=\\"\\${$_cuenv_v+s}\\${$_cuenv_v-}\\""
  if [ -z "$_cuenv_at" ]; then _cuenv_at=u; fi
  eval "export _CUENV_SHELL_$_cuenv_v=\\"\\$_cuenv_at\\""
done
export _CUENV_SHELL_ON=yes
""".replace("VARIABLES", " ".join(VARIABLES))
_WITHOUT = """\
for _cuenv_v in PATH LD_LIBRARY_PATH; do
  eval "_cuenv_rest=\\"\\${$_cuenv_v-}\\""
  _cuenv_kept=
  if [ -n "$_cuenv_rest" ]; then _cuenv_rest="$_cuenv_rest:"; fi
  while [ -n "$_cuenv_rest" ]; do
    _cuenv_at="${_cuenv_rest%%:*}"
    _cuenv_rest="${_cuenv_rest#*:}"
    case "$_cuenv_at" in
      PATTERNS) ;;
      *) _cuenv_kept="$_cuenv_kept:$_cuenv_at" ;;
    esac
  done
  eval "export $_cuenv_v=\\"\\${_cuenv_kept#:}\\""
done
"""
_SET = """\
if [ -z "$LD_LIBRARY_PATH" ]; then unset LD_LIBRARY_PATH; fi
export CUDA_HOME=PLACE
export CUDA_PATH="$CUDA_HOME"
export PATH="$CUDA_HOME/bin${PATH:+:$PATH}"
unset _cuenv_v _cuenv_at _cuenv_rest _cuenv_kept
"""


def switch(root: str, others: Iterable[str], head: Sequence[str]) -> str:
    """The lines that make a toolkit the one that builds find.

    Args:
        root: its folder.
        others: the folders of the machine's other toolkits, which leave the paths.
        head: comment lines: why this one.
    """
    # An entry may name a toolkit by the link /usr/local/cuda, with or without a slash at its end.
    roots = sorted({"/usr/local/cuda", *(item.rstrip("/") or "/" for item in (root, *others))})
    patterns = " | ".join(f"{shlex.quote(item)} | {shlex.quote(item)}/*" for item in roots)
    without = patterns.join(_WITHOUT.split("PATTERNS"))
    place = shlex.quote(root).join(_SET.split("PLACE"))
    back = "# Back to what was: cuenv export shell --off\n"
    return "".join([_comments(head), back, _RESTORE, _KEEP, without, place])


def off(version: str) -> str:
    """The lines that restore what was before the last switch; nothing where there was none."""
    return _comments([f"{version}, export shell: back to what was before the last switch"]) + _RESTORE


def none_needed(head: Sequence[str]) -> str:
    """Lines that change nothing and say why."""
    return _comments(head)


def _comments(lines: Sequence[str]) -> str:
    plain = [one_line(line) for line in lines]
    return "".join(f"{line}\n" for line in (f"{WRITTEN_BY} {plain[0]}", *(f"# {line}" for line in plain[1:])))
