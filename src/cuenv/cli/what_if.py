"""``cuenv what-if``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import CuenvCommand, output_options
from cuenv.cli.defaults import without_replaced
from cuenv.cli.options import (
    changed_host_options,
    channel_options,
    channel_sources,
    host_from,
    knowledge_from,
    local_records,
    prove_option,
    request_from,
    request_options,
)
from cuenv.cli.output import emit_json, emit_lines, say
from cuenv.core.errors import ExitCode
from cuenv.core.record import replace
from cuenv.host.select import host_facts

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.values import WhatIfValues


@click.command("what-if", cls=CuenvCommand)
@changed_host_options
@click.option("--driver-now", metavar="VERSION", help="Today's driver, when --gpu names today's GPUs.")
@click.option("--add-gpu", "add", multiple=True, metavar="NAME|X.Y", help="Add this GPU; repeatable.")
@click.option("--remove-gpu", "remove", multiple=True, metavar="NAME|X.Y", help="Remove this GPU; repeatable.")
@request_options
@prove_option
@channel_options
@output_options
def command(**values: Unpack[WhatIfValues]) -> int:
    """Show what another driver would change, or GPUs that are added or removed.

    Today's host is this machine, or --host, or --gpu with --driver-now. The option --driver names the new driver: a
    version, or a branch such as 580. The answer compares two complete decisions of 'cuenv resolve'. They use channel
    records if this machine has them, and your channels with --prove. The exit code is 1 when no candidate fits
    afterwards.

    \b
    Examples:
      cuenv what-if --driver 580 --add-gpu 12.0 --remove-gpu 7.0
      cuenv what-if --host a800-470 --driver 535.129.03
      cuenv what-if --gpu V100 --driver-now 535.129.03 --add-gpu 'RTX 5090' --driver 575.57.08
    """
    from cuenv.resolver import what_if as what_if_v1  # noqa: PLC0415 - not needed for --help
    from cuenv.resolver.what_if import ChangeOptions, what_if  # noqa: PLC0415 - not needed for --help

    knowledge, request = knowledge_from(values), request_from(values)
    host = replace(host_from(values), driver=without_replaced(values)["driver_now"])
    options = ChangeOptions(driver=values["driver"], add=values["add"], remove=values["remove"])
    facts = host_facts(host, knowledge, request)
    sources = channel_sources(values) if values["prove"] else None
    near = None if sources else local_records(values, facts.platform)  # as `cuenv resolve` decides
    answer = what_if(facts, options, request, knowledge, prove=sources, local_records=near)
    if values["as_json"]:
        emit_json(what_if_v1.plain(answer))
    elif not values["quiet"] or not answer.after.fits:
        from cuenv.cli.resolve import basis_line  # noqa: PLC0415 - as above

        grounds = [basis_line(answer.after)] if answer.after.fits else []
        emit_lines([*what_if_v1.lines(answer, verbose=values["verbose"]), *grounds])
        if not facts.gpus and values["driver"] and not values["add"]:
            words = ["--gpu", "RTX 4090", "--driver-now", "535.129.03", "--driver", values["driver"]]
            say([f"hint: name the GPU of the host: {shlex.join(['cuenv', 'what-if', *words])}"])
    return ExitCode.OK if answer.after.fits else ExitCode.NEGATIVE
