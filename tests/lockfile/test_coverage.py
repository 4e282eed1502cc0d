"""How each component of a lock supports the GPUs, which one limits it, and the smallest pins that mend it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from channel_builder import pkg, write
from cuenv.core.findings import ComponentSupport
from cuenv.host.facts import HostFacts
from cuenv.host.request import pool
from cuenv.host.select import HostOptions
from cuenv.lockfile.coverage import coverage, narrowed, repairs, weakest
from cuenv.lockfile.host_check import host_findings
from cuenv.lockfile.lock import LockRequest
from cuenv.lockfile.repair.repair import Repaired, repair
from cuenv.solve.environment_spec import Pin
from cuenv.solve.environment_yml import render
from cuenv.solve.io.sources import Mirror, Sources
from cuenv.solve.model import LockedPackage, Solution
from given import base, capabilities, drivers, machine, package, solution, spec
from thorough import examples as so_many

TORCH = package("pytorch", "2.12.0", "cuda129_mkl_py313_h0_300")


def locked(*more: LockedPackage, torch: LockedPackage = TORCH) -> Solution:
    return solution(torch, package("cuda-version", "12.9"), *more)


def components(have: Solution, *gpus: str, driver: str = "575.57.08") -> dict[str, ComponentSupport]:
    return {item.rule: item for item in coverage(have, machine(*gpus, driver=driver), base())}


def served(component: ComponentSupport) -> dict[str, str]:
    return {str(device): how for device, how in component.support}


def test_each_component_is_judged_for_each_gpu() -> None:
    have = locked(package("libcudnn", "9.13.1.26"), package("nccl", "2.28.9.1"), package("cuda-nvcc", "12.9.86"))
    found = components(have, "7.0", "12.0")
    assert list(found) == ["device-code", "cudnn", "nccl", "nvcc"]
    assert served(found["device-code"]) == {"7.0": "native", "12.0": "native"}
    assert served(found["cudnn"]) == {"7.0": "no", "12.0": "native"}
    assert served(found["nccl"]) == {"7.0": "native", "12.0": "native"}
    assert found["cudnn"].package == "libcudnn 9.13.1.26"
    assert str(found["cudnn"]) == "cuDNN (libcudnn 9.13.1.26): compute capability 7.0 not supported, 12.0 native"
    assert found["cudnn"].evidence


def test_an_nvcc_is_mended_from_either_side() -> None:
    def mended(number: str, gpu: str) -> str:
        have = locked(package("cuda-nvcc", f"{number}.20"), torch=package("pytorch", "2.10.0", "cuda130_py312_h0"))
        have = replace(have, packages=(*have.packages[:1], package("cuda-version", number), *have.packages[2:]))
        component = components(have, gpu, driver="580.65.06")["nvcc"]
        (pin,) = [pin for pin in repairs(have, (component,), base()) if pin.name == "cuda-version"]
        return pin.version

    assert mended("13.0", "7.0") == "<13"
    assert mended("12.4", "12.0") == ">=12.8"
    assert mended("12.4", "10.1") == ">=12.8,<13"


def test_a_cudnn_below_9_11_serves_them_all() -> None:
    assert weakest(tuple(components(locked(package("libcudnn", "9.10.2.21")), "7.0", "12.0").values())) is None


def test_a_gpu_that_only_ptx_serves_is_served_by_jit() -> None:
    old = package("pytorch", "2.3.1", "cuda120_py311_h0_300")
    have = solution(old, package("cuda-version", "12.4"))
    assert served(components(have, "10.0", driver="575.57.08")["device-code"]) == {"10.0": "jit"}
    assert served(components(have, "8.9", driver="535.129.03")["device-code"]) == {"8.9": "native"}


def test_the_limiting_component_is_the_one_that_lacks_most_gpus() -> None:
    torch = package("pytorch", "2.12.1", "cuda130_mkl_py314_h0_300")
    have = solution(torch, package("cuda-version", "13.0"), package("cuda-nvcc", "13.0.88"))
    found = weakest(tuple(components(have, "5.0", "6.1", "7.0", "9.0", driver="580.65.06").values()))
    assert found is not None
    assert (found.rule, [str(item) for item in found.cut]) == ("device-code", ["5.0", "6.1", "7.0"])


def test_without_a_cuda_torch_there_is_nothing_to_cover() -> None:
    assert coverage(solution(package("numpy")), machine("8.9", driver="535.129.03"), base()) == ()
    cpu = solution(package("pytorch", "2.12.0", "cpu_mkl_py313_h0_100"))
    assert coverage(cpu, machine("8.9", driver="535.129.03"), base()) == ()
    assert coverage(locked(), machine(), base()) == ()


def test_in_a_pool_each_gpu_is_judged_with_its_own_driver() -> None:
    old = package("pytorch", "2.3.1", "cuda120_py311_h0_300")
    both = pool([machine("8.9", driver="535.129.03", label="a"), machine("9.0", driver="575.57.08", label="b")])
    found = coverage(solution(old, package("cuda-version", "12.0")), both, base())
    assert served(found[0]) == {"8.9": "native", "9.0": "native"}


@so_many(50)
@examples(
    st.lists(capabilities, min_size=1, max_size=3, unique=True), drivers, st.sampled_from(["9.10.2.21", "9.13.1.26"])
)
def test_a_component_lacks_a_gpu_exactly_when_check_says_so(gpus: list[object], driver: str, cudnn: str) -> None:
    """Coverage and findings come of the same rules: there is no second opinion."""
    facts: HostFacts = machine(*map(str, gpus), driver=driver)
    have = locked(package("libcudnn", cudnn), package("cuda-nvcc", "12.9.86"))
    errors = {item.subject for item in host_findings(have, facts, base()) if item.severity == "error"}
    cuts = {item.rule for item in coverage(have, facts, base()) if item.cut}
    assert cuts == errors & {"device-code", "cudnn", "nccl", "nvcc"}


def test_the_pin_of_a_component_is_the_last_release_that_supports_the_gpu() -> None:
    have = locked(package("libcudnn", "9.13.1.26"))
    found = tuple(components(have, "7.0").values())
    (pin,) = repairs(have, found, base())
    assert (pin.name, pin.version, pin.channel) == ("libcudnn", "<9.11", "conda-forge")
    assert pin.why == ("cuDNN 9.13.1.26 supports compute capability 7.5 and later, but not compute capability 7.0",)
    older = locked(package("cudnn", "9.13.1.26"))
    assert [item.name for item in repairs(older, tuple(components(older, "7.0").values()), base())] == ["cudnn"]


def test_the_pins_of_torch_and_nvcc() -> None:
    torch = package("pytorch", "2.12.1", "cuda130_mkl_py314_h0_300")
    have = solution(torch, package("cuda-version", "13.0"), package("cuda-nvcc", "13.0.88"))
    found = repairs(have, tuple(components(have, "7.0", driver="580.65.06").values()), base())
    assert {(pin.name, pin.version, pin.build) for pin in found} == {
        ("pytorch", "", "cuda129*"),
        ("cuda-version", "<13", ""),
    }


def test_a_pin_on_a_pinned_package_holds_beside_it() -> None:
    cap = Pin(name="libcudnn", version="<9.11", why=("because",))
    both = narrowed(spec("libcudnn>=9.10", "numpy"), (cap,))
    assert [pin.yaml_text() for pin in both.pins] == ["libcudnn>=9.10,<9.11", "numpy"]
    assert both.pins[0].why == ("because",)
    either = narrowed(spec("libcudnn>=9.10|==8.9.7"), (cap,))
    assert [pin.yaml_text() for pin in either.pins] == ["libcudnn>=9.10,<9.11|==8.9.7,<9.11"]
    assert [pin.yaml_text() for pin in narrowed(spec("numpy"), (cap,)).pins] == ["numpy", "libcudnn<9.11"]
    bound = Pin(name="numpy", version=">=1.23.1,<2")
    assert narrowed(spec("numpy<2"), (bound,)).pins[0].yaml_text() == "numpy<2,>=1.23.1"
    build = Pin(name="pytorch", build="cuda129*")
    assert narrowed(spec("pytorch=2.12.0"), (build,)).pins[0].yaml_text() == "pytorch=2.12.0.*=cuda129*"
    assert narrowed(spec("pytorch=2.12.0=cuda130*"), (build,)).pins[0].build == "cuda130*"


CUT = """\
name: cut
channels: [conda-forge]
dependencies:
  - python=3.13
  - conda-forge::pytorch=2.12.0=cuda129*
  - conda-forge::cuda-version=12.9
  - conda-forge::libcudnn{cudnn}
"""


def mend(records: Path, folder: Path, text: str, *gpus: str, driver: str = "575.57.08") -> Repaired:
    path = folder / "environment.yml"
    path.write_text(text)
    sources = Sources(mirrors=(Mirror(origin="https://conda.anaconda.org", target=str(records)),))
    host = HostOptions(gpus=gpus, driver=driver, glibc="2.35", environ={})
    return repair(LockRequest(path=path, host=host, sources=sources), base())


@pytest.mark.slow
@pytest.mark.records
def test_the_repair_of_a_cut_is_exactly_one_pin(records: Path, tmp_path: Path) -> None:
    found = mend(records, tmp_path, CUT.format(cudnn=""), "7.0", "12.0")
    assert [(pin.name, pin.version) for pin in found.pins] == [("libcudnn", "<9.11")]
    assert found.changes == ()
    assert found.tried == 0
    assert found.spec is not None
    assert found.spec.pin("libcudnn") is not None
    weak = weakest(found.components)
    assert weak is not None
    assert (weak.name, [str(item) for item in weak.cut]) == ("cuDNN", ["7.0"])
    assert not mend(records, tmp_path, render(found.spec), "7.0", "12.0").needed


def test_two_cuts_need_both_pins_and_no_fewer(tmp_path: Path) -> None:
    """The newest cuDNN and the newest nvcc have each dropped 7.0: every smaller set of pins was tried, in vain."""
    torch = ("python >=3.13,<3.14.0a0", "libcudnn >=9.10.2.21,<10.0a0", "nccl", "cuda-version >=12.9,<14")
    sources = write(
        tmp_path,
        {
            "conda-forge": [
                pkg("pytorch", "2.12.0", "cuda129_py313_h0_300", depends=torch),
                *(pkg("python", "3.13.1"), pkg("nccl", "2.28.9.1"), pkg("libcudnn", "9.10.2.21")),
                *(pkg("libcudnn", "9.13.1.26"), pkg("cuda-version", "12.9"), pkg("cuda-version", "13.0")),
                pkg("cuda-nvcc", "12.9.86", depends=("cuda-version 12.9.*",)),
                pkg("cuda-nvcc", "13.0.88", depends=("cuda-version 13.0.*",)),
            ]
        },
    )
    path = tmp_path / "environment.yml"
    path.write_text("channels: [conda-forge]\ndependencies: ['pytorch=2.12.0=cuda129*', cuda-nvcc]\n")
    host = HostOptions(gpus=("7.0",), driver="580.65.06", glibc="2.35", environ={})
    found = repair(LockRequest(path=path, host=host, sources=sources), base())
    assert [(pin.name, pin.version) for pin in found.pins] == [("libcudnn", "<9.11"), ("cuda-version", "<13")]
    assert found.tried == 2
    assert found.spec is not None
    assert [pin.yaml_text() for pin in found.spec.pins[2:]] == ["conda-forge::libcudnn<9.11", "cuda-version<13"]


@pytest.mark.slow
@pytest.mark.records
def test_a_cut_that_no_pin_mends_is_decided_anew(records: Path, tmp_path: Path) -> None:
    found = mend(records, tmp_path, CUT.format(cudnn=">=9.12"), "7.0", "12.0")
    assert found.pins == ()
    assert found.spec is not None
    pins = {pin.name: pin.yaml_text() for pin in found.spec.pins}
    assert pins["pytorch"] == "conda-forge::pytorch=2.12.0=cuda129*"
    assert pins["libcudnn"] == "conda-forge::libcudnn<9.11"
    assert any(item.entry == "conda-forge::libcudnn>=9.12" and item.fate == "replaced" for item in found.changes)


@pytest.mark.records
def test_what_serves_every_gpu_needs_no_repair(records: Path, tmp_path: Path) -> None:
    found = mend(records, tmp_path, CUT.format(cudnn=""), "8.0", "12.0")
    assert (found.needed, found.pins, weakest(found.components)) == (False, (), None)
