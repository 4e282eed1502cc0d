"""``cuenv export``: files that deliver an environment."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cuenv.cli.command import PATH, CuenvGroup, combined, output_options
from cuenv.cli.defaults import was_typed
from cuenv.cli.options import (
    channel_options,
    channel_sources,
    host_from,
    host_options,
    knowledge_from,
    knowledge_option,
    output_option,
    request_from,
    request_options,
    several_host_options,
    several_platforms,
)
from cuenv.cli.output import emit, emit_json, progress, say
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.io.files import make_folder
from cuenv.core.record import replace
from cuenv.core.versions import minor, version
from cuenv.export.tables import BASES
from cuenv.solve import LOCK_VERSIONS
from cuenv.solve.environment_spec import WRITTEN_BY

if TYPE_CHECKING:  # not needed for --help
    from typing_extensions import Unpack

    from cuenv.cli.values import (
        ActionValues,
        DockerfileValues,
        GitlabValues,
        OutputValues,
        PixiValues,
        SbatchValues,
        ShellValues,
        UvValues,
        VendorValues,
    )
    from cuenv.export.export import ContainerKind, Exported

_LOCK = Path("conda-lock.yml")
_ENVIRONMENT = Path("environment.yml")
_REQUESTED = ("profile", "stack", "pytorch", "cuda", "python", "packages", "as_of", "dev", "cpu", "prefer")
"""Options that choose an environment; settings of the request are used only without a lock."""


@click.group("export", cls=CuenvGroup)
def command() -> None:
    """Write files that deliver an environment: to containers, editors, CI, Slurm, shells, pixi and uv.

    \b
    Examples:
      cuenv export dockerfile -o .
      cuenv export github-action -o .github/workflows/environment.yml
      eval "$(cuenv export shell)"
    """


_cuenv_options = combined(
    click.option(
        "--cuenv",
        metavar="WHEEL|URL#sha256=...",
        help="The cuenv to install there (default: a wheel of this cuenv, built beside the file).",
    ),
    click.option(
        "--vendor", is_flag=True, help="Build a wheel of this cuenv in this folder; -o builds it beside the file."
    ),
)


_container_options = combined(
    click.argument("lock", type=PATH, required=False, metavar="[LOCK]"),
    click.option(
        "--digest",
        "digests",
        multiple=True,
        metavar="IMAGE:TAG=sha256:...",
        help="Pin an image to this digest; repeatable.",
    ),
    click.option("-o", "--output", type=PATH, metavar="DIR", help="Write to this file or folder instead of stdout."),
    _cuenv_options,
    host_options,
    request_options,
    output_options,
)


def _base_option(choices: tuple[str, ...]) -> Callable[[Any], Any]:
    about = "The base image of the build (default: chosen by what the build needs)."
    return click.option("--base", type=click.Choice(choices), default="auto", help=about)


@command.command("dockerfile", short_help="write a Dockerfile with a build stage and a slim runtime stage")
@_base_option(BASES)
@_container_options
def _dockerfile(lock: Path | None, **values: Unpack[DockerfileValues]) -> int:
    """Write a Dockerfile: one stage installs and checks, a slim stage runs as an ordinary user.

    LOCK is conda-lock.yml or an explicit file; by default it is the conda-lock.yml of this folder. With options of
    the request, or without a lock, the Dockerfile contains what 'cuenv resolve' would choose. Without -o the file
    goes to stdout. Image tags come from a table of images that are known to exist. The check in the build is made
    for the GPUs that the host options name, or else for those of the lock.

    \b
    Examples:
      cuenv export dockerfile -o .
      cuenv export dockerfile locks/train/conda-lock.yml --gpu A100 --driver 535.129.03
      cuenv export dockerfile --gpu A100 --driver 535.129.03 --stack pytorch --cuda 12.1
    """
    return _container("dockerfile", lock, values)


_TWO_STAGES = tuple(base for base in BASES if base != "pytorch")


@command.command("devcontainer", short_help="write a container for an editor that checks its host at each start")
@_base_option(_TWO_STAGES)
@_container_options
def _devcontainer(lock: Path | None, **values: Unpack[DockerfileValues]) -> int:
    """Write .devcontainer: a container for VS Code and other editors that checks its host at each start.

    LOCK is as for 'cuenv export dockerfile'. devcontainer.json asks for a GPU where the environment needs one, and
    its first command is 'cuenv check', against the driver and the GPUs that the container sees; without a GPU it is
    made for those of the lock. -o DIR writes the Dockerfile too. Without -o, devcontainer.json goes to stdout.

    \b
    Examples:
      cuenv export devcontainer -o .
      cuenv export devcontainer locks/train/conda-lock.yml -o locks/train
    """
    return _container("devcontainer", lock, values)


@command.command("apptainer", short_help="write a definition file of Apptainer that checks its host before it runs")
@_base_option(_TWO_STAGES)
@_container_options
def _apptainer(lock: Path | None, **values: Unpack[DockerfileValues]) -> int:
    """Write an Apptainer definition file: one stage installs and checks, one runs and checks its host.

    LOCK is as for 'cuenv export dockerfile'. 'apptainer run --nv' first runs 'cuenv check' of the lock against
    the driver and the GPUs of the host, with exit code 3 where it does not run; 'apptainer test --nv' checks the
    whole environment. Labels name the minimum driver. Without -o the file goes to stdout.

    \b
    Examples:
      cuenv export apptainer -o .
      cuenv export apptainer locks/train/conda-lock.yml --gpu A100 --driver 535.129.03
    """
    return _container("apptainer", lock, values)


def _container(kind: ContainerKind, lock: Path | None, values: DockerfileValues) -> int:
    from cuenv.export.export import ExportRequest, export_container  # noqa: PLC0415 - not needed for --help

    request, folder = request_from(values), values["output"]
    requested = any(was_typed(name) for name in _REQUESTED)
    if lock and requested:
        message = "request options have no effect on a lock; leave out the lock or the options"
        raise UsageError(message, hint=f"cuenv export {kind} {shlex.quote(str(lock))}")
    asked = ExportRequest(
        kind=kind,
        lock=lock or (None if requested or not _LOCK.exists() else _LOCK),
        host=host_from(values),
        request=request,
        folder=folder,
        base=values["base"],
        cuenv=_cuenv_to_install(values),
        digests=values["digests"],
    )
    made = export_container(asked, knowledge_from(values))
    if folder and folder.exists() and not folder.is_dir():
        raise UsageError(f"-o {folder}: it is not a folder", hint=f"cuenv export {kind} -o .")
    place = folder or (Path() if values["vendor"] else None)
    files = {folder / name: text for name, text in made.files.items()} if folder else {}
    return _deliver(made, values, files, place)


@command.command("github-action", short_help="write a workflow that verifies and installs the lock")
@click.argument("lock", type=PATH, default=_LOCK, metavar="[LOCK]")
@output_option
@_cuenv_options
@host_options
@knowledge_option
@output_options
def _github_action(lock: Path, **values: Unpack[ActionValues]) -> int:
    """Write a workflow that verifies the lock, installs it, and compiles a small CUDA program.

    The workflow needs no GPU. It names actions by commit, and caches the environment by the digest of the lock. Its
    checks are made for the GPUs that the host options name, or else for those of the lock.

    \b
    Examples:
      cuenv export github-action -o .github/workflows/environment.yml
      cuenv export github-action locks/train/conda-lock.yml --gpu A100 --driver 535.129.03
    """
    from cuenv.export.jobs import export_workflow  # noqa: PLC0415 - not needed for --help

    made = export_workflow(lock, host_from(values), knowledge_from(values), values["output"], _cuenv_to_install(values))
    return _deliver_to_repository(made, lock, values)


@command.command("gitlab-ci", short_help="write jobs of GitLab that verify the lock and check the GPU first")
@click.argument("lock", type=PATH, default=_LOCK, metavar="[LOCK]")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    default=("gpu",),
    metavar="TAG",
    help="A tag of the runners that have a GPU (gpu); repeatable.",
)
@output_option
@_cuenv_options
@host_options
@knowledge_option
@output_options
def _gitlab_ci(lock: Path, **values: Unpack[GitlabValues]) -> int:
    """Write GitLab CI/CD jobs: one verifies the lock, one installs and runs it on a runner with a GPU.

    The first line of each job is 'cuenv check': without a GPU for the GPUs that the host options name, or else for
    those of the lock; on a runner with a GPU against its driver and its GPUs, before anything is installed. What the
    check finds is shown in the merge request (Code Quality).

    \b
    Examples:
      cuenv export gitlab-ci -o .gitlab-ci.yml
      cuenv export gitlab-ci locks/train/conda-lock.yml --tag gpu --tag a100 --gpu A100 --driver 535.129.03
    """
    from cuenv.export.jobs import export_gitlab  # noqa: PLC0415 - not needed for --help

    host, output = host_from(values), values["output"]
    tables = knowledge_from(values)
    made = export_gitlab(lock, host, tables, values["tags"], target=output, cuenv=_cuenv_to_install(values))
    return _deliver_to_repository(made, lock, values)


def _deliver_to_repository(made: Exported, lock: Path, values: ActionValues) -> int:
    """Write a file of a repository, and the wheel of cuenv beside the lock."""
    output = values["output"]
    place = (lock if lock.is_dir() else lock.parent) if output or values["vendor"] else None
    return _deliver(made, values, _output_file(made, output), place)


@command.command("sbatch", short_help="write a batch script for Slurm that checks its nodes first")
@click.argument("words", nargs=-1, metavar="-- COMMAND")
@click.option("-p", "--prefix", type=PATH, required=True, metavar="DIR", help="The folder of an environment.")
@click.option("--lock", type=PATH, default=_LOCK, metavar="FILE", help="The lock that the environment was made from.")
@click.option(
    "--gpus", "slots", default="1", metavar="[TYPE:]N", help="The GPUs of each node, as Slurm calls them (1)."
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="OPTION",
    help="A further option of sbatch, such as --partition=gpu; repeatable.",
)
@output_option
@output_options
def _sbatch(words: tuple[str, ...], **values: Unpack[SbatchValues]) -> int:
    """Write a batch script for Slurm: it checks each of its nodes, then runs COMMAND in the environment.

    The job first runs 'cuenv check' of the lock on every node, against the driver and the GPUs that are
    there; where the lock does not run, the job ends with exit code 3. cuenv has to be on the PATH of the nodes.

    \b
    Examples:
      cuenv export sbatch -p ~/envs/train --gpus a100:2 -o job.sh -- python train.py
      cuenv export sbatch -p ~/envs/train --option --nodes=4 --option --constraint=ampere -- python train.py
    """
    from cuenv.export.jobs import export_sbatch  # noqa: PLC0415 - not needed for --help

    made = export_sbatch(values["lock"], values["prefix"], values["slots"], values["options"], words)
    return _deliver(made, values, _output_file(made, values["output"]))


@command.command("shell", short_help="print lines that select a CUDA toolkit of this machine")
@click.argument("lock", type=PATH, required=False, metavar="[LOCK]")
@click.option("--release", metavar="X.Y", help="Require this CUDA release.")
@click.option("--off", is_flag=True, help="Write the lines that restore the old values.")
@output_option
@host_options
@knowledge_option
@output_options
def _shell(lock: Path | None, **values: Unpack[ShellValues]) -> int:
    """Write shell lines that let builds find a fitting CUDA toolkit of this machine.

    The toolkit must fit the torch of LOCK, else of the conda-lock.yml in this folder, else of this machine. The lines
    set CUDA_HOME, CUDA_PATH and PATH, remove other toolkits from PATH and every toolkit from LD_LIBRARY_PATH, and
    keep the old values. When no toolkit is needed, the lines say why. The exit code is 1 when a toolkit is needed and
    none fits.

    \b
    Examples:
      eval "$(cuenv export shell)"
      eval "$(cuenv export shell --release 12.6)"
      eval "$(cuenv export shell --off)"
    """
    from cuenv.export.toolkit import export_off, export_shell  # noqa: PLC0415 - not needed for --help

    if values["off"]:
        made = export_off()
    else:
        place = lock or (_LOCK if _LOCK.exists() else None)
        made = export_shell(place, host_from(values), knowledge_from(values), _release(values["release"]))
    return _deliver(made, values, _output_file(made, values["output"]))


@command.command("uv", short_help="print the pyproject.toml tables with which uv installs the torch for these GPUs")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME=GPU[,GPU][@DRIVER]",
    help="A set of GPUs that gets its own wheel, as a dependency group; repeatable.",
)
@output_option
@host_options
@request_options
@output_options
def _uv(**values: Unpack[UvValues]) -> int:
    """Write the pyproject.toml tables with which uv installs the torch for these GPUs.

    The wheel is chosen as 'cuenv resolve --stack wheels' does: for every GPU of the host or of the pool, its driver and
    its C library. Each --set becomes a dependency group, and the groups of several sets exclude each other. The exit
    code is 1 when no wheel supports a set.

    \b
    Examples:
      cuenv export uv --gpu 'GTX 1080' --driver 580.65.06
      cuenv export uv --set 'old=GTX 1080,V100@580.65.06' --set 'new=RTX 5090@580.65.06'
      cuenv export uv --gpu A100 --driver 535.129.03 --pytorch 2.8 --with torchvision
    """
    from cuenv.export.uv_project import export_uv  # noqa: PLC0415 - not needed for --help

    made = export_uv(values["sets"], host_from(values), request_from(values), knowledge_from(values))
    return _deliver(made, values, _output_file(made, values["output"]))


@command.command("pixi", short_help="write pixi.toml and pixi.lock, with a CPU environment for CI")
@click.argument("path", type=PATH, required=False, metavar="[environment.yml]")
@several_host_options
@request_options
@channel_options
@click.option("--name", metavar="NAME", help="The name of the environment (default: the profile's name, else cuenv).")
@click.option(
    "--cpu-twin/--no-cpu-twin",
    "twin",
    default=True,
    help="Add an environment with the same releases without CUDA, for machines without a GPU (default).",
)
@click.option(
    "--lock-version",
    type=click.Choice(LOCK_VERSIONS),
    default=LOCK_VERSIONS[0],
    help="The version of pixi.lock: 7 (default), or 6 for readers such as conda-lockfiles.",
)
@click.option("--allow", multiple=True, metavar="CODE", help="Lock despite this finding; repeatable.")
@click.option(
    "--allow-builds",
    is_flag=True,
    help="Download torch (gigabytes) if a pip source distribution needs it to state its requirements.",
)
@click.option("-o", "--output", type=PATH, metavar="DIR", help="Write to this file or folder instead of stdout.")
@output_options
def _pixi(path: Path | None, **values: Unpack[PixiValues]) -> int:
    """Write a pixi workspace: pixi.toml and its pixi.lock.

    Both are of one answer, so that pixi takes the lock as it is. Without a file the environment is chosen as 'cuenv
    lock --resolve' does. The platform of the CUDA environment declares the driver's CUDA version and the compute
    capability, of several GPUs or hosts the lowest; pixi refuses it on a machine that has less. The environment cpu
    is for CI. Without -o pixi.toml goes to stdout.

    \b
    Examples:
      cuenv export pixi --gpu V100 --gpu 'RTX 4090' --driver 535.129.03 -o .
      cuenv export pixi environment.yml --gpu A100 --driver 535.129.03 -o .
      cuenv export pixi --no-cpu-twin --lock-version 6 -o workspace
    """
    from cuenv.cli.resolve import choose, host_of_choice  # noqa: PLC0415 - not needed for --help
    from cuenv.export.pixi import PixiRequest, export_pixi  # noqa: PLC0415 - as above
    from cuenv.lockfile.lock import LockRequest  # noqa: PLC0415 - as above

    folder, requested = values["output"], any(was_typed(name) for name in _REQUESTED if name != "as_of")
    if path and requested:
        message = "request options have no effect on an environment file; leave out the file or the options"
        raise UsageError(message, hint=f"cuenv export pixi {shlex.quote(str(path))}")
    if folder and folder.exists() and not folder.is_dir():
        raise UsageError(f"-o {folder}: it is not a folder", hint="cuenv export pixi -o .")
    path = path or (_ENVIRONMENT if _ENVIRONMENT.exists() and not requested else None)
    knowledge = knowledge_from(values)
    asked = PixiRequest(
        lock=LockRequest(
            path=path or _ENVIRONMENT,
            host=host_from(values),
            sources=channel_sources(values),
            platforms=several_platforms(values),
            allow=values["allow"],
            builds=values["allow_builds"],
            anew=path is None,
        ),
        twin=values["twin"],
        version=int(values["lock_version"]),
    )
    if path is None:
        answer = choose(values, knowledge)
        if answer is None:
            return ExitCode.NEGATIVE  # the reasons were said
        asked = replace(asked, spec=answer.spec, lock=replace(asked.lock, facts=host_of_choice(answer, knowledge)))
    elif values["name"]:
        message = "--name is only for an environment that cuenv chooses; a file has its own name"
        raise UsageError(message, hint=f"cuenv export pixi {shlex.quote(str(path))}")
    else:
        say([f"file    {path}"], quiet=values["quiet"] or values["as_json"])
    with progress(quiet=values["quiet"]) as show:
        made = export_pixi(asked, knowledge, show).made
    files = {folder / name: text for name, text in [*made.files.items()][::-1]} if folder else {}
    return _deliver(made, values, files)


def _cuenv_to_install(values: VendorValues) -> str | None:
    """The value of ``--cuenv``.

    Raises:
        UsageError: ``--vendor`` is given, too.
    """
    named: str | None = values["cuenv"]
    if named and values["vendor"]:
        raise UsageError("--vendor builds a wheel of this cuenv, but --cuenv names another", hint="cuenv export --help")
    return named


def _release(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return minor(version(text))
    except ValueError as error:
        raise UsageError(f"--release: {error}", hint="cuenv export shell --release 12.6") from error


def _output_file(made: Exported, output: Path | None) -> dict[Path, str]:
    """The file of ``-o`` with its text; empty without ``-o``."""
    return {output: made.product} if output else {}


def _deliver(made: Exported, values: OutputValues, files: Mapping[Path, str], wheel: Path | None = None) -> int:
    """Write or print the product, and print what it is; the wheel of cuenv is written into the folder ``wheel``."""
    quiet = values["quiet"] or values["as_json"]
    written: tuple[Path, ...] = ()
    say(made.talk, quiet=quiet)
    if made.refused:
        say([f"error: {made.refused.because}"], quiet=values["as_json"])
        say([f"hint: {made.refused.hint}"] if made.refused.hint else [], quiet=values["as_json"])
        return _finish(made, values, written)
    if wheel is not None and made.wheel:
        from cuenv.core.io.writing import write_atomically  # noqa: PLC0415 - only then

        make_folder(wheel)
        write_atomically(wheel / made.wheel[0], made.wheel[1])
        say([f"wrote   {wheel / made.wheel[0]}"], quiet=quiet)
    if files:
        from cuenv.export.export import save  # noqa: PLC0415 - only with -o

        written, kept = save(files, WRITTEN_BY)
        say([f"kept    the old {path} as {aside}" for path, aside in kept], quiet=quiet)
        say([f"wrote   {', '.join(map(str, written))}"], quiet=quiet)
    elif not values["as_json"]:
        emit(made.product)
    return _finish(made, values, written)


def _finish(made: Exported, values: OutputValues, written: tuple[Path, ...]) -> int:
    if values["as_json"]:
        emit_json(made.plain(written))
    return ExitCode.NEGATIVE if made.refused else ExitCode.OK
