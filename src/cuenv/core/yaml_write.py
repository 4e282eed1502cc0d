"""Write strings so that every YAML reader reads them as strings, without importing PyYAML."""

from __future__ import annotations

import re
from functools import lru_cache

from cuenv.core.errors import InputError
from cuenv.core.regex import regex

_PLAIN = regex(r"[A-Za-z_][A-Za-z0-9_./+=<>!~*,|-]*(?:::?[A-Za-z0-9_./+=<>!~*,|-]+)*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_ESCAPE = regex(r'[\\"]|[^ -~]')  # ASCII characters that must be escaped in double quotes
_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


@lru_cache(maxsize=1)
def _escape() -> re.Pattern[str]:
    """The same for all characters; compiled for the first text beyond ASCII, because it takes 5 ms."""
    return re.compile(r'[\\"]|[^ -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]')


def quote(text: str) -> str:
    """A string in double quotes for YAML 1.1 and 1.2.

    A ``#`` in a string with brackets is escaped, because conda-lock searches lines for ``# [...]`` selectors.

    Raises:
        InputError: the text contains half a surrogate pair, which a file cannot contain.
    """
    quoted = (_ESCAPE if text.isascii() else _escape()).sub(_escaped, text)
    return f'"{quoted.replace("#", chr(92) + "x23") if "[" in text else quoted}"'


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:
        raise InputError(f"a text holds half a surrogate pair (U+{code:04X}), which no file can hold")
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def scalar(text: str) -> str:
    """A string without quotes if every reader reads it as a string, otherwise in quotes."""
    return text if _PLAIN.fullmatch(text) and not is_word(text) else quote(text)


def is_word(text: str) -> bool:
    """Whether a YAML 1.1 or 1.2 reader does not read a plain word as a string."""
    return text.lower() in _WORDS
