"""Rules that join the driver with the CUDA release and with each GPU, machine by machine.

Sources: CUDA Compatibility (minor-version compatibility), the release notes' driver tables, and the first and
last driver branch of each architecture; see the rows that the verdicts name.
"""

from __future__ import annotations

from packaging.version import Version

from cuenv.core.versions import Jit, driver_key, reaches, serve
from cuenv.host.facts import Driver, Gpu, HostFacts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Floor, Generation, Row
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.rules.verdict import Context, Ground, Remedy, Verdict, fact_ground, row_ground, worst


def gpu(_: Candidate, case: Context) -> Verdict:
    """There is an NVIDIA GPU, and its capability is known."""
    facts = case.facts
    if case.wish.cpu:
        return Verdict(rule="gpu", outcome="pass", because="a CPU build needs no GPU")
    if not facts.gpus and facts.driver and not facts.detected:
        because = "no GPU is named, only the CUDA level of a driver"
        return Verdict(rule="gpu", outcome="unknown", because=because)
    if not facts.gpus:
        because = f"{facts.label} shows no NVIDIA GPU"
        gaps = (gap for gap in facts.gaps if gap.fact in ("driver", "gpus"))
        reasons = tuple(Ground("host", gap.reason, (gap.source,)) for gap in gaps)
        return Verdict(rule="gpu", outcome="reject", because=because, grounds=reasons)
    bare = [machine.label for machine in facts.machines if not machine.gpus]
    if bare:
        because = f"{', '.join(bare)} shows no NVIDIA GPU"
        return Verdict(rule="gpu", outcome="reject", because=because)
    blind = [gpu.name or f"GPU {gpu.index}" for gpu in facts.gpus if gpu.capability is None]
    if blind:
        because = f"the capability of {', '.join(dict.fromkeys(blind))} is not known"
        return Verdict(rule="gpu", outcome="unknown", because=because)
    because = "GPUs of capability " + ", ".join(str(capability) for capability in facts.capabilities)
    return Verdict(rule="gpu", outcome="pass", because=because, grounds=(fact_ground(facts, "gpus", because),))


def driver_gpu(_: Candidate, case: Context) -> Verdict:
    """Each machine's driver branch drives each of its GPUs: not too young a GPU, not too old."""
    verdicts = [_driver_gpu(machine, gpu, case) for machine in case.facts.machines for gpu in _distinct(machine.gpus)]
    return worst(verdicts) if verdicts else Verdict(rule="driver-gpu", outcome="pass", because="no GPU to drive")


def _driver_gpu(machine: HostFacts, gpu: Gpu, case: Context) -> Verdict:
    row = case.knowledge.generation(gpu.capability)
    name = _gpu_name(gpu)
    if row is None:
        because = f"no row says which drivers drive {name}"
        return Verdict(rule="driver-gpu", outcome="unknown", because=because)
    ground = _generation_ground(row)
    driver = machine.driver
    branch = _branch(driver, case.knowledge)
    if driver is None or branch is None:
        floor = f"; it needs {_first_text(row)} or later" if row.first_branch else ""
        because = f"the driver is not known{floor}"
        return Verdict(rule="driver-gpu", outcome="unknown", because=because, grounds=(ground,))
    grounds = (_driver_ground(machine, driver), ground)
    have = _driver_text(driver)
    lowest = case.knowledge.first_drives(row)
    drives = _drives(driver, branch, row)
    if lowest and not drives:
        remedy = Remedy(text=f"driver {lowest} or later", driver=lowest)
        if drives is None:
            because = f"{have} names only the branch; {name} needs {lowest} or later of it"
            return Verdict("driver-gpu", "unknown", because, grounds, remedy)
        because = f"{_first_text(row)} is the first that drives {name}{_inferred(row)}; {machine.label} has {have}"
        return Verdict("driver-gpu", "reject", because, grounds, remedy)
    newest = max(item.number for item in case.knowledge.branches)
    if driver.version and branch > newest:
        because = f"{have} is of a branch after {newest}, the last that the tables know: it may not drive {name}"
        return Verdict("driver-gpu", "unknown", because, grounds)
    if row.low and branch == row.first_branch:
        because = f"that branch {branch} drives {name} is inferred and of low confidence; {machine.label} has {have}"
        return Verdict("driver-gpu", "unknown", because, grounds)
    if row.last_branch and branch > row.last_branch:
        return Verdict(
            rule="driver-gpu",
            outcome="reject",
            because=f"branch {row.last_branch} is the last that drives {name}; {machine.label} has {have}",
            grounds=grounds,
            remedy=Remedy(text=f"a driver of branch {row.last_branch}", driver=str(row.last_branch), upto=True),
        )
    because = f"{have} drives {name}"
    return Verdict(rule="driver-gpu", outcome="pass", because=because, grounds=grounds)


def _drives(driver: Driver, branch: int, row: Generation) -> bool | None:
    """Whether a driver is not too old for a GPU; ``None`` where it names only a branch that holds both."""
    if row.first_branch is None or branch > row.first_branch:
        return True
    if branch < row.first_branch:
        return False
    if row.first_driver is None:
        return True
    return reaches(driver.version, row.first_driver) if driver.version else None


def _first_text(row: Generation) -> str:
    return f"driver {row.first_driver}" if row.first_driver else f"branch {row.first_branch}"


def _inferred(row: Generation) -> str:
    return " (inferred, of low confidence)" if row.low else ""


def inferred(candidate: Candidate, case: Context) -> bool:
    """Whether the lowest driver of a candidate is that of a GPU of which the first driver is only inferred."""
    lowest = minimum_driver(candidate, case)
    rows = [case.knowledge.generation(item) for item in case.facts.capabilities]
    return lowest is not None and any(row and row.low and case.knowledge.first_drives(row) == lowest for row in rows)


def driver_floor(candidate: Candidate, case: Context) -> Verdict:
    """Each machine's driver is at or above the floor of the CUDA major (hard floor of the minor before 11)."""
    if candidate.cuda is None:
        return Verdict(rule="driver-floor", outcome="pass", because="a CPU build needs no driver")
    found = floor_of(candidate.cuda, case.knowledge)
    if found is None:
        because = f"no row says which driver CUDA {candidate.cuda} needs"
        return Verdict(rule="driver-floor", outcome="unknown", because=because)
    lowest, row = found
    return worst([_floor(machine, candidate.cuda, lowest, row) for machine in case.facts.machines])


def _floor(machine: HostFacts, cuda: Version, lowest: str, row: Row) -> Verdict:
    what = f"CUDA {cuda.major}.x" if isinstance(row, Floor) else f"CUDA {cuda}"
    ground = row_ground(row, f"{what} needs driver {lowest} or later")
    remedy = Remedy(text=f"driver {lowest} or later", driver=lowest)
    driver = machine.driver
    enough: bool | None
    if driver and driver.version:
        enough = reaches(driver.version, lowest)
    elif driver and driver.cuda:
        enough = driver.cuda.major >= cuda.major if cuda.major > 10 else driver.cuda >= cuda
    else:
        because = f"the driver is not known; {what} needs {lowest} or later"
        return Verdict(rule="driver-floor", outcome="unknown", because=because, grounds=(ground,), remedy=remedy)
    have = _driver_text(driver)
    grounds = (_driver_ground(machine, driver), ground)
    if enough is None:
        because = f"{have} names only the branch; {what} needs {lowest} or later of it"
        return Verdict(rule="driver-floor", outcome="unknown", because=because, grounds=grounds, remedy=remedy)
    if enough:
        because = f"{have} is at or above the floor {lowest} of {what}"
        return Verdict(rule="driver-floor", outcome="pass", because=because, grounds=grounds)
    because = f"{have} of {machine.label} is below the floor {lowest} of {what}"
    return Verdict(rule="driver-floor", outcome="reject", because=because, grounds=grounds, remedy=remedy)


def driver_level(candidate: Candidate, case: Context) -> Verdict:
    """The toolkit is within the CUDA level of the driver, or rests on minor-version compatibility."""
    level = case.facts.driver.cuda if case.facts.driver else None
    if candidate.cuda is None or level is None:
        return Verdict(rule="driver-level", outcome="pass", because="nothing to compare")
    grounds = (fact_ground(case.facts, "driver.cuda", f"the driver speaks CUDA {level}"),)
    if candidate.cuda.major > level.major:
        because = "minor-version compatibility ends at the major: judged by the floor"
        return Verdict(rule="driver-level", outcome="pass", because=because, grounds=grounds)
    if candidate.cuda <= level:
        because = f"CUDA {candidate.cuda} is within the driver's {level}"
        return Verdict(rule="driver-level", outcome="pass", because=because, grounds=grounds)
    if candidate.cuda.major < 11:
        because = "before CUDA 11 there is no minor-version compatibility: judged by the floor"
        return Verdict(rule="driver-level", outcome="pass", because=because, grounds=grounds)
    because = (
        f"CUDA {candidate.cuda} is above the driver's {level}: it runs by minor-version compatibility, "
        "which covers machine code but not PTX"
    )
    return Verdict(rule="driver-level", outcome="warn", because=because, grounds=grounds)


def floor_of(cuda: Version, knowledge: Knowledge) -> tuple[str, Row] | None:
    """The lowest driver that runs a CUDA release, and the row that says so.

    It is the floor of the major, or the driver that belongs to the release itself where that is an older one (11.0).
    Before CUDA 11 it is the driver of the release.
    """
    floor = knowledge.floor(cuda)
    own = [row for row in knowledge.toolkits if row.driver and row.version.release[:2] == cuda.release[:2]]
    if floor:
        last = max(own, key=lambda row: row.version, default=None)
        # only within the branch of the floor: a later release runs on the floor as well
        mine = driver_key(last.driver) if last and last.driver else (0,)
        family = driver_key(floor.driver)
        if last and last.driver and mine[0] == family[0] and mine < family:
            return last.driver, last
        return floor.driver, floor
    first = min((row for row in own if row.hard), key=lambda row: row.version, default=None)
    return (first.driver, first) if first and first.driver else None


def _branch(driver: Driver | None, knowledge: Knowledge) -> int | None:
    if driver and driver.version:
        return driver_key(driver.version)[0]
    row = knowledge.branch_for(driver.cuda) if driver and driver.cuda else None
    return row.number if row else None


def _driver_text(driver: Driver) -> str:
    return f"driver {driver.version}" if driver.version else f"a driver that speaks CUDA {driver.cuda}"


def _driver_ground(machine: HostFacts, driver: Driver) -> Ground:
    fact = "driver.version" if driver.version else "driver.cuda"
    return fact_ground(machine, fact, f"{machine.label} has {_driver_text(driver)}")


def _generation_ground(row: Generation) -> Ground:
    first = f"first {_first_text(row)}" if row.first_branch else "first branch unknown"
    last = f"last branch {row.last_branch}" if row.last_branch else "no last branch known"
    return row_ground(row, f"capability {row.capability} ({row.architecture}): {first}, {last}")


def _gpu_name(gpu: Gpu) -> str:
    if gpu.name and gpu.capability:
        return f"{gpu.name} ({gpu.capability})"
    return gpu.name or f"GPU {gpu.capability or gpu.index}"


def _distinct(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    return tuple({(gpu.name, gpu.capability): gpu for gpu in reversed(gpus)}.values())


def minimum_driver(candidate: Candidate, case: Context) -> str | None:
    """The lowest driver that runs a candidate: floor of its CUDA, branch of each GPU, JIT of its PTX.

    Of a pool, that of the machine that needs most; the others may need less, see `minimum_drivers`. ``None`` for a CPU
    build and where no row says it.
    """
    return max((lowest for _, lowest in minimum_drivers(candidate, case)), key=driver_key, default=None)


def minimum_drivers(candidate: Candidate, case: Context) -> tuple[tuple[HostFacts, str], ...]:
    """Each machine with the lowest driver that runs a candidate on its own GPUs; those of which no row says it are out.

    Machines of a pool have drivers of their own: one may drive a GPU that the driver of another has dropped.
    """
    if candidate.cuda is None:
        return ()
    found = floor_of(candidate.cuda, case.knowledge)
    floor = [found[0]] if found else []
    pairs = ((machine, [*floor, *_needs(machine, candidate, case.knowledge)]) for machine in case.facts.machines)
    return tuple((machine, max(needs, key=driver_key)) for machine, needs in pairs if needs)


def _needs(machine: HostFacts, candidate: Candidate, knowledge: Knowledge) -> list[str]:
    """The drivers from which on each GPU of a machine is driven, and PTX compiled for it."""
    needs = []
    for capability in machine.capabilities:
        row = knowledge.generation(capability)
        first = knowledge.first_drives(row) if row else None
        if first:
            needs.append(first)
        service = serve(candidate.build.code, capability) if candidate.build.code else None
        if isinstance(service, Jit) and service.needs:
            needs.append(knowledge.native_driver(service.needs) or "")
    return [need for need in needs if need]
