"""How programs on a machine reach its driver: library and kernel module, forward compatibility, containers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cuenv.effective import forward_fault, own_driver
from cuenv.facts import HostFacts
from cuenv.knowledge import Knowledge
from cuenv.machine.grounds import means, nvml_error, seen
from cuenv.report import Finding, Severity
from cuenv.versions import driver_key

if TYPE_CHECKING:  # see `cuenv.facts`
    from cuenv.host_state import CudaLibrary

LIBRARY_NOT_FOUND = 12
MISMATCH = 18

_GIVE = {
    "kubernetes": "add to the container: resources: {limits: {nvidia.com/gpu: 1}}",
    "singularity": "apptainer exec --nv IMAGE COMMAND",
    "podman": "podman run --device nvidia.com/gpu=all IMAGE",
    "lxc": "lxc config set NAME nvidia.runtime true",
}
_DOCKER = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility IMAGE"


def driver_findings(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """What stands between programs and the driver of a machine."""
    yield from _mismatch(machine, knowledge)
    yield from _forward(machine, knowledge)
    yield from _container(machine, knowledge)


def _mismatch(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """Libraries of another driver than the loaded kernel module; an error where NVML refuses to work."""
    driver, library = machine.driver, machine.environment.libcuda
    module = driver.kernel_module if driver else None
    own = driver.version if driver else None
    refused = nvml_error(machine) == MISMATCH
    stale = bool(library and not library.forward and library.version and module and library.version != module)
    if not refused and not stale and (not own or not module or own == module):
        return
    if stale and library and own in (None, module):
        what = f"programs get the libcuda of {library.version} ({library.path}), the loaded kernel module is {module}"
    elif own and module:
        what = f"the driver library is {own}, the loaded kernel module {module}"
    else:
        what = "the driver's library and the loaded kernel module are of different releases"
    yield Finding(
        code="CU411",
        severity="error" if refused else "warning",
        subject=machine.label,
        message=what + (": NVML refuses to work" if refused else ""),
        evidence=(
            *means(knowledge, "mismatch"),
            *seen(machine, "driver.version", "driver.kernel_module", "environment.libcuda"),
        ),
        fix="leave this container and start a new one" if machine.environment.container else "sudo reboot",
    )


def _forward(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """A forward-compatibility library that goes before the driver's own."""
    library, own = machine.environment.libcuda, own_driver(machine)
    if library is None or not library.forward:
        return
    what = f"programs get the forward-compatibility libcuda of {library.version or 'another driver'} ({library.path})"
    severity: Severity
    severity, why = forward_fault(machine, library, knowledge)
    states = ["compat-eligible"]
    if own and library.version and driver_key(library.version) <= driver_key(own):
        severity, why, states = "error", f"which is not newer than the driver {own}", ["compat-newer"]
    yield Finding(
        code="CU414",
        severity=severity,
        subject=library.path,
        message=f"{what}, {why}" if why else f"{what} in place of that of {own or 'the driver'}, which works here",
        evidence=(*means(knowledge, *states), *seen(machine, "environment.libcuda", "driver.kernel_module")),
        fix=_take_out(machine, library) if why else None,
    )


def _take_out(machine: HostFacts, library: CudaLibrary) -> str:
    """The command that puts the driver's own library first again."""
    folder = shlex.quote(library.path.rpartition("/")[0])
    if library.via == "CONDA_PREFIX":
        return f"conda remove -p {shlex.quote(machine.environment.conda_prefix or '')} cuda-compat"
    if library.via == "LD_LIBRARY_PATH":
        kept = f'printf %s "$LD_LIBRARY_PATH" | tr : "\\n" | grep -vxF -e {folder} -e {folder}/ | paste -sd: -'
        return f"export LD_LIBRARY_PATH=$({kept})"
    return f"grep -rlxF -e {folder} -e {folder}/ /etc/ld.so.conf.d | sudo xargs -r rm && sudo ldconfig"


def _container(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """A container that was given the driver's kernel side, or GPUs, and not all of the libraries."""
    around = machine.environment
    nodes = around.device_nodes
    if not around.container or nodes is None or around.wsl:
        return
    numbered = [name for name in nodes if name[-1].isdigit()]
    counted = machine.evidence_for("gpus")
    reached = bool(counted and not counted.source.startswith("/"))
    missing: list[tuple[Severity, str]] = []
    if not numbered and not reached and machine.driver and machine.driver.kernel_module:
        missing.append(
            ("error", "the machine has a driver, but this container was given no GPU: no /dev/nvidia0 is here")
        )
    elif numbered and "nvidiactl" in nodes:
        if around.libcuda is None:
            missing.append(("error", "this container has GPUs and no libcuda.so.1: no CUDA program runs"))
        if nvml_error(machine) == LIBRARY_NOT_FOUND:
            missing.append(
                ("warning", "this container has GPUs and no libnvidia-ml.so.1: NVML and nvidia-smi do not work")
            )
    asked = around.driver_capabilities
    said = "NVIDIA_DRIVER_CAPABILITIES is not set" if asked is None else f"NVIDIA_DRIVER_CAPABILITIES is {asked!r}"
    for severity, message in missing:
        yield Finding(
            code="CU417",
            severity=severity,
            subject=around.container,
            message=message,
            evidence=(
                *means(knowledge, "container-capabilities"),
                f"{said}; in /dev: {', '.join(nodes) or 'nothing of NVIDIA'}",
                *seen(machine, "environment.container"),
            ),
            fix=_GIVE.get(around.container, _DOCKER),
        )
