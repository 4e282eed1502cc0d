"""Rules that join the driver with the CUDA release and with each GPU, machine by machine.

Sources: CUDA Compatibility (minor-version compatibility), the release notes' driver tables, and the first and
last driver branch of each architecture; see the rows that the verdicts name.
"""

from __future__ import annotations

from packaging.version import Version

from cuenv.core.versions import Capability, driver_key, reaches
from cuenv.host.facts import Driver
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import ComputeCapability, MinimumDriver, Row
from cuenv.resolver.effective_driver import driver_fit
from cuenv.resolver.engine import Presence, rule
from cuenv.resolver.verdict import (
    BARE,
    BLIND,
    GAPS,
    GPU,
    HOST,
    Reason,
    Remedy,
    Verdict,
    host_reason,
    of_capability,
    row_reason,
)


def _needs_no_gpu(cpu: bool) -> Verdict | None:
    return Verdict(rule="gpu", outcome="pass", because="a CPU build needs no GPU") if cpu else None


@rule("gpu", code="CU409", order=30, title="the host has a GPU of known compute capability", unless=_needs_no_gpu)
def gpu(presence: Presence, capabilities: tuple[Capability, ...]) -> Verdict:
    """The host has an NVIDIA GPU, and its compute capability is known."""
    if presence == "level":
        because = "the GPUs are not known, because only the driver's CUDA version is given"
        return Verdict(rule="gpu", outcome="unknown", because=because)
    if presence in ("no", "untold"):
        reasons = (Reason("host", GAPS, ("driver", "gpus")),)
        because = f"no NVIDIA GPU was found on {HOST}" if presence == "no" else f"the GPUs of {HOST} are not known"
        return Verdict(rule="gpu", outcome="reject", because=because, reasons=reasons)
    if presence == "bare":
        return Verdict(rule="gpu", outcome="reject", because=f"no NVIDIA GPU was found on {BARE}")
    if presence == "blind":
        return Verdict(rule="gpu", outcome="unknown", because=f"the compute capability of {BLIND} is not known")
    because = f"the host has GPUs of {of_capability(*capabilities)}"
    return Verdict(rule="gpu", outcome="pass", because=because, reasons=(host_reason("gpus", because),))


@rule(
    "driver-gpu",
    code="CU402",
    order=50,
    title="the driver supports the GPUs",
    about=("driver",),
    per="gpu",
    without="the host has no GPU",
)
def driver_gpu(driver: Driver | None, capability: Capability | None, kb: Knowledge) -> Verdict:
    """The driver branch of each machine supports its GPUs: RTX 50 needs 570, Pascal and Volta end with 580."""
    row = kb.compute_capability(capability)
    if row is None:
        because = f"the cuenv tables do not list the drivers that support {GPU}"
        return Verdict(rule="driver-gpu", outcome="unknown", because=because)
    reason = _capability_reason(row)
    branch = _branch(driver, kb)
    lowest = kb.first_driver_of(row)
    remedy = Remedy(text=f"driver {lowest} or later", driver=lowest) if lowest else None
    if driver is None or branch is None:
        needs = f"; {GPU} needs driver {_first(row)} or later" if row.first_branch else ""
        because = f"the driver is not known{needs}"
        return Verdict("driver-gpu", "unknown", because, (reason,), remedy)
    reasons = (_driver_reason(driver), reason)
    have = _driver_text(driver)
    fit = driver_fit(driver.version, branch, row)
    if fit is None:
        because = f"{have} is only a branch number, and {GPU} needs driver {lowest} or later"
        return Verdict("driver-gpu", "unknown", because, reasons, remedy)
    if fit == "old":
        inferred = " (inferred, of low confidence)" if row.low else ""
        because = f"{GPU} needs driver {_first(row)} or later{inferred}, but {HOST} has {have}"
        return Verdict("driver-gpu", "reject", because, reasons, remedy)
    if fit == "new":
        return Verdict(
            rule="driver-gpu",
            outcome="reject",
            because=f"branch {row.last_branch} is the last driver branch that supports {GPU}, but {HOST} has {have}",
            reasons=reasons,
            remedy=Remedy(text=f"a driver of branch {row.last_branch}", driver=str(row.last_branch), upto=True),
        )
    newest = max(item.number for item in kb.branches)
    if driver.version and branch > newest:
        because = (
            f"{have} is newer than branch {newest}, the last branch of the cuenv tables, so it may not support {GPU}"
        )
        return Verdict("driver-gpu", "unknown", because, reasons)
    if row.low and branch == row.first_branch:
        because = f"branch {branch} probably supports {GPU} (inferred, of low confidence); {HOST} has {have}"
        return Verdict("driver-gpu", "unknown", because, reasons)
    return Verdict(rule="driver-gpu", outcome="pass", because=f"{have} supports {GPU}", reasons=reasons)


def _first(row: ComputeCapability) -> str:
    return str(row.first_driver or row.first_branch)


def _no_minimum(cuda: Version | None, kb: Knowledge) -> Verdict | None:
    if cuda is None:
        return Verdict(rule="driver-floor", outcome="pass", because="a CPU build needs no driver")
    if minimum_driver_of(cuda, kb) is None:
        because = f"the cuenv tables do not list the minimum driver of CUDA {cuda}"
        return Verdict(rule="driver-floor", outcome="unknown", because=because)
    return None


@rule(
    "driver-floor",
    code="CU401",
    order=60,
    title="the driver supports the CUDA major version",
    about=("cuda", "driver"),
    per="machine",
    unless=_no_minimum,
)
def driver_floor(cuda: Version, driver: Driver | None, kb: Knowledge) -> Verdict:
    """The driver of each machine is at least the minimum driver of the CUDA major version (before 11: of the minor)."""
    found = minimum_driver_of(cuda, kb)
    assert found  # noqa: S101 - `_no_minimum` has answered
    lowest, row = found
    what = f"CUDA {cuda.major}.x" if isinstance(row, MinimumDriver) else f"CUDA {cuda}"
    reason = row_reason(row, f"{what} needs driver {lowest} or later")
    remedy = Remedy(text=f"driver {lowest} or later", driver=lowest)
    enough: bool | None
    if driver and driver.version:
        enough = reaches(driver.version, lowest)
    elif driver and driver.cuda:
        enough = driver.cuda.major >= cuda.major if cuda.major > 10 else driver.cuda >= cuda
    else:
        because = f"the driver is not known, and {what} needs driver {lowest} or later"
        return Verdict(rule="driver-floor", outcome="unknown", because=because, reasons=(reason,), remedy=remedy)
    have = _driver_text(driver)
    reasons = (_driver_reason(driver), reason)
    if enough is None:
        because = f"{have} is only a branch number, and {what} needs driver {lowest} or later"
        return Verdict(rule="driver-floor", outcome="unknown", because=because, reasons=reasons, remedy=remedy)
    if enough:
        because = f"{have} meets the minimum driver {lowest} of {what}"
        return Verdict(rule="driver-floor", outcome="pass", because=because, reasons=reasons)
    because = f"{what} needs driver {lowest} or later, but {HOST} has {have}"
    return Verdict(rule="driver-floor", outcome="reject", because=because, reasons=reasons, remedy=remedy)


@rule(
    "driver-level",
    code="CU408",
    order=140,
    title="the CUDA toolkit is not newer than the driver's CUDA version",
    about=("cuda", "driver"),
)
def driver_level(cuda: Version | None, level: Version | None) -> Verdict:
    """The toolkit is not newer than the driver's CUDA version, or relies on minor-version compatibility (no PTX)."""
    if cuda is None or level is None:
        because = "a CPU build has no CUDA toolkit" if cuda is None else "the driver's CUDA version is not known"
        return Verdict(rule="driver-level", outcome="pass", because=because)
    reasons = (host_reason("driver.cuda", f"the driver supports CUDA {level}"),)
    if cuda.major > level.major:
        because = "minor-version compatibility ends with the CUDA major version, so the minimum driver decides"
        return Verdict(rule="driver-level", outcome="pass", because=because, reasons=reasons)
    if cuda <= level:
        because = f"CUDA {cuda} is not newer than CUDA {level}, which the driver supports"
        return Verdict(rule="driver-level", outcome="pass", because=because, reasons=reasons)
    if cuda.major < 11:
        because = "CUDA 10 has no minor-version compatibility, so the minimum driver decides"
        return Verdict(rule="driver-level", outcome="pass", because=because, reasons=reasons)
    because = (
        f"CUDA {cuda} is newer than CUDA {level}, which the driver supports; it runs by minor-version compatibility, "
        "which covers machine code but not PTX"
    )
    return Verdict(rule="driver-level", outcome="warn", because=because, reasons=reasons)


def minimum_driver_of(cuda: Version, knowledge: Knowledge) -> tuple[str, Row] | None:
    """The lowest driver that runs a CUDA release, and the row that says so.

    It is the floor of the major, or the driver that belongs to the release itself where that is an older one (11.0).
    Before CUDA 11 it is the driver of the release.
    """
    floor = knowledge.minimum_driver(cuda)
    own = knowledge.toolkits_of(cuda)
    if floor:
        last = own[-1] if own else None
        # only within the branch of the floor: a later release runs on the floor as well
        mine = driver_key(last.driver) if last and last.driver else (0,)
        family = driver_key(floor.driver)
        if last and last.driver and mine[0] == family[0] and mine < family:
            return last.driver, last
        return floor.driver, floor
    first = next((row for row in own if row.hard), None)
    return (first.driver, first) if first and first.driver else None


def _branch(driver: Driver | None, knowledge: Knowledge) -> int | None:
    if driver and driver.version:
        return driver_key(driver.version)[0]
    row = knowledge.branch_for(driver.cuda) if driver and driver.cuda else None
    return row.number if row else None


def _driver_text(driver: Driver) -> str:
    return f"driver {driver.version}" if driver.version else f"a driver that supports CUDA {driver.cuda}"


def _driver_reason(driver: Driver) -> Reason:
    fact = "driver.version" if driver.version else "driver.cuda"
    return host_reason(fact, f"{HOST} has {_driver_text(driver)}")


def _capability_reason(row: ComputeCapability) -> Reason:
    which = [f"from {_first(row)} on"] if row.first_branch else []
    which += [f"up to branch {row.last_branch}"] if row.last_branch else []
    what = f"compute capability {row.capability} ({row.architecture})"
    says = f"drivers {' and '.join(which)} support {what}" if which else f"the tables list no driver limit of {what}"
    return row_reason(row, says)
