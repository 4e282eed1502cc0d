"""Choosing: every candidate is judged by every rule, the fitting ones are ranked by named criteria."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from cuenv.candidates import Candidate, admits, candidates, pythons
from cuenv.facts import Driver, HostFacts
from cuenv.preference import Assessment, Criterion, Ranking, preference
from cuenv.rules import RULES, Case, Judge, Remedy, Verdict
from cuenv.rules.driver import minimum_driver, minimum_drivers
from cuenv.versions import driver_key


@dataclass(frozen=True, slots=True)
class Rejection:
    """Candidates with one and the same leading objection.

    Attributes:
        lead: the objection, as it stands against ``example``.
    """

    lead: Verdict
    count: int
    example: Candidate

    @property
    def rule(self) -> str:
        """The rule that rejects them."""
        return self.lead.rule

    @property
    def because(self) -> str:
        """Why, in one sentence."""
        return self.lead.because


class NearMiss(NamedTuple):
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
        """The lowest driver that runs what was chosen; of a pool, that of the machine that needs most."""
        return minimum_driver(self.chosen.candidate, self.case) if self.chosen else None

    @property
    def minimum_drivers(self) -> tuple[tuple[HostFacts, str], ...]:
        """Each machine with the lowest driver that runs what was chosen on its own GPUs."""
        return minimum_drivers(self.chosen.candidate, self.case) if self.chosen else ()

    @cached_property
    def rejections(self) -> tuple[Rejection, ...]:
        """The losers grouped by their leading objection, the largest group first."""
        return grouped(self.assessments)

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
            # An option changes what is asked of every candidate: what it opens is what a decision with it would choose.
            if remedy.option:
                best = min(_again(self.assessments, then), key=ranking.key, default=None)
            else:
                best = _first_fitting(sorted(items, key=ranking.key), then)
            if best is None:
                continue
            if self.chosen is None or ranking.key(best) < ranking.key(self.chosen):
                misses.append(NearMiss(best.candidate, items[0].objections[0], remedy))
        return tuple(sorted(misses, key=lambda miss: (driver_key(miss.remedy.driver or "0"), miss.remedy.text)))

    def variants(self, item: Assessment) -> Iterator[Assessment]:
        """A fitting candidate with each Python of its build that the wishes admit, the best first."""
        wish = self.case.wish.python
        for python in pythons(item.candidate.build):
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
        if self.chosen is None:
            return None
        for criterion in preference(self.case.wish.prefer):
            if criterion.key(item, self.case) != criterion.key(self.chosen, self.case):
                return criterion, criterion.says(self.chosen, self.case), criterion.says(item, self.case)
        return None


def grouped(items: Iterable[Assessment]) -> tuple[Rejection, ...]:
    """Those that are rejected, by their leading objection: the largest group first, of equals the most basic rule."""
    groups: dict[tuple[str, str], list[Assessment]] = {}
    for item in items:
        if not item.fits:
            lead = item.objections[0]
            groups.setdefault((lead.rule, lead.because), []).append(item)
    order = {rule.name: index for index, rule in enumerate(RULES)}
    found = (Rejection(some[0].objections[0], len(some), some[0].candidate) for some in groups.values())
    return tuple(sorted(found, key=lambda group: (-group.count, order[group.rule], group.because)))


def _first_fitting(items: Iterable[Assessment], then: Case) -> Assessment | None:
    """The first that fits indeed: the driver that one GPU needs may be one that has dropped another."""
    judge = Judge(then)
    return next((item for item in items if _assess(item.candidate, judge).fits), None)


def _remedied(case: Case, remedy: Remedy) -> Case:
    """The case as it would be with the option, or with the driver on every machine, of the remedy."""
    if remedy.option == "--no-dev":
        return replace(case, wish=replace(case.wish, dev=False))
    if remedy.option == "--dev":
        return replace(case, wish=replace(case.wish, dev=True))
    if remedy.driver is None:
        return case
    driver = Driver(version=remedy.driver, cuda=case.knowledge.cuda_of(remedy.driver))
    machines = tuple(replace(machine, driver=driver) for machine in case.facts.members)
    return replace(case, facts=replace(case.facts, driver=driver, members=machines))


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
    return _assessment(candidate, judge.verdicts(candidate))


def _assessment(candidate: Candidate, verdicts: tuple[Verdict, ...]) -> Assessment:
    objections = tuple([verdict for verdict in verdicts if verdict.outcome == "reject"])
    return Assessment(candidate=candidate, verdicts=verdicts, objections=objections)


def _again(items: Iterable[Assessment], case: Case) -> Iterator[Assessment]:
    """What fits with a compiler in place of none, or without one: only the rules that look at it are asked again."""
    judge = Judge(case, tuple(rule for rule in RULES if rule.dev))
    for item in items:
        anew = {verdict.rule: verdict for verdict in judge.verdicts(item.candidate)}
        found = _assessment(item.candidate, tuple([anew.get(verdict.rule, verdict) for verdict in item.verdicts]))
        if found.fits:
            yield found
