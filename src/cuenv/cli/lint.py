"""``cuenv lint``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from cuenv import __version__
from cuenv.cli.options import host_from, host_options, knowledge_from, knowledge_option, talk_options
from cuenv.cli.output import emit, emit_json, say, styled
from cuenv.errors import ExitCode
from cuenv.lint import KINDS, Machine

FORMATS = ("text", "json", "github", "sarif")


@click.command("lint")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.option("--fix", is_flag=True, help="Mend what can be mended; comments, order and style stay.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@click.option("--as", "kind", type=click.Choice(KINDS), help="What the files are, whatever their name.")
@click.option("--strict", is_flag=True, help="Exit code 1 on warnings too.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="How to print.")
@host_options
@knowledge_option
@talk_options
def command(files: tuple[Path, ...], **values: Any) -> int:
    """Find what is wrong with files as they are written, and mend it.

    FILE is an environment.yml, a conda-lock.yml, a Dockerfile, a ds_config.json or a shell script; without one, those
    of this folder but scripts. Entries are judged by GPUs only with host options (or a setting of one), so that the
    answer is the same on every machine. Exit code 1 on errors.

    \b
    Examples:
      cuenv lint
      cuenv lint environment.yml --diff
      cuenv lint --fix environment.yml
      cuenv lint --format sarif > cuenv.sarif
    """
    from cuenv.flows.hosts import host_facts  # noqa: PLC0415 - not needed for --help
    from cuenv.flows.linting import found_here, lint, save  # noqa: PLC0415 - as above
    from cuenv.formats import lint_report  # noqa: PLC0415 - as above

    knowledge, host = knowledge_from(values), host_from(values)
    machine = Machine()
    if host.given:
        facts = host_facts(host, knowledge)
        gpus = tuple(gpu.capability for gpu in facts.gpus if gpu.capability)
        machine = Machine(gpus=gpus, memory_mib=facts.resources.memory_mib)
    paths = files or found_here(Path())
    linted = [lint(path, values["kind"], machine, knowledge) for path in paths]
    if values["diff"]:
        changes = [lint_report.diff(str(item.path), item.text, item.mended) for item in linted]
        if any(changes):
            emit("".join(changes))
        return ExitCode.NEGATIVE if any(changes) else ExitCode.OK
    fix = values["fix"]
    if fix:
        for item in linted:
            save(item)
        say([f"mended  {item.path}" for item in linted if item.mended != item.text], quiet=values["quiet"])
    found = [
        lint_report.Result(
            path=str(item.path),
            kind=item.kind,
            text=item.mended if fix else item.text,
            lints=item.left if fix else item.lints,
        )
        for item in linted
    ]
    form = "json" if values["as_json"] else values["form"]
    if form == "json":
        emit_json(lint_report.plain(found))
    elif form == "sarif":
        emit_json(lint_report.sarif(found, __version__))
    elif form == "github":
        emit("\n".join(lint_report.github(found, verbose=values["verbose"])))
    elif not values["quiet"] or any(item.errors for item in found):
        emit(
            "\n".join(lint_report.lines(found, lambda text: styled(text, text if text != "fine" else "ok", sys.stdout)))
        )
    bad = any(item.errors or (values["strict"] and item.warnings) for item in found)
    return ExitCode.NEGATIVE if bad else ExitCode.OK
