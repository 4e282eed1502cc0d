"""Decisions of the shipped hosts, proven on real records: locked, checked without a finding, read by conda-lock."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from commands import inside as run
from cuenv.resolver.prove import unsatisfiable_text
from cuenv.solve.model import Unsatisfiable
from given import spec

pytestmark = pytest.mark.records

CASES = {
    "a800 with an old driver": ["--host", "a800-470"],
    "a800 without compiler": ["--host", "a800-470", "--no-dev"],
    "rtx 4090": ["--host", "rtx4090-535"],
    "rtx 4090 within the driver's level": ["--host", "rtx4090-535", "--prefer", "native", "--no-dev"],
    "rtx 3090": ["--host", "rtx3090-535"],
    "h800": ["--host", "h800-525"],
    "pool of v100 and rtx 5090": ["--host", "pool-v100", "--host", "pool-rtx5090"],
    "gtx 1080 ti": ["--host", "gtx1080ti-580"],
    "rtx 4090 with torch 2.5": ["--host", "rtx4090-560-nvcc101", "--pytorch", "2.5"],
    "gh200": ["--host", "gh200-570"],
}
EXPECTED = {
    "a800 with an old driver": {"stack": "pytorch", "cuda": "11.8", "channel": "nvidia/label/cuda-11.8.0"},
    "a800 without compiler": {"stack": "conda-forge", "build": "cuda118*"},
    "rtx 4090": {"build": "cuda129*"},
    "rtx 4090 within the driver's level": {"cuda": "12.1", "pytorch": "2.5.1"},
    "h800": {"build": "cuda129*"},
    "pool of v100 and rtx 5090": {"build": "cuda129*"},
    "gtx 1080 ti": {"build": "cuda129*"},
    "rtx 4090 with torch 2.5": {"pytorch": "2.5.1", "cuda": "12.6"},
    "gh200": {"platform": "linux-aarch64"},
}

SLOW = set(CASES) - {"gh200"}
"""Each has a sibling among the others that goes the same way; the session of the README shows the RTX 4090."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CASES]
)
@pytest.mark.filterwarnings("ignore")  # conda-lock's own vendored code warns about itself
def test_a_proven_decision_is_locked_checked_and_read_back(name: str, tmp_path: Path, records: Path) -> None:
    words = CASES[name]
    mirrors = [
        word for item in ("conda-forge", "pytorch", "nvidia") for word in ("--mirror", f"{item}={records / item}")
    ]
    resolved = run("resolve", *words, "--prove", *mirrors, "-o", "environment.yml", "--json", folder=tmp_path)
    assert resolved.returncode == 0, resolved.stderr
    chosen = json.loads(resolved.stdout)["chosen"]
    assert EXPECTED.get(name, {}).items() <= chosen.items()
    host = [part for index, word in enumerate(words) if word == "--host" for part in words[index : index + 2]]
    locked = run("lock", *host, *mirrors, "--json", folder=tmp_path)
    assert locked.returncode == 0, locked.stderr
    checked = run("check", "--json", *host, folder=tmp_path)
    report = json.loads(checked.stdout)
    assert checked.returncode == 0
    assert [item for item in report["findings"] if item["code"] != "CU412"] == []  # the nvcc of one host's PATH
    read = import_module("conda_lock.lockfile").parse_conda_lock_file(tmp_path / "conda-lock.yml")
    assert len(read.package) == json.loads(locked.stdout)["packages"][chosen["platform"]]
    if name in ("pool of v100 and rtx 5090", "gtx 1080 ti"):
        cudnn = next(package for package in read.package if package.name == "libcudnn")
        assert [int(part) for part in cudnn.version.split(".")[:2]] < [9, 11]


@pytest.mark.slow
def test_what_would_refuse_the_lock_refuses_the_candidate(tmp_path: Path, records: Path) -> None:
    mirror = ("--mirror", f"conda-forge={records / 'conda-forge'}")
    words = ("--gpu", "A100", "--driver", "535.129.03", "--glibc", "2.35", "--stack", "conda-forge", "--no-dev")
    asked = ("--cuda", "12.5", "--pytorch", "2.5.1", "--with", "cuda-nvcc", "--with", "gxx_linux-64=15")
    done = run("resolve", "--prove", *words, *asked, *mirror, folder=tmp_path)
    assert done.returncode == 1
    assert "does not work with cuda-nvcc 12.5.40: nvcc 12.5 accepts GCC 6 to 13" in done.stderr


def test_a_package_that_strict_channel_priority_hides_is_named() -> None:
    text = (
        "The following packages are incompatible\n"
        "└─ app * cannot be installed because there are no viable options:\n"
        "   └─ lib 3.1 | 3.2 is excluded because due to strict channel priority not using this option from: "
        "'https://conda.anaconda.org/conda-forge/'\n"
    )
    said = unsatisfiable_text(Unsatisfiable(platform="linux-64", missing=(), text=text), spec("app"))
    assert said.startswith("a channel that is listed before conda-forge has lib, but no release of it that fits")
    assert said.endswith("list conda-forge first, or add conda-forge::lib")


def test_a_file_that_an_old_driver_alone_cannot_have_is_told_the_driver(tmp_path: Path, records: Path) -> None:
    text = "channels: [conda-forge]\ndependencies: [python=3.12, jaxlib=*=*cuda*]\n"
    (tmp_path / "environment.yml").write_text(text)
    mirror = ("--mirror", f"conda-forge={records / 'conda-forge'}")
    told = run("lock", "--gpu", "A100", "--driver", "450.80.02", "--glibc", "2.31", *mirror, folder=tmp_path)
    assert told.returncode == 1
    assert "error CU401 CUDA 12.x needs driver 525.60.13 or later" in told.stderr
    assert "cannot satisfy" not in told.stderr
