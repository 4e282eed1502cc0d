"""``cuenv kb format``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from cuenv.cli.command import PATH, Grouped
from cuenv.cli.options import talk_options
from cuenv.cli.output import emit_json, emit_lines
from cuenv.core.errors import ExitCode


@click.command("format", cls=Grouped)
@click.argument("folder", type=PATH, default=".", metavar="[DIR]")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@talk_options
def command(folder: Path, *, check: bool, **values: Any) -> int:
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
    from cuenv.maintain.format import format_tables  # noqa: PLC0415 - as above

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
