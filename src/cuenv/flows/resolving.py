"""Resolve: from a host and wishes to an environment file, if asked proven on the channels."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from cuenv import __version__
from cuenv.candidates import Candidate
from cuenv.compose import compose
from cuenv.decision import Decision, decide
from cuenv.environment import EnvironmentSpec
from cuenv.errors import UsageError
from cuenv.facts import HostFacts, virtual_packages
from cuenv.knowledge import Knowledge
from cuenv.laws import spec_findings
from cuenv.lock import Solution, SolveRequest, Unsatisfiable
from cuenv.profile import Profile
from cuenv.report import Finding, report
from cuenv.rules import Case
from cuenv.verify import machine_findings
from cuenv.world.sources import Sources

Progress = Callable[[str], None]
_NO_CANDIDATES = re.compile(r"[├└│─\s]*(.+?), for which no candidates were found")


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """What came of resolving.

    Attributes:
        spec: the environment, or ``None`` when nothing fits.
        findings: what is odd about the machine, or against the laws in what was wished.
        solution: the solver's answer, when it was asked for one.
    """

    decision: Decision
    spec: EnvironmentSpec | None
    findings: tuple[Finding, ...]
    solution: Solution | None = None

    @property
    def fits(self) -> bool:
        """There is an environment, and no law objects to it."""
        return self.spec is not None and not any(finding.severity == "error" for finding in self.findings)


def resolve(
    facts: HostFacts,
    wish: Profile,
    knowledge: Knowledge,
    *,
    name: str = "cuenv",
    prove: Sources | None = None,
    progress: Progress | None = None,
) -> Resolution:
    """Choose an environment for a host.

    Args:
        facts: the host.
        wish: what is asked for.
        knowledge: the tables.
        name: of the environment.
        prove: where to read channels, to take the best candidate that closes on them; ``None`` asks no solver.
        progress: called with what is being tried.

    Raises:
        UsageError: a wished package is no spec.
    """
    decision = decide(Case(facts=facts, wish=wish, knowledge=knowledge))
    solution = None
    if prove is not None and decision.chosen is not None:
        decision, solution = _prove(decision, name, prove, progress)
    chosen = decision.chosen
    spec = _compose(decision, name) if chosen else None
    findings = list(machine_findings(facts, chosen.candidate if chosen else None, knowledge))
    if spec is not None:
        findings += spec_findings(spec, knowledge)
    return Resolution(decision=decision, spec=spec, findings=report("", findings).findings, solution=solution)


def _compose(decision: Decision, name: str) -> EnvironmentSpec:
    try:
        return compose(decision, name=name, version=__version__)
    except ValueError as error:
        raise UsageError(f"--with: {error}", hint="cuenv resolve --with 'transformers>=4.36'") from error


def _prove(
    decision: Decision, name: str, sources: Sources, progress: Progress | None
) -> tuple[Decision, Solution | None]:
    """The best candidate that the channels close, and why each better one was skipped."""
    from cuenv.world.solve import absent, solve  # noqa: PLC0415 - the solver is heavy

    skipped: list[tuple[Candidate, str]] = []
    facts = decision.case.facts
    pairs = ((index, item) for index, fit in enumerate(decision.fitting) for item in decision.variants(fit))
    for index, item in pairs:
        tried = replace(decision, fitting=(item,))
        spec = _compose(tried, name)
        platform = item.candidate.build.platform
        if progress:
            progress(f"trying {item.candidate}")
        missing = absent(spec.pins, spec.channels, platform, sources)
        if missing:
            skipped.append((item.candidate, f"no record of {', '.join(pin.yaml_text() for pin in missing)}"))
            continue
        request = SolveRequest(
            spec=spec, channels=spec.channels, platform=platform, virtual_packages=virtual_packages(facts)
        )
        answer = solve(request, sources)
        if isinstance(answer, Unsatisfiable):
            skipped.append(
                (item.candidate, _without_python(item.candidate, spec, sources) or unsatisfiable_text(answer))
            )
            continue
        proven = replace(decision, fitting=(item, *decision.fitting[index + 1 :]), skipped=tuple(skipped), proven=True)
        return proven, answer
    return replace(decision, fitting=(), skipped=tuple(skipped), proven=True), None


def _without_python(candidate: Candidate, spec: EnvironmentSpec, sources: Sources) -> str | None:
    """Whether the build is there, but not for this Python: build strings name it (``py312``, ``py3.12``)."""
    from cuenv.world.solve import absent  # noqa: PLC0415 - the solver is heavy

    pin = spec.pin("pytorch")
    if pin is None:
        return None
    ways = (candidate.python.replace(".", ""), candidate.python)
    builds = [f"{pin.build.rstrip('*')}*py{way}_*" for way in ways] + [f"py{candidate.python}_{pin.build}"]
    narrowed = [replace(pin, build=build) for build in builds]
    if len(absent(narrowed, spec.channels, candidate.build.platform, sources)) < len(narrowed):
        return None
    return f"no record of {pin.yaml_text()} for python {candidate.python}"


def unsatisfiable_text(answer: Unsatisfiable) -> str:
    """The solver's no in one line: what no record satisfies."""
    if answer.missing:
        return f"no record of {', '.join(answer.missing)}"
    leaves = dict.fromkeys(found[1].strip() for found in map(_NO_CANDIDATES.match, answer.text.splitlines()) if found)
    if leaves:
        return f"no record of {', '.join(list(leaves)[:3])}"
    lines = [line.strip() for line in answer.text.splitlines() if line.strip()]
    return f"the solver finds no way: {lines[0] if lines else 'no reason given'}"
