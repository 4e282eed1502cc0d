"""What an environment file says itself, judged before anything is solved: files of strangers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from cases import collect
from cuenv.core.findings import Finding
from cuenv.core.record import replace
from cuenv.lockfile.file_check import judge_file, judge_spec, request_of
from cuenv.lockfile.host_check import host_findings
from cuenv.lockfile.repair.intent import intent_of
from cuenv.resolver.asked_cuda import named_cuda, torch_channel
from cuenv.resolver.policy import spec_findings
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.environment_yml import parse
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


@collect(
    ("channels", "told"),
    [
        (("pytorch", "nvidia", "conda-forge", "fvcore"), True),  # no channel of others has it
        (("pytorch", "pytorch-nightly", "nvidia"), False),
        (("fvcore", "conda-forge"), False),  # nothing is known of what stands nowhere
    ],
)
def test_a_channel_of_others_does_not_excuse_a_pin_that_pytorch_alone_has(
    channels: tuple[str, ...], *, told: bool
) -> None:
    found = spec_findings(spec("pytorch=1.13.0", "pytorch-cuda=11.3", channels=channels), shipped_base())
    assert ("CU110" in {item.code for item in found}) is told


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


def test_a_toolkit_beside_pytorch_cuda_is_told_what_that_has_not() -> None:
    def said(name: str, *more: str) -> str:
        return next(item.message for item in findings(*more) if (item.code, item.subject) == ("CU110", name))

    assert "neither nvcc nor headers" in said("cudatoolkit-dev", "pytorch-cuda=11.8", "cudatoolkit-dev=12.1")
    assert "neither nvcc nor headers" not in said("pytorch-cuda", "pytorch-cuda=11.5")
    assert "neither nvcc nor headers" not in said("cudatoolkit-dev", "cudatoolkit-dev=12.1")


def test_a_channel_without_cuda_in_front_changes_nothing_of_what_the_others_hold() -> None:
    def codes(*channels: str) -> list[str]:
        return [item.code for item in findings("cuda-nvcc=12.6", channels=channels)]

    assert codes("bioconda", "conda-forge", "nvidia") == codes("conda-forge", "nvidia") != []
    assert codes("nvidia", "bioconda", "conda-forge") == codes("nvidia", "conda-forge")


MKL, NUMPY = "mkl<2024.1", "numpy<2"


@collect(
    ("dependencies", "found"),
    [
        (("pytorch=2.0.1", "python=3.10"), {MKL: "warning"}),
        (("pytorch=2.0.1", "mkl=2024.2"), {f"{MKL} instead of mkl=2024.2": "error"}),
        (("pytorch=2.0.1", "mkl=2024.0"), {}),
        (("pytorch=2.0.1", "mkl=2024"), {MKL: "warning"}),
        (("pytorch<2", "mkl<2024"), {}),
        (("pytorch=2.3.1",), {MKL: "warning"}),
        (("pytorch=2.4.1",), {}),
        (("pytorch>=2.0",), {}),  # the solver may take 2.5.1
        (("pytorch",), {}),
        (("pytorch=1.13.*|2.0.1",), {}),  # alternatives are not read
        (("pytorch=2.2.2", "mkl=2023.1", "numpy"), {NUMPY: "warning"}),
        (("pytorch=2.2.2", "mkl=2023.1", "numpy=2.1"), {f"{NUMPY} instead of numpy=2.1": "error"}),
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
    fixes = ((item.fix or "").removeprefix("add to dependencies: ").removeprefix("use ") for item in said)
    assert {fix: item.severity for fix, item in zip(fixes, said, strict=True)} == found


def test_the_cuda_build_of_a_channel_that_comes_later_is_asked_for_with_that_channel() -> None:
    said = findings("pytorch", "pytorch-cuda=12.1", "torchvision", channels=("conda-forge", "pytorch", "nvidia"))
    fixes = [item.fix for item in said if item.code == "CU104"]
    assert fixes == ["write pytorch::pytorch=*=*_cuda*", "write pytorch::torchvision=*=*_cu*"]


@collect(
    ("channels", "channel"),
    [
        (("defaults", "pytorch"), "defaults"),  # has builds of torch that the tables do not list
        (("bioconda", "pytorch", "conda-forge"), "pytorch"),  # is not known to have one
        (("nvidia", "mine"), "mine"),
    ],
)
def test_every_rule_asks_the_same_for_the_channel_of_torch(channels: tuple[str, ...], channel: str) -> None:
    assert torch_channel(spec("pytorch=2.0.1", channels=channels)) == channel
    said = {item.code for item in findings("pytorch=2.0.1", channels=channels)}
    assert ("CU116" in said) == (channel == "pytorch"), "only the builds of the channel pytorch are known to fail"
    assert ("CU104" in said) == (channels != ("nvidia", "mine"))


@collect(
    ("pip", "found"),
    [
        (("torch==2.0.1", "numpy"), {NUMPY: "warning"}),
        (("torch==2.0.1+cu118", "numpy==2.1.0"), {NUMPY: "error"}),
        (("torch==2.0.1", "numpy<2"), {}),
        (("torch>=2.0", "numpy"), {}),
        (("torch==2.4.1", "numpy"), {}),
        (("torch==1.8.1", "numpy"), {NUMPY: "warning"}),
        (("torch==1.6.0", "numpy"), {}),  # its last Python is 3.8, and no NumPy 2 has it
        (("torch==1.1.0", "numpy"), {}),  # as above, and older than the tables
        (("torch<0.5", "numpy"), {}),  # no release is known
    ],
)
def test_a_torch_of_pip_is_compiled_for_one_numpy_as_well(pip: tuple[str, ...], found: dict[str, str]) -> None:
    asked = spec("pip", pip=pip)
    said = [item for item in spec_findings(asked, shipped_base()) if item.code == "CU116"]
    assert {(item.fix or "").removeprefix("add to the pip part: "): item.severity for item in said} == found


@collect(
    ("torch", "beside", "subject"),
    [
        (("2.0.1", "py3.10_cuda11.8_cudnn8.7.0_0", "pytorch"), ("mkl", "2024.2.2"), "mkl"),
        (("2.0.1", "py3.10_cuda11.8_cudnn8.7.0_0", "pytorch"), ("mkl", "2024.0.0"), ""),
        (("2.0.1", "py3.10_cuda11.8_cudnn8.7.0_0", "pytorch"), ("numpy", "2.2.6"), "numpy"),
        (("2.0.0", "cuda112py310h_1", "conda-forge"), ("mkl", "2024.2.2"), ""),
        (("of_yesterday", "py3.10_cuda11.8_cudnn8.7.0_0", "pytorch"), ("mkl", "2024.2.2"), ""),
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


@collect(
    ("dependencies", "found"),
    [
        (("pytorch=2.2.0", "pytorch-cuda=12.1", "cuda-nvcc=11.7.99"), {"CU102": "write cuda-nvcc=12.1"}),
        (
            ("pytorch=2.2.0", "pytorch-cuda=12.1", "nvidia/label/cuda-11.8.0::cuda-toolkit"),
            {"CU102": "write cuda-toolkit=12.1"},
        ),
        (
            ("pytorch=2.2.0", "pytorch-cuda=12.1", "cudatoolkit-dev=11.7.0"),  # of which there is none for CUDA 12
            {"CU102": "use cuda-nvcc=12.1 instead of cudatoolkit-dev"},
        ),
        (("pytorch=2.2.0", "pytorch-cuda=12.1", "cuda-nvcc=12.4"), {}),  # PyTorch refuses another major only
        (
            ("pytorch=1.13.1", "pytorch-cuda=11.6", "cudatoolkit=10.2.89"),
            {"CU102": "remove cudatoolkit=10.2.89 from the dependencies"},
        ),
        (("pytorch=1.12.1", "cudatoolkit=11.3"), {}),
        (
            ("pytorch=2.1.0", "pytorch-cuda=11.8", "conda-forge::cudatoolkit=11.8"),
            {"CU102": "remove conda-forge::cudatoolkit=11.8 from the dependencies"},
        ),
        (("pytorch=2.2.0", "pytorch-cuda=12.1", "cudnn=8.9.2.26=cuda11_0"), {"CU102": "write cudnn=8.9.2.26"}),
        (("pytorch=2.2.0", "pytorch-cuda=12.1", "cudnn=8.9.2.26=cuda12_0"), {}),
        (("pytorch=2.2.0", "pytorch-cuda=12.1", "cudnn=8.9.2.26"), {}),
        (("conda-forge::pytorch=2.0.0=cuda112*", "conda-forge::cudatoolkit=11.8"), {}),
        (("nvidia::cuda-nvcc=11.6", "gcc=12.2.0"), {"CU117": "write gcc=11.*"}),
        (("nvidia::cuda-nvcc=11.6", "gxx_linux-64"), {"CU117": "write gxx_linux-64=11.*"}),
        (("nvidia::cuda-nvcc=11.6", "gxx_linux-64>=9,<12"), {}),
        (("nvidia::cuda-nvcc=11.6", "gxx_linux-64=11.4"), {}),
        (("conda-forge::cuda-nvcc=12.4", "conda-forge::gxx"), {}),  # its records bind GCC
        (("gcc=12.2.0",), {}),
    ],
)
def test_compilers_of_a_file_are_compared_with_torch_and_with_each_other(
    dependencies: tuple[str, ...], found: dict[str, str]
) -> None:
    said = [item for item in findings(*dependencies) if item.code in ("CU102", "CU117")]
    assert {item.code: item.fix for item in said} == found


def test_a_gcc_that_nvcc_refuses_is_an_error_and_one_that_may_be_too_new_a_warning() -> None:
    (never,) = (item for item in findings("nvidia::cuda-nvcc=11.6", "gcc=12.2.0") if item.code == "CU117")
    (perhaps,) = (item for item in findings("nvidia::cuda-nvcc=11.6", "gcc") if item.code == "CU117")
    assert (never.severity, perhaps.severity) == ("error", "warning")
    assert "gcc=12.2.0 does not work with nvcc" in never.message
    assert "gcc allows a newer GCC than nvcc" in perhaps.message


def test_a_toolkit_in_the_file_is_compared_with_the_torch_of_pip() -> None:
    asked = spec("nvidia/label/cuda-11.8.0::cuda-toolkit", pip=("torch==2.4.1",))
    said = [item for item in spec_findings(asked, shipped_base()) if item.code == "CU102"]
    assert [item.fix for item in said] == ["write cuda-toolkit=12.1"]
    with_index = spec(
        "nvidia/label/cuda-11.8.0::cuda-toolkit",
        pip=("--index-url https://download.pytorch.org/whl/cu118", "torch==2.4.1"),
    )
    assert not [item for item in spec_findings(with_index, shipped_base()) if item.code == "CU102"]


@collect(
    ("dependencies", "pip", "fix"),
    [
        (("cuda-nvcc",), "torch==2.4.1", "write cuda-nvcc=12.1"),
        (("cuda-nvcc", "cuda-version=12.1"), "torch==2.4.1", None),  # conda-forge's nvcc follows it
        (("nvidia/label/cuda-12.1.1::cuda-nvcc",), "torch==2.4.1", None),
        (("cuda-nvcc<13",), "torch==2.4.1", None),
        (("cuda-nvcc",), "torch", None),  # of which CUDA it is, nobody says
        (("cuda-nvcc", "pytorch=2.4.1"), "numpy", None),
    ],
)
def test_an_nvcc_of_any_release_beside_a_torch_of_pip_is_a_warning(
    dependencies: tuple[str, ...], pip: str, fix: str | None
) -> None:
    said = [item for item in spec_findings(spec(*dependencies, pip=(pip,)), shipped_base()) if item.code == "CU102"]
    assert [(item.severity, item.fix) for item in said] == ([("warning", fix)] if fix else [])


@collect(
    ("nvcc", "gcc", "refused"),
    [
        ("11.8.89", "16.1.0", True),
        ("11.8.89", "11.4.0", False),
        ("12.4.131", "13.3.0", False),
        ("11.8.89", "4.8.5", True),
    ],
)
def test_a_lock_with_a_gcc_that_nvcc_refuses_has_an_error(nvcc: str, gcc: str, refused: bool) -> None:
    locked = solution(package("cuda-nvcc", nvcc, channel="nvidia"), package("gxx_linux-64", gcc))
    said = host_findings(locked, options("8.6", driver="535.129.03"), shipped_base())
    assert [item.severity for item in said if item.code == "CU117"] == (["error"] if refused else [])


def test_the_nvcc_that_cannot_compile_is_the_one_that_the_file_pins() -> None:
    asked = spec("pytorch=2.2.0", "pytorch-cuda=12.1", "cuda-nvcc=11.7.99", channels=CHANNELS)
    said = judge_spec(asked, options("12.0", driver="575.57.08"), shipped_base())
    assert [item.message for item in said if item.code == "CU404"] == [
        "nvcc 11.7 cannot compile for compute capability 12.0"
    ]


def test_a_gxx_that_is_missing_is_named_with_the_range_of_nvcc() -> None:
    toolkit = "nvidia/label/cuda-11.8.0::cuda-toolkit"
    asked = spec(toolkit, "pytorch=2.3.1", "pytorch-cuda=11.8", channels=CHANNELS, pip=("deepspeed==0.14.4",))
    said = next(item for item in spec_findings(asked, shipped_base()) if item.code == "CU504")
    assert "gxx_linux-64=11.*" in (said.fix or "")


@collect(
    ("cuda", "cudnn", "gpu", "severity"),
    [
        ("11.3", "8.2.1.32", "12.0", "error"),
        ("11.8", "9.3.0.75", "12.0", "error"),  # forward compatibility is for CUDA 12 alone
        ("12.1", "8.9.7.29", "12.0", "error"),
        ("12.4", "9.1.1.17", "12.0", "warning"),
        ("10.2", "7.6.5.32", "8.0", "error"),
        ("11.3", "8.2.1.32", "9.0", "error"),
        ("11.3", "8.2.1.32", "8.6", ""),
    ],
)
def test_cudnn_runs_on_later_gpus_only_where_it_is_forward_compatible(
    cuda: str, cudnn: str, gpu: str, severity: str
) -> None:
    toolkit = package("cudatoolkit" if cuda < "12" else "cuda-version", cuda)
    said = host_findings(solution(toolkit, package("cudnn", cudnn)), options(gpu, driver="575.57.08"), shipped_base())
    assert [item.severity for item in said if item.code == "CU405"] == ([severity] if severity else [])


@collect(
    ("text", "severity"),
    [
        ("dependencies: [python=3.9.17=h1aa4202_0, vs2015_runtime=14.2=h1, m2w64-gmp=6.1.0=2]\n", "error"),
        ("dependencies: [python=3.9=h1_0]\nprefix: C:\\Users\\me\\envs\\x\n", "warning"),
        ("dependencies: [python=3.9]\nprefix: C:\\Users\\me\\envs\\x\n", ""),
        ("dependencies: [python=3.9=h1_0]\nprefix: /Users/me/miniconda3/envs/x\n", "warning"),
        ("dependencies: [python=3.9, clang_osx-64]\n", "error"),
        ("dependencies: [python=3.9]\nprefix: /home/me/envs/x\n", ""),
        ("dependencies: [python=3.9, libcxx, vcrpy]\n", ""),
        ("platforms: [linux-64, win-64]\ndependencies: [python=3.9, pywin32]\n", ""),
        ("dependencies:\n- python=3.9\n- pywin32  # [win]\n", ""),
    ],
)
def test_a_file_that_another_system_exported_is_named_as_such(text: str, severity: str) -> None:
    read, _ = parse(f"channels: [conda-forge]\n{text}", "environment.yml")
    said = [item for item in spec_findings(read, shipped_base()) if item.code == "CU106"]
    assert [item.severity for item in said] == ([severity] if severity else [])
    assert all("the file is for " in item.message for item in said)


@collect(
    ("entry", "found"),
    [
        ("_pytorch_select=0.1=cpu_0", True),
        ("_pytorch_select=0.2=gpu_0", False),
        ("pytorch-mutex=1.0=cpu", True),
        ("pytorch-mutex=1.0=cuda", False),
        ("torchvision=0.4.2=cpu_py37h9ec355b_0", True),
        ("torchvision=0.4.2=cuda102py37_0", False),
    ],
)
def test_what_forces_a_cpu_build_beside_cuda_is_an_error_in_any_channel(entry: str, found: bool) -> None:
    said = findings("cudatoolkit=10.2", entry, channels=("defaults",))
    assert [item.severity for item in said if item.code == "CU103"] == (["error"] if found else [])


@collect(
    ("channels", "glob"),
    [
        (("pytorch", "conda-forge"), "*_cu*"),
        (("conda-forge", "pytorch"), "cuda*"),
        (("dglteam", "pytorch", "nvidia", "conda-forge"), "*_cu*"),
    ],
)
def test_the_build_strings_of_a_file_are_of_the_channel_that_torch_comes_from(
    channels: tuple[str, ...], glob: str
) -> None:
    said = findings("pytorch=1.10", "torchvision", "torchaudio", "cudatoolkit=11.3", channels=channels)
    guards = {
        (item.fix or "").rpartition("=")[2] for item in said if item.code == "CU104" and item.subject != "pytorch"
    }
    assert guards == {glob}


@collect(
    ("dependencies", "gpu", "driver", "codes"),
    [
        (("tensorflow", "cuda-version=12.4"), "8.0", "470.129.06", {"CU401"}),
        (("tensorflow", "cuda-version>=12.6"), "8.0", "470.129.06", {"CU401"}),
        (("tensorflow", "cuda-version=12"), "8.0", "470.129.06", {"CU401"}),
        (("tensorflow", "cuda-version=12.4"), "8.0", "535.129.03", set()),
        (("jaxlib", "cuda-nvcc=12.4", "cuda-version=12.4"), "12.0", "575.57.08", {"CU404"}),
        (("tensorflow-gpu=2.3", "cudatoolkit=10.1", "cudnn=7.6"), "8.0", "535.129.03", {"CU405"}),
        (("pytorch=1.13", "cpuonly"), "8.0", "535.129.03", {"CU103"}),
    ],
)
def test_what_cannot_run_is_said_before_the_solve_without_a_torch_as_well(
    dependencies: tuple[str, ...], gpu: str, driver: str, codes: set[str]
) -> None:
    said = judge_file(spec(*dependencies), options(gpu, driver=driver), shipped_base())
    assert {item.code for item in said} == codes


@collect(
    ("name", "cuda", "gpu", "severity"),
    [
        ("tensorflow", "11.8", "12.0", "warning"),
        ("tensorflow", "12.9", "12.0", "info"),
        ("numpy", "12.9", "12.0", ""),
    ],
)
def test_a_program_of_which_no_row_says_what_it_supports_is_unknown(
    name: str, cuda: str, gpu: str, severity: str
) -> None:
    toolkit = package("cuda-version", cuda)
    program = package(name, "2.0", "0", depends=("cuda-version >=11",) if name != "numpy" else ())
    said = host_findings(solution(toolkit, program), options(gpu, driver="575.57.08"), shipped_base())
    assert [item.severity for item in said if item.code == "CU403"] == ([severity] if severity else [])
    assert all(item.unknown for item in said if item.code == "CU403")


def test_nothing_is_said_of_a_platform_that_the_tables_do_not_cover() -> None:
    asked = spec("conda-forge::pytorch=2.0.1", "cuda-version=11.8", platforms=("linux-ppc64le",))
    host = replace(options("7.0", driver="535.129.03"), platform="linux-ppc64le")
    assert judge_file(asked, host, shipped_base()) == ()


def test_of_several_builds_that_do_not_run_the_newest_says_why() -> None:
    asked = spec("pytorch>=2.0", "pytorch-cuda", channels=("pytorch", "nvidia"))
    (code, *_) = judge_spec(asked, options("12.0", driver="575.57.08"), shipped_base())
    assert "cuDNN" not in code.message, code.message
    assert code.message.startswith("pytorch 2.5.1 for CUDA 12.4 has code for 5.0"), code.message


def test_a_metapackage_of_the_channel_nvidia_is_free_where_a_part_is() -> None:
    """An export pins every part, so that nothing of it floats."""
    parts = shipped_base().parts_of("cuda-runtime")
    assert {"cuda-cudart", "libcublas"} < set(parts)
    pinned = ("pytorch=2.0.1", "cuda-runtime=11.8.0", *(f"{name}=1.0" for name in parts))
    channels = ("pytorch", "nvidia")
    assert not [item for item in findings(*pinned, channels=channels) if item.code == "CU101"]
    (said,) = [item for item in findings(*pinned[:-1], channels=channels) if item.code == "CU101"]
    assert said.message.startswith("cuda-runtime=11.8.0 sets no upper bound on the parts")


def test_a_file_that_names_no_cuda_is_judged_on_a_host_with_gpus() -> None:
    """It admits the CPU build as well, which would be refused after the solve; one for a CPU by its name is left."""
    asked = spec("pytorch=2.0.0", channels=("pytorch", "conda-forge"))
    host = options("12.0", driver="575.57.08")
    (finding,) = judge_spec(asked, host, shipped_base())
    assert (finding.code, finding.message[:31]) == ("CU405", "pytorch 2.0.0 for CUDA 11.8: cu")
    assert judge_spec(replace(asked, of_cpu=True), host, shipped_base()) == ()
    (old,) = judge_spec(spec("pytorch=1.0", channels=("pytorch",)), host, shipped_base())
    assert (old.code, old.unknown) == ("CU111", True)
    (told,) = judge_file(replace(asked, of_cpu=True), host, shipped_base())
    assert told.code == "CU103"
    assert judge_file(replace(spec("numpy"), of_cpu=True), host, shipped_base()) == ()


def test_a_torch_of_an_unknown_channel_is_judged_by_its_cuda() -> None:
    asked = spec("pytorch=1.10", "cudatoolkit=11.3", channels=("mine",))
    found = judge_file(asked, options("12.0", driver="575.57.08"), shipped_base())
    assert [(item.code, item.severity) for item in found] == [("CU405", "error")]  # as of every cuDNN for CUDA 11
    newer = replace(asked, pins=spec("pytorch=2.1", "cuda-version=12.1").pins)
    found = judge_file(newer, options("12.0", driver="575.57.08"), shipped_base())
    assert [(item.code, item.severity, item.unknown) for item in found] == [("CU405", "warning", True)]
    assert judge_file(asked, options("8.0", driver="450.80.02"), shipped_base()) == ()


def test_a_library_without_a_wheel_for_this_torch_is_compiled_where_its_setup_can() -> None:
    asked = spec("python=3.11", pip=("torch==2.6.0", "flash-attn==2.6.3"))
    (found,) = [item for item in spec_findings(asked, shipped_base()) if item.code == "CU505"]
    assert found.severity == "warning"
    assert "has wheels only for torch >=2.0,<2.5, but torch==2.6.0 is requested, so pip compiles it" in found.message
    for torch, library in (("torch==2.8.0", "flash-attn==2.7.4.post1"), ("torch==2.10.0", "flash-attn>=2.8.3")):
        asked = spec("python=3.11", pip=(torch, library))
        (found,) = [item for item in spec_findings(asked, shipped_base()) if item.code == "CU505"]
        assert (found.severity, found.message.endswith(f"{torch} is requested, so pip compiles it")) == (
            "warning",
            True,
        )
    asked = spec("python=3.11", pip=("torch==2.3.0", "flash-attn==2.5.8"))
    assert not [item for item in spec_findings(asked, shipped_base()) if item.code == "CU505"]


def test_cpu_builds_of_a_library_are_one_finding_and_none_where_no_cuda_is_named() -> None:
    family = [f"tensorflow{part}=2.11.0=cpu_py310_0" for part in ("", "-base", "-estimator")]
    assert spec_findings(spec(*family), shipped_base()) == ()
    (told,) = spec_findings(spec(*family, "cudnn=8"), shipped_base())
    assert (told.code, told.severity) == ("CU103", "warning")
    assert told.message.startswith(f"{family[0]}, {family[1]} and {family[2]} are CPU builds")
    assert told.fix == "write tensorflow=2.11.0=cuda*, tensorflow-base=2.11.0=cuda*, tensorflow-estimator=2.11.0=cuda*"
    (of_others,) = spec_findings(spec(family[0], "cudnn=8", channels=("lab",)), shipped_base())
    assert of_others.fix == "write tensorflow=2.11.0 with a build string for CUDA"


def test_a_program_that_is_no_torch_is_told_the_cuda_that_supports_the_gpu() -> None:
    old = spec("cudatoolkit=10.1", "cudnn=7.6.5", "tensorflow-gpu=2.3", "keras")
    (told,) = judge_file(old, options("8.9", driver="535.129.03"), shipped_base())
    assert (told.code, told.fix) == (
        "CU405",
        "use CUDA 11.8 or later, and the release of tensorflow that is made for it (of its wheels 2.12 or later)",
    )


def test_what_was_never_built_is_told_with_the_builds_that_there_are() -> None:
    never = spec("pytorch=2.2.0", "cudatoolkit=11.7", channels=("pytorch", "nvidia"))
    (told,) = judge_spec(never, options("8.9", driver="535.129.03"), shipped_base())
    assert told.code == "CU110"
    assert told.message.endswith("; pytorch 2.2.0 has builds for CUDA 11.8, 12.1 and Python 3.8, 3.9, 3.10, 3.11, 3.12")


@collect(
    ("toolkit", "channels", "told"),
    [
        ("cudatoolkit=9.0", ("pytorch", "conda-forge"), False),  # conda adds its default channels, which have it
        ("cudatoolkit=11.0.221", ("pytorch", "conda-forge"), False),
        ("cudatoolkit=9.0", ("pytorch", "conda-forge", "nodefaults"), True),
        ("conda-forge::cudatoolkit=9.0", ("pytorch", "conda-forge"), True),
        ("cudatoolkit=11.9", ("pytorch", "conda-forge"), True),
    ],
)
def test_a_toolkit_of_the_default_channels_is_not_called_missing(
    toolkit: str, channels: tuple[str, ...], *, told: bool
) -> None:
    found = spec_findings(spec("python=3.7", toolkit, channels=channels), shipped_base())
    assert ("CU110" in {item.code for item in found}) is told


def test_a_program_in_a_file_without_cuda_is_not_moved_to_a_gpu() -> None:
    (told,) = spec_findings(spec("python=3.11", "tensorflow=2.15"), shipped_base())
    assert (told.code, told.fix, told.edits) == ("CU104", "for GPUs write tensorflow=2.15.*=cuda*", ())
    with_cuda = spec_findings(spec("python=3.11", "tensorflow=2.15", "cuda-version=12.0"), shipped_base())
    assert [str(edit) for item in with_cuda for edit in item.edits] == ["write tensorflow=2.15.*=cuda*"]


def test_a_metapackage_of_pytorch_beside_a_torch_of_conda_forge() -> None:
    asked = ("pytorch=2.0.1", "pytorch-cuda=11.8")
    found = spec_findings(spec(*asked, channels=("conda-forge", "pytorch", "nvidia")), shipped_base())
    (told,) = (item for item in found if item.code == "CU101")
    assert told.message.startswith("conda-forge is listed before pytorch, so pytorch=2.0.1 comes from conda-forge")
    assert told.fix == "write pytorch::pytorch=2.0.1"


def test_a_long_file_is_judged_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of the file is not sought anew for each of the others."""
    sought: list[str] = []
    real = EnvironmentSpec.pin

    def pin(self: EnvironmentSpec, name: str) -> Pin | None:
        sought.append(name)
        return real(self, name)

    monkeypatch.setattr(EnvironmentSpec, "pin", pin)
    findings("python=3.12", *(f"package{number}=1.0" for number in range(300)))
    assert 0 < len(sought) < 100
