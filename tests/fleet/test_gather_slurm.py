"""`cuenv fleet gather --slurm` on a real Slurm: nodes, partitions, GPUs, and a controller that is deaf."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import cuenv
from cases import collect
from commands import inside
from cuenv.core.errors import ExitCode
from cuenv.fleet.io import cluster as module
from cuenv.host.host_json import dump
from slurm_cluster import RUNNING, Slurm

pytestmark = pytest.mark.io

NODE = """\
#!/bin/sh
case "$1 $2" in "inspect --json") ;; *) exit 2;; esac
sed "s/at hand: /&$CUDA_VISIBLE_DEVICES/" "{folder}/$SLURMD_NODENAME.json"
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A cuenv that says what each node is, and which GPUs Slurm let it see."""
    folder = tmp_path / "bin"
    folder.mkdir()
    gpus = {"gpu01": ("A100",) * 4, "gpu02": ("A100",) * 4, "mix01": ("V100", "RTX 5090")}
    for node, names in gpus.items():
        facts = cuenv.make_host(*names, driver="580.65.06", glibc="2.31")
        data = json.loads(dump(facts))
        data["gaps"] = [{"fact": "gpus", "source": "test", "reason": "at hand: "}]
        (folder / f"{node}.json").write_text(json.dumps(data))
    (folder / "cuenv").write_text(NODE.format(folder=folder))
    (folder / "cuenv").chmod(0o755)
    return folder


def test_every_node_that_is_up_is_asked_in_its_partition_with_all_its_gpus(
    tmp_path: Path, slurm: Slurm, programs: Path
) -> None:
    done = inside("fleet", "gather", "--slurm", "-o", "fleet.ndjson", folder=tmp_path, **slurm.nodes_run(programs))
    assert done.returncode == ExitCode.NEGATIVE, done.stderr  # for the nodes without a slurmd
    hosts = {host.name: host for host in cuenv.read_hosts(str(tmp_path / "fleet.ndjson"))}
    assert sorted(hosts) == sorted(RUNNING)
    assert [gpu.name for gpu in hosts["mix01"].gpus] == ["V100", "GeForce RTX 5090"]
    seen = {name: [gap.reason for gap in host.gaps if gap.source == "test"] for name, host in hosts.items()}
    assert seen == {
        "gpu01": ["at hand: 0,1,2,3"],
        "gpu02": ["at hand: 0,1,2,3"],
        "mix01": ["at hand: 0,1"],
        "cpu01": [],
    }
    told = done.stderr.splitlines()
    assert any(line.startswith("warning: 4 nodes: gpu[03-04],v[01-02]: Slurm says that it is ") for line in told)
    assert "hint: cuenv fleet gather --slurm --nodes 'gpu[03-04],v[01-02]' -o fleet.ndjson" in told


def test_only_the_nodes_that_are_named_are_asked(tmp_path: Path, slurm: Slurm, programs: Path) -> None:
    words = ("fleet", "gather", "--slurm", "--nodes", "gpu[01-02]")
    done = inside(*words, folder=tmp_path, **slurm.nodes_run(programs))
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == ["gpu01", "gpu02"]
    other = inside("fleet", "gather", "--slurm", "--nodes", "tpu[1-2]", folder=tmp_path, **slurm.environ)
    assert (other.returncode, other.stdout) == (ExitCode.USAGE, "")
    assert "tpu[1-2]: the cluster has no node with this name" in other.stderr


def test_inside_an_allocation_its_nodes_are_asked(tmp_path: Path, slurm: Slurm) -> None:
    words = (sys.executable, "-m", "cuenv", "fleet", "gather", "--slurm", "--program", "no-such-program")
    done = slurm.ask("salloc", "--quiet", "--nodelist=gpu02", "--immediate=20", "--gres=gpu:a100:1", *words)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["name"] == "gpu02"


def test_a_node_in_use_is_named(tmp_path: Path, slurm: Slurm, programs: Path) -> None:
    with subprocess.Popen(
        ["srun", "--nodelist=mix01", "--gres=gpu:v100:1", "sleep", "60"],
        env={"PATH": slurm.environ["PATH"], **slurm.environ},
        stderr=subprocess.DEVNULL,
    ) as job:
        try:
            end = time.monotonic() + 20
            while "idle" in slurm.ask("sinfo", "-h", "-N", "-n", "mix01", "-o", "%N %T").stdout:
                assert time.monotonic() < end
                time.sleep(0.1)
            words = ("fleet", "gather", "--slurm", "--nodes", "mix01", "--timeout", "3")
            done = inside(*words, folder=tmp_path, **slurm.nodes_run(programs))
        finally:
            job.terminate()
    assert done.returncode == ExitCode.INPUT
    # Which of both it is depends on how many processors the machine of the tests has.
    assert (
        "mix01: srun: Requested nodes are busy" in done.stderr or "mix01: Slurm says that it is in use" in done.stderr
    )
    assert "hint: cuenv fleet gather --slurm --nodes mix01 --timeout 3" in done.stderr


@pytest.mark.slow
def test_the_job_of_a_node_that_is_too_slow_does_not_keep_it(tmp_path: Path, slurm: Slurm) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cuenv").write_text("#!/bin/sh\ntrap '' TERM INT HUP; while :; do sleep 1; done\n")
    (tmp_path / "bin" / "cuenv").chmod(0o755)
    words = ("fleet", "gather", "--slurm", "--nodes", "gpu01", "--timeout", "4")
    done = inside(*words, folder=tmp_path, **slurm.nodes_run(tmp_path / "bin"))
    assert (done.returncode, done.stdout) == (ExitCode.INPUT, "")
    assert "gpu01: no answer in 4 s" in done.stderr
    end = time.monotonic() + 180  # Slurm waits 30 s before it kills, and tries again after a minute
    while jobs := slurm.ask("squeue", "--noheader", "--nodelist=gpu01", "--format=%j %T").stdout.strip():
        assert time.monotonic() < end, jobs
        time.sleep(0.1)


@pytest.mark.slow
def test_a_controller_that_does_not_answer_is_left(
    tmp_path: Path, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 1.0)
    with closing(socket.socket()) as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        text = (slurm.folder / "slurm.conf").read_text()
        lines = [line for line in text.splitlines() if not line.startswith("SlurmctldPort=")]
        (tmp_path / "slurm.conf").write_text("\n".join([*lines, f"SlurmctldPort={deaf.getsockname()[1]}\n"]))
        shutil.copy(slurm.folder / "gres.conf", tmp_path)
        environ = {**slurm.environ, "SLURM_CONF": str(tmp_path / "slurm.conf")}
        done = inside("fleet", "gather", "--slurm", folder=tmp_path, **environ)
    assert (done.returncode, done.stdout) == (ExitCode.OUTSIDE, "")
    assert done.stderr == "error: sinfo: no answer within 1 s\nhint: scontrol ping\n"


def test_without_slurm_it_says_so(tmp_path: Path) -> None:
    done = inside("fleet", "gather", "--slurm", folder=tmp_path, PATH="/nonexistent")
    assert (done.returncode, done.stdout) == (ExitCode.OUTSIDE, "")
    assert done.stderr.startswith("error: sinfo: not on PATH\nhint: cuenv fleet gather --ssh ")


@collect(
    ("gres", "option"),
    [
        ("(null)", ""),
        ("gpu:2", "gpu:2"),
        ("gpu:a100:4(S:0-1)", "gpu:a100:4"),
        ("gpu:h200:2(S:0,1),gpu:h200_3g.71gb:6(S:0-1)", "gpu:h200:2,gpu:h200_3g.71gb:6"),
        ("shard:8,gpu:1,nic:2", "gpu:1"),
        ("gpu", ""),
    ],
)
def test_all_gpus_of_a_node_are_asked_for(gres: str, option: str) -> None:
    (group,) = module._listed(f"n1|gpu|up|{gres}|idle\n", None).ready
    assert group.gpus == option


@collect(
    ("state", "ready", "says"),
    [
        ("idle", True, ""),
        ("mixed", True, ""),
        ("allocated", False, "in use by other jobs"),
        ("idle~", False, "powered it down"),
        ("idle*", False, "idle"),
        ("down", False, "down"),
        ("drained", False, "drained"),
        ("unknown*", False, "unknown"),
    ],
)
def test_what_cannot_answer_now_is_not_asked(state: str, ready: bool, says: str) -> None:
    listed = module._listed(f"n[1-2]|gpu|up|gpu:2|{state}\nn1|cpu|up|gpu:2|{state}\nbroken\n", None)
    assert [str(nodes) for nodes in listed.ready.values()] == (["n[1-2]"] if ready else [])
    assert {item.node for item in listed.not_ready} == (set() if ready else {"n1", "n2"})
    assert all(says in item.reason for item in listed.not_ready)


def test_a_batch_script_is_judged_by_the_cluster(slurm: Slurm) -> None:
    """What later tests rest on: the cluster says which nodes it has, and which it does not have."""
    fits = slurm.would_take("#!/bin/sh\n#SBATCH --gpus-per-node=a100:2\ntrue\n")
    assert fits.returncode == 0, fits.stderr
    assert "on nodes gpu0" in fits.stderr
    assert slurm.would_take("#!/bin/sh\n#SBATCH --gpus-per-node=h100:2\ntrue\n").returncode != 0
