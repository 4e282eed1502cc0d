"""Reading a bundle: a folder, or a tar that is unpacked entry by entry; every byte is held against ``SHA256SUMS``."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cuenv.delivery.bundle import SUMS, TOP, is_place, parse_sums
from cuenv.errors import HashError, InputError, OutsideError
from cuenv.reading import describe
from cuenv.urls import printable
from cuenv.world.at_work import BusyError, alone, patiently
from cuenv.world.download import digest
from cuenv.world.files import is_file, is_folder, read_text, shown, why

_LIMIT = 100_000
"""Entries that a bundle's tar may have."""
_CHUNK = 1 << 20

Progress = Callable[[str], None]


def is_bundle(path: Path) -> bool:
    """Whether a path is a bundle, by its form: a folder with ``SHA256SUMS``, or a tar."""
    return is_file(path / SUMS) if is_folder(path) else path.suffix == ".tar"


@contextmanager
def opened(path: Path, scratch: Path, progress: Progress | None = None) -> Iterator[Path]:
    """A verified bundle as a folder.

    Args:
        path: of a folder, or of a tar.
        scratch: where a tar is unpacked; removed in the end, and what an earlier run left there before.
        progress: told what is being done.

    Raises:
        InputError: it is no bundle, or holds what a bundle must not hold.
        HashError: a file is not what ``SHA256SUMS`` says; its name is told.
        OutsideError: a tar cannot be unpacked there.
    """
    if is_folder(path):
        verify(path, path, progress)
        yield path
        return
    if not is_file(path):
        raise InputError(f"cannot read {shown(path)}: no such file", hint="cuenv bundle -o FILE.tar")
    with ExitStack() as held:
        patiently(lambda: _emptied(scratch, path, held), progress)
        try:
            _unpacked(path, scratch, progress)
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _emptied(scratch: Path, source: Path, held: ExitStack) -> None:
    """Make the folder and hold it; one that a killed run left is cleared away, one of a running run is not."""
    try:
        if scratch.is_symlink():
            scratch.unlink()
        elif scratch.exists():
            with alone(scratch, source):
                shutil.rmtree(scratch)
        scratch.mkdir(parents=True)
        held.enter_context(alone(scratch, source))
    except FileExistsError as error:
        if not is_folder(scratch):
            raise OutsideError(f"{shown(scratch)}: {why(error)}", hint="df -h") from error
        raise BusyError(f"another cuenv is at work on {shown(source)}", hint="wait for it") from error
    except OSError as error:
        raise OutsideError(f"{shown(scratch)}: {why(error)}", hint="df -h") from error


def _unpacked(path: Path, scratch: Path, progress: Progress | None) -> None:
    try:
        _unpack(path, scratch, progress)
        verify(scratch, path, progress)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise InputError(f"{shown(path)} is no whole tar: {printable(str(error))}", hint="copy it again") from error
    except OSError as error:
        raise OutsideError(f"{shown(error.filename or path)}: {why(error)}", hint="df -h") from error


def verify(folder: Path, source: Path, progress: Progress | None = None) -> None:
    """Hold every file that a bundle lists against its hash.

    Raises:
        InputError: it lists none.
        HashError: a file is missing or another; its name is told.
    """
    if not is_file(folder / SUMS):
        raise InputError(f"{shown(source)} holds no {SUMS}: it is no bundle", hint="cuenv bundle")
    sums = parse_sums(read_text(folder / SUMS), f"{source}/{SUMS}")
    for number, (place, expected) in enumerate(sorted(sums.items()), 1):
        if progress:
            progress(f"verifying {number} of {len(sums)} files of the bundle")
        try:
            found = digest(folder / place, "sha256")
        except OSError as error:
            raise HashError(f"{shown(source)}: {place}: {why(error)}", hint="copy the bundle again") from error
        if found != expected:
            raise HashError(
                f"{shown(source)}: {place} was changed: its sha256 is {found}, {SUMS} says {expected}",
                hint="copy the bundle again",
            )


def _unpack(path: Path, scratch: Path, progress: Progress | None) -> None:
    with tarfile.open(path, "r:") as tar:
        for number, member in enumerate(tar, 1):
            if progress:
                progress(f"unpacking {number}: {member.name}")
            if number > _LIMIT:
                raise InputError(
                    f"{shown(path)} is refused: more than {_LIMIT} entries",
                    hint="make it again: cuenv bundle -o train.tar",
                )
            _entry(tar, member, scratch, path)


def _entry(tar: tarfile.TarFile, member: tarfile.TarInfo, scratch: Path, source: Path) -> None:
    """Write one entry. Only plain files and folders with plain names below the one top folder are."""
    top, _, place = member.name.partition("/")
    plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.sparse
    if top != TOP or (place and not is_place(place)) or not (member.isdir() or (plain and place)):
        kind = "an entry" if member.isdir() or plain else "a link or device"
        raise InputError(
            f"{shown(source)} is refused: it holds {kind} {describe(member.name)}, which no bundle has",
            hint="make it again: cuenv bundle -o FILE.tar",
        )
    target = scratch / place
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    reader = tar.extractfile(member)
    if reader is None or target.exists():
        raise InputError(
            f"{shown(source)} is refused: {describe(member.name)} stands twice in it",
            hint="make it again: cuenv bundle -o train.tar",
        )
    left = member.size
    with target.open("xb") as writer:
        while chunk := reader.read(_CHUNK):
            left -= len(chunk)
            writer.write(chunk)
    if left:
        raise tarfile.ReadError(f"it ends within {describe(member.name)}")
