"""``cuenv fleet check`` and ``diff``: what a lock serves is what `cuenv check` says, and what a change changes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from cases import quick_and_slow
from commands import inside as run
from cuenv.core.record import replace
from cuenv.fleet.check import check_fleet
from cuenv.fleet.diff import diff_fleets
from cuenv.fleet.nodes import FleetNode
from cuenv.host.request import Request
from cuenv.host.select import HostOptions
from cuenv.lockfile.check import check
from fleets import NODES, fleet, host, tables, written

LOCKS = sorted((Path(__file__).resolve().parents[2] / "locks").glob("*/conda-lock.yml"))[:2]


@pytest.mark.slow
@pytest.mark.parametrize("count", quick_and_slow(4, 30))
def test_a_lock_serves_the_hosts_for_which_its_check_is_fine(count: int) -> None:
    nodes = fleet(random.Random(8), count)
    nodes += [node._replace(name=f"alone-{node.name}", facts=replace(node.facts, detected=True)) for node in nodes]
    found = check_fleet(LOCKS, nodes, tables())
    assert found.hosts == 2 * count
    served = set()
    for path, one in zip(LOCKS, found.locks, strict=True):
        for node in nodes:
            told = check(path, HostOptions(hosts=(node.name,), environ={}), tables(), facts=node.facts).report
            assert (node.name in one.names) == (told.verdict(strict=False) == "fine"), node.name
        served |= {*one.names}
        assert sorted([*one.names, *(name for item in one.refusals for name in item.names)]) == sorted(
            node.name for node in nodes
        )
    assert served
    assert {*found.unserved} == {node.name for node in nodes} - served


def test_the_command_says_who_is_served_and_what_no_lock_serves(tmp_path: Path) -> None:
    (tmp_path / "fleet.ndjson").write_text(written(NODES))
    done = run("fleet", "check", *LOCKS[:1], "--fleet", "fleet.ndjson", folder=tmp_path)
    assert done.returncode == 1
    assert "supports b[1-2],gpu[01-12] (14 of 18 hosts)" in done.stdout
    assert "not old[01-04]: CU401" in done.stdout
    assert "error: no lock supports old[01-04] (4 hosts)" in done.stdout
    plain = run("fleet", "check", *LOCKS[:1], "--fleet", "-", "--json", folder=tmp_path, text=written(NODES[4:]))
    assert plain.returncode == 0
    data = json.loads(plain.stdout)
    assert (data["unserved"], data["locks"][0]["hosts"]) == ("", 14)
    assert run("fleet", "check", "gone.yml", "--fleet", "fleet.ndjson", folder=tmp_path).returncode == 3
    login = FleetNode("login", replace(host("T4", "535.129.03"), gpus=(), driver=None))
    bare = run("fleet", "check", *LOCKS[:1], "--fleet", "-", folder=tmp_path, text=written([NODES[4], login]))
    assert bare.returncode == 0
    assert "not judged: login, without a GPU" in bare.stdout
    lost = replace(host("T4", "535.129.03"), libc=None)
    some = run("fleet", "check", *LOCKS[:1], "--fleet", "-", folder=tmp_path, text=written([FleetNode("y", lost)]))
    assert some.returncode == 1
    assert "unknown y: the glibc of 1 host is not known" in some.stdout


def test_a_driver_upgrade_moves_hosts_and_a_new_host_is_named(tmp_path: Path) -> None:
    after = [node._replace(facts=host("A100", "535.129.03")) if node.name.startswith("old") else node for node in NODES]
    after = [*after[:-1], FleetNode("new1", host("RTX 4090", "550.54.15"))]
    (tmp_path / "old.ndjson").write_text(written(NODES))
    (tmp_path / "new.ndjson").write_text(written(after))
    done = run("fleet", "diff", "old.ndjson", "new.ndjson", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 environments before, 1 after" in done.stdout
    assert "added   new1 (1 host)" in done.stdout
    assert "removed b2 (1 host)" in done.stdout
    assert "moves   old[01-04] (4 hosts): from pytorch 2.5.1 with CUDA 11.8" in done.stdout
    data = json.loads(run("fleet", "diff", "old.ndjson", "new.ndjson", "--json", folder=tmp_path).stdout)
    assert (data["before"], data["after"], data["removed"]) == (2, 1, "b2")
    same = run("fleet", "diff", "old.ndjson", "old.ndjson", folder=tmp_path)
    assert "every host keeps its environment" in same.stdout
    back = [node._replace(facts=host("B200", "535.129.03")) if node.name == "b1" else node for node in NODES]
    (tmp_path / "back.ndjson").write_text(written(back))
    lost = run("fleet", "diff", "old.ndjson", "back.ndjson", folder=tmp_path)
    assert lost.returncode == 1
    assert "to nothing: B200, driver 580.65.06, glibc 2.39 became B200, driver 535.129.03" in lost.stdout


@pytest.mark.parametrize("count", quick_and_slow(2, 20))
def test_a_difference_is_what_two_plans_give_each_host(count: int) -> None:
    chance = random.Random(9)
    for _ in range(count):
        old, new = fleet(chance, 8), fleet(chance, 9)
        found = diff_fleets(old, new, Request(), tables())
        assert found.added == ("n008",)
        assert found.removed == ()
        assert not {name for move in found.moves for name in move.names} - {node.name for node in new}
        assert all(move.before != move.after for move in found.moves)
        assert diff_fleets(new, new, Request(), tables()).moves == ()
