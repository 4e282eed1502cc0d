"""``cuenv diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import INPUT, CuenvCommand, output_options
from cuenv.cli.options import (
    format_option,
    host_from,
    host_options,
    knowledge_from,
    knowledge_option,
    part_from,
    part_options,
)
from cuenv.cli.output import emit, emit_findings
from cuenv.core.errors import ExitCode
from cuenv.core.urls import one_line

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import DiffValues


@click.command("diff", cls=CuenvCommand)
@click.argument("old", type=INPUT, metavar="OLD")
@click.argument("new", type=INPUT, metavar="NEW")
@part_options
@host_options
@format_option
@knowledge_option
@output_options
def command(old: Path, new: Path, **values: Unpack[DiffValues]) -> int:
    """Compare two locks: what changed, the CUDA core first, and what that means for hosts.

    OLD and NEW are lock files (conda-lock.yml, an explicit file, pixi.lock, uv.lock, pylock.toml, or requirements
    with hashes), or folders that contain conda-lock.yml. Each lock is judged for the hosts that it
    was made for, or both are judged for the host that the options name. The exit code is 0 when both lock the same
    packages, and 1 when they differ. The formats github and sarif show the findings that only NEW has.

    \b
    Examples:
      cuenv diff old/ .
      cuenv diff old/conda-lock.yml conda-lock.yml --format markdown
      cuenv diff old/ . --gpu V100 --driver 535.129.03
    """
    from cuenv.lockfile.diff import compare, lines_of, markdown, plain, results  # noqa: PLC0415 - not needed for --help

    found = compare(old, new, host_from(values), knowledge_from(values), part_from(values))
    if values["form"] == "markdown" and not values["as_json"]:
        text = markdown(found.diff, found.old, found.new)
        emit("\n".join(map(one_line, text.splitlines())))
    else:
        lines = lines_of(found.diff, found.old, found.new)
        if any(found.parts):
            lines.insert(1, " -> ".join(f"({part or 'all of it'})" for part in found.parts))
        shown = (lines[:1] if not found.diff.equal else []) if values["quiet"] else lines
        checked = results(found.diff, found.new)
        emit_findings(checked, values, lambda: plain(found.diff, found.old, found.new), lambda: shown)
    return ExitCode.OK if found.diff.equal else ExitCode.NEGATIVE
