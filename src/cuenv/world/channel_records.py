"""The records of some packages of one channel, for the tables. Import this module lazily: it imports rattler."""

from __future__ import annotations

from collections.abc import Iterable

from rattler import MatchSpec, RepoDataRecord

from cuenv.observed import Record
from cuenv.urls import printable
from cuenv.world.channels import channels_of, translated
from cuenv.world.sources import Sources


def channel_records(channel: str, platform: str, names: Iterable[str], sources: Sources) -> tuple[Record, ...]:
    """Read the records of packages, those for every platform among them.

    Args:
        channel: its name or URL.
        platform: the conda platform.
        names: of the packages.
        sources: where channels are read.

    Raises:
        ChannelError: the channel cannot be read.
        OutsideError: rattler failed.
    """
    channels = channels_of(sources.reaching((channel,)))
    with translated("the channel cannot be asked"):
        parts = channels.open((channel,), platform)
        found = channels.find(parts, platform, [MatchSpec(name) for name in sorted(set(names))])
    return tuple(_record(item) for item in found)


def _record(item: RepoDataRecord) -> Record:
    return Record(
        name=item.name.normalized,
        version=str(item.version),
        build=printable(str(item.build)),
        depends=tuple(printable(text) for text in item.depends),
        day=item.timestamp.date().isoformat() if item.timestamp else "",
    )
