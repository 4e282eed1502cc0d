"""The ``content_hash`` of ``conda-lock.yml``, computed as conda-lock computes it.

CEP 37 asks only for a SHA-256; ``conda-lock lock --check-input-hash`` compares it with its own. Equal for the file
that cuenv writes. Requirements for pip with URLs, markers or options have no equal hash: conda-lock then locks anew.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from cuenv.environment import EnvironmentSpec, Pin
from cuenv.facts import VirtualPackage
from cuenv.urls import strip_credentials

_TIMESTAMP = 1577854800000  # the first of January 2020; conda-lock gives it to every virtual package
_ANACONDA = frozenset({"pkgs/main", "pkgs/r", "pkgs/msys2"})
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?\s*([<>=!~][^;@]*)?")


def content_hash(spec: EnvironmentSpec, platform: str, virtual_packages: tuple[VirtualPackage, ...]) -> str:
    """The hash of one platform, as hex.

    Args:
        spec: the environment file.
        platform: such as ``linux-64``.
        virtual_packages: those that conda-lock would read from a ``virtual-packages.yml``.
    """
    conda = {pin.name: _conda(pin) for pin in spec.pins}
    if spec.pip:
        conda["pip"] = _row("pip", "conda", "*")
    pip = {row["name"]: row for row in map(_pip, spec.pip)}
    content = {
        "channels": [
            json.dumps({"url": url, "used_env_vars": []}, separators=(",", ":"), ensure_ascii=False)
            for url in map(strip_credentials, spec.channels)
            if url != "nodefaults"
        ],
        "specs": sorted([*conda.values(), *pip.values()], key=lambda row: (row["manager"], row["name"])),
        "virtual_package_hash": {
            "noarch": {"info": {"subdir": "noarch"}, "packages": {}},
            platform: {
                "info": {"subdir": platform},
                "packages": dict(_virtual(package, platform) for package in virtual_packages),
            },
        },
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _row(name: str, manager: str, version: str, **more: Any) -> dict[str, Any]:
    row = {"name": name, "manager": manager, "category": "main", "extras": [], "version": version}
    return {**row, "build": None, "conda_channel": None, "hash": None, **more}


def _conda(pin: Pin) -> dict[str, Any]:
    """What conda's own reader makes of `Pin.yaml_text`."""
    version = pin.version
    if "[" not in pin.yaml_text():
        version = version.removeprefix("==")
        bare = version and version[0] not in "<>=!~" and not set(version) & set("*,|")
        if pin.build:
            version = version or "*"
        elif bare and version == pin.version:
            version += ".*"
    return _row(pin.name, "conda", version, build=pin.build or None, conda_channel=_channel(pin.channel))


def _channel(text: str) -> str | None:
    """The canonical name of a channel: its path, whatever the host; Anaconda's own are ``defaults``."""
    name = strip_credentials(text).rstrip("/")
    name = name.partition("://")[2].partition("/")[2] if "://" in name else name
    return "defaults" if name in _ANACONDA else name or None


def _pip(requirement: str) -> dict[str, Any]:
    text, _, digest = requirement.partition(" --hash=")
    found = _REQUIREMENT.fullmatch(text.strip())
    if not found:
        return _row(requirement, "pip", "*")
    parts = sorted(part.replace(" ", "") for part in (found[3] or "").split(",") if part.strip())
    extras = sorted({extra.strip() for extra in (found[2] or "").split(",")} - {""})
    name = re.sub(r"[-_.]+", "-", found[1]).lower()
    return _row(name, "pip", ",".join(parts) or "*", extras=extras, hash=digest or None)


def _virtual(package: VirtualPackage, platform: str) -> tuple[str, dict[str, Any]]:
    """The record of a virtual package in conda-lock's imitation of a channel, by its file name."""
    name_of_build = "" if package.build == "0" else package.build
    build = f"{name_of_build}_0" if name_of_build else "0"
    return f"{package.name}-{package.version}-{build}.tar.bz2", {
        "name": package.name,
        "version": package.version,
        "build_string": name_of_build,
        "build_number": 0,
        "build": build,
        "noarch": "",
        "depends": [],
        "timestamp": _TIMESTAMP,
        "package_type": "virtual_system",
        "subdir": platform,
    }
