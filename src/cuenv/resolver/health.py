"""What is wrong or odd about a machine, whatever is locked: findings of the range CU4xx."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from cuenv.core.findings import Finding, Severity
from cuenv.core.regex import regex
from cuenv.core.versions import driver_key
from cuenv.host.facts import CudaLibrary, Gpu, HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.effective_driver import forward_compat_fault, running_driver
from cuenv.resolver.verdict import row_reason, with_sources

_NVML_ERROR = regex(r"\(NVML error ([0-9]{1,4})\)")


def state_meanings(knowledge: Knowledge, *states: str) -> tuple[str, ...]:
    """What the table says that some states mean, each with the titles of its sources."""
    rows = [row for about in states if (row := knowledge.state(about))]
    return tuple(with_sources(row_reason(row, row.says), knowledge) for row in rows)


def evidence_texts(machine: HostFacts, *facts: str) -> tuple[str, ...]:
    """Facts of a machine in the words of their sources; those without evidence are left out."""
    found = [item for fact in facts if (item := machine.evidence_for(fact))]
    return tuple(f"{item.fact}: {item.text} ({item.source})" for item in found)


def nvml_error(machine: HostFacts) -> int | None:
    """The error with which NVML refused to start, as the gap tells it; ``None`` when it started, or was not asked."""
    reasons = (gap.reason for gap in machine.gaps if gap.fact == "driver" and gap.source.startswith("nvml:"))
    found = (_NVML_ERROR.search(reason) for reason in reasons)
    return next((int(match[1]) for match in found if match), None)


LIBRARY_NOT_FOUND = 12
MISMATCH = 18

_GPU_OPTIONS = {
    "kubernetes": "add to the container: resources: {limits: {nvidia.com/gpu: 1}}",
    "singularity": "apptainer exec --nv IMAGE COMMAND",
    "podman": "podman run --device nvidia.com/gpu=all IMAGE",
    "lxc": "lxc config set NAME nvidia.runtime true",
}
_DOCKER = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility IMAGE"


def driver_findings(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """What stands between programs and the driver of a machine."""
    yield from _mismatch_findings(machine, knowledge)
    yield from _forward_compat_findings(machine, knowledge)
    yield from _container_findings(machine, knowledge)


def _mismatch_findings(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """Libraries of another driver than the loaded kernel module; an error where NVML refuses to work."""
    driver, library = machine.driver, machine.environment.libcuda
    module = driver.kernel_module if driver else None
    own = driver.version if driver else None
    refused = nvml_error(machine) == MISMATCH
    stale = bool(library and not library.forward and library.version and module and library.version != module)
    if not refused and not stale and (not own or not module or own == module):
        return
    if stale and library and own in (None, module):
        what = (
            f"programs load the libcuda of {library.version} ({library.path}), but the loaded kernel module is {module}"
        )
    elif own and module:
        what = f"the driver library is {own}, but the loaded kernel module is {module}"
    else:
        what = "the driver's library and the loaded kernel module have different versions"
    yield Finding(
        code="CU411",
        severity="error" if refused else "warning",
        subject=machine.label,
        message=what + (": NVML refuses to work" if refused else ""),
        evidence=(
            *state_meanings(knowledge, "mismatch"),
            *evidence_texts(machine, "driver.version", "driver.kernel_module", "environment.libcuda"),
        ),
        fix="leave this container and start a new one" if machine.environment.container else "sudo reboot",
    )


def _forward_compat_findings(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """A forward-compatibility library that goes before the driver's own."""
    library, own = machine.environment.libcuda, running_driver(machine)
    if library is None or not library.forward:
        return
    what = f"programs load the forward-compatibility libcuda of {library.version or 'another driver'} ({library.path})"
    severity: Severity
    severity, why = forward_compat_fault(machine, library, knowledge)
    states = ["compat-eligible"]
    if own and library.version and driver_key(library.version) <= driver_key(own):
        severity, why, states = "error", f"which is not newer than the driver {own}", ["compat-newer"]
    message = f"{what}, {why}" if why else f"{what} instead of that of {own or 'the driver'}, which works here"
    evidence = (
        *state_meanings(knowledge, *states),
        *evidence_texts(machine, "environment.libcuda", "driver.kernel_module"),
    )
    fix = _forward_compat_fix(machine, library) if why else None
    yield Finding(code="CU414", severity=severity, subject=library.path, message=message, evidence=evidence, fix=fix)


def _forward_compat_fix(machine: HostFacts, library: CudaLibrary) -> str:
    """The command that puts the driver's own library first again."""
    folder = shlex.quote(library.path.rpartition("/")[0])
    if library.via == "CONDA_PREFIX":
        return f"conda remove -p {shlex.quote(machine.environment.conda_prefix or '')} cuda-compat"
    if library.via == "LD_LIBRARY_PATH":
        kept = f'printf %s "$LD_LIBRARY_PATH" | tr : "\\n" | grep -vxF -e {folder} -e {folder}/ | paste -sd: -'
        return f"export LD_LIBRARY_PATH=$({kept})"
    return f"grep -rlxF -e {folder} -e {folder}/ /etc/ld.so.conf.d | sudo xargs -r rm && sudo ldconfig"


def _container_findings(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
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
        missing.append(("error", "the host has a driver, but this container has no GPU: /dev/nvidia0 is missing"))
    elif numbered and "nvidiactl" in nodes:
        if around.libcuda is None:
            missing.append(("error", "this container has GPUs but no libcuda.so.1, so no CUDA program runs"))
        if nvml_error(machine) == LIBRARY_NOT_FOUND:
            missing.append(
                ("warning", "this container has GPUs but no libnvidia-ml.so.1, so NVML and nvidia-smi do not work")
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
                *state_meanings(knowledge, "container-capabilities"),
                f"{said}; in /dev: {', '.join(nodes) or 'nothing of NVIDIA'}",
                *evidence_texts(machine, "environment.container"),
            ),
            fix=_GPU_OPTIONS.get(around.container, _DOCKER),
        )


_GB = 1000**3
_MIB = 1024**2
_DEFAULT_SHM_MIB = 64  # what a container gets of ``/dev/shm`` when nobody asks for more; see the state ``shm``
_BY_ADMIN = "# by an administrator"


def state_findings(
    machine: HostFacts, chosen: Candidate | None, knowledge: Knowledge, request: Request | None
) -> Iterator[Finding]:
    """What the modes of the GPUs and the means of the machine are in the way of."""
    yield from _ecc_findings(machine, knowledge)
    yield from _mig_findings(machine, knowledge)
    yield from _profile_findings(machine, request)
    yield from _shared_memory_findings(machine, chosen, knowledge)


def _ecc_findings(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """Data-center cards that compute without error correction, together."""
    off = [gpu for gpu in machine.gpus if gpu.ecc and not gpu.ecc.on and _kind(gpu, knowledge) == "datacenter"]
    if not off:
        return
    waits = all(gpu.ecc and gpu.ecc.pending for gpu in off)
    numbers = _numbers(off)
    message = f"ECC is off on {_gpu_list(off)}" + (", until the next reboot" if waits else "")
    evidence = (
        *state_meanings(knowledge, "ecc"),
        *evidence_texts(machine, *(f"gpus[{gpu.index}].ecc" for gpu in off)),
    )
    fix = f"sudo reboot  {_BY_ADMIN}" if waits else f"sudo nvidia-smi -i {numbers} -e 1 && sudo reboot  {_BY_ADMIN}"
    yield Finding(code="CU415", severity="warning", subject=machine.label, message=message, evidence=evidence, fix=fix)


def _kind(gpu: Gpu, knowledge: Knowledge) -> str:
    from cuenv.knowledge.gpu_names import find_gpu  # noqa: PLC0415 - only where ECC is off

    model = find_gpu(gpu.name, knowledge.gpus)
    return model.kind if model else ""


def _mig_findings(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """MIG modes that leave programs without a GPU, with one alone, or with another one after the next reset."""
    on = [gpu for gpu in machine.gpus if gpu.mig and gpu.mig.mode.on]
    empty = [gpu for gpu in on if gpu.mig and not gpu.mig.instances]
    split = [gpu for gpu in on if gpu not in empty]
    facts = [f"gpus[{gpu.index}].mig" for gpu in on]
    if empty:
        yield Finding(
            code="CU416",
            severity="error" if len(empty) == len(machine.gpus) else "warning",
            subject=machine.label,
            message=(
                f"{_gpu_list(empty)} is in MIG mode but shows this process no instance, so no CUDA program runs on it"
            ),
            evidence=(*state_meanings(knowledge, "mig-empty"), *evidence_texts(machine, *facts)),
            fix=f"sudo nvidia-smi mig -i {_numbers(empty)} -lgip  {_BY_ADMIN}: lists what can be made with -cgi",
        )
    if split:
        yield from _mig_instance_findings(machine, split, knowledge)
    waiting = [gpu for gpu in machine.gpus if gpu.mig and gpu.mig.mode.on != gpu.mig.mode.pending]
    if waiting:
        yield Finding(
            code="CU416",
            severity="warning",
            subject=machine.label,
            message=f"the MIG mode of {_gpu_list(waiting)} changes with the next reset",
            evidence=(
                *state_meanings(knowledge, "mig-pending"),
                *evidence_texts(machine, *(f"gpus[{gpu.index}].mig" for gpu in waiting)),
            ),
            fix=f"sudo nvidia-smi -i {_numbers(waiting)} --gpu-reset  {_BY_ADMIN}, when no program uses it",
        )


def _mig_instance_findings(machine: HostFacts, split: list[Gpu], knowledge: Knowledge) -> Iterator[Finding]:
    """Instances: a program gets one of them, and none of the GPUs beside them."""
    instances = [item for gpu in split if gpu.mig for item in gpu.mig.instances]
    whole = [gpu for gpu in machine.gpus if not (gpu.mig and gpu.mig.mode.on)]
    if len(instances) == 1 and not whole:
        return
    within = tuple(f"gpus[{gpu.index}].mig.instances[" for gpu in split)  # their numbers may have gaps
    told = [item.fact for item in machine.evidence if item.fact.startswith(within)]
    hidden = f", and {_gpu_list(whole)} is hidden from it" if whole else ""
    yield Finding(
        code="CU416",
        severity="warning" if whole else "info",
        subject=machine.label,
        message=(
            f"{_gpu_list(split)} is split by MIG: a CUDA program can use only one of {len(instances)} instances{hidden}"
        ),
        evidence=(*state_meanings(knowledge, "mig-one"), *evidence_texts(machine, *told)),
        fix="nvidia-smi -L  # then set CUDA_VISIBLE_DEVICES=MIG-... for each program",
    )


def _profile_findings(machine: HostFacts, request: Request | None) -> Iterator[Finding]:
    """Memory and disk that the profile asks for."""
    if request is None:
        return
    have = machine.resources
    for what, fact, mib, asked, key in (
        ("memory", "resources.memory_mib", have.memory_mib, request.host_memory_gb, "host_memory_gb"),
        ("free disk", "resources.disk_mib", have.disk_mib, request.disk_gb, "disk_gb"),
    ):
        if mib is None or mib * _MIB >= asked * _GB:
            continue
        has = f"{machine.label} has {mib * _MIB // _GB} GB of {what}"
        message = f"{has}, but the profile {request.name} requires {asked} GB"
        evidence = (*evidence_texts(machine, fact), f"profile {request.name}: {key}: {asked}")
        fix = _resource_fix(machine, fact, asked)
        yield Finding(code="CU418", severity="warning", subject=what, message=message, evidence=evidence, fix=fix)


def _resource_fix(machine: HostFacts, fact: str, asked: int) -> str:
    if fact == "resources.disk_mib":
        return "df -h .  # then free space, or work in another folder"
    evidence = machine.evidence_for(fact)
    if evidence and "cgroup" in evidence.source:
        return f"docker run --memory={asked}g IMAGE"
    return f"use a machine with {asked} GB of memory"


def _shared_memory_findings(machine: HostFacts, chosen: Candidate | None, knowledge: Knowledge) -> Iterator[Finding]:
    """A container with the default ``/dev/shm``, in which torch's DataLoader workers fail."""
    shm = machine.resources.shm_mib
    if chosen is None or not machine.environment.container or shm is None or shm > _DEFAULT_SHM_MIB:
        return
    kubernetes = machine.environment.container == "kubernetes"
    yield Finding(
        code="CU419",
        severity="warning",
        subject="shared memory",
        message=f"this container has {shm} MiB of shared memory: torch's DataLoader workers fail with it",
        evidence=(
            *state_meanings(knowledge, "shm"),
            *evidence_texts(machine, "resources.shm_mib", "environment.container"),
        ),
        fix="mount an emptyDir of medium Memory on it" if kubernetes else "docker run --shm-size=8g IMAGE",
    )


def _numbers(gpus: list[Gpu]) -> str:
    return ",".join(str(gpu.index) for gpu in gpus)


def _gpu_list(gpus: list[Gpu]) -> str:
    """``GPU 0, 1 (NVIDIA A100-SXM4-80GB)``."""
    names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus if gpu.name))
    return f"GPU {', '.join(str(gpu.index) for gpu in gpus)}" + (f" ({names})" if names else "")


def machine_findings(
    facts: HostFacts, chosen: Candidate | None, knowledge: Knowledge, request: Request | None = None
) -> tuple[Finding, ...]:
    """What is odd about each real machine itself, whatever is locked.

    Args:
        facts: the host; each real machine of a pool is looked at by itself.
        request: what a profile asks of the machine.
    """
    found: list[Finding] = []
    for machine in facts.machines:
        if machine.detected:
            found += [*_kernel_module_findings(machine, knowledge), *driver_findings(machine, knowledge)]
            found += [*state_findings(machine, chosen, knowledge, request), *nvcc_findings(machine, chosen)]
    return tuple(found)


def _kernel_module_findings(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """GPUs in one box that need different flavours of the kernel modules exclude each other; Windows has neither."""
    if machine.environment.wsl:
        return
    needs: dict[str, list[str]] = {}
    for capability in machine.capabilities:
        row = knowledge.compute_capability(capability)
        if row and row.module in ("open", "proprietary"):
            needs.setdefault(row.module, []).append(f"{capability} ({row.architecture})")
    if len(needs) > 1:
        message = (
            f"{machine.label}: {', '.join(needs['open'])} works only with the open kernel modules, "
            f"{', '.join(needs['proprietary'])} only with the proprietary ones: one driver cannot support both"
        )
        fix = "put the GPUs into two machines; one lock can still support both"
        yield Finding(code="CU410", severity="warning", subject=machine.label, message=message, fix=fix)


def nvcc_findings(machine: HostFacts, chosen: Candidate | None) -> Iterator[Finding]:
    """An nvcc of another CUDA major on PATH would break the build of extensions; where it lies may not be known."""
    if chosen is None or chosen.cuda is None:
        return
    for toolkit in machine.toolkits:
        major = (toolkit.release or "").partition(".")[0]
        if toolkit.on_path and major and major != str(chosen.cuda.major):
            message = (
                f"nvcc {toolkit.release} {f'of {toolkit.path} is on PATH, but it ' if toolkit.path else ''}"
                f"cannot build extensions for a torch of CUDA {chosen.cuda}"
            )
            fix = "conda activate the environment first, or take it from PATH; check with: which nvcc"
            yield Finding(code="CU412", severity="warning", subject=toolkit.path, message=message, fix=fix)
