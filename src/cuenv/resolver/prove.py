"""Prove: which candidates solve on the channels, why each better one does not, and which requested packages clash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeAlias

from cuenv.core.errors import ChannelError, Progress
from cuenv.core.findings import Finding, first_of
from cuenv.core.record import NamedTuple, replace
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.host.facts import HostFacts, virtual_packages
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.asked_cuda import cpu_builds_asked
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.compilers import locked_gcc_findings
from cuenv.resolver.compose import environment_of
from cuenv.resolver.conflicts import locked_conflicts
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.solution_policy import (
    cpu_finding,
    cuda_components,
    cuda_finding,
    lock_findings,
    possible_cpu_builds,
)
from cuenv.resolver.verdict import Context, and_list
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.io.records import cuda_builds
from cuenv.solve.io.solver import pins_without_record, solve
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Solution, SolveRequest, Unsatisfiable

Unread: TypeAlias = dict[tuple[tuple[str, ...], str], ChannelError]  # why channels cannot be read for a platform


class NoSolution(NamedTuple):
    """Why a candidate does not solve on the channels."""

    why: str
    tried: bool = True  # whether it took more than a look at the records of what is pinned


_NO_CANDIDATES = regex(r"[├└│─\s]*(.+?), for which no candidates were found")
_HIDDEN = regex(
    r"(?P<name>[a-z0-9_][a-z0-9._-]*) [^\n]*? is excluded because due to strict channel priority not using this option "
    r"from: '(?P<channel>[^']+)'"
)
"""The solver's words on a package that a channel listed before has in other releases."""
TRIES_AT_HAND = 8
"""Candidates that are put to the solver on records at hand: nobody asked for it, and so nobody waits for it."""


def solving(
    decision: Decision,
    name: str,
    sources: Sources,
    progress: Progress | None,
    *,
    limit: int | None = None,
    solves: int | None = None,
    unread: Unread | None = None,
) -> tuple[Decision, Solution | None]:
    """The decision from the best candidate on that solves on the channels, and its solution; `None` where none solves.

    The decision also says why each better candidate was skipped.

    Args:
        limit: how many may be tried; all when ``None``.
        solves: how many of them may be put to the solver, beyond a look whether the records are there.
        unread: is filled with the channels that cannot be read.
    """
    skipped: list[tuple[Candidate, str]] = []
    unread = {} if unread is None else unread
    clash = ""
    pairs = ((index, item) for index, fit in enumerate(decision.fitting) for item in decision.variants(fit))
    for index, item in islice(pairs, limit):
        if progress:
            progress(f"trying {item.candidate}")
        spec = environment_of(replace(decision, fitting=(item,)), name, header=False)
        answer = solve_candidate(item.candidate, spec, decision, sources, unread)
        if isinstance(answer, Solution):
            rest = (item, *decision.fitting[index + 1 :])
            return replace(decision, fitting=rest, skipped=tuple(skipped), proven=True), answer
        skipped.append((item.candidate, answer.why))
        if limit is None and solves is None and len(skipped) == 1:
            clash = _requested_clash(decision, name, sources)
            if clash:
                break
        solves = solves - 1 if solves is not None and answer.tried else solves
        if solves == 0:
            break
    return replace(decision, fitting=(), skipped=tuple(skipped), proven=True, clash=clash), None


def packages_in_the_way(
    context: Context, name: str, sources: Sources, progress: Progress | None = None, *, stack: str = ""
) -> tuple[str, ...]:
    """The requested packages without which the channels satisfy the rest of a request that they do not satisfy.

    Each package is added to those before it, and left out if no candidate solves with it.

    Args:
        stack: of the candidates that are tried; empty for all.
    """

    def solves(packages: tuple[str, ...]) -> bool:
        found = decide(replace(context, request=replace(context.request, packages=packages)))
        fitting = tuple(item for item in found.fitting if stack in ("", item.candidate.build.stack))
        tried = replace(found, fitting=fitting)
        return solving(tried, name, sources, progress, solves=TRIES_AT_HAND)[1] is not None

    kept: tuple[str, ...] = ()
    if not context.request.packages or not solves(kept):
        return ()
    for package in context.request.packages:
        kept += (package,) if solves((*kept, package)) else ()
    return tuple(item for item in context.request.packages if item not in kept)


def _requested_clash(decision: Decision, name: str, sources: Sources) -> str:
    """The requested packages that no channel has, or that cannot stand beside each other, whatever torch is chosen."""
    if not decision.context.request.packages:
        return ""
    facts = virtual_packages(decision.context.facts)
    lacking: list[set[str]] = []
    odd: tuple[Pin, ...] = ()
    for item in {fit.candidate.build.stack: fit for fit in reversed(decision.fitting)}.values():
        spec, asked = _requested_pins(decision, item, name)
        channels, platform = spec.channels, item.candidate.build.platform

        def solves(pins: tuple[Pin, ...], spec: EnvironmentSpec = spec, platform: str = platform) -> bool:
            alone = replace(spec, pins=pins)
            asked = SolveRequest(spec=alone, channels=spec.channels, platform=platform, virtual_packages=facts)
            return not isinstance(solve(asked, sources), Unsatisfiable)

        try:
            lacking.append({pin.yaml_text() for pin in pins_without_record(asked, channels, platform, sources)})
            if not lacking[-1] and solves(asked):
                return ""
            odd = odd or (() if lacking[-1] else _least(asked, solves))
        except ChannelError:
            continue  # of a label that cannot be read; another stack has other channels
    if lacking and all(lacking):
        return _channels_lack(sorted(set.intersection(*lacking) or lacking[0]), sources.as_of)
    together = " together" if len(odd) > 1 else ""
    return f"{and_list(pin.yaml_text() for pin in odd)} cannot be installed{together}" if odd else ""


def _requested_pins(decision: Decision, item: Assessment, name: str) -> tuple[EnvironmentSpec, tuple[Pin, ...]]:
    """The environment of a candidate, and what stands in it because of requested packages alone."""
    request = replace(decision.context.request, packages=(), pip=())
    bare = replace(decision, context=replace(decision.context, request=request), fitting=(item,))
    without = environment_of(bare, name, header=False)
    whole = environment_of(replace(decision, fitting=(item,)), name, header=False)
    return whole, tuple(pin for pin in whole.pins if pin not in without.pins)


def _least(asked: tuple[Pin, ...], solves: Callable[[tuple[Pin, ...]], bool]) -> tuple[Pin, ...]:
    """The least of some requirements that cannot be met together."""
    for pin in asked:
        rest = tuple(each for each in asked if each is not pin)
        asked = asked if solves(rest) else rest
    return asked


_SHOWN = 10


def _channels_lack(names: Sequence[str], as_of: str) -> str:
    return f"the channels{_on_day(as_of)} have no {first_of(names, _SHOWN)}"


def _on_day(as_of: str) -> str:
    return f" as of {as_of}" if as_of else ""


def solve_candidate(
    candidate: Candidate, spec: EnvironmentSpec, decision: Decision, sources: Sources, unread: Unread
) -> Solution | NoSolution:
    """The solution of a candidate on the channels, or why there is none.

    Args:
        unread: why channels could not be read for an earlier candidate: each try waits for the network, and is not
            made again.

    Raises:
        ChannelError: a channel cannot be read. A label that the channels lack is a reason, and no error.
    """
    platform = candidate.build.platform
    if (spec.channels, platform) in unread:
        return NoSolution(unread[spec.channels, platform].message)
    try:
        missing = pins_without_record(spec.pins, spec.channels, platform, sources)
        if missing:
            return NoSolution(_channels_lack([pin.yaml_text() for pin in missing], sources.as_of), tried=False)
        facts = virtual_packages(decision.context.facts)
        request = SolveRequest(spec=spec, channels=spec.channels, platform=platform, virtual_packages=facts)
        answer = solve(request, sources)
    except ChannelError as error:
        if "/label/" not in error.channel:
            raise
        unread[spec.channels, platform] = error
        return NoSolution(error.message)
    if isinstance(answer, Unsatisfiable):
        return NoSolution(_without_python(candidate, spec, sources) or unsatisfiable_text(answer, spec))
    refused = _refusal(answer, spec, decision, sources)
    return NoSolution(refused) if refused else answer


Offered: TypeAlias = dict[str, str] | None
"""CUDA builds that the channels have of packages that were chosen without CUDA; ``None`` without any CUDA."""


def cuda_offered(
    solution: Solution, spec: EnvironmentSpec, sources: Sources, knowledge: Knowledge
) -> Callable[[], Offered]:
    """What asks the channels for `Offered`; it may be called in a thread, and raises `ChannelError`."""
    if not cuda_components(solution.packages, knowledge):
        return lambda: None
    doubtful = tuple(possible_cpu_builds(solution.packages, knowledge))
    return lambda: cuda_builds(doubtful, spec.reached, solution.platform, sources)


def solved_findings(
    solution: Solution, spec: EnvironmentSpec, facts: HostFacts, offered: Offered, knowledge: Knowledge
) -> tuple[Finding, ...]:
    """What is wrong with the packages that were solved for an environment: a lock is refused for an error among them.

    Args:
        offered: what `cuda_offered` found.
    """
    of_cpu = cpu_builds_asked(spec)
    asked = {pin.name for pin in spec.pins} - of_cpu
    found = lock_findings(
        solution.packages, solution.platform, knowledge, offered, asked, ours=spec.ours, of_cpu=of_cpu
    )
    if "pytorch" in of_cpu:
        found += cuda_finding(solution.packages)  # the cpuonly of today does not bind a torch that is older than it
    elif facts.driver and spec.pin("pytorch"):
        found += cpu_finding(solution.packages, knowledge, of_cpu)  # a CPU torch was chosen silently on a GPU host
    return found


def _refusal(solution: Solution, spec: EnvironmentSpec, decision: Decision, sources: Sources) -> str | None:
    """Why the lock of a solution is refused; ``None`` where it is not."""
    knowledge = decision.context.knowledge
    offered = cuda_offered(solution, spec, sources, knowledge)()
    found = [
        *solved_findings(solution, spec, decision.context.facts, offered, knowledge),
        *locked_conflicts(solution.packages, (), knowledge),
        *locked_gcc_findings(solution.packages, knowledge),
    ]
    return next((item.message for item in found if item.severity == "error"), None)


def _without_python(candidate: Candidate, spec: EnvironmentSpec, sources: Sources) -> str | None:
    """Whether the build is there, but not for this Python: build strings name it (``py312``, ``py3.12``)."""
    pin = spec.pin("pytorch")
    if pin is None:
        return None
    ways = (candidate.python.replace(".", ""), candidate.python)
    builds = [f"{pin.build.rstrip('*')}*py{way}_*" for way in ways] + [f"py{candidate.python}_{pin.build}"]
    narrowed = [replace(pin, build=build) for build in builds]
    if len(pins_without_record(narrowed, spec.channels, candidate.build.platform, sources)) < len(narrowed):
        return None
    return f"the channels{_on_day(sources.as_of)} have no {pin.yaml_text()} for this Python"


def unsatisfiable_text(answer: Unsatisfiable, spec: EnvironmentSpec) -> str:
    """The solver's no in one line: what no record satisfies.

    A leaf on a package that the environment itself pins is a consequence of that pin, and no cause.
    """
    if answer.missing:
        return _channels_lack(answer.missing, answer.as_of)
    pinned = {pin.name for pin in spec.pins}
    leaves = dict.fromkeys(found[1].strip() for found in map(_NO_CANDIDATES.match, answer.text.splitlines()) if found)
    causes = [leaf for leaf in leaves if leaf.split(" ")[0] not in pinned]
    if causes:
        return f"the channels{_on_day(answer.as_of)} have no {', '.join(causes[:3])}"
    hidden = _HIDDEN.search(answer.text)
    if hidden:
        channel = short_channel(hidden["channel"])
        name = hidden["name"]
        return (
            f"a channel that is listed before {channel} has {name}, but no release of it that fits, and strict channel "
            f"priority takes it from there alone: list {channel} first, or add {channel}::{name}"
        )
    return "the solver cannot satisfy all requirements together"
