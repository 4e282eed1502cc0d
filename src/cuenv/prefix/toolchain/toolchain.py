"""The compilers, headers and libraries that a build of a CUDA extension finds in an environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.version import Version

from cuenv.core.record import dataclass, field
from cuenv.core.versions import Capability


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerBounds:
    """The newest major versions of host compilers that an nvcc accepts; ``None`` if unknown."""

    gcc_max: int | None = None
    clang_max: int | None = None

    def newest(self, kind: str) -> int | None:
        """The bound for ``gcc`` or ``clang``."""
        return self.clang_max if kind == "clang" else self.gcc_max


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvcc:
    """An nvcc, as torch's extension builder would find it."""

    path: str
    via: str  # where it was found: ``CUDA_HOME``, ``CUDA_PATH``, ``PATH`` or ``/usr/local/cuda``
    release: Version | None = None  # X.Y by its files or its own output; ``None`` if unknown
    targets: tuple[Capability, ...] = ()  # the compute capabilities that it lists; empty if it was not asked
    bounds: CompilerBounds | None = None  # the bounds in its ``host_config.h``; ``None`` without that file
    reason: str | None = None  # why it cannot be used; ``None`` if it can


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCompiler:
    """A compiler that a build would call."""

    role: str  # ``C++`` for the compiler of C++ files, ``nvcc`` for the one that nvcc calls
    asked: str  # the name by which it is called: ``g++``, or the value of a variable
    via: str  # the variable that names it, or ``PATH``
    path: str | None = None  # its path; ``None`` if it is not found
    kind: str = ""  # ``gcc`` or ``clang``; empty if unknown
    version: str | None = None  # by the files beside it, or by its own output
    unread: bool = False  # whether no file names its version and it was not run

    @property
    def major(self) -> int | None:
        """The major version."""
        return int(self.version.split(".")[0]) if self.version else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """The result of one call of a compiler."""

    what: str
    command: tuple[str, ...]
    seconds: float
    tail: tuple[str, ...] = ()  # the lines from the first error on, if it failed
    reason: str | None = None  # why it failed, in a few words; ``None`` if it succeeded


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFolder:
    """The folder in which torch builds extensions, the variable that names it, and why it cannot be used."""

    path: str
    via: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaToolchain:
    """Everything that a build would find in the activated environment."""

    nvcc: Nvcc | None  # the nvcc that torch would use; ``None`` without one
    inside: tuple[str, ...] = ()  # the nvcc programs in the environment itself
    home: str | None = None  # the folder that torch uses as ``CUDA_HOME``; ``None`` without one
    named: Mapping[str, str] = field(default_factory=dict)  # the values of CUDA_HOME and CUDA_PATH, if they are set
    includes: tuple[str, ...] = ()  # the folders that torch passes to the compilers with ``-isystem``, in order
    # all folders that the C++ compiler searches, also those of variables and of the system
    include_path: tuple[str, ...] = ()
    # the folders that contain each header, by its name
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    links: frozenset[str] = frozenset()  # the libraries that ``-l`` finds, because there is a link without version
    # files of these libraries with a version in their name, by library
    versioned: Mapping[str, str] = field(default_factory=dict)
    ninja: str | None = None
    compilers: tuple[HostCompiler, ...] = ()
    folder: BuildFolder | None = None
    activation: str | None = None  # why the variables of activation are not completely known; ``None`` if they are

    def is_visible(self, header: str) -> bool:
        """Whether the C++ compiler finds a header."""
        return any(folder in self.include_path for folder in self.headers.get(header, ()))


def gencode(capabilities: Iterable[Capability]) -> tuple[str, ...]:
    """The options that make nvcc compile for each compute capability; empty to leave the choice to nvcc."""
    numbers = (f"{item.major}{item.minor}" for item in capabilities)
    return tuple(f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers)


def sample_source(headers: Iterable[str], *, device: bool) -> str:
    """A small program that includes headers: a CUDA file with a kernel, or plain C++."""
    lines = [f"#include <{name}>" for name in headers]
    if not device:
        return "\n".join([*lines, "int cuenv_probe() { return 0; }", ""])
    return "\n".join(
        [
            "#include <cuda_runtime.h>",
            *lines,
            "__global__ void cuenv_kernel(float *values) { values[threadIdx.x] *= 2.0f; }",
            'extern "C" int cuenv_probe(float *values) {',
            "  cuenv_kernel<<<1, 32>>>(values);",
            "  return static_cast<int>(cudaGetLastError());",
            "}",
            "",
        ]
    )


_ODD = {"cuda_runtime": "cudart", "cuda_runtime_api": "cudart", "cublas_v2": "cublas", "cusolverDn": "cusolver"}
_LINKED = frozenset({"cudart", "cublas", "cublasLt", "cusolver", "cusparse", "curand", "cufft", "cudnn", "nccl"})


def library_of(header: str) -> str | None:
    """The library for a header: ``cublas`` for ``cublas_v2.h``, as in ``-lcublas``; ``None`` if it needs none."""
    stem = header.removesuffix(".h")
    name = _ODD.get(stem, stem)
    return name if name in _LINKED else None
