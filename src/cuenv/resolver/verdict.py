"""What a rule says about a candidate, and for which reasons. Deciding, explaining, checking and hinting read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

from cuenv.core.record import NamedTuple, dataclass
from cuenv.core.regex import regex
from cuenv.core.versions import Capability, driver_key
from cuenv.host.facts import Gpu, HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Row
from cuenv.resolver.effective_driver import with_effective_driver

Outcome = Literal["pass", "warn", "reject", "unknown"]


class Reason(NamedTuple):
    """What a verdict rests on: a fact of the host, a row of a table, or the request (``wish``)."""

    kind: Literal["host", "row", "wish"]  # ``host``, ``row`` or ``wish``
    says: str  # the fact in words, with its numbers
    sources: tuple[str, ...] = ()  # ids of the row's sources, or the source of the evidence
    low: bool = False  # a row of low confidence


class Remedy(NamedTuple):
    """What would lift an objection: a driver to install, or an option to give. A wrong GPU has no remedy."""

    text: str
    driver: str | None = None  # the lowest driver that lifts it (or the highest branch, when ``upto``)
    upto: bool = False
    option: str | None = None  # the option that lifts it


class Verdict(NamedTuple):
    """A rule's word on one candidate."""

    rule: str
    outcome: Outcome
    because: str
    reasons: tuple[Reason, ...] = ()
    remedy: Remedy | None = None
    open: int = 1  # of how many things no row says it; counts where the outcome is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What every rule may look at, beside the candidate."""

    facts: HostFacts  # the host, with the driver that programs there get
    request: Request
    knowledge: Knowledge
    # the channels are asked for each candidate, so that the tables need not know where it was seen
    proving: bool = False

    def __post_init__(self) -> None:
        """Whoever asks, a verdict is about the driver that programs get."""
        object.__setattr__(self, "facts", with_effective_driver(self.facts, self.knowledge))


HOST, GPU, BARE, BLIND, GAPS, NAMES = "\ue000\ue001\ue002\ue003\ue004\ue005"
"""Words that name a host, in the text of a rule: its label, the GPU, the machines without a GPU, the GPUs of unknown
capability; as a whole reason, what could not be found out; and, behind a compute capability, the names of its GPUs.
`for_host` fills them in, so that equal hosts share a verdict."""
_NAMED = regex(rf"([0-9]+\.[0-9]+){NAMES}")


def and_list(items: Iterable[object]) -> str:
    """``A, B and C``."""
    *most, last = map(str, items)
    return f"{', '.join(most)} and {last}" if most else last


def of_capability(*capabilities: Capability) -> str:
    """``compute capability 12.0``; `for_host` adds the names of the GPUs of the host: ``12.0 (RTX 5090)``."""
    return f"compute capability {and_list(f'{capability}{NAMES}' for capability in capabilities)}"


def named_capability(facts: HostFacts | None, *capabilities: Capability) -> str:
    """``compute capability 12.0 (RTX 5090)``, with the names where a host is known."""
    text = of_capability(*capabilities)
    return _with_gpu_names(text, facts) if facts else text.replace(NAMES, "")


def row_reason(row: Row, says: str) -> Reason:
    """A reason that is a row of a table."""
    return Reason("row", says, row.sources, row.low)


def with_sources(reason: Reason, knowledge: Knowledge) -> str:
    """A reason with the titles of its sources, and how sure it is."""
    titles = [knowledge.sources[item].title for item in reason.sources if item in knowledge.sources]
    where = "; ".join(titles or reason.sources)
    return f"{reason.says}{f' [{where}]' if where else ''}{' (low confidence)' if reason.low else ''}"


def host_reason(fact: str, says: str) -> Reason:
    """A reason that is a fact of the host; `for_host` adds where it was seen."""
    return Reason("host", says, (fact,))


class HostWords:
    """The words of one host, or of one GPU of it; equal texts and reasons are filled in once."""

    def __init__(self, facts: HostFacts, gpu: Gpu | None = None) -> None:
        self._facts, self._gpu = facts, gpu
        self._texts: dict[str, str] = {}
        self._reasons: dict[Reason, tuple[Reason, ...]] = {}

    def filled_in(self, verdict: Verdict) -> Verdict:
        """As `for_host`."""
        because, reasons = self._text(verdict.because), verdict.reasons
        if any(reason.kind == "host" for reason in reasons):
            reasons = tuple([each for reason in reasons for each in self._of_reason(reason)])
        elif because is verdict.because:
            return verdict
        return verdict._replace(because=because, reasons=reasons)

    @cached_property
    def _words(self) -> dict[int, str]:
        facts = self._facts
        blind = [gpu.name or f"GPU {gpu.index}" for gpu in facts.gpus if gpu.capability is None]
        words = {
            HOST: facts.label,
            BARE: ", ".join(machine.label for machine in facts.machines if not machine.gpus),
            BLIND: ", ".join(dict.fromkeys(blind)),
            **({GPU: _gpu_name(self._gpu)} if self._gpu else {}),
        }
        return {ord(word): text for word, text in words.items()}

    def _text(self, text: str) -> str:
        """A text with its words that name the host; most texts have none."""
        if text.isascii():
            return text
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = _with_gpu_names(text, self._facts).translate(self._words)
        return found

    def _of_reason(self, reason: Reason) -> tuple[Reason, ...]:
        if reason.kind != "host":
            return (reason,)
        found = self._reasons.get(reason)
        if found is None:
            found = self._reasons[reason] = self._seen(reason)
        return found

    def _seen(self, reason: Reason) -> tuple[Reason, ...]:
        """A fact of the host with the place where it was seen."""
        facts = self._facts
        if reason.says == GAPS:
            gaps = (gap for gap in facts.gaps if gap.fact in reason.sources)
            return tuple(Reason("host", gap.reason, (gap.source,)) for gap in gaps)
        evidence = facts.evidence_for(reason.sources[0])
        return (Reason("host", self._text(reason.says), (evidence.source if evidence else facts.label,)),)


def for_host(verdict: Verdict, facts: HostFacts, gpu: Gpu | None = None) -> Verdict:
    """A verdict with the words that name the host, and the evidence of the facts that it rests on."""
    return HostWords(facts, gpu).filled_in(verdict)


def _with_gpu_names(text: str, facts: HostFacts) -> str:
    """A text in which a compute capability of the host is followed by the names of its GPUs."""

    def name(found: re.Match[str]) -> str:
        names = {gpu.name: None for gpu in facts.gpus if gpu.name and str(gpu.capability) == found[1]}
        return f"{found[1]} ({', '.join(map(str, names))})" if names else found[1]

    return _NAMED.sub(name, text) if NAMES in text else text


def _gpu_name(gpu: Gpu) -> str:
    if gpu.name and gpu.capability:
        return f"{gpu.name} (compute capability {gpu.capability})"
    return gpu.name or (f"compute capability {gpu.capability}" if gpu.capability else f"GPU {gpu.index}")


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The gravest of one or more verdicts of one rule, with the reasons of all that are as grave."""
    if len(verdicts) == 1:
        return verdicts[0]
    order = ("reject", "unknown", "warn", "pass")
    gravest = min(verdicts, key=lambda verdict: order.index(verdict.outcome))
    equal = [verdict for verdict in verdicts if verdict.outcome == gravest.outcome]
    because = "; ".join(dict.fromkeys(verdict.because for verdict in equal))
    reasons = tuple(dict.fromkeys(reason for verdict in equal for reason in verdict.reasons))
    left = sum(verdict.open for verdict in equal)
    return gravest._replace(because=because, reasons=reasons, remedy=_remedy(equal), open=left)


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
