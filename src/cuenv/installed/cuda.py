"""The CUDA release of an installed environment, by its records: of conda, else of its wheels."""

from __future__ import annotations

import re

from packaging.version import Version

from cuenv.installed.prefix import Prefix
from cuenv.versions import minor, version

_CONDA = ("pytorch-cuda", "cuda-version", "cudatoolkit", "cuda-cudart")
_WHEELS = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11")
_LOCAL = re.compile(r"\+cu([0-9]{2})([0-9])$")
_NUMBERS = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")


def cuda_of(prefix: Prefix) -> tuple[Version, str] | None:
    """The CUDA release that programs of an environment run with, and the record that says it; ``None`` without one.

    A torch from pip names its CUDA in its version (``2.5.1+cu124``), or brings the runtime as a wheel.
    """
    for name in _CONDA:
        package = prefix.package(name)
        found = _release(package.version) if package else None
        if package and found:
            return found, f"{name} {package.version} (conda-meta)"
    torch = prefix.wheel("torch")
    local = _LOCAL.search(torch.version) if torch else None
    if torch and local:
        return version(f"{local[1]}.{local[2]}"), f"torch {torch.version} (dist-info)"
    for name in _WHEELS:
        wheel = prefix.wheel(name)
        found = _release(wheel.version) if wheel else None
        if wheel and found:
            return found, f"{name} {wheel.version} (dist-info)"
    return None


def _release(text: str) -> Version | None:
    numbers = _NUMBERS.match(text)
    return minor(version(numbers[0])) if numbers else None
