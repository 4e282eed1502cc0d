"""What an environment file asks of CUDA: CPU or CUDA builds, which CUDA release, and from which channel."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from cuenv.core.errors import UsageError
from cuenv.core.record import NamedTuple
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.core.versions import VersionSpec, parse_version_spec, version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS, STACKS
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.model import build_cuda

CPU_PACKAGES = ("cpuonly", "pytorch-cpu", "cpu-only")  # packages that force CPU builds
_GPU_PINS = ("pytorch-cuda", "pytorch-gpu")
NVCC_PACKAGES = ("cuda-nvcc", "cuda-compiler", "cuda-minimal-build", "cuda-toolkit", "cuda", "cudatoolkit-dev")
"""Packages whose number is that of the nvcc that they bring, the compiler itself first."""
_ONE_MINOR = regex(r"=*(\d+\.\d+)(?:\.[\d.]+|\.?\*)?\Z")
_LABEL = regex(r"nvidia/label/cuda-(\d+\.\d+)")
_OLDEST = regex(r"(?:>=|=*)(\d+)(?:\.(\d+))?(?:\.\*|,|\Z)")
_MINOR = regex(r"\d+\.\d+")
_DEFAULTS = ("defaults", "anaconda", "main")
"""Channels of Anaconda, which have builds of torch that the tables do not list."""


def asks_for_cpu(spec: EnvironmentSpec) -> bool:
    """Whether a file asks for a CPU build of torch in so many words, its name among them where it names no CUDA."""
    torch = spec.pin("pytorch")
    if spec.of_cpu and not any("cuda" in f"{pin.name} {pin.build}" for pin in spec.pins):
        return True
    return any(spec.pin(name) for name in CPU_PACKAGES) or (torch is not None and "cpu" in torch.build)


def cpu_builds_asked(spec: EnvironmentSpec) -> frozenset[str]:
    """The packages whose CPU builds a file asks for: by their build strings, and torch in so many words."""
    by_build = frozenset(pin.name for pin in spec.pins if "cpu" in pin.build)
    return by_build | {"pytorch"} if asks_for_cpu(spec) else by_build


def wants_cuda(spec: EnvironmentSpec, knowledge: Knowledge) -> bool:
    """Whether a file names a CUDA build: a CUDA component, or a CUDA build string."""
    return any("cuda" in pin.build or knowledge.is_component(pin.name) or pin.name in _GPU_PINS for pin in spec.pins)


def torch_channel(spec: EnvironmentSpec) -> str:
    """The channel of torch: its own, else the first that is known to hold one, else the first that may."""
    torch = spec.pin("pytorch") or spec.pin("pytorch-gpu")
    listed = [short_channel(item) for item in spec.channels]
    if spec.pin("pytorch-cuda") and "pytorch" in listed and not (torch and torch.channel):
        return "pytorch"  # its builds alone depend on that metapackage
    others = [channel for channel in listed if not of_nvidia(channel)]
    known = (channel for channel in others if channel in STACKS or channel in _DEFAULTS)
    return (torch.channel if torch else "") or next(iter((*known, *others)), "")


def of_nvidia(channel: str) -> bool:
    """Whether a channel is NVIDIA's, or one of its labels."""
    return short_channel(channel).split("/")[0] == "nvidia"


def cuda_home(pin: Pin | None, spec: EnvironmentSpec) -> str:
    """The channel of a package of CUDA: the one that it names, else the first of conda-forge and nvidia in the list."""
    listed = (short_channel(item) for item in spec.channels)
    first = next((item for item in listed if item == "conda-forge" or of_nvidia(item)), "")
    return pin.channel if pin and pin.channel else first


def cuda_pins(spec: EnvironmentSpec) -> Iterator[Pin]:
    """The pins whose number is the CUDA release that a file means, the one that binds torch first.

    The ``cuda-version`` of the channel nvidia binds nothing: every export of that channel lists one of any release.
    """
    for name in ("pytorch-cuda", "cuda-version", "cudatoolkit", "cudatoolkit-dev", "cuda-toolkit", "cuda"):
        pin = spec.pin(name)
        if pin and not (name == "cuda-version" and cuda_home(pin, spec).startswith("nvidia")):
            yield pin


def release_of_pin(pin: Pin) -> Version | None:
    """The CUDA release with which the version of a pin begins."""
    found = _MINOR.match(pin.version.lstrip("="))
    return version(found[0]) if found else None


def toolkit_asked(spec: EnvironmentSpec) -> Version | None:
    """The CUDA release that a file pins its toolkit to."""
    return next((release for pin in cuda_pins(spec) if (release := release_of_pin(pin))), None)


def named_cuda(spec: EnvironmentSpec) -> Version | None:
    """The CUDA release that a file names: by its pin on the toolkit, else by torch's build string."""
    torch = spec.pin("pytorch")
    return toolkit_asked(spec) or (build_cuda(torch.build) if torch else None)


def oldest_cuda(spec: EnvironmentSpec) -> Version | None:
    """The oldest CUDA release that a file admits, where it names no release: ``cuda-version>=12``."""
    bounds = (_OLDEST.match(pin.version) for pin in cuda_pins(spec))
    return next((version(f"{found[1]}.{found[2] or 0}") for found in bounds if found), None)


class NamedRelease(NamedTuple):
    """A CUDA release, and the entry of a file that names it."""

    text: str
    release: Version


def nvcc_asked(spec: EnvironmentSpec) -> tuple[NamedRelease, ...]:
    """The nvcc of a file, as far as its pins and the labels of the channel nvidia say which it is."""
    pins = (pin for name in NVCC_PACKAGES for pin in spec.pins if pin.name == name)
    return tuple(NamedRelease(pin.yaml_text(), release) for pin in pins if (release := exact_release(pin, spec)))


def torch_cuda(spec: EnvironmentSpec, knowledge: Knowledge) -> NamedRelease | None:
    """The CUDA release that torch is made for; of a torch from pip the newest that its requirement admits."""
    torch, bound = spec.pin("pytorch") or spec.pin("pytorch-gpu"), spec.pin("pytorch-cuda")
    if bound and (release := exact_release(bound, spec)):
        return NamedRelease(bound.yaml_text(), release)
    if torch:
        own, toolkit = build_cuda(torch.build), spec.pin("cudatoolkit")
        if own:
            return NamedRelease(torch.yaml_text(), own)
        release = exact_release(toolkit, spec) if toolkit else None
        return NamedRelease(toolkit.yaml_text(), release) if toolkit and release else None
    from cuenv.resolver.asked_torch import torch_asked  # noqa: PLC0415 - only where conda's part names no release

    asked = torch_asked(spec.pip)
    if asked is None:
        return None
    linux = (row for row in knowledge.wheels if row.platform == PLATFORMS[0])
    cudas = {row.cuda for row in linux if row.cuda and asked.has(row)}
    return NamedRelease(f"pip: {asked.text}", max(cudas)) if len({item.major for item in cudas}) == 1 else None


def exact_release(pin: Pin, spec: EnvironmentSpec) -> Version | None:
    """The CUDA release that a pin names exactly, or that the label of its channel names."""
    found = _ONE_MINOR.match(pin.version)
    if found:
        return version(found[1])
    if pin.version:
        return None
    labels = [pin.channel] if pin.channel else [short_channel(item) for item in spec.channels]
    named = [label for label in labels if label.startswith("nvidia")]
    found = _LABEL.match(named[0]) if len(named) == 1 else None
    return version(found[1]) if found else None


def version_spec_of(pin: Pin | None) -> VersionSpec | None:
    """The version of a pin as a version spec; ``None`` where it asks for none, or for what no spec can express."""
    return version_spec(pin.version) if pin else None


def version_spec(condition: str) -> VersionSpec | None:
    """A condition as a version spec; ``None`` where it asks for no version, or for what no spec can express."""
    try:
        return parse_version_spec(condition, what="version") if condition not in ("", "*") else None
    except UsageError:
        return None
