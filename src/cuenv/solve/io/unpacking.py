"""How large foreign data gets, counted before anybody else unpacks it."""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from typing import IO

from cuenv.core.record import dataclass

_MIB = 1 << 20
_CHUNK = 1 << 18
_FREE = 16 * _MIB  # unpacked bytes up to which no ratio counts: small files of equal lines pack very well
_RATIO = 100  # how often packed bytes may grow. A record of a channel holds hashes, which pack to no less than 48 bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most bytes of one answer as it is sent, and as it is unpacked."""

    packed: int
    unpacked: int


REPODATA = Limits(packed=1024 * _MIB, unpacked=1024 * _MIB)
"""conda-forge's largest ``repodata.json`` has some 400 MB, its ``.zst`` some 60 MB."""
SMALL = Limits(packed=32 * _MIB, unpacked=128 * _MIB)
"""An index of shards, or a shard. conda-forge's largest have about 2 MB."""
ALL = 2048 * _MIB  # unpacked bytes of one channel for one platform, all its shards together


class TooMuchError(Exception):
    """Data is larger than such data is."""


def readable_size(size: float) -> str:
    """A number of bytes for people."""
    if size >= 1e9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def limits_of(name: str) -> Limits:
    """What a file of a channel may have."""
    return SMALL if name.endswith(".msgpack.zst") else REPODATA


def measure(stream: IO[bytes], name: str, limits: Limits, *, sent: int) -> int:
    """Count what a file unpacks to; it is read from its beginning.

    Args:
        name: its ending says how it is packed.
        limits: what it may have.
        sent: bytes that came over the network.

    Raises:
        TooMuchError: it is more than it may be.
    """
    if not name.endswith((".zst", ".bz2")):
        check(sent, limits, sent=sent)
        return sent
    stream.seek(0)
    size = 0
    for chunk in _unpacked(stream, name):
        size += len(chunk)
        check(size, limits, sent=sent)
    return size


def check(size: int, limits: Limits, *, sent: int) -> None:
    """Refuse what unpacks to more than a channel can have.

    Raises:
        TooMuchError: it is more than it may be.
    """
    if size > limits.unpacked:
        message = f"the answer unpacks to more than {readable_size(limits.unpacked)}, more than any channel has"
        raise TooMuchError(message)
    if size > _FREE and size > _RATIO * sent:
        raise TooMuchError(
            f"the answer has {readable_size(sent)} and unpacks to more than {_RATIO} times as much, which is more than "
            "any channel has"
        )


def _unpacked(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """The bytes in a packed file, as far as they can be unpacked."""
    if name.endswith(".zst"):
        import zstandard  # noqa: PLC0415 - only for channels on the network

        with zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True, closefd=False) as reader:
            try:
                while chunk := reader.read(_CHUNK):
                    yield chunk
            except zstandard.ZstdError:
                return  # whoever unpacks it gets no further, and says so
    else:
        yield from _bunzip(stream)


def _bunzip(stream: IO[bytes]) -> Iterator[bytes]:
    decoder = bz2.BZ2Decompressor()
    data = b""
    try:
        while True:
            if decoder.eof:
                data, decoder = decoder.unused_data, bz2.BZ2Decompressor()
            if decoder.needs_input:
                data = data or stream.read(_CHUNK)
                if not data:
                    return
            yield decoder.decompress(data, _CHUNK)
            data = b""
    except (OSError, ValueError, EOFError):
        return
