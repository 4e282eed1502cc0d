"""Regular expressions that are compiled when they are first used: a quick command uses few of those that it loads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, AnyStr


class _Late:
    """A pattern that is not compiled yet; each of its methods is kept once it was asked for."""

    def __init__(self, text: Any, flags: int = 0) -> None:
        self._asked = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._asked), name)
        setattr(self, name, found)
        return found

    def __repr__(self) -> str:
        return repr(re.compile(*self._asked))


if TYPE_CHECKING:

    def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
        """A pattern as of `re.compile`, for the methods of a pattern alone: functions of `re` do not take it."""
        return re.compile(text, flags)

else:
    regex = _Late

VARIABLE = regex(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of a variable in a shell."""
