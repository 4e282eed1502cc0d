"""What locking leaves: the files, and the commands that make an environment from them."""

from __future__ import annotations

import shlex
from pathlib import Path

from cuenv.environment import WRITTEN_BY, EnvironmentSpec
from cuenv.flows.lock_files import LOCK_NAME, requirements_file, virtual_version
from cuenv.flows.pip_locking import pip_after, pip_command, pip_head
from cuenv.lockfile import Lock
from cuenv.world.files import write_together


def write_products(path: Path, made: Lock, spec: EnvironmentSpec) -> tuple[Path, ...]:
    """Render everything first, then write: the explicit files before the lock that vouches for them."""
    from cuenv.formats import conda_lock_v1, env_lock_yml, explicit_txt, requirements_txt  # noqa: PLC0415 - as in read_lock

    origin = f"Written by {made.metadata['created_by']} from {path.name}; change that file, then: cuenv lock"
    folder = path.parent
    files: list[tuple[Path, str]] = []
    for solution in made.solutions:
        stem = f"conda-{solution.platform}.lock"
        head = (origin, *pip_head(spec, solution))
        if solution.pip:
            text = requirements_txt.render(solution.pip, head=(origin, f"Install: {pip_command(solution.platform)}"))
            files.append((folder / requirements_file(solution.platform), text))
        files.append((folder / stem, explicit_txt.render(solution, head=head)))
        files.append((folder / f"{stem}.yml", env_lock_yml.render(spec, solution, head=head)))
    files.append((folder / LOCK_NAME, conda_lock_v1.render(made, spec)))
    # a requirements file of an earlier lock would install what is no longer asked for
    without = (folder / requirements_file(item.platform) for item in made.solutions if not item.pip)
    write_together(files, gone=dict.fromkeys(without, WRITTEN_BY))
    return tuple(target for target, _ in files)


def create_commands(made: Lock, spec: EnvironmentSpec, folder: Path) -> tuple[str, ...]:
    """The exact commands that make the environment from what was written; ``conda env create`` solves again."""
    name = shlex.quote(spec.name or "cuenv")
    commands: list[str] = []
    for solution in made.solutions:
        explicit = folder / f"conda-{solution.platform}.lock"
        cuda = virtual_version(solution, "__cuda")
        override = f"CONDA_OVERRIDE_CUDA={cuda} " if cuda else ""
        where = f"    # on {solution.platform}" if len(made.solutions) > 1 else ""
        after = pip_after(solution, name, folder)
        commands.append(f"conda create -n {name} --file {shlex.quote(str(explicit))}{after}{where}")
        commands.append(f"{override}conda env create -n {name} -f {shlex.quote(f'{explicit}.yml')}{where}")
    lock = shlex.quote(str(folder / LOCK_NAME))
    return (*commands, f"micromamba create -n {name} -f {lock}", f"conda-lock install -n {name} {lock}")


def hook_command(made: Lock, spec: EnvironmentSpec) -> str | None:
    """What lets builds find the headers of conda-forge's nvcc, once the environment is made; ``None`` without one."""
    found = (solution.package("cuda-nvcc") for solution in made.solutions)
    if not any(package and package.channel_name == "conda-forge" for package in found):
        return None
    return f"cuenv hook -n {shlex.quote(spec.name or 'cuenv')}"
