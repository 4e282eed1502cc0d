"""The least host that runs a lock: which GPUs it supports, how, from which driver, and the oldest C library.

It is written into the lock, so that a machine whose tables do not know the locked torch can still judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from packaging.version import Version

from cuenv.core.findings import Finding
from cuenv.core.record import dataclass, replace
from cuenv.core.versions import Capability, Jit, check_driver, reaches, support_of
from cuenv.host.facts import Gpu, HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.coverage import coverage
from cuenv.lockfile.host_check import candidate_of
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.rules import Context, minimum_driver
from cuenv.solve.model import Lock, Solution

How: TypeAlias = Literal["native", "jit"]

SUPPORTED_GPUS = "cuenv_served_"  # key of ``custom_metadata``, followed by the platform
MINIMUM_DRIVER = "cuenv_minimum_driver"
MINIMUM_GLIBC = "cuenv_minimum_glibc"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedGpu:
    """A GPU that a lock supports with every component that it holds."""

    capability: Capability
    how: How  # whether torch holds machine code for it, or PTX that the driver compiles
    driver: str | None  # the lowest driver that runs it there; ``None`` where no row says

    def __str__(self) -> str:
        return f"{self.capability}={self.how}" + (f":{self.driver}" if self.driver else "")


def minimum_host(solutions: Iterable[Solution], facts: HostFacts, knowledge: Knowledge) -> dict[str, str]:
    """What the lock remembers of the least host, for ``custom_metadata``.

    Args:
        solutions: of all platforms; ``cuenv_minimum_driver`` is that of the first.
    """
    found: dict[str, str] = {}
    libraries: list[Version] = []
    for place, solution in enumerate(solutions):
        libraries += [lowest for _, lowest in solution.glibcs]
        candidate = candidate_of(solution, knowledge)
        if candidate is None:
            continue
        lowest = None if place else minimum_driver(candidate, _case(facts, knowledge))
        if lowest:
            found[MINIMUM_DRIVER] = lowest
        text = " ".join(map(str, supported_gpus(solution, candidate, knowledge)))
        if text:
            found[SUPPORTED_GPUS + solution.platform] = text
    if libraries:
        found[MINIMUM_GLIBC] = str(max(libraries))
    return found


def supported_gpus(solution: Solution, candidate: Candidate, knowledge: Knowledge) -> Iterator[SupportedGpu]:
    """Every GPU of the tables that torch and all other components support, lowest capability first."""
    code = candidate.build.code
    if code is None or candidate.cuda is None:
        return
    every = sorted(row.capability for row in knowledge.generations)
    every = [capability for capability in every if support_of(code, capability) is not None]
    facts = HostFacts(label="any host", platform=solution.platform, gpus=tuple(map(_gpu, every)))
    cut = {item for component in coverage(solution, facts, knowledge) for item in component.cut}
    for capability in every:
        if capability in cut:
            continue
        how: How = "jit" if isinstance(support_of(code, capability), Jit) else "native"
        row = knowledge.compute_capability(capability)
        lowest = None  # a GPU newer than the toolkit, of which no row says when drivers began to drive it
        if row and (row.first_branch or (row.first_cuda and row.first_cuda <= candidate.cuda)):
            lowest = minimum_driver(candidate, _case(replace(facts, gpus=(_gpu(capability),)), knowledge))
        yield SupportedGpu(capability=capability, how=how, driver=lowest)


def _gpu(capability: Capability) -> Gpu:
    return Gpu(index=0, name="", capability=capability)


def _case(facts: HostFacts, knowledge: Knowledge) -> Context:
    return Context(facts=facts, request=Request(), knowledge=knowledge)


def recorded_gpus(metadata: Mapping[str, str], platform: str) -> tuple[SupportedGpu, ...]:
    """What a lock says of the GPUs that it supports; empty where it says nothing.

    Raises:
        ValueError: the record is not as cuenv writes it.
    """
    found = []
    for text in metadata.get(SUPPORTED_GPUS + platform, "").split():
        device, _, rest = text.partition("=")
        how, _, driver = rest.partition(":")
        if how not in ("native", "jit"):
            raise ValueError(f"expected native or jit for a GPU, got {text!r}")
        capability = Capability.parse(device)
        kind: How = "jit" if how == "jit" else "native"
        found.append(SupportedGpu(capability=capability, how=kind, driver=check_driver(driver) if driver else None))
    return tuple(found)


def record_findings(lock: Lock, solution: Solution, facts: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """Judge a host by what the lock remembers, where the tables here do not know the locked torch.

    Raises:
        ValueError: the record is not as cuenv writes it.
    """
    torch = candidate_of(solution, knowledge)
    by_gpu = {item.capability: item for item in recorded_gpus(lock.metadata, solution.platform)}
    if torch is None or torch.build.sources or not by_gpu:
        return
    whose = f"the lock's own record (tables of {lock.metadata.get('cuenv_knowledge', 'an unknown day')})"
    for machine in facts.machines:
        for capability in machine.capabilities:
            known = by_gpu.get(capability)
            have = machine.driver.version if machine.driver else None
            if known is None:
                names = ", ".join(map(str, by_gpu))
                because = f"{whose} does not list compute capability {capability} among the supported GPUs: {names}"
                yield Finding(code="CU403", severity="error", subject="device-code", message=because)
            elif have and known.driver and reaches(have, known.driver) is False:
                because = (
                    f"driver {have} of {machine.label} is older than {known.driver}, the "
                    f"minimum driver for compute capability {capability} by {whose}"
                )
                fix = f"install driver {known.driver} or later"
                yield Finding(code="CU401", severity="error", subject="driver-floor", message=because, fix=fix)
            else:
                way = "by JIT" if known.how == "jit" else "natively"
                since = f" from driver {known.driver}" if known.driver else ""
                because = f"compute capability {capability} is supported {way}{since}, by {whose}"
                yield Finding(code="CU111", severity="info", subject="pytorch", message=because)
