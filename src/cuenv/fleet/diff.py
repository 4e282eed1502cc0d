"""What changes in the plan when drivers are upgraded, or hosts are added or removed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cuenv.core.record import NamedTuple, dataclass
from cuenv.fleet.nodes import FleetNode, fold, host_summary
from cuenv.fleet.plan import FleetPlan, candidate_name, plan
from cuenv.host.facts import HostFacts, Libc
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.batch import Pool

if TYPE_CHECKING:  # types alone
    from cuenv.fleet.documents import FleetDiffDocument

_NOTHING = "nothing"
_UNKNOWN = "unknown"


class Move(NamedTuple):
    """Hosts that a change gives another environment."""

    names: tuple[str, ...]
    # before, after: the environment; ``None`` for a host that is not there, ``nothing`` where nothing serves it, and
    # ``unknown`` where a fact of it is missing
    before: str | None
    after: str | None
    why: str


@dataclass(frozen=True, kw_only=True)
class FleetDiff:
    """Two plans for the same request, and their differences."""

    old: FleetPlan
    new: FleetPlan
    moves: tuple[Move, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def lost(self) -> tuple[str, ...]:
        """Hosts that had an environment before the change and have none after it."""
        gone = (_NOTHING, _UNKNOWN)
        lost = [move.names for move in self.moves if move.before not in (None, *gone) and move.after in gone]
        return tuple(name for names in lost for name in names)


def diff_fleets(
    old: Iterable[FleetNode],
    new: Iterable[FleetNode],
    request: Request,
    knowledge: Knowledge,
    *,
    at_most: int | None = None,
    glibc: Libc | None = None,
) -> FleetDiff:
    """Plan two states of a fleet, and compare the environments of the hosts.

    Args:
        glibc: assumed of hosts whose glibc is not known.
    """
    pools: dict[str, Pool] = {}
    before, after = tuple(old), tuple(new)
    one, other = (
        plan(nodes, request, knowledge, at_most=at_most, glibc=glibc, pools=pools) for nodes in (before, after)
    )
    was, now = {node.name: node.facts for node in before}, {node.name: node.facts for node in after}
    had, has = _environment_of_nodes(one), _environment_of_nodes(other)
    found: dict[tuple[str | None, str | None, str], list[str]] = {}
    for name in sorted({*was, *now}):
        if had.get(name) != has.get(name):
            why = _host_change(was.get(name), now.get(name))
            found.setdefault((had.get(name), has.get(name), why), []).append(name)
    moves = tuple(Move(tuple(names), *key) for key, names in found.items())
    return FleetDiff(
        old=one,
        new=other,
        moves=moves,
        added=tuple(sorted(now.keys() - was.keys())),
        removed=tuple(sorted(was.keys() - now.keys())),
    )


def _environment_of_nodes(found: FleetPlan) -> dict[str, str]:
    gets = {name: candidate_name(item.candidate) for item in found.environments for name in item.names}
    nowhere = {name: _NOTHING for kind in found.kinds for name in kind.names if name not in gets}
    return {**gets, **nowhere, **{name: _UNKNOWN for item in found.unknown for name in item.names}}


def _host_change(was: HostFacts | None, now: HostFacts | None) -> str:
    """What changed in a host."""
    if was is None or now is None:
        return "new" if was is None else "gone"
    old, new = host_summary(was), host_summary(now)
    return f"{old} became {new}" if old != new else "other hosts changed"


def diff_plain(found: FleetDiff, broken: Iterable[str]) -> FleetDiffDocument:
    """The result as JSON."""
    return {
        "schema": "cuenv/fleet-diff/1",
        "before": len(found.old.environments),
        "after": len(found.new.environments),
        "moves": [
            {
                "nodes": fold(move.names),
                "hosts": len(move.names),
                "before": move.before,
                "after": move.after,
                "why": move.why,
            }
            for move in found.moves
        ],
        "added": fold(found.added),
        "removed": fold(found.removed),
        "broken": list(broken),
    }
