"""``cuenv run`` and ``cuenv shell-hook``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cuenv.cli.command import CuenvCommand, name_option, output_options, prefix_option
from cuenv.cli.output import emit, emit_json
from cuenv.core.errors import ExitCode, UsageError
from cuenv.prefix.shell_hook import SHELLS, activation_lines

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import OutputValues


@click.command("run", cls=CuenvCommand, context_settings={"allow_interspersed_args": False})
@prefix_option
@name_option
@output_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENTS]...")
def command(prefix: Path | None, name: str | None, words: tuple[str, ...], **_: Any) -> int:
    """Run a program inside an environment as if it were activated, without conda.

    The program takes over the process of cuenv, so output, exit code and signals are those of the program. The
    variables and activation scripts of the environment apply as with 'conda activate'; the output of the scripts goes
    to standard error. A venv works as well.

    \b
    Examples:
      cuenv run --prefix ~/envs/train -- python train.py --epochs 3
      cuenv run -n cuenv -- torchrun --nproc-per-node 4 train.py
    """
    from cuenv.prefix.io.activation import run_inside  # noqa: PLC0415 - not needed for --help
    from cuenv.prefix.io.environments import chosen_environment  # noqa: PLC0415 - as above

    path = chosen_environment(prefix, name, os.environ, "cuenv run")
    if not words:
        raise UsageError("give a command to run", hint="cuenv run --prefix ./env -- python train.py")
    run_inside(path, words, dict(os.environ))


@click.command("shell-hook", cls=CuenvCommand)
@prefix_option
@name_option
@click.option("--shell", type=click.Choice(SHELLS), default="bash", help="The shell that evaluates it (bash).")
@output_options
def shell_hook_command(prefix: Path | None, name: str | None, shell: str, **values: Unpack[OutputValues]) -> int:
    """Print commands that activate an environment in your shell, without conda.

    The lines do what 'conda activate' does: they set PATH, CONDA_PREFIX and the variables of the environment, then
    run its activation scripts. They deactivate an active conda environment first, and 'conda deactivate' takes you
    back to it. bash, zsh and sh take the same lines. Without conda, exit the shell to leave the environment.

    \b
    Examples:
      eval "$(cuenv shell-hook --prefix ~/envs/train)"
      eval "$(cuenv shell-hook -n cuenv)"
      cuenv shell-hook --prefix ~/envs/train --shell fish | source
    """
    from cuenv.prefix.io.activation import find_activation  # noqa: PLC0415 - not needed for --help
    from cuenv.prefix.io.environments import chosen_environment  # noqa: PLC0415 - as above

    found = find_activation(chosen_environment(prefix, name, os.environ, "cuenv shell-hook"), os.environ)
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
        emit(activation_lines(found, shell))
    return ExitCode.OK
