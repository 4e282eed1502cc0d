"""Rules on device code: what the torch build holds for each GPU, and what nvcc can compile for it."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import Version

from cuenv.core.versions import Capability, DeviceCode, Jit, Native, arch_list, is_tegra, serve, target_for
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import TorchBuild
from cuenv.resolver.engine import rule
from cuenv.resolver.verdict import HOST, Ground, Remedy, Verdict, fact_ground, row_ground


def _build_ground(build: TorchBuild) -> Ground:
    holds = arch_list(build.code) if build.code else "not known"
    return row_ground(build, f"pytorch {build.version} {build.build} ({build.stack}) holds {holds}")


def _no_code(build: TorchBuild) -> Verdict | None:
    if build.cuda is None:
        return Verdict(rule="device-code", outcome="pass", because="a CPU build holds no device code")
    if build.code is None:
        because = f"no row says which GPUs {build.version} {build.build} holds code for"
        return Verdict(rule="device-code", outcome="unknown", because=because, grounds=(_build_ground(build),))
    return None


@rule(
    "device-code",
    code="CU403",
    order=70,
    title="torch holds code for the GPUs",
    per="capability",
    unless=_no_code,
    cites=_build_ground,
    without="no GPU to serve",
)
def device_code(code: DeviceCode, capability: Capability, level: Version | None, kb: Knowledge) -> Verdict:
    """The build has code for every GPU: machine code, or PTX that the machine's driver can compile."""
    grounds: tuple[Ground, ...] = (fact_ground("gpus", f"{HOST} has a {capability} GPU"),)
    service = serve(code, capability)
    if isinstance(service, Native):
        because = f"its {service.target} code runs on {capability}"
        return Verdict(rule="device-code", outcome="pass", because=because, grounds=grounds)
    if not isinstance(service, Jit):
        tegra = ", and desktop code does not run on a Tegra chip" if is_tegra(capability) else ""
        because = f"it holds {arch_list(code)}, nothing for {capability}{tegra}"
        return Verdict(rule="device-code", outcome="reject", because=because, grounds=grounds)
    how = f"{capability} is served by JIT of {service.target} PTX"
    if service.needs is None:
        because = f"{how}, and nobody knows which driver speaks its PTX"
        return Verdict(rule="device-code", outcome="unknown", because=because, grounds=grounds)
    needs = kb.native_driver(service.needs)
    remedy = Remedy(text=f"driver {needs} or later", driver=needs) if needs else None
    if level is None:
        because = f"{how}, which needs a driver that speaks CUDA {service.needs}; the driver is not known"
        return Verdict(rule="device-code", outcome="unknown", because=because, grounds=grounds, remedy=remedy)
    grounds = (*grounds, fact_ground("driver.cuda", f"{HOST}: its driver speaks CUDA {level}"))
    if level < service.needs:
        because = f"{how}, which needs a driver that speaks CUDA {service.needs}; {HOST} speaks {level}"
        return Verdict(rule="device-code", outcome="reject", because=because, grounds=grounds, remedy=remedy)
    because = f"{how}: the first start compiles every kernel"
    return Verdict(rule="device-code", outcome="warn", because=because, grounds=grounds)


def _no_compiler(cuda: Version | None, dev: bool) -> Verdict | None:
    asked = cuda is not None and dev
    return None if asked else Verdict(rule="nvcc", outcome="pass", because="no compiler was asked for")


@rule(
    "nvcc",
    code="CU404",
    order=80,
    title="nvcc compiles for the GPUs",
    about=("cuda", "cudatoolkit-dev"),
    unless=_no_compiler,
)
def nvcc(cuda: Version, capabilities: tuple[Capability, ...], kb: Knowledge) -> Verdict:
    """With a compiler in the environment, its nvcc can compile code that runs on every GPU."""
    row = kb.cuda(cuda)
    if row is None or not row.targets:
        because = f"no row says what nvcc {cuda} compiles for"
        return Verdict(rule="nvcc", outcome="unknown", because=because)
    ground = row_ground(row, f"nvcc {row.version} compiles for {', '.join(map(str, row.targets))}")
    lacking = [capability for capability in capabilities if target_for(capability, row.targets) is None]
    if lacking:
        because = f"nvcc {row.version} cannot compile for {', '.join(map(str, lacking))}"
        return Verdict(rule="nvcc", outcome="reject", because=because, grounds=(ground,))
    because = f"nvcc {row.version} compiles for every GPU"
    return Verdict(rule="nvcc", outcome="pass", because=because, grounds=(ground,))


def jit_count(code: DeviceCode | None, capabilities: Iterable[Capability]) -> int:
    """How many of the GPUs get a build with this code by JIT only."""
    return sum(code is not None and isinstance(serve(code, item), Jit) for item in capabilities)
