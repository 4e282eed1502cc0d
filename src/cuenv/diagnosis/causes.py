"""What a log means: the causes in it, what merely follows from them, why on this host, and the one command each.

What ended the run leads (`lead.py`); what it explains is folded under it. What no row knows is *unknown*.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from shlex import quote

from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.diagnosis.cures import JOINS
from cuenv.diagnosis.cures.build import other_major
from cuenv.diagnosis.cures.case import RESOLVE, Joined, LogContext, host_words
from cuenv.diagnosis.cures.managers import PIP, said_there
from cuenv.diagnosis.cures.names import named
from cuenv.diagnosis.lead import Ranked, RankedSymptom, Verdict, ranked
from cuenv.diagnosis.log.host import LogHost, log_alone
from cuenv.diagnosis.log.matches import Scan, SymptomMatch
from cuenv.diagnosis.log.scan import scan
from cuenv.host.facts import HostFacts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import Symptom
from cuenv.prefix.inventory import Prefix

SAID = ("torch", "cuda", "nvcc", "python", "gcc")
"""What of the software that a log tells is shown with its diagnosis."""
_SLOT = regex(r"\{([a-z]+)\}")
_WANTING = regex(r"(?<![\w$])(?:IMAGE|TRAIN\.py|PACKAGE|POD|X\.Y)(?![\w])")
"""What a command is not printed with: the log did not name it."""
_WITHOUT_TORCH = frozenset({"jax", "tensorflow", "ggml", "jittor", "onnxruntime"})
"""Frameworks that no environment for PyTorch cures."""
_COMPILED = frozenset({"ai.onnxruntime", "onnxruntime-java", "rs", "drivererror", "cudasuccess"})
"""How programs in Java, Rust and C++ (Caffe) speak, which no package of Python cures."""
_UNTOLD = {
    "cuda": "X.Y",
    "header": "a header",
    "op": "an extension",
    "gcc": "the highest",
    "asked": "some memory",
    "compute": "the architecture",
    "package": "PACKAGE",
    "module": "a module",
    "file": "a library",
    "name": "a name",
    "status": "a status",
    "number": "a number",
    "image": "IMAGE",
    "arch": "the GPU",
    "pod": "POD",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A symptom that nothing else in the log explains.

    Attributes:
        leads: why it stands where it stands among the causes.
        why: what it is caused by, in general.
        because: what the host, the environment and the line say, one sentence each.
        command: what cures it.
        followers: what it explains, in the order of the log.
    """

    sighting: SymptomMatch
    leads: str
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

    @property
    def kind(self) -> str:
        """As the row has it; a remark that the log proves to be more is a cause."""
        return self.sighting.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a log means.

    Attributes:
        verdict: ``known``: a cause stands in it; ``effect``: only what follows from a cause that is not in it;
            ``harmless``: only what harms nothing; ``unknown``: it fails, and no row knows why; ``clean``: nothing in
            it looks like a failure.
        causes: what nothing else explains, the one that leads first; where it is unknown, none of them ended the run
            but one of the kind ``words``: the error itself, of which no more is known than what it says.
        facts: the host that it is from, as far as the log, or who gave it, tells.
        contradictions: what is told of the host in two ways.
        strange: the lines that fail and that nothing explains; only when it is unknown.
        outlived: whether the run went on after each of its errors: none of them ended it.
    """

    verdict: Verdict
    causes: tuple[Cause, ...]
    strange: tuple[tuple[int, str], ...]
    lines: int
    size: int
    mentions: Mapping[str, str] = field(default_factory=dict)
    facts: HostFacts | None = None
    contradictions: tuple[str, ...] = ()
    outlived: bool = False

    @property
    def fine(self) -> bool:
        """Whether nothing has to be done."""
        return self.verdict in ("clean", "harmless")

    @property
    def in_words(self) -> bool:
        """Whether only the error's own words are known of what ended the run."""
        return bool(self.causes) and self.causes[0].kind == "words"


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
        mentions={**found.mentions, **host.told.others, **({"ranks": "many"} if found.many else {})},
        packages=host.told.packages,
        builds=host.told.builds,
    )
    order = ranked(found)
    said = {code for root in order.roots for code in root.sighting.symptom.codes}
    beside = (f"{item.message} ({item.code})" for item in other_major(base) if item.code not in said)
    return Diagnosis(
        verdict=order.verdict,
        causes=tuple(_cause(root, base, may=_may_cure(index, root, order)) for index, root in enumerate(order.roots)),
        strange=tuple((one.line, one.text) for one in order.strange),
        lines=found.lines,
        size=found.size,
        mentions=mentions,
        facts=host.facts,
        contradictions=(*host.contradictions, *beside),
        outlived=order.outlived,
    )


def _may_cure(index: int, root: RankedSymptom, order: Ranked) -> bool:
    """Whether a command may end what the log shows: none does for a mere effect, or for a warning beside the cause."""
    one = root.sighting
    alone = order.verdict == "known" and not any(each.sighting.symptom.layer == "scope" for each in order.roots)
    return alone and one.kind == "cause" and (not index or one.grade in ("exception", "error"))


def _cause(root: RankedSymptom, base: LogContext, *, may: bool) -> Cause:
    row = root.sighting.symptom
    told = decoded(root.sighting.told)
    case = replace(base, told=told, line=root.sighting.text, raised=root.sighting.raised)
    joined = JOINS[row.join](case) if row.join else Joined()
    where = quote(base.prefix.path) if base.prefix else "$CONDA_PREFIX"
    values = {**_UNTOLD, **told, **joined.values, "host": host_words(base.facts), "prefix": where}
    command = " ".join(filled(row.command, values).split()) if joined.command is None else joined.command
    for word, meant in named(case):
        command = re.sub(rf"(?<![\w$]){re.escape(word)}(?!\w)", quote(meant).replace("\\", r"\\"), command)
    foreign = [RESOLVE] if case.frameworks & (_WITHOUT_TORCH | _COMPILED) else []
    foreign += [PIP, "conda "] if case.frameworks & _COMPILED else []
    beside = "torch" not in case.frameworks and command.startswith(tuple(foreign))
    kept = may and not _WANTING.search(command) and not beside
    command = said_there(case, command) if kept else ""
    return Cause(
        sighting=root.sighting,
        leads=root.leads,
        why=filled(row.cause, values),
        because=(*joined.because, *_not_here(base.facts, command)),
        remedy=joined.remedy or filled(row.remedy, values),
        command=command,
        followers=root.followers,
    )


def _not_here(facts: HostFacts | None, command: str) -> tuple[str, ...]:
    """A command that chooses for a host wants its GPU: the log may not tell it, and this machine may not be meant."""
    if (facts and facts.gpus) or not command.startswith("cuenv resolve"):
        return ()
    if facts and facts.detected:
        return (f"{facts.label} has no GPU: name the machine of the log with --gpu and --driver, or --host",)
    return ("the log does not name the GPU: run the command on the machine of the log, or name its GPU with --gpu",)


def decoded(told: Mapping[str, str]) -> dict[str, str]:
    """What a line tells, in the terms of people: 11040 is the CUDA version 11.4, sm_120 is 12.0, cuda126 is 12.6."""
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
