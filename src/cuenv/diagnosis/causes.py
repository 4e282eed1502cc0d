"""The diagnosis of a log: its causes, their consequences, the evidence on this host, and one command for each cause.

`lead.py` decides which cause ended the run and which symptoms follow from it. A failure without a row is *unknown*.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from shlex import quote

from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.diagnosis.cures import CURES
from cuenv.diagnosis.cures.build import other_major_findings
from cuenv.diagnosis.cures.context import RESOLVE, CureResult, LogContext, host_words, in_docker_build
from cuenv.diagnosis.cures.managers import PIP, for_manager
from cuenv.diagnosis.cures.names import placeholder_values
from cuenv.diagnosis.lead import RankedSymptom, SymptomRanking, Verdict, rank_symptoms
from cuenv.diagnosis.log.host import LogHost, log_alone
from cuenv.diagnosis.log.matches import Scan, SymptomMatch
from cuenv.diagnosis.log.scan import scan
from cuenv.host.facts import HostFacts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import Symptom
from cuenv.prefix.inventory import Prefix

SHOWN_SOFTWARE = ("torch", "cuda", "nvcc", "python", "gcc")  # software versions of a log that its diagnosis shows
_SLOT = regex(r"\{([a-z]+)\}")
_PLACEHOLDER = regex(r"(?<![\w$])(?:IMAGE|TRAIN\.py|PACKAGE|POD|X\.Y)(?![\w])")
"""A placeholder that the log did not fill: a command that contains one is not printed."""
_EXPORT = regex(r"export ((?:\w{1,40}=[^\s$()&;|]{1,200} ?)+)")
"""A command that only sets variables: the steps of a docker build do not see those of the machine."""
_WITHOUT_TORCH = frozenset(
    {"jax", "jittor", "mxnet", "numba", "onnxruntime", "paddle", "tensorflow"}
    | {"catboost", "ggml", "lightgbm", "xgboost"}
)
"""Frameworks for which a PyTorch environment does not help."""
_COMPILED = frozenset(
    {"ai.onnxruntime", "onnxruntime-java", "rs", "drivererror", "cudasuccess", "devicequery", "bandwidthtest"}
)
"""Signs of programs in Java, Rust and C++ (Caffe, NVIDIA's samples), for which a Python package does not help."""
_DEFAULT_VALUES = {
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
    """A symptom that nothing else in the log explains."""

    match: SymptomMatch
    reason: str  # the reason for its rank among the causes
    why: str  # the general cause
    because: tuple[str, ...]  # evidence from the host, the environment and the line, one sentence each
    remedy: str
    command: str  # the command that cures it
    followers: tuple[SymptomMatch, ...] = ()  # the symptoms that follow from it, in the order of the log

    @property
    def for_administrators(self) -> bool:
        """Return whether the command needs an administrator, because it affects all users of the machine."""
        return self.command.startswith("sudo ") or " sudo " in self.command

    @property
    def symptom(self) -> Symptom:
        """Return the table row."""
        return self.match.symptom

    @property
    def kind(self) -> str:
        """Return the kind of the row, or ``cause`` for a remark that the log proves to be a cause."""
        return self.match.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The causes of a failure in a log."""

    # ``known``: the log shows a cause; ``effect``: it shows only consequences of a cause elsewhere; ``harmless``: it
    # shows only harmless messages; ``unknown``: it fails, and the table has no row for it; ``clean``: no line looks
    # like a failure
    verdict: Verdict
    # the symptoms that no other symptom explains, in rank order. If the verdict is ``unknown``, only a cause of the
    # kind ``words`` can have ended the run: cuenv knows its message and nothing else
    causes: tuple[Cause, ...]
    # the failures that no symptom explains; only if the verdict is ``unknown``
    unexplained: tuple[tuple[int, str], ...]
    lines: int
    size: int
    mentions: Mapping[str, str] = field(default_factory=dict)
    facts: HostFacts | None = None  # the host of the log, from the log or from the options
    contradictions: tuple[str, ...] = ()  # facts about the host that disagree
    survived: bool = False  # whether the run continued after every error

    @property
    def fine(self) -> bool:
        """Return whether the log shows no failure."""
        return self.verdict in ("clean", "harmless")

    @property
    def in_words(self) -> bool:
        """Return whether cuenv knows only the message of the error that ended the run."""
        return bool(self.causes) and self.causes[0].kind == "words"


def diagnose(
    blocks: Iterable[bytes],
    symptoms: Iterable[Symptom],
    knowledge: Knowledge,
    facts: HostFacts | None = None,
    prefix: Prefix | None = None,
) -> Diagnosis:
    """Diagnose a log.

    Args:
        blocks: its bytes, in pieces of any length; they are read once and not kept.
        symptoms: the table of symptoms.
        knowledge: the tables of facts.
        facts: the host of the log; ``None`` takes the host that the log shows.
        prefix: the environment of the log.
    """
    found = scan(blocks, symptoms)
    return diagnose_scan(found, knowledge, log_alone(found, knowledge, facts), prefix)


def diagnose_scan(found: Scan, knowledge: Knowledge, host: LogHost, prefix: Prefix | None) -> Diagnosis:
    """Diagnose a scanned log on its host; see `diagnose`."""
    mentions = {
        **found.mentions,
        **{name: host.pasted.others[name] for name in SHOWN_SOFTWARE if name in host.pasted.others},
    }
    base = LogContext(
        knowledge=knowledge,
        facts=host.facts,
        prefix=prefix,
        mentions={**found.mentions, **host.pasted.others, **({"ranks": "many"} if found.many_processes else {})},
        packages=host.pasted.packages,
        builds=host.pasted.builds,
    )
    ranking = rank_symptoms(found)
    named = {code for entry in ranking.symptoms for code in entry.match.symptom.codes}
    beside = (f"{item.message} ({item.code})" for item in other_major_findings(base) if item.code not in named)
    return Diagnosis(
        verdict=ranking.verdict,
        causes=tuple(
            _cause(entry, base, may=_may_suggest_command(index, entry, ranking))
            for index, entry in enumerate(ranking.symptoms)
        ),
        unexplained=tuple((one.line, one.text) for one in ranking.unexplained),
        lines=found.lines,
        size=found.size,
        mentions=mentions,
        facts=host.facts,
        contradictions=(*host.contradictions, *beside),
        survived=ranking.survived,
    )


def _may_suggest_command(index: int, entry: RankedSymptom, ranking: SymptomRanking) -> bool:
    """Return whether a command can help: not for an effect, nor for a warning below the first cause."""
    one = entry.match
    alone = ranking.verdict == "known" and not any(each.match.symptom.layer == "scope" for each in ranking.symptoms)
    return alone and one.kind == "cause" and (not index or one.grade in ("exception", "error"))


def _cause(entry: RankedSymptom, base: LogContext, *, may: bool) -> Cause:
    row = entry.match.symptom
    groups = decode_groups(entry.match.groups)
    context = replace(base, groups=groups, line=entry.match.text, frame=entry.match.frame)
    cure = CURES[row.join](context) if row.join else CureResult()
    where = quote(base.prefix.path) if base.prefix else "$CONDA_PREFIX"
    values = {**_DEFAULT_VALUES, **groups, **cure.values, "host": host_words(base.facts), "prefix": where}
    command = " ".join(fill_slots(row.command, values).split()) if cure.command is None else cure.command
    for word, meant in placeholder_values(context):
        command = re.sub(rf"(?<![\w$]){re.escape(word)}(?!\w)", quote(meant).replace("\\", r"\\"), command)
    foreign = [RESOLVE] if context.frameworks & (_WITHOUT_TORCH | _COMPILED) else []
    foreign += [PIP, "conda "] if context.frameworks & _COMPILED else []
    beside = "torch" not in context.frameworks and command.startswith(tuple(foreign))
    kept = may and not _PLACEHOLDER.search(command) and not beside
    command = for_manager(context, command) if kept else ""
    remedy = cure.remedy or fill_slots(row.remedy, values)
    if in_docker_build(context) and (variables := _EXPORT.fullmatch(command)):
        command, remedy = "", f"{remedy}; in the Dockerfile: ENV {variables[1]}"
    return Cause(
        match=entry.match,
        reason=entry.reason,
        why=fill_slots(row.cause, values),
        because=(*cure.because, *_missing_gpu(base.facts, command)),
        remedy=remedy,
        command=command,
        followers=entry.followers,
    )


def _missing_gpu(facts: HostFacts | None, command: str) -> tuple[str, ...]:
    """Return a sentence if the command chooses for a GPU that neither the log nor the host names."""
    if (facts and facts.gpus) or not command.startswith("cuenv resolve"):
        return ()
    if facts and facts.detected:
        return (f"{facts.label} has no GPU: name the machine of the log with --gpu and --driver, or --host",)
    return ("the log does not name the GPU: run the command on the machine of the log, or name its GPU with --gpu",)


def decode_groups(groups: Mapping[str, str]) -> dict[str, str]:
    """Return named groups in readable form: 11040 becomes CUDA 11.4, sm_120 becomes 12.0, cuda126 becomes 12.6."""
    found = {}
    for name, text in groups.items():
        if name == "level" and text.isdigit():
            found[name] = f"{int(text) // 1000}.{int(text) % 1000 // 10}"
        elif name in ("sm", "compute", "library"):
            digits = text.rstrip("af")
            found[name] = f"{digits[:-1]}.{digits[-1]}{text[len(digits) :]}" if len(digits) > 1 else text
        else:
            found[name] = text
    return found


def fill_slots(text: str, values: Mapping[str, str]) -> str:
    """Fill the slots of a row's text; a slot without a value stays, and a test rejects that."""
    return _SLOT.sub(lambda slot: values.get(slot[1], slot[0]), text)
