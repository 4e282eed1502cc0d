"""The bytes of all downloads of records together, as one line of progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

from cuenv.world.telling import tell
from cuenv.world.unpacking import human

_EVERY = 0.2
"""Seconds between two lines."""


class Counter:
    """The bytes of all downloads, as one line of progress."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parts: dict[object, tuple[int, int | None]] = {}
        self._began = time.monotonic()
        self._said = 0.0

    def of(self, name: str) -> Callable[[int, int | None], None]:
        """What one download tells how far it is."""
        key = object()

        def told(have: int, total: int | None) -> None:
            now = time.monotonic()
            with self._lock:
                if not self._parts:
                    self._began = now
                self._parts[key] = (have, total)
                if now - self._said < _EVERY:
                    return
                self._said = now
                line = self._line(name, now - self._began)
            tell(line)

        return told

    def _line(self, name: str, seconds: float) -> str:
        have = sum(part for part, _ in self._parts.values())
        totals = [total for _, total in self._parts.values()]
        whole = None if None in totals else sum(total for total in totals if total is not None)
        of = f" of {human(whole)}" if whole else ""
        rate = f", {human(have / seconds)}/s" if seconds > 1 else ""
        return f"downloading records of {name}: {human(have)}{of}{rate}"
