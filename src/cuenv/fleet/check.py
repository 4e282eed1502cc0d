"""Which hosts of a fleet each lock serves, by the check of the lock for each kind of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cuenv.core.findings import Finding
from cuenv.core.record import NamedTuple, dataclass, replace
from cuenv.fleet.nodes import FleetNode, Unknown, fold, lacking, unknown
from cuenv.fleet.plan_json import unknown_plain
from cuenv.host.facts import HostFacts, Resources
from cuenv.host.select import HostOptions
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.check import CheckedLock
from cuenv.lockfile.formats import LockPart

if TYPE_CHECKING:  # types alone
    from cuenv.core.documents import FleetCheckDocument


class Refusal(NamedTuple):
    """Hosts that a lock does not serve for one reason."""

    names: tuple[str, ...]
    finding: Finding


class LockOfFleet(NamedTuple):
    """A lock, and the hosts that it serves."""

    path: str
    names: tuple[str, ...]
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, kw_only=True)
class FleetChecked:
    """Which hosts each lock serves.

    Attributes:
        hosts: how many there are.
        unserved: hosts that no lock serves.
        unknown: hosts of which facts are missing; they are not judged.
        bare: hosts without a GPU; they are not judged either.
    """

    hosts: int
    locks: tuple[LockOfFleet, ...]
    unserved: tuple[str, ...]
    unknown: tuple[Unknown, ...]
    bare: tuple[str, ...]


def check_fleet(
    paths: Sequence[Path], nodes: Iterable[FleetNode], knowledge: Knowledge, part: LockPart | None = None
) -> FleetChecked:
    """Check locks for every host of a fleet; hosts of which a check sees the same are judged once.

    A lock of which nobody can say whether it serves a host does not serve it.

    Args:
        paths: the locks.
        nodes: the hosts.
        part: which part of the locks is meant that hold several.

    Raises:
        InputError: a lock cannot be read.
        UsageError: it has no such part.
    """
    everyone = sorted(nodes, key=lambda node: node.name)
    kinds: dict[tuple[HostFacts, bool], tuple[FleetNode, list[str]]] = {}
    for node in everyone:
        if node.facts.gpus and not lacking(node.facts):
            kinds.setdefault(_seen(node.facts), (node, []))[1].append(node.name)
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
        unknown=unknown(everyone),
        bare=tuple(node.name for node in everyone if not node.facts.gpus and not lacking(node.facts)),
    )


def _seen(facts: HostFacts) -> tuple[HostFacts, bool]:
    """What a check sees of a host: all but its names, its amounts, and where the facts come from."""
    gpus = tuple(dict.fromkeys(replace(gpu, index=0) for gpu in facts.gpus))
    told = replace(facts, label="", name="", asked_as="", gpus=gpus, kernel=None, resources=Resources(), evidence=())
    return told, len(facts.gpus) > 1


def check_plain(found: FleetChecked, broken: Iterable[str]) -> FleetCheckDocument:
    """What was found as plain data."""
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
