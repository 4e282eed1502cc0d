"""``cuenv kb learn``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cuenv.cli.command import Grouped
from cuenv.cli.options import channel_options, channel_sources, knowledge_option, one_channel_options, talk_options
from cuenv.cli.output import emit, emit_json, say

if TYPE_CHECKING:
    from cuenv.flows.auditing import Learned


@click.command("learn", cls=Grouped)
@one_channel_options
@click.option("--save", type=click.Path(path_type=Path), metavar="DIR", help="Write the rows there, for --knowledge.")
@click.option("--read-on", default="", metavar="DAY", help="Day of the source rows; the newest record's by default.")
@channel_options
@knowledge_option
@talk_options
def command(channel: str, platform: str, save: Path | None, read_on: str, **values: Any) -> None:
    """Print the rows that a channel's records add to the tables, or save them for --knowledge.

    What a record says is a fact. What only follows (the device code of a new release: as in the newest build of the
    same CUDA release) makes a row of low confidence, with a note; every verdict on it shows that.

    \b
    Examples:
      cuenv kb learn
      cuenv kb learn --save tables && cuenv resolve --knowledge tables --prove
    """
    from cuenv.flows.auditing import Question, learn_rows, table_texts  # noqa: PLC0415 - not needed for --help
    from cuenv.flows.auditing import save as save_rows  # noqa: PLC0415 - as above
    from cuenv.world.knowledge import lay_over, load  # noqa: PLC0415 - as above

    base = load()
    knowledge = lay_over(base, values["tables"]) if values["tables"] else base
    knowledge = lay_over(knowledge, save) if save else knowledge
    question = Question(channel=channel, platform=platform, sources=channel_sources(values))
    learned = learn_rows(question, base, knowledge, read_on)
    texts = table_texts(learned.fresh)
    quiet = values["quiet"] or values["as_json"]
    say([_count(learned)], quiet=quiet)
    if save and texts:
        paths = save_rows(learned, save)
        again = f"cuenv resolve --knowledge {shlex.quote(str(save))} --prove"
        say([f"wrote   {', '.join(map(str, paths))}; next: {again}"], quiet=quiet)
    if values["as_json"]:
        emit_json(_plain(learned))
    elif not save and texts:
        emit("".join(f"{name}.json\n{_rows(text)}" for name, text in texts.items()))


def _rows(text: str) -> str:
    """The rows of a table's file, one on each line, without the head and the end of the file."""
    return "".join(f"{line.removesuffix(',')}\n" for line in text.splitlines()[1:-1])


def _count(learned: Learned) -> str:
    torch, cudas = learned.fresh.torch, learned.fresh.cudas
    inferred = sum(row.low for row in (*torch, *cudas))
    if not torch and not cudas:
        return "learned nothing: the tables know every build of the channel"
    builds = ", ".join(f"{row.version} {row.build}" for row in torch[:4]) + (" ..." if len(torch) > 4 else "")
    return f"learned {len(torch)} torch rows ({builds}) and {len(cudas)} CUDA rows; {inferred} of low confidence"


def _plain(learned: Learned) -> dict[str, Any]:
    from cuenv.learn import texts_of  # noqa: PLC0415 - only for JSON

    return {"schema": "cuenv/learned/1", "day": learned.day, "tables": texts_of(learned.fresh)}
