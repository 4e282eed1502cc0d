"""The files beside a lock: what installers read there must be what ``conda-lock.yml`` locks.

One of them may have been edited by hand, taken from another commit by a merge, or be of an earlier run where the later
one was killed between two files.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from cuenv.core.errors import InputError
from cuenv.core.findings import Finding
from cuenv.core.io.files import is_file, read_text
from cuenv.core.urls import redact, short_channel
from cuenv.lockfile.files import (
    LOCK_NAME,
    UNLOCKED,
    environment_files,
    read_environment,
    read_lock,
    requirements_file,
    spec_digest,
)
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.model import Lock, PipLocked, Solution

_SHOWN = 3


def sibling_findings(lock: Lock, path: Path) -> Iterator[Finding]:
    """Files of cuenv beside a lock that say something else than it; those that are missing say nothing.

    Args:
        lock: what was read.
        path: its file; for an explicit one the lock beside it is asked.
    """
    folder = path.parent
    if path.name != LOCK_NAME:
        yield from _vouched(lock, path)
        return
    if "cuenv_content" not in lock.metadata:
        return  # of another program, whose other files are its own affair
    for solution in lock.solutions:
        explicit = folder / f"conda-{solution.platform}.lock"
        requirements = folder / requirements_file(solution.platform)
        yield from _compared(explicit, partial(_explicit, solution))
        yield from _compared(explicit.with_name(f"{explicit.name}.yml"), partial(_exact, solution, lock, folder))
        if solution.pip:
            yield from _compared(requirements, partial(_wheels, solution))


def _vouched(lock: Lock, path: Path) -> Iterator[Finding]:
    """An explicit file carries no digest of its own; the lock beside it does."""
    beside = path.with_name(LOCK_NAME)
    if not is_file(beside) or not lock.solutions or path.name != f"conda-{lock.solutions[0].platform}.lock":
        return
    vouching = read_lock(beside)
    solution = vouching.solution(lock.solutions[0].platform)
    if solution and "cuenv_content" in vouching.metadata:
        yield from _compared(path, partial(_explicit, solution))


def _compared(file: Path, differences: Callable[[str], Iterable[str]]) -> Iterator[Finding]:
    if not is_file(file):
        return
    try:
        found = sorted(differences(read_text(file)))
    except InputError as error:
        found = [error.message]
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        yield Finding(
            code="CU108",
            severity="error",
            subject=file.name,
            message=f"{file.name} is not what {LOCK_NAME} locks: {', '.join(found[:_SHOWN])}{more}",
            fix=f"cuenv lock, or remove it: rm {shlex.quote(str(file))}",
        )


def _lines(text: str) -> set[str]:
    stripped = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
    return {line for line in stripped if line and not line.startswith("#")}


def _explicit(solution: Solution, text: str) -> Iterable[str]:
    from cuenv.lockfile.formats import explicit_txt  # noqa: PLC0415 - only where there is such a file

    wanted = _lines(explicit_txt.render(solution, head=()))
    return (ascii(line.rpartition("/")[2])[1:-1] for line in wanted ^ _lines(text))


def _exact(solution: Solution, lock: Lock, folder: Path, text: str) -> Iterator[str]:
    """What differs in the file for ``conda env create``: packages, channels, the pip part, variables."""
    from cuenv.solve import environment_yml  # noqa: PLC0415 - as above

    spec, _ = environment_yml.parse(text, f"conda-{solution.platform}.lock.yml")
    there = {(pin.channel, pin.name, pin.version, pin.build) for pin in spec.pins}
    wanted = {(item.channel_name, item.name, item.version, item.build) for item in solution.packages}
    yield from {ascii(name)[1:-1] for _, name, _, _ in there ^ wanted}
    known = {*map(short_channel, lock.channels), *(item.channel_name for item in solution.packages)}
    yield from (f"channel {ascii(name)[1:-1]}" for name in map(short_channel, spec.channels) if name not in known)
    asked = _asked(lock, folder)
    if solution.pip:
        yield from _requirements(set(spec.pip), solution.pip)
    elif asked:  # left out of the lock (CU501), or by its markers: it stands there as it was asked for
        yield from (ascii(item)[1:60] for item in set(spec.pip) ^ set(map(redact, asked.pip)))
    elif UNLOCKED not in lock.allowed:
        yield from (ascii(item)[1:60] for item in spec.pip)
    if asked and asked.variables != spec.variables:
        yield "variables"


def _asked(lock: Lock, folder: Path) -> EnvironmentSpec | None:
    """The environment file that was locked, if it lies there unchanged."""
    for file in environment_files(lock, folder):
        asked, _ = read_environment(file)
        if lock.metadata.get("cuenv_environment") == spec_digest(asked):
            return asked
    return None


def _wheels(solution: Solution, text: str) -> Iterable[str]:
    return _requirements(_lines(text), solution.pip)


def _requirements(there: set[str], packages: Iterable[PipLocked]) -> Iterator[str]:
    from cuenv.lockfile.formats.requirements_txt import lines  # noqa: PLC0415 - as above

    for item in packages:
        forms = {lines([replace(item, direct=direct)])[0] for direct in (False, True)}
        if there.isdisjoint(forms):
            yield item.name
        there = there - forms
    yield from (ascii(line)[1:60] for line in there)
