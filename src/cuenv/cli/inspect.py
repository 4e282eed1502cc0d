"""``cuenv inspect``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import PATH, CuenvCommand, output_options
from cuenv.cli.options import host_from, host_options, knowledge_from, knowledge_option
from cuenv.cli.output import emit, emit_lines, say
from cuenv.core.errors import UsageError
from cuenv.host.facts import HostFacts, feature_sentence, feature_title, features_of, features_plain
from cuenv.host.request import pool
from cuenv.host.select import apply_overrides, host_facts, recorded_hosts, this_machine
from cuenv.knowledge.base import Knowledge

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import HostCommandValues


@click.command("inspect", cls=CuenvCommand)
@click.option(
    "--record",
    metavar="DIR",
    type=PATH,
    help="Also write this machine to DIR as a recorded host, without host name, user name, serial or UUID.",
)
@click.option(
    "--from",
    "source",
    metavar="FILE|-",
    help="Show the hosts in a file, a folder or standard input, as printed by cuenv or another tool.",
)
@click.option("--compact", is_flag=True, help="With --json: print each host on one line, as for a file of many hosts.")
@click.option("--redact", is_flag=True, help="Leave out names of users and hosts, and home folders.")
@host_options
@knowledge_option
@output_options
def command(
    record: Path | None, source: str | None, *, compact: bool, redact: bool, **values: Unpack[HostCommandValues]
) -> None:
    """Show this machine: driver, GPUs, C library, toolkits, compilers, torch.

    The command lists facts that it could not determine, with the reason. With host options it shows that host
    instead; --from also takes the output of nvidia-smi, collect_env, conda, Slurm, Kubernetes and other tools, for
    one host or many.

    \b
    Examples:
      cuenv inspect
      cuenv inspect --json > node1.json
      cuenv inspect --record my-host
      cuenv inspect --gpu 'RTX 4090' --driver 535.129.03
      nvidia-smi | cuenv inspect --from -
    """
    if compact and not values["as_json"]:
        raise UsageError("--compact works only with --json", hint="cuenv inspect --json --compact")
    options = host_from(values)
    given = options.given or source is not None
    if record is not None and given:
        message = "--record records this machine, but the host options name another one"
        raise UsageError(message, hint="cuenv inspect --record my-host")
    if source is not None and options.given:
        raise UsageError("--from and the host options both name hosts; use only one", hint="cuenv inspect --from FILE")
    knowledge = knowledge_from(values)
    if source is not None:
        hosts = recorded_hosts(source, knowledge, stdin=options.stdin)
    elif options.given:
        hosts = (host_facts(options, knowledge),)
    else:
        hosts = (_this_machine(record, knowledge, quiet=values["quiet"]),)
    if redact:
        from cuenv.host.io.record import private_words, scrub_facts  # noqa: PLC0415 - only when asked for

        words = private_words(os.environ, os.uname().nodename)
        hosts = tuple(scrub_facts(host, words) for host in hosts)
    if values["as_json"]:
        _emit_json(hosts, knowledge, compact=compact)
        return
    for position, facts in enumerate(hosts):
        emit_lines([*([""] if position else []), *_lines(facts, knowledge, verbose=values["verbose"])])


def _emit_json(hosts: tuple[HostFacts, ...], knowledge: Knowledge, *, compact: bool) -> None:
    from cuenv.host.host_json import dump  # noqa: PLC0415 - only for JSON

    try:
        documents = hosts if compact else (pool(hosts),)
    except ValueError as error:
        raise UsageError(str(error), hint="--compact prints one host per line") from error
    for facts in documents:
        emit(dump(facts, features_plain(features_of(facts.gpus, knowledge), knowledge), compact=compact))


def _lines(facts: HostFacts, knowledge: Knowledge, *, verbose: bool) -> Iterator[str]:
    from cuenv.host.describe import evidence_lines, host_lines  # noqa: PLC0415 - only for people

    rows = features_of(facts.gpus, knowledge)
    abilities = [
        f"compute capability {feature_title(row)}: {feature_sentence(row)}" + (" (low confidence)" if row.low else "")
        for row in rows
    ]
    yield from host_lines(facts, abilities)
    if verbose:
        yield from evidence_lines(facts)


def _this_machine(folder: Path | None, knowledge: Knowledge, *, quiet: bool) -> HostFacts:
    # A record holds the machine itself, not what CONDA_OVERRIDE_* pretends.
    own = {name: value for name, value in os.environ.items() if not name.startswith("CONDA_OVERRIDE_")}
    facts = this_machine(own, knowledge, deep=True)
    shown = apply_overrides(facts, os.environ)
    if folder is not None:
        from cuenv.host.io.record import record  # noqa: PLC0415 - only with --record

        written = record(folder, facts, own)
        say([f"recorded in {folder}: {', '.join(path.name for path in written)}"], quiet=quiet)
    return shown
