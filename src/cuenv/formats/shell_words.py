"""Words of a POSIX shell: a text split into them, and the value of one as far as it can be told without running it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_OPERATORS = ("&&", "||", ";;", "\n", ";", "&", "|", "(", ")")
_SPACE = " \t\r\0"
_GOES_ON = frozenset({"&&", "||", "|"})
"""A line that ends in one of these is continued by the next one."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+])(.*))?", re.DOTALL)
_REDIRECTED = re.compile(r"[0-9]*(?:>>|>&|<&|>\||<>|>|<)|&>>?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A word as it is written, with its quotes, or an operator between commands."""

    text: str
    line: int
    operator: bool = False


def tokens(text: str) -> list[Token] | None:
    """The words and operators of a script, without comments and redirections; ``None`` when it is not understood."""
    if "\0" in text:
        return None
    text = text.replace("\\\r\n", "").replace("\\\n", "\0")
    found: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        end = _skipped(text, at)
        if end == at:
            operator = next((item for item in _OPERATORS if text.startswith(item, at)), None)
            end = at + len(operator) if operator else _word(text, at) or at
            raw = text[at:end].replace("\0", "")
            goes_on = operator == "\n" and found and found[-1].operator and found[-1].text in _GOES_ON
            if not goes_on:
                found.append(Token(text=raw, line=line, operator=operator is not None))
        if end is None or end == at:
            return None
        line += text.count("\n", at, end) + text.count("\0", at, end)
        at = end
    return found


def _skipped(text: str, at: int) -> int | None:
    """Behind a space, a comment, or a redirection with its file; ``None`` when it is not understood."""
    if text[at] in _SPACE:
        return at + 1
    if text[at] == "#":
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    redirected = _REDIRECTED.match(text, at)
    if redirected is None:
        return at
    if redirected[0].endswith("<") and text.startswith("<", redirected.end()):
        return None  # a text that stands in the script
    at = redirected.end()
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return _word(text, at)


def _word(text: str, at: int) -> int | None:
    """Where the word that begins here ends; ``None`` when a quote or a bracket is not closed."""
    while at < len(text) and text[at] not in " \t\r\n;&|()<>":
        end = _piece(text, at)
        if end is None:
            return None
        at = end
    return at


def _piece(text: str, at: int) -> int | None:
    char = text[at]
    if char == "\\":
        return min(at + 2, len(text))
    if char == "'":
        end = text.find("'", at + 1)
        return None if end < 0 else end + 1
    if char == '"':
        return _quoted(text, at + 1)
    if char == "`":
        end = text.find("`", at + 1)
        return None if end < 0 else end + 1
    if char == "$" and text.startswith(("{", "("), at + 1):
        return _bracketed(text, at + 1)
    return at + 1


def _quoted(text: str, at: int) -> int | None:
    while at < len(text):
        if text[at] == '"':
            return at + 1
        end = _piece(text, at) if text[at] in "\\`$" else at + 1
        if end is None:
            return None
        at = end
    return None


def _bracketed(text: str, at: int) -> int | None:
    """Behind the bracket that closes the one here; quotes inside are passed over."""
    opened, closes, depth = text[at], "}" if text[at] == "{" else ")", 0
    while at < len(text):
        char = text[at]
        if char == opened:
            depth += 1
        elif char == closes:
            depth -= 1
            if not depth:
                return at + 1
        elif char in "'\"\\`$":
            end = _piece(text, at)
            if end is None:
                return None
            at = end
            continue
        at += 1
    return None


def expand(raw: str, values: Mapping[str, str | None]) -> str | None:
    """The value of a word; ``None`` when only a shell could tell it.

    Args:
        raw: as it is written, with its quotes.
        values: the variables; ``None`` for one whose value is not known.
    """
    found: list[str] = []
    at, quoted = 0, False
    while at < len(raw):
        char = raw[at]
        if char == "~" and not quoted and (at == 0 or raw[at - 1] == ":"):
            return None  # somebody's home
        if char == '"':
            quoted = not quoted
            at += 1
        elif char == "'" and not quoted:
            end = raw.find("'", at + 1)
            if end < 0:
                return None
            found.append(raw[at + 1 : end])
            at = end + 1
        elif char == "\\":
            after = raw[at + 1 : at + 2]
            found.append(char + after if quoted and after not in '$`"\\' else after)
            at += 2
        elif char == "`":
            return None
        elif char == "$":
            value, at = _variable(raw, at, values)
            if value is None:
                return None
            found.append(value)
        else:
            found.append(char)
            at += 1
    return None if quoted else "".join(found)


def _variable(raw: str, at: int, values: Mapping[str, str | None]) -> tuple[str | None, int]:
    """The value of what a dollar begins, and the place behind it."""
    plain = _NAME.match(raw, at + 1)
    if plain:
        return values.get(plain[0], ""), plain.end()
    if not raw.startswith("{", at + 1):
        return (None, at + 1) if raw[at + 1 : at + 2] not in ("", " ", '"', "/", ":") else ("$", at + 1)
    end = _bracketed(raw, at + 1)
    inner = _BRACED.fullmatch(raw[at + 2 : (end or 0) - 1]) if end else None
    if inner is None or end is None:
        return None, at + 1
    name, sign, other = inner[1], inner[2] or "", inner[3] or ""
    known = values.get(name, "")
    if not sign:
        return known, end
    if name in values and known is None:
        return None, end  # it is set, or it is not
    there = bool(known) if sign.startswith(":") else name in values
    if sign.endswith("+"):
        return (expand(other, values) if there else ""), end
    return (known if there else expand(other, values)), end
