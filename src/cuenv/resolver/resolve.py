"""Resolve: from a host and a request to an environment file for each platform, if asked proven on the channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from cuenv.core.errors import ChannelError, OfflineError, OutsideError, Progress
from cuenv.core.findings import Finding, report
from cuenv.core.notebook import Drawable
from cuenv.core.record import dataclass, replace
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import WHEELS
from cuenv.resolver.candidates import Candidate, environment_key
from cuenv.resolver.compose import environment_of
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.health import machine_findings
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.rules import Context
from cuenv.solve.environment_spec import EnvironmentSpec, Pin

if TYPE_CHECKING:  # only --prove pays for them
    from cuenv.resolver.prove import Unread
    from cuenv.solve.io.local_records import LocalRecords
    from cuenv.solve.io.sources import Sources
    from cuenv.solve.model import Solution


@dataclass(frozen=True, kw_only=True)
class Resolution(Drawable):
    """The result of ``cuenv resolve``: the decision, and the environment of its choice."""

    decision: Decision
    spec: EnvironmentSpec | None  # the environment, or ``None`` when nothing fits
    findings: tuple[Finding, ...]  # what is odd about the machine, or against the policy in what was requested
    solution: Solution | None = None  # the solver's answer, when it was asked for one
    # the day of the records at hand that the choice was proven on; empty where it is by the tables alone, or where the
    # channels were asked
    records: str = ""
    lacking: str = ""  # the day of the records at hand that do not satisfy a choice by the tables, and why

    @property
    def fits(self) -> bool:
        """There is an environment, and no finding refuses it."""
        return self.spec is not None and not any(finding.severity == "error" for finding in self.findings)


def resolve(
    facts: HostFacts,
    request: Request,
    knowledge: Knowledge,
    *,
    name: str = "cuenv",
    platforms: tuple[str, ...] = (),
    prove: Sources | None = None,
    local_records: LocalRecords | None = None,
    progress: Progress | None = None,
) -> Resolution:
    """Choose an environment for a host, on its platform or on several.

    Args:
        platforms: the platforms that the environment is for, where that is not the one of the host; of several, the
            decision is that of the first, with the candidates that fit on all.
        prove: where to read channels, to take the best candidate that solves on them; ``None`` asks no solver.
        local_records: channel records that lie here already: the choice is proven on them where they tell enough.

    Raises:
        UsageError: a requested package is no spec, or nothing can have that name.
    """
    facts = facts_for_decision(facts)
    if prove is not None and request.as_of:
        prove = replace(prove, as_of=request.as_of)
    if len(platforms) > 1:
        context = Context(facts=facts, request=request, knowledge=knowledge, proving=prove is not None)
        decision, spec, solution, more = decide_together(context, platforms, name, prove, progress)
        return _resolution(decision, spec, facts, solution, more)
    if platforms:
        facts = replace(facts, platform=platforms[0])
    if prove is None and local_records is not None and request.stack != WHEELS:  # of wheels no channel has a record
        found = _proven_on_local_records(facts, request, knowledge, name, local_records)
        if found is not None:
            return found
    decision = decide_with_wheels(Context(facts=facts, request=request, knowledge=knowledge, proving=prove is not None))
    solution = None
    if prove is not None and decision.chosen is not None:
        from cuenv.resolver.prove import packages_in_the_way, solving  # noqa: PLC0415 - the solver is heavy

        decision, solution = solving(decision, name, prove, progress)
        if solution is None:
            decision = replace(decision, unsolved=packages_in_the_way(decision.context, name, prove, progress))
    spec = environment_of(decision, name) if decision.chosen else None
    return _resolution(decision, spec, facts, solution)


def _resolution(
    decision: Decision,
    spec: EnvironmentSpec | None,
    facts: HostFacts,
    solution: Solution | None,
    more: Iterable[Finding] = (),
) -> Resolution:
    """A decision with its environment, and what is odd about the host or against the policy."""
    context, chosen = decision.context, decision.chosen
    findings = [
        *machine_findings(facts, chosen.candidate if chosen else None, context.knowledge, context.request),
        *more,
    ]
    if solution is not None:
        from cuenv.resolver.solution_policy import undated_findings  # noqa: PLC0415 - most choices ask no solver

        findings += undated_findings(solution, context.request.as_of)
    if spec is not None and not _keeps_policy(spec, context.request):
        from cuenv.resolver.policy import spec_findings  # noqa: PLC0415 - see `_keeps_policy`

        findings += spec_findings(spec, context.knowledge, libraries=bool(context.request.packages or spec.pip))
    return Resolution(decision=decision, spec=spec, findings=report("", findings).findings, solution=solution)


def _keeps_policy(spec: EnvironmentSpec, request: Request) -> bool:
    """Whether cuenv alone wrote an environment, for one channel: the policy is its own, and a test holds it to that."""
    return not request.packages and not spec.pip and spec.channels == ("conda-forge",)


def _proven_on_local_records(
    facts: HostFacts, request: Request, knowledge: Knowledge, name: str, local_records: LocalRecords
) -> Resolution | None:
    """The choice as it solves on the records at hand; ``None`` where they do not tell, and nobody asked why."""
    from cuenv.resolver.prove import TRIES_AT_HAND, packages_in_the_way, solving  # noqa: PLC0415 - the solver is heavy

    decision = decide(Context(facts=facts, request=request, knowledge=knowledge, proving=True))
    if decision.chosen is None:
        return None
    stack = decision.chosen.candidate.build.stack  # records of another channel may not lie here
    first = replace(decision, fitting=tuple(item for item in decision.fitting if item.candidate.build.stack == stack))
    try:
        unread: Unread = {}
        found, solution = solving(first, name, local_records.sources, None, solves=TRIES_AT_HAND, unread=unread)
        unsolved = () if solution else packages_in_the_way(decision.context, name, local_records.sources, stack=stack)
    except (ChannelError, OutsideError):
        return None
    if any(isinstance(error, OfflineError) for error in unread.values()):
        return None
    if solution is None:
        tables = resolve(facts, request, knowledge, name=name)
        lacking = f"{local_records.day}: {found.skipped[0][1]}" if found.skipped else ""
        return replace(tables, decision=replace(tables.decision, unsolved=unsolved), lacking=lacking)
    others = (item for item in decision.fitting if item.candidate.build.stack != stack)
    decision = replace(found, fitting=(*found.fitting, *others))
    spec = environment_of(decision, name) if decision.chosen else None
    return replace(_resolution(decision, spec, facts, solution), records=local_records.day)


def decide_with_wheels(context: Context) -> Decision:
    """Choose among the conda builds; where none fits and the request leaves the stack open, among the wheels."""
    decision, request = decide(context), context.request
    if decision.chosen or request.stack or request.cpu or not context.facts.gpus:
        return decision
    wheels = decide(replace(context, request=replace(request, stack=WHEELS)))
    meant = [item.because for item in decision.rejections if item.rule not in ("cpu", "wish")]
    lead = meant[0] if meant else "no conda build has the requested versions"
    known = wheels.chosen and not wheels.chosen.open_layers
    return replace(wheels, conda=lead) if known else decision


def facts_for_decision(facts: HostFacts) -> HostFacts:
    """The host as a decision may see it: a CUDA version alone chooses nothing, for which GPU would the build be?"""
    return facts if facts.gpus else replace(facts, driver=None)


Row = tuple[Assessment, ...]  # one environment on every platform, in the order of the platforms


def decide_together(
    context: Context, platforms: tuple[str, ...], name: str, prove: Sources | None, progress: Progress | None
) -> tuple[Decision, EnvironmentSpec | None, Solution | None, tuple[Finding, ...]]:
    """Choose for several platforms: the decision of the first, with the candidates that fit on all.

    Args:
        context: the host, of which only the platform differs, with what is asked for.
        platforms: at least two.
        prove: where to read channels, to take the best candidate that solves on every platform.

    Returns:
        The decision, the environment, the solver's answer, and a finding where nothing fits on all platforms.
    """
    hosts = [replace(context.facts, platform=platform) for platform in platforms]
    decisions = [decide(replace(context, facts=host)) for host in hosts]
    rows, skipped = _fitting_everywhere(decisions)
    nothing = () if rows else (_no_candidate_finding(decisions, platforms),)
    solution = None

    def spec_of(item: Assessment) -> EnvironmentSpec:
        return _for_all(environment_of(replace(decisions[0], fitting=(item,)), name), platforms)

    if prove is not None:
        rows, more, solution = _first_solving_everywhere(rows, decisions, spec_of, prove, progress)
        skipped += more
    decision = replace(
        decisions[0],
        assessments=tuple(_assessed_everywhere(decisions)),
        fitting=tuple(row[0] for row in rows),
        skipped=tuple(skipped),
        proven=prove is not None,
    )
    return decision, spec_of(decision.chosen) if decision.chosen else None, solution, nothing


def _fitting_everywhere(decisions: list[Decision]) -> tuple[list[Row], list[tuple[Candidate, str]]]:
    """What fits on all platforms, in the order of the first, each with the best Python that all have."""
    others = [
        {environment_key(item.candidate): item for fit in decision.fitting for item in decision.variants(fit)}
        for decision in decisions[1:]
    ]
    rows: list[Row] = []
    skipped: list[tuple[Candidate, str]] = []
    for item in decisions[0].fitting:
        found = [
            (variant, *(other[environment_key(variant.candidate)] for other in others))
            for variant in decisions[0].variants(item)
            if all(environment_key(variant.candidate) in other for other in others)
        ]
        rows += found
        if not found and not rows:
            skipped.append((item.candidate, _why_not(item.candidate, decisions[1:])))
    return rows, skipped


def _assessed_everywhere(decisions: list[Decision]) -> Iterator[Assessment]:
    """The assessments of the first platform whose environment was built for the others: hints speak of these alone."""
    others = [{_key_without_python(item.candidate) for item in decision.assessments} for decision in decisions[1:]]
    for item in decisions[0].assessments:
        if all(_key_without_python(item.candidate) in other for other in others):
            yield item


def _why_not(candidate: Candidate, others: list[Decision]) -> str:
    """Why a candidate of the first platform is not one of the others."""
    for decision in others:
        platform = decision.context.facts.platform
        wanted = _key_without_python(candidate)
        there = [item for item in decision.assessments if _key_without_python(item.candidate) == wanted]
        if not there:
            return f"it does not exist for {platform}"
        if there[0].objections:
            return f"{platform}: {there[0].objections[0].because}"
    return (
        "this build exists for no Python version that "
        f"{' and '.join(item.context.facts.platform for item in others)} as well"
    )


def _key_without_python(candidate: Candidate) -> tuple[object, ...]:
    return environment_key(replace(candidate, python=""))


def _first_solving_everywhere(
    rows: list[Row],
    decisions: list[Decision],
    spec_of: Callable[[Assessment], EnvironmentSpec],
    sources: Sources,
    progress: Progress | None,
) -> tuple[list[Row], list[tuple[Candidate, str]], Solution | None]:
    """The rows from the first on that solves on every platform, and why each before it does not."""
    from cuenv.resolver.prove import solve_candidate  # noqa: PLC0415 - the solver is heavy
    from cuenv.solve.model import Solution  # noqa: PLC0415 - as above

    skipped: list[tuple[Candidate, str]] = []
    unread: Unread = {}
    for index, row in enumerate(rows):
        if progress:
            progress(f"trying {row[0].candidate}")
        spec = spec_of(row[0])
        first: Solution | None = None
        for item, decision in zip(row, decisions, strict=True):
            answer = solve_candidate(item.candidate, spec, decision, sources, unread)
            if not isinstance(answer, Solution):
                skipped.append((row[0].candidate, f"{decision.context.facts.platform}: {answer.why}"))
                break
            first = first or answer
        else:
            return rows[index:], skipped, first
    return [], skipped, None


def _for_all(spec: EnvironmentSpec, platforms: tuple[str, ...]) -> EnvironmentSpec:
    """The environment of the first platform, with pins that mean the same on all."""
    named = " and ".join(platforms)
    header = tuple(line.replace(f", {platforms[0]}.", f", {named}.") for line in spec.header)
    return replace(spec, platforms=platforms, pins=tuple(_pins(spec, platforms)), header=header)


def _pins(spec: EnvironmentSpec, platforms: tuple[str, ...]) -> Iterator[Pin]:
    compilers = {f"gxx_{platform}" for platform in platforms}
    for pin in spec.pins:
        if pin.name not in compilers:
            yield pin
            continue
        # Not every gcc major has a gxx on both platforms: any up to the one that nvcc accepts will do.
        highest = pin.version.removesuffix(".*")
        bound = f"<{int(highest) + 1}" if highest.isdigit() else pin.version
        why = (*pin.why, "gxx has this name on every platform")
        yield replace(pin, name="gxx", version=bound, why=why)


def _no_candidate_finding(decisions: list[Decision], platforms: tuple[str, ...]) -> Finding:
    """The finding that no candidate fits everywhere, with what each platform has."""
    parts = []
    for decision, platform in zip(decisions, platforms, strict=True):
        best = decision.chosen
        why = decision.rejections[0].because if decision.rejections else "the cuenv tables list no build"
        parts.append(f"only for {platform}: {best.candidate}" if best else f"for {platform}: no candidate, {why}")
    message = f"no candidate fits {' and '.join(platforms)} together; {'; '.join(parts)}"
    fix = f"cuenv resolve --platform {platforms[0]}"
    return Finding(code="CU110", severity="error", subject="platforms", message=message, fix=fix)
