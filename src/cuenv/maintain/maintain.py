"""Audit and learn: the tables against a channel's records, and the rows that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cuenv.core.errors import ChannelError, UsageError
from cuenv.core.findings import Finding, Report, report
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.urls import printable, short_channel, strip_credentials
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.io.load import save as save_tables
from cuenv.knowledge.rows import PLATFORMS, STACKS, Discontinued, LabelFit
from cuenv.knowledge.schema import DAY
from cuenv.knowledge.tables import TABLES, dump, rows_of
from cuenv.maintain import audit as judge
from cuenv.maintain.learn import learn, own
from cuenv.solve.io.sources import Sources
from cuenv.solve.match_spec import split_name
from cuenv.solve.observed import Record, SeenBuild, newest_day, seen_builds

_NAME = regex(r"[a-z0-9_][a-z0-9_.-]{0,127}")


@dataclass(frozen=True, kw_only=True)
class Question:
    """Which channel is compared with the tables.

    Attributes:
        channel: ``conda-forge`` or ``pytorch``, by name or canonical URL; a mirror of it is a matter of ``sources``.
        packages: that `learn_rows` looks at beside those that the tables name; ``None`` for all of the channel.
    """

    channel: str
    platform: str
    sources: Sources
    packages: tuple[str, ...] | None = ()

    @property
    def stack(self) -> str:
        """The channel as the tables name it."""
        return short_channel(self.channel)


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What is new.

    Attributes:
        overlay: the new rows alone; laid over the tables that ship, they are all that is needed.
        fresh: the rows that were learned just now; ``overlay`` also holds those of earlier overlays.
    """

    overlay: Knowledge
    fresh: Knowledge
    day: str


def audit(question: Question, knowledge: Knowledge) -> Report:
    """Compare the tables with a channel.

    Raises:
        UsageError: the tables say nothing about this channel or platform.
        ChannelError: it cannot be read.
    """
    records, seen, strange = _look(question, knowledge)
    found = list(judge.torch_findings(seen, question.stack, question.platform, knowledge))
    found += judge.discontinued_findings(_endings(question.stack, knowledge), records)
    if question.stack == "conda-forge":
        found += judge.nvcc_findings(records, knowledge)
    else:
        for row in knowledge.labels:
            found += _label(row, question, records)
    if strange:
        found.append(_strange(strange))
    counts = f"{len(seen)} torch builds in {sum(len(build.builds) for build in seen)} records"
    title = f"{question.stack} for {question.platform}"
    return report(title, found, (counts, f"tables of {knowledge.edition}"))


def learn_rows(question: Question, base: Knowledge, knowledge: Knowledge, read_on: str = "") -> Learned:
    """The rows that a channel's records add to the tables.

    Args:
        question: which channel.
        base: the tables that ship.
        knowledge: the same with every overlay so far.
        read_on: the day for the source row; empty for the day of the newest record.

    Raises:
        UsageError: the tables say nothing about this channel, or no day is known.
        ChannelError: it cannot be read.
    """
    said = _day(read_on)
    records, seen, _ = _look(question, knowledge, libraries=True)
    day = said or newest_day(records)
    if not day:
        raise UsageError(
            f"no record of {question.stack} has a day, and the source row needs one",
            hint="cuenv kb learn --read-on 2026-11-20",
        )
    compilers = judge.nvcc_minors(records) if question.stack == "conda-forge" else set()
    merged = learn(
        seen,
        knowledge,
        nvccs=compilers,
        stack=question.stack,
        platform=question.platform,
        day=day,
        records=records,
    )
    return Learned(overlay=own(base, merged), fresh=own(knowledge, merged), day=day)


def save(learned: Learned, folder: Path) -> tuple[Path, ...]:
    """Write an overlay, a file for each table, for ``--knowledge``.

    Raises:
        OutsideError: a file cannot be written.
    """
    return save_tables(folder, table_texts(learned.overlay))


def table_texts(overlay: Knowledge) -> dict[str, str]:
    """The canonical text of each table of an overlay that has rows."""
    return {name: dump(overlay, name) for name in TABLES if rows_of(overlay, name)}


def _day(text: str) -> str:
    try:
        return str(DAY.read(text)) if text else ""
    except ValueError as error:
        raise UsageError(f"--read-on: {error}", hint="cuenv kb learn --read-on 2026-11-20") from error


def _look(
    question: Question, knowledge: Knowledge, *, libraries: bool = False
) -> tuple[tuple[Record, ...], tuple[SeenBuild, ...], tuple[Record, ...]]:
    from cuenv.solve.io.records import channel_records  # noqa: PLC0415 - rattler is heavy

    if question.stack not in STACKS:
        shown = printable(strip_credentials(question.channel))
        raise UsageError(
            f"--channel {shown!r}: the cuenv tables cover {' and '.join(STACKS)}",
            hint=f"a mirror or a copy of one: --mirror {STACKS[0]}=FOLDER-OR-URL",
        )
    if question.platform not in PLATFORMS:
        raise UsageError(
            f"--platform {printable(question.platform)!r} is not supported; choose from {' and '.join(PLATFORMS)}",
            hint=f"--platform {PLATFORMS[0]}",
        )
    names = {"pytorch", "cuda-nvcc", *(row.package for row in _endings(question.stack, knowledge))}
    if libraries:
        wrong = [name for name in question.packages or () if not _NAME.fullmatch(name)]
        if wrong:
            raise UsageError(
                f"--package {printable(wrong[0])!r} is not a valid name of a package",
                hint="cuenv kb learn --package bitsandbytes",
            )
        names |= {row.package for row in knowledge.twins if row.channel == question.stack}
        names |= {row.package for row in knowledge.extensions if question.stack in row.comes}
        names |= set(question.packages or ())
    whole = libraries and question.packages is None
    records = channel_records(question.channel, question.platform, None if whole else names, question.sources)
    seen, strange = seen_builds(records, question.stack, question.platform)
    return records, seen, strange


def _endings(stack: str, knowledge: Knowledge) -> tuple[Discontinued, ...]:
    return tuple(row for row in knowledge.endings if row.channel == stack)


def _label(row: LabelFit, question: Question, records: tuple[Record, ...]) -> Iterator[Finding]:
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


def _strange(records: tuple[Record, ...]) -> Finding:
    names = tuple(f"pytorch {record.version} {record.build}" for record in records)
    shown = "; ".join(names[:4])
    return Finding(
        code="CU602",
        severity="info",
        subject="pytorch",
        message=f"{len(names)} records say neither a CUDA release nor CPU, and are not compared: {shown}",
        evidence=names,
    )
