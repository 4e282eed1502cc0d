"""The sample channels of the demo: the same bytes each time, true to the real records, closing for every demo."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from cases import collect
from channel_builder import request
from cuenv.core.errors import OutsideError
from cuenv.demo.io.sample import write_sample
from cuenv.host.facts import VirtualPackage
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io.solver import solve
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Solution, Unsatisfiable

LABEL = "nvidia/label/cuda-11.8.0"
FORGE = ("conda-forge",)
HEADERS = [
    "cuda-nvcc",
    "cuda-cudart-dev",
    "libcusparse-dev",
    "libcublas-dev",
    "libcusolver-dev",
    "libcurand-dev",
    "nccl",
]


@pytest.fixture(scope="module", params=["linux-64", "linux-aarch64"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, request.param)
    return request.param, folder


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    folder = tmp_path_factory.mktemp("sample")
    return Sources(mirrors=write_sample(folder, "linux-64"), cache=str(folder / "cache"))


def host(cuda: str, glibc: str = "2.35") -> tuple[VirtualPackage, ...]:
    return (VirtualPackage("__cuda", cuda), VirtualPackage("__glibc", glibc), VirtualPackage("__linux", "5.15"))


def forge(torch: str, build: str, cuda: str, cudnn: Pin, python: str, *, gcc: str = "") -> list[Pin]:
    """What cuenv composes for the stack conda-forge."""
    pins = [
        Pin(name="pytorch", version=torch, build=build, channel="conda-forge"),
        Pin(name="cuda-version", version=cuda, channel="conda-forge"),
        cudnn,
        Pin(name="python", version=python),
        Pin(name="pip"),
    ]
    if not gcc:
        return [*pins, Pin(name="cudatoolkit", channel="conda-forge"), Pin(name="nccl", channel="conda-forge")]
    pins += [Pin(name=name, channel="conda-forge") for name in HEADERS]
    return [*pins, Pin(name=f"gxx_{gcc}", channel="conda-forge"), Pin(name="ninja")]


def pinned(name: str, version: str = "") -> Pin:
    return Pin(name=name, version=version, channel="conda-forge")


def versions(answer: Solution | Unsatisfiable, names: str) -> list[str]:
    assert isinstance(answer, Solution), answer.text
    found = {package.name: package.version for package in answer.packages}
    return [found[name] for name in names.split()]


@collect("python", ["3.10", "3.11", "3.12", "3.13", "3.14"])
@collect(("bound", "cudnn"), [("", "9.13.1.26"), ("<9.11", "9.10.2.21"), (">=9,<9.11", "9.10.2.21")])
def test_cuda_129_for_old_and_new_gpus(sources: Sources, python: str, bound: str, cudnn: str) -> None:
    pins = forge("2.12.0", "cuda129*", "12.9", pinned("libcudnn", bound), python, gcc="linux-64")
    pins[-2] = pinned("gxx_linux-64", "14.*")
    answer = solve(request(*pins, virtual=host("12.2")), sources)
    assert versions(answer, "libcudnn cuda-nvcc libcublas gxx_linux-64") == [cudnn, "12.9.86", "12.9.2.10", "14.3.0"]


@pytest.mark.parametrize(("cuda", "nvcc"), [("12.6", "12.6.85"), ("12.8", "12.8.93")])
def test_cuda_126_build_with_the_toolkits_it_accepts(sources: Sources, cuda: str, nvcc: str) -> None:
    pins = forge("2.7.1", "cuda126*", cuda, pinned("cudnn"), "3.12", gcc="linux-64")
    answer = solve(request(*pins, virtual=host("12.6")), sources)
    assert versions(answer, "cuda-nvcc cuda-version cudnn") == [nvcc, cuda, "9.13.1.26"]


@collect(("cuda", "nvcc"), [("13.0", "13.0.88"), ("13.1", "13.1.115"), ("13.2", "13.2.78")])
def test_cuda_13_wants_a_newer_glibc(sources: Sources, cuda: str, nvcc: str) -> None:
    pins = forge("2.12.1", "cuda130*", cuda, pinned("libcudnn"), "3.12", gcc="linux-64")
    assert versions(solve(request(*pins, virtual=host(cuda)), sources), "cuda-nvcc libcudnn") == [nvcc, "9.23.1.3"]
    old = solve(request(*pins, virtual=host(cuda, "2.17")), sources)
    assert isinstance(old, Unsatisfiable)
    assert "__glibc >=2.28" in old.text


def test_cuda_118_without_compiler(sources: Sources) -> None:
    pins = forge("2.4.0", "cuda118*", "11.8", pinned("cudnn"), "3.12")
    answer = solve(request(*pins, virtual=host("11.4")), sources)
    assert versions(answer, "cudatoolkit cudnn nccl") == ["11.8.0", "8.9.7.29", "2.22.3.1"]
    older = solve(request(*pins, Pin(name="cuda-nvcc"), virtual=host("11.4")), sources)
    assert isinstance(older, Unsatisfiable), "the sample, like conda-forge, has no nvcc for CUDA 11"


@collect("python", ["3.10", "3.11", "3.12"])
def test_stack_pytorch_with_its_label(sources: Sources, python: str) -> None:
    pins = (
        Pin(name="pytorch", version="2.3.1", build="*cuda11.8*", channel="pytorch"),
        Pin(name="pytorch-cuda", version="11.8", channel="pytorch"),
        Pin(name="mkl", version="<2024.1", channel="conda-forge"),
        Pin(name="cuda-toolkit", version="11.8.0", channel=LABEL),
        Pin(name="gxx_linux-64", version="11.*", channel="conda-forge"),
        Pin(name="ninja"),
        Pin(name="python", version=python),
    )
    answer = solve(request(*pins, channels=("pytorch", LABEL, "conda-forge"), virtual=host("11.4")), sources)
    assert versions(answer, "cuda-nvcc libcusparse gxx_linux-64 mkl") == ["11.8.89", "11.7.5.86", "11.4.0", "2023.2.0"]
    assert isinstance(answer, Solution)
    label = [package for package in answer.packages if package.channel_name == LABEL]
    assert {package.name for package in label} >= {"cuda-nvcc", "libcublas", "cuda-cudart-dev"}
    assert all(package.sha256 is None and package.md5 for package in label), "the real label has no sha256 either"


def test_the_sample_has_a_solution_on_aarch64(tmp_path: Path) -> None:
    arm = Sources(mirrors=write_sample(tmp_path, "linux-aarch64"), cache=str(tmp_path / "cache"))
    pins = forge("2.10.0", "cuda129*", "12.9", pinned("libcudnn"), "3.12", gcc="linux-aarch64")
    answer = solve(request(*pins, virtual=host("12.9"), platform="linux-aarch64"), arm)
    assert versions(answer, "cuda-nvcc gxx_linux-aarch64") == ["12.9.86", "14.3.0"]


def test_the_cpu_variant_is_there_to_be_avoided(sources: Sources) -> None:
    pins = (Pin(name="pytorch", version="2.12.0", build="*cpu*"), Pin(name="python", version="3.12"))
    answer = solve(request(*pins, virtual=(VirtualPackage("__glibc", "2.35"),)), sources)
    assert versions(answer, "pytorch") == ["2.12.0"]


def test_the_same_bytes_each_time(both: tuple[str, Path], tmp_path: Path) -> None:
    platform, folder = both
    write_sample(tmp_path, platform)
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert all((folder / name).read_bytes() == (tmp_path / name).read_bytes() for name in names)


def test_every_build_says_that_it_is_a_sample(both: tuple[str, Path]) -> None:
    platform, folder = both
    records = list(all_records(folder, platform))
    assert len(records) > 80
    assert all("sample" in record["build"] for record in records)
    names = {record["name"] for record in records}
    wanted = {depend.split()[0] for record in records for depend in record["depends"]}
    assert {name for name in wanted if not name.startswith("__")} <= names


def test_there_is_a_channel_for_every_stack(tmp_path: Path) -> None:
    origins = [mirror.origin for mirror in write_sample(tmp_path, "linux-64")]
    assert origins == [f"https://conda.anaconda.org/{name}" for name in ("conda-forge", "pytorch", LABEL)]


def test_the_description_is_small() -> None:
    assert len(files("cuenv").joinpath("data/sample/channel.json").read_bytes()) < 16_000


def test_a_full_disk_is_the_outside(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutsideError, match="the sample channels cannot be written"):
        write_sample(tmp_path / "file", "linux-64")


@pytest.mark.records
def test_names_and_versions_are_real(records: Path, both: tuple[str, Path]) -> None:
    platform, folder = both
    for channel in ("conda-forge", "pytorch", LABEL):
        real = {(record["name"], record["version"]) for record in all_records(records, platform, [channel])}
        sample = {(record["name"], record["version"]) for record in all_records(folder, platform, [channel])}
        names = {name for name, _ in real}
        assert {name for name, _ in sample} <= names
        # The records are a part of the channels (known-missing.md): of some libraries they lack the headers' package.
        strange = {(name, version) for name, version in sample - real if (library(name), version) not in real}
        assert platform != "linux-64" or strange == set()


def library(name: str) -> str:
    return {"cudnn": "libcudnn"}.get(name, name.removesuffix("-dev"))


def all_records(
    folder: Path, platform: str, channels: Iterable[str] = ("conda-forge", "pytorch", LABEL)
) -> Iterator[dict[str, Any]]:
    for channel in channels:
        for subdir in (platform, "noarch"):
            data = json.loads((folder / channel / subdir / "repodata.json").read_text())
            yield from [*data["packages"].values(), *data["packages.conda"].values()]
