"""``cuenv diagnose``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import CuenvCommand, completes, no_progress_option, output_options, prefix_option
from cuenv.cli.options import format_option, host_from, host_options, knowledge_from, knowledge_option
from cuenv.cli.output import emit_findings, emit_lines, progress
from cuenv.core.errors import ExitCode
from cuenv.core.findings import CheckResult
from cuenv.core.io.files import stdin_holds_nothing
from cuenv.core.render import finding_json, report_lines

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import DiagnoseValues
    from cuenv.diagnosis.documents import HostDiagnosisDocument

_COLOURS = {"cause": "red", "unknown": "red", "effect": "yellow", "do": "green", "clean": "green", "here": "cyan"}


@click.command("diagnose", cls=CuenvCommand)
@click.argument("log", required=False, metavar="[LOG|-]", shell_complete=completes("file"))
@prefix_option
@format_option
@host_options
@knowledge_option
@no_progress_option
@output_options
def command(log: str | None, prefix: Path | None, **values: Unpack[DiagnoseValues]) -> int:
    """Say what an error means, why it happens on this host, and which command cures it.

    LOG is a traceback, a build log or the log of many ranks, of any size; - is standard input. The host options and
    --prefix say which machine and which environment it comes from. The error that ended the run comes first; the
    errors that it caused are counted below it. Without LOG the command says what will fail on this host, and what
    works. The exit code is 1 when something fails, whether the error is known or not.

    \b
    Examples:
      cuenv diagnose train.log
      pip install flash-attn 2>&1 | cuenv diagnose -
      cuenv diagnose train.log --host a800-470
      cuenv diagnose
    """
    from cuenv.diagnosis.diagnose import STDIN  # noqa: PLC0415 - not needed for --help

    if log is None and stdin_holds_nothing():
        return _diagnose_host(prefix, values)
    return _diagnose_log(STDIN if log is None else log, prefix, values)


def _diagnose_log(log: str, prefix: Path | None, values: DiagnoseValues) -> int:
    from cuenv.diagnosis import report  # noqa: PLC0415 - as above
    from cuenv.diagnosis.diagnose import diagnose_log  # noqa: PLC0415 - not needed for --help

    knowledge = knowledge_from(values)
    with progress(quiet=values["quiet"] or values["as_json"]) as show:
        found = diagnose_log(log, host_from(values), knowledge, prefix, show)
    diagnosis, guidance = found.diagnosis, found.guidance
    if values["as_json"] or values["form"] != "text":
        emit_findings(
            report.results(diagnosis, log), values, lambda: report.document(diagnosis, guidance, knowledge), list
        )
    else:
        lines = report.lines(diagnosis, guidance, knowledge, verbose=values["verbose"], brief=values["quiet"])
        emit_lines(lines, _COLOURS)
    return ExitCode.OK if diagnosis.fine else ExitCode.NEGATIVE


def _diagnose_host(prefix: Path | None, values: DiagnoseValues) -> int:
    from cuenv.diagnosis.diagnose import diagnose_host  # noqa: PLC0415 - not needed for --help
    from cuenv.host.describe import host_line  # noqa: PLC0415 - as above

    found = diagnose_host(host_from(values), knowledge_from(values), prefix)
    fails = bool(found.report.errors)

    def document() -> HostDiagnosisDocument:
        return {
            "schema": "cuenv/diagnosis/1",
            "verdict": "fails" if fails else "fine",
            "ok": not fails,
            "host": host_line(found.facts),
            "findings": [
                {**finding_json(item), "shows_as": list(found.shows[item.code])} for item in found.report.findings
            ],
            "fine": list(found.fine),
        }

    def lines() -> list[str]:
        lines = report_lines(found.report, verbose=values["verbose"])
        if not values["quiet"]:
            lines[1:1] = [f"fine    {item}" for item in found.fine]
            shows = ((code, symptoms) for code, symptoms in sorted(found.shows.items()) if symptoms)
            lines += [f"{code} shows as {', '.join(symptoms[:6])}: cuenv why {code}" for code, symptoms in shows]
        return lines

    emit_findings([CheckResult(report=found.report, host=host_line(found.facts))], values, document, lines)
    return found.report.exit
