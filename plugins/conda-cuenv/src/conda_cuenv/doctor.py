"""``conda doctor cuenv``: what ``cuenv check --prefix`` says of an environment, and pins that mend it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from conda_cuenv.program import Unanswered, answer, line, say

SECONDS = 120
_OK, _BAD, _WARN, _ASK = "✅", "❌", "⚠️", "❓"
_SPEC = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._-]*?) *((?:[<>=!~]=?|==) *[A-Za-z0-9][A-Za-z0-9.,<>=!~*+_| -]*)")


def examine(prefix: str, *, verbose: bool) -> None:
    """Print what cuenv says of an environment."""
    try:
        document = checked(prefix)
    except Unanswered as error:
        say(f"{_ASK} cuenv did not check CUDA and PyTorch: {error}\n")
        return
    found = list(_findings(document))
    notes = list(_findings(document, "notes")) if verbose else []
    host = line(document.get("host") or "this machine")
    bare, unjudged = _skipped(document, "sources"), _skipped(document, "host")
    if not found and bare:
        say(f"{_OK} cuenv: {bare}.\n")
    elif not found and unjudged:
        say(f"{_ASK} cuenv did not compare the environment with a GPU: {unjudged}.\n")
    elif not found:
        say(f"{_OK} cuenv found no mistake in CUDA and PyTorch for {host}.\n")
    else:
        say(f"{_BAD if _wrong(found) else _WARN} cuenv checked CUDA and PyTorch for {host}:\n")
    for item in [*found, *notes]:
        mark = {"error": _BAD, "warning": _WARN}.get(str(item.get("severity")), "-")
        say(f"  {mark} {line(item.get('message'))} ({line(item.get('code'))})")
        if item.get("fix"):
            say(f"     fix: {line(item['fix'])}")
    if found or notes:
        say("")


def pin(prefix: str, args: Any, confirm: Callable[[str], None]) -> int:
    """Write pins that keep packages at releases that support the GPUs, when the user agrees.

    Args:
        prefix: the environment.
        args: of ``conda doctor``.
        confirm: of conda; raises when the answer is no, and with ``--dry-run``.
    """
    try:
        document = checked(prefix)
    except Unanswered as error:
        say(f"cuenv did not check CUDA and PyTorch: {error}")
        return 1
    file = Path(prefix) / "conda-meta" / "pinned"
    try:
        commands = dict(_pins(document, _installed(prefix)))
        old = file.read_bytes() if file.exists() else b""
    except OSError as error:
        say(f"{line(error.filename)} cannot be read: {error.strerror}")
        return 1
    pinned = _pinned(old)
    new = [(name, bound) for name, bound in commands if name not in pinned]
    for name, bound in commands:
        if name in pinned and pinned[name] != _bare(bound):
            say(f"{name} should be {bound}, but {file} pins it otherwise: change that line")
    if not new:
        say("cuenv knows no pin to add.")
        return 0
    if (file.parent / "frozen").exists() and getattr(args, "protect_frozen_envs", True) is not False:
        say(f"{prefix} is frozen, so no pin is added; --override-frozen adds it")
        return 1
    lines = [f"{name} {bound}" for name, bound in new]
    confirm(f"Pin {', '.join(lines)} in {file}?")
    try:
        _write(file, old, lines)
    except OSError as error:
        say(f"{file} cannot be written: {error.strerror}")
        return 1
    say(f"Pinned {', '.join(lines)}. Now install what the pins allow:")
    for command in dict.fromkeys(filter(None, (commands[one] for one in new))):
        say(f"  {command}")
    return 0


def checked(prefix: str) -> dict[str, Any]:
    """The report of ``cuenv check``.

    Raises:
        Unanswered: there is none.
    """
    return answer("check", "--prefix", prefix, "--json", seconds=SECONDS)


def _findings(document: dict[str, Any], part: str = "findings") -> Iterator[dict[str, Any]]:
    found = document.get(part)
    yield from (item for item in (found if isinstance(found, list) else ()) if isinstance(item, dict))


def _skipped(document: dict[str, Any], name: str) -> str:
    """Why a check was skipped; empty where it was not."""
    checks = document.get("checks")
    for item in checks if isinstance(checks, list) else ():
        if isinstance(item, dict) and item.get("name") == name and item.get("status") == "skip":
            return line(item.get("says"))
    return ""


def _wrong(found: list[dict[str, Any]]) -> bool:
    return any(item.get("severity") == "error" for item in found)


def _pins(document: dict[str, Any], installed: frozenset[str]) -> Iterator[tuple[tuple[str, str], str]]:
    """Bounds on packages that are installed, as a pin of another one would change nothing; with what installs them."""
    for finding in _findings(document):
        edits = finding.get("edits")
        for edit in edits if isinstance(edits, list) else ():
            if not isinstance(edit, dict) or edit.get("how") != "add" or edit.get("pip"):
                continue
            entries = edit.get("entries")
            for entry in entries if isinstance(entries, list) else ():
                parts = _SPEC.fullmatch(str(entry))
                if parts and parts[1].lower() in installed:
                    yield (parts[1].lower(), parts[2].strip()), line(finding.get("fix") or "")


def _installed(prefix: str) -> frozenset[str]:
    """The names of the conda packages of an environment."""
    return frozenset(
        name.removesuffix(".json").rsplit("-", 2)[0]
        for name in os.listdir(Path(prefix) / "conda-meta")  # noqa: PTH208 - an unreadable folder is an error here
        if name.endswith(".json")
    )


def _pinned(data: bytes) -> dict[str, str]:
    """What a file pins: name and bound, of conda-forge::name too."""
    found = {}
    for text in data.decode("utf-8", "replace").splitlines():
        parts = re.match(r"\s*(?:[^#\s]*::)?([A-Za-z0-9_][A-Za-z0-9._-]*)(.*)", text)
        if parts:
            found[parts[1].lower()] = _bare(parts[2])
    return found


def _bare(bound: str) -> str:
    return bound.replace(" ", "")


def _write(file: Path, old: bytes, lines: list[str]) -> None:
    """Add lines; the old file stays whole when that fails."""
    between = b"" if not old or old.endswith(b"\n") else b"\n"
    data = old + between + "".join(f"{one}\n" for one in lines).encode()
    file = file.resolve()
    fresh = file.with_name(f"{file.name}.cuenv")
    try:
        fresh.write_bytes(data)
        if file.exists():
            fresh.chmod(file.stat().st_mode & 0o7777)
        fresh.replace(file)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
