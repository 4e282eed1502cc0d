"""What one source says about the driver and the GPUs, and how several sources become one answer.

The sources are asked in the order NVML, nvidia-smi, ``/proc`` and ``/sys``; the first that knows a fact gives it, with
its evidence. The gaps of the earlier ones stay: they say why a later one was believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from packaging.version import Version

from cuenv.facts import Driver, Evidence, Gap, Gpu
from cuenv.versions import Capability, version

_DRIVER_FACTS = ("version", "cuda", "kernel_module", "module_kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What one source says.

    Attributes:
        driver: what it knows of the driver; ``None`` when nothing.
        gpus: the GPUs it counts, perhaps none; ``None`` when it cannot count them.
    """

    driver: Driver | None = None
    gpus: tuple[Gpu, ...] | None = None
    evidence: tuple[Evidence, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether it tells the driver's version, its CUDA level and the number of GPUs."""
        driver = self.driver or Driver()
        return driver.version is not None and driver.cuda is not None and self.gpus is not None


def merge(sightings: Iterable[Sighting]) -> Sighting:
    """One answer from several sources: each fact from the first that has it, with the evidence of that one."""
    driver = Driver()
    gpus: tuple[Gpu, ...] | None = None
    evidence: list[Evidence] = []
    gaps: list[Gap] = []
    for seen in sightings:
        for name in _DRIVER_FACTS:
            value = getattr(seen.driver, name, None)
            if value is not None and getattr(driver, name) is None:
                driver = replace(driver, **{name: value})
                evidence.extend(item for item in seen.evidence if item.fact == f"driver.{name}")
        if gpus is None and seen.gpus is not None:
            gpus = seen.gpus
            evidence.extend(item for item in seen.evidence if item.fact.startswith("gpus"))
        gaps.extend(seen.gaps)
    known = None if driver == Driver() else driver
    return Sighting(driver=known, gpus=gpus, evidence=tuple(evidence), gaps=tuple(gaps))


def level(number: int) -> Version:
    """The CUDA release of the driver API's number: 12020 is 12.2.

    Raises:
        ValueError: it is the number of no release.
    """
    if not 1000 <= number < 100_000:
        raise ValueError(f"{number} is no CUDA release")
    return version(f"{number // 1000}.{number % 1000 // 10}")


def name_capabilities(seen: Sighting, name_to_capability: Callable[[str], Capability | None]) -> Sighting:
    """Give GPUs without a capability the one that the table of GPU names holds for them."""
    evidence = list(seen.evidence)
    gpus: list[Gpu] = []
    for gpu in seen.gpus or ():
        known = name_to_capability(gpu.name) if gpu.capability is None and gpu.name else None
        if known is not None:
            evidence.append(Evidence(f"gpus[{gpu.index}].capability", "table of GPU names", f"{gpu.name} is {known}"))
        gpus.append(gpu if known is None else replace(gpu, capability=known))
    return seen if seen.gpus is None else replace(seen, gpus=tuple(gpus), evidence=tuple(evidence))
