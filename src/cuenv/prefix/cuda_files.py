"""The CUDA of an installed environment, as its files tell it and as the solution that a lock would hold.

Its files tell libraries by SONAME, headers, compilers and what torch needs. As a solution it is judged by the checks of
a lock: what pip brought stands under the name that conda's package has, with `WHEELS` as its channel.
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
"""What NVIDIA's libraries are called; a wheel that carries its own copy puts a digest into the name."""


NO_PACKAGE = "no package"
"""The source of a library that no record lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledCudaLibrary:
    """A CUDA library of NVIDIA in an environment.

    Attributes:
        path: of the file itself, links followed.
        soname: what the loader knows it by; the file's name where it says none.
        source: who brought it: ``conda``, the name of a wheel, or ``torch`` for a copy inside torch,
            or `NO_PACKAGE`.
        version: of the package that brought it; ``None`` when it is not known.
        names: what the file is called where it lies, its links as well: NEEDED is looked for by these.
    """

    path: str
    soname: str
    source: str
    version: str | None = None
    names: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """SONAME and source in words: ``libcudnn.so.9 (nvidia-cudnn-cu12 9.10.2.21)``."""
        return f"{self.soname} ({' '.join(filter(None, (self.source, self.version)))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A header that names the release of its library: ``cudnn`` or ``nccl``."""

    family: str
    version: Version
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaFiles:
    """What the files of an environment say about CUDA.

    Attributes:
        torch: its version; ``None`` without a torch.
        cuda: the CUDA minor that torch was built with; ``None`` for a CPU build.
        by_pip: torch came as a wheel.
        needed: the SONAMEs of NVIDIA's libraries that torch's libraries name in NEEDED.
        requires: releases of NVIDIA's wheels that torch's METADATA pins.
        shared: files that several wheels claim, with the wheels: the last one to be installed wrote them.
        nvcc: release of the environment's compiler and its path; ``None`` without one.
        extensions: libraries that use PyTorch, with their versions.
    """

    torch: str | None = None
    cuda: Version | None = None
    by_pip: bool = False
    needed: tuple[str, ...] = ()
    requires: tuple[tuple[str, str], ...] = ()
    libraries: tuple[InstalledCudaLibrary, ...] = ()
    shared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    headers: tuple[Header, ...] = ()
    nvcc: tuple[Version, str] | None = None
    extensions: tuple[tuple[str, str], ...] = ()


def family(name: str) -> str | None:
    """Which of NVIDIA's libraries a file name or SONAME means, ``cudart``; ``None`` for any other."""
    found = _SONAME.fullmatch(name)
    return found["family"] if found else None


def runtime_soname(cuda: Version) -> str:
    """The SONAME of the runtime library of a CUDA release: by its major; 11.0 for all of CUDA 11, the minor before."""
    if cuda.major >= 12:
        return f"libcudart.so.{cuda.major}"
    return "libcudart.so.11.0" if cuda.major == 11 else f"libcudart.so.{cuda}"


_CONDA = ("pytorch-cuda", "cuda-version", "cudatoolkit", "cuda-cudart")
_WHEELS = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11")
_NUMBERS = regex(r"[0-9]{1,4}\.[0-9]{1,4}")


def cuda_release_of(prefix: Prefix) -> tuple[Version, str] | None:
    """The CUDA release that programs of an environment run with, and the record that says it; ``None`` without one.

    A torch from pip names its CUDA in its version (``2.5.1+cu124``), or brings the runtime as a wheel.
    """
    for name in _CONDA:
        package = prefix.package(name)
        found = _release(package.version) if package else None
        if package and found:
            return found, f"{name} {package.version} (conda-meta)"
    return cuda_release_of_wheels(prefix)


def cuda_release_of_wheels(prefix: Prefix) -> tuple[Version, str] | None:
    """As `cuda_release_of`, by the wheels of an environment alone."""
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
    """The packages of an environment.

    Args:
        files: its CUDA by its files: they tell which torch is really there.
        platform: for an environment whose packages do not name one.
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
    """The libraries that a torch from pip loads: those of wheels, which go before conda's there."""
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
