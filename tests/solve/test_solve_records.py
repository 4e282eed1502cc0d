"""What closes on the real channel records, against a bare py-rattler script with the same specs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cases import quick
from channel_builder import request
from cuenv.host.facts import VirtualPackage
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io.channels import Channels
from cuenv.solve.io.solver import parse_spec, pins_without_record, solve
from cuenv.solve.io.sources import Mirror, Sources
from cuenv.solve.model import Solution, SolveRequest, Unsatisfiable

pytestmark = pytest.mark.records

HOST = "https://conda.anaconda.org"
LABEL = "nvidia/label/cuda-11.8.0"
HEADERS = ("cuda-nvcc", "cuda-cudart-dev", "libcusparse-dev", "libcublas-dev", "libcusolver-dev", "libcurand-dev")

BARE = """
import asyncio, json, os, sys
from rattler import Channel, Gateway, GenericVirtualPackage, MatchSpec, PackageName, SparseRepoData, Version, solve
from rattler.package import BuildString
root, cache, channels, platform, virtual, specs = json.loads(sys.argv[1])
sources = [
    SparseRepoData(Channel(name), subdir, f"{root}/{name}/{subdir}/repodata.json")
    for name in channels for subdir in (platform, "noarch")
]
made = [GenericVirtualPackage(PackageName(n), Version(v), BuildString(b)) for n, v, b in virtual]
records = asyncio.run(solve(
    sources, [MatchSpec(text, strict=True) for text in specs], Gateway(cache_dir=cache),
    [platform, "noarch"], virtual_packages=made,
))
print(json.dumps(sorted(record.url for record in records)), flush=True)
os._exit(0)
"""


def host(cuda: str, arch: str = "", glibc: str = "2.35", machine: str = "x86_64") -> tuple[VirtualPackage, ...]:
    found = [
        VirtualPackage("__archspec", "1", machine),
        VirtualPackage("__cuda", cuda),
        VirtualPackage("__glibc", glibc),
        VirtualPackage("__linux", "5.15"),
        VirtualPackage("__unix", "0"),
    ]
    return (*found, VirtualPackage("__cuda_arch", arch)) if arch else tuple(found)


def forge(name: str, version: str = "", build: str = "") -> Pin:
    return Pin(name=name, version=version, build=build, channel="conda-forge")


def torch(version: str, build: str, cuda: str, python: str, *more: Pin, headers: bool = True) -> list[Pin]:
    pins = [forge("pytorch", version, build), forge("cuda-version", cuda), Pin(name="python", version=python), *more]
    return [*pins, *map(forge, HEADERS)] if headers else pins


PYTORCH = [
    Pin(name="pytorch", version="2.3.1", build="*cuda11.8*", channel="pytorch"),
    Pin(name="pytorch-cuda", version="11.8", channel="pytorch"),
    Pin(name="cuda-toolkit", version="11.8.0", channel=LABEL),
    forge("gxx_linux-64", "11.*"),
    forge("ninja"),
    Pin(name="python", version="3.10"),
]
CAP = forge("libcudnn", "<9.11")

CLOSES = {
    "470-with-compiler": (PYTORCH, ("pytorch", LABEL, "conda-forge"), host("11.4", "8.0"), 120),
    "470-without-compiler": (
        [
            forge("pytorch", "2.4.0", "cuda118*"),
            forge("cudnn", "8.9.7.29"),
            forge("nccl"),
            Pin(name="python", version="3.12"),
        ],
        ("conda-forge",),
        host("11.4", "8.0"),
        66,
    ),
    "535-newest": (torch("2.12.0", "cuda129*", "12.9", "3.13"), ("conda-forge",), host("12.2", "8.9"), 119),
    "535-python-312": (torch("2.10.0", "cuda129*", "12.9", "3.12"), ("conda-forge",), host("12.2", "8.9"), 119),
    "535-within-12.2": (
        torch("2.5.1", "cuda120*", "12.1", "3.12", headers=False),
        ("conda-forge",),
        host("12.2", "8.9"),
        76,
    ),
    "525-hopper": (torch("2.12.0", "cuda129*", "12.9", "3.13"), ("conda-forge",), host("12.0", "9.0"), 119),
    "7.0-and-12.0": (torch("2.12.0", "cuda129*", "12.9", "3.13", CAP), ("conda-forge",), host("12.9", "7.0"), 119),
    "6.1-with-580": (torch("2.12.0", "cuda129*", "12.9", "3.13", CAP), ("conda-forge",), host("13.0", "6.1"), 119),
    "560-torch-2.5": (torch("2.5.1", "cuda126*", "12.6", "3.12"), ("conda-forge",), host("12.6", "8.9"), 115),
    "cuda-13": (
        torch("2.12.1", "cuda130*", "13.2", "3.14", forge("libcudnn")),
        ("conda-forge",),
        host("13.2", "9.0"),
        119,
    ),
}

FAILS = {
    "torch-2.13": (torch("2.13.0", "cuda129*", "12.9", "3.13"), "12.2", ("conda-forge::pytorch=2.13.0=cuda129*",)),
    "metapackage": ([*torch("2.12.0", "cuda129*", "12.9", "3.13"), forge("cuda-libraries-dev")], "12.9", ()),
    "torch-2.5.1-cuda118": (torch("2.5.1", "cuda118*", "11.8", "3.12", headers=False), "11.8", ()),
    "toolkit-12.2": (torch("2.5.1", "cuda120*", "12.2", "3.12", headers=False), "12.2", ()),
    "headers-12.1": (
        torch("2.5.1", "cuda120*", "12.1", "3.12"),
        "12.2",
        (),
    ),
    "cuda-13.0": (torch("2.12.1", "cuda130*", "13.0", "3.14"), "13.0", ()),
}


@pytest.fixture
def sources(records: Path, tmp_path: Path) -> Sources:
    return Sources(mirrors=(Mirror(origin=HOST, target=str(records)),), cache=str(tmp_path / "cache"))


def bare(records: Path, cache: Path, wanted: SolveRequest) -> list[str]:
    virtual = [[item.name, item.version, item.build] for item in wanted.virtual_packages]
    specs = [pin.match_spec() for pin in wanted.spec.pins]
    state = [str(records), str(cache), wanted.channels, wanted.platform, virtual, specs]
    done = subprocess.run([sys.executable, "-c", BARE, json.dumps(state)], capture_output=True, text=True, check=True)
    urls: list[str] = json.loads(done.stdout)
    return urls


@pytest.mark.slow
@pytest.mark.parametrize("name", quick(CLOSES, "cuda-13"))
def test_closes_as_a_bare_script_does(records: Path, sources: Sources, tmp_path: Path, name: str) -> None:
    pins, channels, virtual, count = CLOSES[name]
    wanted = request(*pins, channels=channels, virtual=virtual)
    answer = solve(wanted, sources)
    assert isinstance(answer, Solution), answer.text
    assert sorted(package.url for package in answer.packages) == bare(records, tmp_path / "bare", wanted)
    assert len(answer.packages) == count
    assert all(package.url.startswith(f"{HOST}/") and (package.sha256 or package.md5) for package in answer.packages)
    assert [package.name for package in answer.packages] == sorted(package.name for package in answer.packages)
    if CAP in pins:
        assert answer.package("libcudnn") is not None


@pytest.mark.parametrize("name", quick(FAILS, first=2))
def test_what_the_records_cannot_satisfy_is_said_with_what_is_missing(sources: Sources, name: str) -> None:
    pins, cuda, missing = FAILS[name]
    answer = solve(request(*pins, virtual=host(cuda)), sources)
    assert isinstance(answer, Unsatisfiable)
    assert {item for item in missing if item not in answer.missing} == set()
    assert answer.text.startswith("Cannot solve the request because of:")


@pytest.mark.slow
@pytest.mark.parametrize(("platform", "machine"), [("linux-64", "x86_64"), ("linux-aarch64", "aarch64")])
@pytest.mark.parametrize("version", quick(["2.9.1", "2.8.0", "2.10.0"], first=1))
def test_a_build_of_torch_has_a_solution_on_both_platforms(
    sources: Sources, platform: str, machine: str, version: str
) -> None:
    pins = torch(version, "cuda129*", "12.9", "3.12", headers=False)
    virtual = host("12.9", machine=machine)
    assert isinstance(solve(request(*pins, platform=platform, virtual=virtual), sources), Solution)


def test_without_a_cap_the_solver_takes_a_cudnn_that_lost_old_gpus(sources: Sources) -> None:
    answer = solve(request(*torch("2.12.0", "cuda129*", "12.9", "3.13"), virtual=host("12.9", "6.1")), sources)
    assert isinstance(answer, Solution)
    cudnn = answer.package("libcudnn")
    assert cudnn is not None
    assert tuple(map(int, cudnn.version.split(".")[:2])) >= (9, 11)


def test_a_second_solve_with_its_lock_changes_nothing(sources: Sources) -> None:
    pins, channels, virtual, _ = CLOSES["560-torch-2.5"]
    first = solve(request(*pins, channels=channels, virtual=virtual), sources)
    assert isinstance(first, Solution)
    assert solve(request(*pins, channels=channels, virtual=virtual, prefer=first.packages), sources) == first


def test_many_candidates_ask_each_pin_once(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    find = Channels.find

    def counting(self: Channels, parts: Any, platform: str, specs: Any) -> Any:
        asked.extend(map(str, specs))
        return find(self, parts, platform, specs)

    monkeypatch.setattr(Channels, "find", counting)
    pins = torch("2.12.0", "cuda129*", "12.9", "3.13")
    for minor in range(20):
        other = Pin(name="python", version=f"3.{minor}")
        assert (pins_without_record((*pins, other), ("conda-forge",), "linux-64", sources) == ()) is (
            minor in set(range(8, 15))
        )
    assert len(asked) == len(set(asked)) == len(pins) + 19


def test_every_pin_of_the_table_is_a_strict_spec() -> None:
    for pins, _, _, _ in CLOSES.values():
        assert [str(parse_spec(pin).name.normalized) for pin in pins] == [pin.name for pin in pins]
