"""Reading environment files and locks, and what a lock remembers of its inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cuenv.environment import EnvironmentSpec
from cuenv.errors import InputError
from cuenv.facts import HostFacts, VirtualPackage, virtual_packages
from cuenv.lock import Lock, digest
from cuenv.world.files import read_text

LOCK_NAME = "conda-lock.yml"


def read_environment(path: Path) -> tuple[EnvironmentSpec, tuple[str, ...]]:
    """Read an environment file.

    Raises:
        InputError: it is not there or not valid.
    """
    from cuenv.formats import environment_yml  # noqa: PLC0415 - YAML is read by lock and check only

    if not path.exists():
        raise InputError(f"{path} is not there", hint=f"cuenv resolve -o {path}")
    return environment_yml.parse(read_text(path), str(path))


def spec_digest(spec: EnvironmentSpec) -> str:
    """Digest over what an environment file says; comments and order of keys do not count."""
    pins = [[pin.channel, pin.name, pin.version, pin.build] for pin in spec.pins]
    parts = [spec.channels, sorted(pins), spec.platforms, sorted(spec.pip), sorted(spec.variables.items())]
    return digest(json.dumps(parts))


def read_lock(path: Path) -> Lock:
    """Read a lock: ``conda-lock.yml`` or an explicit file.

    Raises:
        InputError: it is not there or not valid.
    """
    from cuenv.formats import conda_lock_v1, explicit_txt  # noqa: PLC0415 - YAML is read by lock and check only

    text = read_text(path)
    if any(line.strip() == "@EXPLICIT" for line in text.splitlines()[:200]):
        solution = explicit_txt.parse(text, str(path))
        return Lock(channels=(), sources=(), solutions=(solution,))
    return conda_lock_v1.parse(text, str(path))


def host_metadata(facts: HostFacts) -> dict[str, str]:
    """The host as the lock remembers it."""
    packages = virtual_packages(replace(facts, platform="linux-64"))
    found = {"cuenv_virtual_packages": " ".join(str(item) for item in packages if item.name != "__archspec")}
    if facts.capabilities:
        found["cuenv_gpus"] = " ".join(str(item) for item in facts.capabilities)
    if facts.driver and facts.driver.version:
        found["cuenv_driver"] = facts.driver.version
    return found


def recorded_virtual_packages(metadata: Mapping[str, str]) -> tuple[VirtualPackage, ...]:
    """The virtual packages that a lock remembers."""
    found = []
    for item in metadata.get("cuenv_virtual_packages", "").split():
        name, _, rest = item.partition("=")
        number, _, build = rest.partition("=")
        found.append(VirtualPackage(name, number, build or "0"))
    return tuple(found)
