"""What to do next in a folder: what lies there, and the command that leads on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import join, quote

from cuenv.core.errors import CuenvError
from cuenv.core.io.files import is_file, is_folder, read_text
from cuenv.core.record import dataclass
from cuenv.lockfile.files import LOCK_NAME, REQUIREMENTS, default_environment_file, lock_words


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """The files in a folder, and the next commands."""

    found: tuple[str, ...]  # what was looked at and how it is, one line each
    commands: tuple[tuple[str, str], ...]  # each with what it does, the next one first


def next_step(folder: Path, environ: Mapping[str, str]) -> NextStep:
    """Look at a folder, without solving, network or driver.

    Args:
        environ: for the active environment.
    """
    from cuenv.prefix.io.environments import active_environment  # noqa: PLC0415 - what only imports this looks for none

    file, lock = default_environment_file(folder), folder / LOCK_NAME
    found = [
        f"{name}: {'found' if is_file(folder / name) else 'not in this folder'}" for name in (file.name, LOCK_NAME)
    ]
    commands: list[tuple[str, str]] = []
    if not is_file(file) and not is_file(lock):
        if is_file(folder / REQUIREMENTS):
            found.append(f"{REQUIREMENTS}: found")
            commands.append((f"cuenv lock {REQUIREMENTS}", "lock its pip requirements and the Python for them"))
        commands.append(("cuenv demo", "try every step on a small sample, without conda or a network"))
        commands.append(("cuenv lock --resolve", "choose PyTorch and CUDA for this machine, pin every package"))
        commands.append(("cuenv lock --resolve --gpu 'RTX 4090' --driver 535.129.03", "do it for another machine"))
    elif not is_file(lock):
        commands += [("cuenv lint", "find mistakes in environment.yml"), (_lock(file), "pin every package")]
    else:
        why = _stale(file) if is_file(file) else ""
        if why:
            found[1] = f"{LOCK_NAME}: {why}"
            commands.append(("cuenv lock", "lock it again"))
        commands.append(("cuenv check", "check whether the lock runs here, and if not, why"))
        if not why:
            commands.append(("cuenv install --prefix ./env", "make the environment"))
    active = active_environment(environ)
    if active and is_folder(active):
        found.append(f"active environment: {active}")
        commands.append(
            (f"cuenv check --prefix {quote(str(active))}", "check what is installed in the active environment")
        )
    return NextStep(found=tuple(found), commands=tuple(commands))


def _lock(file: Path) -> str:
    """The command that locks a file; for a file of cuenv, with the host in its head."""
    try:
        words = lock_words(read_text(file))
    except CuenvError:
        return "cuenv lock"
    return join(words) or "cuenv lock"


def _stale(file: Path) -> str:
    """Why a lock is out of date; empty if it is not."""
    from cuenv.host.select import HostOptions  # noqa: PLC0415 - as above
    from cuenv.knowledge.io.load import load  # noqa: PLC0415 - as above
    from cuenv.lockfile.fresh import out_of_date  # noqa: PLC0415 - YAML is read only where both files lie

    try:
        errors = out_of_date(file, HostOptions(environ={}), load(None)).errors
    except CuenvError as error:
        return error.message.splitlines()[0]
    return errors[0].message if errors else ""
