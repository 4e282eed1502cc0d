"""``cuenv fleet gather``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import PATH, Grouped, no_progress_option
from cuenv.cli.options import knowledge_from, knowledge_option, output_option, read_standard_input, talk_options
from cuenv.cli.output import emit, emit_json, progress, progress_done, say
from cuenv.core.errors import ExitCode, InputError, UsageError

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import GatherValues
    from cuenv.core.documents import GatherDocument, NotGathered
    from cuenv.fleet.gather import Gathering, GatherRequest


@click.command(name="gather", cls=Grouped, short_help="write the hosts of a cluster to a fleet file")
@click.option("--ssh", multiple=True, metavar="NODES", help="Ask these nodes over ssh, such as 'gpu[001-064]' or @gpu.")
@click.option("--slurm", is_flag=True, help="Ask the nodes that Slurm lists, by srun.")
@click.option("--nodes", default="", metavar="NODES", help="With --slurm: ask only these nodes.")
@click.option(
    "--ansible",
    multiple=True,
    type=PATH,
    metavar="DIR",
    help="Read what Ansible cached of the facts of its nodes; repeatable.",
)
@click.option(
    "--from", "paths", multiple=True, metavar="FILE|DIR|-", help="Read hosts from this file or folder; repeatable."
)
@click.option("--again", is_flag=True, help="Ask also the nodes that are in the file of -o already.")
@click.option("--program", default="cuenv", metavar="PROGRAM", help="The name or path of cuenv on the nodes.")
@click.option("--ssh-options", default="", metavar="OPTIONS", help="Options for ssh, such as '-F ssh_config -l admin'.")
@click.option("--srun-options", default="", metavar="OPTIONS", help="Options for srun, such as '--account=physics'.")
@click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    default=60,
    metavar="SECONDS",
    help="Time limit for each node (60).",
)
@click.option(
    "--fanout", type=click.IntRange(1, 1024), default=64, metavar="N", help="Number of nodes to ask at the same time."
)
@output_option
@no_progress_option
@knowledge_option
@talk_options
def gather_command(**values: Unpack[GatherValues]) -> int:
    """Write the hosts of a cluster to a fleet file: one line of JSON for each node.

    A node runs 'cuenv inspect' where cuenv is installed, else nvidia-smi. Asking nodes needs ClusterShell: pip install
    'cuenv[fleet]'. With -o the command can be repeated: it asks only the nodes that are not in the file. The exit code
    is 1 when some nodes did not answer, and 3 when none did.

    \b
    Examples:
      cuenv fleet gather --slurm -o fleet.ndjson
      cuenv fleet gather --ssh 'gpu[001-064]' -o fleet.ndjson
      cuenv fleet gather --ansible facts -o fleet.ndjson
      srun -N4 cuenv inspect --json --compact | cuenv fleet gather --from - -o fleet.ndjson
    """
    from cuenv.core.io.writing import write_atomically  # noqa: PLC0415 - not needed for --help
    from cuenv.fleet.answers import line_of  # noqa: PLC0415 - as above
    from cuenv.fleet.gather import Gathering, gather  # noqa: PLC0415 - as above

    asked, output = _asked(values), values["output"]
    knowledge, found = knowledge_from(values), Gathering()
    quiet = values["quiet"] or values["as_json"]
    show = progress(quiet=quiet)
    try:
        gather(asked, output, knowledge, read_standard_input, show, again=values["again"], into=found)
    finally:  # whoever stops it keeps what is there, and goes on from there
        progress_done(show)
        if output is not None and found.hosts:
            write_atomically(output, "".join(map(line_of, found.sorted())))
    failed = _failed(asked, found, output)
    _say(found, failed, output, quiet=quiet)
    if not found.hosts:
        reasons = "; ".join(f"{item['nodes']}: {item['reason']}" for item in failed[:3])
        raise InputError(f"no host could be read: {reasons}", hint=next((item["command"] for item in failed), None))
    if values["as_json"]:
        emit_json(_document(found, failed, output))
    elif output is None:
        emit("".join(map(line_of, found.sorted())))
    return ExitCode.NEGATIVE if failed else ExitCode.OK


def _asked(values: GatherValues) -> GatherRequest:
    """What is to be gathered.

    Raises:
        UsageError: nothing is, or options do not go together.
    """
    from cuenv.fleet.gather import GatherRequest  # noqa: PLC0415 - not needed for --help

    hint = "cuenv fleet gather --ssh 'gpu[001-064]' -o fleet.ndjson"
    if not (values["ssh"] or values["slurm"] or values["ansible"] or values["paths"]):
        raise UsageError("nothing says where the hosts are: --slurm, --ssh, --ansible or --from", hint=hint)
    if values["nodes"] and not values["slurm"]:
        raise UsageError("--nodes chooses among the nodes of --slurm", hint=hint)
    if values["paths"].count("-") > 1:
        raise UsageError("--from - was given twice, but standard input can be read only once", hint=hint)
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


def _failed(asked: GatherRequest, found: Gathering, output: Path | None) -> list[NotGathered]:
    """The nodes and files without a record, by reason."""
    import shlex  # noqa: PLC0415 - only where something failed

    from cuenv.fleet.answers import by_reason  # noqa: PLC0415 - as above
    from cuenv.fleet.gather import command_again  # noqa: PLC0415 - as above
    from cuenv.fleet.nodes import fold  # noqa: PLC0415 - as above

    failed: list[NotGathered] = []
    for by, failures in found.failures.items():
        for reason, names in by_reason(failures).items():
            nodes = fold(names) if by in ("ssh", "slurm") else ", ".join(names)
            command = shlex.join(command_again(asked, by, nodes, output)) if by in ("ssh", "slurm") else None
            failed.append({"nodes": nodes, "count": len(names), "reason": reason, "command": command})
    return failed


def _say(found: Gathering, failed: list[NotGathered], output: Path | None, *, quiet: bool) -> None:
    """What failed and why, and what was written."""
    for item in failed:
        what = "1 node" if item["count"] == 1 else f"{item['count']} nodes"
        say(
            [
                f"warning: {what}: {item['nodes']}: {item['reason']}"
                if item["command"]
                else f"warning: {item['nodes']}: {item['reason']}"
            ],
            quiet=quiet,
        )
    if failed and found.hosts:
        say([f"hint: {item['command']}" for item in failed if item["command"]], quiet=quiet)
    if found.kept:
        say([f"{len(found.kept)} of the nodes were in {output} already; --again asks them again"], quiet=quiet)
    if output is not None and found.hosts:
        say([f"wrote   {output}: {len(found.hosts)} hosts"], quiet=quiet)


def _document(found: Gathering, failed: list[NotGathered], output: Path | None) -> GatherDocument:
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
