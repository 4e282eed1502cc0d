"""The index of a channel's shards (CEP 16): where it says that the shards are."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlsplit

from cuenv.world.repodata_download import Fetched

_KEY = b"shards_base_url"
_LONGEST = 2000
"""Characters of an address; a longer one is left as it is, and the relay refuses it."""


def led_here(found: Fetched, url: str, elsewhere: Callable[[str], str]) -> Fetched:
    """The same index, its shards below the index itself where it puts them on another host.

    Args:
        found: the answer.
        url: canonical, of the index.
        elsewhere: the relative address for a base on another host.
    """
    import zstandard  # noqa: PLC0415 - only for channels with shards

    packed = found.body.read()
    found.body.seek(0)
    try:
        with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
            data = reader.read()
    except zstandard.ZstdError:
        return found  # whoever reads it says so
    made, here = bytearray(), 0
    home = urlsplit(url)
    while (at := data.find(_KEY, here)) >= 0:
        at += len(_KEY)
        made += data[here:at]
        begin, end = _text(data, at)
        base = data[begin:end].decode(errors="replace")
        there = urlsplit(base) if "//" in base else home
        if len(base) <= _LONGEST and (there.scheme or home.scheme, there.netloc) != (home.scheme, home.netloc):
            whole = base if there.scheme else f"{home.scheme}:{base}"
            made += _packed(elsewhere(whole if whole.endswith("/") else f"{whole}/").encode())
        else:
            made += data[at:end]
        here = max(end, at)
    if bytes(made) + data[here:] == data:
        return found
    body = zstandard.ZstdCompressor(level=1).compress(bytes(made) + data[here:])
    return replace(found, body=io.BytesIO(body), size=len(body))


def _text(data: bytes, at: int) -> tuple[int, int]:
    """Where the MessagePack string that begins at a byte has its text; nowhere for anything else."""
    mark = data[at] if at < len(data) else 0
    if 0xA0 <= mark <= 0xBF:
        return at + 1, min(at + 1 + mark - 0xA0, len(data))
    width = {0xD9: 1, 0xDA: 2, 0xDB: 4}.get(mark)
    if width is None:
        return at, at
    begin = at + 1 + width
    return begin, min(begin + int.from_bytes(data[at + 1 : begin], "big"), len(data))


def _packed(text: bytes) -> bytes:
    return b"\xda" + len(text).to_bytes(2, "big") + text
