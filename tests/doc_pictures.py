"""The example pictures of docs/pictures, made by cuenv itself: `nox -s pictures` writes them anew.

They are made with the tables of the tests, so that a new row in the tables changes none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cuenv.fleet.nodes import FleetNode
from cuenv.fleet.plan import plan
from cuenv.fleet.plan_json import plan_plain
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.io.load import load_from
from cuenv.lockfile.check import check
from cuenv.report.make import fleet_page, lock_page
from cuenv.report.picture import alone
from forking import FROZEN

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/pictures"
_NODES = (
    *(("A100", "580.65.06", "2.35", f"gpu{number:03}") for number in range(1, 65)),
    *(("A100", "470.129.06", "2.28", f"old{number:02}") for number in range(1, 17)),
    *(("RTX 5090", "580.65.06", "2.39", f"desk{number}") for number in range(1, 6)),
)


def made() -> Mapping[str, str]:
    """Each picture by the name of its file."""
    knowledge = load_from(FROZEN)
    options = HostOptions(hosts=("v100-rtx5090-575",), environ={})
    lock = lock_page(check(ROOT / "locks/universal-dev", options, knowledge), knowledge)
    found = {f"report-{name}.svg": alone(lock.picture(name)) for name in ("components", "driver")}
    nodes = [_node(*each, knowledge) for each in _NODES]
    fleet = fleet_page(plan_plain(plan(nodes, Request(), knowledge), knowledge), "fleet.ndjson")
    return {**found, **{f"report-{name}.svg": alone(fleet.picture(name)) for name in ("fleet", "price")}}


def _node(gpu: str, driver: str, libc: str, name: str, knowledge: Knowledge) -> FleetNode:
    options = HostOptions(gpus=(gpu,), driver=driver, glibc=libc, platform="linux-64", environ={})
    return FleetNode(name, host_facts(options, knowledge))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in made().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
