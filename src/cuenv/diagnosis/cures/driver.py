"""The driver: too old, absent, not in the container, not built for the kernel."""

from __future__ import annotations

import re

from packaging.version import Version

from cuenv.core.record import replace
from cuenv.core.versions import version_or_none
from cuenv.diagnosis.cures.case import (
    Joined,
    LogContext,
    asked_rule,
    driver_of,
    floor_verdict,
    host_of,
    join,
    level_of,
    newest_for,
    other_driver,
    resolve_anew,
    torch_of,
    with_code,
)
from cuenv.diagnosis.cures.libraries import library_path
from cuenv.diagnosis.cures.torch import by_wheel
from cuenv.host.describe import gpu_text
from cuenv.resolver.candidates import bare_candidate

_SEE = (
    "check whether the machine has a driver: if nvidia-smi works on the host but not in the container, start the "
    "container with GPUs (docker --gpus all, Apptainer --nv); if it works nowhere, have an administrator install the "
    "driver"
)
_IMAGE = "image"
"""What a log mentions only where it is of a container."""


@join
def driver_floor(case: LogContext) -> Joined:
    """The driver against the minimum driver of the CUDA release, and the wheel of the torch at hand that it runs."""
    return by_wheel(case, _floor(case))


def _floor(case: LogContext) -> Joined:
    """The driver against the minimum driver of the CUDA major that the program was built with."""
    driver, level = driver_of(case), level_of(case)
    if driver is None or level is None:
        return no_driver(case) if case.facts and case.facts.detected else Joined()
    name = f"driver {driver.version} supports" if driver.version else "the driver supports"
    differs = other_driver(case)
    supports = f"{name} CUDA {level}"
    _, wanted = torch_of(case)
    runs = newest_for(case)
    if wanted is None and runs is not None:
        wanted = min(
            (row.cuda for row in case.knowledge.torch if row.cuda and row.cuda.major > runs.major), default=None
        )
    if runs is None and wanted is None:
        lowest = min(row.driver for row in case.knowledge.floors)
        because = (supports, "the cuenv tables list no build of torch for it", *differs)
        remedy = f"install a newer driver, as an administrator: {lowest} or later runs builds for CUDA 11"
        return Joined(because=because, remedy=remedy, command="")
    verdict = floor_verdict(case, wanted) if wanted else None
    if verdict is None or verdict.outcome == "pass":
        return Joined(because=(supports, *differs))
    because = (supports, with_code(verdict), *differs)
    if verdict.outcome != "reject" or verdict.remedy is None:
        return Joined(because=because)
    if runs is None:
        remedy = f"install {verdict.remedy.text}; the cuenv tables list no build for this driver"
        return Joined(because=because, remedy=remedy, command="")
    remedy = (
        f"install torch for CUDA {runs} now, which this driver supports; in the long run: {verdict.remedy.text}. "
        "Exporting LD_LIBRARY_PATH does not help, because the driver decides"
    )
    if differs and case.facts and case.facts.asked_as:
        remedy = (
            f"choose an environment for {case.facts.label}, where this "
            f"did not happen; on the machine where it happened, {remedy}"
        )
    command = resolve_anew(case, f"--cuda {runs}")
    return Joined(because=because, remedy=remedy, command=command, values={"cuda": str(runs)})


@join
def no_driver(case: LogContext) -> Joined:
    """Whether the host has a driver at all."""
    facts = case.facts
    if facts is None or not facts.detected:
        return Joined() if _IMAGE in case.mentions else Joined(remedy=_SEE)
    where = f" inside {facts.environment.container}" if facts.environment.container else ""
    if facts.driver is None:
        said = f"{facts.label} has no NVIDIA driver{where}"
        if facts.environment.container:
            return Joined(because=(said,), command="docker run --gpus all IMAGE")
        return Joined(because=(said,))
    return Joined(
        because=(
            (
                f"{facts.label} has driver {facts.driver.version} and {gpu_text(facts)}{where}, "
                "so the driver is visible here"
            ),
        )
    )


@join
def driver_level(case: LogContext) -> Joined:
    """The CUDA version of the driver beside the one that is asked for."""
    level, wanted = level_of(case), version_or_none(case.told.get("cuda", ""))
    if level is None and "unsatisfied condition" in case.line:  # without its driver nobody knows whether to skip it
        says = "skip the check only if the driver meets the minimum driver of that CUDA major version"
        return Joined(because=(says,))
    if level is None:
        return Joined()
    if wanted is None:
        return Joined(because=(f"the driver supports CUDA {level}",))
    first = case.knowledge.native_driver(wanted)
    came = f": CUDA {wanted} came with driver {first}" if first else ""
    because = [f"the driver supports CUDA {level}, which is {_order(level, wanted)} {wanted}{came}"]
    floor = floor_verdict(case, wanted)
    above = asked_rule(case, "driver-level", bare_candidate(wanted, host_of(case).platform))
    runs = newest_for(case)
    if floor.outcome == "reject" and runs:
        because.append(f"{with_code(floor)}, so skipping the check does not help")
        return Joined(because=tuple(because), command=resolve_anew(case, f"--cuda {runs}"))
    because += [with_code(verdict) for verdict in (floor, above) if verdict.outcome != "pass"]
    return Joined(because=tuple(because))


def _order(level: Version, wanted: Version) -> str:
    return "below" if level < wanted else "not below"


@join
def cuda_available(case: LogContext) -> Joined:
    """Why torch sees no CUDA: the CPU build, no driver, or a driver older than the minimum."""
    release, cuda = torch_of(case)
    if release is not None and cuda is None:
        return Joined(because=(f"torch {release} of this environment is a CPU build",), command=resolve_anew(case))
    level = level_of(case)
    if cuda is None and level is not None:  # whether the driver is to blame depends on a build that nobody named
        runs = newest_for(case)
        upto = f"it runs builds for CUDA up to {runs}" if runs else "the cuenv tables list no build of torch for it"
        return Joined(because=(f"the driver supports CUDA {level}; {upto}",))
    found = _floor(case)
    if cuda is None or level is None or (verdict := floor_verdict(case, cuda)).outcome != "pass":
        return found
    return Joined(because=(*found.because, f"torch is built for CUDA {cuda}: {with_code(verdict)}"))


@join
def kernel_module(case: LogContext) -> Joined:
    """The driver's library against the loaded kernel module."""
    driver = case.facts.driver if case.facts else None
    if driver and driver.version and driver.kernel_module and driver.version != driver.kernel_module:
        return Joined(because=(f"the library is {driver.version}, the loaded module {driver.kernel_module}",))
    return Joined()


@join
def gpus(case: LogContext) -> Joined:
    """The GPUs of the host."""
    return Joined(because=(f"{case.facts.label} has {gpu_text(case.facts)}",) if case.facts and case.facts.gpus else ())


@join
def ordinal(case: LogContext) -> Joined:
    """The GPUs of the host; a command only where the log is of several processes."""
    found = gpus(case)
    if "mig" in case.frameworks:
        says = "the log names a MIG instance: a process sees only one, so use one instance per rank"
        return replace(found, because=(*found.because, says), command="")
    return replace(found, command=None if "ranks" in case.mentions else "")


@join
def compat_library(case: LogContext) -> Joined:
    """A library for forward compatibility: the image's in a container, elsewhere that of a driver half updated."""
    inside = "docker" in case.frameworks or "image" in case.mentions
    return replace(library_path(case), command="" if inside else None)


@join
def container_driver(case: LogContext) -> Joined:
    """A docker that started before the driver was updated, or a device file that nobody made."""
    if re.search(r"mount error: (?!file creation|namespace)(?!.*(?:not permitted|denied))", case.line):
        remedy = "restart docker, which still uses files of the previous driver"
        return Joined(remedy=remedy, command="sudo systemctl restart docker")
    if "/dev/nvidia-uvm" in case.line:
        remedy = "create the driver's device files, which normally the first CUDA program creates"
        return Joined(remedy=remedy, command="sudo nvidia-modprobe -u -c=0")
    if "nvidia-container-cli.real" in case.line:
        remedy = (
            "if the node has its own driver, install the GPU Operator with driver.enabled=false, because its toolkit "
            "looks for it in /run/nvidia/driver; otherwise read the log of the pod nvidia-driver-daemonset"
        )
        return Joined(remedy=remedy)
    return Joined()


@join
def toolkit(case: LogContext) -> Joined:
    """The container toolkit alone, where Singularity or Apptainer calls it, and containerd where Kubernetes does."""
    if re.search(r"no runtime for|[Pp]od ?[Ss]andbox", case.line):
        remedy = "register NVIDIA's runtime on the node; the GPU Operator does this in its container toolkit pod"
        return Joined(remedy=remedy, command=f"{_RUNTIME}=containerd && sudo systemctl restart containerd")
    if not case.line.startswith("FATAL:"):
        return Joined()
    remedy = "install nvidia-container-toolkit on the host, or use --nv alone (use nvidia-container-cli = no)"
    return Joined(remedy=remedy, command="sudo apt-get install -y nvidia-container-toolkit")


@join
def nvidia_runtime(case: LogContext) -> Joined:
    """A container without NVIDIA's runtime: on a node of Kubernetes, or one that somebody started."""
    if case.facts and case.facts.environment.wsl:
        remedy = "update the NVIDIA driver on Windows, whose libraries WSL mounts"
        return Joined(remedy=remedy, command="")
    if "docker" in case.frameworks:
        return Joined(command=f"{_RUNTIME}=docker --set-as-default && sudo systemctl restart docker")
    return Joined()


_RUNTIME = "sudo nvidia-ctk runtime configure --runtime"


@join
def module_build(case: LogContext) -> Joined:
    """The module of the driver: where the headers are there and it does not compile, only a newer driver helps."""
    if re.search(r"[Uu]nable to load the kernel module|failed to load", case.line):  # it was built
        remedy = (
            "find out why the kernel does not load the module: Secure Boot "
            "rejects it (mokutil --sb-state), or nouveau uses the GPU (lsmod | grep nouveau)"
        )
        return Joined(remedy=remedy)
    if re.search(r"(?i)\b(?:c|gc)c version check failed|compiler version check failed", case.line):
        remedy = (
            "build the module although the kernel was compiled with "
            "another gcc (installer option --no-cc-version-check), or use the kernel's gcc"
        )
        return Joined(remedy=remedy, command="export IGNORE_CC_MISMATCH=1")
    if re.search(
        r"headers|not found in directory|/lib/modules/\S+: No such|kernel source|Module nvidia\S{0,20} not found",
        case.line,
    ):
        return Joined(command="sudo apt-get install linux-headers-$(uname -r) && sudo dkms autoinstall")
    remedy = "install a newer driver that supports this kernel, or boot the older kernel"
    return Joined(
        remedy=remedy, command=next((command for words, command in _NEWER_DRIVER if re.search(words, case.line)), "")
    )


_NEWER_DRIVER = (
    (r"akmods|nvidia-kmod", "sudo dnf upgrade --refresh -y '*nvidia*' && sudo akmods --force"),
    (r"-(?:generic|lowlatency|azure|aws|gcp|oem)\b", "sudo apt-get update && sudo ubuntu-drivers install"),
    (r"\.el[0-9]", "sudo yum upgrade -y 'kernel*' '*nvidia*'"),
    (r"\.fc[0-9]{2}\b", "sudo dnf upgrade --refresh -y '*nvidia*'"),
    (r"-(?:arch|zen)[0-9]", "sudo pacman -Syu"),
    (r"-amd64\b", "sudo apt-get update && sudo apt-get install -y linux-headers-amd64 nvidia-driver"),
)
"""How a system whose kernel has such a name brings its newest driver."""


@join
def requirement(case: LogContext) -> Joined:
    """The check of an image, which may be skipped where the driver has the minimum of the CUDA major."""
    found = driver_level(case)
    if found.command or (level_of(case) is None and "unsatisfied condition" in case.line):
        return found
    return replace(found, command="docker run --gpus all -e NVIDIA_DISABLE_REQUIRE=true IMAGE")


@join
def driver_module(case: LogContext) -> Joined:
    """The module of the driver, built for the kernel that runs; WSL and containers have none of their own."""
    if "image" in case.mentions or (case.facts and (case.facts.environment.wsl or case.facts.environment.container)):
        return Joined(remedy="check whether nvidia-smi works on the host, to which the driver belongs")
    return Joined(command="sudo dkms autoinstall && sudo reboot")
