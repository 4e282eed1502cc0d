"""Write and remove the scripts of a hook in an environment, without touching files of others."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from cuenv.core.errors import InputError, OutsideError
from cuenv.core.io.files import is_file, ls_command, path_text, reason_of
from cuenv.core.io.writing import write_atomically
from cuenv.core.record import dataclass
from cuenv.prefix.toolchain.hook import FIRST_LINE

ENDINGS = ("sh", "fish")  # file endings of the scripts: each shell sources those with its own ending


@dataclass(frozen=True, slots=True)
class Scripts:
    """The script that sets the variables, and the script that restores them."""

    activate: str
    deactivate: str


def hook_files(prefix: Path, ending: str) -> tuple[Path, Path]:
    """The paths of the scripts; conda sources scripts in the order of their names, so ``~cuda-nvcc`` comes first."""
    folder = prefix / "etc/conda"
    return folder / f"activate.d/~cuenv_activate.{ending}", folder / f"deactivate.d/~cuenv_deactivate.{ending}"


def write_hook(prefix: Path, scripts: Mapping[str, Scripts]) -> tuple[Path, ...]:
    """Write the scripts that have changed, for each shell the one that restores first.

    Args:
        scripts: the scripts by file ending.

    Returns:
        The files that were written.

    Raises:
        InputError: cuenv did not write a file with that name.
        OutsideError: a file cannot be written.
    """
    texts: dict[Path, str] = {}
    for ending, both in scripts.items():
        on, off = hook_files(prefix, ending)
        texts |= {off: both.deactivate, on: both.activate}
    have = {path: _text(path) for path in texts}
    for path, text in have.items():
        if path.is_symlink() or (text is not None and not text.startswith(FIRST_LINE)):
            message = f"{path_text(path)} was not written by cuenv and was not changed"
            raise InputError(message, hint=shlex.join(["mv", str(path), f"{path}.theirs"]))
    changed = [path for path, text in texts.items() if have[path] != text]
    for path in changed:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"cannot make {path_text(path.parent)}: {reason_of(error)}"
            raise OutsideError(message, hint=ls_command(path.parent, error)) from error
        write_atomically(path, texts[path])
    return tuple(changed)


def remove_hook(prefix: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Remove the scripts, and the folders if they are empty then.

    Returns:
        The files that were removed, and those with the same names that cuenv did not write.

    Raises:
        OutsideError: a file cannot be removed.
    """
    removed, kept = [], []
    for path in (file for ending in ENDINGS for file in hook_files(prefix, ending)):
        if not os.path.lexists(path):
            continue
        text = None if path.is_symlink() else _text(path)
        if text is None or not text.startswith(FIRST_LINE):
            kept.append(path)
            continue
        try:
            path.unlink()
        except OSError as error:
            message = f"cannot remove {path_text(path)}: {reason_of(error)}"
            raise OutsideError(message, hint=ls_command(path, error)) from error
        removed.append(path)
        with contextlib.suppress(OSError):  # it holds other scripts
            path.parent.rmdir()
    return tuple(removed), tuple(kept)


def _text(path: Path) -> str | None:
    """The text of a file; ``None`` if there is none, empty if it is not a regular file."""
    if not os.path.lexists(path):
        return None
    if not is_file(path):
        return ""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        message = f"cannot read {path_text(path)}: {reason_of(error)}"
        raise OutsideError(message, hint=ls_command(path, error)) from error
