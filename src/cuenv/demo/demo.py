"""Demo: the whole line on a sample channel, in a scratch folder, without conda and without network."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from cuenv.core.errors import Progress
from cuenv.core.findings import Report, report
from cuenv.core.record import dataclass
from cuenv.host.describe import host_options
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, host_facts, this_machine
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.check import check
from cuenv.lockfile.files import LOCK_NAME
from cuenv.lockfile.lock import Locked, LockRequest, lock
from cuenv.prefix.lock_comparison import conda_findings
from cuenv.resolver.resolve import Resolution, resolve
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Solution

RECORDED = "rtx4090-535"  # the recorded host of the demo on a machine without NVIDIA GPU


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """The result of ``cuenv demo``: the host, the decision, the sample and what its checks found."""

    facts: HostFacts
    recorded: bool  # the host is a recorded one, as this machine has no NVIDIA GPU
    resolution: Resolution
    locked: Locked | None = None
    reports: tuple[Report, ...] = ()  # of the lock, of the prefix
    prefix: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether every step had the expected result."""
        return bool(self.locked and self.locked.lock and self.prefix) and not any(item.errors for item in self.reports)


def demonstrate(folder: Path, environ: Mapping[str, str], knowledge: Knowledge, say: Progress) -> Demonstration:
    """Run every step in a folder: host, decision, environment file, lock, check, install, check again.

    Args:
        folder: scratch; the sample channel, the files and the prefix go there.
    """
    from cuenv.core.io.writing import write_atomically  # noqa: PLC0415 - only once the demo runs
    from cuenv.demo.io.sample import write_sample  # noqa: PLC0415 - as above
    from cuenv.solve.environment_yml import render  # noqa: PLC0415 - as above

    facts = this_machine(environ, knowledge)
    recorded = not facts.gpus
    options = HostOptions(hosts=(RECORDED,), environ=environ) if recorded else HostOptions(environ=environ)
    if recorded:
        facts = host_facts(options, knowledge)
    sources = Sources(mirrors=write_sample(folder / "channels", facts.platform), cache=str(folder / "cache"))
    say("resolve")
    resolution = resolve(facts, Request(), knowledge, name="demo", prove=sources)
    if resolution.spec is None:
        return Demonstration(facts=facts, recorded=recorded, resolution=resolution)
    path = folder / "environment.yml"
    write_atomically(path, render(resolution.spec))
    say("lock")
    locked = lock(LockRequest(path=path, host=options, sources=sources), knowledge)
    if locked.lock is None:
        return Demonstration(facts=facts, recorded=recorded, resolution=resolution, locked=locked)
    say("check")
    checked = check(folder / LOCK_NAME, options, knowledge).report
    say("install")
    prefix = folder / "env"
    installed = _install(locked.lock.solutions[0], prefix, sources)
    return Demonstration(
        facts=facts,
        recorded=recorded,
        resolution=resolution,
        locked=locked,
        reports=(checked, installed),
        prefix=prefix,
    )


def _install(solution: Solution, prefix: Path, sources: Sources) -> Report:
    from cuenv.install.io.installer import install  # noqa: PLC0415 - the installer is heavy
    from cuenv.prefix.io.prefix import find_prefix  # noqa: PLC0415 - as above

    install(solution, prefix, sources)
    made = find_prefix(prefix)
    return report(str(prefix), conda_findings(made, solution), (f"{len(made.conda)} packages installed",))


def commands_for_real_channels(facts: HostFacts, *, recorded: bool) -> tuple[str, ...]:
    """The commands that do the same on the real channels."""
    host = host_options(facts) if recorded else ()
    words = (("lock", "--resolve", *host), ("check", *host))
    return tuple(shlex.join(["cuenv", *item]) for item in words)
