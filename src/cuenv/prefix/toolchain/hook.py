"""What activation of an environment should tell builds of CUDA extensions, so that they find its CUDA."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cuenv.core.versions import Capability, target_for

VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CPATH", "LIBRARY_PATH", "TORCH_CUDA_ARCH_LIST")
"""Every variable that a hook may set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """What is set. Folders are relative to the environment, so that a copy of it elsewhere keeps working.

    Attributes:
        home: for CUDA_HOME and CUDA_PATH; empty for the environment's own folder, ``None`` to leave both alone.
        includes: put in front of CPATH.
        libraries: put in front of LIBRARY_PATH.
        arch_list: for TORCH_CUDA_ARCH_LIST; ``None`` to leave it alone.
    """

    home: str | None = None
    includes: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    arch_list: str | None = None

    @property
    def sets(self) -> tuple[str, ...]:
        """The variables that it sets."""
        given = (self.home is not None, self.home is not None, self.includes, self.libraries, self.arch_list)
        return tuple(name for name, value in zip(VARIABLES, given, strict=True) if value)


def arch_list(capabilities: Iterable[Capability], able: Iterable[Capability]) -> tuple[str | None, tuple[str, ...]]:
    """The value of TORCH_CUDA_ARCH_LIST for GPUs, and what had to be left out.

    Args:
        capabilities: those of the host.
        able: what nvcc compiles for; empty when nobody knows.
    """
    known = tuple(able)
    targets = {item: target_for(item, known) if known else item for item in capabilities}
    served = dict.fromkeys(target for target in targets.values() if target)
    left = (item for item, target in targets.items() if target is None)
    notes = tuple(f"{item} is not in TORCH_CUDA_ARCH_LIST: nvcc cannot compile for it" for item in left)
    return ";".join(map(str, served)) or None, notes
