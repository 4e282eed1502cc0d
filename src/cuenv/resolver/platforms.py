"""Resolve for several platforms: one candidate that fits on all of them, in one environment file.

CEP 24 has no selector by architecture (micromamba's ``sel(linux)`` knows the system alone, and conda-lock's comments
are read by nobody else), so that every pin must mean the same everywhere: the host compiler is pinned through the
metapackage ``gxx``, which both platforms have, in place of ``gxx_linux-64``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from cuenv.core.findings import Finding
from cuenv.resolver.candidates import Candidate, environment_key
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.rules import Context
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Solution

Row = tuple[Assessment, ...]
"""One environment on every platform, in the order of the platforms."""


def decide_together(
    case: Context,
    platforms: tuple[str, ...],
    composed: Callable[[Decision], EnvironmentSpec],
    prove: Sources | None,
    progress: Callable[[str], None] | None,
) -> tuple[Decision, EnvironmentSpec | None, Solution | None, tuple[Finding, ...]]:
    """Choose for several platforms: the decision of the first, with the candidates that fit on all.

    Args:
        case: the host, of which only the platform differs, with what is asked for.
        platforms: at least two.
        composed: the environment of a decision.
        prove: where to read channels, to take the best candidate that closes on every platform.
        progress: called with what is being tried.

    Returns:
        The decision, the environment, the solver's answer, and a finding where nothing fits on all platforms.
    """
    hosts = [replace(case.facts, platform=platform) for platform in platforms]
    decisions = [decide(replace(case, facts=host)) for host in hosts]
    rows, skipped = _common(decisions)
    nothing = () if rows else (_nothing(decisions, platforms),)
    solution = None

    def spec_of(item: Assessment) -> EnvironmentSpec:
        return _for_all(composed(replace(decisions[0], fitting=(item,))), platforms)

    if prove is not None:
        rows, more, solution = _proven(rows, decisions, spec_of, prove, progress)
        skipped += more
    decision = replace(
        decisions[0],
        assessments=tuple(_everywhere(decisions)),
        fitting=tuple(row[0] for row in rows),
        skipped=tuple(skipped),
        proven=prove is not None,
    )
    return decision, spec_of(decision.chosen) if decision.chosen else None, solution, nothing


def _common(decisions: list[Decision]) -> tuple[list[Row], list[tuple[Candidate, str]]]:
    """What fits on all platforms, in the order of the first, each with the best Python that all have."""
    others = [_by_key(decision) for decision in decisions[1:]]
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


def _everywhere(decisions: list[Decision]) -> Iterator[Assessment]:
    """The assessments of the first platform whose environment was built for the others: hints speak of these alone."""
    others = [{_but_python(item.candidate) for item in decision.assessments} for decision in decisions[1:]]
    for item in decisions[0].assessments:
        if all(_but_python(item.candidate) in other for other in others):
            yield item


def _by_key(decision: Decision) -> dict[tuple[object, ...], Assessment]:
    return {environment_key(item.candidate): item for fit in decision.fitting for item in decision.variants(fit)}


def _why_not(candidate: Candidate, others: list[Decision]) -> str:
    """Why a candidate of the first platform is not one of the others."""
    for decision in others:
        platform = decision.case.facts.platform
        wanted = _but_python(candidate)
        there = [item for item in decision.assessments if _but_python(item.candidate) == wanted]
        if not there:
            return f"it does not exist for {platform}"
        if there[0].objections:
            return f"{platform}: {there[0].objections[0].because}"
    return (
        "this build exists for no Python version that "
        f"{' and '.join(item.case.facts.platform for item in others)} as well"
    )


def _but_python(candidate: Candidate) -> tuple[object, ...]:
    return environment_key(replace(candidate, python=""))


def _proven(
    rows: list[Row],
    decisions: list[Decision],
    spec_of: Callable[[Assessment], EnvironmentSpec],
    sources: Sources,
    progress: Callable[[str], None] | None,
) -> tuple[list[Row], list[tuple[Candidate, str]], Solution | None]:
    """The rows from the first on that closes on every platform, and why each before it does not."""
    from cuenv.resolver.prove import closed  # noqa: PLC0415 - the solver is heavy

    skipped: list[tuple[Candidate, str]] = []
    for index, row in enumerate(rows):
        if progress:
            progress(f"trying {row[0].candidate}")
        spec = spec_of(row[0])
        first: Solution | None = None
        for item, decision in zip(row, decisions, strict=True):
            answer = closed(item.candidate, spec, decision, sources)
            if not isinstance(answer, Solution):
                skipped.append((row[0].candidate, f"{decision.case.facts.platform}: {answer}"))
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


def _nothing(decisions: list[Decision], platforms: tuple[str, ...]) -> Finding:
    """The finding that no candidate fits everywhere, with what each platform has."""
    parts = []
    for decision, platform in zip(decisions, platforms, strict=True):
        best = decision.chosen
        why = decision.rejections[0].because if decision.rejections else "the cuenv tables list no build"
        parts.append(f"for {platform} alone: {best.candidate}" if best else f"for {platform}: no candidate, {why}")
    return Finding(
        code="CU110",
        severity="error",
        subject="platforms",
        message=f"no candidate fits {' and '.join(platforms)} together; {'; '.join(parts)}",
        fix=f"cuenv resolve --platform {platforms[0]}",
    )
