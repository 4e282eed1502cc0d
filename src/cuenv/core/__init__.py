"""What every package needs and what knows neither CUDA nor conda: errors, versions, strict reading, findings."""

from __future__ import annotations

from collections.abc import Callable

__version__ = "0.1.0"

Progress = Callable[[str], None]
"""What is told what happens next, one line at a time."""
