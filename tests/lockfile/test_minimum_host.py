"""What a lock says of the least host, against what the rules say of each host, on the committed locks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from cases import collect, quick
from cuenv.core.errors import InputError
from cuenv.core.findings import Finding
from cuenv.core.versions import Capability, driver_key
from cuenv.host.facts import Driver, Gpu, HostFacts
from cuenv.host.select import HostOptions
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.check import check
from cuenv.lockfile.files import LOCK_NAME, read_lock
from cuenv.lockfile.host_check import host_findings
from cuenv.lockfile.minimum_host import (
    MINIMUM_GLIBC,
    SUPPORTED_GPUS,
    minimum_host,
    record_findings,
    recorded_gpus,
    supported_gpus,
)
from cuenv.resolver.solution_policy import edit_findings
from cuenv.solve.model import Lock, LockedPackage, PipLocked, Solution
from given import base, candidate, package, solution

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "locks").glob(f"*/{LOCK_NAME}"))
PLATFORM = "linux-64"


read = cache(read_lock)


@pytest.fixture(params=quick(LOCKS, first=2), ids=lambda path: path.parent.name)
def lock(request: pytest.FixtureRequest) -> Lock:
    return read(request.param)


def host(capability: Capability, driver: str | None, knowledge: Knowledge) -> HostFacts:
    return HostFacts(
        label="a host",
        platform=PLATFORM,
        gpus=(Gpu(index=0, name="", capability=capability),),
        driver=Driver(version=driver, cuda=knowledge.cuda_of(driver)) if driver else None,
    )


def errors(found: tuple[Finding, ...]) -> set[str]:
    return {item.code for item in found if item.severity == "error"}


def below(driver: str) -> str:
    return f"{driver_key(driver)[0] - 1}.1"


def test_a_lock_names_exactly_the_gpus_and_drivers_that_the_rules_allow(lock: Lock) -> None:
    knowledge = base()
    (solution,) = lock.solutions
    served = {item.capability: item for item in recorded_gpus(lock.metadata, PLATFORM)}
    assert served
    written = minimum_host(lock.solutions, host(Capability(8, 9), "580.65.06", knowledge), knowledge)
    anew = {item.capability: item for item in recorded_gpus(written, PLATFORM)}
    assert anew.keys() & served.keys()
    assert all(item == served.get(capability, item) for capability, item in anew.items())
    for row in knowledge.generations:
        record = served.get(row.capability)
        if record is None:
            newest = max(knowledge.branches, key=lambda item: item.number).number
            assert errors(host_findings(solution, host(row.capability, f"{newest}.99", knowledge), knowledge))
        elif record.driver:
            own = host(row.capability, record.driver, knowledge)
            assert errors(host_findings(solution, own, knowledge)) == set()
            older = host(row.capability, below(record.driver), knowledge)
            assert errors(host_findings(solution, older, knowledge)) & {"CU401", "CU402", "CU403"}


def test_the_record_judges_where_the_tables_do_not_know_torch(lock: Lock) -> None:
    knowledge = replace(base(), torch=())
    (solution,) = lock.solutions
    first = recorded_gpus(lock.metadata, PLATFORM)[0]
    assert first.driver

    def judged(capability: Capability, driver: str) -> list[tuple[str, str]]:
        found = record_findings(lock, solution, host(capability, driver, knowledge), knowledge)
        return [(item.code, item.severity) for item in found]

    assert judged(first.capability, first.driver) == [("CU111", "info")]
    assert judged(first.capability, below(first.driver)) == [("CU401", "error")]
    assert judged(Capability(3, 5), first.driver) == [("CU403", "error")]
    assert not [*record_findings(lock, solution, host(Capability(3, 5), "470.42.01", knowledge), base())]


def test_a_gpu_that_is_newer_than_the_toolkit_is_recorded_with_its_own_first_driver() -> None:
    torch = package("pytorch", "2.7.1", "cuda126_mkl_py312_h1_300")
    toolkit = package("cuda-version", "12.6", "h1_3", subdir="noarch")
    solved = solution(torch, toolkit, package("libcudnn", "9.8.0.87"), package("nccl", "2.26.2.1"))
    written = minimum_host((solved,), host(Capability(8, 9), "580.65.06", base()), base())
    found = {str(item.capability): str(item) for item in recorded_gpus(written, PLATFORM)}
    assert found["8.9"] == "8.9=native:525.60.13"
    assert found["12.0"] == "12.0=jit:570.26"
    assert found["10.7"] == "10.7=jit"  # of which the tables know no driver


def test_a_gpu_that_the_toolkit_is_the_first_to_know_has_the_driver_of_the_toolkit() -> None:
    """No row says which branch first drove 8.8; CUDA 13.0 is the first that compiles for it."""
    item = candidate("2.13.0", "cuda130*")
    found = {str(one.capability): one.driver for one in supported_gpus(solution(), item, base())}
    assert found["8.8"] == found["8.9"] == "580.65.06"


def test_the_driver_of_a_lock_is_that_of_its_first_platform() -> None:
    first = read_lock(LOCKS[0]).solutions[0]
    here = host(Capability(8, 9), "580.65.06", base())
    one = minimum_host((first,), here, base())
    both = minimum_host((first, replace(first, platform="linux-aarch64")), here, base())
    assert both["cuenv_minimum_driver"] == one["cuenv_minimum_driver"]
    assert both.keys() - one.keys() == {f"{SUPPORTED_GPUS}linux-aarch64"}


@pytest.mark.parametrize("key", [SUPPORTED_GPUS + PLATFORM, "cuenv_minimum_driver", MINIMUM_GLIBC])
def test_an_edited_record_is_seen(lock: Lock, key: str) -> None:
    assert not [*edit_findings(lock)]
    other = {**lock.metadata, key: lock.metadata[key].replace("5", "4").replace("2.", "1.")}
    assert [item.code for item in edit_findings(replace(lock, metadata=other))] == ["CU108"]
    gone = {name: text for name, text in lock.metadata.items() if name != key}
    assert [item.code for item in edit_findings(replace(lock, metadata=gone))] == ["CU108"]


@collect("text", ["8.9", "8.9=magic", "8.9=native:new", "x=native", "8.9=native:\x1b[2J"])
def test_a_record_that_cuenv_did_not_write_is_an_input_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"expected"):
        recorded_gpus({SUPPORTED_GPUS + PLATFORM: text}, PLATFORM)
    key, shown = f'"{SUPPORTED_GPUS}{PLATFORM}": "', f"{text!a}".replace("'", "").replace("\\", "/")
    (tmp_path / LOCK_NAME).write_text(LOCKS[0].read_text().replace(key, f"{key}{shown} "))
    with pytest.raises(InputError, match="custom_metadata") as caught:
        check(tmp_path / LOCK_NAME, HostOptions(hosts=("rtx4090-535",), environ={}), replace(base(), torch=()))
    assert "\x1b" not in caught.value.message


def test_glibc_is_that_of_the_most_demanding_package() -> None:
    conda = LockedPackage(
        name="a",
        version="1",
        build="0",
        subdir=PLATFORM,
        channel="c",
        url="c/a",
        md5=None,
        sha256=None,
        depends=("__glibc >=2.17,<3.0.a0", "b"),
    )

    def wheel(tag: str) -> PipLocked:
        return PipLocked(name="w", version="1", url=f"https://x.example/w-1-cp312-cp312-{tag}.whl", sha256=None)

    def least(*pip: PipLocked) -> str | None:
        one = Solution(platform=PLATFORM, packages=(conda,), virtual_packages=(), solver="", pip=pip)
        return minimum_host([one], HostFacts(label="h", platform=PLATFORM), base()).get(MINIMUM_GLIBC)

    assert least() == "2.17"
    assert least(wheel("manylinux_2_28_x86_64")) == "2.28"
    assert least(wheel("manylinux_2_17_x86_64.manylinux2014_x86_64")) == "2.17"
    assert least(wheel("manylinux2014_x86_64.manylinux_2_31_x86_64")) == "2.17"
    assert least(wheel("linux_x86_64"), wheel("manylinux_2_34_x86_64")) == "2.34"
