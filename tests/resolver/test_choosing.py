"""The choice alone, for many hosts, is what `decide` chooses for each of them."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cuenv.core.versions import version
from cuenv.host.facts import Driver, Gpu, HostFacts
from cuenv.host.request import Request, pool
from cuenv.resolver.batch import choices
from cuenv.resolver.candidates import Candidate, candidates
from cuenv.resolver.decision import decide
from cuenv.resolver.ranking import preference
from cuenv.resolver.rules import RULES, Context
from given import DRIVERS, HOSTS, base, machine, shipped, wishing
from thorough import examples

CAPABILITIES = tuple(str(row.capability) for row in base().generations)
LIBRARIES = (None, "2.12", "2.17", "2.28", "2.35", "2.40")
WISHES = (
    Request(),
    Request(dev=False),
    Request(cpu=True),
    Request(prefer="native"),
    Request(stack="pytorch"),
    Request(pytorch=wishing(">=2.3,<2.6"), python=wishing("3.11")),
    Request(packages=("flash-attn",)),
    Request(pytorch=wishing("9.9")),
)

machines = st.builds(
    lambda gpus, driver, libc, label: machine(*gpus, driver=driver, libc=libc, label=label),
    st.lists(st.sampled_from(CAPABILITIES), max_size=3),
    st.none() | st.sampled_from(DRIVERS),
    st.sampled_from(LIBRARIES),
    st.sampled_from(("box", "node")),
)
levels = st.builds(
    lambda gpus, level: machine(*gpus, level=level, label="level"),
    st.lists(st.sampled_from(CAPABILITIES), max_size=2),
    st.sampled_from(("11.4", "12.2", "12.9", "13.0")),
)
unseen = st.builds(
    lambda driver: replace(
        machine(driver=driver, label="blind"), gpus=(Gpu(index=0, name="a new one", capability=None),)
    ),
    st.sampled_from(DRIVERS),
)
hosts = machines | levels | unseen | st.lists(machines, min_size=2, max_size=3).map(pool)


def decided(facts: HostFacts, wish: Request) -> str:
    chosen = decide(Context(facts=facts, wish=wish, knowledge=base())).chosen
    return str(chosen.candidate) if chosen else "nothing"


def said(found: Candidate | None) -> str:
    return str(found) if found else "nothing"


@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_shipped_hosts_get_what_is_decided_for_each(wish: Request) -> None:
    every = [shipped(name) for name in HOSTS]
    assert [said(item) for item in choices(every, wish, base())] == [decided(facts, wish) for facts in every]


@examples(25)
@given(st.lists(hosts, min_size=1, max_size=4), st.sampled_from(WISHES))
@example([machine("12.0", "5.0", driver="580.65.06")], Request(dev=False))
def test_any_hosts_get_what_is_decided_for_each(every: list[HostFacts], wish: Request) -> None:
    assert [said(item) for item in choices(every, wish, base())] == [decided(facts, wish) for facts in every]


@examples(60)
@given(hosts, hosts, st.sampled_from(WISHES))
def test_what_looks_alike_is_judged_alike(one: HostFacts, other: HostFacts, wish: Request) -> None:
    """A view may leave out words, never what an outcome or a key rests on."""
    cases = [Context(facts=facts, wish=wish, knowledge=base()) for facts in (one, other)]
    every = candidates(base(), "linux-64")[::23]
    for rule in RULES:
        if rule.sees(one) == rule.sees(other):
            assert [rule.judge(item, cases[0]).outcome for item in every] == [
                rule.judge(item, cases[1]).outcome for item in every
            ]


def test_a_view_parts_hosts_that_differ_in_what_is_known_of_their_gpus() -> None:
    """Pools of which no machine, one, or each has a GPU; machines that have GPUs of unknown capability."""
    bare = [machine(driver="535.129.03", label=label) for label in "ab"]
    full = [machine("8.6", driver="535.129.03", label=label) for label in "ab"]
    mixed = replace(full[0], gpus=(*full[0].gpus, Gpu(index=1, name="a new one", capability=None)))
    every = [*bare[:1], *full[:1], mixed, pool(bare), pool([bare[0], full[1]]), pool(full), replace(mixed, gpus=())]
    for rule in RULES:
        judged: dict[Hashable, set[str]] = {}
        for facts in every:
            asked = Context(facts=facts, wish=Request(dev=False), knowledge=base())
            judged.setdefault(rule.sees(facts), set()).add(rule.judge(candidates(base(), "linux-64")[0], asked).outcome)
        assert max(map(len, judged.values())) == 1, (rule.name, judged)


def test_labels_and_evidence_make_no_host_different() -> None:
    found = choices(
        [machine("8.6", driver="535.129.03", label=f"node{number}") for number in range(3)], Request(), base()
    )
    assert found[0] is found[1] is found[2]
    assert found[0] is not None


def test_only_given_candidates_are_chosen() -> None:
    few = candidates(base(), "linux-64")[:5]
    (found,) = choices([machine("8.6", driver="580.65.06")], Request(dev=False), base(), few)
    assert found in few
    assert choices([machine("8.6", driver="580.65.06")], Request(), base(), ()) == (None,)


@pytest.mark.slow
def test_ten_thousand_hosts_and_candidates_take_seconds() -> None:
    """A wide margin: benchmarks/decide.py measures. One by one they would take minutes."""
    rows = tuple(
        row.replaced(version=version(f"{row.version}.{step}"))
        for step in range(40)
        for row in base().torch
        if row.platform == "linux-64"
    )
    many = replace(base(), torch=rows)
    among = candidates(many, "linux-64")[:10_000]
    assert len(among) == 10_000
    every = [
        replace(
            machine("8.6", ("8.0", "9.0")[number % 2], libc=f"2.{17 + number % 20}", label=f"node{number}"),
            driver=Driver(version=f"{470 + number % 110}.{number // 110 + 1}", cuda=version("12.4")),
        )
        for number in range(10_000)
    ]
    start = time.process_time()
    found = choices(every, Request(dev=False), many, among)
    assert time.process_time() - start < 30
    assert sum(item is not None for item in found) > 5_000


def test_a_criterion_reads_no_verdict_but_that_of_its_rule() -> None:
    """The choice is made without the other verdicts."""
    facts = machine("8.6", driver="535.129.03")
    case = Context(facts=facts, wish=Request(packages=("bitsandbytes",)), knowledge=base())
    item = decide(case).fitting[0]
    for criterion in preference("native"):
        alone = replace(item, verdicts=(item.verdict(criterion.reads),) if criterion.reads else ())
        assert criterion.key(alone, case) == criterion.key(item, case)
