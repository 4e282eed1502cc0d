"""An interpreter for the scripts in ``activate.d`` that determines the variables they set without running them.

It understands assignments, ``export``, ``unset``, tests, ``if``, and the function by which conda-forge's compiler
packages set variables. A variable that any other line may set becomes unknown; its value is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from cuenv.core.record import dataclass, field
from cuenv.core.regex import VARIABLE, regex

_OPERATORS = ("&&", "||", ";;", "\n", ";", "&", "|", "(", ")")
_SPACE = " \t\r\0"
_CONTINUES = frozenset({"&&", "||", "|"})  # operators after which a command continues on the next line
_BRACED = regex(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+])(.*))?", re.DOTALL)
_REDIRECTED = regex(r"[0-9]*(?:>>|>&|<&|>\||<>|>|<)|&>>?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A word with its quotes, or an operator between commands."""

    text: str
    line: int
    operator: bool = False


class _UnreadableError(ValueError):
    """This interpreter does not understand the script."""


def _tokens(text: str) -> list[Token]:
    """The words and operators of a script, without comments and redirections."""
    if "\0" in text:
        raise _UnreadableError
    text = text.replace("\\\r\n", "").replace("\\\n", "\0")
    found: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        end = _skip(text, at)
        if end == at:
            operator = next((item for item in _OPERATORS if text.startswith(item, at)), None)
            end = at + len(operator) if operator else _word_end(text, at)
            if end == at:
                raise _UnreadableError
            goes_on = operator == "\n" and found and found[-1].text in _CONTINUES
            if not goes_on:
                found.append(Token(text=text[at:end].replace("\0", ""), line=line, operator=operator is not None))
        line += text.count("\n", at, end) + text.count("\0", at, end)
        at = end
    return found


def _skip(text: str, at: int) -> int:
    """The position after a space, a comment, or a redirection with its file; unchanged if there is none."""
    if text[at] in _SPACE:
        return at + 1
    if text[at] == "#":
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    redirected = _REDIRECTED.match(text, at)
    if redirected is None:
        return at
    if redirected[0].endswith("<") and text.startswith("<", redirected.end()):
        raise _UnreadableError  # a here-document
    at = redirected.end()
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return _word_end(text, at)


def _word_end(text: str, at: int) -> int:
    """The end of the word that begins at a position."""
    while at < len(text) and text[at] not in " \t\r\n;&|()<>":
        at = _skip_piece(text, at)
    return at


def _skip_piece(text: str, at: int) -> int:
    """The position after a character, or after the quotes or brackets that it opens.

    Raises:
        ValueError: they are not closed.
    """
    char = text[at]
    if char == "\\":
        return min(at + 2, len(text))
    if char in "'`":
        return text.index(char, at + 1) + 1
    if char == '"':
        at += 1
        while text[at : at + 1] not in ('"', ""):
            at = _skip_piece(text, at) if text[at] in "\\`$" else at + 1
        return text.index('"', at) + 1
    if char == "$" and text.startswith(("{", "("), at + 1):
        return _skip_brackets(text, at + 1)
    return at + 1


def _skip_brackets(text: str, at: int) -> int:
    """The position after the closing bracket; brackets in quotes do not count."""
    opened, closes, depth = text[at], "}" if text[at] == "{" else ")", 0
    while at < len(text):
        char = text[at]
        depth += (char == opened) - (char == closes)
        if char == closes and not depth:
            return at + 1
        at = _skip_piece(text, at) if char in "'\"\\`$" else at + 1
    raise _UnreadableError


def _expand(raw: str, values: Mapping[str, str | None]) -> str | None:
    """The value of a word after expansion; ``None`` if it is unknown.

    Args:
        values: the variables; ``None`` for an unknown value.
    """
    found: list[str] = []
    at, quoted = 0, False
    while at < len(raw):
        char = raw[at]
        if char == "~" and not quoted and (at == 0 or raw[at - 1] == ":"):
            return None  # a home folder
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
            value, at = _variable_at(raw, at, values)
            if value is None:
                return None
            found.append(value)
        else:
            found.append(char)
            at += 1
    return None if quoted else "".join(found)


def _variable_at(raw: str, at: int, values: Mapping[str, str | None]) -> tuple[str | None, int]:
    """The value of an expansion that begins with a dollar sign, and the position after it."""
    plain = VARIABLE.match(raw, at + 1)
    if plain:
        return values.get(plain[0], ""), plain.end()
    if not raw.startswith("{", at + 1):
        return (None, at + 1) if raw[at + 1 : at + 2] not in ("", " ", '"', "/", ":") else ("$", at + 1)
    end = _skip_brackets(raw, at + 1)
    inner = _BRACED.fullmatch(raw[at + 2 : end - 1])
    if inner is None:
        return None, at + 1
    name, sign, other = inner[1], inner[2] or "", inner[3] or ""
    known = values.get(name, "")
    if not sign:
        return known, end
    if name in values and known is None:
        return None, end  # it is set, or it is not
    there = bool(known) if sign.startswith(":") else name in values
    if sign.endswith("+"):
        return (_expand(other, values) if there else ""), end
    return (known if there else _expand(other, values)), end


FileTest = Callable[[str, str], bool]
"""Evaluates a test of a file: the letter of the test (``f``, ``d``, ``e``, ``x`` or ``r``) and the path."""

_ASSIGNED = regex(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_ASSIGNS = regex(r"([A-Za-z_][A-Za-z0-9_]*)(?:\+?=|:=)")
_DEFAULTS = regex(r"\$\{([A-Za-z_][A-Za-z0-9_]*):?=")
_OPENS = {"if": "fi", "for": "done", "while": "done", "until": "done", "case": "esac", "{": "}", "select": "done"}
_CLOSES = frozenset(_OPENS.values())
_INNER = frozenset({*_CLOSES, "then", "elif", "else", "do"})
_LEADS = frozenset({*_OPENS, "then", "do", "else", "elif", "!"})  # words after which a command begins
_ANYTHING = frozenset(
    {"eval", "source", ".", "exec", "trap", "alias", "command", "builtin", "conda", "unalias", "exit", "return"}
)
_NAMING = frozenset(
    {
        *("read", "declare", "typeset", "local", "readonly", "let", "printf", "mapfile", "readarray", "getopts"),
        *("export", "unset", "for"),
    }
)
_STATUS = {"true": True, ":": True, "false": False}
_OF_PROGRAM = str.maketrans("+-.", "X__")
"""How conda-forge's compiler packages turn a program into its variable: ``c++`` into ``CXX``."""
_TOOLCHAIN, _MARK = "_tc_activation", "CONDA_BACKUP_"
_PAIR = regex(r"([A-Za-z_][A-Za-z0-9_]*),(.*)", re.DOTALL)


@dataclass(slots=True)
class Shell:
    """The state of the shell that sources the scripts."""

    values: dict[str, str | None]  # the variables by name; ``None`` for an unknown value
    exported: set[str]  # the names of exported variables
    file_test: FileTest  # evaluates tests of files
    unknown: dict[str, str] = field(default_factory=dict)  # the script and line that made each unknown value
    anything: str | None = None  # the first line that may set any variable; ``None`` without one
    ended: str | None = None  # the line that exits the shell; ``None`` without one
    # names that stay unknown, because it is unknown whether they are exported or unset
    unsure: set[str] = field(default_factory=set)
    functions: dict[str, list[Token]] = field(default_factory=dict)

    def set(self, name: str, value: str | None, where: str) -> None:
        """Set a variable, and remember the line that sets an unknown value."""
        value = None if name in self.unsure else value
        self.values[name] = value
        if value is None:
            self.unknown.setdefault(name, where)
        else:
            self.unknown.pop(name, None)


def follow_script(text: str, name: str, shell: Shell) -> None:
    """Interpret one script.

    Args:
        shell: the state before the script, which is changed to the state after it.
    """
    try:
        _Script(name, shell).run(_tokens(text))
    except _ReturnError:
        return
    except (ValueError, RecursionError):
        shell.anything = shell.anything or name


class _ReturnError(Exception):
    """The script has returned."""


class _Script:
    def __init__(self, name: str, shell: Shell) -> None:
        self.name = name
        self.shell = shell

    def _where(self, token: Token) -> str:
        return f"{self.name}:{token.line}"

    def run(self, words: Sequence[Token]) -> bool | None:
        """Run a list of commands, and return the status of the last one; ``None`` if it is unknown."""
        status: bool | None = True
        joined, at = "", 0
        while at < len(words):
            token = words[at]
            if token.operator:
                joined = token.text if token.text in ("&&", "||") else ""
                at += 1
                continue
            end = self._command_end(words, at)
            follows = words[end].text if end < len(words) and words[end].operator else ""
            goes = True if not joined else status if joined == "&&" else _not(status)
            if follows in ("|", "&") or (at and words[at - 1].operator and words[at - 1].text == "|"):
                status = None  # it runs in a subshell and sets nothing here
            elif goes:
                status = self._run(words[at:end])
            elif goes is None:
                self._mark_unknown(words[at:end])
                status = None
            at = end
        return status

    def _command_end(self, words: Sequence[Token], at: int) -> int:
        """The end of the command that begins at a position."""
        first = words[at]
        if first.text == "function" or _is_function(words, at):
            brace = next((i for i in range(at, len(words)) if words[i].text == "{"), None)
            if brace is None:
                raise _UnreadableError
            return _block_end(words, brace)
        if first.text in _OPENS:
            return _block_end(words, at)
        depth = 0
        for i in range(at, len(words)):
            if words[i].text == "[[":
                depth += 1
            elif words[i].text == "]]":
                depth -= 1
            elif words[i].operator and not depth:
                if words[i].text in ("(", ")", ";;"):
                    raise _UnreadableError
                return i
        return len(words)

    def _run(self, words: Sequence[Token]) -> bool | None:
        first = words[0]
        if first.text == "function" or _is_function(words, 0):
            name = words[1].text if first.text == "function" else first.text
            brace = next(i for i, word in enumerate(words) if word.text == "{")
            self.shell.functions[name] = list(words[brace + 1 : -1])
            return True
        if first.text == "if":
            return self._if(words)
        if first.text == "{":
            return self.run(words[1:-1])
        if first.text in _OPENS:
            self._mark_unknown(words)
            return None
        return self._run_simple(words)

    def _if(self, words: Sequence[Token]) -> bool | None:
        """Run the branch that is taken; if that is unknown, all variables that any branch sets become unknown."""
        parts = _branches(words)
        for i, (condition, body) in enumerate(parts):
            taken = self.run(condition) if condition is not None else True
            if taken:
                return self.run(body)
            if taken is None:
                for other, rest in parts[i:]:
                    self._mark_unknown(rest)
                    self._mark_unknown(other or ())
                return None
        return True

    def _mark_unknown(self, words: Sequence[Token]) -> None:
        """Make every variable unknown that these words may set."""
        begins = True
        for i, token in enumerate(words):
            if token.operator:
                begins = True
                continue
            for name in _ASSIGNS.findall(token.text):
                self.shell.set(name, None, self._where(token))
            if begins and (token.text in _ANYTHING or token.text.startswith(("$", "`"))):
                self.shell.anything = self.shell.anything or self._where(token)
            if begins and token.text in self.shell.functions:
                self._mark_function(token.text, words[i:])
            if begins and token.text in _NAMING:
                self._mark_named(words[i + 1 :])
            begins = begins and token.text in _LEADS

    def _mark_named(self, words: Sequence[Token]) -> None:
        for token in words:
            if token.operator or token.text == "in":
                return
            name = token.text.partition("=")[0]
            if VARIABLE.fullmatch(name):
                self.shell.unsure.add(name)
                self.shell.set(name, None, self._where(token))

    def _mark_function(self, name: str, words: Sequence[Token]) -> None:
        """Make every variable unknown that a function of the script may set."""
        body = self.shell.functions.pop(name)  # a recursive function is visited once
        self._mark_unknown(body)
        self.shell.functions[name] = body
        if name == _TOOLCHAIN:
            self.shell.anything = self.shell.anything or self._where(words[0])

    def _run_simple(self, words: Sequence[Token]) -> bool | None:
        for word in words:
            for name in _DEFAULTS.findall(word.text):
                self.shell.set(name, None, self._where(word))
        if words[0].text in _INNER:
            raise _UnreadableError
        if words[0].text == "!":
            return _not(self._run(words[1:])) if len(words) > 1 else None
        at = 0
        while at < len(words) and (pair := _ASSIGNED.fullmatch(words[at].text)):
            if at + 1 == len(words) or all(_ASSIGNED.fullmatch(word.text) for word in words):
                self.shell.set(pair[1], self._value(pair[2]), self._where(words[at]))
            at += 1
        if at == len(words):
            return True
        words = words[at:]
        name = self._value(words[0].text)
        if name is None:
            self.shell.anything = self.shell.anything or self._where(words[0])
            return None
        return self._run_named(name, words)

    def _run_named(self, name: str, words: Sequence[Token]) -> bool | None:
        where = self._where(words[0])
        if name in ("[", "test", "[["):
            known = name == "[[" or not any(map(self._is_split, words[1:]))
            return self._test([word.text for word in words[1:] if word.text not in ("]", "]]")]) if known else None
        if name in _STATUS:
            return _STATUS[name]
        if name == "export":
            return self._export(words[1:])
        if name == "unset":
            return self._unset(words[1:])
        return self._run_other(name, words, where)

    def _run_other(self, name: str, words: Sequence[Token], where: str) -> bool | None:
        if name in ("return", "exit"):
            if name == "exit":
                self.shell.ended = self.shell.ended or where
            raise _ReturnError
        if name == _TOOLCHAIN and name in self.shell.functions:
            return self._toolchain(words[1:], where)
        if name in self.shell.functions:
            self._mark_function(name, words)
        else:
            self._mark_unknown(words)  # a program cannot change variables of the shell, but a builtin can
            if name in _ANYTHING:
                self.shell.anything = self.shell.anything or where
        return None

    def _unset(self, words: Sequence[Token]) -> bool:
        if any(word.text.startswith("-") and word.text != "-v" for word in words):
            self._mark_named(words)
            return True
        for word in words:
            self.shell.values.pop(word.text, None)
            self.shell.exported.discard(word.text)
            self.shell.unknown.pop(word.text, None)
        return True

    def _export(self, words: Sequence[Token]) -> bool:
        if any(word.text.startswith("-") for word in words):
            self._mark_unknown(words)
            self._mark_named(words)
            return True
        # The shell expands all words before it sets the first variable.
        pairs = [(word, _ASSIGNED.fullmatch(word.text)) for word in words]
        values = [self._value(pair[2]) if pair else None for _, pair in pairs]
        for (word, pair), value in zip(pairs, values, strict=True):
            if pair:
                self.shell.set(pair[1], value, self._where(word))
                self.shell.exported.add(pair[1])
            elif VARIABLE.fullmatch(word.text):
                self.shell.exported.add(word.text)
            else:
                self.shell.anything = self.shell.anything or self._where(word)
        return True

    def _toolchain(self, words: Sequence[Token], where: str) -> bool | None:
        """Run the function of conda-forge's compiler packages: it takes ``NAME,value`` pairs, or programs."""
        if not any(_MARK in token.text for token in self.shell.functions[_TOOLCHAIN]):
            self._mark_function(_TOOLCHAIN, words or [Token(text=_TOOLCHAIN, line=0)])
            return None
        told = [self._value(word.text) for word in words]
        prefix = ""
        if told[:1] == ["activate"] and told[1:]:
            prefix, told, words = told[1] or "", told[2:], words[2:]
        root = self.shell.values.get("CONDA_PREFIX") or ""
        for word, value in zip(words, told, strict=True):
            raw = _PAIR.match(word.text.lstrip("\"'"))
            pair = _PAIR.fullmatch(value) if value is not None else None
            if pair or raw:
                name, given = (pair[1], pair[2]) if pair else (raw[1] if raw else "", None)
            elif value is not None and prefix and VARIABLE.fullmatch(value.translate(_OF_PROGRAM)):
                name, given = value.translate(_OF_PROGRAM).upper(), f"{root}/bin/{prefix}{value}"
                if not self.shell.file_test("x", given):
                    return False
            else:
                self.shell.anything = self.shell.anything or where
                continue
            self.shell.set(name, given, where)
            self.shell.exported.add(name)
        return True

    def _is_split(self, word: Token) -> bool:
        """Whether an unquoted word may expand to no word or to several."""
        value = self._value(word.text) if "$" in word.text and not word.text.startswith('"') else "plain"
        return not value or value != "".join(value.split()) or bool(re.search(r"[*?\[]", value))

    def _value(self, raw: str) -> str | None:
        return _expand(raw, self.shell.values)

    def _test(self, words: list[str]) -> bool | None:
        for joint in ("||", "&&", "-o", "-a"):
            if joint in words:
                at = words.index(joint)
                left, right = self._test(words[:at]), self._test(words[at + 1 :])
                if joint in ("||", "-o"):
                    return True if left or right else None if left is None or right is None else False
                return False if left is False or right is False else None if left is None or right is None else True
        if words and words[0] == "!":
            return _not(self._test(words[1:]))
        if len(words) == 2 and words[0] == "-v":
            return self.shell.values.get(words[1]) is not None or (None if words[1] in self.shell.values else False)
        told = [self._value(word) for word in words]
        if None in told or not 0 < len(told) <= 3:
            return None
        return self._compare(words, [item or "" for item in told])

    def _compare(self, raw: list[str], told: list[str]) -> bool | None:
        if len(told) == 1:
            return bool(told[0])
        if len(told) == 2:
            if raw[0] in ("-n", "-z"):
                return bool(told[1]) == (raw[0] == "-n")
            asked = raw[0][1:]
            return self.shell.file_test(asked, told[1]) if len(asked) == 1 and asked in "defrx" else None
        left, sign, right = told
        if sign in ("=", "==", "!=") and not re.search(r"[*?\[]", raw[2]):
            return (left == right) == (sign != "!=")
        return None


def _not(status: bool | None) -> bool | None:
    return None if status is None else not status


def _is_function(words: Sequence[Token], at: int) -> bool:
    return [token.text for token in words[at + 1 : at + 3]] == ["(", ")"]


def _block_end(words: Sequence[Token], at: int) -> int:
    """The position after the block that begins at a position."""
    stack: list[str] = []
    begins = True
    for i in range(at, len(words)):
        token = words[i]
        if token.operator:
            begins = True
            continue
        if begins and token.text in _OPENS:
            stack.append(_OPENS[token.text])
        elif begins and token.text in _CLOSES:
            if not stack or stack.pop() != token.text:
                raise _UnreadableError
            if not stack:
                return i + 1
        begins = begins and token.text in _LEADS - {"for", "case", "select"}
    raise _UnreadableError


def _branches(words: Sequence[Token]) -> list[tuple[Sequence[Token] | None, Sequence[Token]]]:
    """The conditions of an ``if`` with their branches; the condition of ``else`` is ``None``."""
    marks: list[tuple[str, int]] = [("if", 0)]
    at, begins = 1, True
    while at < len(words) - 1:
        token = words[at]
        if begins and token.text in _OPENS:
            at, begins = _block_end(words, at), False
            continue
        if begins and token.text in ("then", "elif", "else"):
            marks.append((token.text, at))
        else:
            begins = token.operator
        at += 1
    marks.append(("fi", len(words) - 1))
    found: list[tuple[Sequence[Token] | None, Sequence[Token]]] = []
    condition: Sequence[Token] | None = None
    for (word, start), (_, end) in pairwise(marks):
        inner = words[start + 1 : end]
        if word in ("if", "elif"):
            condition = inner
        else:
            found.append((condition if word == "then" else None, inner))
    return found
