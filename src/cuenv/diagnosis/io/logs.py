"""Read the bytes of a log, unpacked from gzip, bzip2, xz or zstandard, in bounded memory."""

from __future__ import annotations

import bz2
import lzma
import shlex
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from cuenv.core.errors import InputError
from cuenv.core.io.files import file_blocks, path_text, stdin_blocks

MOST = 64 * 1024**3  # the most bytes that a compressed log may unpack to
_PIECE = 1024 * 1024
_PACKED = 512
_LOOKED = 64 * 1024
_CONTROLS = bytes(code for code in range(1, 32) if code not in b"\t\n\v\f\r\b\x07\x1b")
_SHARE = 50  # a file with one control character in this many bytes is binary
_BINARY = {
    b"\x7fELF": "a program or library (ELF)",
    b"PK\x03\x04": "a zip archive",
    b"\x89PNG": "an image (PNG)",
    b"\xff\xd8\xff": "an image (JPEG)",
    b"%PDF-": "a PDF",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3\0": "an SQLite database",
    b"GGUF": "a model (GGUF)",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
}


class _Unpacker(Protocol):
    """What the decompressors of the standard library have in common."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""

    @property
    def unused_data(self) -> bytes:
        """What follows the stream."""

    def decompress(self, data: bytes, limit: int) -> bytes:
        """As much as the limit allows."""


def log_blocks(path: str) -> Iterator[bytes]:
    """Yield the bytes of a log, unpacked.

    Args:
        path: a file; ``-`` is standard input.

    Raises:
        InputError: the log cannot be read, is damaged or binary, or unpacks to more than `MOST`.
    """
    name = "standard input" if path == "-" else path_text(path)
    blocks = stdin_blocks() if path == "-" else file_blocks(Path(path))
    first = next(blocks, b"")
    while len(first) < _LOOKED and (more := next(blocks, b"")):
        first += more  # a pipe brings a few bytes at a time
    whole = _chain(first, blocks)
    if first.startswith(b"\x1f\x8b"):
        return _check(_unpacked(whole, _Gzip, name), name)
    if first.startswith(b"BZh"):
        return _check(_unpacked(whole, bz2.BZ2Decompressor, name), name)
    if first.startswith(b"\xfd7zXZ\0"):
        return _check(_unpacked(whole, lzma.LZMADecompressor, name), name)
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        return _check(_zstandard(whole, name), name)
    return _check(whole, name)


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    for start in range(0, len(first), _PIECE):
        yield first[start : start + _PIECE]
    yield from rest


def _check(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield the blocks; refuse a binary file by its first block."""
    size = 0
    for index, block in enumerate(blocks):
        if not index:
            _refuse_binary(block[:_LOOKED], name)
        size += len(block)
        if size > MOST:
            raise InputError(f"{name} unpacks to more than {MOST // 1024**3} GB", hint=_unpack_command(name))
        yield block


def _refuse_binary(text: bytes, name: str) -> None:
    kind = next((what for magic, what in _BINARY.items() if text.startswith(magic)), "")
    if not kind and text[257:262] == b"ustar":
        kind = "a tar archive"
    letters = text.replace(b"\0", b"")  # of UTF-16, or a hole in a file that was rotated
    controls = len(letters) - len(letters.translate(None, _CONTROLS))
    if not kind and controls * _SHARE > len(letters):
        kind = "a binary file"
    if kind:
        raise InputError(f"{name} is {kind}, not a log", hint="name a text file with the program's output")


def _unpacked(blocks: Iterator[bytes], make: Callable[[], _Unpacker], name: str) -> Iterator[bytes]:
    """Yield all streams of a compressed file, a piece at a time."""
    unpacker = make()
    data = b""
    begun = False
    try:
        for block in blocks:
            data += block
            while data or (begun and not unpacker.eof):
                text = unpacker.decompress(data, _PIECE)
                begun, data = True, b""
                if text:
                    yield text
                if unpacker.eof:
                    data = unpacker.unused_data.lstrip(b"\0")
                    unpacker, begun = make(), False
                elif not text:
                    break
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        raise InputError(f"cannot unpack {name}: {error}", hint=_unpack_command(name)) from error


class _Gzip:
    """`zlib`'s decompressor with the interface of the two others."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(31)
        self._rest = b""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        """What follows the stream."""
        return self._inner.unused_data

    def decompress(self, data: bytes, limit: int) -> bytes:
        """As much as the limit allows; the rest is kept."""
        text = self._inner.decompress(self._rest + data, limit)
        self._rest = self._inner.unconsumed_tail
        return text


def _zstandard(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    import zstandard  # noqa: PLC0415 - most logs are not packed

    unpacker = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
    try:
        for block in blocks:
            for start in range(0, len(block), _PACKED):  # so that what comes out at once stays small
                yield unpacker.decompress(block[start : start + _PACKED])
    except zstandard.ZstdError as error:
        raise InputError(f"cannot unpack {name}: {error}", hint=_unpack_command(name)) from error


def _unpack_command(name: str) -> str:
    tool = {".zst": "zstd -dc", ".xz": "xz -dc", ".bz2": "bzip2 -dc"}.get(Path(name).suffix, "gzip -dc")
    return f"{tool} {shlex.quote(name)} | cuenv diagnose -"
