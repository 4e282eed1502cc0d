"""What every package needs, and what reads no table: errors, versions, strict reading, findings, JSON documents."""

from __future__ import annotations

__version__ = "0.1.0"
