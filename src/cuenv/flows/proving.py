"""Prove: the best candidate that the solver closes on the configured channels, and why each better one is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from cuenv.candidates import Candidate
from cuenv.decision import Decision
from cuenv.environment import EnvironmentSpec
from cuenv.facts import virtual_packages
from cuenv.lock import Solution, SolveRequest, Unsatisfiable
from cuenv.world.solve import absent, solve
from cuenv.world.sources import Sources

Progress = Callable[[str], None]
_NO_CANDIDATES = re.compile(r"[├└│─\s]*(.+?), for which no candidates were found")


def prove(
    decision: Decision,
    composed: Callable[[Decision], EnvironmentSpec],
    sources: Sources,
    progress: Progress | None,
) -> tuple[Decision, Solution | None]:
    """The best candidate that the channels close, and why each better one was skipped."""
    skipped: list[tuple[Candidate, str]] = []
    facts = decision.case.facts
    pairs = ((index, item) for index, fit in enumerate(decision.fitting) for item in decision.variants(fit))
    for index, item in pairs:
        tried = replace(decision, fitting=(item,))
        spec = composed(tried)
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
                (item.candidate, _without_python(item.candidate, spec, sources) or unsatisfiable_text(answer, spec))
            )
            continue
        proven = replace(decision, fitting=(item, *decision.fitting[index + 1 :]), skipped=tuple(skipped), proven=True)
        return proven, answer
    return replace(decision, fitting=(), skipped=tuple(skipped), proven=True), None


def _without_python(candidate: Candidate, spec: EnvironmentSpec, sources: Sources) -> str | None:
    """Whether the build is there, but not for this Python: build strings name it (``py312``, ``py3.12``)."""
    pin = spec.pin("pytorch")
    if pin is None:
        return None
    ways = (candidate.python.replace(".", ""), candidate.python)
    builds = [f"{pin.build.rstrip('*')}*py{way}_*" for way in ways] + [f"py{candidate.python}_{pin.build}"]
    narrowed = [replace(pin, build=build) for build in builds]
    if len(absent(narrowed, spec.channels, candidate.build.platform, sources)) < len(narrowed):
        return None
    return f"no record of {pin.yaml_text()} for this Python"


def unsatisfiable_text(answer: Unsatisfiable, spec: EnvironmentSpec) -> str:
    """The solver's no in one line: what no record satisfies.

    A leaf on a package that the environment itself pins is a consequence of that pin, and no cause.
    """
    if answer.missing:
        return f"no record of {', '.join(answer.missing)}"
    pinned = {pin.name for pin in spec.pins}
    leaves = dict.fromkeys(found[1].strip() for found in map(_NO_CANDIDATES.match, answer.text.splitlines()) if found)
    causes = [leaf for leaf in leaves if leaf.split(" ")[0] not in pinned]
    if causes:
        return f"no record of {', '.join(causes[:3])}"
    return "the solver finds no way to satisfy all of it"
