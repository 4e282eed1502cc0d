"""Which wheel of torch runs on a host: its release, and the CUDA release that it is built with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from packaging.version import Version

from cuenv.core.versions import Capability, driver_key, target_for, version
from cuenv.host.facts import HostFacts
from cuenv.knowledge.base import Knowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchWheel:
    """A wheel of torch in PyTorch's own index.

    Attributes:
        torch: its release.
        tag: the name of its index, ``cu128``.
        platforms: that it is made for.
        targets: the capabilities that it holds machine code for.
    """

    torch: Version
    tag: str
    platforms: tuple[str, ...]
    targets: tuple[Capability, ...]

    @property
    def cuda(self) -> Version:
        """The CUDA release that it is built with."""
        digits = self.tag.removeprefix("cu")
        return version(f"{digits[:-1]}.{digits[-1]}")


def wheel_for(
    release: Version | None, facts: HostFacts, wheels: Iterable[TorchWheel], knowledge: Knowledge
) -> TorchWheel | None:
    """The wheel that runs on every GPU of a host by its drivers: of this release of torch, else of the one before it.

    Of several the one with the highest CUDA that the driver speaks by itself, else the lowest, which runs by
    minor-version compatibility. ``None`` where no driver is known, or no wheel runs.
    """
    levels = [machine.driver.cuda for machine in facts.machines if machine.driver]
    if release is None or len(levels) < len(facts.machines) or None in levels:
        return None
    level = min(item for item in levels if item)
    able = [wheel for wheel in wheels if wheel.torch <= Version(release.public) and _runs(wheel, facts, knowledge)]
    newest = max((wheel.torch for wheel in able), default=None)
    same = sorted((wheel for wheel in able if wheel.torch == newest), key=lambda wheel: wheel.cuda)
    below = [wheel for wheel in same if wheel.cuda <= level]
    return below[-1] if below else next(iter(same), None)


def _runs(wheel: TorchWheel, facts: HostFacts, knowledge: Knowledge) -> bool:
    floor = knowledge.floor(wheel.cuda)
    for machine in facts.machines:
        driver = machine.driver
        if floor is None or driver is None or machine.platform not in wheel.platforms:
            return False
        high = (
            driver_key(driver.version) >= driver_key(floor.driver)
            if driver.version
            else driver.cuda is not None and driver.cuda >= wheel.cuda
        )
        if not high or any(target_for(item, wheel.targets) is None for item in machine.capabilities):
            return False
    return True
