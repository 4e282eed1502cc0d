"""Verify a plan without the planner: every host by the decision for it, and every proof by trying all divisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuenv.core.record import NamedTuple
from cuenv.fleet.nodes import said
from cuenv.fleet.plan_json import Claimed, identity
from cuenv.fleet.reasons import serving
from cuenv.host.facts import HostFacts
from cuenv.host.request import pool
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.candidates import environment_key
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.rules import Context

_MOST = 9
"""Hosts of a proof that are divided in every way; nine hosts have 21147 divisions."""


class Statement(NamedTuple):
    """What a plan says, and why it does not hold; empty where it does."""

    says: str
    because: str


def verify(plan: Claimed, knowledge: Knowledge) -> tuple[Statement, ...]:
    """Every statement of a plan, judged anew by the tables here."""
    return tuple(_Verifier(plan, knowledge).statements())


class _Verifier:
    """Judges hosts by the rules, each set of hosts once."""

    def __init__(self, plan: Claimed, knowledge: Knowledge) -> None:
        self._plan = plan
        self._knowledge = knowledge
        self._alone: dict[HostFacts, Decision] = {}

    def statements(self) -> Iterator[Statement]:
        """Each statement of the plan."""
        plan = self._plan
        edition = "" if plan.edition == self._knowledge.edition else f"the tables here are of {self._knowledge.edition}"
        yield Statement(f"the plan was made by the tables of {plan.edition}", edition)
        lost = "" if plan.counted == plan.hosts else f"its kinds and unknown hosts are {plan.counted}"
        yield Statement(f"the plan speaks of {plan.hosts} hosts", lost)
        for name, keys, hosts in plan.environments:
            kinds = f"its {len(hosts)} kinds" if len(hosts) > 1 else "its one kind"
            yield Statement(f"{name} serves all hosts of {kinds}", self._served(keys, hosts))
        if plan.environments:
            for facts in plan.nowhere:
                found = self._decision(facts).chosen
                yield Statement(f"nothing serves {facts.label}", f"{found.candidate} does" if found else "")
        for count, well, hosts in plan.proofs:
            what = " as well as its best" if well else ""
            shown = "; ".join(said(facts) for facts in hosts)
            says = f"fewer than {count} environments cannot serve each of these{what}: {shown}"
            yield Statement(says, self._divided(count, hosts, well=well))
        if plan.environments and plan.limit is None:
            needed = max((count for count, _, _ in plan.proofs), default=0)
            more = "" if len(plan.environments) == needed else f"the proof is about {needed}"
            yield Statement(f"{len(plan.environments)} are the fewest", more)

    def _decision(self, facts: HostFacts) -> Decision:
        if facts not in self._alone:
            case = Context(facts=facts, request=self._plan.request, knowledge=self._knowledge)
            self._alone[facts] = decide(case)
        return self._alone[facts]

    def _served(self, keys: tuple[str | None, ...], hosts: Sequence[HostFacts]) -> str:
        """Why an environment does not serve hosts as one pool; empty where it does."""
        if len({facts.platform for facts in hosts}) != 1:
            return "it serves none" if not hosts else "they have several platforms"
        case = Context(facts=pool(hosts), request=self._plan.request, knowledge=self._knowledge)
        found = decide(case)
        mine = [item for item in found.assessments if identity(item.candidate) == keys]
        if not mine:
            return "the tables here have no such build"
        return "" if mine[0].fits else mine[0].objections[0].because

    def _divided(self, count: int, hosts: Sequence[HostFacts], *, well: bool) -> str:
        """A division of hosts into fewer groups, each of which one environment serves; empty where there is none."""
        if not count <= len(hosts) <= _MOST:
            return f"{len(hosts)} hosts prove nothing of {count} environments"
        known: dict[tuple[int, ...], bool] = {}

        def together(group: tuple[int, ...]) -> bool:
            if group not in known:
                known[group] = self._shared([hosts[at] for at in group], well=well)
            return known[group]

        if not all(together((at,)) for at in range(len(hosts))):
            return "nothing serves one of them"
        fewer = (groups for groups in _divisions(len(hosts), count - 1) if all(map(together, groups)))
        found = next(fewer, None)
        return "" if found is None else f"{len(found)} environments do"

    def _shared(self, hosts: Sequence[HostFacts], *, well: bool) -> bool:
        """Whether one environment serves hosts together, if asked as well as the best of each."""
        if len({facts.platform for facts in hosts}) > 1:
            return False
        case = Context(facts=pool(hosts), request=self._plan.request, knowledge=self._knowledge)
        able = {environment_key(item.candidate) for item in decide(case).fitting}
        for facts in hosts if well else ():
            able &= {environment_key(item.candidate) for item in serving(self._decision(facts))}
        return bool(able)


def _divisions(size: int, most: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way to divide some items into a number of groups at most."""
    if size == 0:
        yield ()
        return
    for groups in _divisions(size - 1, most):
        for number, group in enumerate(groups):
            yield (*groups[:number], (*group, size - 1), *groups[number + 1 :])
        if len(groups) < most:
            yield (*groups, (size - 1,))
