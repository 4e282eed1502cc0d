"""A host in words: for the head of a file, for a report, and as options for another machine."""

from __future__ import annotations

from cuenv.host.facts import HostFacts


def host_options(facts: HostFacts) -> tuple[str, ...]:
    """The options that describe a host on any other machine; a pool, whose drivers may differ, by its hosts."""
    if facts.members and all(member.detected for member in facts.members):
        hosts = [part for member in facts.members for part in ("--host", member.asked_as or member.label)]
        return (*hosts, *_overriding(facts.members[0]))
    options: list[str] = []
    for capability in facts.capabilities:
        options += ["--gpu", str(capability)]
    if facts.driver and facts.driver.version and facts.gpus:
        options += ["--driver", facts.driver.version]
    if facts.libc and facts.libc.family == "glibc":
        options += ["--glibc", str(facts.libc.version)]
    if facts.platform != "linux-64":
        options += ["--platform", facts.platform]
    return tuple(options)


def _overriding(member: HostFacts) -> list[str]:
    """The options that were given over the facts of recorded hosts: they hold for each of them."""
    driver = member.driver.version if member.driver else None
    libc = str(member.libc.version) if member.libc else None
    said = (
        ("driver.version", "--driver", driver),
        ("libc", "--glibc", libc),
        ("platform", "--platform", member.platform),
    )
    options: list[str] = []
    for fact, option, value in said:
        known = member.evidence_for(fact)
        options += [option, value] if known and value and known.source == f"override:{option}" else []
    return options


def host_line(facts: HostFacts) -> str:
    """A host in one line: its label, driver, GPUs."""
    driver = facts.driver
    if driver and driver.version:
        level = f" (speaks CUDA {driver.cuda})" if driver.cuda else ""
        text = f"driver {driver.version}{level}"
    elif driver and driver.cuda:
        text = f"a driver that speaks CUDA {driver.cuda}"
    else:
        text = "driver not known"
    return f"{facts.label}: {text}, {gpu_text(facts)}, {facts.platform}"


def gpu_text(facts: HostFacts) -> str:
    """The GPUs, equal ones counted: ``8 x A800-SXM4-80GB (8.0)``."""
    counts: dict[str, int] = {}
    for gpu in facts.gpus:
        name = gpu.name.removeprefix("NVIDIA ").removeprefix("GeForce ")
        capability = str(gpu.capability) if gpu.capability else "capability unknown"
        text = f"{name} ({capability})" if name and name != capability else f"GPU {capability}"
        counts[text] = counts.get(text, 0) + 1
    parts = [f"{count} x {text}" if count > 1 else text for text, count in counts.items()]
    return " + ".join(parts) if parts else "no NVIDIA GPU"
