"""What people are told about CUDA and PyTorch, and what is true: tables that no decision needs.

They lie in ``data/guidance/``, are read by the same reader as the tables of facts, and have sources of their own
beside those of the facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from cuenv.knowledge import columns
from cuenv.knowledge.columns import Column
from cuenv.knowledge.rows import NUMBERS, Row, Source
from cuenv.knowledge.symptoms import SYMPTOM, Symptom
from cuenv.knowledge.table import Table, facts_table, plain_table, read_all, text_of

VERDICTS = ("misleading", "outdated", "overstated", "wrong")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Erratum(Row):
    """A statement that many recipes carry, and what is true.

    Attributes:
        id: stable, such as ``E03``.
        topic: what it is about, as ``cuenv explain`` takes it.
        says: what the recipes say.
        verdict: one of `VERDICTS`.
        truth: what is true.
        do: what to do about it: a command, a requirement or a sentence; ``None`` where there is nothing to do.
        codes: findings by which cuenv notices it.
    """

    id: str
    topic: str
    says: str
    verdict: str
    truth: str
    do: str | None
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeepSpeedKeys(Row):
    """What DeepSpeed reads in one section of its configuration.

    Attributes:
        section: its path, such as ``zero_optimization.offload_param``; ``top`` for the file itself.
        keys: their names.
        strict: further keys are refused; elsewhere they are ignored.
    """

    section: str
    keys: tuple[str, ...]
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FindingCode:
    """What a finding code means, the same as in ``docs/reference.md``.

    Attributes:
        severities: with which it is told.
        by: the commands that find it.
        rule: the rule of a decision that judges the same, where there is one.
    """

    code: str
    severities: tuple[str, ...]
    means: str
    by: tuple[str, ...]
    rule: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Advice(Row):
    """What to know when training on a GPU.

    Attributes:
        id: stable, such as ``A01``.
        about: data types, PCIe, DataLoader.
        names: GPUs whose name begins so; empty for all.
        tensor, lacks: a kind of number that the GPU's tensor cores take, or do not take; ``None`` for any.
        do: a setting or a call; ``None`` where there is nothing to do.
    """

    id: str
    about: str
    names: tuple[str, ...]
    tensor: str | None
    lacks: str | None
    says: str
    do: str | None

    def concerns(self, name: str, tensor: tuple[str, ...]) -> bool:
        """Whether it is about a GPU of this name (empty when only its capability is known) with these numbers."""
        if self.names and not name.startswith(self.names):
            return False
        return (self.tensor is None or self.tensor in tensor) and (self.lacks is None or self.lacks not in tensor)


_CODE = columns.shaped(r"CU[1-6][0-9]{2}", "a code such as CU203")

_ERRATUM = (
    Column("id", columns.shaped(r"E[0-9]{2,3}", "an id such as E03"), columns.same),
    Column("topic", columns.shaped(r"[a-z0-9]+(-[a-z0-9]+)*", "a topic such as ld-library-path"), columns.same),
    Column("says", columns.text, columns.same),
    Column("verdict", columns.one_of(*VERDICTS), columns.same),
    Column("true", columns.text, columns.same, named="truth"),
    Column("do", columns.text, columns.same, absent=None),
    Column("codes", columns.several(_CODE), list, absent=()),
)

_DEEPSPEED_KEYS = (
    Column(
        "section", columns.shaped(r"[a-z0-9_]+(\.[a-z0-9_]+)*", "a section such as zero_optimization"), columns.same
    ),
    Column("keys", columns.several(columns.text), list),
    Column("strict", columns.flag, columns.same, absent=False),
)

_FINDING_CODE = (
    Column("code", _CODE, columns.same),
    Column("severities", columns.several(columns.one_of("error", "warning", "info")), list),
    Column("means", columns.text, columns.same),
    Column("by", columns.several(columns.text), list),
    Column("rule", columns.text, columns.same, absent=None),
)

_ADVICE = (
    Column("id", columns.shaped(r"A[0-9]{2,3}", "an id such as A01"), columns.same),
    Column("about", columns.text, columns.same),
    Column("names", columns.several(columns.text), list, absent=()),
    Column("tensor", columns.one_of(*NUMBERS), columns.same, absent=None),
    Column("lacks", columns.one_of(*NUMBERS), columns.same, absent=None),
    Column("says", columns.text, columns.same),
    Column("do", columns.text, columns.same, absent=None),
)

TABLES: Mapping[str, Table] = {
    "sources": plain_table(Source, columns.SOURCE, lambda row: row.id),
    "errata": facts_table(Erratum, _ERRATUM, lambda row: (row.topic, row.id)),
    "advice": facts_table(Advice, _ADVICE, lambda row: row.id),
    "ds_keys": facts_table(DeepSpeedKeys, _DEEPSPEED_KEYS, lambda row: row.section),
    "codes": plain_table(FindingCode, _FINDING_CODE, lambda row: row.code),
    "symptoms": facts_table(Symptom, SYMPTOM, lambda row: row.id),
}
"""Every table of guidance, sources first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """All tables of guidance; ``sources`` are those that it has beside the ones of the facts."""

    sources: Mapping[str, Source]
    errata: tuple[Erratum, ...]
    advice: tuple[Advice, ...]
    ds_keys: tuple[DeepSpeedKeys, ...]
    codes: tuple[FindingCode, ...]
    symptoms: tuple[Symptom, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the errata, each once, in order."""
        return tuple(dict.fromkeys(row.topic for row in self.errata))

    def about(self, text: str) -> tuple[Erratum, ...]:
        """The errata on a topic or with an id; else those that hold the very words."""
        wanted = text.strip().lower()
        exact = tuple(row for row in self.errata if wanted in (row.topic, row.id.lower()))
        if exact or len(wanted) < 3:
            return exact
        return tuple(row for row in self.errata if wanted in f"{row.topic} {row.says} {row.truth}".lower())

    def near(self, text: str) -> tuple[str, ...]:
        """The topics nearest to a word that names none."""
        return tuple(get_close_matches(text.strip().lower(), self.topics, n=3, cutoff=0.5))


def parse_guidance(tables: Mapping[str, object], known: frozenset[str], where: str = "guidance") -> Guidance:
    """Read the tables of guidance.

    Args:
        tables: the decoded JSON of every table, by its name.
        known: ids of the sources of the facts, which may be cited.
        where: what to call it in an error.

    Raises:
        KnowledgeError: with every fault in it and its path.
    """
    rows = read_all(TABLES, tables, where, known)
    sources = {row.id: row for row in rows.pop("sources")}
    return Guidance(sources=sources, **rows)


def dump_guidance(guidance: Guidance, table: str) -> str:
    """The canonical text of the file of a table."""
    rows = guidance.sources.values() if table == "sources" else getattr(guidance, table)
    return text_of(table, TABLES[table], rows)
