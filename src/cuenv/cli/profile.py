"""``cuenv profile``: list, show, new, validate."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cuenv.cli.command import CuenvGroup, completes, output_options
from cuenv.cli.defaults import configuration
from cuenv.cli.options import host_from, host_options, knowledge_from, knowledge_option, output_option
from cuenv.cli.output import emit, emit_json, emit_lines, say
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.io.files import make_folder
from cuenv.core.regex import regex
from cuenv.core.urls import printable

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.documents import ProfileFields
    from cuenv.cli.values import HostCommandValues, OutputValues

_NAME = regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@click.group("profile", cls=CuenvGroup)
def command() -> None:
    """List, show, create and validate profiles: files that contain requests.

    Your own profiles are in cuenv.toml, in [tool.cuenv] of pyproject.toml, or in the folder that `profile-dir`
    names there.

    \b
    Examples:
      cuenv profile list
      cuenv profile new lab -o lab.yml
      cuenv profile validate lab.yml --gpu 'RTX 4090' --driver 535.129.03
    """


@command.command("list", short_help="list names, files and first sentences")
@output_options
def _list(**values: Unpack[OutputValues]) -> None:
    """List the profiles: name, file, and the first sentence of the story.

    \b
    Examples:
      cuenv profile list
      cuenv profile list --json
    """
    from cuenv.config.io.profiles import SHIPPED  # noqa: PLC0415 - not needed for --help
    from cuenv.config.profiles import listed  # noqa: PLC0415 - as above

    found = listed(configuration())
    if values["as_json"]:
        rows: list[ProfileFields] = [
            {"name": item.place.name, "origin": item.place.origin, "ok": not item.fault, "story": item.says}
            for item in found
        ]
        emit_json({"schema": "cuenv/profile/1", "profiles": rows})
        return
    lines = []
    for item in found:
        hidden = ["the shipped one" if text == SHIPPED else text for text in item.hides]
        hides = f"; hides {', '.join(hidden)}" if hidden else ""
        lines.append(f"{item.place.name}  ({item.place.origin}{hides})")
        if item.fault:
            lines.append(f"    not valid; see: cuenv profile validate {item.place.name}")
        elif item.says and not values["quiet"]:
            lines.append(f"    {item.says}")
    emit_lines(lines)


@command.command("show", short_help="show a profile as YAML")
@click.argument("name", metavar="NAME|FILE", shell_complete=completes("profile"))
@output_options
def _show(name: str, **values: Unpack[OutputValues]) -> None:
    """Show a profile as YAML, and the file that it comes from.

    \b
    Examples:
      cuenv profile show zero3-offload
      cuenv profile show lab.yml
    """
    from cuenv.config.io.profiles import find_profile  # noqa: PLC0415 - as above
    from cuenv.config.profiles import render  # noqa: PLC0415 - not needed for --help

    place = find_profile(name, configuration())
    place.read()  # what is not valid is refused, with all its faults
    if values["as_json"]:
        emit_json({"schema": "cuenv/profile/1", "name": place.name, "origin": place.origin, "profile": place.data()})
        return
    text = place.text() if place.file else render(place.data())
    emit(printable(f"# {place.origin}\n{text}"))


@command.command("new", short_help="write a template that explains every key")
@click.argument("name")
@output_option
@output_options
def _new(name: str, output: Path | None, **values: Unpack[OutputValues]) -> None:
    """Write a template for a profile. It explains every key and is valid as it is.

    An existing file is never replaced.

    \b
    Examples:
      cuenv profile new lab -o lab.yml
      cuenv profile new lab
    """
    from cuenv.config.profiles import template  # noqa: PLC0415 - not needed for --help
    from cuenv.core.io.writing import write_atomically  # noqa: PLC0415 - as above

    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a profile", hint="cuenv profile new lab -o lab.yml")
    if output and os.path.lexists(output):
        raise UsageError(f"{output} exists already; nothing was written", hint="name another file with -o")
    text = template(name)
    if output:
        make_folder(output.parent)
        write_atomically(output, text)
        shown = output if "/" in str(output) or output.suffix in (".yml", ".yaml") else f"./{output}"
        quiet = values["quiet"] or values["as_json"]
        say([f"wrote   {output}; next: {shlex.join(['cuenv', 'profile', 'validate', str(shown)])}"], quiet=quiet)
    if values["as_json"]:
        written = str(output) if output else None
        emit_json({"schema": "cuenv/profile/1", "name": name, "written": written, "text": text})
    elif not output:
        emit(text)


@command.command("validate", short_help="check that a profile is valid, and that it fits a host")
@click.argument("asked", nargs=-1, metavar="[FILE|NAME]...", shell_complete=completes("profile"))
@host_options
@knowledge_option
@output_options
def _validate(asked: tuple[str, ...], **values: Unpack[HostCommandValues]) -> int:
    """Check whether profiles are valid, and with host options whether they fit that host.

    Without FILE it validates the project's own profiles. The exit code is 3 when a profile is invalid, and 1 when
    no candidate fits the host.

    \b
    Examples:
      cuenv profile validate lab.yml
      cuenv profile validate zero3-offload --gpu A100 --driver 535.129.03
    """
    from cuenv.config.profiles import own_names, validated  # noqa: PLC0415 - not needed for --help

    project, host = configuration(), host_from(values)
    asked = asked or own_names(project)
    if not asked:
        raise UsageError("name a profile: the project has none of its own", hint="cuenv profile validate lab.yml")
    found = validated(asked, project, host, knowledge_from(values) if host.given else None)
    if values["as_json"]:
        rows: list[ProfileFields] = [
            {"name": item.asked, "origin": item.origin, "ok": not item.fault, "fault": item.fault, "fits": item.fits}
            for item in found
        ]
        emit_json({"schema": "cuenv/profile/1", "profiles": rows})
    else:
        _say_validated(found, quiet=values["quiet"])
    if any(item.fault for item in found):
        return ExitCode.INPUT
    return ExitCode.NEGATIVE if any(item.fits is False for item in found) else ExitCode.OK


def _say_validated(found: tuple[Any, ...], *, quiet: bool) -> None:
    for item in found:
        if item.fault:
            hint = item.hint or "cuenv profile new NAME shows what a profile looks like"
            say([*f"error: {item.fault}".splitlines(), f"hint: {hint}"])
            continue
        say([f"{item.asked}:", *item.lines] if item.lines else [], quiet=quiet and item.fits is not False)
        word = "valid" if item.fits is None else "fits" if item.fits else "nothing fits"
        if not quiet or item.fits is False:
            emit_lines([f"{item.asked}: {word}"])
