"""JIT readiness on NVIDIA's own wheels, laid out as conda does it and as pip does it, with this machine's gcc."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from channel_builder import request, write
from cuenv.core.findings import Check
from cuenv.core.versions import version
from cuenv.demo.io.sample import Package
from cuenv.host.select import HostOptions
from cuenv.prefix.checked import CheckedEnvironment
from cuenv.prefix.checks import check_jit
from cuenv.prefix.io import toolchain as host_config_h
from cuenv.prefix.io.prefix import find_prefix
from cuenv.prefix.io.toolchain import BuildTools, compile_sample
from cuenv.prefix.toolchain.install_hook import install_hook, make_hook
from cuenv.solve.model import Solution
from given import base, machine
from trees import program
from wheels import content, unpack

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="no g++ on PATH")]

NVCC = ("nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88", "nvidia-cuda-crt==13.0.88")
RUNTIME = ("nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cccl==13.0.85")
CURAND = "nvidia-curand==10.4.0.35"
LEFT_OUT = ("bin/nvlink", "bin/bin2c", "nvvm/libdevice")
TARGET = "targets/x86_64-linux"
# What conda-forge makes of nvcc.profile: programs in the prefix, headers and libraries in the target's folder.
PROFILE = """
TOP              = $(_HERE_)/../targets/x86_64-linux
CICC_PATH        = $(_HERE_)/../nvvm/bin
NVVMIR_LIBRARY_DIR = $(_HERE_)/../nvvm/libdevice
LD_LIBRARY_PATH += $(_HERE_)/../lib:
PATH            += $(CICC_PATH):$(_HERE_):
INCLUDES        +=  "-I$(TOP)/include" $(_SPACE_)
SYSTEM_INCLUDES +=  "-isystem" "$(TOP)/include/cccl" $(_SPACE_)
LIBRARIES        =+ $(_SPACE_) "-L$(TOP)/lib/stubs" "-L$(TOP)/lib"
"""
TORCH = "#include <cuda_runtime_api.h>\n#include <curand.h>\n"


def splayed(requirements: tuple[str, ...]) -> dict[str, bytes]:
    """The files of wheels where conda-forge's packages put them."""
    found: dict[str, bytes] = {}
    for requirement in requirements:
        for name, data in content(requirement).items():
            inner = name.removeprefix("nvidia/cu13/")
            if inner == name or inner.startswith((".metadata", *LEFT_OUT[:2])):
                continue
            if inner.startswith("include/"):
                found[f"{TARGET}/{inner}"] = data
            elif inner.startswith("lib/"):
                found[f"{TARGET}/{inner}"] = found[inner] = data
                if inner.startswith("lib/libcudart.so."):
                    found[f"{TARGET}/lib/libcudart.so"] = found["lib/libcudart.so"] = data
            else:
                found[inner] = data
    return found


@pytest.fixture(scope="module")
def conda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that the embedded installer made from packages with the content of NVIDIA's wheels."""
    from cuenv.install.io.installer import install
    from cuenv.solve.io.solver import solve

    folder = tmp_path_factory.mktemp("conda")
    nvcc = splayed(NVCC) | {"bin/nvcc.profile": PROFILE.encode()}
    curand = {name: data for name, data in splayed((CURAND,)).items() if "/include/" in name}
    torch = {"lib/python3.12/site-packages/torch/include/ATen/cuda/CUDAContextLight.h": TORCH.encode()}
    packages = [
        Package(name=name, version="13.0.96", build="0", subdir="linux-64", files=files)
        for name, files in (
            ("cuda-nvcc", nvcc),
            ("cuda-cudart-dev", splayed(RUNTIME)),
            ("libcurand-dev", curand | {"lib/libcurand.so": b""}),
            ("ninja", {"bin/ninja": b"#!/bin/sh\necho 1.12\n"}),
            ("pytorch", torch),
        )
    ]
    sources = write(folder, {"conda-forge": packages})
    answer = solve(request(*(item.name for item in packages)), sources)
    assert isinstance(answer, Solution)
    install(answer, folder / "env", sources)
    (folder / "env/lib/python3.12").mkdir(parents=True, exist_ok=True)
    return folder / "env"


def checked(prefix: Path, folder: Path, *gpus: str, **environ: str) -> Check:
    subject = CheckedEnvironment(
        prefix=find_prefix(prefix),
        facts=machine(*(gpus or ("7.5", "9.0")), driver="580.65.06"),
        knowledge=base(),
        environ={"PATH": os.environ["PATH"], "HOME": str(folder), **environ},
        running=True,
    )
    return check_jit(subject)


def codes(check: Check) -> dict[str, str]:
    return {item.code: item.message for item in check.findings}


def hooked(prefix: Path, *gpus: str) -> None:
    install_hook(make_hook(prefix, HostOptions(gpus=gpus or ("9.0",), driver="580.65.06", environ={}), base()))


def test_headers_of_conda_forge_are_hidden_until_the_hook_shows_them(conda: Path, tmp_path: Path) -> None:
    before = checked(conda, tmp_path)
    assert before.status == "fail"
    assert set(codes(before)) == {"CU254"}
    finding = before.findings[0]
    assert finding.fix == f"cuenv hook --prefix {conda}"
    assert "curand.h" in finding.subject
    assert "compiled" in before.says
    hooked(conda, "7.5", "9.0")
    try:
        after = checked(conda, tmp_path)
        assert after.status == "ok", after
        assert "for 7.5, 9.0" in after.says
        assert "nvcc 13.0 with gcc" in after.says
        # Activated already, the variables are the user's.
        environ = {"CONDA_PREFIX": str(conda), "PATH": f"{conda}/bin:{os.environ['PATH']}"}
        assert set(codes(checked(conda, tmp_path, **environ))) == {"CU254"}
    finally:
        shutil.rmtree(conda / "etc")


def test_what_a_plain_build_fails_of_is_what_the_finding_says(conda: Path, tmp_path: Path) -> None:
    """The finding is true: without the folder the C++ compiler does not find the header, with it it does."""
    plain = BuildTools(
        nvcc=str(conda / "bin/nvcc"), cxx=shutil.which("g++"), includes=(str(conda / "include"),), environ=os.environ
    )
    cuda, host = compile_sample(plain, headers=["curand.h"], plain=["curand.h"])
    assert cuda.reason is None
    assert host.reason == "exit status 1"
    assert "curand.h" in host.tail[0]
    shown = replace(plain, environ={**os.environ, "CPATH": str(conda / TARGET / "include")})
    shown = replace(shown, libraries=(str(conda / "lib"),))
    assert [item.reason for item in compile_sample(shown, headers=["curand.h"], plain=["curand.h"])] == [None] * 3


def test_a_header_that_is_nowhere_names_its_package(conda: Path, tmp_path: Path) -> None:
    lacking = tmp_path / "env"
    shutil.copytree(conda, lacking, symlinks=True)
    light = lacking / "lib/python3.12/site-packages/torch/include/ATen/cuda/CUDAContextLight.h"
    light.write_text("#include <cusparse.h>\n#include <cudss.h>\n")
    found = codes(checked(lacking, tmp_path))
    assert "cusparse.h is not in the environment, but torch includes it; libcusparse-dev contains it" in found["CU253"]
    (lacking / "lib/libcudart.so").unlink()
    hooked(lacking)
    (lacking / TARGET / "lib/libcudart.so").unlink()
    assert "-lcudart finds no libcudart.so" in codes(checked(lacking, tmp_path))["CU258"]


def test_a_gpu_that_nvcc_dropped(conda: Path, tmp_path: Path) -> None:
    found = checked(conda, tmp_path, "7.0", "9.0")
    assert "nvcc 13.0 cannot compile for compute capability 7.0" in codes(found)["CU252"]
    assert "for 9.0" in found.says


def test_a_compiler_that_is_too_new(conda: Path, tmp_path: Path) -> None:
    """It says that it is gcc 16, to cuenv and to the preprocessor of nvcc alike."""
    real = shutil.which("g++")
    script = f'case "$*" in *-dumpfullversion*) echo 16.1.0 ;; *) exec {real} -U__GNUC__ -D__GNUC__=16 "$@" ;; esac'
    new = program(tmp_path / "g++-16", script)
    hooked(conda)
    try:
        found = codes(checked(conda, tmp_path, CC=str(new), CXX=str(new)))
    finally:
        shutil.rmtree(conda / "etc")
    assert "newer than gcc 15, the newest that nvcc 13.0 supports (its host_config.h)" in found["CU256"]
    assert "gcc versions later than 15 are not supported" in found["CU260"]


def test_a_venv_of_wheels_is_led_by_its_lines(tmp_path: Path) -> None:
    prefix = tmp_path / "venv"
    site = prefix / "lib/python3.12/site-packages"
    for requirement in (*NVCC, *RUNTIME):
        unpack(requirement, site)
    (prefix / "pyvenv.cfg").write_text("")
    nowhere = {"PATH": str(tools_alone(tmp_path))}
    found = codes(checked(prefix, tmp_path, **nowhere))
    assert f"{site}/nvidia/cu13/bin/nvcc" in found["CU257"]  # whatever of CUDA this machine has of its own
    lines = make_hook(prefix, HostOptions(gpus=("9.0",), environ={}), base()).scripts["sh"].activate
    script = program(tmp_path / "lines.sh", f"{lines}exec env -0")
    done = subprocess.run([script], env=nowhere, capture_output=True, text=True, check=True)
    led = dict(item.split("=", 1) for item in done.stdout.split("\0") if item)
    assert led["CUDA_HOME"] == str(site / "nvidia/cu13")
    check = checked(prefix, tmp_path, **led)
    assert set(codes(check)) == {"CU258"}, check
    assert "compiled" in check.says
    assert check.findings[0].fix == f"ln -s libcudart.so.13 {site}/nvidia/cu13/lib/libcudart.so"
    subprocess.run(["sh", "-c", check.findings[0].fix], check=True)
    assert checked(prefix, tmp_path, **led).status == "ok"


def tools_alone(folder: Path) -> Path:
    """A folder for PATH with the compilers and nothing of CUDA."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("c++", "g++", "gcc", "as", "ld", "sh", "bash", "env", "rm", "cat", "dirname", "ninja"):
        real = shutil.which(name)
        if real and not (tools / name).exists():
            (tools / name).symlink_to(real)
    if not (tools / "ninja").exists():
        program(tools / "ninja", "echo 1.12")
    return tools


@pytest.mark.parametrize(
    ("requirement", "cuda"),
    [
        ("nvidia-cuda-nvcc-cu11==11.8.89", "11.8"),
        ("nvidia-cuda-nvcc-cu12==12.1.105", "12.1"),
        ("nvidia-cuda-nvcc-cu12==12.4.131", "12.4"),
        ("nvidia-cuda-nvcc-cu12==12.9.86", "12.9"),
        ("nvidia-cuda-crt==13.0.88", "13.0"),
    ],
)
def test_the_tables_and_the_header_of_each_release_agree(requirement: str, cuda: str) -> None:
    text = next(data for name, data in content(requirement).items() if name.endswith("crt/host_config.h"))
    bounds = host_config_h.parse_host_config(text.decode())
    row = base().cuda(version(cuda))
    assert bounds
    assert row
    assert bounds.gcc_max == row.gcc_max
    assert bounds.clang_max
