"""The modes and means of a machine: ECC, MIG, memory, disk and shared memory. Found and told, never changed."""

from __future__ import annotations

from collections.abc import Iterator

from cuenv.candidates import Candidate
from cuenv.facts import Gpu, HostFacts
from cuenv.knowledge import Knowledge
from cuenv.machine.grounds import means, seen
from cuenv.profile import Profile
from cuenv.report import Finding

_GB = 1000**3
_MIB = 1024**2
_DEFAULT_SHM_MIB = 64
"""What a container gets of ``/dev/shm`` when nobody asks for more; see the state ``shm``."""
_BY_ADMIN = "# by an administrator"


def state_findings(
    machine: HostFacts, chosen: Candidate | None, knowledge: Knowledge, wish: Profile | None
) -> Iterator[Finding]:
    """What the modes of the GPUs and the means of the machine are in the way of."""
    yield from _ecc(machine, knowledge)
    yield from _mig(machine, knowledge)
    yield from _asked(machine, wish)
    yield from _shared(machine, chosen, knowledge)


def _ecc(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """Data-center cards that compute without error correction, together."""
    off = [gpu for gpu in machine.gpus if gpu.ecc and not gpu.ecc.on and _kind(gpu, knowledge) == "datacenter"]
    if not off:
        return
    waits = all(gpu.ecc and gpu.ecc.pending for gpu in off)
    numbers = _numbers(off)
    yield Finding(
        code="CU415",
        severity="warning",
        subject=machine.label,
        message=f"ECC is off on {_named(off)}" + (", until the next reboot" if waits else ""),
        evidence=(*means(knowledge, "ecc"), *seen(machine, *(f"gpus[{gpu.index}].ecc" for gpu in off))),
        fix=f"sudo reboot  {_BY_ADMIN}" if waits else f"sudo nvidia-smi -i {numbers} -e 1 && sudo reboot  {_BY_ADMIN}",
    )


def _kind(gpu: Gpu, knowledge: Knowledge) -> str:
    from cuenv.gpu_names import find_gpu  # noqa: PLC0415 - only where ECC is off

    model = find_gpu(gpu.name, knowledge.gpus)
    return model.kind if model else ""


def _mig(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
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
            message=f"{_named(empty)} is in MIG mode and shows this process no instance: no CUDA program runs on it",
            evidence=(*means(knowledge, "mig-empty"), *seen(machine, *facts)),
            fix=f"sudo nvidia-smi mig -i {_numbers(empty)} -lgip  {_BY_ADMIN}: lists what can be made with -cgi",
        )
    if split:
        yield from _split(machine, split, knowledge)
    waiting = [gpu for gpu in machine.gpus if gpu.mig and gpu.mig.mode.on != gpu.mig.mode.pending]
    if waiting:
        yield Finding(
            code="CU416",
            severity="warning",
            subject=machine.label,
            message=f"the MIG mode of {_named(waiting)} changes with the next reset",
            evidence=(*means(knowledge, "mig-pending"), *seen(machine, *(f"gpus[{gpu.index}].mig" for gpu in waiting))),
            fix=f"sudo nvidia-smi -i {_numbers(waiting)} --gpu-reset  {_BY_ADMIN}, when no program uses it",
        )


def _split(machine: HostFacts, split: list[Gpu], knowledge: Knowledge) -> Iterator[Finding]:
    """Instances: a program gets one of them, and none of the GPUs beside them."""
    instances = [item for gpu in split if gpu.mig for item in gpu.mig.instances]
    whole = [gpu for gpu in machine.gpus if not (gpu.mig and gpu.mig.mode.on)]
    if len(instances) == 1 and not whole:
        return
    within = tuple(f"gpus[{gpu.index}].mig.instances[" for gpu in split)  # their numbers may have gaps
    told = [item.fact for item in machine.evidence if item.fact.startswith(within)]
    hidden = f", and {_named(whole)} is hidden from it" if whole else ""
    yield Finding(
        code="CU416",
        severity="warning" if whole else "info",
        subject=machine.label,
        message=f"{_named(split)} is split by MIG: a CUDA program sees one of {len(instances)} instances{hidden}",
        evidence=(*means(knowledge, "mig-one"), *seen(machine, *told)),
        fix="nvidia-smi -L  # then give each program CUDA_VISIBLE_DEVICES=MIG-... of its instance",
    )


def _asked(machine: HostFacts, wish: Profile | None) -> Iterator[Finding]:
    """Memory and disk that the profile asks for."""
    if wish is None:
        return
    have = machine.resources
    for what, fact, mib, asked, key in (
        ("memory", "resources.memory_mib", have.memory_mib, wish.host_memory_gb, "host_memory_gb"),
        ("free disk", "resources.disk_mib", have.disk_mib, wish.disk_gb, "disk_gb"),
    ):
        if mib is None or mib * _MIB >= asked * _GB:
            continue
        has = f"{machine.label} has {mib * _MIB // _GB} GB of {what}"
        yield Finding(
            code="CU418",
            severity="warning",
            subject=what,
            message=f"{has}, the profile {wish.name} asks for {asked} GB",
            evidence=(*seen(machine, fact), f"profile {wish.name}: {key}: {asked}"),
            fix=_give(machine, fact, asked),
        )


def _give(machine: HostFacts, fact: str, asked: int) -> str:
    if fact == "resources.disk_mib":
        return "df -h .  # then make room, or work in another folder"
    evidence = machine.evidence_for(fact)
    if evidence and "cgroup" in evidence.source:
        return f"docker run --memory={asked}g IMAGE"
    return f"take a machine with {asked} GB of memory"


def _shared(machine: HostFacts, chosen: Candidate | None, knowledge: Knowledge) -> Iterator[Finding]:
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
        evidence=(*means(knowledge, "shm"), *seen(machine, "resources.shm_mib", "environment.container")),
        fix="mount an emptyDir of medium Memory on it" if kubernetes else "docker run --shm-size=8g IMAGE",
    )


def _numbers(gpus: list[Gpu]) -> str:
    return ",".join(str(gpu.index) for gpu in gpus)


def _named(gpus: list[Gpu]) -> str:
    """``GPU 0, 1 (NVIDIA A100-SXM4-80GB)``."""
    names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus if gpu.name))
    return f"GPU {', '.join(str(gpu.index) for gpu in gpus)}" + (f" ({names})" if names else "")
