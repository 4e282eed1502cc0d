"""This machine's C library, kernel and platform, without its driver and GPUs."""

from __future__ import annotations

import os
from pathlib import Path

from cuenv.facts import Evidence, Gap, HostFacts, Libc
from cuenv.world import system


def bare_facts(label: str) -> HostFacts:
    """What options leave open about a host: the C library, kernel and platform of this machine.

    Args:
        label: what to call the host in sentences.
    """
    name = os.uname()
    libc, kernel = system.libc(os.confstr), system.kernel(Path("/"))
    evidence = [Evidence("platform", "this machine: uname", name.machine)]
    if isinstance(libc, Libc):
        evidence.append(Evidence("libc", "this machine: confstr", f"{libc.family} {libc.version}"))
    return HostFacts(
        label=label,
        platform=system.platform_of(name.sysname, name.machine),
        libc=libc if isinstance(libc, Libc) else None,
        kernel=kernel if isinstance(kernel, str) else None,
        evidence=tuple(evidence),
        gaps=tuple(item for item in (libc, kernel) if isinstance(item, Gap)),
    )
