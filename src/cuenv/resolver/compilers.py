"""Compilers of an environment: nvcc against the CUDA release of torch, GCC against nvcc, a second CUDA runtime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.version import Version

from cuenv.core.findings import FileEdit, Finding, Severity
from cuenv.core.record import NamedTuple, replace
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.core.versions import minor, version, version_or_none
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS, Cuda
from cuenv.resolver.requirements import pin_demand
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.model import LockedPackage, build_cuda

_NVCC = ("cuda-nvcc", "cuda-compiler", "cuda-minimal-build", "cuda-toolkit", "cuda", "cudatoolkit-dev")
"""Packages whose number is that of the nvcc that they bring, the compiler itself first."""
_GCC = regex(r"g(?:cc|xx)(?:_linux-(?:64|aarch64))?")
"""Packages that make a GCC the compiler of an environment."""
_NUMBERS = regex(r"=*(\d+\.\d+)(?:\.[\d.]+|\.?\*)?\Z")
_LABEL = regex(r"nvidia/label/cuda-(\d+\.\d+)")
_LIBRARIES = ("cudnn", "libcudnn", "nccl")
_MAJOR = regex(r"cuda_?(1\d)")
_LAST = version("9999")


class Named(NamedTuple):
    """A CUDA release, and the words of a file that name it."""

    text: str
    release: Version


def nvcc_asked(spec: EnvironmentSpec) -> tuple[Named, ...]:
    """The nvcc of a file, as far as its pins and the labels of the channel nvidia say which it is."""
    pins = (pin for name in _NVCC for pin in spec.pins if pin.name == name)
    return tuple(Named(pin.yaml_text(), release) for pin in pins if (release := _release(pin, spec)))


def _release(pin: Pin, spec: EnvironmentSpec) -> Version | None:
    found = _NUMBERS.match(pin.version)
    if found:
        return version(found[1])
    if pin.version:
        return None
    labels = [pin.channel] if pin.channel else [short_channel(item) for item in spec.channels]
    named = [label for label in labels if label.startswith("nvidia")]
    found = _LABEL.match(named[0]) if len(named) == 1 else None
    return version(found[1]) if found else None


def torch_cuda(spec: EnvironmentSpec, knowledge: Knowledge) -> Named | None:
    """The CUDA release that torch is made for; of a torch from pip the newest that its requirement admits."""
    torch, bound = spec.pin("pytorch") or spec.pin("pytorch-gpu"), spec.pin("pytorch-cuda")
    if bound and (release := _release(bound, spec)):
        return Named(bound.yaml_text(), release)
    if torch:
        own, toolkit = build_cuda(torch.build), spec.pin("cudatoolkit")
        if own:
            return Named(torch.yaml_text(), own)
        release = _release(toolkit, spec) if toolkit else None
        return Named(toolkit.yaml_text(), release) if toolkit and release else None
    from cuenv.resolver.asked_torch import torch_asked  # noqa: PLC0415 - only where conda's part names no release

    asked = torch_asked(spec.pip)
    if asked is None:
        return None
    linux = (row for row in knowledge.wheels if row.platform == PLATFORMS[0])
    cudas = {row.cuda for row in linux if row.cuda and asked.has(row)}
    return Named(f"pip: {asked.text}", max(cudas)) if len({item.major for item in cudas}) == 1 else None


def compiler_findings(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    """Pins of nvcc, of a CUDA runtime and of GCC that do not fit together or torch."""
    nvcc, torch = nvcc_asked(spec), torch_cuda(spec, knowledge)
    for item in nvcc:
        if torch and item.release.major != torch.release.major:
            name = item.text.split("::")[-1].split("=")[0].split()[0]
            ended = knowledge.discontinued(name)
            better = f"{'cuda-nvcc' if ended else name}={torch.release}"
            yield _mixed(
                name,
                f"{item.text} brings nvcc {item.release}, but {torch.text} is of CUDA {torch.release}: torch builds no "
                "extension with an nvcc of another CUDA major version",
                FileEdit(how="write", entries=(better,), over=name if ended else ""),
                "error",
            )
    yield from _open_nvcc(spec, torch)
    yield from _second_runtime(spec, nvcc, torch)
    yield from _other_builds(spec, torch)
    row = knowledge.cuda(nvcc[0].release) if nvcc else None
    if row:
        yield from _asked_gcc(spec, nvcc[0], row)


def _open_nvcc(spec: EnvironmentSpec, torch: Named | None) -> Iterator[Finding]:
    """An nvcc of any release beside a torch by pip: nothing that conda knows of binds the one to the other."""
    bound = spec.pin("cuda-version")
    if torch is None or not torch.text.startswith("pip: ") or (bound and bound.version):
        return
    pins = [pin for name in _NVCC for pin in spec.pins if pin.name == name]
    if not pins or any(pin.version or _release(pin, spec) for pin in pins):
        return
    yield _mixed(
        pins[0].name,
        f"{pins[0].yaml_text()} may be of any release, but {torch.text} is of CUDA {torch.release}: torch builds no "
        "extension with an nvcc of another CUDA major version",
        FileEdit(how="write", entries=(f"{pins[0].name}={torch.release}",)),
        "warning",
    )


def _second_runtime(spec: EnvironmentSpec, nvcc: tuple[Named, ...], torch: Named | None) -> Iterator[Finding]:
    """``cudatoolkit`` of one release beside the CUDA of another."""
    pin = spec.pin("cudatoolkit")
    release = _release(pin, spec) if pin else None
    lead = torch if torch and pin and torch.text != pin.yaml_text() else next(iter(nvcc), None)
    bound = spec.pin("pytorch-cuda")
    if pin and bound and lead and release == lead.release:
        message = f"{pin.yaml_text()} contains the CUDA libraries again that {bound.yaml_text()} brings already"
        yield _mixed(pin.name, message, FileEdit(how="remove", entries=(pin.yaml_text(),)), "warning")
        return
    if pin is None or release is None or lead is None or release == lead.release:
        return
    if lead is torch and not spec.pin("pytorch-cuda") and release.major == lead.release.major:
        return  # conda-forge's builds for CUDA 11.2 run with a later cudatoolkit of CUDA 11
    message = f"{pin.yaml_text()} contains libraries of CUDA {release}, but {lead.text} is of CUDA {lead.release}"
    yield _mixed(pin.name, message, FileEdit(how="remove", entries=(pin.yaml_text(),)), "warning")


def _other_builds(spec: EnvironmentSpec, torch: Named | None) -> Iterator[Finding]:
    """Packages of cuDNN and NCCL whose build string names another CUDA major version than torch has."""
    for pin in spec.pins if torch else ():
        found = _MAJOR.match(pin.build) if pin.name in _LIBRARIES else None
        if found and torch and int(found[1]) != torch.release.major:
            message = f"{pin.yaml_text()} is made for CUDA {found[1]}, but {torch.text} is of CUDA {torch.release}"
            edit = FileEdit(how="write", entries=(replace(pin, build="").yaml_text(),))
            yield _mixed(pin.name, message, edit, "error")


def _mixed(subject: str, message: str, edit: FileEdit, severity: Severity) -> Finding:
    return Finding(code="CU102", severity=severity, subject=subject, message=message, edits=(edit,))


def gcc_range(row: Cuda, *, conda_forge: bool = False) -> tuple[int, int] | None:
    """The majors of GCC that an nvcc accepts; ``None`` where no row says."""
    bounds = [item for item in (row.gcc_max, row.conda_gcc_max if conda_forge else None) if item]
    return (row.gcc_min or 0, min(bounds)) if bounds else None


def bounded_gcc(name: str, spec: EnvironmentSpec, knowledge: Knowledge) -> str:
    """The name of a package, with the newest major that nvcc of the file accepts where it is a GCC."""
    nvcc = nvcc_asked(spec) if _GCC.fullmatch(name) else ()
    row = knowledge.cuda(nvcc[0].release) if nvcc else None
    allowed = gcc_range(row) if row else None
    return f"{name}={allowed[1]}.*" if allowed else name


def _asked_gcc(spec: EnvironmentSpec, nvcc: Named, row: Cuda) -> Iterator[Finding]:
    allowed = gcc_range(row)
    for pin in spec.pins if allowed else ():
        demand = pin_demand(pin) if _GCC.fullmatch(pin.name) else None
        if demand is None or allowed is None:
            continue
        first, beyond = version(str(allowed[0])), version(str(allowed[1] + 1))
        majors = [version(str(major)) for major in range(allowed[0], allowed[1] + 1)]
        points = (*demand.points(), *majors, *(version(f"{item}.9") for item in majors), beyond, _LAST)
        admitted = [point for point in points if demand.admits(point)]
        good = [point for point in admitted if first <= point < beyond]
        if len(good) == len(admitted) or (good and _by_conda_forge(spec)):
            continue
        edit = FileEdit(how="write", entries=(replace(pin, version=f"{allowed[1]}.*").yaml_text(),))
        says = f"nvcc {nvcc.release} ({nvcc.text}) accepts GCC {allowed[0] or ''} to {allowed[1]}".replace(
            "  to", " up to"
        )
        verb = "allows a newer GCC than nvcc" if good else "does not work with nvcc"
        yield _gcc_finding(pin.name, f"{pin.yaml_text()} {verb}: {says}", row, edit, "warning" if good else "error")


def _by_conda_forge(spec: EnvironmentSpec) -> bool:
    """Whether nvcc comes from conda-forge, whose records bind GCC themselves."""
    return cuda_home(next((pin for name in _NVCC if (pin := spec.pin(name))), None), spec) == "conda-forge"


def cuda_home(pin: Pin | None, spec: EnvironmentSpec) -> str:
    """The channel of a package of CUDA: the one that it names, else the first of conda-forge and nvidia in the list."""
    listed = (short_channel(item) for item in spec.channels)
    first = next((item for item in listed if item == "conda-forge" or item.split("/")[0] == "nvidia"), "")
    return pin.channel if pin and pin.channel else first


def locked_gcc(packages: Iterable[LockedPackage], knowledge: Knowledge) -> Iterator[Finding]:
    """A GCC that is locked, or installed, beside an nvcc that refuses it."""
    there = {package.name: package for package in packages}
    nvcc = there.get("cuda-nvcc")
    gcc = next((package for name, package in there.items() if _GCC.fullmatch(name)), None)
    release, major = (version_or_none(item.version) if item else None for item in (nvcc, gcc))
    row = knowledge.cuda(minor(release)) if release else None
    allowed = gcc_range(row, conda_forge=nvcc is not None and nvcc.channel_name == "conda-forge") if row else None
    if gcc is None or nvcc is None or row is None or major is None or allowed is None:
        return
    if not allowed[0] <= major.major <= allowed[1]:
        message = (
            f"{gcc.name} {gcc.version} does not work with cuda-nvcc {nvcc.version}: nvcc {row.version} accepts GCC "
            f"{allowed[0]} to {allowed[1]}"
        )
        edit = FileEdit(how="add", entries=(f"{gcc.name}={allowed[1]}.*",))
        yield _gcc_finding(gcc.name, message, row, edit, "error")


def _gcc_finding(subject: str, message: str, row: Cuda, edit: FileEdit, severity: Severity) -> Finding:
    return Finding(
        code="CU117",
        severity=severity,
        subject=subject,
        message=message,
        evidence=tuple(row.sources),
        edits=(edit,),
    )
