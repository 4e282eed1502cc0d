"""Show values in notebooks as reports with pictures.

Jupyter calls ``_repr_html_`` of a value. The pictures are drawn by a package that this one must not import; the public
API registers the function that draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_DRAWERS: list[Callable[[Any], str | None]] = []


class Drawable:
    """A value that a notebook shows as a page with pictures; without a registered function, as text."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """The page as HTML; ``None`` to show the text."""
        return _DRAWERS[-1](self) if _DRAWERS else None


def draw_with(drawer: Callable[[Any], str | None]) -> None:
    """Register the function that draws; it may return ``None`` for a value that is shown as text."""
    _DRAWERS[:] = [drawer]
