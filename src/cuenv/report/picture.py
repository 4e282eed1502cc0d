"""A picture as a value: SVG text of a known size, what it shows in words, and the same numbers as a table."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Literal

from cuenv.core.io.templates import fill
from cuenv.core.record import dataclass
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
PICTURES = ("components", "libraries", "driver", "builds", "size", "fleet", "price")
"""The names of all pictures."""
OWN = "<!-- Written by cuenv report -->"
"""How a file of ours begins, behind the line that an HTML file begins with."""
SIZE = 13
"""Of the letters, in pixels."""
_NARROW = frozenset("iljtfrI.,:;'|!()[]/ -")
_WIDE = frozenset("mwMW@%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture and what it shows.

    Attributes:
        name: by which ``--picture`` asks for it.
        title: what it shows, in a few words.
        desc: what there is to see, in sentences.
        body: its SVG elements.
        columns, rows: the same as a table; the first column names the row.
        legend: what its marks mean.
    """

    name: str
    title: str
    desc: str
    width: int
    height: int
    body: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: str = ""


def safe(text: object) -> str:
    """Foreign text for SVG and HTML: no markup, and what does not print is written as an escape."""
    return escape(printable(str(text)))


def inline(picture: Picture) -> str:
    """The picture as an element of an HTML page, which has the styles."""
    return _element(picture, "")


def alone(picture: Picture) -> str:
    """The picture as a file of its own, with its styles: a page may show it as an image."""
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
    """A coordinate: at most one decimal, so that two runs write the same bytes."""
    return f"{value:.1f}".removesuffix(".0")


def width_of(text: str, size: float = SIZE) -> float:
    """About how wide a text is, in a usual sans-serif."""
    return size * sum(
        0.34 if one in _NARROW else 0.92 if one in _WIDE else 0.62 if one < "\x7f" else 1.0 for one in text
    )


def shortened(text: str, room: float, size: float = SIZE) -> str:
    """A text that fits into so many pixels, cut where it must be."""
    text = printable(text)
    if width_of(text, size) <= room:
        return text
    while text and width_of(f"{text}…", size) > room:
        text = text[:-1]
    return f"{text.rstrip()}…" if text else ""


def said(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    """A text at a place; ``kind`` is its class."""
    more = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{number(x)}" y="{number(y)}"{more}>{safe(text)}</text>' if text else ""


def box(x: float, y: float, width: float, height: float, kind: str, tip: str = "", *, round_by: int = 4) -> str:  # noqa: PLR0917 - a rectangle is four numbers
    """A rectangle; ``tip`` is what it says when somebody points at it."""
    place = f'x="{number(x)}" y="{number(y)}" width="{number(max(width, 0))}" height="{number(max(height, 0))}"'
    shape = f'<rect class="{kind}" {place}' + (f' rx="{round_by}"' if round_by else "")
    return f"{shape}><title>{safe(tip)}</title></rect>" if tip else f"{shape}/>"


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A line."""
    return f'<line class="{kind}" x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"/>'


def mark(kind: Mark, x: float, y: float) -> str:
    """The shape of a mark, about a point: it is drawn, for not every font has such letters."""
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
    """The first of several, and how many more there are."""
    found = list(dict.fromkeys(items))
    more = [f"{len(found) - most} more"] if len(found) > most else []
    return ", ".join([*found[:most], *more])
