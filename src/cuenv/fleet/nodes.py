"""The nodes of a fleet: folded names, missing facts, and groups of nodes that no rule distinguishes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cuenv.core.record import NamedTuple, replace
from cuenv.core.regex import regex
from cuenv.core.versions import driver_key
from cuenv.host.facts import Driver, Gpu, HostFacts, Libc, Surroundings
from cuenv.resolver.resolve import facts_for_decision

_NAME = regex(r"([^.]*?)([0-9]+)([^0-9.]*(?:\..*)?)")
"""A name before and behind the last number of its first part: of ``gpu07.rack2`` it is 07."""
_DIGITS = 15


class FleetNode(NamedTuple):
    """A host of a fleet with its name."""

    name: str
    facts: HostFacts


class Unknown(NamedTuple):
    """Nodes that lack facts, so that they get no environment."""

    names: tuple[str, ...]
    lacks: tuple[str, ...]


class NodeKind(NamedTuple):
    """Nodes that no rule distinguishes."""

    facts: HostFacts  # what the rules see of each of them, and nothing else
    names: tuple[str, ...]

    @property
    def weight(self) -> int:
        """The number of nodes."""
        return len(self.names)

    @property
    def says(self) -> str:
        """Their GPUs, driver and C library in a few words."""
        return host_summary(self.facts)


def host_summary(facts: HostFacts) -> str:
    """The GPUs, the driver and the C library of a host in a few words: ``A100, driver 470.129.06, glibc 2.31``."""
    names = dict.fromkeys(gpu.name.removeprefix("NVIDIA ") or f"GPU {gpu.capability}" for gpu in facts.gpus)
    driver, parts = facts.driver, [" + ".join(names) or "no GPU"]
    if driver:
        parts.append(f"driver {driver.version}" if driver.version else f"driver for CUDA {driver.cuda}")
    parts += [f"{facts.libc.family} {facts.libc.version}"] if facts.libc else []
    parts += [facts.platform] if facts.platform != "linux-64" else []
    return ", ".join(parts)


def fold(names: Iterable[str]) -> str:
    """Names of nodes in the notation of Slurm and ClusterShell: ``gpu[001-012,014],login``."""
    plain: set[str] = set()
    numbered: dict[tuple[str, str], set[str]] = {}
    for name in names:
        parts = _NAME.fullmatch(name)
        if parts and len(parts[2]) <= _DIGITS:
            numbered.setdefault((parts[1], parts[3]), set()).add(parts[2])
        else:
            plain.add(name)
    for (prefix, suffix), digits in numbered.items():
        padded = any(text.startswith("0") and len(text) > 1 for text in digits)
        for width in sorted({len(text) for text in digits}) if padded else (0,):
            found = _ranges((int(text) for text in digits if not padded or len(text) == width), width)
            some = f"[{','.join(found)}]" if len(found) > 1 or "-" in found[0] else found[0]
            plain.add(f"{prefix}{some}{suffix}")
    return ",".join(sorted(plain))


def _ranges(numbers: Iterable[int], width: int) -> list[str]:
    out: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if out and out[-1][1] == number - 1:
            out[-1] = out[-1][0], number
        else:
            out.append((number, number))
    return [f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}" for first, last in out]


def unique_nodes(hosts: Iterable[HostFacts]) -> tuple[tuple[FleetNode, ...], tuple[str, ...]]:
    """The hosts with unique names.

    Returns:
        The nodes, and what is wrong: nodes that are told of twice with other facts, which are left out.
    """
    found: dict[str, HostFacts] = {}
    odd: dict[str, str] = {}
    for facts in (machine for host in hosts for machine in host.machines):
        name = facts.name or facts.label
        before = found.setdefault(name, facts)
        if before is not facts and _key(before) != _key(facts):
            odd.setdefault(name, f"{name} is told of twice: {host_summary(before)}; {host_summary(facts)}")
    nodes = tuple(FleetNode(name, facts) for name, facts in found.items() if name not in odd)
    return nodes, tuple(odd[name] for name in sorted(odd))


def with_assumed_glibc(nodes: Iterable[FleetNode], libc: Libc | None) -> Iterator[FleetNode]:
    """The nodes, with an assumed glibc for those whose C library is unknown."""
    for node in nodes:
        lacking = libc is not None and node.facts.libc is None
        yield node._replace(facts=replace(node.facts, libc=libc)) if lacking else node


def missing_facts(facts: HostFacts) -> tuple[str, ...]:
    """The facts of a host that are missing for a decision."""
    found = []
    if not facts.gpus and any(gap.fact == "gpus" for gap in facts.gaps):
        found.append("GPUs")
    if any(gpu.capability is None for gpu in facts.gpus):
        found.append("compute capability")
    if facts.gpus and (facts.driver is None or facts.driver.version is None):
        found.append("driver")
    if facts.libc is None:
        found.append("glibc")
    return tuple(found)


def nodes_without_facts(nodes: Iterable[FleetNode]) -> tuple[Unknown, ...]:
    """The nodes that lack facts, grouped by the missing facts."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, facts in nodes:
        lacks = missing_facts(facts)
        if lacks:
            found.setdefault(lacks, []).append(name)
    return tuple(Unknown(tuple(sorted(names)), lacks) for lacks, names in sorted(found.items()))


def kinds(nodes: Iterable[FleetNode]) -> tuple[NodeKind, ...]:
    """The nodes without missing facts, grouped by what the rules read of them, in a fixed order."""
    found: dict[tuple[object, ...], tuple[HostFacts, list[str]]] = {}
    for name, facts in nodes:
        if missing_facts(facts):
            continue
        key = _key(facts)
        if key not in found:
            found[key] = _rule_view(facts), []
        found[key][1].append(name)
    made = [NodeKind(replace(facts, label=min(names)), tuple(sorted(names))) for facts, names in found.values()]
    return tuple(sorted(made, key=lambda kind: (_order(kind.facts), kind.names)))


def _key(facts: HostFacts) -> tuple[object, ...]:
    """What the rules read of a node, as a key."""
    driver, libc = facts.driver, facts.libc
    return (
        facts.platform,
        tuple(sorted({(gpu.name, gpu.capability or (0, 0)) for gpu in facts.gpus})),
        (driver.version, driver.cuda) if driver else None,
        (libc.family, libc.version) if libc else None,
        facts.environment.wsl,
    )


def _rule_view(facts: HostFacts) -> HostFacts:
    """What the rules see of a node of a fleet.

    It is no machine that works alone: nodes with one GPU each use NCCL together. What a search path of today brings
    its programs, such as a forward-compatibility libcuda, is no property of the node.
    """
    distinct = {(gpu.name, gpu.capability): gpu for gpu in facts.gpus}
    ordered = sorted(distinct.values(), key=lambda gpu: (gpu.capability or (0, 0), gpu.name))
    driver = facts.driver
    bare = HostFacts(
        label="",
        platform=facts.platform,
        driver=Driver(version=driver.version, cuda=driver.cuda) if driver else None,
        gpus=tuple(Gpu(index=at, name=gpu.name, capability=gpu.capability) for at, gpu in enumerate(ordered)),
        libc=facts.libc,
        environment=Surroundings(wsl=facts.environment.wsl),
    )
    return facts_for_decision(bare)


def _order(facts: HostFacts) -> tuple[object, ...]:
    """The key by which kinds of hosts are sorted."""
    driver, libc = facts.driver, facts.libc
    return (
        facts.platform,
        facts.capabilities,
        driver_key(driver.version) if driver and driver.version else (),
        libc.version.release if libc else (),
        [gpu.name for gpu in facts.gpus],
        facts.environment.wsl,
    )
