"""The tables of the knowledge base, between JSON and `Knowledge`: strict reading, laying over, canonical text.

One file is one table: ``{"schema": "cuenv/kb/<table>/1", "rows": [...]}``, one row per line; ``data/README.md``
names the columns. Reading is strict: unknown keys, wrong types, control characters, sources that do not exist, a
second row with the same key and references into nothing are faults, each with its path (``torch[12].cuda``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from packaging.version import Version

from cuenv import columns
from cuenv.columns import Column
from cuenv.errors import KnowledgeError
from cuenv.facts import driver_key
from cuenv.knowledge import (
    Branch,
    Component,
    Cuda,
    Ending,
    Floor,
    Generation,
    GpuModel,
    Knowledge,
    LabelFit,
    Layer,
    Source,
    Toolkit,
    TorchBuild,
    Twin,
)
from cuenv.reading import Faults, describe
from cuenv.versions import Capability, parse_arch_list, version

Rows: TypeAlias = dict[str, tuple[Any, ...]]
"""Rows by table, each a tuple of the row class of its table."""

_OLDEST = version("0")


class Table(NamedTuple):
    """A table: the class of its rows, their columns, what makes a row unique, and what rows are ordered by."""

    row: Callable[..., Any]
    columns: tuple[Column, ...]
    key: Callable[[Any], Any]


def _table(row: Callable[..., Any], key: Callable[[Any], Any], *of: Column) -> Table:
    return Table(row, (*of, *columns.COMMON), key)


TABLES: Mapping[str, Table] = {
    "sources": Table(Source, columns.SOURCE, lambda row: row.id),
    "toolkits": _table(Toolkit, lambda row: row.version, *columns.TOOLKIT),
    "cudas": _table(Cuda, lambda row: row.version, *columns.CUDA),
    "branches": _table(Branch, lambda row: row.number, *columns.BRANCH),
    "floors": _table(Floor, lambda row: row.major, *columns.FLOOR),
    "generations": _table(Generation, lambda row: row.capability, *columns.GENERATION),
    "gpus": Table(
        GpuModel, (*columns.GPU, *columns.COMMON), lambda row: (row.capability.major, row.capability.minor, row.name)
    ),
    "torch": _table(
        TorchBuild, lambda row: (row.stack, row.version, row.cuda or _OLDEST, row.platform), *columns.TORCH
    ),
    "layers": _table(Layer, lambda row: (row.library, row.first or _OLDEST), *columns.LAYER),
    "components": _table(Component, lambda row: row.name, *columns.COMPONENT),
    "twins": _table(Twin, lambda row: (row.channel, row.package), *columns.TWIN),
    "labels": _table(LabelFit, lambda row: (row.cuda, version(row.label)), *columns.LABEL),
    "endings": _table(Ending, lambda row: (row.channel, row.package), *columns.ENDING),
}
"""Every table, sources first."""
