"""Rules on device code: what the torch build holds for each GPU, and what nvcc can compile for it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from cuenv.core.versions import Capability, DeviceCode, Jit, Native, arch_list, is_tegra, serve, target_for
from cuenv.host.facts import HostFacts
from cuenv.knowledge.rows import TorchBuild
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.rules.verdict import Context, Ground, Remedy, Verdict, fact_ground, row_ground, worst


def device_code(candidate: Candidate, case: Context) -> Verdict:
    """The build holds code for every GPU: machine code, or PTX that the machine's driver can compile."""
    build = candidate.build
    if build.cuda is None:
        return Verdict(rule="device-code", outcome="pass", because="a CPU build holds no device code")
    if build.code is None:
        because = f"no row says which GPUs {build.version} {build.build} holds code for"
        return Verdict(rule="device-code", outcome="unknown", because=because, grounds=(_build_ground(build),))
    verdicts = [
        _serves(build.code, _build_ground(build), capability, machine, case)
        for machine in case.facts.machines
        for capability in machine.capabilities
    ]
    return worst(verdicts) if verdicts else Verdict(rule="device-code", outcome="pass", because="no GPU to serve")


def _serves(code: DeviceCode, build: Ground, capability: Capability, machine: HostFacts, case: Context) -> Verdict:
    grounds = (build, fact_ground(machine, "gpus", f"{machine.label} has a {capability} GPU"))
    service = serve(code, capability)
    if isinstance(service, Native):
        because = f"its {service.target} code runs on {capability}"
        return Verdict(rule="device-code", outcome="pass", because=because, grounds=grounds)
    if not isinstance(service, Jit):
        tegra = ", and desktop code does not run on a Tegra chip" if is_tegra(capability) else ""
        because = f"it holds {arch_list(code)}, nothing for {capability}{tegra}"
        return Verdict(rule="device-code", outcome="reject", because=because, grounds=grounds)
    return _by_jit(service, capability, machine, case, grounds)


def _by_jit(
    service: Jit, capability: Capability, machine: HostFacts, case: Context, grounds: tuple[Ground, ...]
) -> Verdict:
    level = machine.driver.cuda if machine.driver else None
    how = f"{capability} is served by JIT of {service.target} PTX"
    if service.needs is None:
        because = f"{how}, and nobody knows which driver speaks its PTX"
        return Verdict(rule="device-code", outcome="unknown", because=because, grounds=grounds)
    needs = case.knowledge.native_driver(service.needs)
    remedy = Remedy(text=f"driver {needs} or later", driver=needs) if needs else None
    if level is None:
        because = f"{how}, which needs a driver that speaks CUDA {service.needs}; the driver is not known"
        return Verdict(rule="device-code", outcome="unknown", because=because, grounds=grounds, remedy=remedy)
    grounds = (*grounds, fact_ground(machine, "driver.cuda", f"{machine.label}: its driver speaks CUDA {level}"))
    if level < service.needs:
        because = f"{how}, which needs a driver that speaks CUDA {service.needs}; {machine.label} speaks {level}"
        return Verdict(rule="device-code", outcome="reject", because=because, grounds=grounds, remedy=remedy)
    because = f"{how}: the first start compiles every kernel"
    return Verdict(rule="device-code", outcome="warn", because=because, grounds=grounds)


def nvcc(candidate: Candidate, case: Context) -> Verdict:
    """With a compiler in the environment, its nvcc can compile code that runs on every GPU."""
    if candidate.cuda is None or not case.wish.dev:
        return Verdict(rule="nvcc", outcome="pass", because="no compiler was asked for")
    row = case.knowledge.cuda(candidate.cuda)
    if row is None or not row.targets:
        because = f"no row says what nvcc {candidate.cuda} compiles for"
        return Verdict(rule="nvcc", outcome="unknown", because=because)
    ground = row_ground(row, f"nvcc {row.version} compiles for {', '.join(map(str, row.targets))}")
    lacking = [capability for capability in case.facts.capabilities if target_for(capability, row.targets) is None]
    if lacking:
        because = f"nvcc {row.version} cannot compile for {', '.join(map(str, lacking))}"
        return Verdict(rule="nvcc", outcome="reject", because=because, grounds=(ground,))
    because = f"nvcc {row.version} compiles for every GPU"
    return Verdict(rule="nvcc", outcome="pass", because=because, grounds=(ground,))


def jit_count(build: TorchBuild, capabilities: Iterable[Capability]) -> int:
    """How many of the GPUs get the build by JIT only."""
    code = build.code
    return sum(code is not None and isinstance(serve(code, item), Jit) for item in capabilities)


@lru_cache(maxsize=1024)
def _build_ground(build: TorchBuild) -> Ground:
    holds = arch_list(build.code) if build.code else "not known"
    return row_ground(build, f"pytorch {build.version} {build.build} ({build.stack}) holds {holds}")
