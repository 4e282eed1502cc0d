"""The columns of the tables on extensions: how each cell is read, strictly, and written back."""

from __future__ import annotations

from typing import Any

from cuenv import columns
from cuenv.columns import Column
from cuenv.facts import PLATFORMS
from cuenv.rows import Requirement
from cuenv.versions import version

WAYS = ("conda-forge", "pytorch", "source", "wheel")
"""The ways in which an extension comes: two conda channels, pip's source package, pip's wheel."""
MATCHES = ("exact", "major", "toolkit")
WHEN = ("offload",)


def _span(text: str) -> Requirement:
    """A range ``>=A,<B``, or one release."""
    found = Requirement.parse(text)
    if found.package:
        raise ValueError(f"expected '>=A,<B' or a release, got {text!r}")
    return found


def span_text(value: Requirement) -> str:
    """A range as its cell holds it, one release by its number."""
    exact = value.first is not None and value.below is not None and value.below == version(f"{value.first}.1")
    return str(value.first) if exact else str(value)


_read_span: Any = columns.parsed(_span, span_text)

EXTENSION = (
    Column("package", columns.text, columns.same),
    Column("comes", columns.several(columns.one_of(*WAYS)), list),
    Column("releases", columns.several(columns.release_number, empty=True), columns.strings, absent=()),
    Column("first", columns.release_number, str, absent=None),
    Column("below", columns.release_number, str, absent=None),
    Column("torch", _read_span, span_text, absent=None),
    Column("cuda", columns.several(columns.release_number, empty=True), columns.strings, absent=()),
    Column("match", columns.one_of(*MATCHES), columns.same, absent="exact"),
    Column("platforms", columns.several(columns.one_of(*PLATFORMS), empty=True), list, absent=()),
    Column("serves_from", columns.capability, str, absent=None),
    Column("nvcc", _read_span, span_text, absent=None),
    Column("checks", columns.flag, columns.same, absent=False),
    Column("tolerates", columns.several(columns.release_number, empty=True), columns.strings, absent=()),
    Column("headers", columns.several(columns.text, empty=True), list, absent=()),
    Column("tools", columns.several(columns.one_of("gxx", "ninja"), empty=True), list, absent=()),
)

REGRESSION = (
    Column("package", columns.text, columns.same),
    Column("releases", columns.several(columns.release_number), columns.strings),
    Column("when", columns.one_of(*WHEN), columns.same),
    Column("says", columns.text, columns.same),
    Column("issue", columns.text, columns.same),
    Column("mended", columns.release_number, str),
)
