"""Torch as pip brings it: which row it is, what the table says, and what the rules say of it."""

from __future__ import annotations

import re

from packaging.requirements import Requirement
from packaging.version import Version

from cases import collect
from cuenv.core.versions import Native, support_of
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, host_facts
from cuenv.resolver.rules import Context, verdict_of
from cuenv.resolver.wheels import cuda_of_wheels, uses_no_gpu, wheel_candidate, wheel_for
from cuenv.solve.model import PipLocked
from given import base, shipped_base

TABLES = shipped_base()
TORCH = "https://download.pytorch.org/whl/cu118/torch-2.4.1%2Bcu118-cp311-cp311-linux_x86_64.whl"


def pip(**versions: str) -> tuple[PipLocked, ...]:
    return tuple(
        PipLocked(name=name.replace("_", "-"), version=text, url="", sha256=None) for name, text in versions.items()
    )


def host(gpu: str, driver: str, glibc: str = "2.39", platform: str = "linux-64") -> HostFacts:
    return host_facts(HostOptions(gpus=(gpu,), driver=driver, glibc=glibc, platform=platform, environ={}), base())


@collect(
    ("packages", "platform", "build", "cuda"),
    [
        (pip(torch="2.7.1"), "linux-64", "cu126", "12.6"),
        (pip(torch="2.7.1+cu118"), "linux-64", "cu118", "11.8"),
        (pip(torch="2.7.1", nvidia_cuda_runtime_cu12="12.8.57"), "linux-64", "cu128", "12.8"),
        (pip(torch="2.12.0", cuda_toolkit="13.0.2"), "linux-64", "cu130", "13.0"),
        (pip(torch="2.9.1"), "linux-aarch64", "cpu", None),
        (pip(torch="2.11.0"), "linux-aarch64", "cu130", "13.0"),
        (pip(torch="2.5.1+cpu"), "linux-64", "cpu", None),
        (pip(torch="2.5.1+rocm6.2"), "linux-64", "rocm6.2", None),
        (pip(torch="1.12.1"), "linux-64", "cu102", "10.2"),
        (pip(torch="2.0.1+cu117.with.pypi.cudnn"), "linux-64", "cu117", "11.7"),
        ((PipLocked(name="torch", version="2.4.1", url=TORCH, sha256=None),), "linux-64", "cu118", "11.8"),
    ],
)
def test_the_wheel_is_known_by_its_local_version_its_index_its_runtime_or_as_pypis(
    packages: tuple[PipLocked, ...], platform: str, build: str, cuda: str | None
) -> None:
    found = wheel_candidate(packages, platform, TABLES)
    assert found is not None
    assert (found.build.build, found.cuda) == (build, Version(cuda) if cuda else None)
    assert uses_no_gpu(found.build) is (cuda is None)


def test_a_wheel_that_no_row_knows_keeps_what_its_name_says() -> None:
    found = wheel_candidate(pip(torch="2.9.0.dev20250801+cu129"), "linux-64", TABLES)
    assert found is not None
    assert (found.cuda, found.build.sources, found.build.code) == (Version("12.9"), (), None)
    company = wheel_candidate(pip(torch="2.4.1+corp.3", nvidia_cuda_runtime_cu12="12.4.127"), "linux-64", TABLES)
    assert company is not None
    assert (company.cuda, company.build.sources, uses_no_gpu(company.build)) == (Version("12.4"), (), False)
    container = wheel_candidate(pip(torch="2.4.0a0+f70bd71a48.nv24.6"), "linux-64", TABLES)
    assert container is not None
    assert (container.cuda, uses_no_gpu(container.build)) == (None, False)
    later = wheel_candidate(pip(torch="2.99.0"), "linux-64", TABLES)
    assert later is not None
    assert (later.cuda, uses_no_gpu(later.build)) == (None, False)


def test_what_is_locked_beside_torch_counts_more_than_what_its_row_pins() -> None:
    found = wheel_candidate(
        pip(torch="2.7.1", nvidia_cudnn_cu12="9.11.0.98", nvidia_nccl_cu12="2.26.2"), "linux-64", TABLES
    )
    assert found is not None
    assert (found.cudnn, found.nccl) == (Version("9.11.0.98"), Version("2.26.2"))
    case = Context(facts=host("V100", "550.54.15"), request=Request(), knowledge=base())
    assert verdict_of("cudnn", found, case).outcome == "reject"


def test_without_torch_there_is_no_candidate_and_the_runtime_still_names_cuda() -> None:
    packages = pip(jax="0.4.30", nvidia_cuda_runtime_cu12="12.6.77")
    assert wheel_candidate(packages, "linux-64", TABLES) is None
    assert cuda_of_wheels(packages) == Version("12.6")
    assert cuda_of_wheels(pip(numpy="2.0")) is None


@collect(
    ("gpu", "driver", "glibc", "rule"),
    [
        ("A100", "470.129.06", "2.31", "driver-floor"),
        ("RTX 5090", "575.57.08", "2.39", "device-code"),
        ("A100", "550.54.15", "2.17", "glibc"),
    ],
)
def test_the_rules_judge_a_wheel_as_they_judge_a_conda_build(gpu: str, driver: str, glibc: str, rule: str) -> None:
    found = wheel_candidate(pip(torch="2.7.1"), "linux-64", base())
    assert found is not None
    case = Context(facts=host(gpu, driver, glibc), request=Request(), knowledge=base())
    assert verdict_of(rule, found, case).outcome == "reject"
    well = Context(facts=host("A100", "550.54.15"), request=Request(), knowledge=base())
    assert verdict_of(rule, found, well).outcome == "pass"


@collect(("gpu", "driver"), [("5.2", "580.65.06"), ("6.1", "580.65.06"), ("7.0", "580.65.06")])
def test_the_last_wheels_for_maxwell_pascal_and_volta_are_those_of_2_14_1_for_cuda_12_6(gpu: str, driver: str) -> None:
    wheel = wheel_for(Version("9"), host(gpu, driver), TABLES)
    assert wheel is not None
    assert wheel.name == "2.14.1+cu126"


def test_2_15_has_no_wheel_for_cuda_12() -> None:
    assert {row.cuda.major for row in TABLES.wheels_of(Version("2.15.0"), "linux-64") if row.cuda} == {13}


def test_pypi_has_one_wheel_of_each_release_under_its_plain_version() -> None:
    for row in TABLES.wheels:
        same = TABLES.wheels_of(row.version, row.platform)
        assert sum("pypi" in item.comes for item in same) <= 1, row.name
        if row.platform == "linux-64":
            assert any("pypi" in item.comes for item in same), row.name


def test_the_cudnn_and_nccl_of_a_wheel_are_those_that_its_metadata_pins() -> None:
    held = 0
    for row in TABLES.wheels:
        pins = {item.name: item for item in map(Requirement, row.pins)}
        for library, own in (("cudnn", row.cudnn), ("nccl", row.nccl)):
            pin = next((item for name, item in pins.items() if re.fullmatch(rf"nvidia-{library}-cu\d\d", name)), None)
            if pin:
                held += 1
                assert own is not None
                assert str(pin.specifier) == f"=={own.first}", row.name
    assert held > 50


def test_a_wheel_serves_what_its_cuda_release_can_compile_for() -> None:
    for row in TABLES.wheels:
        cuda = TABLES.cuda(row.cuda)
        for target in row.code.sass if row.code and cuda else ():
            assert cuda is None or target.capability in cuda.targets, row.name
            assert row.code is None or isinstance(support_of(row.code, target.capability), Native)
