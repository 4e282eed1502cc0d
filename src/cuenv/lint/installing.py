"""What commands ask conda and pip for, judged as an environment file with the same entries would be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from cuenv.core.findings import Finding
from cuenv.knowledge.base import Knowledge
from cuenv.lint import Edit, Lint
from cuenv.lint.commands import ON, PIP, WORD
from cuenv.lint.environment_file import frozen_finding, post_link_finding
from cuenv.lint.tree import WRITE
from cuenv.resolver.policy import REPAIR, spec_findings
from cuenv.resolver.requirements import pip_demand
from cuenv.solve.environment_spec import NVCC, EnvironmentSpec, Pin
from cuenv.solve.match_spec import parse_spec

_CONDA = re.compile(rf"(?<![\w./-])(?:conda|mamba|micromamba)\s+(?:install|create)\b(?P<rest>{ON})")
_CONFIG = re.compile(
    r"(?<![\w./-])(?:conda|mamba|micromamba)\s+config\s[^\n;&|]*?--(?P<how>add|prepend|append)\s+channels\s+(?P<channel>[^\s;&|]+)"
)
_VALUED = re.compile(
    r"-[cnpfr]|--(?:channel|name|prefix|file|solver|platform|subdir|root-prefix|revision|rc-file)",
)
_PIP_VALUED = re.compile(
    r"-[rcifte]|--(?:requirement|constraint|index-url|extra-index-url|find-links|target|prefix|root|editable"
    r"|config-settings|trusted-host)"
)
"""The options that a value follows."""
_FOREIGN = re.compile(r"[$`{}()]|://|^[./~-]|\.(?:ya?ml|txt|conda|bz2|whl|lock)$")
"""What is no name of a package by itself: a variable, a path, a URL, a file."""

_ELSEWHERE = ("CU503", "CU504")
"""Requirements of pip are judged where they stand; what a compilation finds is the image's as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    text: str
    start: int
    end: int
    quoted: bool


@dataclass(slots=True, kw_only=True)
class InstallCommand:
    """What one environment is asked for, over all commands that name it."""

    at: int
    channels: dict[str, int] = field(default_factory=dict)
    pins: list[tuple[Pin, _Word]] = field(default_factory=list)
    pip: list[_Word] = field(default_factory=list)

    def spec(self) -> EnvironmentSpec:
        """The same as an environment file."""
        pins = tuple(dict.fromkeys(pin for pin, _ in self.pins))
        pip = tuple(dict.fromkeys(word.text for word in self.pip))
        return EnvironmentSpec(name="", channels=tuple(self.channels), pins=pins, pip=pip)


def asked_in(parts: Iterable[tuple[str, int]]) -> tuple[InstallCommand, ...]:
    """What commands ask for, each environment by itself; pip's part belongs to the only one.

    Args:
        parts: commands without comments, and where they stand in the file.
    """
    found: dict[str, InstallCommand] = {}
    configured: dict[str, int] = {}
    pip: list[_Word] = []
    for text, at in parts:
        for item in _CONFIG.finditer(text):
            one = {item["channel"].strip("'\""): at + item.start("channel")}
            configured = {**configured, **one} if item["how"] == "append" else {**one, **configured}
        for item in _CONDA.finditer(text):
            _conda(item, at, found)
        for item in PIP.finditer(text):
            pip += _packages(_words(item["rest"], at + item.start("rest")), _PIP_VALUED)
    for asked in found.values():
        asked.channels = asked.channels or configured
    if not found:
        found[""] = InstallCommand(at=pip[0].start if pip else 0)
    if len(found) == 1:
        next(iter(found.values())).pip = pip
    return tuple(found.values())


def _conda(item: re.Match[str], at: int, found: dict[str, InstallCommand]) -> None:
    words = _words(item["rest"], at + item.start("rest"))
    values: dict[str, list[_Word]] = {}
    for word, after in zip(words, [*words[1:], None], strict=True):
        option, equals, value = word.text.partition("=")
        if _VALUED.fullmatch(word.text) and after:
            values.setdefault(word.text, []).append(after)
        elif equals and _VALUED.fullmatch(option):
            values.setdefault(option, []).append(replace(word, text=value))
    named = [word for key in ("-n", "--name", "-p", "--prefix") for word in values.get(key, ())]
    asked = found.setdefault(named[-1].text if named else "", InstallCommand(at=at + item.start()))
    for word in sorted((*values.get("-c", ()), *values.get("--channel", ())), key=lambda item: item.start):
        for channel in word.text.split(","):
            asked.channels.setdefault(channel, word.start)
    for word in _packages(words, _VALUED):
        pin = _pin(word.text)
        if pin:
            asked.pins.append((pin, word))


def _pin(text: str) -> Pin | None:
    try:
        return parse_spec(text)
    except ValueError:
        return None


def _words(text: str, at: int) -> list[_Word]:
    found = []
    for item in WORD.finditer(text):
        quoted = item[0][:1] in ("'", '"')
        bare = item[0][1:-1] if quoted else item[0]
        found.append(_Word(text=bare, start=at + item.start(), end=at + item.end(), quoted=quoted))
    return found


def _packages(words: list[_Word], valued: re.Pattern[str]) -> Iterator[_Word]:
    """The words that name packages; a bare ``<`` or ``>`` is a redirection of the shell."""
    skip = False
    for word in words:
        if skip or word.text.startswith("-"):
            skip = not skip and valued.fullmatch(word.text) is not None
            continue
        redirects = not word.quoted and any(mark in word.text for mark in "<>")
        if not redirects and word.text and not _FOREIGN.search(word.text):
            yield word


def install_lints(asked: InstallCommand, knowledge: Knowledge) -> Iterator[Lint]:
    """The laws of environment files on what commands ask for, each at the word that it is about."""
    if not asked.pins:
        return
    spec = asked.spec()
    laws = list(spec_findings(spec, knowledge))
    frozen = frozen_finding(spec, knowledge)
    laws += [frozen] if frozen else []
    judged = {finding.subject for finding in laws if finding.code == "CU110"}
    for pin, word in asked.pins:
        late = post_link_finding(pin.name, word.text, knowledge) if pin.name not in judged else None
        laws += [late] if late else []
    for finding in laws:
        if finding.code not in _ELSEWHERE:
            yield _placed(asked, replace(finding, fix="cuenv lock --resolve") if finding.fix == REPAIR else finding)


def _placed(asked: InstallCommand, finding: Finding) -> Lint:
    subject = finding.subject.split(", ")[0]
    meant = [(pin, word) for pin, word in asked.pins if pin.name == subject]
    exact = [item for item in meant if finding.message.startswith(f"{item[0].yaml_text()} ")]
    for _, word in [*exact, *meant]:
        edits: tuple[Edit, ...] = ()
        if finding.fix and finding.fix.startswith(WRITE) and finding.subject == subject:
            better = finding.fix.removeprefix(WRITE)
            edits = () if '"' in better else (Edit(start=word.start, end=word.end, text=f'"{better}"'),)
        return Lint(finding=finding, at=word.start, edits=edits)
    of_pip = [word for word in asked.pip if word.text in finding.message]
    if of_pip:
        return Lint(finding=finding, at=of_pip[0].start)
    return Lint(finding=finding, at=next(iter(asked.channels.values()), asked.at))


def compiles_later(asked: Iterable[InstallCommand], knowledge: Knowledge) -> _Word | None:
    """The first library that compiles with nvcc at its first use or installation, where no command brings one."""
    several = tuple(asked)
    brought = {pin.name for one in several for pin, _ in one.pins} & (set(NVCC) - {"cudatoolkit-dev"})
    if brought:
        return None
    for one in several:
        for pin, word in one.pins:
            if _needs_nvcc(pin.name, ("conda-forge", "pytorch"), knowledge):
                return word
        for word in one.pip:
            demand = pip_demand(word.text)
            if demand and _needs_nvcc(demand.name, ("wheel", "source"), knowledge):
                return word
    return None


def _needs_nvcc(name: str, ways: tuple[str, ...], knowledge: Knowledge) -> bool:
    rows = [row for row in knowledge.extensions if row.package == name and set(row.comes) & set(ways)]
    return bool(rows) and all(row.nvcc for row in rows)
