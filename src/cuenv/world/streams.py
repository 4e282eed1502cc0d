"""Reading a file or standard input piece by piece: of any size, of any content, in bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cuenv.errors import InputError
from cuenv.world.files import look, shown, why

BLOCK = 1024 * 1024
"""Bytes that are read at once."""


def file_blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, or of anything that can be read to its end, such as a pipe.

    Raises:
        InputError: it is missing, a folder, or cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as stream:
            yield from _blocks(stream)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {shown(path)}: {why(error)}", hint=look(path, error)) from error


def size_of(path: Path) -> int:
    """The bytes of a file; 0 where that cannot be told, as of a pipe."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0


def stdin_blocks() -> Iterator[bytes]:
    """The bytes of standard input to its end.

    Raises:
        InputError: it is closed or cannot be read.
    """
    if sys.stdin is None:
        raise InputError("cannot read standard input: it is closed", hint="cuenv diagnose train.log")
    try:
        yield from _blocks(sys.stdin.buffer)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read standard input: {why(error)}", hint="cuenv diagnose train.log") from error


def stdin_is_terminal() -> bool:
    """Whether somebody sits before standard input."""
    return sys.stdin is not None and sys.stdin.isatty()


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    while block := stream.read(BLOCK):
        yield block
