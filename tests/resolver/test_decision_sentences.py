"""Whole decisions as they are told: the choice, who lost on what, who is rejected, what would open more.

``decisions.txt`` is to be read; with ``CUENV_WRITE_VERDICTS=1`` this test writes it anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cases import collect
from cuenv.core.versions import parse_arch_list, version
from cuenv.host.facts import Driver, HostFacts
from cuenv.host.request import pool
from cuenv.resolver.decision import Decision, _context_with, decide
from cuenv.resolver.ranking import NATIVE_LEVEL
from cuenv.resolver.rules import Remedy, minimum_driver
from given import base, candidate, case, decided, machine

TOLD = Path(__file__).parents[1] / "decisions.txt"
WRITE = bool(os.environ.get("CUENV_WRITE_VERDICTS"))

POOL = pool(
    [machine("7.0", driver="580.65.06", label="old"), machine("12.0", driver="590.48.01", label="new", libc="2.31")]
)
HOSTS: dict[str, tuple[HostFacts, dict[str, Any]]] = {
    "8.9 with 535": (machine("8.9", driver="535.129.03"), {}),
    "8.9 with 535, native": (machine("8.9", driver="535.129.03"), {"prefer": "native"}),
    "8.9 with 535, no compiler": (machine("8.9", driver="535.129.03"), {"dev": False}),
    "8.0 with 470": (machine("8.0", driver="470.129.06"), {}),
    "8.0 without driver": (machine("8.0"), {"dev": False, "python": ">=3.11,<3.14"}),
    "12.0 with 560": (machine("12.0", driver="560.35.03"), {}),
    "10.7 without driver": (machine("10.7"), {"dev": False}),
    "6.1 with 590": (machine("6.1", driver="590.48.01"), {}),
    "a pool": (POOL, {}),
    "no GPU": (machine(), {}),
    "CPU": (machine(), {"cpu": True, "dev": False}),
    "the stack pytorch": (machine("8.6", driver="535.129.03"), {"stack": "pytorch", "python": "3.11"}),
    "a torch that is none": (machine("8.6", driver="535.129.03"), {"pytorch": "99"}),
    "a library that compiles": (machine("8.6", driver="535.129.03"), {"dev": False, "pip": ("deepspeed==0.15.4",)}),
    "CUDA 11 with 470, native": (
        machine("8.0", driver="470.129.06"),
        {"cuda": "11.8", "dev": False, "prefer": "native"},
    ),
}


def lines(decision: Decision) -> Iterator[str]:
    if decision.chosen:
        yield f"chosen: {decision.chosen.candidate}"
        yield f"pythons: {', '.join(item.candidate.python for item in decision.variants(decision.chosen))}"
    for host, lowest in decision.minimum_drivers:
        yield f"minimum driver: {lowest} on {host.label}"
    yield f"minimum driver: {decision.minimum_driver}"
    if decision.without_request:
        yield f"without the wish: {decision.without_request.candidate}"
    for place, item in enumerate(decision.fitting[:12]):
        label = f", label {item.candidate.label.label}" if item.candidate.label else ""
        lost = decision.lost_on(item)
        why = f" - loses on {lost[0].name}: {lost[1]}; {lost[2]}" if lost else ""
        yield f"{place + 1}. {item.candidate}{label}{why}"
    for group in decision.rejections:
        yield f"{group.count} rejected by {group.rule}: {group.because} (such as {group.example})"
    for miss in decision.near_misses:
        yield f"{miss.remedy.text} would open {miss.candidate}, {miss.objection.rule}: {miss.objection.because}"


@cache
def decision_of(name: str) -> Decision:
    facts, wishes = HOSTS[name]
    return decided(facts, **wishes)


def told(name: str) -> str:
    return "".join(f"{line}\n" for line in lines(decision_of(name)))


def read() -> dict[str, str]:
    """What the file tells, by the names of the hosts."""
    parts = TOLD.read_text(encoding="utf-8").removeprefix("== ").split("\n== ")
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}


def test_the_file_tells_of_each_host() -> None:
    if WRITE:
        TOLD.write_text("\n".join(f"== {name}\n{told(name)}" for name in HOSTS), encoding="utf-8")
    assert list(read()) == list(HOSTS)


@pytest.mark.skipif(WRITE, reason="the file is written anew")
@collect("name", HOSTS)
def test_every_decision_is_as_it_was_read(name: str) -> None:
    assert told(name) == read()[name]


def test_the_order_is_that_of_the_criteria() -> None:
    """Each candidate is told apart from the choice by the first criterion on which they differ, and by no other."""
    for decision in map(decision_of, HOSTS):
        assert decision.lost_on(decision.fitting[0]) is None if decision.fitting else decision.minimum_drivers == ()
        assert decision.ranked(reversed(decision.fitting)) == decision.fitting or len(decision.fitting) > 1
        assert [item.candidate for item in decision.ranked(decision.fitting)] == [
            item.candidate for item in decision.fitting
        ]


def test_twins_are_told_apart_by_nothing() -> None:
    """Two candidates that are alike in every criterion: the second has lost on none."""
    item = candidate("2.13.0", "cuda129*")
    decision = decide(case(machine("8.9", driver="580.65.06")), [item, replace(item)])
    first, second = decision.fitting
    assert decision.lost_on(first) is None
    assert decision.lost_on(second) is None


def test_a_remedy_that_names_neither_driver_nor_option_changes_nothing() -> None:
    asked = case(machine("8.9", driver="535.129.03"))
    assert _context_with(asked, Remedy(text="another GPU")) is asked
    later = _context_with(asked, Remedy(text="driver 580.65.06 or later", driver="580.65.06"))
    assert later.facts.driver == Driver(version="580.65.06", cuda=version("13.0"))
    assert _context_with(asked, Remedy(text="x", option="--no-dev")).request.dev is False
    assert (
        _context_with(
            replace(asked, request=replace(asked.request, dev=False)), Remedy(text="x", option="--dev")
        ).request.dev
        is True
    )


def test_what_a_remedy_opens_must_then_fit() -> None:
    """Without a compiler the builds below fit as libraries go, but not for a wish that nothing meets."""
    decision = decided(machine("8.6", driver="535.129.03"), dev=False, pip=("deepspeed==0.15.4",))
    assert any(miss.remedy.option == "--dev" for miss in decision.near_misses)
    assert decision.lost_on(decision.assessments[0]) is None
    none = decide(case(machine("12.0", driver="580.65.06")), [candidate("2.5.1", "cuda118*")])
    assert none.near_misses == ()
    assert [group.lead for group in none.rejections] == [none.assessments[0].objections[0]]


def test_what_goes_first_by_wish_is_what_is_lost_on() -> None:
    decision = decided(machine("8.9", driver="535.129.03"), prefer="native")
    beyond = [item for item in decision.fitting if item.candidate.cuda == version("12.9")]
    assert beyond
    assert {lost[0] for item in beyond if (lost := decision.lost_on(item))} == {NATIVE_LEVEL}


def test_the_minimum_driver_covers_the_ptx_of_a_build() -> None:
    """The driver of CUDA 12.9 is later than the first that drives the GPU: the later one counts."""
    item = candidate("2.13.0", "cuda129*")
    built = replace(item, build=item.build.replaced(code=parse_arch_list("9.0+PTX", version("12.9"))))
    assert minimum_driver(built, case(machine("10.0"))) == base().native_driver(version("12.9"))
