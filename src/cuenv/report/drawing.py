"""The shapes of which the pictures are made: a grid of marked cells, a map of areas, and bars."""

from __future__ import annotations

from collections.abc import Sequence

from cuenv.core.record import NamedTuple
from cuenv.report.picture import Mark, box, marked, said, shortened, width_of


class GridCell(NamedTuple):
    """A cell: its mark and word, and what it says when somebody points at it."""

    mark: Mark
    word: str
    tip: str


class GridRow(NamedTuple):
    """A row: what it is of, a second line in smaller letters, and its cells."""

    label: str
    below: str
    cells: tuple[GridCell, ...]


class Drawn(NamedTuple):
    """A grid as SVG elements.

    Attributes:
        left, top: where its first cell stands.
        across, down: from a cell to the next.
    """

    body: str
    width: int
    height: int
    left: int
    top: int
    across: int
    down: int


def grid(heads: Sequence[tuple[str, str]], rows: Sequence[GridRow], *, least: int = 92, tight: bool = False) -> Drawn:
    """A grid: columns with a head of two lines, rows with a label, and in each cell a mark with its word.

    Args:
        heads: of the columns.
        rows: of equal length.
        least: the width of a column that needs no more.
        tight: rows of one line.
    """
    label = min(300, int(max((width_of(text) for row in rows for text in (row.label, row.below)), default=80)) + 18)
    words = max((width_of(cell.word, 11 if tight else 12) for row in rows for cell in row.cells), default=0)
    wide = int(
        max(
            least,
            min(words + (27 if tight else 36), 170),
            min(max((1.1 * width_of(head[0]) for head in heads), default=0) + 14, 180),
        )
    )
    step = 26 if tight else 38
    top = 46 if any(second for _, second in heads) else 28
    parts = []
    for at, (first, second) in enumerate(heads):
        middle = label + at * wide + wide / 2
        parts.append(said(middle, top - 26 if second else top - 10, shortened(first, wide - 6), "h", "middle"))
        parts.append(said(middle, top - 10, shortened(second, wide - 6, 12), "s", "middle"))
    for number, row in enumerate(rows):
        y = top + number * step
        if row.below:
            parts.append(said(label - 12, y + 15, shortened(row.label, label - 14), "h", "end"))
            parts.append(said(label - 12, y + 30, shortened(row.below, label - 14, 12), "s", "end"))
        else:
            parts.append(said(label - 12, y + step / 2 + 4.5, shortened(row.label, label - 14), "", "end"))
        for at, cell in enumerate(row.cells):
            parts.append(marked(label + at * wide + 2, y + 2, (wide - 4, step - 4), *cell))
    return Drawn("".join(parts), label + len(heads) * wide + 2, top + len(rows) * step + 2, label, top, wide, step)


class Area(NamedTuple):
    """A part of a whole and the rectangle that stands for it."""

    at: int
    x: float
    y: float
    width: float
    height: float


def squarified(sizes: Sequence[float], x: float, y: float, width: float, height: float) -> list[Area]:
    """Rectangles as large as the sizes say, as square as they can be (Bruls, Huizing and van Wijk, 2000)."""
    order = sorted(range(len(sizes)), key=lambda at: (-sizes[at], at))
    scale = width * height / sum(sizes) if sizes else 0
    left = [(at, sizes[at] * scale) for at in order]
    found: list[Area] = []
    while left:
        side = min(width, height)
        count = 1
        while count < len(left) and _worst(left[: count + 1], side) <= _worst(left[:count], side):
            count += 1
        row, left = left[:count], left[count:]
        deep = sum(area for _, area in row) / side if side else 0
        along = 0.0
        for at, area in row:
            long = area / deep if deep else 0
            place = (x, y + along, deep, long) if width >= height else (x + along, y, long, deep)
            found.append(Area(at, *place))
            along += long
        if width >= height:
            x, width = x + deep, width - deep
        else:
            y, height = y + deep, height - deep
    return found


def _worst(row: Sequence[tuple[int, float]], side: float) -> float:
    """How far the worst rectangle of a row is from a square."""
    total = sum(area for _, area in row)
    return max(max(side * side * area / total**2, total**2 / (side * side * area)) for _, area in row)


def area(place: Area, kind: str, name: str, below: str) -> str:
    """A rectangle of a map of areas with its name, where it has room for that."""
    parts = [box(place.x, place.y, place.width, place.height, kind, f"{name}: {below}", round_by=0)]
    room = place.width - 10
    if place.height >= 20 and room > 34:
        parts.append(said(place.x + 6, place.y + 16, shortened(name, room, 12), "c"))
    if place.height >= 36 and room > 34:
        parts.append(said(place.x + 6, place.y + 31, shortened(below, room, 12), "s"))
    return "".join(parts)
