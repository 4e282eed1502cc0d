"""What ``why`` and ``why-not`` share: decide, answer, print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuenv.cli.options import channel_sources, host_from, knowledge_from, wish_from
from cuenv.cli.output import emit_json, emit_lines
from cuenv.host.describe import host_line
from cuenv.host.select import host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.decision import Decision
from cuenv.resolver.explain import source_lines, verdict_lines
from cuenv.resolver.resolve import resolve
from cuenv.resolver.why import Answer


def ask(values: dict[str, Any], answer: Callable[[Decision], Answer]) -> Decision:
    """Decide for the host and wishes of the options, and print the answer to a question about it."""
    knowledge, wish = knowledge_from(values), wish_from(values)
    sources = channel_sources(values) if values["prove"] else None
    facts = host_facts(host_from(values), knowledge, wish)
    decision = resolve(facts, wish, knowledge, prove=sources).decision
    given = answer(decision)
    if values["as_json"]:
        from cuenv.resolver.decision_json import answer_plain  # noqa: PLC0415 - only for JSON

        emit_json(answer_plain(given, knowledge))
    else:
        cited: dict[str, int] | None = {} if values["verbose"] else None
        lines = [f"{given.question}, for {host_line(decision.case.facts)}", given.says]
        lines += _lines(given, knowledge, cited)
        lines += source_lines(cited, knowledge) if cited is not None else _more(given)
        emit_lines(lines)
    return decision


def _more(answer: Answer) -> list[str]:
    """Where the sources are, when there are any."""
    facts = any(ground.kind == "row" for verdict, _ in answer.verdicts for ground in verdict.grounds)
    return ["sources with -v"] if facts else []


def _lines(answer: Answer, knowledge: Knowledge, cited: dict[str, int] | None) -> list[str]:
    lines: list[str] = []
    for verdict, count in answer.verdicts:
        lines += verdict_lines(verdict, knowledge, cited)
        if count > 1:
            lines.append(f"        and so for {count} candidates")
    for loss in answer.losses:
        lines.append(f"prefer  {loss.criterion}: {loss.chosen}, before {loss.other}")
        lines.append(f"        such as {loss.example}")
    return lines
