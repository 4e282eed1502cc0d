"""What an environment file says itself, judged before anything is solved: files of strangers."""

from __future__ import annotations

from collections.abc import Iterable

from cases import collect
from cuenv.core.findings import Finding
from cuenv.lockfile.host_check import host_findings, judge_spec, named_cuda, request_of
from cuenv.lockfile.intent import intent_of
from cuenv.resolver.policy import spec_findings
from given import options, package, shipped_base, solution, spec

CHANNELS = ("pytorch", "nvidia", "conda-forge")


def findings(*dependencies: str, channels: Iterable[str] = CHANNELS) -> list[Finding]:
    return list(spec_findings(spec(*dependencies, channels=channels), shipped_base()))


@collect(
    ("asked", "exists"),
    [
        ("pytorch-cuda=11.7.0", True),  # conda: 11.7 is 11.7.0
        ("pytorch-cuda==11.7.0", True),
        ("pytorch-cuda=11", True),
        ("pytorch-cuda>=11.7,<12", True),
        ("pytorch-cuda=11.5|12.1", True),
        ("pytorch-cuda=11.5", False),
        ("pytorch-cuda>=12.6", False),
        ("pytorch-cuda=11.70", False),
    ],
)
def test_a_pin_exists_where_conda_would_match_a_release_with_it(asked: str, exists: bool) -> None:
    assert any(item.code == "CU110" for item in findings(asked)) is not exists


def test_a_release_between_two_others_is_told_its_neighbours_and_not_that_it_is_after_the_last() -> None:
    said = next(item for item in findings("pytorch-cuda=12.2") if item.code == "CU110").message
    assert "the nearest releases are 12.1 and 12.4" in said
    assert "nearest" not in next(item for item in findings("pytorch-cuda=12.6") if item.code == "CU110").message


def test_cuda_version_of_the_channel_nvidia_binds_nothing() -> None:
    torch = "pytorch=2.4.1=py3.12_cuda12.1_cudnn9.1.0_0"
    export = spec("python=3.12", torch, "pytorch-cuda=12.1", "cuda-version=12.6=3", channels=CHANNELS)
    base = shipped_base()
    assert str(named_cuda(export)) == "12.1"
    assert str(intent_of(export, base).cuda) == "12.1"
    assert not judge_spec(export, options("8.9", driver="535.129.03"), base)
    without = spec(torch, "cuda-version=12.6", channels=CHANNELS)
    assert str(named_cuda(without)) == "12.1", "torch's own build string says it"
    ours = spec("pytorch=2.5.1=cuda126*", "cuda-version=12.6")
    assert str(request_of(ours, base).cuda) == "12.6"


@collect(
    ("torch", "toolkit", "code"),
    [
        ("1.12.1", "11.3", ""),
        ("1.12.1", "11.6", ""),
        ("1.10.1", "10.2", ""),
        ("1.7.1", "11.0", ""),
        ("1.12.1", "11.8", "CU110"),  # the channel never had it
        ("1.1.0", "10.0", "CU111"),  # no record of it was read
    ],
)
def test_torch_before_1_13_is_known_by_the_builds_of_its_channel(torch: str, toolkit: str, code: str) -> None:
    asked = spec(f"pytorch={torch}", f"cudatoolkit={toolkit}", channels=CHANNELS)
    said = judge_spec(asked, options("7.0", driver="535.129.03"), shipped_base())
    assert [item.code for item in said if item.severity != "info"] == ([code] if code else [])


MKL, NUMPY = "mkl<2024.1", "numpy<2"


@collect(
    ("dependencies", "found"),
    [
        (("pytorch=2.0.1", "python=3.10"), {MKL: "warning"}),
        (("pytorch=2.0.1", "mkl=2024.2"), {MKL: "error"}),
        (("pytorch=2.0.1", "mkl=2024.0"), {}),
        (("pytorch=2.0.1", "mkl=2024"), {MKL: "warning"}),
        (("pytorch<2", "mkl<2024"), {}),
        (("pytorch=2.3.1",), {MKL: "warning"}),
        (("pytorch=2.4.1",), {}),
        (("pytorch>=2.0",), {}),  # the solver may take 2.5.1
        (("pytorch",), {}),
        (("pytorch=2.2.2", "mkl=2023.1", "numpy"), {NUMPY: "warning"}),
        (("pytorch=2.2.2", "mkl=2023.1", "numpy=2.1"), {NUMPY: "error"}),
        (("pytorch=2.2.2", "mkl=2023.1", "numpy>=1.20,<1.27"), {}),
        (("pytorch=2.2.2", "mkl=2023.1", "numpy>=1.20", "numpy<2"), {}),
        (("pytorch=1.12.1", "mkl=2023.1", "numpy", "python=3.8"), {}),  # no NumPy 2 has Python 3.8
        (("pytorch=2.3.1", "mkl=2023.1", "numpy=2.1"), {}),
        (("conda-forge::pytorch=2.1.2", "numpy=2.1"), {}),  # its records say which NumPy they take
    ],
)
def test_what_a_file_leaves_open_beside_a_torch_that_fails_with_it_is_pinned(
    dependencies: tuple[str, ...], found: dict[str, str]
) -> None:
    said = [item for item in findings(*dependencies) if item.code == "CU116"]
    assert {(item.fix or "").partition(": ")[2]: item.severity for item in said} == found


@collect(
    ("pip", "found"),
    [
        (("torch==2.0.1", "numpy"), {NUMPY: "warning"}),
        (("torch==2.0.1+cu118", "numpy==2.1.0"), {NUMPY: "error"}),
        (("torch==2.0.1", "numpy<2"), {}),
        (("torch>=2.0", "numpy"), {}),
        (("torch==2.4.1", "numpy"), {}),
    ],
)
def test_a_torch_of_pip_is_compiled_for_one_numpy_as_well(pip: tuple[str, ...], found: dict[str, str]) -> None:
    asked = spec("python=3.11", "pip", pip=pip)
    said = [item for item in spec_findings(asked, shipped_base()) if item.code == "CU116"]
    assert {(item.fix or "").removeprefix("add to the pip part: "): item.severity for item in said} == found


@collect(
    ("torch", "beside", "subject"),
    [
        (("2.0.1", "py3.10_cuda11.8_cudnn8.7.0_0", "pytorch"), ("mkl", "2024.2.2"), "mkl"),
        (("2.0.1", "py3.10_cuda11.8_cudnn8.7.0_0", "pytorch"), ("mkl", "2024.0.0"), ""),
        (("2.0.1", "py3.10_cuda11.8_cudnn8.7.0_0", "pytorch"), ("numpy", "2.2.6"), "numpy"),
        (("2.0.0", "cuda112py310h_1", "conda-forge"), ("mkl", "2024.2.2"), ""),
    ],
)
def test_a_lock_with_a_package_that_torch_fails_with_has_an_error(
    torch: tuple[str, str, str], beside: tuple[str, str], subject: str
) -> None:
    locked = solution(package("pytorch", *torch), package(*beside), package("python", "3.10.1"))
    said = host_findings(locked, options("8.6", driver="535.129.03"), shipped_base())
    assert [(item.subject, item.severity) for item in said if item.code == "CU116"] == (
        [(subject, "error")] if subject else []
    )
