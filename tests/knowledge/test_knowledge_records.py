"""The tables against real package records of the channels: what stands in them is really there."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from cases import collect
from cuenv.core.urls import channel_url
from cuenv.core.versions import version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.requirement import Requirement
from cuenv.knowledge.rows import LibrarySupport, Source
from cuenv.maintain.learn import extensions_of, variants_of
from cuenv.solve.io.records import channel_records
from cuenv.solve.io.sources import Mirror, Sources
from cuenv.solve.model import names_cuda
from cuenv.solve.observed import Record as Seen
from cuenv.solve.observed import seen_builds
from given import shipped_base

CHANNELS = Path(__file__).parents[3] / "shared" / "channels"
NVIDIA = ("nvidia", "nvidia/label/cuda-11.3.0", "nvidia/label/cuda-11.8.0", "nvidia/label/cuda-12.4.0")

pytestmark = [
    pytest.mark.records,
    pytest.mark.skipif(not CHANNELS.is_dir(), reason="the channel records are not beside the project"),
]

Record = dict[str, Any]


@lru_cache(maxsize=1)
def base() -> Knowledge:
    return shipped_base()


@lru_cache(maxsize=32)
def records(channel: str, subdir: str) -> dict[str, list[Record]]:
    """The records of a channel by package name."""
    path = CHANNELS / channel / subdir / "repodata.json"
    found: dict[str, list[Record]] = defaultdict(list)
    if path.exists():
        data = json.loads(path.read_bytes())
        for part in ("packages", "packages.conda"):
            for record in data.get(part, {}).values():
                found[record["name"]].append(record)
    return found


SUBDIRS = ("linux-64", "linux-aarch64", "noarch")


def everywhere(channel: str) -> Iterator[Record]:
    for subdir in SUBDIRS:
        for found in records(channel, subdir).values():
            yield from found


def bounds(record: Record, *names: str) -> list[Requirement]:
    """What a record asks of a package, with a lower bound."""
    asked = (text.split(" ") for text in record["depends"])
    return [
        Requirement.parse(f"{parts[0]} {parts[1].replace('.0a0', '')}")
        for parts in asked
        if parts[0] in names and len(parts) > 1 and parts[1].startswith(">=")
    ]


def glibc_of(record: Record) -> Version | None:
    found = [match[1] for text in record["depends"] if (match := re.match(r"__glibc >=([\d.]+)", text))]
    return max(map(version, found), default=None)


def conda_forge_torch(platform: str) -> Iterator[tuple[Record, Version | None, str]]:
    """Each pytorch record with its CUDA minor and Python."""
    for record in records("conda-forge", platform)["pytorch"]:
        cuda = re.match(r"cuda(\d+)(\d)(?=_|py)", record["build"])
        python = re.search(r"py(\d)(\d+)", record["build"])
        assert python
        yield record, version(f"{cuda[1]}.{cuda[2]}") if cuda else None, f"{python[1]}.{python[2]}"


@pytest.mark.parametrize("platform", ["linux-64", "linux-aarch64"])
def test_every_torch_record_of_conda_forge_has_a_row(platform: str) -> None:
    rows = {
        (row.version, row.cuda): row for row in base().torch if (row.stack, row.platform) == ("conda-forge", platform)
    }
    seen = 0
    for record, cuda, python in conda_forge_torch(platform):
        row = rows[version(record["version"]), cuda]
        assert fnmatchcase(record["build"], row.build)
        assert python in row.pythons
        for names, asked in ((("cudnn", "libcudnn"), row.cudnn), (("nccl",), row.nccl)):
            for bound in bounds(record, *names):
                assert asked is not None
                assert asked.first is not None
                assert bound.first is not None
                assert asked.first <= bound.first
                assert asked.below == bound.below
        needs = glibc_of(record)
        assert needs is None or (row.glibc is not None and row.glibc <= needs)
        seen += 1
    assert seen > 20


@pytest.mark.parametrize("platform", ["linux-64", "linux-aarch64"])
def test_the_bounds_of_a_row_are_those_of_some_record(platform: str) -> None:
    found = defaultdict(list)
    for record, cuda, _ in conda_forge_torch(platform):
        found[version(record["version"]), cuda].append(record)
    for row in base().torch:
        if (row.stack, row.platform) != ("conda-forge", platform) or (row.version, row.cuda) not in found:
            continue
        mine = found[row.version, row.cuda]
        for asked, names in ((row.cudnn, ("cudnn", "libcudnn")), (row.nccl, ("nccl",))):
            if asked is not None:
                assert asked in [bound for record in mine for bound in bounds(record, *names)], row
        if row.glibc is not None:
            assert row.glibc in [glibc_of(record) or row.glibc for record in mine], row


def test_torch_of_the_pytorch_channel_is_there_as_the_rows_say() -> None:
    found: dict[tuple[Version, Version | None], set[tuple[str, str, str]]] = defaultdict(set)
    for record in records("pytorch", "linux-64")["pytorch"]:
        match = re.match(r"py([\d.]+)_cuda(\d+\.\d)[\d.]*_cudnn([\d.]+)_", record["build"])
        if match and base().cuda(version(match[2])):  # no row is about CUDA 9
            found[version(record["version"]), version(match[2])].add((match[1], match[3], record["build"]))
    rows = {(row.version, row.cuda): row for row in base().torch if row.stack == "pytorch"}
    for key, builds in found.items():
        row = rows[key]
        assert {python for python, _, _ in builds} <= set(row.pythons)
        assert row.cudnn is not None
        assert {cudnn for _, cudnn, _ in builds} == {".".join(str(row.cudnn.first).split(".")[:3])}
        assert all(fnmatchcase(build, row.build) for _, _, build in builds)
    for (release, cuda), row in rows.items():
        if release <= version("2.1.0"):  # the records are whole up to here
            assert {python for python, _, _ in found[release, cuda]} == set(row.pythons)


def cuda_build(channel: str, record: Record) -> bool:
    """Whether a record says itself that it is a CUDA build: by its build string, or by what it asks for."""
    if channel == "pytorch":
        asked = any(text.split()[0] in ("pytorch-cuda", "cudatoolkit") for text in record["depends"])
        return asked or re.search(r"(^|_)cu(da)?\d*", record["build"]) is not None
    return "cuda" in record["build"] or record["build"].startswith("gpu")


@collect("index", range(len(shipped_base().twins)))
def test_cuda_variants_are_distinguished_by_their_globs(index: int) -> None:
    twin = base().twins[index]
    mine = [record for subdir in SUBDIRS for record in records(twin.channel, subdir).get(twin.package, ())]
    if twin.channel == "pytorch":  # builds before cpu and cu stood in the build string are left out
        mine = [record for record in mine if re.search(r"(^|_)(cpu|cu)", record["build"])]
    with_cuda = [record for record in mine if cuda_build(twin.channel, record)]
    without = [record for record in mine if not cuda_build(twin.channel, record)]
    if not with_cuda:  # what no public lock file names was read in its feedstock
        assert "cfext" in twin.sources
        return
    last = max(version(record["version"].removeprefix("v")) for record in with_cuda)
    newest = [record for record in with_cuda if version(record["version"].removeprefix("v")) == last]
    strange = [record for record in with_cuda if not fnmatchcase(record["build"], twin.any_cuda)]
    assert not any(record in newest or names_cuda(record["build"]) == "" for record in strange)
    assert [record["build"] for record in without if fnmatchcase(record["build"], twin.any_cuda)] == []
    cuda_parts = {"__cuda", "cudatoolkit", "cuda-cudart", "libcublas"}
    asked = {text.split()[0] for record in without for text in record["depends"]}
    assert not cuda_parts & asked
    guards = {
        twin.guard.format(cuda=f"{row.version.major}{row.version.minor}", dotted=row.version) for row in base().cudas
    }
    assert any(fnmatchcase(record["build"], guard) for record in with_cuda for guard in guards)
    assert not any(fnmatchcase(record["build"], guard) for record in without for guard in guards)


@pytest.mark.slow
@collect(
    ("channel", "platform"), [("conda-forge", "linux-64"), ("conda-forge", "linux-aarch64"), ("pytorch", "linux-64")]
)
def test_every_package_with_cpu_and_cuda_builds_and_every_build_on_torch_has_its_row(
    channel: str, platform: str
) -> None:
    seen = [
        Seen(name=record["name"], version=record["version"], build=record["build"], depends=tuple(record["depends"]))
        for subdir in (platform, "noarch")
        for found in records(channel, subdir).values()
        for record in found
    ]
    source = Source(id="test", title="", publisher="", locator="", read_on="2026-11-20")
    assert [row.package for row in variants_of(seen, channel, base(), source)] == []
    assert [row.span() for row in extensions_of(seen, channel, platform, base(), source)] == []
    without = replace(base(), twins=())
    found_again = {row.package for row in variants_of(seen, channel, without, source)}
    mine = {row.package for row in base().twins if row.channel == channel and "cfext" not in row.sources}
    assert len(found_again & mine) > (2 if channel == "pytorch" else 8)


def all_names() -> set[str]:
    found = {record["name"] for record in everywhere("conda-forge")}
    return found.union(*({record["name"] for record in everywhere(channel)} for channel in NVIDIA))


def test_components_are_nvidias_and_none_is_forgotten() -> None:
    names = all_names()
    bound = {name for name in names if any(fnmatchcase(name, row.name) for row in base().components)}
    looks_bound = {name for name in names if re.match(r"cuda|cudnn|libcu(?!rl|ps)|libnv|libnpp|nccl|nsight|gds", name)}
    bindings = {"cuda-python", "cuda-bindings", "cuda-core", "cuda-pathfinder"}
    assert looks_bound - bound == bindings
    assert bound - looks_bound == {"cusparselt"}


def test_every_component_is_in_the_records_or_in_a_recipe() -> None:
    names = all_names()
    lost = {row.name for row in base().components if not any(fnmatchcase(name, row.name) for name in names)}
    assert lost == {"cuda-compat", "cuda-compat-impl", "cuda-tileiras"}


def test_headers_come_from_packages_of_conda_forge() -> None:
    names = {record["name"] for record in everywhere("conda-forge")}
    assert {row.name for row in base().components if row.headers} <= names


def test_everything_of_a_label_is_a_component() -> None:
    for channel in NVIDIA[1:]:
        for record in everywhere(channel):
            assert any(fnmatchcase(record["name"], row.name) for row in base().components), record["name"]


def test_glibc_of_a_toolkit_is_what_its_libraries_need() -> None:
    libraries = ("cuda-cudart", "cuda-nvrtc", "libcublas", "libcufft", "libcurand", "libcusolver", "libcusparse")
    needs: dict[Version, dict[str, set[Version]]] = defaultdict(lambda: defaultdict(set))
    for name in libraries:
        for record in records("conda-forge", "linux-64")[name]:
            pins = bounds(record, "cuda-version")
            floor = glibc_of(record)
            if pins and pins[0].first and floor:
                needs[pins[0].first][name].add(floor)
    assert len(needs) > 10
    for minor, found in needs.items():
        row = base().cuda(minor)
        assert row is not None
        assert row.glibc == max(min(floors) for floors in found.values()), minor


def test_the_compiler_bound_of_conda_forge_is_that_of_its_nvcc() -> None:
    bound = {}
    for record in sorted(records("conda-forge", "linux-64")["cuda-nvcc-impl"], key=lambda item: item["build_number"]):
        found = re.search(r"gcc_impl_linux-64 >=\d+,<(\d+)", " ".join(record.get("constrains", [])))
        pins = bounds(record, "cuda-version")
        if found and pins and pins[0].first:
            bound[pins[0].first, version(record["version"])] = int(found[1]) - 1
    assert bound
    newest: dict[Version, tuple[Version, int]] = {}
    for (minor, release), last in bound.items():
        newest[minor] = max(newest.get(minor, (release, last)), (release, last))
    for minor, (_, last) in newest.items():
        row = base().cuda(minor)
        assert row is not None
        assert row.conda_nvcc
        assert row.conda_gcc_max == last, minor


def cuda_of(record: Record) -> Version:
    """The CUDA major that a record is for."""
    asked = [re.match(r"(?:cuda-version|cudatoolkit) [>=]*(\d+)", text) for text in record["depends"]]
    return version(next(found[1] for found in asked if found))


@pytest.mark.parametrize("library", ["cudnn", "nccl"])
def test_glibc_of_a_layer_is_what_its_releases_need(library: str) -> None:
    floors: dict[LibrarySupport, set[Version]] = defaultdict(set)
    names = ("cudnn", "libcudnn") if library == "cudnn" else ("nccl",)
    for name in names:
        for record in records("conda-forge", "linux-64")[name]:
            row = base().library_support(library, version(record["version"]), cuda_of(record))
            floor = glibc_of(record)
            if row and floor and version(record["version"]) >= version("2.8"):
                floors[row].add(floor)
                assert row.glibc is not None
                assert row.glibc <= max(floor, version("2.17")), record["version"]
    assert floors
    for row, found in floors.items():
        assert row.glibc == max(min(found), version("2.17")), (row.cuda, row.first)


def test_discontinued_packages_are_the_last_releases() -> None:
    for row in base().endings:
        mine = [record for record in everywhere(row.channel) if record["name"] == row.package]
        assert all(version(record["version"]) <= version(row.versions[-1]) for record in mine), row.package
    assert not any(record["name"] == "pytorch-cuda" for record in everywhere("conda-forge"))


@collect(("cuda", "number", "label"), [("11.8", 3, "11.8.0"), ("11.8", 6, "11.8.0"), ("12.4", 6, "12.4.0")])
def test_a_label_fits_inside_the_bounds_of_its_pytorch_cuda(cuda: str, number: int, label: str) -> None:
    fit = next(row for row in base().labels if str(row.cuda) == cuda and row.label == label)
    pins = records("pytorch", "linux-64")["pytorch-cuda"]
    record = next(item for item in pins if item["version"] == cuda and item["build_number"] == number)
    assert fnmatchcase(record["build"], fit.build)
    there = records(f"nvidia/label/cuda-{label}", "linux-64")
    judged = 0
    for text in record["depends"]:
        name, _, asked = text.partition(" ")
        if name not in there or not asked.startswith(">="):
            continue
        judged += 1
        bound = Requirement.parse(asked)
        assert any(bound.overlaps(version(item["version"]), version(item["version"] + ".0.1")) for item in there[name])
    assert judged >= 8


def test_no_label_of_12_4_fits_both_builds() -> None:
    pins = records("pytorch", "linux-64")["pytorch-cuda"]
    build_7 = next(item for item in pins if item["version"] == "12.4" and item["build_number"] == 7)
    cublas = records("nvidia/label/cuda-12.4.0", "linux-64")["libcublas"]
    bound = bounds(build_7, "libcublas")[0]
    assert bound.first is not None
    assert all(version(item["version"]) < bound.first for item in cublas)


@pytest.mark.parametrize(("stack", "platform"), [("conda-forge", "linux-64"), ("pytorch", "linux-64")])
def test_the_first_day_of_a_build_is_that_of_its_oldest_record(tmp_path: Path, stack: str, platform: str) -> None:
    mirror = Mirror(origin=channel_url(stack), target=str(CHANNELS / stack))
    found = channel_records(stack, platform, ("pytorch",), Sources(mirrors=(mirror,), cache=str(tmp_path)))
    builds = {item.key: item for item in seen_builds(found, stack, platform)[0]}
    rows = [row for row in shipped_base().torch if (row.stack, row.platform) == (stack, platform) and row.since]
    for row in rows:
        assert row.since == builds[row.key].first
        assert row.seen
        assert row.since < row.seen
    assert rows or stack == "pytorch"
