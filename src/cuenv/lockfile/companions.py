"""The files of a lock: written together, installed by commands, and compared with ``conda-lock.yml`` afterwards.

A companion file may have been edited by hand, taken from another commit by a merge, or be of an earlier run where the
later one was killed between two files.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

from cuenv.core.errors import InputError
from cuenv.core.findings import Finding, counted, first_of
from cuenv.core.io.files import is_file, read_text
from cuenv.lockfile.files import LOCK_NAME, environments, is_locked_from, read_lock
from cuenv.lockfile.formats import CLIENTS, LockedFile, LockFormat, formats, unlocked_txt
from cuenv.solve.environment_spec import WRITTEN_BY, EnvironmentSpec
from cuenv.solve.model import Lock

_SHOWN = 3
Named: TypeAlias = Callable[[], Iterable[tuple[Path, EnvironmentSpec]]]  # reads the environment files that a lock names


def write_formats(
    path: Path, made: Lock, spec: EnvironmentSpec
) -> tuple[tuple[Path, ...], tuple[tuple[Path, Path], ...]]:
    """Render every format first, then write: the companion files before the lock that vouches for them.

    Args:
        path: the environment file, beside which the files are written.

    Returns:
        The files, and what other programs had written in their place, with where it is kept.
    """
    from cuenv.core.io.products import write_over  # noqa: PLC0415 - a check writes nothing

    origin = f"Written by {made.metadata['created_by']} from {path.name}; change that file, then: cuenv lock"
    texts: dict[Path, str] = {}
    gone: dict[Path, str] = {}
    for solution in made.solutions:
        file = LockedFile(made, solution, path.parent, lambda: spec, origin)
        for item in formats():
            target = item.path(path.parent, solution.platform)
            if not item.holds(solution):
                gone[target] = WRITTEN_BY  # of an earlier lock: it would install what is no longer asked for
            elif item.per_platform:
                texts[target] = item.write(file)
    whole = LockedFile(made, made.solutions[0], path.parent, lambda: spec, origin)
    texts |= {path.parent / item.file: item.write(whole) for item in formats() if not item.per_platform}
    texts[path.parent / LOCK_NAME] = texts.pop(path.parent / LOCK_NAME)
    owns = tuple({item.own for item in formats()})
    return tuple(texts), write_over(texts, owns, gone=gone)


def create_commands(made: Lock, spec: EnvironmentSpec, folder: Path) -> Mapping[str, tuple[str, ...]]:
    """For each platform the exact commands that make the environment from what was written.

    Packages that somebody's settings add to each new environment are left out.
    """
    found: dict[str, tuple[str, ...]] = {}
    for solution in made.solutions:
        file = LockedFile(made, solution, folder, lambda: spec)
        pairs = [pair for item in formats() if item.holds(solution) for pair in item.install(file)]
        places = {client: place for place, client in enumerate(CLIENTS)}
        pairs.sort(key=lambda pair: places.get(pair[0], len(places)))
        found[solution.platform] = tuple(command for _, command in pairs)
    return found


def hook_command(made: Lock, spec: EnvironmentSpec, folder: Path) -> str | None:
    """What lets builds find the headers of conda-forge's nvcc, once the environment is made; ``None`` without one.

    It names the lock, whose GPUs builds are for: the machine that makes the environment need not have them.
    """
    found = (solution.package("cuda-nvcc") for solution in made.solutions)
    if not any(package and package.channel_name == "conda-forge" for package in found):
        return None
    lock = f" --lock {shlex.quote(str(folder / LOCK_NAME))}" if made.metadata.get("cuenv_gpus") else ""
    return f"cuenv hook -n {shlex.quote(spec.name or 'cuenv')}{lock}"


def companion_findings(lock: Lock, path: Path, named: Named | None = None) -> Iterator[Finding]:
    """Companion files beside a lock that say something else than the lock does.

    A missing file is no finding, but for that of the requirements that the lock leaves for pip.

    Args:
        path: its file; a companion file is compared with the lock that lies beside it.
        named: reads the environment files that the lock names, where the caller needs them too.
    """
    folder = path.parent
    if lock.program and lock.sources:  # of pip's part alone, which cuenv wrote
        source = (folder / lock.sources[0]).parent
        for solution in lock.solutions if "cuenv_content" in lock.metadata else ():
            file = LockedFile(lock, solution, source, partial(_spec_locked, lock, partial(environments, lock, source)))
            yield from _unlocked_findings(
                file, unlocked_txt.FORMAT.path(source, solution.platform), path.name, lock.again
            )
        return
    if path.name != LOCK_NAME:
        beside = path.with_name(LOCK_NAME)
        platforms = [item.platform for item in lock.solutions[:1]]
        if is_file(beside) and any(item.path(folder, name) == path for item in formats() for name in platforms):
            whole = read_lock(beside)
            yield from _compare(whole, folder, path, platforms, partial(environments, whole, folder))
        return
    platforms = [item.platform for item in lock.solutions]
    yield from _compare(lock, folder, None, platforms, named or partial(environments, lock, folder))


def _compare(lock: Lock, folder: Path, only: Path | None, platforms: list[str], named: Named) -> Iterator[Finding]:
    """Findings on the companion files of a lock that cuenv made."""
    if "cuenv_content" not in lock.metadata:
        return  # of another program, whose other files are its own affair
    asked = cache(partial(_spec_locked, lock, named))
    for solution in lock.solutions:
        if solution.platform not in platforms:
            continue
        file = LockedFile(lock, solution, folder, asked)
        for item in formats():
            target = item.path(folder, solution.platform)
            if item is unlocked_txt.FORMAT and only is None:
                yield from _unlocked_findings(file, target, LOCK_NAME, "cuenv lock")
            elif item.holds(solution) and only in (None, target) and is_file(target):
                yield from _difference_findings(item, file, target)


def _unlocked_findings(file: LockedFile, target: Path, lock: str, again: str) -> Iterator[Finding]:
    """The requirements that a lock leaves for pip: their file is to lie beside it."""
    count = len(file.solution.aside)
    if count and is_file(target):
        yield from _difference_findings(unlocked_txt.FORMAT, file, target, lock, again)
    elif count:
        message = (
            f"{lock} leaves {counted(count, 'requirement')} for pip to "
            f"install afterwards, but the file that lists {'it' if count == 1 else 'them'} is missing: {target.name}"
        )
        yield Finding(code="CU108", severity="warning", subject=target.name, message=message, fix=again)


def _difference_findings(
    item: LockFormat, file: LockedFile, target: Path, lock: str = LOCK_NAME, again: str = "cuenv lock"
) -> Iterator[Finding]:
    """The finding that a companion file differs from its lock."""
    if item.differences is None:
        return
    try:
        found = sorted(item.differences(file, read_text(target)))
    except InputError as error:
        found = [error.message]
    if found:
        message = f"{target.name} differs from {lock}: {first_of(found, _SHOWN)}"
        fix = again if item is unlocked_txt.FORMAT else f"{again}, or remove it: rm {shlex.quote(str(target))}"
        yield Finding(code="CU108", severity="error", subject=target.name, message=message, fix=fix)


def _spec_locked(lock: Lock, named: Named) -> EnvironmentSpec | None:
    """The environment file that was locked, if it lies there unchanged."""
    return next((spec for _, spec in named() if is_locked_from(lock, spec)), None)
