"""The input of the checks of an installed environment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from cuenv.core.record import dataclass
from cuenv.core.versions import version_or_none
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.prefix.cuda_files import CudaFiles
from cuenv.prefix.fixes import FileOwner, rebuild_for_torch
from cuenv.prefix.inventory import Prefix
from cuenv.solve.model import Lock, Solution

NO_LOCK = "not compared: no lock was found; name one with --lock"


def other_platforms(lock: Lock) -> str:
    """Why an environment is not compared with a lock that has nothing for its platform."""
    return f"not compared: the lock is for {', '.join(one.platform for one in lock.solutions)}"


@dataclass(frozen=True, kw_only=True)
class CheckedEnvironment:
    """An installed environment, and what it is checked against."""

    prefix: Prefix
    facts: HostFacts  # the host that the environment is to run on
    knowledge: Knowledge
    environ: Mapping[str, str]  # the variables of this process; a check says which of them it reads
    lock: Lock | None = None
    no_lock: str = NO_LOCK  # why the environment is not compared with a lock
    profile: Request | None = None  # the request of a profile, when one is named
    running: bool = False  # whether programs and scripts of the environment may be run; otherwise only files are read

    @property
    def solution(self) -> Solution | None:
        """The locked packages for the platform of the host."""
        return self.lock.solution(self.facts.platform) if self.lock else None

    @cached_property
    def cuda_files(self) -> CudaFiles:
        """What the environment's files say about CUDA; the first check that needs it reads it."""
        from cuenv.prefix.io.cuda_files import read_cuda_files  # noqa: PLC0415 - a check may need none of it

        return read_cuda_files(self.prefix, {row.package for row in self.knowledge.extensions})

    def owner(self, path: str) -> FileOwner | None:
        """The package that a file of the environment belongs to, by conda-meta and RECORD."""
        from cuenv.prefix.io.conda_meta import owner_of  # noqa: PLC0415 - only a finding asks

        return owner_of(self.prefix, path)

    def rebuild(self, library: str) -> str:
        """The command that installs a build of a library for the torch of this environment."""
        from cuenv.prefix.io.conda_meta import pins_torch  # noqa: PLC0415 - only a finding asks

        torch = version_or_none(self.cuda_files.torch)
        return rebuild_for_torch(self.prefix, library, torch, self.knowledge.extensions, pins_torch)
