"""Why an error happens on this host: a symptom joined with the facts of the host, the environment and the tables.

Each join takes a `Case` and says what it knows; where the facts are silent it says nothing, and the row speaks alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from packaging.version import Version

from cuenv.core.record import dataclass, field
from cuenv.core.versions import Capability, Native, arch_list, reaches, serve, version
from cuenv.host.describe import gpu_text, host_options
from cuenv.host.facts import Driver, HostFacts
from cuenv.knowledge.base import Knowledge
from cuenv.prefix.inventory import Prefix
from cuenv.resolver.rules.driver import floor_of, runs_on
from cuenv.solve.model import build_cuda


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContext:
    """What a symptom is joined with.

    Attributes:
        facts: the host; ``None`` when nobody asked for one.
        prefix: the environment, when one was named.
        told: what the line of the log tells, decoded.
        mentions: what the log says in passing.
    """

    knowledge: Knowledge
    facts: HostFacts | None = None
    prefix: Prefix | None = None
    told: Mapping[str, str] = field(default_factory=dict)
    mentions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What the facts say: sentences, and a remedy and a command where they know better than the row."""

    because: tuple[str, ...] = ()
    remedy: str = ""
    command: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


def host_words(facts: HostFacts | None) -> str:
    """The options that name a host in a command; none for the machine at hand."""
    from shlex import join  # noqa: PLC0415 - only where a command is given

    if facts is None or (facts.detected and not facts.asked_as and not facts.members):
        return ""
    return join(("--host", facts.asked_as) if facts.asked_as else host_options(facts))


def resolve_anew(case: LogContext, *options: str, gpus: str = "") -> str:
    """The command that chooses another environment for the host; for ``gpus`` when it is the machine at hand."""
    return " ".join(filter(None, ("cuenv resolve", host_words(case.facts) or gpus, *options, "-o environment.yml")))


def torch_of(case: LogContext) -> tuple[Version | None, Version | None]:
    """Release and CUDA of torch: of the environment, else as the log mentions it."""
    if case.prefix:
        package = case.prefix.package("pytorch")
        if package:
            return version_in(package.version), build_cuda(package.build)
        wheel = case.prefix.wheel("torch")
        if wheel:
            return version_in(wheel.version), _wheel_cuda(wheel.version) or _by_runtime(case.prefix)
    text = case.mentions.get("torch", "")
    cuda = version_in(case.mentions.get("cuda", ""))
    return version_in(text), _wheel_cuda(text) or cuda


def driver_of(case: LogContext) -> str | None:
    """The driver: of the host, else as the log mentions it."""
    if case.facts and case.facts.driver and case.facts.driver.version:
        return case.facts.driver.version
    return case.mentions.get("driver")


def level_of(case: LogContext) -> Version | None:
    """The CUDA release that the driver supports: as the line tells it, else of the host."""
    if case.told.get("level"):
        return version_in(case.told["level"])
    if case.facts and case.facts.driver and case.facts.driver.cuda:
        return case.facts.driver.cuda
    driver = driver_of(case)
    return case.knowledge.cuda_of(driver) if driver else None


def capabilities(case: LogContext) -> tuple[Capability, ...]:
    """The GPUs that the line tells of, else those of the host."""
    told = case.told.get("sm")
    if told:
        return (Capability.parse(told.rstrip("af")),)
    return case.facts.capabilities if case.facts else ()


def newest_for(case: LogContext, level: Version) -> Version | None:
    """The newest CUDA of a torch build whose major a driver of this level runs: within its level, or by its major."""
    cudas = {row.cuda for row in case.knowledge.torch if row.cuda}
    driver = Driver(version=driver_of(case), cuda=level)
    runs = [cuda for cuda in cudas if runs_on(cuda, driver, case.knowledge).outcome != "reject"]
    return max(runs, default=None)


def driver_floor(case: LogContext) -> Joined:
    """The driver against the floor of the CUDA major that the program was built with."""
    level, driver = level_of(case), driver_of(case)
    if level is None:
        return no_driver(case) if case.facts and case.facts.detected else Joined()
    name = f"driver {driver} supports" if driver else "the driver supports"
    _, wanted = torch_of(case)
    runs = newest_for(case, level)
    if wanted is None and runs is not None:
        wanted = min(
            (row.cuda for row in case.knowledge.torch if row.cuda and row.cuda.major > runs.major), default=None
        )
    floor = floor_of(wanted, case.knowledge) if wanted else None
    if wanted is None or floor is None:
        return Joined(because=(f"{name} CUDA {level}",))
    outcome = runs_on(wanted, Driver(version=driver, cuda=level), case.knowledge).outcome
    if outcome == "unknown":
        needs = f"and CUDA {wanted.major}.x needs {floor[0]} or later of it"
        return Joined(because=(f"{name} CUDA {level}; the full driver version is not known, {needs}",))
    if outcome != "reject":
        return Joined(because=(f"{name} CUDA {level}",))
    because = (f"{name} CUDA {level}; a build for CUDA {wanted.major}.x needs driver {floor[0]} or later",)
    if runs is None:
        return Joined(
            because=because,
            remedy=f"install driver {floor[0]} or later; the cuenv tables list no build for this driver",
        )
    remedy = (
        f"now: a build of torch for CUDA {runs}, which this driver supports; in the "
        f"long run: driver {floor[0]} or later. "
        "Exporting LD_LIBRARY_PATH does not help, because the driver decides"
    )
    command = resolve_anew(case, f"--cuda {runs}")
    return Joined(because=because, remedy=remedy, command=command, values={"cuda": str(runs)})


def no_driver(case: LogContext) -> Joined:
    """Whether the host has a driver at all."""
    facts = case.facts
    if facts is None or not facts.detected:
        return Joined()
    where = f" inside {facts.environment.container}" if facts.environment.container else ""
    if facts.driver is None:
        said = f"{facts.label} has no NVIDIA driver{where}"
        if facts.environment.container:
            return Joined(because=(said,), command="docker run --gpus all IMAGE nvidia-smi")
        return Joined(because=(said,))
    return Joined(
        because=(
            (
                f"{facts.label} has driver {facts.driver.version} and {gpu_text(facts)}{where}, "
                "so the driver is visible here"
            ),
        )
    )


def device_code(case: LogContext) -> Joined:
    """The code that torch holds against the GPUs."""
    release, cuda = torch_of(case)
    because = []
    for build in case.knowledge.torch:
        if release and build.cuda == cuda and build.version.public == release.public and build.code and cuda:
            for capability in capabilities(case):
                service = serve(build.code, capability)
                how = "machine code" if isinstance(service, Native) else "only PTX" if service else "nothing"
                because.append(
                    f"torch {release.public} for CUDA {cuda} contains {how} for {capability}: {arch_list(build.code)}"
                )
            break
    if not because and capabilities(case):
        because.append(f"the GPU is of capability {', '.join(map(str, capabilities(case)))}")
    gpus = " ".join(f"--gpu {capability}" for capability in capabilities(case)) if case.told.get("sm") else ""
    return Joined(because=tuple(because), command=resolve_anew(case, gpus=gpus))


def driver_level(case: LogContext) -> Joined:
    """The CUDA level of the driver beside the one that is asked for."""
    level, wanted = level_of(case), version_in(case.told.get("cuda", ""))
    if level is None:
        return Joined()
    if wanted is None:
        return Joined(because=(f"the driver supports CUDA {level}",))
    first = case.knowledge.native_driver(wanted)
    needs = f": CUDA {wanted} came with driver {first}" if first else ""
    because = (f"the driver supports CUDA {level}, which is {_order(level, wanted)} {wanted}{needs}",)
    driver, floor, runs = driver_of(case), floor_of(wanted, case.knowledge), newest_for(case, level)
    if runs and floor and driver and reaches(driver, floor[0]) is False:
        said = (
            f"driver {driver} is older than {floor[0]}, the minimum for CUDA {wanted.major}.x, "
            "so skipping the check does not help"
        )
        return Joined(because=(*because, said), command=resolve_anew(case, f"--cuda {runs}"))
    return Joined(because=because)


def _order(level: Version, wanted: Version) -> str:
    return "below" if level < wanted else "not below"


def cuda_available(case: LogContext) -> Joined:
    """Why torch sees no CUDA: the CPU build, no driver, or a driver below the floor."""
    release, cuda = torch_of(case)
    if release is not None and cuda is None:
        return Joined(because=(f"torch {release} of this environment is a CPU build",), command=resolve_anew(case))
    level = level_of(case)
    if cuda is None and level is not None:  # whether the driver is to blame depends on a build that nobody named
        return Joined(
            because=(f"the driver supports CUDA {level}; it runs builds for CUDA up to {newest_for(case, level)}",)
        )
    found = driver_floor(case)
    if found.command or level is None:
        return found
    return Joined(because=(*found.because, f"torch is built for CUDA {cuda}, which this driver supports"))


def glibc(case: LogContext) -> Joined:
    """The C library of the host against the one that the line asks for."""
    facts = case.facts
    if facts is None or facts.libc is None or facts.libc.family != "glibc" or not case.told.get("glibc"):
        return Joined()
    wanted = version(case.told["glibc"])
    word = "older than" if facts.libc.version < wanted else "not older than"
    return Joined(because=(f"{facts.label} has glibc {facts.libc.version}, {word} the required {wanted}",))


def kernel_module(case: LogContext) -> Joined:
    """The driver's library against the loaded kernel module."""
    driver = case.facts.driver if case.facts else None
    if driver and driver.version and driver.kernel_module and driver.version != driver.kernel_module:
        return Joined(because=(f"the library is {driver.version}, the loaded module {driver.kernel_module}",))
    return Joined()


def version_in(text: str) -> Version | None:
    """A version; ``None`` where the text is none."""
    try:
        return version(text)
    except ValueError:
        return None


def _wheel_cuda(text: str) -> Version | None:
    _, mark, digits = text.partition("+cu")
    return version(f"{digits[:-1]}.{digits[-1]}") if mark and digits.isdigit() and 2 <= len(digits) <= 3 else None


def _by_runtime(prefix: Prefix) -> Version | None:
    """The CUDA minor of the runtime wheel beside a torch whose version does not tell its CUDA."""
    for name in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11"):
        wheel = prefix.wheel(name)
        found = version_in(wheel.version) if wheel else None
        if found:
            return version(f"{found.major}.{found.minor}")
    return None


JOINS: dict[str, Callable[[LogContext], Joined]] = {
    "cuda_available": cuda_available,
    "device_code": device_code,
    "driver_floor": driver_floor,
    "driver_level": driver_level,
    "glibc": glibc,
    "kernel_module": kernel_module,
    "no_driver": no_driver,
}
"""The joins of this module by the names that rows give; more lie in `on_host_run` and `on_host_build`."""
