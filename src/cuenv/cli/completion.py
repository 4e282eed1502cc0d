"""``cuenv completion``, and the answers to shells when Tab is pressed, by click's scripts and protocol.

A completion never fails: after any error there is nothing to complete.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from cuenv.cli.command import CuenvCommand, output_options
from cuenv.cli.output import emit, emit_json, say
from cuenv.core.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from typing_extensions import Unpack

    from cuenv.cli.values import OutputValues

VARIABLE = "_CUENV_COMPLETE"
"""The variable with which a shell asks: ``bash_complete``, ``zsh_complete`` or ``fish_complete``."""


PROGRAM = "cuenv"

PLACES = {
    "bash": "~/.local/share/bash-completion/completions/cuenv",
    "zsh": "~/.zfunc/_cuenv",
    "fish": "~/.config/fish/completions/cuenv.fish",
}
"""The file in which each shell looks for the script."""

_HINTS = {
    "bash": 'bash-completion finds it there; without that package: echo "source {place}" >> ~/.bashrc',
    "zsh": "once, in ~/.zshrc: fpath=(~/.zfunc $fpath); autoload -Uz compinit; compinit",
    "fish": "fish finds it there",
}


class _EqualsComplete(ShellComplete):
    """Completes the value of an option after ``=``, too.

    bash splits ``--gpu=V100`` into three words, and click takes ``=`` for the value; zsh and fish replace the whole
    word, but click completes only the value.
    """

    def source(self) -> str:
        """The script; unlike click's method it does not start bash to find its version."""
        return ShellComplete.source(self)

    def get_completion_args(self) -> tuple[list[str], str]:
        """The complete words, and the incomplete one."""
        words, written = super().get_completion_args()
        return [word for before, word in pairwise(["", *words]) if (before[:2], word) != ("--", "=")], written

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """The completions of click, with the option in front if it was typed in the same word."""
        found: list[CompletionItem[str]] = super().get_completions(args, incomplete)
        option, sign, _ = incomplete.partition("=")
        if sign and option.startswith("--"):
            for item in found:
                item.value = f"{option}={item.value}"
        return found


class _Bash(_EqualsComplete, BashComplete):
    """bash."""


class _Zsh(_EqualsComplete, ZshComplete):
    """zsh."""


class _Fish(_EqualsComplete, FishComplete):
    """fish."""


SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


@click.command("completion", cls=CuenvCommand)
@click.argument("shell", required=False, metavar="[bash|zsh|fish]")
@output_options
def command(shell: str | None, **values: Unpack[OutputValues]) -> None:
    """Print the script that makes Tab complete commands, options, GPUs, profiles and hosts.

    By default the script is for the shell that the variable SHELL names. A note on stderr says where to put it.

    \b
    Examples:
      cuenv completion bash
      cuenv completion fish > ~/.config/fish/completions/cuenv.fish
    """
    name = shell or PurePath(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        said = f"unknown shell {shell!r}" if shell else f"the variable SHELL names {name!r}"
        raise UsageError(f"completion: {said}; choose from {', '.join(SHELLS)}", hint="cuenv completion bash")
    place = PLACES[name]
    script = SHELLS[name](click.get_current_context().find_root().command, {}, PROGRAM, VARIABLE).source()
    if values["as_json"]:
        emit_json({"schema": "cuenv/completion/1", "shell": name, "place": place, "script": script})
        return
    folder = place.rpartition("/")[0]
    lines = [
        f"hint: keep it: mkdir -p {folder} && cuenv completion -q {name} > {place}",
        f"        {_HINTS[name].format(place=place)}",
        "        then open a new shell",
    ]
    say(lines, quiet=values["quiet"])
    emit(script)


def completions(command: click.Command, instruction: str) -> str:
    """The answer to a shell; empty for an unknown instruction or after an error.

    Args:
        instruction: click's instruction: ``bash_complete``, or ``bash_source`` for the script.
    """
    shell, _, what = instruction.partition("_")
    try:
        if shell in SHELLS and what == "source":
            return SHELLS[shell](command, {}, PROGRAM, VARIABLE).source()
        if shell in SHELLS and what == "complete":
            return SHELLS[shell](command, {}, PROGRAM, VARIABLE).complete()
    except Exception:  # noqa: BLE001 - a traceback in the middle of someone's command line helps nobody
        return ""
    return ""
