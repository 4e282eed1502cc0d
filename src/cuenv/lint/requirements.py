"""Lint of a list of requirements for pip: what judges the pip part of an environment file, each at its line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from cuenv.core.findings import Finding
from cuenv.core.record import replace
from cuenv.core.urls import redact
from cuenv.knowledge.base import Knowledge
from cuenv.lint import Lint, Machine
from cuenv.lint.commands import of_commands
from cuenv.lint.environment_file import login_finding, with_login
from cuenv.lockfile.file_check import judge_file
from cuenv.lockfile.pip import beforehand
from cuenv.lockfile.requirement_files import with_lists
from cuenv.resolver.asked_torch import unlisted_finding
from cuenv.resolver.policy import spec_findings
from cuenv.solve.environment_spec import EnvironmentSpec, requirement_name
from cuenv.solve.pip_lines import logical_lines, shown


def requirement_lints(text: str, folder: Path | None, machine: Machine, knowledge: Knowledge) -> Iterator[Lint]:
    """What is wrong with a list of requirements.

    Args:
        text: the list.
        folder: where it lies, for the lists and folders that it names; ``None`` where nobody knows.
        machine: what it is for.
        knowledge: the tables.
    """
    starts = list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))
    lines = [(starts[number - 1], line) for number, line in logical_lines(text)]
    for at, line in lines:
        if with_login(line):
            yield Lint(finding=login_finding(redact(line), "requirements"), at=at)
    spec = EnvironmentSpec(name="", channels=(), pins=(), pip=tuple(line for _, line in lines))
    spec = with_lists(spec, folder) if folder else spec
    for finding in _found(spec, folder, machine, knowledge):
        yield Lint(finding=replace(finding, fix=of_commands(finding)), at=_place(finding, lines))


def _found(spec: EnvironmentSpec, folder: Path | None, machine: Machine, knowledge: Knowledge) -> Iterator[Finding]:
    yield from spec_findings(spec, knowledge)
    yield from beforehand(spec, folder, knowledge)
    if machine.facts:
        yield from judge_file(spec, machine.facts, knowledge, alone=True)
    else:
        unlisted = unlisted_finding(spec, knowledge)
        yield from (unlisted,) if unlisted else ()


def _place(finding: Finding, lines: list[tuple[int, str]]) -> int:
    """The line that the message quotes, else the line of the package that it is about, else the first."""
    quoted = [(len(line), -at) for at, line in lines if shown(line) in finding.message]
    if quoted:
        return -max(quoted)[1]
    names = finding.subject.split(", ")
    return next((at for at, line in lines if requirement_name(line) in names), lines[0][0] if lines else 0)
