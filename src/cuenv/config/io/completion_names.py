"""Names that a shell completes: of GPUs, releases, hosts, topics.

Tab is pressed in the middle of a line, so this is quick and never in the way: tables are read as they are and not
judged, and what cannot be read has no names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

DATA = Path(__file__).parents[2] / "data"
"""The tables that come with the package."""

_LIMIT = 4 * 1024 * 1024


def gpus(extra: Path | None = None) -> dict[str, str]:
    """Product names as people type them, then capabilities, each with a few words about it.

    Args:
        extra: a folder of further tables, as ``--knowledge`` takes it.
    """
    names: dict[str, str] = {}
    served: dict[str, list[str]] = {}
    for row in _rows("gpus", extra):
        name, capability = row.get("name"), row.get("capability")
        if _good(name) and _good(capability):
            typed = name.removeprefix("GeForce ")
            names[typed] = f"{capability}, {row.get('architecture')}"
            served.setdefault(capability, []).append(typed)
    order = sorted(served, key=_numbers)
    return names | {item: ", ".join(served[item][:3]) for item in order}


def torch_releases(extra: Path | None = None) -> dict[str, str]:
    """The releases of PyTorch that the tables know, the newest first."""
    return _releases(_rows("torch", extra), parts=3)


def cuda_releases(extra: Path | None = None) -> dict[str, str]:
    """The CUDA releases that the tables know, the newest first."""
    return _releases(_rows("toolkits", extra), parts=2)


def driver_branches(extra: Path | None = None) -> dict[str, str]:
    """The lowest drivers of the CUDA releases, the newest first."""
    rows = [{"version": row.get("driver")} for row in _rows("toolkits", extra)]
    return _releases(rows, parts=4)


def packages(extra: Path | None = None) -> dict[str, str]:
    """The packages that the tables say something of: components, twins, what ended, libraries that sit on torch."""
    tables = {"components": "name", "twins": "package", "endings": "package", "extensions": "package"}
    found = {row.get(key) for table, key in tables.items() for row in _rows(table, extra)}
    return dict.fromkeys(sorted(filter(_good, found)), "")


def topics() -> dict[str, str]:
    """The topics of ``cuenv explain``, each with what recipes say."""
    found: dict[str, str] = {}
    for row in _rows("guidance/errata", None):
        if _good(row.get("topic")):
            found.setdefault(row["topic"], str(row.get("says", "")))
    return found


def codes() -> dict[str, str]:
    """The codes of findings, each with what it means."""
    return {row["code"]: str(row.get("means", "")) for row in _rows("guidance/codes", None) if _good(row.get("code"))}


def hosts() -> dict[str, str]:
    """The recorded hosts that come with cuenv."""
    try:
        return {path.stem: "" for path in sorted((DATA / "hosts").glob("*.json"))}
    except OSError:
        return {}


def schemas() -> dict[str, str]:
    """The JSON Schema of each document that ships, by its name without the version."""
    paths = sorted((DATA / "schemas").glob("*.json"))
    return {path.stem.removesuffix("-1"): path.read_text(encoding="utf-8") for path in paths}


def _rows(table: str, extra: Path | None) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for folder in (DATA, extra):
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


def _releases(rows: Iterable[Mapping[str, Any]], *, parts: int) -> dict[str, str]:
    texts = (row.get("version") for row in rows)
    found = {".".join(text.split(".")[:parts]) for text in texts if _good(text)}
    return dict.fromkeys(sorted(found, key=_numbers, reverse=True), "")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() and part.isascii() else 0 for part in text.split("."))


def _good(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and bool(text) and text.isprintable()


TABLES: Mapping[str, Callable[[Path | None], dict[str, str]]] = {
    "gpu": gpus,
    "pytorch": torch_releases,
    "cuda": cuda_releases,
    "driver": driver_branches,
    "package": packages,
}
"""By the topic of ``cuenv kb``."""
