"""The driver: too old, absent, not in the container, not built for the kernel."""

from __future__ import annotations

import re

from packaging.version import Version

from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import version_or_none
from cuenv.diagnosis.cures.context import (
    CureResult,
    LogContext,
    cure,
    driver_cuda,
    driver_mismatch,
    driver_of,
    minimum_driver_verdict,
    newest_supported_cuda,
    resolve_command,
    rule_host,
    rule_verdict,
    text_with_code,
    torch_of,
)
from cuenv.diagnosis.cures.libraries import library_path
from cuenv.diagnosis.cures.system import INSTALL_TOOLKIT, of_wsl
from cuenv.diagnosis.cures.torch import with_fitting_wheel
from cuenv.host.describe import gpu_text
from cuenv.resolver.candidates import bare_candidate

_SEE = (
    "check whether the machine has a driver: if nvidia-smi works on the host but not in the container, start the "
    "container with GPUs (docker --gpus all, Apptainer --nv); if it works nowhere, have an administrator install the "
    "driver"
)
_IMAGE = "image"  # what a log mentions only where it is of a container


@cure
def driver_floor(context: LogContext) -> CureResult:
    """Compare the driver with the minimum driver of the CUDA release, and suggest a torch wheel that it can run."""
    return with_fitting_wheel(context, _floor(context))


def _floor(context: LogContext) -> CureResult:
    """Compare the driver with the minimum driver of the CUDA major version of the program."""
    driver, level = driver_of(context), driver_cuda(context)
    if driver is None or level is None:
        return no_driver(context) if context.facts and context.facts.detected else CureResult()
    name = f"driver {driver.version} supports" if driver.version else "the driver supports"
    differs = driver_mismatch(context)
    supports = f"{name} CUDA {level}"
    _, wanted = torch_of(context)
    runs = newest_supported_cuda(context)
    if wanted is None and runs is not None:
        wanted = min(
            (row.cuda for row in context.knowledge.torch if row.cuda and row.cuda.major > runs.major), default=None
        )
    if runs is None and wanted is None:
        lowest = min(row.driver for row in context.knowledge.floors)
        because = (supports, "the cuenv tables list no build of torch for it", *differs)
        remedy = f"install a newer driver, as an administrator: {lowest} or later runs builds for CUDA 11"
        return CureResult(because=because, remedy=remedy, command="")
    verdict = minimum_driver_verdict(context, wanted) if wanted else None
    if verdict is None or verdict.outcome == "pass":
        return CureResult(because=(supports, *differs))
    because = (supports, text_with_code(verdict), *differs)
    if verdict.outcome != "reject" or verdict.remedy is None:
        return CureResult(because=because)
    if runs is None:
        remedy = f"install {verdict.remedy.text}; the cuenv tables list no build for this driver"
        return CureResult(because=because, remedy=remedy, command="")
    remedy = (
        f"install torch for CUDA {runs} now, which this driver supports; in the long run: {verdict.remedy.text}. "
        "Exporting LD_LIBRARY_PATH does not help, because the driver decides"
    )
    if differs and context.facts and context.facts.asked_as:
        remedy = (
            f"choose an environment for {context.facts.label}, where this "
            f"did not happen; on the machine where it happened, {remedy}"
        )
    command = resolve_command(context, f"--cuda {runs}")
    return CureResult(because=because, remedy=remedy, command=command, values={"cuda": str(runs)})


@cure
def no_driver(context: LogContext) -> CureResult:
    """Check whether the host has a driver."""
    if "step" in context.mentions and "nvidia-smi" in context.line:
        remedy = "a step of docker build sees no driver: call nvidia-smi when the container runs, with --gpus all"
        return CureResult(remedy=remedy, command="")
    facts = context.facts
    if facts is None or not facts.detected:
        return CureResult() if _IMAGE in context.mentions else CureResult(remedy=_SEE)
    where = f" inside {facts.environment.container}" if facts.environment.container else ""
    if facts.driver is None:
        said = f"{facts.label} has no NVIDIA driver{where}"
        if facts.environment.container:
            return CureResult(because=(said,), command="docker run --gpus all IMAGE")
        return CureResult(because=(said,))
    return CureResult(
        because=(
            (
                f"{facts.label} has driver {facts.driver.version} and {gpu_text(facts)}{where}, "
                "so the driver is visible here"
            ),
        )
    )


@cure
def driver_level(context: LogContext) -> CureResult:
    """Compare the CUDA version of the driver with the one that the line needs."""
    level, wanted = driver_cuda(context), version_or_none(context.groups.get("cuda", ""))
    if "Triton Error" in context.line:
        remedy = (
            "most often the ptxas of Triton is newer than the driver: update it, or set TRITON_PTXAS_PATH to the "
            "ptxas of a toolkit that the driver supports; otherwise clear ~/.triton/cache"
        )
        known = (f"the driver supports CUDA {level}",) if level else ()
        return CureResult(because=known, remedy=remedy, command="")
    if level is None and "unsatisfied condition" in context.line:  # without its driver nobody knows whether to skip it
        unless = "skip the check only if the driver meets the minimum driver of that CUDA major version"
        return CureResult(because=(unless,))
    if level is None:
        return CureResult()
    if wanted is None:
        return CureResult(because=(f"the driver supports CUDA {level}",))
    first = context.knowledge.native_driver(wanted)
    came = f": CUDA {wanted} came with driver {first}" if first else ""
    because = [f"the driver supports CUDA {level}, which is {_order(level, wanted)} {wanted}{came}"]
    floor = minimum_driver_verdict(context, wanted)
    above = rule_verdict(context, "driver-level", bare_candidate(wanted, rule_host(context).platform))
    runs = newest_supported_cuda(context)
    if floor.outcome == "reject" and runs:
        because.append(f"{text_with_code(floor)}, so skipping the check does not help")
        return CureResult(because=tuple(because), command=resolve_command(context, f"--cuda {runs}"))
    because += [text_with_code(verdict) for verdict in (floor, above) if verdict.outcome != "pass"]
    return CureResult(because=tuple(because))


def _order(level: Version, wanted: Version) -> str:
    return "below" if level < wanted else "not below"


@cure
def cuda_available(context: LogContext) -> CureResult:
    """Find why torch sees no CUDA: a CPU build, no driver, or a driver older than the minimum."""
    release, cuda = torch_of(context)
    if release is not None and cuda is None:
        return CureResult(
            because=(f"torch {release} of this environment is a CPU build",), command=resolve_command(context)
        )
    level = driver_cuda(context)
    if cuda is None and level is not None:  # whether the driver is to blame depends on a build that nobody named
        runs = newest_supported_cuda(context)
        upto = f"it runs builds for CUDA up to {runs}" if runs else "the cuenv tables list no build of torch for it"
        return CureResult(because=(f"the driver supports CUDA {level}; {upto}",))
    found = _floor(context)
    if cuda is None or level is None or (verdict := minimum_driver_verdict(context, cuda)).outcome != "pass":
        return found
    return CureResult(because=(*found.because, f"torch is built for CUDA {cuda}: {text_with_code(verdict)}"))


@cure
def kernel_module(context: LogContext) -> CureResult:
    """Compare the driver's library with the loaded kernel module."""
    driver = context.facts.driver if context.facts else None
    if driver and driver.version and driver.kernel_module and driver.version != driver.kernel_module:
        return CureResult(because=(f"the library is {driver.version}, the loaded module {driver.kernel_module}",))
    return CureResult()


_FIRST_CALL = regex(
    r"incorrectly set up environment|cudaGetDeviceCount|cuInit|cuda_init|initiali[sz]|get_?device_?(?:count|properties)"
)
"""Signs that the first call of CUDA failed: the driver's state is the reason, not what the program did before."""


@cure
def unknown_error(context: LogContext) -> CureResult:
    """Suggest to reload nvidia_uvm only where the first call of CUDA failed outside of a container."""
    if "image" in context.mentions or "docker" in context.frameworks:
        remedy = (
            "start the container with --gpus all, which passes /dev/nvidia-uvm; on the host, run nvidia-modprobe -u"
        )
        return CureResult(remedy=remedy, command="")
    if _FIRST_CALL.search(context.line):
        return CureResult()
    remedy = (
        "run it again; if CUDA now fails from its first call, reload nvidia_uvm or reboot; if it fails during the run "
        "again, look for Xid messages of the driver in dmesg"
    )
    return CureResult(remedy=remedy, command="")


@cure
def gpus(context: LogContext) -> CureResult:
    """Describe the GPUs of the host."""
    return CureResult(
        because=(f"{context.facts.label} has {gpu_text(context.facts)}",)
        if context.facts and context.facts.gpus
        else ()
    )


@cure
def ordinal(context: LogContext) -> CureResult:
    """Describe the GPUs of the host, with a command only for a log of several processes."""
    found = gpus(context)
    if "mig" in context.frameworks:
        says = "the log names a MIG instance: a process sees only one, so use one instance per rank"
        return replace(found, because=(*found.because, says), command="")
    return replace(found, command=None if "ranks" in context.mentions else "")


@cure
def compat_library(context: LogContext) -> CureResult:
    """Suggest the fix for a forward-compatibility library: of the image, or of a half-updated driver."""
    inside = "docker" in context.frameworks or "image" in context.mentions
    return replace(library_path(context), command="" if inside else None)


@cure
def container_driver(context: LogContext) -> CureResult:
    """Suggest a restart of docker after a driver update, or the creation of a device file."""
    if "/usr/lib/wsl/" in context.line:
        remedy = (
            "update the NVIDIA driver on Windows and WSL (wsl --update), whose libraries WSL mounts; restart docker"
        )
        return CureResult(remedy=remedy, command="")
    if re.search(r"mount error: (?!file creation|namespace)(?!.*(?:not permitted|denied))", context.line):
        remedy = "restart docker, which still uses files of the previous driver"
        return CureResult(remedy=remedy, command="sudo systemctl restart docker")
    if "/dev/nvidia-uvm" in context.line:
        remedy = "create the driver's device files, which normally the first CUDA program creates"
        return CureResult(remedy=remedy, command="sudo nvidia-modprobe -u -c=0")
    if "nvidia-container-cli.real" in context.line:
        remedy = (
            "if the node has its own driver, install the GPU Operator with driver.enabled=false, because its toolkit "
            "looks for it in /run/nvidia/driver; otherwise read the log of the pod nvidia-driver-daemonset"
        )
        return CureResult(remedy=remedy)
    return CureResult()


@cure
def toolkit(context: LogContext) -> CureResult:
    """Suggest the container toolkit for Singularity or Apptainer, or its containerd setup for Kubernetes."""
    if re.search(r"no runtime for|[Pp]od ?[Ss]andbox", context.line):
        remedy = "register NVIDIA's runtime on the node; the GPU Operator does this in its container toolkit pod"
        return CureResult(remedy=remedy, command=f"{_RUNTIME}=containerd && sudo systemctl restart containerd")
    if not context.line.startswith("FATAL:"):
        return CureResult(command=f"{INSTALL_TOOLKIT} && {_RUNTIME}=docker && sudo systemctl restart docker")
    remedy = "install nvidia-container-toolkit on the host, or use --nv alone (use nvidia-container-cli = no)"
    return CureResult(remedy=remedy, command=INSTALL_TOOLKIT)


@cure
def nvidia_runtime(context: LogContext) -> CureResult:
    """Suggest NVIDIA's container runtime, on a Kubernetes node or for a started container."""
    if context.facts and context.facts.environment.wsl:
        remedy = "update the NVIDIA driver on Windows, whose libraries WSL mounts"
        return CureResult(remedy=remedy, command="")
    if "docker" in context.frameworks:
        return CureResult(command=f"{_RUNTIME}=docker --set-as-default && sudo systemctl restart docker")
    return CureResult()


_RUNTIME = "sudo nvidia-ctk runtime configure --runtime"


@cure
def module_build(context: LogContext) -> CureResult:
    """Suggest a newer driver if its kernel module does not compile although the headers exist."""
    if found := of_wsl(context):
        return found
    if re.search(r"[Uu]nable to load the kernel module|failed to load", context.line):  # it was built
        remedy = (
            "find out why the kernel does not load the module: Secure Boot "
            "rejects it (mokutil --sb-state), or nouveau uses the GPU (lsmod | grep nouveau)"
        )
        return CureResult(remedy=remedy)
    if re.search(r"(?i)\b(?:c|gc)c version check failed|compiler version check failed", context.line):
        remedy = (
            "build the module although the kernel was compiled with "
            "another gcc (installer option --no-cc-version-check), or use the kernel's gcc"
        )
        return CureResult(remedy=remedy, command="export IGNORE_CC_MISMATCH=1")
    if re.search(
        r"headers|not found in directory|/lib/modules/\S+: No such|kernel source|Module nvidia\S{0,20} not found",
        context.line,
    ):
        dkms = "-y dkms " if "odprobe" in context.line else ""  # the other messages are those of DKMS itself
        return CureResult(command=f"sudo apt-get install {dkms}linux-headers-$(uname -r) && sudo dkms autoinstall")
    branch = context.mentions.get("module", "")
    if branch in _LEGACY:
        says = f"driver {branch} is a legacy branch, to which NVIDIA adds no support for new kernels"
        remedy = (
            "boot an older kernel (a long-term one), or install a package of this branch that is patched for this one"
        )
        ubuntu = _NEWER_DRIVER[1]
        return CureResult(
            because=(says,), remedy=remedy, command=ubuntu[1] if re.search(ubuntu[0], context.line) else ""
        )
    remedy = "install a newer driver that supports this kernel, or boot the older kernel"
    return CureResult(
        remedy=remedy, command=next((command for words, command in _NEWER_DRIVER if re.search(words, context.line)), "")
    )


_LEGACY = ("304", "340", "390", "470")
"""Branches of the driver that ended (nvidia.com/en-us/drivers/unix/legacy-gpu)."""
_NEWER_DRIVER = (
    (r"akmods|nvidia-kmod", "sudo dnf upgrade --refresh -y '*nvidia*' && sudo akmods --force"),
    (r"-(?:generic|lowlatency|azure|aws|gcp|oem)\b", "sudo apt-get update && sudo ubuntu-drivers install"),
    (r"\.el[0-9]", "sudo yum upgrade -y 'kernel*' '*nvidia*'"),
    (r"\.fc[0-9]{2}\b", "sudo dnf upgrade --refresh -y '*nvidia*'"),
    (r"-(?:arch|zen)[0-9]", "sudo pacman -Syu"),
    (r"-amd64\b", "sudo apt-get update && sudo apt-get install -y linux-headers-amd64 nvidia-driver"),
)
"""How a system whose kernel has such a name brings its newest driver."""


@cure
def requirement(context: LogContext) -> CureResult:
    """Suggest skipping the driver check of an image if the driver has the minimum of the CUDA major."""
    found = driver_level(context)
    if found.command or (driver_cuda(context) is None and "unsatisfied condition" in context.line):
        return found
    return replace(found, command="docker run --gpus all -e NVIDIA_DISABLE_REQUIRE=true IMAGE")


@cure
def driver_module(context: LogContext) -> CureResult:
    """Suggest building the driver's kernel module for the running kernel; WSL and containers have none."""
    if "image" in context.mentions or (
        context.facts and (context.facts.environment.wsl or context.facts.environment.container)
    ):
        return CureResult(remedy="check whether nvidia-smi works on the host, to which the driver belongs")
    builds = "sudo akmods --force" if "akmods" in context.mentions else "sudo dkms autoinstall"
    return CureResult(command=f"{builds} && sudo reboot")
