"""``cuenv kb audit``."""

from __future__ import annotations

from typing import Any

import click

from cuenv.cli.command import Grouped
from cuenv.cli.options import (
    channel_options,
    channel_sources,
    format_option,
    knowledge_from,
    knowledge_option,
    one_channel_options,
    talk_options,
)
from cuenv.cli.output import emit_findings
from cuenv.core.findings import CheckResult
from cuenv.core.render import report_json, report_lines


@click.command("audit", cls=Grouped)
@one_channel_options
@channel_options
@knowledge_option
@format_option
@talk_options
def command(channel: str, platform: str, **values: Any) -> int:
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
