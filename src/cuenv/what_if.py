"""What if: the host as it would be, and what lies between two decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from cuenv.candidates import Candidate
from cuenv.compose import DECIDED
from cuenv.decision import Decision
from cuenv.environment import EnvironmentSpec, Pin
from cuenv.facts import Driver, Evidence, Gpu, HostFacts
from cuenv.gpu_names import find_gpu
from cuenv.knowledge import Knowledge
from cuenv.pools import pool

_LAYERS = ("cudnn", "nccl")
"""Roles whose package has several names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What would be different about the host.

    Attributes:
        driver: the driver that every machine would have; ``None`` leaves them theirs.
        add: GPUs that come.
        remove: every GPU goes that has the name of one of these, or its capability where it has no name.
    """

    driver: Driver | None = None
    add: tuple[Gpu, ...] = ()
    remove: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Candidates with the same stack, torch and toolkit; ``count`` builds, labels and Pythons of it."""

    stack: str
    pytorch: str
    cuda: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A version that the environment file asks for only before, or only after.

    Attributes:
        before, after: as ``libcudnn<9.11``; ``None`` where the file asks for no version of it.
        why: the reasons of the pin that holds a version, the later where both do.
    """

    before: str | None
    after: str | None
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Two decisions and what lies between them.

    Attributes:
        appear, vanish: candidates that fit only after, or only before; the best first.
        bounds: what moves in the environment file beside the choice itself.
    """

    before: Decision
    after: Decision
    appear: tuple[Group, ...]
    vanish: tuple[Group, ...]
    bounds: tuple[Bound, ...] = ()


def changed(facts: HostFacts, change: Change, knowledge: Knowledge) -> HostFacts:
    """The host as it would be.

    In a pool every machine gets the driver and loses the GPUs that go, and is none when it has no GPU left; a GPU that
    is added comes in a machine of its own, with the pool's driver and C library.

    Raises:
        ValueError: a GPU that goes is not there.
    """
    for gone in change.remove:
        if not any(_is(gpu, gone, knowledge) for gpu in facts.gpus):
            have = ", ".join(str(item) for item in facts.capabilities) or "no GPU"
            raise ValueError(f"{gone.name or gone.capability} is not there: the host has {have}")
    machines = [_machine(item, change, knowledge) for item in facts.machines]
    if not facts.members:
        return _with(machines[0], change.add)
    left = [item for item in machines if item.gpus]
    if change.add:
        bare = HostFacts(label="the added machine", platform=facts.platform, libc=facts.libc, kernel=facts.kernel)
        left.append(_with(replace(bare, driver=change.driver or facts.driver), change.add))
    return pool(left or machines)


def _machine(facts: HostFacts, change: Change, knowledge: Knowledge) -> HostFacts:
    evidence = facts.evidence
    if change.driver:
        what = ("driver.version", "driver.cuda")
        evidence = tuple(item for item in evidence if item.fact not in what)
        evidence += tuple(Evidence(fact, "what-if:--driver", change.driver.version or "") for fact in what)
    gpus = [gpu for gpu in facts.gpus if not any(_is(gpu, gone, knowledge) for gone in change.remove)]
    detected = facts.detected and len(gpus) == len(facts.gpus) and not change.driver
    return replace(
        facts,
        gpus=tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus)),
        driver=change.driver or facts.driver,
        evidence=evidence,
        detected=detected,
    )


def _with(facts: HostFacts, gpus: tuple[Gpu, ...]) -> HostFacts:
    if not gpus:
        return facts
    every = tuple(replace(gpu, index=index) for index, gpu in enumerate((*facts.gpus, *gpus)))
    return replace(facts, gpus=every, detected=False)


def _is(gpu: Gpu, wanted: Gpu, knowledge: Knowledge) -> bool:
    """Whether a GPU is the one that is meant: by product where both have a name, else by capability."""
    if not (gpu.name and wanted.name):
        return gpu.capability == wanted.capability
    row = find_gpu(gpu.name, knowledge.gpus)
    return wanted.name in (gpu.name, row.name if row else None)


def difference(before: Decision, after: Decision) -> WhatIf:
    """What lies between two decisions: the candidates that only one of them has, counted by stack, torch and CUDA."""
    had, has = ({key(item.candidate): item.candidate for item in one.fitting} for one in (before, after))
    return WhatIf(
        before=before,
        after=after,
        appear=_groups(item for name, item in has.items() if name not in had),
        vanish=_groups(item for name, item in had.items() if name not in has),
    )


def bounds(before: EnvironmentSpec, after: EnvironmentSpec) -> tuple[Bound, ...]:
    """The versions that move between two environments, apart from those that are the choice itself.

    A layer is one thing under any package name; of the rest, what only one of them asks for is not compared.
    """
    had, has = ({_slot(pin): pin for pin in spec.pins if pin.name not in DECIDED} for spec in (before, after))
    found = []
    for slot in dict.fromkeys([*had, *has]):
        old, new = had.get(slot), has.get(slot)
        if slot not in _LAYERS and not (old and new):
            continue
        if (old.version if old else "") != (new.version if new else ""):
            reasons = next(pin.why for pin in (new, old) if pin and pin.version)
            found.append(Bound(_told(old), _told(new), reasons))
    return tuple(found)


def _slot(pin: Pin) -> str:
    return pin.role if pin.role in _LAYERS else pin.name


def _told(pin: Pin | None) -> str | None:
    return Pin(name=pin.name, version=pin.version).yaml_text() if pin and pin.version else None


def key(candidate: Candidate) -> tuple[object, ...]:
    """What makes two candidates the same environment on any platform."""
    build, label = candidate.build, candidate.label
    return (build.stack, build.version, build.build, candidate.cuda, candidate.python, label.label if label else None)


def _groups(candidates: Iterable[Candidate]) -> tuple[Group, ...]:
    """Groups in the order of the preference: that with the best candidate comes first."""
    counts = Counter(
        (item.build.stack, str(item.build.version), str(item.cuda) if item.cuda else None) for item in candidates
    )
    return tuple(Group(stack, pytorch, cuda, count) for (stack, pytorch, cuda), count in counts.items())
