"""NVML through nvidia-ml-py: what the driver says about itself and its GPUs.

Every call that fails becomes a gap with NVML's own reason; the others still count. Branches look at the error's
value, since its class and text differ between releases.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from cuenv.core.reading import describe
from cuenv.core.versions import Capability, check_driver
from cuenv.host.facts import Driver, Evidence, Gap, Gpu, Mig, MigInstance, Switch
from cuenv.host.io.observation import ProbeResult, level, nameless

T = TypeVar("T")

NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
_MOST_INSTANCES = 64
"""More MIG instances than any GPU holds: a count above it is no count."""
_MEANING = {
    NOT_SUPPORTED: "this GPU or driver does not offer it",
    NO_PERMISSION: "this process may not ask: device permissions or a cgroup forbid it",
    9: "the kernel module is not loaded, or this container was not given the GPUs",
    12: "the driver's library cannot be loaded; a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    13: "the driver is too old to know this question",
    15: "the GPU fell off the bus; it needs a reset or a reboot",
    18: "the library and the loaded kernel module belong to different drivers; reboot, or reload the module",
}


def see(library: Path | None = None) -> ProbeResult:
    """Ask NVML about the driver and every GPU.

    Zero devices are a fact; a device whose use is forbidden to this process (NVML error 4, as in a batch job that got
    some GPUs of a node) is a gap and not one of its GPUs; any other unreachable device stays in the set, unknown.

    Args:
        library: loaded first, for places that the loader does not search by itself.
    """
    import pynvml  # noqa: PLC0415 - 25 ms that a machine without a driver does not need

    if library is not None:
        _preload(library)
    return _Questions(pynvml).all()


def _preload(library: Path) -> None:
    import ctypes  # noqa: PLC0415 - pynvml has loaded it

    with contextlib.suppress(OSError):  # NVML itself will say that it cannot be loaded
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


class _Questions:
    """One round of questions, collecting evidence and gaps."""

    def __init__(self, nvml: ModuleType) -> None:
        self.nvml = nvml
        self.evidence: list[Evidence] = []
        self.gaps: list[Gap] = []
        self.devices: dict[int, str] = {}

    def all(self) -> ProbeResult:
        try:
            self.nvml.nvmlInit()
        except self.nvml.NVMLError as error:
            return ProbeResult(gaps=(Gap("driver", "nvml:nvmlInit", _reason(error)),))
        try:
            driver = Driver(
                version=self.ask("driver.version", "nvmlSystemGetDriverVersion", read=check_driver),
                cuda=self.ask("driver.cuda", "nvmlSystemGetCudaDriverVersion", read=level),
            )
            count = self.ask("gpus", "nvmlDeviceGetCount", read=int)
            gpus = None if count is None else self.gpus(count)
        finally:
            with contextlib.suppress(self.nvml.NVMLError):
                self.nvml.nvmlShutdown()
        evidence, gaps = tuple(self.evidence), tuple(self.gaps)
        return ProbeResult(driver=driver, gpus=gpus, devices=self.devices, evidence=evidence, gaps=gaps)

    def ask(self, fact: str, call: str, *arguments: object, read: Callable[[Any], T], absent: str = "") -> T | None:
        """The answer of one call as ``read`` understands it (ValueError when not), else ``None`` and a gap.

        ``absent`` is what "not supported" means where a GPU may lack the thing asked for: that is no gap.
        """
        try:
            answer = getattr(self.nvml, call)(*arguments)
            found = read(answer)
        except self.nvml.NVMLError as error:
            if absent and error.value == NOT_SUPPORTED:
                self.evidence.append(Evidence(fact, f"nvml:{call}", absent))
                return None
            self.gaps.append(Gap(fact, f"nvml:{call}", _reason(error)))
        except ValueError as error:
            self.gaps.append(Gap(fact, f"nvml:{call}", f"unusable answer: {error}"))
        else:
            self.evidence.append(Evidence(fact, f"nvml:{call}", str(answer if type(answer) is int else found)))
            return found
        return None

    def gpus(self, count: int) -> tuple[Gpu, ...]:
        found = (self.gpu(index) for index in range(count))
        return tuple(gpu for gpu in found if gpu is not None)

    def gpu(self, index: int) -> Gpu | None:
        fact = f"gpus[{index}]"
        try:
            handle = self.nvml.nvmlDeviceGetHandleByIndex(index)
        except self.nvml.NVMLError as error:
            self.gaps.append(Gap(fact, "nvml:nvmlDeviceGetHandleByIndex", _reason(error)))
            return None if error.value == NO_PERMISSION else Gpu(index=index, name="", capability=None)
        name = self.ask(f"{fact}.name", "nvmlDeviceGetName", handle, read=str) or ""
        if nameless(name):
            device = self.ask(f"{fact}.device", "nvmlDeviceGetPciInfo", handle, read=_read_device)
            self.devices |= {index: device} if device else {}
        return Gpu(
            index=index,
            name=name,
            capability=self.ask(
                f"{fact}.capability", "nvmlDeviceGetCudaComputeCapability", handle, read=_read_capability
            ),
            memory_mib=self.ask(f"{fact}.memory_mib", "nvmlDeviceGetMemoryInfo", handle, read=_read_memory),
            mig=self.mig(fact, handle),
            ecc=self.ask(f"{fact}.ecc", "nvmlDeviceGetEccMode", handle, read=_read_switch, absent="it has no ECC mode"),
        )

    def mig(self, fact: str, handle: Any) -> Mig | None:
        mode = self.ask(f"{fact}.mig", "nvmlDeviceGetMigMode", handle, read=_read_switch, absent="it has no MIG mode")
        if mode is None or not mode.on:
            return None if mode is None else Mig(mode=mode)
        most = self.ask(f"{fact}.mig.most", "nvmlDeviceGetMaxMigDeviceCount", handle, read=_read_count) or 0
        found = (self.instance(f"{fact}.mig.instances[{index}]", handle, index) for index in range(most))
        return Mig(mode=mode, instances=tuple(item for item in found if item is not None))

    def instance(self, fact: str, handle: Any, index: int) -> MigInstance | None:
        """The instance in one of the places that a GPU has for them; an empty place is none."""
        call = "nvmlDeviceGetMigDeviceHandleByIndex"
        try:
            own = self.nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except self.nvml.NVMLError as error:
            if error.value != NOT_FOUND:
                self.gaps.append(Gap(fact, f"nvml:{call}", _reason(error)))
            return None
        name = self.ask(fact, "nvmlDeviceGetName", own, read=str) or ""
        memory = self.ask(f"{fact}.memory_mib", "nvmlDeviceGetMemoryInfo", own, read=_read_memory)
        return MigInstance(profile=name.rpartition("MIG ")[2], memory_mib=memory)


def _read_capability(answer: tuple[int, int]) -> Capability:
    return Capability.parse(f"{answer[0]}.{answer[1]}")


def _read_device(answer: Any) -> str:
    return f"0x{int(answer.pciDeviceId):08x}"


def _read_memory(answer: Any) -> int:
    return int(answer.total) // (1024 * 1024)


def _read_switch(answer: Any) -> Switch:
    now, pending = answer
    if not {now, pending} <= {0, 1}:
        raise ValueError(f"{now}, {pending} are no modes")
    return Switch(on=bool(now), pending=bool(pending))


def _read_count(answer: int) -> int:
    if not 0 <= answer <= _MOST_INSTANCES:
        raise ValueError(f"{answer} is no number of instances")
    return answer


def _reason(error: Any) -> str:
    """NVML's own words, its number, what the number means, and what the loader said."""
    words = f"{str(error).rstrip('.')} (NVML error {error.value})"
    meaning = _MEANING.get(error.value)
    loader = error.__context__ if isinstance(error.__context__, OSError) else None
    parts = [words, meaning, None if loader is None else describe(str(loader))]
    return ": ".join(part for part in parts if part)
