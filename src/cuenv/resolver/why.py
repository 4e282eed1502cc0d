"""Answers to "why" and "why not": the verdict chain of a decision, down to sourced facts."""

from __future__ import annotations

import shlex

from cuenv.core.errors import UsageError
from cuenv.core.record import dataclass, replace
from cuenv.core.versions import VersionSpec, parse_version_spec, version
from cuenv.host.describe import host_options
from cuenv.knowledge.rows import WHEELS
from cuenv.resolver.candidates import Candidate, admits, candidates_of
from cuenv.resolver.decision import Decision, decide, rejections_of
from cuenv.resolver.explain import chosen_line
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.rules import RULES, Verdict

_RULES_ABOUT: dict[str, tuple[str, ...]] = {
    "pytorch": tuple(rule.name for rule in RULES),
    **{
        subject: tuple(rule.name for rule in RULES if subject in rule.about)
        for subject in ("cuda", "python", "stack", "cudatoolkit-dev", "cudnn", "nccl", "driver")
    },
}
SUBJECTS = tuple(_RULES_ABOUT)
KEYS = ("pytorch", "cuda", "python", "stack")
_CHANNELS = "what the channels can satisfy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A criterion that separates the choice from another candidate."""

    criterion: str
    chosen: str
    other: str
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What there is to say to a question."""

    question: str
    says: str  # the answer in one sentence
    verdicts: tuple[tuple[Verdict, int], ...] = ()  # with how many candidates each stands for
    losses: tuple[Loss, ...] = ()  # where preference and not a rule decides
    of_choice: bool = True  # whether it depends on what was chosen, and so on whether the channels were asked


def why(decision: Decision, subject: str) -> Answer:
    """Why the choice is as it is."""
    rules = _RULES_ABOUT.get(subject)
    if rules is None:
        hint = f"cuenv explain {shlex.quote(subject)}" if " " in subject.strip() else "cuenv why pytorch"
        raise UsageError(f"unknown subject {subject!r}; choose from {', '.join(SUBJECTS)}", hint=hint)
    question = f"why {subject}"
    chosen = decision.chosen
    if chosen is None:
        verdicts = tuple((group.lead, group.count) for group in decision.rejections)
        return Answer(question=question, says="no candidate fits, so there is no choice to explain", verdicts=verdicts)
    verdicts = tuple((verdict, 1) for verdict in chosen.verdicts if verdict.rule in rules)
    losses: dict[str, Loss] = {}
    variants = [item for item in decision.variants(chosen) if item.candidate.python != chosen.candidate.python]
    others = variants[:1]  # the same with its best other Python
    if subject != "python":
        others += decision.fitting[1:]
    for item in others:
        loss = _loss(decision, item)
        if loss and loss.criterion not in losses:
            losses[loss.criterion] = loss
    return Answer(question=question, says=chosen_line(decision), verdicts=verdicts, losses=tuple(losses.values()))


def why_not(decision: Decision, question: str) -> Answer:
    """Why something else was not chosen: its objections, else the first criterion on which it loses.

    Args:
        question: ``cuda=13.0``, ``pytorch=2.12``, ``stack=pytorch`` or ``python=3.13``.
    """
    key, separator, value = question.partition("=")
    if not separator or key not in KEYS or not value:
        raise UsageError(
            f"why-not {question!r}: expected KEY=VALUE with KEY one of {', '.join(KEYS)}",
            hint=f"cuenv why-not pytorch={shlex.quote(value)}"
            if key == "torch" and value
            else "cuenv why-not cuda=13.0",
        )
    asked = f"why not {question}"
    request = None if key == "stack" else parse_version_spec(value.lstrip("="), what=key)
    pool = decision.assessments
    if key == "python" and request:
        # The choice has one Python; the question is about the same builds with another.
        context = decision.context
        others = candidates_of(context.request.stack, context.knowledge, context.facts.platform, request)
        pool = decide(context, [*others, *([decision.chosen.candidate] if decision.chosen else [])]).assessments
    if key == "stack" and value == WHEELS and all(item.candidate.build.stack != WHEELS for item in pool):
        return Answer(question=asked, says=_wheels_unasked(decision))
    meant = [item for item in pool if _matches(item.candidate, key, value, request)]
    if not meant:
        return Answer(question=asked, says=_unknown_value_text(decision, key, value), of_choice=False)
    if decision.chosen and any(_same(item.candidate, decision.chosen.candidate) for item in meant):
        return Answer(question=asked, says=f"it is the choice: {chosen_line(decision)}")
    fitting = decision.ranked(item for item in meant if item.fits)
    if fitting:
        loss = _loss(decision, fitting[0])
        says = f"it fits, but ranks below the choice by {loss.criterion!r}" if loss else "it fits"
        says = f"it fits the host, but {loss.other}" if loss and loss.criterion == _CHANNELS else says
        return Answer(question=asked, says=says, losses=(loss,) if loss else ())
    groups = rejections_of(meant)
    says = f"{len(meant)} candidates have {question}, but each is rejected: {groups[0].because}"
    return Answer(
        question=asked, says=says, verdicts=tuple((group.lead, group.count) for group in groups), of_choice=False
    )


def _wheels_unasked(decision: Decision) -> str:
    """What would be chosen among the wheels, which nobody asked for."""
    wheels = decide(replace(decision.context, request=replace(decision.context.request, stack=WHEELS)))
    why = "wheels are chosen where they are asked for, and where no conda build fits"
    if wheels.chosen:
        return f"{why}; --stack {WHEELS} would choose {wheels.chosen.candidate}"
    because = wheels.rejections[0].because if wheels.rejections else "the cuenv tables list no wheel"
    return f"{why}; no wheel fits: {because}"


def _same(one: Candidate, other: Candidate) -> bool:
    """Whether two candidates are the same environment."""
    return (one.build, one.cuda, one.python, one.label) == (other.build, other.cuda, other.python, other.label)


def _loss(decision: Decision, item: Assessment) -> Loss | None:
    """The criterion on which a candidate loses to the choice; ``None`` where they are equal."""
    lacking = next((why for candidate, why in decision.skipped if str(candidate) == str(item.candidate)), "")
    if lacking:  # it may rank before the choice
        ours = "the channels have all packages of the choice"
        return Loss(criterion=_CHANNELS, chosen=ours, other=lacking, example=str(item.candidate))
    found = decision.lost_on(item)
    if found is None:
        return None
    criterion, ours, theirs = found
    return Loss(criterion=criterion.name, chosen=ours, other=theirs, example=str(item.candidate))


def _matches(candidate: Candidate, key: str, value: str, request: VersionSpec | None) -> bool:
    if request is None:
        return candidate.build.stack == value
    if key == "pytorch":
        return request.admits(candidate.build.version)
    have = candidate.python if key == "python" else candidate.cuda and str(candidate.cuda)
    return have is not None and admits(request, have)


def _unknown_value_text(decision: Decision, key: str, value: str) -> str:
    """No candidate has it: which are nearest, and the wheels that have it."""
    context = decision.context
    known = {_value(item.candidate, key) for item in decision.assessments} - {None}
    ordered = sorted((text for text in known if text), key=lambda text: _order(text, key))
    listed = ", ".join(ordered[-_NEWEST:])
    are = f"they list {listed}" if len(ordered) <= _NEWEST else f"the newest of {len(ordered)} are {listed}"
    kind = "wheel" if context.request.stack == WHEELS else "conda build"
    says = f"the cuenv tables list no {kind} with {key} {value} for {context.facts.platform}; {are}"
    request = None if key == "stack" or kind == "wheel" else parse_version_spec(value.lstrip("="), what=key)
    wheels = candidates_of(WHEELS, context.knowledge, context.facts.platform) if request else ()
    if any(_matches(item, key, value, request) for item in wheels):
        command = ["cuenv", "resolve", *host_options(context.facts), "--stack", WHEELS, f"--{key}", value]
        says += f"; wheels have it, for pip: {shlex.join(command)}"
    return says


_NEWEST = 12


def _value(candidate: Candidate, key: str) -> str | None:
    values = {
        "pytorch": str(candidate.build.version),
        "cuda": str(candidate.cuda) if candidate.cuda else None,
        "python": candidate.python,
        "stack": candidate.build.stack,
    }
    return values[key]


def _order(text: str, key: str) -> tuple[int, ...]:
    return () if key == "stack" else version(text).release
