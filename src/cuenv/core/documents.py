"""The JSON of findings and reports, as types, from which ``nox -s schemas`` makes the JSON Schemas.

Other packages have a module of this name with the documents of their subject. A document is a class whose ``schema`` is
a literal; several may share one name. The comment behind a field describes it in the schema and in docs/json.md. These
modules are imported only for type checking; ``typing_extensions`` is a requirement of the tests.
"""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from cuenv.core.findings import How, Severity, Status

Confidence = Literal["high", "low"]


class EditFields(TypedDict):
    """A change of the entries of an environment."""

    how: Literal["add", "write", "remove"]  # write: in place of the entry of that name
    entries: list[str]
    pip: bool  # they are requirements of pip
    over: NotRequired[str]  # the name of what `write` replaces, where it is another one


class FindingFields(TypedDict):
    """One thing that is wrong, or worth knowing."""

    code: str  # stable, such as CU401; `cuenv why CODE` explains it
    severity: Severity
    subject: str  # what it is about: a package, a GPU, a file
    message: str
    evidence: list[str]  # the facts and table rows that it rests on
    fix: str | None  # one command or edit that mends it
    edits: NotRequired[list[EditFields]]  # where entries of the environment mend it: which


class CheckFields(TypedDict):
    """One check of an environment."""

    name: str
    status: Status
    says: str  # what was looked at, or why the check was skipped
    codes: list[str]  # of its findings


class LayerFields(TypedDict):
    """How one library supports the GPUs."""

    layer: str  # its name for people
    package: str  # as it is locked
    served: dict[str, How]  # the support for each compute capability
    because: str  # why, for the GPU that it supports worst


class ChangeFields(TypedDict):
    """The change of one entry in a repaired file."""

    entry: str
    fate: str
    became: str | None
    why: str | None


class InTheWay(TypedDict):
    """An entry of a file that nothing could repair, and why it is in the way."""

    entry: str
    why: str


class LeftOut(TypedDict):
    """A candidate that was tried, and why it was left out."""

    candidate: str
    why: str


class Unsolved(TypedDict):
    """Why the channels do not satisfy the file."""

    missing: list[str]
    text: str  # what the solver said
    command: str


class ReportDocument(TypedDict):
    """What `lock`, `check`, `install`, `bundle` and `kb audit` found."""

    schema: Literal["cuenv/report/1"]
    title: str  # what was checked
    ok: bool  # there is no error, and with --strict no warning
    findings: list[FindingFields]  # errors and warnings, the most severe first
    notes: list[FindingFields]  # findings that are information only
    host: NotRequired[str]  # of check: the host that was judged, in one line
    layers: NotRequired[list[LayerFields]]  # of check and of lock --repair: how each library supports the GPUs
    part: NotRequired[str]  # of check: the environment, extras and Python that were read of a lock that holds more
    checks: NotRequired[list[CheckFields]]  # of check: the checks of an environment
    environment: NotRequired[ReportDocument]  # of check with a lock and an environment: the report on the environment
    locked: NotRequired[bool]  # of lock: the lock was made
    written: NotRequired[list[str] | str | None]  # the files that were written; of bundle the bundle
    packages: NotRequired[dict[str, int] | int]  # how many; of lock and bundle for each platform
    pip: NotRequired[dict[str, int] | int]  # packages for pip: how many; of lock and bundle for each platform
    afterwards: NotRequired[dict[str, str] | str | None]  # installs what is set aside; of lock for each platform
    as_of: NotRequired[str]  # of lock: the day as of which channels and indexes were read
    host_of_file: NotRequired[str | None]  # of lock: the host that the environment file names
    unsatisfiable: NotRequired[Unsolved | None]  # of lock: why the channels do not satisfy the file
    repaired: NotRequired[bool]  # of lock --repair: there is a file that works
    changes: NotRequired[list[ChangeFields]]  # of lock --repair: what became of each entry
    dropped: NotRequired[str | None]  # of lock --repair: the entries that were dropped and why, in one sentence
    pins: NotRequired[list[str]]  # of lock --repair: pins that were added
    skipped: NotRequired[list[LeftOut]]  # of lock --repair: candidates that were tried before
    obstacles: NotRequired[list[InTheWay]]  # of lock --repair: where nothing locks, the entries in the way
    installed: NotRequired[bool]  # of install: the environment is there
    changed: NotRequired[bool]  # of install: it was not there before
    prefix: NotRequired[str]  # of install: its folder
    commands: NotRequired[list[str]]  # of install: what activates it
    bundled: NotRequired[bool]  # of bundle: the bundle was made
    size: NotRequired[int]  # of bundle: in bytes
    channel: NotRequired[str]  # of kb audit
    platform: NotRequired[str | None]  # of install and kb audit


class BriefFinding(TypedDict):
    """A finding without its evidence."""

    code: str
    severity: Severity
    message: str
    fix: str | None


class SourceFields(TypedDict):
    """Where a fact was read; evidence of a host has only an id."""

    id: str
    title: NotRequired[str]
    publisher: NotRequired[str]
    locator: NotRequired[str]  # where in the source
    url: NotRequired[str]
    read_on: NotRequired[str]  # the day on which it was read
