"""How long whole processes take, as ratios to the least that they could take.

    python benchmarks/run.py [--records DIR] [--peer CONDA] [--runs 11] [--only start-up] [--count]

The pairs of ``--only start-up`` have a goal and no part for pip: `resolve`, `check` and `lock`. With ``--count``
valgrind counts the instructions of one run of each, which no load changes.

With records the full lock of a profile with a pip part is measured as well, split by phase; its index is that of
whoever runs it, and is asked once, to fill uv's cache.

Each pair runs in turn (A B A B ...), so that a busy machine slows both alike; compared are the medians. The
targets are goals, not tests: the exit code says only whether everything ran.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import full_lock
import inputs
from measure import HEAD, Compared, Cost, compare, cost, instructions, machine, row

FLOOR = (sys.executable, "-c", "import click, yaml")
BARE = Path(__file__).with_name("bare_solve.py")


def _nothing() -> None:
    return


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A command, what it is measured against, and the ratio that it should stay below, where there is such a goal.

    ``any_answer``: findings are an answer as well. ``start_up``: what counts is mostly how soon it begins.
    """

    name: str
    command: Sequence[str]
    floor: Sequence[str]
    target: float | None
    folder: Path
    before: Callable[[], object] = _nothing
    any_answer: bool = False
    start_up: bool = False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, help="folder with conda-forge/, pytorch/ and nvidia/: real records")
    parser.add_argument("--peer", type=Path, help="a conda, mamba or micromamba for stock conda-lock to solve with")
    parser.add_argument("--runs", type=int, default=11, help="runs of each command; the median counts (default 11)")
    parser.add_argument("--only", choices=["start-up"], help="only resolve, check and lock, against their goals")
    parser.add_argument("--count", action="store_true", help="count instructions with valgrind, and measure no time")
    options = parser.parse_args()
    records = options.records.resolve() if options.records else None
    if records and not (records / "conda-forge").is_dir():
        parser.error(f"--records {options.records}: there is no folder conda-forge in it")
    # As for a user: compiled modules are kept, and nothing about this machine's conda is read.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="cuenv-bench-") as scratch:
        os.environ["CUENV_CACHE_DIR"] = f"{scratch}/cache"
        few = bool(options.only)
        full = full_lock.prepare(Path(scratch) / "full", records) if records and not few else "no records"
        found = [pair for pair in pairs(Path(scratch), records) if not few or pair.start_up]
        found += [_full_pair(full)] if isinstance(full, full_lock.FullLock) else []
        found += peer_pairs(Path(scratch), records, options.peer) if records and options.peer else []
        if options.count:
            _count(found)
            return
        _report(found, options.runs)
        if isinstance(full, full_lock.FullLock):
            _phases(full.phases(options.runs))
        elif records and not few:
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
    typed = ("--gpu", "RTX 4090", "--driver", "535.129.03")
    shipped = Path(__file__).resolve().parents[1] / "locks" / "inference" / "conda-lock.yml"
    started = {
        f"cuenv resolve --host {inputs.HOST}": (("resolve", "--host", inputs.HOST), 1.6, scratch),
        "cuenv resolve --gpu 'RTX 4090'": (("resolve", *typed), 1.6, scratch),
        f"cuenv check, {size} {kind} packages": (("check", lock.name, "--host", inputs.HOST), 2.0, checked),
        "cuenv check of locks/inference": (("check", str(shipped), *typed), 2.0, scratch),
    }
    found = [
        Pair(name=name, command=(cuenv, *words), floor=FLOOR, target=target, folder=folder, start_up=True)
        for name, (words, target, folder) in started.items()
    ]
    found += [
        Pair(
            name="cuenv lint of an environment file",
            command=(cuenv, "lint", "environment.yml"),
            floor=FLOOR,
            target=None,
            folder=checked,
            any_answer=True,
        ),
        Pair(
            name="cuenv scan of this Python's environment",
            command=(cuenv, "scan", sys.prefix, "--gpu", "8.9"),
            floor=FLOOR,
            target=None,
            folder=scratch,
            any_answer=True,
        ),
        Pair(
            name="cuenv check --prefix of this Python's environment",
            command=(cuenv, "check", "--prefix", sys.prefix, "--host", inputs.HOST),
            floor=FLOOR,
            target=None,
            folder=scratch,
            any_answer=True,
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
        target=1.4,
        folder=folder,
        before=fresh,
        start_up=True,
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


def peer_pairs(scratch: Path, records: Path, peer: Path) -> list[Pair]:
    """Stock conda-lock with a conda, on the environment and the records that `cuenv lock` is measured with.

    It gets them as ``cuenv lock --engine conda-lock`` gives them, which adds less than a twentieth to its time.
    """
    folder = scratch / "peer"
    folder.mkdir()
    inputs.environment(folder, records)
    words = (_console_script(), "lock", "--host", inputs.HOST, *inputs.mirrors(records))

    def fresh() -> None:
        for file in folder.glob("conda-*"):
            file.unlink()

    return [
        Pair(
            name=f"conda-lock with {peer.name}, against cuenv lock",
            command=(*words, "--engine", "conda-lock", "--conda", str(peer)),
            floor=words,
            target=None,
            folder=folder,
            before=fresh,
        )
    ]


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


def _measure(pair: Pair, runs: int) -> Compared:
    def once(words: Sequence[str]) -> Cost:
        pair.before()
        return cost(words, pair.folder, any_answer=pair.any_answer)

    return compare(lambda: once(pair.command), lambda: once(pair.floor), runs)


def _count(found: list[Pair]) -> None:
    """The instructions of each command and of its floor, in millions."""
    print("| what | millions of instructions | of the floor | of floor |\n|---|---|---|---|")
    for pair in found:
        _measure(pair, 1)  # modules are compiled now
        pair.before()
        mine, least = (instructions(words, pair.folder) for words in (pair.command, pair.floor))
        print(f"| {pair.name} | {mine:.0f} | {least:.0f} | {mine / least:.2f} |", flush=True)


def _report(found: list[Pair], runs: int) -> None:
    print(f"{machine()}; medians of {runs} runs in turn\n\n{HEAD}")
    for pair in found:
        print(row(pair.name, _measure(pair, runs), f"wall {pair.target}" if pair.target else ""), flush=True)
    print()
    for words in dict.fromkeys(tuple(pair.floor) for pair in found):
        shell = words[0] == "sh"
        print("floor: bare_solve.py, then uv pip compile" if shell else f"floor: {' '.join(map(_short, words))}")


def _short(word: str) -> str:
    return f"'{word}'" if " " in word else Path(word).name


if __name__ == "__main__":
    main()
