"""A torch that pip brings, in a lock: the same rules judge it, and what mends it is another wheel."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.version import Version

from cases import collect
from cuenv.core.findings import Finding, WheelFix, report
from cuenv.core.render import report_lines
from cuenv.host.facts import HostFacts, Libc
from cuenv.lockfile.file_check import judge_file, names_nothing, request_of, runnable_torch
from cuenv.lockfile.formats import mended_there
from cuenv.lockfile.host_check import candidate_of, host_findings
from cuenv.lockfile.minimum_host import minimum_host
from cuenv.resolver.conflicts import conflict_bounds
from cuenv.resolver.policy import spec_findings
from cuenv.resolver.solution_policy import lock_findings
from cuenv.resolver.torch_findings import pair_findings
from cuenv.solve.model import Lock, LockedPackage, PipLocked, SetAside
from given import base, options, package, shipped_base, solution, spec

INDEX = "https://download.pytorch.org/whl/"
PYTHON = package("python", "3.11.9")


def wheel(name: str, version: str) -> PipLocked:
    file = f"{name.replace('-', '_')}-{version}-cp311-cp311-manylinux_2_17_x86_64.whl"
    return PipLocked(name=name, version=version, url=f"https://files.example/{file}", sha256="0" * 64)


def found(facts: HostFacts, *wheels: PipLocked, platform: str = "linux-64") -> list[Finding]:
    locked = replace(solution(PYTHON, platform=platform), pip=wheels)
    return list(host_findings(locked, facts, base()))


def codes(findings: list[Finding], severity: str) -> set[str]:
    return {item.code for item in findings if item.severity == severity}


@pytest.mark.parametrize(
    ("torch", "gpu", "driver", "code", "fix"),
    [
        ("2.7.1", "8.0", "470.129.06", "CU401", f"torch==2.7.1+cu118 from --extra-index-url {INDEX}cu118"),
        ("2.7.1", "12.0", "575.57.08", "CU403", f"torch==2.7.1+cu128 from --extra-index-url {INDEX}cu128"),
        ("2.4.1", "12.0", "575.57.08", "CU403", f"torch==2.7.0+cu128 from --extra-index-url {INDEX}cu128"),
        ("2.15.0", "8.6", "535.129.03", "CU401", f"torch==2.14.1+cu126 from --extra-index-url {INDEX}cu126"),
        (
            "2.15.0",
            "7.0",
            "580.65.06",
            "CU403",
            f"torch==2.14.1+cu126 (the last wheel for compute capability 7.0) from --extra-index-url {INDEX}cu126",
        ),
    ],
)
def test_a_wheel_that_cannot_run_is_an_error_whose_fix_is_a_wheel_that_runs(
    torch: str, gpu: str, driver: str, code: str, fix: str
) -> None:
    there = [item for item in found(options(gpu, driver=driver), wheel("torch", torch)) if item.code == code]
    assert [item.severity for item in there] == ["error"]
    assert (there[0].fix or "").endswith(fix)


def test_a_wheel_that_runs_has_no_error_and_its_lock_remembers_the_least_host() -> None:
    facts = options("8.0", driver="560.35.05")
    assert codes(found(facts, wheel("torch", "2.7.1")), "error") == set()
    locked = replace(solution(PYTHON), pip=(wheel("torch", "2.7.1"),))
    assert minimum_host([locked], facts, base())["cuenv_minimum_driver"] == "525.60.13"
    torch = candidate_of(locked, base())
    assert torch is not None
    assert torch.python == "3.11"


def test_a_wheel_that_no_row_knows_is_said_to_be_unknown() -> None:
    (unknown,) = found(options("8.0", driver="560.35.05"), wheel("torch", "2.99.0"))
    assert (unknown.code, unknown.severity) == ("CU111", "warning")
    assert "do not list the wheel of torch 2.99.0" in unknown.message
    told = report("lock", [unknown])
    assert (told.verdict(strict=False), told.verdict(strict=True)) == ("unknown", "not fine")
    assert report_lines(told)[-1] == "unknown, 1 warning"


def test_a_layer_of_which_nobody_knows_whether_it_supports_a_gpu_is_not_called_fine() -> None:
    old = solution(PYTHON, package("pytorch", "1.13.1", "cuda112py311_0"), package("cuda-version", "11.2"))
    young = host_findings(old, options("12.0", driver="575.57.08"), base())  # PTX for torch, and nothing about cuDNN
    assert {item.code for item in young if item.unknown} == {"CU405", "CU406"}
    assert report("lock", young).verdict(strict=False) == "unknown"
    good = found(options("8.0", driver="560.35.05"), wheel("torch", "2.7.1"))
    assert report("lock", good).verdict(strict=False) == "fine"


@pytest.mark.parametrize(("torch", "platform"), [("2.5.1+cpu", "linux-64"), ("2.9.1", "linux-aarch64")])
def test_a_cpu_wheel_for_a_host_with_gpus_is_a_warning_with_the_wheel_to_take(torch: str, platform: str) -> None:
    facts = options("9.0", driver="580.65.06", platform=platform)
    (told,) = [item for item in found(facts, wheel("torch", torch), platform=platform) if item.code == "CU103"]
    assert told.severity == "warning"
    assert "+cu1" in (told.fix or "")


def test_libraries_of_another_cuda_major_or_for_another_torch_are_errors() -> None:
    facts = options("8.0", driver="560.35.05")
    torch = wheel("torch", "2.4.1")
    assert codes(found(facts, torch, wheel("torchvision", "0.19.1")), "error") == set()
    mixed = found(facts, torch, wheel("torchvision", "0.19.1+cu118"))
    assert codes(mixed, "error") == {"CU102"}
    (other,) = [item for item in found(facts, torch, wheel("torchvision", "0.22.1")) if item.severity == "error"]
    assert (other.code, other.fix) == ("CU505", "with pip: torchvision==0.19.1")
    assert codes(found(facts, torch, wheel("numpy", "1.26.4"), wheel("accelerate", "0.1")), "error") == set()


def test_wheels_beside_a_torch_of_conda_are_judged_as_beside_one_of_pip() -> None:
    facts = options("8.0", driver="560.35.05")
    conda = solution(PYTHON, package("pytorch", "2.5.1", "cuda126_py311_h1_300"), package("cuda-version", "12.6"))
    (other,) = host_findings(replace(conda, pip=(wheel("torchvision", "0.22.1"),)), facts, base())
    assert (other.code, other.severity, other.fix) == ("CU505", "error", "with pip: torchvision==0.20.1")
    assert not host_findings(replace(conda, pip=(wheel("torchvision", "0.20.1"),)), facts, base())


def test_a_library_of_which_the_tables_have_ranges_is_told_the_range_for_the_torch_that_is_there() -> None:
    facts = options("8.0", driver="560.35.05")
    conda = solution(PYTHON, package("pytorch", "2.5.1", "cuda126_py311_h1_300"), package("cuda-version", "12.6"))
    (other,) = host_findings(replace(conda, pip=(wheel("vllm", "0.9.2"),)), facts, shipped_base())
    assert (other.code, other.fix) == ("CU505", "with pip: vllm>=0.6.4,<0.8")
    old = solution(PYTHON, package("pytorch", "2.3.1", "cuda118_py311_h1_300"), package("cuda-version", "11.8"))
    (none,) = (
        item
        for item in host_findings(replace(old, pip=(wheel("vllm", "0.9.2"),)), facts, shipped_base())
        if item.code == "CU505"
    )
    assert none.fix is None, "all wheels for that torch are for CUDA 12"


@pytest.mark.parametrize(
    ("requires", "verdict"), [("torch>=1.13", "unknown"), ("torch==2.5.1", "fine"), ("torch-geometric", "fine")]
)
def test_compiled_code_for_an_unnamed_torch_is_not_called_fine(requires: str, verdict: str) -> None:
    facts = options("8.0", driver="560.35.05")
    kernels = replace(wheel("some-kernels", "0.1"), depends=("numpy", requires))
    told = report("lock", found(facts, wheel("torch", "2.5.1"), kernels))
    assert told.verdict(strict=False) == verdict
    pure = replace(kernels, url="https://files.example/some_kernels-0.1-py3-none-any.whl")
    assert report("lock", found(facts, wheel("torch", "2.5.1"), pure)).verdict(strict=False) == "fine"


def test_what_is_built_against_torch_is_judged_by_its_release() -> None:
    url = "https://files.example/flash_attn-2.8.3.tar.gz#sha256=" + "0" * 64
    item = SetAside(text=f"flash-attn @ {url}", why="its setup.py imports torch", build=True)
    locked = replace(solution(PYTHON), pip=(wheel("torch", "2.4.0"),), aside=(item,))
    old = host_findings(locked, options("7.0", driver="560.35.05"), base())
    assert (
        "flash-attn==2.8.3 needs compute capability 8.0 or later"
        in next(x for x in old if x.severity == "error").message
    )
    assert codes(list(host_findings(locked, options("8.0", driver="560.35.05"), base())), "error") == set()


@pytest.mark.parametrize(("gpu", "refused"), [("7.0", {"CU405"}), ("8.9", set())])
def test_a_program_of_conda_is_judged_by_its_own_cuda_beside_a_torch_of_pip(gpu: str, refused: set[str]) -> None:
    """The wheel of torch brings a cuDNN for the V100; the one of conda, which TensorFlow calls, has none."""
    conda = (
        package("python", "3.11.9"),
        package("tensorflow", "2.17.0", "cuda120py311h5cbd639_3"),
        package("cuda-version", "12.9"),
        package("libcudnn", "9.13.1.26"),
    )
    made = replace(solution(*conda), pip=(wheel("torch", "2.3.1"),))
    told = host_findings(made, options(gpu, driver="575.57.08"), shipped_base())
    assert codes([*told], "error") == refused
    assert sum("GPU code of tensorflow" in item.message for item in told) == 1


@pytest.mark.parametrize(
    ("gpu", "driver", "fix"),
    [
        ("7.0", "450.80.02", "take tensorflow-gpu==1.13.1, the CUDA build"),
        ("8.9", "535.129.03", "use CUDA 11.8 or later, and the release of tensorflow that is made for it"),
    ],
)
def test_the_cuda_build_is_proposed_where_it_can_run(gpu: str, driver: str, fix: str) -> None:
    asked = spec("python=3.7", pip=("tensorflow==1.13.1",))
    (finding,) = judge_file(asked, options(gpu, driver=driver), shipped_base(), alone=True)
    assert finding.code == "CU103"
    assert str(finding.fix).startswith(fix)


@pytest.mark.parametrize(
    ("torch", "library", "better"),
    [
        ("torch==2.7.0+cu128", "vllm==0.8.3", "vllm>=0.9,<0.10"),
        ("torch==2.5.1", "vllm==0.11.0", "vllm>=0.6.4,<0.8"),
        ("torch==2.6.0", "torchcodec==0.6.0", "torchcodec>=0.2,<0.3"),
    ],
)
def test_a_library_of_which_the_tables_have_ranges_is_moved_to_the_range_for_a_torch(
    torch: str, library: str, better: str
) -> None:
    (finding,) = pair_findings(spec("python=3.11", pip=(torch, library)), shipped_base())
    assert finding.fix == f"use {better}, which is built for this torch"
    assert [edit.entries for edit in finding.edits] == [(better,)]


def test_of_several_releases_of_a_library_the_nearest_is_proposed() -> None:
    """bitsandbytes 0.43.1 has no library for CUDA 12.4; 0.43.3 has one, and 0.50 has another interface."""
    told = found(options("8.9", driver="550.54.14"), wheel("torch", "2.5.1"), wheel("bitsandbytes", "0.43.1"))
    (finding,) = [item for item in told if item.code == "CU505"]
    assert "bitsandbytes>=0.43.3,<0.44" in str(finding.fix)


def test_a_program_with_gpu_code_of_its_own_is_not_vouched_for_by_the_torch_beside_it() -> None:
    facts = options("8.0", driver="560.35.05")
    beside = found(facts, wheel("torch", "2.7.1"), wheel("cupy-cuda12x", "13.4.0"))
    assert [(item.code, item.subject) for item in beside if item.unknown] == [("CU403", "cupy-cuda12x")]
    forge = (package("pytorch", "2.5.1", "cuda126_py311_h1_300"), package("cuda-version", "12.6"))
    cupy = package("cupy", "13.4.0", "py311h1_0", depends=("cuda-version >=12,<13",))
    conda = host_findings(solution(PYTHON, *forge, cupy), facts, base())
    assert [(item.code, item.subject) for item in conda if item.unknown] == [("CU403", "cupy")]
    assert not [item for item in host_findings(solution(PYTHON, *forge), facts, base()) if item.unknown]


def test_cuda_from_wheels_without_a_torch_is_judged_by_its_driver() -> None:
    jax = (wheel("jax", "0.4.30"), wheel("nvidia-cuda-runtime-cu12", "12.6.77"))
    assert codes(found(options("8.0", driver="470.129.06"), *jax), "error") == {"CU401"}
    assert codes(found(options("8.0", driver="560.35.05"), *jax), "error") == set()


@collect(
    ("requirement", "gpu", "driver", "expected"),
    [
        ("torch==2.4.1", "8.0", "470.129.06", {"CU401"}),
        ("torch==2.4.1", "12.0", "575.57.08", {"CU403"}),
        ("torch==2.4.1", "8.9", "535.129.03", set()),
        ("torch>=2.4,<2.7", "12.0", "575.57.08", {"CU403"}),
        ("torch>=2.4", "12.0", "575.57.08", set()),  # a later one has code for it
        ("torch==2.99.0", "8.0", "535.129.03", {"CU111"}),
        ("torch==2.5.1+cpu", "12.0", "575.57.08", {"CU103"}),
        ("numpy", "12.0", "470.129.06", set()),
    ],
)
def test_what_a_file_asks_of_pip_is_judged_before_anything_is_solved(
    requirement: str, gpu: str, driver: str, expected: set[str]
) -> None:
    asked = spec("python=3.11", "pip", pip=(requirement,))
    assert {item.code for item in judge_file(asked, options(gpu, driver=driver), base())} == expected


def test_tensorflow_with_an_old_cuda_for_a_new_gpu_is_not_passed_over() -> None:
    asked = spec("cudatoolkit=10.0", pip=("tensorflow-gpu==1.15",))
    (finding,) = judge_file(asked, options("8.9", driver="535.129.03"), shipped_base())
    assert (finding.code, finding.severity) == ("CU405", "error")
    assert "cuDNN for CUDA 10.0 does not support the newer compute capability 8.9" in finding.message
    newer = spec("cudatoolkit=12.1", "tensorflow")
    (finding,) = judge_file(newer, options("12.0", driver="575.57.08"), shipped_base())
    assert (finding.code, finding.unknown) == ("CU405", True)  # it depends on the release of cuDNN
    assert judge_file(spec("cudatoolkit=10.0", "numpy"), options("8.9", driver="535.129.03"), base()) == ()


def test_a_torch_of_a_channel_that_the_tables_do_not_know_is_not_called_fine() -> None:
    facts = options("12.0", driver="575.57.08")
    for channels in (("defaults",), (), ("https://conda.example/own",)):
        (found,) = judge_file(spec("python=3.10", "pytorch=2.3.0", channels=channels), facts, base(), alone=True)
        assert (found.code, found.severity, found.unknown) == ("CU111", "info", True)
        assert "pytorch=2.3.0 of the channel" in found.message
    of_cpu = judge_file(spec("pytorch=2.3.0=cpu*", channels=("defaults",)), facts, base(), alone=True)
    assert not any(item.unknown for item in of_cpu)


def test_a_library_that_requires_one_torch_is_judged_by_that_torch() -> None:
    young, old = options("12.0", driver="575.57.08"), options("8.0", driver="535.129.03")
    (error,) = judge_file(spec(pip=("torchvision==0.19.1",)), young, base(), alone=True)[:1]
    assert (error.code, error.severity) == ("CU403", "error")
    assert (error.fix or "").startswith("with pip: torch==2.7.0+cu128 torchvision from --extra-index-url")
    assert error.message.startswith("torchvision==0.19.1 requires torch 2.4.1: torch 2.4.1+cu121 has code for")
    assert judge_file(spec(pip=("torchvision==0.19.1",)), old, base(), alone=True) == ()
    (unknown,) = judge_file(spec(pip=("torchvision>=0.19",)), old, base(), alone=True)
    assert (unknown.code, unknown.unknown) == ("CU327", True)
    (built,) = judge_file(spec(pip=("torchvision>=0.19", "torch @ https://x.example/t.whl")), old, base(), alone=True)
    assert (built.code, built.unknown) == ("CU111", True)


def test_another_torch_does_not_mend_the_glibc_that_other_packages_need() -> None:
    old = replace(options("7.0", driver="470.82.01"), libc=Libc(family="glibc", version=Version("2.17")))
    late = "https://files.example/x-1-cp311-cp311-manylinux_2_28_x86_64.whl"
    torch, av = replace(wheel("torch", "2.7.1"), url=late), replace(wheel("av", "14.0.0"), url=late)
    other = "with pip: torch==2.6.0+cu118"
    for wheels, fix in (
        ((torch, av), "take releases of av that have wheels for glibc 2.17, and another torch"),
        ((wheel("torch", "2.6.0"), av), "take releases of av that have wheels for glibc 2.17"),
        ((torch,), f"{other} from --extra-index-url https://download.pytorch.org/whl/cu118"),
    ):
        fixes = {item.code: item.fix or "" for item in found(old, *wheels)}
        assert fixes["CU407"] == fix
        assert other in fixes["CU401"]


def test_another_torch_is_advised_with_what_is_pinned_beside_it() -> None:
    young = options("12.0", driver="575.57.08")
    lines = ("torch==2.4.1", "torchvision==0.19.1", "triton==3.0.0", "nvidia-cudnn-cu12==9.1.0.70")
    (error,) = judge_file(spec(pip=lines), young, base(), alone=True)
    assert error.fix == (
        "with pip: torch==2.7.0+cu128 torchvision triton==3.3.0 from --extra-index-url "
        "https://download.pytorch.org/whl/cu128, without the nvidia-cudnn-cu12 of the file"
    )
    (error,) = judge_file(spec(pip=("vllm==0.6.0",)), options("8.0", driver="470.82.01"), base(), alone=True)
    assert (error.code, error.fix) == ("CU401", None)  # its own CUDA code is for CUDA 12, whatever torch is beside it


def test_an_open_torch_is_the_newest_that_fits_what_is_pinned_and_the_glibc() -> None:
    facts = options("8.0", driver="470.82.01")
    old = replace(facts, libc=Libc(family="glibc", version=Version("2.17")))
    new = replace(facts, libc=Libc(family="glibc", version=Version("2.35")))
    open_ = [judge_file(spec(pip=("torch>=1.13",)), host, base(), alone=True)[0].message for host in (old, new)]
    assert open_[0].startswith("pip takes torch 2.6.0 (cu124) for torch>=1.13 today")  # 2.7 and later need glibc 2.28
    assert open_[1].startswith("pip takes torch 2.15.0 (cu132) for torch>=1.13 today")
    for beside in ("triton==2.0.0", "torchvision==0.15.2", "triton==2.0.0.dev20221202"):
        assert judge_file(spec(pip=("torch>=1.13", beside)), old, base(), alone=True) == ()  # CUDA 11.7
    assert judge_file(spec(pip=("torch>=1.13", "torchvision~=0.15.0")), old, base(), alone=True) == ()
    for beside in ("flash-attn==2.5.8", "torchvision>=0.15"):  # pip compiles the one; the other is open as well
        assert judge_file(spec(pip=("torch>=1.13", beside)), new, base(), alone=True)


def test_where_no_release_runs_the_one_that_pip_takes_is_named() -> None:
    (error, *_) = judge_file(spec(pip=("torch>=1.13,<2.1",)), options("12.0", driver="575.57.08"), base(), alone=True)
    assert error.message.startswith("torch 2.0.1+cu117 has code for")


def test_of_libraries_of_torch_the_one_that_requires_one_release_is_asked() -> None:
    lines = ("accelerate==0.23.0", "torchvision==0.19.1")
    (error,) = judge_file(spec(pip=lines), options("12.0", driver="575.57.08"), base(), alone=True)
    assert error.message.startswith("torchvision==0.19.1 requires torch 2.4.1")
    assert not names_nothing(spec(pip=lines), base())


def test_a_torch_of_an_index_for_other_makers_uses_no_gpu_of_nvidia() -> None:
    for tag in ("xpu", "rocm6.2", "cpu"):
        asked = spec(pip=(f"--extra-index-url https://download.pytorch.org/whl/{tag}", "torch"))
        (finding,) = judge_file(asked, options("8.0", driver="535.129.03"), base(), alone=True)
        assert (finding.code, f"torch of the index {tag}" in finding.message) == ("CU103", True)


def test_a_library_that_runs_on_no_such_gpu_is_an_error_beside_whatever_torch() -> None:
    volta = options("7.0", driver="535.129.03")
    for name in ("flash-attn", "flash_attn"):
        (error,) = judge_file(spec(pip=("torch==2.4.1", f"{name}==2.5.8")), volta, base(), alone=True)
        assert (error.code, error.subject) == ("CU505", "flash-attn")
        assert error.message.startswith(f"{name}==2.5.8 needs compute capability 8.0 or later, but the host has")
        assert 'attn_implementation="sdpa"' in (error.fix or "")
        assert "compute capability 7.0 (V100)" in error.message or error.message.endswith("7.0")
    (error,) = judge_file(spec(pip=("torch==2.4.1", "transformer_engine==2.0")), volta, base(), alone=True)
    assert error.fix == "remove transformer-engine"
    maxwell = options("5.0", driver="535.129.03")
    (error,) = judge_file(spec(pip=("torch==2.4.1", "bitsandbytes==0.50.1")), maxwell, base(), alone=True)
    assert error.fix == "remove bitsandbytes, or take a release that supports the GPU"


def test_a_python_for_which_there_is_no_wheel_is_told_with_those_that_have_one() -> None:
    asked = spec("python=3.13", "pip", pip=("torch==2.4.1",))
    (finding,) = (item for item in spec_findings(asked, base()) if item.code == "CU110")  # of any host
    assert judge_file(asked, options("8.0", driver="535.129.03"), base()) == ()
    assert (finding.code, finding.severity, finding.fix) == ("CU110", "error", "write python=3.12")
    assert "3.8, 3.9, 3.10, 3.11, 3.12" in finding.message


@pytest.mark.parametrize(
    ("torch", "triton", "gpu", "told"),
    [
        ("2.8.0", "3.4.0", "12.1", True),  # ptxas of CUDA 12.8: it ends with 12.0
        ("2.10.0", "3.6.0", "12.1", False),  # a second ptxas, of CUDA 12.9
        ("2.8.0", "3.4.0", "12.0", False),
        ("2.14.1+cu126", "3.8.0", "7.0", False),  # the older of its two still knows Volta
    ],
)
def test_the_ptxas_inside_triton_limits_what_torch_compile_runs_on(
    torch: str, triton: str, gpu: str, told: bool
) -> None:
    locked = replace(solution(PYTHON), pip=(wheel("torch", torch), wheel("triton", triton)))
    findings = host_findings(locked, options(gpu, driver="580.65.06"), shipped_base())
    found = [item for item in findings if item.code == "CU505"]
    assert [item.severity for item in found] == (["warning"] if told else [])
    assert all(
        f"ptxas of CUDA 12.8 that it contains, which does not support compute capability {gpu}" in item.message
        for item in found
    )


@collect(
    ("lines", "code"),
    [
        (("torch==2.4.1+cpu",), "CU103"),
        (("torch==2.4.1+rocm6.1",), "CU103"),
        (("--index-url https://download.pytorch.org/whl/cpu", "torch"), "CU103"),
        (("torch==1.0.1.post2",), "CU111"),
        (("torch==1.7.0+cu92",), "CU111"),
        (("torch>=2.99",), "CU111"),
        (("torch==2.4.1+cu121",), None),
    ],
)
def test_a_torch_of_pip_that_uses_no_gpu_or_that_no_table_has_is_told(lines: tuple[str, ...], code: str | None) -> None:
    asked = spec("python=3.9", "pip", pip=lines)
    found = judge_file(asked, options("8.0", driver="535.129.03"), shipped_base())
    assert [item.code for item in found] == [code] * (code is not None)
    assert all(item.unknown for item in found if item.code == "CU111")


@pytest.mark.parametrize(("torch", "told"), [("1.12.0+cu113", []), ("2.5.1", ["CU505"])])
def test_a_triton_beside_a_torch_that_requires_none_is_no_fault(torch: str, told: list[str]) -> None:
    asked = spec("python=3.10", "pip", pip=(f"torch=={torch}", "triton==3.0.0"))
    assert [item.code for item in pair_findings(asked, shipped_base())] == told
    locked = replace(solution(PYTHON), pip=(wheel("torch", torch), wheel("triton", "3.0.0")))
    found = host_findings(locked, options("8.0", driver="580.65.06"), shipped_base())
    assert [item.code for item in found if item.severity == "error"] == told


def test_the_wheel_to_take_is_for_the_python_of_the_file_where_there_is_one() -> None:
    host = options("8.0", driver="470.129.06")
    (finding,) = judge_file(spec("python=3.8", "pip", pip=("torch==2.4.1",)), host, base())
    assert (finding.fix or "").endswith(f"torch==2.4.1+cu118 from --extra-index-url {INDEX}cu118")
    newer = options("12.0", driver="575.57.08")
    (finding,) = judge_file(spec("python=3.8", "pip", pip=("torch==2.0.1",)), newer, base())
    assert "torch==2.7.0+cu128 with Python 3.9 to 3.13 from" in (finding.fix or "")


@pytest.mark.parametrize("pin", ["cuda-toolkit=12.4", "cuda=12.4", "cuda-version=12.4.*"])
def test_cuda_without_a_torch_is_compared_with_the_driver_before_anything_is_solved(pin: str) -> None:
    asked = spec("python=3.10", pin)
    (finding,) = judge_file(asked, options("8.0", driver="470.129.06"), base())
    assert (finding.code, finding.fix) == ("CU401", "install driver 525.60.13 or later")
    assert judge_file(asked, options("8.0", driver="535.129.03"), base()) == ()


@collect(
    ("requirement", "code"),
    [
        ("jax[cuda12]", "CU401"),
        ("jax[cuda12_pip]==0.4.26", "CU401"),
        ("cupy-cuda12x", "CU401"),
        ("cudf-cu12==24.2.*", "CU401"),
        ("jaxlib==0.4.23+cuda12.cudnn89", "CU401"),
        ("cudf-cu11", ""),
        ("jax", ""),
        ("--extra-index-url https://example.org/a-cu12", ""),
    ],
)
def test_wheels_that_bear_a_cuda_major_are_judged_by_the_driver(requirement: str, code: str) -> None:
    asked = replace(spec("python=3.11", "pip"), pip=(requirement,))
    said = judge_file(asked, options("8.0", driver="470.129.06"), shipped_base())
    assert "".join(item.code for item in said if item.severity == "error") == code
    assert judge_file(asked, options("8.0", driver="535.129.03"), shipped_base()) == ()


@pytest.mark.parametrize(
    ("option", "build"),
    [
        ("", "+cu121"),
        ("--extra-index-url https://pkgs.example.com/simple", "+cu121"),
        (f"--extra-index-url {INDEX}cu118", "+cu118"),
    ],
)
def test_of_wheels_that_all_lack_the_gpu_the_one_is_named_that_pip_takes(option: str, build: str) -> None:
    asked = replace(spec("python=3.11", "pip"), pip=tuple(filter(None, (option, "torch==2.4.0"))))
    (finding,) = judge_file(asked, options("12.0", driver="575.57.08"), shipped_base())
    assert finding.message.startswith(f"torch 2.4.0{build} has code for ")


def test_a_torch_that_the_tables_lack_is_judged_by_the_toolkit_beside_it() -> None:
    asked = spec("python=3.6", "pytorch=1.0.1", "cudatoolkit=10.0")
    said = {item.code: item for item in judge_file(asked, options("12.0", driver="575.57.08"), shipped_base())}
    assert said["CU405"].severity == "error"
    assert said["CU111"].severity == "warning"
    older = spec("python=3.6", "pytorch=1.1.0", "cudatoolkit=9.0", channels=("defaults",))
    (finding,) = judge_file(older, options("8.6", driver="575.57.08"), shipped_base())
    assert finding.message.startswith(
        "cudatoolkit=9.0: cuDNN for CUDA 9.0 does not support the newer compute capability 8.6"
    )
    assert judge_file(older, options("7.0", driver="575.57.08"), shipped_base()) == ()
    on_volta = judge_file(asked, options("7.0", driver="575.57.08"), shipped_base())
    assert [item.code for item in on_volta] == ["CU111"]


def test_pytorch_cuda_says_that_torch_comes_from_the_channel_pytorch_whatever_is_listed_first() -> None:
    channels = ("somebody", "pytorch", "nvidia", "conda-forge")
    asked = spec("pytorch=2.1.0", "pytorch-cuda=12.1", channels=channels)
    said = judge_file(asked, options("12.0", driver="575.57.08"), shipped_base())
    assert [item.code for item in said] == ["CU403"]  # another torch mends its cuDNN as well
    assert all("pytorch 2.1.0 for CUDA 12.1" in item.message for item in said)


def test_another_environment_is_not_asked_for_libraries_of_the_torch_that_cannot_run() -> None:
    pins = ("pytorch=1.11.0", "cudatoolkit=11.3", "torchvision=0.12.0", "pytorch::torchaudio", "transformers=4.33.3")
    asked = spec(*pins, channels=("pytorch", "conda-forge"), pip=("accelerate==1.9.0", "torchtext==0.12.0"))
    said = judge_file(asked, options("12.0", driver="575.57.08"), shipped_base())
    fixes = {item.fix or "" for item in said if item.code == "CU405"}
    assert len(fixes) == 1
    assert " --with torchvision --with torchaudio --with transformers=4.33.3 --with pip:" in "".join(fixes)
    assert "0.12.0" not in "".join(fixes)


@pytest.mark.parametrize(
    ("wheels", "severity", "said"),
    [
        (
            (wheel("tensorflow", "2.12.0"),),
            "warning",
            "tensorflow 2.12.0 loads CUDA 11.8 and cuDNN 8.6 when it starts, but the lock has no CUDA",
        ),
        ((wheel("tensorflow-cpu", "2.12.0"), wheel("jaxlib", "0.4.30")), "", ""),
        ((wheel("faiss-gpu", "1.7.2"),), "info", "list neither the CUDA release nor the GPU code of faiss-gpu 1.7.2"),
        ((wheel("cupy-cuda12x", "13.6.0"),), "info", "do not list the GPU code of cupy-cuda12x"),
        (
            (wheel("tensorflow", "2.15.1"), wheel("nvidia-cuda-runtime-cu12", "12.2.140")),
            "warning",
            "whose nvcc compiles no machine code for the newer compute capability 12.0 (GeForce RTX 5090): only what",
        ),
    ],
)
def test_other_programs_for_gpus_that_pip_brings_are_unknown_and_not_fine(
    wheels: tuple[PipLocked, ...], severity: str, said: str
) -> None:
    told = [item for item in found(options("RTX 5090", driver="575.57.08"), *wheels) if item.code == "CU403"]
    assert [(item.severity, item.unknown) for item in told] == ([(severity, True)] if severity else [])
    assert all(said in item.message for item in told)
    assert report("", told, ()).verdict(strict=False) == ("unknown" if severity else "fine")


def test_cuda_that_a_wheel_bears_in_its_name_alone_is_compared_with_the_driver() -> None:
    old = found(options("A100", driver="470.129.06"), wheel("cupy-cuda12x", "13.6.0"))
    assert "CU401" in codes(old, "error")
    assert codes(found(options("A100", driver="470.129.06"), wheel("cudf-cu11", "24.2.0")), "error") == set()


def judged(item: PipLocked, facts: HostFacts, *beside: LockedPackage) -> list[Finding]:
    """What is more than a remark on a lock with one wheel, by the tables that ship."""
    whole = replace(solution(PYTHON, *beside), pip=(item,))
    return [finding for finding in host_findings(whole, facts, shipped_base()) if finding.severity != "info"]


@pytest.mark.parametrize(
    ("name", "host", "severity", "said"),
    [
        ("tensorflow-gpu==1.15.0", ("A100", "550.54.15"), "error", "CU405 cuDNN 7.4 for CUDA 10.0 does not support"),
        ("tensorflow-gpu==1.15.0", ("V100", "396.26"), "error", "CU401 CUDA 10.0 needs driver 410.48 or later"),
        ("tensorflow-gpu==1.15.0", ("V100", "535.129.03"), "warning", "CU403 it loads CUDA 10.0"),
        ("tensorflow-gpu==2.4.1", ("V100", "418.87.01"), "error", "CU401 CUDA 11.0 needs driver 450.51.06 or later"),
        ("tensorflow==2.0.0", ("V100", "535.129.03"), "warning", "CU103 the wheel of tensorflow 2.0.0 is not a CUDA"),
        ("tensorflow==1.14.0", ("A100", "535.129.03"), "warning", "CU103 the wheel of tensorflow 1.14.0 is not a CUDA"),
    ],
)
def test_an_old_tensorflow_of_pip_is_judged_by_the_cuda_that_it_loads(
    name: str, host: tuple[str, str], severity: str, said: str
) -> None:
    package_name, _, release = name.partition("==")
    facts = options(host[0], driver=host[1])
    (told,) = judged(wheel(package_name, release), facts)
    code, _, message = said.partition(" ")
    assert (told.code, told.severity) == (code, severity)
    assert message.replace("it loads", f"{package_name} {release} loads") in told.message
    file = spec("python=3.7", "pip", pip=(name,))
    assert {item.code for item in judge_file(file, facts, shipped_base())} == ({code} if severity == "error" else set())
    assert code in {item.code for item in judge_file(file, facts, shipped_base(), alone=True)}


@pytest.mark.parametrize(
    ("name", "host", "code", "because"),
    [
        ("tensorflow==1.15.0", ("A100", "535.129.03"), "CU405", "cuDNN 7.4 for CUDA 10.0 does not support the newer"),
        ("tensorflow==2.4.1", ("V100", "418.87.01"), "CU401", "CUDA 11.0 needs driver 450.51.06 or later"),
    ],
)
def test_a_tensorflow_that_asks_for_no_gpu_runs_on_the_cpu_where_its_cuda_does_not_serve(
    name: str, host: tuple[str, str], code: str, because: str
) -> None:
    package_name, _, release = name.partition("==")
    facts, tables = options(host[0], driver=host[1]), shipped_base()
    (of_lock,) = judged(wheel(package_name, release), facts)
    of_file = judge_file(spec("python=3.7", "pip", pip=(name,)), facts, tables, alone=True)
    (told,) = (item for item in of_file if item.code == code)
    for item in (of_lock, told):
        assert (item.code, item.severity, item.edits) == (code, "warning", ())
        assert item.message.startswith(f"{name} runs on the CPU: there is no CUDA ")
        assert because in item.message
    extra = spec("python=3.10", "pip", pip=("tensorflow[and-cuda]==2.15.0",))
    refused = judge_file(extra, options("V100", driver="470.129.06"), tables)
    assert [item.severity for item in refused] == ["error"]


def test_a_tensorflow_of_pip_beside_the_libraries_of_another_cuda_finds_none_of_them() -> None:
    facts, own = options("V100", driver="535.129.03"), (package("cudatoolkit", "10.1.243"), package("cudnn", "7.6.5"))
    (other,) = judged(wheel("tensorflow-gpu", "1.15.0"), facts, *own)
    assert "the environment has those of CUDA 10.1, so it uses no GPU" in other.message
    assert judged(wheel("tensorflow", "2.3.0"), facts, *own) == []


def test_a_tensorflow_of_conda_has_one_error_where_its_cuda_is_too_old_for_the_gpu() -> None:
    own = (package("tensorflow", "1.15.0", "gpu_py37_0"), package("cudatoolkit", "10.0.130"), package("cudnn", "7.6.5"))
    found = host_findings(solution(PYTHON, *own), options("A100", driver="535.129.03"), shipped_base())
    (told,) = (item for item in found if "the newer compute capability 8.0" in item.message)
    assert (told.code, told.severity) == ("CU405", "error")


def test_a_wheel_without_code_for_a_gpu_is_one_error_and_its_cudnn_is_evidence() -> None:
    facts = options("RTX 5090", driver="575.57.08")
    locked = [item for item in judged(wheel("torch", "1.13.1"), facts) if item.severity == "error"]
    asked = judge_file(spec("python=3.9", pip=("torch==1.13.1",)), facts, shipped_base())
    for told in (locked, asked):
        assert [item.code for item in told] == ["CU403"]
        assert any("cuDNN" in text for text in told[0].evidence)


def test_tensorflow_without_cuda_is_no_matter_where_no_gpu_is() -> None:
    assert found(replace(options("A100", driver="535.129.03"), gpus=()), wheel("tensorflow", "2.12.0")) == []


def test_a_wheel_for_a_later_glibc_is_mended_by_locking_for_the_host() -> None:
    old = wheel("cryptography", "46.0.3")
    item = replace(old, url=old.url.replace("manylinux_2_17", "manylinux_2_34"))
    (told,) = found(options("A100", driver="535.129.03", libc="2.31"), item)
    assert (told.code, told.fix) == ("CU407", "cuenv lock --gpu 8.0 --driver 535.129.03 --glibc 2.31")
    lock = Lock(channels=(), sources=(), solutions=(), again="cuenv lock environment.yml --format pylock")
    whole = "cuenv lock environment.yml --format pylock --gpu 8.0 --driver 535.129.03 --glibc 2.31"
    assert mended_there(told, lock).fix == whole
    assert mended_there(told, replace(lock, program="uv", again="uv lock")).fix is None


def test_the_torch_of_a_project_of_uv_is_mended_by_uv_and_that_of_its_extras_by_hand() -> None:
    index = "https://download.pytorch.org/whl/cu118"
    fix = WheelFix.of(("torch==2.7.1+cu118",), url=index)
    told = Finding(code="CU401", severity="error", subject="torch", message="too new", fix=fix)
    lock = Lock(channels=(), sources=(), solutions=(), program="uv", again="uv lock", part="Python 3.12")
    assert mended_there(told, lock).fix == f"uv add --index pytorch-cu118={index} torch==2.7.1"
    parted = replace(lock, part="Python 3.12, extras cpu, dev")
    by_hand = f"in [tool.uv.sources] of pyproject.toml take torch==2.7.1 from the index {index}"
    assert mended_there(told, parted).fix == by_hand


def test_cpuonly_does_not_choose_among_the_builds_of_conda_forge() -> None:
    asked = spec("pytorch=2.1", "cpuonly", channels=("conda-forge", "pytorch"))
    (finding,) = judge_file(asked, options("8.9", driver="535.129.03"), shipped_base())
    assert "cpuonly of the channel pytorch selects only among builds of that channel" in finding.message
    assert [entry for edit in finding.edits for entry in edit.entries] == ["pytorch=2.1.*=cpu*"]
    (finding,) = judge_file(replace(asked, channels=("pytorch", "conda-forge")), options("8.9"), shipped_base())
    assert "the file requests a CPU build of PyTorch" in finding.message


def test_the_mutex_of_another_channel_is_no_cpu_build_of_torch() -> None:
    torch = package("pytorch", "2.1.2", "cuda120_py311h25b6552_301")
    cudart = package("cuda-cudart", "12.0.107", "hd3aeb46_0")
    mutex = package("pytorch-mutex", "1.0", "cpu", channel="pytorch")
    assert "CU103" not in {item.code for item in lock_findings((torch, cudart, mutex), "linux-64", shipped_base())}
    alone = replace(torch, channel=mutex.channel)
    assert "CU103" in {item.code for item in lock_findings((alone, cudart, mutex), "linux-64", shipped_base())}


def test_a_torch_that_torchvision_brings_is_judged_as_one_that_is_named() -> None:
    channels = ("pytorch", "nvidia", "conda-forge")
    asked = spec("python=3.11", "pytorch-cuda=11.8", "torchvision", channels=channels)
    said = judge_file(asked, options("12.0", driver="575.57.08"), shipped_base())
    assert [item.code for item in said if item.severity == "error"] == ["CU405"]
    assert judge_file(asked, options("8.9", driver="535.129.03"), shipped_base()) == ()
    by_pip = replace(spec("python=3.11", "torchvision", channels=channels), pip=("torch==2.7.1",))
    assert {item.code for item in judge_file(by_pip, options("8.0", driver="470.129.06"), shipped_base())} == {"CU401"}


def test_the_channels_of_a_file_say_which_builds_of_pytorch_it_can_take() -> None:
    stacks = {
        ("conda-forge",): "conda-forge",
        ("defaults", "conda-forge"): "conda-forge",
        ("pytorch", "conda-forge"): "pytorch",
        ("conda-forge", "pytorch"): None,
    }
    for channels, stack in stacks.items():
        assert request_of(spec("pytorch=2.5", channels=channels), base()).stack == stack, channels
    assert request_of(spec("pytorch-cuda=12.4", channels=("nvidia", "pytorch")), base()).stack == "pytorch"
    assert request_of(spec("pytorch::pytorch", channels=("conda-forge", "pytorch")), base()).stack == "pytorch"


def test_what_pip_takes_is_judged_where_nothing_is_solved_afterwards() -> None:
    asked, host = spec("python=3.11", "pip", pip=("torch",)), options("8.9", driver="535.129.03")
    assert judge_file(asked, host, base()) == (), "an earlier torch runs, and the lock sees which is taken"
    (told,) = judge_file(asked, host, base(), alone=True)
    assert (told.code, told.severity) == ("CU401", "warning")
    assert told.message.startswith("pip takes torch 2.15.0 (cu132) for torch today: CUDA 13.x needs driver")
    assert (told.fix or "").startswith("install driver 580.65.06 or later, or with pip: torch==2.14.1+cu126 ")
    assert judge_file(asked, options("8.9", driver="580.65.06"), base(), alone=True) == ()
    (told,) = judge_file(asked, options("7.0", driver="470.57.02"), base(), alone=True)
    assert told.code == "CU401"
    assert (told.fix or "").startswith("with pip: torch==2.7.1+cu118 "), "no driver brings CUDA 13 to a V100"


@pytest.mark.parametrize(
    "line",
    ["flash-attn", "flash-attn>=2.5", "flash-attn==2.7.3", "git+https://example.org/flash-attn.git"],
)
def test_a_library_that_no_gpu_here_runs_is_told_however_it_is_asked_for(line: str) -> None:
    asked = spec("pytorch=2.5", "pytorch-cuda=12.4", channels=("pytorch", "nvidia"), pip=(line,))
    told = judge_file(asked, options("7.0", driver="535.129.03"), shipped_base())
    assert {item.code for item in told if item.severity == "error"} == (set() if "://" in line else {"CU505"})


@pytest.mark.parametrize("lines", [("tensorflow-gpu==2.10",), ("jax[cuda12]",), ("cupy-cuda116",)])
def test_a_program_of_which_nobody_knows_the_gpu_code_is_unknown(lines: tuple[str, ...]) -> None:
    asked, host = spec("python=3.10", "cudatoolkit=11.2", pip=lines), options("8.0", driver="535.129.03")
    (told,) = judge_file(asked, host, shipped_base(), alone=True)
    assert (told.code, told.unknown) == ("CU403", True)
    of_cuda = spec("python=3.10", pip=("torch==2.1.0", "nvidia-cublas-cu12==12.1.3.1"))
    assert judge_file(of_cuda, host, shipped_base(), alone=True) == (), "the parts of CUDA are no programs"


def test_a_torchvision_for_cuda_beside_a_torch_for_cpus_is_an_error_with_the_build_that_fits() -> None:
    torch, cudart = package("pytorch", "2.4.0", "cpu_generic_py312h1_1"), package("cuda-version", "12.9")
    vision = package("torchvision", "0.19.0", "cuda120py312h1_0")
    (told,) = lock_findings((torch, vision, cudart), "linux-64", shipped_base(), of_cpu=("pytorch",))
    assert (told.code, told.severity, told.subject) == ("CU103", "error", "torchvision")
    assert told.edits[0].entries == ("conda-forge::torchvision=0.19.0=*cpu*",)
    of_cpu = package("torchvision", "0.19.0", "cpu_py312h1_0")
    of_cuda = package("pytorch", "2.4.0", "cuda120_py312h1_200")
    assert not lock_findings((torch, of_cpu), "linux-64", shipped_base())
    assert not any("linked" in item.message for item in lock_findings((of_cuda, vision), "linux-64", shipped_base()))


@pytest.mark.parametrize(("channels", "refused"), [("nvidia conda-forge", False), ("conda-forge nvidia", True)])
def test_an_open_nvcc_is_judged_by_the_channel_that_it_comes_from(channels: str, refused: bool) -> None:
    """What conda-forge has of nvcc is no fault of a file that takes it from NVIDIA."""
    asked = spec("python=3.9", "cudatoolkit=11.3", "cuda-nvcc", "pytorch::pytorch=1.12.1", channels=channels.split())
    found = judge_file(asked, options("RTX 3090", driver="535.129.03"), shipped_base())
    assert ("CU110" in codes([*found], "error")) is refused


def test_an_nvcc_of_a_channel_of_nvidia_is_not_asked_of_conda_forge() -> None:
    pins = ("pytorch=1.12.1=py3.9_cuda11.3_cudnn8.3.2_0", "cuda-nvcc=11.3.58=h2467b9f_0", "cudatoolkit=11.3.1")
    asked = spec(*pins, channels=("pytorch", "nvidia/label/cuda-11.3.0", "conda-forge"))
    facts = options("8.9", driver="535.129.03")
    assert not judge_file(asked, facts, shipped_base())
    nobody = spec(*pins, channels=("pytorch", "conda-forge"))
    assert {item.code for item in judge_file(nobody, facts, shipped_base())} == {"CU110"}


@pytest.mark.parametrize(
    ("gpu", "driver", "python", "lines", "bounds"),
    [
        ("8.9", "535.129.03", "3.12", ("torch",), ("2.2.0", "2.10.0", "CUDA 13.x needs driver 580.65.06 or later")),
        ("8.9", "535.129.03", "3.12", ("accelerate",), ("2.2.0", "2.10.0", "CUDA 13.x needs driver")),
        ("12.0", "575.51.03", "3.12", ("torch",), ("2.8.0", "2.10.0", "CUDA 13.x needs driver 580.65.06 or later")),
        ("6.1", "580.65.06", "3.12", ("torch>=2.4",), ("2.4.0", "2.7.1", "not for compute capability 6.1")),
        ("8.9", "580.65.06", "3.12", ("torch",), ("2.2.0", "2.15.0", "")),
        ("8.0", "470.129.06", "3.12", ("torch",), None),
        ("8.9", "535.129.03", "3.12", ("torch==2.15.0",), None),
        ("8.9", "535.129.03", "3.12", ("--index-url https://download.pytorch.org/whl/cpu", "torch"), None),
    ],
)
def test_the_torch_that_a_file_leaves_open_is_one_that_runs(
    gpu: str, driver: str, python: str, lines: tuple[str, ...], bounds: tuple[str, str, str] | None
) -> None:
    asked = spec(f"python={python}", "pip", pip=lines)
    found = runnable_torch(asked, options(gpu, driver=driver), python, base())
    if bounds is None or found is None:
        assert (found, bounds) == (None, None)
        return
    first, last, told = found
    assert (str(first), str(last)) == bounds[:2]
    assert (told is None) == (bounds[2] == "")
    assert told is None or bounds[2] in told.message


def test_a_torch_of_conda_is_no_matter_of_pip() -> None:
    asked = spec("python=3.12", "pytorch", "pip", pip=("accelerate",))
    assert runnable_torch(asked, options("8.9", driver="535.129.03"), "3.12", base()) is None


@pytest.mark.parametrize(
    ("lines", "bounds"),
    [
        (("torch==2.1.0", "pandas"), ["numpy<2"]),
        (("torch==2.4.0",), []),
        (("torch",), []),
        (("pandas",), []),
    ],
)
def test_pip_is_kept_from_what_its_torch_dies_of(lines: tuple[str, ...], bounds: list[str]) -> None:
    found = list(conflict_bounds(spec("python=3.11", "pip", pip=lines), base()))
    assert [bound for bound, _ in found] == bounds
    assert all((item.severity, item.fix) == ("info", None) for _, item in found)
    assert not list(conflict_bounds(spec("python=3.11", "pytorch", "pip", pip=lines), base()))


def test_pytorch_gpu_is_judged_as_the_torch_that_it_requires() -> None:
    volta = options("7.0", driver="470.82.01")
    for name in ("pytorch-gpu", "pytorch"):
        (error,) = judge_file(spec(f"{name}=2.9", channels=("conda-forge",)), volta, base(), alone=True)
        assert error.code == "CU401"
