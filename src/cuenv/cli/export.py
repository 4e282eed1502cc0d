"""``cuenv export``: dockerfile, github-action, shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cuenv.cli.command import PATH, GroupedGroup, several
from cuenv.cli.configured import typed
from cuenv.cli.options import (
    host_from,
    host_options,
    knowledge_from,
    knowledge_option,
    output_option,
    talk_options,
    wish_from,
    wish_options,
)
from cuenv.cli.output import emit, emit_json, say
from cuenv.core.errors import ExitCode, UsageError
from cuenv.export.container import BASES
from cuenv.solve.environment_spec import WRITTEN_BY

if TYPE_CHECKING:  # not needed for --help
    from cuenv.export.export import Exported

_LOCK = Path("conda-lock.yml")
_WISHES = ("profile", "stack", "pytorch", "cuda", "python", "packages", "dev", "cpu", "prefer")
"""Options that choose an environment; what settings wish for counts only where there is no lock."""


@click.group("export", cls=GroupedGroup, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Deliver an environment where people run it: a container, a workflow, a shell.

    \b
    Examples:
      cuenv export dockerfile -o .
      cuenv export github-action -o .github/workflows/environment.yml
      eval "$(cuenv export shell)"
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


_own_options = several(
    click.option(
        "--cuenv",
        metavar="WHEEL|URL#sha256=...",
        help="The cuenv that it installs; the wheel of this one, built beside it, by default.",
    ),
    click.option("--vendor", is_flag=True, help="Build the wheel of this cuenv here; -o does so beside the file."),
)


@command.command("dockerfile", short_help="build it, check it, run it slim")
@click.argument("lock", type=PATH, required=False, metavar="[LOCK]")
@click.option(
    "--base", type=click.Choice(BASES), default="auto", help="What it is built from; chosen by what it needs."
)
@click.option("--digest", "digests", multiple=True, metavar="IMAGE:TAG=sha256:...", help="Hold an image; repeatable.")
@click.option("-o", "--output", type=PATH, metavar="DIR", help="Write here instead of stdout.")
@_own_options
@host_options
@wish_options
@talk_options
def _dockerfile(lock: Path | None, **values: Any) -> int:
    """Write a Dockerfile: one stage installs and checks, a slim one runs, as an ordinary user.

    From LOCK, conda-lock.yml or an explicit file; from the conda-lock.yml of this folder; or, with wishes or without a
    lock, from what resolve would choose. Without -o the file goes to stdout. Tags come from a table of images that are
    known to exist. The host options name the GPUs that the check in the build judges for; the lock's own by default.

    \b
    Examples:
      cuenv export dockerfile -o .
      cuenv export dockerfile locks/train/conda-lock.yml --gpu A100 --driver 535.129.03
      cuenv export dockerfile --gpu A100 --driver 535.129.03 --stack pytorch --cuda 12.1
    """
    from cuenv.export.export import ExportRequest, export_dockerfile  # noqa: PLC0415 - not needed for --help

    wish, folder = wish_from(values), values["output"]
    wished = any(typed(name) for name in _WISHES)
    if lock and wished:
        hint = f"cuenv export dockerfile {shlex.quote(str(lock))}"
        raise UsageError("a lock is what it is: wishes choose without one", hint=hint)
    asked = ExportRequest(
        lock=lock or (None if wished or not _LOCK.exists() else _LOCK),
        host=host_from(values),
        wish=wish,
        folder=folder,
        base=values["base"],
        cuenv=_named(values),
        digests=values["digests"],
    )
    made = export_dockerfile(asked, knowledge_from(values))
    if folder and folder.exists() and not folder.is_dir():
        raise UsageError(f"-o {folder}: it is no folder", hint="cuenv export dockerfile -o .")
    place = folder or (Path() if values["vendor"] else None)
    files = {folder / name: text for name, text in made.files.items()} if folder else {}
    return _deliver(made, values, files, place)


@command.command("github-action", short_help="a workflow that holds the lock to what it promises")
@click.argument("lock", type=PATH, default=_LOCK, metavar="[LOCK]")
@output_option
@_own_options
@host_options
@knowledge_option
@talk_options
def _github_action(lock: Path, **values: Any) -> int:
    """Write a workflow that verifies the lock, installs it, and checks headers and a build of CUDA code.

    It needs no GPU. Actions are named by commit; the environment is cached by the digest of the lock. The host options
    name the GPUs that are judged for; those that the lock was made for by default.

    \b
    Examples:
      cuenv export github-action -o .github/workflows/environment.yml
      cuenv export github-action locks/train/conda-lock.yml --gpu A100 --driver 535.129.03
    """
    from cuenv.export.export import export_workflow  # noqa: PLC0415 - not needed for --help

    output = values["output"]
    made = export_workflow(lock, host_from(values), knowledge_from(values), output, _named(values))
    place = (lock if lock.is_dir() else lock.parent) if output or values["vendor"] else None
    return _deliver(made, values, {output: made.product} if output else {}, place)


@command.command("shell", short_help="switch to a toolkit of this machine, and back")
@click.argument("lock", type=PATH, required=False, metavar="[LOCK]")
@click.option("--release", metavar="X.Y", help="The CUDA release that it has to be.")
@click.option("--off", is_flag=True, help="Lines that restore what was before.")
@output_option
@host_options
@knowledge_option
@talk_options
def _shell(lock: Path | None, **values: Any) -> int:
    """Write lines that let builds find a toolkit of this machine that fits, or say why none is needed.

    torch is that of LOCK, of the conda-lock.yml of this folder, or the one that is found on this machine. The lines set
    CUDA_HOME, CUDA_PATH and PATH, take other toolkits out of PATH and every toolkit out of LD_LIBRARY_PATH, and keep
    what was. Exit code 1 when a toolkit is needed and none fits.

    \b
    Examples:
      eval "$(cuenv export shell)"
      eval "$(cuenv export shell --release 12.6)"
      eval "$(cuenv export shell --off)"
    """
    from cuenv.export.export import export_off, export_shell  # noqa: PLC0415 - not needed for --help

    if values["off"]:
        made = export_off()
    else:
        place = lock or (_LOCK if _LOCK.exists() else None)
        made = export_shell(place, host_from(values), knowledge_from(values), _release(values["release"]))
    output = values["output"]
    return _deliver(made, values, {output: made.product} if output else {})


def _named(values: dict[str, Any]) -> str | None:
    """What ``--cuenv`` names.

    Raises:
        UsageError: a wheel is to be built as well.
    """
    named: str | None = values["cuenv"]
    if named and values["vendor"]:
        raise UsageError(
            "--vendor builds the wheel of this cuenv, and --cuenv names another", hint="cuenv export --help"
        )
    return named


def _release(text: str | None) -> Any:
    from cuenv.core.versions import minor, version  # noqa: PLC0415 - only with --release

    if text is None:
        return None
    try:
        return minor(version(text))
    except ValueError as error:
        raise UsageError(f"--release: {error}", hint="cuenv export shell --release 12.6") from error


def _deliver(made: Exported, values: dict[str, Any], files: Mapping[Path, str], wheel: Path | None = None) -> int:
    """Write or print the product, and say what it is; the wheel of cuenv goes into a folder of its own choice."""
    quiet = values["quiet"] or values["as_json"]
    written: tuple[Path, ...] = ()
    say(made.talk, quiet=quiet)
    if made.refused:
        say([f"error: {made.refused.because}"], quiet=values["as_json"])
        say([f"hint: {made.refused.hint}"] if made.refused.hint else [], quiet=values["as_json"])
        return _ended(made, values, written)
    if wheel is not None and made.wheel:
        from cuenv.core.io.files import make_folder, write_atomically  # noqa: PLC0415 - only then

        make_folder(wheel)
        write_atomically(wheel / made.wheel[0], made.wheel[1])
        say([f"wrote   {wheel / made.wheel[0]}"], quiet=quiet)
    if files:
        from cuenv.export.export import save  # noqa: PLC0415 - only with -o

        written, kept = save(files, WRITTEN_BY)
        say([f"kept    what was in {path} as {aside}" for path, aside in kept], quiet=quiet)
        say([f"wrote   {', '.join(map(str, written))}"], quiet=quiet)
    elif not values["as_json"]:
        emit(made.product)
    return _ended(made, values, written)


def _ended(made: Exported, values: dict[str, Any], written: tuple[Path, ...]) -> int:
    if values["as_json"]:
        emit_json(made.plain(written))
    return ExitCode.NEGATIVE if made.refused else ExitCode.OK
