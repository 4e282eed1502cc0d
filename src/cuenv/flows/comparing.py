"""Compare: two locks, judged for the hosts that they were made for, or for the one that the options name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cuenv.facts import HostFacts
from cuenv.flows.hosts import HostOptions, host_facts
from cuenv.flows.lock_files import lock_file, read_lock, recorded_host
from cuenv.host_text import host_line
from cuenv.knowledge import Knowledge
from cuenv.lock_diff import LockDiff, diff


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A difference, and where the two locks were read."""

    diff: LockDiff
    old: str
    new: str


def compare(old: Path, new: Path, options: HostOptions, knowledge: Knowledge) -> Compared:
    """Compare two locks.

    Args:
        old: a lock, or a folder that holds ``conda-lock.yml``.
        new: see ``old``.
        options: the host to judge both for; without any, the hosts that the locks were made for.
        knowledge: the tables.

    Raises:
        InputError: a lock cannot be read.
    """
    first, second = read_lock(old), read_lock(new)
    if options.given:
        hosts = [host_facts(options, knowledge)]
    else:
        nowhere = HostFacts(label="", platform="")
        recorded = (recorded_host(item, nowhere, knowledge) for item in (first, second))
        hosts = list({host_line(host): host for host in recorded if host}.values())
    return Compared(diff=diff(first, second, hosts, knowledge), old=str(lock_file(old)), new=str(lock_file(new)))
