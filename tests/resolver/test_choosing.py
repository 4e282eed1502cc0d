"""The choice alone, for many hosts, is what `decide` chooses for each of them."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cases import collect
from cuenv.core.versions import version
from cuenv.host.facts import Driver, Gpu, HostFacts, Libc, Surroundings, glibc
from cuenv.host.request import Request, pool
from cuenv.knowledge.rows import TorchBuild
from cuenv.resolver import batch, engine
from cuenv.resolver.batch import choices
from cuenv.resolver.candidates import Candidate, candidates
from cuenv.resolver.decision import decide
from cuenv.resolver.ranking import preference
from cuenv.resolver.rules import RULES, Context, Rule, Verdict
from given import DRIVERS, HOSTS, base, machine, shipped, version_spec
from thorough import examples

WISHES = (
    Request(),
    Request(dev=False),
    Request(cpu=True),
    Request(prefer="native"),
    Request(stack="pytorch"),
    Request(pytorch=version_spec(">=2.3,<2.6"), python=version_spec("3.11")),
    Request(packages=("flash-attn",)),
    Request(pytorch=version_spec("9.9")),
)

LIBCS = (
    None,
    *(glibc(text) for text in ("2.12", "2.17", "2.28", "2.35", "2.40")),
    Libc(family="musl", version=version("1.2.5")),
)
LEVELS = ("10.1", "11.4", "12.2", "12.9", "13.0", "99.0")

gpus = st.lists(
    st.builds(
        Gpu,
        index=st.integers(0, 3),
        name=st.sampled_from(("", "NVIDIA X1", "RTX 4090")),
        capability=st.none() | st.sampled_from([row.capability for row in base().generations]),
    ),
    max_size=3,
).map(tuple)
driven = st.sampled_from((*DRIVERS, "525", "570", "999.1"))
any_driver = st.builds(
    Driver, version=st.none() | driven, cuda=st.none() | st.sampled_from(LEVELS).map(version)
) | driven.map(lambda text: Driver(version=text, cuda=base().cuda_of(text)))
machines = st.builds(
    HostFacts,
    label=st.sampled_from(("box", "node")),
    platform=st.just("linux-64"),
    detected=st.booleans(),
    driver=st.none() | any_driver,
    gpus=gpus,
    libc=st.sampled_from(LIBCS),
    environment=st.builds(Surroundings, wsl=st.booleans()),
)
"""Machines that differ in each fact that a rule can read; `test_every_fact_that_rules_can_read_varies` holds it."""
pools = st.lists(machines, min_size=2, max_size=3).map(pool)
hosts = machines | pools | machines.map(lambda one: replace(one, platform="linux-aarch64"))


def decided(facts: HostFacts, wanted: Request) -> str:
    chosen = decide(Context(facts=facts, request=wanted, knowledge=base())).chosen
    return str(chosen.candidate) if chosen else "nothing"


def said(found: Candidate | None) -> str:
    return str(found) if found else "nothing"


@collect("wanted", WISHES, ids=str, one_in=8)
def test_shipped_hosts_get_what_is_decided_for_each(wanted: Request) -> None:
    every = [shipped(name) for name in HOSTS]
    assert [said(item) for item in choices(every, wanted, base())] == [decided(facts, wanted) for facts in every]


@examples(40)
@given(st.lists(hosts, min_size=1, max_size=4), st.sampled_from(WISHES))
@example([machine("12.0", "5.0", driver="580.65.06")], Request(dev=False))
def test_any_hosts_get_what_is_decided_for_each(every: list[HostFacts], wanted: Request) -> None:
    assert [said(item) for item in choices(every, wanted, base())] == [decided(facts, wanted) for facts in every]


def test_what_a_rule_rejects_whatever_the_host_is_never_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(build: TorchBuild) -> Verdict | None:
        new = build.cuda is not None and build.cuda >= version("13.0")
        return Verdict("made-up", "reject", "CUDA 13 is unwelcome") if new else None

    made = Rule("made-up", "CU000", "CUDA 13 is unwelcome", 999, lambda: Verdict("made-up", "pass", ""), unless=first)
    host = machine("8.0", driver="580.65.06")
    (usual,) = choices([host], Request(), base())
    monkeypatch.setattr(batch, "RULES", (*RULES, made))
    (chosen,) = choices([host], Request(), base())
    assert usual
    assert chosen
    assert usual.build.cuda
    assert usual.build.cuda >= version("13.0")
    assert first(chosen.build) is None


@pytest.mark.slow
def test_every_fact_that_rules_can_read_varies() -> None:
    """What a rule can name of a host is made up in more than one way: a new name wants hosts that differ in it."""
    read: dict[str, set[Hashable]] = {name: set() for name in engine._OF_HOST}

    @settings(max_examples=300, database=None, deadline=None)
    @given(hosts)
    def collect(facts: HostFacts) -> None:
        for per in ("host", "machine", "gpu", "capability"):
            for unit in engine.units(facts, per):
                for name, of in engine._OF_HOST.items():
                    read[name].add(of(*unit))

    collect()
    assert {name for name, values in read.items() if len(values) < 2} == set()
    assert read["presence"] == {"level", "no", "bare", "blind", "known"}


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


def test_a_criterion_is_by_what_it_names_or_by_the_verdict_of_a_rule() -> None:
    for criterion in preference("native"):
        assert bool(criterion.key) != bool(criterion.reads), criterion.name
