"""What a change of a fleet changes: drivers that were upgraded, hosts that are new or gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cuenv.core.record import NamedTuple, dataclass
from cuenv.fleet.nodes import FleetNode, fold, said
from cuenv.fleet.plan import FleetPlan, plan, short
from cuenv.host.facts import HostFacts, Libc
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.batch import Pool

if TYPE_CHECKING:  # types alone
    from cuenv.fleet.documents import FleetDiffDocument

_NOTHING = "nothing"
_UNKNOWN = "unknown"


class Move(NamedTuple):
    """Hosts that a change gives something else.

    Attributes:
        before, after: the environment; ``None`` for a host that is not there, ``nothing`` where nothing serves it, and
            ``unknown`` where a fact of it is missing.
    """

    names: tuple[str, ...]
    before: str | None
    after: str | None
    why: str


@dataclass(frozen=True, kw_only=True)
class FleetDiff:
    """Two plans of one request, and what differs."""

    old: FleetPlan
    new: FleetPlan
    moves: tuple[Move, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def lost(self) -> tuple[str, ...]:
        """Hosts that something served and nothing serves any more."""
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
    """Plan two states of a fleet, and compare what each host gets.

    Args:
        glibc: assumed of hosts whose glibc is not known.
    """
    pools: dict[str, Pool] = {}
    before, after = tuple(old), tuple(new)
    one, other = (
        plan(nodes, request, knowledge, at_most=at_most, glibc=glibc, pools=pools) for nodes in (before, after)
    )
    was, now = {node.name: node.facts for node in before}, {node.name: node.facts for node in after}
    had, has = _gets(one), _gets(other)
    found: dict[tuple[str | None, str | None, str], list[str]] = {}
    for name in sorted({*was, *now}):
        if had.get(name) != has.get(name):
            why = _why(was.get(name), now.get(name))
            found.setdefault((had.get(name), has.get(name), why), []).append(name)
    moves = tuple(Move(tuple(names), *key) for key, names in found.items())
    return FleetDiff(
        old=one,
        new=other,
        moves=moves,
        added=tuple(sorted(now.keys() - was.keys())),
        removed=tuple(sorted(was.keys() - now.keys())),
    )


def _gets(found: FleetPlan) -> dict[str, str]:
    """What each host gets of a plan."""
    gets = {name: short(item.candidate) for item in found.environments for name in item.names}
    nowhere = {name: _NOTHING for kind in found.kinds for name in kind.names if name not in gets}
    return {**gets, **nowhere, **{name: _UNKNOWN for item in found.unknown for name in item.names}}


def _why(was: HostFacts | None, now: HostFacts | None) -> str:
    """What changed of a host."""
    if was is None or now is None:
        return "new" if was is None else "gone"
    old, new = said(was), said(now)
    return f"{old} became {new}" if old != new else "other hosts changed"


def diff_plain(found: FleetDiff, broken: Iterable[str]) -> FleetDiffDocument:
    """What was found as plain data."""
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
