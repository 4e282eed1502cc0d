"""The least that a solve with py-rattler costs: the same specs, files and virtual packages, and nothing else.

Usage: python bare_solve.py QUESTION.json (as ``inputs.question`` writes it). Prints the number of packages.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from rattler import (
    Channel,
    ChannelPriority,
    Gateway,
    GenericVirtualPackage,
    MatchSpec,
    PackageName,
    SparseRepoData,
    Version,
    solve,
)
from rattler.package import BuildString


async def main(asked: dict[str, Any]) -> int:
    platform = asked["platform"]
    sources = [
        SparseRepoData(Channel(url), subdir, path)
        for url, place in asked["channels"]
        for subdir in (platform, "noarch")
        if (path := Path(place, subdir, "repodata.json")).exists()
    ]
    records = await solve(
        sources,
        [MatchSpec(text, strict=True) for text in asked["specs"]],
        gateway=Gateway(),
        platforms=[platform, "noarch"],
        virtual_packages=[
            GenericVirtualPackage(PackageName(name), Version(version), BuildString.new_unchecked(build))
            for name, version, build in asked["virtual"]
        ],
        channel_priority=ChannelPriority.Strict,
        channel_relations="disabled",
    )
    return len(records)


print(asyncio.run(main(json.loads(Path(sys.argv[1]).read_text()))))
sys.stdout.flush()
os._exit(0)  # rattler can kill an interpreter that finalises
