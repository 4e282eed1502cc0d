"""Choosing: every candidate is judged by every rule, the fitting ones are ranked by named criteria."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache

from cuenv.core.notebook import Drawable
from cuenv.core.record import NamedTuple, dataclass, replace
from cuenv.core.versions import driver_key
from cuenv.host.facts import Driver, HostFacts
from cuenv.knowledge.rows import WHEELS
from cuenv.resolver.candidates import Candidate, admits, candidates_of, pythons
from cuenv.resolver.ranking import Assessment, Criterion, Ranking
from cuenv.resolver.rules import RULES, Context, Judge, Remedy, Rule, Verdict, minimum_drivers


@dataclass(frozen=True, slots=True)
class Rejection:
    """Candidates with one and the same leading objection."""

    lead: Verdict  # the objection, as it stands against ``example``
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
    """What would be chosen with a remedy, where that is better."""

    candidate: Candidate
    objection: Verdict  # what leads against it today
    remedy: Remedy
    then: Context  # the host and the request as they would be with the remedy


@dataclass(frozen=True, kw_only=True)
class Decision(Drawable):
    """What was chosen, from what, and why."""

    context: Context
    assessments: tuple[Assessment, ...]
    fitting: tuple[Assessment, ...]  # the candidates that no rule rejects, best first
    # candidates that do not solve on the channels (``--prove``), with what was missing
    skipped: tuple[tuple[Candidate, str], ...] = ()
    proven: bool = False
    clash: str = ""  # the requested packages that no channel has or that cannot stand together; else empty
    conda: str = ""  # why no conda build was chosen, where nobody asked for wheels and only a wheel fits; else empty
    # requested packages without which the channels satisfy the rest, where they do not satisfy all
    unsolved: tuple[str, ...] = ()

    @property
    def chosen(self) -> Assessment | None:
        """The best fitting candidate."""
        return self.fitting[0] if self.fitting else None

    @property
    def minimum_driver(self) -> str | None:
        """The lowest driver that runs what was chosen; of a pool, that of the machine that needs most."""
        return max((lowest for _, lowest in self.minimum_drivers), key=driver_key, default=None)

    @cached_property
    def minimum_drivers(self) -> tuple[tuple[HostFacts, str], ...]:
        """Each machine with the lowest driver that runs what was chosen on its own GPUs."""
        return minimum_drivers(self.chosen.candidate, self.context) if self.chosen else ()

    @cached_property
    def rejections(self) -> tuple[Rejection, ...]:
        """The losers grouped by their leading objection, the largest group first."""
        return rejections_of(self.assessments)

    @cached_property
    def near_misses(self) -> tuple[NearMiss, ...]:
        """For each remedy what a decision with it would choose, where that is better than the choice."""
        remedies = self._remedies()
        single = self._opened(remedy for remedy in remedies if not (remedy.driver and remedy.option))
        if single or self.chosen:
            return single
        return self._opened(remedy for remedy in remedies if remedy.driver and remedy.option)

    def _remedies(self) -> tuple[Remedy, ...]:
        """The remedies that lift every objection to some candidate, those without a driver first, then by driver."""
        found = {_common_remedy(item.objections) for item in self.assessments if item.objections}
        known = [remedy for remedy in found if remedy]
        return tuple(sorted(known, key=lambda one: (driver_key(one.driver or "0"), one.text)))

    def _opened(self, remedies: Iterable[Remedy]) -> tuple[NearMiss, ...]:
        misses: list[NearMiss] = []
        for remedy in remedies:
            then, rules = _context_with(self.context, remedy), _affected_rules(remedy)
            names = {rule.name for rule in rules}
            able = [item for item in self.assessments if all(verdict.rule in names for verdict in item.objections)]
            order, judge = Ranking(then), Judge(then, rules)
            ours = next(_rejudged((self.chosen,), judge), None) if self.chosen else None
            best = order.best(_rejudged(order.rivals(able, ours) if ours else able, judge))
            if best is None or (self.chosen and not order.key(best) < order.key(self.chosen)):
                continue
            if any(best.candidate is miss.candidate for miss in misses if not miss.remedy.option):
                continue  # an earlier driver opens it
            before = next(item for item in self.assessments if item.candidate is best.candidate)
            lead = before.objections[0] if before.objections else best.verdicts[0]
            misses.append(NearMiss(best.candidate, lead, remedy, then))
        return tuple(misses)

    @cached_property
    def unseen(self) -> Assessment | None:
        """What would be chosen had it been seen in a channel; ``None`` when that is the choice."""
        unseen = [item for item in self.fitting if not item.candidate.build.published]
        if self.context.proving or self.chosen is None or not unseen:
            return None
        best = Ranking(replace(self.context, proving=True)).best([self.chosen, *unseen])
        return None if best is None or best.candidate.build is self.chosen.candidate.build else best

    def variants(self, item: Assessment) -> Iterator[Assessment]:
        """A fitting candidate with each Python of its build that the request admits, the best first."""
        request = self.context.request.python
        for python in pythons(item.candidate.build):
            if request is None or admits(request, python):
                yield replace(item, candidate=replace(item.candidate, python=python))

    @cached_property
    def without_request(self) -> Assessment | None:
        """The best candidate whose only objection is the request, when nothing fits."""
        if self.chosen:
            return None
        free = [item for item in self.assessments if [lead.rule for lead in item.objections] == ["wish"]]
        return Ranking(self.context).best(free)

    def ranked(self, items: Iterable[Assessment]) -> tuple[Assessment, ...]:
        """Assessments in the order of the preference."""
        return tuple(sorted(items, key=Ranking(self.context).key))

    def lost_on(self, item: Assessment) -> tuple[Criterion, str, str] | None:
        """The first criterion on which a fitting candidate loses, and how both stand on it."""
        if self.chosen is None:
            return None
        ranking = Ranking(self.context)
        for criterion, mine, best in zip(ranking.criteria, ranking.key(item), ranking.key(self.chosen), strict=True):
            if mine != best:
                return criterion, criterion.says(self.chosen, self.context), criterion.says(item, self.context)
        return None


def rejections_of(items: Iterable[Assessment]) -> tuple[Rejection, ...]:
    """Those that are rejected, by their leading objection: the largest group first, of equals the most basic rule."""
    groups: dict[tuple[str, str], list[Assessment]] = {}
    for item in items:
        if not item.fits:
            lead = item.objections[0]
            groups.setdefault((lead.rule, lead.because), []).append(item)
    order = {rule.name: index for index, rule in enumerate(RULES)}
    found = (Rejection(some[0].objections[0], len(some), some[0].candidate) for some in groups.values())
    return tuple(sorted(found, key=lambda group: (-group.count, order[group.rule], group.because)))


def _common_remedy(objections: Iterable[Verdict]) -> Remedy | None:
    """What lifts all of them at once: the driver that the last of them needs, an option, or both."""
    remedies = [verdict.remedy for verdict in objections]
    found = [remedy for remedy in remedies if remedy]
    drivers = [remedy for remedy in found if remedy.driver]
    options = {remedy for remedy in found if not remedy.driver}
    if len(found) < len(remedies) or len({remedy.upto for remedy in drivers}) > 1 or len(options) > 1:
        return None
    option = options.pop() if options else None
    if not drivers:
        return option
    pick = min if drivers[0].upto else max
    driver = pick(drivers, key=lambda one: driver_key(one.driver or "0"))
    return driver._replace(text=f"{driver.text} with {option.text}", option=option.option) if option else driver


def _context_with(context: Context, remedy: Remedy) -> Context:
    """The context as the command of a hint asks it: with the option, or one machine with the driver and all GPUs."""
    if remedy.option:
        context = replace(context, request=replace(context.request, dev=remedy.option == "--dev"))
    if remedy.driver is None:
        return replace(context, facts=replace(context.facts, detected=False)) if remedy.option else context
    version = context.knowledge.first_driver(int(remedy.driver)) if remedy.upto else remedy.driver
    driver = Driver(version=version, cuda=context.knowledge.cuda_of(version))
    gpus = tuple(gpu for gpu in context.facts.gpus if gpu.capability)
    return replace(context, facts=replace(context.facts, driver=driver, gpus=gpus, members=(), detected=False))


def decide(context: Context, among: Iterable[Candidate] | None = None) -> Decision:
    """Judge all candidates and rank those that fit.

    Args:
        among: the candidates to judge; all of the host's platform when absent: the wheels where they are asked for.
    """
    return _decided(context, None if among is None else tuple(among))


@lru_cache(maxsize=8)
def _decided(context: Context, among: tuple[Candidate, ...] | None) -> Decision:
    """As `decide`, which keeps the last decisions for callers that ask again for a host."""
    if context.request.stack == WHEELS and context.request.packages:
        from cuenv.resolver.requirements import with_libraries_by_pip  # noqa: PLC0415 - most requests ask for no wheels

        context = replace(context, request=with_libraries_by_pip(context.request, context.knowledge))
    judge = Judge(context)
    asked, platform = context.request, context.facts.platform
    pool = candidates_of(asked.stack, context.knowledge, platform, asked.python) if among is None else among
    assessments = tuple(map(_assessment, pool, judge.verdicts_of_all(pool)))
    fitting = sorted((item for item in assessments if item.fits), key=Ranking(context).key)
    return Decision(context=context, assessments=assessments, fitting=tuple(fitting))


def _assessment(candidate: Candidate, verdicts: tuple[Verdict, ...]) -> Assessment:
    objections = tuple([verdict for verdict in verdicts if verdict.outcome == "reject"])
    return Assessment(candidate=candidate, verdicts=verdicts, objections=objections)


def _affected_rules(remedy: Remedy) -> tuple[Rule, ...]:
    """The rules whose outcome a remedy can change."""
    changed = {"alone", "dev" if remedy.option else "", *(("driver", "level") if remedy.driver else ())}
    return tuple(rule for rule in RULES if rule.reads & changed)


def _rejudged(items: Iterable[Assessment], judge: Judge) -> Iterator[Assessment]:
    """What fits by the new verdicts of some rules and the old ones of the others."""
    for item in items:
        anew = {verdict.rule: verdict for verdict in judge.verdicts(item.candidate)}
        found = _assessment(item.candidate, tuple([anew.get(verdict.rule, verdict) for verdict in item.verdicts]))
        if found.fits:
            yield found
