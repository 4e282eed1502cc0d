"""What checking something yields: findings with stable codes, and the report that holds them.

Code ranges: CU1xx lock and environment file, CU2xx installed environment, CU3xx lint, CU4xx host, CU5xx pip part,
CU6xx the tables against a channel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cuenv.errors import ExitCode

Severity = Literal["error", "warning", "info"]
_RANK = {"error": 0, "warning": 1, "info": 2}

PIP = "CU51"
"""How the codes of findings on the locked pip part begin: no repair of the file mends them."""
NEVER_ALLOWED: Mapping[str, str] = {"CU108": "", "CU112": "", "CU413": "", "CU510": "CU501", "CU514": "CU501"}
"""Codes that ``--allow`` cannot allow, since nothing could be locked or believed then, and the code that can be
allowed in their place: to leave the pip part out. Empty where there is none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    Attributes:
        code: stable, such as ``CU101``.
        severity: ``error`` decides the exit code.
        subject: what it is about: a package, a GPU, a file.
        message: one sentence with the numbers in it.
        evidence: the facts and rows it rests on.
        fix: one command or edit that mends it.
    """

    code: str
    severity: Severity
    subject: str
    message: str
    evidence: tuple[str, ...] = ()
    fix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings of one check, most severe first, and what was looked at."""

    title: str
    findings: tuple[Finding, ...] = ()
    looked_at: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make the answer a no."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def exit(self) -> ExitCode:
        """The exit code of the report."""
        return ExitCode.NEGATIVE if self.errors else ExitCode.OK


def allowed(findings: Iterable[Finding], codes: Collection[str]) -> list[Finding]:
    """The findings, with errors that a user allowed as warnings; nothing is left to mend about those."""
    return [
        replace(item, severity="warning", fix=None)
        if item.severity == "error" and item.code in codes and item.code not in NEVER_ALLOWED
        else item
        for item in findings
    ]


def report(title: str, findings: Iterable[Finding], looked_at: Iterable[str] = (), first: Sequence[str] = ()) -> Report:
    """Put findings in order: severity, code, subject; equal ones once.

    Args:
        title: what was checked.
        findings: in any order.
        looked_at: what was looked at.
        first: codes that explain others, in their order; the others follow them.
    """
    unique = dict.fromkeys(findings)
    place = {code: i for i, code in enumerate(first)}
    ordered = sorted(
        unique,
        key=lambda item: (
            _RANK[item.severity],
            place.get(item.code, len(place)),
            item.code,
            item.subject,
            item.message,
        ),
    )
    return Report(title=title, findings=tuple(ordered), looked_at=tuple(looked_at))
