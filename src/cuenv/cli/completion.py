"""``cuenv completion``."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any

import click

from cuenv.cli.command import Grouped
from cuenv.cli.options import talk_options
from cuenv.cli.output import emit, emit_json, say
from cuenv.core.errors import UsageError

PLACES = {
    "bash": "~/.local/share/bash-completion/completions/cuenv",
    "zsh": "~/.zfunc/_cuenv",
    "fish": "~/.config/fish/completions/cuenv.fish",
}
"""Where each shell looks for the script."""

_MORE = {
    "bash": 'bash-completion finds it there; without that package: echo "source {place}" >> ~/.bashrc',
    "zsh": "once, in ~/.zshrc: fpath=(~/.zfunc $fpath); autoload -Uz compinit; compinit",
    "fish": "fish finds it there",
}


@click.command("completion", cls=Grouped)
@click.argument("shell", required=False, metavar="[bash|zsh|fish]")
@talk_options
def command(shell: str | None, **values: Any) -> None:
    """Print the script that makes Tab complete commands, options, GPUs, profiles and hosts.

    By default the script is for the shell that the variable SHELL names. A note on stderr says where to put it.

    \b
    Examples:
      cuenv completion bash
      cuenv completion fish > ~/.config/fish/completions/cuenv.fish
    """
    from cuenv.cli.completing import SHELLS, source  # noqa: PLC0415 - not needed for --help

    name = shell or PurePath(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        said = f"unknown shell {shell!r}" if shell else f"the variable SHELL names {name!r}"
        raise UsageError(f"completion: {said}; there are {', '.join(SHELLS)}", hint="cuenv completion bash")
    place = PLACES[name]
    script = source(click.get_current_context().find_root().command, name)
    if values["as_json"]:
        emit_json({"schema": "cuenv/completion/1", "shell": name, "place": place, "script": script})
        return
    folder = place.rpartition("/")[0]
    lines = [
        f"hint: keep it: mkdir -p {folder} && cuenv completion -q {name} > {place}",
        f"        {_MORE[name].format(place=place)}",
        "        then open a new shell",
    ]
    say(lines, quiet=values["quiet"])
    emit(script)
