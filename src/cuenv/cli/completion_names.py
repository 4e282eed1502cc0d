"""The names to which options and arguments complete, by kind: see `cuenv.cli.command.completes`.

Completion must be quick and must not fail: nothing is read before a shell asks, tables are not checked, and an
unreadable file has no names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import click

from cuenv.cli.defaults import configuration
from cuenv.core.errors import CuenvError
from cuenv.core.io.files import DATA

if TYPE_CHECKING:  # only when a shell asks
    from click.shell_completion import CompletionItem

Names: TypeAlias = Mapping[str, str]  # names with a short description of each

_FILE = "\0file"  # stands for the files that the shell itself completes

_LIMIT = 4 * 1024 * 1024


def items(names: Names, text: str) -> list[CompletionItem[str]]:
    """The names that begin with a text, in any case; otherwise those of which a later word begins with it.

    Names with spaces are left out, so that no shell has to quote anything; GPUs have hyphens instead. A shell replaces
    the text by the common prefix of all completions; if that would lose the text, there are no completions.
    """
    from os.path import commonprefix  # noqa: PLC0415 - only when a shell asks

    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only when a shell asks

    plain = {name: says for name, says in names.items() if name.isprintable() and " " not in name}
    wanted = text.casefold().replace(" ", "-")
    fitting = [name for name in plain if name.casefold().startswith(wanted)]
    if not fitting:
        fitting = [name for name in plain if f"-{wanted}" in name.casefold()]
        shared = commonprefix(fitting).casefold()  # noqa: RUF071 - letters are meant, these are no paths
        fitting = fitting if wanted in shared or not shared else []
    found = [CompletionItem(name, help=_short_help(plain[name])) for name in fitting]
    # click's script for bash forgets what came before a file
    return [CompletionItem(text, type="file"), *found] if _FILE in names and text.isprintable() else found


def _short_help(text: str) -> str | None:
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return (line if len(line) <= 60 else f"{line[:57]}...") or None


def gpus(extra: Path | None = None) -> dict[str, str]:
    """The names of GPUs with hyphens, then compute capabilities, each with a short description.

    Args:
        extra: a folder with additional tables, as for ``--knowledge``.
    """
    names: dict[str, str] = {}
    served: dict[str, list[str]] = {}
    for row in _rows("gpus", extra):
        name, capability = row.get("name"), row.get("capability")
        if _is_name(name) and _is_name(capability):
            typed = name.removeprefix("GeForce ").replace(" ", "-")
            names[typed] = f"{capability}, {row.get('architecture')}"
            served.setdefault(capability, []).append(typed)
    order = sorted(served, key=_numbers)
    return names | {item: ", ".join(served[item][:3]) for item in order}


def driver_branches(extra: Path | None = None) -> dict[str, str]:
    """The minimum drivers of the CUDA releases, the newest first."""
    rows = [{"version": row.get("driver")} for row in _rows("toolkits", extra)]
    return _versions(rows, parts=4)


def packages(extra: Path | None = None) -> dict[str, str]:
    """The packages in the tables: components, CPU/CUDA variants, discontinued packages, libraries that use PyTorch."""
    tables = {"components": "name", "twins": "package", "endings": "package", "extensions": "package"}
    found = {row.get(key) for table, key in tables.items() for row in _rows(table, extra)}
    return dict.fromkeys(sorted(filter(_is_name, found)), "")


def topics() -> dict[str, str]:
    """The topics of ``cuenv explain`` with their questions."""
    found = {str(row.get("topic")): str(row.get("asks", "")) for row in _rows("guidance/answers", None)}
    for row in _rows("guidance/errata", None):
        if _is_name(row.get("topic")):
            found.setdefault(row["topic"], str(row.get("says", "")))
    return found


def codes() -> dict[str, str]:
    """The codes of findings with their meanings."""
    return {
        row["code"]: str(row.get("means", "")) for row in _rows("guidance/codes", None) if _is_name(row.get("code"))
    }


def hosts() -> dict[str, str]:
    """The recorded hosts that ship with cuenv."""
    try:
        return {path.stem: "" for path in sorted(Path(DATA, "hosts").glob("*.json"))}
    except OSError:
        return {}


def schemas() -> dict[str, str]:
    """The JSON Schemas that ship, by their names without the version."""
    paths = sorted(Path(DATA, "schemas").glob("*.json"))
    return {path.stem.removesuffix("-1"): path.read_text(encoding="utf-8") for path in paths}


def _rows(table: str, extra: Path | None) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for folder in (Path(DATA), extra):
        if folder is not None:
            found += _read(folder / f"{table}.json")
    return found


def _read(path: Path) -> list[Mapping[str, Any]]:
    try:
        if not path.is_file() or path.stat().st_size > _LIMIT:
            return []
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    rows = data.get("rows") if isinstance(data, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _versions(rows: Iterable[Mapping[str, Any]], *, parts: int) -> dict[str, str]:
    texts = (row.get("version") for row in rows)
    found = {".".join(text.split(".")[:parts]) for text in texts if _is_name(text)}
    return dict.fromkeys(sorted(found, key=_numbers, reverse=True), "")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() and part.isascii() else 0 for part in text.split("."))


def _is_name(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and bool(text) and text.isprintable()


TABLES: Mapping[str, Callable[[Path | None], dict[str, str]]] = {
    "gpu": gpus,
    "pytorch": lambda extra: _versions(_rows("torch", extra), parts=3),
    "cuda": lambda extra: _versions(_rows("toolkits", extra), parts=2),
    "driver": driver_branches,
    "package": packages,
}
"""The names of each topic of ``cuenv kb``."""


def _gpus(context: click.Context) -> Names:
    return gpus(context.params.get("tables"))


def _profiles(context: click.Context) -> Names:
    from cuenv.config.io.profiles import places  # noqa: PLC0415 - only when a shell asks

    try:
        known = places(configuration(context))
    except CuenvError:
        known = places()
    names: dict[str, str] = {}
    for place in known:
        names.setdefault(place.name, place.origin)
    return {**names, _FILE: ""}


def _platforms(_: click.Context) -> Names:
    from cuenv.knowledge.rows import PLATFORMS  # noqa: PLC0415 - only when a shell asks

    return dict.fromkeys(PLATFORMS, "")


def _releases(table: str) -> Callable[[click.Context], Names]:
    def releases(context: click.Context) -> Names:
        return TABLES[table](context.params.get("tables"))

    return releases


def _topics(context: click.Context) -> Names:
    from cuenv.resolver.lookup import TOPICS  # noqa: PLC0415 - only when a shell asks

    return dict.fromkeys((*TOPICS, *getattr(context.command, "subcommands", ())), "")


def _topic_subjects(context: click.Context) -> Names:
    names = TABLES.get(str(context.params.get("topic")))
    return names(context.params.get("tables")) if names else {}


def _subjects(_: click.Context) -> Names:
    from cuenv.resolver.why import SUBJECTS  # noqa: PLC0415 - only when a shell asks

    return {**dict.fromkeys(SUBJECTS, ""), **codes()}


def _questions(context: click.Context) -> Names:
    from cuenv.resolver.why import KEYS  # noqa: PLC0415 - only when a shell asks

    specs = {f"{key}={name}": "" for key in ("pytorch", "cuda") for name in _releases(key)(context)}
    return {**dict.fromkeys((f"{key}=" for key in KEYS), ""), **specs}


def _pictures(_: click.Context) -> Names:
    from cuenv.report.picture import PICTURES  # noqa: PLC0415 - only when a shell asks

    return dict.fromkeys(PICTURES, "")


KINDS: Mapping[str, Callable[[click.Context], Names]] = {
    "gpu": _gpus,
    "host": lambda _: {**hosts(), "-": "standard input", _FILE: ""},
    "profile": _profiles,
    "platform": _platforms,
    "pytorch": _releases("pytorch"),
    "cuda": _releases("cuda"),
    "driver": _releases("driver"),
    "explain": lambda _: {**topics(), "gpu": "what to know when training on a card"},
    "explain-gpu": lambda context: _gpus(context) if context.params.get("topic") == "gpu" else {},
    "kb": _topics,
    "kb-subject": _topic_subjects,
    "why": _subjects,
    "why-not": _questions,
    "schema": lambda _: dict.fromkeys(schemas(), ""),
    "picture": _pictures,
    "file": lambda _: {_FILE: ""},
}
"""The kinds of names to complete, each read only when a shell asks."""
