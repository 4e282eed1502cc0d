"""``cuenv resolve``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from cuenv.cli.command import CuenvCommand, output_options
from cuenv.cli.defaults import was_typed
from cuenv.cli.options import (
    channel_options,
    channel_sources,
    channel_words,
    host_from,
    knowledge_from,
    local_records,
    output_option,
    prove_option,
    request_from,
    request_options,
    several_host_options,
    several_platforms,
)
from cuenv.cli.output import emit, emit_json, progress, say
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.findings import counted
from cuenv.core.record import replace
from cuenv.host.facts import Driver
from cuenv.host.select import host_facts
from cuenv.knowledge.rows import WHEELS
from cuenv.solve import PIXI
from cuenv.solve.environment_spec import ADVICE, WRITTEN_BY

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Unpack

    from cuenv.cli.values import LockValues, ResolveValues, ResolvingValues
    from cuenv.host.facts import HostFacts
    from cuenv.knowledge.base import Knowledge
    from cuenv.lockfile.lock import LockRequest
    from cuenv.resolver.decision import Decision
    from cuenv.resolver.resolve import Resolution
    from cuenv.solve.environment_spec import EnvironmentSpec


@click.command("resolve", cls=CuenvCommand)
@several_host_options
@request_options
@prove_option
@click.option("--name", metavar="NAME", help="The name of the environment (default: the profile's name, else cuenv).")
@output_option
@channel_options
@output_options
def command(**values: Unpack[ResolveValues]) -> int:
    """Choose a PyTorch build and a CUDA toolkit for a host, and write environment.yml.

    The host is this machine, or --host, or --gpu with --driver; an option overrides the host's fact of the same name.
    The file goes to stdout or to -o FILE, the summary with its reasons to stderr. The choice uses the tables, and also
    channel records if the cache or a mirror has them; the summary names what it used. With --prove the command reads
    the channels. `cuenv lock --resolve` also locks. If --platform names both platforms, the choice works on both.

    \b
    Examples:
      cuenv resolve > environment.yml
      cuenv resolve --gpu 'RTX 4090' --driver 535.129.03
      cuenv resolve --host a800-470 --no-dev
      cuenv resolve --host node1.json --host node2.json --prove -o environment.yml
      cuenv resolve --stack wheels --gpu 'GTX 1080' --driver 580.65.06
      cuenv resolve --gpu H200 --driver 570.26 --platform linux-64 --platform linux-aarch64
    """
    from cuenv.resolver.resolve import resolve  # noqa: PLC0415 - not needed for --help

    knowledge, request = knowledge_from(values), request_from(values)
    facts = host_facts(host_from(values), knowledge, request)
    sources = channel_sources(values) if values["prove"] else None
    name, platforms = values["name"] or request.name, several_platforms(values)
    near = None if sources or platforms else local_records(values, facts.platform)
    with progress(quiet=values["quiet"] or not sources) as show:
        answer = resolve(
            facts, request, knowledge, name=name, platforms=platforms, prove=sources, local_records=near, progress=show
        )
    if not (values["as_json"] or (values["quiet"] and answer.fits)):
        say(summary_lines(answer, platforms, values))  # its hints cost a quarter of the run
    if answer.spec is not None and answer.fits:
        _write_choice(answer.spec, answer.decision, values)
    if values["as_json"]:  # last: a file that cannot be written is an error, and stdout holds one document
        from cuenv.resolver.decision_json import resolution_plain  # noqa: PLC0415 - as above

        plain = resolution_plain(answer)
        again = _repeated_options(platforms, values)
        for hint in plain["hints"]:
            hint["command"] += again
        if platforms:
            plain["platforms"] = list(platforms)
        emit_json(plain)
    return ExitCode.OK if answer.fits else ExitCode.NEGATIVE


def summary_lines(
    answer: Resolution, platforms: tuple[str, ...], values: ResolvingValues, command: str = ""
) -> list[str]:
    """The summary of a decision with its reasons; the commands in its hints repeat the options of this run."""
    again = _repeated_options(platforms, values)
    lines = _summary(answer, platforms, verbose=values["verbose"])
    return [f"{_hint_for(line, command)}{again}" if line.startswith("hint: ") else line for line in lines]


def _hint_for(text: str, command: str) -> str:
    """The hint for another command, which asks the channels without ``--prove``."""
    return text.replace("cuenv resolve", command, 1).replace(" --prove", "") if command else text


def _summary(answer: Resolution, platforms: tuple[str, ...], *, verbose: bool) -> list[str]:
    from cuenv.resolver.explain import summary  # noqa: PLC0415 - not needed for --help

    lines = summary(answer.decision, answer.findings, verbose=verbose)
    if platforms and answer.fits:
        lines.append(f"both    one environment for {' and '.join(platforms)}")
    return [*lines, basis_line(answer)] if answer.fits else lines


def basis_line(answer: Resolution) -> str:
    """What the choice is based on: only the tables, the channel records on this machine, or the channels themselves."""
    if answer.lacking:
        return (
            f"warning not proven with the channel records of {answer.lacking} (on this machine); "
            "--prove asks the channels"
        )
    count = ""
    if answer.solution:
        count = counted(len(answer.solution.packages), "package")
    if answer.records:
        return (
            f"proven  with the channel records of {answer.records} on this machine: {count}; --prove asks the channels"
        )
    as_of = answer.decision.context.request.as_of
    if answer.decision.proven:
        return f"proven  on the channels{f' as of {as_of}' if as_of else ''}: {count}"
    chosen = answer.decision.chosen
    seen = chosen.candidate.build.seen if chosen else None
    if chosen and chosen.candidate.build.stack == WHEELS:
        return (
            "tables  not checked against the index; 'cuenv lock --resolve' asks the channels and the index, "
            "and locks in one step"
        )
    when = f"its torch was last seen there on {seen}" if seen else "cuenv has not seen its torch there"
    return f"tables  not checked against the channels ({when}); 'cuenv lock --resolve' asks them and locks in one step"


def _repeated_options(platforms: tuple[str, ...], values: ResolvingValues) -> str:
    """The options of this run except those on the host and the versions, for the command in a hint."""
    words = [word for platform in platforms for word in ("--platform", platform)]
    words += channel_words(values)
    for option, key, value in (("--name", "name", values["name"]), ("-o", "output", values["output"])):
        words += [option, str(value)] if value and was_typed(key) else []
    return "".join(f" {shlex.quote(word)}" for word in words)


def _write_choice(spec: Any, decision: Any, values: ResolvingValues) -> None:
    from cuenv.solve.environment_yml import render  # noqa: PLC0415 - not needed for --help

    path = values["output"]
    if path:
        from cuenv.resolver.explain import lock_command  # noqa: PLC0415 - not needed for stdout

        then = " ".join([lock_command(decision, str(path)), *map(shlex.quote, channel_words(values))])
        repaired = _repair_options(path, decision, values)
        write_file(spec, path, f"; next: {then}", repaired, quiet=values["quiet"] or values["as_json"])
    elif not values["as_json"]:
        emit(render(spec))


def _repair_options(path: Path, decision: Decision, values: LockValues | ResolvingValues) -> tuple[str, ...]:
    """The options of ``cuenv lock`` that repair a file for the host of a decision."""
    from cuenv.host.describe import host_options  # noqa: PLC0415 - not needed for --help

    new = path.parent / f"{path.stem or 'environment'}.new.yml"
    return ("--repair", "-o", str(new), *host_options(decision.context.facts), *channel_words(values))


def write_file(spec: EnvironmentSpec, path: Path, then: str = "", repair: tuple[str, ...] = (), *, quiet: bool) -> None:
    """Write an environment file and print that; a file that cuenv did not write is kept beside it.

    Args:
        then: the next command.
        repair: the options that keep the packages of the replaced file instead.
        quiet: print nothing.

    Raises:
        OutsideError: it cannot be written.
    """
    from cuenv.core.io.products import write_product  # noqa: PLC0415 - as above
    from cuenv.solve.environment_yml import render  # noqa: PLC0415 - not needed for --help

    aside = write_product(path, render(spec), WRITTEN_BY, ADVICE)
    if aside:
        say([f"kept    the old {path} as {aside}"], quiet=quiet)
        if not aside.read_bytes().startswith(WRITTEN_BY.encode()):
            instead = (
                f"{shlex.join(['mv', str(aside), str(path)])} && {shlex.join(['cuenv', 'lock', str(path), *repair])}"
            )
            lost = f"{path} was not written by cuenv, and its contents were not used for the choice"
            say([f"warning {lost}", f"hint: to restore it and keep the packages that fit: {instead}"], quiet=quiet)
    say([f"wrote   {path}{then}"], quiet=quiet)


_REQUEST_OPTIONS = {
    "profile": "--profile",
    "stack": "--stack",
    "pytorch": "--pytorch",
    "cuda": "--cuda",
    "python": "--python",
    "packages": "--with",
    "dev": "--dev",
    "cpu": "--cpu",
    "prefer": "--prefer",
    "name": "--name",
}


def refuse_requests(values: LockValues, wheels: str = "") -> None:
    """Refuse options of ``cuenv lock`` that exclude each other: those of the request need ``--resolve``.

    Args:
        wheels: the format of a lock without conda, whose file ``-o`` names; empty for conda.

    Raises:
        UsageError: such options were typed.
    """
    if wheels == PIXI and values["check"]:
        message = "--check compares locks with their file; pixi itself compares pixi.lock with pixi.toml"
        raise UsageError(message, hint="pixi lock --check")
    if wheels and values["output"] and several_platforms(values):
        raise UsageError(f"-o names one file, and --format {wheels} writes one for each platform", hint="leave out -o")
    if values["resolve_first"]:
        alone = {
            "--check": values["check"],
            "--update": values["update"],
            "--repair": values["repair"],
            "-o": values["output"] and not wheels,
        }
        other = next((flag for flag, given in alone.items() if given), None)
        if other:
            if other == "-o":
                name = shlex.join(["cuenv", "lock", "--resolve", str(values["output"])])
                message = "-o is only for --repair; give the file that --resolve writes without an option"
                raise UsageError(message, hint=name)
            message = f"--resolve writes the file again, but {other} starts from the existing file"
            raise UsageError(message, hint="cuenv lock --resolve")
        return
    request = next((flag for name, flag in _REQUEST_OPTIONS.items() if was_typed(name)), None)
    if request:
        message = f"{request} chooses an environment, but cuenv lock locks the one that the file describes"
        hint = "cuenv lock --resolve writes the file first; cuenv resolve only writes the file: cuenv resolve --help"
        raise UsageError(message, hint=hint)


def resolve_first(
    path: Path, values: LockValues, knowledge: Knowledge, request: LockRequest, form: str = ""
) -> LockRequest | None:
    """Choose on the channels and write the environment file; ``None`` if nothing fits, after printing the reasons.

    The lock is then made for the host that the file names, as when the file is locked later.

    Args:
        request: what will be locked.
        form: the format of a lock for another program; empty for cuenv's own.

    Raises:
        InputError: a channel cannot be read.
        OutsideError: the file cannot be written.
    """
    from cuenv.lockfile.files import ENVIRONMENT, host_for  # noqa: PLC0415 - as above

    where = [] if str(path) == ENVIRONMENT else [str(path)]
    again = shlex.join(["cuenv", "lock", "--resolve", *where, *(["--format", form] if form else [])])
    answer = choose(values, knowledge, request.wheels, again)
    if answer is None or answer.spec is None:
        return None
    repaired = _repair_options(path, answer.decision, values)
    write_file(answer.spec, path, repair=repaired, quiet=values["quiet"] or values["as_json"])
    nobody = replace(request.host, hosts=(), gpus=(), driver=None, glibc=None, platform=None)
    facts, named = host_for(path, nobody, knowledge, answer.spec.platforms)
    if not named:  # the head names a host that only this run could read, such as standard input
        facts = host_of_choice(answer, knowledge)
    return replace(request, facts=facts)


def host_of_choice(answer: Resolution, knowledge: Knowledge) -> HostFacts:
    """The host of a decision; if it has no driver, the minimum driver of the decision is added."""
    facts, lowest = answer.decision.context.facts, answer.decision.minimum_driver
    if lowest and not facts.driver:
        return replace(facts, driver=Driver(version=lowest, cuda=knowledge.cuda_of(lowest)))
    return facts


def choose(values: ResolvingValues, knowledge: Knowledge, wheels: str = "", command: str = "") -> Resolution | None:
    """Choose on the channels; ``None`` if nothing fits, after printing the reasons.

    Args:
        wheels: the format of a lock without conda; empty for conda.
        command: the command in the hints instead of ``cuenv resolve``.

    Raises:
        InputError: a channel cannot be read.
    """
    answer = _resolution(values, knowledge, wheels, command)
    if answer.spec is not None and answer.fits:
        return answer
    if values["as_json"]:
        from cuenv.resolver.decision_json import resolution_plain  # noqa: PLC0415 - only for JSON

        plain = resolution_plain(answer)
        again = _repeated_options(several_platforms(values), values)
        for hint in plain["hints"]:
            hint["command"] = f"{_hint_for(hint['command'], command)}{again}"
        emit_json(plain)
    return None


def _resolution(values: ResolvingValues, knowledge: Knowledge, wheels: str, command: str) -> Resolution:
    from cuenv.resolver.resolve import resolve  # noqa: PLC0415 - as above

    request = request_from(values)
    if wheels:
        if request.stack not in (None, WHEELS):
            message = f"--format {wheels} locks pip packages, but the stack {request.stack} installs torch with conda"
            raise UsageError(message, hint=f"cuenv lock --resolve --stack {WHEELS} --format {wheels}")
        request = replace(request, stack=WHEELS, dev=request.dev and was_typed("dev"))
    facts = host_facts(host_from(values), knowledge, request)
    sources = None if wheels else channel_sources(values)  # nothing of it comes from a channel
    name, platforms = values["name"] or request.name, several_platforms(values)
    with progress(quiet=values["quiet"]) as show:
        answer = resolve(facts, request, knowledge, name=name, platforms=platforms, prove=sources, progress=show)
    if not (values["as_json"] or (values["quiet"] and answer.fits)):
        say(summary_lines(answer, platforms, values, command))  # its hints cost a quarter of the run
    return answer
