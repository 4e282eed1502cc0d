"""An installed environment against its lock: findings of the range CU2xx."""

from __future__ import annotations

from collections.abc import Iterable

from cuenv.lockfile import LockedPackage, Solution
from cuenv.report import Finding


def installed_findings(installed: Iterable[LockedPackage], solution: Solution) -> tuple[Finding, ...]:
    """An installed environment against its lock: what is missing, changed, or was never locked."""
    have = {package.name: package for package in installed}
    locked = {package.name: package for package in solution.packages}
    found = []
    for name in sorted(have.keys() | locked.keys()):
        mine, asked = have.get(name), locked.get(name)
        if asked is None and mine is not None:
            found.append(_installed("CU203", name, f"{name} {mine.version} is installed and not in the lock"))
        elif mine is None and asked is not None:
            found.append(_installed("CU201", name, f"{name} {asked.version} is in the lock and not installed"))
        elif mine is not None and asked is not None and (mine.version, mine.build) != (asked.version, asked.build):
            text = f"{name} is {mine.version} {mine.build}, the lock says {asked.version} {asked.build}"
            found.append(_installed("CU202", name, text))
    return tuple(found)


def as_locked(installed: Iterable[LockedPackage], solution: Solution) -> int:
    """How many of the locked packages are installed in their version and build."""
    have = {(package.name, package.version, package.build) for package in installed}
    return sum((package.name, package.version, package.build) in have for package in solution.packages)


def _installed(code: str, name: str, message: str) -> Finding:
    fix = "make the environment again from its lock"
    return Finding(code=code, severity="error", subject=name, message=message, fix=fix)
