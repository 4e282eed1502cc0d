"""Choosing: every candidate is judged by every rule, the fitting ones are ranked by named criteria."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from packaging.version import Version

from cuenv.candidates import Candidate, admits, candidates, distance, pythons
from cuenv.facts import Driver
from cuenv.rules import RULES, Case, Judge, Remedy, Verdict
from cuenv.rules.device import jit_count
from cuenv.rules.driver import minimum_driver
from cuenv.versions import driver_key


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assessment:
    """A candidate and what every rule said about it, in the order of the rules.

    Attributes:
        objections: the verdicts that reject it; the first leads.
    """

    candidate: Candidate
    verdicts: tuple[Verdict, ...]
    objections: tuple[Verdict, ...]

    @property
    def fits(self) -> bool:
        """No rule rejects it; unknown is not a no."""
        return not self.objections

    def verdict(self, rule: str) -> Verdict:
        """The verdict of a rule."""
        return next(verdict for verdict in self.verdicts if verdict.rule == rule)


@dataclass(frozen=True, slots=True)
class Criterion:
    """One named criterion of the preference; a smaller key is better.

    Attributes:
        says: how a candidate stands on it, for "why not".
        of_build: the key depends on the torch build alone, and is asked once for each.
    """

    name: str
    key: Callable[[Assessment, Case], Any]
    says: Callable[[Assessment, Case], str]
    of_build: bool = False


def _level(case: Case) -> Version | None:
    return case.facts.driver.cuda if case.facts.driver else None


def _within(item: Assessment, case: Case) -> bool:
    level, cuda = _level(case), item.candidate.cuda
    return level is None or cuda is None or cuda <= level


def _jit(item: Assessment, case: Case) -> int:
    return jit_count(item.candidate.build, case.facts.capabilities)


def _unknown_roles(item: Assessment, _: Case) -> int:
    return int(item.verdict("roles").outcome == "unknown")


def _newest(item: Assessment, _: Case) -> tuple[int, ...]:
    return tuple(-part for part in item.candidate.build.version.release)


def _toolkit(item: Assessment, case: Case) -> tuple[int, int]:
    """The highest toolkit that the driver's level reaches, else the build's own."""
    level, cuda, own = _level(case), item.candidate.cuda, item.candidate.build.cuda
    if cuda is None or own is None:
        return (0, 0)
    if level is None:
        # Without a driver the release that runs on the oldest drivers is the one that can be promised.
        return (cuda.major, cuda.minor - own.minor)
    return (-cuda.major, -cuda.minor) if cuda <= level else (cuda.major, cuda.minor)


def _own_cuda(item: Assessment, _: Case) -> tuple[int, int]:
    own = item.candidate.build.cuda
    return (-own.major, -own.minor) if own else (0, 0)


def _label(item: Assessment, _: Case) -> tuple[int, ...]:
    label = item.candidate.label
    return tuple(-int(part) for part in label.label.split(".")) if label else ()


NATIVE_LEVEL = Criterion(
    "toolkit within the driver's CUDA level",
    lambda item, case: not _within(item, case),
    lambda item, case: f"CUDA {item.candidate.cuda} against the driver's {_level(case) or 'unknown level'}",
)

PREFERENCE: tuple[Criterion, ...] = (
    Criterion(
        "every GPU native before JIT",
        _jit,
        lambda item, case: f"{_jit(item, case)} capabilities served by JIT only",
        of_build=True,
    ),
    Criterion("all asked roles filled", _unknown_roles, lambda item, _: item.verdict("roles").because),
    Criterion("newest torch", _newest, lambda item, _: f"pytorch {item.candidate.build.version}", of_build=True),
    Criterion(
        "stack conda-forge",
        lambda item, _: item.candidate.build.stack != "conda-forge",
        lambda item, _: f"stack {item.candidate.build.stack}",
        of_build=True,
    ),
    NATIVE_LEVEL,
    Criterion(
        "highest toolkit within that level, else the build's own",
        _toolkit,
        lambda item, _: f"CUDA {item.candidate.cuda}",
    ),
    Criterion(
        "build made for the highest CUDA",
        _own_cuda,
        lambda item, _: f"build {item.candidate.build.build}",
        of_build=True,
    ),
    Criterion(
        "newest label",
        _label,
        lambda item, _: f"label {item.candidate.label.label}" if item.candidate.label else "no label",
    ),
    Criterion(
        "Python nearest 3.12",
        lambda item, _: distance(item.candidate.python),
        lambda item, _: f"python {item.candidate.python}",
    ),
)


def preference(prefer: str) -> tuple[Criterion, ...]:
    """The criteria in order; ``native`` puts the driver's CUDA level first."""
    if prefer != "native":
        return PREFERENCE
    return (NATIVE_LEVEL, *(criterion for criterion in PREFERENCE if criterion is not NATIVE_LEVEL))


@dataclass(frozen=True, slots=True)
class Rejection:
    """Candidates with one and the same leading objection."""

    rule: str
    because: str
    count: int
    example: Candidate


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A better candidate that one remedy would open."""

    candidate: Candidate
    objection: Verdict
    remedy: Remedy


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What was chosen, from what, and why.

    Attributes:
        fitting: the candidates that no rule rejects, best first.
        skipped: candidates that the channels could not close (``--prove``), with what was missing.
    """

    case: Case
    assessments: tuple[Assessment, ...]
    fitting: tuple[Assessment, ...]
    skipped: tuple[tuple[Candidate, str], ...] = ()
    proven: bool = False

    @property
    def chosen(self) -> Assessment | None:
        """The best fitting candidate."""
        return self.fitting[0] if self.fitting else None

    @property
    def minimum_driver(self) -> str | None:
        """The lowest driver that runs what was chosen."""
        return minimum_driver(self.chosen.candidate, self.case) if self.chosen else None

    @cached_property
    def rejections(self) -> tuple[Rejection, ...]:
        """The losers grouped by their leading objection, the largest group first."""
        leads = [(item.objections[0], item.candidate) for item in self.assessments if not item.fits]
        counts = Counter((lead.rule, lead.because) for lead, _ in leads)
        examples = {(lead.rule, lead.because): candidate for lead, candidate in reversed(leads)}
        order = {rule.name: index for index, rule in enumerate(RULES)}
        groups = sorted(counts.items(), key=lambda item: (-item[1], order[item[0][0]], item[0][1]))
        return tuple(Rejection(rule, because, count, examples[rule, because]) for (rule, because), count in groups)

    @cached_property
    def near_misses(self) -> tuple[NearMiss, ...]:
        """For each remedy the best candidate that it alone would open, where it would then beat the choice."""
        opened: dict[Remedy, list[Assessment]] = {}
        for item in self.assessments:
            if len(item.objections) == 1 and item.objections[0].remedy:
                opened.setdefault(item.objections[0].remedy, []).append(item)
        misses = []
        for remedy, items in opened.items():
            then = _remedied(self.case, remedy)
            ranking = Ranking(then)
            # An option changes what every rule asks for: what it opens is what a whole decision with it would choose.
            best = decide(then).chosen if remedy.option else min(items, key=ranking.key)
            if best is None:
                continue
            if self.chosen is None or ranking.key(best) < ranking.key(self.chosen):
                misses.append(NearMiss(best.candidate, items[0].objections[0], remedy))
        return tuple(sorted(misses, key=lambda miss: (driver_key(miss.remedy.driver or "0"), miss.remedy.text)))

    def variants(self, item: Assessment) -> Iterator[Assessment]:
        """A fitting candidate with each Python of its build that the wishes admit, the best first."""
        wish = self.case.wish.python
        for python in pythons(item.candidate.build, wish):
            if wish is None or admits(wish, python):
                yield replace(item, candidate=replace(item.candidate, python=python))

    @cached_property
    def without_wish(self) -> Assessment | None:
        """The best candidate whose only objection is a wish, when nothing fits."""
        if self.chosen:
            return None
        free = [item for item in self.assessments if [lead.rule for lead in item.objections] == ["wish"]]
        return min(free, key=Ranking(self.case).key, default=None)

    def ranked(self, items: Iterable[Assessment]) -> tuple[Assessment, ...]:
        """Assessments in the order of the preference."""
        return tuple(sorted(items, key=Ranking(self.case).key))

    def lost_on(self, item: Assessment) -> tuple[Criterion, str, str] | None:
        """The first criterion on which a fitting candidate loses, and how both stand on it."""
        if self.chosen is None or item is self.chosen:
            return None
        for criterion in preference(self.case.wish.prefer):
            if criterion.key(item, self.case) != criterion.key(self.chosen, self.case):
                return criterion, criterion.says(self.chosen, self.case), criterion.says(item, self.case)
        return None


class Ranking:
    """The order of the preference for one case: smaller keys are better."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._criteria = preference(case.wish.prefer)
        self._memo: dict[tuple[int, int], Any] = {}

    def key(self, item: Assessment) -> tuple[Any, ...]:
        """The key of a candidate, one part for each criterion."""
        return tuple([self._part(index, criterion, item) for index, criterion in enumerate(self._criteria)])

    def _part(self, index: int, criterion: Criterion, item: Assessment) -> Any:
        if not criterion.of_build:
            return criterion.key(item, self._case)
        known = (index, id(item.candidate.build))
        if known not in self._memo:
            self._memo[known] = criterion.key(item, self._case)
        return self._memo[known]


def _remedied(case: Case, remedy: Remedy) -> Case:
    """The case as it would be with the remedy's driver."""
    if remedy.option == "--no-dev":
        return replace(case, wish=replace(case.wish, dev=False))
    if remedy.driver is None:
        return case
    driver = Driver(version=remedy.driver, cuda=case.knowledge.cuda_of(remedy.driver))
    return replace(case, facts=replace(case.facts, driver=driver))


def decide(case: Case, among: Iterable[Candidate] | None = None) -> Decision:
    """Judge all candidates and rank those that fit.

    Args:
        case: the host, the wishes and the tables.
        among: the candidates to judge; all of the host's platform when absent.
    """
    judge = Judge(case)
    pool = candidates(case.knowledge, case.facts.platform, case.wish.python) if among is None else tuple(among)
    assessments = tuple(_assess(item, judge) for item in pool)
    fitting = sorted((item for item in assessments if item.fits), key=Ranking(case).key)
    return Decision(case=case, assessments=assessments, fitting=tuple(fitting))


def _assess(candidate: Candidate, judge: Judge) -> Assessment:
    verdicts = judge.verdicts(candidate)
    objections = tuple([verdict for verdict in verdicts if verdict.outcome == "reject"])
    return Assessment(candidate=candidate, verdicts=verdicts, objections=objections)
