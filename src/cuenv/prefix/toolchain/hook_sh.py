"""The scripts of a hook for ``activate.d`` and ``deactivate.d``, and the lines for an environment without them.

They are sourced by whatever shell the user has, under ``set -u`` and ``set -e`` as well: POSIX sh, every expansion
quoted, no command that may fail, nothing left behind but what is meant. What was set before is kept in exported
variables with a level, because environments are stacked and shells are started inside of them.
"""

from __future__ import annotations

import re
import shlex

from cuenv.prefix.toolchain.hook import VARIABLES, Hook
from cuenv.solve.environment_spec import WRITTEN_BY

OWN = f"{WRITTEN_BY} hook"
"""How a hook of ours begins."""

_HEAD = f"""\
{OWN}; changes here are lost. Take it away with: cuenv hook --remove
"""
_IF = 'if [ -n "${CONDA_PREFIX-}" ]; then\n'
_LEVEL = """\
  _cuenv_n="${_CUENV_HOOK_DEPTH-}"
  case "$_cuenv_n" in '' | *[!0-9]* | 0* | ???*) _cuenv_n=0 ;; esac
"""
_KEEP = """\
  _cuenv_on=no
  _cuenv_i=1
  while [ "$_cuenv_i" -le "$_cuenv_n" ]; do
    eval "_cuenv_at=\\"\\${_CUENV_HOOK_PREFIX_$_cuenv_i-}\\""
    if [ "$_cuenv_at" = "$CONDA_PREFIX" ]; then _cuenv_on=yes; fi
    _cuenv_i=$((_cuenv_i + 1))
  done
  if [ "$_cuenv_on" = no ]; then
    _cuenv_n=$((_cuenv_n + 1))
    eval "export _CUENV_HOOK_PREFIX_$_cuenv_n=\\"\\$CONDA_PREFIX\\""
    for _cuenv_v in {variables}; do
      eval "_cuenv_at=\\"\\${$_cuenv_v+s}\\${$_cuenv_v-}\\""
      if [ -z "$_cuenv_at" ]; then _cuenv_at=u; fi
      eval "export _CUENV_HOOK_${_cuenv_v}_$_cuenv_n=\\"\\$_cuenv_at\\""
    done
    export _CUENV_HOOK_DEPTH="$_cuenv_n"
  fi
"""
_FRONT = """\
  _cuenv_at="$CONDA_PREFIX"/{folder}
  case ":${{{name}-}}:" in
    *":$_cuenv_at:"*) ;;
    *) export {name}="$_cuenv_at${{{name}:+:${name}}}" ;;
  esac
"""
_RESTORE = """\
  _cuenv_at=
  if [ "$_cuenv_n" -gt 0 ]; then eval "_cuenv_at=\\"\\${_CUENV_HOOK_PREFIX_$_cuenv_n-}\\""; fi
  if [ "$_cuenv_at" = "$CONDA_PREFIX" ]; then
    for _cuenv_v in {variables}; do
      eval "_cuenv_at=\\"\\${_CUENV_HOOK_${_cuenv_v}_$_cuenv_n-}\\""
      case "$_cuenv_at" in
        s*) eval "export $_cuenv_v=\\"\\${_cuenv_at#s}\\"" ;;
        u) unset "$_cuenv_v" ;;
      esac
      unset "_CUENV_HOOK_${_cuenv_v}_$_cuenv_n"
    done
    unset "_CUENV_HOOK_PREFIX_$_cuenv_n"
    if [ "$_cuenv_n" -gt 1 ]; then
      export _CUENV_HOOK_DEPTH="$((_cuenv_n - 1))"
    else
      unset _CUENV_HOOK_DEPTH
    fi
  fi
"""
_HOME_LINE = re.compile(r'^  export CUDA_HOME="\$CONDA_PREFIX"(?:/(.*))?$', re.MULTILINE)
_FRONT_LINE = re.compile(r'^  _cuenv_at="\$CONDA_PREFIX"/(.*)\n  case ":\$\{([A-Z_]+)-\}:" in$', re.MULTILINE)
_ARCHS_LINE = re.compile(r"^  export TORCH_CUDA_ARCH_LIST=(.*)$", re.MULTILINE)
_LEAVE = """\
  unset _cuenv_n _cuenv_i _cuenv_at _cuenv_on _cuenv_v
"""


def activate(hook: Hook) -> str:
    """The script that sets the variables, once however often it is sourced."""
    lines = [_HEAD, _IF, _LEVEL, _filled(_KEEP)]
    if hook.home is not None:
        place = f'"$CONDA_PREFIX"/{shlex.quote(hook.home)}' if hook.home else '"$CONDA_PREFIX"'
        lines += [f"  export {name}={place}\n" for name in ("CUDA_HOME", "CUDA_PATH")]
    for name, folders in (("CPATH", hook.includes), ("LIBRARY_PATH", hook.libraries)):
        # Each goes in front of what is there, so the first comes last.
        lines += [_FRONT.format(folder=shlex.quote(folder), name=name) for folder in reversed(folders)]
    if hook.arch_list is not None:
        lines.append(f"  export TORCH_CUDA_ARCH_LIST={shlex.quote(hook.arch_list)}\n")
    return "".join([*lines, _LEAVE, "fi\n"])


def deactivate() -> str:
    """The script that restores what was set before; what was not kept is left alone."""
    return "".join([_HEAD, _IF, _LEVEL, _filled(_RESTORE), _LEAVE, "fi\n"])


def read(text: str) -> Hook | None:
    """The hook whose script this is, letter by letter; ``None`` for any other text."""
    if not text.startswith(OWN):
        return None
    home, folders, archs = _HOME_LINE.search(text), _FRONT_LINE.findall(text), _ARCHS_LINE.search(text)
    found = Hook(
        home=_unquoted(home[1] or "") if home else None,
        includes=tuple(_unquoted(folder) for folder, name in reversed(folders) if name == "CPATH"),
        libraries=tuple(_unquoted(folder) for folder, name in reversed(folders) if name == "LIBRARY_PATH"),
        arch_list=_unquoted(archs[1]) if archs else None,
    )
    return found if activate(found) == text else None


def _unquoted(word: str) -> str:
    """A word as it stood before `shlex.quote`; what is not written like that does not come out the same again."""
    return word[1:-1].replace("'\"'\"'", "'") if word.startswith("'") else word


def exports(hook: Hook, prefix: str) -> str:
    """Lines for a shell to evaluate, with whole paths."""
    lines = []
    if hook.home is not None:
        place = shlex.quote(f"{prefix}/{hook.home}" if hook.home else prefix)
        lines += [f"export {name}={place}" for name in ("CUDA_HOME", "CUDA_PATH")]
    for name, folders in (("CPATH", hook.includes), ("LIBRARY_PATH", hook.libraries)):
        # Each goes in front of what is there, once however often the lines are evaluated; the first comes last.
        for place in (shlex.quote(f"{prefix}/{folder}") for folder in reversed(folders)):
            put = f'export {name}={place}"${{{name}:+:${name}}}"'
            lines.append(f'case ":${{{name}-}}:" in *:{place}:*) ;; *) {put} ;; esac')
    if hook.arch_list is not None:
        lines.append(f"export TORCH_CUDA_ARCH_LIST={shlex.quote(hook.arch_list)}")
    return "".join(f"{line}\n" for line in lines)


def _filled(text: str) -> str:
    return text.replace("{variables}", " ".join(VARIABLES))
