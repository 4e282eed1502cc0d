"""JIT readiness: what is wanted, what a build would find, and what is said about it; the tools are small scripts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import collect
from commands import inside
from cuenv.core.findings import Check, Finding
from cuenv.core.io.files import private_folder
from cuenv.core.versions import Capability, version
from cuenv.host.request import Request
from cuenv.prefix.activation_sh import Shell, follow_script
from cuenv.prefix.checked import CheckedEnvironment
from cuenv.prefix.checks import check_jit
from cuenv.prefix.inventory import Prefix, Wheel
from cuenv.prefix.io import toolchain as host_config_h
from cuenv.prefix.io.activation import activation_variables
from cuenv.prefix.io.prefix import find_prefix
from cuenv.prefix.io.toolchain import BuildTools, ccbin_option, compile_cuda, find_host_compilers, nvcc_host, read_nvcc
from cuenv.prefix.toolchain import hook as hook_scripts
from cuenv.prefix.toolchain.build_checks import (
    BuildNeeds,
    NeededHeader,
    build_needs,
    compiling_libraries,
    jit_findings,
    trial_findings,
    wheel_of,
)
from cuenv.prefix.toolchain.hook import VARIABLES, Hook
from cuenv.prefix.toolchain.toolchain import (
    BuildFolder,
    Compilation,
    CompilerBounds,
    CudaToolchain,
    HostCompiler,
    Nvcc,
    gencode,
    library_of,
)
from given import base, machine, package, solution
from trees import plant, program

HEADER = """
#if defined(__GNUC__)
#if __GNUC__ > 14
#error -- unsupported GNU version! gcc versions later than 14 are not supported!
#endif
#if defined(__clang__) && !defined(__ibmxl_vrm__)
#if (__clang_major__ >= 20) || (__clang_major__ < 3)
"""
# Scripts that answer as the real tools do, and make what they are asked for.
MAKES = """while [ "$#" -gt 1 ]; do if [ "$1" = -o ]; then : > "$2"; fi; shift; done"""
NVCC = (
    'case "$1" in --version) echo "Cuda compilation tools, release 12.9, V12.9.86"; exit;; '
    f'--list-gpu-code) echo "sm_70"; echo "sm_90"; echo sm_120; exit;; esac\n{MAKES}'
)
GXX = f'case "$1" in -dumpfullversion) echo 13.3.0; exit;; esac\n{MAKES}'
DEEPSPEED = "lib/python3.12/site-packages/deepspeed-0.16.9.dist-info"


def prefix(kind: Any = "conda", **more: Any) -> Prefix:
    return Prefix(path="/env", kind=kind, python="3.12", site_packages=(), **more)


def shop(**more: Any) -> CudaToolchain:
    """A workshop in which nothing is wrong."""
    both = [
        HostCompiler(role=d, asked="g++", via="PATH", path="/g++", kind="gcc", version="13.3.0")
        for d in ("C++", "nvcc")
    ]
    good: dict[str, Any] = {
        "nvcc": Nvcc(
            path="/env/bin/nvcc",
            via="PATH",
            release=version("12.9"),
            targets=tuple(map(Capability.parse, ("7.0", "9.0", "12.0"))),
            bounds=CompilerBounds(gcc_max=14, clang_max=19),
        ),
        "inside": ("/env/bin/nvcc",),
        "home": "/env",
        "include_path": ("/env/include",),
        "headers": {"cuda_runtime.h": ("/env/include",), "cusparse.h": ("/env/include",)},
        "links": frozenset({"cudart", "cusparse"}),
        "ninja": "/env/bin/ninja",
        "compilers": tuple(both),
        "folder": BuildFolder(path="/home/x", via="torch's own choice"),
    }
    return CudaToolchain(**{**good, **more})


WANTED = BuildNeeds(
    why=("deepspeed 0.16.9 compiles on first use",),
    headers=(
        NeededHeader(name="cuda_runtime.h", by=("nvcc",), holder="cuda-cudart-dev"),
        NeededHeader(name="cusparse.h", by=("deepspeed 0.16.9",), holder="libcusparse-dev"),
    ),
    tools=("gxx", "ninja"),
)


def said(
    found: CudaToolchain, where: Prefix | None = None, gpus: Iterable[str] = ("9.0",), wanted: BuildNeeds = WANTED
) -> list[Finding]:
    facts = machine(*gpus, driver="575.57.08")
    return list(jit_findings(wanted, found, where or prefix(), facts, base()))


def test_nothing_is_said_where_nothing_is_wrong() -> None:
    assert said(shop(), gpus=("7.0", "9.0", "12.0")) == []


@collect(
    ("change", "code", "words", "fix"),
    [
        (
            {"nvcc": None, "inside": ()},
            "CU250",
            "compiles on first use",
            "conda install -y -p /env --override-channels -c conda-forge cuda-nvcc",
        ),
        ({"nvcc": None}, "CU257", "does not find the environment's nvcc", "cuenv hook --prefix /env"),
        (
            {"nvcc": Nvcc(path="/x/bin/nvcc", via="CUDA_HOME", reason="no such file")},
            "CU251",
            "/x/bin/nvcc, to which CUDA_HOME leads, does not run: no such file",
            "cuenv hook --prefix /env",
        ),
        ({"headers": {"cuda_runtime.h": ("/env/include",)}}, "CU253", "libcusparse-dev contains it", "libcusparse-dev"),
        (
            {"headers": dict.fromkeys(("cuda_runtime.h", "cusparse.h"), ("/env/targets/x86_64-linux/include",))},
            "CU254",
            "cuda_runtime.h, cusparse.h lie in /env/targets/x86_64-linux/include, which builds",
            "cuenv hook --prefix /env",
        ),
        (
            {"ninja": None},
            "CU255",
            "ninja is not on PATH",
            "conda install -y -p /env --override-channels -c conda-forge ninja",
        ),
        (
            {"links": frozenset({"cusparse"}), "versioned": {"cudart": "/env/lib/libcudart.so.12"}},
            "CU258",
            "-lcudart finds no libcudart.so: /env/lib/libcudart.so.12 exists",
            "conda install -y -p /env --override-channels -c conda-forge cuda-cudart-dev",
        ),
        ({"links": frozenset({"cudart"})}, "CU258", "-lcusparse finds no", "libcusparse-dev"),
        ({"named": {"CUDA_HOME": "/a", "CUDA_PATH": "/b"}}, "CU257", "CUDA_PATH is /b", "export CUDA_PATH=/a"),
        (
            {"folder": BuildFolder(path="/ro", via="TORCH_EXTENSIONS_DIR", reason="/ro is not writable")},
            "CU259",
            "/ro (TORCH_EXTENSIONS_DIR): /ro is not writable",
            "export TORCH_EXTENSIONS_DIR",
        ),
        (
            {"activation": "activate.d: one of its scripts ends the shell"},
            "CU261",
            "ends the shell",
            "cuenv check --prefix /env --run",
        ),
    ],
)
def test_each_thing_that_is_wrong_is_said_with_its_fix(change: dict[str, Any], code: str, words: str, fix: str) -> None:
    found = said(shop(**change))
    assert [item.code for item in found] == [code]
    assert words in found[0].message
    assert fix in (found[0].fix or "")


def test_another_toolkit_than_the_environments_own_is_a_warning() -> None:
    found = said(shop(nvcc=replace(shop().nvcc, path="/usr/local/cuda/bin/nvcc", via="CUDA_HOME")))  # type: ignore[type-var]
    assert [(item.code, item.severity) for item in found] == [("CU257", "warning")]


@collect(
    ("kind", "number", "words"),
    [
        ("gcc", "15.1.0", "newer than gcc 14, the newest that nvcc 12.9 supports (its host_config.h)"),
        ("clang", "20.1.0", "newer than clang 19, the newest that nvcc 12.9 supports (its host_config.h)"),
        ("gcc", "5.4.0", "older than gcc 6, the oldest that nvcc 12.9 supports"),
        ("", None, "prints no version"),
        ("gcc", "14.2.0", ""),
        ("clang", "19.1.0", ""),
    ],
)
def test_host_compilers_within_the_range_of_nvcc(kind: str, number: str | None, words: str) -> None:
    one = HostCompiler(role="nvcc", asked="x", via="CC", path="/x", kind=kind, version=number)
    found = said(shop(compilers=(one, one)))
    assert [item.code for item in found] == (["CU256"] if words else [])
    assert all(words in item.message for item in found)


def test_a_host_compiler_that_is_not_there() -> None:
    found = said(shop(compilers=(HostCompiler(role="C++", asked="conda-c++", via="CXX"),)))
    assert "conda-c++ (from CXX) does not exist" in found[0].message


def test_without_a_header_of_nvcc_the_tables_give_the_range() -> None:
    bare = replace(shop().nvcc, bounds=None)  # type: ignore[type-var]
    new = HostCompiler(role="nvcc", asked="g++", via="PATH", path="/g++", kind="gcc", version="15.1.0")
    found = said(shop(nvcc=bare, compilers=(new,)))
    assert "newer than gcc 14, the newest that nvcc 12.9 supports (the cuenv tables)" in found[0].message
    assert said(shop(nvcc=bare)) == []


def test_gpus_that_nvcc_cannot_compile_for_by_itself_and_by_the_tables() -> None:
    found = said(shop(), gpus=("6.1", "9.0"))
    assert [(item.code, item.subject) for item in found] == [("CU252", "6.1")]
    assert said(shop(), gpus=("7.5",)) == []  # its code for 7.0 runs there
    mute = replace(shop().nvcc, targets=(), release=version("11.8"))  # type: ignore[type-var]
    assert [item.subject for item in said(shop(nvcc=mute), gpus=("9.0", "12.0"))] == ["12.0"]


def test_fixes_for_a_venv_name_wheels() -> None:
    venv = prefix("venv", wheels=(Wheel(name="nvidia-cuda-runtime-cu12", version="12.9.79", folder="/s"),))
    found = said(shop(headers={}, ninja=None, inside=()), venv)
    fixes = {item.subject: item.fix for item in found}
    assert fixes["cusparse.h"] == "uv pip install --python /env/bin/python nvidia-cusparse-cu12"
    again = "--force-reinstall --no-deps nvidia-cuda-runtime-cu12==12.9.79"
    assert fixes["cuda_runtime.h"] == f"uv pip install --python /env/bin/python {again}"
    assert fixes["ninja"] == "uv pip install --python /env/bin/python ninja"
    assert said(shop(nvcc=None, inside=()), venv)[0].fix == "install a CUDA 12 toolkit and export CUDA_HOME=DIR"
    old = prefix("venv", wheels=(Wheel(name="nvidia-cuda-runtime-cu11", version="11.8.89", folder="/s"),))
    assert said(shop(nvcc=None, inside=()), old)[0].fix == "install a CUDA 11 toolkit and export CUDA_HOME=DIR"
    newer = said(shop(nvcc=None, inside=()), prefix("venv"))[0].fix
    assert (newer or "").startswith(
        "uv pip install --python /env/bin/python 'nvidia-cuda-nvcc>=13', or install a CUDA toolkit and"
    )
    assert wheel_of("libcusolver-dev", 13) == "nvidia-cusolver"
    assert wheel_of("nccl", 13) == "nvidia-nccl-cu13"


def test_a_trial_that_fails_is_told_by_its_first_error() -> None:
    good = Compilation(what="a.o", command=("nvcc",), seconds=1.0)
    bad = replace(good, reason="exit status 1", tail=("a.cu(1): error: no", "1 error"))
    late = replace(good, reason="no answer within 5 s")
    found = trial_findings((good, bad, late))
    assert [item.message for item in found] == [
        "a.o does not compile: a.cu(1): error: no",
        "a.o does not compile: no answer within 5 s",
    ]


# What is wanted.


def deepspeed(number: str = "0.16.9", **more: Any) -> Prefix:
    return prefix(wheels=(Wheel(name="deepspeed", version=number, folder="/s", installer="pip"),), **more)


def test_a_library_that_compiles_on_first_use_is_a_reason() -> None:
    assert [row.package for _, row in compiling_libraries(deepspeed(), base())] == ["deepspeed"]
    found = build_needs(deepspeed(), base(), nvcc=False, torch_includes=["cusparse.h"])
    assert found.why == ("deepspeed 0.16.9 compiles on first use",)
    by = {item.name: (item.by, item.holder) for item in found.headers}
    assert by["cusparse.h"] == (("torch", "deepspeed 0.16.9"), "libcusparse-dev")
    assert {"cublas_v2.h", "cusolverDn.h", "curand.h", "cuda_runtime.h"} <= set(by)
    assert "ninja" in found.tools


@collect(
    "nothing",
    [
        {"prefix": deepspeed("no version")},
        {"prefix": deepspeed(), "built": frozenset({"deepspeed"})},
        {"prefix": prefix(wheels=(Wheel(name="bitsandbytes", version="0.45.5", folder="/s"),))},
        {"prefix": prefix(), "profile": Request(dev=False)},
        {"prefix": prefix(), "profile": Request(cpu=True)},
        {"prefix": prefix(), "solution": solution(package("pytorch", "2.12.0"))},
    ],
)
def test_what_compiles_nothing_is_no_reason(nothing: dict[str, Any]) -> None:
    where = nothing.pop("prefix")
    assert build_needs(where, base(), nvcc=False, **nothing).why == ()


def test_a_lock_a_profile_and_an_nvcc_are_reasons() -> None:
    locked = solution(package("cuda-nvcc", "12.9.86"))
    found = build_needs(prefix(), base(), nvcc=True, solution=locked, profile=Request(name="lab"))
    assert found.why == (
        "the environment contains nvcc",
        "the lock contains cuda-nvcc 12.9.86",
        "the profile lab requests a compiler",
    )
    assert [item.name for item in found.headers] == ["cuda_runtime.h"]


def test_headers_that_an_installed_package_promises_are_wanted() -> None:
    found = build_needs(prefix(conda=(package("nccl", "2.27"), package("libcusparse", "12"))), base(), nvcc=True)
    assert {"nccl.h": ("nccl",)}.items() <= {item.name: item.by for item in found.headers}.items()
    assert "cusparse.h" not in {item.name for item in found.headers}


# Foreign text.


def test_the_range_in_host_config() -> None:
    assert host_config_h.parse_host_config(HEADER) == CompilerBounds(gcc_max=14, clang_max=19)
    assert host_config_h.parse_host_config("#if __GNUC__ >= 12\n") == CompilerBounds(gcc_max=11)
    assert host_config_h.parse_host_config("") is None
    assert host_config_h.parse_host_config("/* __GNUC__ > 14 */") is None


@given(st.text(alphabet="#if _GNUCdefined()clang><=0123456789\n \t|&!"))
def test_any_text_is_a_range_or_none(text: str) -> None:
    found = host_config_h.parse_host_config(text)
    assert found is None or 0 <= (found.gcc_max or 0) <= 999


@collect(
    ("flags", "found"),
    [
        ("", None),
        (" -ccbin=/a/g++", "/a/g++"),
        ("-O2 -ccbin '/a b/g++' -v", "/a b/g++"),
        ("--compiler-bindir /x -ccbin y", "y"),
        ("--compiler-bindir=/x", "/x"),
        ("-ccbin", None),
        ("-ccbin 'x", "'x"),
    ],
)
def test_the_host_compiler_in_the_flags_of_nvcc(flags: str, found: str | None) -> None:
    assert ccbin_option(flags) == found


def test_which_host_compiler_nvcc_is_told_to_call() -> None:
    told = {"NVCC_CCBIN": "a", "NVCC_PREPEND_FLAGS": "-ccbin b", "CC": "c", "NVCC_APPEND_FLAGS": "-ccbin d"}
    for name, asked in reversed(
        [(("NVCC_CCBIN"), "a"), ("NVCC_PREPEND_FLAGS", "b"), ("CC", "c"), ("NVCC_APPEND_FLAGS", "d")]
    ):
        assert nvcc_host(told) == (asked, name)
        del told[name]
    assert nvcc_host(told) == ("gcc", "PATH")


def test_host_compilers_as_their_variables_name_them(tmp_path: Path) -> None:
    gxx = program(tmp_path / "bin dir" / "my g++", GXX)
    clang = program(tmp_path / "clang++", '[ "$#" = 1 ] && echo 18.1.3')
    program(tmp_path / "gcc", "exit 1")
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    one, two = find_host_compilers({**environ, "CXX": str(gxx), "CC": f"ccache {clang}"}, running=True)
    assert (one.path, one.kind, one.version, one.via) == (str(gxx), "gcc", "13.3.0", "CXX")
    assert (two.path, two.kind, two.version) == (str(clang), "clang", "18.1.3")
    one, two = find_host_compilers({**environ, "CXX": "no-such-compiler", "CC": str(tmp_path)}, running=True)
    assert (one.path, one.asked) == (None, "no-such-compiler")
    assert (two.path, two.version) == (f"{tmp_path}/gcc", None)


def test_machine_code_for_each_capability() -> None:
    assert gencode([Capability(7, 0), Capability(12, 0)]) == (
        "-gencode=arch=compute_70,code=sm_70",
        "-gencode=arch=compute_120,code=sm_120",
    )
    assert [library_of(name) for name in ("cublas_v2.h", "cusparse.h", "cuda_runtime.h", "cuda_fp16.h")] == [
        "cublas",
        "cusparse",
        "cudart",
        None,
    ]


# What activation leaves.


@pytest.fixture
def env(tmp_path: Path) -> Path:
    """A conda environment with small scripts for its tools and one header of CUDA where conda-forge puts them."""
    root = tmp_path / "env"
    program(root / "bin/nvcc", NVCC)
    program(root / "bin/ninja", "echo 1.12")
    program(root / "bin/conda-g++", GXX)
    target = "targets/x86_64-linux"
    plant(
        root,
        {
            "conda-meta/history": "",
            f"{target}/include/cuda_runtime.h": "",
            f"{target}/include/crt/host_config.h": HEADER,
            f"{target}/lib/libcudart.so": "",
            "lib/libcudart.so": "",
            "etc/conda/activate.d/gxx.sh": 'echo hello\nexport CXX=conda-g++ CC="$CONDA_PREFIX/bin/conda-g++"\n',
        },
    )
    return root


def environ(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder)}


def checked(root: Path, folder: Path, *gpus: str, **more: str) -> Check:
    return check_jit(subject_of(root, folder, *gpus, **more))


def only_read(root: Path, folder: Path, *gpus: str, **more: str) -> Check:
    """The same without ``--run``."""
    return check_jit(replace(subject_of(root, folder, *gpus, **more), running=False))


def subject_of(root: Path, folder: Path, *gpus: str, **more: str) -> CheckedEnvironment:
    return CheckedEnvironment(
        prefix=find_prefix(root),
        facts=machine(*(gpus or ("9.0",)), driver="575.57.08"),
        knowledge=base(),
        environ={**environ(folder), **more},
        running=True,
    )


@pytest.mark.parametrize("running", [True, False])
def test_activation_is_followed(env: Path, tmp_path: Path, running: bool) -> None:
    plant(
        env,
        {
            "etc/conda/activate.d/~last.sh": 'export CPATH="a\nb" CXX="$CXX -x"\nfalse\n',
            "etc/conda/activate.d/x.fish": "!",
        },
    )
    kept = {"MINE": "1", "bad=": "x", "n": 3, "CUDA_HOME": "***unset***"}
    (env / "conda-meta/state").write_text(json.dumps({"env_vars": kept}))
    found, reason = activation_variables(find_prefix(env), {**environ(tmp_path), "SECRET": "x"}, running=running)
    assert reason is None
    assert found["CXX"] == "conda-g++ -x"
    assert found["CPATH"] == "a\nb"
    assert found["MINE"] == "1"
    assert found["PATH"].startswith(f"{env}/bin:")
    assert not {"SECRET", "bad=", "n", "SHLVL", "CUDA_HOME"} & set(found)


def test_an_environment_that_is_active_is_taken_as_it_is(env: Path, tmp_path: Path) -> None:
    mine = {"PATH": f"{env}/bin:/usr/bin", "HOME": str(tmp_path), "CONDA_PREFIX": str(env), "CXX": "mine"}
    assert activation_variables(find_prefix(env), mine, running=False) == (mine, None)
    halfway, _ = activation_variables(find_prefix(env), {**mine, "PATH": "/usr/bin"}, running=False)
    assert (halfway["CXX"], halfway["PATH"]) == ("conda-g++", f"{env}/bin:/usr/bin")


def test_what_belongs_to_another_active_environment_is_left_out(env: Path, tmp_path: Path) -> None:
    other = {
        "CONDA_PREFIX": "/other",
        "PATH": "/other/bin:/usr/bin:/otherwise",
        "CUDA_HOME": "/other",
        "CPATH": "/mine",
    }
    found, _ = activation_variables(find_prefix(env), {**environ(tmp_path), **other}, running=False)
    assert found["PATH"] == f"{env}/bin:/usr/bin:/otherwise"
    assert "CUDA_HOME" not in found
    assert found["CPATH"] == "/mine"


def test_a_script_that_ends_the_shell_is_a_warning(env: Path, tmp_path: Path) -> None:
    plant(env, {"etc/conda/activate.d/bad.sh": "exit 0\n"})
    check = checked(env, tmp_path)
    assert "one of its scripts ends the shell" in next(item.message for item in check.findings if item.code == "CU261")
    check = only_read(env, tmp_path)
    assert "bad.sh:1 ends the shell" in next(item.message for item in check.findings if item.code == "CU261")


def test_variables_of_packages_are_read_as_conda_reads_them(env: Path, tmp_path: Path) -> None:
    """A package may keep them in env_vars.d; what ``variables:`` of a file says goes over that."""
    plant(
        env,
        {
            "etc/conda/env_vars.d/a.json": '{"CUDA_HOME": "/of/a/package", "MINE": "1"}',
            "etc/conda/env_vars.d/b.json": "[1",
            "conda-meta/state": '{"env_vars": {"MINE": "2"}}',
        },
    )
    found, _ = activation_variables(find_prefix(env), environ(tmp_path), running=False)
    assert (found["CUDA_HOME"], found["MINE"]) == ("/of/a/package", "2")


# Without --run nothing of the environment runs, whatever it is called.


def traps(root: Path, mark: Path) -> None:
    """Programs, scripts and a Python of an environment that leave a mark when any of them is run."""
    told = f'echo "$0" >> {mark}\n'
    names = (
        "nvcc",
        "gcc",
        "g++",
        "c++",
        "cc",
        "clang",
        "ninja",
        "bash",
        "sh",
        "env",
        "nvidia-smi",
        "ldconfig",
        "ptxas",
    )
    for name in (*names, "python", "python3", "python3.12", "x86_64-conda-linux-gnu-c++", "conda-g++", "uname", "ldd"):
        program(root / "bin" / name, told)
    scripts = ("a.sh", "activate-gcc_linux-64.sh", "~last.sh", "z.fish")
    plant(root, {f"etc/conda/activate.d/{name}": f'{told}eval "{told}"\nexport X=$({told})\n' for name in scripts})
    plant(root, {"lib/python3.12/site-packages/sitecustomize.py": f"open({str(mark)!r}, 'a').write('python')\n"})


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize(
    "words", [("check", "--prefix"), ("hook", "--print", "--prefix"), ("hook", "--prefix"), ("check", "-v", "--prefix")]
)
def test_what_only_reads_runs_nothing_of_an_environment(
    env: Path, tmp_path: Path, words: tuple[str, ...], active: bool
) -> None:
    mark = tmp_path / "mark"
    traps(env, mark)
    (env / "conda-meta/state").write_text(json.dumps({"env_vars": {"CXX": str(env / "bin/c++"), "CC": "gcc"}}))
    here = {"HOME": str(tmp_path), "PATH": f"{env}/bin:{os.environ['PATH']}", "CUDA_HOME": str(env)}
    here |= {"CONDA_PREFIX": str(env)} if active else {"CONDA_PREFIX": ""}
    host = () if active else ("--gpu", "9.0", "--driver", "575.57.08")
    result = inside(*words, env, *host, folder=tmp_path, **here)
    assert result.returncode in (0, 1), result.stderr
    assert not mark.exists(), mark.read_text()
    activation_variables(find_prefix(env), {"PATH": os.environ["PATH"]}, running=True)
    assert mark.exists()  # the traps are real ones


def test_a_program_elsewhere_that_an_environment_names_is_not_run_either(env: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for name in ("gcc", "c++"):
        program(tmp_path / "elsewhere" / name, f"touch {mark}")
    program(tmp_path / "elsewhere/cuda/bin/nvcc", f"touch {mark}")
    told = {
        "CXX": f"{tmp_path}/elsewhere/c++",
        "CC": f"{tmp_path}/elsewhere",
        "CUDA_HOME": f"{tmp_path}/elsewhere/cuda",
    }
    (env / "etc/conda/activate.d/gxx.sh").unlink()
    (env / "conda-meta/state").write_text(json.dumps({"env_vars": told}))
    found = only_read(env, tmp_path)
    assert {"CU251", "CU256"} <= set(codes(found))
    assert {item.severity for item in found.findings if item.code in ("CU251", "CU256")} == {"warning"}
    assert not mark.exists()


def test_what_activation_sets_and_only_a_run_could_tell_is_said_and_makes_nothing_certain(
    env: Path, tmp_path: Path
) -> None:
    plant(env, {"etc/conda/activate.d/gxx.sh": "export CPATH=$(find / -name cuda)\n"})
    found = only_read(env, tmp_path)
    assert {(item.code, item.severity) for item in found.findings} >= {("CU254", "warning"), ("CU261", "warning")}
    told = next(item for item in found.findings if item.code == "CU261")
    assert "CPATH is set by gxx.sh:1: it was read, not run" in told.message
    assert told.fix == f"cuenv check --prefix {env} --run"


def test_the_hook_that_was_written_is_read_again(env: Path, tmp_path: Path) -> None:
    for home in ("", "targets/a 'b'"):
        hook = Hook(home=home, includes=("t/include", "t/include/it's"), libraries=("t/lib",), arch_list="9.0")
        text = hook_scripts.activate_script(hook)
        assert hook_scripts.parse_hook(text) == hook
        assert hook_scripts.parse_hook(text + "rm -r /\n") is None
        plant(env, {"etc/conda/activate.d/~cuenv_activate.sh": text})
        read, reason = activation_variables(find_prefix(env), {**environ(tmp_path), "CPATH": "/mine"}, running=False)
        ran, _ = activation_variables(find_prefix(env), {**environ(tmp_path), "CPATH": "/mine"}, running=True)
        assert reason is None
        assert {name: read[name] for name in VARIABLES} == {name: ran[name] for name in VARIABLES}


# Versions by files alone.


def test_the_release_of_nvcc_is_read_from_the_files_around_it(tmp_path: Path) -> None:
    def told(root: Path) -> str:
        program(root / "bin/nvcc", "exit 1")
        return str(read_nvcc(str(root), "PATH", running=False).release)

    files = {
        "json/version.json": '{"cuda": {"version": "12.6.3"}}',
        "header/include/cuda_runtime_api.h": "#define CUDART_VERSION  11080\n",
        "conda/conda-meta/cuda-nvcc-tools-12.4.131-h1_0.json": "{}",
        "site/nvidia_cuda_nvcc-13.2.51.dist-info/METADATA": "",
        "site/nvidia/cu13/include/cuda_runtime_api.h": "#define CUDART_VERSION 13000\n",
    }
    plant(tmp_path, files)
    names = ("json", "header", "conda", "site/nvidia/cu13")
    assert [told(tmp_path / name) for name in names] == ["12.6", "11.8", "12.4", "13.2"]
    assert told(tmp_path / "nothing") == "None"


@collect(
    ("name", "folders", "number"),
    [
        ("x86_64-conda-linux-gnu-c++", ["lib/gcc/x86_64-conda-linux-gnu/13.3.0"], "13.3.0"),
        ("gcc", ["lib/gcc/x86_64-redhat-linux/11"], "11"),
        ("x86_64-linux-gnu-g++-12", ["lib/gcc/x86_64-linux-gnu/12", "lib/gcc/x86_64-linux-gnu/13"], "12"),
        ("gcc", ["lib/gcc/x86_64-linux-gnu/12", "lib/gcc/x86_64-linux-gnu/13"], None),
        ("gcc", [], None),
        ("clang-18", ["lib/clang/18", "lib/clang/19"], "18"),
        ("clang++", ["lib/clang/14.0.6"], "14.0.6"),
        ("icpx", ["lib/gcc/x86_64-linux-gnu/12"], None),
        ("gcc", ["lib/gcc/x86_64-linux-gnu/12; rm"], None),
    ],
)
def test_the_version_of_a_host_compiler_by_its_folders(
    tmp_path: Path, name: str, folders: list[str], number: str | None
) -> None:
    path = tmp_path / "bin" / name
    path.parent.mkdir()
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    (tmp_path / "c++").symlink_to(path)
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    found, _ = find_host_compilers({"CXX": str(tmp_path / "c++"), "PATH": ""}, running=False)
    assert (found.version, found.unread) == (number, number is None)
    path.write_bytes(b"#!/bin/sh\nexec something-else\n")
    found, _ = find_host_compilers({"CXX": str(path), "PATH": ""}, running=False)
    assert found.version is None  # whatever it calls


# The scripts of activate.d, as a shell follows them.

TOOLCHAIN = """
_tc_activation() {
  local thing
  for thing in "$@"; do
    eval oldval="\\${${thing%%,*}:-}"
    if [ -n "${oldval:-}" ]; then eval export "CONDA_BACKUP_${thing%%,*}='${oldval}'"; fi
    eval export "'${thing%%,*}=${thing#*,}'"
  done
}
_tc_activation "CC,${CONDA_PREFIX}/bin/cc" \\
  "CXX,${CONDA_PREFIX}/bin/c++" "CPPFLAGS,-O2${CPPFLAGS:+ }${CPPFLAGS:-}"
"""
SCRIPTS = (
    "export CPATH=/a CC='x y' CXX=\"$HOME/c\"",
    "CPATH=/a; export CPATH\nunset CC",
    'if [ -z "${CC+x}" ]; then export CC=one; else CC=two; fi',
    'if [[ ! -z "${NOPE+x}" ]]\nthen\n  export CC=1\nelif [ "${A:-0}" = 1 ]; then CC=2\nelse export CC=3\nfi',
    '[ "${CONDA_BUILD:-0}" = "1" ] && export CC=built || export CC=plain',
    "# a comment; export CC=no\nexport CC=yes # and one more",
    "false && export CC=1\ntrue || export CC=2\n! false && export CC=3",
    "f() { export CC=never; }\nexport CXX=after",
    "echo 'export CC=no' > /dev/null 2>&1; (export CC=no) || true",
    'export CPATH="/b${CPATH:+:$CPATH}" LIBRARY_PATH="${LIBRARY_PATH:-/c}"',
    'if [ -d "$HOME" ] && [ ! -f "$HOME/x" ]; then export CC=there; fi',
    'NVCC_PREPEND_FLAGS="${NVCC_PREPEND_FLAGS} -ccbin=${CXX}"\nexport NVCC_PREPEND_FLAGS',
    'if [ "$CC" != a ]; then\n if true; then export CC=in; fi\nfi; return 0\nexport CC=late',
    TOOLCHAIN,
    "export CC=\\\n/x/cc\nexport CXX=a\\ b",
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_that_is_read_sets_what_it_sets_when_it_is_run(env: Path, tmp_path: Path, script: str) -> None:
    (env / "etc/conda/activate.d/gxx.sh").write_text(f"{script}\n")
    mine = {**environ(tmp_path), "CC": "a", "CPATH": "/mine"}
    read, reason = activation_variables(find_prefix(env), mine, running=False)
    ran, failed = activation_variables(find_prefix(env), mine, running=True)
    if "(export" not in script:  # a shell inside of the shell is not followed, and said
        assert (reason, failed) == (None, None)
        drop = {"CONDA_BACKUP_CC", "CONDA_BACKUP_CPPFLAGS", "LC_ALL", "LANGUAGE", "_"}
        assert {k: v for k, v in read.items() if k not in drop} == {k: v for k, v in ran.items() if k not in drop}
    else:
        assert reason


@collect(
    ("script", "told"),
    [
        ("export CC=$(which cc)", "CC is set by gxx.sh:1"),
        ("export CC=~/bin/cc", "CC is set by gxx.sh:1"),
        (': "${CC:=x}"; : "${CXX=y}"', "CC is set by gxx.sh:1"),
        ("export -n CC", "CC is set by gxx.sh:1"),
        ("unset -f CC", "CC is set by gxx.sh:1"),
        ("declare -x CC=x", "CC is set by gxx.sh:1"),
        ("CC+=x", "CC is set by gxx.sh:1"),
        ("export CC=$'\\x41'", "CC is set by gxx.sh:1"),
        ("\nfor i in 1 2; do\n  export CC=$i\ndone", "CC is set by gxx.sh:3"),
        ("eval 'CC=x'", "gxx.sh:1 may set any variable"),
        (". /some/file", "gxx.sh:1 may set any variable"),
        ("if some-program; then export CXX=1; fi", "CXX is set by gxx.sh:1"),
        ("some-program && CC=1", "CC is set by gxx.sh:1"),
        ("read -r CC < /etc/passwd", "CC is set by gxx.sh:1"),
        ("f() { CC=x; }\nf", "CC is set by gxx.sh:1"),
        ("$DO CC=x", "gxx.sh:1 may set any variable"),
        ("case $CC in a) CC=b;; esac", "CC is set by gxx.sh:1"),
        ("cat <<END\nx\nEND", "gxx.sh may set any variable"),
        ("if true; then", "gxx.sh may set any variable"),
        ("'", "gxx.sh may set any variable"),
    ],
)
def test_what_a_script_sets_and_cannot_be_read_is_told_with_its_line(
    env: Path, tmp_path: Path, script: str, told: str
) -> None:
    (env / "etc/conda/activate.d/gxx.sh").write_text(f"{script}\n")
    found, reason = activation_variables(find_prefix(env), {**environ(tmp_path), "CC": "a", "CXX": "b"}, running=False)
    assert told in (reason or "")
    assert all(name not in found for name in ("CC", "CXX") if f"{name} is set by" in (reason or ""))


WORDS = (
    "x",
    "'a b'",
    '"$A"',
    '"${B}"',
    "${C:-d}",
    '"${A:+y}"',
    "${B+z}",
    "a\\ b",
    '"$A:$B"',
    "${NOPE}",
    "'$A'",
    '"a\\b"',
)
TESTS = ('[ -n "$A" ]', "[[ -z $B ]]", '[ "$A" != "$B" ]', "[[ ! -v C ]]", "true", "! false", "ls /none", "[ $A = $C ]")


def statement(pick: Random, depth: int = 0) -> str:
    """A piece of a script, of what is read and of what is not."""
    one = f"{pick.choice('ABC')}={pick.choice(WORDS)}"
    test, other = pick.choice(TESTS), pick.choice(TESTS)
    if depth >= 3:
        return one

    def inner() -> str:
        return statement(pick, depth + 1)

    return pick.choice(
        (
            *(
                f"export {one}",
                one,
                f"export {one} B=$A",
                f"export {pick.choice('ABC')}",
                f"unset {pick.choice('ABC')}",
            ),
            *(f"{test} && export {one}", f"{test} || {one}", f"{{ {inner()}; {inner()}; }}", f"{test} | export {one}"),
            f"if {test}; then\n{inner()}\nelif {other}; then {inner()}\nelse {inner()}; fi",
            *(f"for i in 1 2; do {inner()}; done", f"f() {{ {inner()}; }}; f", f"echo {one} > /dev/null # {one}\n:"),
        )
    )


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
@given(st.integers(min_value=0, max_value=10**9))
def test_what_is_read_of_a_script_is_what_bash_makes_of_it(seed: int) -> None:
    """Whatever it is made of: a value that is told is the one that running it would give."""
    pick = Random(seed)
    text = "\n".join(statement(pick) for _ in range(pick.randint(1, 5)))
    before = {"A": "1", "B": "b b", "PATH": os.environ["PATH"]}
    shell = Shell(values=dict(before), exported=set(before), file_test=lambda _asked, _path: False)
    follow_script(text, "x.sh", shell)
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{text}\nprintf '\\0'; command -p env -0"],
        env=before,
        capture_output=True,
        check=True,
    )
    ran = dict(item.decode().partition("=")[::2] for item in done.stdout.split(b"\0")[1:] if item)
    if shell.anything is None:
        for name in {"A", "B", "C"} - shell.unknown.keys():
            assert (shell.values.get(name) if name in shell.exported else None) == ran.get(name), text


@example("function _tc_activation() { echo CONDA_BACKUP_X; }\n_tc_activation activate\n")
@given(st.text(alphabet="if then fi;&|(){}[]$\"'\\=\nCX `#<>!-", max_size=60))
def test_any_text_is_read_to_its_end(text: str) -> None:
    shell = Shell(values={}, exported=set(), file_test=lambda _asked, _path: False)
    follow_script(text, "x.sh", shell)
    assert all(value is None or isinstance(value, str) for value in shell.values.values())


# The check as a whole, with tools that are scripts.


def codes(check: Check) -> list[str]:
    return [item.code for item in check.findings]


def test_the_check_finds_hidden_headers_and_the_hook_mends_it(env: Path, tmp_path: Path) -> None:
    before = checked(env, tmp_path)
    assert codes(before) == ["CU254"]
    plant(env, {"etc/conda/activate.d/~z.sh": 'export CPATH="$CONDA_PREFIX/targets/x86_64-linux/include"\n'})
    after = checked(env, tmp_path, "7.0", "9.0")
    assert after.status == "ok", after
    assert "nvcc 12.9 with gcc 13.3.0 compiled a program with 1 CUDA headers for 7.0, 9.0" in after.says


def test_a_torch_that_looks_into_targets_needs_no_hook(env: Path, tmp_path: Path) -> None:
    """conda-forge's torch of 2026 does; what counts is the file that is there."""
    text = "#" * 200_000 + '\npath = os.path.join(\n    conda_prefix, "targets", "x86_64-linux", "include"\n)\n'
    plant(env, {"lib/python3.12/site-packages/torch/utils/cpp_extension.py": text})
    assert checked(env, tmp_path).status == "ok"


def test_a_library_from_pip_makes_its_headers_wanted(env: Path, tmp_path: Path) -> None:
    for name in ("nvcc", "ninja"):
        (env / "bin" / name).unlink()
    assert checked(env, tmp_path).status == "skip"
    plant(
        env,
        {
            f"{DEEPSPEED}/METADATA": "",
            f"{DEEPSPEED}/RECORD": "deepspeed/__init__.py,,\n",
            f"{DEEPSPEED}/INSTALLER": "pip",
        },
    )
    here = {"PATH": str(tmp_path / "nothing"), "CUDA_HOME": str(tmp_path / "nowhere")}
    found = checked(env, tmp_path, **here)
    assert {"CU251", "CU253", "CU255"} <= set(codes(found))
    assert {"cusparse.h", "curand.h"} <= {item.subject for item in found.findings}
    (env / DEEPSPEED / "RECORD").write_text("deepspeed/ops/op.cpython-312-x86_64-linux-gnu.so,,\n")
    assert checked(env, tmp_path, **here).status == "skip"


def test_a_compiler_that_fails_crashes_or_hangs_is_a_finding(
    env: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(env, {"etc/conda/activate.d/~z.sh": 'export CPATH="$CONDA_PREFIX/targets/x86_64-linux/include"\n'})
    ask = NVCC.removesuffix(MAKES)
    program(env / "bin/nvcc", ask + 'echo "probe.cu(1): \x1b[31merror: bad"; exit 2')
    found = checked(env, tmp_path).findings
    assert [item.code for item in found] == ["CU260"]
    assert "error: bad" in found[0].message
    assert "\x1b" not in found[0].message
    program(env / "bin/nvcc", ask + "kill -SEGV $$")
    assert "killed by signal 11" in checked(env, tmp_path).findings[0].message
    program(env / "bin/nvcc", ask)
    assert "it did not write probe.o" in checked(env, tmp_path).findings[0].message
    program(env / "bin/nvcc", "while :; do :; done")
    monkeypatch.setattr("cuenv.prefix.io.toolchain.SECONDS", 0.2)
    with private_folder("test") as folder:
        follow_script = folder / "x.cu"
        follow_script.touch()
        slow = compile_cuda(follow_script, folder / "x.o", BuildTools(nvcc=str(env / "bin/nvcc")))
    assert slow.reason == "no answer within 0.2 s"
    assert not folder.exists()


def test_an_nvcc_that_answers_nonsense_is_one_that_does_not_run(env: Path, tmp_path: Path) -> None:
    program(env / "bin/nvcc", "echo release 99999.1")
    found = checked(env, tmp_path)
    assert "CU251" in codes(found)
    assert found.says.startswith("not tried, because no compiler runs")


def test_pipes_that_nobody_writes_to_hold_nothing_up(env: Path, tmp_path: Path) -> None:
    site = env / "lib/python3.12/site-packages"
    names = (
        "torch/utils/cpp_extension.py",
        "torch/include/ATen/cuda/CUDAContext.h",
        "deepspeed-0.16.9.dist-info/RECORD",
    )
    config = env / "targets/x86_64-linux/include/crt/host_config.h"
    config.unlink()
    plant(env, {f"{DEEPSPEED}/METADATA": ""})
    for path in (*(site / name for name in names), config, env / "conda-meta/state"):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
    assert "CU253" in codes(checked(env, tmp_path))


def test_the_folder_of_extensions(env: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = checked(env, tmp_path, TORCH_EXTENSIONS_DIR=str(tmp_path / "file/x"))
    assert "is not a folder" in next(item.message for item in found.findings if item.code == "CU259")
    assert "CU259" not in codes(checked(env, tmp_path, TORCH_EXTENSIONS_DIR=str(tmp_path / "made/later")))


def test_a_torch_without_cuda_compiles_nothing_for_a_gpu(tmp_path: Path) -> None:
    """Whatever lies beside it: its builder refuses CUDA sources."""
    site = "lib/python3.12/site-packages"
    plant(
        tmp_path,
        {
            "pyvenv.cfg": "home = /usr/bin\n",
            "bin/python3.12": "",
            f"{site}/torch/version.py": "__version__ = '2.13.0+cpu'\ncuda = None\n",
            f"{site}/torch-2.13.0.dist-info/METADATA": "Name: torch\nVersion: 2.13.0\n",
            f"{site}/deepspeed-0.16.9.dist-info/METADATA": "Name: deepspeed\nVersion: 0.16.9\n",
        },
    )
    found = check_jit(
        CheckedEnvironment(prefix=find_prefix(tmp_path), facts=machine("8.0"), knowledge=base(), environ={})
    )
    assert (found.status, found.findings) == ("skip", ())
    assert "CPU build" in found.says
