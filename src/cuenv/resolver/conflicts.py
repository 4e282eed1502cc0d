"""Packages with which a torch build fails although its records admit them: mkl 2024.1, NumPy 2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cuenv.core.findings import FileEdit, Finding
from cuenv.core.record import replace
from cuenv.core.versions import version, version_or_none
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import WHEELS, Conflict
from cuenv.resolver.asked_cuda import torch_channel
from cuenv.resolver.requirements import Demand, pin_demand, pip_demand
from cuenv.solve.environment_spec import EnvironmentSpec, requirement_name
from cuenv.solve.model import LockedPackage, PipLocked

_LAST = version("9999")


def locked_conflicts(
    packages: Iterable[LockedPackage], pip: Iterable[PipLocked], knowledge: Knowledge
) -> Iterator[Finding]:
    """What is locked beside a torch that fails with it."""
    conda = {package.name: package.version for package in packages}
    homes = {package.name: package.channel_name for package in packages if package.name == "pytorch"}
    by_pip = {item.name: item.version for item in pip}
    torch = by_pip.get("torch") or conda.get("pytorch", "")
    stack = WHEELS if "torch" in by_pip else homes.get("pytorch", "")
    release = version_or_none(torch)
    for row in knowledge.conflicts_of(stack, release) if release else ():
        there = version_or_none(by_pip.get(row.package) or conda.get(row.package, ""))
        if there and there >= row.first:
            lead = f"{row.package} {there} does not work with torch {torch}"
            yield _finding(row, lead, pip=row.package in by_pip, certain=True)


def asked_conflicts(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    """What an environment file admits, or asks for, beside a torch that fails with it."""
    for row in knowledge.conflicts:
        torch = _failing_torch(spec, row, knowledge)
        if not torch or not _has_python(spec, row):
            continue
        asked = tuple(_asked(spec, row.package))
        if not asked and row.needed:
            lead = f"{torch} requires {row.package} without an upper bound"
            yield _finding(row, lead, pip=False, certain=False, about=(torch,))
        if not asked or not all(_admits_failing(item, row) for item in asked):
            continue
        certain = not all(_admits_working(item, row) for item in asked)
        what = asked[0].text
        lead = f"{what} does not work with {torch}" if certain else f"{what} allows {row.package} {row.first}"
        lead = lead if certain else f"{lead} beside {torch}"
        yield _finding(row, lead, pip="wheel" in asked[0].ways, certain=certain, about=(what, torch))


def conflict_bounds(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[tuple[str, Finding]]:
    """The bounds on what pip installs beside the torch that it is asked for, and what says so where one counts."""
    from cuenv.resolver.asked_torch import CONDA_TORCHES  # noqa: PLC0415 - only where pip may bring torch

    by_pip = () if any(map(spec.pin, CONDA_TORCHES)) else knowledge.conflicts
    for row in by_pip:
        if torch := _failing_torch(spec, row, knowledge):
            found = _finding(row, f"{row.package}{row.bound} is used beside {torch}", pip=True, certain=False)
            yield f"{row.package}{row.bound}", replace(found, severity="info", fix=None, edits=())


def _failing_torch(spec: EnvironmentSpec, row: Conflict, knowledge: Knowledge) -> str:
    """The torch that a file asks for, where every release that it admits is one that fails; empty for another."""
    pin = spec.pin("pytorch") or spec.pin("pytorch-gpu")
    if pin is None:
        from cuenv.resolver.asked_torch import torch_asked  # noqa: PLC0415 - only where pip may bring torch

        wheel = torch_asked(spec.pip) if WHEELS in row.stacks else None
        return wheel.text if wheel and _all_before(wheel.demand, row, (WHEELS,), knowledge) else ""
    demand, home = pin_demand(pin), torch_channel(spec)
    return pin.yaml_text() if demand and home in row.stacks and _all_before(demand, row, (home,), knowledge) else ""


def _all_before(demand: Demand, row: Conflict, stacks: tuple[str, ...], knowledge: Knowledge) -> bool:
    """Whether every torch that is asked for fails, and one of them is made for a Python that the package runs on."""
    known = (*knowledge.torch, *(knowledge.wheels if WHEELS in stacks else ()))
    releases = {item.version for item in known if item.stack in stacks and demand.admits(item.version)}
    named = {point for point in demand.points() if demand.admits(point)}
    asked = releases or named or {_LAST}
    later = (item.version for item in known if row.python and any(version(each) >= row.python for each in item.pythons))
    installable = row.python is None or max(asked) >= min(later, default=_LAST)
    return bool(demand.condition) and installable and all(item < row.torch_below for item in asked)


def _has_python(spec: EnvironmentSpec, row: Conflict) -> bool:
    """Whether a Python that the file admits may have the releases that fail."""
    python = spec.pin("python")
    demand = pin_demand(python) if python else None
    if row.python is None or demand is None or not demand.condition:
        return True
    return any(demand.admits(point) for point in (*demand.points(), row.python, _LAST) if point >= row.python)


def _asked(spec: EnvironmentSpec, package: str) -> Iterator[Demand]:
    found = [pin_demand(pin) for pin in spec.pins if pin.name == package]
    found += [pip_demand(text) for text in spec.pip if requirement_name(text) == package]
    yield from filter(None, found)


def _admits_failing(demand: Demand, row: Conflict) -> bool:
    """Whether a condition admits a release that fails."""
    return any(demand.admits(point) for point in (row.first, *demand.points(), _LAST) if point >= row.first)


def _admits_working(demand: Demand, row: Conflict) -> bool:
    """Whether a condition admits a release that works."""
    before = version(f"{row.first.major - 1}.9999")
    points = (version("0"), *demand.points(), before, version(f"{row.first.major}.{max(row.first.minor - 1, 0)}"))
    return any(demand.admits(point) for point in points if point < row.first)


def _finding(row: Conflict, lead: str, *, pip: bool, certain: bool, about: tuple[str, ...] = ()) -> Finding:
    return Finding(
        code="CU116",
        severity="error" if certain else "warning",
        subject=row.package,
        message=f"{lead}: from {row.package} {row.first} on, {row.says} ({row.issue})",
        evidence=tuple(row.sources),
        edits=(FileEdit(how="add", entries=(f"{row.package}{row.bound}",), pip=pip),),
        about=about,
    )
