"""Who is told how far a long piece of work is, also where nobody passed that on: downloads begin deep inside."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[str], None]] = []


def listen(listener: Callable[[str], None] | None) -> None:
    """Let one listener hear from now on; ``None`` for nobody."""
    _listeners[:] = [listener] if listener else []


def tell(text: str) -> None:
    """Say how far it is, from any thread."""
    for listener in _listeners:
        listener(text)
