"""What a shell is told when Tab is pressed: click's machinery, with scripts that keep names with spaces whole.

click's own scripts insert ``RTX 4090`` into a bash line as two words, and lose the option of ``--gpu=RTX`` in all
three shells. A completion is never an error: whatever goes wrong, there is nothing to offer.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any, ClassVar

from click import Command
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VARIABLE = "_CUENV_COMPLETE"
"""By which a shell asks: ``bash_complete``, ``zsh_complete`` or ``fish_complete``."""

PROGRAM = "cuenv"
_OPTION_ALONE = ("--", "=")

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            plain)
                COMPREPLY+=("$value")
                [[ $value == *[^a-zA-Z0-9_.=/-]* ]] && compopt -o filenames 2>/dev/null
                ;;
            file | dir)
                compopt -o filenames 2>/dev/null
                while read -r value; do
                    COMPREPLY+=("$value")
                done < <(compgen -f -- "$value")
                ;;
        esac
    done < <(env COMP_WORDS="${COMP_WORDS[*]:0:COMP_CWORD+1}" COMP_CWORD="$COMP_CWORD" \\
        %(complete_var)s=bash_complete "${1/#\\~\\//$HOME/}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null || complete -F %(complete_func)s %(prog_name)s
"""
# -o filenames makes readline quote what it inserts, in the quotes that were begun; nosort came with bash 4.4.

_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local kind value help
    local -a values shown
    local asked="${(F)words[1,CURRENT]}"
    [[ $PREFIX == --*=* ]] && compset -P 1 '*\\='
    while IFS= read -r kind && IFS= read -r value && IFS= read -r help; do
        case $kind in
            plain)
                values+=("$value")
                [[ $help == _ ]] && shown+=("$value") || shown+=("$value  -- $help")
                ;;
            file | dir) _path_files ;;
        esac
    done < <(env COMP_WORDS="$asked" COMP_CWORD=$((CURRENT-1)) \\
        %(complete_var)s=zsh_complete "${words[1]/#\\~\\//$HOME/}" 2>/dev/null)
    if [[ "${(j::)values}" == "${(j::)shown}" ]]; then
        compadd -U -i "$IPREFIX" -V cuenv -a values
    else
        compadd -U -i "$IPREFIX" -V cuenv -l -d shown -a values
    fi
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""

_FISH = """\
function %(complete_func)s
    set -l option (string match -r -- '^--[a-z-]+=' (commandline -ct))
    for line in (env COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -ct) \\
            %(complete_var)s=fish_complete %(prog_name)s 2>/dev/null)
        set -l parts (string split -m 1 , -- $line)
        switch $parts[1]
            case plain
                echo -- "$option$parts[2]"
            case file dir
                for path in (__fish_complete_path $parts[2])
                    echo -- "$option$path"
                end
        end
    end
end

complete --no-files --keep-order --command %(prog_name)s --arguments '(%(complete_func)s)'
"""


def _words(text: str) -> list[str]:
    """A command line as words; a quote that is still open ends with the line."""
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[str] = []
    try:
        found.extend(lexer)
    except ValueError:
        found.append(lexer.token or "")
    return found


def _joined(words: list[str]) -> list[str]:
    """Join what bash breaks at the sign, so that an option has its value again: ``--gpu=V100``."""
    found: list[str] = []
    for word in words:
        if len(found) > 1 and found[-1] == "=" and found[-2].startswith("--"):
            found[-2:] = [f"{found[-2]}={word}"]
        else:
            found.append(word)
    return found


class _Words(ShellComplete):
    """How a line comes from bash and zsh: all words up to the cursor, and which one is being written."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is being written, and that one; an option with ``=`` gives its value."""
        words = _words(os.environ["COMP_WORDS"])
        written = words.pop() if len(words) > int(os.environ["COMP_CWORD"]) else ""
        *before, last = [*_joined(words[1:]), written]
        if before and before[-1] == "=" and len(before) > 1:
            return before[:-1], last
        return before, last


class Bash(_Words, BashComplete):
    """bash, which breaks words at ``=`` and quotes only what it takes for names of files."""

    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = _BASH

    def source(self) -> str:
        """The script; no other bash is started to ask for its version."""
        return ShellComplete.source(self)


class Zsh(_Words, ZshComplete):
    """zsh."""

    name: ClassVar[str] = "zsh"
    source_template: ClassVar[str] = _ZSH

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Kind, value and help, a line each; ``_`` for no help."""
        return f"{item.type}\n{item.value}\n{item.help or '_'}"


class Fish(FishComplete):
    """fish, which compares offers with the whole word, an option with ``=`` included."""

    name: ClassVar[str] = "fish"
    source_template: ClassVar[str] = _FISH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is being written, and that one."""
        words = _words(os.environ["COMP_WORDS"])[1:]
        written = words.pop() if words and os.environ["COMP_CWORD"] else ""
        return words, written

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Kind, value and help in one line."""
        return f"{item.type},{item.value}" + (f"\t{item.help}" if item.help else "")


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


def source(command: Command, shell: str) -> str:
    """The script that makes a shell complete."""
    return SHELLS[shell](command, {}, PROGRAM, VARIABLE).source()


def offers(command: Command, instruction: str) -> str:
    """What a shell is answered; empty for a question that is none, or when anything goes wrong.

    Args:
        command: the command line.
        instruction: as click defines it: ``bash_complete``, or ``bash_source`` for the script.
    """
    shell, _, what = instruction.partition("_")
    try:
        if shell in SHELLS and what == "source":
            return source(command, shell)
        if shell in SHELLS and what == "complete":
            return SHELLS[shell](command, {}, PROGRAM, VARIABLE).complete()
    except Exception:  # noqa: BLE001 - a traceback in the middle of someone's command line helps nobody
        return ""
    return ""
