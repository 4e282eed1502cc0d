"""YAML by the C library, where PyYAML has it: ten times as fast as `yaml.safe_load` and `yaml.safe_dump`."""

from __future__ import annotations

from typing import Any

import yaml

from cuenv.core.yaml_read import LOADER

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def load(text: str) -> Any:
    return yaml.load(text, LOADER)


def dump(data: Any) -> str:
    return str(yaml.dump(data, Dumper=_DUMPER))
