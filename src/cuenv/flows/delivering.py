"""What ``bundle`` and ``install`` share: which part of a lock, and when a lock is not to be trusted."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from cuenv.errors import InputError, UsageError
from cuenv.lock_laws import edited, without_hash
from cuenv.lockfile import Lock, Solution
from cuenv.report import Finding
from cuenv.world.files import at_home
from cuenv.world.system import platform_of


def platform_here() -> str:
    """The platform of this machine.

    Raises:
        UsageError: cuenv does not serve it.
    """
    return platform_of(os.uname().sysname, os.uname().machine)


def checked_place(path: Path, option: str) -> Path:
    """The absolute path of something that is to be made; links stay what they are.

    Raises:
        UsageError: it is the root, or holds characters that do not print.
    """
    found = Path(os.path.abspath(at_home(path)))  # noqa: PTH100 - resolve() would follow links
    if found == found.parent:
        raise UsageError(f"{option} {found} is the root of everything", hint=f"{option} DIR")
    if not str(found).isprintable():
        raise UsageError(f"{option} {str(path)!r} holds characters that do not print", hint=f"{option} DIR")
    return found


def chosen(lock: Lock, platforms: Sequence[str], path: Path) -> tuple[Solution, ...]:
    """The parts of a lock for some platforms, or all of them.

    Raises:
        InputError: the lock does not hold one, or nothing at all.
    """
    if not lock.solutions:
        raise InputError(f"{path} holds no packages", hint="cuenv lock")
    for platform in platforms:
        if lock.solution(platform) is None:
            have = ", ".join(item.platform for item in lock.solutions)
            raise InputError(
                f"{path} holds {have}, and nothing for {platform}",
                hint=f"cuenv lock --platform {shlex.quote(platform)}",
            )
    return tuple(item for item in lock.solutions if not platforms or item.platform in platforms)


def refusals(lock: Lock, solutions: Sequence[Solution]) -> Iterator[Finding]:
    """Why nothing of a lock is fetched: it was edited (CU108), or something in it has no hash (CU105, CU513)."""
    yield from edited(lock)
    for solution in solutions:
        yield from without_hash(solution.packages, explicit=not lock.channels)
        if solution.pip:
            from cuenv.pip_laws import pip_findings  # noqa: PLC0415 - most locks have no pip part

            yield from (item for item in pip_findings(solution) if item.code == "CU513")
