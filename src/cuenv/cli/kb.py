"""``cuenv kb``: show the tables, and maintain them with ``audit``, ``learn`` and ``format``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from cuenv.cli.command import PATH, CuenvCommand, completes, output_options
from cuenv.cli.defaults import Defaults
from cuenv.cli.options import (
    channel_options,
    channel_sources,
    format_option,
    knowledge_from,
    knowledge_option,
    one_channel_options,
)
from cuenv.cli.output import emit, emit_findings, emit_json, emit_lines, say
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.findings import CheckResult
from cuenv.core.render import report_json, report_lines
from cuenv.knowledge.base import Knowledge

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.documents import LearnedDocument, RowFields
    from cuenv.cli.values import AuditValues, KbValues, LearnValues, OutputValues
    from cuenv.maintain.maintain import Learned

_EXAMPLES = {"gpu": "RTX 4090", "driver": "470.129.06", "cuda": "12.1", "pytorch": "2.3", "package": "cudatoolkit-dev"}


class KbCommand(CuenvCommand):
    """The command ``kb``, whose first word is a topic or a subcommand."""

    subcommands: ClassVar[dict[str, click.Command]] = {}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Run a subcommand if the first word names one, with the settings as defaults of its options."""
        if args and args[0] in self.subcommands:
            found = self.subcommands[args[0]]
            extra["default_map"] = Defaults(found)
            return found.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command("kb", cls=KbCommand)
@click.argument("topic", required=False, metavar="[TOPIC]", shell_complete=completes("kb"))
@click.argument("words", nargs=-1, metavar="[SUBJECT]", shell_complete=completes("kb-subject"))
@knowledge_option
@output_options
def command(topic: str | None, words: tuple[str, ...], **values: Unpack[KbValues]) -> None:
    """Show the knowledge base: its tables, or what it knows about one thing.

    TOPIC is gpu, driver, cuda, pytorch or package; without SUBJECT the command lists all of its rows. The option -v
    shows the source of each row. Three subcommands have their own options: 'cuenv kb audit' and 'cuenv kb learn'
    compare the tables with a channel, and 'cuenv kb format' puts edited tables in order.

    \b
    Examples:
      cuenv kb
      cuenv kb gpu
      cuenv kb gpu 'RTX 4090'
      cuenv kb driver 470.129.06
      cuenv kb pytorch 2.3
      cuenv kb cuda 12.1
      cuenv kb package cudatoolkit-dev
      cuenv kb audit --channel conda-forge
      cuenv kb learn --save tables
      cuenv kb format tables
    """
    from cuenv.resolver.lookup import TOPICS, overview, topic_overview  # noqa: PLC0415 - not needed for --help

    knowledge, subject = knowledge_from(values), " ".join(words)  # a name such as RTX 4090, typed without quotes
    if topic is None:
        _overview(overview(knowledge), knowledge, as_json=values["as_json"])
        return
    if topic not in TOPICS:
        from difflib import get_close_matches  # noqa: PLC0415 - only when something is wrong

        near = next(iter(get_close_matches(topic, TOPICS, n=1)), "gpu")
        hint = shlex.join(["cuenv", "kb", near, subject or _EXAMPLES[near]])
        raise UsageError(f"kb {topic!r}: no such topic; choose from {', '.join(TOPICS)}", hint=hint)
    page = TOPICS[topic](subject, knowledge) if subject else topic_overview(topic, knowledge)
    if values["as_json"]:
        _emit_page_json(page, knowledge)
        return
    lines = [page.title]
    for entry in page.entries:
        low = " (low confidence)" if entry.low else ""
        lines.append(f"  {entry.says}{low}")
        if entry.note:
            lines.append(f"    note: {entry.note}")
        if values["verbose"]:
            lines += [f"    source: {_source(item, knowledge)}" for item in entry.sources]
    if not values["verbose"] and not values["quiet"]:
        one = f"show one row: {shlex.join(['cuenv', 'kb', topic, _EXAMPLES[topic]])}; "
        lines.append(f"{'' if subject else one}add -v for the sources")
    emit_lines(lines)


def _overview(tables: tuple[tuple[str, int], ...], knowledge: Knowledge, *, as_json: bool) -> None:
    if as_json:
        emit_json({"schema": "cuenv/kb/1", "edition": knowledge.edition, "tables": dict(tables)})
        return
    from cuenv.knowledge.tables import TABLES  # noqa: PLC0415 - only for people

    lines = [f"knowledge base, edition {knowledge.edition}"]
    for name, count in tables:
        what = str(TABLES[name].__doc__ or "").partition("\n")[0]
        lines.append(f"  {count:5d}  {name:13} {what}".rstrip())
    lines.append("look one up:")
    lines += [f"  {shlex.join(['cuenv', 'kb', *words])}" for words in _EXAMPLES.items()]
    emit_lines(lines)


def _source(identifier: str, knowledge: Knowledge) -> str:
    source = knowledge.sources[identifier]
    return f"{source.shown}{f'; {source.url}' if source.url else ''}; read {source.read_on}"


def _emit_page_json(page: Any, knowledge: Knowledge) -> None:
    from cuenv.resolver.decision_json import source_plain  # noqa: PLC0415 - only for JSON

    entries: list[RowFields] = [
        {
            "table": entry.table,
            "says": entry.says,
            "confidence": "low" if entry.low else "high",
            "note": entry.note,
            "sources": [source_plain(item, knowledge) for item in entry.sources],
        }
        for entry in page.entries
    ]
    emit_json({"schema": "cuenv/kb/1", "edition": knowledge.edition, "title": page.title, "entries": entries})


@click.command("audit", cls=CuenvCommand)
@one_channel_options
@channel_options
@knowledge_option
@format_option
@output_options
def audit_command(channel: str, platform: str, **values: Unpack[AuditValues]) -> int:
    """Compare the tables with the records of a channel.

    A row that the records contradict is an error, and the exit code is 1. A build without a row is a warning;
    'cuenv kb learn' makes the row. A row without a record is information, because a channel may be incomplete.

    \b
    Examples:
      cuenv kb audit
      cuenv kb audit --channel pytorch
      cuenv kb audit --mirror conda-forge=/srv/conda-forge --platform linux-aarch64 -v
    """
    from cuenv.maintain.maintain import Question, audit  # noqa: PLC0415 - not needed for --help

    knowledge = knowledge_from(values)
    found = audit(Question(channel=channel, platform=platform, sources=channel_sources(values)), knowledge)
    silent = values["quiet"] and not found.errors
    emit_findings(
        [CheckResult(report=found)],
        values,
        lambda: {**report_json(found), "channel": channel, "platform": platform},
        lambda: [] if silent else report_lines(found, verbose=values["verbose"]),
    )
    return found.exit


@click.command("format", cls=CuenvCommand)
@click.argument("folder", type=PATH, default=".", metavar="[DIR]")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@output_options
def format_command(folder: Path, *, check: bool, **values: Unpack[OutputValues]) -> int:
    """Check the tables in DIR and put their rows and cells in canonical order.

    A row can be added anywhere in its file. Every cell is checked, as are sources and references; tables that are not
    in DIR are taken from cuenv. If anything is wrong, each fault is named with its file and line, and no file changes.
    Without DIR, the tables in the current folder are formatted.

    \b
    Examples:
      cuenv kb format tables
      cuenv kb format --check tables
    """
    from cuenv.knowledge.io.load import save  # noqa: PLC0415 - not needed for --help
    from cuenv.maintain.maintain import format_tables  # noqa: PLC0415 - as above

    found = format_tables(folder)
    changed = [path for path, (old, new) in found.items() if old != new]
    if not check:
        for below in sorted({path.parent for path in changed}):
            save(below, {path.stem: found[path][1] for path in changed if path.parent == below})
    if values["as_json"]:
        names = [str(path.relative_to(folder)) for path in changed]
        files = [str(path.relative_to(folder)) for path in found]
        emit_json(
            {
                "schema": "cuenv/formatted/1",
                "folder": str(folder),
                "files": files,
                "changed": names,
                "written": not check and bool(changed),
            }
        )
    elif changed and check:
        again = f"run: cuenv kb format {shlex.quote(str(folder))}"
        emit_lines([*(f"{path} is not in canonical form" for path in changed), again])
    elif not values["quiet"]:
        emit_lines(
            [
                *(f"formatted {path}" for path in changed),
                f"{len(found) - len(changed)} of {len(found)} files were in canonical form already",
            ]
        )
    return ExitCode.NEGATIVE if check and changed else ExitCode.OK


@click.command("learn", cls=CuenvCommand)
@one_channel_options
@click.option("--save", type=PATH, metavar="DIR", help="Write the rows to this folder, for --knowledge.")
@click.option(
    "--read-on", default="", metavar="DAY", help="The date for the source rows (default: that of the newest record)."
)
@click.option("--package", "packages", multiple=True, metavar="NAME", help="Also look at this package; repeatable.")
@click.option("--all", "whole", is_flag=True, help="Look at every package of the channel, which takes minutes online.")
@channel_options
@knowledge_option
@output_options
def learn_command(  # noqa: PLR0917 - one argument for each option
    channel: str,
    platform: str,
    save: Path | None,
    read_on: str,
    packages: tuple[str, ...],
    whole: bool,
    **values: Unpack[LearnValues],
) -> None:
    """Print the rows that a channel's records add to the tables, or save them for --knowledge.

    The command looks at torch, at the compilers, and at the packages that the tables name: those with CPU and CUDA
    builds under one name, and the libraries whose CUDA builds require one release of torch. --package and --all add
    others.

    What a record says is a fact. What is only derived makes a row of low confidence with a note, and every verdict
    that uses the row shows that. An example is the device code of a new release, taken from the newest build of the
    same CUDA release.

    \b
    Examples:
      cuenv kb learn
      cuenv kb learn --package bitsandbytes
      cuenv kb learn --save tables && cuenv resolve --knowledge tables --prove
    """
    from cuenv.knowledge.io.load import load, overlay  # noqa: PLC0415 - as above
    from cuenv.knowledge.io.load import save as save_tables  # noqa: PLC0415 - not needed for --help
    from cuenv.maintain.learn import table_texts  # noqa: PLC0415 - as above
    from cuenv.maintain.maintain import Question, learn_rows  # noqa: PLC0415 - as above

    base = load()
    knowledge = overlay(base, values["tables"]) if values["tables"] else base
    knowledge = overlay(knowledge, save) if save else knowledge
    question = Question(
        channel=channel,
        platform=platform,
        sources=channel_sources(values),
        packages=None if whole else tuple(map(str.lower, packages)),
    )
    learned = learn_rows(question, base, knowledge, read_on)
    texts = table_texts(learned.fresh)
    quiet = values["quiet"] or values["as_json"]
    say([_learned_line(learned)], quiet=quiet)
    if save and texts:
        paths = save_tables(save, table_texts(learned.overlay))
        again = f"cuenv resolve --knowledge {shlex.quote(str(save))} --prove"
        say([f"wrote   {', '.join(map(str, paths))}; next: {again}"], quiet=quiet)
    if values["as_json"]:
        emit_json(_learned_json(learned))
    elif not save and texts:
        emit("".join(f"{name}.json\n{_rows_text(text)}" for name, text in texts.items()))


def _rows_text(text: str) -> str:
    """The rows of a table's file, one on each line, without the head and the end of the file."""
    return "".join(f"{line.removesuffix(',')}\n" for line in text.splitlines()[1:-1])


def _learned_line(learned: Learned) -> str:
    torch, cudas = learned.fresh.torch, learned.fresh.cudas
    twins, libraries = learned.fresh.twins, learned.fresh.extensions
    inferred = sum(row.low for row in (*torch, *cudas, *twins, *libraries))
    if not (torch or cudas or twins or libraries):
        return "learned nothing: the tables list every build on the channel"
    parts = [
        _some_items("torch rows", [f"{row.version} {row.build}" for row in torch]),
        _some_items("CUDA rows", [str(row.version) for row in cudas]),
        _some_items("packages with CPU and CUDA builds", [row.package for row in twins]),
        _some_items("rows on libraries", [f"{row.package} {row.span()}" for row in libraries]),
    ]
    return f"learned {'; '.join(part for part in parts if part)}; {inferred} of low confidence"


def _some_items(what: str, items: list[str]) -> str:
    """The number of items and the first of them; empty without items."""
    return f"{len(items)} {what} ({', '.join(items[:4])}{' ...' if len(items) > 4 else ''})" if items else ""


def _learned_json(learned: Learned) -> LearnedDocument:
    from cuenv.maintain.learn import texts_of  # noqa: PLC0415 - only for JSON

    return {"schema": "cuenv/learned/1", "day": learned.day, "tables": texts_of(learned.fresh)}


KbCommand.subcommands |= {item.name or "": item for item in (audit_command, learn_command, format_command)}
