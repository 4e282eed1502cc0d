"""``cuenv why-not``."""

from __future__ import annotations

from typing import Any

import click

from cuenv.cli.command import Grouped
from cuenv.cli.completions import completes
from cuenv.cli.options import channel_options, host_options, prove_option, talk_options, wish_options
from cuenv.cli.questioning import ask
from cuenv.core.errors import ExitCode


@click.command("why-not", cls=Grouped)
@click.argument("question", metavar="KEY=VALUE", shell_complete=completes("why-not"))
@host_options
@wish_options
@prove_option
@channel_options
@talk_options
def command(question: str, **values: Any) -> int:
    """Show why something else was not chosen.

    The answer lists the rules that reject it. When no rule rejects it, the answer names the first criterion by
    which the choice was better.

    \b
    Examples:
      cuenv why-not cuda=13.0
      cuenv why-not pytorch=2.12 --host a800-470
      cuenv why-not stack=pytorch
    """
    from cuenv.resolver.why import why_not  # noqa: PLC0415 - not needed for --help

    ask(values, lambda decision: why_not(decision, question))
    return ExitCode.OK
