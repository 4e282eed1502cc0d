"""Recorded hosts: reading one that a person names.

A recorded host is a folder with ``host.json`` and raw captures beside it, or that file alone. The raw captures are
for a reader of a bug report; cuenv itself reads ``host.json`` only.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from cuenv.core.errors import InputError, UsageError
from cuenv.core.io.files import DATA, read_text, shown
from cuenv.host import host_json
from cuenv.host.facts import HostFacts

SHIPPED = DATA / "hosts"
HOST_FILE = "host.json"
LIMIT = 4 * 1024 * 1024
"""Bytes that a host file may have."""


def shipped_names() -> tuple[str, ...]:
    """The names of the hosts that come with cuenv."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.json")))


def read_host(name_or_path: str, stdin: Callable[[], str]) -> HostFacts:
    """Read a host that a person names.

    Args:
        name_or_path: a folder with ``host.json``, a file, ``-`` for standard input, or the name of a shipped host;
            something that exists on disk goes first.
        stdin: reads standard input to its end.

    Raises:
        InputError: the file, folder or stream cannot be read or is no host.
        UsageError: it is neither there nor a shipped name.
    """
    if name_or_path == "-":
        return host_json.parse(_bounded(stdin()), "standard input", "standard input")
    path = Path(name_or_path)
    if name_or_path and _exists(path):
        return _read_path(path)
    if "/" in name_or_path or name_or_path.endswith(".json"):
        raise InputError(f"cannot read {shown(name_or_path)}: no such file", hint="cuenv inspect --record DIR")
    names = shipped_names()
    if name_or_path in names:
        source = SHIPPED / f"{name_or_path}.json"
        return host_json.parse(read_text(source, limit=LIMIT), source.name, name_or_path)
    near = _nearest(name_or_path, names)
    raise UsageError(
        f"{name_or_path!r} is no folder, no file and no host that comes with cuenv; those are: {', '.join(names)}",
        hint=f"cuenv resolve --host {near}" if near else "cuenv inspect --record DIR, on the machine that is meant",
    )


def _read_path(path: Path) -> HostFacts:
    if path.is_dir():
        folder, path = path, path / HOST_FILE
        if not _exists(path):
            raise InputError(
                f"{shown(folder)} holds no {HOST_FILE}",
                hint=f"cuenv inspect --record {shlex.quote(shown(folder / 'this-host'))}",
            )
    named_after = path.resolve().parent.name if path.name == HOST_FILE else path.stem
    return host_json.parse(read_text(path, limit=LIMIT), shown(path), named_after or str(path))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        return True  # it cannot be looked at: reading it will say so
    except (OSError, ValueError):
        return False


def _bounded(text: str) -> str:
    if len(text) > LIMIT:
        raise InputError(
            f"standard input is larger than {LIMIT} characters, expected the JSON of a host",
            hint="cuenv inspect --json > node.json",
        )
    return text


def _nearest(name: str, names: tuple[str, ...]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - only when something is wrong

    return next(iter(get_close_matches(name, names, n=1, cutoff=0.7)), None)
