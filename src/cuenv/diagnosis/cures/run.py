"""Cures for running programs: memory, several GPUs, and the variables that they read."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.version import Version

from cuenv.core.record import replace
from cuenv.core.versions import version, version_or_none
from cuenv.diagnosis.cures.context import CureResult, LogContext, cure
from cuenv.diagnosis.cures.driver import gpus
from cuenv.knowledge.rows import Regression


@cure
def regression(context: LogContext) -> CureResult:
    """Compare the DeepSpeed of the environment or the log with the releases that are known to fail."""
    found, rows = _deepspeed(context), context.knowledge.regression("deepspeed")
    if found is None or not rows:
        return CureResult()
    row = _regression_of(found, rows)
    if row:
        return CureResult(because=(f"deepspeed {found} has this bug ({row.issue})",))
    failing = ", ".join(str(release) for row in rows for release in row.releases)
    return CureResult(because=(f"deepspeed {found} is not one of {failing}",))


def _deepspeed(context: LogContext) -> Version | None:
    """The release of DeepSpeed in the environment, else the one that the log names."""
    package = context.prefix.package("deepspeed") or context.prefix.wheel("deepspeed") if context.prefix else None
    return version_or_none(package.version if package else context.mentions.get("deepspeed", ""))


def _regression_of(found: Version, rows: Iterable[Regression]) -> Regression | None:
    return next((row for row in rows if version(found.public) in row.releases), None)


@cure
def devices(context: LogContext) -> CureResult:
    """Suggest a newer DeepSpeed if this release puts tensors on two devices; otherwise the program does."""
    told, found = regression(context), _deepspeed(context)
    row = _regression_of(found, context.knowledge.regression("deepspeed")) if found else None
    if row is None:
        return told
    return replace(
        told,
        remedy="update DeepSpeed first; if the error stays, the program itself puts tensors on two devices",
        command=f"python -m pip install 'deepspeed>={row.mended}'",
    )


@cure
def memory(context: LogContext) -> CureResult:
    """Name the amounts of memory in the line, and suggest expandable segments if memory is fragmented."""
    groups = context.groups
    parts = [f"{groups[key]} {word}" for key, word in _MEMORY if groups.get(key)]
    because = [f"the line says: {', '.join(parts)}"] if parts else []
    loose, asked, free = (_mib(groups.get(name)) for name in ("loose", "asked", "free"))
    if free is not None and asked is not None and free > _MUCH * asked:
        because.append(
            "much more is free than was asked for, so the GPU was not simply full: another process used it at that "
            "moment, or the memory of the host, its commit limit or a limit of the process refuses more"
        )
        return CureResult(because=tuple(because))
    if loose is not None and asked is not None and loose >= asked:
        because.append("the reserved but unused memory is larger than the request, so memory is fragmented")
        return CureResult(because=tuple(because), command="export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
    return CureResult(because=tuple(because))


_MUCH = 4  # times the request, which no fragmentation keeps from being met
_MEMORY = (("asked", "asked for"), ("total", "on the GPU"), ("free", "free"), ("loose", "reserved but unused"))


def _mib(text: str | None) -> float | None:
    number, _, unit = (text or "").partition(" ")
    scale = {"GiB": 1024.0, "MiB": 1.0, "KiB": 1 / 1024, "bytes": 0.0}.get(unit)
    return float(number) * scale if scale is not None and number else None


_DEFAULT_ROUTE = "$(ip -o -4 route show to default | awk '{print $5; exit}')"  # the interface of the default route


@cure
def interface(context: LogContext) -> CureResult:
    """Suggest the network interface of NCCL, unless the log names one."""
    if "Open MPI" in context.line:
        remedy = "name the interface that connects the nodes to Open MPI"
        return CureResult(remedy=remedy, command=f"export OMPI_MCA_btl_tcp_if_include={_DEFAULT_ROUTE}")
    if "gloo" in context.line.lower():
        remedy = (
            "name the interface that connects the nodes to Gloo; /etc/hosts must not give the host's name 127.0.1.1"
        )
        return CureResult(remedy=remedy, command=f"export GLOO_SOCKET_IFNAME={_DEFAULT_ROUTE}")
    if "no socket interface" in context.line:
        remedy = "no interface of this node has the name in NCCL_SOCKET_IFNAME and is up (ip -br addr lists them)"
        return CureResult(remedy=remedy)
    if "Address family" in context.line:
        says = "NCCL chose an address of IPv6, which this node does not have"
        return CureResult(because=(says,), remedy="let NCCL use IPv4", command="export NCCL_SOCKET_FAMILY=AF_INET")
    if re.search(r"Call to (?:recv|send)", context.line):
        remedy = "the connection stood and broke: check whether the process at that address still runs, and its network"
        return CureResult(remedy=remedy, command="")
    if "interface" not in context.mentions:
        return CureResult()
    named = context.mentions["interface"]
    remedy = "check whether the process at that address still runs, and whether a firewall blocks the connection"
    return CureResult(because=(f"NCCL_SOCKET_IFNAME is set to {named}",), remedy=remedy, command="")


@cure
def attention(context: LogContext) -> CureResult:
    """Suggest another implementation of attention if the program has one."""
    found = gpus(context)
    if "vllm" in context.frameworks:
        remedy = "let vLLM use another attention implementation"
        return replace(found, remedy=remedy, command="export VLLM_ATTENTION_BACKEND=XFORMERS")
    return found


@cure
def nccl_error(context: LogContext) -> CureResult:
    """Quote the message of NCCL below ``Last error:``."""
    said = context.mentions.get("nccl", "")
    if not said:
        return CureResult()
    because = (f"NCCL says: {said}",)
    if re.search(r"[Nn]o route to host|[Cc]onnection (?:refused|reset|timed out)|socket|[Ii]nterface|connect to", said):
        return CureResult(
            because=because,
            remedy="let NCCL use the network interface over which the nodes reach each other",
            command=f"export NCCL_SOCKET_IFNAME={_DEFAULT_ROUTE}",
        )
    return CureResult(because=because)


@cure
def fork(context: LogContext) -> CureResult:
    """Suggest the variable by which vLLM starts its workers."""
    return (
        CureResult(command="export VLLM_WORKER_MULTIPROC_METHOD=spawn")
        if "vllm" in f"{context.line} {context.mentions.get('importing', '')}".lower()
        else CureResult()
    )


@cure
def peers(context: LogContext) -> CureResult:
    """Suggest that NCCL does not use peer-to-peer access, if NCCL failed."""
    return CureResult(command="export NCCL_P2P_DISABLE=1") if "NCCL" in context.line else CureResult()


@cure
def variable(context: LogContext) -> CureResult:
    """Name the launcher that sets a missing variable: MPI or Slurm, or suggest a value."""
    name = context.groups.get("name", "")
    for start, launcher in _LAUNCHERS.items():
        if name.startswith(start):
            remedy = f"start the program with {launcher}, which sets {name}, or with the option for another launcher"
            return CureResult(remedy=remedy)
    value = _VALUES.get(name)
    return CureResult(command=f"export {name}={value}" if value else "")


_LAUNCHERS = {"OMPI_": "mpirun of Open MPI", "PMI_": "mpirun of MPICH", "SLURM_": "srun in a job of Slurm"}
_VALUES = {"CUDA_VISIBLE_DEVICES": "0", "NODE_RANK": "0"}  # what a variable holds on one machine


@cure
def nccl_shm(context: LogContext) -> CureResult:
    """Suggest the fix for the shared memory of a running container, or for the permissions of its folder."""
    if "Permission denied" in context.line:
        return CureResult(remedy="let all users write to /dev/shm", command="sudo chmod 1777 /dev/shm")
    return CureResult() if "image" in context.mentions else CureResult(command="export NCCL_SHM_DISABLE=1")


@cure
def raised(context: LogContext) -> CureResult:
    """Name the place where an exception was raised."""
    frame = context.frame
    if frame is None:
        return CureResult()
    where = f"{frame.file}, line {frame.line}" if frame.line else frame.file
    if not where:
        return CureResult(because=(f"its name belongs to {frame.package}",), values={"package": frame.package})
    check = (f"the check there: {frame.code}",) if frame.code else ()
    if frame.package:
        because = (f"it was raised in {frame.package}: {where}", *check)
        return CureResult(because=because, values={"package": frame.package})
    whose = "" if frame.file.endswith("setup.py") else ", which is a file of the program, not of a package"
    return CureResult(because=(f"it was raised in {where}{whose}", *check))
