"""Every environment that the tables allow: a torch build, a toolkit for it, a Python."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from packaging.version import Version

from cuenv.core.record import dataclass
from cuenv.core.versions import VersionSpec, version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import WHEELS, Cuda, LabelFit, TorchBuild

_PYTHON = 12  # Python 3.12 is the middle of what the channels build for: the nearest to it wins
_PATCHES = 40  # more releases than any Python or CUDA minor has had
NO_TORCH = version("0")  # the version that stands for no torch at all


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """One possible environment: a torch build with a CUDA toolkit and a Python."""

    build: TorchBuild  # the torch build; its channel is its stack
    cuda: Version | None  # the toolkit minor of the environment; ``None`` for a CPU build
    python: str  # the minor, such as ``3.12``
    label: LabelFit | None = None  # of the nvidia channel, for the stack pytorch; ``None`` where none is proven to fit
    # cudnn, nccl: releases, when they are known already (a lock is judged); ``None`` while open
    cudnn: Version | None = None
    nccl: Version | None = None
    # the release of its nvcc, where something says that; ``None`` for that of the toolkit
    compiler: Version | None = None

    def __str__(self) -> str:
        cuda = f"CUDA {self.cuda}" if self.cuda else "CPU"
        return f"pytorch {self.build.version} {self.build.build} with {cuda}, python {self.python} ({self.build.stack})"


def no_row(stack: str, release: Version, cuda: Version | None, build: str, platform: str) -> TorchBuild:
    """A row for a build that no table has: it has no sources, and admits to knowing nothing but what it is called."""
    return TorchBuild(
        stack=stack,
        version=release,
        cuda=cuda,
        build=build,
        platform=platform,
        pythons=(),
        code=None,
        glibc=None,
        cudnn=None,
        nccl=None,
        sources=(),
    )


def bare_candidate(cuda: Version, platform: str) -> Candidate:
    """An environment of which nothing is known but its CUDA release."""
    return Candidate(build=no_row("", NO_TORCH, cuda, "", platform), cuda=cuda, python="3")


def environment_key(candidate: Candidate) -> tuple[object, ...]:
    """What makes two candidates the same environment on any platform."""
    build, label = candidate.build, candidate.label
    return (build.stack, build.version, build.build, candidate.cuda, candidate.python, label.label if label else None)


@lru_cache(maxsize=16)
def candidates(knowledge: Knowledge, platform: str, python: VersionSpec | None = None) -> tuple[Candidate, ...]:
    """Enumerate all candidates of a platform, each with the Python that suits it best.

    A conda-forge build for CUDA X.Y accepts every ``cuda-version`` from X.Y to the end of its major; a build of
    the pytorch channel is bound to its own minor, and to the labels of the nvidia channel proven to fit.

    Args:
        python: the version spec that the Python should satisfy, where a build has one that does.
    """
    on_conda_forge = [row for row in knowledge.cudas if row.conda]
    toolkits: dict[tuple[str, Version | None], tuple[tuple[Version | None, LabelFit | None], ...]] = {}
    found = []
    for build in knowledge.torch:
        if build.platform != platform:
            continue
        made = (build.stack, build.cuda)
        if made not in toolkits:
            toolkits[made] = tuple(_toolkits(build, on_conda_forge, knowledge))
        found += [
            Candidate(build=build, cuda=cuda, python=best, label=label)
            for best in pythons(build, python)[:1]
            for cuda, label in toolkits[made]
        ]
    return tuple(found)


@lru_cache(maxsize=16)
def wheel_candidates(knowledge: Knowledge, platform: str, python: VersionSpec | None = None) -> tuple[Candidate, ...]:
    """Every wheel of torch for CUDA of a platform, with the cuDNN and NCCL that it requires exactly."""
    return tuple(
        Candidate(
            build=row,
            cuda=row.cuda,
            python=pythons(row, python)[0],
            cudnn=row.cudnn.first if row.cudnn else None,
            nccl=row.nccl.first if row.nccl else None,
        )
        for row in knowledge.wheels
        if row.platform == platform and row.cuda
    )


def candidates_of(
    stack: str | None, knowledge: Knowledge, platform: str, python: VersionSpec | None = None
) -> tuple[Candidate, ...]:
    """The candidates of a request: wheels where they are asked for, else the builds of conda."""
    return (wheel_candidates if stack == WHEELS else candidates)(knowledge, platform, python)


def pythons(build: TorchBuild, spec: VersionSpec | None = None) -> tuple[str, ...]:
    """The Pythons of a build: those that the spec admits first, nearest to 3.12 (the middle of the channels)."""
    return _nearest(build.pythons, spec)


@lru_cache(maxsize=512)
def _nearest(pythons: tuple[str, ...], spec: VersionSpec | None) -> tuple[str, ...]:
    return tuple(sorted(pythons, key=lambda text: (spec is not None and not admits(spec, text), distance(text))))


@lru_cache(maxsize=512)
def admits(spec: VersionSpec, minor: str) -> bool:
    """Whether a version spec admits a release of a Python or CUDA minor: 3.12.4 and ``>=3.12.4,<3.13`` admit 3.12."""
    if spec.prefix is not None:
        have = version(minor).release
        return spec.prefix[:2] == have[: len(spec.prefix[:2])]
    return any(spec.admits(version(text)) for text in (minor, *(f"{minor}.{patch}" for patch in range(_PATCHES))))


@lru_cache(maxsize=512)
def admits_all(spec: VersionSpec, minor: str) -> bool:
    """Whether a version spec admits every release of a minor: ``>=3.12`` admits all of 3.12, ``>=3.12.4`` does not."""
    return all(spec.admits(version(f"{minor}.{patch}")) for patch in range(_PATCHES))


def distance(python: str) -> tuple[int, int]:
    """How far a Python minor is from 3.12; of two as far, the older first."""
    away = int(python.partition(".")[2]) - _PYTHON
    return abs(away), away


def _toolkits(
    build: TorchBuild, on_conda_forge: list[Cuda], knowledge: Knowledge
) -> Iterator[tuple[Version | None, LabelFit | None]]:
    own = build.cuda
    if own is None:
        yield None, None
    elif build.stack == "pytorch":
        labels = [row for row in knowledge.labels if row.cuda == own]
        yield from ((own, label) for label in labels)
        if not labels:
            yield own, None
    else:
        for row in on_conda_forge:
            if row.version.major == own.major and row.version >= own:
                yield row.version, None
