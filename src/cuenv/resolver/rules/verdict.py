"""What a rule says about a candidate, and on which grounds. Deciding, explaining, checking and hinting read it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cuenv.core.versions import driver_key
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Row
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.effective_driver import effective

Outcome = Literal["pass", "warn", "reject", "unknown"]


class Ground(NamedTuple):
    """What a verdict rests on: a fact of the host, a row of a table, or a wish.

    Attributes:
        kind: ``host``, ``row`` or ``wish``.
        says: the fact in words, with its numbers.
        sources: ids of the row's sources, or the source of the evidence.
        low: a row of low confidence.
    """

    kind: Literal["host", "row", "wish"]
    says: str
    sources: tuple[str, ...] = ()
    low: bool = False


class Remedy(NamedTuple):
    """What would lift an objection: a driver to install, or an option to give. A wrong GPU has no remedy.

    Attributes:
        driver: the lowest driver that lifts it (or the highest branch, when ``upto``).
        option: the option that lifts it.
    """

    text: str
    driver: str | None = None
    upto: bool = False
    option: str | None = None


class Verdict(NamedTuple):
    """A rule's word on one candidate.

    Attributes:
        open: of how many things no row says it; counts where the outcome is unknown.
    """

    rule: str
    outcome: Outcome
    because: str
    grounds: tuple[Ground, ...] = ()
    remedy: Remedy | None = None
    open: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What every rule may look at, beside the candidate.

    Attributes:
        facts: the host, with the driver that programs there get.
        proving: the channels are asked for each candidate, so that the tables need not know where it was seen.
    """

    facts: HostFacts
    wish: Request
    knowledge: Knowledge
    proving: bool = False

    def __post_init__(self) -> None:
        """Whoever asks, a verdict is about the driver that programs get."""
        object.__setattr__(self, "facts", effective(self.facts, self.knowledge))


class Rule(NamedTuple):
    """A named rule.

    Attributes:
        key: what of a candidate the verdict depends on, so that equal questions are asked once.
        sees: what of a host the outcome depends on.
        weighs: what of a candidate the outcome depends on, where that is less than the words do; else ``key``.
        rests: what of the tables the verdict rests on, where that is less again and cheaper to find than to judge.
        apart: a host is rejected exactly when one of its GPUs alone is, with the machine that it sits in.
        dev: the verdict depends on whether a compiler is asked for (``--dev``).
        driver: the outcome depends on the driver.
        judge: the verdict.
    """

    name: str
    title: str
    key: Callable[[Candidate], Hashable]
    sees: Callable[[HostFacts], Hashable]
    judge: Callable[[Candidate, Context], Verdict]
    weighs: Callable[[Candidate], Hashable] | None = None
    rests: Callable[[Candidate, Knowledge], Hashable] | None = None
    apart: bool = False
    dev: bool = False
    driver: bool = False


def row_ground(row: Row, says: str) -> Ground:
    """A ground that is a row of a table."""
    return Ground("row", says, row.sources, row.low)


def fact_ground(facts: HostFacts, fact: str, says: str) -> Ground:
    """A ground that is a fact of a host, with where it was seen."""
    evidence = facts.evidence_for(fact)
    return Ground("host", says, (evidence.source,) if evidence else (facts.label,))


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The gravest of one or more verdicts of one rule, with the grounds of all that are as grave."""
    if len(verdicts) == 1:
        return verdicts[0]
    order = ("reject", "unknown", "warn", "pass")
    gravest = min(verdicts, key=lambda verdict: order.index(verdict.outcome))
    equal = [verdict for verdict in verdicts if verdict.outcome == gravest.outcome]
    because = "; ".join(dict.fromkeys(verdict.because for verdict in equal))
    grounds = tuple(dict.fromkeys(ground for verdict in equal for ground in verdict.grounds))
    left = sum(verdict.open for verdict in equal)
    return gravest._replace(because=because, grounds=grounds, remedy=_remedy(equal), open=left)


def _remedy(verdicts: Sequence[Verdict]) -> Remedy | None:
    """One remedy for several objections, only where every one of them has one and they agree in direction."""
    remedies = [verdict.remedy for verdict in verdicts]
    if not all(remedies):
        return None
    found = [remedy for remedy in remedies if remedy]
    if len({remedy.upto for remedy in found}) > 1:
        return None
    pick = min if found[0].upto else max
    return pick(found, key=lambda remedy: driver_key(remedy.driver) if remedy.driver else ())
