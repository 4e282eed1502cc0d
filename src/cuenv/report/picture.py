"""A picture as a value: SVG text of a known size, what it shows in words, and the same numbers as a table.

Its shapes are a grid of marked cells, a map of areas, and bars.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal

from cuenv.core.io.templates import fill
from cuenv.core.record import NamedTuple, dataclass
from cuenv.core.urls import printable

Mark = Literal["ok", "jit", "part", "no", "unknown", "none"]
"""How something is served. Each has a colour, a shape and a border of its own, and never stands without its word."""

WORDS: dict[Mark, str] = {
    "ok": "native",
    "jit": "by JIT",
    "part": "in a part",
    "no": "not supported",
    "unknown": "unknown",
    "none": "no build",
}
PICTURES = ("components", "libraries", "driver", "builds", "size", "fleet", "price")  # the names of all pictures
OWN = "<!-- Written by cuenv report -->"  # how a file of ours begins, behind the line that an HTML file begins with
SIZE = 13  # of the letters, in pixels
_NARROW = frozenset("iljtfrI.,:;'|!()[]/ -")
_WIDE = frozenset("mwMW@%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture and what it shows."""

    name: str  # by which ``--picture`` asks for it
    title: str  # what it shows, in a few words
    desc: str  # what there is to see, in sentences
    width: int
    height: int
    body: str  # its SVG elements
    # columns, rows: the same as a table; the first column names the row
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: str = ""  # what its marks mean


def safe(text: object) -> str:
    """Foreign text for SVG and HTML, with markup and unprintable characters escaped."""
    return escape(printable(str(text)))


def inline(picture: Picture) -> str:
    """The picture as an element of an HTML page, which contains the styles."""
    return _element(picture, "")


def alone(picture: Picture) -> str:
    """The picture as a file of its own, with its styles."""
    style = f"<style>{fill('report.css', {})}</style>"
    head = (
        f'xmlns="http://www.w3.org/2000/svg" class="cuenv alone" font-family="system-ui,sans-serif" font-size="{SIZE}" '
    )
    return f"{OWN}\n{_element(picture, style, head)}\n"


def _element(picture: Picture, style: str, head: str = "") -> str:
    width, height = picture.width, picture.height
    return (
        f'<svg {head}viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
        f"<title>{safe(picture.title)}</title><desc>{safe(picture.desc)}</desc>{style}{picture.body}</svg>"
    )


def number(value: float) -> str:
    """A coordinate with at most one decimal, so that the bytes are reproducible."""
    return f"{value:.1f}".removesuffix(".0")


def width_of(text: str, size: float = SIZE) -> float:
    """The approximate width of a text in a common sans-serif font."""
    return size * sum(
        0.34 if one in _NARROW else 0.92 if one in _WIDE else 0.62 if one < "\x7f" else 1.0 for one in text
    )


def shortened(text: str, room: float, size: float = SIZE) -> str:
    """The text, truncated to a width in pixels."""
    text = printable(text)
    if width_of(text, size) <= room:
        return text
    while text and width_of(f"{text}…", size) > room:
        text = text[:-1]
    return f"{text.rstrip()}…" if text else ""


def said(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    """A text at a position; ``kind`` is its class."""
    more = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{number(x)}" y="{number(y)}"{more}>{safe(text)}</text>' if text else ""


def box(x: float, y: float, width: float, height: float, kind: str, tip: str = "", *, round_by: int = 4) -> str:  # noqa: PLR0917 - a rectangle is four numbers
    """A rectangle; ``tip`` is its tooltip."""
    place = f'x="{number(x)}" y="{number(y)}" width="{number(max(width, 0))}" height="{number(max(height, 0))}"'
    shape = f'<rect class="{kind}" {place}' + (f' rx="{round_by}"' if round_by else "")
    return f"{shape}><title>{safe(tip)}</title></rect>" if tip else f"{shape}/>"


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line as SVG."""
    return f'<line class="{kind}" x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"/>'


def mark(kind: Mark, x: float, y: float) -> str:
    """The shape of a mark around a point, drawn because not every font has such characters."""
    left, right, top, bottom = (number(value) for value in (x - 4, x + 4, y - 4, y + 4))
    at, mid = number(x), number(y)
    if kind == "ok":
        return f'<circle class="mark m-ok" cx="{at}" cy="{mid}" r="4.5"/>'
    if kind == "jit":
        half = f'<path class="m-jit" d="M{at} {number(y - 4.5)}a4.5 4.5 0 0 0 0 9z"/>'
        return f'<circle class="ring m-jit" cx="{at}" cy="{mid}" r="4.5"/>{half}'
    if kind == "part":
        return f'<path class="m-jit" d="M{at} {top}L{number(x + 5)} {bottom}L{number(x - 5)} {bottom}z"/>'
    if kind == "no":
        return f'<path class="stroke m-no" d="M{left} {top}L{right} {bottom}M{right} {top}L{left} {bottom}"/>'
    if kind == "unknown":
        return said(x, y + 4.5, "?", "h m-unknown", "middle")
    return f'<path class="stroke m-none" d="M{left} {mid}L{right} {mid}"/>'


def marked(x: float, y: float, size: tuple[float, float], kind: Mark, word: str, tip: str) -> str:  # noqa: PLR0917 - as above
    """A box with a mark and its word in the middle."""
    width, height = size
    tight = height < 30
    letters = 11 if tight else 12
    text = shortened(word, width - 20, letters)
    start = x + (width - width_of(text, letters) - 13) / 2
    return (
        box(x, y, width, height, f"b-{kind}", tip)
        + mark(kind, start + 4, y + height / 2)
        + said(start + 13, y + height / 2 + 4.3, text, "d" if tight else "c")
    )


def listed(items: Iterable[str], most: int = 3) -> str:
    """The first items, and the number of the others."""
    found = list(dict.fromkeys(items))
    more = [f"{len(found) - most} more"] if len(found) > most else []
    return ", ".join([*found[:most], *more])


class GridCell(NamedTuple):
    """A cell: its mark, its word, and its tooltip."""

    mark: Mark
    word: str
    tip: str


class GridRow(NamedTuple):
    """A row: its label, a second line in small letters, and its cells."""

    label: str
    below: str
    cells: tuple[GridCell, ...]


class Drawn(NamedTuple):
    """A grid as SVG elements."""

    body: str
    width: int
    height: int
    # left, top: where its first cell stands
    left: int
    top: int
    # across, down: from a cell to the next
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
    """Rectangles in proportion to sizes, as square as possible (Bruls, Huizing and van Wijk, 2000)."""
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
    """A rectangle of a treemap, with its name if there is room."""
    parts = [box(place.x, place.y, place.width, place.height, kind, f"{name}: {below}", round_by=0)]
    room = place.width - 10
    if place.height >= 20 and room > 34:
        parts.append(said(place.x + 6, place.y + 16, shortened(name, room, 12), "c"))
    if place.height >= 36 and room > 34:
        parts.append(said(place.x + 6, place.y + 31, shortened(below, room, 12), "s"))
    return "".join(parts)
