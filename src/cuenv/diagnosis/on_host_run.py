"""Why a program that starts fails on this host: its GPUs, its library path, memory and releases, joined with facts."""

from __future__ import annotations

import re
from collections.abc import Callable
from shlex import quote

from cuenv.core.record import replace
from cuenv.core.versions import version, version_or_none
from cuenv.diagnosis.on_host import Joined, LogContext
from cuenv.host.describe import gpu_text


def gpus(case: LogContext) -> Joined:
    """The GPUs of the host."""
    return Joined(because=(f"{case.facts.label} has {gpu_text(case.facts)}",) if case.facts and case.facts.gpus else ())


def ordinal(case: LogContext) -> Joined:
    """The GPUs of the host; a command only where the log is of several processes."""
    return replace(gpus(case), command=None if "ranks" in case.mentions else "")


def library_path(case: LogContext) -> Joined:
    """System libraries on LD_LIBRARY_PATH, which go before those of the environment."""
    entries = case.facts.environment.library_path if case.facts else ()
    because = tuple(
        f"LD_LIBRARY_PATH names {entry.path}, which holds {', '.join(entry.libraries[:4])}" for entry in entries
    )
    return Joined(because=because)


def regression(case: LogContext) -> Joined:
    """The DeepSpeed that is installed, or that the log mentions, against the releases that are known to fail."""
    package = case.prefix.package("deepspeed") or case.prefix.wheel("deepspeed") if case.prefix else None
    text = package.version if package else case.mentions.get("deepspeed", "")
    found = version_or_none(text)
    for row in case.knowledge.regression("deepspeed"):
        if found is None:
            continue
        if version(found.public) in row.releases:
            return Joined(because=(f"deepspeed {found} has this bug ({row.issue})",))
        return Joined(because=(f"deepspeed {found} is not one of {', '.join(map(str, row.releases))}",))
    return Joined()


def devices(case: LogContext) -> Joined:
    """Tensors on two devices: the user's own code, unless the DeepSpeed is one that fails so by itself."""
    found = regression(case)
    bad = any("has this bug" in text for text in found.because)
    if bad:
        return Joined(
            because=found.because,
            remedy="update DeepSpeed first; if the error stays, the program itself puts tensors on two devices",
            command="python -m pip install 'deepspeed>=0.14.3'",
        )
    return found


def memory(case: LogContext) -> Joined:
    """What the line tells of the memory, and whether fragmentation can be meant."""
    told = case.told
    parts = [f"{told[key]} {word}" for key, word in _MEMORY if told.get(key)]
    because = [f"the line says: {', '.join(parts)}"] if parts else []
    loose, asked = _mib(told.get("loose")), _mib(told.get("asked"))
    if loose is not None and asked is not None and loose >= asked:
        because.append("the reserved but unused memory is larger than the request, so memory is fragmented")
        return Joined(because=tuple(because), command="export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
    return Joined(because=tuple(because))


_MEMORY = (("asked", "asked for"), ("total", "on the GPU"), ("free", "free"), ("loose", "reserved but unused"))


def _mib(text: str | None) -> float | None:
    number, _, unit = (text or "").partition(" ")
    scale = {"GiB": 1024.0, "MiB": 1.0, "KiB": 1 / 1024, "bytes": 0.0}.get(unit)
    return float(number) * scale if scale is not None and number else None


def compat_library(case: LogContext) -> Joined:
    """A library for forward compatibility: the image's in a container, elsewhere that of a driver half updated."""
    inside = "docker" in case.frameworks or "image" in case.mentions
    return replace(library_path(case), command="" if inside else None)


def jax_library(case: LogContext) -> Joined:
    """The wheel of the library that JAX finds too old, from the release on with which it was built."""
    found = re.search(r"Found (\w+) version [0-9]+, but JAX was built against version ([0-9]{4,6})", case.line)
    name = found[1] if found else next((name for name in _JAX if f"Outdated {name} " in case.line), "")
    if name not in _JAX:
        return Joined(command="")
    wheel, scale = _JAX[name]
    if not found:
        pin = ""
    else:
        number = int(found[2])
        scale = 10_000 if name == "cuDNN" and number >= 90_000 else scale
        major, minor = number // scale, number % scale // 100
        pin = f">={major}.{minor}.{number % 100},<{major + 1}"
        if name == "cuDNN" and (major, minor) < (8, 9):
            wheel = wheel.replace("12", "11")
    if name == "cuDNN" and not pin:
        return Joined(command="")
    remedy = f"a newer {name} for JAX in this environment; torch in another one, where it pins another {name}"
    return Joined(remedy=remedy, command=f"python -m pip install --upgrade {quote(wheel + pin)}")


_JAX = {
    "cuBLAS": ("nvidia-cublas-cu12", 10_000),
    "cuDNN": ("nvidia-cudnn-cu12", 1000),
    "cuFFT": ("nvidia-cufft-cu12", 1000),
    "cuSOLVER": ("nvidia-cusolver-cu12", 1000),
    "cuSPARSE": ("nvidia-cusparse-cu12", 1000),
}
"""NVIDIA's wheels of the libraries whose release jaxlib compares, and what the major counts in the number of each."""


def interface(case: LogContext) -> Joined:
    """The network interface of NCCL, unless the log names one: then the peer is gone, or a firewall stands between."""
    if "interface" not in case.mentions:
        return Joined()
    named = case.mentions["interface"]
    remedy = "look whether the process of that address still runs, and whether a firewall stands between the nodes"
    return Joined(because=(f"NCCL_SOCKET_IFNAME is set to {named}",), remedy=remedy, command="")


def attention(case: LogContext) -> Joined:
    """Another implementation of attention where the program has one of its own."""
    found = gpus(case)
    if "vllm" in case.frameworks:
        remedy = "let vLLM take another implementation of attention"
        return replace(found, remedy=remedy, command="export VLLM_ATTENTION_BACKEND=XFORMERS")
    return found


def raised(case: LogContext) -> Joined:
    """The place in which an exception was raised."""
    place = case.raised
    if place is None:
        return Joined()
    where = f"{place.file}, line {place.line}" if place.line else place.file
    if not where:
        return Joined(because=(f"by its name it is of {place.package}",), values={"package": place.package})
    if place.package:
        return Joined(because=(f"it was raised in {place.package}: {where}",), values={"package": place.package})
    whose = "" if place.file.endswith("setup.py") else ", which is a file of the program and of no package"
    return Joined(because=(f"it was raised in {where}{whose}",))


JOINS: dict[str, Callable[[LogContext], Joined]] = {
    "attention": attention,
    "compat_library": compat_library,
    "devices": devices,
    "gpus": gpus,
    "interface": interface,
    "jax_library": jax_library,
    "library_path": library_path,
    "memory": memory,
    "ordinal": ordinal,
    "raised": raised,
    "regression": regression,
}
"""The joins of this module by the names that rows give."""
