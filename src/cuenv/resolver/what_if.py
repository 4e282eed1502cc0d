"""What another host would change: the host as it would be, both decisions, and the difference between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cuenv.core.errors import UsageError
from cuenv.core.findings import counted
from cuenv.core.record import dataclass, replace
from cuenv.host.describe import host_line
from cuenv.host.facts import Driver, Evidence, Gpu, HostFacts
from cuenv.host.request import Request, pool
from cuenv.host.select import HostOptions, host_facts, named_gpus
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.gpu_names import find_gpu
from cuenv.resolver.candidates import Candidate, environment_key
from cuenv.resolver.compose import DECIDED
from cuenv.resolver.decision import Decision
from cuenv.resolver.decision_json import resolution_plain
from cuenv.resolver.explain import chosen_line, minimum_text, support_lines
from cuenv.resolver.resolve import Resolution, decide_with_wheels, resolve
from cuenv.solve.environment_spec import EnvironmentSpec, Pin

if TYPE_CHECKING:  # types alone
    from cuenv.resolver.documents import CandidateGroup, WhatIfDocument
    from cuenv.solve.io.local_records import LocalRecords
    from cuenv.solve.io.sources import Sources

_LAYERS = ("cudnn", "nccl")  # roles whose package has several names


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionChange:
    """What would be different about the host."""

    driver: Driver | None = None  # the driver that every machine would have; ``None`` leaves them theirs
    add: tuple[Gpu, ...] = ()  # GPUs that come
    # every GPU goes that has the name of one of these, or its capability where it has no name
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
    """A version that the environment file asks for only before, or only after."""

    # before, after: as ``libcudnn<9.11``; ``None`` where the file asks for no version of it
    before: str | None
    after: str | None
    why: tuple[str, ...]  # the reasons of the pin that holds a version, the later where both do


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """What a host gets before and after a change, and the difference."""

    before: Resolution
    after: Resolution
    # appear, vanish: candidates that fit only after, or only before; the best first
    appear: tuple[Group, ...]
    vanish: tuple[Group, ...]
    bounds: tuple[Bound, ...]  # what moves in the environment file beside the choice itself


def changed(facts: HostFacts, change: DecisionChange, knowledge: Knowledge) -> HostFacts:
    """The host as it would be.

    In a pool every machine gets the driver and loses the GPUs that go, and is none when it has no GPU left; a GPU that
    is added comes in a machine of its own, with the pool's driver and C library.

    Raises:
        ValueError: a GPU that goes is not there.
    """
    for gone in change.remove:
        if not any(_is(gpu, gone, knowledge) for gpu in facts.gpus):
            have = ", ".join(str(item) for item in facts.capabilities) or "no GPU"
            raise ValueError(f"the host has no {gone.name or gone.capability}; it has {have}")
    machines = [_machine(item, change, knowledge) for item in facts.machines]
    if not facts.members:
        return _with(machines[0], change.add)
    left = [item for item in machines if item.gpus]
    if change.add:
        bare = HostFacts(label="the added machine", platform=facts.platform, libc=facts.libc, kernel=facts.kernel)
        left.append(_with(replace(bare, driver=change.driver or facts.driver), change.add))
    return pool(left or machines)


def _machine(facts: HostFacts, change: DecisionChange, knowledge: Knowledge) -> HostFacts:
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


def difference(before: Decision, after: Decision) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """The candidates that fit only after, and those that fit only before, counted by stack, torch and CUDA.

    One that the channels were found to lack fits by the tables, and does not come or go with the host.
    """
    had, has = ({environment_key(item.candidate): item.candidate for item in one.fitting} for one in (before, after))
    lost, lack = ({environment_key(candidate) for candidate, _ in one.skipped} for one in (before, after))
    return (
        _groups(item for name, item in has.items() if name not in had and name not in lost),
        _groups(item for name, item in had.items() if name not in has and name not in lack),
    )


def bounds(before: EnvironmentSpec, after: EnvironmentSpec) -> tuple[Bound, ...]:
    """The versions that move between two environments, apart from those that are the choice itself.

    A layer is one thing under any package name; of the rest, what only one of them asks for is not compared.
    """
    had, has = (
        {pin.role if pin.role in _LAYERS else pin.name: pin for pin in spec.pins if pin.name not in DECIDED}
        for spec in (before, after)
    )
    found = []
    for slot in dict.fromkeys([*had, *has]):
        old, new = had.get(slot), has.get(slot)
        if slot not in _LAYERS and not (old and new):
            continue
        if (old.version if old else "") != (new.version if new else ""):
            reasons = next(pin.why for pin in (new, old) if pin and pin.version)
            found.append(Bound(_spec_text(old), _spec_text(new), reasons))
    return tuple(found)


def _spec_text(pin: Pin | None) -> str | None:
    return Pin(name=pin.name, version=pin.version).yaml_text() if pin and pin.version else None


def _groups(candidates: Iterable[Candidate]) -> tuple[Group, ...]:
    """Groups in the order of the preference: that with the best candidate comes first."""
    counts = Counter(
        (item.build.stack, str(item.build.version), str(item.cuda) if item.cuda else None) for item in candidates
    )
    return tuple(Group(stack, pytorch, cuda, count) for (stack, pytorch, cuda), count in counts.items())


_BRANCH_DIGITS = 4  # a driver of at most so many digits and no dot is a branch


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """The change as it was typed."""

    driver: str | None = None  # a driver, or a branch such as 580, which means its first driver
    # add, remove: GPUs by product name or capability
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


def what_if(
    facts: HostFacts,
    options: ChangeOptions,
    request: Request,
    knowledge: Knowledge,
    *,
    prove: Sources | None = None,
    local_records: LocalRecords | None = None,
) -> WhatIf:
    """Resolve for a host and for the same host changed.

    Args:
        prove: where to read channels, as in `resolve`.
        local_records: channel records that lie here already, as in `resolve`.

    Raises:
        UsageError: nothing changes, a GPU that goes is not there, or a text names no GPU or driver.
    """
    if not (options.driver or options.add or options.remove):
        raise UsageError("what-if needs a change of the host", hint="cuenv what-if --driver 580.65.06")
    change = DecisionChange(
        driver=_driver(options.driver, knowledge),
        add=named_gpus("--add-gpu", options.add, knowledge),
        remove=named_gpus("--remove-gpu", options.remove, knowledge),
    )
    try:
        then = changed(facts, change, knowledge)
    except ValueError as error:
        own = f"name one that it has: --remove-gpu {facts.capabilities[0]}" if facts.capabilities else "cuenv inspect"
        raise UsageError(f"--remove-gpu: {error}", hint=own) from error
    before, after = (
        resolve(item, request, knowledge, prove=prove, local_records=local_records) for item in (facts, then)
    )
    had, has = before.decision, after.decision
    if had.proven != has.proven:  # the records that lie here tell of one alone: compared is what the tables say of both
        had, has = (decide_with_wheels(replace(item.context, proving=True)) for item in (had, has))
    appear, vanish = difference(had, has)
    moved = bounds(before.spec, after.spec) if before.spec and after.spec else ()
    return WhatIf(before=before, after=after, appear=appear, vanish=vanish, bounds=moved)


def _driver(text: str | None, knowledge: Knowledge) -> Driver | None:
    """A driver as ``--driver`` reads it."""
    if text is None:
        return None
    branch = text.strip()
    if branch.isascii() and branch.isdigit() and len(branch) <= _BRANCH_DIGITS:
        text = knowledge.first_driver(int(branch))
    return host_facts(HostOptions(gpus=("8.0",), driver=text, environ={}), knowledge).driver


_SHOWN = 8


def plain(answer: WhatIf) -> WhatIfDocument:
    """The answer as plain data, with both decisions whole."""
    return {
        "schema": "cuenv/what-if/1",
        "before": {
            "host": host_line(answer.before.decision.context.facts),
            "decision": resolution_plain(answer.before),
        },
        "after": {"host": host_line(answer.after.decision.context.facts), "decision": resolution_plain(answer.after)},
        "appear": [_group(item) for item in answer.appear],
        "vanish": [_group(item) for item in answer.vanish],
        "bounds": [{"before": item.before, "after": item.after, "why": list(item.why)} for item in answer.bounds],
    }


def _group(group: Group) -> CandidateGroup:
    return {"stack": group.stack, "pytorch": group.pytorch, "cuda": group.cuda, "candidates": group.count}


def lines(answer: WhatIf, *, verbose: bool = False) -> list[str]:
    """The answer for a terminal: both choices, and what appears and disappears."""
    found: list[str] = []
    for word, decision in (("before", answer.before.decision), ("after", answer.after.decision)):
        found.append(f"{word:7} {host_line(decision.context.facts)}")
        found.append(f"        {chosen_line(decision)}")
        found += [f"        {line}" for line in support_lines(decision)]
        if decision.minimum_driver:
            found.append(f"        minimum driver: {minimum_text(decision)}")
        if decision.chosen is None:
            found += [f"        {group.count} rejected: {group.because}" for group in decision.rejections[:3]]
    if not answer.appear and not answer.vanish:
        found.append("same    the change neither adds nor removes a candidate")
    found += _listed("new     only after the change: {}", answer.appear, verbose=verbose)
    found += _listed("gone    after the change: {}", answer.vanish, verbose=verbose)
    found += [f"bound   {_moved(item)}" for item in answer.bounds]
    return found


def _moved(bound: Bound) -> str:
    """What becomes of a bound, and why there is or was one."""
    why = "; ".join(bound.why)
    if bound.before is None:
        return f"{bound.after} is added: {why}"
    if bound.after is None:
        return f"{bound.before} is removed: {why}"
    return f"{bound.before} becomes {bound.after}: {why}"


def _listed(title: str, groups: Iterable[Group], *, verbose: bool) -> list[str]:
    every = tuple(groups)
    shown = every if verbose else every[:_SHOWN]
    found = [title.format(counted(sum(item.count for item in every), "candidate"))] if every else []
    for item in shown:
        several = f": {item.count} candidates" if item.count > 1 else ""
        cuda = f"CUDA {item.cuda}" if item.cuda else "CPU"
        found.append(f"        pytorch {item.pytorch} with {cuda} ({item.stack}){several}")
    if len(every) > len(shown):
        found.append(f"        and {sum(item.count for item in every[len(shown) :])} more (-v lists all)")
    return found
