"""Read the facts that Ansible gathers: ``ansible -m setup``, its fact cache, ``ansible-inventory --list``.

The facts contain the processor and the kernel; cuenv's local fact (``ansible_local.cuenv``) is a whole host.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cuenv.core.regex import regex
from cuenv.host.paste.reader import DocumentReader, PastedFact, as_text, evidence_text

_MACHINES = ("x86_64", "aarch64")


_PAYLOAD = "__payload__"
_PREFIX = regex(r"^s[0-9]+_")  # the prefix of file names in the cache since ansible-core 2.19


def unpack(data: object) -> object:
    """The facts in a cache file of ansible-core 2.19 or later, which contains them as a string; other data unchanged.

    Raises:
        ValueError: that string is not JSON.
    """
    inner = data.get(_PAYLOAD) if isinstance(data, dict) else None
    return json.loads(inner) if isinstance(inner, str) else data


def host_name(data: object, file: str) -> str:
    """The name of a host, by the name of its file in the cache."""
    return _PREFIX.sub("", file) if isinstance(data, dict) and _PAYLOAD in data else file


def hosts_of(data: object, name: str = "") -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """The facts of each host with its name; empty if Ansible did not write the document."""
    try:
        data = unpack(data)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(data, dict):
        return ()
    meta = data.get("_meta")
    inventory = meta.get("hostvars") if isinstance(meta, dict) else None
    if isinstance(inventory, dict):
        return tuple((str(key), _facts(value)) for key, value in inventory.items() if isinstance(value, dict))
    inner = _facts(data)
    known = isinstance(data.get("ansible_facts"), dict) or any(key.startswith("ansible_") for key in inner)
    own = name or next((text for key in _NAMES if (text := as_text(inner.get(key)))), "")
    return ((own, inner),) if known else ()


_NAMES = ("inventory_hostname", "ansible_nodename", "nodename", "ansible_hostname", "hostname", "ansible_fqdn")


def _facts(data: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = data.get("ansible_facts")
    return inner if isinstance(inner, dict) else data


def cuenv_record(facts: Mapping[str, Any]) -> object:
    """The host that cuenv wrote as a local fact; ``None`` without it."""
    local = facts.get("ansible_local", facts.get("local"))
    return local.get("cuenv") if isinstance(local, dict) else None


def looks_like(data: object) -> bool:
    """Whether Ansible wrote it."""
    return bool(hosts_of(data))


def read(data: Any, line: int) -> tuple[PastedFact, ...]:
    """The processor and the kernel of each host."""
    return tuple(item for name, facts in hosts_of(data) for item in _facts_of_host(name, facts, line))


def _facts_of_host(name: str, facts: Mapping[str, Any], line: int) -> Iterator[PastedFact]:
    def value(key: str) -> str:
        return as_text(facts.get(f"ansible_{key}", facts.get(key)))

    if value("architecture") in _MACHINES:
        yield PastedFact(
            "machine",
            value("architecture"),
            line,
            evidence_text(f"ansible_architecture {value('architecture')}"),
            "",
            name,
        )
    if value("system") not in ("", "Linux"):
        system = {"Win32NT": "Windows", "Darwin": "macOS"}.get(value("system"), value("system"))
        yield PastedFact("system", system, line, evidence_text(f"ansible_system {value('system')}"), "", name)
    elif value("kernel"):
        yield PastedFact("kernel", value("kernel"), line, evidence_text(f"ansible_kernel {value('kernel')}"), "", name)


DOCUMENT = DocumentReader("Ansible", looks_like, read)
