"""Audit, learn and format: tables against a channel, the rows that follow, and tables that a person has edited."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cuenv.core.errors import ChannelError, KnowledgeError, UsageError
from cuenv.core.findings import Finding, Report, report
from cuenv.core.io.files import is_folder, path_text
from cuenv.core.reading import Faults, unique_keys
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.urls import printable, short_channel, strip_credentials
from cuenv.export import tables as delivery
from cuenv.knowledge import guidance, tables
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.io.load import load, read_texts
from cuenv.knowledge.rows import PLATFORMS, STACKS, Discontinued, LabelFit
from cuenv.knowledge.schema import DAY, TableRow, read_all, rows_in, table_text
from cuenv.maintain import audit as judge
from cuenv.maintain.learn import learn, new_rows
from cuenv.solve.io.sources import Sources
from cuenv.solve.match_spec import split_name
from cuenv.solve.observed import ChannelBuild, Record, newest_day, seen_builds

_NAME = regex(r"[a-z0-9_][a-z0-9_.-]{0,127}")


@dataclass(frozen=True, kw_only=True)
class Question:
    """A channel to compare with the tables."""

    channel: str  # ``conda-forge`` or ``pytorch``, by name or canonical URL; a mirror of it is a matter of ``sources``
    platform: str
    sources: Sources
    # that `learn_rows` looks at beside those that the tables name; ``None`` for all of the channel
    packages: tuple[str, ...] | None = ()

    @property
    def stack(self) -> str:
        """The channel as the tables name it."""
        return short_channel(self.channel)


@dataclass(frozen=True, kw_only=True)
class Learned:
    """The rows that a channel has and the tables lack."""

    overlay: Knowledge  # the new rows alone; laid over the tables that ship, they are all that is needed
    fresh: Knowledge  # the rows that were learned just now; ``overlay`` also holds those of earlier overlays
    day: str


def audit(question: Question, knowledge: Knowledge) -> Report:
    """Compare the tables with a channel.

    Raises:
        UsageError: the tables say nothing about this channel or platform.
        ChannelError: it cannot be read.
    """
    records, seen, strange = _channel_records(question, knowledge)
    found = list(judge.torch_findings(seen, question.stack, question.platform, knowledge))
    found += judge.discontinued_findings(_discontinued_rows(question.stack, knowledge), records)
    if question.stack == "conda-forge":
        found += judge.nvcc_findings(records, knowledge)
    else:
        for row in knowledge.labels:
            found += _label_records(row, question, records)
    if strange:
        found.append(_foreign_record_finding(strange))
    counts = f"{len(seen)} torch builds in {sum(len(build.builds) for build in seen)} records"
    title = f"{question.stack} for {question.platform}"
    return report(title, found, (counts, f"tables of {knowledge.edition}"))


def learn_rows(question: Question, base: Knowledge, knowledge: Knowledge, read_on: str = "") -> Learned:
    """The rows that a channel's records add to the tables.

    Args:
        base: the tables that ship.
        knowledge: the same with every overlay so far.
        read_on: the day for the source row; empty for the day of the newest record.

    Raises:
        UsageError: the tables say nothing about this channel, or no day is known.
        ChannelError: it cannot be read.
    """
    said = _valid_day(read_on)
    records, seen, _ = _channel_records(question, knowledge, libraries=True)
    day = said or newest_day(records)
    if not day:
        message = f"no record of {question.stack} has a date, which the source row needs"
        raise UsageError(message, hint="cuenv kb learn --read-on 2026-11-20")
    compilers = judge.nvcc_minors(records) if question.stack == "conda-forge" else set()
    merged = learn(
        seen, knowledge, nvccs=compilers, stack=question.stack, platform=question.platform, day=day, records=records
    )
    return Learned(overlay=new_rows(base, merged), fresh=new_rows(knowledge, merged), day=day)


def _valid_day(text: str) -> str:
    try:
        return str(DAY.read(text)) if text else ""
    except ValueError as error:
        raise UsageError(f"--read-on: {error}", hint="cuenv kb learn --read-on 2026-11-20") from error


def _channel_records(
    question: Question, knowledge: Knowledge, *, libraries: bool = False
) -> tuple[tuple[Record, ...], tuple[ChannelBuild, ...], tuple[Record, ...]]:
    """The records of a channel, the torch builds in them, and records that are not valid builds."""
    from cuenv.solve.io.records import channel_records  # noqa: PLC0415 - rattler is heavy

    if question.stack not in STACKS:
        shown = printable(strip_credentials(question.channel))
        message = f"--channel {shown!r}: the cuenv tables cover {' and '.join(STACKS)}"
        raise UsageError(message, hint=f"a mirror or a copy of one: --mirror {STACKS[0]}=FOLDER-OR-URL")
    if question.platform not in PLATFORMS:
        message = f"--platform {printable(question.platform)!r} is not supported; choose from {' and '.join(PLATFORMS)}"
        raise UsageError(message, hint=f"--platform {PLATFORMS[0]}")
    names = {"pytorch", "cuda-nvcc", *(row.package for row in _discontinued_rows(question.stack, knowledge))}
    if libraries:
        wrong = [name for name in question.packages or () if not _NAME.fullmatch(name)]
        if wrong:
            message = f"--package {printable(wrong[0])!r} is not a valid name of a package"
            raise UsageError(message, hint="cuenv kb learn --package bitsandbytes")
        names |= {row.package for row in knowledge.twins if row.channel == question.stack}
        names |= {row.package for row in knowledge.extensions if question.stack in row.comes}
        names |= set(question.packages or ())
    whole = libraries and question.packages is None
    records = channel_records(question.channel, question.platform, None if whole else names, question.sources)
    seen, strange = seen_builds(records, question.stack, question.platform)
    return records, seen, strange


def _discontinued_rows(stack: str, knowledge: Knowledge) -> tuple[Discontinued, ...]:
    return tuple(row for row in knowledge.endings if row.channel == stack)


def _label_records(row: LabelFit, question: Question, records: tuple[Record, ...]) -> Iterator[Finding]:
    from cuenv.solve.io.records import channel_records  # noqa: PLC0415 - as above

    pins = [record for record in records if record.name == "pytorch-cuda"]
    names = {split_name(text)[0] for pin in pins for text in pin.depends}
    try:
        label = channel_records(f"nvidia/label/cuda-{row.label}", question.platform, names, question.sources)
    except ChannelError as error:
        message = f"label {row.label} is not compared: {error.message}"
        yield Finding(code="CU602", severity="info", subject=f"label {row.label}", message=message)
        return
    yield from judge.label_findings(row, pins, label)


def _foreign_record_finding(records: tuple[Record, ...]) -> Finding:
    names = tuple(f"pytorch {record.version} {record.build}" for record in records)
    shown = "; ".join(names[:4])
    message = f"{len(names)} records name neither a CUDA release nor CPU, so they are not compared: {shown}"
    return Finding(code="CU602", severity="info", subject="pytorch", message=message, evidence=names)


GROUPS: Mapping[str, Mapping[str, type[TableRow]]] = {"guidance": guidance.TABLES, "delivery": delivery.TABLES}
"""The tables that lie in folders beside those of facts; each is checked whole."""

_HINT = "correct these lines and run it again; no file was changed. The README of the knowledge base names the columns"
_PATH = regex(r"(\w+)(?:\[(\d+)\])?")
_ROWS = regex(r'"rows"\s*:\s*\[')
_GAP = regex(r"[\s,]*")


class LineFaults(Faults):
    """Mistakes that begin with the file and the line of the row."""

    def __init__(self, folder: str, below: str, texts: Mapping[str, str]) -> None:
        super().__init__(folder, KnowledgeError)
        self.below, self.texts = below, texts

    def add(self, path: str, message: str) -> None:
        """Note a fault at a path such as ``torch[12].cuda``."""
        found = _PATH.match(path)
        if found and found[1] in self.texts:
            lines = row_lines(self.texts[found[1]]) if found[2] else []
            line = f":{lines[int(found[2])]}" if found[2] and int(found[2]) < len(lines) else ""
            path = f"{self.below}{found[1]}.json{line}: {path}"
        super().add(path, message)


def format_tables(folder: Path) -> dict[Path, tuple[str, str]]:
    """The text of each table in a folder, as it is and in canonical form.

    Raises:
        KnowledgeError: with every fault, its file and its line.
    """
    base = load()
    texts = read_texts(folder)
    found = {
        folder / f"{name}.json": (texts[name], text) for name, text in formatted(texts, base, path_text(folder)).items()
    }
    known = frozenset(base.sources) | {row["id"] for row in json.loads(texts.get("sources", '{"rows": []}'))["rows"]}
    for group in GROUPS:
        if is_folder(folder / group):
            inner = read_texts(folder / group)
            new = formatted_group(group, inner, known, path_text(folder))
            found |= {folder / group / f"{name}.json": (inner[name], text) for name, text in new.items()}
    return found


def formatted(texts: Mapping[str, str], base: Knowledge, folder: str) -> dict[str, str]:
    """The canonical texts of tables of facts.

    Args:
        texts: of each file, by the name of its table.
        base: what is known besides, when these are not all tables.
        folder: what to call it in an error.

    Raises:
        KnowledgeError: with every fault, its file and its line.
    """
    faults = LineFaults(folder, "", texts)
    data = _decoded(texts, faults)
    if set(data) >= set(tables.TABLES):
        tables.parse(data, faults=faults)
    else:
        tables.merge(base, data, faults=faults)
    return {name: _formatted_text(name, tables.TABLES[name], data[name], faults) for name in texts}


def formatted_group(group: str, texts: Mapping[str, str], known: frozenset[str], folder: str) -> dict[str, str]:
    """The canonical texts of the tables in a folder of `GROUPS`, which may cite sources of the facts.

    Raises:
        KnowledgeError: with every fault, its file and its line.
    """
    faults = LineFaults(folder, f"{group}/", texts)
    data = _decoded(texts, faults)
    for name in sorted(set(data) - set(GROUPS[group])):
        faults.add(name, f"no such table; choose from {', '.join(GROUPS[group])}")
    read_all(GROUPS[group], data, faults=faults, known=known)
    return {name: _formatted_text(name, GROUPS[group][name], data[name], faults) for name in texts}


def row_lines(text: str) -> list[int]:
    """The line number of each row of a table."""
    return [text.count("\n", 0, start) + 1 for start in _row_starts(text)]


def _row_starts(text: str) -> Iterator[int]:
    head = _ROWS.search(text)
    at = head.end() if head else len(text)
    while (at := _end_of_gap(text, at)) < len(text) and text[at] != "]":
        yield at
        try:
            at = json.JSONDecoder().raw_decode(text, at)[1]
        except ValueError:
            return


def _end_of_gap(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


def _decoded(texts: Mapping[str, str], faults: LineFaults) -> dict[str, Any]:
    found = {}
    for name, text in texts.items():
        try:
            found[name] = json.loads(text, object_pairs_hook=unique_keys)
        except json.JSONDecodeError as error:  # noqa: PERF203 - every file is looked at
            faults.add("", f"{faults.below}{name}.json:{error.lineno}: not JSON: {error.msg} at column {error.colno}")
        except RecursionError:
            faults.add(name, "nested too deep for a table")
        except ValueError as error:  # a key appears twice
            faults.add(f"{name}{_row_with_fault(text)}", str(error))
    faults.check(hint=_HINT)
    return found


def _row_with_fault(text: str) -> str:
    """The index of the first row with a duplicate key, as ``[3]``; empty if it is outside of the rows."""
    strict = json.JSONDecoder(object_pairs_hook=unique_keys)
    for index, start in enumerate(_row_starts(text)):
        try:
            strict.raw_decode(text, start)
        except ValueError:  # noqa: PERF203 - the first that fails is the answer
            return f"[{index}]"
    return ""


def _formatted_text(name: str, of: type[TableRow], data: Any, faults: Faults) -> str:
    return table_text(name, of, rows_in(name, of, data, faults), data.get("edition"))
