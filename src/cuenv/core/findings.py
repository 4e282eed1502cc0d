"""The results of checks: findings with stable codes, checks, and reports."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from cuenv.core.errors import ExitCode
from cuenv.core.notebook import Drawable
from cuenv.core.record import dataclass, replace
from cuenv.core.versions import Capability

if TYPE_CHECKING:
    from typing_extensions import Self

Severity = Literal["error", "warning", "info"]
_RANK = {"error": 0, "warning": 1, "info": 2}

FORMS = ("text", "json", "markdown", "github", "sarif", "codequality")
"""The values of ``--format`` for commands that print findings; `cuenv.core.render` implements them."""
UNREADABLE = "CU514"  # the code of a requirement that pip refuses, too, so that no repair of the file is possible
SET_ASIDE = "CU521"  # the code of pip requirements that cannot be pinned by a hash
OPEN = "CU523"  # the code of requirements without a release, which pip chooses
UNSATISFIABLE = "CU120"  # the code of an environment file that the channels do not satisfy
NEVER_ALLOWED: Mapping[str, str] = {
    "CU108": "",
    "CU112": "",
    UNSATISFIABLE: "",
    "CU413": "",
    "CU510": "CU501",
    UNREADABLE: "CU501",
    "CU517": "",
}
"""The codes that ``--allow`` refuses, because no correct lock is possible, each with the code to allow instead, which
leaves out the pip part; empty if there is none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """A change of an environment file; the text of a fix is made of it."""

    # ``add`` entries or bounds; ``write`` an entry in place of the one with that name; ``remove`` entries
    how: Literal["add", "write", "remove"]
    entries: tuple[str, ...]  # the texts of the entries
    pip: bool = False  # whether they belong to the pip part
    over: str = ""  # the name of the entry that ``write`` replaces, if it is another one
    near: bool = False  # whether the nearest release may be taken if the channels do not have the one of ``write``

    @property
    def for_command(self) -> str:
        """The text for a command line, which has no dependencies and pip part."""
        listed = ", ".join(self.entries)
        if self.how == "write":
            return f"write {listed}"
        return f"remove {listed}" if self.how == "remove" else f"add {listed}"

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
    """The text of edits; ``None`` without edits."""
    return ", and ".join(map(str, edits)) or None


class DriverFix(str):
    """The text of a fix by a driver."""

    __slots__ = ("driver",)
    driver: str  # what to install, ``driver 570.26 or later``

    @classmethod
    def of(cls, driver: str) -> Self:
        """The fix that installs a driver."""
        made = cls(f"install {driver}")
        made.driver = driver
        return made


class LockFix(str):
    """The text of a fix by locking again, which each lock file has a command of its own for."""

    __slots__ = ("options",)
    options: str  # the words behind ``cuenv lock``

    @classmethod
    def of(cls, *options: str, before: str = "") -> Self:
        """The fix that locks with some options; ``before`` is what stands before the command."""
        words = shlex.join(options)
        made = cls(f"{before}cuenv lock {words}".rstrip())
        made.options = words
        return made


class PipFix(str):
    """The text of a fix by requirements of pip."""

    __slots__ = ("requirements",)
    requirements: tuple[str, ...]

    @classmethod
    def of(cls, *requirements: str) -> Self:
        """The fix that asks pip for something, in this order."""
        made = cls(f"with pip: {' '.join(requirements)}")
        made.requirements = requirements
        return made


class WheelFix(str):
    """The text of a fix by a wheel of torch, which each package manager takes by a command of its own."""

    __slots__ = ("driver", "note", "requirements", "url", "without")
    requirements: tuple[str, ...]  # ``torch==2.7.1+cu126``, and the releases of other wheels for it
    note: str  # what is said of that wheel
    url: str  # that of the index that has it
    driver: str  # what to install instead, ``driver 570.26 or later``; empty if no driver helps
    without: str  # the entries of the file that go, in words; empty if none do

    @classmethod
    def of(
        cls, requirements: tuple[str, ...], *, url: str, note: str = "", driver: str = "", without: str = ""
    ) -> Self:
        """The fix that takes a wheel of torch; the arguments are its parts."""
        wheel = f"with pip: {' '.join(requirements)}{note} from --extra-index-url {url}"
        made = cls(_with_driver(driver, wheel) + without)
        made.requirements, made.note, made.url, made.driver, made.without = requirements, note, url, driver, without
        return made

    def worded(self, wheel: str) -> str:
        """The text with other words for the wheel."""
        return _with_driver(self.driver, wheel) + self.without

    def but(self, *, requirements: tuple[str, ...] = (), driver: str = "", without: str = "") -> WheelFix:
        """The fix with other parts."""
        return WheelFix.of(
            requirements or self.requirements,
            url=self.url,
            note=self.note,
            driver=driver or self.driver,
            without=without or self.without,
        )


def _with_driver(driver: str, wheel: str) -> str:
    return f"install {driver}, or {wheel}" if driver else wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing."""

    code: str  # the stable code, such as ``CU101``
    severity: Severity  # ``error`` leads to a negative exit code
    subject: str  # what it is about: a package, a GPU, a file
    message: str  # one sentence with the numbers in it
    evidence: tuple[str, ...] = ()  # the facts and table rows behind it
    fix: str | None = None  # one command or edit that solves it; by default the text of the edits
    at: tuple[int, int] | None = None  # line and column in the file, both from 1; ``None`` for the whole file
    fixable: bool = False  # whether ``cuenv lint --fix`` corrects it
    unknown: bool = False  # whether it is unknown if a component supports the host; then the verdict is not ``fine``
    edits: tuple[FileEdit, ...] = ()  # changes of an environment file that solve it
    other_python: bool = False  # whether it does not hold for another Python
    about: tuple[str, ...] = ()  # the texts of the entries of the file that it is about, in the order of the message

    def __post_init__(self) -> None:
        """Take the text of the edits as the fix, unless there is another one."""
        if self.edits and self.fix is None:
            object.__setattr__(self, "fix", mended_by(self.edits))

    @property
    def mended_by_edits(self) -> bool:
        """Whether the fix is the text of the edits."""
        return self.fix == mended_by(self.edits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Drawable):
    """The findings on one thing, the most severe first, and what was examined."""

    title: str
    findings: tuple[Finding, ...] = ()
    looked_at: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings with the severity ``error``."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    def verdict(self, *, strict: bool) -> Literal["fine", "unknown", "not fine"]:
        """``not fine`` with an error, or if strict a warning; ``unknown`` with an unknown finding; else ``fine``."""
        if self.errors or (strict and any(finding.severity == "warning" for finding in self.findings)):
            return "not fine"
        return "unknown" if any(finding.unknown for finding in self.findings) else "fine"

    def refusal(self, *, strict: bool) -> Finding | None:
        """The finding because of which a program refuses: the first error; if strict the first warning or unknown."""
        doubts = [item for item in self.findings if strict and (item.severity == "warning" or item.unknown)]
        return next(iter((*self.errors, *doubts)), None)

    @property
    def exit(self) -> ExitCode:
        """The exit code of the report."""
        return ExitCode.NEGATIVE if self.errors else ExitCode.OK


def allowed(findings: Iterable[Finding], codes: Collection[str]) -> list[Finding]:
    """The findings, with the errors that a user allowed as warnings without a fix."""
    return [
        replace(item, severity="warning", fix=None, edits=())
        if item.severity == "error" and item.code in codes and item.code not in NEVER_ALLOWED
        else item
        for item in findings
    ]


def report(title: str, findings: Iterable[Finding], looked_at: Iterable[str] = (), first: Sequence[str] = ()) -> Report:
    """A report of findings, sorted by severity, code and subject, without duplicates.

    Args:
        first: codes that come first, in this order.
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


How = Literal["native", "jit", "no", "unknown"]  # how a library supports a GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSupport:
    """How one component supports each GPU."""

    rule: str  # the rule that judges it
    name: str  # its name for people
    package: str  # the locked package, ``libcudnn 9.24.0.43``; for a library inside another package, that package
    support: tuple[tuple[Capability, How], ...]  # the support of each compute capability
    because: str  # the rule's sentence on the GPU with the worst support
    evidence: tuple[str, ...] = ()  # the table rows and facts behind it

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
    """One check of an environment."""

    name: str  # the stable name, such as ``linkage``
    # ``fail`` with an error among the findings, ``warn`` with a warning, ``skip`` if it was not possible
    status: Status
    says: str  # one line on what was examined, or why the check was skipped
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result for a lock, an environment, a file or a log, from which all output formats are made."""

    report: Report
    host: str = ""  # the host for which it was checked, in one line; empty if no host matters
    file: str | None = None  # the file for annotations; ``None`` for an environment
    checks: tuple[Check, ...] = ()  # the checks of an environment
    components: tuple[ComponentSupport, ...] = ()  # how each component of a lock supports the GPUs
    part: str = ""  # the part of a lock that was read; empty for all of it


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 error``, ``2 errors``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def first_of(names: Sequence[str], most: int) -> str:
    """The first names and the number of the others: ``a, b and 3 more``."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def judged(name: str, says: str, findings: Iterable[Finding] = ()) -> Check:
    """A check whose status follows from its most severe finding."""
    found = tuple(findings)
    severities = {finding.severity for finding in found}
    status: Status = next((status for severity, status in _BY_SEVERITY if severity in severities), "ok")
    return Check(name=name, status=status, says=says, findings=found)


def skipped(name: str, why: str) -> Check:
    """A check that was not possible, with the reason."""
    return Check(name=name, status="skip", says=why)
