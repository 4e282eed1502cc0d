"""``cuenv explain``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import CuenvCommand, completes, output_options
from cuenv.cli.options import host_from, host_options, knowledge_from, knowledge_option
from cuenv.cli.output import emit_json, emit_lines
from cuenv.core.errors import UsageError
from cuenv.core.io.files import is_file
from cuenv.host.select import host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import Guidance

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import HostCommandValues


_LOGS = (".log", ".txt", ".out", ".err")


@click.command("explain", cls=CuenvCommand)
@click.argument("topic", required=False, metavar="[TOPIC]", shell_complete=completes("explain"))
@click.argument("words", nargs=-1, metavar="[GPU]", shell_complete=completes("explain-gpu"))
@host_options
@knowledge_option
@output_options
def command(topic: str | None, words: tuple[str, ...], **values: Unpack[HostCommandValues]) -> None:
    """Answer questions about CUDA and PyTorch, for this machine or another one.

    TOPIC is a question in plain words, a topic that 'cuenv explain' lists, an error message, or an id such as E03.
    The answer has facts from the tables about the subjects of the question and about the host; it says so if recipes
    contradict it. 'gpu NAME' has advice for training on that GPU. The option -v shows the sources.

    \b
    Examples:
      cuenv explain
      cuenv explain 'do I need the CUDA toolkit?'
      cuenv explain 'which driver for CUDA 12.8' --gpu A100 --driver 470.129.06
      cuenv explain minor-version-compatibility
      cuenv explain gpu 'RTX 4090'
    """
    from cuenv.diagnosis.explain.pages import errata_lines, errata_plain, topic_line  # noqa: PLC0415 - not needed for --help
    from cuenv.knowledge.io.load import load_guidance  # noqa: PLC0415 - as above

    knowledge = knowledge_from(values)
    guidance = load_guidance(knowledge)
    if topic == "gpu" and (len(words) < 2 or any(map(str.isdigit, " ".join(words)))):  # else a question without quotes
        _gpu_advice(" ".join(words) or None, guidance, knowledge, values)
        return
    topic = topic and " ".join((topic, *words))  # a question that was typed without quotes
    brief = not values["verbose"]
    found = guidance.about(topic) if topic is not None else guidance.errata
    answers = [
        row for row in guidance.answers if topic is not None and topic.strip().lower() in (row.topic, row.id.lower())
    ]
    if topic is not None and (answers or not found):
        _answer(topic, guidance, knowledge, values)
        return
    if topic is None:
        text = ["topics; a question in plain words works too:"]
        text += [topic_line(name, guidance) for name in guidance.topics]
        text.append("show one topic: cuenv explain libcudart")
    else:
        text = [item for row in found for item in errata_lines(row, guidance, knowledge, brief=brief)]
    if values["as_json"]:
        emit_json(errata_plain(found, guidance, knowledge))
    else:
        emit_lines([*text, *_sources_hint(values, about=topic is not None)])


def _answer(question: str, guidance: Guidance, knowledge: Knowledge, values: HostCommandValues) -> None:
    """Print the answer to a question, for the host in the question or of the options, or for this machine."""
    from cuenv.diagnosis.explain import pages as page  # noqa: PLC0415 - as above
    from cuenv.diagnosis.explain.answers import table_lines  # noqa: PLC0415 - as above
    from cuenv.diagnosis.explain.question import host_of_question, parse_question, with_host_options  # noqa: PLC0415 - as above
    from cuenv.diagnosis.explain.yes_or_no import yes_or_no  # noqa: PLC0415 - as above

    if question.endswith(_LOGS) and is_file(question):
        raise UsageError(f"explain {question!r}: that is a file", hint=shlex.join(["cuenv", "diagnose", question]))
    asked = parse_question(question, guidance, knowledge)
    if len(asked.models) == 1 and not asked.plain:
        _gpu_advice(asked.models[0].name, guidance, knowledge, values)
        return
    if not asked.found:
        near = asked.beside
        if question[:2].upper() == "CU" and question[2:].isdigit():
            raise UsageError(f"explain {question!r}: that is a finding code", hint=f"cuenv why {question}")
        raise UsageError(
            f"explain {question!r}: no such topic" + (f"; the nearest are {', '.join(near)}" if near else ""),
            hint=f"cuenv explain {near[0]}" if near else "cuenv explain",
        )
    options = host_from(values)
    host = None if options.given else host_of_question(asked, knowledge)
    if host is None and (options.given or any(row.join for row in asked.answers)):
        host = host_facts(options, knowledge)
    asked = with_host_options(asked, host)
    heres = {
        row.id: (*yes_or_no(row, asked, knowledge, host), *table_lines(row, asked, knowledge, host))
        for row in asked.answers
    }
    if values["as_json"]:
        emit_json(page.errata_plain(asked.errata, guidance, knowledge, asked, heres))
        return
    brief = not values["verbose"]
    text = [f"nearest topic: {row.topic}" for row in asked.answers if asked.weak]
    for row in asked.answers:
        text += page.answer_lines(row, heres[row.id], guidance, knowledge, brief=brief)
    for error in asked.symptoms:
        text += page.error_lines(error, guidance, knowledge, brief=brief)
    for erratum in asked.errata:
        text += page.errata_lines(erratum, guidance, knowledge, brief=brief)
    text += [f"see also: {', '.join(asked.beside)}"] if asked.beside and not values["quiet"] else []
    emit_lines([*text, *_sources_hint(values, about=True)])


def _gpu_advice(name: str | None, guidance: Guidance, knowledge: Knowledge, values: HostCommandValues) -> None:
    from cuenv.diagnosis.explain import gpu as gpu_advice  # noqa: PLC0415 - only for a GPU

    if name is None:
        raise UsageError("explain gpu: which one?", hint="cuenv explain gpu 'RTX 4090'")
    page = gpu_advice.page(name, guidance, knowledge)
    if values["as_json"]:
        emit_json(gpu_advice.advice_plain(page, guidance, knowledge))
    else:
        lines = gpu_advice.advice_lines(page, guidance, knowledge, brief=not values["verbose"])
        emit_lines([*lines, *_sources_hint(values, about=True)])


def _sources_hint(values: HostCommandValues, *, about: bool) -> list[str]:
    return ["add -v for the sources"] if about and not values["verbose"] and not values["quiet"] else []
