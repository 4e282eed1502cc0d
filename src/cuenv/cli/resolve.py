"""``cuenv resolve``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cuenv.cli.options import (
    channel_options,
    channel_sources,
    host_from,
    host_options,
    knowledge_from,
    talk_options,
    wish_from,
    wish_options,
)
from cuenv.cli.output import emit, emit_json, progress, progress_done, say
from cuenv.errors import ExitCode

WRITTEN_BY = "# Written by cuenv"
"""How a file of ours begins: one that begins otherwise is kept aside before it is replaced."""


@click.command("resolve")
@host_options
@wish_options
@click.option("--prove", is_flag=True, help="Ask the solver at once: the best choice that the channels close.")
@click.option("--name", metavar="NAME", help="Of the environment; the profile's name by default.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write here instead of stdout.")
@channel_options
@talk_options
def command(**values: Any) -> int:
    """Choose an environment for a host and write environment.yml.

    The host is this machine, or --host, or --gpu with --driver. Options override the host's fact of the same name.
    The file goes to stdout (or -o FILE), a reasoned summary to stderr.

    \b
    Examples:
      cuenv resolve > environment.yml
      cuenv resolve --gpu 'RTX 4090' --driver 535.129.03
      cuenv resolve --host a800-470 --no-dev
      cuenv resolve --host node1.json --host node2.json --prove -o environment.yml
    """
    from cuenv.explain import summary  # noqa: PLC0415 - not needed for --help
    from cuenv.flows.hosts import host_facts  # noqa: PLC0415 - as above
    from cuenv.flows.resolving import resolve  # noqa: PLC0415 - as above

    knowledge, wish = knowledge_from(values), wish_from(values)
    facts = host_facts(host_from(values), knowledge, wish)
    sources = channel_sources(values) if values["prove"] else None
    show = progress(quiet=values["quiet"]) if sources else None
    answer = resolve(facts, wish, knowledge, name=values["name"] or wish.name, prove=sources, progress=show)
    progress_done(show)
    say(summary(answer.decision, answer.findings), quiet=values["quiet"] or values["as_json"])
    if answer.spec is not None and answer.fits:
        _deliver(answer.spec, answer.decision, values)
    if values["as_json"]:  # last: a file that cannot be written is an error, and stdout holds one document
        from cuenv.formats.decision_json import decision_plain  # noqa: PLC0415 - as above

        emit_json(decision_plain(answer.decision, answer.findings))
    return ExitCode.OK if answer.fits else ExitCode.NEGATIVE


def _deliver(spec: Any, decision: Any, values: dict[str, Any]) -> None:
    from cuenv.formats.environment_yml import render  # noqa: PLC0415 - not needed for --help

    path = values["output"]
    if path:
        from cuenv.explain import lock_command  # noqa: PLC0415 - not needed for stdout
        from cuenv.world.files import keep_aside, write_atomically  # noqa: PLC0415 - as above

        quiet = values["quiet"] or values["as_json"]
        aside = keep_aside(path, WRITTEN_BY)
        write_atomically(path, render(spec))
        if aside:
            say([f"kept    what was in {path} as {aside}"], quiet=quiet)
        say([f"wrote   {path}; next: {lock_command(decision, str(path))}"], quiet=quiet)
    elif not values["as_json"]:
        emit(render(spec))
