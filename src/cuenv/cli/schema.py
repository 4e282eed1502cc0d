"""``cuenv schema``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import CuenvCommand, completes, output_options
from cuenv.cli.output import emit, emit_json, emit_lines
from cuenv.core.errors import UsageError

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import OutputValues


@click.command("schema", cls=CuenvCommand)
@click.argument("name", required=False, metavar="[NAME]", shell_complete=completes("schema"))
@output_options
def command(name: str | None, **values: Unpack[OutputValues]) -> None:
    """Print the JSON Schema of the documents that --json prints.

    Without NAME the command lists the documents. NAME is the value of the key "schema" of a document, such as
    cuenv/report/1, or only its middle part, such as report.

    \b
    Examples:
      cuenv schema
      cuenv schema report > report-1.json
      cuenv schema cuenv/host/1
    """
    from cuenv.cli.completion_names import schemas  # noqa: PLC0415 - not needed for --help

    found = schemas()
    if name is None:
        said = {wanted: str(json.loads(text)["description"]) for wanted, text in found.items()}
        if values["as_json"]:
            emit_json({"schema": "cuenv/schemas/1", "schemas": {f"cuenv/{item}/1": said[item] for item in said}})
        else:
            width = max(map(len, said))
            emit_lines(
                [*(f"{item:<{width}}  {text}" for item, text in said.items()), "print one of them: cuenv schema report"]
            )
        return
    wanted = name.strip().removeprefix("cuenv/").removesuffix("/1").removesuffix(".json").removesuffix("-1")
    if wanted not in found:
        from difflib import get_close_matches  # noqa: PLC0415 - only when something is wrong

        near = [*get_close_matches(wanted, found, n=1), "report"][0]
        raise UsageError(f"there is no schema {name!r}", hint=f"cuenv schema {near}")
    emit(found[wanted])
