"""The CUDA of an installed environment as its files tell it: libraries by SONAME, headers, compilers, torch's needs."""

from __future__ import annotations

from packaging.version import Version

from cuenv.core.record import dataclass
from cuenv.core.regex import regex

_SONAME = regex(
    r"lib(?P<family>cudart|cublas|cublasLt|nvblas|cudnn|cufft|cufftw|cufile|curand|cusolver|cusolverMg|cusparse|cusparseLt|"
    r"nvJitLink|nvrtc|nccl|cupti|nvToolsExt|nvshmem_host|nvjpeg|npp[a-z]+)(?:-[0-9a-f]{8})?\.so(?:\.[0-9]+)*"
)
"""What NVIDIA's libraries are called; a wheel that carries its own copy puts a digest into the name."""


NOBODY = "no package"
"""The source of a library that no record lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledCudaLibrary:
    """A library of NVIDIA's.

    Attributes:
        path: of the file itself, links followed.
        soname: what the loader knows it by; the file's name where it says none.
        source: who brought it: ``conda``, the name of a wheel, or ``torch`` for a copy inside torch,
            or `NOBODY`.
        version: of the package that brought it; ``None`` when it is not known.
        names: what the file is called where it lies, its links as well: NEEDED is looked for by these.
    """

    path: str
    soname: str
    source: str
    version: str | None = None
    names: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
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
        libraries: every library of NVIDIA's.
        shared: files that several wheels claim, with the wheels: the last one to be installed wrote them.
        headers: those that name a release.
        nvcc: release of the environment's compiler and its path; ``None`` without one.
        extensions: libraries that sit on torch, with their versions.
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
