"""The choice alone, for many hosts: what `decide` would choose for each, without a verdict on every candidate.

Hosts are folded by what the rules see of them: of two that no rule can tell apart one is judged. What remains is
arithmetic on sets of candidates, one bit for each, so that ten thousand hosts take seconds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import reduce
from operator import and_, or_
from typing import Any

from cuenv.core.record import NamedTuple
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.candidates import Candidate, candidates
from cuenv.resolver.effective_driver import with_effective_driver
from cuenv.resolver.engine import Arguments, RuleFunction, Unit, host_arguments, key_of, units
from cuenv.resolver.ranking import SUPPORT_CRITERIA, Criterion, preference, unknown_count
from cuenv.resolver.rules import RULES, Rule


def choices(
    hosts: Iterable[HostFacts], request: Request, knowledge: Knowledge, among: Iterable[Candidate] | None = None
) -> tuple[Candidate | None, ...]:
    """What each host would get, in the order of the hosts; ``None`` where nothing fits.

    Args:
        among: the candidates to choose from; all of the platform of each host when absent.
    """
    given = None if among is None else tuple(among)
    pools: dict[str, Pool] = {}
    found = []
    for facts in hosts:
        pool = pools.get(facts.platform)
        if pool is None:
            of = candidates(knowledge, facts.platform, request.python) if given is None else given
            pool = pools[facts.platform] = Pool(of, request, knowledge)
        found.append(pool.choice(facts))
    return tuple(found)


class _Grouped(NamedTuple):
    """A rule with the candidates in groups that get one verdict each."""

    rule: Rule
    # how many things it leaves open of a candidate, whatever the host; no candidate that it rejects
    left: dict[int, int]
    groups: list[tuple[dict[str, Any], int]]  # what it reads of the candidates of a group, and their bits
    known: dict[Hashable, dict[int, int]]


class PoolRanking(NamedTuple):
    """How candidates stand for a host, each a bit."""

    levels: tuple[int, ...]  # those that fit, in the order of the preference; equals together
    served: int  # those that serve its GPUs as well as the best does: what else they are counts for nothing
    by_rule: tuple[int, ...]  # for each rule, in their order, those that it does not reject

    @property
    def fits(self) -> int:
        """Those that no rule rejects."""
        return reduce(or_, self.levels, 0)


class Pool:
    """Candidates as the bits of a number, for one request."""

    def __init__(self, of: tuple[Candidate, ...], request: Request, knowledge: Knowledge) -> None:
        self.of = of
        self._knowledge = knowledge
        self._asker = Arguments(request, knowledge)
        self._parted: dict[frozenset[str], list[tuple[Candidate, int]]] = {}
        self._rules = [self._asked(rule) for rule in RULES]
        self._criteria = [
            (item, item.key and self._grouped(item.key), dict[Hashable, list[int]]())
            for item in preference(request.prefer)
        ]
        self._known: dict[Hashable, Candidate | None] = {}
        self._standings: dict[Hashable, PoolRanking] = {}
        self.judged = 0  # kinds of hosts for which the rules were asked

    def choice(self, facts: HostFacts) -> Candidate | None:
        """The best candidate of a host."""
        asked, ranked, same = self._seen(facts)
        if same not in self._known:
            self.judged += 1
            self._known[same] = self._choose(asked, ranked)
        return self._known[same]

    def standing(self, facts: HostFacts) -> PoolRanking:
        """How every candidate stands for a host."""
        asked, ranked, same = self._seen(facts)
        if same not in self._standings:
            self.judged += 1
            self._standings[same] = self._all(asked, ranked)
        return self._standings[same]

    def _seen(self, facts: HostFacts) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]], Hashable]:
        """What the rules and the criteria see of a host, and that as a key."""
        facts = with_effective_driver(facts, self._knowledge)
        asked = [[host_arguments(one.rule.judge, unit) for unit in units(facts, one.rule.per)] for one in self._rules]
        ranked = [host_arguments(one.key, Unit(facts)) if one.key else {} for one, _, _ in self._criteria]
        return asked, ranked, tuple([tuple([tuple(of_host.values()) for of_host in each]) for each in (*asked, ranked)])

    def _all(self, asked: list[list[dict[str, Any]]], ranked: list[dict[str, Any]]) -> PoolRanking:
        """How every candidate stands, by what the rules and the criteria see of a host."""
        open_by = {one.rule.name: self._judged(one, each) for one, each in zip(self._rules, asked, strict=True)}
        by_rule = tuple([reduce(or_, found.values(), 0) for found in open_by.values()])
        left = reduce(and_, by_rule)
        if not left:
            return PoolRanking((), 0, by_rule)
        orders = {
            item: self._levels(item, groups, of_host, known, open_by)
            for (item, groups, known), of_host in zip(self._criteria, ranked, strict=True)
        }
        same = left, *[tuple([both for bits in order if (both := bits & left)]) for order in orders.values()]
        if same not in self._standings:
            levels, services = [left], [left]
            for item, order in orders.items():
                levels = _divided(levels, order)
                services = _divided(services, order) if item in SUPPORT_CRITERIA else services
            through = next(number for number, bits in enumerate(services, 1) if bits & levels[0])
            self._standings[same] = PoolRanking(tuple(levels), reduce(or_, services[:through]), ())
        return self._standings[same]._replace(by_rule=by_rule)

    @staticmethod
    def _levels(
        criterion: Criterion,
        groups: list[tuple[dict[str, Any], int]] | None,
        of_host: dict[str, Any],
        known: dict[Hashable, list[int]],
        open_by: dict[str, dict[int, int]],
    ) -> list[int]:
        """The candidates by how they stand on a criterion, the best first."""
        if criterion.key is None:
            found = open_by[criterion.reads]
            return [found[number] for number in sorted(found)]
        same = tuple(of_host.values())
        if same not in known:
            levels = _by_number((criterion.key(**given, **of_host), bits) for given, bits in groups or ())
            known[same] = [levels[level] for level in sorted(levels)]
        return known[same]

    def _choose(self, asked: list[list[dict[str, Any]]], ranked: list[dict[str, Any]]) -> Candidate | None:
        """The best candidate by what the rules, and the criteria, see of a host."""
        left = (1 << len(self.of)) - 1
        open_by: dict[str, dict[int, int]] = {}
        for one, of_units in zip(self._rules, asked, strict=True):
            open_by[one.rule.name] = found = self._judged(one, of_units)
            left &= reduce(or_, found.values(), 0)
            if not left:
                return None
        for (criterion, groups, known), of_host in zip(self._criteria, ranked, strict=True):
            levels = self._levels(criterion, groups, of_host, known, open_by)
            left = next(best for level in levels if (best := left & level))
        return self.of[(left & -left).bit_length() - 1]

    def _judged(self, asked: _Grouped, of_units: list[dict[str, Any]]) -> dict[int, int]:
        """The candidates that a rule does not reject, by how many things it leaves open."""
        found: dict[int, int] | None = None
        for of_host in of_units:
            same = tuple(of_host.values())
            if same not in asked.known:
                asked.known[same] = _by_number(
                    (unknown_count(verdict), bits)
                    for given, bits in asked.groups
                    if (verdict := asked.rule.judge(**given, **of_host)).outcome != "reject"
                )
            one = asked.known[same]
            found = one if found is None else _summed(found, one)
        rest = {0: reduce(or_, (bits for _, bits in asked.groups), 0)} if found is None else found
        return _by_number((*asked.left.items(), *rest.items()))

    def _asked(self, rule: Rule) -> _Grouped:
        """A rule with what it says whatever the host, and with the groups for which it depends on the host."""
        if rule.unless is None:
            return _Grouped(rule, {}, self._grouped(rule.judge), {})
        before: list[tuple[int, int]] = []
        rest = 0
        for given, bits in self._grouped(rule.unless):
            verdict = rule.unless(**given)
            if verdict is None:
                rest |= bits
            elif verdict.outcome != "reject":
                before.append((unknown_count(verdict), bits))
        return _Grouped(rule, _by_number(before), self._grouped(rule.judge, rest), {})

    def _grouped(self, function: RuleFunction, among: int = -1) -> list[tuple[dict[str, Any], int]]:
        """Candidates of which a function reads the same: what it reads of the first, and the bits of all of a group."""
        if not among:
            return []
        names = self._asker.of_candidate(function)
        groups = self._parted.get(names)
        if groups is None:
            groups = self._parted[names] = self._groups(function)
        return [(self._asker.values(function, first), both) for first, bits in groups if (both := bits & among)]

    def _groups(self, function: RuleFunction) -> list[tuple[Candidate, int]]:
        """The first candidate, and the bits, of each group."""
        quick: dict[Hashable, list[int]] = {}
        by_value: dict[Hashable, list[int]] = {}
        key, value = key_of((function,)), self._asker.same((function,))
        for index, item in enumerate(self.of):
            same = key(item)
            group = quick.get(same)
            if group is None:
                group = quick[same] = by_value.setdefault(value(item), [])
            group.append(index)
        return [(self.of[group[0]], _bits(group, len(self.of))) for group in by_value.values()]


def _divided(levels: list[int], order: list[int]) -> list[int]:
    """Levels of candidates, each divided by a further order."""
    return [both for level in levels for bits in order if (both := level & bits)]


def _by_number(pairs: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    """Bits by number: those of one number together."""
    found: dict[Any, int] = {}
    for number, bits in pairs:
        found[number] = found.get(number, 0) | bits
    return found


def _summed(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    """What is left of two machines or GPUs together: the candidates that both have, and the sum of what is open."""
    return _by_number((a + b, both) for a, x in one.items() for b, y in other.items() if (both := x & y))


def _bits(indexes: list[int], size: int) -> int:
    """A number with these bits."""
    if len(indexes) == 1:
        return 1 << indexes[0]
    bits = bytearray(size // 8 + 1)
    for index in indexes:
        bits[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(bits, "little")
