"""The rows on libraries that sit on torch: what their releases need, and releases that are known to be broken."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version

from cuenv.rows import Requirement, Row
from cuenv.versions import Capability, version, within


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extension(Row):
    """What one set of releases of a library needs of torch, CUDA, the GPU and the compiler.

    Several rows on one release are alternatives (builds for CUDA 12 and for CUDA 13): one that suits is enough.

    Attributes:
        package: its name, the same in conda and in pip.
        comes: ways in which these releases come: ``conda-forge``, ``pytorch``, ``wheel`` or ``source``.
        releases: the very releases, where each pins another torch; empty when a range says it.
        first, below: the range of releases; ``None`` is open.
        torch: the range of torch; ``None`` when it is not bound.
        cuda: CUDA minors that the binaries are for; empty when they are not bound.
        match: how ``cuda`` is compared: ``exact`` with torch's own CUDA, ``major`` with its major, ``toolkit``
            with the runtime of the environment, whatever torch was made with.
        platforms: conda platforms that these builds are for; empty when all are.
        serves_from: lowest capability it serves; ``None`` when not known.
        nvcc: range of the nvcc that it compiles with, on first use or at its installation; ``None``: it compiles none.
        checks: the library compares nvcc with torch's CUDA and refuses another minor.
        tolerates: CUDA minors among which, major for major, a library that ``checks`` lets the two differ.
        headers: header files that the compilation includes, by name.
        tools: further packages that the compilation calls: ``ninja``, ``gxx``.
    """

    package: str
    comes: tuple[str, ...]
    releases: tuple[Version, ...]
    first: Version | None
    below: Version | None
    torch: Requirement | None
    cuda: tuple[Version, ...]
    match: str
    platforms: tuple[str, ...]
    serves_from: Capability | None
    nvcc: Requirement | None
    tolerates: tuple[Version, ...]
    checks: bool
    headers: tuple[str, ...]
    tools: tuple[str, ...]

    def covers(self, release: Version) -> bool:
        """Whether the row speaks of a release; one with a local part (``+cu118``) is the release itself."""
        release = version(release.public) if release.local else release
        if self.releases:
            return release in self.releases
        return within(release, self.first, self.below)

    def refuses(self, own: Version, nvcc: Version) -> bool:
        """Whether the library compares nvcc with torch's own CUDA and refuses this pair, minors both."""
        both = own in self.tolerates and nvcc in self.tolerates and own.major == nvcc.major
        return self.checks and own != nvcc and not both

    def span(self) -> str:
        """The releases in words: ``0.42.0``, ``0.50 and later``, ``0.45 to below 0.45.5``."""
        if self.releases:
            return ", ".join(map(str, self.releases))
        if self.below is None:
            return f"{self.first} and later" if self.first else "all releases"
        return f"{self.first} to below {self.below}" if self.first else f"below {self.below}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regression(Row):
    """Releases of a library that are known to fail.

    Attributes:
        when: what has to be done for it to show: ``offload``.
        says: what happens, in the words of the error.
        issue: where it is told.
        mended: the first later release without it.
    """

    package: str
    releases: tuple[Version, ...]
    when: str
    says: str
    issue: str
    mended: Version
