"""How long whole processes take, as ratios to the least that they could take.

    python benchmarks/run.py [--records DIR] [--runs 11]

With records the full lock of a profile with a pip part is measured as well, split by phase; its index is that of
whoever runs it, and is asked once, to fill uv's cache.

Each pair runs in turn (A B A B ...), so that a busy machine slows both alike; compared are the medians. The
targets are goals, not tests: the exit code says only whether everything ran.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import full_lock
import inputs

FLOOR = (sys.executable, "-c", "import click, yaml")
BARE = Path(__file__).with_name("bare_solve.py")


def _nothing() -> None:
    return


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A command, what it is measured against, and the ratio that it should stay below."""

    name: str
    command: Sequence[str]
    floor: Sequence[str]
    target: float
    folder: Path
    before: Callable[[], object] = _nothing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, help="folder with conda-forge/, pytorch/ and nvidia/: real records")
    parser.add_argument("--runs", type=int, default=11, help="runs of each command; the median counts (default 11)")
    options = parser.parse_args()
    records = options.records.resolve() if options.records else None
    if records and not (records / "conda-forge").is_dir():
        parser.error(f"--records {options.records}: there is no folder conda-forge in it")
    # As for a user: compiled modules are kept, and nothing about this machine's conda is read.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="cuenv-bench-") as scratch:
        os.environ["CUENV_CACHE_DIR"] = f"{scratch}/cache"
        full = full_lock.prepare(Path(scratch) / "full", records) if records else "no records"
        found = pairs(Path(scratch), records)
        found += [_full_pair(full)] if isinstance(full, full_lock.FullLock) else []
        _report([(pair, *_measure(pair, options.runs)) for pair in found], options.runs)
        if isinstance(full, full_lock.FullLock):
            _phases(full.phases(options.runs))
        elif records:
            print(f"the full lock of {full_lock.PROFILE} was not measured: {full}")
    if records is None:
        print("cuenv lock was not measured: --records DIR names real channel records")


def pairs(scratch: Path, records: Path | None) -> list[Pair]:
    """What is measured."""
    cuenv = _console_script()
    checked = scratch / "check"
    checked.mkdir()
    lock, size = inputs.real_lock(checked, records) if records else inputs.made_up_lock(checked)
    kind = "real" if records else "made-up"
    found = [
        Pair(
            name=f"cuenv resolve --host {inputs.HOST}",
            command=(cuenv, "resolve", "--host", inputs.HOST),
            floor=FLOOR,
            target=2.5,
            folder=scratch,
        ),
        Pair(
            name=f"cuenv check, {size} {kind} packages",
            command=(cuenv, "check", lock.name, "--host", inputs.HOST),
            floor=FLOOR,
            target=2.5,
            folder=checked,
        ),
    ]
    if records is None:
        return found
    return [*found, _lock_pair(scratch / "lock", cuenv, records), _update_pair(scratch / "update", cuenv, records)]


def _lock_pair(folder: Path, cuenv: str, records: Path) -> Pair:
    folder.mkdir()
    path = inputs.environment(folder, records)
    question = inputs.question(folder, path, records)

    def fresh() -> None:
        for file in folder.glob("conda-*"):
            file.unlink()

    return Pair(
        name="cuenv lock, real records",
        command=(cuenv, "lock", "--host", inputs.HOST, *inputs.mirrors(records)),
        floor=(sys.executable, str(BARE), question.name),
        target=1.5,
        folder=folder,
        before=fresh,
    )


def _update_pair(folder: Path, cuenv: str, records: Path) -> Pair:
    """A lock whose sympy is put back to an older release, which one update brings forward."""
    folder.mkdir()
    path = inputs.environment(folder, records)
    question = inputs.question(folder, path, records)
    text, mirrors = path.read_text(), inputs.mirrors(records)
    path.write_text(text.replace("\ndependencies:\n", "\ndependencies:\n  - sympy<1.14\n"))
    subprocess.run((cuenv, "lock", "--host", inputs.HOST, *mirrors), cwd=folder, check=True, capture_output=True)
    path.write_text(text)
    older = (folder / "conda-lock.yml").read_bytes()

    def put_back() -> None:
        (folder / "conda-lock.yml").write_bytes(older)

    return Pair(
        name="cuenv lock --update of one leaf",
        command=(cuenv, "lock", "--update", "sympy", *mirrors),
        floor=(sys.executable, str(BARE), question.name),
        target=3,  # two solves, and the old lock is read
        folder=folder,
        before=put_back,
    )


def _full_pair(full: full_lock.FullLock) -> Pair:
    return Pair(
        name=f"cuenv lock of {full_lock.PROFILE} with pip",
        command=(_console_script(), *full.words),
        floor=("sh", "-c", full.floor),
        target=1.5,
        folder=full.folder,
        before=full.fresh,
    )


def _phases(found: dict[str, float]) -> None:
    """Where the time of the full lock goes."""
    whole = sum(found.values())
    print(f"{full_lock.PROFILE} by phase, uv's cache warm and no network:")
    for phase, spent in found.items():
        print(f"  {phase:<10} {spent:7.1f} ms {spent / whole:5.0%}")


def _console_script() -> str:
    beside = Path(sys.executable).with_name("cuenv")
    found = str(beside) if beside.exists() else shutil.which("cuenv")
    if found is None:
        sys.exit("cuenv is not installed for this Python: pip install .")
    return found


def _measure(pair: Pair, runs: int) -> tuple[float, float]:
    """Medians of command and floor in milliseconds, after one warm-up of each."""
    _once(pair, pair.command)
    _once(pair, pair.floor)
    taken = [(_once(pair, pair.command), _once(pair, pair.floor)) for _ in range(runs)]
    command, floor = (statistics.median(column) for column in zip(*taken, strict=True))
    return command, floor


def _once(pair: Pair, words: Sequence[str]) -> float:
    pair.before()
    start = time.perf_counter()
    subprocess.run(words, cwd=pair.folder, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return (time.perf_counter() - start) * 1000


def _report(rows: list[tuple[Pair, float, float]], runs: int) -> None:
    print(f"{_machine()}; medians of {runs} runs in turn")
    print(f"{'command':<40} {'ms':>7} {'floor ms':>9} {'ratio':>6} {'target':>7}")
    for pair, command, floor in rows:
        ratio = command / floor
        verdict = "" if ratio <= pair.target else "  above"
        print(f"{pair.name:<40} {command:7.1f} {floor:9.1f} {ratio:6.2f} {pair.target:7.1f}{verdict}")
    for words in dict.fromkeys(tuple(pair.floor) for pair, *_ in rows):
        shell = words[0] == "sh"
        print("floor: bare_solve.py, then uv pip compile" if shell else f"floor: {' '.join(map(_short, words))}")


def _short(word: str) -> str:
    return f"'{word}'" if " " in word else Path(word).name


def _machine() -> str:
    cpu = "unknown processor"
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    load = os.getloadavg()[0]
    return f"{cpu}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
