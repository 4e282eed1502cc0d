"""The host among the checks of an installed environment, and what a profile asks of a machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cases import collect
from commands import inside as run
from cuenv.core.findings import Check
from cuenv.host.facts import CudaLibrary, Gpu, HostFacts, Resources, Surroundings
from cuenv.host.request import Request
from cuenv.host.select import with_disk
from cuenv.prefix.checked import CheckedEnvironment
from cuenv.prefix.checks import CHECKS, check_host
from cuenv.prefix.cuda_files import cuda_release_of
from cuenv.prefix.inventory import Prefix, Wheel
from cuenv.prefix.io.prefix import find_prefix
from given import base, machine, package
from trees import plant

EMPTY = Prefix(path="/env", kind="venv", python="3.12", site_packages=())


def wheels(**versions: str) -> Prefix:
    found = (
        Wheel(name=name.replace("_", "-"), version=version, folder="/env/lib") for name, version in versions.items()
    )
    return replace(EMPTY, wheels=tuple(found))


def conda(*names: tuple[str, str]) -> Prefix:
    return replace(EMPTY, kind="conda", conda=tuple(package(name, version) for name, version in names))


def looked(prefix: Prefix, facts: HostFacts, profile: Request | None = None) -> Check:
    return check_host(CheckedEnvironment(prefix=prefix, facts=facts, knowledge=base(), environ={}, profile=profile))


def codes(found: Check, severity: str) -> list[str]:
    return sorted(item.code for item in found.findings if item.severity == severity)


@collect(
    ("prefix", "release", "says"),
    [
        (conda(("cuda-version", "12.9"), ("pytorch", "2.10.0")), "12.9", "cuda-version 12.9"),
        (conda(("pytorch-cuda", "11.8"), ("cuda-version", "12.1")), "11.8", "pytorch-cuda 11.8"),
        (conda(("cudatoolkit", "11.8.0")), "11.8", "cudatoolkit 11.8.0"),
        (wheels(torch="2.5.1+cu124", nvidia_cuda_runtime_cu12="12.1.105"), "12.4", "torch 2.5.1+cu124"),
        (wheels(torch="2.5.1", nvidia_cuda_runtime_cu12="12.4.127"), "12.4", "nvidia-cuda-runtime-cu12 12.4.127"),
        (wheels(torch="2.9.0", nvidia_cuda_runtime="13.0.48"), "13.0", "nvidia-cuda-runtime 13.0.48"),
    ],
)
def test_the_cuda_release_of_an_environment(prefix: Prefix, release: str, says: str) -> None:
    found = cuda_release_of(prefix)
    assert found
    assert str(found[0]) == release
    assert found[1].startswith(says)


@collect("prefix", [EMPTY, wheels(torch="2.5.1+cpu"), wheels(nvidia_cuda_runtime_cu12="x")])
def test_an_environment_without_cuda(prefix: Prefix) -> None:
    assert cuda_release_of(prefix) is None
    found = looked(prefix, machine("8.0", driver="535.129.03"))
    assert (found.status, found.findings) == ("ok", ())
    assert "the environment's records name no CUDA release" in found.says


def test_it_is_one_of_the_checks() -> None:
    assert "host" in CHECKS


def test_floor_branch_and_level_of_the_driver() -> None:
    cuda12 = wheels(torch="2.5.1+cu124")
    below = looked(cuda12, machine("8.0", driver="470.129.06"))
    assert (below.status, codes(below, "error")) == ("fail", ["CU401"])
    assert all(item.evidence for item in below.findings)
    young = looked(cuda12, machine("12.0", driver="535.129.03"))
    assert "CU402" in codes(young, "error")
    above = looked(cuda12, machine("8.0", driver="535.129.03"))
    assert (above.status, codes(above, "info")) == ("ok", ["CU408"])
    fine = looked(cuda12, machine("8.0", driver="550.54.14"))
    assert (fine.status, fine.findings) == ("ok", ())
    assert fine.says.startswith("CUDA 12.4 (from torch 2.5.1+cu124 (dist-info)) on box: driver 550.54.14")


def test_forward_compatibility_counts_where_it_works_and_only_there() -> None:
    facts = machine("8.0", driver="470.129.06")
    facts = replace(facts, gpus=(Gpu(index=0, name="NVIDIA A100-SXM4-80GB", capability=facts.capabilities[0]),))
    library = CudaLibrary(
        path="/usr/local/cuda/compat/libcuda.so.1", version="550.54.14", via="LD_LIBRARY_PATH", forward=True
    )
    helped = looked(wheels(torch="2.5.1+cu124"), replace(facts, environment=Surroundings(libcuda=library)))
    assert (helped.status, codes(helped, "info")) == ("ok", ["CU414"])
    stale = replace(library, version="450.80.02")
    hurt = looked(wheels(torch="2.5.1+cu124"), replace(facts, environment=Surroundings(libcuda=stale)))
    assert codes(hurt, "error") == ["CU401", "CU414"]


def test_without_a_gpu_it_is_skipped_unless_something_is_wrong() -> None:
    bare = replace(machine(), driver=None)
    assert looked(wheels(torch="2.5.1+cu124"), bare).status == "skip"
    small = replace(bare, resources=Resources(memory_mib=1000))
    assert looked(wheels(torch="2.5.1+cu124"), small, Request(host_memory_gb=64)).status == "warn"


def test_a_torch_on_disk_is_judged_for_the_host(tmp_path: Path) -> None:
    site = "lib/python3.12/site-packages"
    plant(
        tmp_path / "env",
        {
            "pyvenv.cfg": "home = /usr/bin\nversion = 3.12.1\n",
            f"{site}/torch-2.5.1+cu124.dist-info/METADATA": "Name: torch\nVersion: 2.5.1+cu124\n",
        },
    )
    found = looked(find_prefix(tmp_path / "env"), machine("8.0", driver="470.129.06"))
    assert codes(found, "error") == ["CU401"]


# check --profile

LOCK = Path(__file__).resolve().parents[2] / "locks" / "inference" / "conda-lock.yml"
HUGE = "name: huge\nstory: a test\nhost_memory_gb: 1000000\ndisk_gb: 100000000\n"


def test_free_disk_is_looked_at_where_a_profile_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = machine("8.0", driver="535.129.03")
    assert with_disk(here, Request(host_memory_gb=8)) is here
    found = with_disk(here, Request(disk_gb=1))
    assert found.resources.disk_mib is not None
    assert found.evidence_for("resources.disk_mib")
    assert with_disk(found, Request(disk_gb=1)) is found


def test_check_warns_of_the_memory_of_a_recorded_host(tmp_path: Path) -> None:
    host = {
        "schema": "cuenv/host/1",
        "platform": "linux-64",
        "gpus": [{"name": "NVIDIA L4", "capability": "8.9"}],
        "driver": {"version": "580.65.06"},
        "resources": {"memory_mib": 128_000},
        "evidence": [{"fact": "resources.memory_mib", "source": "/proc/meminfo", "text": "128000 MiB"}],
    }
    (tmp_path / "node.json").write_text(json.dumps(host))
    (tmp_path / "huge.yml").write_text(HUGE)
    done = run("check", LOCK, "--host", "node.json", "--profile", "huge.yml", "--json", folder=tmp_path)
    (finding,) = [item for item in json.loads(done.stdout)["findings"] if item["code"] == "CU418"]
    assert "134 GB of memory, but the profile huge requires 1000000 GB" in finding["message"]
    without = run("check", LOCK, "--host", "node.json", "--json", folder=tmp_path)
    assert "CU418" not in without.stdout
    missing = run("check", LOCK, "--profile", "nobody", folder=tmp_path)
    assert missing.returncode in (2, 3)
    assert "nobody" in missing.stderr


def test_a_hostile_record_reaches_no_terminal_raw(tmp_path: Path) -> None:
    bad = "NVIDIA A100\x1b]0;x\x07\x1b[2J"
    host = {
        "schema": "cuenv/host/1",
        "platform": "linux-64",
        "label": bad,
        "gpus": [
            {"name": bad, "capability": "8.0", "mig": {"mode": {"on": True}, "instances": [{"profile": bad}] * 2}}
        ],
        "driver": {"version": "535.129.03", "kernel_module": "550.54.14"},
        "environment": {
            "container": bad,
            "device_nodes": [bad],
            "driver_capabilities": bad,
            "libcuda": {"path": bad, "version": "535.54.03", "forward": True, "via": "LD_LIBRARY_PATH"},
        },
        "resources": {"memory_mib": 1, "shm_mib": 1},
        "evidence": [{"fact": "resources.memory_mib", "source": bad, "text": bad}],
    }
    (tmp_path / "bad.json").write_text(json.dumps(host))
    (tmp_path / "huge.yml").write_text(HUGE)
    shown = run("inspect", "--host", "bad.json", "-v", folder=tmp_path)
    checked = run(
        "check", LOCK, "--host", "bad.json", "--profile", "huge.yml", "-v", "--color", "always", folder=tmp_path
    )
    assert (shown.returncode, checked.returncode) == (3, 3)
    assert "got a control character (U+001B)" in shown.stderr
    for text in (shown.stdout, shown.stderr, checked.stdout, checked.stderr):
        assert "\x1b]" not in text
        assert "\x1b[2J" not in text
        assert "\x07" not in text
    (tmp_path / "bad.json").write_text(json.dumps(host).replace(json.dumps(bad), '"NVIDIA A100]0;x"'))
    shown = run("inspect", "--host", "bad.json", "-v", folder=tmp_path)
    checked = run("check", LOCK, "--host", "bad.json", "--profile", "huge.yml", "-v", folder=tmp_path)
    assert "MIG on" in shown.stdout
    for code in ("CU411", "CU414", "CU416", "CU417", "CU418", "CU419"):
        assert code in checked.stdout


@collect("text", ["[]", "{", "host_memory_gb: -1", "name: x\nstory: y\ndisk_gb: '1'", "\x00"])
def test_a_profile_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yml").write_text(text)
    done = run("check", LOCK, "--host", "rtx4090-535", "--profile", "bad.yml", folder=tmp_path)
    assert done.returncode == 3
    assert "bad.yml" in done.stderr
    assert "Traceback" not in done.stderr
