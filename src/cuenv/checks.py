"""The checks of an installed environment: one line each, and the findings behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cuenv.coverage import LayerCoverage
from cuenv.report import Finding, Report

Status = Literal["ok", "warn", "fail", "skip"]
_BY_SEVERITY: tuple[tuple[str, Status], ...] = (("error", "fail"), ("warning", "warn"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: stable, such as ``linkage``.
        status: ``fail`` with an error among the findings, ``warn`` with a warning, ``skip`` when it could not be
            looked at.
        says: one line: what was looked at with its numbers, or why it was skipped.
    """

    name: str
    status: Status
    says: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What ``cuenv check`` says about one thing: a lock, or an environment.

    Attributes:
        host: the host that it was judged for, in one line.
        file: the lock, for annotations; ``None`` for an environment.
        checks: one line each; a lock has none.
        layers: how each layer of a lock serves the GPUs.
    """

    report: Report
    host: str
    file: str | None = None
    checks: tuple[Check, ...] = ()
    layers: tuple[LayerCoverage, ...] = ()

    def negative(self, *, strict: bool) -> bool:
        """Whether it is a no: an error, and when strict a warning."""
        wanted = ("error", "warning") if strict else ("error",)
        return any(finding.severity in wanted for finding in self.report.findings)


def judged(name: str, says: str, findings: Iterable[Finding] = ()) -> Check:
    """A check whose status is that of its worst finding."""
    found = tuple(findings)
    severities = {finding.severity for finding in found}
    status: Status = next((status for severity, status in _BY_SEVERITY if severity in severities), "ok")
    return Check(name=name, status=status, says=says, findings=found)


def skipped(name: str, why: str) -> Check:
    """A check that could not be made, and why."""
    return Check(name=name, status="skip", says=why)
