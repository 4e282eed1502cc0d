"""``cuenv report``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import PATH, CuenvCommand, completes, name_option, output_options, prefix_option
from cuenv.cli.defaults import was_typed
from cuenv.cli.options import (
    channel_options,
    host_from,
    host_options,
    knowledge_from,
    local_records,
    output_option,
    part_from,
    part_name_options,
    request_from,
    request_options,
)
from cuenv.cli.output import emit, emit_json, progress, say
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.io.files import make_folder, read_text
from cuenv.core.record import replace
from cuenv.host.select import host_facts
from cuenv.report.picture import OWN, PICTURES, alone

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import ReportValues
    from cuenv.knowledge.base import Knowledge
    from cuenv.lockfile.check import LockCheck
    from cuenv.report.page import ReportPage

_REQUESTED = ("profile", "stack", "pytorch", "cuda", "packages", "dev", "cpu", "prefer")
"""Options that choose an environment, which are refused where one is named; --python also selects part of a lock."""


@click.command("report", cls=CuenvCommand)
@click.argument("lock", type=PATH, required=False, metavar="[LOCK]")
@prefix_option
@name_option
@click.option(
    "--fleet", "plan", type=PATH, metavar="PLAN", help="The output of 'cuenv fleet plan --json', or its folder (-o)."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "svg", "md"]),
    default="html",
    help="The format of the report; svg is one picture, for a README or a pull request.",
)
@click.option(
    "--picture", metavar="NAME", shell_complete=completes("picture"), help=f"With --format svg: {', '.join(PICTURES)}."
)
@output_option
@part_name_options
@host_options
@request_options
@channel_options
@output_options
def command(lock: Path | None, **values: Unpack[ReportValues]) -> int:
    """Write one page with pictures: what limits an environment, the driver, all builds, the size.

    LOCK is any lock that 'cuenv check' reads. With --prefix or --name the report describes an installed environment,
    and also shows the GPU code in its libraries. With --fleet it describes a plan: the nodes of each environment, and
    the cost of fewer environments. With only host options it describes the choice of 'cuenv resolve'. Without any of
    these it describes the lock in this folder, or else this machine.

    The page is one HTML file: it has no script, loads nothing, follows the dark or light scheme of the reader, and
    can be printed. It also shows each picture as a table. The same input gives the same bytes. The exit code is 0
    when the report was written, also with findings; use the exit code of 'cuenv check' to decide.

    \b
    Examples:
      cuenv report -o report.html
      cuenv report conda-lock.yml --gpu V100 --gpu 'RTX 5090' --driver 575.57.08 -o report.html
      cuenv report --prefix ./env -o report.html
      cuenv report --fleet plan.json -o fleet.html
      cuenv report --host v100-rtx5090-575 --format svg --picture components -o components.svg
      cuenv report --gpu A100 --driver 535.129.03 --format md
    """
    output, form = values["output"], values["form"]
    if values["picture"] and form != "svg":
        raise UsageError("--picture chooses what --format svg draws", hint="cuenv report --format svg --picture driver")
    if output and output.is_dir():
        raise UsageError(f"-o {output}: it is a folder", hint=f"cuenv report -o {output / 'report.html'}")
    if form == "html" and not output and not values["as_json"] and sys.stdout.isatty():
        message = "the report is an HTML file and cannot be read on a terminal"
        raise UsageError(message, hint="cuenv report -o report.html")
    page = _make_page(lock, values)
    text = _text(page, values)
    kept = _write(output, text) if output else None
    if values["as_json"]:
        from cuenv.report.page import plain  # noqa: PLC0415 - only for JSON

        emit_json(plain(page, str(output) if output else None))
        return ExitCode.OK
    if not output:
        emit(text)
        return ExitCode.OK
    say([f"kept    the old file as {kept}"] if kept else [], quiet=values["quiet"])
    say([*page.lead[:1], f"wrote   {output}"], quiet=values["quiet"])
    return ExitCode.OK


def _text(page: ReportPage, values: ReportValues) -> str:
    """The report in the format of ``--format``."""
    from cuenv.report.page import html, markdown  # noqa: PLC0415 - not needed for --help

    if values["form"] == "svg":
        return alone(page.picture(values["picture"] or next((item.name for item in page.pictures), "components")))
    return markdown(page) if values["form"] == "md" else html(page)


def _write(path: Path, text: str) -> Path | None:
    """Write the report; a file that is not a report of cuenv is kept beside it."""
    from cuenv.core.io.products import write_over  # noqa: PLC0415 - as above

    make_folder(path.parent)
    kept = write_over({path: text}, (OWN, f"<!doctype html>\n{OWN}"))
    return kept[0][1] if kept else None


def _make_page(lock: Path | None, values: ReportValues) -> ReportPage:
    """Make the report that the arguments ask for.

    Raises:
        UsageError: the arguments name several things, or a request although an environment is named.
    """
    knowledge = knowledge_from(values)
    named = {"LOCK": lock, "--prefix": values["prefix"], "--name": values["name"], "--fleet": values["plan"]}
    given = [name for name, value in named.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)}: a report shows only one of them", hint="cuenv report --help")
    about = next(iter(given), "")
    if about:
        _refuse_request_options(about)
    if values["plan"]:
        return _fleet(values["plan"])
    if values["name"]:
        from cuenv.prefix.io.environments import named_environment  # noqa: PLC0415 - as above

        return _prefix(named_environment(values["name"], os.environ), values, knowledge)
    if values["prefix"]:
        return _prefix(values["prefix"], values, knowledge)
    options = host_from(values)
    requests = any(was_typed(name) for name in (*_REQUESTED, "python"))
    if lock is None and not options.given and not requests:
        from cuenv.prefix.check import find_lock  # noqa: PLC0415 - as above

        lock = find_lock()
    return _lock(lock, values, knowledge) if lock else _host(values, knowledge)


def _refuse_request_options(about: str) -> None:
    """Refuse what chooses an environment beside one that is there."""
    if any(was_typed(name) for name in _REQUESTED):
        said = f"request options choose an environment, but {about} names one"
        raise UsageError(said, hint="leave out the options, or name only a host: cuenv report --gpu A100 --pytorch 2.5")


def _fleet(path: Path) -> ReportPage:
    from cuenv.fleet.deliver import PLAN, read_full_plan  # noqa: PLC0415 - as above
    from cuenv.report.make import fleet_page  # noqa: PLC0415 - as above

    file = path / PLAN if path.is_dir() else path
    return fleet_page(read_full_plan(read_text(file), str(file)), str(path))


def _lock(lock: Path, values: ReportValues, knowledge: Knowledge) -> ReportPage:
    from cuenv.lockfile.check import check  # noqa: PLC0415 - as above
    from cuenv.report.make import lock_page  # noqa: PLC0415 - as above

    checked = check(lock, host_from(values), knowledge, part=part_from(values))
    return lock_page(_with_sizes(checked, values), knowledge)


def _with_sizes(checked: LockCheck, values: ReportValues) -> LockCheck:
    """The lock with the sizes of its packages, if channel records on this machine contain them."""
    lock, platform = checked.lock, checked.facts.platform
    mine = lock.solution(platform) if lock else None
    if lock is None or mine is None or all(item.size for item in mine.packages):
        return checked
    here = local_records(values, platform)
    if here is None:
        return checked
    from cuenv.solve.io.records import sizes_of  # noqa: PLC0415 - it loads rattler

    sizes = sizes_of(mine.packages, platform, here.sources)
    packages = tuple(replace(item, size=item.size or sizes.get(item.sha256 or "")) for item in mine.packages)
    solutions = tuple(replace(one, packages=packages) if one is mine else one for one in lock.solutions)
    return replace(checked, lock=replace(lock, solutions=solutions))


def _host(values: ReportValues, knowledge: Knowledge) -> ReportPage:
    from cuenv.report.make import decision_page  # noqa: PLC0415 - as above
    from cuenv.resolver.resolve import resolve  # noqa: PLC0415 - as above

    request = request_from(values)
    facts = host_facts(host_from(values), knowledge, request)
    found = resolve(facts, request, knowledge, name=request.name)
    return decision_page(found.decision, found.findings)


def _prefix(folder: Path, values: ReportValues, knowledge: Knowledge) -> ReportPage:
    from cuenv.prefix.check import check_prefix  # noqa: PLC0415 - as above
    from cuenv.report.io.installed import installed_page  # noqa: PLC0415 - as above

    options = host_from(values)
    with progress(quiet=values["quiet"] or values["as_json"]) as show:
        return installed_page(check_prefix(folder, options, knowledge), options, knowledge, say=show)
