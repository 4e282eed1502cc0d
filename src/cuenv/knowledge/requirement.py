"""What a build asks of a library, as a value and as a cell of a table."""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter

from packaging.version import Version

from cuenv.core.reading import describe
from cuenv.core.record import dataclass
from cuenv.core.versions import version, within
from cuenv.knowledge.schema import Cell, parsed


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """A version requirement of a build on a library: ``libcudnn >=9.10.2.21,<10``, or the release inside the build."""

    package: str  # the conda package; empty when the library lies inside the build
    # first, below: the bounds; ``None`` is open
    first: Version | None
    below: Version | None

    @staticmethod
    def parse(text: str) -> Requirement:
        """Read ``[package ]>=A,<B`` or one release.

        Raises:
            ValueError: the text has another form.
        """
        package, _, bounds = text.rpartition(" ")
        first, _, below = bounds.partition(",")
        if not first.startswith((">=", "<")):
            inside = version(bounds)
            return Requirement(package=package, first=inside, below=version(f"{inside}.1"))
        if first.startswith("<"):
            return Requirement(package=package, first=None, below=version(first[1:]))
        if below and not below.startswith("<"):
            raise ValueError(f"expected '>=A,<B', got {text!r}")
        return Requirement(package=package, first=version(first[2:]), below=version(below[1:]) if below else None)

    def admits(self, release: Version) -> bool:
        """Whether a release is within the bounds."""
        return within(release, self.first, self.below)

    def overlaps(self, first: Version | None, below: Version | None) -> bool:
        """Whether the range has a release in common with another range."""
        starts_in_time = self.below is None or first is None or first < self.below
        ends_late_enough = self.first is None or below is None or self.first < below
        return starts_in_time and ends_late_enough

    def __str__(self) -> str:
        parts = (f">={self.first}" if self.first else "", f"<{self.below}" if self.below else "")
        return f"{self.package} {','.join(part for part in parts if part)}".strip()

    @cached_property
    def span(self) -> str:
        """The range as a table cell has it; a single release as its number."""
        exact = self.first is not None and self.below is not None and self.below == version(f"{self.first}.1")
        return str(self.first) if exact else str(self)


def _requirement_of(text: str) -> Requirement:
    found = Requirement.parse(text)
    if " " in found.package:
        raise ValueError(f"expected '[package ]>=A,<B' or a release, got {describe(text)}")
    return found


def _span_of(text: str) -> Requirement:
    found = Requirement.parse(text)
    if found.package:
        raise ValueError(f"expected '>=A,<B' or a release, got {text!r}")
    return found


REQUIREMENT: Cell = parsed(
    "`package >=A,<B`, or a release", _requirement_of, lambda value: str(value) if value.package else str(value.first)
)
SPAN: Cell = parsed("`>=A,<B`, or a release", _span_of, attrgetter("span"))
