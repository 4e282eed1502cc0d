"""``cuenv kb``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cuenv.cli.command import Grouped
from cuenv.cli.completions import completes
from cuenv.cli.configured import Defaults
from cuenv.cli.knowledge import SUBCOMMANDS
from cuenv.cli.options import knowledge_from, knowledge_option, talk_options
from cuenv.cli.output import emit_json, emit_lines
from cuenv.core.errors import UsageError
from cuenv.knowledge.base import Knowledge

if TYPE_CHECKING:  # types alone
    from cuenv.core.documents import RowFields

_EXAMPLES = {"gpu": "8.9", "driver": "470.129.06", "cuda": "12.1", "pytorch": "2.3", "package": "cudatoolkit-dev"}


class Topics(Grouped):
    """A command with topics, and with subcommands that have options of their own."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Hand over to a subcommand when the first word names one; settings count for its options as well."""
        if args and args[0] in SUBCOMMANDS:
            import importlib  # noqa: PLC0415 - only then

            found: click.Command = importlib.import_module(f"cuenv.cli.knowledge.{args[0]}").command
            extra["default_map"] = Defaults(found)
            return found.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command("kb", cls=Topics)
@click.argument("topic", required=False, metavar="[TOPIC]", shell_complete=completes("kb"))
@click.argument("subject", required=False, metavar="[SUBJECT]", shell_complete=completes("kb-subject"))
@knowledge_option
@talk_options
def command(topic: str | None, subject: str | None, **values: Any) -> None:
    """Show the knowledge base: its tables, or what it knows about one thing.

    TOPIC is gpu, driver, cuda, pytorch or package. The option -v shows the source of each row. Three words have
    options of their own: 'cuenv kb audit' and 'cuenv kb learn' compare the tables with a channel, and 'cuenv kb format'
    puts edited tables in order.

    \b
    Examples:
      cuenv kb
      cuenv kb gpu 'RTX 4090'
      cuenv kb driver 470.129.06
      cuenv kb pytorch 2.3
      cuenv kb cuda 12.1
      cuenv kb package cudatoolkit-dev
      cuenv kb audit --channel conda-forge
      cuenv kb learn --save tables
      cuenv kb format tables
    """
    from cuenv.resolver.lookup import TOPICS, overview  # noqa: PLC0415 - not needed for --help

    knowledge = knowledge_from(values)
    if topic is None:
        _overview(overview(knowledge), knowledge, as_json=values["as_json"])
        return
    if topic not in TOPICS:
        raise UsageError(f"kb {topic!r}: no such topic; there are {', '.join(TOPICS)}", hint="cuenv kb gpu 'RTX 4090'")
    if subject is None:
        raise UsageError(f"kb {topic}: which one?", hint=f"cuenv kb {topic} {_EXAMPLES[topic]}")
    page = TOPICS[topic](subject, knowledge)
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
        lines.append("sources with -v")
    emit_lines(lines)


def _overview(tables: tuple[tuple[str, int], ...], knowledge: Knowledge, *, as_json: bool) -> None:
    if as_json:
        emit_json({"schema": "cuenv/kb/1", "edition": knowledge.edition, "tables": dict(tables)})
        return
    lines = [f"knowledge base, edition {knowledge.edition}"]
    lines += [f"  {count:5d}  {name}" for name, count in tables]
    lines.append("look one up: cuenv kb gpu 'RTX 4090', cuenv kb driver 470.129.06, cuenv kb cuda 12.1")
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
