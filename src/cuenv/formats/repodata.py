"""``repodata.json`` of a small channel: what solvers read of the packages that lie in one of its folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def render(subdir: str, records: Mapping[str, Mapping[str, Any]]) -> str:
    """Write the file, the same bytes for the same records.

    Args:
        subdir: platform or ``noarch``.
        records: file name to record, as ``info/index.json`` of the package has it, with hashes and size.
    """
    conda = {name: dict(record) for name, record in records.items() if name.endswith(".conda")}
    older = {name: dict(record) for name, record in records.items() if not name.endswith(".conda")}
    data = {"info": {"subdir": subdir}, "packages": older, "packages.conda": conda, "repodata_version": 1}
    return json.dumps(data, indent=1, sort_keys=True) + "\n"
