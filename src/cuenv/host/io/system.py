"""What ``/proc`` and ``/sys`` say: kernel module, GPUs, container, WSL, memory, libraries.

Every read goes below ``root``, so that a tree of files can stand for a machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from cuenv.core.io.files import is_file, is_folder, names_in
from cuenv.core.reading import describe
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.versions import Capability, check_driver
from cuenv.host.facts import CudaLibrary, Driver, Evidence, Gap, Gpu, LibraryPath, Resources
from cuenv.host.io.observation import ProbeResult, has_no_name
from cuenv.host.io.surroundings import OSRELEASE, read_small_file

PROC_VERSION = "proc/driver/nvidia/version"
SYS_VERSION = "sys/module/nvidia/version"
PROC_GPUS = "proc/driver/nvidia/gpus"
TEGRA = "etc/nv_tegra_release"
PCI = "sys/bus/pci/devices"
_MAX_GPUS = 256

_MODULE = regex(r"^NVRM version: NVIDIA (.{1,80}?)\s+([0-9]{3,4}(?:\.[0-9]{1,4}){1,3})\b", re.MULTILINE)
_CONTAINERS = (("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc"))


def see_by_kernel(root: Path) -> ProbeResult:
    """The kernel module and its GPUs, by ``/proc`` and ``/sys``.

    The version of the user-mode driver is not in there; the probe takes the module's where nothing better is known.
    """
    evidence: list[Evidence] = []
    gaps: list[Gap] = []
    module = _module(root, evidence, gaps)
    devices: dict[int, str] = {}
    gpus = _gpus(root, evidence, gaps, devices) if module else None
    return ProbeResult(driver=module, gpus=gpus, devices=devices, evidence=tuple(evidence), gaps=tuple(gaps))


def has_driver(root: Path) -> bool:
    """Whether a kernel driver of NVIDIA is present (``/dev/dxg`` on WSL2)."""
    return any(os.path.lexists(root / name) for name in (PROC_VERSION, SYS_VERSION, "dev/nvidiactl", "dev/dxg"))


def _module(root: Path, evidence: list[Evidence], gaps: list[Gap]) -> Driver | None:
    answer = read_small_file(root, PROC_VERSION)
    found = parse_module(answer.text)
    if found:
        line = answer.text.splitlines()[0].split("(")[0].strip()
        evidence.append(Evidence("driver.kernel_module", f"/{PROC_VERSION}", line))
        evidence.append(Evidence("driver.module_kind", f"/{PROC_VERSION}", line))
        return found
    gaps.append(Gap("driver.kernel_module", f"/{PROC_VERSION}", answer.reason or "it does not name a driver version"))
    other = read_small_file(root, SYS_VERSION)
    try:
        number = check_driver(other.text.strip())
    except ValueError:
        reason = other.reason or f"unusable answer {describe(other.text.strip())}"
        gaps.append(Gap("driver.kernel_module", f"/{SYS_VERSION}", reason))
        return None
    evidence.append(Evidence("driver.kernel_module", f"/{SYS_VERSION}", number))
    return Driver(kernel_module=number)


def idle_devices(
    root: Path,
    device_to_name: Callable[[str], str | None],
    name_to_capability: Callable[[str], Capability | None] = lambda _: None,
) -> tuple[Gap, ...]:
    """Evidence of GPUs although no driver answers: the PCI bus, or the system of a Jetson.

    ``device_to_name`` says what a PCI device id is, such as ``H100``.
    """
    found = []
    if is_file(root / TEGRA):
        found.append(Gap("gpus", f"/{TEGRA}", "this is a Jetson, whose GPU cannot be detected; name it with --gpu"))
    for entry in names_in(root / PCI):
        if read_small_file(root, f"{PCI}/{entry}/vendor").text.strip() != "0x10de":
            continue
        if not read_small_file(root, f"{PCI}/{entry}/class").text.startswith("0x03"):
            continue
        device = read_small_file(root, f"{PCI}/{entry}/device").text.strip()
        bound = Path(os.path.realpath(root / PCI / entry / "driver")).name
        holder = f"it is bound to {bound}" if bound != "driver" else "it is bound to no driver"
        why = "its driver is not reachable from here" if bound == "nvidia" else f"no NVIDIA driver is loaded: {holder}"
        name = device_to_name(device)
        capability = name_to_capability(name) if name else None
        name = f"{name} ({capability})" if capability else name
        what = f"GPU on the PCI bus: {name}" if name else f"GPU on the PCI bus (device {describe(device)})"
        found.append(Gap("gpus", f"/{PCI}/{entry}", f"{what}, but {why}"))
    return tuple(found[:_MAX_GPUS])


def parse_module(text: str) -> Driver | None:
    """The version and flavour of the kernel module in ``/proc/driver/nvidia/version``; ``None`` for other text."""
    found = _MODULE.search(text)
    if not found:
        return None
    flavour = "open" if "Open Kernel Module" in found[1] else "proprietary" if "Kernel Module" in found[1] else None
    return Driver(kernel_module=found[2], module_kind=flavour)


def _gpus(root: Path, evidence: list[Evidence], gaps: list[Gap], devices: dict[int, str]) -> tuple[Gpu, ...] | None:
    if not is_folder(root / PROC_GPUS):
        gaps.append(Gap("gpus", f"/{PROC_GPUS}", "no such folder"))
        return None
    found: list[Gpu] = []
    for entry in names_in(root / PROC_GPUS)[:_MAX_GPUS]:  # names are PCI addresses: the driver's order
        source = f"{PROC_GPUS}/{entry}/information"
        answer = read_small_file(root, source)
        if parse_excluded(answer.text):
            gaps.append(Gap("gpus", f"/{source}", "the driver is configured to ignore this GPU"))
            continue
        name = parse_model(answer.text)
        fact = f"gpus[{len(found)}]"
        if name:
            evidence.append(Evidence(f"{fact}.name", f"/{source}", name))
        else:
            gaps.append(Gap(f"{fact}.name", f"/{source}", answer.reason or "it names no model"))
        if has_no_name(name or ""):
            devices[len(found)] = read_small_file(root, f"{PCI}/{entry}/device").text.strip()
        found.append(Gpu(index=len(found), name=name or "", capability=None))
    evidence.append(Evidence("gpus", f"/{PROC_GPUS}", f"{len(found)} folders"))
    return tuple(found)


def parse_model(text: str) -> str | None:
    """The model in ``/proc/driver/nvidia/gpus/*/information``."""
    name = _field(text, "Model")
    return None if name in (None, "", "Unknown") else name


def parse_excluded(text: str) -> bool:
    """Whether the driver excludes this GPU (module option ``NVreg_ExcludedGpus``)."""
    return _field(text, "GPU Excluded") == "Yes"


def _field(text: str, key: str) -> str | None:
    for line in text.splitlines():
        head, colon, value = line.partition(":")
        if colon and head.strip() == key:
            return value.strip()[:128]
    return None


def container(root: Path, environ: Mapping[str, str]) -> Evidence | None:
    """The kind of container in which the process runs, as evidence; ``None`` outside of containers."""
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return Evidence("environment.container", "KUBERNETES_SERVICE_HOST", "kubernetes")
    for name, kind in ((".dockerenv", "docker"), ("run/.containerenv", "podman"), ("singularity", "singularity")):
        if os.path.lexists(root / name):
            return Evidence("environment.container", f"/{name}", kind)
    found = parse_cgroup(read_small_file(root, "proc/1/cgroup").text)
    return Evidence("environment.container", "/proc/1/cgroup", found) if found else None


def parse_cgroup(text: str) -> str | None:
    """The kind of container in a cgroup path."""
    return next((kind for mark, kind in _CONTAINERS if mark in text), None)


def wsl(root: Path, kernel: str | None) -> Evidence | None:
    """Whether this is WSL2, as evidence."""
    if kernel and "microsoft" in kernel.lower():
        return Evidence("environment.wsl", f"/{OSRELEASE}", kernel)
    if is_folder(root / "usr/lib/wsl/lib"):
        return Evidence("environment.wsl", "/usr/lib/wsl/lib", "the folder is there")
    return None


Space = Callable[[Path], tuple[int, int]]

MEMINFO = "proc/meminfo"
SHM = "dev/shm"
_CGROUPS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")
_TOTAL = regex(r"^MemTotal:\s+([0-9]{1,15}) kB$", re.MULTILINE)
_NODE = regex(r"nvidia(ctl|-uvm|-uvm-tools|-modeset|-caps|[0-9]{1,4})|dxg")
_MIB = 1024 * 1024
_MAX_NODES = 512


def disk_space(folder: Path) -> tuple[int, int]:
    """The total and free bytes of the file system of a folder.

    Raises:
        OSError: it cannot be told.
    """
    found = os.statvfs(folder)
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Memory and disk with their evidence and gaps."""

    resources: Resources
    evidence: tuple[Evidence, ...] = ()
    gaps: tuple[Gap, ...] = ()


def measure(root: Path, ask: Space = disk_space) -> Measured:
    """The memory of the machine or container, and the size of ``/dev/shm``."""
    return _measured(
        ("memory_mib", f"/{MEMINFO}", _memory(root)), ("shm_mib", f"statvfs /{SHM}", _space(root / SHM, 0, ask))
    )


def free_disk(ask: Space = disk_space) -> Measured:
    """The free space of the working folder."""
    return _measured(("disk_mib", "statvfs of the working folder", _space(Path(), 1, ask)))


def _measured(*answers: tuple[str, str, tuple[int, str] | str]) -> Measured:
    """Combine measurements, each an amount with its evidence or the reason for none."""
    found: dict[str, int] = {}
    evidence: list[Evidence] = []
    gaps: list[Gap] = []
    for fact, source, answer in answers:
        if isinstance(answer, str):
            gaps.append(Gap(f"resources.{fact}", source, answer))
            continue
        found[fact] = answer[0]
        evidence.append(Evidence(f"resources.{fact}", answer[1] or source, f"{answer[0]} MiB"))
    return Measured(resources=Resources(**found), evidence=tuple(evidence), gaps=tuple(gaps))


def _memory(root: Path) -> tuple[int, str] | str:
    """The memory in MiB, and the control group file that limits it; or why it is unknown."""
    answer = read_small_file(root, MEMINFO)
    total = parse_meminfo(answer.text)
    if total is None:
        return answer.reason or "it names no MemTotal"
    for name in _CGROUPS:
        limit = parse_limit(read_small_file(root, name).text)
        if limit is not None and limit < total:
            return limit, f"/{name}"
    return total, ""


def parse_meminfo(text: str) -> int | None:
    """The MiB of memory in ``/proc/meminfo``."""
    found = _TOTAL.search(text)
    return int(found[1]) // 1024 if found else None


def parse_limit(text: str) -> int | None:
    """The limit of a control group in MiB; ``None`` for no limit (``max``) and for other text."""
    word = text.strip()
    return int(word) // _MIB if word.isascii() and word.isdigit() and len(word) < 20 else None


def _space(folder: Path, which: int, ask: Space) -> tuple[int, str] | str:
    try:
        return ask(folder)[which] // _MIB, ""
    except OSError as error:
        return error.strerror or type(error).__name__


def device_nodes(root: Path) -> tuple[str, ...]:
    """The names in ``/dev`` through which a process reaches an NVIDIA driver."""
    return tuple(name for name in names_in(root / "dev") if _NODE.fullmatch(name))[:_MAX_NODES]


def find_libcuda(environ: Mapping[str, str], root: Path) -> CudaLibrary | None:
    """The ``libcuda.so.1`` that a program of the active environment gets; ``None`` when there is none.

    conda's libraries carry a path to their own ``lib``, which goes before LD_LIBRARY_PATH.
    """
    for via, path in _places(environ, root):
        if not os.path.lexists(path):
            continue
        number = parse_number(os.path.realpath(path))
        return CudaLibrary(path=str(path), version=number, via=via, forward=is_forward(path))
    return None


def _places(environ: Mapping[str, str], root: Path) -> Iterator[tuple[str, Path]]:
    if environ.get("CONDA_PREFIX"):
        yield "CONDA_PREFIX", Path(environ["CONDA_PREFIX"], "lib", CUDA)
    for entry in environ.get("LD_LIBRARY_PATH", "").split(":"):
        if entry:
            yield "LD_LIBRARY_PATH", Path(entry, CUDA)
    found = find_library(CUDA, {}, root)
    if found:
        yield "loader", found.path


NVML = "libnvidia-ml.so.1"
CUDA = "libcuda.so.1"

_DEFAULTS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "lib64", "lib")
# Where drivers lie that did not tell the loader: WSL2, container hosts that mount the driver, NixOS.
_HIDDEN = ("usr/lib/wsl/lib", "usr/local/nvidia/lib64", "run/opengl-driver/lib")
_NUMBERED = regex(r"\.so\.([0-9]{3,4}(?:\.[0-9]{1,4}){1,3})")
_CUDA_LIBRARY = regex(
    r"(lib(?:cudart|cublas|cublasLt|cudnn(?:_[a-z_]+)?|nccl|cusparse|cusparseLt|cusolver|cufft|curand|nvrtc"
    r"|nvJitLink|cupti|nvToolsExt|cuda|nvidia-ml))\.so(\.[0-9.]+)?"
)
_COMPAT = frozenset({"compat", "cuda-compat"})
_CACHE_LIMIT = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Library:
    """A library file; ``hidden`` if the loader does not search its folder by default."""

    path: Path
    hidden: bool = False


def find_library(name: str, environ: Mapping[str, str], root: Path) -> Library | None:
    """The path of a driver library in the loader's order, without running ldconfig; ``None`` if it is not found."""
    entries = [Path(entry) for entry in environ.get("LD_LIBRARY_PATH", "").split(":") if entry]
    cached = [root / path.lstrip("/") for path in parse_cache(_cache(root), name)]
    defaults = [root / folder / name for folder in _DEFAULTS]
    for path in (*(entry / name for entry in entries), *cached, *defaults):
        if os.path.lexists(path):
            return Library(path)
    for folder in _HIDDEN:
        if os.path.lexists(root / folder / name):
            return Library(root / folder / name, hidden=True)
    return None


def _cache(root: Path) -> bytes:
    try:
        with (root / "etc/ld.so.cache").open("rb") as stream:
            return stream.read(_CACHE_LIMIT)
    except OSError:
        return b""


def parse_cache(data: bytes, name: str) -> tuple[str, ...]:
    """The paths of a library in the loader's cache, in order."""
    found = re.findall(rb"/[^\0]{0,4096}/" + re.escape(name.encode()) + rb"(?=\0)", data)
    return tuple(dict.fromkeys(os.fsdecode(path) for path in found))


def parse_number(file_name: str) -> str | None:
    """The driver version in the name of a driver library: 535.129.03 for ``libcuda.so.535.129.03``."""
    found = _NUMBERED.search(file_name)
    return found[1] if found and found.end() == len(file_name) else None


def is_forward(path: Path) -> bool:
    """Whether a driver library belongs to a forward-compatibility package (``/usr/local/cuda-12.8/compat``)."""
    return not _COMPAT.isdisjoint({path.parent.name, Path(os.path.realpath(path)).parent.name})


def library_version(environ: Mapping[str, str], root: Path) -> tuple[str, str] | None:
    """The version of the driver's user-mode libraries by what their links point to, and the words for evidence.

    A forward-compatibility package is of another driver than the machine's.
    """
    for name in (NVML, CUDA):
        found = find_library(name, environ, root)
        target = os.path.realpath(found.path) if found else ""
        number = parse_number(target)
        if found and number and not is_forward(found.path):
            return number, f"{found.path} is {Path(target).name}"
    return None


def parse_names(names: Iterable[str]) -> tuple[str, ...]:
    """The CUDA libraries among file names, each once, without suffixes."""
    matches = (_CUDA_LIBRARY.fullmatch(name) for name in names)
    return tuple(sorted({match[1] for match in matches if match}))


def library_path(environ: Mapping[str, str]) -> tuple[LibraryPath, ...]:
    """The entries of LD_LIBRARY_PATH that contain CUDA libraries, in order."""
    found = []
    for entry in dict.fromkeys(environ.get("LD_LIBRARY_PATH", "").split(":")):
        names = parse_names(names_in(entry)) if entry else ()
        if names:
            found.append(LibraryPath(path=entry, libraries=names))
    return tuple(found)
