"""The records of some packages, as tables, locks and repairs look them up. Import it lazily: it loads rattler."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from threading import Lock

from rattler import MatchSpec, RepoDataRecord

from cuenv.core.errors import CuenvError
from cuenv.core.urls import printable, short_channel, strip_credentials
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io.channels import channels_of, rattler_errors
from cuenv.solve.io.solver import is_from_channel, match_spec_or_none
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import LockedPackage, names_cuda
from cuenv.solve.observed import Record


def channel_records(channel: str, platform: str, names: Iterable[str] | None, sources: Sources) -> tuple[Record, ...]:
    """Read the records of packages, those for every platform among them.

    Args:
        names: of the packages; ``None`` for all of the channel.
    """
    channels = channels_of(sources.reaching((channel,)))
    with rattler_errors("the channel cannot be asked"):
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


def _records_of_releases(
    releases: Iterable[tuple[str, str]], channels: Sequence[str], platform: str, sources: Sources
) -> list[RepoDataRecord]:
    """The records of packages in the releases that are named."""
    opened = channels_of(sources.reaching(channels))
    with rattler_errors("the channels cannot be asked"):
        specs = [MatchSpec(f"{name}[version='=={release}']") for name, release in sorted(releases)]
        return opened.find(opened.open(channels, platform), platform, specs)


def cuda_builds(
    packages: Iterable[LockedPackage], channels: Sequence[str], platform: str, sources: Sources
) -> dict[str, str]:
    """A CUDA build, by its build string, that a package's own channel has of the release that is locked.

    Args:
        channels: all that are read, in order.
    """
    wanted = {(item.name, item.version, item.channel) for item in packages}
    found = _records_of_releases({(name, release) for name, release, _ in wanted}, channels, platform, sources)
    builds: dict[str, str] = {}
    for item in found:
        channel = strip_credentials(item.channel or "").rstrip("/")
        key, build = (item.name.normalized, str(item.version), channel), printable(str(item.build))
        if key in wanted and names_cuda(build):
            builds[key[0]] = max(builds.get(key[0], ""), build)
    return builds


def sizes_of(packages: Iterable[LockedPackage], platform: str, sources: Sources) -> dict[str, int]:
    """The bytes of packages that a lock does not say, by their hash; unknown where a channel cannot be read."""
    wanted: dict[str, dict[str, LockedPackage]] = {}
    for item in packages:
        if item.sha256 and not item.size:
            wanted.setdefault(item.channel, {})[item.sha256] = item
    found: dict[str, int] = {}
    for channel, some in wanted.items():
        try:
            records = _records_of_releases(
                {(item.name, item.version) for item in some.values()}, (channel,), platform, sources
            )
        except CuenvError:
            continue
        for record in records:
            digest = record.sha256.hex() if record.sha256 else ""
            if digest in some and record.size:
                found[digest] = record.size
    return found


_PYTHON = re.compile(r"python(?:_abi)?\s+(.*)")
_LOW, _HIGH, _ONE = (re.compile(text) for text in (r">=?\s*3\.(\d+)", r"<\s*3\.(\d+)", r"^={0,2}3\.(\d+)(?:[.*\s]|$)"))
_ELSEWHERE = frozenset({"__win", "__osx"})  # packages for every platform that require another system than Linux
_LAST = 30  # a minor of Python that no release will have soon


def _python_minors(depends: Iterable[str]) -> range:
    """The minors of Python 3 that the requirements of a package admit."""
    low, high = 0, _LAST
    for found in filter(None, map(_PYTHON.fullmatch, depends)):
        one, least, below = (pattern.search(found[1]) for pattern in (_ONE, _LOW, _HIGH))
        if one:
            return range(int(one[1]), int(one[1]) + 1)
        low = max(low, int(least[1]) if least else 0)
        high = min(high, int(below[1]) if below else _LAST)
    return range(low, high)


@lru_cache(maxsize=256)
def _channel(url: str) -> str:
    return strip_credentials(url).rstrip("/")


def _has_hash(record: RepoDataRecord) -> bool:
    return bool(record.sha256 or record.md5)


class RecordIndex:
    """The records of packages by name: of each those of the first channel that has it, as strict priority leaves them.

    A pin that names a channel is looked up there.
    """

    def __init__(self, names: Iterable[str], channels: Sequence[str], platform: str, sources: Sources) -> None:
        """Read the records."""
        reaching = sources.reaching(channels)
        self._opened = channels_of(reaching)
        self._parts = self._opened.open(channels, platform)
        self.platform = platform
        self._order = [url.rstrip("/") for url in reaching.urls(channels)]
        self._read: set[str] = set()
        self._records: dict[str, list[RepoDataRecord]] = {}
        self._first: dict[str, list[RepoDataRecord]] = {}
        self._had: dict[str, bool] = {}
        self._reading = Lock()
        self._pythons: dict[str, frozenset[int]] = {}
        self.read(names)

    def read(self, names: Iterable[str]) -> None:
        """Read the records of further names; several threads may ask for that."""
        with self._reading:
            self._read_new(names)

    def _read_new(self, names: Iterable[str]) -> None:
        new = sorted(set(names) - self._read)
        specs = [spec for name in new if (spec := match_spec_or_none(name)) is not None]
        with rattler_errors("the channels cannot be asked"):
            found = self._opened.find(self._parts, self.platform, specs) if new or not self._read else []
        self._read.update(new)
        mine: dict[str, list[RepoDataRecord]] = {}
        for record in found:
            everywhere = record.subdir == "noarch"  # what is for this platform requires no other system
            if not (everywhere and any(text.split()[0] in _ELSEWHERE for text in record.depends if text[:2] == "__")):
                mine.setdefault(record.name.normalized, []).append(record)
        self._records.update(mine)
        for name, records in mine.items():
            homes = [_channel(item.channel or "") for item in records]
            home = next((url for url in self._order if url in homes), "")
            self._first[name] = [item for item, url in zip(records, homes, strict=True) if url == home] or records

    def has(self, pin: Pin) -> bool:
        """Whether a record satisfies a pin; virtual packages always do."""
        text = pin.match_spec()
        if text not in self._had:
            self._had[text] = pin.name.startswith("__") or any(map(_has_hash, self._found(pin)))
        return self._had[text]

    def unhashed(self, pin: Pin) -> bool:
        """Whether records satisfy a pin, none of which a lock can hold: they have no hash."""
        found = self._found(pin)
        return bool(found) and not any(map(_has_hash, found))

    def home(self, pin: Pin) -> str:
        """The channel of the newest record that satisfies a pin; empty where there is none."""
        record = max(self._found(pin), key=lambda item: (item.version, item.build_number), default=None)
        return short_channel(strip_credentials(record.channel or "")) if record else ""

    def pythons(self, pin: Pin) -> frozenset[int]:
        """The minors of Python 3 for which there is a record that satisfies a pin."""
        text = pin.match_spec()
        if text not in self._pythons:
            self._pythons[text] = frozenset(
                minor for item in self._found(pin) for minor in _python_minors(item.depends)
            )
        return self._pythons[text]

    def _found(self, pin: Pin) -> list[RepoDataRecord]:
        text = pin.match_spec()
        spec = match_spec_or_none(text)
        if spec is None:
            return []
        records = (self._records if pin.channel else self._first).get(pin.name, [])
        if text == pin.name:
            return records
        return [item for item in records if is_from_channel(spec, item.channel) and spec.matches(item)]
