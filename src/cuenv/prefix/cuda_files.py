"""The CUDA of an installed environment: as values read from its files, and as a solution like that in a lock.

The checks of a lock judge the solution; packages that pip installed have the name of conda's package in it, and
`WHEELS` as their channel.
"""

from __future__ import annotations

from packaging.version import Version

from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.core.versions import cuda_in_local, minor, version
from cuenv.knowledge.rows import WHEELS
from cuenv.prefix.inventory import Prefix
from cuenv.solve.model import LockedPackage, Solution

_SONAME = regex(
    r"lib(?P<family>cudart|cublas|cublasLt|nvblas|cudnn|cufft|cufftw|cufile|curand|cusolver|cusolverMg|cusparse|cusparseLt|"
    r"nvJitLink|nvrtc|nccl|cupti|nvToolsExt|nvshmem_host|nvjpeg|npp[a-z]+)(?:-[0-9a-f]{8})?\.so(?:\.[0-9]+)*"
)
"""File names of NVIDIA's libraries; a wheel with its own copy adds a digest to the name."""


NO_PACKAGE = "no package"  # the source of a library that no package lists


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledCudaLibrary:
    """A CUDA library of NVIDIA in an environment."""

    path: str  # the path of the file, with links resolved
    soname: str  # its SONAME; the file name if it has none
    source: str  # ``conda``, the name of a wheel, ``torch`` for a copy inside torch, or `NO_PACKAGE`
    version: str | None = None  # the version of its package; ``None`` if unknown
    names: tuple[str, ...] = ()  # the names of the file and of links to it, by which the loader searches

    @property
    def label(self) -> str:
        """SONAME and source for messages: ``libcudnn.so.9 (nvidia-cudnn-cu12 9.10.2.21)``."""
        return f"{self.soname} ({' '.join(filter(None, (self.source, self.version)))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A header that contains the version of its library, ``cudnn`` or ``nccl``."""

    family: str
    version: Version
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaFiles:
    """What the files of an environment say about CUDA."""

    torch: str | None = None  # the version of torch; ``None`` without torch
    cuda: Version | None = None  # the CUDA release that torch was built with; ``None`` for a CPU build
    by_pip: bool = False  # whether torch is a wheel
    needed: tuple[str, ...] = ()  # the SONAMEs of NVIDIA's libraries that torch's libraries need
    requires: tuple[tuple[str, str], ...] = ()  # the NVIDIA wheels that torch's METADATA pins, with their versions
    libraries: tuple[InstalledCudaLibrary, ...] = ()
    shared: tuple[tuple[str, tuple[str, ...]], ...] = ()  # files that several wheels list, with these wheels
    headers: tuple[Header, ...] = ()
    nvcc: tuple[Version, str] | None = None  # the release of the environment's nvcc and its path; ``None`` without one
    extensions: tuple[tuple[str, str], ...] = ()  # libraries that use PyTorch, with their versions


def family(name: str) -> str | None:
    """The NVIDIA library that a file name or SONAME belongs to, such as ``cudart``; ``None`` for any other."""
    found = _SONAME.fullmatch(name)
    return found["family"] if found else None


def runtime_soname(cuda: Version) -> str:
    """The SONAME of a CUDA release's runtime: by its major version since 12, 11.0 for all of CUDA 11, else X.Y."""
    if cuda.major >= 12:
        return f"libcudart.so.{cuda.major}"
    return "libcudart.so.11.0" if cuda.major == 11 else f"libcudart.so.{cuda}"


_CONDA = ("pytorch-cuda", "cuda-version", "cudatoolkit", "cuda-cudart")
_WHEELS = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11")
_NUMBERS = regex(r"[0-9]{1,4}\.[0-9]{1,4}")


def cuda_release_of(prefix: Prefix) -> tuple[Version, str] | None:
    """The CUDA release of an environment and the record that names it; ``None`` without one.

    A torch from pip names its CUDA release in its version (``2.5.1+cu124``), or requires the runtime as a wheel.
    """
    for name in _CONDA:
        package = prefix.package(name)
        found = _release(package.version) if package else None
        if package and found:
            return found, f"{name} {package.version} (conda-meta)"
    return cuda_release_of_wheels(prefix)


def cuda_release_of_wheels(prefix: Prefix) -> tuple[Version, str] | None:
    """As `cuda_release_of`, but only by the wheels of the environment."""
    torch = prefix.wheel("torch")
    cuda = cuda_in_local(torch.version) if torch else None
    if torch and cuda:
        return cuda, f"torch {torch.version} (dist-info)"
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


def as_solution(prefix: Prefix, files: CudaFiles, platform: str) -> Solution:
    """The packages of an environment as a solution.

    Args:
        files: the CUDA files, which show which torch is really installed.
        platform: the platform of an environment whose packages are all noarch.
    """
    packages = {package.name: package for package in prefix.conda}
    if files.by_pip and files.torch:
        for name in ("pytorch", "libtorch", "pytorch-cuda", "cuda-version", "cudatoolkit"):
            packages.pop(name, None)
        if files.cuda:
            packages["pytorch"] = _wheel_package("pytorch", files.torch, f"cuda{files.cuda}".replace(".", ""), platform)
            packages |= _wheel_libraries(files, packages, platform)
    solution = Solution(
        platform=prefix.platform or platform,
        packages=tuple(packages[name] for name in sorted(packages)),
        virtual_packages=(),
        solver="installed",
    )
    if files.nvcc and solution.package("cuda-nvcc") is None and solution.package("cuda-toolkit") is None:
        nvcc = _wheel_package("cuda-nvcc", str(files.nvcc[0]), "0", platform)
        solution = replace(solution, packages=(*solution.packages, nvcc))
    return solution


def _wheel_libraries(files: CudaFiles, conda: dict[str, LockedPackage], platform: str) -> dict[str, LockedPackage]:
    """The cuDNN and NCCL of wheels, which a torch from pip loads rather than conda's."""
    found: dict[str, LockedPackage] = {}
    for kind, name in _LIBRARIES.items():
        of_kind = (item for item in files.libraries if family(item.soname) == kind)
        number = next((item.version for item in of_kind if item.source.startswith("nvidia-") and item.version), None)
        if number:
            found[name] = _wheel_package(name, number, "0", platform)
            if kind == "cudnn":
                conda.pop("cudnn", None)
    return found


def _wheel_package(name: str, number: str, build: str, platform: str) -> LockedPackage:
    return LockedPackage(
        name=name, version=number, build=build, subdir=platform, channel=WHEELS, url="", md5=None, sha256=None
    )
