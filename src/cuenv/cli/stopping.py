"""What a long command does when it is told to stop."""

from __future__ import annotations

import signal


def stop_as_on_ctrl_c() -> None:
    """Let SIGTERM (a scheduler's or a container's stop) undo what was begun, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
