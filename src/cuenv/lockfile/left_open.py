"""What a file with a pip part leaves open: its Python, its torch, and what that torch dies of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cuenv.core.findings import Finding, Report
from cuenv.core.record import replace
from cuenv.host.facts import HostFacts
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.file_check import runnable_torch
from cuenv.resolver.asked_cuda import version_spec_of
from cuenv.resolver.asked_torch import torch_asked
from cuenv.resolver.candidates import admits
from cuenv.resolver.conflicts import conflict_bounds
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.model import Solution

PYTHONS_TRIED = 4  # pythons that are tried for a file that conda solves; each is one more solve
_LIKELY_PYTHONS = tuple(f"3.{minor}" for minor in (12, 11, 10, 9, 8, 7, 6, 13, 14))
"""Files grow old, so older Pythons are tried before newer ones."""


def open_pythons(spec: EnvironmentSpec, knowledge: Knowledge) -> tuple[str, ...]:
    """The Pythons that a file with a pip part leaves open, the likeliest first; none where it names one.

    A torch of pip leaves those that have its wheels.
    """
    pin, asked = spec.pin("python"), torch_asked(spec.pip)
    bound = version_spec_of(pin)
    admitted = tuple(text for text in _LIKELY_PYTHONS if bound is None or admits(bound, text))
    if not spec.pip or (pin and pin.version and bound is None) or len(admitted) < 2:
        return ()
    able = {text for row in knowledge.wheels if asked and asked.has(row) for text in row.pythons}
    return tuple(text for text in admitted if not able or text in able)


def with_python(spec: EnvironmentSpec, python: str) -> EnvironmentSpec:
    """A file that names one of the Pythons that it leaves open."""
    pin, bound = spec.pin("python"), version_spec_of(spec.pin("python"))
    if pin is None:
        return replace(spec, pins=(*spec.pins, Pin(name="python", version=f"={python}")))
    wanted = f"{pin.version},{python}.*" if bound and bound.prefix is None else f"={python}"
    return replace(spec, pins=tuple(replace(one, version=wanted) if one is pin else one for one in spec.pins))


def needs_other_python(found: Report) -> bool:
    """Whether a file is refused because its pip part does not resolve with its Python."""
    return any(item.other_python for item in found.errors)


def pythons_to_try(
    found: Report, facts: HostFacts, spec: EnvironmentSpec, knowledge: Knowledge, *, python: str, others: Sequence[str]
) -> Sequence[str]:
    """The Pythons that may help where a lock is refused; none where it is refused for another reason.

    Where pip does not resolve with the Python that was tried, they are all others; where torch does not run on the
    host, those for which another torch does.
    """
    if needs_other_python(found):
        return others
    if not {"CU401", "CU403"} & {item.code for item in found.errors}:
        return ()
    runs = [text for text in (python, *others) if text and runnable_torch(spec, facts, text, knowledge)]
    return () if python in runs else runs


def pip_bounds(
    spec: EnvironmentSpec, hosts: Sequence[HostFacts], solutions: Iterable[Solution], knowledge: Knowledge
) -> tuple[list[str], list[Finding]]:
    """The bounds with which pip takes a torch that runs on the hosts and nothing of which it dies, and what says so."""
    bounds, told, lines = list[str](), list[Finding](), spec.pip
    for host, solution in zip(hosts, solutions, strict=True) if spec.pip else ():
        package = solution.package("python")
        python = ".".join((package.version if package else solution.python).split(".")[:2])
        runs = runnable_torch(spec, host, python, knowledge) if python else None
        if runs:
            first, last, finding = runs
            bounds.append(f"torch>={first},<={last}")
            told += [finding] if finding else []
            lines = (f"torch=={last}", *lines)
    for bound, finding in conflict_bounds(replace(spec, pip=lines), knowledge) if spec.pip else ():
        bounds.append(bound)
        told.append(finding)
    return bounds, told
