"""What every package needs and what knows neither CUDA nor conda: errors, versions, strict reading, findings."""

from __future__ import annotations

__version__ = "0.1.0"
