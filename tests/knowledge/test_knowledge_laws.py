"""Laws over the tables: what must hold in every edition, whatever rows are added."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pytest

from cases import collect
from cuenv.core.versions import Capability, Jit, driver_key, minor, support_of, version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.knowledge.tables import TABLES, rows_of
from given import shipped_base


@lru_cache(maxsize=1)
def base() -> Knowledge:
    return shipped_base()


def fact_rows() -> list[tuple[str, Any]]:
    return [(name, row) for name in TABLES if name != "sources" for row in rows_of(base(), name)]


def never_falls(values: list[Any]) -> bool:
    known = [value for value in values if value is not None]
    return all(before <= after for before, after in pairwise(known))


# sources


def test_every_source_is_cited_and_every_cited_one_exists() -> None:
    cited = {source for _, row in fact_rows() for source in row.sources}
    assert cited == set(base().sources)


def test_every_row_names_a_source() -> None:
    assert all(row.sources for _, row in fact_rows())


def test_every_source_says_who_where_and_when() -> None:
    edition = dt.date.fromisoformat(base().edition)
    for source in base().sources.values():
        assert source.title
        assert source.publisher
        assert source.locator
        assert dt.date.fromisoformat(source.read_on) <= edition


def test_what_others_published_has_an_address_and_a_primary_source_is_cited() -> None:
    for source in base().sources.values():
        assert source.url.startswith("https://") or (not source.url and source.publisher == "cuenv"), source.id
    for row in base().generations:
        if row.last_branch in (470, 580):
            assert "unixdep" in row.sources, row.capability
    assert all("sold" in row.sources for row in base().gpus if row.memory_gb)


def test_the_support_of_a_branch_ends_after_it_came() -> None:
    ends = {row.number: row.ends for row in base().branches if row.ends}
    assert ends[535] < ends[595] < ends[580]
    assert all(row.ends == "" or "dc615" in row.sources or "dc2021" in row.sources for row in base().branches)


@pytest.mark.parametrize("driver", ["540.3.0", "540.4.0"])
def test_a_driver_of_jetson_linux_is_of_no_branch(driver: str) -> None:
    """540.3.0 supports CUDA 12.2 and 540.4.0 supports 12.6: the number tells nothing."""
    assert base().branch_of(driver) is None
    assert base().cuda_of(driver) is None
    assert base().cuda_of("545.23.06") == version("12.3")


def test_a_row_of_low_confidence_says_why() -> None:
    assert [(name, row) for name, row in fact_rows() if row.low and not row.note] == []


# drivers and toolkits


def test_toolkit_drivers_never_fall_as_toolkits_rise() -> None:
    assert never_falls([driver_key(row.driver) for row in base().toolkits if row.driver])
    assert never_falls([row.branch for row in base().toolkits])


def test_the_branch_of_a_toolkit_is_that_of_its_driver_and_supports_its_cuda() -> None:
    for row in base().toolkits:
        if row.driver:
            assert driver_key(row.driver)[0] == row.branch
        if row.branch:
            assert base().cuda_of(str(row.branch)) == minor(row.version)


def test_only_the_toolkits_before_minor_version_compatibility_have_hard_minimums() -> None:
    assert {row.version.major for row in base().toolkits if row.hard} == {10}
    assert [row.driver for row in base().toolkits if row.hard] == ["410.48", "418.39", "440.33"]
    assert {row.major for row in base().floors} == {11, 12, 13}


def test_minimum_drivers_rise_with_the_major_and_lie_in_the_first_branch_that_supports_it() -> None:
    assert never_falls([driver_key(row.driver) for row in base().floors])
    for row in base().floors:
        first = base().branch_for(version(f"{row.major}.0"))
        assert first is not None
        assert driver_key(row.driver)[0] == first.number


def test_later_branches_speak_later_cuda() -> None:
    branches = base().branches
    assert all(one.number < two.number and one.cuda < two.cuda for one, two in pairwise(branches))
    levels = {row.cuda for row in branches}
    assert levels - {row.version for row in base().cudas} == {version("12.7")}


def test_there_is_no_toolkit_12_7() -> None:
    assert base().cuda(version("12.7")) is None
    assert base().cuda_of("565.57.01") == version("12.7")


def test_what_the_resolver_stands_on() -> None:
    floor = base().minimum_driver(version("12.4"))
    assert floor is not None
    assert floor.driver == "525.60.13"
    assert base().cuda_of("535.129.03") == version("12.2")
    assert base().cuda_of("470.129.06") == version("11.4")
    assert base().native_driver(version("12.9")) == "575.51.03"
    assert base().native_driver(version("13.4")) is None
    assert base().first_driver(570) == "570.26"


# compilers


@collect("column", ["isa", "gcc_min", "gcc_max", "conda_gcc_max", "glibc"])
def test_what_a_toolkit_can_and_needs_never_falls(column: str) -> None:
    assert never_falls([getattr(row, column) for row in base().cudas])


def test_conda_forge_takes_no_compiler_that_nvcc_refuses() -> None:
    for row in base().cudas:
        if row.conda_gcc_max is not None:
            assert row.gcc_max is not None
            assert row.conda_gcc_max <= row.gcc_max


def test_conda_forge_has_no_nvcc_below_12() -> None:
    assert {row.version.major for row in base().cudas if row.conda_nvcc} == {12, 13}


def test_labels_are_releases_of_their_minor() -> None:
    known = {row.version for row in base().toolkits}
    for row in base().cudas:
        for label in row.labels:
            assert minor(version(label)) == row.version
            assert version(label) in known
    for fit in base().labels:
        cuda = base().cuda(fit.cuda)
        assert cuda is not None
        assert fit.label in cuda.labels


def test_every_toolkit_targets_something_and_its_targets_stand_in_order() -> None:
    for row in base().cudas:
        assert row.targets
        assert list(row.targets) == sorted(row.targets)


def test_nvcc_targets_agree_with_the_span_of_each_generation() -> None:
    for generation in base().generations:
        for row in base().cudas:
            after = generation.first_cuda is None or generation.first_cuda <= row.version
            before = generation.last_cuda is None or row.version <= generation.last_cuda
            assert (generation.capability in row.targets) is (after and before), (generation.capability, row.version)


# GPUs


def test_a_compute_capability_begins_with_the_branch_that_supports_its_first_toolkit() -> None:
    for row in base().generations:
        if row.first_branch:
            assert row.first_cuda is not None
            first = base().branch_for(row.first_cuda)
            assert first is not None
            # it speaks the toolkit, and the first driver may be a later one
            assert first.number == row.first_branch or (row.first_driver and first.number < row.first_branch)
            if row.first_driver:
                assert driver_key(row.first_driver)[0] == row.first_branch
                assert not row.low


def test_older_generations_leave_first() -> None:
    ends = [row.last_branch or 10_000 for row in base().generations if row.capability != Capability(7, 2)]
    assert never_falls(ends)
    assert all(row.last_branch is None for row in base().generations if row.capability >= Capability(7, 5))


def test_open_modules_from_blackwell_on_and_proprietary_ones_before_turing() -> None:
    for row in base().generations:
        if row.module == "open":
            assert row.capability >= Capability(10, 0)
        if row.module == "proprietary":
            assert row.capability < Capability(7, 5)


def test_a_gpu_has_the_architecture_of_its_capability() -> None:
    for row in base().gpus:
        generation = base().compute_capability(row.capability)
        assert generation is not None
        assert generation.architecture == row.architecture, row.name


def test_one_chip_has_one_capability() -> None:
    chips = defaultdict(set)
    for row in base().gpus:
        for chip in filter(None, row.chip.split("/")):
            chips[chip].add(row.capability)
    assert {chip: found for chip, found in chips.items() if len(found) > 1} == {}


def test_products_that_share_a_pci_id_share_their_capability() -> None:
    devices = defaultdict(set)
    for row in base().gpus:
        for device in row.pci:
            devices[device].add(row.capability)
    assert all(len(found) == 1 for found in devices.values())


def test_no_name_means_two_products() -> None:
    names = [name.lower() for row in base().gpus for name in (row.name, *row.aka)]
    assert len(names) == len(set(names))
    assert not any(name.startswith("nvidia") for name in names)


# torch


def test_every_target_of_a_build_was_known_to_the_nvcc_of_its_cuda() -> None:
    for row in base().torch:
        if row.cuda and row.code:
            cuda = base().cuda(row.cuda)
            assert cuda is not None
            unknown = {target.capability for target in row.code.sass}.difference(cuda.targets)
            assert not unknown, f"{row.stack} {row.version} {row.build}: {unknown}"


def test_ptx_is_written_in_the_isa_of_the_own_cuda() -> None:
    for row in base().torch:
        assert row.code is not None or (row.stack, row.version < version("1.12")) == ("pytorch", True)
        assert row.code is None or row.code.isa == (row.cuda if row.code.ptx else None)


def test_the_release_of_ptx_stands_for_its_isa() -> None:
    """A driver compiles PTX up to the ISA of its own release, and 12.6 writes that of 12.5: a driver of 12.5 would do.

    The rules compare releases all the same. That decides nothing as long as each GPU that such PTX is compiled for asks
    for a driver that supports the later release anyway, or no row says from which on it is driven.
    """
    shared = defaultdict(list)
    for row in base().cudas:
        shared[row.isa].append(row.version)
    later = {release for releases in shared.values() for release in releases if release > min(releases)}
    assert later == {version("12.6")}
    levels = {row.number: row.cuda for row in base().branches}
    judged = 0
    for build in base().torch:
        for generation in base().generations:
            service = support_of(build.code, generation.capability) if build.code else None
            if isinstance(service, Jit) and service.needs in later and generation.first_branch:
                judged += 1
                assert levels[generation.first_branch] >= service.needs, (build.build, generation.capability)
    assert judged


def test_build_globs_name_their_cuda() -> None:
    for row in base().torch:
        if row.cuda is None:
            assert row.build == "cpu*"
        elif row.stack == "pytorch":
            assert row.build == f"*cuda{row.cuda}*"
        else:
            assert row.build == f"cuda{row.cuda.major}{row.cuda.minor}*"


def test_no_glob_of_a_release_takes_the_build_of_another() -> None:
    samples = [(row, f"cuda{row.cuda.major}{row.cuda.minor}_mkl_0") for row in base().torch if row.cuda]
    for row, build in samples:
        others = [
            other
            for other in base().torch
            if (other.stack, other.version, other.platform) == (row.stack, row.version, row.platform)
            and other.cuda != row.cuda
            and fnmatchcase(build, other.build)
        ]
        assert others == []


def test_pythons_stand_in_order() -> None:
    for row in base().torch:
        assert list(row.pythons) == sorted(row.pythons, key=version)


def test_the_pytorch_channel_ends_with_2_5_1() -> None:
    rows = [row for row in base().torch if row.stack == "pytorch"]
    assert max(row.version for row in rows) == version("2.5.1")
    assert {row.platform for row in rows} == {"linux-64"}
    ending = base().discontinued("pytorch-cuda")
    assert ending is not None
    assert {version(text) for text in ending.versions} == {row.cuda for row in rows if row.version >= version("1.13")}
    frozen = base().discontinued("pytorch")
    assert frozen is not None
    assert {str(row.version) for row in rows} <= set(frozen.versions)


def test_requirements_on_components_name_the_library_or_lie_inside() -> None:
    for row in base().torch:
        for requirement, packages in ((row.cudnn, {"cudnn", "libcudnn"}), (row.nccl, {"nccl"})):
            if requirement is None:
                continue
            assert requirement.package in (packages if row.stack == "conda-forge" else {""})
            assert requirement.first is not None
            assert requirement.below is None or requirement.first < requirement.below


# layers, components, twins, endings


@pytest.mark.parametrize("library", ["cudnn", "nccl"])
def test_components_follow_each_other_and_support_ever_later_gpus(library: str) -> None:
    every = [row for row in base().layers if row.library == library]
    for major in (11, 12):
        rows = [row for row in every if row.cuda == major]
        assert all(one.below == two.first for one, two in pairwise(rows))
        assert never_falls([row.serves_from for row in rows])
        assert never_falls([row.glibc for row in rows])
        assert base().layers_of(library, version(f"{major}.8")) == tuple(rows)
    assert base().layers_of(library, version("13.1")) == base().layers_of(library, version("12.0"))
    assert base().layers_of(library, version("10.2")) == base().layers_of(library, version("11.0"))


def test_cudnn_loses_pascal_and_volta_with_9_11() -> None:
    cuda = version("12.9")
    before, after = (base().library_support("cudnn", version(text), cuda) for text in ("9.10.2.21", "9.11.0.98"))
    assert before is not None
    assert before.serves_from == Capability(5, 0)
    assert after is not None
    assert after.serves_from == Capability(7, 5)
    assert base().library_support("nccl", version("2.99"), cuda) is None


@collect(
    ("library", "release", "cuda", "serves"),
    [
        ("cudnn", "8.5.0.96", "11.7", "3.5"),
        ("cudnn", "8.7.0.84", "11.8", "3.5"),
        ("cudnn", "8.9.7.29", "11.8", "5.0"),
        ("cudnn", "8.9.7.29", "12.0", "5.0"),
        ("nccl", "2.27.3.1", "11.8", "3.5"),
        ("nccl", "2.27.7.1", "12.9", "5.0"),
        ("nccl", "2.28.3.1", "12.9", "6.0"),
    ],
)
def test_what_builds_for_a_cuda_major_serve(library: str, release: str, cuda: str, serves: str) -> None:
    row = base().library_support(library, version(release), version(cuda))
    assert row is not None
    assert str(row.serves_from) == serves


def test_no_name_is_two_components() -> None:
    for row in base().components:
        sample = row.name.replace("*", "x")
        assert [other.name for other in base().components if fnmatchcase(sample, other.name)] == [row.name]


@collect(
    "name",
    [
        *("cuda-python", "cuda-bindings", "cuda-core", "cuda-pathfinder", "cupy", "libcurl", "libcups", "curl"),
        *("nvidia-ml-py", "pytorch-cuda", "numba-cuda", "libnuma", "cutlass", "cudf"),
    ],
)
def test_what_is_not_a_part_of_the_toolkit_is_not_a_component(name: str) -> None:
    assert not any(fnmatchcase(name, row.name) for row in base().components)


def test_each_role_is_filled_by_a_component() -> None:
    roles = {row.role for row in base().components}
    assert roles == {"", "cudatoolkit-dev", "cudnn", "nccl"}
    headers = [header for row in base().components for header in row.headers]
    assert len(headers) == len(set(headers))
    assert {"cusparse.h", "cublas_v2.h", "cusolverDn.h", "curand.h", "cuda_runtime.h"} <= set(headers)


def test_a_guard_is_a_kind_of_its_any_cuda_glob() -> None:
    for row in base().twins:
        guard = row.guard.format(cuda="129", dotted="12.9")
        sample = guard.replace("*", "x_" if guard.startswith("*") else "_x")
        assert fnmatchcase(sample, row.any_cuda), row
        assert not any(fnmatchcase(build, row.any_cuda) for build in ("cpu_mkl_py312_h1_100", "py312h1_0_cpu", "h1_0"))


def test_the_torch_build_itself_is_a_cuda_variant_in_both_channels() -> None:
    for channel in ("conda-forge", "pytorch"):
        variant = base().cuda_variant("pytorch", channel)
        assert variant is not None
        assert variant.essential


def test_labels_proven_to_fit() -> None:
    assert [(str(row.cuda), row.build, row.label) for row in base().labels] == [
        ("11.8", "*", "11.8.0"),
        ("12.4", "*_6", "12.4.0"),
        ("12.4", "*_7", "12.4.1"),
    ]


def test_discontinued_packages_name_their_last_release_and_what_to_take() -> None:
    for row in base().endings:
        assert list(row.versions) == sorted(row.versions, key=version)
        assert row.instead
    last = {row.package: row.versions[-1] for row in base().endings}
    assert last["cudatoolkit-dev"] == "11.7.0"
    assert last["nvcc_linux-64"] == "11.8"
    assert last["pytorch"] == "2.5.1"


# libraries on torch


def test_a_row_on_a_library_names_releases_or_a_range_and_not_both() -> None:
    for row in base().extensions:
        assert not (row.releases and (row.first or row.below)), row.span()
        assert row.first is None or row.below is None or row.first < row.below


def test_ranges_of_one_library_do_not_overlap() -> None:
    ranges = defaultdict(set)
    for row in base().extensions:
        if not row.releases:
            for platform in row.platforms or PLATFORMS:
                ranges[row.package, row.comes, platform].add((row.first, row.below))
    for found in ranges.values():
        ordered = sorted(found, key=lambda pair: pair[0] or version("0"))
        assert all(one[1] is not None and two[0] is not None and one[1] <= two[0] for one, two in pairwise(ordered))


def test_rows_on_the_same_releases_are_for_other_cuda() -> None:
    alike = defaultdict(list)
    for row in base().extensions:
        for platform in row.platforms or PLATFORMS:
            alike[row.package, row.comes, row.releases, row.first, platform].append(row.cuda)
    for found in alike.values():
        minors = [item for cuda in found for item in cuda]
        assert len(minors) == len(set(minors))
        assert len(found) == 1 or all(found)


def test_releases_of_programs_follow_each_other_and_load_a_cuda_that_never_falls() -> None:
    for name in {row.package for row in shipped_base().programs}:
        rows = [row for row in shipped_base().programs if row.package == name]
        assert all(before.below == after.first for before, after in pairwise(rows))
        cudas = [row.cuda for row in rows if row.cuda]
        assert cudas == sorted(cudas)
        assert all((row.cuda is None) == (row.cudnn is None) for row in rows)


def test_each_header_that_a_library_includes_has_a_package() -> None:
    held = {header for row in base().components for header in row.headers}
    included = {header for row in base().extensions for header in row.headers}
    assert {"cusparse.h", "cublas_v2.h", "cusolverDn.h", "curand.h"} <= included <= held
    assert {"nccl.h", "cudnn.h"} <= held


def test_only_what_compiles_checks_tolerates_and_includes() -> None:
    for row in base().extensions:
        if row.nvcc is None:
            assert not row.checks or row.comes == ("conda-forge",)  # what it did not bring it compiles where it can
            assert row.headers == row.tools == ()
        assert row.checks or not row.tolerates


def test_deepspeed_tolerates_ever_more_and_no_cuda_13() -> None:
    for way in ("source", "conda-forge"):
        lists = [set(row.tolerates) for row in base().extension("deepspeed") if row.checks and way in row.comes]
        assert all(one <= two for one, two in pairwise(lists))
        assert max(lists[-1]) == version("12.9")


def test_bitsandbytes_has_13_0_from_0_48_on() -> None:
    rows = [row for row in base().extension("bitsandbytes") if version("13.0") in row.cuda]
    assert min(row.first for row in rows if row.first) == version("0.48")


@collect("package", ["xformers", "torchvision", "triton"])
def test_pins_on_torch_rise_with_the_release(package: str) -> None:
    rows = [row for row in base().extension(package) if "wheel" in row.comes]
    assert never_falls([row.torch.first for row in rows if row.torch])


def test_a_known_regression_names_its_issue_and_a_library_of_the_table() -> None:
    assert base().regressions
    for row in base().regressions:
        assert "#" in row.issue
        assert row.mended > max(row.releases)
        assert all(any(item.covers(release) for item in base().extension(row.package)) for release in row.releases)
