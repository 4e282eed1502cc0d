"""How the user's conda is told to reach channels, mirrors and credentials included, by a settings file of its own.

conda takes a mirror only as another base for a channel's name (``custom_channels``); a folder may have any name, since
a link with the right one leads to it. Credentials stand in that file alone: never in arguments, which anyone on the
machine can read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cuenv.errors import ChannelError, UsageError
from cuenv.lockfile import LockedPackage
from cuenv.urls import channel_url, printable, short_channel, strip_credentials
from cuenv.world.files import look
from cuenv.world.sources import HOST, Sources, place


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How conda reaches channels.

    Attributes:
        channels: what it is told to read, in order of priority.
        names: what it calls each channel of a requirement.
        settings: the content of its settings file; credentials included, so never shown.
        links: links to make, and the folders that they lead to.
        origins: pairs of a URL that conda will name and the canonical one that it stands for.
    """

    channels: tuple[str, ...]
    names: Mapping[str, str]
    settings: Mapping[str, Any] = field(repr=False)
    links: tuple[tuple[Path, Path], ...]
    origins: tuple[tuple[str, str], ...]

    def canonical(self, package: LockedPackage) -> LockedPackage:
        """The package with the canonical URL of its channel."""
        for seen, url in self.origins:
            if package.channel == seen:
                return replace(package, channel=url, url=url + package.url[len(seen) :])
        return package


def reach(channels: Sequence[str], named: Sequence[str], sources: Sources, scratch: Path) -> Reach:
    """Plan how conda reaches channels.

    Args:
        channels: of the environment, in order of priority; ``defaults`` is one.
        named: channels that requirements name.
        sources: mirrors, credentials, proxies, certificates.
        scratch: an empty folder for links.

    Raises:
        UsageError: a mirror is of a kind that conda cannot be told of.
        ChannelError: offline, and a channel is not a folder.
    """
    sources = sources.reaching((*channels, *named))
    plan = _Plan(sources, scratch)
    told = tuple(dict.fromkeys(plan.told(name) for name in channels))
    names = {name: plan.told(name) for name in named}
    return Reach(
        channels=told,
        names=names,
        settings={**dict(_settings(sources)), "custom_channels": plan.bases, **plan.defaults},
        links=tuple(plan.links),
        origins=tuple(plan.origins),
    )


class _Plan:
    """Names channels one by one, and collects what that takes."""

    def __init__(self, sources: Sources, scratch: Path) -> None:
        self.sources = sources
        self.scratch = scratch
        self.bases: dict[str, str] = {}
        self.defaults: dict[str, list[str]] = {}
        self.links: list[tuple[Path, Path]] = []
        self.origins: list[tuple[str, str]] = []
        self._names: dict[str, str] = {}

    def told(self, name: str) -> str:
        if name != "defaults":
            return self.name(name)
        names = [self.name(url) for url in self.sources.default_channels]
        self.defaults = {"default_channels": [f"{self.bases[item]}/{item}" for item in names]}  # no name is looked up
        return name

    def name(self, channel: str) -> str:
        """What conda is to call a channel."""
        url = strip_credentials(channel_url(channel)).rstrip("/")
        if url not in self._names:
            self._names[url] = self._planned(url)
        return self._names[url]

    def _planned(self, url: str) -> str:
        target = self.sources.target(url)
        path = short_channel(url)
        name = path if "://" not in path else path.partition("://")[2].partition("/")[2]
        if {"", ".", ".."} & set(name.split("/")):  # a link of that name would lie elsewhere
            raise UsageError(
                f"--engine conda-lock: {printable(path)} is no channel that conda could be told of",
                hint="leave out --engine conda-lock",
            )
        if "://" not in target or target.startswith("file://"):
            return self._folder(url, Path(place(target)), name)
        if self.sources.offline:
            raise ChannelError(
                f"offline, and conda-lock keeps no cache of channels: {short_channel(url)} is on the network",
                hint="leave out --engine conda-lock, or name folders with --mirror",
            )
        self.origins.append((strip_credentials(target).rstrip("/"), url))
        base, mark, last = target.rpartition(f"/{name}")
        if not mark or last or "://" not in base:
            raise UsageError(
                f"--engine conda-lock: conda reaches a mirror of {printable(path)} only where the URL ends with "
                f"/{printable(name)}, and this one is {printable(strip_credentials(target))}",
                hint="leave out --engine conda-lock, or make the mirror's last part the name of the channel",
            )
        return self._named(name, base)

    def _folder(self, url: str, folder: Path, name: str) -> str:
        if not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises where a folder above cannot be searched
            raise ChannelError(
                f"channel {printable(short_channel(url))}: {printable(str(folder))} is no folder", hint=look(folder)
            )
        base = self.scratch / str(len(self.links))
        self.links.append((base / name, folder))
        self.origins.append((f"file://{quote(str(base / name))}", url))
        return self._named(name, f"file://{quote(str(base))}")

    def _named(self, name: str, base: str) -> str:
        # Said of every channel: conda-lock would cut a channel's URL in a requirement down to its last part.
        if self.bases.get(name, base) != base:  # another host's channel of that name
            raise UsageError(
                f"--engine conda-lock: conda cannot tell two channels apart that are both called {printable(name)}",
                hint="leave out --engine conda-lock",
            )
        self.bases[name] = base
        return name


def _settings(sources: Sources) -> Iterator[tuple[str, Any]]:
    yield "channel_alias", HOST
    yield "channel_priority", "strict"
    if sources.proxies:
        yield "proxy_servers", dict(sources.proxies)
    if sources.certificates or not sources.verify:
        yield "ssl_verify", sources.certificates or False
    if sources.offline:
        yield "offline", True
