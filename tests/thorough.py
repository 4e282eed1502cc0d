"""How many examples a law gets, where that is not the profile's own number."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

_USUAL = 40
_FEWEST = 3


def examples(count: int, **more: Any) -> settings:
    """So many examples where a law without a number of its own gets 40; more or fewer as the profile says."""
    of_profile = settings.default.max_examples if settings.default is not None else _USUAL
    return settings(max_examples=max(_FEWEST, count * of_profile // _USUAL), **more)
