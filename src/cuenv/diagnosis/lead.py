"""What ended the run: which of the causes in a log leads and why, what merely follows, and what no row explains.

An exception or an error leads before a line that only mentions something, and that before a warning. Of several
exceptions the last one leads, where one process ran; of several ranks, the one that failed first. A warning, or a line
in passing, does not lead where the run was ended by something that has nothing to do with it. An exception that no row
explains is the program's own where the last frame of its traceback is in the program's file. An error that no row
explains, and whose message is a sentence, leads with that sentence; what it means stays unknown.
"""

from __future__ import annotations

from typing import Literal

from cuenv.core.record import dataclass, replace
from cuenv.diagnosis.log.matches import FailedLine, Scan, SymptomMatch

Verdict = Literal["known", "effect", "harmless", "unknown", "clean"]

_KINDS = {"cause": 0, "effect": 1, "remark": 2}
_GRADES = {"exception": 0, "error": 0, "line": 1, "warning": 2}
_BEFOREHAND = ("install", "solve")
"""Layers whose warnings come before a program runs: its own warnings say more."""
_OF_MACHINE = ("driver", "device", "loader", "container", "scope")
"""Layers whose errors a program may survive without its GPU: the missing GPU is the fault."""
_ANYWHERE = ("scope", "memory")
"""The layer that leads, and one whose errors have the same causes on every system."""
_BY_HAND, _KILLED, _REPORTED = "interrupted", "host-out-of-memory", "child-failed"
_BARE = "Killed"
_STRANGE = 3
_NEAR = 6
"""How far above the end of a build words that fail weakly may name its cause."""
_IN_WORDS = "it is an error (line {}) that cuenv knows only by its words, which say what failed"
_RAISED = "it is the exception that ended the run (line {}); the last frame of its traceback shows where it comes from"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSymptom:
    """A symptom that nothing else in the log explains.

    Attributes:
        followers: what it explains, in the order of the log.
        leads: why it stands where it stands, in one sentence.
    """

    sighting: SymptomMatch
    followers: tuple[SymptomMatch, ...]
    leads: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """What a scan means.

    Attributes:
        roots: the one that leads first; where the verdict is ``unknown``, only one of the kind ``words`` does.
        strange: the lines that fail and that nothing explains; only where the verdict is ``unknown``.
        outlived: whether the run went on after each of them.
    """

    verdict: Verdict
    roots: tuple[RankedSymptom, ...]
    strange: tuple[FailedLine, ...] = ()
    outlived: bool = False


def ranked(found: Scan) -> Ranked:
    """Put the symptoms of a log in order, and say what the log means."""
    if _goes_on_after_all(found):
        if told := _none_ended(found):
            return told
        found = replace(found, outlived=0)
    order = _Order(found)
    sightings = tuple(_stopped(_survived(one, found), found) for one in found.sightings)
    groups = sorted(folded(sightings), key=lambda group: order.place(group[0]))
    roots = tuple(RankedSymptom(sighting=one, followers=under, leads=order.why(one)) for one, under in groups)
    since = max(found.outlived, 0 if found.many else found.worked)
    failed = tuple(one for one in found.failures if one.line > since)
    if not any(one.kind != "remark" and one.last > found.outlived > 0 for one in sightings):
        failed = failed or found.failures
    inner = tuple(one for one in failed if not one.outer)
    first = roots[0].sighting if roots else None
    quiet = all(one.kind == "remark" or one.grade == "warning" for one in sightings)
    scoped = all(one.kind == "remark" or (one.symptom.layer == "scope" and one.grade == "line") for one in sightings)
    if first is not None and scoped and not (found.failures or found.weak):
        return Ranked(verdict="harmless", roots=roots)
    if first is not None and quiet and found.goes_on > first.last and not (found.failures or found.weak):
        return Ranked(verdict="harmless", roots=roots)
    if first is not None and first.kind == "cause":
        ending = _ending(first, inner, found)
        if first.last < since:
            ending = ending or tuple(one for one in failed if one.line > since)
        return _in_words(ending, roots, found) or Ranked(
            verdict="unknown" if ending else "known", roots=roots, strange=_told(ending)
        )
    if said := _in_words(inner, roots, found):
        return said
    if first is not None and first.kind == "effect":
        ends = _above_an_effect(first, inner, found)
        return Ranked(verdict="unknown" if ends else "effect", roots=roots, strange=_told(ends))
    strange = _told(inner) or _told(failed) or found.weak
    verdict: Verdict = "unknown" if strange else "harmless" if roots else "clean"
    return Ranked(verdict=verdict, roots=roots, strange=strange)


def _above_an_effect(first: SymptomMatch, inner: tuple[FailedLine, ...], found: Scan) -> tuple[FailedLine, ...]:
    """Lines that fail where only an effect is known; at the end of a build also those that say so weakly."""
    ends = tuple(one for one in inner if one.grade != "warning")
    if ends or first.symptom.layer != "build":
        return ends
    return tuple(one for one in found.weak if 0 < first.line - one.line <= _NEAR)


def _survived(one: SymptomMatch, found: Scan) -> SymptomMatch:
    """What stood before the run made further steps did not end it: a warning is a notice, and a line a warning.

    Of several processes the steps may be those of another one than the line.
    """
    if _outlived(one, found):
        return replace(one, kind="remark")
    if one.kind != "cause" or one.grade == "exception" or one.last >= found.worked:
        return one
    if one.grade == "warning":
        return replace(one, kind="remark")
    return one if found.many or not found.chain else replace(one, grade="warning")


def _stopped(one: SymptomMatch, found: Scan) -> SymptomMatch:
    """A process that was ended follows from the exception before it that no row knows.

    By hand, since the program hung behind it; by its launcher, since that had said that a process failed. A shell's
    bare word that a process was killed follows from such a report alone.
    """
    told = any(item.symptom.id == _REPORTED and item.line < one.line for item in found.sightings)
    if told and one.symptom.id == _KILLED and one.text.strip() == _BARE:
        return replace(one, kind="effect")
    failed = (item for item in found.failures if item.grade == "exception" and not item.outer)
    if not any(found.outlived < item.line < one.line for item in failed):
        return one
    ended = one.symptom.id == _BY_HAND or (one.symptom.id == _KILLED and told)
    return replace(one, kind="effect") if ended else one


def _outlived(one: SymptomMatch, found: Scan) -> bool:
    """Whether it is an error that the run, or a later one in the same log, made steps long after."""
    return one.kind != "remark" and one.grade in ("exception", "error") and one.last <= found.outlived


def _goes_on_after_all(found: Scan) -> bool:
    """Whether the run goes on long after all that failed."""
    graver = (one for one in found.sightings if one.kind != "remark" and one.grade != "warning")
    return all(one <= found.outlived for one in (*(one.last for one in graver), *(one.line for one in found.failures)))


def _none_ended(found: Scan) -> Ranked | None:
    """Errors of which none ended the run: what they mean for it, nobody knows.

    ``None`` where there are none, or where one of the machine may say what the run goes on without.
    """
    gone = tuple(one for one in found.sightings if _outlived(one, found))
    if any(one.symptom.layer in _OF_MACHINE for one in gone):
        return None
    if not gone and not (found.failures and all(one.kind == "remark" for one in found.sightings)):
        return None
    order = _Order(found)
    shown = folded(gone or found.sightings)
    roots = tuple(RankedSymptom(sighting=one, followers=under, leads=order.why(one)) for one, under in shown)
    errors = (
        tuple(FailedLine(line=one.line, text=one.text, grade="error") for one, _ in shown) if gone else found.failures
    )
    return Ranked(verdict="unknown", roots=roots, strange=_told(errors), outlived=True)


def folded(sightings: tuple[SymptomMatch, ...]) -> tuple[tuple[SymptomMatch, tuple[SymptomMatch, ...]], ...]:
    """What nothing else explains, causes first and then by place, each with what it explains."""
    parents: dict[str, SymptomMatch] = {}
    for one in sightings:
        explains = [other for other in sightings if _follows(one, other)]
        if explains:
            parents[one.symptom.id] = min(explains, key=_by_kind)
    for one in sorted(sightings, key=_by_kind):  # where each of a ring follows another, the gravest of them leads
        above = parents.get(one.symptom.id)
        passed = {one.symptom.id}
        while above and above.symptom.id not in passed:
            passed.add(above.symptom.id)
            above = parents.get(above.symptom.id)
        if above and above.symptom.id == one.symptom.id:
            del parents[one.symptom.id]
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
    return tuple((one, tuple(under.get(one.symptom.id, ()))) for one in sorted(roots, key=_by_kind))


def _follows(one: SymptomMatch, other: SymptomMatch) -> bool:
    """Whether another symptom explains this one; a remark explains nothing, unless the log proves it."""
    if other.kind == "remark" or one.earlier or not one.symptom.follower_of(other.symptom, other.kind):
        return False
    if one.kind == "effect" and one.grade in ("exception", "error") and (_went_on(other) or _no_build(one, other)):
        return False
    named = other.symptom.id in one.symptom.follows or f"layer:{other.symptom.layer}" in one.symptom.follows
    if one.symptom.general and _GRADES[other.grade] > _GRADES[one.grade]:
        return named
    return named or other.grade != "warning" or one.kind == "effect"


def _went_on(one: SymptomMatch) -> bool:
    """Whether it is a warning of a solver, after which the installation went on."""
    return one.grade == "warning" and one.symptom.layer == "solve"


def _no_build(one: SymptomMatch, other: SymptomMatch) -> bool:
    """Whether a build fails beside a warning that it sees no GPU or driver, which a build does not need."""
    return one.symptom.layer == "build" and other.grade == "warning" and other.symptom.layer in ("device", "driver")


def _kind_of(one: SymptomMatch) -> int:
    return _KINDS[one.kind] + _went_on(one)


def _by_kind(sighting: SymptomMatch) -> tuple[int, int, int]:
    return _kind_of(sighting), _GRADES[sighting.grade], sighting.line


class _Order:
    """Where a symptom stands among those of a log."""

    def __init__(self, found: Scan) -> None:
        self.found = found
        self.ahead = _ANYWHERE if any(one.symptom.layer == "scope" for one in found.sightings) else ()
        self.built = [one for one in found.sightings if one.kind == "effect" and one.grade in ("exception", "error")]

    def ends(self, one: SymptomMatch) -> bool:
        """Whether it is in the last exception of a log of one process."""
        found = self.found
        return bool(found.chain) and not found.many and one.grade == "exception" and one.last >= found.chain

    def first_rank(self, one: SymptomMatch) -> bool:
        """Whether the rank that failed first shows it."""
        return bool(self.found.root) and self.found.root in one.ranks

    def place(self, one: SymptomMatch) -> tuple[int, ...]:
        """Less is further ahead."""
        return (
            _kind_of(one) + any(_no_build(failed, one) for failed in self.built),
            one.symptom.layer not in self.ahead,
            one.kind == "effect" and one.symptom.id in (_REPORTED, _KILLED),
            _GRADES[one.grade] + (one.grade == "warning" and one.symptom.layer in _BEFOREHAND),
            one.grade == "warning" and one.symptom.layer != "driver",
            not self.first_rank(one),
            not self.ends(one),
            one.line,
        )

    def why(self, one: SymptomMatch) -> str:
        """The reason of its place."""
        if one.symptom.kind != "remark" and one.grade in ("exception", "error") and one.last <= self.found.outlived:
            return f"the log shows a later run after it (line {one.last}), so it did not end the last run"
        if one.kind == "remark":
            return "it is a notice that does not end a run"
        if one.kind == "effect":
            return "it only reports a failure, and the log does not show the cause"
        if one.symptom.layer == "scope":
            return "the log is from a system that cuenv does not support"
        if one.grade == "warning":
            return f"it is a warning (line {one.line}), and no error of the log explains it"
        if one.grade == "line":
            return f"line {one.line} says so, and no error of the log explains it"
        if self.first_rank(one):
            return f"rank {self.found.root}, which failed first, shows it (line {one.line})"
        if self.ends(one):
            return f"it is the exception that ended the run (line {one.last})"
        return f"it is an error (line {one.line}) that nothing else in the log explains"


def _ending(first: SymptomMatch, failures: tuple[FailedLine, ...], found: Scan) -> tuple[FailedLine, ...]:
    """What ended the run instead of the first cause; empty where the cause did, or may have done so."""
    if first.symptom.layer == "scope":
        return ()
    later = [one for one in failures if one.grade in ("exception", "error") and one.line > first.last]
    if not later:
        return ()
    if first.grade in ("exception", "error"):
        other = (one for one in later if one.own or not one.gpu)
        alone = [one for one in other if found.chain > first.last and not found.many]
        foreign = any(one.grade == "exception" for one in alone)  # else a row knows it: the lines after it echo it
        return tuple(alone) if foreign and alone[-1] is later[-1] else ()
    ends = [one for one in later if one.grade == "exception"] or (later if first.grade == "warning" else [])
    return () if any(one.gpu for one in ends) else tuple(ends)


def _in_words(failures: tuple[FailedLine, ...], roots: tuple[RankedSymptom, ...], found: Scan) -> Ranked | None:
    """An error of which only its words are known: the exception of the end, or of the first rank, else the first."""
    ends = [one for one in failures if one.grade == "exception" and not one.outer]
    errors = [one for one in failures if one.grade == "error" and not one.outer]
    one = (ends[0 if found.many else -1] if ends else errors[0]) if ends or errors else None
    if one is None or one.said is None:
        return None
    effects = tuple(root.sighting for root in roots if root.sighting.kind == "effect")
    rest = tuple(root for root in roots if root.sighting.kind != "effect")
    if one.said.kind == "raised":
        raised = RankedSymptom(sighting=one.said, followers=effects, leads=_RAISED.format(one.line))
        return Ranked(verdict="known", roots=(raised, *rest))
    words = RankedSymptom(sighting=one.said, followers=effects, leads=_IN_WORDS.format(one.line))
    return Ranked(verdict="unknown", roots=(words, *rest), strange=(one,))


def _told(failures: tuple[FailedLine, ...]) -> tuple[FailedLine, ...]:
    """The few that are shown: the exception of the end, the first and the last lines."""
    if len(failures) <= _STRANGE:
        return failures
    exceptions = [one for one in failures if one.grade == "exception"]
    chosen = {one.line: one for one in (*exceptions[-1:], failures[0], failures[-1], failures[-2])}
    return tuple(sorted(list(chosen.values())[:_STRANGE], key=lambda one: one.line))
