"""``cuenv why``."""

from __future__ import annotations

from typing import Any

import click

from cuenv.cli.completions import completes
from cuenv.cli.options import channel_options, host_options, talk_options, wish_options
from cuenv.cli.questioning import ask
from cuenv.errors import ExitCode


@click.command("why")
@click.argument("subject", metavar="SUBJECT", shell_complete=completes("why"))
@host_options
@wish_options
@click.option("--prove", is_flag=True, help="Ask the solver at once: the best choice that the channels close.")
@channel_options
@talk_options
def command(subject: str, **values: Any) -> int:
    """Why the choice is as it is: the verdict of every rule, down to facts with sources.

    SUBJECT is one of pytorch, cuda, python, stack, cudatoolkit-dev, cudnn, nccl, driver.

    \b
    Examples:
      cuenv why pytorch
      cuenv why cudnn --gpu V100 --gpu 'RTX 5090' --driver 575.57.08
    """
    from cuenv.questions import why  # noqa: PLC0415 - not needed for --help

    decision = ask(values, lambda decision: why(decision, subject))
    return ExitCode.OK if decision.chosen else ExitCode.NEGATIVE
