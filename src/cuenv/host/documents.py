"""The JSON of a host; see `cuenv.core.documents`."""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from cuenv.core.documents import Confidence


class ToolkitFields(TypedDict):
    """A CUDA toolkit of the machine."""

    path: str
    release: str | None


class DriverFields(TypedDict):
    """The NVIDIA driver."""

    version: str | None
    cuda: str | None  # the highest CUDA release that it supports
    kernel_module: str | None  # the version of the loaded kernel module
    module_kind: str | None  # open or proprietary


class SwitchFields(TypedDict):
    """A mode of a GPU: now, and after the next reset."""

    on: bool
    pending: bool


class MigInstanceFields(TypedDict):
    """An instance of a GPU in MIG mode."""

    profile: str
    memory_mib: int | None


class MigFields(TypedDict):
    """The MIG mode of a GPU."""

    mode: SwitchFields
    instances: list[MigInstanceFields]


class GpuFields(TypedDict):
    """A GPU."""

    index: int
    name: str
    capability: str | None
    memory_mib: int | None
    mig: NotRequired[MigFields]
    ecc: NotRequired[SwitchFields]


class LibcFields(TypedDict):
    """The C library."""

    family: str
    version: str


class FoundToolkitFields(ToolkitFields):
    """A CUDA toolkit that was found."""

    on_path: bool  # PATH finds its nvcc first
    via: str  # how it was found


class CompilerFields(TypedDict):
    """A host compiler that PATH finds."""

    name: str
    path: str
    version: str


class FoundTorchFields(TypedDict):
    """A PyTorch that was found; it was not imported."""

    where: str
    path: str
    version: str
    cuda: str | None
    origin: str


class LibraryPathFields(TypedDict):
    """An entry of LD_LIBRARY_PATH with CUDA libraries."""

    path: str
    libraries: list[str]


class LibcudaFields(TypedDict):
    """The driver library that a program gets."""

    path: str
    version: str | None
    via: str
    forward: bool


class SurroundingsFields(TypedDict):
    """The surroundings of the process: container, WSL, environments and the CUDA driver library."""

    container: str | None
    wsl: bool
    conda_prefix: str | None
    virtual_env: str | None
    library_path: list[LibraryPathFields]
    driver_capabilities: NotRequired[str]  # NVIDIA_DRIVER_CAPABILITIES of a container
    device_nodes: NotRequired[list[str]]  # the device files of the driver
    libcuda: NotRequired[LibcudaFields]


class ResourceFields(TypedDict):
    """Memory and disk, in MiB."""

    memory_mib: NotRequired[int]
    shm_mib: NotRequired[int]
    disk_mib: NotRequired[int]


class GapFields(TypedDict):
    """A fact that could not be established."""

    fact: str
    source: str
    reason: str


class EvidenceFields(TypedDict):
    """Where a fact comes from."""

    fact: str
    source: str
    text: str


class FeatureFields(TypedDict):
    """What GPUs can do."""

    tensor: dict[str, bool]  # number formats of the tensor cores
    bf16: bool
    fp64: str | None  # the rate of FP64, as a part of FP32's
    confidence: Confidence
    sources: list[str]


class HostFields(TypedDict):
    """One machine."""

    label: str  # what it is called
    name: NotRequired[str]  # of the machine: SLURMD_NODENAME, else its host name; not in what is recorded or redacted
    detected: bool  # a real machine, and not options
    platform: Literal["linux-64", "linux-aarch64"]
    kernel: str | None  # the release of the Linux kernel
    archspec: NotRequired[str]  # the microarchitecture, where it was set
    driver: DriverFields | None
    gpus: list[GpuFields]
    libc: LibcFields | None
    toolkits: list[FoundToolkitFields]
    compilers: list[CompilerFields]
    torch: list[FoundTorchFields]
    environment: SurroundingsFields
    resources: NotRequired[ResourceFields]
    gaps: list[GapFields]  # what could not be established
    evidence: list[EvidenceFields]


class HostDocument(HostFields):
    """What `cuenv inspect` found; `--host FILE` reads it back."""

    schema: Literal["cuenv/host/1"]
    features: NotRequired[dict[str, FeatureFields]]  # what the tables say that its GPUs can do
    members: NotRequired[list[HostFields]]  # of a pool: its machines
