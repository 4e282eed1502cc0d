"""The JSON of `cuenv diagnose` and `cuenv explain`; see `cuenv.core.documents`."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from cuenv.core.documents import Confidence, FindingFields, SourceFields
from cuenv.host.documents import EvidenceFields


class SymptomFields(TypedDict):
    """A line of a log that is known."""

    symptom: str  # its id
    says: str
    line: int
    text: str
    count: int  # how often it occurs in the log


class CauseFields(SymptomFields):
    """A cause and its remedy."""

    layer: str
    kind: str  # cause, effect, remark, raised (judged by the file that raised it), or words (only its words are known)
    rank: int  # place among the causes, from 1
    leads: str  # the reason for its place in the order
    told: dict[str, str]  # the facts in the line, by name
    why: str
    because: list[str]  # what of this host confirms it
    remedy: str
    command: str
    administrator: bool  # the command is for an administrator of the machine
    codes: list[str]  # findings that would have said it before
    followers: list[SymptomFields]  # what follows from it
    confidence: Confidence
    sources: list[SourceFields]
    seen: list[str]  # where the text was met


class UnknownLine(TypedDict):
    """A line that looks like a failure and is not known."""

    line: int
    text: str


class LogDiagnosisDocument(TypedDict):
    """What `cuenv diagnose LOG` found."""

    schema: Literal["cuenv/diagnosis/1"]
    verdict: Literal["known", "effect", "harmless", "unknown", "clean"]
    ok: bool  # nothing failed
    lines: int
    bytes: int
    host: str | None
    evidence: list[EvidenceFields]  # where each fact of the host is from
    contradictions: list[str]  # facts with two values, or facts that exclude each other
    mentions: dict[str, str]  # versions that the log names
    causes: list[CauseFields]  # the first leads; of an unknown log only one of the kind words does
    unknown: list[UnknownLine]
    send: str | None  # the command whose output helps to explain an unknown log


class ShownFinding(FindingFields):
    """A finding and the symptoms by which it would show."""

    shows_as: list[str]


class HostDiagnosisDocument(TypedDict):
    """What `cuenv diagnose` found without a log."""

    schema: Literal["cuenv/diagnosis/1"]
    verdict: Literal["fails", "fine"]
    ok: bool
    host: str
    findings: list[ShownFinding]
    fine: list[str]  # what works, one sentence each


class ErratumFields(TypedDict):
    """A statement of recipes, and the correction."""

    id: str
    topic: str
    says: str
    verdict: str
    true: str
    do: str | None
    codes: list[str]
    confidence: Confidence
    note: str | None
    sources: list[SourceFields]


class AnswerFields(TypedDict):
    """The answer to a question."""

    id: str
    topic: str
    asks: str
    says: list[str]
    here: list[str]  # what the tables say for what the question names, and for the host
    do: str
    confidence: Confidence
    note: str | None
    sources: list[SourceFields]


class KnownErrorFields(TypedDict):
    """An error that a question mentions."""

    symptom: str
    says: str
    why: str
    remedy: str
    command: str
    codes: list[str]
    sources: list[SourceFields]


class ExplainDocument(TypedDict):
    """What is known about a topic or a question: answers, errors, and what recipes say."""

    schema: Literal["cuenv/explain/1"]
    question: str | None
    answers: list[AnswerFields]
    errors: list[KnownErrorFields]
    entries: list[ErratumFields]
    beside: list[str]  # topics and errors that come near


class AdviceFields(TypedDict):
    """What to know about a GPU."""

    about: str
    says: str
    do: str | None
    confidence: Confidence
    note: str | None
    sources: list[SourceFields]


class ExplainGpuDocument(TypedDict):
    """What there is to say about a GPU."""

    schema: Literal["cuenv/explain/1"]
    gpu: str
    capability: str
    entries: list[AdviceFields]


class CodeSymptom(TypedDict):
    """The symptom of a finding in a log."""

    symptom: str
    layer: str
    says: str


class CodeErratum(TypedDict):
    """A recipe that leads to a finding."""

    id: str
    topic: str
    says: str


class CodeDocument(TypedDict):
    """What a finding code means."""

    schema: Literal["cuenv/code/1"]
    code: str
    severities: list[str]
    means: str
    why: str  # its harm
    cure: str
    example: str
    found_by: list[str]  # the commands that look for it
    rule: str | None  # the rule of `cuenv resolve` that decides by the same
    symptoms: list[CodeSymptom]
    errata: list[CodeErratum]
