"""Taking back what rattler's cache of repodata should not have kept.

rattler 0.28 keeps a body before it knows whether it can be read, and trusts it for as long as the server says "not
modified"; and it keeps a shard without comparing it with its hash. One bad answer would last for ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from pathlib import Path

from cuenv.world.cache import unwritable, use
from cuenv.world.sources import Sources

_SHARD = re.compile(r"([0-9a-f]{64})\.msgpack")
_BIN32 = b"\xc4\x20"
_MAX_NAME = 128


IN_USE = ".cuenv-in-use"
"""The file in a folder of repodata that everybody holds who reads channels into it."""
_LEFT = ".tmp*"
"""What rattler leaves behind when it is stopped."""
_BEGUN = "coming/*"
"""Downloads that broke off, which the next run goes on with."""
_DAYS = 7
"""Days after which nobody does."""
_held: dict[Path, int] = {}


def enter(sources: Sources) -> None:
    """Use the cache of repodata; what was left by others who were stopped goes, if nobody else is at work there.

    Raises:
        OutsideError: it cannot be written.
    """
    folder = sources.repodata_folder()
    if folder in _held:
        return
    use(sources)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / IN_USE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise unwritable(folder, error) from error
    _held[folder] = handle
    with contextlib.suppress(OSError):  # somebody is at work, or the file system knows no locks
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for path in folder.glob(_LEFT):
            with contextlib.suppress(OSError):
                path.unlink()
        for path in folder.glob(_BEGUN):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _DAYS * 86400:
                    path.unlink()
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_SH)  # who sweeps is done at once


def forget(folder: Path, channel: str, subdir: str) -> bool:
    """Remove the repodata of one subdir, so that it is fetched anew.

    Args:
        folder: of the cache.
        channel: canonical URL.
        subdir: platform or ``noarch``.

    Returns:
        whether there was something to remove.
    """
    found = False
    for state in folder.glob("*.info.json"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if str(json.loads(state.read_bytes()).get("url")).startswith(f"{channel}/{subdir}/"):
                state.unlink()
                state.with_name(state.name.replace(".info.json", ".json")).unlink()
                found = True
    return found


def forget_wrong_shards(folder: Path) -> bool:
    """Remove the shards that are not of the package that the indexes of the cache say (CEP 16).

    Returns:
        whether there was one.
    """
    indexes = [data for path in folder.glob("*.shards-cache-v1") if (data := _bytes(path))]
    found = False
    for path in (folder / "shards-v1").glob("*.msgpack"):
        name = _SHARD.fullmatch(path.name)
        package = (
            next(filter(None, (_package(data, bytes.fromhex(name[1])) for data in indexes)), None) if name else None
        )
        if package is None:
            continue
        shard = _bytes(path)
        if b"\xa4name" in shard and b"\xa4name" + _packed(package) not in shard:
            with contextlib.suppress(OSError):
                path.unlink()
                found = True
    return found


def _package(index: bytes, digest: bytes) -> bytes | None:
    """The name that an index gives a shard: a MessagePack string right before its hash."""
    end = index.find(_BIN32 + digest)
    if end < 0:
        return None
    for length in range(1, min(_MAX_NAME, end)):
        name = index[end - length : end]
        if index[: end - length].endswith(_packed(name)[:-length]):
            return name
    return None


def _packed(text: bytes) -> bytes:
    return (bytes([0xA0 | len(text)]) if len(text) < 32 else bytes([0xD9, len(text)])) + text


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
