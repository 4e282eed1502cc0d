"""What a machine is: the driver, every GPU, the C library, and how each of these is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from packaging.version import Version

from cuenv.core.record import NamedTuple, dataclass, field
from cuenv.core.versions import Capability, version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import NUMBERS, Feature

if TYPE_CHECKING:  # types alone
    from cuenv.host.documents import FeatureFields

THIS_MACHINE = "this machine"
"""The label of a probed host. It is true only where it was probed: a reader of a record gives its own label instead."""

LONGEST_NAME = 200  # characters of a label and of a name, which stand in lines that people read


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a fact comes from: ``driver.version`` from ``nvml:nvmlSystemGetDriverVersion``, in its own words."""

    fact: str
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Gap:
    """A fact that is unknown, the source that was asked, and why it did not answer."""

    fact: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The NVIDIA driver."""

    # of the user-mode library (550.144.03); ``None`` when only CONDA_OVERRIDE_CUDA names a level
    version: str | None = None
    # the CUDA release that the driver supports (what ``nvidia-smi`` prints), not an installed toolkit
    cuda: Version | None = None
    # version of the loaded kernel module; differs from ``version`` after an update without reboot
    kernel_module: str | None = None
    module_kind: str | None = None  # ``open`` or ``proprietary`` flavour of the kernel module, when it is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU that the driver lists; ``CUDA_VISIBLE_DEVICES`` has no effect on it."""

    index: int
    name: str
    capability: Capability | None
    memory_mib: int | None = None
    mig: Mig | None = None  # ``None`` when it has no such mode; a gap says when that could not be asked
    ecc: Switch | None = None  # the same of error-correcting memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Libc:
    """The C library: family ``glibc`` or ``musl``, and its version."""

    family: str
    version: Version


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundToolkit:
    """A CUDA toolkit on this machine."""

    path: str  # its root, such as ``/usr/local/cuda-12.6``
    release: str | None  # ``12.6`` or ``12.6.3`` as the toolkit says it; ``None`` when it does not say
    on_path: bool  # its ``nvcc`` is the one that PATH finds first
    via: str  # how it was found: ``directory``, ``CUDA_HOME``, ``PATH``


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """A host compiler that PATH finds: ``gcc``, ``g++`` or ``clang``."""

    name: str
    path: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTorch:
    """A torch on this machine, read from its files and never imported."""

    where: str  # ``active environment`` or ``python on PATH``
    path: str  # the prefix of the environment
    version: str  # of torch
    cuda: str | None  # the CUDA release it was built for; ``None`` for a CPU build
    origin: str  # ``conda`` or ``pip``


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryPath:
    """An entry of LD_LIBRARY_PATH that holds CUDA libraries, and their names."""

    path: str
    libraries: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The environment of the process: container, WSL, the active environment, library paths."""

    container: str | None = None
    wsl: bool = False
    conda_prefix: str | None = None
    virtual_env: str | None = None
    library_path: tuple[LibraryPath, ...] = ()
    driver_capabilities: str | None = None  # NVIDIA_DRIVER_CAPABILITIES, which says what of the driver a container gets
    # the names in ``/dev`` through which a process reaches the driver; ``None`` when not looked for
    device_nodes: tuple[str, ...] | None = None
    libcuda: CudaLibrary | None = None  # the driver library that a program gets


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The memory and disk that programs may use, in MiB; ``None`` if unknown."""

    memory_mib: int | None = None  # all of it, or the lower bound that a container sets
    shm_mib: int | None = None  # size of ``/dev/shm``
    # what is free where the command was started; true for that moment alone, and in no record
    disk_mib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """One machine, or several as a pool (``members``)."""

    label: str  # what to call it in a sentence: ``this machine``, a recorded host's name, ``the options``
    platform: str  # the conda platform, ``linux-64`` or ``linux-aarch64``
    asked_as: str = field(default="", compare=False)  # how the user named it (``--host``); empty when not
    name: str = ""  # what its cluster calls it, as the machine itself or a paste tells; empty where nothing does
    detected: bool = False  # these are facts of one real machine (probed or recorded), not of options or a pool
    driver: Driver | None = None
    gpus: tuple[Gpu, ...] = ()
    libc: Libc | None = None
    kernel: str | None = None  # the release of the Linux kernel
    # the microarchitecture for the solver, where somebody sets one (CONDA_OVERRIDE_ARCHSPEC)
    archspec: str | None = None
    toolkits: tuple[FoundToolkit, ...] = ()
    compilers: tuple[Compiler, ...] = ()
    torch: tuple[FoundTorch, ...] = ()
    environment: Surroundings = field(default_factory=Surroundings)
    resources: Resources = field(default_factory=Resources)
    evidence: tuple[Evidence, ...] = ()
    gaps: tuple[Gap, ...] = ()
    # the machines of a pool. The pool itself holds the lowest driver, the lowest C library and the union of the GPUs;
    # rules that join a GPU with a driver ask the member that has both
    members: tuple[HostFacts, ...] = ()

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """The distinct compute capabilities of the GPUs, the lowest first."""
        return tuple(sorted({gpu.capability for gpu in self.gpus if gpu.capability}))

    @property
    def machines(self) -> tuple[HostFacts, ...]:
        """The members of a pool, or this host itself."""
        return self.members or (self,)

    @property
    def untold(self) -> bool:
        """Whether nothing is known about the GPUs of this host."""
        return not self.detected and not self.gpus and any(gap.fact == "gpus" for gap in self.gaps)

    def evidence_for(self, fact: str) -> Evidence | None:
        """The evidence of a fact; ``None`` without one."""
        return next((item for item in self.evidence if item.fact == fact), None)


class VirtualPackage(NamedTuple):
    """A virtual package that describes the machine to the solver (CEP 30, CEP 46)."""

    name: str
    version: str
    build: str = "0"

    def __str__(self) -> str:
        return f"{self.name}={self.version}={self.build}"


def virtual_packages(facts: HostFacts) -> tuple[VirtualPackage, ...]:
    """The virtual packages that describe the machine to the solver.

    ``__cuda_arch`` is the lowest capability of all GPUs and never stands without ``__cuda`` (CEP 46).
    ``__archspec`` is the base microarchitecture of the platform, what holds on every machine of the team, unless set.
    """
    found = [VirtualPackage("__unix", "0")]
    found.append(VirtualPackage("__linux", kernel_number(facts.kernel or "")))
    if facts.libc and facts.libc.family == "glibc":
        found.append(VirtualPackage("__glibc", str(facts.libc.version)))
    if facts.driver and facts.driver.cuda:
        found.append(VirtualPackage("__cuda", str(facts.driver.cuda)))
        if facts.capabilities:
            found.append(VirtualPackage("__cuda_arch", str(facts.capabilities[0])))
    base = "aarch64" if facts.platform == "linux-aarch64" else "x86_64"
    found.append(VirtualPackage("__archspec", "1", facts.archspec or base))
    return tuple(sorted(found, key=lambda package: package.name))


def kernel_number(text: str) -> str:
    """The leading numbers of a kernel release, as CEP 30 requires: 5.15.0 for 5.15.0-91-generic."""
    found = re.match(r"[0-9]+\.[0-9]+(\.[0-9]+){0,2}", text)
    return found[0] if found else "0"


def glibc(text: str) -> Libc:
    """A glibc of this version.

    Raises:
        ValueError: the text is not a version.
    """
    return Libc(family="glibc", version=version(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A mode of a GPU that takes effect after a reset or reboot: the current state, and the state after it."""

    on: bool
    pending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """One instance of a GPU in MIG mode: its profile, ``1g.10gb``, and its memory."""

    profile: str
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mig:
    """The MIG mode of a GPU that has one, and the instances that this process can see."""

    mode: Switch
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaLibrary:
    """The ``libcuda.so.1`` that programs load."""

    path: str  # where it is found; it may be a link
    # the driver that it belongs to, by the name of the file in the end; ``None`` when that does not say it
    version: str | None
    via: str  # what puts it first: ``LD_LIBRARY_PATH``, ``CONDA_PREFIX`` or ``loader``
    forward: bool = False  # it is one of NVIDIA's forward-compatibility packages, by its folder


def feature_of(gpu: Gpu, knowledge: Knowledge) -> Feature | None:
    """The features of a GPU; ``None`` if its capability is unknown or the tables do not have it.

    Its product counts where the table knows it: chips of one capability can differ.
    """
    if gpu.capability is None:
        return None
    from cuenv.knowledge.gpu_names import find_gpu  # noqa: PLC0415 - most runs ask for no feature

    model = find_gpu(gpu.name, knowledge.gpus) if gpu.name else None
    chip = model.chip if model and model.capability == gpu.capability else ""
    return knowledge.feature(gpu.capability, chip)


def features_of(gpus: Iterable[Gpu], knowledge: Knowledge) -> tuple[Feature, ...]:
    """The feature rows of GPUs, the lowest capability first, each once."""
    rows = {id(row): row for gpu in gpus if (row := feature_of(gpu, knowledge))}
    return tuple(sorted(rows.values(), key=lambda row: (row.capability, row.chip)))


def feature_title(row: Feature) -> str:
    """The GPUs that a row describes: ``7.5`` or ``7.5 (TU116)``."""
    return f"{row.capability} ({row.chip})" if row.chip else str(row.capability)


def feature_sentence(row: Feature) -> str:
    """The text of a row: the features that it has, and the recent number formats that it lacks."""
    return "; ".join(_parts(row))


def _parts(row: Feature) -> Iterator[str]:
    if row.tensor:
        lacking = ", ".join(number for number in ("bf16", "tf32", "fp8", "fp4") if number not in row.tensor)
        yield f"tensor cores for {', '.join(row.tensor)}" + (f", not for {lacking}" if lacking else "")
    else:
        yield "no tensor cores"
    yield "bf16 arithmetic" if row.bf16 else "no bf16 arithmetic"
    if row.fp64:
        yield f"fp64 at 1/{row.fp64} of fp32"


def features_plain(rows: Iterable[Feature], knowledge: Knowledge) -> dict[str, FeatureFields]:
    """Feature rows as JSON by their GPUs, with the titles of their sources."""
    return {
        feature_title(row): {
            "tensor": {number: number in row.tensor for number in NUMBERS},
            "bf16": row.bf16,
            "fp64": f"1/{row.fp64}" if row.fp64 else None,
            "confidence": "low" if row.low else "high",
            "sources": [knowledge.sources[item].title for item in row.sources],
        }
        for row in rows
    }
