"""``cuenv lint``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import INPUT, STDIN, CuenvCommand, output_options
from cuenv.cli.options import format_option, host_from, host_options, knowledge_from, knowledge_option
from cuenv.cli.output import emit, emit_findings, say
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.io.files import is_folder
from cuenv.core.render import place_lines
from cuenv.host.select import host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.lint import KINDS, Machine

if TYPE_CHECKING:  # not needed for --help
    from typing_extensions import Unpack

    from cuenv.cli.values import LintValues
    from cuenv.lint.files import Linted


@click.command("lint", cls=CuenvCommand)
@click.argument("files", nargs=-1, type=INPUT, metavar="[FILE]...")
@click.option("--fix", is_flag=True, help="Correct what needs no decision, and keep comments, order and style.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@click.option("--as", "kind", type=click.Choice(KINDS), help="Treat the files as this kind, whatever their names.")
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@format_option
@host_options
@knowledge_option
@output_options
def command(files: tuple[Path, ...], **values: Unpack[LintValues]) -> int:
    """Find mistakes in files as they are written, and correct them.

    FILE is an environment.yml, a conda-lock.yml, a requirements.txt, a pyproject.toml, a Dockerfile, a ds_config.json
    or a shell script. In a folder (by default the current one), the command reads the files that it recognizes by
    name, but no scripts. It judges entries for GPUs only when host options or settings name them, so that the answer
    is the same on every machine. The exit code is 1 when there are errors.

    \b
    Examples:
      cuenv lint
      cuenv lint environment.yml --diff
      cuenv lint --fix environment.yml
      cuenv lint --format sarif > cuenv.sarif
    """
    from cuenv.lint.files import files_in_folder, lint, lint_json, save  # noqa: PLC0415 - not needed for --help

    form = "json" if values["as_json"] else values["form"]
    if values["diff"] and form != "text":
        raise UsageError(f"--diff prints a patch, so --format {form} has no effect", hint="cuenv lint --diff")
    if values["fix"] and STDIN in map(str, files):
        raise UsageError("--fix corrects files, but standard input is not a file", hint="cuenv lint --diff -")
    knowledge = knowledge_from(values)
    machine = _machine(values, knowledge)
    named = [each for path in files or [Path()] for each in (files_in_folder(path) if is_folder(path) else [path])]
    linted = [lint(path, values["kind"], machine, knowledge) for path in dict.fromkeys(named)]
    if values["diff"]:
        return _show_patch(linted)
    if values["fix"]:
        for item in linted:
            save(item)
        say([f"fixed   {item.path}" for item in linted if item.fixed_text != item.text], quiet=values["quiet"])
    found = [item.result(fixed=values["fix"]) for item in linted]
    bad = any(item.report.verdict(strict=values["strict"]) == "not fine" for item in found)
    silent = values["quiet"] and not bad
    emit_findings(found, values, lambda: lint_json(found), lambda: [] if silent else place_lines(found))
    return ExitCode.NEGATIVE if bad else ExitCode.OK


def _machine(values: LintValues, knowledge: Knowledge) -> Machine:
    """The machine for which the files are judged, by the host options; unknown without them."""
    host = host_from(values)
    if not host.given:
        return Machine()
    facts = host_facts(host, knowledge)
    gpus = tuple(gpu.capability for gpu in facts.gpus if gpu.capability)
    return Machine(gpus=gpus, memory_mib=facts.resources.memory_mib, facts=facts)


def _show_patch(linted: Iterable[Linted]) -> int:
    files = list(linted)
    patch = "".join(item.patch for item in files)
    if patch:
        emit(patch)
    rest = [item.path for item in files if item.result(fixed=True).report.errors]
    if rest:
        say([f"left    errors that --fix does not correct: {shlex.join(['cuenv', 'lint', *map(str, rest)])}"])
    return ExitCode.NEGATIVE if patch else ExitCode.OK
