"""The two files of a hook in an environment: written together, taken away together, and nobody else's touched."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
from pathlib import Path

from cuenv.errors import InputError, OutsideError
from cuenv.world.files import is_file, look, shown, why, write_atomically


def hook_files(prefix: Path) -> tuple[Path, Path]:
    """Where the scripts lie: conda sources by name, and ``~cuda-nvcc`` comes before ``~cuenv``."""
    folder = prefix / "etc/conda"
    return folder / "activate.d/~cuenv_activate.sh", folder / "deactivate.d/~cuenv_deactivate.sh"


def write_hook(prefix: Path, activate: str, deactivate: str, own: str) -> tuple[Path, ...]:
    """Write both files, the one that restores first; those that are as they should be stay.

    Args:
        prefix: the environment.
        activate: the text of the script that sets.
        deactivate: the text of the script that restores.
        own: how a file of ours begins; any other is not replaced.

    Returns:
        The files that were written.

    Raises:
        InputError: a file of that name is somebody else's.
        OutsideError: one cannot be written.
    """
    on, off = hook_files(prefix)
    texts = {off: deactivate, on: activate}
    have = {path: _text(path) for path in texts}
    for path, text in have.items():
        if path.is_symlink() or (text is not None and not text.startswith(own)):
            raise InputError(
                f"{shown(path)} is not cuenv's: it was left as it is",
                hint=shlex.join(["mv", str(path), f"{path}.theirs"]),
            )
    changed = [path for path, text in texts.items() if have[path] != text]
    for path in changed:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutsideError(
                f"cannot make {shown(path.parent)}: {why(error)}", hint=look(path.parent, error)
            ) from error
        write_atomically(path, texts[path])
    return tuple(changed)


def remove_hook(prefix: Path, own: str) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Take our files away, and folders that are empty then.

    Returns:
        What was removed, and what bears the name and is somebody else's.

    Raises:
        OutsideError: one cannot be removed.
    """
    removed, kept = [], []
    for path in hook_files(prefix):
        if not os.path.lexists(path):
            continue
        text = None if path.is_symlink() else _text(path)
        if text is None or not text.startswith(own):
            kept.append(path)
            continue
        try:
            path.unlink()
        except OSError as error:
            raise OutsideError(f"cannot remove {shown(path)}: {why(error)}", hint=look(path, error)) from error
        removed.append(path)
        with contextlib.suppress(OSError):  # it holds other scripts
            path.parent.rmdir()
    return tuple(removed), tuple(kept)


def _text(path: Path) -> str | None:
    """The text of a file; ``None`` when there is none, empty for what is no file."""
    if not os.path.lexists(path):
        return None
    if not is_file(path):
        return ""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise OutsideError(f"cannot read {shown(path)}: {why(error)}", hint=look(path, error)) from error
