"""``cuenv diagnose``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cuenv.cli.command import PATH, Grouped, no_progress_option
from cuenv.cli.completions import completes
from cuenv.cli.options import host_from, host_options, knowledge_from, knowledge_option, talk_options
from cuenv.cli.output import emit_json, emit_lines, finding_json, progress, progress_done, report_lines
from cuenv.core.errors import ExitCode

_COLOURS = {"cause": "red", "unknown": "red", "effect": "yellow", "do": "green", "clean": "green", "here": "cyan"}


@click.command("diagnose", cls=Grouped)
@click.argument("log", required=False, metavar="[LOG|-]", shell_complete=completes("file"))
@click.option(
    "-p",
    "--prefix",
    type=PATH,
    metavar="DIR",
    help="An environment, by its folder.",
)
@host_options
@knowledge_option
@no_progress_option
@talk_options
def command(log: str | None, prefix: Path | None, **values: Any) -> int:
    """What an error means, why it happens on this host, and the one command that cures it.

    LOG is a traceback, a build log or a log of many ranks, of any size; - is standard input. --prefix and the host
    options say where it is from. The first cause leads, what follows from it is folded. Without a log: what will fail
    here, and what is fine. Exit code 1 when something fails, whether it is known or not.

    \b
    Examples:
      cuenv diagnose train.log
      pip install flash-attn 2>&1 | cuenv diagnose -
      cuenv diagnose train.log --host a800-470
      cuenv diagnose
    """
    from cuenv.core.io.files import stdin_is_terminal  # noqa: PLC0415 - as above
    from cuenv.diagnosis.diagnose import STDIN  # noqa: PLC0415 - not needed for --help

    if log is None and stdin_is_terminal():
        return _look(prefix, values)
    return _read(STDIN if log is None else log, prefix, values)


def _read(log: str, prefix: Path | None, values: dict[str, Any]) -> int:
    from cuenv.diagnosis import report as diagnosis_v1  # noqa: PLC0415 - as above
    from cuenv.diagnosis.diagnose import diagnose_log  # noqa: PLC0415 - not needed for --help

    knowledge = knowledge_from(values)
    show = progress(quiet=values["quiet"] or values["as_json"])
    found = diagnose_log(log, host_from(values), knowledge, prefix, show)
    progress_done(show)
    if values["as_json"]:
        emit_json(diagnosis_v1.plain(found.diagnosis, found.guidance, knowledge))
    else:
        lines = diagnosis_v1.lines(
            found.diagnosis, found.guidance, knowledge, verbose=values["verbose"], brief=values["quiet"]
        )
        emit_lines(lines, _COLOURS)
    return ExitCode.OK if found.diagnosis.fine else ExitCode.NEGATIVE


def _look(prefix: Path | None, values: dict[str, Any]) -> int:
    from cuenv.diagnosis.diagnose import look  # noqa: PLC0415 - not needed for --help
    from cuenv.host.describe import host_line  # noqa: PLC0415 - as above

    found = look(host_from(values), knowledge_from(values), prefix)
    if values["as_json"]:
        findings = [{**finding_json(item), "shows_as": found.shows[item.code]} for item in found.report.findings]
        fine = not found.report.errors
        data = {"schema": "cuenv/diagnosis/1", "verdict": "fine" if fine else "fails", "ok": fine}
        emit_json({**data, "host": host_line(found.facts), "findings": findings, "fine": list(found.fine)})
        return found.report.exit
    lines = report_lines(found.report, verbose=values["verbose"])
    if not values["quiet"]:
        lines[1:1] = [f"fine    {item}" for item in found.fine]
        shows = ((code, symptoms) for code, symptoms in sorted(found.shows.items()) if symptoms)
        lines += [f"{code} shows as {', '.join(symptoms[:6])}: cuenv why {code}" for code, symptoms in shows]
    emit_lines(lines)
    return found.report.exit
