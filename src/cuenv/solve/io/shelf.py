"""The records of some packages that a solver may take, looked up without solving. Import this module lazily."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from rattler import RepoDataRecord

from cuenv.core.urls import short_channel, strip_credentials
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io.channels import channels_of, translated
from cuenv.solve.io.solver import from_channel, lenient
from cuenv.solve.io.sources import Sources

_PYTHON = re.compile(r"python(?:_abi)?\s+(.*)")
_LOW, _HIGH, _ONE = (re.compile(text) for text in (r">=?\s*3\.(\d+)", r"<\s*3\.(\d+)", r"^={0,2}3\.(\d+)(?:[.*\s]|$)"))
_ELSEWHERE = frozenset({"__win", "__osx"})
"""Packages for every platform that require another system than Linux."""
_LAST = 30
"""A minor of Python that no release will have soon."""


def _minors(depends: Iterable[str]) -> range:
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


def _pinnable(record: RepoDataRecord) -> bool:
    return bool(record.sha256 or record.md5)


class Shelf:
    """The records of packages by name: of each those of the first channel that has it, as strict priority leaves them.

    A pin that names a channel is looked up there.
    """

    def __init__(self, names: Iterable[str], channels: Sequence[str], platform: str, sources: Sources) -> None:
        """Read the records.

        Raises:
            ChannelError: a channel cannot be read.
            OutsideError: rattler failed.
        """
        reaching = sources.reaching(channels)
        opened = channels_of(reaching)
        self._sources, self.platform = opened.sources, platform
        order = [url.rstrip("/") for url in reaching.urls(channels)]
        self._records: dict[str, list[RepoDataRecord]] = {}
        specs = [spec for name in sorted(set(names)) if (spec := lenient(name)) is not None]
        with translated("the channels cannot be asked"):
            found = opened.find(opened.open(channels, platform), platform, specs)
        for record in found:
            if _ELSEWHERE.isdisjoint(word for text in record.depends for word in text.split()[:1]):
                self._records.setdefault(record.name.normalized, []).append(record)
        self._first: dict[str, list[RepoDataRecord]] = {}
        self._had: dict[str, bool] = {}
        for name, records in self._records.items():
            homes = [_channel(item.channel or "") for item in records]
            home = next((url for url in order if url in homes), "")
            mine = [item for item, url in zip(records, homes, strict=True) if url == home]
            self._first[name] = mine or records

    def has(self, pin: Pin) -> bool:
        """Whether a record satisfies a pin; virtual packages always do."""
        text = pin.match_spec()
        if text not in self._had:
            self._had[text] = pin.name.startswith("__") or any(map(_pinnable, self._found(pin)))
        return self._had[text]

    def unhashed(self, pin: Pin) -> bool:
        """Whether records satisfy a pin, none of which a lock can hold: they have no hash."""
        found = self._found(pin)
        return bool(found) and not any(map(_pinnable, found))

    def home(self, pin: Pin) -> str:
        """The channel of the newest record that satisfies a pin; empty where there is none."""
        record = max(self._found(pin), key=lambda item: (item.version, item.build_number), default=None)
        return short_channel(strip_credentials(record.channel or "")) if record else ""

    def pythons(self, pin: Pin) -> frozenset[int]:
        """The minors of Python 3 for which there is a record that satisfies a pin."""
        return frozenset(minor for item in self._found(pin) for minor in _minors(item.depends))

    def _found(self, pin: Pin) -> list[RepoDataRecord]:
        spec = lenient(pin.match_spec())
        if spec is None:
            return []
        records = self._records if pin.channel else self._first
        return [item for item in records.get(pin.name, ()) if from_channel(spec, item.channel) and spec.matches(item)]
