"""What the channels have in place of a torch that they lack: the best that closes with everything else of a file."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cuenv.core.errors import ChannelError, OutsideError, UsageError
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.intent import intent_of
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.explain import wish_options
from cuenv.resolver.policy import asks_for_cpu
from cuenv.resolver.prove import Progress, prove
from cuenv.resolver.resolve import composed, decidable
from cuenv.resolver.rules import Context
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.io.sources import Sources

_TRIES = 60
"""Candidates that are tried; most are answered without a solve."""


@dataclass(frozen=True, kw_only=True)
class Instead:
    """What there is.

    Attributes:
        decision: its choice closes on the channels.
        options: of ``cuenv resolve`` that ask for what the file asks for, less the release that is not there.
    """

    decision: Decision
    options: tuple[str, ...]


def instead(
    spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge, sources: Sources, progress: Progress | None = None
) -> Instead | None:
    """The best that closes with the further packages of a file; ``None`` where nothing near does, or none was asked.

    Args:
        spec: what the channels do not close.
        facts: the host.
        knowledge: the tables.
        sources: where the channels are read.
        progress: told what is being tried.
    """
    if spec.pin("pytorch") is None:
        return None
    intent, cpu = intent_of(spec, knowledge), asks_for_cpu(spec)
    packages = tuple(pin.yaml_text() for pin in intent.packages)
    base = Request(dev=intent.dev and not cpu, cpu=cpu, packages=packages, pip=intent.pip)
    wishes = dict.fromkeys((replace(base, python=intent.python), base))
    for wish in wishes:
        decision = decide(Context(facts=decidable(facts), wish=wish, knowledge=knowledge, proving=True))
        try:
            found, solution = prove(
                decision, lambda item: composed(item, spec.name or "cuenv"), sources, progress, limit=_TRIES
            )
        except (ChannelError, OutsideError, UsageError):
            return None
        if solution is not None:
            return Instead(decision=found, options=wish_options(wish))
    return None
