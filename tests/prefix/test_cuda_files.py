"""The CUDA of an environment by its files: real shared objects, wheels that uv installed, conda's libraries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cases import collect
from channel_builder import PLATFORM
from cuenv.core.findings import Finding
from cuenv.core.versions import version
from cuenv.demo.io.sample import Package
from cuenv.host.select import HostOptions
from cuenv.prefix.check import PrefixCheck, check_prefix
from cuenv.prefix.cuda_files import family, runtime_soname
from cuenv.prefix.io.cuda_files import read_cuda_files
from cuenv.prefix.io.prefix import find_prefix
from given import base
from prefixes import SITE, dist, installed, package, put, shared_object, standard, torch_files, venv, wheel_file

QUIET = {"CONDA_OVERRIDE_CUDA": "", "CONDA_OVERRIDE_GLIBC": "2.35", "HOME": "/nowhere"}
RTX = HostOptions(gpus=("8.9",), driver="570.124.06", glibc="2.35", platform=PLATFORM, environ=QUIET)
RUNTIME = "nvidia/cuda_runtime/lib/libcudart.so.12"
CUDNN = "nvidia/cudnn/lib/libcudnn.so.9"
LINUX = "; platform_system == 'Linux'"


def checked(env: Path) -> PrefixCheck:
    return check_prefix(env, RTX, base())


def found(told: PrefixCheck, check: str) -> list[Finding]:
    return [item for one in told.checks if one.name == check for item in one.findings]


def codes(told: PrefixCheck, check: str) -> list[tuple[str, str]]:
    return sorted((item.code, item.severity) for item in found(told, check))


def line(told: PrefixCheck, check: str) -> str:
    (one,) = [item for item in told.checks if item.name == check]
    return f"{one.status} {one.says}"


def without(*names: str) -> list[Package]:
    return [item for item in standard() if item.name not in names]


def torch_wheel(folder: Path, cuda: str = "12.8", *requires: str, needed: tuple[str, ...] = ()) -> Path:
    """A torch as the Python index has it: its libraries inside, NVIDIA's beside."""
    files: dict[str, bytes | str] = {
        "torch/version.py": f"__version__ = '2.9.1+cu128'\ncuda: Optional[str] = '{cuda}'\n",
        "torch/lib/libtorch_cuda.so": shared_object("libtorch_cuda.so", needed or ("libcudart.so.12", "libcudnn.so.9")),
        "torch/lib/libc10.so": "no shared object",
    }
    return wheel_file(folder, "torch", "2.9.1", files, requires)


def nvidia(folder: Path, name: str, number: str, path: str, soname: str = "") -> Path:
    return wheel_file(folder, name, number, {path: shared_object(soname or path.rpartition("/")[2])})


@collect(
    ("name", "kind"),
    [
        ("libcudart.so.12", "cudart"),
        ("libcudart-9335f6a2.so.11.0", "cudart"),
        ("libcublasLt.so.12", "cublasLt"),
        ("libnppig.so.12.3.3", "nppig"),
        ("libcudart_static.a", None),
        ("libcuda.so.1", None),
        ("libtorch_cuda.so", None),
    ],
)
def test_which_library_a_name_means(name: str, kind: str | None) -> None:
    assert family(name) == kind


def test_the_runtime_by_its_release() -> None:
    names = [runtime_soname(version(text)) for text in ("10.2", "11.8", "12.1", "13.0")]
    assert names == ["libcudart.so.10.2", "libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"]


# conda


def test_what_conda_brought_is_told_from_its_files(tmp_path: Path) -> None:
    env, _ = installed(tmp_path, standard())
    files = read_cuda_files(find_prefix(env))
    assert (files.torch, str(files.cuda), files.by_pip) == ("2.7.1", "12.8", False)
    assert files.needed == ("libcudart.so.12", "libcudnn.so.9", "libnccl.so.2")
    assert {(item.soname, item.source, item.version) for item in files.libraries} == {
        ("libcudart.so.12", "conda", "12.8.90"),
        ("libcudnn.so.9", "conda", "9.8.0.87"),
        ("libnccl.so.2", "conda", "2.27.5.1"),
    }
    assert [str(item.version) for item in files.headers] == ["9.8.0"]
    assert files.nvcc == (version("12.8.93"), f"{env}/bin/nvcc")
    told = checked(env)
    assert codes(told, "sources") == codes(told, "runtime") == []
    assert line(told, "sources") == "ok 5 CUDA components from conda-forge; 3 libraries of NVIDIA's"
    assert line(told, "runtime").startswith("ok torch 2.7.1 with CUDA 12.8: libcudart.so.12 (conda 12.8.90), ")


def test_the_law_of_one_channel_is_that_of_locks(tmp_path: Path) -> None:
    env, _ = installed(tmp_path, standard())
    path = next((env / "conda-meta").glob("cuda-nvcc-*.json"))
    path.write_text(path.read_text().replace("/conda-forge/", "/nvidia/"))
    (finding,) = found(checked(env), "sources")
    assert (finding.code, finding.severity) == ("CU101", "warning")
    assert "1 from nvidia (cuda-nvcc)" in finding.message


@collect(
    ("package_name", "code", "soname"),
    [
        ("cuda-cudart", "CU211", "libcudart.so.12"),
        ("libcudnn", "CU213", "libcudnn.so.9"),
        ("nccl", "CU214", "libnccl.so.2"),
    ],
)
def test_what_torch_needs_and_is_not_there(tmp_path: Path, package_name: str, code: str, soname: str) -> None:
    env, _ = installed(tmp_path, without(package_name))
    (finding,) = [item for item in found(checked(env), "runtime") if item.severity == "error"]
    assert (finding.code, finding.subject) == (code, soname)
    assert finding.message == f"torch 2.7.1 (CUDA 12.8) needs {soname}, but the environment does not have it"


def test_another_major_is_named(tmp_path: Path) -> None:
    old = package("libcudnn", "8.9.7.29", files={"lib/libcudnn.so.8": shared_object("libcudnn.so.8")})
    env, _ = installed(tmp_path, [*without("libcudnn"), old])
    (finding,) = found(checked(env), "runtime")
    assert finding.code == "CU213"
    assert "needs libcudnn.so.9, but the environment has libcudnn.so.8 (conda 8.9.7.29)" in finding.message


def test_a_runtime_that_is_older_than_torchs(tmp_path: Path) -> None:
    old = package("cuda-cudart", "12.4.127", files={"lib/libcudart.so.12": shared_object("libcudart.so.12")})
    env, _ = installed(tmp_path, [*without("cuda-cudart"), old])
    assert codes(checked(env), "runtime") == [("CU211", "warning")]


def test_headers_newer_than_their_library(tmp_path: Path) -> None:
    env, _ = installed(tmp_path, standard())
    newer = "#define NCCL_MAJOR 2\n#define NCCL_MINOR 30\n#define NCCL_PATCH 1\n"
    put(env, {"targets/x86_64-linux/include/nccl.h": newer})
    (finding,) = found(checked(env), "runtime")
    assert (finding.code, finding.severity) == ("CU214", "warning")
    assert (finding.fix or "").startswith(
        f"conda remove -y --force -p {env} nccl && conda install -y -p {env} https://"
    )


@collect(
    ("nvcc", "deepspeed", "expected"),
    [
        ("12.8.93", "0.16.4", []),
        ("12.6.85", None, [("CU212", "info")]),
        ("12.6.85", "0.16.4", [("CU212", "info")]),
        ("12.9.86", "0.16.4", [("CU212", "error")]),
        ("13.0.48", None, [("CU212", "error")]),
        ("11.8.89", "0.16.4", [("CU212", "error")]),
    ],
    one_in=2,
)
def test_the_compiler_against_torch(
    tmp_path: Path, nvcc: str, deepspeed: str | None, expected: list[tuple[str, str]]
) -> None:
    tolerant = [
        item
        for item in base().extension("deepspeed")
        if item.covers(version("0.16.4")) and version("12.6") in item.tolerates and version("12.8") in item.tolerates
    ]
    assert tolerant, "the table says which minors DeepSpeed lets differ"
    env, _ = installed(tmp_path, [*without("cuda-nvcc"), package("cuda-nvcc", nvcc, files={"bin/nvcc": "#!/bin/sh\n"})])
    if deepspeed:
        put(env, dist("deepspeed", deepspeed, "pip"))
    told = checked(env)
    assert codes(told, "runtime") == expected
    forge = "--override-channels -c conda-forge"
    mends = {"info": None, "error": f"CONDA_OVERRIDE_CUDA=12.8 conda install -y -p {env} {forge} cuda-nvcc=12.8"}
    assert all(item.fix == mends[item.severity] for item in found(told, "runtime"))


# pip


def test_a_torch_from_pip_with_what_it_pins(tmp_path: Path) -> None:
    pins = (f"nvidia-cuda-runtime-cu12==12.8.90{LINUX}", f"nvidia-cudnn-cu12 (==9.10.2.21) {LINUX}")
    env = venv(
        tmp_path / "env",
        torch_wheel(tmp_path, "12.8", *pins, "nvidia-elsewhere==1; platform_system == 'Windows'"),
        nvidia(tmp_path, "nvidia-cuda-runtime-cu12", "12.8.90", RUNTIME),
        nvidia(tmp_path, "nvidia-cudnn-cu12", "9.10.2.21", CUDNN),
    )
    files = read_cuda_files(find_prefix(env))
    assert (files.torch, str(files.cuda), files.by_pip) == ("2.9.1+cu128", "12.8", True)
    assert files.requires == (("nvidia-cuda-runtime-cu12", "12.8.90"), ("nvidia-cudnn-cu12", "9.10.2.21"))
    assert {item.label for item in files.libraries} == {
        "libcudart.so.12 (nvidia-cuda-runtime-cu12 12.8.90)",
        "libcudnn.so.9 (nvidia-cudnn-cu12 9.10.2.21)",
    }
    told = checked(env)
    assert codes(told, "sources") == codes(told, "runtime") == []
    assert line(told, "host").startswith("ok CUDA 12.8 (from torch 2.9.1+cu128 (its files)) on the given host")


@pytest.mark.parametrize(
    ("cuda", "mend"),
    [
        ("13.0", "uv pip install --python {env}/bin/python 'nvidia-cuda-nvcc==13.0.*'"),
        ("12.8", "install a CUDA 12.8 toolkit"),
    ],
)
def test_a_compiler_of_another_major_among_wheels(tmp_path: Path, cuda: str, mend: str) -> None:
    """Of CUDA 12 there is no wheel with a compiler."""
    other = "13.3.1" if cuda == "12.8" else "12.9.86"
    nvcc = wheel_file(tmp_path, "nvidia-cuda-nvcc", other, {"nvidia/cu/bin/nvcc": "#!/bin/sh\n"})
    env = venv(tmp_path / "env", torch_wheel(tmp_path, cuda), nvcc)
    (finding,) = [item for item in found(checked(env), "runtime") if item.code == "CU212"]
    assert (finding.fix or "").startswith(mend.format(env=env))


def test_libraries_that_are_all_gone_are_one_finding_with_the_list(tmp_path: Path) -> None:
    pins = (f"nvidia-cuda-runtime-cu12==12.8.90{LINUX}", f"nvidia-cudnn-cu12==9.10.2.21{LINUX}")
    needed = ("libcudart.so.12", "libcudnn.so.9")
    env = venv(tmp_path / "env", torch_wheel(tmp_path, "12.8", *pins, needed=needed))
    told = checked(env)
    (finding,) = told.report.errors
    assert (finding.code, finding.subject) == ("CU211", "libcudart.so.12, libcudnn.so.9")
    assert "needs 2 NVIDIA libraries that the environment does not have" in finding.message
    assert (finding.fix or "").endswith("nvidia-cuda-runtime-cu12==12.8.90 nvidia-cudnn-cu12==9.10.2.21")


@collect("via", ["CUDA_HOME", "CUDA_PATH", "PATH"], one_in=2)
@collect(
    ("more", "severity", "fix"),
    [
        (("deepspeed", "0.17.5"), "error", "install a CUDA 12.8 toolkit"),
        (("humble", "1.0"), "warning", "install a CUDA 12.8 toolkit"),
        (("nvidia-cuda-nvcc", "12.8.93"), "warning", 'eval "$(cuenv hook'),
    ],
)
def test_an_nvcc_of_another_major_wherever_a_build_would_find_it(
    tmp_path: Path, via: str, more: tuple[str, str], severity: str, fix: str
) -> None:
    """It is told once, and no advice is given on what lies around the wrong one."""
    files = {"nvidia/cu12/bin/nvcc": "", f"{more[0]}/__init__.py": ""}
    env = venv(tmp_path / "env", torch_wheel(tmp_path, "12.8"), wheel_file(tmp_path, *more, files))
    for path in env.glob("lib/python*/site-packages/nvidia/cu12/bin/nvcc"):
        path.chmod(0o755 if more[0].startswith("nvidia") else 0o644)
    toolkit = tmp_path / "cuda-11.8"
    put(toolkit, {"bin/nvcc": "#!/bin/sh\nexit 1\n", "include/cuda_runtime_api.h": "#define CUDART_VERSION 11080\n"})
    (toolkit / "bin/nvcc").chmod(0o755)
    told = {"PATH": f"{toolkit}/bin"} if via == "PATH" else {via: str(toolkit), "PATH": ""}
    findings = found(check_prefix(env, replace(RTX, environ={**QUIET, **told}), base()), "jit")
    (finding,) = [item for item in findings if item.code == "CU212"]
    assert (finding.severity, (finding.fix or "")[: len(fix)]) == (severity, fix)
    assert finding.message.startswith("nvcc is from CUDA 11.8, but torch was built with CUDA 12.8")
    assert f"{via} leads builds to {toolkit}/bin/nvcc" in finding.message
    assert {item.code for item in findings} & {"CU252", "CU254", "CU256", "CU257", "CU258"} == set()


def test_wheels_that_torch_does_not_pin(tmp_path: Path) -> None:
    env = venv(
        tmp_path / "env",
        torch_wheel(tmp_path, "12.8", "nvidia-cuda-runtime-cu12==12.8.90", "nvidia-cudnn-cu12==9.10.2.21"),
        nvidia(tmp_path, "nvidia-cuda-runtime-cu12", "12.9.79", RUNTIME),
    )
    findings = {(item.code, item.severity): item for item in found(checked(env), "runtime")}
    assert set(findings) == {("CU211", "warning"), ("CU213", "error")}
    pip = f"uv pip install --python {env}/bin/python --force-reinstall --no-deps"
    assert findings["CU211", "warning"].fix == f"{pip} nvidia-cuda-runtime-cu12==12.8.90"
    assert findings["CU213", "error"].fix == f"{pip} nvidia-cudnn-cu12==9.10.2.21"


def test_two_wheels_that_hold_the_same_file(tmp_path: Path) -> None:
    env = venv(
        tmp_path / "env",
        torch_wheel(tmp_path, "12.8", "nvidia-cudnn-cu12==9.10.2.21"),
        nvidia(tmp_path, "nvidia-cuda-runtime-cu12", "12.8.90", RUNTIME),
        nvidia(tmp_path, "nvidia-cudnn-cu12", "9.10.2.21", CUDNN),
        nvidia(tmp_path, "nvidia-cudnn-cu11", "9.1.0.70", CUDNN),
    )
    (finding,) = found(checked(env), "sources")
    assert (finding.code, finding.severity) == ("CU210", "error")
    assert "nvidia-cudnn-cu11 and nvidia-cudnn-cu12 both contain" in finding.message
    assert finding.fix is not None
    assert finding.fix.endswith(" --force-reinstall --no-deps nvidia-cudnn-cu12==9.10.2.21")


def test_wheels_beside_condas_libraries(tmp_path: Path) -> None:
    env, _ = installed(tmp_path, standard())
    for name, path in (("nvidia_cuda_runtime_cu12", RUNTIME), ("nvidia_cudnn_cu12", CUDNN)):
        put(env, {f"{SITE}/{path}": shared_object(path.rpartition("/")[2]), **dist(name, "12.8.1", "pip")})
        put(env, {f"{SITE}/{name}-12.8.1.dist-info/RECORD": f"{path},sha256=x,1\n"})
    (finding,) = found(checked(env), "sources")
    assert (finding.code, finding.severity, finding.subject) == ("CU210", "error", "libcudart.so.12, libcudnn.so.9")
    assert finding.fix == f"uv pip uninstall --python {env}/bin/python nvidia-cuda-runtime-cu12 nvidia-cudnn-cu12"
    assert len(finding.evidence) == 4


def test_condas_libraries_beside_a_torch_from_pip_may_be_meant(tmp_path: Path) -> None:
    env, _ = installed(tmp_path, without("pytorch"))
    put(env, torch_files("2.9.1+cu128", "12.8", "pip"))
    put(env, {f"{SITE}/torch/lib/libtorch_cuda.so": shared_object("libtorch_cuda.so", ("libcudart.so.12",))})
    put(
        env,
        {f"{SITE}/{RUNTIME}": shared_object("libcudart.so.12"), **dist("nvidia_cuda_runtime_cu12", "12.8.90", "pip")},
    )
    put(env, {f"{SITE}/nvidia_cuda_runtime_cu12-12.8.90.dist-info/RECORD": f"{RUNTIME},sha256=x,1\n"})
    told = checked(env)
    assert codes(told, "sources") == [("CU210", "warning")]
    assert codes(told, "runtime") == []


def test_the_name_of_a_file_counts_and_not_what_it_calls_itself(tmp_path: Path) -> None:
    """torch 1.13 to 2.5 from the Python index hold ``libcusparseLt-294d6944.so.0``, whose SONAME has no digest."""
    needed = ("libcusparseLt-294d6944.so.0", "libcudart.so.12", "libcublas.so.12")
    env = venv(tmp_path / "env", torch_wheel(tmp_path, "12.4", needed=needed))
    site = Path(find_prefix(env).site_packages[0])
    put(site, {f"torch/lib/{needed[0]}": shared_object("libcusparseLt.so.0")})
    put(site, {"torch/lib/libcudart.so.12.4.127": shared_object("libcudart-x.so")})
    put(site, {"torch/lib/libcublas-0123abcd.so.12": shared_object("libcublas-0123abcd.so.12")})
    (site / "torch/lib/libcudart.so.12").symlink_to("libcudart.so.12.4.127")
    wrong = found(checked(env), "runtime")
    assert [(item.code, item.subject) for item in wrong] == [("CU211", "libcublas.so.12")]
    put(site, {"nvidia/cusparselt/lib/libcusparseLt.so.0": shared_object("libcusparseLt.so.0")})
    assert found(checked(env), "sources") == []  # the two are never taken for each other


def test_a_copy_inside_torch_has_its_own_name(tmp_path: Path) -> None:
    name = "libcudart-9335f6a2.so.11.0"
    env = venv(
        tmp_path / "env",
        torch_wheel(tmp_path, "11.8", needed=(name,)),
        nvidia(tmp_path, "nvidia-cuda-runtime-cu12", "12.8.90", RUNTIME),
    )
    put(Path(find_prefix(env).site_packages[0]), {f"torch/lib/{name}": shared_object(name)})
    told = checked(env)
    assert codes(told, "sources") == codes(told, "runtime") == []
    files = read_cuda_files(find_prefix(env))
    assert (name, "torch") in {(item.soname, item.source) for item in files.libraries}


def test_without_torch_there_is_nothing_to_compare(tmp_path: Path) -> None:
    told = checked(venv(tmp_path / "env", wheel_file(tmp_path, "humble", "1.0")))
    assert line(told, "runtime") == "skip no torch in the environment"
    assert line(told, "sources").startswith("skip neither a CUDA component")


# the host


def test_the_driver_is_judged_for_conda_and_for_pip_alike(tmp_path: Path) -> None:
    old = HostOptions(gpus=("7.0",), driver="450.80.02", glibc="2.35", platform=PLATFORM, environ=QUIET)
    conda, _ = installed(tmp_path, standard())
    pip = venv(tmp_path / "env2", torch_wheel(tmp_path, "12.8"))
    for env in (conda, pip):
        (finding,) = [item for item in found(check_prefix(env, old, base()), "host") if item.code == "CU401"]
        assert "450.80.02" in finding.message


def test_a_machine_without_gpu_is_not_judged_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cuenv.host.io import probe, surroundings

    monkeypatch.setattr(probe, "probe", lambda *_, **__: surroundings.surroundings())
    env, _ = installed(tmp_path, standard())
    told = check_prefix(env, HostOptions(environ=QUIET), base())
    assert line(told, "host").startswith("skip this machine has no known GPU; name the host")
    named = check_prefix(env, HostOptions(hosts=("no-gpu",), environ=QUIET), base())
    assert line(named, "host").startswith("skip no-gpu has no known GPU")
