"""``cuenv hook``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuenv.cli.command import CuenvCommand, output_options
from cuenv.cli.options import environment_options, host_from, host_options, knowledge_from, knowledge_option
from cuenv.cli.output import emit, emit_json, say
from cuenv.core.errors import ExitCode, UsageError

if TYPE_CHECKING:  # types alone
    from typing_extensions import Unpack

    from cuenv.cli.documents import HookDocument
    from cuenv.cli.values import HookValues


@click.command("hook", cls=CuenvCommand)
@environment_options
@click.option("--remove", is_flag=True, help="Remove the hook.")
@click.option("--print", "show", is_flag=True, help="Write nothing, and print the lines that a shell would source.")
@click.option(
    "--shell", type=click.Choice(["sh", "fish"]), default="sh", help="With --print: the shell to print for (sh)."
)
@host_options
@knowledge_option
@output_options
def command(prefix: Path | None, name: str | None, **values: Unpack[HookValues]) -> int:
    """Let builds of CUDA extensions find an environment's CUDA when it is activated.

    conda-forge installs headers into targets/<arch>/include, which a build does not search. The hook is a script in
    etc/conda/activate.d that sets CUDA_HOME, CUDA_PATH, CPATH, LIBRARY_PATH and TORCH_CUDA_ARCH_LIST, and a script in
    deactivate.d that restores the old values; both exist for sh and for fish. The GPUs are those of this machine, of
    --gpu or --host, or of the lock. A venv does not run such scripts: evaluate the output of --print. Without
    --prefix and --name the command takes the active environment.

    \b
    Examples:
      cuenv hook -n cuenv
      cuenv hook --prefix $CONDA_PREFIX --gpu A100 --gpu 'RTX 4090'
      cuenv hook --prefix $CONDA_PREFIX --remove
      eval "$(cuenv hook --prefix .venv --print)"
      cuenv hook --prefix .venv --print --shell fish | source
    """
    from cuenv.prefix.io.environments import chosen_environment  # noqa: PLC0415 - as above
    from cuenv.prefix.io.hooks import remove_hook  # noqa: PLC0415 - not needed for --help
    from cuenv.prefix.io.prefix import find_prefix  # noqa: PLC0415 - as above
    from cuenv.prefix.toolchain.install_hook import install_hook, make_hook  # noqa: PLC0415 - as above

    path = chosen_environment(prefix, name, os.environ, "cuenv hook", active=True)
    quiet = values["quiet"] or values["as_json"]
    if values["remove"]:
        if values["show"]:
            raise UsageError("--remove and --print exclude each other", hint="cuenv hook --print")
        removed, kept = remove_hook(Path(find_prefix(path).path))
        say([f"removed {file}" for file in removed] or ["there is no hook to remove"], quiet=quiet)
        say(
            [f"warning {file} was not written by cuenv, so it was not removed" for file in kept],
            quiet=values["as_json"],
        )
        if values["as_json"]:
            removal: HookDocument = {
                "schema": "cuenv/hook/1",
                "prefix": str(path),
                "removed": [str(file) for file in removed],
                "kept": [str(file) for file in kept],
            }
            emit_json(removal)
        return ExitCode.NEGATIVE if kept else ExitCode.OK
    made = make_hook(path, host_from(values), knowledge_from(values), lock=values["lock"])
    written = () if values["show"] else install_hook(made)
    if values["as_json"]:
        sh, fish = made.scripts["sh"], made.scripts["fish"]
        emit_json(
            {
                "schema": "cuenv/hook/1",
                "prefix": str(path),
                "written": [str(file) for file in written],
                "sets": list(made.hook.sets),
                "notes": list(made.notes),
                "activate": sh.activate,
                "deactivate": sh.deactivate,
                "fish": {"activate": fish.activate, "deactivate": fish.deactivate},
            }
        )
        return ExitCode.OK
    say([f"note    {note}" for note in made.notes], quiet=quiet)
    if values["show"]:
        emit(made.scripts[values["shell"]].activate)
        return ExitCode.OK
    say([f"wrote   {file}" for file in written] or ["hook    is up to date"], quiet=quiet)
    if written:
        say([f"sets    {', '.join(made.hook.sets)}; activate the environment again"], quiet=quiet)
    return ExitCode.OK
