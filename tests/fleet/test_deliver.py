"""``cuenv fleet plan -o``: files that lock again by themselves, and scripts that pick the environment of a node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from channel_builder import write
from commands import inside as run
from cuenv.demo.io.sample import write_sample
from cuenv.fleet.nodes import FleetNode
from fleets import host, written

NODES = [
    *(FleetNode(f"a{at}", host("A100", "525.60.13")) for at in range(1, 4)),
    *(FleetNode(f"b{at}", host("B200", "580.65.06", "2.39")) for at in range(1, 3)),
]


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("channels")
    found = write_sample(folder, "linux-64") + write(folder, {"nvidia": []}).mirrors
    return tuple(word for item in found for word in ("--mirror", f"{item.origin}={item.target}"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, mirrors: tuple[str, ...]) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "fleet.ndjson").write_text(written(NODES))
    done = run("fleet", "plan", "fleet.ndjson", "--prove", "-o", "out", *mirrors, folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "out"


def test_each_environment_is_locked_for_all_its_hosts_and_the_plan_holds(made: Path, mirrors: tuple[str, ...]) -> None:
    plan = json.loads((made / "fleet.json").read_text())
    (only,) = plan["environments"]
    folder = made / only["name"]
    assert {"environment.yml", "hosts.ndjson", "conda-lock.yml"} <= {path.name for path in folder.iterdir()}
    assert run("fleet", "verify", "fleet.json", folder=made).returncode == 0
    fleet = made.parent / "fleet.ndjson"
    served = run("fleet", "check", folder / "conda-lock.yml", "--fleet", fleet, folder=made)
    assert served.returncode == 0, served.stdout
    again = run("lock", "environment.yml", *mirrors, folder=folder)
    assert again.returncode == 0, again.stderr
    assert "--host hosts.ndjson" in again.stderr
    elsewhere = run("lock", f"{only['name']}/environment.yml", *mirrors, folder=made)
    assert elsewhere.returncode == 0, elsewhere.stderr


def test_without_a_lock_no_channel_is_asked(tmp_path: Path) -> None:
    done = run("fleet", "plan", "-", "--no-lock", "-o", "out", "--offline", folder=tmp_path, text=written(NODES))
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "out").rglob("*lock*"))
    assert run("fleet", "plan", "-", "--prove", folder=tmp_path, text=written(NODES)).returncode == 2


def test_an_environment_that_the_channels_cannot_satisfy_is_named(tmp_path: Path, mirrors: tuple[str, ...]) -> None:
    text = written([FleetNode("old", host("A100", "470.129.06"))])
    done = run("fleet", "plan", "-", "-o", "out", *mirrors, folder=tmp_path, text=text)
    assert done.returncode == 1
    assert "error: cuenv-cu118: " in done.stderr


SHELLS = [("sh", "which-env.sh"), ("fish", "which-env.fish")]


@pytest.mark.parametrize(("shell", "script"), SHELLS)
def test_a_node_picks_its_environment_by_its_own_facts(made: Path, tmp_path: Path, shell: str, script: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    name = json.loads((made / "fleet.json").read_text())["environments"][0]["name"]

    def picked(gpu: str, capability: str, driver: str, libc: str) -> subprocess.CompletedProcess[str]:
        tools = {
            "nvidia-smi": f"case $1 in *=name) echo '{gpu}'; echo '{gpu}' ;; *=driver_version) echo {driver};"
            f" echo {driver} ;; *) {f'echo {capability}' if capability else 'exit 2'} ;; esac",
            "getconf": f"echo glibc {libc}",
            "uname": "echo x86_64",
        }
        for tool, text in tools.items():
            (tmp_path / tool).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / tool).chmod(0o755)
        environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
        words = [shell, str(made / script)]
        return subprocess.run(words, env=environ, capture_output=True, text=True, check=False, timeout=30)

    assert picked("A100", "", "525.60.13", "2.31").stdout == f"{name}\n"
    assert picked("NVIDIA A100-SXM4-40GB", "8.0", "525.60.13", "2.31").stdout == f"{name}\n"
    assert picked("NVIDIA B200", "10.0", "580.65.06", "2.39").stdout == f"{name}\n"
    other = picked("NVIDIA B200", "10.0", "570.26", "2.39")
    assert (other.returncode, other.stdout) == (1, "")
    assert "no environment was planned for NVIDIA B200|570.26|glibc 2.39|x86_64" in other.stderr


def test_a_script_that_was_edited_is_kept(tmp_path: Path) -> None:
    words, text = (
        ("fleet", "plan", "-", "--no-lock", "-o", "out", "--offline"),
        written([FleetNode("p1", host("A100", "525.60.13"))]),
    )
    for _ in range(2):
        assert run(*words, folder=tmp_path, text=text).returncode == 0
    script = tmp_path / "out/which-env.sh"
    assert not list(script.parent.glob("*.bak"))
    script.write_text(script.read_text() + "echo mine\n")
    done = run(*words, folder=tmp_path, text=text)
    assert "kept    the edited file as out/which-env.sh.bak" in done.stderr + done.stdout
    assert (script.parent / "which-env.sh.bak").read_text().endswith("echo mine\n")


def test_files_of_an_earlier_plan_go_and_what_somebody_changed_stays(tmp_path: Path) -> None:
    def planned(nodes: list[FleetNode]) -> set[str]:
        done = run("fleet", "plan", "-", "--no-lock", "-o", "out", "--offline", folder=tmp_path, text=written(nodes))
        assert done.returncode == 0, done.stderr
        plan = json.loads((tmp_path / "out" / "fleet.json").read_text())
        return {item["name"] for item in plan["environments"]}

    old = [FleetNode("p1", host("A100", "470.129.06")), FleetNode("n1", host("B200", "580.65.06", "2.39"))]
    before = planned(old)
    assert len(before) == 2
    (tmp_path / "out" / "mine").mkdir()
    (tmp_path / "out" / "mine" / "environment.yml").write_text("mine\n")
    after = planned(old[1:])
    gone = before - after
    assert gone
    assert {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()} == {*after, "mine"}
    planned(old)
    (only,) = gone
    notes, file = tmp_path / "out" / only / "notes.txt", tmp_path / "out" / only / "environment.yml"
    notes.write_text("mine\n")
    file.write_text(file.read_text() + "# mine\n")
    planned(old[1:])
    assert {path.name for path in (tmp_path / "out" / only).iterdir()} == {"notes.txt", "environment.yml"}


def test_prices_of_candidates_that_the_channels_do_not_have_are_left_out(
    tmp_path: Path, mirrors: tuple[str, ...]
) -> None:
    words = ("fleet", "plan", "-", "--prove", "-o", "out", *mirrors)
    done = run(*words, folder=tmp_path, text=written(NODES))
    plan = json.loads((tmp_path / "out" / "fleet.json").read_text())
    table = json.loads(run("fleet", "plan", "-", "--json", folder=tmp_path, text=written(NODES)).stdout)
    assert plan["environments"] != table["environments"]  # the sample has no other release
    assert plan["prices"] == []
    assert "instead " in done.stderr
