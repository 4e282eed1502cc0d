"""``cuenv resolve``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cuenv.cli.command import Grouped
from cuenv.cli.options import (
    channel_options,
    channel_sources,
    host_from,
    knowledge_from,
    output_option,
    prove_option,
    several_host_options,
    several_platforms,
    talk_options,
    wish_from,
    wish_options,
)
from cuenv.cli.output import emit, emit_json, progress, progress_done, say
from cuenv.environment import ADVICE, WRITTEN_BY
from cuenv.errors import ExitCode

if TYPE_CHECKING:
    from cuenv.flows.resolving import Resolution


@click.command("resolve", cls=Grouped)
@several_host_options
@wish_options
@prove_option
@click.option("--name", metavar="NAME", help="Of the environment; the profile's name by default.")
@output_option
@channel_options
@talk_options
def command(**values: Any) -> int:
    """Choose an environment for a host and write environment.yml.

    The host is this machine, or --host, or --gpu with --driver. Options override the host's fact of the same name.
    The file goes to stdout (or -o FILE), a reasoned summary to stderr. --platform given for both platforms chooses one
    environment that fits on both.

    \b
    Examples:
      cuenv resolve > environment.yml
      cuenv resolve --gpu 'RTX 4090' --driver 535.129.03
      cuenv resolve --host a800-470 --no-dev
      cuenv resolve --host node1.json --host node2.json --prove -o environment.yml
      cuenv resolve --gpu H200 --driver 570.26 --platform linux-64 --platform linux-aarch64
    """
    from cuenv.flows.hosts import host_facts  # noqa: PLC0415 - not needed for --help
    from cuenv.flows.resolving import resolve  # noqa: PLC0415 - as above

    knowledge, wish = knowledge_from(values), wish_from(values)
    facts = host_facts(host_from(values), knowledge, wish)
    sources = channel_sources(values) if values["prove"] else None
    show = progress(quiet=values["quiet"]) if sources else None
    name, platforms = values["name"] or wish.name, several_platforms(values)
    if platforms:
        from cuenv.flows.platforms import resolve_together  # noqa: PLC0415 - only for several

        answer = resolve_together(facts, platforms, wish, knowledge, name=name, prove=sources, progress=show)
    else:
        answer = resolve(facts, wish, knowledge, name=name, prove=sources, progress=show)
    progress_done(show)
    talk = [f"{line}{_again(platforms)}" if line.startswith("hint ") else line for line in _summary(answer, platforms)]
    say(talk, quiet=values["as_json"] or (values["quiet"] and answer.fits))
    if answer.spec is not None and answer.fits:
        _deliver(answer.spec, answer.decision, values)
    if values["as_json"]:  # last: a file that cannot be written is an error, and stdout holds one document
        from cuenv.formats.decision_json import decision_plain  # noqa: PLC0415 - as above

        plain = decision_plain(answer.decision, answer.findings)
        if platforms:
            hints = [{**hint, "command": f"{hint['command']}{_again(platforms)}"} for hint in plain["hints"]]
            plain |= {"platforms": list(platforms), "hints": hints}
        emit_json(plain)
    return ExitCode.OK if answer.fits else ExitCode.NEGATIVE


def _summary(answer: Resolution, platforms: tuple[str, ...]) -> list[str]:
    from cuenv.explain import summary  # noqa: PLC0415 - not needed for --help

    lines = summary(answer.decision, answer.findings)
    return [*lines, f"both    one environment for {' and '.join(platforms)}"] if platforms and answer.fits else lines


def _again(platforms: tuple[str, ...]) -> str:
    """The options of the same platforms, for the command of a hint."""
    return "".join(f" --platform {platform}" for platform in platforms)


def _deliver(spec: Any, decision: Any, values: dict[str, Any]) -> None:
    from cuenv.formats.environment_yml import render  # noqa: PLC0415 - not needed for --help

    path = values["output"]
    if path:
        from cuenv.explain import lock_command  # noqa: PLC0415 - not needed for stdout
        from cuenv.world.products import write_product  # noqa: PLC0415 - as above

        quiet = values["quiet"] or values["as_json"]
        aside = write_product(path, render(spec), WRITTEN_BY, ADVICE)
        if aside:
            say([f"kept    what was in {path} as {aside}"], quiet=quiet)
        say([f"wrote   {path}; next: {lock_command(decision, str(path))}"], quiet=quiet)
    elif not values["as_json"]:
        emit(render(spec))
