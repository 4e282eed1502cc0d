"""How long `cuenv scan` takes on real libraries, against `cuobjdump --list-elf` on the same files, and what memory.

    python benchmarks/scan.py FILE|FOLDER... [--cuobjdump PATH] [--runs 5]

The files are read once before, so that both find them in memory. cuobjdump (a wheel, nvidia-cuda-cuobjdump, carries
it) unpacks what it lists, and runs once per file; cuenv reads headers, and runs once for all. Peak memory is that of
the largest process. The target is a goal, not a test: the exit code says only whether everything ran.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cuenv.binary.code import read_code
from cuenv.binary.data import BinaryError
from cuenv.binary.elf import read_elf
from cuenv.binary.io.binaries import files_below, open_binary, scan

TARGET = 0.2
"""Seconds for a library of a gigabyte, warm."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, help="libraries, or folders that hold them")
    parser.add_argument("--cuobjdump", default=shutil.which("cuobjdump"), help="the program (default: that of PATH)")
    parser.add_argument("--runs", type=int, default=5, help="runs of cuenv; the median counts (default 5)")
    options = parser.parse_args()
    files = with_code(options.paths)
    if not files:
        parser.error("there is no device code in these paths")
    cuenv = [sys.executable, "-m", "cuenv", "scan", "--json", "--gpu", "8.0", *map(str, files)]
    measure(cuenv)
    taken = [measure(cuenv) for _ in range(options.runs)]
    whole, memory = statistics.median(seconds for seconds, _ in taken), max(peak for _, peak in taken)
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files)} files, {size / 1e9:.2f} GB; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'cuenv scan, one process':<44} {whole:8.3f} s {memory / 1024:7.0f} MB")
    largest = max(files, key=lambda path: path.stat().st_size)
    alone = statistics.median(in_process(largest) for _ in range(options.runs))
    verdict = "" if alone <= TARGET else "  above the target"
    title = f"reading {largest.name}, {largest.stat().st_size / 1e9:.2f} GB"
    print(f"{title:<44} {alone:8.3f} s, target {TARGET}{verdict}")
    if options.cuobjdump is None:
        print("cuobjdump was not measured: --cuobjdump PATH names one")
        return
    others = [measure([options.cuobjdump, "--list-elf", str(path)]) for path in files]
    theirs, peak = sum(seconds for seconds, _ in others), max(peak for _, peak in others)
    print(f"{'cuobjdump --list-elf, a process per file':<44} {theirs:8.3f} s {peak / 1024:7.0f} MB")
    print(f"ratio {theirs / whole:.0f}")


def with_code(paths: Sequence[Path]) -> list[Path]:
    """The files with device code; looking at them also brings their bytes into memory."""
    found = []
    for path in paths:
        every = [item for item in files_below(path) if isinstance(item, str)] if path.is_dir() else [str(path)]
        for name in every:
            try:
                holds = scan(name).holds_code
            except BinaryError:
                continue
            if holds:
                found.append(Path(name))
                with Path(name).open("rb") as stream:
                    while stream.read(1 << 24):
                        pass
    return found


def measure(words: Sequence[str]) -> tuple[float, int]:
    """Seconds and peak memory (KiB) of a process, whatever it answers: cuobjdump refuses some old architectures."""
    start = time.perf_counter()
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - start, used.ru_maxrss


def in_process(path: Path) -> float:
    """Seconds of reading one file, without the start of Python."""
    start = time.perf_counter()
    with open_binary(path) as data:
        read_code(data, read_elf(data))
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
