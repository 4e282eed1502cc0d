"""The rule on roles: packages that a lock can pin by hash exist for each role that is requested."""

from __future__ import annotations

from packaging.version import Version

from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import LabelFit
from cuenv.resolver.engine import rule
from cuenv.resolver.verdict import Ground, Remedy, Verdict, row_ground


@rule(
    "roles",
    code="CU110",
    order=120,
    title="packages exist for every requested role",
    about=("cuda", "stack", "cudatoolkit-dev"),
    locked=False,
)
def roles(stack: str, cuda: Version | None, label: LabelFit | None, dev: bool, kb: Knowledge) -> Verdict:
    """Packages with hashes from the stack's one CUDA channel fill every requested role."""
    if cuda is None:
        return Verdict(rule="roles", outcome="pass", because="a CPU build needs no CUDA packages")
    if stack == "pytorch":
        return _pytorch(cuda, label)
    if not dev:
        return Verdict(rule="roles", outcome="pass", because="conda-forge has the CUDA runtime, cuDNN and NCCL")
    return _conda_forge(cuda, kb)


def _pytorch(cuda: Version, label: LabelFit | None) -> Verdict:
    if label:
        because = f"the packages of nvidia/label/cuda-{label.label} fit pytorch-cuda {cuda}"
        ground = row_ground(label, f"the packages of label {label.label} are within the bounds of pytorch-cuda {cuda}")
        return Verdict(rule="roles", outcome="pass", because=because, grounds=(ground,))
    because = f"the cuenv tables list no label of the nvidia channel that fits pytorch-cuda {cuda}"
    return Verdict(rule="roles", outcome="unknown", because=because)


def _conda_forge(cuda: Version, kb: Knowledge) -> Verdict:
    row = kb.cuda(cuda)
    if row and row.conda_nvcc:
        ground = row_ground(row, f"conda-forge has cuda-nvcc and headers of CUDA {row.version}")
        because = f"conda-forge has the runtime, nvcc and headers of CUDA {row.version}, cuDNN and NCCL"
        return Verdict(rule="roles", outcome="pass", because=because, grounds=(ground,))
    able = [row.version for row in kb.cudas if row.conda_nvcc]
    lowest = min(able, default=None)
    ends = (kb.ending("cudatoolkit-dev"), kb.ending("nvcc_linux-64"))
    grounds: tuple[Ground, ...] = tuple(row_ground(end, f"{end.package}: {end.says}") for end in ends if end)
    because = f"conda-forge has no nvcc of CUDA {cuda} that a lock file can pin"
    if lowest and cuda < lowest:
        because = f"conda-forge has no nvcc older than CUDA {lowest} that a lock file can pin"
    remedy = Remedy(text="an environment without a compiler (--no-dev)", option="--no-dev")
    return Verdict(rule="roles", outcome="reject", because=because, grounds=grounds, remedy=remedy)
