"""An environment with the real torch is run: a CPU build made for the slow tests, any build where there is a GPU.

`CUENV_TEST_TORCH=DIR` names an environment that holds torch. Without it the slow tests make one from a CPU build, where
an index that pip is configured for has one, and keep it (`CUENV_TEST_WHEELS`).
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import cuenv
from cuenv.prefix.check import run_probes
from cuenv.prefix.io.prefix import find_prefix

CACHE = Path(os.environ.get("CUENV_TEST_WHEELS") or Path(tempfile.gettempdir()) / f"cuenv-test-wheels-{os.getuid()}")
TORCH = "torch==2.13.0+cpu"
SOURCE = Path(cuenv.__file__).parents[1]
LIMIT = 600.0

DEVICES = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import torch
from cuenv.runtime import DeviceMismatch, check_same_device

told = {}
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
model(torch.ones(2, 3)).sum().backward()
adam = torch.optim.AdamW(model.parameters())
adam.step()
told["one"] = str(check_same_device(model, adam, model.parameters(), model.state_dict(), x=torch.ones(2, 3)))
told["packed"] = str(check_same_device(torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])))
with torch.device("meta"):
    other = torch.nn.Linear(3, 4)
try:
    check_same_device(model[0], other)
except DeviceMismatch as error:
    told["groups"] = error.groups
    told["text"] = str(error)
for wrong in (torch.Tensor, "cpu"):
    try:
        check_same_device(wrong)
    except TypeError:
        told.setdefault("refused", []).append(str(wrong))
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

sharded = distribute_tensor(torch.ones(4, 4), init_device_mesh("cpu", (1,)), [Shard(0)])
try:
    check_same_device(sharded, torch.ones(2, device="meta"))
except DeviceMismatch as error:
    told["sharded"] = error.groups["cpu"]
print(json.dumps(told))
"""


def _made() -> Path:
    """An environment with a CPU build of torch; the test is skipped where no index has one."""
    prefix = CACHE / f"torch-{sys.version_info[0]}.{sys.version_info[1]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{prefix.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not (prefix / "made").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", prefix], check=True, timeout=100)
            words = [f"{prefix}/bin/pip", "install", "-q", TORCH, "numpy", "ninja", "setuptools"]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
            if done.returncode:
                pytest.skip(f"no {TORCH} from the index: {done.stderr[-200:]}")
            (prefix / "made").touch()
    return prefix


@pytest.fixture(scope="module")
def cpu_prefix() -> Path:
    named = os.environ.get("CUENV_TEST_TORCH")
    return Path(named) if named else _made()


@pytest.mark.slow
def test_a_real_torch_runs_without_a_gpu(cpu_prefix: Path) -> None:
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    checks = {check.name: check for check in run_probes(find_prefix(cpu_prefix), 0, environ, timeout=LIMIT)}
    assert {name: check.findings for name, check in checks.items() if check.findings} == {}
    assert checks["run:torch"].says.startswith("torch 2.")
    assert checks["run:matmul"].says.startswith("cpu (float32)")
    assert checks["run:cuda"].status == checks["run:nccl"].status == "skip"
    assert "no GPU" in checks["run:cuda"].says
    for name in ("extension", "compile"):
        check = checks[f"run:{name}"]
        assert check.status == "ok" or "compiler" in check.says or "ninja" in check.says
        assert check.status == "skip" or "on cpu" in check.says


@pytest.mark.slow
def test_devices_of_the_real_torch(cpu_prefix: Path) -> None:
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [f"{cpu_prefix}/bin/python", "-c", DEVICES, str(SOURCE)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environ,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["one"] == told["packed"] == "cpu"
    assert told["groups"] == {
        "cpu": ["Linear.weight float32 (4, 3)", "Linear.bias float32 (4)"],
        "meta": ["argument 2.weight float32 (4, 3), no data", "argument 2.bias float32 (4), no data"],
    }
    assert len(told["refused"]) == 2
    assert told["sharded"] == ["argument 1 float32 (4, 4), DTensor over cpu"]


def _gpu_prefix() -> Iterator[Path]:
    for folder in (os.environ.get("CUENV_TEST_TORCH"), sys.prefix):
        if folder and list(Path(folder).glob("lib/python3*/site-packages/torch/version.py")):
            yield Path(folder)


@pytest.mark.gpu
def test_a_real_torch_runs_on_every_gpu() -> None:
    prefix = next(_gpu_prefix(), None)
    facts = cuenv.inspect_host()
    if prefix is None or not facts.gpus:
        pytest.skip("no GPU, or no environment with torch: CUENV_TEST_TORCH=DIR")
    checks = {
        check.name: check for check in run_probes(find_prefix(prefix), len(facts.gpus), os.environ, timeout=LIMIT)
    }
    assert {name: check.findings for name, check in checks.items() if check.findings} == {}
    for name in ("torch", "cuda", "matmul", "nccl"):
        assert checks[f"run:{name}"].status == "ok"
    assert "cuda:0 (float32" in checks["run:matmul"].says
