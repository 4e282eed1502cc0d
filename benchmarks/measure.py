"""What a process costs, and how two are compared: in turn, by the median of their ratios."""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one process with its children: seconds on the clock, seconds of processor, peak memory in MiB.

    The peak is that of the largest process; Linux counts it from the fork, so it is never below that of who measures.
    """

    wall: float
    cpu: float
    peak: float


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A command and a floor: the medians of each, and the medians of the ratios of runs beside each other."""

    command: Cost
    floor: Cost
    ratio: Cost


def cost(
    words: Sequence[str], folder: Path, *, variables: Mapping[str, str] | None = None, any_answer: bool = False
) -> Cost:
    """Run a process and wait for it.

    Raises:
        SystemExit: it failed, and not ``any_answer``.
    """
    start = time.perf_counter()
    with subprocess.Popen(
        words,
        cwd=folder,
        env={**os.environ, **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    if child.returncode and not any_answer:
        raise SystemExit(f"{' '.join(words)} ended with {child.returncode} in {folder}")
    return Cost(wall=wall, cpu=used.ru_utime + used.ru_stime, peak=used.ru_maxrss / 1024)


def instructions(words: Sequence[str], folder: Path) -> float:
    """The instructions of a run, in millions.

    Raises:
        SystemExit: valgrind is not there, or counts nothing.
    """
    counted = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *words)
    variables = {**os.environ, "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(counted, cwd=folder, env=variables, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        raise SystemExit("valgrind is not installed") from None
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise SystemExit(f"valgrind counts nothing of {' '.join(words)}: {done.stderr[-300:]}")
    return int(found[1]) / 1e6


def compare(command: Callable[[], Cost], floor: Callable[[], Cost], runs: int) -> Compared:
    """Both in turn (A B A B ...), after one of each to warm up: a busy machine slows both alike."""
    command()
    floor()
    pairs = [(command(), floor()) for _ in range(runs)]
    ratios = [
        Cost(wall=mine.wall / least.wall, cpu=mine.cpu / least.cpu, peak=mine.peak / least.peak)
        for mine, least in pairs
    ]
    return Compared(
        command=median([mine for mine, _ in pairs]), floor=median([least for _, least in pairs]), ratio=median(ratios)
    )


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each part."""
    return Cost(
        wall=statistics.median(item.wall for item in costs),
        cpu=statistics.median(item.cpu for item in costs),
        peak=statistics.median(item.peak for item in costs),
    )


def machine() -> str:
    """The processor, the load and the Python, for the head of a table."""
    cpu = "unknown processor"
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    load = os.getloadavg()[0]
    return f"{cpu}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}"


HEAD = "| what | wall | of floor | CPU | of floor | memory | of floor | goal |\n|---|---|---|---|---|---|---|---|"


def row(name: str, found: Compared, goal: str = "") -> str:
    """A row of a table under ``HEAD``."""
    mine, ratio = found.command, found.ratio
    return (
        f"| {name} | {mine.wall * 1000:.0f} ms | {ratio.wall:.2f} | {mine.cpu * 1000:.0f} ms | {ratio.cpu:.2f} "
        f"| {mine.peak:.0f} MiB | {ratio.peak:.2f} | {goal} |"
    )
