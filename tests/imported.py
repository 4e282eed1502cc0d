"""Which modules a process imported."""

from __future__ import annotations

import re
import subprocess
import sys

HEAVY = {
    *("rattler", "conda_lock", "pynvml", "requests", "uv", "asyncio", "urllib.request", "http.client", "pydantic"),
    *("packaging.specifiers", "logging"),
    # Before Python 3.11 click itself imports it, through uuid and platform.
    *(("subprocess",) if sys.version_info >= (3, 11) else ()),
}
_LINE = re.compile(r"import time:\s+\d+ \|\s+\d+ \|\s+(\S+)")


def modules(done: subprocess.CompletedProcess[str]) -> set[str]:
    """The modules that a run with ``-X importtime`` says it imported."""
    return set(_LINE.findall(done.stderr))
