"""The rows on what a GPU can do, and on what the state of a machine means for CUDA programs."""

from __future__ import annotations

from dataclasses import dataclass

from cuenv.rows import Row
from cuenv.versions import Capability

NUMBERS = ("fp64", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4")
"""The kinds of number that tensor cores take, in the order of NVIDIA's table."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feature(Row):
    """What GPUs of a compute capability can do.

    Attributes:
        chip: the only chip that the row speaks of; empty for all that no other row names.
        tensor: the numbers that its tensor cores take (some of `NUMBERS`); empty without tensor cores.
        bf16: it computes in bfloat16 outside of tensor cores as well.
        fp64: how many times as fast as in FP64 it computes in FP32, outside of tensor cores; ``None`` when unknown.
    """

    capability: Capability
    chip: str
    tensor: tuple[str, ...]
    bf16: bool
    fp64: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State(Row):
    """What a state of a machine means for CUDA programs: ``about`` names the state, ``says`` it in a sentence."""

    about: str
    says: str
