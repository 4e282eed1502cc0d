"""Lint of settings that stand in many kinds of files: for which GPUs code is built, and which ops."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from cuenv.core.findings import Finding
from cuenv.core.versions import parse_arch_list, serve
from cuenv.knowledge.base import Knowledge
from cuenv.lint import Lint, Machine

_NAMED = re.compile(r"(?i)\b[a-z]{3,}")
"""torch takes names of architectures as well (``Ampere``, ``all``); what they stand for changes with its releases."""


def arch_list_lints(
    value: str, at: int, machine: Machine, nvcc: Version | None, knowledge: Knowledge
) -> Iterator[Lint]:
    """``TORCH_CUDA_ARCH_LIST``: each entry is one that nvcc takes, and every GPU gets code.

    Names of architectures and references to other variables are not judged.

    Args:
        value: of the variable.
        at: where it stands.
        machine: with the GPUs.
        nvcc: the release of the compiler; ``None`` when it is not known.
        knowledge: the tables.
    """
    if _NAMED.search(value) or "$" in value:
        return
    try:
        code = parse_arch_list(value, nvcc)
    except ValueError as error:
        yield Lint(finding=_finding(f"TORCH_CUDA_ARCH_LIST: {error}", None), at=at)
        return
    row = knowledge.cuda(nvcc) if nvcc else None
    refused = [item for item in code.sass if row and row.targets and item.capability not in row.targets]
    if refused:
        names = ", ".join(str(item) for item in refused)
        yield Lint(
            finding=_finding(
                f"TORCH_CUDA_ARCH_LIST names {names}, which nvcc {nvcc} cannot compile for",
                f"TORCH_CUDA_ARCH_LIST={';'.join(str(item) for item in code.sass if item not in refused)}",
            ),
            at=at,
        )
    lacking = [gpu for gpu in sorted(set(machine.gpus)) if serve(code, gpu) is None]
    if lacking:
        names = ", ".join(map(str, lacking))
        yield Lint(
            finding=_finding(
                f"TORCH_CUDA_ARCH_LIST {value} leaves out {names}",
                f"TORCH_CUDA_ARCH_LIST={';'.join(map(str, sorted(set(machine.gpus))))}",
            ),
            at=at,
        )


def sparse_attention(at: int) -> Lint:
    """``DS_BUILD_SPARSE_ATTN=1`` beside torch 2."""
    return Lint(
        finding=Finding(
            code="CU311",
            severity="error",
            subject="DS_BUILD_SPARSE_ATTN",
            message="DS_BUILD_SPARSE_ATTN=1: sparse_attn needs torch below 2.0 and triton 1.0.0; torch 2 does "
            "not build it",
            fix="take DS_BUILD_SPARSE_ATTN out; cuenv explain fused-ops",
        ),
        at=at,
    )


def _finding(message: str, fix: str | None) -> Finding:
    return Finding(code="CU310", severity="error", subject="TORCH_CUDA_ARCH_LIST", message=message, fix=fix)
