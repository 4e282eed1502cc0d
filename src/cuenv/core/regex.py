"""Regular expressions that are compiled on first use, because a quick command uses few of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, AnyStr


class _Late:
    """A pattern that is compiled on first use; its methods are then stored in it."""

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
        """A pattern as from `re.compile`, of which only methods may be used; functions of `re` do not accept it."""
        return re.compile(text, flags)

else:
    regex = _Late

VARIABLE = regex(r"[A-Za-z_][A-Za-z0-9_]*")  # the name of a variable in a shell
