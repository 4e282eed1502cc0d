"""``cuenv run``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from cuenv.cli.command import Grouped
from cuenv.cli.entering import environment, place_options
from cuenv.cli.options import talk_options
from cuenv.core.errors import UsageError


@click.command("run", cls=Grouped, context_settings={"allow_interspersed_args": False})
@place_options
@talk_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENTS]...")
def command(prefix: Path | None, name: str | None, words: tuple[str, ...], **_: Any) -> int:
    """Run a program inside an environment as if it were activated, without conda.

    The program takes the place of cuenv: its output, its exit code and its answer to Ctrl-C are its own. The
    variables and activation scripts of the environment apply as with 'conda activate'; what the scripts print goes
    to standard error. A venv works as well.

    \b
    Examples:
      cuenv run --prefix ~/envs/train -- python train.py --epochs 3
      cuenv run -n cuenv -- torchrun --nproc-per-node 4 train.py
    """
    from cuenv.prefix.enter import run_inside  # noqa: PLC0415 - not needed for --help

    path = environment(prefix, name, "cuenv run")
    if not words:
        raise UsageError("there is no command to run", hint="cuenv run --prefix DIR -- python train.py")
    run_inside(path, words, dict(os.environ))
