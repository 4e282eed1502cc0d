"""How a notebook shows our values: as a report with pictures, which a package above this one draws.

Jupyter and others ask a value for ``_repr_html_``. Drawing needs what stands far above the values, so that the public
API says here, once it is used, who draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_DRAWERS: list[Callable[[Any], str | None]] = []


class Drawable:
    """What a notebook shows as a page with pictures; without a drawer, and where it has none, as its text."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """The page as HTML."""
        return _DRAWERS[-1](self) if _DRAWERS else None


def draw_with(drawer: Callable[[Any], str | None]) -> None:
    """Say who draws; ``None`` from it leaves the value to its text."""
    _DRAWERS[:] = [drawer]
