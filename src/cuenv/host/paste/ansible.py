"""What Ansible gathers of a host: ``ansible -m setup``, its fact cache, ``ansible-inventory --list``.

The facts tell machine and kernel; what cuenv tells as a local fact (``ansible_local.cuenv``) is a whole host.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cuenv.core.regex import regex
from cuenv.host.paste.told import DocumentReader, Told, shown, textual

_MACHINES = ("x86_64", "aarch64")


_PAYLOAD = "__payload__"
_PREFIX = regex(r"^s[0-9]+_")
"""What ansible-core puts before the name of a host from 2.19 on, where the file has a payload."""


def unpacked(data: object) -> object:
    """The facts in a file of the cache of ansible-core 2.19 and later, which holds them as a text; any other as it is.

    Raises:
        ValueError: that text is not JSON.
    """
    inner = data.get(_PAYLOAD) if isinstance(data, dict) else None
    return json.loads(inner) if isinstance(inner, str) else data


def called(data: object, file: str) -> str:
    """The name of a host by that of its file in the cache."""
    return _PREFIX.sub("", file) if isinstance(data, dict) and _PAYLOAD in data else file


def hosts_of(data: object, name: str = "") -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """The facts of each host by its name; nothing where Ansible wrote no such document."""
    try:
        data = unpacked(data)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(data, dict):
        return ()
    meta = data.get("_meta")
    inventory = meta.get("hostvars") if isinstance(meta, dict) else None
    if isinstance(inventory, dict):
        return tuple((str(key), _bare(value)) for key, value in inventory.items() if isinstance(value, dict))
    inner = _bare(data)
    known = isinstance(data.get("ansible_facts"), dict) or any(key.startswith("ansible_") for key in inner)
    own = name or next((text for key in _NAMES if (text := textual(inner.get(key)))), "")
    return ((own, inner),) if known else ()


_NAMES = ("inventory_hostname", "ansible_nodename", "nodename", "ansible_hostname", "hostname", "ansible_fqdn")


def _bare(data: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = data.get("ansible_facts")
    return inner if isinstance(inner, dict) else data


def own_of(facts: Mapping[str, Any]) -> object:
    """What cuenv told of the host as a local fact."""
    local = facts.get("ansible_local", facts.get("local"))
    return local.get("cuenv") if isinstance(local, dict) else None


def looks_like(data: object) -> bool:
    """Whether Ansible wrote it."""
    return bool(hosts_of(data))


def read(data: Any, line: int) -> tuple[Told, ...]:
    """Machine and kernel of each host."""
    return tuple(item for name, facts in hosts_of(data) for item in _one(name, facts, line))


def _one(name: str, facts: Mapping[str, Any], line: int) -> Iterator[Told]:
    def value(key: str) -> str:
        return textual(facts.get(f"ansible_{key}", facts.get(key)))

    if value("architecture") in _MACHINES:
        yield Told(
            "machine", value("architecture"), line, shown(f"ansible_architecture {value('architecture')}"), "", name
        )
    if value("system") not in ("", "Linux"):
        system = {"Win32NT": "Windows", "Darwin": "macOS"}.get(value("system"), value("system"))
        yield Told("system", system, line, shown(f"ansible_system {value('system')}"), "", name)
    elif value("kernel"):
        yield Told("kernel", value("kernel"), line, shown(f"ansible_kernel {value('kernel')}"), "", name)


DOCUMENT = DocumentReader("Ansible", looks_like, read)
