"""Every environment that the tables allow: a torch build, a toolkit for it, a Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import Version

from cuenv.knowledge import Cuda, Knowledge, LabelFit, TorchBuild


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """One possible environment.

    Attributes:
        build: the torch build; its channel is its stack.
        cuda: the toolkit minor of the environment; ``None`` for a CPU build.
        python: the minor, such as ``3.12``.
        label: of the nvidia channel, for the stack pytorch; ``None`` where none is proven to fit.
        cudnn, nccl: releases, when they are known already (a lock is judged); ``None`` while open.
    """

    build: TorchBuild
    cuda: Version | None
    python: str
    label: LabelFit | None = None
    cudnn: Version | None = None
    nccl: Version | None = None

    def __str__(self) -> str:
        cuda = f"CUDA {self.cuda}" if self.cuda else "CPU"
        return f"pytorch {self.build.version} {self.build.build} with {cuda}, python {self.python} ({self.build.stack})"


def candidates(knowledge: Knowledge, platform: str) -> tuple[Candidate, ...]:
    """Enumerate all candidates of a platform.

    A conda-forge build for CUDA X.Y accepts every ``cuda-version`` from X.Y to the end of its major; a build of
    the pytorch channel is bound to its own minor, and to the labels of the nvidia channel proven to fit.
    """
    on_conda_forge = [row for row in knowledge.cudas if row.conda]
    return tuple(
        Candidate(build=build, cuda=cuda, python=python, label=label)
        for build in knowledge.torch
        if build.platform == platform
        for cuda, label in _toolkits(build, on_conda_forge, knowledge)
        for python in build.pythons
    )


def _toolkits(
    build: TorchBuild, on_conda_forge: list[Cuda], knowledge: Knowledge
) -> Iterator[tuple[Version | None, LabelFit | None]]:
    own = build.cuda
    if own is None:
        yield None, None
    elif build.stack == "pytorch":
        for label in [row for row in knowledge.labels if row.cuda == own] or [None]:
            yield own, label
    else:
        for row in on_conda_forge:
            if row.version.major == own.major and row.version >= own:
                yield row.version, None
