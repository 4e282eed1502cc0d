"""``cuenv fleet plan`` and ``verify`` as they are typed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from cases import collect, quick_and_slow
from commands import inside as run
from cuenv.core.record import replace
from cuenv.fleet.check import verify
from cuenv.fleet.nodes import FleetNode
from cuenv.fleet.plan import plan
from cuenv.fleet.plan_json import plan_plain, read_plan
from cuenv.host.request import Request
from cuenv.resolver.batch import Pool
from fleets import NODES, fleet, host, tables, written

FLEET = written(NODES)


def test_the_plan_says_what_fewer_would_cost_and_which_driver_saves_one(tmp_path: Path) -> None:
    (tmp_path / "fleet.ndjson").write_text(FLEET)
    done = run("fleet", "plan", "fleet.ndjson", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 environments for 18 hosts" in done.stdout
    assert "gpu[01-12]" in done.stdout
    assert "old[01-04]" in done.stdout
    assert "builds for the first have CUDA 11.8 or earlier, builds for the second 12.8 or later" in done.stdout
    assert "hint: driver 525.60.13 on old[01-04] saves the environment cuenv-cu118" in done.stdout
    few = run("fleet", "plan", "-", "--at-most", "1", folder=tmp_path, text=FLEET)
    assert few.returncode == 1
    assert "1 environment cannot support all hosts; 2 are needed" in few.stdout


def test_a_plan_is_verified_without_the_planner_and_a_changed_one_is_not(tmp_path: Path) -> None:
    made = run("fleet", "plan", "-", "--json", folder=tmp_path, text=FLEET)
    assert made.returncode == 0
    (tmp_path / "plan.json").write_text(made.stdout)
    assert run("fleet", "verify", "plan.json", "-q", folder=tmp_path).stdout == ""
    holds = run("fleet", "verify", "plan.json", "--json", folder=tmp_path)
    assert holds.returncode == 0
    assert json.loads(holds.stdout)["holds"]
    for change in CHANGES:
        data = json.loads(made.stdout)
        change(data)
        (tmp_path / "lie.json").write_text(json.dumps(data))
        done = run("fleet", "verify", "lie.json", folder=tmp_path)
        assert done.returncode == 1, change
        assert "error: " in done.stdout


def _fewer_drivers(data: Any) -> None:
    for kind in data["kinds"]:
        kind["driver"], kind["cuda"] = "450.80.02", "11.0"


def _one_for_all(data: Any) -> None:
    for kind in data["kinds"]:
        kind["environment"] = data["environments"][0]["name"]


def _more_hosts(data: Any) -> None:
    data["hosts"] += 1


def _a_weak_proof(data: Any) -> None:
    data["proofs"][0]["kinds"] = data["proofs"][0]["kinds"][:1]


def _a_build_that_nobody_made(data: Any) -> None:
    data["environments"][0]["build"] = "cuda999*"


def _forgotten_hosts(data: Any) -> None:
    data["kinds"][0]["environment"] = None


CHANGES = (_fewer_drivers, _one_for_all, _more_hosts, _a_weak_proof, _a_build_that_nobody_made, _forgotten_hosts)


@pytest.mark.slow
@pytest.mark.parametrize("count", quick_and_slow(2, 8))
def test_the_plan_of_every_fleet_holds_and_its_document_does_not_depend_on_the_order(count: int) -> None:
    chance = random.Random(11)
    pools: dict[str, Pool] = {}
    for _ in range(count):
        nodes = fleet(chance, 7)
        found = plan_plain(plan(nodes, Request(), tables(), pools=pools), tables())
        mixed = plan(chance.sample(nodes, len(nodes)), Request(), tables(), pools=pools)
        assert plan_plain(mixed, tables()) == found
        said = verify(read_plan(json.dumps(found), "plan.json"), tables())
        assert [item for item in said if item.because] == []
        assert any("fewer than" in item.says for item in said) == bool(found["environments"])


def test_two_platforms_and_a_login_node(tmp_path: Path) -> None:
    login = FleetNode("login", replace(host("T4", "535.129.03"), gpus=(), driver=None))
    mixed = [NODES[0], FleetNode("g1", host("GH200", "550.54.15", platform="linux-aarch64")), login]
    text = written(mixed)
    done = run("fleet", "plan", "-", folder=tmp_path, text=text)
    assert done.returncode == 0, done.stderr
    assert "share no build: the first is linux-64, the second linux-aarch64" in done.stdout
    assert "note    no environment for login: no NVIDIA GPU was found on login" in done.stdout
    for limit in ((), ("--at-most", "1")):
        (tmp_path / "plan.json").write_text(
            run("fleet", "plan", "-", "--json", *limit, folder=tmp_path, text=text).stdout
        )
        assert run("fleet", "verify", "plan.json", folder=tmp_path).returncode == 0


def test_wishes_are_kept_in_the_plan(tmp_path: Path) -> None:
    asked = run(
        "fleet", "plan", "-", "--json", "--pytorch", "2.5", "--no-dev", "--with", "numpy", folder=tmp_path, text=FLEET
    )
    data = json.loads(asked.stdout)
    assert {item["pytorch"] for item in data["environments"]} == {"2.5.1"}
    found = read_plan(asked.stdout, "-")
    assert found.request.packages == ("numpy",)
    assert not found.request.dev
    assert [item for item in verify(found, tables()) if item.because] == []


@collect(
    ("text", "code", "said"),
    [
        ("", 3, "error"),
        ("garbage\n", 3, "error"),
        (FLEET.splitlines()[0] + "\n", 0, "1 environment for 1 host"),
        (FLEET + "{broken\n", 1, "line 19"),
        (FLEET + written([FleetNode("old01", host("B200", "580.65.06"))]), 1, "old01 is told of twice"),
        (FLEET + FLEET, 0, "for 18 hosts"),
        (written([FleetNode("x", host("B200", "450.80.02"))]), 1, "what would help: driver 570.26 or later"),
        (
            FLEET + written([FleetNode("y", replace(host("T4", "535.129.03"), libc=None))]),
            1,
            "glibc of 1 host is not known",
        ),
        (
            FLEET + written([FleetNode("y", replace(host("T4", "535.129.03"), driver=None))]),
            1,
            "driver of 1 host is not",
        ),
    ],
    one_in=2,
)
def test_bad_fleets(tmp_path: Path, text: str, code: int, said: str) -> None:
    done = run("fleet", "plan", "-", folder=tmp_path, text=text)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert said in done.stdout + done.stderr


def test_an_assumed_glibc_is_recorded(tmp_path: Path) -> None:
    text = written([FleetNode("y", replace(host("T4", "535.129.03"), libc=None)), NODES[0]])
    done = run("fleet", "plan", "-", "--assume-glibc", "2.28", "--json", folder=tmp_path, text=text)
    data = json.loads(done.stdout)
    assert done.returncode == 0
    assert data["assumed_glibc"] == "2.28"
    assert data["unknown"] == []
    assert run("fleet", "plan", "-", "--assume-glibc", "new", folder=tmp_path, text=text).returncode == 2


@collect(
    "text",
    ["", "{", "[]", "{}", '{"schema": "cuenv/host/1"}', '{"schema": "cuenv/fleet-plan/1", "kinds": 3}', "[" * 9999],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    done = run("fleet", "verify", "plan.json", folder=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr
