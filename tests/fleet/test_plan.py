"""Plans of fleets: against brute force, and what must hold of every one."""

from __future__ import annotations

import random
from functools import cache
from itertools import combinations

import pytest

from cases import quick_and_slow
from cuenv.core.record import replace
from cuenv.fleet.nodes import FleetNode
from cuenv.fleet.plan import FleetPlan, plan
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request, pool
from cuenv.resolver.batch import Pool, PoolRanking
from cuenv.resolver.candidates import candidates
from cuenv.resolver.decision import decide
from cuenv.resolver.ranking import SUPPORT_CRITERIA, Ranking
from cuenv.resolver.rules import Context
from fleets import DRIVERS, GPUS, LIBCS, fleet, host, tables

ASKED = Request()
POOLS: dict[str, Pool] = {}


def planned(nodes: list[FleetNode], at_most: int | None = None) -> FleetPlan:
    return plan(nodes, ASKED, tables(), at_most=at_most, pools=POOLS)


def alone(facts: HostFacts) -> HostFacts:
    """A node as a plan sees it: one of many."""
    return replace(facts, detected=False)


def served(hosts: tuple[HostFacts, ...]) -> bool:
    """Whether one environment serves hosts, as the choice for the pool of them says it."""
    return everything().choice(pool(map(alone, hosts))) is not None


@cache
def everything() -> Pool:
    return Pool(candidates(tables(), "linux-64"), ASKED, tables())


def shown(found: FleetPlan) -> tuple[object, ...]:
    """A plan without what two plans alike may differ in."""
    return (
        [(item.name, str(item.candidate), item.kinds) for item in found.environments],
        [
            (item.number, list(map(str, item.environments)), [(one.of.names, str(one.gets)) for one in item.less])
            for item in found.prices
        ],
        found.proofs,
        found.hopeless,
        found.unknown,
    )


def divisions(items: list[HostFacts]) -> list[list[list[HostFacts]]]:
    """Every way to divide hosts into groups."""
    if not items:
        return [[]]
    first, *rest = items
    found = []
    for groups in divisions(rest):
        found.append([[first], *groups])
        found += [[*groups[:at], [first, *groups[at]], *groups[at + 1 :]] for at in range(len(groups))]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("count", quick_and_slow(8, 300))
def test_brute_force_agrees_on_machines(count: int) -> None:
    chance = random.Random(3)
    known: dict[tuple[int, ...], bool] = {}

    def together(group: list[HostFacts]) -> bool:
        key = tuple(sorted(map(id, group)))
        if key not in known:
            known[key] = served(tuple(group))
        return known[key]

    pairs = 0
    for _ in range(count):
        nodes = fleet(chance, 5)
        able = list({id(node.facts): node.facts for node in nodes if together([node.facts])}.values())
        least = min(len(groups) for groups in divisions(able) if all(map(together, groups)))
        found = planned(nodes, at_most=least)
        assert len(found.environments) == least == (found.proofs[0].count if able else 0)
        assert {name for each in found.hopeless for name in each.names} == {
            node.name for node in nodes if node.facts not in able
        }
        if least > 1:
            assert not planned(nodes, at_most=least - 1).environments
            proof = found.proofs[0].hosts
            assert not any(served((a.facts, b.facts)) for a, b in combinations(proof, 2)) or len(proof) > least
            pairs += 1
    assert pairs > count / 15


@pytest.mark.parametrize("count", quick_and_slow(3, 40))
def test_the_order_of_hosts_changes_nothing_and_a_further_one_never_lowers_the_number(count: int) -> None:
    chance = random.Random(4)
    for _ in range(count):
        nodes = fleet(chance, 12)
        found = planned(nodes)
        mixed = chance.sample(nodes, len(nodes))
        assert shown(planned(mixed)) == shown(found)
        fewer = planned(nodes[:-1])
        assert len(fewer.environments) <= len(found.environments)
        assert [proof.count for proof in fewer.proofs[:1]] <= [proof.count for proof in found.proofs[:1]]


def test_a_duplicate_changes_weights_alone_and_no_rule_is_asked_again() -> None:
    nodes = fleet(random.Random(5), 20)
    many = [node._replace(name=f"{node.name}-{copy}") for node in nodes for copy in range(30)]
    one, all_of_them = plan(nodes, ASKED, tables()), plan(many, ASKED, tables())
    assert all_of_them.judged == one.judged
    assert [str(item.candidate) for item in all_of_them.environments] == [
        str(item.candidate) for item in one.environments
    ]
    assert [proof.hosts[0].says for proof in one.proofs] == [proof.hosts[0].says for proof in all_of_them.proofs]
    assert sum(len(item.names) for item in all_of_them.environments) == 30 * sum(
        len(item.names) for item in one.environments
    )


@pytest.mark.parametrize("count", quick_and_slow(1, 12))
def test_every_host_is_served_by_its_environment_and_none_has_two(count: int) -> None:
    chance = random.Random(6)
    for _ in range(count):
        nodes = fleet(chance, 14)
        found = planned(nodes)
        by_name = {node.name: node.facts for node in nodes}
        places = [name for each in found.environments for name in each.names]
        nowhere = [name for each in found.hopeless for name in each.names]
        assert sorted([*places, *nowhere]) == sorted(by_name)
        for each in found.environments:
            answer = each.decision(ASKED, tables())
            assert answer.chosen is not None
            assert str(answer.chosen.candidate) == str(each.candidate)
            for name in each.names:
                case = Context(facts=alone(by_name[name]), request=ASKED, knowledge=tables())
                own = decide(case)
                mine = next(item for item in own.fitting if str(item.candidate) == str(each.candidate))
                assert own.chosen is not None
                ranking = Ranking(case)
                assert ranking.key(mine)[: len(SUPPORT_CRITERIA)] == ranking.key(own.chosen)[: len(SUPPORT_CRITERIA)]


def test_the_prices_fall_and_name_who_gets_less() -> None:
    nodes = [
        FleetNode(f"n{at}", host(gpu, driver)) for at, (gpu, driver) in enumerate(zip(GPUS, DRIVERS * 2, strict=False))
    ]
    found = planned(nodes)
    assert [price.number for price in found.prices] == list(range(1, len(found.prices) + 1))
    able = [price for price in found.prices if price.possible]
    counts = [sum(less.of.weight for less in price.less) for price in able]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    for price in able:
        assert len(price.environments) == price.number
        for less in price.less:
            case = Context(facts=less.of.kinds[0].facts, request=ASKED, knowledge=tables())
            decision = decide(case)
            assert decision.chosen is not None
            assert str(decision.chosen.candidate) == str(less.best)
            assert str(less.gets) in [str(item.candidate) for item in decision.fitting]


def test_the_example_of_the_task_page() -> None:
    nodes = [FleetNode(f"a{at}", host("A100", "470.129.06", "2.17")) for at in range(3)]
    nodes += [FleetNode(f"b{at}", host("B200", "580.65.06", "2.39")) for at in range(2)]
    found = planned(nodes)
    assert [len(item.names) for item in found.environments] == [3, 2]
    assert found.proofs[0].count == 2
    assert planned(nodes, at_most=1).environments == ()
    assert planned([]).environments == ()
    hopeless = planned([FleetNode("x", host("B200", "450.80.02"))])
    assert hopeless.environments == ()
    assert hopeless.hopeless[0].names == ("x",)


def test_hosts_of_both_platforms_get_environments_of_their_own() -> None:
    nodes = [
        FleetNode("x", host("H100", "550.54.15")),
        FleetNode("g", host("GH200", "550.54.15", platform="linux-aarch64")),
    ]
    found = planned(nodes)
    assert {item.candidate.build.platform for item in found.environments} == {"linux-64", "linux-aarch64"}
    assert len({item.name for item in found.environments}) == 2


def test_ten_thousand_hosts_cost_what_their_kinds_cost() -> None:
    chance = random.Random(7)
    nodes = [
        FleetNode(f"n{at:05d}", host(chance.choice(GPUS[:4]), chance.choice(DRIVERS[-3:]), chance.choice(LIBCS[-2:])))
        for at in range(10_000)
    ]
    found = plan(nodes, ASKED, tables())
    assert len(found.kinds) <= 24
    assert found.judged <= 2 * len(found.kinds) + 20


class Picky(Pool):
    """As if each two of some capabilities needed releases of a library that exclude each other, for most candidates.

    The tables of today have no such pair, for which a candidate fits two hosts and not both together.
    """

    def standing(self, facts: HostFacts) -> PoolRanking:
        found = super().standing(facts)
        held = {str(capability) for capability in facts.capabilities} & {"7.0", "8.9", "9.0", "12.0"}
        bits = sum(1 << at for at, item in enumerate(self.of) if item.cuda and item.cuda.major < 12)
        if not facts.members or len(held) < 2:
            return found
        return found._replace(levels=tuple(left for level in found.levels if (left := level & bits)))


@pytest.mark.parametrize("count", quick_and_slow(8, 150))
def test_hosts_that_a_candidate_serves_alone_and_not_together_are_parted(count: int) -> None:
    chance, parted = random.Random(1), 0
    picky = Picky(candidates(tables(), "linux-64"), ASKED, tables())
    known: dict[tuple[int, ...], bool] = {}

    def together(group: list[HostFacts]) -> bool:
        key = tuple(sorted(map(id, group)))
        if key not in known:
            known[key] = bool(picky.standing(pool(map(alone, group))).fits)
        return known[key]

    for _ in range(count):
        nodes = fleet(chance, 5)
        able = list({id(node.facts): node.facts for node in nodes if together([node.facts])}.values())
        least = min(len(groups) for groups in divisions(able) if all(map(together, groups)))
        found = plan(nodes, ASKED, tables(), at_most=least, pools={"linux-64": picky})
        assert len(found.environments) == least
        for each in found.environments:
            facts = pool(kind.facts for kind in each.kinds)
            assert picky.standing(facts).fits >> picky.of.index(each.candidate) & 1
        if least > len(planned(nodes, at_most=least).environments):
            parted += 1
    assert parted > count // 100


def test_with_a_limit_the_plan_costs_least_of_so_many_and_has_no_more_than_it_needs() -> None:
    nodes = [FleetNode("a", host("A100", "535.129.03")), FleetNode("b", host("B200", "580.65.06", "2.39"))]
    one, two, five = (planned(nodes, at_most=count) for count in (1, 2, 5))
    assert [len(found.environments) for found in (one, two, five)] == [1, 2, 2]
    assert len(planned(nodes).environments) == 1
    assert [sum(less.of.weight for less in price.less) for price in one.prices] == [1, 0]
