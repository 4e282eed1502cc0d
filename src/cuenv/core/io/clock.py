"""The day: what the clock says, and what is a day at all."""

from __future__ import annotations

import datetime as dt


def today() -> str:
    """The day now, in UTC: ``YYYY-MM-DD``."""
    return dt.datetime.now(tz=dt.timezone.utc).date().isoformat()


def is_day(text: str) -> bool:
    """Whether a text is a day of the calendar, written ``YYYY-MM-DD``."""
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
