"""What a team wants: a profile read from a file, options laid over it, and the request that comes of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cuenv.core.errors import UsageError
from cuenv.core.reading import Faults, Reader, describe
from cuenv.core.record import dataclass, replace
from cuenv.core.versions import VersionSpec, check_driver, driver_key, parse_version_spec
from cuenv.host.facts import Driver, Evidence, HostFacts, Libc, kernel_number
from cuenv.knowledge.rows import EVERY_STACK

PREFER = ("newest", "native")
OFFLOAD = ("cpu", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an environment should contain."""

    name: str = "cuenv"  # of the profile, and of the environment unless another is asked for
    story: str = ""  # where the profile comes from, for people
    stack: str | None = None  # where CUDA components come from; ``None`` lets cuenv choose
    # pytorch, cuda, python: version specs; ``None`` where any version will do
    pytorch: VersionSpec | None = None
    cuda: VersionSpec | None = None
    python: VersionSpec | None = None
    gpus: tuple[str, ...] = ()  # GPU names or capabilities that the environment must serve, whatever machine asks
    lowest_driver: str | None = None  # the oldest driver of the team
    dev: bool = True  # compiler and headers for extensions that are built on first use
    packages: tuple[str, ...] = ()  # further conda specs; ``pip``: requirements for the pip part
    pip: tuple[str, ...] = ()
    cpu: bool = False  # a CPU build, only ever when asked for
    as_of: str = ""  # the day ``YYYY-MM-DD`` (UTC) on which every build must have existed; empty for today
    prefer: str = "newest"  # ``newest`` torch first, or ``native``: a toolkit within the driver's CUDA version first
    offload: str = "none"  # ``cpu`` when training moves parameters or optimizer states to host memory, else ``none``
    host_memory_gb: int = 0  # memory that the machine should have, in units of 10^9 bytes. 0 for nothing stated
    disk_gb: int = 0  # disk that should be free where the command is started, in the same units
    # the profile that options were laid over, and how ``--profile`` names it; ``None`` without one
    origin: tuple[str, Request] | None = None


def parse(data: Any, source: str, path: str = "") -> Request:
    """Read a profile from decoded YAML or TOML.

    Args:
        source: the file, for errors.
        path: where the profile stands in it, such as ``tool.cuenv.profiles.lab``; empty for the whole file.

    Raises:
        InputError: with every fault in it and its path.
    """
    faults = Faults(source)
    reader = Reader(data, faults, path)
    dev = reader.get("dev", bool)
    profile = Request(
        name=reader.text("name"),
        story=reader.text("story"),
        stack=reader.parsed("stack", one_of(*EVERY_STACK)),
        pytorch=reader.parsed("pytorch", lambda text: _spec(text, "pytorch")),
        cuda=reader.parsed("cuda", lambda text: _spec(text, "cuda")),
        python=reader.parsed("python", lambda text: _spec(text, "python")),
        gpus=reader.texts("gpus"),
        lowest_driver=reader.parsed("lowest_driver", check_driver),
        dev=True if dev is None else dev,
        packages=reader.texts("with"),
        pip=reader.texts("pip"),
        prefer=reader.parsed("prefer", one_of(*PREFER)) or "newest",
        offload=reader.parsed("offload", one_of(*OFFLOAD)) or "none",
        host_memory_gb=reader.get("host_memory_gb", int) or 0,
        disk_gb=reader.get("disk_gb", int) or 0,
    )
    reader.done()
    if profile.lowest_driver and not profile.gpus:
        faults.add(reader.at("lowest_driver"), "a driver needs gpus; add the gpus of the host")
    for key, value in (("host_memory_gb", profile.host_memory_gb), ("disk_gb", profile.disk_gb)):
        if value < 0:
            faults.add(reader.at(key), f"expected a number of GB, got {value}")
    faults.check(hint="cuenv profile new NAME shows every key of a profile; a version needs quotes: python: '3.12'")
    return profile


def one_of(*allowed: str) -> Callable[[str], str]:
    """The reader of a text that must be one of these."""

    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}, got {describe(text)}")
        return text

    return read


def _spec(text: str, what: str) -> VersionSpec:
    try:
        return parse_version_spec(text, what=what)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error


def pool(hosts: Iterable[HostFacts]) -> HostFacts:
    """Several machines as one: the lowest driver, the lowest C library, all GPUs, and which machine limits each.

    The evidence of each merged fact names the host that decides it. Merging is associative, commutative and
    idempotent up to the order of GPUs with equal capabilities.

    Args:
        hosts: at least one machine; pools among them are opened.

    Raises:
        ValueError: they do not share one platform, or there is none.
    """
    members = tuple(dict.fromkeys(member for host in hosts for member in host.machines))
    if not members:
        raise ValueError("a pool needs at least one host")
    if len(members) == 1:
        return members[0]
    platforms = sorted({member.platform for member in members})
    if len(platforms) > 1:
        names = ", ".join(f"{member.label} is {member.platform}" for member in members)
        raise ValueError(f"one environment is for one platform, but {names}")
    ordered = tuple(sorted(members, key=lambda member: member.label))
    evidence: list[Evidence] = []
    driver = _lowest_driver(ordered, evidence)
    libc = _lowest_libc(ordered, evidence)
    kernels = sorted((member.kernel for member in ordered if member.kernel), key=_kernel_key)
    gpus = [gpu for member in ordered for gpu in member.gpus]
    gaps = (replace(gap, source=f"{member.label}: {gap.source}") for member in ordered for gap in member.gaps)
    return HostFacts(
        label=f"pool of {len(ordered)} hosts",
        platform=platforms[0],
        driver=driver,
        gpus=tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus)),
        libc=libc,
        kernel=kernels[0] if kernels else None,
        evidence=tuple(evidence),
        gaps=tuple(gaps),
        members=ordered,
    )


def _lowest_driver(members: tuple[HostFacts, ...], evidence: list[Evidence]) -> Driver | None:
    have = [(member, member.driver) for member in members if member.driver]
    versions = [(driver_key(driver.version), member, driver) for member, driver in have if driver.version]
    levels = [(driver.cuda, member) for member, driver in have if driver.cuda]
    lowest = min(versions, key=lambda item: item[0], default=None)
    level = min(levels, key=lambda item: item[0], default=None)
    text = lowest[2].version if lowest else None
    if lowest and text:
        evidence.append(Evidence("driver.version", lowest[1].label, f"lowest driver of the pool: {text}"))
    if level:
        evidence.append(
            Evidence(
                "driver.cuda", level[1].label, f"lowest CUDA version that a driver of the pool supports: {level[0]}"
            )
        )
    return Driver(version=text, cuda=level[0] if level else None) if lowest or level else None


def _lowest_libc(members: tuple[HostFacts, ...], evidence: list[Evidence]) -> Libc | None:
    have = [(member.libc, member) for member in members if member.libc]
    if not have:
        return None
    libc, member = min(have, key=lambda item: item[0].version)
    evidence.append(Evidence("libc", member.label, f"lowest C library of the pool: {libc.family} {libc.version}"))
    return libc


def _kernel_key(text: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in kernel_number(text).split("."))
