"""Resolve: from a host and wishes to an environment file, if asked proven on the channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cuenv.core import __version__
from cuenv.core.errors import ChannelError, OutsideError, UsageError
from cuenv.core.findings import Finding, report
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.compose import compose
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.health import machine_findings
from cuenv.resolver.policy import spec_findings
from cuenv.resolver.rules import Context
from cuenv.solve.environment_spec import EnvironmentSpec, check_name

if TYPE_CHECKING:  # only --prove pays for them
    from cuenv.solve.io.records_at_hand import AtHand
    from cuenv.solve.io.sources import Sources
    from cuenv.solve.model import Solution

Progress = Callable[[str], None]
_SOLVES = 8
"""Candidates that are put to the solver on records at hand: nobody asked for it, and so nobody waits for it."""


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """What came of resolving.

    Attributes:
        spec: the environment, or ``None`` when nothing fits.
        findings: what is odd about the machine, or against the laws in what was wished.
        solution: the solver's answer, when it was asked for one.
        records: the day of the records at hand that the choice was proven on; empty where it is by the tables alone, or
            where the channels were asked.
    """

    decision: Decision
    spec: EnvironmentSpec | None
    findings: tuple[Finding, ...]
    solution: Solution | None = None
    records: str = ""

    @property
    def fits(self) -> bool:
        """There is an environment, and no law objects to it."""
        return self.spec is not None and not any(finding.severity == "error" for finding in self.findings)


def resolve(
    facts: HostFacts,
    wish: Request,
    knowledge: Knowledge,
    *,
    name: str = "cuenv",
    platforms: tuple[str, ...] = (),
    prove: Sources | None = None,
    at_hand: AtHand | None = None,
    progress: Progress | None = None,
) -> Resolution:
    """Choose an environment for a host, on its platform or on several.

    Args:
        facts: the host.
        wish: what is asked for.
        knowledge: the tables.
        name: of the environment.
        platforms: the platforms that the environment is for, where that is not the one of the host; of several, the
            decision is that of the first, with the candidates that fit on all.
        prove: where to read channels, to take the best candidate that closes on them; ``None`` asks no solver.
        at_hand: channel records that lie here already: the choice is proven on them where they tell enough.
        progress: called with what is being tried.

    Raises:
        UsageError: a wished package is no spec, or nothing can have that name.
    """
    facts = decidable(facts)
    if len(platforms) > 1:
        from cuenv.resolver.platforms import decide_together  # noqa: PLC0415 - only for several

        case = Context(facts=facts, wish=wish, knowledge=knowledge, proving=prove is not None)
        decision, spec, solution, more = decide_together(
            case, platforms, lambda item: composed(item, name), prove, progress
        )
        return replace(_resolution(decision, spec, facts, more), solution=solution)
    if platforms:
        facts = replace(facts, platform=platforms[0])
    if prove is None and at_hand is not None:
        found = _proven_here(facts, wish, knowledge, name, at_hand)
        if found is not None:
            return found
    decision = decide(Context(facts=facts, wish=wish, knowledge=knowledge, proving=prove is not None))
    solution = None
    if prove is not None and decision.chosen is not None:
        from cuenv.resolver.prove import prove as ask  # noqa: PLC0415 - the solver is heavy

        decision, solution = ask(decision, lambda item: composed(item, name), prove, progress)
    spec = composed(decision, name) if decision.chosen else None
    return replace(_resolution(decision, spec, facts), solution=solution)


def _resolution(
    decision: Decision, spec: EnvironmentSpec | None, facts: HostFacts, more: Iterable[Finding] = ()
) -> Resolution:
    """A decision with its environment, and what is odd about the host or against the laws."""
    case, chosen = decision.case, decision.chosen
    findings = [*machine_findings(facts, chosen.candidate if chosen else None, case.knowledge, case.wish), *more]
    if spec is not None:
        findings += spec_findings(spec, case.knowledge)
    return Resolution(decision=decision, spec=spec, findings=report("", findings).findings)


def _proven_here(
    facts: HostFacts, wish: Request, knowledge: Knowledge, name: str, at_hand: AtHand
) -> Resolution | None:
    """The choice as the records at hand close it; ``None`` where they do not tell, and nobody asked to be told why."""
    from cuenv.resolver.prove import prove as ask  # noqa: PLC0415 - the solver is heavy

    decision = decide(Context(facts=facts, wish=wish, knowledge=knowledge, proving=True))
    if decision.chosen is None:
        return None
    try:
        decision, solution = ask(decision, lambda item: composed(item, name), at_hand.sources, None, solves=_SOLVES)
    except (ChannelError, OutsideError):
        return None
    if solution is None or any("offline" in why for _, why in decision.skipped):
        return None
    whole = _resolution(decision, composed(decision, name) if decision.chosen else None, facts)
    return replace(whole, solution=solution, records=at_hand.day)


def decidable(facts: HostFacts) -> HostFacts:
    """The host as a decision may see it: a CUDA level alone chooses nothing, for which GPU would the build be?"""
    return facts if facts.gpus else replace(facts, driver=None)


def composed(decision: Decision, name: str) -> EnvironmentSpec:
    """The environment of a decision.

    Raises:
        UsageError: a wished package is no spec, or nothing can have that name.
    """
    try:
        check_name(name)
    except ValueError as error:
        raise UsageError(f"invalid environment name: {error}", hint="cuenv resolve --name train") from error
    try:
        return compose(decision, name=name, version=__version__)
    except ValueError as error:
        raise UsageError(f"--with: {error}", hint="cuenv resolve --with 'transformers>=4.36'") from error
