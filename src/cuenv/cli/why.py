"""``cuenv why`` and ``cuenv why-not``: decide, answer, print."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import CuenvCommand, completes, output_options
from cuenv.cli.options import (
    channel_options,
    channel_sources,
    host_from,
    host_options,
    knowledge_from,
    local_records,
    prove_option,
    request_from,
    request_options,
)
from cuenv.cli.output import emit_json, emit_lines
from cuenv.cli.resolve import basis_line
from cuenv.core.errors import ExitCode
from cuenv.host.describe import host_line
from cuenv.host.select import host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.decision import Decision
from cuenv.resolver.explain import source_lines, verdict_lines
from cuenv.resolver.resolve import resolve
from cuenv.resolver.rules import rule_named
from cuenv.resolver.why import Answer, why, why_not

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import ChannelCommandValues


@click.command("why", cls=CuenvCommand)
@click.argument("subject", metavar="SUBJECT", shell_complete=completes("why"))
@host_options
@request_options
@prove_option
@channel_options
@output_options
def command(subject: str, **values: Unpack[ChannelCommandValues]) -> int:
    """Show the reasons for the decision: the verdict of every rule, down to facts with sources.

    SUBJECT is one of pytorch, cuda, python, stack, cudatoolkit-dev, cudnn, nccl, driver. It may also be a finding code
    such as CU203: the answer then says what the code means, which command finds it, and which errors it predicts.

    \b
    Examples:
      cuenv why pytorch
      cuenv why CU401
      cuenv why cudnn --gpu V100 --gpu 'RTX 5090' --driver 575.57.08
    """
    if subject[:2].upper() == "CU" and subject[2:].isdigit():
        return _explain_code(subject, values)

    decision = answer_question(values, lambda decision: why(decision, subject))
    return ExitCode.OK if decision.chosen else ExitCode.NEGATIVE


def _explain_code(subject: str, values: ChannelCommandValues) -> int:
    from cuenv.diagnosis.explain import code as code_v1  # noqa: PLC0415 - not needed for --help
    from cuenv.diagnosis.explain.code import code_page  # noqa: PLC0415 - as above
    from cuenv.knowledge.io.load import load_guidance  # noqa: PLC0415 - as above

    page = code_page(subject, load_guidance(knowledge_from(values)))
    if values["as_json"]:
        emit_json(code_v1.plain(page))
    else:
        emit_lines(code_v1.lines(page))
    return ExitCode.OK


@click.command("why-not", cls=CuenvCommand)
@click.argument("question", metavar="KEY=VALUE", shell_complete=completes("why-not"))
@host_options
@request_options
@prove_option
@channel_options
@output_options
def why_not_command(question: str, **values: Unpack[ChannelCommandValues]) -> int:
    """Show why something else was not chosen.

    The answer lists the rules that reject it. When no rule rejects it, the answer names the first criterion by
    which the choice was better.

    \b
    Examples:
      cuenv why-not cuda=13.0
      cuenv why-not pytorch=2.12 --host a800-470
      cuenv why-not stack=pytorch
    """
    answer_question(values, lambda decision: why_not(decision, question))
    return ExitCode.OK


def answer_question(values: ChannelCommandValues, answer: Callable[[Decision], Answer]) -> Decision:
    """Decide for the host and the request of the options, and print the answer to a question about the decision."""
    knowledge, request = knowledge_from(values), request_from(values)
    sources = channel_sources(values) if values["prove"] else None
    facts = host_facts(host_from(values), knowledge, request)
    near = None if sources else local_records(values, facts.platform)  # as `cuenv resolve` decides
    found = resolve(facts, request, knowledge, prove=sources, local_records=near)
    decision = found.decision
    given = answer(decision)
    if values["as_json"]:
        from cuenv.resolver.decision_json import answer_plain  # noqa: PLC0415 - only for JSON

        emit_json(answer_plain(given, knowledge))
    else:
        cited: dict[str, int] | None = {} if values["verbose"] else None
        lines = [f"{given.question}, for {host_line(decision.context.facts)}", given.says]
        lines += _verdict_lines(given, knowledge, cited)
        lines += [basis_line(found)] if found.fits and given.of_choice else []
        lines += source_lines(cited, knowledge) if cited is not None else _sources_hint(given)
        emit_lines(lines)
    return decision


def _sources_hint(answer: Answer) -> list[str]:
    """The hint on how to see the sources, if there are any."""
    facts = any(reason.kind == "row" for verdict, _ in answer.verdicts for reason in verdict.reasons)
    return ["add -v for the sources"] if facts else []


def _verdict_lines(answer: Answer, knowledge: Knowledge, cited: dict[str, int] | None) -> list[str]:
    lines: list[str] = []
    for verdict, count in answer.verdicts:
        first, *rest = verdict_lines(verdict, knowledge, cited)
        if verdict.because in answer.says:  # the answer gives this reason already
            first = f"not met {rule_named(verdict.rule).title}"
        lines += [f"{first} ({count} candidates)" if count > 1 else first, *rest]
    for loss in answer.losses:
        lines.append(f"prefer  {loss.criterion}: {loss.chosen}; the other candidate has {loss.other}")
        lines.append(f"        the other candidate: {loss.example}")
    return lines
