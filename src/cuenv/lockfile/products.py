"""What locking leaves: the files, and the commands that make an environment from them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from cuenv.core.io.files import write_together
from cuenv.core.io.products import keep_others
from cuenv.lockfile.files import LOCK_NAME, requirements_file, virtual_version
from cuenv.lockfile.pip import pip_after, pip_command, pip_head
from cuenv.solve.environment_spec import WRITTEN_BY, EnvironmentSpec
from cuenv.solve.model import Lock


def write_products(
    path: Path, made: Lock, spec: EnvironmentSpec
) -> tuple[tuple[Path, ...], tuple[tuple[Path, Path], ...]]:
    """Render everything first, then write: the explicit files before the lock that vouches for them.

    Returns:
        The files, and what other programs had written in their place, with where it is kept.
    """
    from cuenv.lockfile.formats import conda_lock as conda_lock_v1  # noqa: PLC0415 - as in read_lock
    from cuenv.lockfile.formats import env_lock_yml, explicit_txt, requirements_txt  # noqa: PLC0415 - as above

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
    kept = [(target, keep_others(target, (WRITTEN_BY, conda_lock_v1.OWN))) for target, _ in files]
    write_together(files, gone=dict.fromkeys(without, WRITTEN_BY))
    return tuple(target for target, _ in files), tuple((target, aside) for target, aside in kept if aside)


def create_commands(made: Lock, spec: EnvironmentSpec, folder: Path) -> Mapping[str, tuple[str, ...]]:
    """For each platform the exact commands that make the environment from what was written.

    ``conda env create`` solves again: it is told the CUDA level, and not to add pip to every Python, which the lock
    would not know. Packages that somebody's settings add to each new environment are left out, too.
    """
    name = shlex.quote(spec.name or "cuenv")
    lock = shlex.quote(str(folder / LOCK_NAME))
    found: dict[str, tuple[str, ...]] = {}
    for solution in made.solutions:
        explicit = folder / f"conda-{solution.platform}.lock"
        cuda = virtual_version(solution, "__cuda")
        alone = solution.package("python") and not solution.package("pip")
        variables = "CONDA_ADD_PIP_AS_PYTHON_DEPENDENCY=false " if alone else ""
        variables += f"CONDA_OVERRIDE_CUDA={cuda} " if cuda else ""
        after = pip_after(solution, name, folder)
        found[solution.platform] = (
            f"cuenv install{'' if lock == LOCK_NAME else f' {lock}'} -n {name}",
            f"conda create -n {name} --no-default-packages --file {shlex.quote(str(explicit))}{after}",
            f"{variables}conda env create -n {name} --no-default-packages -f {shlex.quote(f'{explicit}.yml')}",
            f"micromamba create -n {name} -f {lock}",
            f"conda-lock install -n {name} {lock}",
        )
    return found


def hook_command(made: Lock, spec: EnvironmentSpec, folder: Path) -> str | None:
    """What lets builds find the headers of conda-forge's nvcc, once the environment is made; ``None`` without one.

    It names the lock, whose GPUs builds are for: the machine that makes the environment need not have them.
    """
    found = (solution.package("cuda-nvcc") for solution in made.solutions)
    if not any(package and package.channel_name == "conda-forge" for package in found):
        return None
    lock = f" --lock {shlex.quote(str(folder / LOCK_NAME))}" if made.metadata.get("cuenv_gpus") else ""
    return f"cuenv hook -n {shlex.quote(spec.name or 'cuenv')}{lock}"
