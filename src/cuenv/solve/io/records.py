"""The records of some packages of one channel, for the tables. Import this module lazily: it imports rattler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rattler import MatchSpec, RepoDataRecord

from cuenv.core.errors import CuenvError
from cuenv.core.urls import printable, strip_credentials
from cuenv.solve.io.channels import channels_of, translated
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import LockedPackage, names_cuda
from cuenv.solve.observed import Record


def channel_records(channel: str, platform: str, names: Iterable[str] | None, sources: Sources) -> tuple[Record, ...]:
    """Read the records of packages, those for every platform among them.

    Args:
        channel: its name or URL.
        names: of the packages; ``None`` for all of the channel.

    Raises:
        ChannelError: the channel cannot be read.
        OutsideError: rattler failed.
    """
    channels = channels_of(sources.reaching((channel,)))
    with translated("the channel cannot be asked"):
        parts = channels.open((channel,), platform)
        names = channels.names(parts, platform) if names is None else names
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


def cuda_builds(
    packages: Iterable[LockedPackage], channels: Sequence[str], platform: str, sources: Sources
) -> dict[str, str]:
    """A CUDA build, by its build string, that a package's own channel has of the release that is locked.

    Args:
        packages: what is locked.
        channels: all that are read, in order.

    Raises:
        ChannelError: a channel cannot be read.
        OutsideError: rattler failed.
    """
    wanted = {(item.name, item.version, item.channel) for item in packages}
    opened = channels_of(sources.reaching(channels))
    with translated("the channels cannot be asked"):
        parts = opened.open(channels, platform)
        specs = [MatchSpec(f"{name}[version='=={release}']") for name, release, _ in sorted(wanted)]
        found = opened.find(parts, platform, specs)
    builds: dict[str, str] = {}
    for item in found:
        channel = strip_credentials(item.channel or "").rstrip("/")
        key, build = (item.name.normalized, str(item.version), channel), printable(str(item.build))
        if key in wanted and names_cuda(build):
            builds[key[0]] = max(builds.get(key[0], ""), build)
    return builds


def sizes_of(packages: Iterable[LockedPackage], platform: str, sources: Sources) -> dict[str, int]:
    """The bytes of packages that a lock does not say, by their hash; where a channel cannot be read they stay unknown.

    Args:
        packages: what is locked.
    """
    wanted: dict[str, dict[str, LockedPackage]] = {}
    for item in packages:
        if item.sha256 and not item.size:
            wanted.setdefault(item.channel, {})[item.sha256] = item
    found: dict[str, int] = {}
    for channel, some in wanted.items():
        names = sorted({(item.name, item.version) for item in some.values()})
        try:
            opened = channels_of(sources.reaching((channel,)))
            with translated("the channel cannot be asked"):
                parts = opened.open((channel,), platform)
                specs = [MatchSpec(f"{name}[version='=={release}']") for name, release in names]
                records = opened.find(parts, platform, specs)
        except CuenvError:
            continue
        for record in records:
            digest = record.sha256.hex() if record.sha256 else ""
            if digest in some and record.size:
                found[digest] = record.size
    return found
