"""The fewest environments that serve a fleet, what fewer would cost, and which hosts nothing serves.

Hosts are folded by what the rules see of them. Environments that fit two kinds of hosts need not fit both together,
for each may need another release of cuDNN: whatever kinds share is judged as a pool again. The mathematics stand first:
a row is a class of hosts, a column an environment that they may share. A cell says how the row stands on the column: 0
is the best that the row can have, more is less, and `ABSENT` means that the column does not serve it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import comb
from typing import TypeAlias

from cuenv.core.notebook import Drawable
from cuenv.core.record import NamedTuple, dataclass, replace
from cuenv.fleet.nodes import FleetNode, NodeKind, Unknown, kinds, nodes_without_facts, with_assumed_glibc
from cuenv.fleet.reasons import Merge, merge
from cuenv.host.facts import Libc
from cuenv.host.request import Request, pool
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.batch import Pool, PoolRanking
from cuenv.resolver.candidates import Candidate, candidates_of, environment_key
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.rules import Context

ABSENT = 10**9
WORSE = 10**6  # what a cell has more where the GPUs get less than on the best, whatever else it is
_SUBSETS = 20_000  # sets of columns that are tried one by one; of more the best is looked for by exchange

Column: TypeAlias = tuple[int, ...]
Loss: TypeAlias = tuple[int, int, int]
"""The hosts whose GPUs get less, the hosts that get less than their best, by how many places in sum."""


class Cover(NamedTuple):
    """A choice of columns with its cost, and whether no other choice of that size costs less."""

    columns: tuple[int, ...]
    loss: Loss
    exact: bool


def undominated(columns: Sequence[Column]) -> tuple[int, ...]:
    """The positions of the columns that no other column dominates in every row; of equal columns the first."""
    places = {column: place for place, column in reversed(list(enumerate(columns)))}
    distinct = sorted(places, key=lambda column: (sum(column), places[column]))
    kept: list[Column] = []
    for column in distinct:  # what is as good in every row has a smaller sum
        if not any(all(a <= b for a, b in zip(other, column, strict=True)) for other in kept):
            kept.append(column)
    return tuple(sorted(places[column] for column in kept))


def fewest(rows: Sequence[int], most: int | None = None) -> tuple[int, ...] | None:
    """The fewest columns that cover all rows.

    Args:
        rows: for each row the columns that serve it, as bits; none is empty.
        most: how many there may be at most.

    Returns:
        Their places; ``None`` where more than ``most`` are needed.
    """
    left = tuple(dict.fromkeys(row for row in rows if not any(other != row and other & row == other for other in rows)))
    for count in range(len(left) + 1 if most is None else min(most, len(left)) + 1):
        found = _serving(left, count)
        if found is not None:
            return tuple(sorted(found))
    return None


def _serving(rows: tuple[int, ...], count: int) -> tuple[int, ...] | None:
    """A number of columns that cover all rows, found by branching on the row with the fewest columns."""
    if not rows:
        return ()
    if count == 0:
        return None
    first = min(rows, key=lambda row: (row.bit_count(), row))
    for place in (place for place in range(first.bit_length()) if first >> place & 1):
        found = _serving(tuple(row for row in rows if not row >> place & 1), count - 1)
        if found is not None:
            return (place, *found)
    return None


def independent_rows(rows: Sequence[int], count: int) -> tuple[int, ...] | None:
    """A number of rows of which no two share a column, by position; ``None`` if there are none.

    As many columns are needed.
    """
    order = sorted(range(len(rows)), key=lambda place: (rows[place].bit_count(), place))

    def more(start: int, taken: int, found: tuple[int, ...]) -> tuple[int, ...] | None:
        if len(found) == count:
            return found
        for at in range(start, len(order) - (count - len(found)) + 1):
            row = rows[order[at]]
            if not row & taken:
                whole = more(at + 1, taken | row, (*found, order[at]))
                if whole is not None:
                    return whole
        return None

    whole = more(0, 0, ())
    return None if whole is None else tuple(sorted(whole))


def witnesses(rows: Sequence[int], count: int) -> tuple[int, ...]:
    """Rows that prove that a number of columns is needed: independent rows, otherwise rows that are all needed."""
    found = independent_rows(rows, count)
    if found is not None:
        return found
    kept = list(range(len(rows)))
    for place in range(len(rows)):
        rest = [other for other in kept if other != place]
        if fewest([rows[other] for other in rest], count - 1) is None:
            kept = rest
    return tuple(kept)


def cheapest(columns: Sequence[Column], weights: Sequence[int], count: int) -> Cover | None:
    """The cheapest choice of a number of columns that covers all rows; ``None`` if there is none."""
    places = range(len(columns))
    if comb(len(columns), count) <= _SUBSETS:
        choices = ((_loss([columns[place] for place in some], weights), some) for some in combinations(places, count))
        loss, some = min(choices, key=lambda item: (item[0] is None, item[0], item[1]), default=(None, ()))
        return None if loss is None else Cover(some, loss, exact=True)
    return _improve_by_exchange(columns, weights, count)


def _improve_by_exchange(columns: Sequence[Column], weights: Sequence[int], count: int) -> Cover | None:
    """A choice that no exchange of one column improves."""
    rows = [sum(1 << at for at, column in enumerate(columns) if column[row] < ABSENT) for row in range(len(weights))]
    some = list(fewest(rows, count) or ())
    if not some:
        return None

    def cost(those: Sequence[int]) -> tuple[bool, Loss | None, tuple[int, ...]]:
        loss = _loss([columns[place] for place in those], weights)
        return (loss is None, loss, tuple(sorted(those)))

    while len(some) < count:
        some = min(([*some, place] for place in range(len(columns)) if place not in some), key=cost)
    while True:
        others = [place for place in range(len(columns)) if place not in some]
        near = ([*some[:at], place, *some[at + 1 :]] for at in range(count) for place in others)
        better = min(near, key=cost, default=some)
        if not cost(better)[:2] < cost(some)[:2]:
            break
        some = better
    _, loss, order = cost(some)
    return None if loss is None else Cover(order, loss, exact=False)


def _loss(columns: Sequence[Column], weights: Sequence[int]) -> Loss | None:
    """The cost of a choice of columns; ``None`` if it does not cover all rows."""
    cells = columns[0] if len(columns) == 1 else tuple(map(min, *columns))
    if max(cells) >= ABSENT:
        return None
    worse = less = steps = 0
    for cell, weight in zip(cells, weights, strict=True):
        if cell:
            less += weight
            steps += weight * (cell % WORSE)
            worse += weight if cell >= WORSE else 0
    return worse, less, steps


_PRICES = 8  # numbers of environments of which the price is told, beyond those that are needed


class NodeClass(NamedTuple):
    """Kinds of nodes that support the same candidates in the same way."""

    kinds: tuple[NodeKind, ...]
    standing: PoolRanking
    platform: str

    @property
    def weight(self) -> int:
        """How many nodes they are."""
        return sum(kind.weight for kind in self.kinds)

    @property
    def names(self) -> tuple[str, ...]:
        """Their nodes."""
        return tuple(name for kind in self.kinds for name in kind.names)


class Downgrade(NamedTuple):
    """A class of hosts that gets less than its best environment."""

    of: NodeClass
    gets: Candidate
    best: Candidate
    worse: bool  # its GPUs get less: PTX in place of machine code, or a library that nobody vouches for


class Price(NamedTuple):
    """What a plan with a number of environments costs."""

    number: int
    environments: tuple[Candidate, ...]  # the best choice of so many; none where so few cannot serve all
    less: tuple[Downgrade, ...] = ()
    exact: bool = True  # no other choice of so many costs less

    @property
    def possible(self) -> bool:
        """Whether a number of environments can support all hosts."""
        return bool(self.environments)


class Environment(NamedTuple):
    """An environment of a plan, and the hosts that use it."""

    name: str
    candidate: Candidate
    kinds: tuple[NodeKind, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Its nodes."""
        return tuple(name for kind in self.kinds for name in kind.names)

    def decision(self, request: Request, knowledge: Knowledge) -> Decision:
        """What was chosen, judged anew for all its hosts as one pool; the other candidates that fit stand behind it."""
        context = Context(facts=pool(kind.facts for kind in self.kinds), request=request, knowledge=knowledge)
        found, own = decide(context), environment_key(self.candidate)
        first = tuple(item for item in found.fitting if environment_key(item.candidate) == own)
        others = tuple(item for item in found.fitting if environment_key(item.candidate) != own)
        return replace(found, fitting=(*first, *others) if first else ())


class UnsupportedHosts(NamedTuple):
    """Hosts that no candidate supports."""

    kinds: tuple[NodeKind, ...]

    @property
    def bare(self) -> bool:
        """They have no GPU: nothing is wrong with a login node."""
        return not self.kinds[0].facts.gpus

    @property
    def names(self) -> tuple[str, ...]:
        """Its nodes."""
        return tuple(name for kind in self.kinds for name in kind.names)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Why fewer environments do not suffice: hosts that cannot be divided into fewer groups."""

    count: int
    well: bool  # they are needed for all GPUs to get what they get on their best; else for all to get something
    hosts: tuple[NodeKind, ...]  # one host of each of the classes that show it


@dataclass(frozen=True, kw_only=True)
class FleetPlan(Drawable):
    """The environments of a fleet."""

    request: Request
    kinds: tuple[NodeKind, ...]
    # the largest first; none where there is none, or where more than the limit are needed
    environments: tuple[Environment, ...] = ()
    prices: tuple[Price, ...] = ()
    # that fewer cannot serve all, and, where that needs more, that fewer cannot serve all as well
    proofs: tuple[Proof, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    hopeless: tuple[UnsupportedHosts, ...] = ()
    merges: tuple[Merge, ...] = ()  # drivers that would save an environment
    assumed: Libc | None = None  # the glibc of hosts whose glibc is not known; ``None`` where nothing was assumed
    limit: int | None = None
    judged: int = 0  # for how many kinds of hosts the rules were asked


def plan(
    nodes: Iterable[FleetNode],
    request: Request,
    knowledge: Knowledge,
    *,
    at_most: int | None = None,
    glibc: Libc | None = None,
    pools: dict[str, Pool] | None = None,
) -> FleetPlan:
    """Plan the environments of a fleet.

    Without a limit there are the fewest with which the GPUs of every host get what they get on its own best
    environment; with one, those of so many at most that cost least.

    Args:
        at_most: how many environments there may be.
        glibc: assumed of hosts whose glibc is not known.
        pools: the candidates of each platform with what the rules said of them, kept between plans of one request.
    """
    given = tuple(nodes)
    everyone = tuple(with_assumed_glibc(given, glibc))
    folded = kinds(everyone)
    pools = {} if pools is None else pools
    for platform in sorted({kind.facts.platform for kind in folded} - pools.keys()):
        of = candidates_of(request.stack, knowledge, platform, request.python)
        pools[platform] = Pool(of, request, knowledge)
    classes, hopeless = _classes(folded, pools)
    found = FleetPlan(
        request=request,
        kinds=folded,
        unknown=nodes_without_facts(everyone),
        hopeless=hopeless,
        assumed=glibc if any(node.facts.libc is None for node in given) else None,
        limit=at_most,
    )
    if classes:
        found = _Planner(classes, pools).planned(found)
        every = found.environments
        merges = (
            merge(one, [other for other in every if other is not one], pools, request, knowledge) for one in every
        )
        found = replace(found, merges=tuple(filter(None, merges)))
    return replace(found, judged=sum(each.judged for each in pools.values()))


def _classes(
    folded: Iterable[NodeKind], pools: dict[str, Pool]
) -> tuple[tuple[NodeClass, ...], tuple[UnsupportedHosts, ...]]:
    """The kinds of nodes grouped by the candidates that support them, and those without a candidate."""
    found: dict[tuple[object, ...], tuple[PoolRanking, list[NodeKind]]] = {}
    nothing: dict[tuple[object, ...], list[NodeKind]] = {}
    for kind in folded:
        facts = kind.facts
        standing = pools[facts.platform].standing(facts)
        if standing.levels:
            key = facts.platform, facts.capabilities, standing.levels, standing.served
            found.setdefault(key, (standing, []))[1].append(kind)
        else:
            nothing.setdefault((facts.platform, facts.capabilities, standing.by_rule), []).append(kind)
    classes = tuple(NodeClass(tuple(some), standing, some[0].facts.platform) for standing, some in found.values())
    return classes, tuple(UnsupportedHosts(tuple(some)) for some in nothing.values())


class _Planner:
    """The classes of a fleet with the environments that they may share."""

    def __init__(self, classes: tuple[NodeClass, ...], pools: dict[str, Pool]) -> None:
        self._classes = classes
        self._pools = pools
        self._together: dict[tuple[int, ...], int] = {}
        shared = [item for platform in sorted(pools) for item in self._shared(platform)]
        columns = [self._column(place, some) for _, place, some in shared]
        kept = undominated(columns)
        self._environments = [pools[shared[at][0]].of[shared[at][1]] for at in kept]
        self._columns = [columns[at] for at in kept]
        rows: dict[Column, list[int]] = {}
        for at, row in enumerate(zip(*self._columns, strict=True)):
            rows.setdefault(row, []).append(at)
        self._rows = list(rows.items())
        self._short = list(zip(*rows, strict=True))  # the columns again, with equal rows as one
        self._weights = [sum(classes[at].weight for at in some) for some in rows.values()]

    def planned(self, found: FleetPlan) -> FleetPlan:
        """The plan with its environments, prices and proofs."""
        needed, well = self._fewest(ABSENT), self._fewest(WORSE)
        proofs = [self._proof(needed, well=False)]
        if well > needed:
            proofs.append(self._proof(well, well=True))
        prices = [Price(count, ()) for count in range(1, needed)]
        choices: list[Cover] = []
        for count in range(needed, len(self._columns) + 1):
            choice = cheapest(self._short, self._weights, count)
            if choice is None or count > max(well, needed + _PRICES, found.limit or 0):
                break
            choices.append(choice)
            prices.append(self._price(choice))
            if not choice.loss[1]:
                break
        limit = well if found.limit is None else found.limit
        able = [choice for choice in choices if len(choice.columns) <= limit]
        best = min(able, key=lambda choice: (choice.loss, len(choice.columns)), default=None)
        environments = self._named(best, found.request.name) if best else ()
        return replace(found, environments=environments, prices=tuple(prices), proofs=tuple(proofs))

    def _shared(self, platform: str) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """For each candidate, by position, the maximal sets of classes that can use it together."""
        of = self._pools[platform].of
        mine = [at for at, each in enumerate(self._classes) if each.platform == platform]
        fits = {at: self._classes[at].standing.fits for at in mine}
        for place in range(len(of)):
            able = tuple(at for at in mine if fits[at] >> place & 1)
            for some in dict.fromkeys(self._joint(able, place)):
                yield platform, place, some

    def _joint(self, able: tuple[int, ...], place: int) -> Iterator[tuple[int, ...]]:
        """The maximal sets of classes that can use a candidate as one pool, those of one capability together."""
        if not able:
            return
        if self._fitting(able) >> place & 1:
            yield able
            return
        parts: dict[tuple[object, ...], list[int]] = {}
        for at in able:
            parts.setdefault(self._classes[at].kinds[0].facts.capabilities, []).append(at)
        conflict = list(parts)
        for part in parts:
            rest = [other for other in conflict if other != part]
            if not self._fitting(tuple(sorted(at for each in rest for at in parts[each]))) >> place & 1:
                conflict = rest
        for part in conflict:
            yield from self._joint(tuple(at for at in able if at not in parts[part]), place)

    def _fitting(self, some: tuple[int, ...]) -> int:
        """The candidates that fit classes as one pool."""
        if not some:
            return -1
        if some not in self._together:
            facts = pool(self._classes[at].kinds[0].facts for at in some)
            self._together[some] = self._pools[facts.platform].standing(facts).fits
        return self._together[some]

    def _column(self, place: int, some: tuple[int, ...]) -> Column:
        column = [ABSENT] * len(self._classes)
        for at in some:
            standing = self._classes[at].standing
            rank = next(number for number, level in enumerate(standing.levels) if level >> place & 1)
            column[at] = rank if standing.served >> place & 1 else rank + WORSE
        return tuple(column)

    def _bits(self, below: int) -> list[int]:
        """For each row the columns whose cell is below a bound, as bits."""
        return [sum(1 << at for at, cell in enumerate(row) if cell < below) for row, _ in self._rows]

    def _fewest(self, below: int) -> int:
        return len(fewest(self._bits(below)) or ())

    def _proof(self, count: int, *, well: bool) -> Proof:
        found = witnesses(self._bits(WORSE if well else ABSENT), count)
        hosts = tuple(self._classes[self._rows[at][1][0]].kinds[0] for at in found)
        return Proof(count=count, well=well, hosts=hosts)

    def _gets(self, choice: Cover) -> list[int]:
        """For each class the column that it uses."""
        return [min(choice.columns, key=lambda at: self._columns[at][of]) for of in range(len(self._classes))]

    def _price(self, choice: Cover) -> Price:
        gets = self._gets(choice)
        less = []
        for at, each in enumerate(self._classes):
            cell = self._columns[gets[at]][at]
            if cell:
                best = each.standing.levels[0]
                of = self._pools[each.platform].of[(best & -best).bit_length() - 1]
                less.append(Downgrade(each, self._environments[gets[at]], of, worse=cell >= WORSE))
        return Price(
            number=len(choice.columns),
            environments=tuple(self._environments[at] for at in choice.columns),
            less=tuple(sorted(less, key=lambda item: (-item.of.weight, item.of.names))),
            exact=choice.exact,
        )

    def _named(self, choice: Cover, base: str) -> tuple[Environment, ...]:
        gets = self._gets(choice)
        used: list[tuple[Candidate, tuple[NodeKind, ...]]] = []
        for column in choice.columns:
            some = [each for at, each in enumerate(self._classes) if gets[at] == column]
            if some:
                used.append((self._environments[column], tuple(kind for each in some for kind in each.kinds)))
        used.sort(key=lambda item: (-sum(kind.weight for kind in item[1]), item[1][0].names))
        names = _names([candidate for candidate, _ in used], base)
        return tuple(Environment(name, *item) for name, item in zip(names, used, strict=True))


def _names(of: Sequence[Candidate], base: str) -> list[str]:
    """A unique name for each environment: by its CUDA release, and by more if two have the same."""
    parts = [(base, cuda_tag(item), f"torch{item.build.version}", item.build.platform) for item in of]
    for count in (2, 3, 4):
        names = ["-".join(item[:count]) for item in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{base}-{number}" for number in range(1, len(of) + 1)]


def cuda_tag(item: Candidate) -> str:
    """The short name of an environment's CUDA release: ``cu118``, or ``cpu``."""
    return f"cu{str(item.cuda).replace('.', '')}" if item.cuda else "cpu"


def candidate_name(item: Candidate) -> str:
    """A candidate in a few words."""
    cuda = f"CUDA {item.cuda}" if item.cuda else "CPU"
    python = "" if item.python == "3.12" else f", python {item.python}"
    platform = "" if item.build.platform == "linux-64" else f", {item.build.platform}"
    return f"pytorch {item.build.version} with {cuda} ({item.build.stack}{python}{platform})"
