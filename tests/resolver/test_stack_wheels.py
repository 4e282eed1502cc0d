"""The stack wheels: torch from PyTorch's own index, chosen by the rules that choose conda builds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cases import collect
from commands import inside as run
from cuenv.core.errors import UsageError
from cuenv.core.versions import parse_version_spec
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request, pool
from cuenv.knowledge.rows import WHEELS
from cuenv.resolver.candidates import wheel_candidates
from cuenv.resolver.explain import summary
from cuenv.resolver.resolve import Resolution, resolve
from cuenv.resolver.torch_findings import index_findings
from cuenv.resolver.why import why_not
from cuenv.solve import environment_yml
from given import base, machine


def asked(host: HostFacts, **wishes: Any) -> Resolution:
    versions: dict[str, Any] = {
        name: parse_version_spec(text, what=name) if name in ("pytorch", "cuda", "python") else text
        for name, text in wishes.items()
    }
    wished: dict[str, Any] = {"stack": WHEELS, "dev": False, **versions}
    return resolve(host, Request(**wished), base())


def test_the_file_has_python_of_conda_and_torch_of_the_index_of_its_cuda() -> None:
    answer = asked(machine("6.1", driver="580.65.06"))
    assert answer.fits
    assert answer.spec is not None
    assert answer.spec.channels == ("conda-forge",)
    assert [pin.name for pin in answer.spec.pins] == ["python", "pip"]
    assert answer.spec.pip == ("--extra-index-url https://download.pytorch.org/whl/cu126", "torch==2.14.1+cu126")
    assert not list(index_findings(answer.spec.pip, None, base()))
    read, _ = environment_yml.parse(environment_yml.render(answer.spec), "environment.yml")
    assert read.pip == answer.spec.pip


@collect("gpu", ["5.2", "6.1", "7.0"])
def test_the_last_release_for_a_gpu_is_said(gpu: str) -> None:
    answer = asked(machine(gpu, driver="580.65.06"))
    last = f"torch 2.14.1 is the last release with wheels for compute capability {gpu}; the newest is 2.15.0"
    assert any(last in line for line in summary(answer.decision))
    assert answer.spec is not None
    assert any(last in line for line in answer.spec.header)


def test_nothing_is_said_of_a_last_release_where_the_newest_serves() -> None:
    answer = asked(machine("9.0", driver="580.65.06"))
    assert not any("last release" in line for line in summary(answer.decision))


@collect(
    ("gpu", "driver", "tag"),
    [
        ("12.0", "580.65.06", "cu130"),
        ("12.0", "610.43.02", "cu132"),
        ("8.9", "535.129.03", "cu126"),
        ("3.7", "470.82.01", "cu118"),
    ],
)
def test_the_tag_is_the_highest_that_driver_and_gpu_take(gpu: str, driver: str, tag: str) -> None:
    chosen = asked(machine(gpu, driver=driver)).decision.chosen
    assert chosen is not None
    assert chosen.candidate.build.build == tag


def test_the_cudnn_of_a_wheel_is_exact_so_no_pin_helps() -> None:
    said = {
        verdict.because
        for item in asked(machine("7.0", driver="580.65.06")).decision.assessments
        for verdict in item.verdicts
        if verdict.rule == "cudnn" and verdict.outcome == "reject"
    }
    exact = [item for item in wheel_candidates(base(), "linux-64") if item.build.cudnn]
    assert all(item.cudnn == item.build.cudnn.first for item in exact if item.build.cudnn)
    assert said
    assert all("this build of PyTorch requires cuDNN" in text and text.endswith("exactly") for text in said)


def test_a_release_of_cudnn_that_is_asked_for_is_that_of_the_wheel_and_no_second_one() -> None:
    host = machine("7.0", driver="580.65.06")
    answer = asked(host, packages=("cudnn<9.6", "nccl"))
    assert answer.spec is not None
    assert answer.spec.pip[-1] == "torch==2.7.1+cu126"  # with cuDNN 9.5.1
    assert [pin.name for pin in answer.spec.pins] == ["python", "pip"]
    none = asked(host, packages=("cudnn<9.6",), pytorch="2.9")
    assert none.decision.chosen is None
    said = [reason.says for item in none.decision.rejections for reason in item.lead.reasons]
    assert any("this wheel of torch requires cudnn 9.10.2.21 exactly" in text for text in said)


def test_why_not_wheels_says_what_they_would_be() -> None:
    host = machine("7.0", driver="580.65.06")
    free = resolve(host, Request(dev=False), base()).decision
    says = why_not(free, "stack=wheels").says
    assert "wheels are chosen where they are asked for" in says
    assert "--stack wheels would choose pytorch 2.14.1 cu126" in says
    old = resolve(machine("12.0", driver="550.54.14"), Request(), base()).decision
    assert "no wheel fits: " in why_not(old, "stack=wheels").says


def test_one_file_serves_both_platforms() -> None:
    asked_for = Request(stack=WHEELS, dev=False)
    answer = resolve(machine("9.0", driver="580.65.06"), asked_for, base(), platforms=("linux-64", "linux-aarch64"))
    assert answer.fits
    assert answer.spec is not None
    assert answer.spec.platforms == ("linux-64", "linux-aarch64")
    assert answer.spec.pip[-1].startswith("torch==2.15.0+cu13")


def test_a_pool_has_the_wheel_that_serves_all_its_gpus() -> None:
    hosts = pool([machine("6.1", driver="580.65.06"), machine("9.0", driver="535.129.03")])
    chosen = asked(hosts).decision.chosen
    assert chosen is not None
    assert chosen.candidate.build.build == "cu126"
    assert str(chosen.candidate.build.version) == "2.14.1"


def test_unasked_wheels_must_be_known_to_serve_every_gpu() -> None:
    both = machine("6.1", "12.0", driver="580.65.06")
    request = Request(dev=False, pytorch=parse_version_spec("1.5", what="pytorch"))
    assert resolve(both, request, base()).decision.chosen is None  # by PTX, and cuDNN is not known


def test_a_compiler_is_of_torchs_cuda_or_stays_out_with_the_reason() -> None:
    with_nvcc = asked(machine("6.1", driver="580.65.06"), dev=True)
    assert with_nvcc.spec is not None
    pins = {pin.name: pin.version for pin in with_nvcc.spec.pins}
    assert pins["cuda-version"] == "12.6"
    assert {"cuda-nvcc", "gxx_linux-64", "ninja", "libcublas-dev"} <= pins.keys()
    without = asked(machine("3.7", driver="470.82.01"), dev=True)
    assert without.spec is not None
    assert [pin.name for pin in without.spec.pins] == ["python", "pip"]
    assert any("conda-forge has no nvcc of CUDA 11" in line for line in summary(without.decision))


def test_torchvision_is_the_one_of_the_chosen_torch_under_the_same_local_version() -> None:
    answer = asked(machine("6.1", driver="580.65.06"), pytorch="2.6", packages=("torchvision", "torchaudio", "numpy"))
    assert answer.spec is not None
    assert {"torch==2.6.0+cu126", "torchvision==0.21.0+cu126", "torchaudio==2.6.0+cu126"} <= set(answer.spec.pip)
    assert answer.spec.pin("torchvision") is None  # of conda it would bring a second torch
    assert answer.spec.pin("numpy") is not None


def test_a_library_on_torch_that_does_not_fit_is_judged_as_a_wheel() -> None:
    answer = asked(machine("6.1", driver="580.65.06"), packages=("vllm==0.11.2",))
    assert answer.decision.chosen is None
    assert any(item.rule == "extensions" for item in answer.decision.rejections)


def test_a_second_torch_is_refused() -> None:
    with pytest.raises(UsageError, match="cuenv chooses the version of torch"):
        asked(machine("6.1", driver="580.65.06"), pip=("torch==2.6.0",))


def test_wheels_are_chosen_unasked_only_where_no_conda_build_fits_and_that_is_said() -> None:
    host = machine("6.1", driver="580.65.06")
    free = resolve(host, Request(dev=False), base())
    assert free.decision.chosen is not None
    assert free.decision.chosen.candidate.build.stack == "conda-forge"
    newer = resolve(host, Request(dev=False, pytorch=parse_version_spec("2.14", what="pytorch")), base())
    assert newer.decision.chosen is not None
    assert newer.decision.chosen.candidate.build.stack == WHEELS
    assert newer.spec is not None
    assert any("the stack is wheels, because no conda build fits" in line for line in summary(newer.decision))
    assert any("because no conda build fits" in line for line in newer.spec.header)
    bound = resolve(
        host, Request(stack="pytorch", dev=False, pytorch=parse_version_spec("2.14", what="pytorch")), base()
    )
    assert bound.decision.chosen is None


@collect(
    ("options", "because"),
    [
        (("--gpu", "RTX 5090", "--driver", "550.54.14"), "driver"),
        (("--gpu", "RTX 4090", "--driver", "535.129.03", "--python", "3.6", "--pytorch", "2.14"), "--python 3.6"),
        (("--gpu", "GTX 1080", "--driver", "580.65.06", "--platform", "linux-aarch64", "--pytorch", "2.14"), "6.1"),
        (("--gpu", "GTX 1080", "--driver", "580.65.06", "--pytorch", "2.15"), "6.1"),
        (("--gpu", "RTX 4090", "--driver", "535.129.03", "--cpu"), "--cpu"),
        (("--gpu", "RTX 4090", "--driver", "535.129.03", "--glibc", "2.12"), "glibc"),
    ],
)
def test_where_no_wheel_serves_the_reason_is_said(options: tuple[str, ...], because: str, tmp_path: Path) -> None:
    done = run("resolve", "--stack", WHEELS, *options, folder=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert because in done.stderr
    assert "no candidate fits" in done.stderr
