"""What a build of CUDA extensions would meet in an environment: compilers, headers, libraries, and a trial of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.version import Version

from cuenv.core.record import dataclass, field
from cuenv.core.versions import Capability


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerBounds:
    """The newest majors of host compilers that an nvcc accepts; ``None`` where nothing says."""

    gcc_max: int | None = None
    clang_max: int | None = None

    def newest(self, kind: str) -> int | None:
        """The bound for ``gcc`` or ``clang``."""
        return self.clang_max if kind == "clang" else self.gcc_max


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvcc:
    """An nvcc, as torch's extension builder would find it.

    Attributes:
        via: what leads to it: ``CUDA_HOME``, ``CUDA_PATH``, ``PATH`` or ``/usr/local/cuda``.
        release: X.Y by its files, or as it says it; ``None`` when neither tells it.
        targets: the capabilities that it says it compiles for; empty when it does not say.
        bounds: what its own ``host_config.h`` says; ``None`` without one.
        reason: why it gives no good answer.
    """

    path: str
    via: str
    release: Version | None = None
    targets: tuple[Capability, ...] = ()
    bounds: CompilerBounds | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCompiler:
    """A compiler that a build would call.

    Attributes:
        does: ``C++`` for the files that torch gives to it, ``nvcc`` for the host part of CUDA files.
        asked: its name as it is asked for: ``g++``, or what the variable says.
        via: the variable that names it, or ``PATH``.
        path: where it is; ``None`` when it is nowhere.
        kind: ``gcc`` or ``clang``; empty when it does not say.
        version: by the files beside it, or as it says it.
        unread: no file tells its version, and it was not run.
    """

    role: str
    asked: str
    via: str
    path: str | None = None
    kind: str = ""
    version: str | None = None
    unread: bool = False

    @property
    def major(self) -> int | None:
        """The first number of its version."""
        return int(self.version.split(".")[0]) if self.version else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """How a compilation ended.

    Attributes:
        tail: the last lines that the tool wrote, when it failed.
        reason: why it failed, in a few words; ``None`` when it did not.
    """

    what: str
    command: tuple[str, ...]
    seconds: float
    tail: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFolder:
    """The folder that torch builds extensions in: which variable names it, and why it will not do."""

    path: str
    via: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaToolchain:
    """Everything that a build would find, in the environment as activation leaves it.

    Attributes:
        nvcc: the one that torch would take; ``None`` when there is none.
        inside: the nvcc programs that the environment itself holds.
        home: the folder that torch takes for ``CUDA_HOME``; ``None`` when nothing leads to one.
        named: CUDA_HOME and CUDA_PATH, where they are set.
        includes: folders that torch's builder gives to the compilers, first one first.
        looks: all folders that a C++ compilation looks for headers in, those of variables and the system as well.
        headers: where each header lies, by name; empty for one that is nowhere.
        links: libraries by name whose link without version is where ``-l`` looks.
        versioned: files of these libraries that bear a version, by name.
        activation: why activation could not be followed; ``None`` when it was.
    """

    nvcc: Nvcc | None
    inside: tuple[str, ...] = ()
    home: str | None = None
    named: Mapping[str, str] = field(default_factory=dict)
    includes: tuple[str, ...] = ()
    include_path: tuple[str, ...] = ()
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    links: frozenset[str] = frozenset()
    versioned: Mapping[str, str] = field(default_factory=dict)
    ninja: str | None = None
    compilers: tuple[HostCompiler, ...] = ()
    folder: BuildFolder | None = None
    activation: str | None = None

    def is_visible(self, header: str) -> bool:
        """Whether a C++ compilation finds a header."""
        return any(folder in self.include_path for folder in self.headers.get(header, ()))


def gencode(capabilities: Iterable[Capability]) -> tuple[str, ...]:
    """The options by which nvcc makes machine code for each capability; none for none: nvcc's own choice."""
    numbers = (f"{item.major}{item.minor}" for item in capabilities)
    return tuple(f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers)


def sample_source(headers: Iterable[str], *, device: bool) -> str:
    """A small program that includes headers: with a kernel for nvcc, or plain C++."""
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
    """The library that code with this header is linked with: ``cublas_v2.h`` wants ``-lcublas``."""
    stem = header.removesuffix(".h")
    name = _ODD.get(stem, stem)
    return name if name in _LINKED else None
