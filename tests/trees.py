"""Trees of files that stand for a machine, and programs that stand for nvidia-smi and the like."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
    "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (someone@their-box)  "
    "Fri Aug 16 21:22:33 UTC 2024\n"
)
INFORMATION = (
    "Model: \t\t {model}\nIRQ:   \t\t 186\nGPU UUID: \t GPU-8f6d2ba1-39ac-4d1f-b2de-0123456789ab\n"
    "Bus Type: \t PCIe\nGPU Excluded:\t {excluded}\n"
)


def plant(root: Path, files: Mapping[str, str]) -> Path:
    """Write files below a root; a value ``-> target`` is a symbolic link."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:])
        else:
            path.write_text(text)
    return root


def program(path: Path, script: str) -> Path:
    """An executable shell script; it may use only what the shell itself brings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def information(model: str, excluded: str = "No") -> str:
    """What ``/proc/driver/nvidia/gpus/*/information`` says of a GPU."""
    return INFORMATION.format(model=model, excluded=excluded)
