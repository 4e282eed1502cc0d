"""Several machines as one: the pool that a team's one environment must serve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cuenv.core.versions import driver_key
from cuenv.host.facts import Driver, Evidence, HostFacts, Libc, kernel_number


def pool(hosts: Iterable[HostFacts]) -> HostFacts:
    """Several machines as one: lowest driver, lowest C library, union of GPUs, and who cuts.

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
        raise ValueError(f"one environment serves one platform, but {names}")
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
        evidence.append(Evidence("driver.cuda", level[1].label, f"lowest CUDA level of the pool: {level[0]}"))
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
