"""An installed environment as the solution that a lock would hold, so that one law judges both.

What pip brought stands under the name that conda's package has; `WHEEL` is its channel, and no table knows that
channel's builds: what they hold for a GPU is read from their files, not from rows.
"""

from __future__ import annotations

from dataclasses import replace

from cuenv.installed.cuda_files import CudaFiles, CudaLibrary, family
from cuenv.installed.prefix import Prefix
from cuenv.lockfile import WHEEL, LockedPackage, Solution

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


def _of_wheel(library: CudaLibrary) -> bool:
    return library.source.startswith("nvidia-") and library.version is not None


def _by_pip(name: str, number: str, build: str, platform: str) -> LockedPackage:
    return LockedPackage(
        name=name, version=number, build=build, subdir=platform, channel=WHEEL, url="", md5=None, sha256=None
    )
