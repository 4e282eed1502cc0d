"""The shell commands of a file: their words, and what they install in each environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TypeAlias

from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, requirement_name
from cuenv.solve.match_spec import parse_spec

REST_OF_COMMAND = r"(?:[^\n;&|\\]|\\\r?\n(?:[ \t]*\r?\n)*|\\.)*"
"""The rest of a command: to the end of the line, over lines that it goes on, and what was a comment between them."""
PIP = regex(rf"\bpip(?:[0-9.]*(?:\s+--?[a-z][\w=-]*)*\s+(?:install|sync)|-sync)\b(?P<rest>{REST_OF_COMMAND})")
_FALLBACK = regex(r"\|\|[^;&|\n]*(?:\\\r?\n[^;&|\n]*)*\Z")
"""What stands before a command that runs only where the one before it failed."""
NO_DEPS = regex(r"\s--no-dep(?:endencie)?s\b")
WORD = regex(r"\"[^\"\n]*\"|'[^'\n]*'|[^\s\\]+")
_COMMENT = regex(r"(?P<kept>\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|\\.)|(?<![^\s;&|()])#[^\r\n]*")


def without_comments(text: str) -> str:
    """Shell code with blanks for its comments, so that every other character keeps its place."""
    return _COMMENT.sub(lambda found: found["kept"] or " " * len(found[0]), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommands:
    """Shell commands without comments, their place in the file, and the variables that are set before them."""

    text: str
    at: int
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word of a command; not ``literal`` if it contained a variable, so that no edit may replace it."""

    text: str
    start: int
    end: int
    quoted: bool
    literal: bool = True


_INDEX_VARIABLES = {
    "PIP_INDEX_URL": "--index-url",
    "PIP_EXTRA_INDEX_URL": "--extra-index-url",
    "PIP_FIND_LINKS": "--find-links",
    "UV_DEFAULT_INDEX": "--index-url",
    "UV_INDEX": "--extra-index-url",
}
_INDEX_OPTION = regex(r"(-i|--index-url|--extra-index-url|-f|--find-links|--index|--default-index)(?:=(.+))?")


def requirement_lists(words: Sequence[Word]) -> Iterator[Word]:
    """The requirements files that a pip command names."""
    before = ""
    for word, after in zip_longest(words, words[1:]):
        found = _LIST_OPTION.fullmatch(word.text)
        if found and found[1]:
            yield replace(word, text=found[1])
        elif found and after:
            yield after
        elif _SYNC_FILE.search(word.text) and not (PIP_VALUED.fullmatch(before) or before.endswith((">", "<"))):
            yield word
        before = word.text


def indexes_of_variables(run: ShellCommands) -> Iterator[str]:
    """The indexes that variables name, as options in a requirements file."""
    for name, option in _INDEX_VARIABLES.items():
        if run.variables.get(name):
            yield f"{option} {run.variables[name]}"


def index_options(words: Sequence[Word]) -> Iterator[str]:
    """The options of pip and uv that name an index, as in a requirements file."""
    for word, after in zip_longest(words, words[1:]):
        option = _INDEX_OPTION.fullmatch(word.text)
        value = option[2] if option and option[2] else after.text if option and after else ""
        if option and value:
            name = {"--index": "--extra-index-url", "--default-index": "--index-url"}.get(option[1], option[1])
            yield f"{name} {value}"


ListReader: TypeAlias = "Callable[[str], tuple[str, ...] | None]"
"""The lines of a list of requirements by the name that a command has for it; ``None`` where it cannot be read."""
_SYNC_FILE = regex(r"\A[\w.$/{}][^<>|]*\.(?:txt|toml|lock)\Z")
"""A requirements file that pip-sync and ``uv pip sync`` name without an option."""
_LIST_OPTION = regex(r"(?:-r|--requirements?)(?:=?([^=\s]\S*))?")
CONDA = regex(rf"(?<![\w.-])(?:conda|mamba|micromamba)\s+(?:install|create)\b(?P<rest>{REST_OF_COMMAND})")
_CHANNEL_CONFIG = regex(
    r"(?<![\w.-])(?:conda|mamba|micromamba)\s+config\s[^\n;&|]*?--(?P<how>add|prepend|append)\s+channels\s+(?P<channel>[^\s;&|]+)"
)
_CONDA_VALUED = regex(r"-[cnpfr]|--(?:channel|name|prefix|file|solver|platform|subdir|root-prefix|revision|rc-file)")
PIP_VALUED = regex(
    r"-[rcCifpteb]|--(?:requirements?|(?:build-)?constraints?|overrides?|excludes?|(?:extra-)?index-url|(?:default-)?index"
    r"|find-links|target|prefix|root|editable|config-settings?|trusted-host|python|timeout|retries|resume-retries"
    r"|exclude-newer|torch-backend|index-strategy|link-mode|resolution|prerelease|platform|python-(?:version|platform)"
    r"|cache-dir|no-build-isolation-package|no-binary(?:-package)?|only-binary|upgrade-strategy|progress-bar)"
)
"""The options that a value follows."""
_NOT_A_PACKAGE = regex(r"[$`{}()]|://|^[./~-]|\.(?:ya?ml|txt|conda|bz2|whl|lock)$")
"""What is not a valid name of a package by itself: a variable, a path, a URL, a file."""
_VARIABLE = regex(
    r"\$(?:\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)(?::?-(?P<default>[^}$`]*))?\}|(?P<bare>[A-Za-z_][A-Za-z0-9_]*))"
)


def expand_variables(text: str, variables: Mapping[str, str]) -> str:
    """A text with the values of known variables; others stay as they are written."""

    def value(found: re.Match[str]) -> str:
        known = variables.get(found["braced"] or found["bare"])
        return next((text for text in (known, found["default"]) if text is not None), found[0])

    return _VARIABLE.sub(value, text)


@dataclass(slots=True, kw_only=True)
class InstallCommand:
    """What commands install in one environment, over all commands that name it."""

    at: int
    channels: dict[str, int] = field(default_factory=dict)
    pins: list[tuple[Pin, Word]] = field(default_factory=list)
    pip: list[Word] = field(default_factory=list)
    indexes: list[str] = field(default_factory=list)

    def spec(self) -> EnvironmentSpec:
        """The request as an environment file."""
        pins = tuple(dict.fromkeys(pin for pin, _ in self.pins))
        pip = tuple(dict.fromkeys([*self.indexes, *(word.text for word in self.pip)]))
        return EnvironmentSpec(name="", channels=tuple(self.channels), pins=pins, pip=pip)


def install_commands(parts: Iterable[ShellCommands]) -> tuple[InstallCommand, ...]:
    """What commands install in each environment; the pip part belongs to the only one."""
    found: dict[str, InstallCommand] = {}
    configured: dict[str, int] = {}
    pip: list[Word] = []
    indexes: list[str] = []
    for part in parts:
        for item in _CHANNEL_CONFIG.finditer(part.text):
            one = {item["channel"].strip("'\""): part.at + item.start("channel")}
            configured = {**configured, **one} if item["how"] == "append" else {**one, **configured}
        for item in CONDA.finditer(part.text):
            _add_conda_command(item, part, found)
        for item in PIP.finditer(part.text):
            if not _FALLBACK.search(part.text, 0, item.start()):
                words = command_words(item, part)
                named = list(package_words(words, PIP_VALUED))
                pip += named
                if any(requirement_name(word.text) == "torch" for word in named):
                    indexes += [*indexes_of_variables(part), *index_options(words)]
    for asked in found.values():
        asked.channels = asked.channels or configured
    if not found:
        found[""] = InstallCommand(at=pip[0].start if pip else 0)
    if len(found) == 1:
        only = next(iter(found.values()))
        only.pip, only.indexes = pip, indexes
    return tuple(found.values())


def _add_conda_command(item: re.Match[str], part: ShellCommands, found: dict[str, InstallCommand]) -> None:
    words = command_words(item, part)
    values: dict[str, list[Word]] = {}
    for word, after in zip_longest(words, words[1:]):
        option, equals, value = word.text.partition("=")
        if _CONDA_VALUED.fullmatch(word.text) and after:
            values.setdefault(word.text, []).append(after)
        elif equals and _CONDA_VALUED.fullmatch(option):
            values.setdefault(option, []).append(replace(word, text=value))
    named = [word for key in ("-n", "--name", "-p", "--prefix") for word in values.get(key, ())]
    asked = found.setdefault(named[-1].text if named else "", InstallCommand(at=part.at + item.start()))
    for word in sorted((*values.get("-c", ()), *values.get("--channel", ())), key=lambda item: item.start):
        for channel in word.text.split(","):
            asked.channels.setdefault(channel, word.start)
    for word in package_words(words, _CONDA_VALUED):
        pin = _parse_pin(word.text)
        if pin:
            asked.pins.append((pin, word))


def _parse_pin(text: str) -> Pin | None:
    try:
        return parse_spec(text)
    except ValueError:
        return None


def command_words(command: re.Match[str], part: ShellCommands) -> list[Word]:
    """The words after the name of a command, with the values of known variables."""
    found, at = [], part.at + command.start("rest")
    for item in WORD.finditer(command["rest"]):
        quoted = item[0][:1] in ("'", '"')
        bare = item[0][1:-1] if quoted else item[0]
        text = bare if item[0][:1] == "'" else expand_variables(bare, part.variables)
        literal = text == bare
        found.append(Word(text=text, start=at + item.start(), end=at + item.end(), quoted=quoted, literal=literal))
    return found


def package_words(words: list[Word], valued: re.Pattern[str]) -> Iterator[Word]:
    """The words that name packages; a bare ``<`` or ``>`` is a redirection of the shell."""
    skip = False
    for word in words:
        if skip or word.text.startswith("-"):
            skip = not skip and valued.fullmatch(word.text) is not None
            continue
        redirects = not word.quoted and any(mark in word.text for mark in "<>")
        if not redirects and word.text and not _NOT_A_PACKAGE.search(word.text):
            yield word
