"""What conda-lock is given to read: an environment file and a specification of virtual packages.

conda-lock keeps one requirement for each name (the last one), takes comments with brackets for selectors, and knows
``defaults`` and channel names as conda does. So requirements on one name become one, no comment is written, and both
files are JSON, which every YAML reader takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cuenv.environment import EnvironmentSpec, Pin, together
from cuenv.facts import VirtualPackage


def environment(spec: EnvironmentSpec, channels: Iterable[str], names: Mapping[str, str], platform: str) -> str:
    """The conda part of an environment file. The pip part stays with uv, and virtual packages are no requirement here.

    Args:
        spec: what is locked.
        channels: as conda is told of them.
        names: what conda calls the channels that pins name.
        platform: the one to solve for.
    """
    pins = [pin for pin in joined(spec.pins) if not pin.name.startswith("__")]
    renamed = (replace(pin, channel=names.get(pin.channel, pin.channel)) for pin in pins)
    document = {
        "channels": list(channels),
        "platforms": [platform],
        "dependencies": [pin.yaml_text() for pin in renamed],
    }
    return json.dumps(document, indent=1) + "\n"


def virtual_packages(packages: Iterable[VirtualPackage], platform: str) -> str:
    """The virtual packages of a platform, as ``--virtual-package-spec`` reads them."""
    known = {package.name: _version(package) for package in packages}
    return json.dumps({"subdirs": {platform: {"packages": known}}}, indent=1) + "\n"


def joined(pins: Iterable[Pin]) -> tuple[Pin, ...]:
    """The pins with one for each name, which holds what all on that name demand of the version.

    Of several channels and builds only one can be told to conda-lock; whether its answer meets the others is asked
    afterwards.
    """
    found: dict[str, list[Pin]] = {}
    for pin in pins:
        found.setdefault(pin.name, []).append(pin)
    return tuple(same[0] if len(same) == 1 else _join(same) for same in found.values())


def _join(pins: list[Pin]) -> Pin:
    return Pin(
        name=pins[0].name,
        version=together(pin.condition() for pin in pins),
        build=max((pin.build for pin in pins), key=len),
        channel=next((pin.channel for pin in pins if pin.channel), ""),
    )


def _version(package: VirtualPackage) -> str:
    """``1 x86_64`` where the build says something; conda-lock fills in the build 0 by itself."""
    return package.version if package.build in ("", "0") else f"{package.version} {package.build}"
