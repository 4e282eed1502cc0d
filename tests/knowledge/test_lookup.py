"""What the tables say about one thing, each row with its source: the answers of `cuenv kb`."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect, quick_and_slow
from cuenv.core.errors import CuenvError, ExitCode, UsageError
from cuenv.core.versions import Capability, Target, driver_key
from cuenv.knowledge.tables import TABLES, rows_of
from cuenv.resolver.lookup import TOPICS, Page, cuda, driver, gpu, overview, package, pytorch, topic_overview
from given import DRIVERS, base
from thorough import examples


def text(page: Page) -> str:
    return "\n".join(entry.says for entry in page.entries)


def test_the_overview_counts_every_table() -> None:
    assert dict(overview(base())) == {name: len(rows_of(base(), name)) for name in TABLES}


@collect("topic", TOPICS)
def test_a_topic_alone_lists_what_there_is_to_look_up(topic: str) -> None:
    page = topic_overview(topic, base())
    assert {source for entry in page.entries for source in entry.sources} <= base().sources.keys()
    said = text(page)
    of = {
        "gpu": "8.9 (Ada",
        "driver": "branch 535 supports CUDA 12.2",
        "cuda": "12.1: runs on driver 525.60.13 and later; nvcc compiles for 5.0 to 9.0",
        "pytorch": "2.5.1: builds for CUDA 11.8, ",
        "package": "discontinued: cudatoolkit of ",
    }[topic]
    assert of in said


# one page for everything there is


@pytest.mark.parametrize("step", quick_and_slow(4, 1))
@collect("topic", TOPICS)
def test_every_page_cites_only_sources_there_are(topic: str, step: int) -> None:
    subjects = {
        "gpu": [row.name for row in base().gpus] + [str(row.capability) for row in base().generations],
        "driver": list(DRIVERS),
        "cuda": [str(row.version) for row in base().cudas],
        "pytorch": sorted({str(row.version) for row in base().torch}),
        "package": [row.package for row in base().twins] + [row.package for row in base().endings],
    }[topic]
    assert subjects
    for subject in subjects[::step]:
        page = TOPICS[topic](subject, base())
        assert page.entries, subject
        for entry in page.entries:
            assert entry.says
            assert "None" not in entry.says, entry.says
            assert not re.search(r"chip ,|,  ?GB|branch \?", entry.says), entry.says
            assert entry.sources
            assert set(entry.sources) <= set(base().sources)
            assert entry.table in TABLES


# GPUs


def test_a_gpu_has_its_capability_its_drivers_and_its_builds() -> None:
    page = gpu("RTX 4090", base())
    assert page.title == "GeForce RTX 4090"
    for fact in ("8.9", "Ada Lovelace", "AD102", "520", "2.13.0"):
        assert fact in text(page)
    assert {entry.table for entry in page.entries} == {"gpus", "generations", "features", "torch", "wheels"}


@collect(
    ("name", "capability"),
    [("H800", "9.0"), ("A800", "8.0"), ("gtx 1080 ti", "6.1"), ("NVIDIA A100-SXM4-80GB", "8.0"), ("GB10", "12.1")],
)
def test_a_gpu_by_any_of_its_names(name: str, capability: str) -> None:
    assert f"capability {capability}" in text(gpu(name, base()))


@collect("capability", [row.capability for row in base().generations], ids=str)
def test_the_builds_of_a_capability_hold_code_for_it(capability: Capability) -> None:
    for entry in gpu(str(capability), base()).entries:
        if entry.table in ("torch", "wheels"):
            holds = entry.says.partition("code for ")[2].partition(",")[0].split(";")
            targets = [Target.parse(item.removesuffix("+PTX")) for item in holds]
            assert any(target.sass_runs_on(capability) for target in targets)


def test_a_dropped_gpu_has_no_build_of_the_newest_cuda() -> None:
    assert "cuda130*" not in text(gpu("V100", base()))
    assert "cuda129*" in text(gpu("V100", base()))
    assert "580" in text(gpu("V100", base()))


def test_an_unknown_gpu_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        gpu("RTX 4095", base())
    assert caught.value.exit == ExitCode.USAGE
    assert "RTX 4090 (8.9)" in caught.value.message


@pytest.mark.parametrize("unknown", ["99.9", "4.0"])
def test_a_capability_without_a_row_has_no_page(unknown: str) -> None:
    with pytest.raises(UsageError) as caught:
        gpu(unknown, base())
    assert unknown in caught.value.message


# drivers


def test_a_driver_has_its_cuda_version_the_minimum_drivers_and_its_gpus() -> None:
    page = driver("470.129.06", base())
    says = text(page)
    assert "470" in says
    assert "11.4" in says
    runs = [entry.says.startswith("runs") for entry in page.entries if entry.table == "floors"]
    assert runs == [True, False, False]
    assert "525.60.13" in says
    assert "580.65.06" in says
    assert any("12.0" in entry.says and "570" in entry.says for entry in page.entries if entry.table == "generations")


@collect("release", DRIVERS)
def test_the_minimum_drivers_of_a_driver_are_compared_by_number(release: str) -> None:
    says = [entry.says for entry in driver(release, base()).entries if entry.table == "floors"]
    for floor, line in zip(base().floors, says, strict=True):
        assert line.startswith("runs") == (driver_key(release) >= driver_key(floor.driver))


def test_a_branch_alone_may_be_on_either_side_of_the_minimum_driver() -> None:
    says = [entry.says for entry in driver("580", base()).entries if entry.table == "floors"]
    assert [line.startswith("runs") for line in says] == [True, True, False]
    assert not says[2].startswith("does not")


def test_a_new_driver_no_longer_drives_old_cards() -> None:
    says = text(driver("590.48.01", base()))
    assert "6.1" in says
    assert "580" in says
    assert "7.5" not in says


@collect("wrong", ["", "535.x", "new", "v535.1", "535.129.03\x1b[31m"])
def test_what_is_not_a_driver_is_wrong_usage(wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        driver(wrong, base())
    assert caught.value.message.isprintable()


# CUDA


def test_a_cuda_release_has_its_minimum_driver_its_drivers_and_its_compiler() -> None:
    says = text(cuda("12.1", base()))
    for fact in ("525.60.13", "530.30.02", "8.1", "9.0", "nvcc", "2.5.1"):
        assert fact in says
    assert text(cuda("12.1.1", base())) == says
    assert "450.80.02" in text(cuda("11.8", base()))
    assert "no nvcc" in text(cuda("11.8", base()))


def test_a_cuda_version_of_drivers_that_is_not_a_toolkit_says_so() -> None:
    with pytest.raises(UsageError) as caught:
        cuda("12.7", base())
    assert "565" in caught.value.message


@collect("wrong", ["", "x", "99.0", "12.x", "\x1b[31m"])
def test_what_is_not_a_cuda_release_is_wrong_usage(wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        cuda(wrong, base())
    assert caught.value.message.isprintable()


# PyTorch


def test_a_release_has_every_build_of_it() -> None:
    page = pytorch("2.5", base())
    rows = [row for row in (*base().torch, *base().wheels) if row.version.release[:2] == (2, 5)]
    assert len(page.entries) == len(rows)
    says = text(page)
    for fact in ("2.5.1", "2.5.0", "cuda126*", "*cuda12.4*", "linux-aarch64", "cudnn >=9.3.0.75"):
        assert fact in says
    index = "https://download.pytorch.org/whl/cu124"
    assert f"wheel torch==2.5.1+cu124 from {index} and torch==2.5.1 of PyPI for linux-64: CUDA 12.4" in says
    assert len(pytorch("==2.5.1", base()).entries) < len(rows)


@collect("wrong", ["99", "", "x", "2.5\x1b[31m", ">=99"])
def test_what_is_not_a_pytorch_release_is_wrong_usage(wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        pytorch(wrong, base())
    assert caught.value.message.isprintable()


# packages


def test_a_program_of_pip_has_the_cuda_that_its_wheels_load() -> None:
    texts = [entry.says for entry in package("tensorflow", base()).entries]
    assert "the wheels of tensorflow 2.4 to below 2.5 load the libraries of CUDA 11.0 and cuDNN 8.0" in texts
    assert "the wheels of tensorflow 2.0 to below 2.1 are CPU builds" in texts


def test_a_package_has_its_role_its_cuda_variant_or_its_discontinuation() -> None:
    assert "cudatoolkit-dev" in text(package("cuda-nvcc", base()))
    assert "cusparse.h" in text(package("libcusparse-dev", base()))
    assert "cuda*" in text(package("deepspeed", base()))
    ended = text(package("cudatoolkit-dev", base()))
    assert "11.7.0" in ended
    assert "cuda-nvcc" in ended
    both = {entry.table for entry in package("pytorch", base()).entries}
    assert both == {"twins", "endings"}


@collect("wrong", ["zlib", "", "\x1b[31m", "*"])
def test_a_package_that_no_row_names(wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        package(wrong, base())
    assert caught.value.message.isprintable()


@examples(60)
@given(st.sampled_from(sorted(TOPICS)), st.text(max_size=20))
def test_any_text_is_a_page_or_a_plain_no(topic: str, subject: str) -> None:
    try:
        says = [entry.says for entry in TOPICS[topic](subject, base()).entries]
    except CuenvError as error:
        says = [error.message]
    assert says
    assert all(line.isprintable() for line in says)
