"""What an installed environment says that it holds: conda's records and Python's, as they were read from its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cuenv.lockfile import LockedPackage

Kind = Literal["conda", "venv", "python"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A Python distribution, by its ``dist-info`` folder.

    Attributes:
        name: normalised as PyPI does it.
        folder: the site-packages that holds it.
        installer: the word in its INSTALLER file, such as ``pip``, ``conda`` or ``uv``; ``None`` without one.
        url: where it came from, when it was installed from a URL (``direct_url.json``); without credentials.
    """

    name: str
    version: str
    folder: str
    installer: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """An environment on disk.

    Attributes:
        path: its folder, resolved.
        kind: ``conda`` (it holds conda-meta), ``venv`` (it holds pyvenv.cfg), ``python`` (an interpreter's own prefix).
        python: release of its Python, ``3.12``; ``None`` when it holds none.
        site_packages: the folders that its Python reads packages from, first one first; only those that exist.
        conda: the packages of conda-meta, by name.
        wheels: the distributions in site_packages, by name; of one name that stands in two folders, both.
    """

    path: str
    kind: Kind
    python: str | None
    site_packages: tuple[str, ...]
    conda: tuple[LockedPackage, ...] = ()
    wheels: tuple[Wheel, ...] = ()

    def package(self, name: str) -> LockedPackage | None:
        """The conda package of that name."""
        return next((item for item in self.conda if item.name == name), None)

    def wheel(self, name: str) -> Wheel | None:
        """The distribution of that name that Python finds first."""
        return next((item for item in self.wheels if item.name == name), None)
