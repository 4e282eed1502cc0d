"""Fleets for tests: made of real machines, that is of GPUs, drivers and C libraries as they stand together."""

from __future__ import annotations

import random
from functools import cache

import cuenv
from cuenv.core.record import replace
from cuenv.fleet.nodes import FleetNode
from cuenv.host.facts import HostFacts
from cuenv.host.host_json import dump
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.io.load import load

GPUS = (
    *("GTX 1080 Ti", "V100", "T4", "A100", "RTX 3090", "RTX 4090", "L40S", "H100", "B200", "RTX 5090"),
    *("V100,A100", "T4,V100", "A100,H100", "V100,RTX 5090", "GTX 1080 Ti,RTX 5090"),
)
DRIVERS = (
    *("450.80.02", "470.129.06", "510.47.03", "525.60.13", "535.129.03", "550.54.15", "560.35.03", "570.133.20"),
    *("575.57.08", "580.65.06", "590.48.01"),
)
LIBCS = ("2.12", "2.17", "2.28", "2.31", "2.35", "2.39")


@cache
def tables() -> Knowledge:
    """The tables that ship."""
    return load(None)


@cache
def host(gpus: str, driver: str, libc: str = "2.31", platform: str = "linux-64") -> HostFacts:
    """A host of GPUs with commas between their names."""
    return cuenv.make_host(*gpus.split(","), driver=driver, glibc=libc, platform=platform)


def fleet(chance: random.Random, size: int) -> list[FleetNode]:
    """Machines at random."""
    picked = [(chance.choice(GPUS), chance.choice(DRIVERS), chance.choice(LIBCS)) for _ in range(size)]
    return [FleetNode(f"n{at:03d}", host(*one)) for at, one in enumerate(picked)]


def written(nodes: list[FleetNode]) -> str:
    """A fleet as a file."""
    return "".join(f"{dump(replace(facts, name=name), compact=True).strip()}\n" for name, facts in nodes)


NODES = [
    *(FleetNode(f"old{at:02d}", host("A100", "470.129.06")) for at in range(1, 5)),
    *(FleetNode(f"gpu{at:02d}", host("A100", "535.129.03")) for at in range(1, 13)),
    *(FleetNode(f"b{at}", host("B200", "580.65.06", "2.39")) for at in range(1, 3)),
]
"""Twelve and four nodes with A100 under two drivers, and two with B200."""
