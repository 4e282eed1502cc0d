"""The scripts of a hook for fish, as `hook_sh` writes them for the other shells.

What was set before is kept in the same variables, so that a fish inside of another shell, or the other way round, takes
back what that one set. fish splits variables whose names end in PATH at colons, and joins them again in quotes.
"""

from __future__ import annotations

from cuenv.prefix.toolchain.hook import VARIABLES, Hook
from cuenv.prefix.toolchain.hook_sh import OWN

_HEAD = f"""\
{OWN}; changes here are lost. Take it away with: cuenv hook --remove
"""
_IF = """\
if test -n "$CONDA_PREFIX"
    set -l _cuenv_n "$_CUENV_HOOK_DEPTH"
    string match -qr '^[1-9][0-9]?$' -- "$_cuenv_n"; or set _cuenv_n 0
"""
_KEEP = """\
    set -l _cuenv_on no
    set -l _cuenv_i 1
    while test $_cuenv_i -le $_cuenv_n
        set -l _cuenv_at _CUENV_HOOK_PREFIX_$_cuenv_i
        test "$$_cuenv_at" = "$CONDA_PREFIX"; and set _cuenv_on yes
        set _cuenv_i (math $_cuenv_i + 1)
    end
    if test $_cuenv_on = no
        set _cuenv_n (math $_cuenv_n + 1)
        set -gx _CUENV_HOOK_PREFIX_$_cuenv_n "$CONDA_PREFIX"
        for _cuenv_v in {variables}
            if set -q $_cuenv_v
                set -gx _CUENV_HOOK_{$_cuenv_v}_$_cuenv_n "s$$_cuenv_v"
            else
                set -gx _CUENV_HOOK_{$_cuenv_v}_$_cuenv_n u
            end
        end
        set -gx _CUENV_HOOK_DEPTH $_cuenv_n
    end
"""
_FRONT = """\
    set -l _cuenv_at "$CONDA_PREFIX"/{folder}
    if not contains -- "$_cuenv_at" ${name}
        if test -n "${name}"
            set -gx {name} "$_cuenv_at:${name}"
        else
            set -gx {name} "$_cuenv_at"
        end
    end
"""
_RESTORE = """\
    set -l _cuenv_at _CUENV_HOOK_PREFIX_$_cuenv_n
    if test $_cuenv_n -gt 0 -a "$$_cuenv_at" = "$CONDA_PREFIX"
        for _cuenv_v in {variables}
            set -l _cuenv_old _CUENV_HOOK_{$_cuenv_v}_$_cuenv_n
            set -l _cuenv_how
            set -l _cuenv_was
            # a substitution would cut the value at its line breaks
            printf %s "$$_cuenv_old" | begin
                read -z -n 1 _cuenv_how
                read -z _cuenv_was
            end
            if test "$_cuenv_how" = s
                set -gx $_cuenv_v "$_cuenv_was"
            else if test "$_cuenv_how" = u
                set -eg $_cuenv_v
            end
            set -eg $_cuenv_old
        end
        set -eg $_cuenv_at
        if test $_cuenv_n -gt 1
            set -gx _CUENV_HOOK_DEPTH (math $_cuenv_n - 1)
        else
            set -eg _CUENV_HOOK_DEPTH
        end
    end
"""
_LINES = """\
if not contains -- {folder} ${name}
    if test -n "${name}"
        set -gx {name} {folder}:"${name}"
    else
        set -gx {name} {folder}
    end
end
"""


def activate(hook: Hook) -> str:
    """The script that sets the variables, once however often it is sourced."""
    lines = [_HEAD, _IF, _filled(_KEEP)]
    if hook.home is not None:
        place = f'"$CONDA_PREFIX"/{_quoted(hook.home)}' if hook.home else '"$CONDA_PREFIX"'
        lines += [f"    set -gx {name} {place}\n" for name in ("CUDA_HOME", "CUDA_PATH")]
    for name, folders in (("CPATH", hook.includes), ("LIBRARY_PATH", hook.libraries)):
        # Each goes in front of what is there, so the first comes last.
        lines += [_FRONT.format(folder=_quoted(folder), name=name) for folder in reversed(folders)]
    if hook.arch_list is not None:
        lines.append(f"    set -gx TORCH_CUDA_ARCH_LIST {_quoted(hook.arch_list)}\n")
    return "".join([*lines, "end\n"])


def deactivate() -> str:
    """The script that restores what was set before; what was not kept is left alone."""
    return "".join([_HEAD, _IF, _filled(_RESTORE), "end\n"])


def exports(hook: Hook, prefix: str) -> str:
    """Lines for fish to source, with whole paths."""
    lines = []
    if hook.home is not None:
        place = _quoted(f"{prefix}/{hook.home}" if hook.home else prefix)
        lines += [f"set -gx {name} {place}\n" for name in ("CUDA_HOME", "CUDA_PATH")]
    for name, folders in (("CPATH", hook.includes), ("LIBRARY_PATH", hook.libraries)):
        # Each goes in front of what is there, once however often the lines are evaluated; the first comes last.
        places = (_quoted(f"{prefix}/{folder}") for folder in reversed(folders))
        lines += [_LINES.format(name=name, folder=place) for place in places]
    if hook.arch_list is not None:
        lines.append(f"set -gx TORCH_CUDA_ARCH_LIST {_quoted(hook.arch_list)}\n")
    return "".join(lines)


def _quoted(text: str) -> str:
    """A text as one word of fish: in single quotes a backslash hides itself and the quote alone."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _filled(text: str) -> str:
    return text.replace("{variables}", " ".join(VARIABLES))
