"""The contents of an installed environment, as conda-meta and the dist-info folders of Python list them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from cuenv.core.record import NamedTuple, dataclass, field
from cuenv.core.versions import version, version_or_none
from cuenv.solve.model import LockedPackage

Kind = Literal["conda", "venv", "python"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A Python distribution, by its ``dist-info`` folder."""

    name: str  # normalised as PyPI does it
    version: str
    folder: str  # the site-packages that holds it
    # the word in its INSTALLER file, such as ``pip``, ``conda`` or ``uv``; ``None`` without one
    installer: str | None = None
    # where it came from, when it was installed from a URL (``direct_url.json``); without credentials
    url: str | None = None
    dist_info: str = ""  # the name of its ``dist-info`` folder
    conda: str | None = None  # the conda package whose record lists that folder
    replaced: bool = False  # another installer has overwritten the files that conda installed


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A folder outside of the environment from which its Python also takes packages."""

    path: str
    via: str  # why Python searches the folder: ``user site``, ``PYTHONPATH`` or ``base of the venv``
    first: bool  # whether Python searches it before the environment's own folders
    wheels: tuple[Wheel, ...] = ()
    torch: str | None = None  # the version of the torch in it, which need not have a dist-info


class DamagedRecord(NamedTuple):
    """A record of an environment that cannot be read."""

    path: str
    reason: str
    forbidden: bool = False  # whether its permissions forbid it


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """An environment on disk."""

    path: str  # its folder, with links resolved
    # ``conda`` (it holds conda-meta), ``venv`` (it holds pyvenv.cfg), ``python`` (an interpreter's own prefix)
    kind: Kind
    python: str | None  # release of its Python, ``3.12``; ``None`` when it holds none
    # the folders that its Python reads packages from, in the order of search; only those that exist
    site_packages: tuple[str, ...]
    conda: tuple[LockedPackage, ...] = ()  # the packages in conda-meta, sorted by name
    wheels: tuple[Wheel, ...] = ()
    removed: tuple[Wheel, ...] = ()
    damaged: tuple[DamagedRecord, ...] = ()
    client: str = "conda"
    remake: str = ""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)

    def package(self, name: str) -> LockedPackage | None:
        """The conda package with this name."""
        return next((item for item in self.conda if item.name == name), None)

    def wheel(self, name: str) -> Wheel | None:
        """The distribution with this name that Python finds first."""
        return next((item for item in self.wheels if item.name == name), None)

    @property
    def platform(self) -> str | None:
        """The platform of its conda packages; ``None`` when all of them are noarch."""
        counts = Counter(item.subdir for item in self.conda if item.subdir != "noarch")
        return max(counts, key=lambda subdir: counts[subdir], default=None)


def matching_wheel(wheels: Sequence[Wheel], files: str | None) -> Wheel:
    """The record, of several for one distribution, whose release is really installed; the newest if that is unknown.

    Args:
        wheels: the records, at least one.
        files: the release that the distribution's own files name, such as ``2.9.1+cu128``.
    """
    public = files.partition("+")[0] if files else ""
    said = [wheel for wheel in wheels if files and wheel.version in (files, public)]
    return (said or sorted(wheels, key=lambda wheel: version_or_none(wheel.version) or version("0")))[-1]
