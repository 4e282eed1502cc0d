"""What a log means: the causes in it, what merely follows from them, why on this host, and the one command each.

The first *cause* leads; what it explains is folded under it. What no row knows is *unknown*, and said to be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Literal

from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.diagnosis import cures, on_host, on_host_build, on_host_run
from cuenv.diagnosis.cures import named
from cuenv.diagnosis.log_host import LogHost, log_alone
from cuenv.diagnosis.log_scan import Scan, SymptomMatch, scan
from cuenv.diagnosis.on_host import Joined, LogContext, host_words
from cuenv.host.facts import HostFacts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import Symptom
from cuenv.prefix.inventory import Prefix

JOINS = {**on_host.JOINS, **on_host_run.JOINS, **on_host_build.JOINS, **cures.JOINS}
"""Every join, by the name that rows give."""

Verdict = Literal["known", "effect", "harmless", "unknown", "clean"]
SAID = ("torch", "cuda", "nvcc", "python", "gcc")
"""What of the software that a log tells is shown with its diagnosis."""
_RANK = {"cause": 0, "effect": 1, "remark": 2}
_SLOT = regex(r"\{([a-z]+)\}")
_UNTOLD = {"cuda": "X.Y", "header": "a header", "op": "an extension", "gcc": "the highest", "asked": "some memory"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A symptom that nothing else in the log explains.

    Attributes:
        why: what it is caused by, in general.
        because: what the host, the environment and the line say, one sentence each.
        command: what cures it.
        followers: what it explains, in the order of the log.
    """

    sighting: SymptomMatch
    why: str
    because: tuple[str, ...]
    remedy: str
    command: str
    followers: tuple[SymptomMatch, ...] = ()

    @property
    def for_administrators(self) -> bool:
        """Whether the command wants the rights of an administrator, and disturbs others on the machine."""
        return self.command.startswith("sudo ") or " sudo " in self.command

    @property
    def symptom(self) -> Symptom:
        """The row."""
        return self.sighting.symptom


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a log means.

    Attributes:
        verdict: ``known``: a cause stands in it; ``effect``: only what follows from a cause that is not in it;
            ``harmless``: only what harms nothing; ``unknown``: it fails, and no row knows why; ``clean``: nothing in
            it looks like a failure.
        causes: what nothing else explains, the one that leads first.
        facts: the host that it is from, as far as the log, or who gave it, tells.
        contradictions: what is told of the host in two ways.
        strange: the last lines that look like a failure and belong to no symptom; only when it is unknown.
    """

    verdict: Verdict
    causes: tuple[Cause, ...]
    strange: tuple[tuple[int, str], ...]
    lines: int
    size: int
    mentions: Mapping[str, str] = field(default_factory=dict)
    facts: HostFacts | None = None
    contradictions: tuple[str, ...] = ()

    @property
    def fine(self) -> bool:
        """Whether nothing has to be done."""
        return self.verdict in ("clean", "harmless")


def diagnose(
    blocks: Iterable[bytes],
    symptoms: Iterable[Symptom],
    knowledge: Knowledge,
    facts: HostFacts | None = None,
    prefix: Prefix | None = None,
) -> Diagnosis:
    """Read a log.

    Args:
        blocks: its bytes, in pieces of any length; they are read once and not kept.
        symptoms: the table of symptoms.
        knowledge: the tables of facts.
        facts: the host that it is from; without one it is what the log tells.
        prefix: the environment that it is from.
    """
    found = scan(blocks, symptoms)
    return judge(found, knowledge, log_alone(found, knowledge, facts), prefix)


def judge(found: Scan, knowledge: Knowledge, host: LogHost, prefix: Prefix | None) -> Diagnosis:
    """What a scan means on the host of its log; see `diagnose`."""
    mentions = {**found.mentions, **{name: host.told.others[name] for name in SAID if name in host.told.others}}
    base = LogContext(
        knowledge=knowledge,
        facts=host.facts,
        prefix=prefix,
        mentions={**found.mentions, **host.told.others},
        packages=host.told.packages,
        builds=host.told.builds,
    )
    causes = tuple(_cause(sighting, followers, base) for sighting, followers in folded(found.sightings))
    verdict: Verdict = "clean"
    strange: tuple[tuple[int, str], ...] = ()
    if causes and causes[0].symptom.kind != "remark":
        verdict = "known" if causes[0].symptom.kind == "cause" else "effect"
    else:
        known = {sighting.line for sighting in found.sightings}
        strange = tuple(item for item in found.failures if item[0] not in known)
        verdict = "unknown" if strange else "harmless" if causes else "clean"
    return Diagnosis(
        verdict=verdict,
        causes=causes,
        strange=strange,
        lines=found.lines,
        size=found.size,
        mentions=mentions,
        facts=host.facts,
        contradictions=host.contradictions,
    )


def folded(sightings: tuple[SymptomMatch, ...]) -> tuple[tuple[SymptomMatch, tuple[SymptomMatch, ...]], ...]:
    """What nothing else explains, causes first and then by place, each with what it explains."""
    parents: dict[str, SymptomMatch] = {}
    for one in sightings:
        explains = [other for other in sightings if one.symptom.follower_of(other.symptom)]
        if explains:
            parents[one.symptom.id] = min(explains, key=_lead)
    roots = [one for one in sightings if one.symptom.id not in parents]
    under: dict[str, list[SymptomMatch]] = {}
    for one in sightings:
        top = one.symptom.id
        seen = {top}
        while top in parents and parents[top].symptom.id not in seen:
            top = parents[top].symptom.id
            seen.add(top)
        if top != one.symptom.id:
            under.setdefault(top, []).append(one)
    return tuple((one, tuple(under.get(one.symptom.id, ()))) for one in sorted(roots, key=_lead))


def _lead(sighting: SymptomMatch) -> tuple[int, int]:
    return _RANK[sighting.symptom.kind], sighting.line


def _cause(sighting: SymptomMatch, followers: tuple[SymptomMatch, ...], base: LogContext) -> Cause:
    row = sighting.symptom
    told = decoded(sighting.told)
    case = replace(base, told=told, line=sighting.text)
    joined = JOINS[row.join](case) if row.join else Joined()
    where = quote(base.prefix.path) if base.prefix else "$CONDA_PREFIX"
    values = {**_UNTOLD, **told, **joined.values, "host": host_words(base.facts), "prefix": where}
    command = joined.command or " ".join(filled(row.command, values).split())
    for word, meant in named(case):
        command = re.sub(rf"(?<![\w$]){re.escape(word)}(?!\w)", quote(meant).replace("\\", r"\\"), command)
    return Cause(
        sighting=sighting,
        why=filled(row.cause, values),
        because=(*joined.because, *_not_here(base.facts, command)),
        remedy=joined.remedy or filled(row.remedy, values),
        command=command,
        followers=followers,
    )


def _not_here(facts: HostFacts | None, command: str) -> tuple[str, ...]:
    """A command that chooses for a host wants its GPU: the log may not tell it, and this machine may not be meant."""
    if (facts and facts.gpus) or not command.startswith("cuenv resolve"):
        return ()
    if facts and facts.detected:
        return (f"{facts.label} has no GPU: name the machine of the log with --gpu and --driver, or --host",)
    return ("the log does not tell the GPU: run the command on the machine of the log, or name its GPU with --gpu",)


def decoded(told: Mapping[str, str]) -> dict[str, str]:
    """What a line tells, in the terms of people: 11040 is the CUDA level 11.4, sm_120 is 12.0, cuda126 is 12.6."""
    found = {}
    for name, text in told.items():
        if name == "level" and text.isdigit():
            found[name] = f"{int(text) // 1000}.{int(text) % 1000 // 10}"
        elif name in ("sm", "compute", "library"):
            digits = text.rstrip("af")
            found[name] = f"{digits[:-1]}.{digits[-1]}{text[len(digits) :]}" if len(digits) > 1 else text
        else:
            found[name] = text
    return found


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text of a row with what is known in its slots; a slot that nobody fills stays, and a test refuses it."""
    return _SLOT.sub(lambda slot: values.get(slot[1], slot[0]), text)
