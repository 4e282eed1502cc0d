"""What `cuenv fleet plan` costs for ten thousand hosts of few and of many kinds, against reading the file.

    python benchmarks/fleet.py [--hosts 10000] [--runs 5] [--kinds 10 100 1000]

The floor is a Python that reads each line as JSON. Kinds are sets of GPUs with a driver and a C
library; there are 1,120.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from measure import HEAD, compare, cost, machine, row

GPUS = (
    *("GTX 1080 Ti", "V100", "T4", "A100", "RTX 3090", "RTX 4090", "L40S", "H100", "B200", "RTX 5090", "A40"),
    *("V100,A100", "T4,V100", "RTX 3090,RTX 4090", "A100,H100", "V100,RTX 5090"),
)
DRIVERS = (
    *("470.129.06", "510.47.03", "525.60.13", "535.129.03", "545.23.08", "550.54.15", "560.35.03", "565.57.01"),
    *("570.133.20", "575.57.08", "580.65.06", "590.48.01", "595.58.03", "610.43.02"),
)
LIBCS = ("2.17", "2.28", "2.31", "2.35", "2.39")
READ = "import json, sys; print(sum(len(json.loads(line)) for line in open(sys.argv[1])))"
GOAL = "10 s of CPU, 300 MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kinds", type=int, nargs="+", default=(10, 100, 1000))
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(f"{machine()}; medians of {options.runs} runs in turn; floor: reading each line\n\n{HEAD}")
    every = [record(*one) for one in product(GPUS, DRIVERS, LIBCS)]
    with tempfile.TemporaryDirectory(prefix="cuenv-fleet-") as scratch:
        folder = Path(scratch)
        for kinds in options.kinds:
            step = max(1, len(every) // kinds)
            some = every[::step][:kinds]
            hosts = ({**some[at % len(some)], "name": f"node{at:05d}"} for at in range(options.hosts))
            (folder / "fleet.ndjson").write_text("".join(f"{json.dumps(host)}\n" for host in hosts))
            plan = [sys.executable, "-m", "cuenv", "fleet", "plan", "fleet.ndjson", "--json"]
            found = compare(
                lambda plan=plan: cost(plan, folder, any_answer=True),  # type: ignore[misc]
                lambda: cost([sys.executable, "-c", READ, "fleet.ndjson"], folder),
                options.runs,
            )
            print(row(f"{options.hosts:,} hosts of {len(some)} kinds", found, GOAL), flush=True)


def record(gpus: str, driver: str, libc: str) -> dict[str, Any]:
    """A host as `cuenv inspect --json` writes it, with what a plan needs."""
    return {
        "schema": "cuenv/host/1",
        "platform": "linux-64",
        "driver": {"version": driver},
        "gpus": [{"name": name} for name in gpus.split(",")],
        "libc": {"family": "glibc", "version": libc},
    }


if __name__ == "__main__":
    main()
