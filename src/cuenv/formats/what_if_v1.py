"""What another host would change, as ``cuenv/what-if/1`` and as lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cuenv.explain import chosen_line, minimum_text, served_lines
from cuenv.formats.decision_json import decision_plain
from cuenv.host_text import host_line
from cuenv.what_if import Bound, Group, WhatIf

_SHOWN = 8


def plain(answer: WhatIf) -> dict[str, Any]:
    """The answer as plain data, with both decisions whole."""
    return {
        "schema": "cuenv/what-if/1",
        "before": {"host": host_line(answer.before.case.facts), "decision": decision_plain(answer.before)},
        "after": {"host": host_line(answer.after.case.facts), "decision": decision_plain(answer.after)},
        "appear": [_group(item) for item in answer.appear],
        "vanish": [_group(item) for item in answer.vanish],
        "bounds": [{"before": item.before, "after": item.after, "why": list(item.why)} for item in answer.bounds],
    }


def _group(group: Group) -> dict[str, Any]:
    return {"stack": group.stack, "pytorch": group.pytorch, "cuda": group.cuda, "candidates": group.count}


def lines(answer: WhatIf, *, verbose: bool = False) -> list[str]:
    """The answer for a terminal: both choices, and what appears and disappears."""
    found: list[str] = []
    for word, decision in (("before", answer.before), ("after", answer.after)):
        found.append(f"{word:7} {host_line(decision.case.facts)}")
        found.append(f"        {chosen_line(decision)}")
        found += [f"        {line}" for line in served_lines(decision)]
        if decision.minimum_driver:
            found.append(f"        lowest driver that runs it: {minimum_text(decision)}")
        if decision.chosen is None:
            found += [f"        {group.count:4d}  {group.because}" for group in decision.rejections[:3]]
    if not answer.appear and not answer.vanish:
        found.append("same    every candidate that fits before fits after, and no other")
    found += _listed("new", answer.appear, verbose=verbose)
    found += _listed("gone", answer.vanish, verbose=verbose)
    found += [f"bound   {_moved(item)}" for item in answer.bounds]
    return found


def _moved(bound: Bound) -> str:
    """What becomes of a bound, and why there is or was one."""
    why = "; ".join(bound.why)
    if bound.before is None:
        return f"{bound.after} is new: {why}"
    if bound.after is None:
        return f"{bound.before} falls away: {why}"
    return f"{bound.before} becomes {bound.after}: {why}"


def _listed(word: str, groups: Iterable[Group], *, verbose: bool) -> list[str]:
    every = tuple(groups)
    shown = every if verbose else every[:_SHOWN]
    found = [
        f"{word:7} {item.count:4d}  pytorch {item.pytorch} with {f'CUDA {item.cuda}' if item.cuda else 'CPU'} "
        f"({item.stack})"
        for item in shown
    ]
    rest = every[len(shown) :]
    if rest:
        found.append(
            f"{word:7} {sum(item.count for item in rest):4d}  in {len(rest)} more combinations (-v names them)"
        )
    return found
