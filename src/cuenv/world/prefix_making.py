"""An environment's folder is made whole or not at all: what stood there comes back when anything goes wrong.

An environment cannot be built elsewhere and moved, since its files name the folder. So the one that is replaced
stands aside, under a name beside it, until the new one is done. A marker in the unfinished one lets the next run put
things right after ``kill -9`` or a power cut.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

from cuenv.delivery.placing import MARKER
from cuenv.errors import InputError, OutsideError
from cuenv.world.at_work import BusyError, alone, in_turn, patiently
from cuenv.world.files import look, shown, why
from cuenv.world.planted import refuse_planted

_STATE = "conda-meta/state"
_OWN = "conda-meta/cuenv"
"""Says what was installed; conda and micromamba read ``*.json`` there, and ``history``."""


def recover(prefix: Path, progress: Callable[[str], None] | None = None) -> None:
    """Clear away what an interrupted run left, and put back what it was to replace; wait for one that is at work.

    Raises:
        OutsideError: that is not allowed here.
    """

    def attempt() -> None:
        with in_turn(prefix.parent):
            _recover(prefix, _aside(prefix))

    try:
        patiently(attempt, progress)
    except OSError as error:
        raise OutsideError(f"{shown(prefix)}: {why(error)}", hint=look(prefix, error)) from error


def _recover(prefix: Path, aside: Path) -> None:
    if (prefix / MARKER).exists():
        with alone(prefix / MARKER, prefix):
            _remove(prefix)
    if not aside.is_dir() or aside.is_symlink():
        return
    if not prefix.exists() or (prefix.is_dir() and not any(prefix.iterdir())):
        if prefix.exists():
            prefix.rmdir()
        aside.rename(prefix)
    elif installed_digest(prefix):
        _remove(aside)


def state_text(variables: Mapping[str, str]) -> str:
    """The file in which conda and micromamba keep what activation sets: ``conda-meta/state``."""
    return json.dumps({"version": 1, "env_vars": dict(variables)}) + "\n"


def write_state(prefix: Path, variables: Mapping[str, str]) -> None:
    """Let activation of an environment set variables, as ``conda env config vars set`` does.

    Raises:
        OSError: it cannot be written.
    """
    (prefix / _STATE).write_text(state_text(variables), encoding="utf-8")


def vacant(prefix: Path) -> bool:
    """Whether there is nothing at the folder.

    Raises:
        OutsideError: it cannot be looked at.
    """
    try:
        return not prefix.exists() or (prefix.is_dir() and not any(prefix.iterdir()))
    except OSError as error:
        raise OutsideError(f"{shown(prefix)}: {why(error)}", hint=look(prefix, error)) from error


def refuse(prefix: Path) -> InputError:
    """The error for a folder that is not ours to fill."""
    if installed_digest(prefix):
        return InputError(
            f"{shown(prefix)} is not empty: it holds an environment of another lock, or one that was changed",
            hint="replace it, when nothing runs from it: cuenv install --replace",
        )
    what = "is not empty" if prefix.is_dir() else "is there, and no folder"
    hint = "name another folder"
    if (prefix / "conda-meta").is_dir():  # else what lies there may be anything
        hint += f", or remove this environment first: rm -r {shown(prefix)}"
    return InputError(f"{shown(prefix)} {what}", hint=hint)


def installed_digest(prefix: Path) -> str:
    """The digest of what cuenv installed there; empty when cuenv did not."""
    try:
        with (prefix / _OWN).open(encoding="ascii") as stream:
            return stream.read(80).strip()
    except (OSError, ValueError):
        return ""


@contextmanager
def made_whole(prefix: Path, content: str) -> Iterator[None]:
    """Make an environment in a block; when it does not end well, Ctrl-C included, all is as it was.

    Args:
        prefix: missing, empty, or an environment of ours that is to be replaced.
        content: digest of what is installed.

    Raises:
        BusyError: another run has begun there: nothing of it is touched.
        OutsideError: the disk is full, or the folder is not ours to write.
    """
    existed, aside, begun = prefix.exists(), _aside(prefix), Event()
    with ExitStack() as held:
        try:
            _begin(prefix, aside, held, begun)
            yield
            (prefix / _OWN).write_text(f"{content}\n", encoding="ascii")
            (prefix / MARKER).unlink()
        except BaseException as error:
            if begun.is_set():
                _back(prefix, aside, existed=existed)
            if isinstance(error, OSError):
                raise OutsideError(f"{shown(error.filename or prefix)}: {why(error)}", hint="df -h") from error
            raise
    if aside.is_dir():
        try:
            _remove(aside)
        except BaseException:  # Ctrl-C comes too late to undo anything: the new one is whole
            _remove(aside)
            raise


def _begin(prefix: Path, aside: Path, held: ExitStack, begun: Event) -> None:
    """Put aside what is replaced, and hold the marker of the new one."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    refuse_planted(prefix)
    with in_turn(prefix.parent):
        marker = prefix / MARKER
        if marker.exists():  # what a killed run left was cleared away before
            raise BusyError(f"another cuenv is at work on {shown(prefix)}", hint="wait for it")
        replaced = prefix.exists() and any(prefix.iterdir())
        if replaced and os.path.lexists(aside):  # a file that NFS keeps for a program that runs, or not ours at all
            raise OutsideError(
                f"cannot replace {shown(prefix)}: {shown(aside)} is in the way, and could not be removed",
                hint=f"rm -r {shlex.quote(shown(aside))}",
            )
        begun.set()
        if replaced:
            prefix.rename(aside)
        prefix.mkdir(exist_ok=True)
        marker.touch()
        held.enter_context(alone(marker, prefix))


def _back(prefix: Path, aside: Path, *, existed: bool) -> None:
    if aside.is_dir() or (prefix / MARKER).exists() or not existed:
        _remove(prefix)
    if aside.is_dir() and not prefix.exists():
        aside.rename(prefix)
    elif existed:
        prefix.mkdir(exist_ok=True)


def _aside(prefix: Path) -> Path:
    return prefix.with_name(f".{prefix.name}.cuenv-old")


def _remove(folder: Path) -> None:
    """Remove a folder. rattler's threads may still be writing for a moment after Ctrl-C."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)
