"""Nearby: the best environment that solves where the requested one does not."""

from __future__ import annotations

from contextlib import suppress

from cuenv.core.errors import ChannelError, NoChannelError, OutsideError, Progress, UsageError
from cuenv.core.record import dataclass, replace
from cuenv.core.urls import short_channel
from cuenv.host.facts import HostFacts, virtual_packages
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.repair.intent import intent_of
from cuenv.resolver.asked_cuda import asks_for_cpu
from cuenv.resolver.compose import environment_of
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.explain import request_options
from cuenv.resolver.prove import solving
from cuenv.resolver.resolve import facts_for_decision
from cuenv.resolver.rules import Context
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Solved, SolveRequest

_LOOKS, _TRIES = 300, 10
"""Candidates that are looked at in one solve for each channel, and those that are tried by themselves from there on."""


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """An environment that solves in place of the requested one."""

    decision: Decision  # its choice solves on the channels
    # of ``cuenv resolve`` that ask for what the file asks for, less the release that is not there
    options: tuple[str, ...]


def find_alternative(
    spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge, sources: Sources, progress: Progress | None = None
) -> Alternative | None:
    """The best that solves with the further packages of a file; ``None`` where nothing near does, or none was asked."""
    if spec.pin("pytorch") is None:
        return None
    intent, cpu = intent_of(spec, knowledge), asks_for_cpu(spec)
    packages = tuple(pin.yaml_text() for pin in intent.packages)
    base = Request(dev=intent.dev and not cpu, cpu=cpu, packages=packages, pip=intent.pip)
    requests = dict.fromkeys((replace(base, python=intent.python), base))
    for request in requests:
        decision = decide(Context(facts=facts_for_decision(facts), request=request, knowledge=knowledge, proving=True))
        try:
            decision = _from_first_solving(decision, spec.name or "cuenv", sources, progress)
            found, solution = solving(decision, spec.name or "cuenv", sources, progress, limit=_TRIES)
        except (ChannelError, OutsideError, UsageError):
            return None
        if solution is not None:
            return Alternative(decision=found, options=request_options(request))
    return None


def _from_first_solving(decision: Decision, name: str, sources: Sources, progress: Progress | None) -> Decision:
    """A decision without the candidates before the first that solves, found by one solve for each channel."""
    from cuenv.solve.io.choosing import choose  # noqa: PLC0415 - the solver is heavy

    tries = [(place, item) for place, fit in enumerate(decision.fitting) for item in decision.variants(fit)][:_LOOKS]
    groups: dict[tuple[str, ...], list[tuple[int, EnvironmentSpec]]] = {}
    for place, item in tries:
        made = environment_of(replace(decision, fitting=(item,)), name, header=False)
        groups.setdefault(made.channels, []).append((place, made))
    first = len(decision.fitting)
    for channels, rows in groups.items():
        if progress:
            progress(f"trying {len(rows)} candidates of {', '.join(map(short_channel, channels))}")
        before = [(place, made) for place, made in rows if place < first]
        request = SolveRequest(
            spec=replace(rows[0][1], pins=()),
            channels=channels,
            platform=rows[0][1].platforms[0],
            virtual_packages=virtual_packages(decision.context.facts),
        )
        with suppress(NoChannelError):
            found = choose(request, (tuple(made.pins for _, made in before),), sources) if before else None
            first = before[found.taken[0]][0] if isinstance(found, Solved) else first
    return replace(decision, fitting=decision.fitting[first:])
