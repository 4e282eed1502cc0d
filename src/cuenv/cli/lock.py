"""``cuenv lock``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cuenv.cli.options import channel_options, channel_sources, host_from, host_options, knowledge_from, talk_options
from cuenv.cli.output import emit, emit_json, progress, progress_done, report_json, report_lines, say
from cuenv.errors import ExitCode, UsageError

_TREE = 20
"""Lines of the solver's own words that are shown without -v."""

if TYPE_CHECKING:
    from cuenv.flows.locking import Locked
    from cuenv.lockfile import Solution


@click.command("lock")
@click.argument("path", type=click.Path(path_type=Path), default="environment.yml", metavar="[environment.yml]")
@host_options
@click.option("--check", is_flag=True, help="Only tell whether the lock is up to date: no solve, no GPU, no network.")
@click.option(
    "--allow", multiple=True, metavar="CODE", help="Lock although this finding refuses; recorded in the lock."
)
@channel_options
@talk_options
@click.option("--knowledge", "tables", type=click.Path(path_type=Path), metavar="DIR", help="Further tables.")
def command(path: Path, **values: Any) -> int:
    """Solve environment.yml and write its lock files beside it.

    The file may be anyone's: it is judged first, and refused when it cannot work. Virtual packages (__cuda, __glibc)
    come from the options, else from CONDA_OVERRIDE_* variables, else from this machine. An existing lock keeps its
    packages while they satisfy the file.

    \b
    Writes:
      conda-lock.yml               for micromamba, conda-lock, cuenv check
      conda-<platform>.lock        explicit, with hashes: installs as it is
      conda-<platform>.lock.yml    for conda env create
      requirements-<platform>.lock.txt  what pip adds, with hashes; only with a pip part
    """
    from cuenv.flows.locking import LockRequest, create_commands, lock  # noqa: PLC0415 - not needed for --help

    knowledge = knowledge_from(values)
    if values["check"]:
        return _check(path, values, knowledge)
    show = progress(quiet=values["quiet"])
    request = LockRequest(
        path=path, host=host_from(values), sources=channel_sources(values), allow=_codes(values["allow"])
    )
    answer = lock(request, knowledge, progress=show)
    progress_done(show)
    quiet = values["quiet"] or values["as_json"]
    say([f"warning {path}: {text}" for text in answer.warnings], quiet=quiet)
    if values["as_json"]:
        emit_json(_plain(answer))
    elif answer.lock is None:
        say(_refusal(answer, verbose=values["verbose"]))
    else:
        say(report_lines(answer.report, verbose=values["verbose"])[1:-1], quiet=quiet)
        counts = ", ".join(map(_count, answer.lock.solutions))
        say([f"locked  {counts}: {', '.join(str(file) for file in answer.written)}"], quiet=quiet)
        say(["make the environment with one of:", *(f"  {line}" for line in create_commands(answer))], quiet=quiet)
    return ExitCode.OK if answer.lock else ExitCode.NEGATIVE


def _count(solution: Solution) -> str:
    also = f" and {len(solution.pip)} for pip" if solution.pip else ""
    return f"{len(solution.packages)} packages{also} for {solution.platform}"


def _codes(codes: tuple[str, ...]) -> tuple[str, ...]:
    for code in codes:
        if not (code.startswith("CU") and code[2:].isdigit()):
            raise UsageError(f"--allow {code!r} is no finding code", hint="cuenv lock --allow CU104")
    return codes


def _check(path: Path, values: dict[str, Any], knowledge: Any) -> int:
    from cuenv.flows.checking import out_of_date  # noqa: PLC0415 - not needed for --help

    report = out_of_date(path, host_from(values), knowledge)
    if values["as_json"]:
        emit_json(report_json(report))
    elif not values["quiet"]:
        emit("\n".join(report_lines(report, verbose=values["verbose"])))
    return report.exit


def _refusal(answer: Locked, *, verbose: bool) -> list[str]:
    from cuenv.flows.pip_locking import NEVER_ALLOWED  # noqa: PLC0415 - only then
    from cuenv.flows.proving import unsatisfiable_text  # noqa: PLC0415 - as above
    from cuenv.host_text import host_options as host_options_of  # noqa: PLC0415 - only then

    lines = report_lines(answer.report, verbose=verbose)[1:-1]
    if answer.unsatisfiable is None:
        found = {item.code for item in answer.report.errors} - {"CU413"}
        codes = sorted({"CU501" if code in NEVER_ALLOWED else code for code in found})
        anyway = f"; {' '.join(f'--allow {code}' for code in codes)} locks anyway and records it" if codes else ""
        return [*lines, f"error   refused; nothing was written{anyway}"]
    lines.append(f"error   the channels cannot close it: {unsatisfiable_text(answer.unsatisfiable, answer.spec)}")
    tree = answer.unsatisfiable.text.splitlines()
    shown = tree if verbose else tree[:_TREE]
    lines += [f"        {line}" for line in shown]
    if len(shown) < len(tree):
        lines.append(f"        ... {len(tree) - len(shown)} more lines with -v")
    words = ["cuenv", "resolve", "--prove", *host_options_of(answer.facts), "-o", "environment.new.yml"]
    lines.append(f"hint    take the best torch that closes: {shlex.join(words)}")
    return lines


def _plain(answer: Locked) -> dict[str, Any]:
    unsatisfiable = answer.unsatisfiable
    return report_json(
        answer.report,
        locked=answer.lock is not None,
        written=[str(file) for file in answer.written],
        packages={item.platform: len(item.packages) for item in answer.lock.solutions} if answer.lock else {},
        pip={item.platform: len(item.pip) for item in answer.lock.solutions} if answer.lock else {},
        unsatisfiable=None
        if unsatisfiable is None
        else {"missing": list(unsatisfiable.missing), "text": unsatisfiable.text, "command": "cuenv resolve --prove"},
    )
