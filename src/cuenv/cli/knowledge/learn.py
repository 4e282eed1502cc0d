"""``cuenv kb learn``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cuenv.cli.command import PATH, Grouped
from cuenv.cli.options import channel_options, channel_sources, knowledge_option, one_channel_options, talk_options
from cuenv.cli.output import emit, emit_json, say

if TYPE_CHECKING:
    from cuenv.core.documents import LearnedDocument
    from cuenv.maintain.maintain import Learned


@click.command("learn", cls=Grouped)
@one_channel_options
@click.option(
    "--save",
    type=PATH,
    metavar="DIR",
    help="Write the rows to this folder, for --knowledge.",
)
@click.option(
    "--read-on",
    default="",
    metavar="DAY",
    help="The day to write into the source rows (default: that of the newest record).",
)
@click.option("--package", "packages", multiple=True, metavar="NAME", help="Also look at this package; repeatable.")
@click.option("--all", "whole", is_flag=True, help="Look at every package of the channel, which takes minutes online.")
@channel_options
@knowledge_option
@talk_options
def command(  # noqa: PLR0917 - one argument for each option
    channel: str,
    platform: str,
    save: Path | None,
    read_on: str,
    packages: tuple[str, ...],
    whole: bool,
    **values: Any,
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
    from cuenv.knowledge.io.load import lay_over, load  # noqa: PLC0415 - as above
    from cuenv.maintain.maintain import Question, learn_rows, table_texts  # noqa: PLC0415 - not needed for --help
    from cuenv.maintain.maintain import save as save_rows  # noqa: PLC0415 - as above

    base = load()
    knowledge = lay_over(base, values["tables"]) if values["tables"] else base
    knowledge = lay_over(knowledge, save) if save else knowledge
    question = Question(
        channel=channel,
        platform=platform,
        sources=channel_sources(values),
        packages=None if whole else tuple(map(str.lower, packages)),
    )
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
    twins, libraries = learned.fresh.twins, learned.fresh.extensions
    inferred = sum(row.low for row in (*torch, *cudas, *twins, *libraries))
    if not (torch or cudas or twins or libraries):
        return "learned nothing: the tables know every build of the channel"
    parts = [
        _some("torch rows", [f"{row.version} {row.build}" for row in torch]),
        _some("CUDA rows", [str(row.version) for row in cudas]),
        _some("packages with CPU and CUDA builds", [row.package for row in twins]),
        _some("rows on libraries", [f"{row.package} {row.span()}" for row in libraries]),
    ]
    return f"learned {'; '.join(part for part in parts if part)}; {inferred} of low confidence"


def _some(what: str, items: list[str]) -> str:
    """How many there are, and the first of them; empty for none."""
    return f"{len(items)} {what} ({', '.join(items[:4])}{' ...' if len(items) > 4 else ''})" if items else ""


def _plain(learned: Learned) -> LearnedDocument:
    from cuenv.maintain.learn import texts_of  # noqa: PLC0415 - only for JSON

    return {"schema": "cuenv/learned/1", "day": learned.day, "tables": texts_of(learned.fresh)}
