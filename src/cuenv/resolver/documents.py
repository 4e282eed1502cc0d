"""The JSON of decisions, of `cuenv why` and of `cuenv what-if`; see `cuenv.core.documents`."""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from cuenv.core.documents import BriefFinding, Confidence, SourceFields


class ChosenFields(TypedDict):
    """The chosen packages."""

    stack: str  # which channel's packages: conda-forge or pytorch; or wheels, those of pip
    channel: str | None  # of the CUDA packages of conda
    torch_channel: str  # of PyTorch; wheels: it comes by pip
    pytorch: str
    cuda: str | None
    build: str  # a pattern of PyTorch's build string
    python: str
    platform: str


class ServedGpu(TypedDict):
    """How PyTorch supports one GPU."""

    capability: str
    how: Literal["native", "jit"]


class MachineDriver(TypedDict):
    """The minimum driver of one machine."""

    host: str
    driver: str | None


class RuleNote(TypedDict):
    """A rule that warns, or does not know."""

    rule: str
    outcome: Literal["warn", "unknown"]
    because: str


class MissingCandidate(TypedDict):
    """A candidate that the channels could not satisfy."""

    candidate: str
    missing: str


class RejectedGroup(TypedDict):
    """Candidates that one rule rejected for one reason."""

    rule: str
    because: str
    count: int
    example: str


class HintFields(TypedDict):
    """What would open more, and the command for it."""

    text: str
    command: str


class DecisionDocument(TypedDict):
    """What `cuenv resolve` chose."""

    schema: Literal["cuenv/decision/1"]
    chosen: ChosenFields | None  # null when nothing fits
    host: str  # what the host is called
    gpus: list[ServedGpu]
    minimum_driver: str | None  # the oldest driver that runs it
    minimum_drivers: NotRequired[list[MachineDriver]]  # of a pool: for each machine
    proven: bool  # the channels have these packages
    notes: list[RuleNote]
    skipped: list[MissingCandidate]  # better candidates that the channels could not satisfy
    rejected: list[RejectedGroup]  # candidates that rules rejected
    hints: list[HintFields]
    warnings: list[BriefFinding]
    as_of: NotRequired[str]  # the day as of which builds were asked for
    records: NotRequired[str | None]  # the day of the channel records that were at hand
    lacking: NotRequired[str]  # the day of records at hand that do not satisfy a choice by the tables, and why
    platforms: NotRequired[list[str]]  # of a request for several platforms


class GroundFields(TypedDict):
    """A fact that a verdict rests on."""

    kind: Literal["host", "row", "wish"]
    says: str
    sources: list[SourceFields]
    confidence: Confidence


class VerdictFields(TypedDict):
    """What one rule says."""

    rule: str
    outcome: Literal["pass", "warn", "reject", "unknown"]
    because: str
    grounds: list[GroundFields]
    remedy: str | None
    count: int  # of how many candidates it says so


class LossFields(TypedDict):
    """A criterion by which something else was preferred."""

    criterion: str
    chosen: str
    other: str
    example: str


class WhyDocument(TypedDict):
    """What `cuenv why` and `cuenv why-not` answer."""

    schema: Literal["cuenv/why/1"]
    question: str
    answer: str
    verdicts: list[VerdictFields]
    losses: list[LossFields]


class DecisionFor(TypedDict):
    """A host and what is chosen for it."""

    host: str
    decision: DecisionDocument


class CandidateGroup(TypedDict):
    """Candidates that only one of two hosts can have."""

    stack: str
    pytorch: str
    cuda: str | None
    candidates: int


class BoundFields(TypedDict):
    """A version bound of the environment file that changes."""

    before: str | None
    after: str | None
    why: list[str]


class WhatIfDocument(TypedDict):
    """What another driver, or other GPUs, would change."""

    schema: Literal["cuenv/what-if/1"]
    before: DecisionFor
    after: DecisionFor
    appear: list[CandidateGroup]
    vanish: list[CandidateGroup]
    bounds: list[BoundFields]
