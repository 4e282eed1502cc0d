"""``cuenv shell-hook``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from cuenv.cli.command import Grouped
from cuenv.cli.entering import environment, place_options
from cuenv.cli.options import talk_options
from cuenv.cli.output import emit, emit_json
from cuenv.core.errors import ExitCode
from cuenv.prefix.shell_hook import SHELLS, render


@click.command("shell-hook", cls=Grouped)
@place_options
@click.option("--shell", type=click.Choice(SHELLS), default="bash", help="The shell that evaluates it (bash).")
@talk_options
def command(prefix: Path | None, name: str | None, shell: str, **values: Any) -> int:
    """Print what your shell evaluates to activate an environment, without conda.

    The lines do what 'conda activate' does: they set PATH, CONDA_PREFIX and the variables of the environment, then
    run its activation scripts. An active conda environment is left first, and 'conda deactivate' takes you back to
    it. bash, zsh and sh take the same lines. Without conda, leave the environment by leaving the shell.

    \b
    Examples:
      eval "$(cuenv shell-hook --prefix ~/envs/train)"
      eval "$(cuenv shell-hook -n cuenv)"
      cuenv shell-hook --prefix ~/envs/train --shell fish | source
    """
    from cuenv.prefix.enter import entering  # noqa: PLC0415 - not needed for --help

    found = entering(environment(prefix, name, "cuenv shell-hook"), os.environ)
    if values["as_json"]:
        emit_json(
            {
                "schema": "cuenv/shell-hook/1",
                "prefix": found.prefix,
                "sets": dict(found.sets),
                "removes": list(found.removes),
                "leaving": {ending: list(paths) for ending, paths in found.leaving.items()},
                "scripts": {ending: list(paths) for ending, paths in found.scripts.items()},
            }
        )
    else:
        emit(render(found, shell))
    return ExitCode.OK
