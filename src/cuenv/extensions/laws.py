"""The libraries on torch in every environment file: no broken release, nothing missing to compile with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cuenv.environment import EnvironmentSpec
from cuenv.extensions.demands import Demand, broken, demands_of, headers_missing, meets, with_condition
from cuenv.knowledge import Knowledge
from cuenv.report import Finding


def extension_findings(spec: EnvironmentSpec, knowledge: Knowledge, *, cuda: bool) -> Iterator[Finding]:
    """Broken releases that the file admits and, in an environment with CUDA, what its libraries cannot compile with."""
    yield from _broken(spec, knowledge)
    if cuda:
        yield from _uncompilable(spec, knowledge)


def _broken(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    for demand in demands_of(spec, knowledge):
        if not demand.condition:  # of no range at all every resolver takes the newest
            continue
        for row, releases in broken(demand, knowledge):
            parts = (demand.condition, *(f"!={item}" for item in releases))
            # A wish for one of them alone is mended by another release, not by leaving it out.
            left = any(meets(demand, each, releases) for each in knowledge.extension(demand.name))
            better = ",".join(parts) if left else f">={row.mended}"
            yield Finding(
                code="CU503",
                severity="warning",
                subject=demand.name,
                message=f"{demand.text} admits {demand.name} {' and '.join(map(str, releases))}, "
                f"broken with {row.when}: {row.says} ({row.issue})",
                evidence=tuple(row.sources),
                fix=f"write {_rewritten(demand, spec, better)}",
            )


def _rewritten(demand: Demand, spec: EnvironmentSpec, condition: str) -> str:
    """What was asked for with another condition; channel, build, extras and marker stay."""
    pin = (
        next((pin for pin in spec.pins if pin.yaml_text() == demand.text), None) if "wheel" not in demand.ways else None
    )
    return replace(pin, version=condition).yaml_text() if pin else with_condition(demand.text, condition)


def _uncompilable(spec: EnvironmentSpec, knowledge: Knowledge) -> Iterator[Finding]:
    lacking = headers_missing(spec, knowledge)
    for package in dict.fromkeys(item.package for item in lacking):
        mine = [item for item in lacking if item.package == package]
        holders = dict.fromkeys(item.holder for item in mine if item.holder)
        yield Finding(
            code="CU504",
            severity="warning",
            subject=package,
            message=f"{package} compiles on first use and the file lists no package that brings "
            f"{', '.join(item.what for item in mine)}",
            evidence=tuple(dict.fromkeys(source for item in mine for source in item.sources)),
            fix=f"add to dependencies: {', '.join(holders)}" if holders else None,
        )


def judged_wishes(
    spec: EnvironmentSpec, knowledge: Knowledge, *, nvcc: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The libraries of a file that the rule on extensions can judge: conda specs, and requirements of pip.

    Without a compiler in the file those that must compile are left to ``CU504``: it may lie outside the environment.
    """
    judged = set()
    for demand in demands_of(spec, knowledge):
        rows = [row for row in knowledge.extension(demand.name) if meets(demand, row)]
        if rows and (nvcc or any(row.nvcc is None for row in rows)):
            judged.add(demand.text)
    packages = tuple(pin.yaml_text() for pin in spec.pins if pin.yaml_text() in judged)
    return packages, tuple(text for text in spec.pip if text in judged)
