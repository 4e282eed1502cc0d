"""Where the time of locking a whole profile goes; prints milliseconds of each phase as JSON.

Usage: python phases.py PROFILE MONOTONIC -- words of `cuenv lock`, in a folder with its environment.yml. MONOTONIC is
the clock when the process was started. ``resolve`` decides the profile anew, without a solver; ``judge`` is what
remains: reading the file and the tables, and every finding.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

spent: dict[str, float] = {"start": time.monotonic() - float(sys.argv[2])}


def timed(module: Any, name: str, phase: str) -> None:
    """Let a function of a module count for a phase."""
    inner: Callable[..., Any] = getattr(module, name)

    def outer(*args: Any, **more: Any) -> Any:
        begin = time.monotonic()
        try:
            return inner(*args, **more)
        finally:
            spent[phase] = spent.get(phase, 0.0) + time.monotonic() - begin

    setattr(module, name, outer)


def main(profile: str, words: list[str]) -> None:
    begin = time.monotonic()
    from cuenv.config.io.profiles import read_profile  # noqa: PLC0415 - as above
    from cuenv.host.select import HostOptions, host_facts  # noqa: PLC0415 - its time counts
    from cuenv.knowledge.io.load import load  # noqa: PLC0415 - as above
    from cuenv.resolver.resolve import resolve  # noqa: PLC0415 - as above

    request = read_profile(profile)
    knowledge = load()
    facts = host_facts(HostOptions(gpus=request.gpus, driver=request.lowest_driver), knowledge)
    resolve(facts, request, knowledge)
    spent["resolve"] = time.monotonic() - begin

    begin = time.monotonic()
    from cuenv.cli.main import cli  # noqa: PLC0415 - as above
    from cuenv.lockfile import lock as locking  # noqa: PLC0415 - as above
    from cuenv.solve.io import solver as solve  # noqa: PLC0415 - as above

    spent["import"] = time.monotonic() - begin
    timed(solve, "open_ahead", "solve")
    timed(solve, "solve", "solve")
    timed(locking, "lock_pip", "pip")
    timed(locking, "write_formats", "write")
    begin = time.monotonic()
    if cli(["lock", *words], standalone_mode=False):
        raise SystemExit("cuenv lock refused")
    whole = time.monotonic() - begin
    spent["judge"] = whole - sum(spent[name] for name in ("solve", "pip", "write"))


main(sys.argv[1], sys.argv[4:])
print(json.dumps({name: value * 1000 for name, value in spent.items()}))
sys.stdout.flush()
os._exit(0)  # rattler can kill an interpreter that finalises
