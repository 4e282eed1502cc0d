"""The rows of the tables as values. Every row names its sources; ``data/README.md`` says what each column means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from packaging.version import Version

from cuenv.core.versions import Capability, DeviceCode, version, within

_CUDATOOLKIT = (10, 11)
"""The CUDA majors that conda-forge has as one package, ``cudatoolkit``, without a compiler."""


PLATFORMS = ("linux-64", "linux-aarch64")
"""The conda platforms that cuenv resolves for."""

STACKS = ("conda-forge", "pytorch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where facts were read: title, publisher, where in it, and the day."""

    id: str
    title: str
    publisher: str
    locator: str
    read_on: str
    url: str = ""

    @property
    def shown(self) -> str:
        """Who says it and where, in words."""
        return f"{self.publisher}, {self.title}; {self.locator}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """What every row carries: its sources, whether it is of low confidence, and a remark.

    A row is itself and no other (``eq=False``): nobody asks whether two rows say the same, and the methods for it
    would cost 2 ms at every start.
    """

    sources: tuple[str, ...]
    low: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Toolkit(Row):
    """One toolkit release X.Y.Z and the driver that belongs to it (full features and PTX JIT).

    Attributes:
        driver: ``None`` when NVIDIA prints only the branch or nothing.
        hard: the driver is a hard minimum (CUDA 10.x, before minor-version compatibility).
    """

    version: Version
    driver: str | None
    branch: int | None
    hard: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cuda(Row):
    """One CUDA minor X.Y: what its compiler can do and where conda has it.

    Attributes:
        isa: the PTX ISA version that its compiler writes.
        targets: capabilities its nvcc can compile for; empty when unknown.
        gcc_min, gcc_max: majors of the host compiler that nvcc accepts.
        conda_gcc_max: the stricter bound of conda-forge's ``cuda-nvcc``.
        conda_nvcc: conda-forge has a lockable nvcc with headers for it.
        labels: releases X.Y.Z that the nvidia channel labels (``nvidia/label/cuda-X.Y.Z``).
        glibc: lowest glibc that its libraries need.
    """

    version: Version
    isa: Version | None
    targets: tuple[Capability, ...]
    gcc_min: int | None
    gcc_max: int | None
    conda_gcc_max: int | None
    conda_nvcc: bool
    labels: tuple[str, ...]
    glibc: Version | None

    @property
    def conda(self) -> bool:
        """Whether conda-forge has its runtime libraries."""
        return self.conda_nvcc or self.version.major in _CUDATOOLKIT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Branch(Row):
    """A driver branch (535) and the CUDA release that its drivers speak (12.2).

    Attributes:
        base: it is known to carry a newer forward-compatibility library; New Feature Branches are no such base.
        ends: the month, ``YYYY-MM``, in which its support for data centers ends; empty when not known.
    """

    number: int
    cuda: Version
    base: bool
    ends: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Floor(Row):
    """The lowest driver that runs programs of a CUDA major at all (minor-version compatibility)."""

    major: int
    driver: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Generation(Row):
    """What is known about one compute capability.

    Attributes:
        first_branch, last_branch: driver branches that drive it; ``None`` when unknown or open.
        first_driver: the very first driver, where not every driver of the first branch drives it.
        first_cuda, last_cuda: toolkits whose nvcc targets it.
        module: kernel module flavour it needs: ``open``, ``proprietary`` or ``any``; ``None`` when unknown.
    """

    capability: Capability
    architecture: str
    first_branch: int | None
    first_driver: str | None
    last_branch: int | None
    first_cuda: Version | None
    last_cuda: Version | None
    module: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuModel(Row):
    """A GPU product.

    Attributes:
        name: marketing name without the leading ``NVIDIA``.
        aka: further names that mean it.
        kind: ``datacenter``, ``workstation``, ``geforce``, ``jetson`` or ``desktop-soc``.
        memory_gb: capacities sold; never decides anything.
        pci: PCI device ids (vendor 10de) seen for it, in lower case.
    """

    name: str
    aka: tuple[str, ...]
    capability: Capability
    architecture: str
    chip: str
    kind: str
    memory_gb: tuple[int, ...]
    pci: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What a build asks of a library: ``libcudnn >=9.10.2.21,<10``, or the release that it holds inside.

    Attributes:
        package: the conda package; empty when the library lies inside the build.
        first, below: the bounds; ``None`` is open.
    """

    package: str
    first: Version | None
    below: Version | None

    @staticmethod
    def parse(text: str) -> Requirement:
        """Read ``[package ]>=A,<B`` or one release.

        Raises:
            ValueError: the text has another form.
        """
        package, _, bounds = text.rpartition(" ")
        first, _, below = bounds.partition(",")
        if not first.startswith((">=", "<")):
            inside = version(bounds)
            return Requirement(package=package, first=inside, below=version(f"{inside}.1"))
        if first.startswith("<"):
            return Requirement(package=package, first=None, below=version(first[1:]))
        if below and not below.startswith("<"):
            raise ValueError(f"expected '>=A,<B', got {text!r}")
        return Requirement(package=package, first=version(first[2:]), below=version(below[1:]) if below else None)

    def admits(self, release: Version) -> bool:
        """Whether a release lies within the bounds."""
        return within(release, self.first, self.below)

    def overlaps(self, first: Version | None, below: Version | None) -> bool:
        """Whether a range of releases shares any with this one."""
        starts_in_time = self.below is None or first is None or first < self.below
        ends_late_enough = self.first is None or below is None or self.first < below
        return starts_in_time and ends_late_enough

    def __str__(self) -> str:
        parts = (f">={self.first}" if self.first else "", f"<{self.below}" if self.below else "")
        return f"{self.package} {','.join(part for part in parts if part)}".strip()


BuildKey: TypeAlias = tuple[str, Version, Version | None, str]
"""Stack, release, CUDA minor and platform of a torch build."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TorchBuild(Row):
    """One build of PyTorch in a conda channel, for one platform.

    Attributes:
        stack: ``conda-forge`` or ``pytorch``, which is also its channel.
        cuda: the CUDA minor it was built with; ``None`` for the CPU build.
        build: a glob over the build string, such as ``cuda129*`` or ``*cuda11.8*``.
        pythons: Python minors it exists for.
        code: its device code; ``None`` when unknown, empty for the CPU build.
        glibc: lowest glibc it needs.
        cudnn, nccl: what it asks of these libraries, or the release inside the build; ``None`` when unknown.
        seen: the newest day, ``YYYY-MM-DD``, of which a record of it in its channel is known: of the upload where the
            record tells it, else of the reading. ``None`` for a build of which only the recipe is known.
    """

    stack: str
    version: Version
    cuda: Version | None
    build: str
    platform: str
    pythons: tuple[str, ...]
    code: DeviceCode | None
    glibc: Version | None
    cudnn: Requirement | None
    nccl: Requirement | None
    seen: str | None = None

    @property
    def key(self) -> BuildKey:
        """What it is known by: no two rows share it."""
        return (self.stack, self.version, self.cuda, self.platform)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer(Row):
    """From which capability on a range of releases of a library (``cudnn``, ``nccl``) serves GPUs.

    Attributes:
        cuda: first CUDA major whose builds the row speaks of, up to the next with rows; builds for older CUDA may serve
            older GPUs as well.
        glibc: lowest glibc that conda-forge's packages of these releases need.
    """

    library: str
    first: Version | None
    below: Version | None
    serves_from: Capability
    cuda: int | None
    glibc: Version | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Component(Row):
    """An NVIDIA package that the one-channel law binds.

    Attributes:
        name: the package, or a glob such as ``libcu*``.
        role: ``cudatoolkit-dev``, ``cudnn``, ``nccl`` or empty (a plain part).
        headers: the header files it brings, by name.
    """

    name: str
    role: str
    headers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Twin(Row):
    """A package with CPU and CUDA builds under one name.

    Attributes:
        package: its name.
        channel: where (``conda-forge``).
        guard: glob of a CUDA build with ``{cuda}`` for 129, such as ``cuda{cuda}*``.
        any_cuda: glob that every CUDA build matches and no CPU build does.
        essential: the CPU build defeats the purpose of a CUDA environment (pyarrow's does not).
    """

    package: str
    channel: str
    guard: str
    any_cuda: str
    essential: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelFit(Row):
    """A label of the nvidia channel whose libraries fit inside the bounds of a ``pytorch-cuda`` build."""

    cuda: Version
    build: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ending(Row):
    """A package that ended: its releases, the last one, and what to take instead."""

    package: str
    channel: str
    versions: tuple[str, ...]
    says: str
    instead: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extension(Row):
    """What one set of releases of a library needs of torch, CUDA, the GPU and the compiler.

    Several rows on one release are alternatives (builds for CUDA 12 and for CUDA 13): one that suits is enough.

    Attributes:
        package: its name, the same in conda and in pip.
        comes: ways in which these releases come: ``conda-forge``, ``pytorch``, ``wheel`` or ``source``.
        releases: the very releases, where each pins another torch; empty when a range says it.
        first, below: the range of releases; ``None`` is open.
        torch: the range of torch; ``None`` when it is not bound.
        cuda: CUDA minors that the binaries are for; empty when they are not bound.
        match: how ``cuda`` is compared: ``exact`` with torch's own CUDA, ``major`` with its major, ``toolkit``
            with the runtime of the environment, whatever torch was made with.
        platforms: conda platforms that these builds are for; empty when all are.
        serves_from: lowest capability it serves; ``None`` when not known.
        nvcc: range of the nvcc that it compiles with, on first use or at its installation; ``None``: it compiles none.
        checks: the library compares nvcc with torch's CUDA and refuses another minor.
        tolerates: CUDA minors among which, major for major, a library that ``checks`` lets the two differ.
        headers: header files that the compilation includes, by name.
        tools: further packages that the compilation calls: ``ninja``, ``gxx``.
    """

    package: str
    comes: tuple[str, ...]
    releases: tuple[Version, ...]
    first: Version | None
    below: Version | None
    torch: Requirement | None
    cuda: tuple[Version, ...]
    match: str
    platforms: tuple[str, ...]
    serves_from: Capability | None
    nvcc: Requirement | None
    tolerates: tuple[Version, ...]
    checks: bool
    headers: tuple[str, ...]
    tools: tuple[str, ...]

    def covers(self, release: Version) -> bool:
        """Whether the row speaks of a release; one with a local part (``+cu118``) is the release itself."""
        release = version(release.public) if release.local else release
        if self.releases:
            return release in self.releases
        return within(release, self.first, self.below)

    def refuses(self, own: Version, nvcc: Version) -> bool:
        """Whether the library compares nvcc with torch's own CUDA and refuses this pair, minors both."""
        both = own in self.tolerates and nvcc in self.tolerates and own.major == nvcc.major
        return self.checks and own != nvcc and not both

    def span(self) -> str:
        """The releases in words: ``0.42.0``, ``0.50 and later``, ``0.45 to below 0.45.5``."""
        if self.releases:
            return ", ".join(map(str, self.releases))
        if self.below is None:
            return f"{self.first} and later" if self.first else "all releases"
        return f"{self.first} to below {self.below}" if self.first else f"below {self.below}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regression(Row):
    """Releases of a library that are known to fail.

    Attributes:
        when: what has to be done for it to show: ``offload``.
        says: what happens, in the words of the error.
        issue: where it is told.
        mended: the first later release without it.
    """

    package: str
    releases: tuple[Version, ...]
    when: str
    says: str
    issue: str
    mended: Version


NUMBERS = ("fp64", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4")
"""The kinds of number that tensor cores take, in the order of NVIDIA's table."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feature(Row):
    """What GPUs of a compute capability can do.

    Attributes:
        chip: the only chip that the row speaks of; empty for all that no other row names.
        tensor: the numbers that its tensor cores take (some of `NUMBERS`); empty without tensor cores.
        bf16: it computes in bfloat16 outside of tensor cores as well.
        fp64: how many times as fast as in FP64 it computes in FP32, outside of tensor cores; ``None`` when unknown.
    """

    capability: Capability
    chip: str
    tensor: tuple[str, ...]
    bf16: bool
    fp64: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State(Row):
    """What a state of a machine means for CUDA programs: ``about`` names the state, ``says`` it in a sentence."""

    about: str
    says: str
