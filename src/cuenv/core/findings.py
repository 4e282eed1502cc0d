"""What checking something yields: findings with stable codes, checks, and the reports that hold them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from cuenv.core.errors import ExitCode
from cuenv.core.notebook import Drawable
from cuenv.core.record import dataclass, replace
from cuenv.core.versions import Capability

Severity = Literal["error", "warning", "info"]
_RANK = {"error": 0, "warning": 1, "info": 2}

FORMS = ("text", "json", "markdown", "github", "sarif", "codequality")
"""What ``--format`` takes, of every command that prints findings; `cuenv.core.render` has them."""
UNREADABLE = "CU514"
"""The code of a pip requirement that pip refuses as well: no repair of the file mends it."""
SET_ASIDE = "CU521"
"""The code of pip requirements that no hash can pin."""
OPEN = "CU523"
"""The code of requirements that leave their release to pip."""
UNSATISFIABLE = "CU120"
"""The code of an environment file that the channels do not satisfy."""
NEVER_ALLOWED: Mapping[str, str] = {
    "CU108": "",
    "CU112": "",
    UNSATISFIABLE: "",
    "CU413": "",
    "CU510": "CU501",
    UNREADABLE: "CU501",
    "CU517": "",
}
"""Codes that ``--allow`` cannot allow, since nothing could be locked or believed then, and the code that can be
allowed in their place: to leave the pip part out. Empty where there is none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """A change of an environment file, as data; a fix is its words.

    Attributes:
        how: ``add`` entries, or further bounds on what stands there; ``write`` an entry in place of the one of that
            name; ``remove`` what is written so.
        entries: the text of each.
        pip: they are of the pip part.
        over: the name of what ``write`` replaces, where it is another one.
        near: where the channels do not have what ``write`` names, the nearest release will do.
    """

    how: Literal["add", "write", "remove"]
    entries: tuple[str, ...]
    pip: bool = False
    over: str = ""
    near: bool = False

    @property
    def for_command(self) -> str:
        """The words where it is about a command, which has no parts."""
        listed = ", ".join(self.entries)
        if self.how == "write":
            return f"write {listed}"
        return f"take {listed} out" if self.how == "remove" else f"add {listed}"

    def __str__(self) -> str:
        listed = ", ".join(self.entries)
        part = "the pip part" if self.pip else "the dependencies"
        if self.how == "add":
            return f"add to {part if self.pip else 'dependencies'}: {listed}"
        if self.how == "remove":
            return f"remove {listed} from {part}"
        if self.over:
            return f"use {listed} instead of {self.over}"
        return f"write {listed} in {part}" if self.pip else f"write {listed}"


def mended_by(edits: Iterable[FileEdit]) -> str | None:
    """The words of edits; ``None`` without any."""
    return ", and ".join(map(str, edits)) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    Attributes:
        code: stable, such as ``CU101``.
        severity: ``error`` decides the exit code.
        subject: what it is about: a package, a GPU, a file.
        message: one sentence with the numbers in it.
        evidence: the facts and rows it rests on.
        fix: one command or edit that mends it; where it is an edit of an environment file alone, its words.
        edits: of an environment file, that mend it.
        at: line and column in the file that it is about, both from 1; ``None`` for all of it.
        fixable: ``cuenv lint --fix`` mends it.
        unknown: nobody can say whether a component supports the host: what has such a finding is not called fine.
    """

    code: str
    severity: Severity
    subject: str
    message: str
    evidence: tuple[str, ...] = ()
    fix: str | None = None
    at: tuple[int, int] | None = None
    fixable: bool = False
    unknown: bool = False
    edits: tuple[FileEdit, ...] = ()

    def __post_init__(self) -> None:
        """The words of the edits are the fix, unless there are better ones."""
        if self.edits and self.fix is None:
            object.__setattr__(self, "fix", mended_by(self.edits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Drawable):
    """The findings of one check, most severe first, and what was looked at."""

    title: str
    findings: tuple[Finding, ...] = ()
    looked_at: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make the answer a no."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    def verdict(self, *, strict: bool) -> Literal["fine", "unknown", "not fine"]:
        """In a word: not fine with an error, and when strict with a warning; unknown where nobody can say."""
        if self.errors or (strict and any(finding.severity == "warning" for finding in self.findings)):
            return "not fine"
        return "unknown" if any(finding.unknown for finding in self.findings) else "fine"

    def refusal(self, *, strict: bool) -> Finding | None:
        """The finding that refuses: the first error; when strict without one, the first warning or unknown."""
        doubts = [item for item in self.findings if strict and (item.severity == "warning" or item.unknown)]
        return next(iter((*self.errors, *doubts)), None)

    @property
    def exit(self) -> ExitCode:
        """The exit code of the report."""
        return ExitCode.NEGATIVE if self.errors else ExitCode.OK


def allowed(findings: Iterable[Finding], codes: Collection[str]) -> list[Finding]:
    """The findings, with errors that a user allowed as warnings; nothing is left to mend about those."""
    return [
        replace(item, severity="warning", fix=None, edits=())
        if item.severity == "error" and item.code in codes and item.code not in NEVER_ALLOWED
        else item
        for item in findings
    ]


def report(title: str, findings: Iterable[Finding], looked_at: Iterable[str] = (), first: Sequence[str] = ()) -> Report:
    """Put findings in order: severity, code, subject; equal ones once.

    Args:
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


Status = Literal["ok", "warn", "fail", "skip"]
_BY_SEVERITY: tuple[tuple[str, Status], ...] = (("error", "fail"), ("warning", "warn"))


How = Literal["native", "jit", "no", "unknown"]
"""How a library supports a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSupport:
    """One component, and how it supports each GPU.

    Attributes:
        rule: the rule that judges it; ``name`` is its name for people.
        package: as it is locked, ``libcudnn 9.24.0.43``; for a library inside another, that other.
        support: each capability, and how: ``native``, by ``jit``, ``no``, or ``unknown``.
        because: the sentence of the rule on the GPU that it supports worst.
        evidence: the rows and facts behind it.
    """

    rule: str
    name: str
    package: str
    support: tuple[tuple[Capability, How], ...]
    because: str
    evidence: tuple[str, ...] = ()

    @property
    def cut(self) -> tuple[Capability, ...]:
        """The GPUs that it does not support."""
        return tuple(device for device, how in self.support if how == "no")

    def __str__(self) -> str:
        parts = ", ".join(f"{device} {_WORDS[how]}" for device, how in self.support)
        return f"{self.name} ({self.package}): compute capability {parts}"


_WORDS = {"native": "native", "jit": "by JIT", "no": "not supported", "unknown": "unknown"}


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
class CheckResult:
    """What was found in one thing: a lock, an environment, a file, a log; every form of output is made of it.

    Attributes:
        host: the host that it was judged for, in one line; empty where no host matters.
        file: the file that annotations stand at; ``None`` for an environment.
        checks: one line each; a lock has none.
        components: how each component of a lock supports the GPUs.
        part: what was read of a lock that holds more; empty for all of it.
    """

    report: Report
    host: str = ""
    file: str | None = None
    checks: tuple[Check, ...] = ()
    components: tuple[ComponentSupport, ...] = ()
    part: str = ""


def counted(count: int, noun: str) -> str:
    """A count with its noun: ``1 error``, ``2 errors``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def first_of(names: Sequence[str], most: int) -> str:
    """The first of some names, and how many more there are: ``a, b and 3 more``."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def judged(name: str, says: str, findings: Iterable[Finding] = ()) -> Check:
    """A check whose status is that of its worst finding."""
    found = tuple(findings)
    severities = {finding.severity for finding in found}
    status: Status = next((status for severity, status in _BY_SEVERITY if severity in severities), "ok")
    return Check(name=name, status=status, says=says, findings=found)


def skipped(name: str, why: str) -> Check:
    """A check that could not be made, and why."""
    return Check(name=name, status="skip", says=why)
