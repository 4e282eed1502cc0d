"""An installed environment against its lock: what is missing, changed, or was never locked."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from packaging.version import InvalidVersion, Version

from cuenv.core.findings import Finding, Severity, first_of
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.prefix.fixes import pip_command, pip_install, reinstall_wheel, remove_package, restore_package
from cuenv.prefix.inventory import Prefix, Wheel
from cuenv.solve.model import LockedPackage, Solution

_ADDED = frozenset({"pip", "setuptools", "wheel", "packaging"})
"""What conda's solvers add to a Python that nobody asked for: pip, and what pip's builds ask for."""


def conda_findings(prefix: Prefix, solution: Solution) -> tuple[Finding, ...]:
    """Differences between the conda packages of an environment and its lock (CU201, CU202, CU203)."""
    have = {package.name: package for package in prefix.conda}
    locked = {package.name: package for package in solution.packages}
    found = []
    for name in sorted(have.keys() | locked.keys()):
        mine, asked = have.get(name), locked.get(name)
        if asked is None and mine is not None:
            text = f"{name} {mine.version} is installed, but it is not in the lock"
            fix = remove_package(name, prefix)
            if name in _ADDED and "pip" in have and "pip" not in locked:
                text += ": conda adds it to Python by itself; CONDA_ADD_PIP_AS_PYTHON_DEPENDENCY=false prevents that"
                found.append(_finding("CU203", name, text, fix, "info"))
            else:
                found.append(_finding("CU203", name, text, fix))
        elif mine is None and asked is not None:
            text = f"{name} {asked.version} is in the lock, but it is not installed"
            found.append(_finding("CU201", name, text, restore_package(asked, prefix)))
        elif mine is not None and asked is not None and (text := _difference(mine, asked)):
            found.append(_finding("CU202", name, text, restore_package(asked, prefix)))
    return tuple(found)


def _difference(mine: LockedPackage, asked: LockedPackage) -> str:
    """How an installed package differs from the locked one; empty if it does not.

    Hashes are compared before channels, because a channel may be a mirror of the locked one.
    """
    name = mine.name
    if (mine.version, mine.build) != (asked.version, asked.build):
        return f"{name} is {mine.version} {mine.build}, but the lock has {asked.version} {asked.build}"
    for kind, own, other in (("sha256", mine.sha256, asked.sha256), ("md5", mine.md5, asked.md5)):
        if own and other:
            if own.lower() == other.lower():
                return ""
            return f"{name} {mine.version} {mine.build} has the {kind} {own}, but the lock has {other}"
    if mine.channel_name != asked.channel_name:
        return f"{name} {mine.version} is from {mine.channel_name}, but the lock has it from {asked.channel_name}"
    return ""


def pip_findings(prefix: Prefix, solution: Solution) -> Iterator[Finding]:
    """Differences between what pip installed and the pip part of the lock."""
    have = {wheel.name: wheel for wheel in reversed(prefix.wheels) if wheel.conda is None or wheel.replaced}
    locked = {item.name for item in solution.pip}
    by_conda = {wheel.name for wheel in prefix.wheels if wheel.conda} | {wheel.name for wheel in prefix.removed}
    for item in solution.pip:
        mine = have.get(item.name)
        asked = f"{item.name} @ {item.url}" if item.direct else f"{item.name}=={item.version}"
        fix = pip_install(prefix, asked, index=item.version)
        if mine is None:
            text = f"{item.name} {item.version} is in the pip part of the lock, but it is not installed"
            yield _finding("CU201", item.name, text, fix)
        elif not item.direct and not same_version(mine.version, item.version):
            text = f"{item.name} is {mine.version}, but the pip part of the lock has {item.version}"
            yield _finding("CU202", item.name, text, fix)
    for wheel in have.values():
        if wheel.name not in locked and wheel.name not in by_conda:
            yield _unlocked_wheel(wheel, prefix)


def _unlocked_wheel(wheel: Wheel, prefix: Prefix) -> Finding:
    """The finding on a wheel that is not in the lock; a wheel from a local folder is only reported as information."""
    own = bool(wheel.url and wheel.url.startswith("file:"))
    message = (
        f"{wheel.name} {wheel.version} is installed by {wheel.installer or 'pip'}"
        f"{f' from {wheel.url}' if own else ''} and not in the lock"
    )
    fix = None if own else pip_command(prefix, "uninstall", "-y", wheel.name)
    return Finding(code="CU203", severity="info" if own else "warning", subject=wheel.name, message=message, fix=fix)


def same_version(left: str, right: str) -> bool:
    """Whether two versions of a distribution are the same; dist-info may write ``1.0_1`` for ``1.0-1``."""
    try:
        return Version(left.replace("_", "-")) == Version(right)
    except InvalidVersion:
        return left == right


def count_as_locked(installed: Iterable[LockedPackage], solution: Solution) -> int:
    """The number of locked packages that are installed in the locked version and build."""
    have = {(package.name, package.version, package.build) for package in installed}
    return sum((package.name, package.version, package.build) in have for package in solution.packages)


def _finding(code: str, name: str, message: str, fix: str, severity: Severity = "error") -> Finding:
    return Finding(code=code, severity=severity, subject=name, message=message, fix=fix)


_SHOWN, _EVIDENCE = 3, 200
_LIBRARY = regex(r".*\.so(?:\.[0-9]+)*")
_STRIPPED = frozenset({"test", "tests", "doc", "docs", "man", "examples", "locale", "licenses"})
"""Folders that makers of small images take out; nothing loads what lies there."""
_SPARE = (".pyi", ".a", ".la", ".md", ".rst", ".html", ".pyx", ".pxd", ".c", ".cpp")


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingFiles:
    """The files of an installed package that were removed."""

    name: str
    version: str
    files: tuple[str, ...]  # the missing files, relative to site-packages or to the environment
    total: int  # the number of files that the package's record lists
    wheel: Wheel | None = None  # the distribution, if pip installed it
    package: LockedPackage | None = None  # the conda package, if conda installed it


def missing_file_findings(gone: Iterable[MissingFiles], prefix: Prefix) -> Iterator[Finding]:
    """One finding for each package with missing files (CU215): an error if one of them is Python code or a library."""
    for item in gone:
        files = sorted(item.files, key=lambda file: (_importance(file), file))
        listed = first_of(files, _SHOWN)
        many = f"all {item.total} files of" if len(files) == item.total else f"{len(files)} of {item.total} files of"
        yield Finding(
            code="CU215",
            severity=_SEVERITIES[_importance(files[0])],
            subject=item.name,
            message=f"{many} {item.name} {item.version} were removed: {listed}",
            evidence=tuple(files[:_EVIDENCE]),
            fix=reinstall_wheel(prefix, item.wheel)
            if item.wheel
            else restore_package(item.package, prefix)
            if item.package
            else None,
        )


_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


def _importance(file: str) -> int:
    """0 for Python code and libraries, 2 for files that people remove to get small images, 1 for all others."""
    if _STRIPPED & set(file.split("/")[:-1]) or file.endswith(_SPARE):
        return 2
    name = posixpath.basename(file)
    return 0 if name.endswith(".py") or _LIBRARY.fullmatch(name) else 1
