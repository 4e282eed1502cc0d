"""The mathematics of a plan: which few columns serve all rows, and what fewer would cost.

A row is a class of hosts, a column an environment that they may share. A cell says how the row stands on the column: 0
is the best that the row can have, more is less, and `ABSENT` means that the column does not serve it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import TypeAlias

from cuenv.core.record import NamedTuple

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
