"""How many examples a law gets, where that is not the profile's own number."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

_TIMES = 12
_MANY = 400


def examples(count: int, **more: Any) -> settings:
    """So many examples in the fast suite, and twelve times as many with ``--hypothesis-profile=thorough``."""
    thorough = settings.default is not None and settings.default.max_examples > _MANY
    return settings(max_examples=count * (_TIMES if thorough else 1), **more)
