"""Locks of several teams and hosts on one channel: in one process, which reads the channel once, against one each.

The one process locks one after another, or side by side in threads, one for each core.

    python benchmarks/together.py [--records 450000] [--folder DIR]

The channel is made up, see ``channel.py``.
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

HOSTS = ("rtx4090-535", "rtx3090-535", "h800-525")
WISHES = ((), ("ninja",), ("openssl",), ("libgcc",), ("libzlib",), ("libstdcxx",))
"""Six teams that differ in what they add."""
ONE_PROCESS = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
import cuenv
sources = cuenv.channels(["conda-forge=" + sys.argv[1]])
def lock(place):
    path, host = place.split("@")
    assert cuenv.lock(path, host=host, sources=sources).lock, place
with ThreadPoolExecutor(int(sys.argv[2])) as pool:
    list(pool.map(lock, sys.argv[3:]))
os._exit(0)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=450_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the channel is made, and kept")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="cuenv-together-") as scratch:
        os.environ["CUENV_CACHE_DIR"] = f"{scratch}/cache"
        folder = (options.folder or Path(scratch)).resolve() / "conda-forge"
        places = [prepared(Path(scratch), number, host) for number in range(len(WISHES)) for host in HOSTS]
        if not folder.exists():
            spec, _ = environment_yml.parse((places[0][0]).read_text(), "environment.yml")
            channel.write(folder, options.records, spec)
        asked = [f"{path}@{host}" for path, host in places]

        def apart() -> Cost:
            each = [
                cost([*CUENV, str(path), "--host", host, "--mirror", f"conda-forge={folder}"], path.parent)
                for path, host in places
                if fresh(path)
            ]
            return Cost(
                wall=sum(item.wall for item in each),
                cpu=sum(item.cpu for item in each),
                peak=max(item.peak for item in each),
            )

        def together(threads: int) -> Cost:
            for path, _ in places:
                fresh(path)
            return cost([sys.executable, "-c", ONE_PROCESS, str(folder), str(threads), *asked], folder)

        def one_by_one() -> Cost:
            return together(1)

        def side_by_side() -> Cost:
            return together(os.cpu_count() or 2)

        print(f"{machine()}; medians of {options.runs} runs in turn\n\n{HEAD}")
        name = f"{len(places)} locks in one process"
        print(row(f"{name}, against a process for each", compare(one_by_one, apart, options.runs), "below 1"))
        found = compare(side_by_side, one_by_one, options.runs)
        print(row(f"{name}, side by side against one after another", found, "wall below 1"))


CUENV = (sys.executable, "-m", "cuenv", "lock")


def prepared(scratch: Path, number: int, host: str) -> tuple[Path, str]:
    """The environment file of a team for a host."""
    folder = scratch / f"{number}-{host}"
    folder.mkdir()
    wishes = [word for name in WISHES[number] for word in ("--with", name)]
    inputs.cuenv("resolve", "--host", host, *wishes, "-q", "-o", "environment.yml", folder=folder)
    return folder / "environment.yml", host


def fresh(path: Path) -> bool:
    """Take the locks beside an environment file away."""
    for old in path.parent.glob("conda-l*"):
        old.unlink()
    return True


if __name__ == "__main__":
    main()
