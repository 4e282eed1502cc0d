"""Rules on device code: what the torch build holds for each GPU, and what nvcc can compile for it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from packaging.version import Version

from cuenv.core.versions import Capability, DeviceCode, Jit, Native, is_tegra, support_of, target_for
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import TorchBuild
from cuenv.resolver.engine import rule
from cuenv.resolver.verdict import HOST, Reason, Remedy, Verdict, and_list, host_reason, of_capability, row_reason


def _build_reason(build: TorchBuild) -> Reason:
    if not build.code:
        return row_reason(build, f"the cuenv tables do not list the GPU code of {build.shown}")
    return row_reason(build, f"{build.shown} has code for compute capability {_code_text(build.code)}")


@lru_cache(maxsize=256)
def _code_text(code: DeviceCode) -> str:
    """``7.5, 8.0 and 9.0``, with the PTX beside the machine code."""
    parts = [and_list(code.sass)] if code.sass else []
    parts += [f"PTX for {and_list(code.ptx)}"] if code.ptx else []
    return ", and ".join(parts)


THIS_BUILD = "this PyTorch build"
"""How a verdict names the build that it is about; away from the candidate, whoever shows it puts its name there."""


def _no_code(build: TorchBuild) -> Verdict | None:
    if build.cuda is None:
        return Verdict(rule="device-code", outcome="pass", because="a CPU build contains no GPU code")
    if build.code is None:
        because = f"the cuenv tables do not list the GPU code of pytorch {build.version} {build.build}"
        return Verdict(rule="device-code", outcome="unknown", because=because, reasons=(_build_reason(build),))
    return None


@rule(
    "device-code",
    code="CU403",
    order=70,
    title="PyTorch contains code for the GPUs",
    per="capability",
    unless=_no_code,
    cites=_build_reason,
    without="the host has no GPU of known compute capability",
)
def device_code(code: DeviceCode, capability: Capability, level: Version | None, kb: Knowledge) -> Verdict:
    """The build has code for every GPU: machine code, or PTX that the machine's driver can compile."""
    reasons: tuple[Reason, ...] = (host_reason("gpus", f"{HOST} has a GPU of {of_capability(capability)}"),)
    service = support_of(code, capability)
    if isinstance(service, Native):
        by = "" if service.target.capability == capability else f" (its code for {service.target} runs there)"
        because = f"{THIS_BUILD} supports {of_capability(capability)}{by}"
        return Verdict(rule="device-code", outcome="pass", because=because, reasons=reasons)
    if not isinstance(service, Jit):
        tegra = "; code for desktop GPUs does not run on a Tegra chip" if is_tegra(capability) else ""
        because = f"{THIS_BUILD} has code for {_code_text(code)}, but not for {of_capability(capability)}{tegra}"
        return Verdict(rule="device-code", outcome="reject", because=because, reasons=reasons)
    how = f"{THIS_BUILD} has only PTX ({service.target}) for {of_capability(capability)}"
    if service.needs is None:
        because = f"{how}, and the cuenv tables do not list the driver that compiles this PTX"
        return Verdict(rule="device-code", outcome="unknown", because=because, reasons=reasons)
    needs = kb.jit_driver(service.needs)
    remedy = Remedy(text=f"driver {needs} or later", driver=needs) if needs else None
    if level is None:
        because = f"{how}; the PTX needs a driver that supports CUDA {service.needs}, but the driver is not known"
        return Verdict(rule="device-code", outcome="unknown", because=because, reasons=reasons, remedy=remedy)
    reasons = (*reasons, host_reason("driver.cuda", f"the driver of {HOST} supports CUDA {level}"))
    if level < service.needs:
        needed = f"the PTX needs a driver that supports CUDA {service.needs}"
        because = f"{how}; {needed}, but the driver of {HOST} supports CUDA {level}"
        return Verdict(rule="device-code", outcome="reject", because=because, reasons=reasons, remedy=remedy)
    because = f"{how}; the driver compiles every kernel at the first start (JIT)"
    return Verdict(rule="device-code", outcome="warn", because=because, reasons=reasons)


def _no_compiler(cuda: Version | None, dev: bool) -> Verdict | None:
    asked = cuda is not None and dev
    return None if asked else Verdict(rule="nvcc", outcome="pass", because="no compiler was requested")


@rule(
    "nvcc",
    code="CU404",
    order=80,
    title="nvcc compiles for the GPUs",
    about=("cuda", "cudatoolkit-dev"),
    unless=_no_compiler,
)
def nvcc(cuda: Version, compiler: Version | None, capabilities: tuple[Capability, ...], kb: Knowledge) -> Verdict:
    """With a compiler in the environment, its nvcc can compile code that runs on every GPU."""
    release = compiler or cuda
    row = kb.cuda(release)
    if row is None or not row.targets:
        because = f"the cuenv tables do not list the compute capabilities that nvcc {release} compiles for"
        return Verdict(rule="nvcc", outcome="unknown", because=because)
    reason = row_reason(row, f"nvcc {row.version} compiles for compute capability {and_list(row.targets)}")
    lacking = [capability for capability in capabilities if target_for(capability, row.targets) is None]
    if lacking:
        because = f"nvcc {row.version} cannot compile for {of_capability(*lacking)}"
        return Verdict(rule="nvcc", outcome="reject", because=because, reasons=(reason,))
    because = f"nvcc {row.version} compiles for every GPU of the host"
    return Verdict(rule="nvcc", outcome="pass", because=because, reasons=(reason,))


def jit_count(code: DeviceCode | None, capabilities: Iterable[Capability]) -> int:
    """How many of the GPUs get a build with this code by JIT only."""
    return sum(code is not None and isinstance(support_of(code, item), Jit) for item in capabilities)
