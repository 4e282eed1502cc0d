"""``cuenv inspect``: the layers of a machine, one under another."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import PATH, Grouped
from cuenv.cli.options import host_from, host_options, knowledge_from, knowledge_option, talk_options
from cuenv.cli.output import emit, emit_lines, say
from cuenv.core.errors import UsageError
from cuenv.host.facts import HostFacts
from cuenv.knowledge.base import Knowledge

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import LookValues


@click.command("inspect", cls=Grouped)
@click.option(
    "--record",
    metavar="DIR",
    type=PATH,
    help="Also write this machine to DIR as a recorded host, without host name, user name, serial or UUID.",
)
@host_options
@knowledge_option
@talk_options
def command(record: Path | None, **values: Unpack[LookValues]) -> None:
    """Show this machine: driver, GPUs, C library, toolkits, compilers, torch.

    What could not be determined is listed with the reason. With host options the command shows that host instead.

    \b
    Examples:
      cuenv inspect
      cuenv inspect --json > node1.json
      cuenv inspect --record my-host
      cuenv inspect --gpu 'RTX 4090' --driver 535.129.03
    """
    options = host_from(values)
    if record is not None and options.given:
        raise UsageError(
            "--record writes this machine, and the host options name another one", hint="cuenv inspect --record my-host"
        )
    knowledge = knowledge_from(values)
    if options.given:
        from cuenv.host.select import host_facts  # noqa: PLC0415 - what --help does not need

        facts = host_facts(options, knowledge)
    else:
        facts = _this_machine(record, knowledge, quiet=values["quiet"])
    from cuenv.host.facts import features_of, features_plain, sentence, title  # noqa: PLC0415 - as above

    rows = features_of(facts.gpus, knowledge)
    if values["as_json"]:
        from cuenv.host.host_json import dump  # noqa: PLC0415 - only for JSON

        emit(dump(facts, features_plain(rows, knowledge)))
        return
    from cuenv.host.describe import evidence_lines, lines  # noqa: PLC0415 - only for people

    abilities = [
        f"compute capability {title(row)}: {sentence(row)}" + (" (low confidence)" if row.low else "") for row in rows
    ]
    emit_lines([*lines(facts, abilities), *(evidence_lines(facts) if values["verbose"] else ())])


def _this_machine(folder: Path | None, knowledge: Knowledge, *, quiet: bool) -> HostFacts:
    from cuenv.host.select import apply_overrides, this_machine  # noqa: PLC0415 - not needed for --help

    # A record holds the machine itself, not what CONDA_OVERRIDE_* pretends.
    own = {name: value for name, value in os.environ.items() if not name.startswith("CONDA_OVERRIDE_")}
    facts = this_machine(own, knowledge, deep=True)
    shown = apply_overrides(facts, os.environ)
    if folder is not None:
        from cuenv.host.io.record import record  # noqa: PLC0415 - only with --record

        written = record(folder, facts, own)
        say([f"recorded in {folder}: {', '.join(path.name for path in written)}"], quiet=quiet)
    return shown
