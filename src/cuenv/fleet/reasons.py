"""Why hosts share no environment, what would help those that nothing serves, and which drivers would save one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from packaging.version import Version

from cuenv.core.record import NamedTuple, replace
from cuenv.core.versions import driver_key
from cuenv.fleet.nodes import NodeKind, fold
from cuenv.host.facts import Driver, HostFacts
from cuenv.host.request import Request, pool
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.batch import Pool
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.decision import Decision, Rejection, decide
from cuenv.resolver.ranking import SUPPORT_CRITERIA, Assessment, Ranking
from cuenv.resolver.resolve import decide_with_wheels
from cuenv.resolver.rules import Context, minimum_driver
from cuenv.resolver.verdict import and_list

_NOT_MEANT = ("cpu", "wish", "platform")  # rules that keep a candidate out whatever the host is


class Separation(NamedTuple):
    """Why two hosts share no environment."""

    says: str
    # for each of them what keeps it from most of what serves the other: the rule and its words
    rules: tuple[Rejection, ...]


def why_separate(one: NodeKind, other: NodeKind, request: Request, knowledge: Knowledge, *, well: bool) -> Separation:
    """Why two hosts share no environment, or none that supports both well.

    Args:
        well: environments that serve the GPUs of a host less well than its best count for nothing.
    """
    names = f"{one.says} and {other.says}"
    if one.facts.platform != other.facts.platform:
        platforms = f"the first is {one.facts.platform}, the second {other.facts.platform}"
        return Separation(f"{names} share no build: {platforms}", ())
    first, second = (decide(Context(facts=kind.facts, request=request, knowledge=knowledge)) for kind in (one, other))
    mine, theirs = (
        tuple(item.candidate for item in (serving(decision) if well else decision.fitting))
        for decision in (first, second)
    )
    rules = tuple(found for found in (_rules_against(first, theirs), _rules_against(second, mine)) if found is not None)
    bounds = _bounds([item.cuda for item in mine], [item.cuda for item in theirs], "CUDA")
    bounds = bounds or _bounds(
        [item.build.version for item in mine], [item.build.version for item in theirs], "PyTorch"
    )
    if bounds and rules:
        return Separation(f"{names} share no build: {bounds}", rules)
    if rules:
        return Separation(f"{names} share no build: {'; '.join(item.because for item in rules)}", rules)
    together = decide(Context(facts=pool((one.facts, other.facts)), request=request, knowledge=knowledge))
    lead = together.rejections[:1] if not together.chosen else ()
    because = lead[0].because if lead else "a build that supports both is not the best for the GPUs of one"
    return Separation(f"{names} share no build: {because}", lead)


def serving(decision: Decision) -> tuple[Assessment, ...]:
    """The candidates that support the GPUs of a host as well as its best candidate."""
    if decision.chosen is None:
        return ()
    ranking = Ranking(decision.context)
    counts = [number for number, item in enumerate(ranking.criteria) if item in SUPPORT_CRITERIA]

    def stands(item: Assessment) -> tuple[object, ...]:
        key = ranking.key(item)
        return tuple(key[number] for number in counts)

    best = stands(decision.chosen)
    return tuple(item for item in decision.fitting if stands(item) <= best)


def _rules_against(decision: Decision, theirs: Iterable[Candidate]) -> Rejection | None:
    """The rule that keeps a host from most candidates of another host."""
    found = decide(decision.context, among=theirs).rejections
    return found[0] if found else None


def _bounds(mine: Sequence[Version | None], theirs: Sequence[Version | None], what: str) -> str:
    """A sentence on two ranges that do not overlap; empty if they do."""
    have, want = [item for item in mine if item], [item for item in theirs if item]
    if not have or not want or len(have) < len(mine) or len(want) < len(theirs):
        return ""
    if max(have) < min(want):
        return f"builds for the first have {what} {max(have)} or earlier, builds for the second {min(want)} or later"
    if max(want) < min(have):
        return f"builds for the first have {what} {min(have)} or later, builds for the second {max(want)} or earlier"
    return ""


class Help(NamedTuple):
    """Why nothing supports a host, and what would help; empty if nothing is known to help."""

    rule: str
    because: str
    would_help: str


def nothing_serves(kind: NodeKind, request: Request, knowledge: Knowledge) -> Help:
    """Why no environment supports a host, and what would help."""
    decision = decide_with_wheels(Context(facts=kind.facts, request=request, knowledge=knowledge))
    if decision.conda:
        release = decision.chosen.candidate.build.version if decision.chosen else ""
        return Help("stack", decision.conda, f"torch {release} as a wheel: --stack wheels")
    meant = [item for item in decision.assessments if not any(each.rule in _NOT_MEANT for each in item.objections)]
    least = min(len(item.objections) for item in meant or decision.assessments)
    best = Ranking(decision.context).best(
        item for item in meant or decision.assessments if len(item.objections) == least
    )
    near = best.objections if best else ()
    helps = [miss.remedy.text for miss in decision.near_misses[:1]]
    if decision.without_request:
        helps.append(f"leaving out the requested versions: {decision.without_request.candidate} fits")
    return Help(near[0].rule, "; ".join(item.because for item in near), " or ".join(helps))


class Merge(NamedTuple):
    """Driver upgrades that would make an environment unnecessary."""

    drivers: tuple[tuple[str, tuple[NodeKind, ...]], ...]  # each driver with the hosts that would need it
    saves: str  # the name of the environment
    into: tuple[str, ...]  # the environments that its hosts would use


def merge(
    saved: tuple[str, Candidate, tuple[NodeKind, ...]],
    others: Sequence[tuple[str, Candidate, tuple[NodeKind, ...]]],
    pools: Mapping[str, Pool],
    request: Request,
    knowledge: Knowledge,
) -> Merge | None:
    """The minimum drivers with which other environments support all hosts of one as well; ``None`` without any."""
    drivers: dict[str, list[NodeKind]] = {}
    joined: dict[int, list[HostFacts]] = {}
    for kind in saved[2]:
        options = [
            (driver_key(driver) if driver else (), at, driver, facts)
            for at, (_, candidate, _) in enumerate(others)
            for driver, facts in _with_driver(kind.facts, candidate, pools, request, knowledge)
        ]
        if not options:
            return None
        _, at, driver, facts = min(options, key=lambda item: item[:2])
        joined.setdefault(at, []).append(facts)
        if driver:
            drivers.setdefault(driver, []).append(kind)
    for at, hosts in joined.items():
        _, candidate, kinds = others[at]
        whole = pool([*hosts, *(kind.facts for kind in kinds)])
        if not _fits(whole, candidate, pools[whole.platform])[0]:
            return None
    if not drivers:
        return None
    needed = tuple((driver, tuple(drivers[driver])) for driver in sorted(drivers, key=driver_key))
    return Merge(needed, saved[0], tuple(others[at][0] for at in sorted(joined)))


def _fits(facts: HostFacts, candidate: Candidate, pool_of: Pool) -> tuple[bool, bool]:
    """Whether a candidate runs on a host, and whether it does so as well as the best."""
    bit = 1 << pool_of.of.index(candidate)
    standing = pool_of.standing(facts)
    return bool(standing.fits & bit), bool(standing.served & bit)


def _with_driver(
    facts: HostFacts, candidate: Candidate, pools: Mapping[str, Pool], request: Request, knowledge: Knowledge
) -> list[tuple[str, HostFacts]]:
    """A host with its own driver, or with the minimum driver of a candidate."""
    if candidate.build.platform != facts.platform:
        return []
    mine = pools[facts.platform]
    if _fits(facts, candidate, mine)[0]:
        return [("", facts)]
    own = facts.driver.version if facts.driver else None
    lowest = minimum_driver(candidate, Context(facts=facts, request=request, knowledge=knowledge))
    if own is None or lowest is None or driver_key(lowest) <= driver_key(own):
        return []
    then = replace(facts, driver=Driver(version=lowest, cuda=knowledge.cuda_of(lowest)))
    return [(lowest, then)] if _fits(then, candidate, mine)[1] else []


def nodes_of(kinds: Iterable[NodeKind]) -> str:
    """The names of the nodes, folded."""
    return fold(name for kind in kinds for name in kind.names)


def merge_text(found: Merge) -> str:
    """A merge in words."""
    parts = [f"driver {driver} on {nodes_of(kinds)}" for driver, kinds in found.drivers]
    verb = "saves" if len(parts) == 1 else "save"
    return f"{and_list(parts)} {verb} the environment {found.saves}: its hosts would use {and_list(found.into)}"
