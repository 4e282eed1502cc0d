"""How the cost of `cuenv lock` grows with the channel, against the least that py-rattler takes for the same question.

    python benchmarks/scale.py [--runs 7] [--sizes 1000 10000 100000 450000] [--folder DIR]

The channels are made up, see ``channel.py``; 450,000 records are as many as conda-forge has for one platform. Made are
0.3 GB in a folder that is taken away in the end, unless ``--folder`` names one to keep.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import channel
import inputs
from measure import HEAD, Cost, compare, cost, machine, row

from cuenv.solve import environment_yml

SIZES = (1_000, 10_000, 100_000, 450_000)
BARE = Path(__file__).with_name("bare_solve.py")
GOAL = "wall 1.3, memory 1.2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="runs of each; the median counts (default 7)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of records")
    parser.add_argument("--folder", type=Path, help="where the channels are made, and kept")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="cuenv-scale-") as scratch:
        os.environ["CUENV_CACHE_DIR"] = f"{scratch}/cache"
        folder = (options.folder or Path(scratch)).resolve()
        print(f"{machine()}; medians of {options.runs} runs in turn; floor: bare_solve.py\n\n{HEAD}")
        for size in options.sizes:
            print(measured(folder / str(size), size, options.runs), flush=True)


def measured(folder: Path, size: int, runs: int) -> str:
    """The row of one size."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "environment.yml"
    inputs.cuenv("resolve", "--host", inputs.HOST, "-q", "-o", file.name, folder=folder)
    if not (folder / "conda-forge").exists():
        spec, _ = environment_yml.parse(file.read_text(), file.name)
        channel.write(folder / "conda-forge", size, spec)
    question = inputs.question(folder, file, folder)
    words = [sys.executable, "-m", "cuenv", "lock", "--host", inputs.HOST, *inputs.mirrors(folder), "--no-progress"]

    def lock() -> Cost:
        for old in folder.glob("conda-l*"):
            old.unlink()
        return cost(words, folder)

    found = compare(lock, lambda: cost([sys.executable, str(BARE), question.name], folder), runs)
    return row(f"cuenv lock, {size:,} records", found, GOAL)


if __name__ == "__main__":
    main()
