"""Writing a bundle: it grows in a folder beside, and takes its name when whole; what stood there stays till then."""

from __future__ import annotations

import os
import shlex
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from cuenv.delivery.bundle import SCRIPT, SUMS, TOP
from cuenv.errors import InputError, OutsideError
from cuenv.world.at_work import BusyError, alone
from cuenv.world.files import is_file, is_folder, look, shown, why
from cuenv.world.planted import refuse_planted

_WHEN = 315532800
"""1980-01-01, the day that every file in a tar bears: some programs warn about older ones."""


def is_tar(out: Path) -> bool:
    """Whether a bundle is to be one file."""
    return out.suffix == ".tar"


def staging(out: Path, held: ExitStack) -> Path:
    """The folder beside, where a bundle grows; an interrupted run's is used again.

    Args:
        out: where the bundle shall be.
        held: keeps the folder for this run alone, until it is closed.

    Raises:
        BusyError: another run makes one there.
        InputError: something stands where the bundle shall be that is none.
        OutsideError: the folder cannot be made.
    """
    path = out.with_name(f".{out.name}.cuenv-part")
    try:
        if path.is_symlink():
            path.unlink()
        if not out.parent.is_dir():
            raise OutsideError(
                f"cannot write {shown(out)}: there is no folder {shown(out.parent)}",
                hint=f"mkdir -p {shlex.quote(str(out.parent))}",
            )
        refuse_planted(out)
        path.mkdir(exist_ok=True)
        refuse_planted(path)
        with ExitStack() as trying:  # the next try must find it free
            trying.enter_context(alone(path, out))
            _check_emptying(out, path)
            held.enter_context(trying.pop_all())
    except OSError as error:
        if isinstance(error, FileNotFoundError) and out.parent.is_dir():  # another run has just taken it away
            raise BusyError(f"another cuenv is at work on {shown(out)}", hint="wait for it, or stop it") from error
        raise OutsideError(f"cannot write {shown(out)}: {why(error)}", hint=look(out, error)) from error
    return path


def _check_emptying(out: Path, path: Path) -> None:
    """Look at the place while no other run is between two steps there; a folder beside a refused one goes again."""
    try:
        _check(out)
    except BaseException:
        with suppress(OSError):
            path.rmdir()
        raise


def _check(out: Path) -> None:
    if is_tar(out):
        if out.exists() and not (out.is_file() and _begins_as_ours(out)):
            raise InputError(f"{shown(out)} is there, and is no bundle of cuenv", hint="name another: -o NAME.tar")
        return
    before = out.with_name(f".{out.name}.cuenv-old")
    if before.is_dir() and not before.is_symlink():  # killed between two renames
        with suppress(FileNotFoundError):  # another run clears it away as well
            shutil.rmtree(before) if out.exists() else before.rename(out)
    if out.exists() and not (
        is_folder(out) and (not any(out.iterdir()) or (is_file(out / SUMS) and is_file(out / SCRIPT)))
    ):
        raise InputError(f"{shown(out)} is there, and is no bundle of cuenv", hint="name another folder: -o NAME")


def _begins_as_ours(path: Path) -> bool:
    try:
        with tarfile.open(path, "r:") as tar:
            first = tar.next()
            return first is not None and first.name in (TOP, f"{TOP}/{SUMS}")
    except (tarfile.TarError, OSError, EOFError):
        return False


def write_files(folder: Path, files: Mapping[str, str], *, executable: Iterable[str] = ()) -> None:
    """Write the small files of a bundle, by place.

    Raises:
        OSError: one cannot be written.
    """
    for place, text in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if place in executable else 0o644)


def keep_only(folder: Path, places: Iterable[str]) -> None:
    """Remove what is no part of the bundle: an interrupted run for another lock may have left it."""
    wanted = set(places)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in wanted:
            path.unlink()


def publish(folder: Path, out: Path) -> None:
    """Give a whole bundle its name.

    Raises:
        OSError: it cannot be written; what stood there stays.
    """
    if is_tar(out):
        _publish_tar(folder, out)
        return
    before = out.with_name(f".{out.name}.cuenv-old")
    if out.exists():
        out.rename(before)
    try:
        folder.rename(out)
    except BaseException:
        if before.exists():
            before.rename(out)
        raise
    if before.exists():
        shutil.rmtree(before, ignore_errors=True)


def _publish_tar(folder: Path, out: Path) -> None:
    """One file, the same bytes for the same content: sorted, one date, no owner."""
    beside = out.with_name(f".{out.name}.cuenv-tmp")
    refuse_planted(out)
    try:
        beside.unlink(missing_ok=True)
        # O_EXCL: in a folder of everybody's, somebody else could put a link there
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(handle, "wb") as stream:
            with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for path in [folder, *sorted(folder.rglob("*"))]:
                    _add(tar, path, path.relative_to(folder).as_posix())
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(out)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _add(tar: tarfile.TarFile, path: Path, place: str) -> None:
    member = tarfile.TarInfo(TOP if place == "." else f"{TOP}/{place}")
    member.mtime = _WHEN
    if path.is_dir():
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(member)
        return
    member.size, member.mode = path.stat().st_size, 0o755 if place == SCRIPT else 0o644
    with path.open("rb") as stream:
        tar.addfile(member, stream)
