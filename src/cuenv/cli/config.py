"""``cuenv config``."""

from __future__ import annotations

import os
from typing import Any

import click

from cuenv.cli.command import Grouped
from cuenv.cli.configured import configuration, typed
from cuenv.cli.options import talk_options
from cuenv.cli.output import emit_json, emit_lines, say


@click.command("config", cls=Grouped)
@talk_options
def command(**values: Any) -> None:
    """Show each setting and its source.

    The command line overrides CUENV_* variables; those override cuenv.toml or [tool.cuenv] of pyproject.toml (the
    nearest in this folder or above it); that overrides the default. The settings of .condarc for channels, mirrors
    and proxies are shown as well, credentials never. With -q only settings that differ from the default appear.

    \b
    Examples:
      cuenv config
      CUENV_GPU='V100, RTX 5090' cuenv config --json
    """
    from dataclasses import replace  # noqa: PLC0415 - not needed for --help

    from cuenv.config.effective import all_settings, slips  # noqa: PLC0415 - as above
    from cuenv.config.io.configuration import Configuration  # noqa: PLC0415 - as above
    from cuenv.config.settings import merge  # noqa: PLC0415 - as above

    found = configuration() or Configuration(settings=merge())
    settings = all_settings(found, os.environ)
    if typed("color"):
        settings = tuple(
            replace(item, value=values["color"], origin="--color") if item.name == "color" else item
            for item in settings
        )
    warnings = slips(os.environ)
    if values["as_json"]:
        rows = [{"name": item.name, "value": item.shown(), "origin": item.origin} for item in settings]
        profiles = sorted(found.profiles)
        file = found.path or None
        warned = [*found.warnings, *warnings]
        emit_json(
            {"schema": "cuenv/config/1", "file": file, "settings": rows, "profiles": profiles, "warnings": warned}
        )
        return
    say([f"warning {text}" for text in warnings], quiet=values["quiet"])
    shown = [item for item in settings if item.origin != "default" or not values["quiet"]]
    if shown:
        texts = [(item.name, _text(item.shown()), item.origin) for item in shown]
        wide = [max(len(row[column]) for row in texts) for column in range(2)]
        lines = [f"{name:<{wide[0]}}  {text:<{min(wide[1], 48)}}  {origin}" for name, text, origin in texts]
        emit_lines(lines)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)
