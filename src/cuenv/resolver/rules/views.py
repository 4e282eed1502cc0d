"""What of a host the outcome of a rule, or the key of a criterion, depends on: hosts that look alike are judged once.

A view leaves out what only the words of a verdict name: labels, evidence, names of GPUs. ``tests/test_choosing.py``
holds views to the rules: what the views fold, the rules must judge alike.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

from cuenv.host.facts import HostFacts

View: TypeAlias = Callable[[HostFacts], Hashable]


def nothing(_: HostFacts) -> Hashable:
    """It depends on the wishes and the tables alone."""
    return None


def platform(facts: HostFacts) -> Hashable:
    """The conda platform."""
    return facts.platform


def presence(facts: HostFacts) -> Hashable:
    """Whether each machine has GPUs, of capabilities that are known; whether only options speak of a driver."""
    bare = any(not machine.gpus for machine in facts.machines)
    blind = any(gpu.capability is None for gpu in facts.gpus)
    return bool(facts.gpus), facts.driver is None, facts.detected, bare, blind


def capabilities(facts: HostFacts) -> Hashable:
    """The distinct capabilities of all GPUs."""
    return facts.capabilities


def joined(facts: HostFacts) -> Hashable:
    """The distinct capabilities of all GPUs, and whether there is only one."""
    return facts.capabilities, alone(facts)


def alone(facts: HostFacts) -> bool:
    """Whether the machine was looked at and has one GPU; options name kinds of GPUs, and not how many."""
    return facts.detected and len(facts.gpus) == 1


def level(facts: HostFacts) -> Hashable:
    """The CUDA release that the driver speaks."""
    return facts.driver.cuda if facts.driver else None


def drivers(facts: HostFacts) -> Hashable:
    """The driver of each machine."""
    return frozenset(_driver(machine) for machine in facts.machines)


def driven(facts: HostFacts) -> Hashable:
    """The driver of each machine, with the capabilities that it has to drive."""
    return frozenset(
        (_driver(machine), frozenset(gpu.capability for gpu in machine.gpus)) for machine in facts.machines
    )


def served(facts: HostFacts) -> Hashable:
    """The CUDA release that the driver of each machine speaks, with the capabilities to compile for."""
    return frozenset((level(machine), machine.capabilities) for machine in facts.machines)


def libraries(facts: HostFacts) -> Hashable:
    """The C library of each machine."""
    return frozenset(
        (machine.libc.family, machine.libc.version) if machine.libc else None for machine in facts.machines
    )


def _driver(machine: HostFacts) -> Hashable:
    return (machine.driver.version, machine.driver.cuda) if machine.driver else None
