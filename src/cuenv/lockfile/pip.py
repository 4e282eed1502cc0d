"""Locking the pip part: after conda's solve, for each platform, with conda's packages as what is already there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from cuenv.core.findings import Finding
from cuenv.core.io.files import exists
from cuenv.core.urls import redact
from cuenv.lockfile.files import read_lock
from cuenv.lockfile.formats.requirements_txt import UNLOCKED
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.model import Lock, Solution


def before_pip(spec: EnvironmentSpec, allow: tuple[str, ...]) -> tuple[Finding, ...]:
    """What can be said of a pip part before anything is solved."""
    if not spec.pip:
        return ()
    if UNLOCKED not in allow:
        from cuenv.lockfile.policy_pip import requirement_findings  # noqa: PLC0415 - only with a pip part

        return tuple(requirement_findings(spec.pip))
    return (
        Finding(
            code="CU501",
            severity="warning",
            subject="pip",
            message=f"{len(spec.pip)} requirements for pip are not locked: {redact(', '.join(spec.pip))[:120]}",
            fix="install them in the environment afterwards: python -m pip install REQUIREMENT",
        ),
    )


def lock_pip(
    spec: EnvironmentSpec,
    solutions: list[Solution],
    earlier: Path,
    *,
    update: tuple[str, ...] = (),
    environ: Mapping[str, str],
    allow: tuple[str, ...],
    certificates: str | None = None,
    offline: bool,
    progress: Callable[[str], None] | None,
) -> tuple[list[Solution], list[Finding]]:
    """Add the pip part to every solution; findings say what refuses it.

    Args:
        spec: the environment file.
        solutions: conda's answers.
        earlier: a lock that may lie there; its packages for pip stay while they satisfy the file.
        update: packages of that lock that may move.
        environ: the user's variables: indexes, credentials, proxies.
        allow: codes that the user allowed; CU501 leaves the pip part out.
        certificates: authorities that ``.condarc`` names.
        offline: take only what uv's cache holds.
        progress: told in a few words what is being done.

    Raises:
        ChannelError: a package index cannot be read.
        OutsideError: uv cannot be run, or a package's setup failed.
    """
    if not spec.pip or UNLOCKED in allow:
        return solutions, []
    old = read_lock(earlier) if exists(earlier) else None
    made, found = [], []
    for solution in solutions:
        part, findings = _one(
            spec, solution, old, update, environ=environ, certificates=certificates, offline=offline, progress=progress
        )
        made.append(part)
        found += findings
    return made, found


def _one(
    spec: EnvironmentSpec,
    solution: Solution,
    old: Lock | None,
    update: tuple[str, ...],
    *,
    environ: Mapping[str, str],
    certificates: str | None,
    offline: bool,
    progress: Callable[[str], None] | None,
) -> tuple[Solution, list[Finding]]:
    from cuenv.lockfile.policy_pip import conflict_finding, origin_findings, pip_findings  # noqa: PLC0415 - only with a pip part
    from cuenv.solve.io.pip import resolve  # noqa: PLC0415 - as above
    from cuenv.solve.io.pip_index import pypi_names  # noqa: PLC0415 - as above
    from cuenv.solve.pip_part import PipConflict, PipRequest, glibc_of, normalise, provided  # noqa: PLC0415 - as above

    python = solution.package("python")
    if python is None:
        return solution, [_no_python(spec)]
    kept = old.solution(solution.platform) if old else None
    moving = set(map(normalise, update))
    request = PipRequest(
        requirements=spec.pip,
        python=python.version,
        platform=solution.platform,
        glibc=glibc_of(solution.virtual_packages),
        provided=provided(solution.packages, pypi_names()),
        prefer=tuple(item for item in kept.pip if item.name not in moving) if kept else (),
    )
    answer = resolve(request, environ, certificates=certificates, offline=offline, progress=progress)
    if isinstance(answer, PipConflict):
        return solution, [conflict_finding(answer)]
    whole = replace(solution, pip=answer)
    return whole, [*pip_findings(whole), *origin_findings(answer)]


def _no_python(spec: EnvironmentSpec) -> Finding:
    return Finding(
        code="CU515",
        severity="error",
        subject="python",
        message=f"{len(spec.pip)} requirements are for pip, and the environment has no Python",
        fix="add to dependencies: python and pip",
    )
