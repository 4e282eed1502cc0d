"""Packages of which files are gone: something deleted them, or an installation broke off."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cuenv.core.findings import Finding, Severity
from cuenv.prefix.fixes import pip_again, put_back
from cuenv.prefix.inventory import Prefix, Wheel
from cuenv.solve.model import LockedPackage

_SHOWN, _EVIDENCE = 3, 200
_LIBRARY = re.compile(r".*\.so(?:\.[0-9]+)*")
_STRIPPED = frozenset({"test", "tests", "doc", "docs", "man", "examples", "locale", "licenses"})
"""Folders that makers of small images take out; nothing loads what lies there."""
_SPARE = (".pyi", ".a", ".la", ".md", ".rst", ".html", ".pyx", ".pxd", ".c", ".cpp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """What is gone of a package.

    Attributes:
        files: that its record lists and that are not there, relative to the folder of packages, or the environment.
        total: how many files it should have.
        wheel: it came by pip.
        package: it came by conda.
    """

    name: str
    version: str
    files: tuple[str, ...]
    total: int
    wheel: Wheel | None = None
    package: LockedPackage | None = None


def gone_findings(gone: Iterable[Gone], prefix: Prefix) -> Iterator[Finding]:
    """One finding for each package: an error where code is gone that something loads."""
    for item in gone:
        files = sorted(item.files, key=lambda file: (_weight(file), file))
        more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
        listed = f"{', '.join(files[:_SHOWN])}{more}"
        many = f"all {item.total} files of" if len(files) == item.total else f"{len(files)} of {item.total} files of"
        yield Finding(
            code="CU215",
            severity=_SEVERITIES[_weight(files[0])],
            subject=item.name,
            message=f"{many} {item.name} {item.version} are gone: {listed}",
            evidence=tuple(files[:_EVIDENCE]),
            fix=pip_again(prefix, item.wheel)
            if item.wheel
            else put_back(item.package, prefix)
            if item.package
            else None,
        )


_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


def _weight(file: str) -> int:
    """0 for code that something loads, 2 for what a small image is made without, 1 for all else."""
    if _STRIPPED & set(file.split("/")[:-1]) or file.endswith(_SPARE):
        return 2
    name = posixpath.basename(file)
    return 0 if name.endswith(".py") or _LIBRARY.fullmatch(name) else 1
