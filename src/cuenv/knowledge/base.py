"""The knowledge base: what is known about drivers, toolkits, GPUs, PyTorch builds and their companions.

The tables lie in ``data/`` (see ``data/README.md``); ``tables.py`` reads them. Every row names its sources.
Where no row covers a question the answer is ``None`` and the verdict on it is *unknown*, shown as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from packaging.version import Version

from cuenv.core.record import NamedTuple, dataclass
from cuenv.core.versions import Capability, driver_key, within
from cuenv.knowledge.rows import (
    Branch,
    Component,
    ComputeCapability,
    Conflict,
    Cuda,
    CudaVariant,
    Discontinued,
    Extension,
    Feature,
    GpuModel,
    LabelFit,
    LibrarySupport,
    MinimumDriver,
    Program,
    Regression,
    Source,
    State,
    Toolkit,
    TorchBuild,
    TorchWheel,
)

R = TypeVar("R")
K = TypeVar("K")

TEGRA_DRIVERS = frozenset({540})
"""First numbers of the drivers of Jetson Linux 36 that are no branch: 540.3.0 supports CUDA 12.2, 540.4.0 12.6."""
_BRANCHES_AHEAD = 100  # from 515 to 615 it took four years: tables as old as that know nothing of a driver beyond


class LazyTable(NamedTuple):
    """A table that is read on first use."""

    read: Callable[[], Any]  # reads it
    # whether it has a row about a package, where that can be told without reading it
    names: Callable[[str], bool] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Knowledge:
    """All tables, with lookups only; the rules judge."""

    edition: str
    sources: Mapping[str, Source]
    toolkits: tuple[Toolkit, ...]
    cudas: tuple[Cuda, ...]
    branches: tuple[Branch, ...]
    floors: tuple[MinimumDriver, ...]
    generations: tuple[ComputeCapability, ...]
    gpus: tuple[GpuModel, ...]
    torch: tuple[TorchBuild, ...]
    wheels: tuple[TorchWheel, ...]
    layers: tuple[LibrarySupport, ...]
    components: tuple[Component, ...]
    twins: tuple[CudaVariant, ...]
    labels: tuple[LabelFit, ...]
    endings: tuple[Discontinued, ...]
    extensions: tuple[Extension, ...]
    regressions: tuple[Regression, ...]
    programs: tuple[Program, ...]
    conflicts: tuple[Conflict, ...]
    features: tuple[Feature, ...]
    states: tuple[State, ...]

    @classmethod
    def from_lazy_tables(cls, later: Mapping[str, LazyTable]) -> Knowledge:
        """The knowledge base with tables that are read on first use."""
        found = cls.__new__(cls)
        vars(found)["_later"] = later
        return found

    if not TYPE_CHECKING:  # a type checker would take every name

        def __getattr__(self, name: str) -> Any:
            """Read a lazy table."""
            later = vars(self).get("_later", {})
            if name not in later:
                raise AttributeError(name)
            return vars(self).setdefault(name, later[name].read())  # of two threads the first: rows are themselves

    def _lacks(self, table: str, package: str) -> bool:
        """Whether a lazy table has no row about a package, so that it need not be read for it."""
        later = vars(self).get("_later", {}).get(table)
        return bool(later and later.names and table not in vars(self) and not later.names(package))

    def cuda(self, wanted: Version | None) -> Cuda | None:
        """The row of a CUDA minor release; ``None`` without a release or a row."""
        return self._cudas.get(wanted) if wanted else None

    @cached_property
    def _cudas(self) -> Mapping[Version, Cuda]:
        return {row.version: row for row in self.cudas}

    def conda_compiler(self, cuda: Version) -> Cuda | None:
        """The release of conda-forge's nvcc for a torch of a CUDA release: the same, or a near one of its major."""
        rows = [row for row in self.cudas if row.conda_nvcc and row.version.major == cuda.major]
        later = [row for row in rows if row.version >= cuda]
        return min(later, key=lambda row: row.version, default=max(rows, key=lambda row: row.version, default=None))

    def compiles_for(self, cuda: Version) -> tuple[Capability, ...]:
        """The compute capabilities for which the nvcc of a CUDA minor compiles; empty if no row says so."""
        row = self.cuda(cuda)
        return row.targets if row else ()

    def minimum_driver(self, cuda: Version) -> MinimumDriver | None:
        """The minimum driver of the major version of a CUDA release."""
        return next((row for row in self.floors if row.major == cuda.major), None)

    def branch_of(self, driver: str) -> Branch | None:
        """The branch of a driver; between two known branches the lower one, whose CUDA version is certain.

        A driver of Jetson Linux is of no branch: ``None``.
        """
        number = driver_key(driver)[0]
        if number in TEGRA_DRIVERS:
            return None
        known = [row for row in self.branches if row.number <= number]
        return max(known, key=lambda row: row.number, default=None)

    def is_driver(self, text: str) -> bool:
        """Whether such a driver version can exist: its branch is not far above the newest known one."""
        return driver_key(text)[0] <= max((row.number for row in self.branches), default=0) + _BRANCHES_AHEAD

    def cuda_of(self, driver: str) -> Version | None:
        """The CUDA version that a driver supports."""
        branch = self.branch_of(driver)
        return branch.cuda if branch else None

    def branch_for(self, cuda: Version) -> Branch | None:
        """The first branch whose drivers support a CUDA release."""
        able = [row for row in self.branches if row.cuda >= cuda]
        return min(able, key=lambda row: row.number, default=None)

    def native_driver(self, cuda: Version) -> str | None:
        """The driver that came with the first release of a CUDA minor: all features, and JIT of its PTX."""
        return next((row.driver for row in self.toolkits_of(cuda)), None)

    def jit_driver(self, cuda: Version) -> str | None:
        """The first driver that compiles PTX of a CUDA release: its own, or the first of a branch that supports it."""
        branch = None if self.native_driver(cuda) else self.branch_for(cuda)
        return self.first_driver(branch.number) if branch else self.native_driver(cuda)

    def toolkits_of(self, cuda: Version) -> tuple[Toolkit, ...]:
        """The releases of a CUDA minor whose driver is known, in order."""
        return self._toolkits.get(cuda.release[:2], ())

    @cached_property
    def _toolkits(self) -> Mapping[tuple[int, ...], tuple[Toolkit, ...]]:
        known = sorted((row for row in self.toolkits if row.driver), key=lambda row: row.version)
        return _group_rows(known, lambda row: row.version.release[:2])

    def first_driver(self, branch: int) -> str:
        """The earliest known driver of a branch, or the branch itself."""
        drivers = [row.driver for row in self.toolkits if row.driver and driver_key(row.driver)[0] == branch]
        return min(drivers, key=driver_key, default=str(branch))

    def first_driver_of(self, row: ComputeCapability) -> str | None:
        """The first known driver that supports a compute capability."""
        return row.first_driver or (self.first_driver(row.first_branch) if row.first_branch else None)

    def compute_capability(self, capability: Capability | None) -> ComputeCapability | None:
        """The row of a compute capability, exactly: 12.1 is not 12.0."""
        return self._generations.get(capability) if capability else None

    @cached_property
    def _generations(self) -> Mapping[Capability, ComputeCapability]:
        return {row.capability: row for row in self.generations}

    def wheels_of(self, release: Version, platform: str) -> tuple[TorchWheel, ...]:
        """The wheels of a torch release for a platform, oldest CUDA first; the local version does not count."""
        final = not release.is_prerelease and release.post is None
        return self._wheels.get((_three_numbers(release), platform), ()) if final else ()

    @cached_property
    def _wheels(self) -> Mapping[tuple[tuple[int, ...], str], tuple[TorchWheel, ...]]:
        return _group_rows(self.wheels, lambda row: (_three_numbers(row.version), row.platform))

    @cached_property
    def first_day(self) -> str:
        """The day of the first PyTorch build in the tables."""
        days = [*(row.released for row in self.wheels), *(row.seen for row in self.torch if row.seen)]
        return min(days, default="")

    def released(self, release: Version) -> TorchWheel | None:
        """The row with the day on which a PyTorch release was first uploaded; ``None`` without a row."""
        return self._released.get(release.release)

    @cached_property
    def cuda_days(self) -> Mapping[Version, str]:
        """The day of the first PyTorch wheel for each CUDA minor, by which its toolkit existed."""
        found: dict[Version, str] = {}
        for row in self.wheels:
            if row.cuda:
                found[row.cuda] = min(row.released, found.get(row.cuda, row.released))
        return found

    @cached_property
    def _released(self) -> Mapping[tuple[int, ...], TorchWheel]:
        by_release = _group_rows(self.wheels, lambda row: row.version.release)
        return {release: min(rows, key=lambda row: row.released) for release, rows in by_release.items()}

    def layers_of(self, library: str, cuda: Version | None) -> tuple[LibrarySupport, ...]:
        """The rows on builds of a library for a CUDA major, or for the nearest older one, or for the oldest."""
        of_library = self._layers.get(library, {})
        highest = cuda.major if cuda else max(of_library, default=0)
        reached = [major for major in of_library if major <= highest]
        return of_library.get(max(reached) if reached else min(of_library, default=0), ())

    @cached_property
    def _layers(self) -> Mapping[str, Mapping[int, tuple[LibrarySupport, ...]]]:
        libraries = _group_rows(self.layers, lambda row: row.library)
        return {library: _group_rows(rows, lambda row: row.cuda or 0) for library, rows in libraries.items()}

    def library_support(self, library: str, release: Version, cuda: Version | None) -> LibrarySupport | None:
        """The row about a release of a library that is built for a CUDA release."""
        return next((row for row in self.layers_of(library, cuda) if within(release, row.first, row.below)), None)

    def cuda_variant(self, package: str, channel: str) -> CudaVariant | None:
        """The row of a package that has CPU and CUDA builds in a channel."""
        return next((row for row in self.twins if row.package == package and row.channel == channel), None)

    def component(self, package: str) -> Component | None:
        """The row of an NVIDIA package, by name or glob pattern."""
        found, globs = self._components
        if package not in found:
            fits = ((start, row) for start, row in globs if package.startswith(start))
            rows = (row for start, row in fits if row.name == f"{start}*" or fnmatchcase(package, row.name))
            found[package] = next(rows, None)
        return found[package]

    @cached_property
    def _components(self) -> tuple[dict[str, Component | None], tuple[tuple[str, Component], ...]]:
        """The components by name, and those with a glob pattern with its fixed beginning."""
        globs = tuple((re.split(r"[*?\[]", row.name)[0], row) for row in self.components if "*" in row.name)
        return {row.name: row for row in self.components}, globs

    def package_with_header(self, header: str) -> str | None:
        """The conda package that contains a header file; ``None`` if no row names one."""
        return next((row.name for row in self.components if header in row.headers), None)

    def is_component(self, package: str) -> bool:
        """Whether a package is a CUDA component, which must come from one channel."""
        return self.component(package) is not None

    def parts_of(self, package: str) -> tuple[str, ...]:
        """The packages that a metapackage of the nvidia channel installs, directly or by other metapackages."""
        row = self.component(package)
        if row is None or not row.parts:
            return ()
        return tuple(dict.fromkeys(leaf for part in row.parts for leaf in self.parts_of(part) or (part,)))

    def discontinued(self, package: str) -> Discontinued | None:
        """The row of a discontinued package."""
        return next((row for row in self.endings if row.package == package), None)

    def extension(self, package: str) -> tuple[Extension, ...]:
        """The rows about a library that uses PyTorch, oldest releases first."""
        return () if self._lacks("extensions", package) else self._extensions.get(package, ())

    @cached_property
    def _extensions(self) -> Mapping[str, tuple[Extension, ...]]:
        return _group_rows(self.extensions, lambda row: row.package)

    def regression(self, package: str) -> tuple[Regression, ...]:
        """The rows about broken releases of a library."""
        if self._lacks("regressions", package):
            return ()
        return tuple(row for row in self.regressions if row.package == package)

    def program(self, package: str, release: Version) -> Program | None:
        """The row about the CUDA that the wheels of a program other than torch load."""
        if self._lacks("programs", package):
            return None
        return next((row for row in self.programs if row.package == package and row.covers(release)), None)

    def conflicts_of(self, stack: str, release: Version) -> tuple[Conflict, ...]:
        """The packages that fail with a torch release of a channel or of pip."""
        return tuple(row for row in self.conflicts if stack in row.stacks and release < row.torch_below)

    def feature(self, capability: Capability, chip: str = "") -> Feature | None:
        """The features of GPUs of a capability: the row of the chip, or of all others."""
        rows = [row for row in self.features if row.capability == capability and row.chip in ("", chip)]
        return max(rows, key=lambda row: row.chip, default=None)

    def state(self, about: str) -> State | None:
        """The row about a state of a machine."""
        return next((row for row in self.states if row.about == about), None)


def _group_rows(rows: Iterable[R], key: Callable[[R], K]) -> dict[K, tuple[R, ...]]:
    """The rows grouped by a key, in their order."""
    found: dict[K, list[R]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return {name: tuple(group) for name, group in found.items()}


def _three_numbers(release: Version) -> tuple[int, ...]:
    """A release as three numbers: 2.7 is 2.7.0."""
    return (*release.release, 0, 0)[:3]
