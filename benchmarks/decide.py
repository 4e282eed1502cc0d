"""How long deciding takes for ten thousand candidates, for ten thousand different hosts, and for both at once.

    python benchmarks/decide.py [--hosts 10000] [--candidates 10000]

Hosts differ in driver, GPUs and C library. More candidates than there are come from the torch builds of the tables
under further release numbers. Times are of the processor: one process, one core.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import replace

from measure import machine

from cuenv.core.versions import version
from cuenv.host.facts import Driver, Gpu, HostFacts, glibc
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.io.load import load
from cuenv.resolver.batch import choices
from cuenv.resolver.candidates import candidates
from cuenv.resolver.decision import decide
from cuenv.resolver.rules import Context

PLATFORM = "linux-64"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--candidates", type=int, default=10_000)
    options = parser.parse_args()
    print(f"{machine()}; CPU time of one run\n\n| what | CPU |\n|---|---|")
    _row("loading the tables", load)  # the first time: a process reads them once
    knowledge = load()
    hosts = made_up(options.hosts, knowledge)
    wide = widened(knowledge, options.candidates)
    among = candidates(wide, PLATFORM)[: options.candidates]
    own = len(candidates(knowledge, PLATFORM))
    _row(f"one host, the {own} candidates of the tables, every verdict", lambda: decide(_case(hosts[0], knowledge)))
    _row(
        f"one host, the {own} candidates of the tables, the choice alone",
        lambda: choices(hosts[:1], Request(), knowledge),
    )
    _row(f"one host, {len(among):,} candidates, every verdict", lambda: decide(_case(hosts[0], wide), among))
    _row(f"{len(hosts):,} hosts, the candidates of the tables", lambda: choices(hosts, Request(), knowledge))
    _row(
        f"{len(hosts):,} hosts, {len(among):,} candidates (goal 10 s)",
        lambda: choices(hosts, Request(), wide, among),
    )
    few = [replace(hosts[number % 50], label=f"node{number}") for number in range(len(hosts))]
    _row(f"{len(few):,} hosts of 50 kinds, folded", lambda: choices(few, Request(), knowledge))


def _case(facts: HostFacts, knowledge: Knowledge) -> Context:
    return Context(facts=facts, request=Request(), knowledge=knowledge)


def _row(name: str, what: Callable[[], object]) -> None:
    start = time.process_time()
    what()
    print(f"| {name} | {(time.process_time() - start) * 1000:.0f} ms |", flush=True)


def made_up(number: int, knowledge: Knowledge) -> list[HostFacts]:
    """Hosts of any driver, one to three kinds of GPU, and any C library; the same for the same number."""
    chance = random.Random(number)
    capabilities = [row.capability for row in knowledge.generations]
    branches = [row.number for row in knowledge.branches]
    found = []
    for index in range(number):
        driver = f"{chance.choice(branches)}.{chance.randint(40, 60)}.{chance.randint(1, 9):02}"
        kinds = chance.sample(capabilities, chance.choice((1, 1, 1, 2, 3)))
        found.append(
            HostFacts(
                label=f"node{index}",
                platform=PLATFORM,
                driver=Driver(version=driver, cuda=knowledge.cuda_of(driver)),
                gpus=tuple(Gpu(index=at, name="", capability=kind) for at, kind in enumerate(kinds)),
                libc=glibc(f"2.{chance.randint(17, 40)}"),
            )
        )
    return found


def widened(knowledge: Knowledge, number: int) -> Knowledge:
    """The tables with their torch builds repeated under further release numbers, for that many candidates."""
    times = -(-number // len(candidates(knowledge, PLATFORM)))
    here = [row for row in knowledge.torch if row.platform == PLATFORM]
    rows = [row.replaced(version=version(f"{row.version}.{step}")) for step in range(times) for row in here]
    return replace(knowledge, torch=tuple(rows))


if __name__ == "__main__":
    main()
