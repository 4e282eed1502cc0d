"""Programs that run: memory, processes on several GPUs, and the variables that they read."""

from __future__ import annotations

import re

from cuenv.core.record import replace
from cuenv.core.versions import version, version_or_none
from cuenv.diagnosis.cures.case import Joined, LogContext, join
from cuenv.diagnosis.cures.driver import gpus


@join
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


@join
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


@join
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


_DEFAULT_ROUTE = "$(ip -o -4 route show to default | awk '{print $5; exit}')"
"""The interface of the default route."""


@join
def interface(case: LogContext) -> Joined:
    """The network interface of NCCL, unless the log names one: then the peer is gone, or a firewall stands between."""
    if "Open MPI" in case.line:
        remedy = "name the interface that connects the nodes to Open MPI"
        return Joined(remedy=remedy, command=f"export OMPI_MCA_btl_tcp_if_include={_DEFAULT_ROUTE}")
    if "no socket interface" in case.line:
        remedy = "no interface of this node has the name in NCCL_SOCKET_IFNAME and is up (ip -br addr lists them)"
        return Joined(remedy=remedy)
    if "interface" not in case.mentions:
        return Joined()
    named = case.mentions["interface"]
    remedy = "check whether the process at that address still runs, and whether a firewall blocks the connection"
    return Joined(because=(f"NCCL_SOCKET_IFNAME is set to {named}",), remedy=remedy, command="")


@join
def attention(case: LogContext) -> Joined:
    """Another implementation of attention where the program has one of its own."""
    found = gpus(case)
    if "vllm" in case.frameworks:
        remedy = "let vLLM use another attention implementation"
        return replace(found, remedy=remedy, command="export VLLM_ATTENTION_BACKEND=XFORMERS")
    return found


@join
def nccl_error(case: LogContext) -> Joined:
    """What NCCL itself says below ``Last error:``."""
    said = case.mentions.get("nccl", "")
    if not said:
        return Joined()
    because = (f"NCCL says: {said}",)
    if re.search(r"[Nn]o route to host|[Cc]onnection (?:refused|reset|timed out)|socket|[Ii]nterface|connect to", said):
        return Joined(
            because=because,
            remedy="let NCCL use the network interface over which the nodes reach each other",
            command=f"export NCCL_SOCKET_IFNAME={_DEFAULT_ROUTE}",
        )
    return Joined(because=because)


@join
def fork(case: LogContext) -> Joined:
    """The variable by which vLLM starts its workers."""
    return (
        Joined(command="export VLLM_WORKER_MULTIPROC_METHOD=spawn")
        if "vllm" in f"{case.line} {case.mentions.get('importing', '')}".lower()
        else Joined()
    )


@join
def peers(case: LogContext) -> Joined:
    """What NCCL shares between GPUs, where it is NCCL that fails."""
    return Joined(command="export NCCL_P2P_DISABLE=1") if "NCCL" in case.line else Joined()


@join
def variable(case: LogContext) -> Joined:
    """Who sets a variable that the program misses: MPI, Slurm, or the user."""
    name = case.told.get("name", "")
    for start, launcher in _LAUNCHERS.items():
        if name.startswith(start):
            remedy = f"start the program with {launcher}, which sets {name}, or with the option for another launcher"
            return Joined(remedy=remedy)
    value = _VALUES.get(name)
    return Joined(command=f"export {name}={value}" if value else "")


_LAUNCHERS = {"OMPI_": "mpirun of Open MPI", "PMI_": "mpirun of MPICH", "SLURM_": "srun in a job of Slurm"}
_VALUES = {"CUDA_VISIBLE_DEVICES": "0", "NODE_RANK": "0"}
"""What a variable holds on one machine."""


@join
def nccl_shm(case: LogContext) -> Joined:
    """What helps in a container that runs already, whose image nobody names; or who may not write to the folder."""
    if "Permission denied" in case.line:
        return Joined(remedy="let all users write to /dev/shm", command="sudo chmod 1777 /dev/shm")
    return Joined() if "image" in case.mentions else Joined(command="export NCCL_SHM_DISABLE=1")


@join
def raised(case: LogContext) -> Joined:
    """The place in which an exception was raised."""
    place = case.raised
    if place is None:
        return Joined()
    where = f"{place.file}, line {place.line}" if place.line else place.file
    if not where:
        return Joined(because=(f"its name belongs to {place.package}",), values={"package": place.package})
    check = (f"the check there: {place.code}",) if place.code else ()
    if place.package:
        because = (f"it was raised in {place.package}: {where}", *check)
        return Joined(because=because, values={"package": place.package})
    whose = "" if place.file.endswith("setup.py") else ", which is a file of the program, not of a package"
    return Joined(because=(f"it was raised in {where}{whose}", *check))
