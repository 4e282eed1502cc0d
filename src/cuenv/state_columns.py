"""The columns of the tables on features and states: how each cell is read, strictly, and written back."""

from __future__ import annotations

from cuenv import columns
from cuenv.columns import Column
from cuenv.state_rows import NUMBERS

FEATURE = (
    Column("capability", columns.capability, str),
    Column("chip", columns.text, columns.same, absent=""),
    Column("tensor", columns.several(columns.one_of(*NUMBERS), empty=True), list),
    Column("bf16", columns.flag, columns.same, absent=False),
    Column("fp64", columns.whole, columns.same, absent=None),
)

STATE = (Column("about", columns.text, columns.same), Column("says", columns.text, columns.same))
