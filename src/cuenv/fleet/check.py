"""Which hosts of a fleet each lock serves, and whether a plan holds that is judged without the planner.

A lock is checked for each kind of hosts; of a plan every host is decided anew, and every proof tries all divisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cuenv.core.findings import Finding
from cuenv.core.record import NamedTuple, dataclass, replace
from cuenv.fleet.nodes import FleetNode, Unknown, fold, host_summary, missing_facts, nodes_without_facts
from cuenv.fleet.plan_json import PlanClaims, identity, unknown_plain
from cuenv.fleet.reasons import serving
from cuenv.host.facts import HostFacts, Resources
from cuenv.host.request import pool
from cuenv.host.select import HostOptions
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.check import CheckedLock
from cuenv.lockfile.formats import LockPart
from cuenv.resolver.candidates import environment_key
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.rules import Context

if TYPE_CHECKING:
    from cuenv.fleet.documents import FleetCheckDocument


class Refusal(NamedTuple):
    """Hosts that cannot use a lock, for one reason."""

    names: tuple[str, ...]
    finding: Finding


class LockOfFleet(NamedTuple):
    """A lock, and the hosts that can use it."""

    path: str
    names: tuple[str, ...]
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, kw_only=True)
class FleetChecked:
    """The hosts that can use each lock."""

    hosts: int
    locks: tuple[LockOfFleet, ...]
    unserved: tuple[str, ...]  # hosts that no lock supports
    unknown: tuple[Unknown, ...]  # hosts of which facts are missing; they are not judged
    bare: tuple[str, ...]  # hosts without a GPU; they are not judged either


def check_fleet(
    paths: Sequence[Path], nodes: Iterable[FleetNode], knowledge: Knowledge, part: LockPart | None = None
) -> FleetChecked:
    """Check locks for every host of a fleet; hosts that look the same to a check are judged once.

    A lock of which nobody can say whether it serves a host does not serve it.

    Args:
        part: which part of the locks is meant that hold several.

    Raises:
        InputError: a lock cannot be read.
        UsageError: it has no such part.
    """
    everyone = sorted(nodes, key=lambda node: node.name)
    kinds: dict[tuple[HostFacts, bool], tuple[FleetNode, list[str]]] = {}
    for node in everyone:
        if node.facts.gpus and not missing_facts(node.facts):
            kinds.setdefault(_check_view(node.facts), (node, []))[1].append(node.name)
    locks = []
    for path in paths:
        one = CheckedLock(path, knowledge, part)
        served: list[str] = []
        refused: dict[tuple[str, str], tuple[Finding, list[str]]] = {}
        for node, names in kinds.values():
            options = HostOptions(hosts=(node.name,), environ={})
            told = one.check(replace(node.facts, label=node.name), options).report
            if told.verdict(strict=False) == "fine":
                served += names
                continue
            lead = (told.errors or tuple(item for item in told.findings if item.unknown))[0]
            key = lead.code, lead.message.replace(node.name, "")
            refused.setdefault(key, (lead, []))[1].extend(names)
        refusals = tuple(Refusal(tuple(sorted(names)), lead) for lead, names in refused.values())
        locks.append(LockOfFleet(str(path), tuple(sorted(served)), refusals))
    anywhere = {name for item in locks for name in item.names}
    judged = (name for _, names in kinds.values() for name in names)
    return FleetChecked(
        hosts=len(everyone),
        locks=tuple(locks),
        unserved=tuple(sorted(name for name in judged if name not in anywhere)),
        unknown=nodes_without_facts(everyone),
        bare=tuple(node.name for node in everyone if not node.facts.gpus and not missing_facts(node.facts)),
    )


def _check_view(facts: HostFacts) -> tuple[HostFacts, bool]:
    """The facts of a host that a check reads, without names, amounts and evidence."""
    gpus = tuple(dict.fromkeys(replace(gpu, index=0) for gpu in facts.gpus))
    told = replace(facts, label="", name="", asked_as="", gpus=gpus, kernel=None, resources=Resources(), evidence=())
    return told, len(facts.gpus) > 1


def check_plain(found: FleetChecked, broken: Iterable[str]) -> FleetCheckDocument:
    """The result as JSON."""
    return {
        "schema": "cuenv/fleet-check/1",
        "hosts": found.hosts,
        "locks": [
            {
                "lock": item.path,
                "nodes": fold(item.names),
                "hosts": len(item.names),
                "refused": [
                    {
                        "nodes": fold(refusal.names),
                        "hosts": len(refusal.names),
                        "code": refusal.finding.code,
                        "because": refusal.finding.message,
                    }
                    for refusal in item.refusals
                ],
            }
            for item in found.locks
        ],
        "unserved": fold(found.unserved),
        "unserved_hosts": len(found.unserved),
        "without_gpu": fold(found.bare),
        "unknown": unknown_plain(found.unknown),
        "broken": list(broken),
    }


_MOST = 9  # hosts of a proof that are divided in every way; nine hosts have 21147 divisions


class Statement(NamedTuple):
    """A statement of a plan, and why it does not hold; empty if it does."""

    says: str
    because: str


def verify(plan: PlanClaims, knowledge: Knowledge) -> tuple[Statement, ...]:
    """Judge every statement of a plan again by these tables."""
    return tuple(_Verifier(plan, knowledge).statements())


class _Verifier:
    """Judges hosts by the rules, each set of hosts once."""

    def __init__(self, plan: PlanClaims, knowledge: Knowledge) -> None:
        self._plan = plan
        self._knowledge = knowledge
        self._decided: dict[HostFacts, Decision] = {}

    def statements(self) -> Iterator[Statement]:
        """Each statement of the plan."""
        plan = self._plan
        edition = "" if plan.edition == self._knowledge.edition else f"the tables here are of {self._knowledge.edition}"
        yield Statement(f"the plan was made by the tables of {plan.edition}", edition)
        lost = "" if plan.counted == plan.hosts else f"its kinds and unknown hosts are {plan.counted}"
        yield Statement(f"the plan has {plan.hosts} hosts", lost)
        for name, keys, hosts in plan.environments:
            kinds = f"its {len(hosts)} kinds" if len(hosts) > 1 else "its one kind"
            yield Statement(f"{name} supports all hosts of {kinds}", self._served(keys, hosts))
        if plan.environments:
            for facts in plan.nowhere:
                found = self._decision(facts).chosen
                yield Statement(f"no environment supports {facts.label}", f"{found.candidate} does" if found else "")
        for count, well, hosts in plan.proofs:
            what = " as well as its best" if well else ""
            shown = "; ".join(host_summary(facts) for facts in hosts)
            says = f"fewer than {count} environments cannot support each of these{what}: {shown}"
            yield Statement(says, self._divided(count, hosts, well=well))
        if plan.environments and plan.limit is None:
            needed = max((count for count, _, _ in plan.proofs), default=0)
            more = "" if len(plan.environments) == needed else f"the proof is about {needed}"
            yield Statement(f"{len(plan.environments)} are the fewest", more)

    def _decision(self, facts: HostFacts) -> Decision:
        if facts not in self._decided:
            context = Context(facts=facts, request=self._plan.request, knowledge=self._knowledge)
            self._decided[facts] = decide(context)
        return self._decided[facts]

    def _served(self, keys: tuple[str | None, ...], hosts: Sequence[HostFacts]) -> str:
        """Why hosts cannot use an environment as one pool; empty if they can."""
        if len({facts.platform for facts in hosts}) != 1:
            return "it supports none" if not hosts else "they have several platforms"
        mine = [item for item in self._decision(pool(hosts)).assessments if identity(item.candidate) == keys]
        if not mine:
            return "the tables here do not list such a build"
        return "" if mine[0].fits else mine[0].objections[0].because

    def _divided(self, count: int, hosts: Sequence[HostFacts], *, well: bool) -> str:
        """A division of hosts into fewer groups, each of which can use one environment; empty if there is none."""
        if not count <= len(hosts) <= _MOST:
            return f"{len(hosts)} hosts prove nothing of {count} environments"
        known: dict[tuple[int, ...], bool] = {}

        def together(group: tuple[int, ...]) -> bool:
            if group not in known:
                known[group] = self._shared([hosts[at] for at in group], well=well)
            return known[group]

        if not all(together((at,)) for at in range(len(hosts))):
            return "no environment supports one of them"
        fewer = (groups for groups in _divisions(len(hosts), count - 1) if all(map(together, groups)))
        found = next(fewer, None)
        return "" if found is None else f"{len(found)} environments do"

    def _shared(self, hosts: Sequence[HostFacts], *, well: bool) -> bool:
        """Whether hosts can share one environment, if asked as well as the best of each."""
        if len({facts.platform for facts in hosts}) > 1:
            return False
        able = {environment_key(item.candidate) for item in self._decision(pool(hosts)).fitting}
        for facts in hosts if well else ():
            able &= {environment_key(item.candidate) for item in serving(self._decision(facts))}
        return bool(able)


def _divisions(size: int, most: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every division of items into at most a number of groups."""
    if size == 0:
        yield ()
        return
    for groups in _divisions(size - 1, most):
        for number, group in enumerate(groups):
            yield (*groups[:number], (*group, size - 1), *groups[number + 1 :])
        if len(groups) < most:
            yield (*groups, (size - 1,))
