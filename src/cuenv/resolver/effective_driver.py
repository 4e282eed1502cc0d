"""The driver that programs get: by forward compatibility, and by its CUDA version where WSL2 hides its number.

Every verdict is about this driver; what is odd about the way to it is for `cuenv.resolver.health` to say.
"""

from __future__ import annotations

from typing import Literal

from cuenv.core.findings import Severity
from cuenv.core.record import replace
from cuenv.core.versions import driver_key, reaches
from cuenv.host.facts import CudaLibrary, Driver, Evidence, HostFacts
from cuenv.host.request import pool
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import ComputeCapability

WSL_DRIVER = "WSL2"  # the source of a driver that stands for its CUDA version
_FORWARD_COMPAT_KINDS = ("datacenter", "jetson")
"""Kinds of GPU on which forward compatibility works; of RTX cards it does on server versions alone."""
_DRIVER = ("driver.version", "driver.cuda")


def with_effective_driver(facts: HostFacts, knowledge: Knowledge) -> HostFacts:
    """A machine with the driver that programs get; each of a pool, with the numbers of Linux alone."""
    if facts.members:
        members = [_with_linux_driver(member, knowledge) for member in facts.members]
        changed = any(now is not was for now, was in zip(members, facts.members, strict=True))
        return pool(members) if changed else facts
    return with_forward_compat(_with_linux_driver(facts, knowledge), knowledge)


def _with_linux_driver(machine: HostFacts, knowledge: Knowledge) -> HostFacts:
    """A machine under WSL2 with the first driver of Linux that supports its CUDA version; the number is Windows'."""
    driver = machine.driver
    if not machine.environment.wsl or driver is None or not driver.version or driver.cuda is None:
        return machine
    branch = knowledge.branch_for(driver.cuda)
    if branch is None:
        return machine
    told = machine.evidence_for("driver.version")
    if told and told.source == WSL_DRIVER:
        return machine
    version = knowledge.first_driver(branch.number)
    text = f"{version}, the first driver of Linux for CUDA {driver.cuda}; Windows has {driver.version}"
    return _with_driver(machine, replace(driver, version=version), WSL_DRIVER, text)


def with_forward_compat(machine: HostFacts, knowledge: Knowledge) -> HostFacts:
    """A machine with the driver that programs get by forward compatibility, where that works; else as it is.

    A pool is left alone: what one member's programs get by their search path is no property of the team's machines.
    """
    library = machine.environment.libcuda
    if (
        machine.members
        or library is None
        or not library.version
        or not _forward_compat_works(machine, library, knowledge)
    ):
        return machine
    driver = replace(machine.driver or Driver(), version=library.version, cuda=knowledge.cuda_of(library.version))
    told = f"{library.version}, by the forward-compatibility libcuda {library.path}"
    return _with_driver(machine, driver, library.via, told)


def _with_driver(machine: HostFacts, driver: Driver, source: str, text: str) -> HostFacts:
    kept = [item for item in machine.evidence if item.fact not in _DRIVER]
    return replace(machine, driver=driver, evidence=(*kept, *(Evidence(fact, source, text) for fact in _DRIVER)))


def _forward_compat_works(machine: HostFacts, library: CudaLibrary, knowledge: Knowledge) -> bool:
    """Whether a libcuda is a forward-compatibility library that serves every GPU and is newer than the driver."""
    own = running_driver(machine)
    newer = bool(own and library.version and driver_key(library.version) > driver_key(own))
    return library.forward and newer and bool(machine.gpus) and not forward_compat_fault(machine, library, knowledge)[1]


def running_driver(machine: HostFacts) -> str | None:
    """The driver that the machine runs, whatever libraries programs get."""
    return (machine.driver.kernel_module or machine.driver.version) if machine.driver else None


def forward_compat_fault(machine: HostFacts, library: CudaLibrary, knowledge: Knowledge) -> tuple[Severity, str]:
    """How bad forward compatibility is on a machine, and why; it works where there is no reason."""
    from cuenv.knowledge.gpu_names import find_gpu  # noqa: PLC0415 - only where such a library is there

    models = [(gpu.name, find_gpu(gpu.name, knowledge.gpus)) for gpu in machine.gpus]
    others = {
        model.kind if model else "": name
        for name, model in models
        if not model or model.kind not in _FORWARD_COMPAT_KINDS
    }
    if "geforce" in others:
        return "error", f"which does not support {others['geforce']}"
    if others:
        return "warning", f"and it is unknown whether it supports {next(iter(others.values())) or 'this GPU'}"
    own = running_driver(machine)
    for text, what in ((own, "kernel driver"), (library.version, "library")):
        gone = _not_driven(machine, text, knowledge) if text else ""
        if gone:
            return "error", f"and the {what} {text} does not support {gone}"
    branch = knowledge.branch_of(own) if own else None
    if branch and branch.number == driver_key(own or "")[0] and not branch.base:
        return "warning", f"and it is unknown whether {own} of branch {branch.number} supports it"
    return "info", ""


def _not_driven(machine: HostFacts, driver: str, knowledge: Knowledge) -> str:
    """A GPU that a driver is too old or too new for; empty where it drives all."""
    for gpu in machine.gpus:
        row = knowledge.compute_capability(gpu.capability)
        if row and driver_fit(driver, driver_key(driver)[0], row) in ("old", "new"):
            return gpu.name or str(gpu.capability)
    return ""


def driver_fit(driver: str | None, branch: int, row: ComputeCapability) -> Literal["fits", "old", "new"] | None:
    """Whether a driver is too old or too new for a GPU; ``None`` where it names only a branch that holds both sides."""
    if row.last_branch and branch > row.last_branch:
        return "new"
    if row.first_branch is None or branch > row.first_branch:
        return "fits"
    if branch < row.first_branch:
        return "old"
    enough = row.first_driver is None or (reaches(driver, row.first_driver) if driver else None)
    return None if enough is None else "fits" if enough else "old"
