"""`cuenv.require` lets a program begin only where its lock runs; in programs of their own, as users write them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import cuenv
from cuenv.core.errors import InputError, RequirementError, UsageError
from cuenv.core.findings import Report
from imported import HEAVY, modules

LOCK = Path(__file__).parent.parent / "locks" / "inference" / "conda-lock.yml"
HOME = "https://conda.anaconda.org/conda-forge"
PROGRAM = """
import cuenv

cuenv.require({lock!r}, {host})
print("training")
"""


def program(folder: Path, host: str, *words: str, lock: Path = LOCK) -> subprocess.CompletedProcess[str]:
    file = folder / "train.py"
    file.write_text(PROGRAM.format(lock=str(lock), host=host))
    return subprocess.run([sys.executable, *words, file], capture_output=True, text=True, check=False, timeout=60)


def test_a_program_goes_on_where_its_lock_runs_and_loads_nothing_heavy(tmp_path: Path) -> None:
    done = program(tmp_path, "gpus='RTX 4090', driver='580.65.06', glibc='2.35'", "-X", "importtime")
    assert (done.returncode, done.stdout) == (0, "training\n"), done.stderr[-2000:]
    assert modules(done) & HEAVY == set()


def test_a_program_ends_with_the_finding_where_it_does_not(tmp_path: Path) -> None:
    done = program(tmp_path, "gpus='RTX 4090', driver='470.129.06', glibc='2.35'")
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("cuenv.core.errors.RequirementError: CU401 ")
    assert "470.129.06" in last
    assert "-> install driver" in last


def test_the_error_tells_code_message_and_fix() -> None:
    with pytest.raises(cuenv.errors.RequirementError) as caught:
        cuenv.require(LOCK.parent, gpus="RTX 4090", driver="470.129.06", glibc="2.35")
    error = caught.value
    assert error.code == "CU401"
    assert error.fix
    assert error.fix == error.hint
    assert isinstance(error.report, Report)
    assert error.report.errors[0].message == error.message
    again = pickle.loads(pickle.dumps(error))  # as what a worker process raises comes back
    assert isinstance(again, RequirementError)
    assert (str(again), again.code, again.fix) == (str(error), error.code, error.fix)


def test_it_says_what_check_says() -> None:
    checked = cuenv.require(LOCK, gpus="RTX 4090", driver="580.65.06", glibc="2.35")
    same = cuenv.check(LOCK, gpus="RTX 4090", driver="580.65.06", glibc="2.35")
    assert checked.report == same.report


def test_the_machine_counts_and_not_the_host_that_the_lock_was_made_for(tmp_path: Path) -> None:
    """`cuenv check` on a machine without a GPU judges for the recorded host; a program runs here."""
    (tmp_path / "host.json").write_text('{"schema": "cuenv/host/1", "platform": "linux-64", "gpus": []}')
    with pytest.raises(RequirementError) as caught:
        cuenv.require(LOCK, str(tmp_path / "host.json"))
    assert caught.value.code == "CU409"


def test_strict_raises_on_a_doubt(tmp_path: Path) -> None:
    """No table lists this release of PyTorch, so nobody knows whether it runs."""
    names = ("linux-64/pytorch-99.1.0-cuda126_generic_py312_h5b2a8f6_200", "noarch/cuda-version-12.6-h7480c83_3")
    files = "\n".join(f"{HOME}/{name}.conda#{'a' * 32}" for name in names)
    path = tmp_path / "conda-linux-64.lock"
    path.write_text(f"@EXPLICIT\n{files}\n")
    found = cuenv.require(path, gpus="RTX 4090", driver="580.65.06", glibc="2.35").report
    assert found.verdict(strict=False) == "unknown"
    with pytest.raises(RequirementError, match="the cuenv tables do not list pytorch 99"):
        cuenv.require(path, gpus="RTX 4090", driver="580.65.06", glibc="2.35", strict=True)


def test_what_cannot_be_asked_is_an_error_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        cuenv.require(tmp_path / "conda-lock.yml")
    with pytest.raises(UsageError):
        cuenv.require(LOCK, gpus="RTX 9999")
    with pytest.raises(TypeError, match="takes one lock"):
        cuenv.require([str(LOCK), str(LOCK)])  # type: ignore[arg-type] # the fault


def test_the_text_of_the_error_is_its_code_its_message_and_its_fix() -> None:
    assert str(RequirementError("no driver", code="CU401", fix="cuenv diagnose")) == "CU401 no driver -> cuenv diagnose"
    assert str(RequirementError("no driver", code="CU401")) == "CU401 no driver"
