"""``cuenv explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cuenv.cli.command import Grouped
from cuenv.cli.completion_names import completes
from cuenv.cli.options import knowledge_from, knowledge_option, talk_options
from cuenv.cli.output import emit_json, emit_lines
from cuenv.core.errors import UsageError
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import Guidance

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import KbValues


@click.command("explain", cls=Grouped)
@click.argument("topic", required=False, metavar="[TOPIC]", shell_complete=completes("explain"))
@click.argument("subject", required=False, metavar="[GPU]", shell_complete=completes("explain-gpu"))
@knowledge_option
@talk_options
def command(topic: str | None, subject: str | None, **values: Unpack[KbValues]) -> None:
    """Compare what recipes say about CUDA and PyTorch with what is true.

    TOPIC is one of the topics that 'cuenv explain' lists, an id such as E03, or words of the text. 'gpu NAME' has
    advice for training on that GPU. The option -v shows the sources.

    \b
    Examples:
      cuenv explain
      cuenv explain libcudart
      cuenv explain minor-version-compatibility
      cuenv explain 'libcudart.so.11.0'
      cuenv explain gpu 'RTX 4090'
    """
    from cuenv.diagnosis.explain import errata_lines, errata_plain, line  # noqa: PLC0415 - not needed for --help
    from cuenv.knowledge.io.load import load_guidance  # noqa: PLC0415 - as above

    knowledge = knowledge_from(values)
    guidance = load_guidance(knowledge)
    if topic == "gpu":
        _gpu(subject, guidance, knowledge, values)
        return
    if subject is not None:
        raise UsageError(f"explain takes one topic, and {subject!r} is a second one", hint=f"cuenv explain '{topic}'")
    if topic is None:
        found = guidance.errata
        text = ["what recipes say, and is wrong or only half true, by topic:"]
        text += [line(name, guidance) for name in guidance.topics]
        text.append("what is true instead: cuenv explain libcudart")
    else:
        found = guidance.about(topic)
        if not found:
            near = guidance.near(topic)
            raise UsageError(
                f"explain {topic!r}: no such topic" + (f"; the nearest are {', '.join(near)}" if near else ""),
                hint=f"cuenv explain {near[0]}" if near else "cuenv explain",
            )
        text = [item for row in found for item in errata_lines(row, guidance, knowledge, brief=not values["verbose"])]
    if values["as_json"]:
        emit_json(errata_plain(found, guidance, knowledge))
    else:
        emit_lines([*text, *_more(values, about=topic is not None)])


def _gpu(name: str | None, guidance: Guidance, knowledge: Knowledge, values: KbValues) -> None:
    from cuenv.diagnosis import explain as gpu_advice  # noqa: PLC0415 - only for a GPU

    if name is None:
        raise UsageError("explain gpu: which one?", hint="cuenv explain gpu 'RTX 4090'")
    page = gpu_advice.page(name, guidance, knowledge)
    if values["as_json"]:
        emit_json(gpu_advice.advice_plain(page, guidance, knowledge))
    else:
        lines = gpu_advice.advice_lines(page, guidance, knowledge, brief=not values["verbose"])
        emit_lines([*lines, *_more(values, about=True)])


def _more(values: KbValues, *, about: bool) -> list[str]:
    """Where the sources are."""
    return ["sources with -v"] if about and not values["verbose"] and not values["quiet"] else []
