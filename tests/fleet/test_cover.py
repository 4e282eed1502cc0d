"""The mathematics of a plan against brute force."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from cases import quick_and_slow
from cuenv.fleet import plan
from cuenv.fleet.plan import ABSENT, WORSE, Column, Cover, cheapest, fewest, independent_rows, undominated, witnesses


def cells(chance: random.Random, rows: int, columns: int) -> list[Column]:
    """Columns at random, of which together each row has one."""
    values = [0, 1, 2, 5, WORSE + 1, ABSENT, ABSENT, ABSENT]
    made = [[chance.choice(values) for _ in range(rows)] for _ in range(columns)]
    for row in range(rows):
        chance.choice(made)[row] = 0
    return [tuple(column) for column in made]


def loss(columns: list[Column], weights: list[int], some: tuple[int, ...]) -> tuple[int, int, int] | None:
    """What a choice costs, written apart from the code."""
    worse = less = steps = 0
    for row, weight in enumerate(weights):
        best = min(columns[at][row] for at in some)
        if best >= ABSENT:
            return None
        worse += weight * (best >= WORSE)
        less += weight * (best > 0)
        steps += weight * (best % WORSE)
    return worse, less, steps


def bits(columns: list[Column], rows: int) -> list[int]:
    return [sum(1 << at for at, column in enumerate(columns) if column[row] < ABSENT) for row in range(rows)]


@pytest.mark.parametrize("tries", quick_and_slow(500, 1500))
def test_brute_force_agrees(tries: int) -> None:
    chance = random.Random(1)
    odd = 0
    for _ in range(tries):
        rows, count = chance.randint(1, 6), chance.randint(1, 6)
        columns, weights = cells(chance, rows, count), [chance.randint(1, 9) for _ in range(rows)]
        every = {
            number: [
                (one, some) for some in combinations(range(count), number) if (one := loss(columns, weights, some))
            ]
            for number in range(1, count + 1)
        }
        least = min(number for number, found in every.items() if found)
        of_rows = bits(columns, rows)
        found = fewest(of_rows)
        assert found is not None
        assert len(found) == least
        assert all(any(row >> at & 1 for at in found) for row in of_rows)
        assert fewest(of_rows, least - 1) is None
        for number, costs in every.items():
            best = cheapest(columns, weights, number)
            assert best == (Cover(min(costs)[1], min(costs)[0], exact=True) if costs else None)
        shown = witnesses(of_rows, least)
        assert fewest([of_rows[at] for at in shown], least - 1) is None
        together = independent_rows(of_rows, least)
        if together is None:
            odd += 1
        else:
            assert shown == together
            assert not any(of_rows[a] & of_rows[b] for a, b in combinations(together, 2))
        kept = undominated(columns)
        short = [columns[at] for at in kept]
        for number in range(1, len(kept) + 1):
            few, all_of_them = cheapest(short, weights, number), cheapest(columns, weights, number)
            assert (few and few.loss) == (all_of_them and all_of_them.loss)
    assert odd > tries // 300  # rows of which each two share a column, and not all of them one


def test_where_too_many_choices_are_there_an_exchange_finds_a_good_one(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(2)
    monkeypatch.setattr(plan, "_SUBSETS", 0)
    for _ in range(60):
        columns, weights = cells(chance, 6, 6), [chance.randint(1, 9) for _ in range(6)]
        for number in range(1, 7):
            found = cheapest(columns, weights, number)
            costs = [one for some in combinations(range(6), number) if (one := loss(columns, weights, some))]
            assert (found is None) == (not costs)
            if found:
                assert not found.exact
                assert found.loss == loss(columns, weights, found.columns)
                assert found.loss >= min(costs)
