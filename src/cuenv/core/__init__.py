"""What every package needs: errors, versions, strict reading, findings, JSON documents; nothing here reads a table."""

from __future__ import annotations

__version__ = "0.1.0"
