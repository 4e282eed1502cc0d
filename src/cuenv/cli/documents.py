"""The JSON documents of commands that are about cuenv itself, and the union of all documents."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from cuenv.binary.documents import ScanDocument
from cuenv.core.documents import Confidence, ReportDocument, SourceFields
from cuenv.diagnosis.documents import (
    CodeDocument,
    ExplainDocument,
    ExplainGpuDocument,
    HostDiagnosisDocument,
    LogDiagnosisDocument,
)
from cuenv.export.documents import ExportDocument
from cuenv.fleet.documents import (
    FleetCheckDocument,
    FleetDiffDocument,
    FleetPlanDocument,
    FleetVerifyDocument,
    GatherDocument,
)
from cuenv.host.documents import HostDocument
from cuenv.lint.documents import LintDocument
from cuenv.lockfile.documents import DiffDocument
from cuenv.report.documents import PicturesDocument
from cuenv.resolver.documents import DecisionDocument, WhatIfDocument, WhyDocument


class RowFields(TypedDict):
    """The content of a row of a table."""

    table: str
    says: str
    confidence: Confidence
    note: str | None
    sources: list[SourceFields]


class KnowledgeDocument(TypedDict):
    """The rows that `cuenv kb` shows."""

    schema: Literal["cuenv/kb/1"]
    edition: str
    tables: NotRequired[dict[str, int]]  # without a topic: the rows of each table
    title: NotRequired[str]
    entries: NotRequired[list[RowFields]]


class FormattedDocument(TypedDict):
    """What `cuenv kb format` did."""

    schema: Literal["cuenv/formatted/1"]
    folder: str
    files: list[str]
    changed: list[str]  # those that were not in canonical form
    written: bool


class LearnedDocument(TypedDict):
    """What `cuenv kb learn` read."""

    schema: Literal["cuenv/learned/1"]
    day: str
    tables: dict[str, Any]  # new rows, in the form of the table files


class ProfileFields(TypedDict):
    """A profile."""

    name: str
    origin: str | None  # where it stands
    ok: bool  # it is valid
    story: NotRequired[str]
    fault: NotRequired[str | None]
    fits: NotRequired[bool | None]  # the host can have what it asks for


class ProfileDocument(TypedDict):
    """The profiles that `cuenv profile` shows."""

    schema: Literal["cuenv/profile/1"]
    profiles: NotRequired[list[ProfileFields]]  # of list and validate
    name: NotRequired[str]
    origin: NotRequired[str]
    profile: NotRequired[dict[str, Any]]  # of show: its keys
    written: NotRequired[str | None]  # of new: the file
    text: NotRequired[str]  # of new: the template


class NextCommand(TypedDict):
    """A command and what it does."""

    command: str
    does: str


class NextDocument(TypedDict):
    """What lies in a folder, and the commands that lead on."""

    schema: Literal["cuenv/next/1"]
    found: list[str]
    next: list[NextCommand]


class SettingFields(TypedDict):
    """A setting, its value, and where the value comes from."""

    name: str
    value: str | bool | list[str] | None
    origin: str


class ConfigDocument(TypedDict):
    """The settings that `cuenv config` shows."""

    schema: Literal["cuenv/config/1"]
    file: str | None
    settings: list[SettingFields]
    profiles: list[str]
    warnings: list[str]


class ShellHookDocument(TypedDict):
    """What `cuenv shell-hook` would have a shell do."""

    schema: Literal["cuenv/shell-hook/1"]
    prefix: str
    sets: dict[str, str]
    removes: list[str]
    leaving: dict[str, list[str]]  # scripts that leave the active environment, by ending
    scripts: dict[str, list[str]]  # scripts that enter this one, by ending


class HookScripts(TypedDict):
    """The scripts of one shell."""

    activate: str
    deactivate: str


class HookDocument(TypedDict):
    """What `cuenv hook` did."""

    schema: Literal["cuenv/hook/1"]
    prefix: str
    removed: NotRequired[list[str]]  # of --remove
    kept: NotRequired[list[str]]  # of --remove: files that are not cuenv's
    written: NotRequired[list[str]]
    sets: NotRequired[list[str]]  # the names of variables
    notes: NotRequired[list[str]]
    activate: NotRequired[str]
    deactivate: NotRequired[str]
    fish: NotRequired[HookScripts]  # the scripts for fish


class DemoDocument(TypedDict):
    """What `cuenv demo` did."""

    schema: Literal["cuenv/demo/1"]
    ok: bool
    decision: DecisionDocument
    reports: list[ReportDocument]


class CacheKind(TypedDict):
    """One kind of files in the cache."""

    kind: str
    files: int
    bytes: int


class CacheDocument(TypedDict):
    """What the cache holds, or what was removed from it."""

    schema: Literal["cuenv/cache/1"]
    folder: str
    kinds: list[CacheKind]
    bytes: int
    removed: NotRequired[bool]  # of clean: false with --dry-run


class CompletionDocument(TypedDict):
    """The completion script of a shell, and where it goes."""

    schema: Literal["cuenv/completion/1"]
    shell: str
    place: str
    script: str


class ErrorFields(TypedDict):
    """An error."""

    code: str
    message: str
    hint: str | None  # what to do next


class ErrorDocument(TypedDict):
    """What any command prints with --json when it fails."""

    schema: Literal["cuenv/error/1"]
    error: ErrorFields


class SchemasDocument(TypedDict):
    """What `cuenv schema` lists: each document and what it is."""

    schema: Literal["cuenv/schemas/1"]
    schemas: dict[str, str]


Document = (
    ReportDocument
    | LintDocument
    | DiffDocument
    | LogDiagnosisDocument
    | HostDiagnosisDocument
    | DecisionDocument
    | WhyDocument
    | WhatIfDocument
    | ExplainDocument
    | ExplainGpuDocument
    | CodeDocument
    | ScanDocument
    | ExportDocument
    | PicturesDocument
    | HostDocument
    | GatherDocument
    | KnowledgeDocument
    | FormattedDocument
    | LearnedDocument
    | ProfileDocument
    | NextDocument
    | ConfigDocument
    | ShellHookDocument
    | HookDocument
    | DemoDocument
    | CacheDocument
    | CompletionDocument
    | FleetPlanDocument
    | FleetVerifyDocument
    | FleetCheckDocument
    | FleetDiffDocument
    | ErrorDocument
    | SchemasDocument
)
