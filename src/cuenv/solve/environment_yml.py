"""``environment.yml`` (CEP 24), in the subset that conda, micromamba and conda-lock read alike."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cuenv.core.errors import InputError
from cuenv.core.reading import Faults, Reader, describe
from cuenv.core.record import replace
from cuenv.core.regex import VARIABLE, regex
from cuenv.core.urls import blanked
from cuenv.core.yaml_write import quote, scalar
from cuenv.solve.environment_spec import WRITTEN_BY, EnvironmentSpec, Pin, check_name, check_platform

_WIDTH = 100
_KEYS = ("name", "prefix", "channels", "platforms", "dependencies", "variables", "category")
# micromamba's selectors by operating system, of which cuenv's platforms have only the first two (CEP 24).
_SYSTEMS = {"sel(linux)": True, "sel(unix)": True, "sel(osx)": False, "sel(win)": False}

_OF_CPU = regex(r"(?<![a-z0-9])cpu(?:only)?(?![a-z0-9])")

_ONE_COLON = regex(r"\s*([A-Za-z][\w.-]*):(?=[A-Za-z_])")
_FOLDER = regex(r"[/~.]|[A-Za-z]:[\\/]")

SELECTOR = regex(r"(?P<entry>[ \t]*-[ \t]+[^\s#].*?)[ \t]+#[^\n\[]*\[(?P<what>[a-z0-9]+)\][^()\n]*$", re.MULTILINE)
"""An entry with a selector of conda-lock in its comment."""
OTHER_SYSTEMS = ("osx", "osx64", "arm64", "win", "win64")


def render(spec: EnvironmentSpec) -> str:
    """Write an environment file: the same bytes for the same value.

    Comments stand on lines of their own. `nodefaults` is never written: conda takes it for a channel.
    """
    lines = [*_comments(spec.header, "")]
    if spec.name:
        lines.append(f"name: {scalar(spec.name)}")
    lines += _list("channels", (channel for channel in spec.channels if channel != "nodefaults"))
    lines += _list("platforms", spec.platforms)
    lines.append("dependencies:" if spec.pins or spec.pip else "dependencies: []")
    for pin in spec.pins:
        role = (f"role: {pin.role}",) if pin.role else ()
        lines += [*_comments((*role, *pin.why), "  "), f"  - {scalar(pin.yaml_text())}"]
    if spec.pip:
        lines += ["  - pip:", *(f"      - {quote(text)}" for text in (*spec.constrained, *spec.pip))]
    if spec.variables:
        lines += ["variables:", *(f"  {scalar(key)}: {quote(value)}" for key, value in sorted(spec.variables.items()))]
    return "\n".join(lines) + "\n"


def render_list(spec: EnvironmentSpec) -> str:
    """Write the pip part of an environment as a list of requirements."""
    return "\n".join([*_comments(spec.header, ""), *spec.constrained, *spec.pip]) + "\n"


def _list(key: str, items: Iterable[str]) -> list[str]:
    written = [f"  - {scalar(item)}" for item in items]
    return [f"{key}:", *written] if written else []


def _comments(texts: Iterable[str], indent: str) -> list[str]:
    lines: list[str] = []
    for text in texts:
        clean = blanked(text)
        lead = f"{indent}# "
        room = _WIDTH - len(lead)
        whole = len(clean) <= room or clean.startswith("  ")  # what is indented is a command, to be copied
        wrapped = [clean] if whole else _filled(clean, room)
        lines += [(lead + line).rstrip() for line in wrapped]
    return lines


def _filled(text: str, room: int) -> list[str]:
    """A text on lines of at most so many characters, if its words allow it."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".lstrip()
    return lines


_MOST_TEXT, _MOST = 1 << 20, 10_000
"""Characters and dependencies of an environment file; whole exported environments have some hundreds."""


def parse(text: str, source: str) -> tuple[EnvironmentSpec, tuple[str, ...]]:
    """Read an environment file that anyone may have written.

    Returns:
        the environment, and warnings: what was ignored or means something else to another client.

    Raises:
        InputError: all faults of the file at once, each with its place.
    """
    from cuenv.core.yaml_read import load  # noqa: PLC0415 - writing, as `cuenv resolve` does, needs no YAML library

    if len(text) > _MOST_TEXT:
        message = f"{source}: {len(text)} characters, but an environment file can have at most {_MOST_TEXT}"
        raise InputError(message, hint="name the packages that you import; the solver adds what those need")
    faults = Faults(source)
    text, warnings = of_linux(text)
    data = load(text, source)
    listed = data.get("dependencies") if isinstance(data, dict) else None
    if isinstance(listed, list) and len(listed) > _MOST:
        message = f"{source}: dependencies: {len(listed)} entries, but at most {_MOST} are allowed"
        raise InputError(message, hint="name the packages that you import; the solver adds what those need")
    if not isinstance(data, dict):
        what = "the file is empty; it" if data is None else f"expected a mapping, got {describe(data)}; the file"
        faults.add("", f"{what} needs 'dependencies:'")
        faults.check(hint="cuenv resolve -o environment.yml")
    spec, warnings = _EnvironmentParser(data, warnings, faults).spec()
    of_cpu = _OF_CPU.search(source.rpartition("/")[2].lower()) is not None
    return replace(spec, ours=text.startswith(WRITTEN_BY), of_cpu=of_cpu), warnings


class _EnvironmentParser:
    """Reads one document, and collects its faults and warnings."""

    def __init__(self, data: Any, warnings: Iterable[str], faults: Faults) -> None:
        self.reader = Reader(data, faults)
        self.data: Mapping[Any, Any] = data if isinstance(data, dict) else {}
        self.faults = faults
        self.names: set[str] = set()
        self.warnings = [
            *warnings,
            *(f"{key}: ignored, because environment files have no such key" for key in self._unknown()),
        ]
        if self.reader.has("prefix"):
            self.warnings.append("prefix: ignored; the place of an environment is an option of the client")

    def _unknown(self) -> list[str]:
        return [ascii(key)[:60] for key in self.data if key not in _KEYS]

    def spec(self) -> tuple[EnvironmentSpec, tuple[str, ...]]:
        name = self._name()
        self.reader.get("category", str)
        channels = self._unique("channels", _channel)
        if "nodefaults" in channels:
            self.warnings.append("channels: 'nodefaults': conda's default channels are not added")
            if set(channels) == {"nodefaults"}:
                self.faults.add("channels", "'nodefaults' alone leaves no channel: name one, such as conda-forge")
        platforms = self._unique("platforms", check_platform)
        pins, pip = self._dependencies()
        variables = self._variables()
        self.faults.check(hint=f"cuenv lint {shlex.quote(self.faults.source)}")
        return (
            EnvironmentSpec(
                name=name,
                channels=tuple(channel for channel in channels if channel != "nodefaults"),
                pins=pins,
                platforms=platforms,
                pip=pip,
                variables=variables,
                prefix=prefix if isinstance(prefix := self.data.get("prefix"), str) else "",
                nodefaults="nodefaults" in channels,
            ),
            tuple(self.warnings),
        )

    def _name(self) -> str:
        """The name; an export of an environment in a folder has the folder in its place."""
        written = self.data.get("name")
        if isinstance(written, str) and written.isprintable() and _FOLDER.match(written):
            self.warnings.append(f"name: {describe(written)} is a path, not a name, and is ignored")
            return ""
        return self.reader.parsed("name", check_name) or ""

    def _unique(self, key: str, parse: Callable[[str], str]) -> tuple[str, ...]:
        items = self.reader.parsed_list(key, parse)
        self.warnings += [
            f"{key}: {describe(item)} appears twice" for item, count in Counter(items).items() if count > 1
        ]
        return tuple(dict.fromkeys(items))

    def _dependencies(self) -> tuple[tuple[Pin, ...], tuple[str, ...]]:
        pins: dict[Pin, None] = {}
        pip: dict[str, None] = {}
        listed = self.reader.get("dependencies", list, required=True) or ()
        for index, item in enumerate(listed):
            path = f"dependencies[{index}]"
            if isinstance(item, dict):
                self._section(item, path, pins, pip)
            elif item is None and any(listed):
                self._empty(path)
            else:
                self._pin(item, path, pins)
        if pip and "pip" not in self.names:
            self.warnings.append("dependencies: pip is missing beside its requirements, so it is added, as conda does")
        return tuple(pins), tuple(pip)

    def _pin(self, item: object, path: str, pins: dict[Pin, None]) -> None:
        if type(item) is not str:
            number = "; a number alone is not a package" if type(item) in (int, float) else ""
            self.faults.add(path, f"expected a string such as python=3.12, got {describe(item)}{number}")
            return
        from cuenv.solve.match_spec import EXTRAS, SWAPPED, parse_spec  # noqa: PLC0415 - as load above: writing needs no patterns

        two = two_colons(item)
        if two:
            self.warnings.append(f"{path}: {describe(item)} is read as {two}; conda passes over what one colon follows")
        try:
            pin = parse_spec(two or item)
        except ValueError as error:
            self.faults.add(path, str(error))
            return
        if any(operator in item for operator in SWAPPED):
            self.warnings.append(f"{path}: {describe(item)} is read as conda does: {pin.yaml_text()}")
        if extras := EXTRAS.search(item):
            self.warnings.append(f"{path}: {extras[0]} has no effect, because only pip has extras")
        if pin in pins:
            self.warnings.append(f"{path}: {describe(item)} appears twice")
        elif pin.name in self.names:
            self.warnings.append(f"{path}: {pin.name!r} has another requirement above; both apply")
        self.names.add(pin.name)
        pins[pin] = None

    def _section(self, item: dict[Any, Any], path: str, pins: dict[Pin, None], pip: dict[str, None]) -> None:
        for key, value in item.items():
            if key == "pip":
                if value is not None:
                    self._pip(value, f"{path}.pip", pip)
            elif key in _SYSTEMS:
                if _SYSTEMS[key]:
                    self._pin(value, f"{path}.{key}", pins)
                else:
                    self.warnings.append(f"{path}: ignored, because {key} is not Linux")
            elif isinstance(value, (str, int, float)):
                self.faults.add(path, f"expected a string, got a mapping; write '- {ascii(key)[1:-1]}=VERSION'")
            else:
                self.faults.add(path, f"unknown section {describe(key)}; the only section is 'pip'")

    def _pip(self, value: object, path: str, pip: dict[str, None]) -> None:
        if not isinstance(value, list):
            self.faults.add(path, f"expected a list, got {describe(value)}")
            return
        for index, item in enumerate(value):
            where = f"{path}[{index}]"
            if item is None:
                self._empty(where)
            elif type(item) is not str:
                self.faults.add(where, f"expected a string, got {describe(item)}")
            elif not item.strip() or not item.isprintable():
                self.faults.add(where, f"expected a requirement on one line, got {describe(item)}")
            else:
                if item.strip() in pip:
                    self.warnings.append(f"{where}: {describe(item)} appears twice")
                pip[item.strip()] = None

    def _empty(self, path: str) -> None:
        """A dash with nothing but a comment: what is left of an entry that somebody commented out."""
        self.warnings.append(f"{path}: ignored, because nothing follows the dash; conda does not skip such an entry")

    def _variables(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, value in (self.reader.get("variables", dict) or {}).items():
            path = f"variables.{key}" if isinstance(key, str) and key.isprintable() else f"variables[{describe(key)}]"
            if not isinstance(key, str) or not VARIABLE.fullmatch(key):
                self.faults.add(path, "expected a name of letters, digits and '_'")
            elif isinstance(value, str):
                found[key] = value
            elif isinstance(value, (bool, int, float)):
                found[key] = str(value)
                self.warnings.append(f"{path}: {value!r} is read as the text {str(value)!r}; put it in quotes")
            else:
                self.faults.add(path, f"expected a string, got {describe(value)}")
        return found


def two_colons(entry: str) -> str:
    """An entry whose channel one colon follows (``pytorch:pytorch=2.1``), with two; empty for any other."""
    found = _ONE_COLON.match(entry)
    return f"{found[1]}::{entry[found.end() :]}" if found else ""


def of_linux(text: str) -> tuple[str, tuple[str, ...]]:
    """A file without the entries that a selector of conda-lock (``# [win]``) keeps for other systems than Linux.

    conda-lock obeys such a comment, conda and micromamba install the entry everywhere. Lines keep their numbers.

    Returns:
        the text, and a warning for each line that was left out.
    """
    lines, warnings = text.split("\n"), []
    for number, line in enumerate(lines):
        found = SELECTOR.match(line)
        if found and found["what"] in OTHER_SYSTEMS:
            lines[number] = ""
            warnings.append(f"line {number + 1}: left out, because [{found['what']}] selects another system than Linux")
    return "\n".join(lines), tuple(warnings)


def _channel(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError(f"expected a channel, got {describe(text)}")
    name = text.strip()
    if _FOLDER.match(name):  # for conda it is a folder; as a name, a server would be asked for it
        there = f"file://{name}" if name.startswith("/") else "file:// and its whole path"
        raise ValueError(f"{describe(name)} is a folder of this machine: write {there}")
    return name
