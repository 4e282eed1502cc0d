"""The state that a machine and its GPUs are in: MIG, ECC, the driver library that programs get."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A mode of a GPU that takes effect later than it is set: what holds now, and after the next reset or reboot."""

    on: bool
    pending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """One instance of a GPU in MIG mode: its profile, ``1g.10gb``, and its memory."""

    profile: str
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mig:
    """The MIG mode of a GPU that has one, and the instances that this process can see."""

    mode: Switch
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaLibrary:
    """The ``libcuda.so.1`` that a program gets.

    Attributes:
        path: where it is found; it may be a link.
        version: the driver that it belongs to, by the name of the file in the end; ``None`` when that does not say it.
        via: what puts it first: ``LD_LIBRARY_PATH``, ``CONDA_PREFIX`` or ``loader``.
        forward: it is one of NVIDIA's forward-compatibility packages, by its folder.
    """

    path: str
    version: str | None
    via: str
    forward: bool = False
