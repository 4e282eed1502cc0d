"""Judging another solver's answer by rattler's own rules. Import this module lazily: it imports rattler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cuenv.environment import Pin
from cuenv.facts import VirtualPackage
from cuenv.lockfile import LockedPackage, Solution
from cuenv.specs import split_name
from cuenv.urls import short_channel, strip_credentials
from cuenv.world.solve import matches, readable
from cuenv.world.sources import Sources

_NOWHERE = "https://virtual.invalid"
"""The channel of virtual packages: a record needs one."""


def unmet(pins: Iterable[Pin], solution: Solution, channels: Sequence[str], sources: Sources) -> Iterator[str]:
    """Say what a solved environment does not meet: requirements of the file, of its packages, and where they come from.

    A requirement that rattler cannot read is not judged.

    Args:
        pins: of the environment file.
        solution: the answer, with its packages as their channels record them.
        channels: of the environment file.
        sources: what ``defaults`` stands for.
    """
    there = {package.name: package for package in solution.packages}
    there |= {package.name: _as_package(package, solution.platform) for package in solution.virtual_packages}
    for pin in pins:
        text = _without_channel(pin) if pin.name.startswith("__") else pin.match_spec()
        package = there.get(pin.name)
        if package is None or not matches(text, package):
            yield f"{pin.yaml_text()}: {_found(package)}"
    known = sources.reaching(channels).urls(channels)
    for package in solution.packages:
        if package.channel not in known:
            yield f"{package.name} comes from {short_channel(strip_credentials(package.channel))}"
        yield from _of_package(package, there)


def _of_package(package: LockedPackage, there: Mapping[str, LockedPackage]) -> Iterator[str]:
    """What the requirements of one package do not get."""
    for text in package.depends:
        other = there.get(split_name(text)[0])
        if readable(text) and (other is None or not matches(text, other)):
            yield f"{package.name} needs {text}: {_found(other)}"
    for text in package.constrains:
        other = there.get(split_name(text)[0])
        if other and readable(text) and not matches(text, other):
            yield f"{package.name} allows {text}: {_found(other)}"


def _without_channel(pin: Pin) -> str:
    return pin.match_spec().rpartition("::")[2]


def _as_package(package: VirtualPackage, platform: str) -> LockedPackage:
    return LockedPackage(
        name=package.name,
        version=package.version,
        build=package.build,
        subdir=platform,
        channel=_NOWHERE,
        url=f"{_NOWHERE}/{platform}/{package.name}-{package.version}-{package.build}.conda",
        md5=None,
        sha256=None,
    )


def _found(package: LockedPackage | None) -> str:
    if package is None:
        return "it is not there"
    home = f"{package.channel_name}::" if not package.name.startswith("__") else ""
    return f"there is {home}{package.name} {package.version} {package.build}"
