"""What the environment says that it holds, against its lock."""

from __future__ import annotations

from cuenv.checks import Check, judged, skipped
from cuenv.flows.prefix_checks import Subject
from cuenv.installed import installed_findings


def check(subject: Subject) -> Check:
    """Missing, changed and further packages."""
    solution = subject.solution
    if solution is None:
        return skipped("packages", "no lock to compare with: name one with --lock")
    findings = installed_findings(subject.prefix.conda, solution)
    return judged("packages", f"{len(subject.prefix.conda)} conda packages against the lock", findings)
