"""``cuenv fleet``: plan, verify, check, diff; `fleet_gather` is a module of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cuenv.cli.command import PATH, GroupedGroup, several
from cuenv.cli.fleet_gather import gather_command
from cuenv.cli.options import (
    channel_options,
    channel_sources,
    knowledge_from,
    knowledge_option,
    part_from,
    part_options,
    prove_option,
    request_from,
    request_options,
    talk_options,
)
from cuenv.cli.output import emit_json, emit_lines, progress, progress_done, say
from cuenv.core.errors import ExitCode, UsageError

if TYPE_CHECKING:  # types alone
    from pathlib import Path

    from typing_extensions import Unpack

    from cuenv.cli.values import FleetCheckValues, FleetDeliverValues, FleetPlanValues, FleetVerifyValues
    from cuenv.core.documents import FleetVerdictFields
    from cuenv.fleet.nodes import FleetNode
    from cuenv.host.facts import Libc
    from cuenv.knowledge.base import Knowledge


@click.group("fleet", cls=GroupedGroup, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Plan the fewest environments that serve many hosts, with proof, and what fewer would cost.

    A fleet is a file with one host on each line, as `cuenv inspect --json --compact` prints it on every node; what
    nvidia-smi, Slurm, Kubernetes and others print is taken as well.

    \b
    Examples:
      cuenv fleet plan fleet.ndjson
      cuenv fleet plan fleet.ndjson --at-most 1
      cuenv fleet plan fleet.ndjson --json > plan.json
      cuenv fleet verify plan.json
      cuenv fleet check conda-lock.yml --fleet fleet.ndjson
      cuenv fleet diff fleet.ndjson after-upgrade.ndjson
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


command.add_command(gather_command)


def read_fleet(name: str, knowledge: Knowledge) -> tuple[tuple[FleetNode, ...], tuple[str, ...]]:
    """The nodes of a file, and what is wrong with it: broken lines, and nodes that contradict themselves."""
    from cuenv.core.io.files import read_stdin  # noqa: PLC0415 - not needed for --help
    from cuenv.fleet.nodes import named  # noqa: PLC0415 - as above
    from cuenv.host.select import recorded_hosts  # noqa: PLC0415 - as above

    broken: list[str] = []

    def tell(file: str, line: int, says: str) -> None:
        broken.append(f"{file or name}, line {line}: {says}")

    nodes, odd = named(recorded_hosts(name, knowledge, tell, read_stdin))
    return nodes, (*broken, *odd)


_planning = several(
    click.option(
        "--at-most",
        type=click.IntRange(1),
        metavar="K",
        help="The best plan of at most K environments (default: as few as serve every GPU as its best does).",
    ),
    click.option(
        "--assume-glibc", metavar="VERSION", help="glibc assumed for hosts whose glibc is not known; the plan says so."
    ),
)


@command.command("plan", short_help="find the fewest environments that serve all hosts")
@click.argument("fleet", metavar="FLEET|-")
@_planning
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="DIR",
    help="Write to this folder: an environment.yml and a lock for each environment, fleet.json, which-env scripts.",
)
@click.option("--no-lock", is_flag=True, help="With -o: write no locks, and ask no channel.")
@prove_option
@request_options
@channel_options
@talk_options
def _plan(fleet: str, **values: Unpack[FleetDeliverValues]) -> int:
    """Find the fewest environments that serve all hosts of a fleet, with proof, and what fewer would cost.

    Hosts that no rule can tell apart are judged once. The table says for each number k of environments who gets less
    than its best. The proof names hosts of which no two share a build, and the rules that part them; `cuenv fleet
    verify` checks it without the planner. Hosts of which a fact is not known are listed and get no environment. The
    exit code is 1 when a host with a GPU gets none, and when part of the fleet cannot be read.

    \b
    Examples:
      cuenv fleet plan fleet.ndjson
      cuenv fleet plan fleet.ndjson --at-most 1
      cuenv fleet plan fleet.ndjson --assume-glibc 2.28 --json > plan.json
      cuenv fleet plan fleet.ndjson --prove -o environments
      srun -N 12 cuenv inspect --json --compact | cuenv fleet plan -
    """
    from cuenv.fleet.explain import plan_lines  # noqa: PLC0415 - as above
    from cuenv.fleet.plan import plan  # noqa: PLC0415 - as above
    from cuenv.fleet.plan_json import plan_plain  # noqa: PLC0415 - as above

    knowledge, request = knowledge_from(values), request_from(values)
    libc = _libc(values["assume_glibc"])
    nodes, broken = read_fleet(fleet, knowledge)
    found = plan(nodes, request, knowledge, at_most=values["at_most"], glibc=libc)
    told: list[str] = []
    written: tuple[Path, ...] = ()
    faults: tuple[str, ...] = ()
    if values["output"] and found.environments:
        from cuenv.fleet.deliver import deliver  # noqa: PLC0415 - as above

        show = progress(quiet=values["quiet"])
        sources = None if values["no_lock"] else channel_sources(values)
        prove = values["prove"]
        done = deliver(found, values["output"], knowledge, sources, prove=prove, broken=broken, progress=show)
        progress_done(show)
        found, written, faults = done.plan, done.written, done.faults
        told += [f"kept    an edited file as {path}" for path in done.kept]
        told += [f"instead {text}" for text in done.instead]
        if done.instead:
            told.append(
                "note    what other numbers of environments cost is left out: the channels do not have all of it"
            )
        told += [f"wrote   {path}" for path in written]
        told += [f"removed {path}, of an earlier plan" for path in done.removed]
        told += [f"left    {path}, of an earlier plan, which was changed since" for path in done.left]
        told += [f"error: {text}" for text in faults]
    elif values["prove"]:
        raise UsageError("--prove locks nothing without a folder", hint="cuenv fleet plan FLEET --prove -o DIR")
    whole = (
        not faults
        and bool(found.environments)
        and not (found.unknown or broken or any(not item.bare for item in found.hopeless))
    )
    if values["as_json"]:
        emit_json(plan_plain(found, knowledge, broken, map(str, written)))
    else:
        say([f"error: {text}" for text in broken])
        if not (values["quiet"] and whole):
            emit_lines(plan_lines(found, knowledge, verbose=values["verbose"]))
    say(told, quiet=(values["quiet"] or values["as_json"]) and not faults)
    return ExitCode.OK if whole else ExitCode.NEGATIVE


def _libc(text: str | None) -> Libc | None:
    if text is None:
        return None
    from cuenv.host.facts import glibc  # noqa: PLC0415 - as above

    try:
        return glibc(text.strip())
    except ValueError as error:
        raise UsageError(f"--assume-glibc: {error}", hint="ldd --version") from error


@command.command("verify", short_help="check a plan and its proof without the planner")
@click.argument("path", type=PATH, metavar="PLAN")
@knowledge_option
@talk_options
def _verify(path: Path, **values: Unpack[FleetVerifyValues]) -> int:
    """Check a plan without the planner: each host by the decision for it, each proof by trying all divisions.

    PLAN is what `cuenv fleet plan --json` printed. The exit code is 1 when a statement does not hold.

    \b
    Examples:
      cuenv fleet verify plan.json
    """
    from cuenv.core.io.files import read_text  # noqa: PLC0415 - not needed for --help
    from cuenv.fleet.plan_json import read_plan  # noqa: PLC0415 - as above
    from cuenv.fleet.verify import verify  # noqa: PLC0415 - as above

    knowledge = knowledge_from(values)
    found = verify(read_plan(read_text(path), str(path)), knowledge)
    holds = not any(item.because for item in found)
    if values["as_json"]:
        checked: list[FleetVerdictFields] = [
            {"says": item.says, "holds": not item.because, "because": item.because or None} for item in found
        ]
        emit_json({"schema": "cuenv/fleet-verify/1", "plan": str(path), "holds": holds, "checked": checked})
    elif not (values["quiet"] and holds):
        emit_lines(f"error: {item.says}: {item.because}" if item.because else f"ok      {item.says}" for item in found)
    return ExitCode.OK if holds else ExitCode.NEGATIVE


@command.command("check", short_help="say which hosts each lock serves")
@click.argument("locks", type=PATH, nargs=-1, required=True, metavar="LOCK...")
@click.option("--fleet", required=True, metavar="FLEET|-", help="The hosts, one on each line.")
@part_options
@knowledge_option
@talk_options
def _check(locks: tuple[Path, ...], **values: Unpack[FleetCheckValues]) -> int:
    """Say which hosts of a fleet each lock serves, by the check of `cuenv check` for each kind of them.

    The exit code is 1 when no lock serves a host with a GPU, when a fact of a host is not known, and when part of the
    fleet cannot be read.

    \b
    Examples:
      cuenv fleet check conda-lock.yml --fleet fleet.ndjson
      cuenv fleet check new/conda-lock.yml old/conda-lock.yml --fleet fleet.ndjson
    """
    from cuenv.fleet.check import check_fleet, check_plain  # noqa: PLC0415 - not needed for --help
    from cuenv.fleet.explain import check_fleet_lines  # noqa: PLC0415 - as above

    knowledge = knowledge_from(values)
    nodes, broken = read_fleet(values["fleet"], knowledge)
    found = check_fleet(locks, nodes, knowledge, part_from(values))
    whole = not (found.unserved or found.unknown or broken)
    if values["as_json"]:
        emit_json(check_plain(found, broken))
    else:
        say([f"error: {text}" for text in broken])
        if not (values["quiet"] and whole):
            emit_lines(check_fleet_lines(found, verbose=values["verbose"]))
    return ExitCode.OK if whole else ExitCode.NEGATIVE


@command.command("diff", short_help="say what a driver upgrade or new hosts change")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@_planning
@request_options
@talk_options
def _diff(old: str, new: str, **values: Unpack[FleetPlanValues]) -> int:
    """Say what a driver upgrade, or hosts that are new or gone, change of the plan.

    OLD and NEW are two states of a fleet; both are planned in the same way. The exit code is 1 when part of a fleet
    cannot be read, and when something serves a host before and nothing after.

    \b
    Examples:
      cuenv fleet diff fleet.ndjson after-upgrade.ndjson
    """
    from cuenv.fleet.diff import diff_fleets, diff_plain  # noqa: PLC0415 - not needed for --help
    from cuenv.fleet.explain import diff_fleet_lines  # noqa: PLC0415 - as above

    knowledge, request = knowledge_from(values), request_from(values)
    (before, odd), (after, more) = read_fleet(old, knowledge), read_fleet(new, knowledge)
    libc = _libc(values["assume_glibc"])
    found = diff_fleets(before, after, request, knowledge, at_most=values["at_most"], glibc=libc)
    broken = (*odd, *more)
    if values["as_json"]:
        emit_json(diff_plain(found, broken))
    else:
        say([f"error: {text}" for text in broken])
        emit_lines(diff_fleet_lines(found, verbose=values["verbose"]))
    return ExitCode.NEGATIVE if broken or found.lost else ExitCode.OK
