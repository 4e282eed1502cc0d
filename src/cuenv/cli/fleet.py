"""``cuenv fleet``: gather, plan, verify, check, diff."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import PATH, CuenvCommand, CuenvGroup, combined, no_progress_option, output_options
from cuenv.cli.options import (
    channel_options,
    channel_sources,
    knowledge_from,
    knowledge_option,
    output_option,
    part_from,
    part_options,
    prove_option,
    read_standard_input,
    request_from,
    request_options,
)
from cuenv.cli.output import emit, emit_json, emit_lines, progress, say
from cuenv.core.errors import ExitCode, InputError, UsageError
from cuenv.core.findings import counted
from cuenv.core.io.files import read_stdin, read_text
from cuenv.host.facts import glibc
from cuenv.host.select import recorded_hosts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cuenv.cli.values import FleetCheckValues, FleetDeliverValues, FleetPlanValues, FleetVerifyValues, GatherValues
    from cuenv.fleet.documents import FleetVerdictFields, GatherDocument, NotGathered
    from cuenv.fleet.gather import Gathering, GatherRequest
    from cuenv.fleet.nodes import FleetNode
    from cuenv.host.facts import Libc
    from cuenv.knowledge.base import Knowledge


@click.group("fleet", cls=CuenvGroup)
def command() -> None:
    """Plan the fewest environments that support many hosts, with proof, and what fewer would cost.

    A fleet is a file with one host on each line, as `cuenv inspect --json --compact` prints it on every node; the
    output of nvidia-smi, Slurm, Kubernetes and other tools is accepted too.

    \b
    Examples:
      cuenv fleet plan fleet.ndjson
      cuenv fleet plan fleet.ndjson --at-most 1
      cuenv fleet plan fleet.ndjson --json > plan.json
      cuenv fleet verify plan.json
      cuenv fleet check conda-lock.yml --fleet fleet.ndjson
      cuenv fleet diff fleet.ndjson after-upgrade.ndjson
    """


@command.command(name="gather", cls=CuenvCommand, short_help="write the hosts of a cluster to a fleet file")
@click.option("--ssh", multiple=True, metavar="NODES", help="Ask these nodes over ssh, such as 'gpu[001-064]' or @gpu.")
@click.option("--slurm", is_flag=True, help="Ask the nodes that Slurm lists, by srun.")
@click.option("--nodes", default="", metavar="NODES", help="With --slurm: ask only these nodes.")
@click.option(
    "--ansible",
    multiple=True,
    type=PATH,
    metavar="DIR",
    help="Read the facts that Ansible cached about its nodes; repeatable.",
)
@click.option(
    "--from", "paths", multiple=True, metavar="FILE|DIR|-", help="Read hosts from this file or folder; repeatable."
)
@click.option("--again", is_flag=True, help="Also ask nodes that are already in the -o file.")
@click.option("--program", default="cuenv", metavar="PROGRAM", help="The name or path of cuenv on the nodes.")
@click.option("--ssh-options", default="", metavar="OPTIONS", help="Options for ssh, such as '-F ssh_config -l admin'.")
@click.option("--srun-options", default="", metavar="OPTIONS", help="Options for srun, such as '--account=physics'.")
@click.option(
    "--timeout", type=click.FloatRange(1, 3600), default=60, metavar="SECONDS", help="Time limit for each node (60)."
)
@click.option(
    "--fanout", type=click.IntRange(1, 1024), default=64, metavar="N", help="Number of nodes to ask at the same time."
)
@output_option
@no_progress_option
@knowledge_option
@output_options
def _gather(**values: Unpack[GatherValues]) -> int:
    """Write the hosts of a cluster to a fleet file: one line of JSON for each node.

    A node runs 'cuenv inspect' if cuenv is installed there, else nvidia-smi. To query nodes, install ClusterShell in
    cuenv's environment: pip install ClusterShell. You can repeat the command with -o: it queries only the nodes that
    are not in the file. The exit code is 1 when some nodes did not answer, and 3 when none did.

    \b
    Examples:
      cuenv fleet gather --slurm -o fleet.ndjson
      cuenv fleet gather --ssh 'gpu[001-064]' -o fleet.ndjson
      cuenv fleet gather --ansible facts -o fleet.ndjson
      srun -N4 cuenv inspect --json --compact | cuenv fleet gather --from - -o fleet.ndjson
    """
    from cuenv.core.io.writing import write_atomically  # noqa: PLC0415 - not needed for --help
    from cuenv.fleet.answers import fleet_line  # noqa: PLC0415 - as above
    from cuenv.fleet.gather import Gathering, gather  # noqa: PLC0415 - as above

    asked, output = _gather_request(values), values["output"]
    knowledge, found = knowledge_from(values), Gathering()
    quiet = values["quiet"] or values["as_json"]
    try:
        with progress(quiet=quiet) as show:
            gather(asked, output, knowledge, read_standard_input, show, again=values["again"], into=found)
    finally:  # whoever stops it keeps what is there, and goes on from there
        if output is not None and found.hosts:
            write_atomically(output, "".join(map(fleet_line, found.sorted())))
    failed = _failures(asked, found, output)
    _report_gathering(found, failed, output, quiet=quiet)
    if not found.hosts:
        reasons = "; ".join(f"{item['nodes']}: {item['reason']}" for item in failed[:3])
        raise InputError(f"no host could be read: {reasons}", hint=next((item["command"] for item in failed), None))
    if values["as_json"]:
        emit_json(_gather_json(found, failed, output))
    elif output is None:
        emit("".join(map(fleet_line, found.sorted())))
    return ExitCode.NEGATIVE if failed else ExitCode.OK


def _gather_request(values: GatherValues) -> GatherRequest:
    """The request of the options of ``gather``.

    Raises:
        UsageError: no hosts are named, or options contradict each other.
    """
    from cuenv.fleet.gather import GatherRequest  # noqa: PLC0415 - not needed for --help

    hint = "cuenv fleet gather --ssh 'gpu[001-064]' -o fleet.ndjson"
    if not (values["ssh"] or values["slurm"] or values["ansible"] or values["paths"]):
        raise UsageError("name the hosts with --slurm, --ssh, --ansible or --from", hint=hint)
    if values["nodes"] and not values["slurm"]:
        raise UsageError("--nodes chooses among the nodes of --slurm", hint=hint)
    if values["paths"].count("-") > 1:
        raise UsageError("--from - is given twice, but standard input can be read only once", hint=hint)
    return GatherRequest(
        ssh=values["ssh"],
        slurm=values["slurm"],
        nodes=values["nodes"],
        ansible=values["ansible"],
        paths=values["paths"],
        program=values["program"],
        ssh_options=values["ssh_options"],
        srun_options=values["srun_options"],
        timeout=values["timeout"],
        fanout=values["fanout"],
    )


def _failures(asked: GatherRequest, found: Gathering, output: Path | None) -> list[NotGathered]:
    """The nodes and files without a record, grouped by reason."""
    import shlex  # noqa: PLC0415 - only where something failed

    from cuenv.fleet.answers import group_by_reason  # noqa: PLC0415 - as above
    from cuenv.fleet.gather import command_again  # noqa: PLC0415 - as above
    from cuenv.fleet.nodes import fold  # noqa: PLC0415 - as above

    failed: list[NotGathered] = []
    for by, failures in found.failures.items():
        for reason, names in group_by_reason(failures).items():
            nodes = fold(names) if by in ("ssh", "slurm") else ", ".join(names)
            command = shlex.join(command_again(asked, by, nodes, output)) if by in ("ssh", "slurm") else None
            failed.append({"nodes": nodes, "count": len(names), "reason": reason, "command": command})
    return failed


def _report_gathering(found: Gathering, failed: list[NotGathered], output: Path | None, *, quiet: bool) -> None:
    """Print what failed and why, and what was written."""
    for item in failed:
        what = f"{counted(item['count'], 'node')}: " if item["command"] else ""
        say([f"warning: {what}{item['nodes']}: {item['reason']}"], quiet=quiet)
    if failed and found.hosts:
        say([f"hint: {item['command']}" for item in failed if item["command"]], quiet=quiet)
    if found.kept:
        say([f"{len(found.kept)} of the nodes are in {output} already; --again asks them again"], quiet=quiet)
    if output is not None and found.hosts:
        say([f"wrote   {output}: {len(found.hosts)} hosts"], quiet=quiet)


def _gather_json(found: Gathering, failed: list[NotGathered], output: Path | None) -> GatherDocument:
    from cuenv.host.host_json import to_plain  # noqa: PLC0415 - only for JSON

    document: GatherDocument = {
        "schema": "cuenv/gather/1",
        "output": str(output) if output else None,
        "hosts": len(found.hosts),
        "asked": found.asked,
        "kept": len(found.kept),
        "failed": failed,
    }
    if output is None:
        document["records"] = [to_plain(facts) for facts in found.sorted()]  # type: ignore[misc]  # as the schema of the host says
    return document


def read_fleet(name: str, knowledge: Knowledge) -> tuple[tuple[FleetNode, ...], tuple[str, ...]]:
    """The nodes of a fleet file, and sentences on unreadable lines and on nodes that contradict themselves."""
    from cuenv.fleet.nodes import unique_nodes  # noqa: PLC0415 - as above

    broken: list[str] = []

    def tell(file: str, line: int, says: str) -> None:
        broken.append(f"{file or name}, line {line}: {says}")

    nodes, odd = unique_nodes(recorded_hosts(name, knowledge, tell, read_stdin))
    return nodes, (*broken, *odd)


_plan_options = combined(
    click.option(
        "--at-most",
        type=click.IntRange(1),
        metavar="K",
        help="The best plan with at most K environments (default: the fewest that give each GPU its best one).",
    ),
    click.option(
        "--assume-glibc", metavar="VERSION", help="glibc assumed for hosts whose glibc is not known; the plan says so."
    ),
)


@command.command("plan", short_help="find the fewest environments that support all hosts")
@click.argument("fleet", metavar="FLEET|-")
@_plan_options
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="DIR",
    help="Write to this folder: an environment.yml and a lock for each environment, fleet.json, which-env scripts.",
)
@click.option("--no-lock", is_flag=True, help="With -o: write no locks, and do not ask the channels.")
@prove_option
@request_options
@channel_options
@output_options
def _plan(fleet: str, **values: Unpack[FleetDeliverValues]) -> int:
    """Find the fewest environments that support all hosts of a fleet, with proof, and what fewer would cost.

    The command judges hosts that no rule can distinguish only once. For each number k of environments, the table
    names the hosts that get less than their best one. The proof names hosts no two of which can share a build, and
    the rules that separate them; `cuenv fleet verify` checks it without the planner. Hosts with an unknown fact are
    listed and get no environment. The exit code is 1 when a host with a GPU gets no environment, or when part of the
    fleet cannot be read.

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

        sources = None if values["no_lock"] else channel_sources(values)
        prove = values["prove"]
        with progress(quiet=values["quiet"]) as show:
            done = deliver(found, values["output"], knowledge, sources, prove=prove, broken=broken, progress=show)
        found, written, faults = done.plan, done.written, done.faults
        told += [f"kept    the edited file as {path}" for path in done.kept]
        told += [f"instead {text}" for text in done.instead]
        if done.instead:
            told.append("note    the cost of other numbers is left out: the channels lack some of their packages")
        told += [f"wrote   {path}" for path in written]
        told += [f"removed {path} from an earlier plan" for path in done.removed]
        told += [f"left    {path} from an earlier plan, because it was edited" for path in done.left]
        told += [f"error: {text}" for text in faults]
    elif values["prove"]:
        raise UsageError("--prove needs a folder for its locks", hint="cuenv fleet plan FLEET --prove -o DIR")
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

    try:
        return glibc(text.strip())
    except ValueError as error:
        raise UsageError(f"--assume-glibc: {error}", hint="ldd --version") from error


@command.command("verify", short_help="check a plan and its proof without the planner")
@click.argument("path", type=PATH, metavar="PLAN")
@knowledge_option
@output_options
def _verify(path: Path, **values: Unpack[FleetVerifyValues]) -> int:
    """Check a plan without using the planner.

    The command decides for each host again, and checks each proof by trying every division of its hosts into fewer
    groups. PLAN is the output of `cuenv fleet plan --json`. The exit code is 1 when a statement of the plan is wrong.

    \b
    Examples:
      cuenv fleet verify plan.json
    """
    from cuenv.fleet.check import verify  # noqa: PLC0415 - as above
    from cuenv.fleet.plan_json import read_plan  # noqa: PLC0415 - as above

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


@command.command("check", short_help="show which hosts each lock supports")
@click.argument("locks", type=PATH, nargs=-1, required=True, metavar="LOCK...")
@click.option("--fleet", required=True, metavar="FLEET|-", help="The fleet file; - reads stdin.")
@part_options
@knowledge_option
@output_options
def _check(locks: tuple[Path, ...], **values: Unpack[FleetCheckValues]) -> int:
    """Show which hosts of a fleet each lock supports, by the checks of `cuenv check`.

    The exit code is 1 when no lock supports a host with a GPU, when a fact of a host is unknown, or when part of the
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


@command.command("diff", short_help="show what a driver upgrade or new hosts would change")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@_plan_options
@request_options
@output_options
def _diff(old: str, new: str, **values: Unpack[FleetPlanValues]) -> int:
    """Show how a driver upgrade, or new and removed hosts, would change the plan.

    OLD and NEW are two states of a fleet; both are planned in the same way. The exit code is 1 when part of a fleet
    cannot be read, or when a host has an environment before and none after.

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
