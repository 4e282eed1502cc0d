"""The hosts that come with cuenv, reading one that a person names, and recording one."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
import yaml

from cases import collect
from cuenv.core.errors import InputError, OutsideError, UsageError
from cuenv.host.describe import host_lines
from cuenv.host.facts import HostFacts
from cuenv.host.host_json import dump
from cuenv.host.io.observation import ProbeResult
from cuenv.host.io.probe import MachineAccess, probe
from cuenv.host.io.record import SHIPPED, read_host, record, shipped_names
from cuenv.host.request import pool
from cuenv.knowledge.gpu_names import find_gpu
from given import shipped_base
from trees import OPEN, plant, program

FACTS = Path(__file__).resolve().parents[3] / "shared" / "facts" / "drivers.yaml"
NAMES = shipped_names()


def no_input() -> str:
    raise AssertionError("standard input was read")


def test_the_hosts_of_the_readme_are_there() -> None:
    named = "a800-470 rtx4090-535 rtx3090-535 h800-525 pool-v100 pool-rtx5090 gtx1080ti-580 rtx5090-560 no-gpu"
    assert set(NAMES) >= {*named.split(), "rtx4090-560-nvcc101", "gh200-570", "t4-535-container", "v100-rtx5090-575"}


@collect("name", NAMES)
def test_a_shipped_host_is_canonical_and_agrees_with_the_tables(name: str) -> None:
    facts = read_host(name, no_input, shipped_base())
    assert facts.label == name
    assert facts.detected
    assert dump(facts) == Path(SHIPPED, f"{name}.json").read_text()
    knowledge = shipped_base()
    if facts.driver and facts.driver.version:
        assert facts.driver.cuda == knowledge.cuda_of(facts.driver.version)
    for gpu in facts.gpus:
        row = find_gpu(gpu.name, knowledge.gpus)
        assert row is not None
        assert row.capability == gpu.capability
    assert {item.fact for item in facts.evidence} >= {"platform", "kernel", "libc"}
    assert (facts.driver is None) == any(gap.fact == "driver" for gap in facts.gaps)


@lru_cache(maxsize=1)
def levels_of_branches() -> dict[int, str]:
    rows = yaml.safe_load(FACTS.read_text())["branch_reports_cuda"]
    return {row["branch"]: row["cuda"] for row in rows}


@pytest.mark.records
@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_host_speaks_the_cuda_of_its_branch(name: str) -> None:
    if not FACTS.exists():
        pytest.skip("the collected facts are not beside the project")
    facts = read_host(name, no_input, shipped_base())
    levels = levels_of_branches()
    if facts.driver and facts.driver.version:
        assert str(facts.driver.cuda) == levels[int(facts.driver.version.split(".")[0])]


def test_folder_file_name_and_stdin(tmp_path: Path) -> None:
    text = Path(SHIPPED, "no-gpu.json").read_text().replace('"label": "no-gpu"', '"label": "this machine"')
    plant(tmp_path, {"node-7/host.json": text, "other.json": text})
    assert read_host(str(tmp_path / "node-7"), no_input, shipped_base()).label == "node-7"
    assert read_host(str(tmp_path / "node-7/host.json"), no_input, shipped_base()).label == "node-7"
    assert read_host(str(tmp_path / "other.json"), no_input, shipped_base()).label == "other"
    assert read_host("-", lambda: text, shipped_base()).label == "standard input"


def test_what_lies_on_disk_goes_before_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {"a800-470/host.json": '{"schema": "cuenv/host/1", "platform": "linux-64", "gpus": []}'})
    monkeypatch.chdir(tmp_path)
    assert read_host("a800-470", no_input, shipped_base()).gpus == ()


@collect(
    ("name", "says"),
    [
        ("missing.json", "no such file"),
        ("some/where", "no such file"),
        ("folder", "holds no host.json"),
        ("text", "describes no host"),
        ("binary", "binary file"),
    ],
)
def test_what_cannot_be_read_is_an_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    plant(tmp_path, {"folder/x": "", "text": "hello", "binary": "\0\1"})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=says):
        read_host(name, no_input, shipped_base())


@collect("name", ["", "rtx490-535", "x\x1b[31m", "n" * 5000, "a\0b"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_host(name, no_input, shipped_base())
    assert all(known in caught.value.message for known in NAMES)
    assert caught.value.message.isprintable()
    assert (caught.value.hint or "").startswith(("cuenv resolve --host ", "cuenv inspect --record DIR"))
    if name.startswith("rtx"):
        assert caught.value.hint == "cuenv resolve --host rtx4090-535"


def probed(root: Path, environ: dict[str, str]) -> tuple[HostFacts, MachineAccess]:
    outside = MachineAccess(nvml=lambda _: ProbeResult(), uname=("Linux", "x86_64"), confstr=lambda _: "glibc 2.35")
    return probe(environ, root, deep=True, outside=outside), outside


def test_a_record_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    plant(tmp_path, {"etc/os-release": 'NAME="Debian"\n'})
    facts, outside = probed(tmp_path, {})
    folder = tmp_path / "node"
    record(folder, facts, {}, tmp_path, outside)
    before = (folder / "host.json").read_bytes()
    (folder / "os-release.txt").unlink()
    (folder / "os-release.txt").mkdir()
    with pytest.raises(OutsideError, match=r"os-release\.txt: "):
        record(folder, replace(facts, kernel="6.0"), {}, tmp_path, outside)
    assert (folder / "host.json").read_bytes() == before


def test_a_record_names_neither_machine_nor_person(tmp_path: Path) -> None:
    host = os.uname().nodename
    uuid = "GPU-8f6d2ba1-39ac-4d1f-b2de-0123456789ab"
    log = f"Driver Version : 560.35.03\\nSerial Number : 99\\nGPU UUID : {uuid}\\n{host}"
    program(tmp_path / "bin/nvidia-smi", f"case \"$1\" in -q) printf '{log}';; *) exit 9;; esac")
    home = plant(tmp_path / "home/ann", {"cuda-12.6/version.json": '{"cuda": {"version": "12.6.3"}}'})
    plant(tmp_path, {"proc/driver/nvidia/version": OPEN, "etc/os-release": 'NAME="Debian"\n'})
    environ = {
        "HOME": str(home),
        "USER": "ann",
        "PATH": f"{tmp_path}/bin",
        "CUDA_HOME": f"{home}/cuda-12.6",
        "CONDA_PREFIX": f"{home}/envs/secret",
    }
    facts, outside = probed(tmp_path, environ)
    folder = tmp_path / "records/node"
    written = record(folder, facts, environ, tmp_path, outside)
    assert [path.name for path in written] == [
        "host.json",
        "nvidia-smi.txt",
        "os-release.txt",
        "proc-driver-nvidia-version.txt",
    ]
    whole = "".join(path.read_text() for path in written)
    for private in (str(home), "/ann", "their-box", "8f6d2ba1", "Serial", ": 99"):
        assert private not in whole
    back = read_host(str(folder), no_input, shipped_base())
    assert back.label == "node"
    assert back.driver == facts.driver
    assert back.environment.conda_prefix == "~/envs/secret"
    assert [item.path for item in back.toolkits] == ["~/cuda-12.6"]
    assert record(folder, facts, environ, tmp_path, outside) == written


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    facts, outside = probed(tmp_path, {})
    for name, files in (("work", {"thesis.tex": "x"}), ("foreign", {"host.json": '{"name": "web"}'})):
        folder = plant(tmp_path / name, files)
        with pytest.raises(InputError, match="nothing in it was changed"):
            record(folder, facts, {}, tmp_path, outside)
        assert [path.name for path in folder.iterdir()] == list(files)
    with pytest.raises(InputError, match="is a file"):
        record(tmp_path / "work/thesis.tex", facts, {}, tmp_path, outside)
    with pytest.raises(OutsideError, match="cannot make the folder"):
        record(Path("/proc/nowhere"), facts, {}, tmp_path, outside)


def test_a_pool_is_shown_with_who_cuts() -> None:
    text = "\n".join(
        host_lines(
            pool([read_host("h800-525", no_input, shipped_base()), read_host("a800-470", no_input, shipped_base())])
        )
    )
    assert text.startswith("pool of 2 hosts (linux-64)\n  driver      470.129.06 supports CUDA 11.4: the highest CUDA")
    assert "the lowest driver of the pool is on a800-470" in text
    assert "0-7   NVIDIA A800-SXM4-80GB  compute capability 8.0  81251 MiB each" in text
    assert "packages need code for 8.0 and 9.0" in text
    assert "\na800-470 (linux-64)\n" in text


def test_gpus_are_shown_as_a_range_only_where_none_is_missing_between() -> None:
    facts = read_host("a800-470", no_input, shipped_base())
    gpus = tuple(gpu for gpu in facts.gpus if gpu.index not in (0, 3))
    text = "\n".join(host_lines(replace(facts, gpus=gpus)))
    assert "1-2 " in text
    assert "4-7 " in text
    assert "1-7" not in text


def test_a_host_without_a_gpu_shows_its_gaps() -> None:
    text = "\n".join(host_lines(read_host("no-gpu", no_input, shipped_base())))
    assert "not found, so no CUDA program can run here" in text
    assert "not known   driver: nvml: libnvidia-ml.so.1 is on no library path" in text


def test_a_mismatch_is_shouted() -> None:
    plain = json.loads(Path(SHIPPED, "rtx4090-535.json").read_text())
    plain["driver"]["kernel_module"] = "525.85.12"
    text = "\n".join(host_lines(read_host("-", lambda: json.dumps(plain), shipped_base())))
    assert (
        "kernel module 525.85.12 (proprietary), DIFFERS from the driver library: reboot, or reload the module" in text
    )
