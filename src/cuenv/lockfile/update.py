"""Update: named packages of a lock move, everything else stays, and the CUDA core stays whatever happens.

Packages for pip are named in the same way; resolving them again is the part of `cuenv.lockfile.pip`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

from cuenv.core.errors import InputError, UsageError
from cuenv.core.findings import Finding
from cuenv.core.record import dataclass, replace
from cuenv.host.describe import host_options
from cuenv.host.facts import HostFacts
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.diff import is_core
from cuenv.lockfile.files import LOCK_NAME, existing_lock, recorded_host
from cuenv.solve.environment_spec import normalise
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Lock, LockedPackage, Solution, SolveRequest, Unsatisfiable

_TRIES = 60  # solves that may be spent on naming the frozen packages that really stand in the way

Answer: TypeAlias = Solution | Unsatisfiable
Solve: TypeAlias = Callable[[SolveRequest], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """An update that the frozen CUDA core does not allow."""

    names: tuple[str, ...]
    platform: str
    packages: tuple[LockedPackage, ...]
    instead: tuple[LockedPackage, ...]  # what they would become; a package that would go is not in it


def host_of_update(path: Path, host: HostOptions, knowledge: Knowledge) -> tuple[tuple[str, ...], HostFacts]:
    """The platforms and the host to lock for: an update without host options stays with those of the lock.

    No platform means that the options and the file say which.
    """
    old = existing_lock(path.parent / LOCK_NAME) if not host.given else None
    recorded = recorded_host(old, HostFacts(label="", platform=""), knowledge) if old else None
    platforms = tuple(item.platform for item in old.solutions) if old else ()
    return platforms, recorded or host_facts(host, knowledge)


def solve_update(
    question: SolveRequest,
    old: Lock | None,
    knowledge: Knowledge,
    *,
    path: Path,
    options: HostOptions,
    sources: Sources,
    names: tuple[str, ...],
) -> Answer | Finding:
    """Solve one platform of an update; the finding says what stands in its way.

    Raises:
        InputError: there is no lock to update, or it is not for the platform.
        UsageError: it holds no package of a name.
    """
    from cuenv.solve.io.solver import solve  # noqa: PLC0415 - the solver is heavy

    kept = _locked_solution(old, path, names, question.platform)
    host: tuple[str, ...] = ()
    if options.given:
        host = host_options(host_facts(options, knowledge))
    elif kept.virtual_packages:
        question = replace(question, virtual_packages=kept.virtual_packages)
    named = tuple(name for name in names if kept.package(name))

    def ask(asked: SolveRequest) -> Answer:
        return solve(asked, sources)

    if not named:  # packages for pip alone: conda's stay to the last one, unless the file asks for others
        same = ask(replace(question, prefer=kept.packages, frozen=kept.packages))
        if isinstance(same, Solution):
            return same
    answer = update(question, kept, named, knowledge, ask)
    return _finding(answer, path, host) if isinstance(answer, Blocked) else answer


def _locked_solution(old: Lock | None, path: Path, names: tuple[str, ...], platform: str) -> Solution:
    """What is locked for a platform, with every package that is named."""
    command = shlex.join(["cuenv", "lock", str(path)])
    if old is None:
        where = path.parent / LOCK_NAME
        raise InputError(f"{where} does not exist, so there is nothing to update", hint=command)
    kept = old.solution(platform)
    if kept is None:
        raise InputError(f"{LOCK_NAME} has no {platform}, so there is nothing to update", hint=command)
    known = {package.name for item in old.solutions for package in item.packages}
    by_pip = {package.name for item in old.solutions for package in item.pip}
    for name in names:
        if name not in known and normalise(name) not in by_pip:
            near = get_close_matches(name, sorted(known | by_pip), n=3)
            also = f"; the nearest are {', '.join(near)}" if near else ""
            raise UsageError(f"--update {name}: the lock contains no package with this name{also}", hint=command)
    return kept


def update(
    question: SolveRequest, old: Solution, names: tuple[str, ...], knowledge: Knowledge, solve: Solve
) -> Answer | Blocked:
    """Solve with the named packages free, the CUDA core frozen, and as little else changed as can be.

    Args:
        names: packages that may move; a part of the CUDA core moves only when it is among them.
    """
    others = tuple(package for package in old.packages if package.name not in names)
    core = tuple(package for package in others if is_core(package, knowledge))
    asked = replace(question, prefer=others, frozen=core)
    answer = solve(asked)
    if isinstance(answer, Solution) and any(not _same(old, answer, name) for name in names):
        # The solver prefers what is locked, and yet moves it for a newer dependency: freeze all, if that costs nothing.
        least = solve(replace(asked, frozen=others))
        same = isinstance(least, Solution) and all(_same(answer, least, name) for name in names)
        return least if same else answer
    asked = replace(asked, prefer=tuple(package for package in others if package not in core))
    free = solve(replace(asked, frozen=()))
    if isinstance(free, Unsatisfiable):
        return free  # the core is not to blame
    moved = tuple(name for name in names if _release(old, name) != _release(free, name))
    if isinstance(answer, Solution) and not moved:
        return answer  # no other release is there, whatever the core
    needed = _in_the_way(asked, old, free, moved, solve)
    if not needed:
        return answer
    instead = tuple(found for package in needed if (found := free.package(package.name)))
    return Blocked(names=names, platform=old.platform, packages=needed, instead=instead)


def _in_the_way(
    asked: SolveRequest, old: Solution, free: Solution, names: tuple[str, ...], solve: Solve
) -> tuple[LockedPackage, ...]:
    """The least of the frozen packages that must move: each is frozen again, and stays so where the update holds."""
    moved = [package for package in asked.frozen if not _same(old, free, package.name)]
    needed = list(moved)
    for package in moved[:_TRIES]:
        rest = [item for item in needed if item is not package]
        held = tuple(item for item in asked.frozen if item not in rest)
        trial = solve(replace(asked, frozen=held))
        if isinstance(trial, Solution) and all(_release(free, name) == _release(trial, name) for name in names):
            needed = rest
    return tuple(needed)


def _release(solution: Solution, name: str) -> str | None:
    """The version of a package of a solution."""
    package = solution.package(name)
    return package.version if package else None


def _same(one: Solution, other: Solution, name: str) -> bool:
    """Whether two solutions have the same file of a package."""
    first, second = one.package(name), other.package(name)
    return (first.url if first else None) == (second.url if second else None)


def _finding(blocked: Blocked, path: Path, options: tuple[str, ...]) -> Finding:
    """The finding that the frozen core stands in the way, with the command that frees it."""
    after = {package.name: package for package in blocked.instead}
    parts = [
        f"{package.name} {package.version} {package.build}"
        + (
            f" (it would become {after[package.name].version} {after[package.name].build})"
            if package.name in after
            else ""
        )
        for package in blocked.packages
    ]
    freed = (*blocked.names, *(package.name for package in blocked.packages))
    words = ["cuenv", "lock", str(path), *(part for name in freed for part in ("--update", name)), *options]
    message = (
        f"{', '.join(blocked.names)} cannot be updated on {blocked.platform} while the CUDA core is frozen: "
        f"these packages would change: {'; '.join(parts)}"
    )
    subject = ", ".join(blocked.names)
    return Finding(code="CU112", severity="error", subject=subject, message=message, fix=shlex.join(words))
