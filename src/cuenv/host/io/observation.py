"""What one source says about the driver and the GPUs, and how several sources become one answer.

The sources are asked in the order NVML, nvidia-smi, ``/proc`` and ``/sys``; the first that knows a fact gives it, with
its evidence. The gaps of the earlier ones stay: they say why a later one was believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from packaging.version import Version

from cuenv.core.record import dataclass, field, replace
from cuenv.core.versions import Capability, version
from cuenv.host.facts import Driver, Evidence, Gap, Gpu

_DRIVER_FACTS = ("version", "cuda", "kernel_module", "module_kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The driver and the GPUs according to one source (NVML, ``nvidia-smi``, ``/proc``)."""

    driver: Driver | None = None  # what it knows of the driver; ``None`` when nothing
    gpus: tuple[Gpu, ...] | None = None  # the GPUs it counts, perhaps none; ``None`` when it cannot count them
    # PCI device ids, by index, of GPUs whose name says nothing
    devices: Mapping[int, str] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the driver's version, its CUDA version and the number of GPUs are known."""
        driver = self.driver or Driver()
        return driver.version is not None and driver.cuda is not None and self.gpus is not None


def merge(sightings: Iterable[ProbeResult]) -> ProbeResult:
    """Combine the results of several sources: each fact from the first source that has it, with its evidence."""
    driver = Driver()
    gpus: tuple[Gpu, ...] | None = None
    devices: Mapping[int, str] = {}
    evidence: list[Evidence] = []
    gaps: list[Gap] = []
    for seen in sightings:
        for name in _DRIVER_FACTS:
            value = getattr(seen.driver, name, None)
            if value is not None and getattr(driver, name) is None:
                driver = replace(driver, **{name: value})
                evidence.extend(item for item in seen.evidence if item.fact == f"driver.{name}")
        if gpus is None and seen.gpus is not None:
            gpus, devices = seen.gpus, seen.devices
            evidence.extend(item for item in seen.evidence if item.fact.startswith("gpus"))
        gaps.extend(seen.gaps)
    known = None if driver == Driver() else driver
    return ProbeResult(driver=known, gpus=gpus, devices=devices, evidence=tuple(evidence), gaps=tuple(gaps))


def cuda_of_level(number: int) -> Version:
    """The CUDA release of a number of the driver API: 12.2 for 12020.

    Raises:
        ValueError: it is the number of no release.
    """
    if not 1000 <= number < 100_000:
        raise ValueError(f"invalid CUDA release {number}")
    return version(f"{number // 1000}.{number % 1000 // 10}")


def has_no_name(name: str) -> bool:
    """Whether the name of a GPU is missing or generic, because the driver is older than the product."""
    return name.removeprefix("NVIDIA ").strip().lower() in ("", "graphics device")


def name_devices(
    seen: ProbeResult,
    device_to_name: Callable[[str], str | None],
    name_to_capability: Callable[[str], Capability | None],
) -> ProbeResult:
    """Name GPUs with generic names by their PCI device id, unless the driver reports another capability."""
    evidence = list(seen.evidence)
    gpus: list[Gpu] = []
    for gpu in seen.gpus or ():
        device = seen.devices.get(gpu.index)
        name = device_to_name(device) if device else None
        if name and gpu.capability in (None, name_to_capability(name)):
            fact = f"gpus[{gpu.index}].name"
            told = (
                f"device {device} is {name}, but the driver says {gpu.name!r}"
                if gpu.name
                else f"device {device} is {name}"
            )
            evidence = [item for item in evidence if item.fact != fact] + [Evidence(fact, "table of PCI ids", told)]
            gpus.append(replace(gpu, name=name))
        else:
            gpus.append(gpu)
    return seen if not seen.devices else replace(seen, gpus=tuple(gpus), evidence=tuple(evidence))


def name_capabilities(seen: ProbeResult, name_to_capability: Callable[[str], Capability | None]) -> ProbeResult:
    """Add missing capabilities of GPUs by their names."""
    evidence = list(seen.evidence)
    gpus: list[Gpu] = []
    for gpu in seen.gpus or ():
        known = name_to_capability(gpu.name) if gpu.capability is None and gpu.name else None
        if known is not None:
            evidence.append(Evidence(f"gpus[{gpu.index}].capability", "table of GPU names", f"{gpu.name} is {known}"))
        gpus.append(gpu if known is None else replace(gpu, capability=known))
    return seen if seen.gpus is None else replace(seen, gpus=tuple(gpus), evidence=tuple(evidence))
