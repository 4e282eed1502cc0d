"""``cuenv demo``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import PATH, CuenvCommand, output_options
from cuenv.cli.output import emit_json, emit_lines, progress
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.io.files import is_folder, make_folder, names_in
from cuenv.core.io.process import setup_command
from cuenv.core.render import report_json, report_lines

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import OutputValues


@click.command("demo", cls=CuenvCommand)
@click.option("--dir", "folder", type=PATH, metavar="DIR", help="Keep the results in this folder.")
@output_options
def command(folder: Path | None, **values: Unpack[OutputValues]) -> int:
    """Run every step once: look, decide, write, lock, check, install, check again.

    The demo takes this machine if it has an NVIDIA GPU, and a recorded host otherwise. Its channel is a small
    sample that ships with cuenv: the packages have the names, versions and dependencies of real ones, but no
    content. The demo needs no conda and no network.

    \b
    Examples:
      cuenv demo
      cuenv demo --dir cuenv-demo
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="cuenv-demo-") as scratch:
            return _demo(Path(scratch), values)

    if os.path.lexists(folder) and (not is_folder(folder) or names_in(folder)):
        raise UsageError(f"--dir {folder}: the folder is not empty", hint="cuenv demo --dir cuenv-demo")
    make_folder(folder)
    return _demo(folder.resolve(), values)


def _demo(folder: Path, values: OutputValues) -> int:
    from cuenv.demo.demo import commands_for_real_channels, demonstrate  # noqa: PLC0415 - not needed for --help
    from cuenv.knowledge.io.load import load  # noqa: PLC0415 - as above
    from cuenv.resolver.decision_json import decision_plain  # noqa: PLC0415 - as above
    from cuenv.resolver.explain import summary  # noqa: PLC0415 - not needed for --help

    with progress(quiet=values["quiet"]) as show:
        shown = demonstrate(folder, os.environ, load(), show or (lambda _: None))
    if values["as_json"]:
        reports = [report_json(item) for item in shown.reports]
        decision = decision_plain(shown.resolution.decision, shown.resolution.findings)
        emit_json({"schema": "cuenv/demo/1", "ok": shown.ok, "decision": decision, "reports": reports})
        return ExitCode.OK if shown.ok else ExitCode.NEGATIVE
    if values["quiet"] and shown.ok and shown.locked and shown.locked.lock:
        count = len(shown.locked.lock.solutions[0].packages)
        emit_lines([f"ok      {count} packages chosen, locked, checked and installed from the sample channel"])
        return ExitCode.OK
    lines = ["1. the host"]
    if shown.recorded:
        lines.append(f"   this machine has no NVIDIA GPU, so this is the recorded host {shown.facts.label}")
    lines += ["2. the decision (cuenv resolve --prove, on the sample channel)"]
    lines += [f"   {line}" for line in summary(shown.resolution.decision, shown.resolution.findings)]
    if shown.locked and shown.locked.lock:
        solution = shown.locked.lock.solutions[0]
        lines += ["3. the lock (cuenv lock)", f"   {len(solution.packages)} packages, solved by {solution.solver}"]
    for number, item in enumerate(shown.reports, start=4):
        title = "the lock, checked (cuenv check)" if number == 4 else "the prefix, installed and checked"
        lines += [f"{number}. {title}", *(f"   {line}" for line in report_lines(item))]
    lines += ["", "Sample: the packages above are empty stand-ins from a channel that ships with cuenv."]
    lines += ["Do the same with the real channels:"]
    before = setup_command(os.environ)
    lines += [f"   {line}" for line in ([before] if before else [])]
    lines += [f"   {line}" for line in commands_for_real_channels(shown.facts, recorded=shown.recorded)]
    emit_lines(lines)
    return ExitCode.OK if shown.ok else ExitCode.NEGATIVE
