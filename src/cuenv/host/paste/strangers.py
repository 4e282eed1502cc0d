"""What a text is that tells of no host, by name, and what to paste in its place."""

from __future__ import annotations

from cuenv.core.regex import regex

_SMI = "paste the table of nvidia-smi beside it"
_KINDS = (
    (
        regex(r"(?m)^NVIDIA-SMI has failed|^Failed to initialize NVML|couldn't communicate with the NVIDIA driver"),
        "nvidia-smi says there that it does not reach the driver",
    ),
    (regex(r"No devices were found"), "nvidia-smi says there that it finds no GPU"),
    (
        regex(r"NVIDIA System Management Interface -- v|--query-gpu=|(?m:^List of valid properties to query)"),
        "it is the help of nvidia-smi, which tells of no machine",
    ),
    (
        regex(r"nvidia-smi: (?:command )?not found|'nvidia-smi' is not recognized"),
        "the shell says there that nvidia-smi is not installed",
    ),
    (
        regex(r"ROCm System Manag|rocm-smi|amdgpu|AMD-SMI|gfx[0-9]{3}|\+rocm[0-9]|torch hip version \.+ [0-9]"),
        "it is from a machine with AMD GPUs (ROCm), and cuenv resolves for NVIDIA GPUs",
    ),
    (regex(r"npu-smi|Ascend|torch_npu"), "it is from a machine with Ascend NPUs, and cuenv is for NVIDIA GPUs"),
    (
        regex(r"DeepSpeed C\+\+/CUDA ext|real_accelerator\.py"),
        f"it is the part of ds_report that names neither driver nor GPU: {_SMI}",
    ),
    (regex(r"PyTorch version *:"), "it is the report of collect_env, and names neither driver, GPU nor Linux"),
    (
        regex(r"(?m)^[\w.-]+ {6,}(?:gpu:|\(null\))"),
        "it is a table of sinfo with columns, which are cut and name no node: use sinfo -o '%N|%G|%f'",
    ),
    (regex(r"Cuda compilation tools"), f"it is the banner of nvcc, which tells of a toolkit: {_SMI}"),
    (regex(r"(?m)^# packages in environment at|^Package +Version"), f"it is a list of packages: {_SMI}"),
    (
        regex(r"(?m)^[ \t]*(?:Hardware|Chipset Model|Metal)\b.*(?:Apple|Metal)"),
        "it is from a Mac, and cuenv resolves for NVIDIA GPUs on Linux",
    ),
    (regex(r"VGA compatible controller|3D controller"), f"it is what lspci prints, which tells no driver: {_SMI}"),
    (
        regex(r"(?mi)^(?:name:.*\n)?(?:channels|dependencies):\s*$"),
        "it is the file of a conda environment: cuenv lock locks it",
    ),
    (regex(r"(?m)^#SBATCH "), "it is a batch script of Slurm, which tells what a job asks for and of no node"),
    (regex(r"(?m)^FROM \S+"), "it is a Dockerfile: cuenv lint judges it"),
    (regex(r"(?i)<!doctype html|<html"), "it is a web page: save what it shows as text"),
    (regex(r"(?m)^Traceback \(most recent call last\)"), "it is the log of a program: cuenv diagnose reads it"),
    (
        regex(r"(?m)^[A-Za-z][\w.-]*(?:\[[\w,]+\])?(?:==|>=|~=)[0-9]"),
        "it is a list of requirements: cuenv lock reads it",
    ),
)
_LOOKED = 200_000
"""Characters that are looked at."""


def what_it_is(text: str) -> str:
    """What a text looks like, as a main clause; empty where it looks like nothing known."""
    part = text[:_LOOKED]
    return next((says for pattern, says in _KINDS if pattern.search(part)), "")
