"""Settings that stand for options: which there are, how they are read strictly, and which of several counts.

The command line goes before ``CUENV_*`` variables, those before the project's file, that before the default. A value
replaces the one below it; lists are never joined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from cuenv.core.errors import UsageError
from cuenv.core.reading import FALSE, TRUE, Faults, Reader, describe
from cuenv.core.record import dataclass, field
from cuenv.core.urls import printable, redact
from cuenv.core.versions import check_driver, parse_version_spec
from cuenv.host.facts import glibc
from cuenv.host.request import PREFER, one_of
from cuenv.knowledge.rows import EVERY_STACK, PLATFORMS
from cuenv.solve import ENGINES

Value: TypeAlias = "str | bool | tuple[str, ...] | None"

COLOURS = ("auto", "always", "never")
HINT = "--no-config, or CUENV_NO_CONFIG=1, ignores the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A value and its source."""

    name: str  # as in the file
    value: Value = field(repr=False)  # a mirror may hold credentials
    origin: str  # ``cuenv.toml: gpus``, ``CUENV_GPU``, ``default``

    def shown(self) -> Value:
        """The value without credentials, for people and JSON."""
        if isinstance(self.value, tuple):
            return tuple(redact(item) for item in self.value)
        return redact(self.value) if isinstance(self.value, str) else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A setting that exists."""

    flag: str = ""  # the option it stands for; empty for none
    variable: str = ""
    type: type = str  # ``str``, ``bool``, ``tuple``, or ``int`` for a number, which is kept as its text
    default: Value = None  # what counts when nobody says anything
    check: Callable[[str], object] = str  # raises ValueError or UsageError for a text that it is not
    # what of a text from a file is a path beside the file: ``always``, ``path`` (when it looks like one), ``target``
    # (what stands behind ``FROM=``); empty for nothing
    place: str = ""


def _check_seconds(text: str) -> None:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text)):
        raise ValueError(f"expected seconds from 1 to 99999, got {describe(text)}")


def _version_checker(what: str) -> Callable[[str], object]:
    return lambda text: parse_version_spec(text, what=what)


def _check_mirror(text: str) -> None:
    origin, mark, target = text.partition("=")
    if not (origin.strip() and mark and target.strip()):
        raise ValueError(f"expected FROM=TO, got {describe(redact(text))}")


KINDS: Mapping[str, Kind] = {
    "profile": Kind(flag="--profile", variable="CUENV_PROFILE", place="path"),
    "stack": Kind(flag="--stack", variable="CUENV_STACK", check=one_of(*EVERY_STACK)),
    "pytorch": Kind(flag="--pytorch", variable="CUENV_PYTORCH", check=_version_checker("pytorch")),
    "cuda": Kind(flag="--cuda", variable="CUENV_CUDA", check=_version_checker("cuda")),
    "python": Kind(flag="--python", variable="CUENV_PYTHON", check=_version_checker("python")),
    "prefer": Kind(flag="--prefer", variable="CUENV_PREFER", check=one_of(*PREFER)),
    "dev": Kind(flag="--dev", variable="CUENV_DEV", type=bool),
    "hosts": Kind(flag="--host", variable="CUENV_HOST", type=tuple, default=(), place="path"),
    "gpus": Kind(flag="--gpu", variable="CUENV_GPU", type=tuple, default=()),
    "driver": Kind(flag="--driver", variable="CUENV_DRIVER", check=check_driver),
    "glibc": Kind(flag="--glibc", variable="CUENV_GLIBC", check=glibc),
    "platforms": Kind(flag="--platform", variable="CUENV_PLATFORM", type=tuple, default=(), check=one_of(*PLATFORMS)),
    "mirrors": Kind(
        flag="--mirror", variable="CUENV_MIRROR", type=tuple, default=(), check=_check_mirror, place="target"
    ),
    "offline": Kind(flag="--offline", variable="CUENV_OFFLINE", type=bool, default=False),
    "engine": Kind(flag="--engine", variable="CUENV_ENGINE", default="embedded", check=one_of(*ENGINES)),
    "knowledge": Kind(flag="--knowledge", variable="CUENV_KNOWLEDGE", place="always"),
    "color": Kind(flag="--color", variable="CUENV_COLOR", default="auto", check=one_of(*COLOURS)),
    "no-progress": Kind(flag="--no-progress", variable="CUENV_NO_PROGRESS", type=bool, default=False),
    "cache-dir": Kind(variable="CUENV_CACHE_DIR", place="always"),
    "timeout": Kind(variable="CUENV_TIMEOUT", type=int, default="60", check=_check_seconds),
    "profile-dir": Kind(place="always"),
}
"""Every setting by its name in the file."""

MACHINE = frozenset({"hosts", "gpus", "driver", "glibc", "platforms"})  # the settings that name a host

REQUEST = frozenset({"profile", "stack", "pytorch", "cuda", "python", "prefer", "dev"})
"""The settings that say what is asked for: an environment file says it itself."""

WRITTEN = frozenset({"cache-dir"})
"""The settings that name a place to write to: never taken from a file of another user."""

NO_CONFIG = "CUENV_NO_CONFIG"  # the variable that switches the files off


def overridden_names(given: frozenset[str] | set[str]) -> frozenset[str]:
    """The settings of a lower level that a setting of a higher level overrides.

    A host that is named whole brings its own GPUs, driver, C library and platform; GPUs that are named never take
    the driver that was set for others.
    """
    if "hosts" in given:
        return MACHINE
    return frozenset({"hosts", "driver"}) if "gpus" in given else frozenset()


def merge(*levels: Mapping[str, Setting]) -> dict[str, Setting]:
    """The effective settings of the levels, highest priority first, with defaults for the rest."""
    found: dict[str, Setting] = {}
    gone: frozenset[str] = frozenset()
    for level in levels:
        found |= {name: item for name, item in level.items() if name not in found and name not in gone}
        gone |= overridden_names(set(level))
    rest = {name: Setting(name=name, value=kind.default, origin="default") for name, kind in KINDS.items()}
    return {name: found.get(name, item) for name, item in rest.items()}


def parse_variables(environ: Mapping[str, str]) -> dict[str, Setting]:
    """The settings of ``CUENV_*`` variables; an empty one is not set, several values are separated by commas.

    Raises:
        UsageError: a variable holds something else than its option takes.
    """
    found: dict[str, Setting] = {}
    for name, kind in KINDS.items():
        text = environ.get(kind.variable, "").strip() if kind.variable else ""
        if not text:
            continue
        try:
            value = _from_text(text, kind)
        except (ValueError, UsageError) as error:
            words = error.message if isinstance(error, UsageError) else str(error)
            raise UsageError(f"{kind.variable}: {words}", hint=f"unset {kind.variable}") from error
        found[name] = Setting(name=name, value=value, origin=kind.variable)
    return found


def _from_text(text: str, kind: Kind) -> Value:
    if kind.type is bool:
        if text.lower() not in TRUE | FALSE:
            raise ValueError(f"expected 1 or 0, got {describe(text)}")
        return text.lower() in TRUE
    items = [item.strip() for item in text.split(",")] if kind.type is tuple else [text]
    for item in items:
        _check(item, kind)
    return tuple(items) if kind.type is tuple else text


def disables_config(text: str) -> bool:
    """Whether the value of ``CUENV_NO_CONFIG`` says that no file is read."""
    return text.strip().lower() not in {"", *FALSE}


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """A warning for every ``CUENV_*`` variable that looks like a misspelt setting."""
    from difflib import get_close_matches  # noqa: PLC0415 - for `cuenv config` only

    known = {kind.variable for kind in KINDS.values() if kind.variable} | {NO_CONFIG}
    strange = sorted(name for name in environ if name.startswith("CUENV_") and name not in known)
    near = {name: get_close_matches(name, known, n=1, cutoff=0.8) for name in strange}
    return [f"{printable(name)}: no such variable; did you mean {found[0]}?" for name, found in near.items() if found]


def parse_table(data: Any, faults: Faults, *, path: str, folder: str) -> tuple[dict[str, Setting], Mapping[str, Any]]:
    """The settings and the profiles in the table of a file.

    Args:
        faults: collects what is wrong; its source names the file.
        path: of the table in the file: ``tool.cuenv``, or empty.
        folder: of the file, empty for the working folder: what relative paths are relative to.

    Returns:
        the settings by name, and the tables of profiles by name, not yet read.
    """
    reader = Reader(data, faults, path)
    found: dict[str, Setting] = {}
    for name, kind in KINDS.items():
        if reader.has(name):
            value = _from_file(reader, name, kind, folder, faults)
            found[name] = Setting(name=name, value=value, origin=f"{faults.source}: {reader.at(name)}")
    profiles: dict[str, Any] = {}
    for name, table in (reader.get("profiles", dict) or {}).items():
        if not isinstance(table, dict):
            faults.add(f"{reader.at('profiles')}.{name}", f"expected a mapping, got {describe(table)}")
        profiles[name] = table
    reader.done()
    return found, profiles


def _parse_number(text: str, kind: Kind, path: str, faults: Faults) -> Value:
    try:
        kind.check(text)
    except ValueError as error:
        faults.add(path, str(error))
    return text


def _from_file(reader: Reader, name: str, kind: Kind, folder: str, faults: Faults) -> Value:
    def parse(text: str) -> str:
        try:
            _check(text, kind)
        except UsageError as error:
            raise ValueError(f"{error.message}; {error.hint}") from error
        return relative_to_file(text, kind.place, folder)

    if kind.type is bool:
        return reader.get(name, bool)
    if kind.type is int and not isinstance(reader.raw(name), str):
        number = reader.get(name, int)
        return None if number is None else _parse_number(str(number), kind, reader.at(name), faults)
    return reader.parsed_list(name, parse) if kind.type is tuple else reader.parsed(name, parse)


def _check(text: str, kind: Kind) -> None:
    if not text.strip():
        raise ValueError("expected a value, got an empty text")
    kind.check(text)


def relative_to_file(text: str, place: str, folder: str) -> str:
    """A value from a file with its path relative to that file; see `Kind.place`."""
    if place == "target":
        origin, _, target = text.partition("=")
        return text if "://" in target else f"{origin}={relative_to_file(target.strip(), 'always', folder)}"
    looks = place == "always" or (place == "path" and ("/" in text or text.endswith((".json", ".yml", ".yaml"))))
    if not looks or not folder or text.startswith(("/", "~")):
        return text
    return f"{folder.rstrip('/')}/{text.removeprefix('./')}"
