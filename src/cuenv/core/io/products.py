"""Writing what a user asked for with ``-o``: nothing that was edited by hand is lost, and folders are made."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from cuenv.core.errors import OutsideError
from cuenv.core.io.files import is_file, ls_command, make_folder, path_text, reason_of
from cuenv.core.io.writing import write_together
from cuenv.core.reading import sha256_of
from cuenv.core.regex import regex

_KEPT = "An edited file is kept as FILE.bak when cuenv writes it again; it was written with sha256"
_SEAL = regex(rb"^(?:#|//) %s ([0-9a-f]{32})\n" % re.escape(_KEPT.encode()), re.MULTILINE)
_HEAD = 16384  # bytes at the start of a file in which the digest stands


def add_digest(text: str, advice: str = "") -> str:
    """A text of ours with the digest of it at the end of the comment that it begins with.

    Args:
        advice: one line, how to change the file so that the change stays.
    """
    lines = text.splitlines(keepends=True)
    mark = "//" if text.startswith("//") else "#"
    end = next((number for number, line in enumerate(lines) if not line.startswith(mark)), len(lines))
    more = [f"{mark} {advice}\n"] if advice else []
    head, rest = "".join([*lines[:end], *more]), "".join(lines[end:])
    digest = _digest((head + rest).encode())
    return f"{head}{mark} {_KEPT} {digest}\n{rest}"


def is_unedited(raw: bytes, own: str) -> bool:
    """Whether a file begins as ours do and was not edited since; one without a digest may have been.

    Args:
        own: how a file of ours begins; that of one with other comments begins with their mark instead.
    """
    found = _SEAL.search(raw, 0, _HEAD)
    if not raw.startswith((own.encode(), own.replace("#", "//", 1).encode())) or not found:
        return False
    return _digest(raw[: found.start()] + raw[found.end() :]) == found[1].decode()


def _digest(raw: bytes) -> str:
    return sha256_of(raw)[:32]


def write_product(path: Path, text: str, own: str, advice: str = "") -> Path | None:
    """Write a file of ours with its digest; what somebody else wrote or edited there is kept aside.

    Args:
        path: the file; its folder is made when it is not there.
        text: what to write; see `cuenv.core.io.products.add_digest`.
        own: how a file of ours begins.
        advice: see `cuenv.core.io.products.add_digest`.

    Returns:
        Where the former file is kept, if it had to be.
    """
    whole = add_digest(text, advice)
    copy = keep_aside(path, own, (text, whole))
    make_folder(path.parent)
    write_together([*([copy] if copy else []), (path, whole)])  # where one cannot be written, neither is
    return copy[0] if copy else None


def write_over(
    texts: Mapping[Path, str], owns: tuple[str, ...], *, gone: Mapping[Path, str] | None = None
) -> tuple[tuple[Path, Path], ...]:
    """Write files of ours together; what another program wrote in their place is kept as ``NAME.bak``.

    Args:
        texts: take their names in this order.
        owns: how files of ours begin: those need no copy, since they are made anew from what they were made of.
        gone: see `cuenv.core.io.writing.write_together`.

    Returns:
        What another program had written, and where it is kept.

    Raises:
        OutsideError: one cannot be written, or what it would replace cannot be read.
    """
    kept = [(path, copy) for path in texts if (copy := _keep_others(path, owns))]
    write_together([*(copy for _, copy in kept), *texts.items()], gone=gone)
    return tuple((path, copy[0]) for path, copy in kept)


def keep_aside(path: Path, own: str, same: tuple[str, ...] = ()) -> tuple[Path, bytes] | None:
    """The copy that is to be written, as ``NAME.bak``, of a file that somebody else wrote or edited.

    Args:
        path: the file that will be written.
        own: how a file of ours begins; one that is as it was written, and none at all, needs no copy.
        same: texts that say the same as the new one: nothing is lost with them.
    """
    if not path.exists():
        return None
    if not path.is_file():
        message = f"cannot write {path_text(path)}: it is not a regular file"
        raise OutsideError(message, hint="name a file: -o environment.yml")
    raw = _read_replaced(path)
    if not raw.strip() or is_unedited(raw, own) or raw in {text.encode() for text in same}:
        return None
    return _backup_name(path), raw


def _read_replaced(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"cannot read {path_text(path)}, which would be replaced: {reason_of(error)}"
        raise OutsideError(message, hint=ls_command(path, error)) from error


def _keep_others(path: Path, owns: tuple[str, ...]) -> tuple[Path, bytes] | None:
    if not is_file(path):
        return None
    raw = _read_replaced(path)
    if not raw.strip() or raw.startswith(tuple(own.encode() for own in owns)):
        return None
    return _backup_name(path), raw


def _backup_name(path: Path) -> Path:
    """The first of ``NAME.bak``, ``NAME.bak.1`` ... that is not there, not even as a link."""
    number = 0
    while os.path.lexists(aside := path.with_name(f"{path.name}.bak{f'.{number}' if number else ''}")):
        number += 1
    return aside


def remove_unedited(paths: Iterable[Path], since: Path) -> tuple[list[Path], list[Path]]:
    """Remove files of an earlier run of ours, each unless it was changed after the file that was written last then.

    Args:
        paths: the files; what is not there, a folder and a link stay.
        since: the file that was written last.

    Returns:
        What was removed, and what was changed and stays.
    """
    removed: list[Path] = []
    kept: list[Path] = []
    for path in paths:
        try:
            if path.is_symlink() or not is_file(path):
                continue
            if path.stat().st_mtime_ns > since.stat().st_mtime_ns:
                kept.append(path)
                continue
            path.unlink()
            removed.append(path)
            if not any(path.parent.iterdir()):
                path.parent.rmdir()
        except OSError as error:
            message = f"cannot remove {path_text(path)}: {reason_of(error)}"
            raise OutsideError(message, hint=ls_command(path, error)) from error
    return removed, kept
