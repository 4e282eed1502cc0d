"""The wheels of torch in PyTorch's own indexes: a table that ships, and is never downloaded."""

from __future__ import annotations

import json
from functools import lru_cache

from cuenv.core.io.files import DATA
from cuenv.core.versions import Capability, version
from cuenv.prefix.torch_wheels import TorchWheel

_WHEELS = DATA / "pip" / "torch_wheels.json"


@lru_cache(maxsize=1)
def torch_wheels() -> tuple[TorchWheel, ...]:
    """The table, oldest release first."""
    return tuple(
        TorchWheel(
            torch=version(row["torch"]),
            tag=row["tag"],
            platforms=tuple(row["platforms"]),
            targets=tuple(map(Capability.parse, row["arch_list"].split(";"))),
        )
        for row in json.loads(_WHEELS.read_bytes())["wheels"]
    )
