"""Enter an environment: lines for the user's shell, or a program that runs inside."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from cuenv.core.errors import UsageError
from cuenv.core.io.files import may_run
from cuenv.core.io.process import become, which
from cuenv.prefix.io.enter import entering
from cuenv.prefix.shell_hook import Entering, running

__all__ = ["entering", "run_inside"]


def run_inside(prefix: Path, words: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Become a program inside of an environment: its exit code, signals and streams are the caller's.

    The environment's activation scripts are run by bash, which then becomes the program; without any there is no shell.

    Raises:
        UsageError: there is no such program.
        InputError: it is no environment.
        OutsideError: the program cannot be started.
    """
    entry: Entering = entering(prefix, environ)
    inside = {name: value for name, value in environ.items() if name not in entry.removes}
    inside.update(entry.sets)
    name = words[0]
    found = name if "/" in name else which(name, inside)
    if found is None or not may_run(found):
        raise UsageError(
            f"program {name} was not found in {entry.prefix}/bin or on PATH",
            hint=f"ls {shlex.quote(f'{entry.prefix}/bin')}",
        )
    if not entry.scripts.get("sh") and not entry.leaving.get("sh"):
        become([found, *words[1:]], inside, name=name)
    bash = which("bash", environ) or "/bin/bash"
    become([bash, "--norc", "--noprofile", "-c", running(entry), "cuenv", *words], environ)
