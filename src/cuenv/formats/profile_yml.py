"""Profiles as YAML: one that stands in the settings, and the beginning of a new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cuenv.formats.yaml_write import quote, scalar

_TEMPLATE = """\
# A profile: what a team wants from its environment. Remove what you have no wish about.
name: {name}
story: >-
  Who uses this, on which machines, and why it is as it is.

# GPUs that must be served, whatever machine asks, by name or capability, and the oldest driver among them.
# gpus: [RTX 3090, A100, "9.0"]
# lowest_driver: 535.129.03

# Versions: a prefix, exact or a range. Strings want quotes: 3.10 without them is the number 3.1.
# python: "3.12"
# pytorch: ">=2.5"
# cuda: "12.6"

# stack: conda-forge    # or pytorch; cuenv chooses when absent
# prefer: newest        # or native: a toolkit within the driver's CUDA level first
# dev: true             # compiler and headers for extensions that are built on first use

# Further conda packages, and requirements for the pip part.
# with: ["transformers>=4.36"]
# pip: ["deepspeed>=0.15"]
"""


def template(name: str) -> str:
    """A profile with every key explained, ready to be edited; it is valid as it stands."""
    return _TEMPLATE.format(name=scalar(name))


def render(data: Mapping[str, Any]) -> str:
    """A profile that was read from another format; the keys keep their order, empty texts are left out.

    Args:
        data: strings, booleans, numbers and lists of them.
    """
    return "".join(f"{scalar(key)}: {_value(value)}\n" for key, value in data.items() if value not in ("", None))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{quote(str(key))}: {_value(item)}' for key, item in value.items())}}}"
    return quote(value) if isinstance(value, str) else str(value)
