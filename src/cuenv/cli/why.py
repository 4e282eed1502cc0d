"""``cuenv why``."""

from __future__ import annotations

from typing import Any

import click

from cuenv.cli.command import Grouped
from cuenv.cli.completions import completes
from cuenv.cli.options import channel_options, host_options, knowledge_from, prove_option, talk_options, wish_options
from cuenv.cli.questioning import ask
from cuenv.core.errors import ExitCode


@click.command("why", cls=Grouped)
@click.argument("subject", metavar="SUBJECT", shell_complete=completes("why"))
@host_options
@wish_options
@prove_option
@channel_options
@talk_options
def command(subject: str, **values: Any) -> int:
    """Show why the decision is as it is: the verdict of every rule, down to facts with sources.

    SUBJECT is one of pytorch, cuda, python, stack, cudatoolkit-dev, cudnn, nccl, driver. It may also be a finding
    code such as CU203: the answer then says what the code means, which command finds it, and which errors it
    announces.

    \b
    Examples:
      cuenv why pytorch
      cuenv why CU401
      cuenv why cudnn --gpu V100 --gpu 'RTX 5090' --driver 575.57.08
    """
    if subject[:2].upper() == "CU" and subject[2:].isdigit():
        return _code(subject, values)
    from cuenv.resolver.why import why  # noqa: PLC0415 - not needed for --help

    decision = ask(values, lambda decision: why(decision, subject))
    return ExitCode.OK if decision.chosen else ExitCode.NEGATIVE


def _code(subject: str, values: dict[str, Any]) -> int:
    from cuenv.cli.output import emit_json, emit_lines  # noqa: PLC0415 - not needed for --help
    from cuenv.diagnosis import explain as code_v1  # noqa: PLC0415 - as above
    from cuenv.diagnosis.explain import code_page  # noqa: PLC0415 - as above
    from cuenv.knowledge.io.guidance import load_guidance  # noqa: PLC0415 - as above

    page = code_page(subject, load_guidance(knowledge_from(values)))
    if values["as_json"]:
        emit_json(code_v1.plain(page))
    else:
        emit_lines(code_v1.lines(page))
    return ExitCode.OK
