"""The JSON of `cuenv report`; see `cuenv.core.documents`."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from cuenv.core.documents import FindingFields


class PictureFields(TypedDict):
    """A picture of a report as its numbers: the first cell of a row names it."""

    name: str
    title: str
    description: str
    columns: list[str]
    rows: list[list[str]]


class PicturesDocument(TypedDict):
    """What `cuenv report` drew: the numbers of its pictures, and its findings."""

    schema: Literal["cuenv/pictures/1"]
    title: str
    verdict: str
    lead: list[str]
    findings: list[FindingFields]
    pictures: list[PictureFields]
    written: str | None  # the file of the report
