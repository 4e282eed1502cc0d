"""An installed environment as the solution that a lock would hold, so that the same checks judge both.

What pip brought stands under the name that conda's package has, and `WHEELS` is its channel. What its torch holds for a
GPU is read from its files; the row of the wheel tells the rest.
"""

from __future__ import annotations

from packaging.version import Version

from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import minor, version
from cuenv.knowledge.rows import WHEELS
from cuenv.prefix.cuda_files import CudaFiles, InstalledCudaLibrary, family
from cuenv.prefix.inventory import Prefix
from cuenv.solve.model import LockedPackage, Solution

_CONDA = ("pytorch-cuda", "cuda-version", "cudatoolkit", "cuda-cudart")
_WHEELS = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11")
_LOCAL = regex(r"\+cu([0-9]{2})([0-9])$")
_NUMBERS = regex(r"[0-9]{1,4}\.[0-9]{1,4}")


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


_LIBRARIES = {"cudnn": "libcudnn", "nccl": "nccl"}
_CUDNN = ("libcudnn", "cudnn")


def as_solution(prefix: Prefix, files: CudaFiles, platform: str) -> Solution:
    """The packages of an environment.

    Args:
        prefix: the environment.
        files: its CUDA by its files: they tell which torch is really there.
        platform: for an environment whose packages do not name one.
    """
    packages = {package.name: package for package in prefix.conda}
    if files.by_pip and files.torch:
        for name in ("pytorch", "libtorch", "pytorch-cuda", "cuda-version", "cudatoolkit"):
            packages.pop(name, None)
        if files.cuda:
            packages["pytorch"] = _by_pip("pytorch", files.torch, f"cuda{files.cuda}".replace(".", ""), platform)
            packages |= _beside(files, packages, platform)
    solution = Solution(
        platform=prefix.platform or platform,
        packages=tuple(packages[name] for name in sorted(packages)),
        virtual_packages=(),
        solver="installed",
    )
    if files.nvcc and solution.package("cuda-nvcc") is None and solution.package("cuda-toolkit") is None:
        nvcc = _by_pip("cuda-nvcc", str(files.nvcc[0]), "0", platform)
        solution = replace(solution, packages=(*solution.packages, nvcc))
    return solution


def _beside(files: CudaFiles, conda: dict[str, LockedPackage], platform: str) -> dict[str, LockedPackage]:
    """The libraries that a torch from pip loads: those of wheels, which go before conda's there."""
    found: dict[str, LockedPackage] = {}
    for kind, name in _LIBRARIES.items():
        wheel = next(filter(_of_wheel, (item for item in files.libraries if family(item.soname) == kind)), None)
        if wheel and wheel.version:
            found[name] = _by_pip(name, wheel.version, "0", platform)
            if kind == "cudnn":
                for other in _CUDNN[1:]:
                    conda.pop(other, None)
    return found


def _of_wheel(library: InstalledCudaLibrary) -> bool:
    return library.source.startswith("nvidia-") and library.version is not None


def _by_pip(name: str, number: str, build: str, platform: str) -> LockedPackage:
    return LockedPackage(
        name=name, version=number, build=build, subdir=platform, channel=WHEELS, url="", md5=None, sha256=None
    )
