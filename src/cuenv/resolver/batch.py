"""The choice alone, for many hosts: what `decide` would choose for each, without a verdict on every candidate.

Hosts are folded by what the rules see of them: of two that no rule can tell apart one is judged. What remains is
arithmetic on sets of candidates, one bit for each, so that ten thousand hosts take seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.candidates import Candidate, candidates
from cuenv.resolver.effective_driver import effective
from cuenv.resolver.ranking import Assessment, Criterion, preference
from cuenv.resolver.rules import RULES, Context, Rule

_BY_NAME = {rule.name: rule for rule in RULES}
_VIEWS = tuple(dict.fromkeys([rule.sees for rule in RULES] + [item.sees for item in preference("native")]))


def choices(
    hosts: Iterable[HostFacts], wish: Request, knowledge: Knowledge, among: Iterable[Candidate] | None = None
) -> tuple[Candidate | None, ...]:
    """What each host would get, in the order of the hosts; ``None`` where nothing fits.

    Args:
        hosts: machines, or pools of them.
        wish: what is wanted on all of them.
        knowledge: the tables.
        among: the candidates to choose from; all of the platform of each host when absent.
    """
    given = None if among is None else tuple(among)
    pools: dict[str, _Pool] = {}
    found = []
    for facts in hosts:
        pool = pools.get(facts.platform)
        if pool is None:
            of = candidates(knowledge, facts.platform, wish.python) if given is None else given
            pool = pools[facts.platform] = _Pool(of, wish, knowledge)
        found.append(pool.choice(facts))
    return tuple(found)


class _Pool:
    """Candidates as the bits of a number, for one wish."""

    def __init__(self, of: tuple[Candidate, ...], wish: Request, knowledge: Knowledge) -> None:
        self._of = of
        self._wish = wish
        self._knowledge = knowledge
        self._criteria = preference(wish.prefer)
        self._groups = {rule.name: _groups(of, rule.weighs or rule.key) for rule in RULES}
        self._groups |= {item.name: _groups(of, item.of or id) for item in self._criteria}
        self._fits: dict[tuple[str, Hashable], int] = {}
        self._levels: dict[tuple[str, Hashable], list[int]] = {}
        self._known: dict[tuple[Hashable, ...], Candidate | None] = {}

    def choice(self, facts: HostFacts) -> Candidate | None:
        """The best candidate of a host."""
        facts = effective(facts, self._knowledge)
        same = tuple([view(facts) for view in _VIEWS])
        if same not in self._known:
            self._known[same] = self._choose(facts)
        return self._known[same]

    def _choose(self, facts: HostFacts) -> Candidate | None:
        parts = tuple(_parts(facts))
        left = (1 << len(self._of)) - 1
        for rule in RULES:
            for part in parts if rule.apart else (facts,):
                left &= self._fitting(rule, part)
            if not left:
                return None
        for criterion in self._criteria:
            left = next(best for level in self._ordered(criterion, facts) if (best := left & level))
        return self._of[(left & -left).bit_length() - 1]

    def _fitting(self, rule: Rule, facts: HostFacts) -> int:
        """The candidates that a rule does not reject."""
        known = (rule.name, rule.sees(facts))
        if known not in self._fits:
            case = self._case(facts)
            groups = self._groups[rule.name]
            self._fits[known] = sum(bits for item, bits in groups if rule.judge(item, case).outcome != "reject")
        return self._fits[known]

    def _ordered(self, criterion: Criterion, facts: HostFacts) -> list[int]:
        """The candidates by how they stand on a criterion, the best first."""
        known = (criterion.name, criterion.sees(facts))
        if known not in self._levels:
            case = self._case(facts)
            levels: dict[Any, int] = {}
            for item, bits in self._groups[criterion.name]:
                read = (_BY_NAME[criterion.reads].judge(item, case),) if criterion.reads else ()
                judged = Assessment(candidate=item, verdicts=read, objections=())
                key = criterion.key(judged, case)
                levels[key] = levels.get(key, 0) | bits
            self._levels[known] = [levels[key] for key in sorted(levels)]
        return self._levels[known]

    def _case(self, facts: HostFacts) -> Context:
        return Context(facts=facts, wish=self._wish, knowledge=self._knowledge)


def _parts(facts: HostFacts) -> Iterator[HostFacts]:
    """Each GPU alone, with the machine that it sits in; a machine without one as it is."""
    for machine in facts.machines:
        if len(machine.gpus) < 2:
            yield machine
            continue
        distinct = {gpu.capability: gpu for gpu in machine.gpus}
        yield from (replace(machine, gpus=(gpu,)) for gpu in distinct.values())


def _groups(of: tuple[Candidate, ...], key: Callable[[Candidate], Hashable]) -> list[tuple[Candidate, int]]:
    """One candidate of each group of which a rule says the same, and the bits of all of the group."""
    groups: dict[Hashable, list[int]] = {}
    for index, item in enumerate(of):
        groups.setdefault(key(item), []).append(index)
    return [(of[indexes[0]], _bits(indexes, len(of))) for indexes in groups.values()]


def _bits(indexes: list[int], size: int) -> int:
    """A number with these bits."""
    bits = bytearray(size // 8 + 1)
    for index in indexes:
        bits[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(bits, "little")
