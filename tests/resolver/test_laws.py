"""What holds of every environment file: each finding by a minimal example and its opposite."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.findings import Finding
from cuenv.host.request import Request
from cuenv.lockfile.file_check import judge_spec, request_of
from cuenv.resolver.asked_cuda import wants_cuda
from cuenv.resolver.policy import spec_findings
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.environment_yml import parse
from cuenv.solve.match_spec import parse_spec
from given import HOSTS, base, machine, shipped, spec
from thorough import examples

HOST = machine("8.9", driver="535.129.03")
LABEL = "nvidia/label/cuda-11.8.0"


def found(environment: EnvironmentSpec) -> dict[str, list[str]]:
    """The codes of the findings on a file itself, by severity."""
    made: dict[str, list[str]] = {}
    for finding in spec_findings(environment, base()):
        made.setdefault(finding.severity, []).append(finding.code)
    return made


def judged(environment: EnvironmentSpec, host: object = HOST) -> list[Finding]:
    return list(judge_spec(environment, host, base()))  # type: ignore[arg-type] # a host


def refused(environment: EnvironmentSpec) -> list[str]:
    """The codes for which `cuenv lock` would refuse."""
    both = [*spec_findings(environment, base()), *judged(environment)]
    return sorted({finding.code for finding in both if finding.severity == "error"})


# the file that everybody copies

SEED = """
name: minicpm
channels: [pytorch, nvidia, conda-forge]
dependencies:
  - python=3.10
  - pytorch=2.3.1
  - torchvision
  - torchaudio
  - pytorch-cuda=12.1
  - cudatoolkit-dev=12.1
  - cudnn=8.9.2
  - nccl
  - pip:
    - deepspeed>=0.14.0
    - transformers>=4.36
    - accelerate
"""


def test_the_file_that_everybody_copies_is_refused_with_the_true_reasons() -> None:
    environment, _ = parse(SEED, "environment.yml")
    by_code = {finding.code: finding for finding in spec_findings(environment, base())}
    assert [code for code, finding in by_code.items() if finding.severity == "error"] == ["CU110"]
    assert by_code["CU101"].severity == "warning"
    ended = by_code["CU110"]
    assert ended.subject == "cudatoolkit-dev"
    assert "11.7.0" in ended.message
    assert "pytorch-cuda" in ended.message
    assert "nvcc" in ended.message
    assert ended.fix
    assert "libcusparse-dev" in ended.fix
    assert {"cf_dev", "nvchan"} <= set(ended.evidence)
    assert "nvidia" in by_code["CU101"].message
    unguarded = {item.subject for item in spec_findings(environment, base()) if item.code == "CU104"}
    assert unguarded == {"pytorch", "torchvision", "torchaudio"}


# CU101: one CUDA channel


@collect(
    ("channels", "dependencies"),
    [
        (("conda-forge", LABEL), ("conda-forge::cudnn", f"{LABEL}::cuda-toolkit=11.8.0")),
        (("nvidia", "conda-forge"), ("conda-forge::pytorch=*=cuda129*", "cuda-version=12.9")),
        (("pytorch", "nvidia"), ("pytorch=2.5.1=*cuda12.4*", "pytorch-cuda=12.4")),
        (("pytorch", "conda-forge", "nvidia"), ("pytorch=2.5.1=*cuda12.4*", "pytorch-cuda=12.4")),
        ((LABEL, "nvidia/label/cuda-12.4.0", "conda-forge"), ("cuda-toolkit",)),
        (("https://conda.anaconda.org/nvidia/", "conda-forge"), ("cuda-toolkit=12.9",)),
        (("conda-forge", "nvidia"), ("pytorch=2.4.0=cuda120*", "nvidia::cuda-toolkit=12.4.1")),
        (("conda-forge", LABEL), ("pytorch=*=cuda118*", f"{LABEL}::cuda-toolkit=11.8.0")),
    ],
)
def test_two_cuda_channels_are_an_error_in_what_cuenv_writes_and_told_elsewhere(
    channels: tuple[str, ...], dependencies: tuple[str, ...]
) -> None:
    environment = spec(*dependencies, channels=channels)
    assert "CU101" in found(environment)["warning"]
    assert "CU101" in found(replace(environment, ours=True))["error"]


@collect(
    ("dependencies", "says", "fix"),
    [
        (
            ("pytorch-cuda=12.1",),
            "cuda-opencl, libcufile, libcurand",
            "cuda-opencl=12.1, libcufile=1.6, libcurand=10.3.2",
        ),
        (("pytorch-cuda=11.8", "libcurand=10.3.0"), "no upper bound on libcufile, so", "libcufile=1.4"),
        (("pytorch-cuda=12.1", "cuda-nvcc"), "cuda-nvcc, cuda-opencl", "cuda-nvcc=12.1, cuda-opencl=12.1"),
        (("cuda-nvcc",), "no version is given for cuda-nvcc", "as CHANNEL::PACKAGE=RELEASE"),
        (("cuda-toolkit=12.1",), "cuda-toolkit=12.1 sets no upper bound on the parts", "as CHANNEL::PACKAGE=RELEASE"),
    ],
)
def test_what_floats_in_the_recipe_of_pytorch_is_named_with_the_line_that_binds_it(
    dependencies: tuple[str, ...], says: str, fix: str
) -> None:
    environment = spec("pytorch::pytorch=2.3.1=*cuda*", *dependencies, channels=("pytorch", "nvidia"))
    told = [item for item in spec_findings(environment, base()) if item.code == "CU101"]
    assert [item.severity for item in told] == ["warning"]
    assert says in told[0].message
    assert fix in (told[0].fix or "")


@pytest.mark.parametrize("dependencies", [("cudatoolkit=11.3",), ("cudatoolkit=11.8", "cudnn=8.9", "nccl")])
def test_one_package_of_one_release_mixes_nothing(dependencies: tuple[str, ...]) -> None:
    for channels in (
        ("pytorch", "nvidia", "conda-forge"),
        ("pytorch", "conda-forge", "nvidia"),
        (LABEL, "conda-forge"),
    ):
        environment = spec("pytorch::pytorch=1.12.1=*cuda*", *dependencies, channels=("pytorch", *channels))
        assert "CU101" not in [code for codes in found(environment).values() for code in codes]


@collect(
    ("channels", "dependencies"),
    [
        (("conda-forge",), ("pytorch=*=cuda129*", "cuda-version=12.9", "cudnn", "nccl")),
        (("conda-forge", LABEL), ("conda-forge::cudnn", "conda-forge::nccl", "pytorch=*=cuda118*")),
        (
            ("pytorch", LABEL, "conda-forge"),
            ("pytorch::pytorch=2.3.1=*cuda11.8*", "pytorch::pytorch-cuda=11.8", f"{LABEL}::cuda-toolkit=11.8.0"),
        ),
        (("pytorch", LABEL, "conda-forge"), ("pytorch=2.3.1=*cuda11.8*", f"{LABEL}::cuda-toolkit=11.8.0")),
        (("conda-forge", "nvidia"), ("numpy", "python=3.12")),
        (("nvidia",), ("numpy",)),
    ],
)
def test_one_cuda_channel_is_no_finding(channels: tuple[str, ...], dependencies: tuple[str, ...]) -> None:
    codes = [code for codes in found(spec(*dependencies, channels=channels)).values() for code in codes]
    assert "CU101" not in codes


@pytest.mark.parametrize("dependencies", [("cuda-version=12.9",), ("conda-forge::pytorch=*=cuda129*",)])
def test_nvidia_behind_conda_forge_is_a_warning(dependencies: tuple[str, ...]) -> None:
    environment = spec(*dependencies, channels=("rapidsai", "conda-forge", "nvidia"))
    assert found(environment) == {"warning": ["CU101"]}
    (finding,) = spec_findings(environment, base())
    assert finding.fix
    assert "nvidia" in finding.fix


def test_a_component_that_names_no_channel_beside_a_label_is_a_warning() -> None:
    environment = spec("cuda-toolkit", "cudnn", channels=(LABEL, "conda-forge"))
    (finding,) = [item for item in spec_findings(environment, base()) if item.code == "CU101"]
    assert finding.severity == "warning"
    assert "cuda-toolkit" in finding.subject
    assert finding.fix == f"write {LABEL}::cuda-toolkit"


# CU103: the CPU twin


@collect(
    ("channel", "dependencies"),
    [
        ("conda-forge", ("pytorch=2.9.1=cpu*", "cuda-version=12.9")),
        ("conda-forge", ("pytorch=*=cuda129*", "torchvision=*=cpu*")),
        ("conda-forge", ("pytorch=*=cuda129*", "pytorch-cpu")),
        ("pytorch", ("pytorch-cuda=11.8", "cpuonly")),
        ("pytorch", ("pytorch-cuda=11.8", "pytorch=2.3.1=py3.10_cpu_0")),
    ],
)
def test_a_cpu_twin_in_a_cuda_environment_is_an_error(channel: str, dependencies: tuple[str, ...]) -> None:
    assert found(spec(*dependencies, channels=(channel,)))["error"] == ["CU103"]


def test_the_cpu_build_of_another_library_may_be_meant() -> None:
    said = found(spec("pytorch=*=cuda129*", "xgboost=*=cpu*", channels=("conda-forge",)))
    assert "error" not in said
    assert "CU103" in said["warning"]


@collect(
    ("channel", "dependencies"),
    [
        ("conda-forge", ("pytorch=2.9.1=cpu*", "python=3.12")),
        ("conda-forge", ("pytorch-cpu",)),
        ("pytorch", ("pytorch=2.5.1", "cpuonly")),
        ("conda-forge", ("pytorch=*=cuda129*", "pyarrow-core=*=*_cpu")),
        ("conda-forge", ("pytorch=*=cuda129*", "scipy")),
    ],
)
def test_a_cpu_environment_is_none_nor_a_twin_that_does_not_matter(channel: str, dependencies: tuple[str, ...]) -> None:
    environment = spec(*dependencies, channels=(channel,))
    assert found(environment) == {}
    assert refused(environment) == []


# CU104: no guard


@collect(
    ("text", "guarded"),
    [
        ("pytorch", "pytorch=*=cuda*"),
        ("pytorch=2.3", "pytorch=2.3.*=cuda*"),
        ("pytorch==2.3.1", "pytorch=2.3.1=cuda*"),
        ("pytorch 2.3.*", "pytorch=2.3.*=cuda*"),
        ("pytorch>=2.3,<2.6", "pytorch[version='>=2.3,<2.6',build='cuda*']"),
        ("conda-forge::pytorch=2.3.1", "conda-forge::pytorch=2.3.1.*=cuda*"),
    ],
)
def test_without_a_guard_there_is_a_warning_whose_fix_mends_it(text: str, guarded: str) -> None:
    (finding,) = [item for item in spec_findings(spec(text, "cuda-version"), base()) if item.code == "CU104"]
    assert finding.severity == "warning"
    assert finding.fix == f"write {guarded}"
    before, after = parse_spec(text), parse_spec(guarded)
    assert before.condition() in ("", after.condition(), f"=={after.version}")
    assert found(spec(guarded, "cuda-version")) == {}


def test_a_guard_is_that_of_the_channel_the_package_comes_from() -> None:
    environment = spec("torchvision", "pytorch-cuda=11.8", channels=("pytorch", LABEL, "conda-forge"))
    (finding,) = spec_findings(environment, base())
    assert finding.fix == "write torchvision=*=*_cu*"


# CU110: what never was


@collect(
    ("text", "channels"),
    [
        ("cudatoolkit-dev=12.1", ("conda-forge",)),
        ("cudatoolkit-dev=11.8", ("pytorch", "nvidia", "conda-forge")),
        ("conda-forge::cudatoolkit=12.0", ("conda-forge",)),
        ("cudatoolkit=12.1", ("conda-forge",)),
        ("nvcc_linux-64=12.0", ("conda-forge",)),
        ("pytorch-cuda=12.6", ("pytorch", "conda-forge")),
        ("pytorch-cuda==12.2", ("pytorch",)),
    ],
)
def test_a_release_that_never_was_is_an_error(text: str, channels: tuple[str, ...]) -> None:
    errors = [item for item in spec_findings(spec(text, channels=channels), base()) if item.severity == "error"]
    finding = next(item for item in errors if item.code == "CU110")
    assert finding.subject == parse_spec(text).name
    assert finding.fix


@collect(
    ("text", "channels"),
    [
        ("cudatoolkit=11.8", ("conda-forge",)),
        ("cudatoolkit=11", ("conda-forge",)),
        ("cudatoolkit", ("conda-forge",)),
        ("cudatoolkit>=11.2", ("conda-forge",)),
        ("cudatoolkit-dev=11.7.0", ("conda-forge",)),
        ("cudatoolkit=11.2.72", ("nvidia", "conda-forge")),
        ("cudatoolkit=9.0", ("defaults", "conda-forge")),
        ("defaults::cudatoolkit=9.0", ("conda-forge",)),
        ("cudatoolkit-dev=12.1", ("our-own", "conda-forge")),
        ("our-own::cudatoolkit-dev=12.1", ("conda-forge",)),
        ("pytorch-cuda=12.4", ("pytorch",)),
        ("pytorch-cuda=12.6", ("our-own",)),
    ],
)
def test_a_release_that_is_or_may_be_elsewhere_is_none(text: str, channels: tuple[str, ...]) -> None:
    codes = [code for codes in found(spec(text, channels=channels)).values() for code in codes]
    assert "CU110" not in codes


# CU110 and CU111: what the tables say of a file on a host


@collect(
    ("dependencies", "numbers"),
    [
        (("pytorch=2.13.0=cuda129*", "cuda-version=12.7"), ("2.13.0", "12.7")),
        (("pytorch=2.13.0=cuda*", "cuda-version=11.8"), ("2.13.0", "11.8")),
        (("pytorch=2.2=cuda*", "cuda-version=12.1"), ("2.2", "12.1")),
        (("pytorch=2.13.0=cuda129*", "python=3.8"), ("2.13.0", "3.8")),
    ],
)
def test_what_was_never_built_is_an_error_with_the_numbers(
    dependencies: tuple[str, ...], numbers: tuple[str, ...]
) -> None:
    (finding,) = judged(spec(*dependencies))
    assert (finding.code, finding.severity) == ("CU110", "error")
    assert all(number in finding.message for number in numbers)


@collect(
    "dependencies",
    [
        ("pytorch=2.14=cuda130*",),
        ("pytorch>=2.14", "cuda-version=13.0"),
        ("pytorch=3.0.0=cuda140*",),
        ("pytorch=2.13.0=cuda130*", "cuda-version=13.3"),
        ("pytorch=2.13.0=cuda*", "cuda-version=14.0"),
        ("pytorch=2.13.0=cuda129*", "python=3.15"),
        ("pytorch=2.13.0=cuda129*", "python>=3.15"),
    ],
)
def test_what_is_newer_than_the_tables_is_a_warning(dependencies: tuple[str, ...]) -> None:
    (finding,) = judged(spec(*dependencies))
    assert (finding.code, finding.severity) == ("CU111", "warning")
    assert "tables" in finding.message


@collect(
    ("dependencies", "begin"),
    [
        (("pytorch=1.12.1", "cudatoolkit=11.3"), "cover pytorch 1.13.0"),
        (("pytorch=1.10=*cuda10.2*", "cudatoolkit=10.2"), "cover pytorch 1.13.0"),
        (("pytorch", "cudatoolkit=11.3"), "begin at pytorch 1.13.0 and CUDA 11.6"),
        (("pytorch<2=*cuda*", "python=3.6"), "begin at pytorch 1.13.0 and python 3.7"),
    ],
)
def test_what_is_older_than_the_tables_is_a_warning(dependencies: tuple[str, ...], begin: str) -> None:
    """These environments of the pytorch channel can be had: its records before 1.13 are in no table."""
    environment = spec(*dependencies, channels=("pytorch", "conda-forge"))
    (finding,) = judged(environment)
    assert (finding.code, finding.severity, finding.fix) == ("CU111", "warning", None)
    assert f"the tables {begin}" in finding.message
    (finding,) = judged(spec("pytorch=1.10.2=cuda112*", "cudatoolkit=11.2"))  # of it they know the CPU build alone
    assert finding.code == "CU111"


@collect(
    "dependencies",
    [
        ("pytorch=2.0.1", "pytorch-cuda=12.1"),
        ("pytorch=1.13.1=*cuda*", "cudatoolkit=11.3"),
        ("pytorch=2.9.1=*cuda12.9*", "pytorch-cuda=12.9"),
        ("pytorch=2.5.1=*cuda*", "python=3.6"),
    ],
)
def test_what_the_pytorch_channel_never_had_is_an_error(dependencies: tuple[str, ...]) -> None:
    (finding,) = judged(spec(*dependencies, channels=("pytorch", "conda-forge")))
    assert (finding.code, finding.severity) == ("CU110", "error")


THEIRS = {
    "gpu metapackage": (("conda-forge",), ("pytorch-gpu", "python=3.12")),
    "gpu metapackage of a release": (("conda-forge",), ("pytorch-gpu=2.9.1", "python=3.12")),
    "plain torch": (("conda-forge",), ("pytorch", "python")),
    "cpu": (("conda-forge",), ("pytorch=2.5.1=cpu*", "python=3.11")),
    "cpuonly": (("pytorch",), ("pytorch==2.3.1", "cpuonly")),
    "no torch": (("conda-forge",), ("numpy", "python=3.12")),
    "no torch, but cuda": (("conda-forge",), ("cupy", "cuda-version=12.9")),
    "guard": (("conda-forge",), ("pytorch=2.9.1=cuda129*", "python=3.12")),
    "any cuda 12": (("conda-forge",), ("pytorch=*=cuda*", "cuda-version=12.*")),
    "range": (("conda-forge",), ("pytorch>=2.3,<2.10", "cuda-version>=12.4,<13", "python>=3.10")),
    "python patch": (("conda-forge",), ("pytorch=2.9.1=cuda129*", "python=3.12.4")),
    "python exact": (("conda-forge",), ("pytorch=2.9.1=cuda129*", "python==3.12.4")),
    "python range of patches": (("conda-forge",), ("pytorch=2.9.1=cuda129*", "python>=3.12.4,<3.13")),
    "python above": (("conda-forge",), ("pytorch=2.9.1=cuda129*", "python>3.12,<3.13")),
    "alternatives": (("conda-forge",), ("pytorch=2.9.1=cuda129*", "python=3.11|3.12")),
    "rapids": (("rapidsai", "conda-forge", "nvidia"), ("rapids=24.10", "python=3.12", "cuda-version>=12.0,<=12.5")),
    "defaults": (("defaults",), ("pytorch=2.2=gpu_cuda118*", "python=3.11")),
    "defaults first": (("defaults", "conda-forge"), ("pytorch=2.2=gpu_cuda118*", "python=3.11")),
    "conda-forge first": (("conda-forge", "defaults"), ("pytorch=2.9.1=cuda129*", "python=3.11")),
    "company channel": (("https://conda.corp.example/ml",), ("pytorch=2.2.0=cuda121*", "cuda-version=12.1")),
    "company build": (("conda-forge", "corp"), ("corp::pytorch=2.2.0=cuda121*", "python=3.11")),
    "label": (
        ("pytorch", LABEL, "conda-forge"),
        ("pytorch::pytorch=2.3.1=*cuda11.8*", "pytorch-cuda=11.8", f"{LABEL}::cuda-toolkit=11.8.0", "python=3.10"),
    ),
    "cudatoolkit": (("conda-forge",), ("pytorch=2.4.0=cuda118*", "cudatoolkit=11.8")),
    "no channels": ((), ("pytorch=2.9.1=cuda129*",)),
}


@collect("name", THEIRS)
def test_a_valid_file_of_a_stranger_is_not_refused(name: str) -> None:
    channels, dependencies = THEIRS[name]
    assert refused(spec(*dependencies, channels=channels)) == []


@collect(
    ("dependencies", "host", "code", "numbers"),
    [
        (("pytorch=2.9.1=cuda129*",), "a800-470", "CU401", ("470.129.06", "525.60.13")),
        (("pytorch=2.13.0=cuda130*",), "rtx4090-535", "CU401", ("535.129.03", "580.65.06")),
        (("pytorch=2.9.1=cuda129*",), "rtx5090-560", "CU402", ("560.35.03", "570")),
        (("pytorch=2.13.0=cuda130*",), "gtx1080ti-580", "CU403", ("6.1",)),
        (("pytorch=2.9.1=cuda129*",), "no-gpu", "CU409", ()),
    ],
)
def test_a_file_that_cannot_run_on_the_host_is_refused(
    dependencies: tuple[str, ...], host: str, code: str, numbers: tuple[str, ...]
) -> None:
    findings = judged(spec(*dependencies), shipped(host))
    finding = next(item for item in findings if item.code == code)
    assert finding.severity == "error"
    assert all(number in finding.message for number in numbers)


def test_a_driver_that_opens_it_is_the_fix() -> None:
    (finding,) = judged(spec("pytorch=2.9.1=cuda129*"), shipped("a800-470"))
    assert finding.fix
    assert "525.60.13" in finding.fix


def test_a_file_without_a_build_is_judged_by_what_it_may_mean() -> None:
    assert wants_cuda(spec("pytorch=2.5.1", "cuda-version"), base())
    assert judged(spec("pytorch=2.5.1", "cuda-version=11.8"), shipped("a800-470")) == []
    assert judged(spec("pytorch>=2.3", "cuda-version"), shipped("a800-470")) == []
    assert [item.code for item in judged(spec("pytorch>=2.6", "cuda-version"), shipped("a800-470"))] == ["CU401"]


# what a file wishes


@collect(
    ("environment", "expected"),
    [
        (
            spec("pytorch=2.7.1=cuda126*", "python=3.11"),
            {"stack": "conda-forge", "pytorch": "2.7.1", "cuda": ">=12.6,<13", "python": "3.11", "dev": False},
        ),
        (
            spec("pytorch=2.3.1=*cuda11.8*", "pytorch-cuda=11.8", "cuda-toolkit", channels=("pytorch", "conda-forge")),
            {"stack": "pytorch", "pytorch": "2.3.1", "cuda": "11.8", "python": None, "dev": True},
        ),
        (
            spec("pytorch", "cuda-version>=12.4,<13", "cuda-nvcc"),
            {"stack": "conda-forge", "pytorch": None, "cuda": ">=12.4,<13", "python": None, "dev": True},
        ),
    ],
)
def test_the_wishes_of_a_file(environment: EnvironmentSpec, expected: dict[str, object]) -> None:
    request = request_of(environment, base())
    for name, value in expected.items():
        have = getattr(request, name)
        assert (str(have) if have is not None and not isinstance(have, bool) else have) == value
    assert isinstance(request, Request)


@collect(
    ("dependencies", "expected"),
    [
        (("pytorch=*=cuda*",), True),
        (("cudnn",), True),
        (("pytorch-gpu",), True),
        (("pytorch-cuda=11.8",), True),
        (("pytorch", "libcurl", "custodian"), False),
        (("pytorch=*=cpu*",), False),
    ],
)
def test_whether_a_file_names_cuda(dependencies: tuple[str, ...], expected: bool) -> None:
    assert wants_cuda(spec(*dependencies), base()) is expected


names = st.sampled_from(
    [
        "pytorch",
        "torchvision",
        "cuda-version",
        "cudnn",
        "nccl",
        "pytorch-cuda",
        "cudatoolkit",
        "python",
        "numpy",
        "cpuonly",
    ]
)
numbers = st.sampled_from(["", "=2.5", "=12.1", ">=11", "=3.12.4", "==2.9.1", "<3,>=2", "=2.9.1=cuda129*", "=*=cpu*"])
places = st.lists(st.sampled_from(["conda-forge", "pytorch", "nvidia", LABEL, "defaults"]), max_size=3, unique=True)


@examples(60)
@given(st.lists(st.tuples(names, numbers), max_size=4), places, st.sampled_from(HOSTS))
def test_any_file_is_judged_without_accident(parts: list[tuple[str, str]], channels: list[str], host: str) -> None:
    environment = spec(*(name + number for name, number in parts), channels=channels)
    for finding in [*spec_findings(environment, base()), *judge_spec(environment, shipped(host), base())]:
        assert finding.message.isprintable()
        assert "None" not in finding.message
        assert finding.code.startswith("CU")
        if finding.severity == "error" and finding.code in ("CU101", "CU103", "CU110"):
            assert finding.fix or finding.subject in ("roles", "gpu")
