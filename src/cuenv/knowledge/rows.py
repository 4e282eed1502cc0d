"""The rows of the tables of facts: each column is declared here once, for its reader, its type and the README."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from packaging.version import Version

from cuenv.core.versions import Capability, DeviceCode, version, within
from cuenv.knowledge.requirement import REQUIREMENT, SPAN, Requirement
from cuenv.knowledge.schema import (
    ARCH_LIST,
    CAPABILITY,
    DAY,
    DRIVER,
    FLAG,
    RELEASE,
    TEXT,
    WHOLE,
    TableRow,
    column,
    device_code,
    list_of,
    matching,
    one_of,
)

_CUDATOOLKIT = (10, 11)  # the CUDA majors that conda-forge has as one package, ``cudatoolkit``, without a compiler

_OLDEST = version("0")

MACHINES = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}
"""The machine of each platform, as the kernel and wheels name it."""
PLATFORMS = tuple(MACHINES)  # the conda platforms that cuenv resolves for

STACKS = ("conda-forge", "pytorch")

WHEELS = "wheels"  # the stack of a torch that pip brings, and the channel that its packages have in messages
EVERY_STACK = (*STACKS, WHEELS)  # what may be asked for as the stack: a channel of conda, or wheels

NUMBERS = ("fp64", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4")
"""The kinds of number that tensor cores take, in the order of NVIDIA's table."""


class Source(TableRow, key=("id",)):
    """A source of facts."""

    id: str = column(matching(r"[a-z0-9][a-z0-9_]*", "a word of a-z, 0-9 and _"), "id that rows cite")
    title: str = column(TEXT, "title of the document")
    publisher: str = column(TEXT, "publisher of the document; `cuenv` for own measurements and derivations")
    locator: str = column(TEXT, "place in the document")
    url: str = column(
        matching(r"https://[!-~]+", "an address that begins with https://"),
        "its address; left out for own measurements",
        default="",
    )
    read_on: str = column(DAY, "day on which it was read")

    @property
    def shown(self) -> str:
        """The publisher, title and place of the source, in words."""
        return f"{self.publisher}, {self.title}; {self.locator}"


class Row(TableRow):
    """The columns of every row except sources."""

    sources: tuple[str, ...] = column(list_of(TEXT), "ids of its sources", key="src")
    low: bool = column(FLAG, "whether its confidence is low; every verdict that uses the row shows this", default=False)
    note: str = column(TEXT, "a remark in a few words; needed with `low`", default="")


_PATCH = matching(r"\d+\.\d+\.\d+", "a release X.Y.Z")


class Toolkit(Row, key=("version",)):
    """A release of the CUDA toolkit and the driver that came with it."""

    version: Version = column(RELEASE, "X.Y.Z")
    driver: str | None = column(
        DRIVER,
        "first Linux driver with all features of the release, including JIT compilation of its PTX",
        default=None,
    )
    branch: int | None = column(WHOLE, "driver branch of that driver", default=None)
    hard: bool = column(
        FLAG, "whether the driver is a hard minimum (CUDA 10.x, before minor-version compatibility)", default=False
    )


class Cuda(Row, key=("version",)):
    """A CUDA minor: the targets of its compiler, and its conda packages."""

    version: Version = column(RELEASE, "X.Y")
    isa: Version | None = column(RELEASE, "version of the PTX that its nvcc writes", default=None)
    targets: tuple[Capability, ...] = column(
        list_of(CAPABILITY, empty=True), "compute capabilities that its nvcc supports; empty: unknown", default=()
    )
    gcc_min: int | None = column(WHOLE, "oldest major of GCC that its nvcc accepts", default=None)
    gcc_max: int | None = column(WHOLE, "newest major of GCC that its nvcc accepts", default=None)
    conda_gcc_max: int | None = column(
        WHOLE, "newest major of GCC that conda-forge's `cuda-nvcc` accepts, which is stricter", default=None
    )
    conda_nvcc: bool = column(
        FLAG, "whether conda-forge has an nvcc with headers that a lock file can pin", default=False
    )
    labels: tuple[str, ...] = column(
        list_of(_PATCH, empty=True), "releases that the nvidia channel labels (`nvidia/label/cuda-X.Y.Z`)", default=()
    )
    binds: tuple[str, ...] = column(
        list_of(TEXT, empty=True),
        "specs that bound, in the channel nvidia, the packages for which `pytorch-cuda` of this release "
        "sets no upper bound",
        default=(),
    )
    glibc: Version | None = column(RELEASE, "minimum glibc that its libraries on conda-forge need", default=None)

    @property
    def conda(self) -> bool:
        """Whether conda-forge has its runtime libraries."""
        return self.conda_nvcc or self.version.major in _CUDATOOLKIT


class Branch(Row, key=("number",)):
    """A driver branch, and the CUDA release that its drivers support."""

    number: int = column(WHOLE, "such as 535")
    cuda: Version = column(RELEASE, "newest CUDA release that its drivers support (12.7 is known only from drivers)")
    base: bool = column(
        FLAG,
        "whether the branch is known to support a newer forward-compatibility library; New Feature "
        "Branches do not support one",
        default=False,
    )
    ends: str = column(
        matching(r"20[0-9]{2}-(0[1-9]|1[0-2])", "a month YYYY-MM"),
        "month in which NVIDIA's data center support ends; left out: unknown",
        default="",
    )


class MinimumDriver(Row, key=("major",)):
    """The minimum driver for a CUDA major version (minor-version compatibility)."""

    major: int = column(WHOLE, "CUDA major version; for 10.x see `hard` in `toolkits`")
    driver: str = column(DRIVER, "minimum driver")


class ComputeCapability(Row, key=("capability",)):
    """What is known about a compute capability."""

    capability: Capability = column(CAPABILITY, "compute capability")
    architecture: str = column(TEXT, "its name")
    first_branch: int | None = column(WHOLE, "first driver branch that supports it", default=None)
    first_driver: str | None = column(
        DRIVER, "first driver that supports it, if not every driver of the first branch does", default=None
    )
    last_branch: int | None = column(
        WHOLE, "last driver branch that supports it; left out: unknown, or still supported", default=None
    )
    first_cuda: Version | None = column(RELEASE, "first toolkit whose nvcc supports it", default=None)
    last_cuda: Version | None = column(RELEASE, "last toolkit whose nvcc supports it", default=None)
    module: str | None = column(
        one_of("any", "open", "proprietary"), "flavour of the kernel module that it needs", default=None
    )


class GpuModel(Row, key=("name",)):
    """A GPU product."""

    name: str = column(TEXT, 'marketing name without "NVIDIA"')
    aka: tuple[str, ...] = column(
        list_of(TEXT, empty=True),
        "other names (cuenv strips suffixes for memory, bus, Laptop and vGPU profiles, so they need no names here)",
        default=(),
    )
    capability: Capability = column(CAPABILITY, "compute capability")
    architecture: str = column(TEXT, "its name")
    chip: str = column(TEXT, "such as GA102", default="")
    kind: str = column(one_of("datacenter", "desktop-soc", "geforce", "jetson", "workstation"), "product line")
    memory_gb: tuple[int, ...] = column(
        list_of(WHOLE, empty=True), "memory sizes of the product, in GB; for information only", default=()
    )
    pci: tuple[str, ...] = column(
        list_of(matching(r"[0-9a-f]{4}", "four hex digits in lower case"), empty=True),
        "PCI device ids (vendor 10de)",
        default=(),
    )


BuildKey: TypeAlias = tuple[str, Version, Version | None, str]
"""Stack, release, CUDA minor and platform of a torch build."""


_PYTORCH_CUDA = version("1.13")
"""The first release whose builds require ``pytorch-cuda``; those before require ``cudatoolkit``.

Source: https://pytorch.org/get-started/previous-versions/
"""


class TorchBuild(Row, key=("stack", "version", "cuda", "platform")):
    """A build of PyTorch in a conda channel, for one platform."""

    stack: str = column(one_of(*STACKS), "the stack, which is also its channel")
    version: Version = column(RELEASE, "PyTorch version")
    cuda: Version | None = column(RELEASE, "CUDA minor that it was built with; left out: the CPU build", default=None)
    build: str = column(TEXT, "glob over the build string, such as `cuda129*`")
    platform: str = column(one_of(*PLATFORMS), "conda platform")
    pythons: tuple[str, ...] = column(
        list_of(matching(r"\d\.\d{1,2}", "a Python minor X.Y")), "Python minors that it exists for"
    )
    code: DeviceCode | None = column(
        ARCH_LIST,
        "its device code, PTX in the ISA of the build's own CUDA release; empty: the CPU build; left out: unknown",
        default=None,
        key="arch_list",
        joined=lambda row, text: device_code(text, row.cuda),
    )
    glibc: Version | None = column(RELEASE, "minimum glibc that the build itself requires", default=None)
    cudnn: Requirement | None = column(
        REQUIREMENT,
        "cuDNN that it requires (the loosest bound of its builds), or the release that it contains",
        default=None,
    )
    nccl: Requirement | None = column(
        REQUIREMENT,
        "NCCL that it requires (the loosest bound of its builds), or the release that it contains",
        default=None,
    )
    seen: str | None = column(
        DAY,
        "newest day on which its channel is known to have had it: the day of the upload if the record has it, else the "
        "day on which the record was read, or the day of the commit by which another package of the channel was built "
        "against it; left out: only the recipe is known, and cuenv prefers a build with a day",
        default=None,
    )
    since: str | None = column(
        DAY,
        "oldest day on which its channel is known to have had it, if the record has the day; left out: "
        "only `seen` is known",
        default=None,
    )

    @property
    def shown(self) -> str:
        """For people: ``pytorch 2.7.1 cuda129* (conda-forge)``, ``the wheel of torch 2.7.1 for CUDA 12.6``."""
        if self.stack == WHEELS:
            return f"the wheel of torch {self.version.public}" + (f" for CUDA {self.cuda}" if self.cuda else "")
        return f"pytorch {self.version} {self.build} ({self.stack})"

    @property
    def of_cudatoolkit(self) -> bool:
        """Whether it takes the CUDA runtime from the package ``cudatoolkit``, as builds of PyTorch before 1.13."""
        return self.stack == "pytorch" and self.cuda is not None and self.version < _PYTORCH_CUDA

    @property
    def published(self) -> bool:
        """Whether it is known to lie in its channel."""
        return bool(self.seen)

    @property
    def key(self) -> BuildKey:
        """The key of the row, unique in its table."""
        return (self.stack, self.version, self.cuda, self.platform)

    def sort_key(self) -> Any:
        """The CPU build stands before those for CUDA."""
        return tuple(_OLDEST if value is None else value for value in super().sort_key())


class TorchWheel(TorchBuild, key=("version", "cuda", "platform")):
    """A wheel of PyTorch, for one platform."""

    stack: str = column(one_of(WHEELS), "the stack", default=WHEELS)
    build: str = column(
        matching(r"cu\d{2,3}|cpu", "a tag such as cu126, or cpu"),
        "its tag: the name of its index, and its local version",
    )
    comes: tuple[str, ...] = column(
        list_of(one_of("index", "pypi")),
        "its location: PyTorch's own index for its tag, as `2.7.1+cu126`, or PyPI, as `2.7.1`",
    )
    pins: tuple[str, ...] = column(
        list_of(TEXT, empty=True),
        "NVIDIA wheels and triton that its metadata requires; left out: the wheel contains them, or unknown",
        default=(),
    )
    released: str = column(DAY, "day of the first upload of the release to PyPI")

    @property
    def name(self) -> str:
        """The version for pip: ``2.7.1+cu126``, or ``2.7.1`` if only PyPI has it."""
        return f"{self.version}+{self.build}" if "index" in self.comes else str(self.version)

    @property
    def published(self) -> bool:
        """A release uploads all its wheels together, and its day is known."""
        return True


class LibrarySupport(Row, key=("library", "first", "cuda")):
    """From which capability on a range of releases of a library supports GPUs."""

    library: str = column(one_of("cudnn", "nccl"), "the library")
    first: Version | None = column(RELEASE, "first release; left out: no lower bound", default=None)
    below: Version | None = column(
        RELEASE, "first release that the row no longer covers; left out: no upper bound", default=None
    )
    serves_from: Capability = column(CAPABILITY, "lowest capability that they support")
    cuda: int | None = column(
        WHOLE,
        "CUDA major version of the builds; the row also covers later major versions up to the next one "
        "with rows (builds for older CUDA may support older GPUs)",
        default=None,
    )
    forward: str = column(
        one_of("yes", "no"),
        "whether they also run on GPUs of a later architecture, because the driver compiles their PTX; "
        "left out: unknown",
        default="",
    )
    glibc: Version | None = column(RELEASE, "minimum glibc that conda-forge's packages of them need", default=None)

    def sort_key(self) -> Any:
        """Rows without a first release stand before others."""
        return (self.library, self.cuda or 0, self.first or _OLDEST)


class Component(Row, key=("name",)):
    """An NVIDIA package that must come from the one channel of its stack."""

    name: str = column(TEXT, "the package, or a glob such as `libcu*` (no package is matched by two rows)")
    role: str = column(one_of("cudatoolkit-dev", "cudnn", "nccl"), "its role", default="")
    headers: tuple[str, ...] = column(list_of(TEXT, empty=True), "header files that it contains", default=())
    parts: tuple[str, ...] = column(
        list_of(TEXT, empty=True),
        "for a metapackage of the nvidia channel: packages that every release of it requires without an upper bound",
        default=(),
    )
    whole: bool = column(
        FLAG, "whether one package contains a whole release and requires no other component", default=False
    )


class CudaVariant(Row, key=("channel", "package")):
    """A package with CPU and CUDA builds under one name."""

    package: str = column(TEXT, "its name")
    channel: str = column(TEXT, "its channel")
    guard: str = column(
        TEXT,
        "glob of a CUDA build, with `{cuda}` for 129 and `{dotted}` for 12.9; without both if the "
        "package is built for other CUDA minors than torch, or does not name the minor",
    )
    any_cuda: str = column(
        TEXT, "glob that matches every CUDA build (of the newest release, if their names changed) and no CPU build"
    )
    essential: bool = column(FLAG, "whether the CPU build defeats the purpose of a CUDA environment")


class LabelFit(Row, key=("cuda", "label")):
    """A label of the nvidia channel whose libraries fit inside the bounds of a `pytorch-cuda` build."""

    cuda: Version = column(RELEASE, "CUDA release of the `pytorch-cuda` build")
    build: str = column(TEXT, "glob over its build string")
    label: str = column(_PATCH, "such as 12.1.1")

    def sort_key(self) -> Any:
        """Labels stand in the order of versions."""
        return (self.cuda, version(self.label))


class Discontinued(Row, key=("channel", "package")):
    """A discontinued package."""

    package: str = column(TEXT, "its name")
    channel: str = column(TEXT, "its channel")
    versions: tuple[str, ...] = column(list_of(TEXT), "its releases")
    says: str = column(TEXT, "statement that it was discontinued, and when")
    instead: str = column(TEXT, "package to use instead")
    alone: bool = column(FLAG, "whether no channel of another owner has it", default=False)


class Extension(Row, key=("package", "comes", "first", "cuda", "platforms")):
    """Requirements of releases of a library that uses PyTorch: torch, CUDA, the GPU and the compiler.

    Several rows on one release are alternatives (builds for CUDA 12 and for CUDA 13): one that suits is enough.
    """

    package: str = column(TEXT, "its name, in conda and in pip alike")
    comes: tuple[str, ...] = column(
        list_of(one_of("conda-forge", "pytorch", "source", "wheel")), "sources of these releases"
    )
    releases: tuple[Version, ...] = column(
        list_of(RELEASE, empty=True), "the exact releases, if each pins another torch; else a range", default=()
    )
    first: Version | None = column(RELEASE, "first release of a range; left out: no lower bound", default=None)
    below: Version | None = column(RELEASE, "first release after a range; left out: no upper bound", default=None)
    torch: Requirement | None = column(SPAN, "torch that it needs; left out: any", default=None)
    cuda: tuple[Version, ...] = column(
        list_of(RELEASE, empty=True), "CUDA minors that its binaries are for; left out: any", default=()
    )
    match: str = column(
        one_of("exact", "major", "toolkit"),
        "the version to compare with `cuda`: torch's CUDA release, its major version, or the CUDA "
        "runtime of the environment",
        default="exact",
    )
    platforms: tuple[str, ...] = column(
        list_of(one_of(*PLATFORMS), empty=True), "conda platforms that the builds are for; left out: all", default=()
    )
    serves_from: Capability | None = column(CAPABILITY, "lowest capability that it supports", default=None)
    nvcc: Requirement | None = column(
        SPAN, "nvcc that it compiles with, on first use or when installed; left out: it compiles nothing", default=None
    )
    builds: bool = column(FLAG, "whether it compiles during installation, by a setup that imports torch", default=False)
    repository: str = column(TEXT, "its repository on GitHub, if that has another name: NVIDIA/apex", default="")
    checks: bool = column(
        FLAG,
        "whether it compares an installed nvcc with torch's CUDA release, and refuses another minor version",
        default=False,
    )
    tolerates: tuple[Version, ...] = column(
        list_of(RELEASE, empty=True),
        "CUDA minors that `checks` accepts in place of each other, within a major version",
        default=(),
    )
    headers: tuple[str, ...] = column(
        list_of(TEXT, empty=True), "header files that its compilation includes", default=()
    )
    tools: tuple[str, ...] = column(
        list_of(one_of("gxx", "ninja"), empty=True), "further packages that its compilation calls", default=()
    )

    ptxas: tuple[Version, ...] = column(
        list_of(RELEASE, empty=True),
        "CUDA minors of the ptxas that it contains, with which it compiles for each GPU at run time",
        default=(),
    )

    def sort_key(self) -> Any:
        """Rows on a package stand in the order of their releases."""
        first = self.first or min(self.releases, default=_OLDEST)
        return (self.package, self.comes, first, self.cuda, self.platforms)

    def covers(self, release: Version) -> bool:
        """Whether the row is about a release; the local part (``+cu118``) does not count."""
        release = version(release.public) if release.local else release
        if self.releases:
            return release in self.releases
        return within(release, self.first, self.below)

    def loads(self, there: Iterable[Version], own: Version) -> Version | None:
        """The CUDA release whose libraries it loads beside a torch built with ``own``."""
        able = [item for item in there if item == own or (self.match == "major" and item.major == own.major)]
        return max((item for item in able if item <= own), default=min(able, default=None))

    def refuses(self, own: Version, nvcc: Version) -> bool:
        """Whether the library compares nvcc with torch's CUDA and refuses this pair of minors."""
        both = own in self.tolerates and nvcc in self.tolerates and own.major == nvcc.major
        return self.checks and own != nvcc and not both

    def span(self) -> str:
        """The releases in words: ``0.42.0``, ``0.50 and later``, ``0.45 to below 0.45.5``."""
        if self.releases:
            return ", ".join(map(str, self.releases))
        if self.below is None:
            return f"{self.first} and later" if self.first else "all releases"
        return f"{self.first} to below {self.below}" if self.first else f"below {self.below}"


class Regression(Row, key=("package", "releases")):
    """Releases of a library that are known to fail."""

    package: str = column(TEXT, "its name")
    releases: tuple[Version, ...] = column(list_of(RELEASE), "releases that fail")
    when: str = column(one_of("offload"), "use that triggers the failure")
    says: str = column(TEXT, "the failure, with the text of the error")
    issue: str = column(TEXT, "issue that reports it")
    mended: Version = column(RELEASE, "first later release without it")


class Program(Row, key=("package", "first")):
    """Wheels on PyPI of a program other than torch, and the CUDA libraries that they load: those of one release."""

    package: str = column(TEXT, "its name on PyPI")
    first: Version = column(RELEASE, "first release")
    below: Version = column(RELEASE, "first release after them")
    cuda: Version | None = column(RELEASE, "CUDA minor whose libraries they load; left out: a CPU build", default=None)
    cudnn: Version | None = column(RELEASE, "release of cuDNN that they were tested with", default=None)

    def covers(self, release: Version) -> bool:
        """Whether the row speaks of a release."""
        return within(version(release.public), self.first, self.below)


class Conflict(Row, key=("package", "torch_below")):
    """Releases of a package with which builds of torch fail that do not exclude them in their records."""

    package: str = column(TEXT, "its name, for conda and for pip")
    first: Version = column(RELEASE, "first release that fails")
    torch_below: Version = column(RELEASE, "builds of torch before this release fail")
    stacks: tuple[str, ...] = column(list_of(one_of(*STACKS, WHEELS)), "whose builds of torch fail")
    needed: bool = column(FLAG, "whether each of these builds requires the package", default=False)
    python: Version | None = column(RELEASE, "oldest Python that these releases have; left out: any", default=None)
    says: str = column(TEXT, "the failure, with the text of the error")
    issue: str = column(TEXT, "issue that reports it")

    @property
    def bound(self) -> str:
        """The condition that excludes the broken releases: ``<2024.1``."""
        return f"<{self.first}"


class Feature(Row, key=("capability", "chip")):
    """Features of the GPUs of a compute capability."""

    capability: Capability = column(CAPABILITY, "compute capability")
    chip: str = column(
        TEXT, "the only chip that the row describes; left out: all chips without their own row", default=""
    )
    tensor: tuple[str, ...] = column(
        list_of(one_of(*NUMBERS), empty=True), "number formats that its tensor cores support; empty: no tensor cores"
    )
    bf16: bool = column(FLAG, "whether it also computes in bfloat16 outside of tensor cores", default=False)
    fp64: int | None = column(WHOLE, "FP32 speed divided by FP64 speed, outside of tensor cores", default=None)


class State(Row, key=("about",)):
    """What a state of a machine means for CUDA programs."""

    about: str = column(TEXT, "the state that a finding names")
    says: str = column(TEXT, "its meaning, in a sentence")
