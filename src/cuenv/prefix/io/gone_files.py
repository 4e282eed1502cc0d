"""Files that the records of an environment list, and that are not there any more: RECORD of wheels, conda-meta."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator

from cuenv.prefix.gone_files import Gone
from cuenv.prefix.inventory import Prefix
from cuenv.prefix.io.distributions import files_of

_MOST = 500_000
"""Files that are looked for. Each folder is listed once, so most of the time goes into reading the records."""


def gone_files(prefix: Prefix) -> tuple[Gone, ...]:
    """What is gone of each package; dist-info, and what Python compiles by itself, do not count."""
    return tuple(item for item in _all(prefix, _Folders()) if item.files)


def _all(prefix: Prefix, there: _Folders) -> Iterator[Gone]:
    names = Counter(wheel.name for wheel in prefix.wheels)
    for wheel in prefix.wheels:
        # conda's files have a record of their own, and of two records of one name only one can be true (CU206).
        if (wheel.conda and not wheel.replaced) or names[wheel.name] > 1:
            continue
        files, total = there.gone(wheel.folder, files_of(wheel))
        yield Gone(name=wheel.name, version=wheel.version, files=files, total=total, wheel=wheel)
    # What pip put over a package of conda, or took away, is told already (CU204, CU205).
    over = {wheel.conda for wheel in prefix.wheels if wheel.replaced} | {wheel.conda for wheel in prefix.gone}
    over |= {wheel.name for wheel in prefix.wheels if not wheel.conda}
    for package in prefix.conda:
        if package.name not in over:
            files, total = there.gone(prefix.path, prefix.files.get(package.name, ()))
            yield Gone(name=package.name, version=package.version, files=files, total=total, package=package)


class _Folders:
    """The names in folders, each listed once."""

    def __init__(self) -> None:
        self._left = _MOST
        self._listed: dict[str, frozenset[str]] = {}

    def gone(self, root: str, names: Iterable[str]) -> tuple[tuple[str, ...], int]:
        """Those of the files that are not there, and how many there should be."""
        wanted: dict[str, list[str]] = {}
        total = 0
        for name in names:
            folder, _, file = name.rpartition("/")
            if (
                file
                and name.isprintable()
                and not file.endswith(".pyc")
                and not folder.endswith((".dist-info", "__pycache__"))
            ):
                wanted.setdefault(folder, []).append(file)
                total += 1
        self._left -= total
        if self._left < 0:
            return (), total
        found = []
        for folder, files in wanted.items():
            missing = set(files) - self._names(f"{root}/{folder}" if folder else root)
            found += [f"{folder}/{file}".lstrip("/") for file in sorted(missing)]
        return tuple(sorted(found)), total

    def _names(self, folder: str) -> frozenset[str]:
        listed = self._listed.get(folder)
        if listed is None:
            try:
                listed = frozenset(os.listdir(folder))  # noqa: PTH208 - names are wanted, not paths
            except OSError:
                listed = frozenset()
            self._listed[folder] = listed
        return listed
