"""``cuenv check``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import INPUT, CuenvCommand, completes, no_progress_option, output_options
from cuenv.cli.defaults import configuration
from cuenv.cli.options import (
    environment_options,
    format_option,
    host_from,
    host_options,
    knowledge_from,
    knowledge_option,
    part_from,
    part_options,
)
from cuenv.cli.output import emit_findings, progress
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.render import check_json, check_lines
from cuenv.host.request import Request

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import CheckValues


_SHOWN_OF_CODE = 8  # the most findings of one code that are shown of an environment, which may lack a hundred packages


@click.command("check", cls=CuenvCommand)
@click.argument("path", type=INPUT, required=False, metavar="[LOCK]")
@environment_options
@click.option("--run", "running", is_flag=True, help="Also run the environment: torch, CUDA, NCCL, compilers.")
@click.option(
    "--timeout",
    type=click.IntRange(1, 86400),
    metavar="SECONDS",
    help="With --run: the time limit of each probe (300).",
)
@part_options
@host_options
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@click.option("--redact", is_flag=True, help="Leave out names of users and hosts, and home folders.")
@format_option
@click.option(
    "--profile", metavar="NAME|FILE", shell_complete=completes("profile"), help="Take the request from this profile."
)
@knowledge_option
@no_progress_option
@output_options
def command(path: Path | None, **values: Unpack[CheckValues]) -> int:
    """Check that a lock or an installed environment is consistent and runs on a host.

    LOCK is compared with a host, with its environment file, and with the rules for CUDA packages. It is a
    conda-lock.yml, an explicit file, a pixi.lock, a uv.lock, a pylock.toml, or a requirements file with hashes, which
    is recognised by its content. If a file has several environments, platforms or extras, the command checks the part
    that the file's own program installs on the host by default. --environment, --extra, --group, --python and
    --platform choose another part, and the output names it. With --prefix or --name the command checks an installed
    environment (conda, a venv, or a Python's own) by its files; it runs none of its programs and needs no GPU.
    Without any of these it checks conda-lock.yml in this folder and the active environment; in a folder without one
    it checks pixi.lock, uv.lock or pylock.toml.

    With --run the command sources the environment's activation scripts, compiles a small program with its compilers,
    and tests torch, CUDA and the installed libraries with its own Python on this machine. Each probe is a process
    with a time limit. The command skips probes of packages that are not installed, and of GPUs that the machine does
    not have.

    The host is this machine, or --host, or --gpu with --driver; on a machine without GPU it is the host that the lock
    was made for. Each finding has a stable code, evidence (-v) and one fix; 'cuenv why CODE' explains it. -v also
    says how torch, cuDNN, NCCL and nvcc support each GPU. With --profile the command also checks the memory and the
    disk that the profile requires. The exit code is 1 when there are errors.

    \b
    Examples:
      cuenv check
      cuenv check --host h800-525
      cuenv check pixi.lock --environment gpu --gpu 'RTX 5090' --driver 575.57.08
      cuenv check uv.lock --extra cu128
      cuenv check --prefix ./env --lock conda-lock.yml
      cuenv check --prefix ./env --run
      cuenv check -n moe --gpu A100 --driver 525.60.13 --format markdown
      cuenv check locks/universal-dev/conda-lock.yml --gpu A100 --driver 525.60.13 --json
    """
    from cuenv.prefix.check import parse_check_request, run_check_request  # noqa: PLC0415 - not needed for --help

    limit = _time_limit(values)
    host = host_from(values)
    what = parse_check_request(
        path,
        os.environ,
        prefix=values["prefix"],
        name=values["name"],
        lock=values["lock"],
        part=part_from(values),
        words=host.words,
    )
    request = _profile(values["profile"])
    with progress(quiet=values["quiet"]) as show:
        reports = run_check_request(what, host, knowledge_from(values), request, limit=limit, say=show)
    if values["redact"]:
        from cuenv.host.io.record import private_words, scrub_report  # noqa: PLC0415 - only when asked for

        words = private_words(os.environ, os.uname().nodename)
        reports = tuple(scrub_report(told, words) for told in reports)
    strict, verbose = values["strict"], values["verbose"]
    negative = any(told.report.verdict(strict=strict) == "not fine" for told in reports)

    def lines() -> list[str]:
        silent = values["quiet"] and not negative
        return [] if silent else check_lines(reports, strict=strict, verbose=verbose, most=_SHOWN_OF_CODE)

    emit_findings(reports, values, lambda: check_json(reports, strict=strict), lines)
    return ExitCode.NEGATIVE if negative else ExitCode.OK


def _time_limit(values: CheckValues) -> float | None:
    """The time limit in seconds of each probe of ``--run``; ``None`` without that option."""
    if values["timeout"] and not values["running"]:
        raise UsageError("--timeout is what --run gives to each probe", hint="cuenv check --run --timeout 60")
    return float(values["timeout"] or 300) if values["running"] else None


def _profile(name: str | None) -> Request | None:
    if not name:
        return None
    from cuenv.config.io.profiles import read_profile  # noqa: PLC0415 - YAML is read only then

    return read_profile(name, configuration())
