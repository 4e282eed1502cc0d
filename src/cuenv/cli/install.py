"""``cuenv install``."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import PATH, CuenvCommand, completes, output_options
from cuenv.cli.options import PLATFORM_HELP, channel_options, channel_sources, jobs_option
from cuenv.cli.output import emit_json, emit_lines, package_count, progress
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.render import report_json, report_lines

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cuenv.cli.values import InstallValues
    from cuenv.core.documents import ReportDocument
    from cuenv.install.install import Installed


@click.command("install", cls=CuenvCommand)
@click.argument("path", type=PATH, default="conda-lock.yml", metavar="[LOCK|BUNDLE]")
@click.option("-p", "--prefix", type=PATH, metavar="DIR", help="Create the environment in this folder.")
@click.option("-n", "--name", metavar="NAME", help="Create it where conda creates environments with this name.")
@click.option("--environment", default="", metavar="NAME", help="Read this environment of a pixi.lock.")
@click.option("--replace", is_flag=True, help="Replace an environment that cuenv made there before.")
@click.option("--platform", metavar="PLATFORM", shell_complete=completes("platform"), help=PLATFORM_HELP)
@jobs_option
@channel_options
@output_options
def command(path: Path, **values: Unpack[InstallValues]) -> int:
    """Install the environment of a lock or a bundle, without conda.

    LOCK is conda-lock.yml, an explicit file or pixi.lock; BUNDLE is the folder or tar that 'cuenv bundle' made. The
    command also installs pip packages. It verifies the hash of every file and examines the file before it unpacks it.
    After a failure or Ctrl-C the folder is as it was before, and the next run continues the downloads. The command
    refuses a lock that was edited or that has no hashes.

    \b
    Examples:
      cuenv install --prefix ~/envs/train
      cuenv install -n train
      cuenv install conda-linux-64.lock --prefix /opt/train --mirror conda-forge=/srv/conda-forge
      cuenv install pixi.lock --environment cpu --prefix /opt/train-cpu
      cuenv install bundle.tar --prefix /opt/train --offline
    """
    from cuenv.install.install import InstallRequest, install  # noqa: PLC0415 - not needed for --help

    request = InstallRequest(
        path=path,
        prefix=_prefix(values["prefix"], values["name"]),
        sources=channel_sources(values),
        environ=dict(os.environ),
        platform=values["platform"] or "",
        replacing=values["replace"],
        jobs=values["jobs"],
        environment=values["environment"],
    )
    with progress(quiet=values["quiet"]) as show:
        answer = install(request, show)
    if values["as_json"]:
        emit_json(_plain(answer))
    elif answer.solution is None:
        emit_lines([*report_lines(answer.report, verbose=values["verbose"]), "nothing was installed"])
    elif not values["quiet"]:
        emit_lines(_lines(answer))
    return answer.report.exit if answer.solution is None else ExitCode.OK


def _prefix(prefix: Path | None, name: str | None) -> Path:
    if prefix and name is not None:
        raise UsageError("--prefix and --name exclude each other", hint="cuenv install --prefix DIR")
    if name is not None:
        from cuenv.prefix.io.environments import new_environment  # noqa: PLC0415 - only for a name

        return new_environment(name, os.environ)
    if prefix is None:
        raise UsageError("name a place for the environment", hint="cuenv install --prefix ./env")
    return prefix


def _lines(answer: Installed) -> list[str]:
    if answer.solution is None:
        return []
    count = package_count(answer.solution)
    what = f"installed {count}" if answer.changed else f"unchanged {count}, installed before"
    lines = [f"{what}: {answer.prefix}", *([f"build     {answer.hook}"] if answer.hook else [])]
    if answer.afterwards:
        lines.append(f"pip       packages that are not in the lock: {answer.afterwards}")
    lines.append(f"check     cuenv check --prefix {shlex.quote(str(answer.prefix))}")
    return [*lines, f"use       {answer.commands[0]}", *(f"   or     {item}" for item in answer.commands[1:])]


def _plain(answer: Installed) -> ReportDocument:
    return {
        **report_json(answer.report),
        "installed": answer.solution is not None,
        "changed": answer.changed,
        "prefix": str(answer.prefix),
        "platform": answer.solution.platform if answer.solution else None,
        "packages": len(answer.solution.packages) if answer.solution else 0,
        "pip": len(answer.solution.pip) if answer.solution else 0,
        "commands": list(answer.commands) if answer.solution else [],
        "afterwards": answer.afterwards or None,
    }
