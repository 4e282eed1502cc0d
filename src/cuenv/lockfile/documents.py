"""The JSON of `cuenv diff`; see `cuenv.core.documents`."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from cuenv.core.documents import BriefFinding
from cuenv.core.findings import How


class PackageFields(TypedDict):
    """A locked package."""

    version: str
    build: str
    channel: str
    url: str


class PackageDifference(TypedDict):
    """A package that differs."""

    platform: str
    name: str
    kind: Literal["added", "removed", "changed"]
    core: bool  # it is of the CUDA core
    what: list[str]  # of a changed package: version, build, channel, or hash
    old: PackageFields | None
    new: PackageFields | None


class AddedRemoved(TypedDict):
    """What only one of two locks has."""

    added: list[str]
    removed: list[str]


class GpuDifference(TypedDict):
    """A compute capability that two locks support differently."""

    platform: str
    capability: str
    old: How
    new: How


class OldNew(TypedDict):
    """A value of both locks; null where it is not known."""

    old: str | None
    new: str | None


class HostDifference(TypedDict):
    """What the difference means for one host."""

    host: str
    platform: str
    minimum_driver: OldNew
    appear: list[BriefFinding]  # findings that only the new lock has
    vanish: list[BriefFinding]  # findings that only the old lock has


class DiffDocument(TypedDict):
    """How two locks differ."""

    schema: Literal["cuenv/diff/1"]
    old: str  # where the first lock was read
    new: str  # where the second lock was read
    equal: bool  # both lock the same
    changes: list[PackageDifference]
    platforms: AddedRemoved
    pip: AddedRemoved  # packages for pip
    gpus: list[GpuDifference]
    hosts: list[HostDifference]
