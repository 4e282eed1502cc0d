"""Channel records that lie on this machine: in a folder that stands for a channel, or in the cache of an earlier run.

Found without asking anybody and without loading the solver, so that a choice can be proven at no visible cost.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cuenv.core.errors import CuenvError
from cuenv.core.io.files import is_folder
from cuenv.core.record import dataclass, replace

if TYPE_CHECKING:  # where nothing lies here, nothing is loaded
    from pathlib import Path

    from cuenv.solve.io.sources import Sources

_DAYS = 7  # records that are older say too little of what a channel has now
_LARGEST = 64 * 1024 * 1024
"""Bytes of a whole repodata file that is read in passing; the sharded form is small whatever the channel."""
_HEAD = 4096  # bytes of a cache file in which its URL stands


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRecords:
    """Records that need no network."""

    sources: Sources  # to read them, and nothing else
    day: str  # of the oldest part, ``YYYY-MM-DD``


def cache_is_empty(folder: str | None) -> bool:
    """Whether no run has kept records in a cache folder; that of the user where none is named."""
    found = folder or os.environ.get("CUENV_CACHE_DIR") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/cuenv"
    return not is_folder(f"{os.path.expanduser(found)}/repodata")  # noqa: PTH111 - of no home it makes no error


def read_local_records(sources: Sources, platform: str, now: float | None = None) -> LocalRecords | None:
    """What is here of conda-forge; ``None`` where a part is missing, too old or too large to be read in passing.

    Args:
        sources: how channels are reached.
        platform: of the host.
        now: seconds since the epoch; the clock by default.
    """
    import datetime as dt  # noqa: PLC0415 - where nothing lies here, nothing is loaded

    from cuenv.core.urls import channel_url  # noqa: PLC0415 - as above

    url = channel_url("conda-forge")
    folder = sources.folder(url)
    try:
        times = _times_in_folder(folder, platform) if folder else _times_in_cache(sources, url, platform)
    except (CuenvError, OSError):
        return None
    if not times:
        return None
    oldest = dt.datetime.fromtimestamp(min(times), tz=dt.timezone.utc)
    today = (
        dt.datetime.fromtimestamp(now, tz=dt.timezone.utc) if now is not None else dt.datetime.now(tz=dt.timezone.utc)
    )
    if folder is None and today - oldest > dt.timedelta(days=_DAYS):
        return None
    return LocalRecords(sources=replace(sources, offline=True), day=oldest.strftime("%Y-%m-%d"))


def _times_in_folder(folder: Path, platform: str) -> list[float]:
    found = folder / platform / "repodata.json"
    about = found.stat()
    return [about.st_mtime] if about.st_size <= _LARGEST else []


def _times_in_cache(sources: Sources, url: str, platform: str) -> list[float]:
    """When each of the subdirs was written to the cache; nothing where one is not there."""
    place = sources.repodata_folder()
    times: dict[str, float] = {}
    for path in place.iterdir():
        if not path.name.endswith((".info.json", ".shards-cache-v1")):
            continue
        with path.open("rb") as file:
            head = file.read(_HEAD)
        for subdir in (platform, "noarch"):
            if f"{url}/{subdir}/".encode() in head and _readable(path):
                times[subdir] = max(times.get(subdir, 0.0), path.stat().st_mtime)
    return list(times.values()) if len(times) == 2 else []


def _readable(path: Path) -> bool:
    """Whether what a state file speaks of is there: a whole file beside it, or shards below it."""
    if path.name.endswith(".info.json"):
        whole = path.with_name(path.name.replace(".info.json", ".json"))
        return whole.is_file() and whole.stat().st_size <= _LARGEST
    return (path.parent / "shards-v1").is_dir()
