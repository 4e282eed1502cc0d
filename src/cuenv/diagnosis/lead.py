"""Rank the symptoms of a log: the one that ended the run comes first, with the symptoms that follow from it.

Exceptions and errors rank before lines that only mention a problem, and these before warnings. In the log of one
process the last exception ranks first; with several ranks, the exception of the rank that failed first. A warning or a
mention does not rank first if an unrelated failure ended the run. An exception without a table row belongs to the
program if the last frame of its traceback is in a file of the program. An error without a row ranks by its message if
that is a sentence; the verdict stays unknown.
"""

from __future__ import annotations

from typing import Literal

from cuenv.core.record import dataclass, replace
from cuenv.diagnosis.log.matches import FailedLine, Scan, SymptomMatch

Verdict = Literal["known", "effect", "harmless", "unknown", "clean"]

_KIND_ORDER = {"cause": 0, "effect": 1, "remark": 2}
_GRADE_ORDER = {"exception": 0, "error": 0, "line": 1, "warning": 2}
_INSTALL_LAYERS = ("install", "solve")
"""Layers whose warnings come from an installation, before the program runs: the program's own warnings rank first."""
_MACHINE_LAYERS = ("driver", "device", "loader", "container", "scope")
"""Layers whose errors a program can survive by running without its GPU."""
_SCOPE_LAYERS = ("scope", "memory")
"""The layer that ranks first, and the layer whose errors have the same causes on every system."""
_INTERRUPTED, _KILLED, _CHILD_FAILED = "interrupted", "process-killed", "child-failed"
_KILLED_TEXT = "Killed"
_SHOWN_FAILURES = 3
_NEAR_LINES = 6  # lines above the end of a build in which a weak failure may name its cause
_MESSAGE_REASON = "it is an error (line {}) that cuenv knows only by its words, which say what failed"
_RAISED_REASON = (
    "it is the exception that ended the run (line {}); the last frame of its traceback shows where it comes from"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSymptom:
    """A symptom that no other symptom of the log explains."""

    match: SymptomMatch
    followers: tuple[SymptomMatch, ...]  # the symptoms that follow from it, in the order of the log
    reason: str  # the reason for its rank, in one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class SymptomRanking:
    """The verdict on a scanned log, and its symptoms in rank order."""

    verdict: Verdict
    symptoms: tuple[RankedSymptom, ...]  # the symptoms that no other symptom explains, in rank order
    # the failures that no symptom explains; only if the verdict is ``unknown``
    unexplained: tuple[FailedLine, ...] = ()
    survived: bool = False  # whether the run continued after every error


def rank_symptoms(found: Scan) -> SymptomRanking:
    """Return the verdict on a log and its symptoms in rank order."""
    if _survives_every_failure(found):
        if ranking := _rank_survived_errors(found):
            return ranking
        found = replace(found, survived_until=0)
    order = _RankOrder(found)
    matches = tuple(_as_effect_if_stopped(_as_remark_if_survived(one, found), found) for one in found.matches)
    groups = sorted(group_by_cause(matches), key=lambda group: order.sort_key(group[0]))
    symptoms = tuple(RankedSymptom(match=one, followers=under, reason=order.reason(one)) for one, under in groups)
    since = max(found.survived_until, 0 if found.many_processes else found.last_step)
    failed = tuple(one for one in found.failures if one.line > since)
    if not any(one.kind != "remark" and one.last > found.survived_until > 0 for one in matches):
        failed = failed or found.failures
    inner = tuple(one for one in failed if not one.without_cause)
    first = symptoms[0].match if symptoms else None
    quiet = all(one.kind == "remark" or one.grade == "warning" for one in matches)
    scoped = all(one.kind == "remark" or (one.symptom.layer == "scope" and one.grade == "line") for one in matches)
    worked = scoped or (quiet and first is not None and found.last_activity > first.last)
    if first is not None and worked and not (found.failures or found.weak_failures):
        remarks = tuple(replace(one, match=replace(one.match, kind="remark")) for one in symptoms)
        return SymptomRanking(verdict="harmless", symptoms=remarks)
    if first is not None and first.kind == "cause":
        ending = _failures_that_ended_run(first, inner, found)
        if first.last < since:
            ending = ending or tuple(one for one in failed if one.line > since)
        return _rank_by_message(ending, symptoms, found) or SymptomRanking(
            verdict="unknown" if ending else "known", symptoms=symptoms, unexplained=_shown_failures(ending)
        )
    if by_message := _rank_by_message(inner, symptoms, found):
        return by_message
    if first is not None and first.kind == "effect":
        endings = _failures_above_effect(first, inner, found)
        return SymptomRanking(
            verdict="unknown" if endings else "effect", symptoms=symptoms, unexplained=_shown_failures(endings)
        )
    failures = _shown_failures(inner) or _shown_failures(failed) or found.weak_failures
    verdict: Verdict = "unknown" if failures else "harmless" if symptoms else "clean"
    return SymptomRanking(verdict=verdict, symptoms=symptoms, unexplained=failures)


def _failures_above_effect(first: SymptomMatch, inner: tuple[FailedLine, ...], found: Scan) -> tuple[FailedLine, ...]:
    """Return the failures in a log that has only an effect; for a build, also weak failures just above its end."""
    endings = tuple(one for one in inner if one.grade != "warning")
    if endings or first.symptom.layer != "build":
        return endings
    return tuple(one for one in found.weak_failures if 0 < first.line - one.line <= _NEAR_LINES)


def _as_remark_if_survived(one: SymptomMatch, found: Scan) -> SymptomMatch:
    """Downgrade a match that did not end the run.

    A survived error becomes a remark, and so does a warning before the last step of the run. Another line before that
    step becomes a warning, but not with several processes: the step may come from another process than the line.
    """
    if _is_survived(one, found):
        return replace(one, kind="remark")
    if one.kind != "cause" or one.grade == "exception" or one.last >= found.last_step:
        return one
    if one.grade == "warning":
        return replace(one, kind="remark")
    return one if found.many_processes or not found.last_exception else replace(one, grade="warning")


def _as_effect_if_stopped(one: SymptomMatch, found: Scan) -> SymptomMatch:
    """Make a stopped process an effect if an exception without a row came before it.

    The user stops a program that hangs after the exception; a launcher stops the processes after it reported a failure.
    The shell's message "Killed" follows from such a report even without an exception.
    """
    reported = any(item.symptom.id == _CHILD_FAILED and item.line < one.line for item in found.matches)
    if reported and one.symptom.id == _KILLED and one.text.strip() == _KILLED_TEXT:
        return replace(one, kind="effect")
    failed = (item for item in found.failures if item.grade == "exception" and not item.without_cause)
    if not any(found.survived_until < item.line < one.line for item in failed):
        return one
    ended = one.symptom.id == _INTERRUPTED or (one.symptom.id == _KILLED and reported)
    return replace(one, kind="effect") if ended else one


def _is_survived(one: SymptomMatch, found: Scan) -> bool:
    """Return whether the run, or a later run in the same log, continued long after this error."""
    return one.kind != "remark" and one.grade in ("exception", "error") and one.last <= found.survived_until


def _survives_every_failure(found: Scan) -> bool:
    """Return whether the run continued long after every failure."""
    graver = (one for one in found.matches if one.kind != "remark" and one.grade != "warning")
    return all(
        one <= found.survived_until for one in (*(one.last for one in graver), *(one.line for one in found.failures))
    )


def _rank_survived_errors(found: Scan) -> SymptomRanking | None:
    """Return the ranking for a run that survived all its errors, with the verdict ``unknown``.

    Return ``None`` if the log has no such error, or if one of them may mean that the run continues without its GPU.
    """
    gone = tuple(one for one in found.matches if _is_survived(one, found))
    if any(one.symptom.layer in _MACHINE_LAYERS for one in gone):
        return None
    if not gone and not (found.failures and all(one.kind == "remark" for one in found.matches)):
        return None
    order = _RankOrder(found)
    shown = group_by_cause(gone or found.matches)
    symptoms = tuple(RankedSymptom(match=one, followers=under, reason=order.reason(one)) for one, under in shown)
    errors = (
        tuple(FailedLine(line=one.line, text=one.text, grade="error") for one, _ in shown) if gone else found.failures
    )
    return SymptomRanking(verdict="unknown", symptoms=symptoms, unexplained=_shown_failures(errors), survived=True)


def group_by_cause(matches: tuple[SymptomMatch, ...]) -> tuple[tuple[SymptomMatch, tuple[SymptomMatch, ...]], ...]:
    """Return the symptoms that no other symptom explains, causes first, each with the symptoms that follow from it."""
    parents: dict[str, SymptomMatch] = {}
    for one in matches:
        explains = [other for other in matches if _is_explained_by(one, other)]
        if explains:
            parents[one.symptom.id] = min(explains, key=_severity_order)
    for one in sorted(matches, key=_severity_order):  # in a cycle, the most severe match comes first
        above = parents.get(one.symptom.id)
        passed = {one.symptom.id}
        while above and above.symptom.id not in passed:
            passed.add(above.symptom.id)
            above = parents.get(above.symptom.id)
        if above and above.symptom.id == one.symptom.id:
            del parents[one.symptom.id]
    symptoms = [one for one in matches if one.symptom.id not in parents]
    under: dict[str, list[SymptomMatch]] = {}
    for one in matches:
        top = one.symptom.id
        seen = {top}
        while top in parents and parents[top].symptom.id not in seen:
            top = parents[top].symptom.id
            seen.add(top)
        if top != one.symptom.id:
            under.setdefault(top, []).append(one)
    return tuple((one, tuple(under.get(one.symptom.id, ()))) for one in sorted(symptoms, key=_severity_order))


def _is_explained_by(one: SymptomMatch, other: SymptomMatch) -> bool:
    """Return whether another symptom explains this one; a remark explains no other symptom."""
    if other.kind == "remark" or one.survived or not one.symptom.follows_from(other.symptom, other.kind):
        return False
    if (
        one.kind == "effect"
        and one.grade in ("exception", "error")
        and (_is_solver_warning(other) or _is_irrelevant_to_build(one, other))
    ):
        return False
    named = other.symptom.id in one.symptom.follows or f"layer:{other.symptom.layer}" in one.symptom.follows
    if one.symptom.general and _GRADE_ORDER[other.grade] > _GRADE_ORDER[one.grade]:
        return named
    return named or other.grade != "warning" or one.kind == "effect"


def _is_solver_warning(one: SymptomMatch) -> bool:
    """Return whether it is a solver warning, after which the installation continued."""
    return one.grade == "warning" and one.symptom.layer == "solve"


def _is_irrelevant_to_build(one: SymptomMatch, other: SymptomMatch) -> bool:
    """Return whether ``other`` warns that a failed build sees no GPU or driver; a build needs neither."""
    return one.symptom.layer == "build" and other.grade == "warning" and other.symptom.layer in ("device", "driver")


def _kind_order(one: SymptomMatch) -> int:
    return _KIND_ORDER[one.kind] + _is_solver_warning(one)


def _severity_order(match: SymptomMatch) -> tuple[int, int, int]:
    return _kind_order(match), _GRADE_ORDER[match.grade], match.line


class _RankOrder:
    """The rank order of the symptoms of a log."""

    def __init__(self, found: Scan) -> None:
        self.found = found
        self.preferred_layers = _SCOPE_LAYERS if any(one.symptom.layer == "scope" for one in found.matches) else ()
        self.failed_effects = [
            one for one in found.matches if one.kind == "effect" and one.grade in ("exception", "error")
        ]

    def is_last_exception(self, one: SymptomMatch) -> bool:
        """Return whether it belongs to the last exception in the log of one process."""
        found = self.found
        return (
            bool(found.last_exception)
            and not found.many_processes
            and one.grade == "exception"
            and one.last >= found.last_exception
        )

    def on_first_failed_rank(self, one: SymptomMatch) -> bool:
        """Return whether the rank that failed first shows it."""
        return bool(self.found.first_failed_rank) and self.found.first_failed_rank in one.ranks

    def sort_key(self, one: SymptomMatch) -> tuple[int, ...]:
        """Return the sort key: the smallest ranks first."""
        return (
            _kind_order(one) + any(_is_irrelevant_to_build(failed, one) for failed in self.failed_effects),
            one.symptom.layer not in self.preferred_layers,
            one.kind == "effect" and one.symptom.id in (_CHILD_FAILED, _KILLED),
            _GRADE_ORDER[one.grade] + (one.grade == "warning" and one.symptom.layer in _INSTALL_LAYERS),
            one.grade == "warning" and one.symptom.layer != "driver",
            not self.on_first_failed_rank(one),
            not self.is_last_exception(one),
            one.line,
        )

    def reason(self, one: SymptomMatch) -> str:
        """Return the reason for its rank, in one sentence."""
        if (
            one.symptom.kind != "remark"
            and one.grade in ("exception", "error")
            and one.last <= self.found.survived_until
        ):
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
        if self.on_first_failed_rank(one):
            return f"rank {self.found.first_failed_rank}, which failed first, shows it (line {one.line})"
        if self.is_last_exception(one):
            return f"it is the exception that ended the run (line {one.last})"
        return f"it is an error (line {one.line}) that nothing else in the log explains"


def _failures_that_ended_run(
    first: SymptomMatch, failures: tuple[FailedLine, ...], found: Scan
) -> tuple[FailedLine, ...]:
    """Return the failures that ended the run instead of the first cause; empty if that cause may have ended it."""
    if first.symptom.layer == "scope":
        return ()
    later = [one for one in failures if one.grade in ("exception", "error") and one.line > first.last]
    if not later:
        return ()
    if first.grade in ("exception", "error"):
        other = (one for one in later if one.user_error or not one.gpu_related)
        alone = [one for one in other if found.last_exception > first.last and not found.many_processes]
        foreign = any(one.grade == "exception" for one in alone)  # else a row knows it: the lines after it echo it
        return tuple(alone) if foreign and alone[-1] is later[-1] else ()
    endings = [one for one in later if one.grade == "exception"] or (later if first.grade == "warning" else [])
    return () if any(one.gpu_related for one in endings) else tuple(endings)


def _rank_by_message(
    failures: tuple[FailedLine, ...], symptoms: tuple[RankedSymptom, ...], found: Scan
) -> SymptomRanking | None:
    """Return a ranking by the message of the last exception (the first with several ranks), else of the first error."""
    endings = [one for one in failures if one.grade == "exception" and not one.without_cause]
    errors = [one for one in failures if one.grade == "error" and not one.without_cause]
    one = (endings[0 if found.many_processes else -1] if endings else errors[0]) if endings or errors else None
    if one is None or one.match is None:
        return None
    effects = tuple(entry.match for entry in symptoms if entry.match.kind == "effect")
    rest = tuple(entry for entry in symptoms if entry.match.kind != "effect")
    if one.match.kind == "raised":
        raised = RankedSymptom(match=one.match, followers=effects, reason=_RAISED_REASON.format(one.line))
        return SymptomRanking(verdict="known", symptoms=(raised, *rest))
    words = RankedSymptom(match=one.match, followers=effects, reason=_MESSAGE_REASON.format(one.line))
    return SymptomRanking(verdict="unknown", symptoms=(words, *rest), unexplained=(one,))


def _shown_failures(failures: tuple[FailedLine, ...]) -> tuple[FailedLine, ...]:
    """Return the failures to show: the last exception, the first failure and the last ones."""
    if len(failures) <= _SHOWN_FAILURES:
        return failures
    exceptions = [one for one in failures if one.grade == "exception"]
    chosen = {one.line: one for one in (*exceptions[-1:], failures[0], failures[-1], failures[-2])}
    return tuple(sorted(list(chosen.values())[:_SHOWN_FAILURES], key=lambda one: one.line))
