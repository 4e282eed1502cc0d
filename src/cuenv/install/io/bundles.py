"""Bundles on disk: written beside and renamed when whole, read with every byte compared to ``SHA256SUMS``."""

from __future__ import annotations

import os
import shlex
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cuenv.core.errors import HashError, InputError, OutsideError, Progress
from cuenv.core.io.exclusive import BusyError, hold, retry_while_busy
from cuenv.core.io.files import DATA, is_file, is_folder, ls_command, path_text, read_text, reason_of, refuse_untrusted
from cuenv.core.reading import describe
from cuenv.core.urls import printable
from cuenv.install.bundle import SCRIPT, SUMS, TOP, is_place, parse_sums
from cuenv.solve.io.download import digest

_SCRIPT = Path(DATA, "templates", "install.sh")

README = """An environment, whole, for a machine without network. Made by cuenv.

  sh install.sh /path/of/the/environment

It verifies every file of this folder against SHA256SUMS, then takes cuenv, micromamba or conda, whichever is on PATH.
The folder may be anywhere. channel/ holds local channels: conda create -c file:///here/channel/conda-forge works too.
SHA256SUMS shows damage; it does not say who made the bundle: compare its own sum with the one you were told.
"""


def install_script() -> str:
    """The POSIX shell script that makes the environment from its folder."""
    return _SCRIPT.read_text(encoding="utf-8")


_WHEN = 315532800  # 1980-01-01, the day that every file in a tar bears: some programs warn about older ones
_CLEARINGS = 100  # times that what stood at the place is cleared away before it counts as one that stays


def is_tar(out: Path) -> bool:
    """Whether the bundle is a tar file."""
    return out.suffix == ".tar"


def staging(out: Path, held: ExitStack) -> Path:
    """The folder in which a bundle is made; that of an interrupted run is used again.

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
            message = f"cannot write {path_text(out)}: there is no folder {path_text(out.parent)}"
            raise OutsideError(message, hint=f"mkdir -p {shlex.quote(str(out.parent))}")
        refuse_untrusted(out)
        path.mkdir(exist_ok=True)
        refuse_untrusted(path)
        with ExitStack() as trying:  # the next try must find it free
            trying.enter_context(hold(path, out))
            _check_emptying(out, path)
            held.enter_context(trying.pop_all())
    except OSError as error:
        if isinstance(error, FileNotFoundError) and out.parent.is_dir():  # another run has just taken it away
            raise BusyError(f"another cuenv is at work on {path_text(out)}", hint="wait for it, or stop it") from error
        raise OutsideError(f"cannot write {path_text(out)}: {reason_of(error)}", hint=ls_command(out, error)) from error
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
            raise InputError(f"{path_text(out)} exists but is not a cuenv bundle", hint="name another: -o NAME.tar")
        return
    before = out.with_name(f".{out.name}.cuenv-old")
    if before.is_dir() and not before.is_symlink():  # killed between two renames
        with suppress(FileNotFoundError):  # another run clears it away as well
            shutil.rmtree(before) if out.exists() else before.rename(out)
    if out.exists() and not (
        is_folder(out) and (not any(out.iterdir()) or (is_file(out / SUMS) and is_file(out / SCRIPT)))
    ):
        raise InputError(f"{path_text(out)} exists but is not a cuenv bundle", hint="name another folder: -o NAME")


def _begins_as_ours(path: Path) -> bool:
    try:
        with tarfile.open(path, "r:") as tar:
            first = tar.next()
            return first is not None and first.name in (TOP, f"{TOP}/{SUMS}")
    except (tarfile.TarError, OSError, EOFError):
        return False


def write_files(folder: Path, files: Mapping[str, str], *, executable: Iterable[str] = ()) -> None:
    """Write the small files of a bundle.

    Raises:
        OSError: one cannot be written.
    """
    for place, text in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if place in executable else 0o644)


def keep_only(folder: Path, places: Iterable[str]) -> None:
    """Remove files that do not belong to the bundle, which an interrupted run may have left."""
    wanted = set(places)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in wanted:
            path.unlink()


def publish(folder: Path, out: Path) -> None:
    """Rename a complete bundle to its name.

    Raises:
        OSError: it cannot be written; what stood there stays.
    """
    if is_tar(out):
        _publish_tar(folder, out)
        return
    before = out.with_name(f".{out.name}.cuenv-old")
    for _ in range(_CLEARINGS):
        if not before.exists():
            break
        shutil.rmtree(before, ignore_errors=True)  # as another run does at this moment, which was done before
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
    """Write the tar; the same content gives the same bytes."""
    beside = out.with_name(f".{out.name}.cuenv-tmp")
    refuse_untrusted(out)
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


_LIMIT = 100_000  # entries that a bundle's tar may have
_CHUNK = 1 << 20


def is_bundle(path: Path) -> bool:
    """Whether a path is a bundle: a folder with ``SHA256SUMS``, or a tar."""
    return is_file(path / SUMS) if is_folder(path) else path.suffix == ".tar"


@contextmanager
def opened(path: Path, scratch: Path, progress: Progress | None = None) -> Iterator[Path]:
    """Verify a bundle, unpack it if it is a tar, and return its folder.

    Args:
        scratch: where a tar is unpacked; removed in the end, and what an earlier run left there before.

    Raises:
        InputError: it is not a bundle, or holds what a bundle must not hold.
        HashError: a file is not what ``SHA256SUMS`` says; its name is told.
        OutsideError: a tar cannot be unpacked there.
    """
    if is_folder(path):
        verify(path, path, progress)
        yield path
        return
    if not is_file(path):
        raise InputError(f"cannot read {path_text(path)}: no such file", hint="cuenv bundle -o FILE.tar")
    with ExitStack() as held:
        retry_while_busy(lambda: _emptied(scratch, path, held), progress)
        try:
            _unpacked(path, scratch, progress)
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _emptied(scratch: Path, source: Path, held: ExitStack) -> None:
    """Make and lock a scratch folder; that of a killed run is emptied first."""
    try:
        if scratch.is_symlink():
            scratch.unlink()
        elif scratch.exists():
            with hold(scratch, source):
                shutil.rmtree(scratch)
        scratch.mkdir(parents=True)
        held.enter_context(hold(scratch, source))
    except FileExistsError as error:
        if not is_folder(scratch):
            raise OutsideError(f"{path_text(scratch)}: {reason_of(error)}", hint=ls_command(scratch, error)) from error
        raise BusyError(f"another cuenv is at work on {path_text(source)}", hint="wait for it") from error
    except OSError as error:
        raise OutsideError(f"{path_text(scratch)}: {reason_of(error)}", hint=ls_command(scratch, error)) from error


def _unpacked(path: Path, scratch: Path, progress: Progress | None) -> None:
    try:
        _unpack(path, scratch, progress)
        verify(scratch, path, progress)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        message = f"{path_text(path)} is not a complete tar file: {printable(str(error))}"
        raise InputError(message, hint="copy it again") from error
    except OSError as error:
        message = f"{path_text(error.filename or path)}: {reason_of(error)}"
        raise OutsideError(message, hint=ls_command(error.filename or path, error)) from error


def verify(folder: Path, source: Path, progress: Progress | None = None) -> None:
    """Compare every file of a bundle with its hash.

    Raises:
        InputError: it lists none.
        HashError: a file is missing or another; its name is told.
    """
    if not is_file(folder / SUMS):
        raise InputError(f"{path_text(source)} is not a bundle, because it has no {SUMS}", hint="cuenv bundle")
    sums = parse_sums(read_text(folder / SUMS), f"{source}/{SUMS}")
    for number, (place, expected) in enumerate(sorted(sums.items()), 1):
        if progress:
            progress(f"verifying {number} of {len(sums)} files of the bundle")
        try:
            found = digest(folder / place, "sha256")
        except OSError as error:
            message = f"{path_text(source)}: {place}: {reason_of(error)}"
            raise HashError(message, hint="copy the bundle again") from error
        if found != expected:
            message = f"{path_text(source)}: {place} was changed: its sha256 is {found}, but {SUMS} says {expected}"
            raise HashError(message, hint="copy the bundle again")


def _unpack(path: Path, scratch: Path, progress: Progress | None) -> None:
    with tarfile.open(path, "r:") as tar:
        for number, member in enumerate(tar, 1):
            if progress:
                progress(f"unpacking {number}: {member.name}")
            if number > _LIMIT:
                message = f"{path_text(path)} is refused: more than {_LIMIT} entries"
                raise InputError(message, hint="make it again: cuenv bundle -o train.tar")
            _entry(tar, member, scratch, path)


def _entry(tar: tarfile.TarFile, member: tarfile.TarInfo, scratch: Path, source: Path) -> None:
    """Unpack one entry; only regular files and folders below the top folder are allowed."""
    top, _, place = member.name.partition("/")
    plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.sparse
    if top != TOP or (place and not is_place(place)) or not (member.isdir() or (plain and place)):
        kind = "an entry" if member.isdir() or plain else "a link or device"
        message = f"{path_text(source)} is refused: it holds {kind} {describe(member.name)}, which no bundle has"
        raise InputError(message, hint="make it again: cuenv bundle -o FILE.tar")
    target = scratch / place
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    reader = tar.extractfile(member)
    if reader is None or target.exists():
        message = f"{path_text(source)} is refused: {describe(member.name)} appears twice in it"
        raise InputError(message, hint="make it again: cuenv bundle -o train.tar")
    left = member.size
    with target.open("xb") as writer:
        while chunk := reader.read(_CHUNK):
            left -= len(chunk)
            writer.write(chunk)
    if left:
        raise tarfile.ReadError(f"it ends within {describe(member.name)}")
