"""The JSON of `cuenv lint`; see `cuenv.core.documents`."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from cuenv.core.documents import FindingFields


class PlacedFinding(FindingFields):
    """A finding at a place of a file."""

    line: int  # from 1
    column: int  # from 1
    fixable: bool  # `cuenv lint --fix` mends it


class LintedFile(TypedDict):
    """A file and its findings."""

    path: str | None
    kind: str
    findings: list[PlacedFinding]


class LintDocument(TypedDict):
    """What `cuenv lint` found."""

    schema: Literal["cuenv/lint/1"]
    files: list[LintedFile]
