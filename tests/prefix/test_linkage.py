"""Check 5 on environments of small real libraries: what it foretells is what Python then meets."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import cuenv
from cases import collect
from cuenv.binary.io.binaries import ElfFiles
from cuenv.binary.loader import Process
from cuenv.core.findings import Check, Finding
from cuenv.host.facts import THIS_MACHINE, Driver, HostFacts, Libc, glibc
from cuenv.prefix.checked import CheckedEnvironment
from cuenv.prefix.io.linkage_plan import library_packages, linkage_plan, loader_facts
from cuenv.prefix.io.prefix import find_prefix
from cuenv.prefix.linkage.check import check_linkage
from cuenv.prefix.linkage.opening import demangled, is_torch_symbol, open_all
from given import base
from linkage_trees import compile_library, needs_gcc
from thorough import examples

pytestmark = needs_gcc
RELEASE = f"{sys.version_info.major}.{sys.version_info.minor}"
OPEN = "import ctypes, sys; [ctypes.CDLL(path, ctypes.RTLD_GLOBAL) for path in sys.argv[1:]]"
C10 = "_ZN3c1010TensorImpl6decrefEv"
OLD_C10 = "_ZNK3c105Error4whatEv"


@dataclass
class Env:
    """An environment that holds a torch of three small libraries."""

    path: Path

    @property
    def site(self) -> Path:
        return self.path / "lib" / f"python{RELEASE}" / "site-packages"

    def opens(self, *paths: Path, **environ: str) -> str:
        """What its Python says when it opens the files one after the other; empty when all is well."""
        command: list[str | Path] = [self.path / "bin/python3", "-c", OPEN, *paths]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        return done.stderr.strip().rsplit("\n", 1)[-1]

    def check(self, facts: HostFacts | None = None, /, **environ: str) -> Check:
        host = facts or HostFacts(label=THIS_MACHINE, platform="linux-64")
        return check_linkage(
            CheckedEnvironment(prefix=find_prefix(self.path), facts=host, knowledge=base(), environ=environ)
        )

    def only(self, **environ: str) -> Finding:
        """The one finding that there is."""
        (found,) = self.check(**environ).findings
        return found


def defines(*names: str) -> str:
    return "".join(
        f'int f{i}(void) __asm__("{name}"); int f{i}(void) {{ return {i}; }}\n' for i, name in enumerate(names)
    )


def calls(*names: str) -> str:
    declared = "".join(f'int g{i}(void) __asm__("{name}");\n' for i, name in enumerate(names))
    return declared + "int run(void) { return " + " + ".join(f"g{i}()" for i in range(len(names))) + "; }\n"


@pytest.fixture
def env(tmp_path: Path) -> Env:
    made = Env(tmp_path / "env")
    (made.path / "bin").mkdir(parents=True)
    (made.path / "pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\n")
    for name in ("python", "python3", f"python{RELEASE}"):
        (made.path / "bin" / name).symlink_to(Path(sys.executable).resolve())
    torch = made.site / "torch"
    (torch / "lib").mkdir(parents=True)
    (torch / "__init__.py").write_text("")
    (torch / "version.py").write_text("__version__ = '2.5.1'\ncuda = '12.4'\n")
    c10 = compile_library(torch / "lib/libc10.so", defines(C10), soname="libc10.so")
    compile_library(torch / "lib/libtorch_global_deps.so", soname="libtorch_global_deps.so")
    compile_library(torch / "_C.so", calls(C10), needs=[c10], runpath="$ORIGIN/lib")
    return made


def wheel(env: Env, folder: str, name: str, source: str = "", **options: object) -> Path:
    path = env.site / "nvidia" / folder / "lib" / name
    return compile_library(path, source, soname=name, **options)  # type: ignore[arg-type]  # passed on


def test_what_is_in_order_is_ok_and_opens(env: Env) -> None:
    found = env.check()
    assert (found.status, found.findings) == ("ok", ())
    assert "3 files opened" in found.says
    assert env.opens(env.site / "torch/lib/libtorch_global_deps.so", env.site / "torch/_C.so") == ""


def test_without_anything_to_open_it_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "conda-meta").mkdir()
    assert Env(tmp_path).check().status == "skip"


def test_a_missing_library_is_named_with_who_needs_it_and_what_brings_it(env: Env) -> None:
    cusparse = wheel(env, "cusparse", "libcusparse.so.12")
    extension = compile_library(
        env.site / "torch/_C.so", needs=[cusparse], runpath="$ORIGIN/lib:$ORIGIN/../nvidia/cusparse/lib"
    )
    assert env.check().status == "ok"
    cusparse.unlink()
    (env.site / "nvidia_nccl_cu12-2.dist-info").mkdir()
    (env.site / "nvidia_nccl_cu12-2.dist-info/METADATA").write_text("")
    found = env.only()
    assert (found.code, found.severity, found.subject) == ("CU230", "error", "libcusparse.so.12")
    assert "(torch/_C.so needs it), so `import torch` fails" in found.message
    pip = f"uv pip install --python {env.path}/bin/python"  # the environment has no pip of its own
    assert found.fix == f"{pip} --force-reinstall --no-deps --upgrade nvidia-cusparse-cu12"
    assert any("RUNPATH of _C.so" in line and "/nvidia/cusparse/lib" in line for line in found.evidence)
    assert "libcusparse.so.12: cannot open shared object file" in env.opens(extension)


def test_a_library_that_lies_where_nothing_looks_is_found_beside_what_is_looked_in(env: Env) -> None:
    """The command keeps what LD_LIBRARY_PATH holds already."""
    cusparse = wheel(env, "cusparse", "libcusparse.so.12")
    compile_library(env.site / "torch/_C.so", needs=[cusparse], runpath="$ORIGIN/lib")
    found = env.only()
    assert (found.code, found.subject) == ("CU230", "libcusparse.so.12")
    assert "nvidia/cusparse/lib/libcusparse.so.12 exists, but the loader does not look there" in found.message
    for before, after in ((None, f"{cusparse.parent}"), ("/a:/b", f"{cusparse.parent}:/a:/b")):
        environ = {"LD_LIBRARY_PATH": before} if before else {}
        words = ["sh", "-uc", f'{found.fix}; echo "$LD_LIBRARY_PATH"']
        assert subprocess.run(words, env=environ, capture_output=True, text=True, check=True).stdout == f"{after}\n"


def test_one_missing_library_of_torch_is_no_fault_of_what_comes_after_it(env: Env) -> None:
    """As if it were mended: extensions are judged by themselves, and a wrong library that is there is told at once."""
    c10, extra = env.site / "torch/lib/libc10.so", env.site / "extra.so"
    gone = compile_library(env.path / "gone/libgone.so.1", defines("gone"), soname="libgone.so.1")
    compile_library(env.site / "torch/_C.so", calls(C10, "gone"), needs=[c10, gone], runpath="$ORIGIN/lib")
    shutil.rmtree(gone.parent)
    compile_library(extra, calls(C10), needs=[c10])
    (missing,) = env.check().findings
    assert (missing.code, missing.subject) == ("CU230", "libgone.so.1")
    compile_library(extra, calls(C10, OLD_C10), needs=[c10])
    assert sorted(item.code for item in env.check().findings) == ["CU230", "CU236"]


def test_a_linker_script_in_the_place_of_a_library_stops_the_loader(env: Env) -> None:
    (env.site / "torch/lib/libc10.so").write_text("INPUT(libc10.so.1)" + " " * 100)
    found = env.only()
    assert (found.code, found.severity) == ("CU231", "error")
    assert "torch/lib/libc10.so is found first and cannot be loaded (not an ELF file)" in found.message
    assert "invalid ELF header" in env.opens(env.site / "torch/_C.so")


def test_a_library_of_another_cuda_is_told_from_one_that_is_missing(env: Env) -> None:
    old = compile_library(env.path / "tmp/libcudart.so.11.0", soname="libcudart.so.11.0")
    wheel(env, "cuda_runtime", "libcudart.so.12")
    c10 = env.site / "torch/lib/libc10.so"
    compile_library(env.site / "flash_attn/_C.so", needs=[c10, old])
    old.unlink()
    found = env.only()
    assert (found.code, found.subject) == ("CU230", "libcudart.so.11.0")
    assert "the environment has libcudart.so.12, which is another major version" in found.message
    assert (found.fix or "").endswith("flash-attn")


def test_a_foreign_library_that_wins_and_lacks_a_symbol_is_foretold(env: Env, tmp_path: Path) -> None:
    script = "libnvJitLink.so.12 { global: *; };\n"
    symbol = "__nvJitLinkAddData_12_4"
    link = wheel(env, "nvjitlink", "libnvJitLink.so.12", defines(symbol), versions=script)
    cusparse = wheel(
        env, "cusparse", "libcusparse.so.12", calls(symbol), needs=[link], runpath="$ORIGIN/../../nvjitlink/lib"
    )
    other = compile_library(
        tmp_path / "usr/libnvJitLink.so.12", defines("__nvJitLinkAddData_12_1"), soname=link.name, versions=script
    )
    assert env.check().status == "ok"
    assert env.opens(cusparse) == ""
    place = {"LD_LIBRARY_PATH": str(other.parent)}
    wins, fails = sorted(env.check(**place).findings, key=lambda item: item.code)
    assert (wins.code, wins.severity, wins.subject) == ("CU232", "warning", "libnvJitLink.so.12")
    assert any(line.startswith("wins: ") and str(other) in line for line in wins.evidence)
    assert any(line.startswith("skipped: ") and str(link) in line for line in wins.evidence)
    assert (fails.code, fails.severity) == ("CU233", "error")
    assert f"undefined symbol: {symbol}, version libnvJitLink.so.12" in fails.message
    assert fails.fix == f"unset LD_LIBRARY_PATH, or remove {other.parent} from it"
    assert f"undefined symbol: {symbol}, version libnvJitLink.so.12" in env.opens(cusparse, **place)


def test_what_torch_opens_first_decides_for_all_that_come_later(env: Env, tmp_path: Path) -> None:
    cudart = wheel(env, "cuda_runtime", "libcudart.so.12", defines("cudaNew"))
    other = compile_library(tmp_path / "usr/libcudart.so.12", defines("cudaOld"), soname="libcudart.so.12")
    c10 = env.site / "torch/lib/libc10.so"
    extension = compile_library(env.site / "ext/_C.so", calls("cudaNew"), needs=[cudart, c10], runpath="/nowhere")
    deps = compile_library(
        env.site / "torch/lib/libtorch_global_deps.so", needs=[cudart], rpath="$ORIGIN/../../nvidia/cuda_runtime/lib"
    )
    place = {"LD_LIBRARY_PATH": str(other.parent)}
    assert env.check(**place).status == "ok"
    assert env.opens(deps, env.site / "torch/_C.so", extension, **place) == ""
    compile_library(deps)  # torch does not open it any more
    assert {item.code for item in env.check(**place).findings} == {"CU232", "CU233"}
    assert "undefined symbol: cudaNew" in env.opens(deps, env.site / "torch/_C.so", extension, **place)


def test_what_torch_opens_by_path_when_its_own_start_fails_is_followed(env: Env) -> None:
    cudart = wheel(env, "cuda_runtime", "libcudart.so.12")
    compile_library(env.site / "torch/lib/libtorch_global_deps.so", needs=[cudart])
    assert env.only().code == "CU230"
    (env.site / "torch/__init__.py").write_text('cuda_libs = {"cuda_runtime": "libcudart.so.*[0-9]"}\n')
    assert env.check().status == "ok"


@pytest.mark.parametrize(
    "text",
    [
        'cuda_libs = {"cublas": "libcublas.so.*[0-9]", "cuda_runtime": "libcudart.so.*[0-9]"}\n',
        'cuda_libs = [("cublas", "libcublas.so.*[0-9]"), ("cuda_runtime", "libcudart.so.*[0-9]")]\n',
    ],
)
def test_a_library_that_torch_opens_by_path_and_that_is_not_there_is_named(env: Env, text: str) -> None:
    cudart = wheel(env, "cuda_runtime", "libcudart.so.12")
    compile_library(env.site / "torch/lib/libtorch_global_deps.so", needs=[cudart])
    (env.site / "torch/__init__.py").write_text(text)
    found = env.only()
    assert (found.code, found.subject) == ("CU230", "libcublas.so.*[0-9]")
    wheel(env, "cu13", "libcublas.so.13")
    assert env.check().status == "ok"


def test_what_torch_opens_by_path_after_its_start_wins_over_the_search(env: Env, tmp_path: Path) -> None:
    """As torch >= 2.7 does against a CUDA toolkit in LD_LIBRARY_PATH."""
    cudart = wheel(env, "cuda_runtime", "libcudart.so.12")
    link = wheel(env, "nvjitlink", "libnvJitLink.so.12", defines("new"))
    other = compile_library(tmp_path / "usr/libnvJitLink.so.12", defines("old"), soname=link.name)
    lib = env.site / "torch/lib"
    compile_library(lib / "libtorch_global_deps.so", needs=[cudart], rpath="$ORIGIN/../../nvidia/cuda_runtime/lib")
    path = f"$ORIGIN/lib:$ORIGIN/{os.path.relpath(link.parent, env.site / 'torch')}"
    compile_library(env.site / "torch/_C.so", calls("new"), needs=[lib / "libc10.so", link], runpath=path)
    place = {"LD_LIBRARY_PATH": str(other.parent)}
    assert {item.code for item in env.check(**place).findings} == {"CU232", "CU233"}
    (env.site / "torch/__init__.py").write_text(
        'cuda_libs = [("nvjitlink", "libnvJitLink.so.*[0-9]")]\n_preload_cuda_deps()\n'
    )
    assert env.check(**place).status == "ok"
    deps = (lib / "libtorch_global_deps.so").read_bytes()
    compile_library(lib / "libtorch_global_deps.so")
    assert env.check(**place).status == "fail"  # without libcudart torch does not care
    (lib / "libtorch_global_deps.so").write_bytes(deps)
    (env.site / "torch/__init__.py").write_text('_preload_cuda_deps("nvjitlink", "libnvJitLink.so.*[0-9]")\n')
    assert env.check(**place).status == "ok"


def test_in_a_conda_environment_the_command_is_condas(env: Env) -> None:
    (env.path / "conda-meta").mkdir()
    cusparse = compile_library(env.path / "lib/libcusparse.so.12", soname="libcusparse.so.12")
    compile_library(env.site / "torch/_C.so", needs=[cusparse], runpath="$ORIGIN/../../../..")
    cusparse.rename(cusparse.with_name("libcusparse.so.11"))
    found = env.only()
    assert found.fix == f"conda install -y -p {env.path} --override-channels -c conda-forge libcusparse"


def test_an_extension_built_for_another_torch_is_named(env: Env) -> None:
    c10 = env.site / "torch/lib/libc10.so"
    extension = compile_library(env.site / "flash_attn_2_cuda.so", calls(C10, OLD_C10), needs=[c10])
    found = env.only()
    assert (found.code, found.severity, found.subject) == ("CU236", "error", "flash_attn_2_cuda.so")
    assert "was built for another torch: c10::Error::what is not defined by the installed torch" in found.message
    assert found.evidence == (f"undefined symbol: {OLD_C10}",)
    assert found.fix is None  # nothing says which distribution brought it
    assert f"undefined symbol: {OLD_C10}" in env.opens(env.site / "torch/_C.so", extension)


def test_the_command_names_the_distribution_that_holds_the_extension(env: Env) -> None:
    """flash-attn puts its extension beside its folder, under a name that no distribution has."""
    compile_library(env.site / "flash_attn_2_cuda.so", calls(C10, OLD_C10), needs=[env.site / "torch/lib/libc10.so"])
    info = env.site / "flash_attn-2.7.4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: flash_attn\n")
    (info / "RECORD").write_text("flash_attn/__init__.py,,\nflash_attn_2_cuda.so,sha256=x,1\n")
    assert (env.only().fix or "").endswith(
        " --no-build-isolation --no-cache-dir --no-binary flash-attn flash-attn==2.7.4"
    )


def test_a_weak_symbol_is_no_failure(env: Env) -> None:
    source = f'int w(void) __asm__("{OLD_C10}") __attribute__((weak)); int run(void) {{ return w ? w() : 0; }}'
    extension = compile_library(env.site / "ext/_C.so", source, needs=[env.site / "torch/lib/libc10.so"])
    assert env.check().status == "ok"
    assert env.opens(env.site / "torch/_C.so", extension) == ""


def test_what_a_package_opens_itself_before_its_extension_is_followed(env: Env) -> None:
    c10 = env.site / "torch/lib/libc10.so"
    core = compile_library(env.site / "torchaudio/lib/libtorchaudio.so", needs=[c10], soname="libtorchaudio.so")
    compile_library(env.site / "torchaudio/lib/_torchaudio.so", needs=[c10, core])
    assert env.check().status == "ok"


def test_what_torch_compiled_before_is_checked_too(env: Env, tmp_path: Path) -> None:
    built = compile_library(tmp_path / "built/op/op.so", calls(OLD_C10), needs=[env.site / "torch/lib/libc10.so"])
    found = env.only(TORCH_EXTENSIONS_DIR=str(tmp_path / "built"))
    assert (found.code, found.subject) == ("CU236", str(built))
    assert found.fix == f"rm -r {built.parent}"  # torch compiles it again


def test_a_version_that_the_winner_does_not_define_is_foretold(env: Env, tmp_path: Path) -> None:
    new = "GLIBCXX_3.4.1 { global: old; };\nGLIBCXX_3.4.99 { global: new; } GLIBCXX_3.4.1;\n"
    both = "int old(void) { return 1; } int new(void) { return 2; }"
    own = compile_library(env.path / "lib/libstdc++.so.6", both, soname="libstdc++.so.6", versions=new)
    extension = compile_library(
        env.site / "torch/_C.so",
        calls("new"),
        needs=[own],
        runpath=f"$ORIGIN/{os.path.relpath(own.parent, env.site)}/..",
    )
    other = compile_library(
        tmp_path / "usr/libstdc++.so.6",
        "int old(void) { return 1; }",
        soname="libstdc++.so.6",
        versions="GLIBCXX_3.4.1 { global: old; };\n",
    )
    place = {"LD_LIBRARY_PATH": str(other.parent)}
    codes = {item.code: item for item in env.check(**place).findings}
    assert set(codes) == {"CU232", "CU235"}
    assert "it does not define GLIBCXX_3.4.99, which torch/_C.so needs" in codes["CU235"].message
    assert "version `GLIBCXX_3.4.99' not found" in env.opens(extension, **place)


def test_a_version_that_only_weak_symbols_need_is_no_failure(env: Env, tmp_path: Path) -> None:
    script = "V1 { global: old; };\nV2 { global: new; } V1;\n"
    own = compile_library(
        env.path / "lib/libv.so.1",
        "int old(void) { return 1; } int new(void) { return 2; }",
        soname="libv.so.1",
        versions=script,
    )
    source = "int new(void) __attribute__((weak)); int old(void); int run(void) { return old() + (new ? new() : 0); }"
    extension = compile_library(env.site / "torch/_C.so", source, needs=[own])
    compile_library(
        tmp_path / "usr/libv.so.1", "int old(void) { return 1; }", soname="libv.so.1", versions="V1 { *; };\n"
    )
    place = {"LD_LIBRARY_PATH": str(tmp_path / "usr")}
    assert [item.code for item in env.check(**place).findings] == ["CU233"]
    assert "OSError" in env.opens(extension, **place)
    need = struct.pack("<IHH", 0x592, 0, 2)  # hash of V2, no flags, index 2: GNU ld never says weak, others do
    assert extension.read_bytes().count(need) == 1
    extension.write_bytes(extension.read_bytes().replace(need, struct.pack("<IHH", 0x592, 2, 2)))
    assert env.check(**place).status == "ok"
    assert "OSError" not in env.opens(extension, **place)


def test_what_torch_opens_for_everybody_serves_extensions_that_do_not_name_it(env: Env) -> None:
    cudart = wheel(env, "cuda_runtime", "libcudart.so.12", defines("cudaNew"))
    path = "$ORIGIN/../../nvidia/cuda_runtime/lib"
    deps = compile_library(env.site / "torch/lib/libtorch_global_deps.so", needs=[cudart], rpath=path)
    extension = compile_library(env.site / "ext/_C.so", calls("cudaNew"), needs=[env.site / "torch/lib/libc10.so"])
    assert env.check().status == "ok"
    assert env.opens(deps, env.site / "torch/_C.so", extension) == ""
    compile_library(deps)
    assert [item.code for item in env.check().findings] == ["CU233"]


def test_a_later_glibc_than_the_hosts_is_named_for_the_host_that_is_asked_about(env: Env) -> None:
    libc = next((path for path in Path("/lib").glob("*/libc.so.6")), None)
    if libc is None:
        pytest.skip("no glibc here")
    compile_library(env.site / "torch/_C.so", "extern void *memcpy(); void *p = memcpy;", needs=[libc])
    (found,) = env.check(HostFacts(label="old", platform="linux-64", libc=glibc("2.2"))).findings
    assert (found.code, found.subject) == ("CU234", "glibc")
    assert "torch/_C.so needs glibc 2." in found.message
    assert found.message.endswith("the host has 2.2")
    assert env.check(HostFacts(label="new", platform="linux-64", libc=glibc("2.99"))).status == "ok"
    musl = Libc(family="musl", version=glibc("1.2").version)
    assert env.check(HostFacts(label="musl", platform="linux-64", libc=musl)).status == "ok"


def test_the_drivers_library_is_no_packages_fault(env: Env) -> None:
    cuda = compile_library(env.path / "tmp/libcuda.so.1", soname="libcuda.so.1")
    compile_library(env.site / "torch/lib/libcaffe2_nvrtc.so", needs=[cuda])
    cuda.unlink()
    assert env.check().findings == ()
    with_driver = HostFacts(label=THIS_MACHINE, platform="linux-64", driver=Driver(version="550.54.15"))
    (found,) = env.check(with_driver).findings
    assert (found.code, found.severity, found.subject) == ("CU238", "warning", "libcuda.so.1")
    elsewhere = HostFacts(label="there", platform="linux-64", driver=Driver(version="550.54.15"))
    assert env.check(elsewhere).findings == ()


def test_an_environment_for_another_machine_is_one_finding(env: Env) -> None:
    (found,) = env.check(HostFacts(label="arm", platform="linux-aarch64")).findings
    assert found.code == "CU231"
    assert "for x86_64, the host is aarch64" in found.message


def test_odd_files_are_said_and_never_waited_for(env: Env) -> None:
    os.mkfifo(env.site / "fifo.so")
    (env.site / "loop.so").symlink_to("loop.so")
    (env.site / "folder.so").mkdir()
    (env.site / "folder.so/self").symlink_to("..")
    (env.site / "short.so").write_bytes(b"\x7fELF")
    (env.site / "sparse.so").write_bytes(b"\x7fELF\x02\x01\x01")
    os.truncate(env.site / "sparse.so", 4 << 30)
    assert env.check().status in ("ok", "warn")
    deps = env.site / "torch/lib/libtorch_global_deps.so"
    deps.unlink()
    deps.symlink_to(deps.name)
    assert env.check().status == "ok"  # a torch without it opens its extension at once


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_libraries_are_judged_and_said_in_printable_words(env: Env, data: st.DataObject) -> None:
    place = env.site / data.draw(st.sampled_from(("torch/lib/libc10.so", "torch/_C.so")))
    good = place.read_bytes()
    raw = bytearray(good[: data.draw(st.sampled_from((len(good), len(good), 0x80, 0x300)))])
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0x40, min(len(raw), 0x800) - 1))] = data.draw(st.integers(0, 255))
    place.write_bytes(raw)
    try:
        for finding in env.check().findings:
            assert finding.code.startswith("CU23")
            assert all(text.isprintable() for text in (finding.subject, finding.message, *finding.evidence))
    finally:
        place.write_bytes(good)


def test_search_paths_without_end_are_given_up(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuenv.binary.io.binaries._MOST_LOOKS", 10)
    found = env.only()
    assert (found.code, found.severity) == ("CU237", "error")
    assert "given up" in found.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_passed_over_as_the_loader_does(env: Env) -> None:
    c10 = env.site / "torch/lib/libc10.so"
    c10.chmod(0)
    codes = {item.code: item for item in env.check().findings}
    assert set(codes) == {"CU230", "CU237"}
    assert "is not readable" in codes["CU230"].message
    assert codes["CU230"].fix == f"chmod a+r {c10}"
    assert "libc10.so" in env.opens(env.site / "torch/_C.so")


@collect(
    ("name", "ours", "text"),
    [
        ("_ZN3c1010TensorImpl6decrefEv", True, "c10::TensorImpl::decref"),
        ("_ZNK2at6Tensor4sizeEl", True, "at::Tensor::size"),
        ("_ZTVN5torch8autograd4NodeE", True, "torch::autograd::Node"),
        ("_Z16THPVariable_WrapN2at10TensorBaseE", True, "THPVariable_Wrap"),
        ("_ZNSt6vectorIiE", False, "_ZNSt6vectorIiE"),
        ("cudaMalloc", False, "cudaMalloc"),
        ("_ZN3c1099999999999x", False, "c10"),
    ],
)
def test_a_mangled_name_is_shown_readable(name: str, ours: bool, text: str) -> None:
    assert demangled(name) == text
    assert is_torch_symbol(name) == ours or name.startswith("_ZN3c10999")


@pytest.mark.records
def test_the_table_of_libraries_is_in_order_and_names_real_packages(records: Path) -> None:
    path = Path(cuenv.__file__).parent / "data/linkage/libraries.json"
    table = json.loads(path.read_bytes())
    rows = table["libraries"]
    assert list(rows) == sorted(rows)
    assert table["source"]
    repodata = (records / "conda-forge/linux-64/repodata.json").read_bytes()
    for row in rows.values():
        assert re.search(rb'"name": ?"%s"' % row["conda"].encode(), repodata), row


def _wheels(env: Env, *wanted: str) -> None:
    """Install wheels from the Python index, or skip where it is not reachable."""
    uv = pytest.importorskip("uv").find_uv_bin()
    command = [uv, "pip", "install", "-q", "--no-deps", "--target", env.site, "--python", sys.executable, *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        pytest.skip(f"the Python index is not reachable: {done.stderr.strip()[-200:]}")


@pytest.mark.slow
@pytest.mark.parametrize(("nvjitlink", "fits"), [("12.1.105", False), ("12.4.127", True)])
def test_the_symbol_failure_of_nvidias_wheels_is_foretold(env: Env, nvjitlink: str, fits: bool) -> None:
    """A famous one: cuSPARSE of CUDA 12.4 beside the nvJitLink of 12.1."""
    _wheels(env, f"nvidia-nvjitlink-cu12=={nvjitlink}", "nvidia-cusparse-cu12==12.3.1.170")
    found = env.check()
    said = env.opens(env.site / "nvidia/cusparse/lib/libcusparse.so.12")
    if fits:
        assert (found.status, said) == ("ok", "")
        return
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("CU233", "error")
    symbol = "__nvJitLinkComplete_12_4, version libnvJitLink.so.12"
    assert f"undefined symbol: {symbol}" in finding.message
    assert f"undefined symbol: {symbol}" in said
    pip = f"uv pip install --python {env.path}/bin/python"
    assert finding.fix == f"{pip} --force-reinstall --no-deps --upgrade nvidia-nvjitlink-cu12"


@pytest.mark.slow
def test_a_real_torch_maps_what_is_foretold_and_an_old_extension_fails_as_foretold(env: Env) -> None:
    """2.6 GB of wheels; those of xformers 0.0.23 were built for torch 2.1."""
    shutil.rmtree(env.site)
    env.site.mkdir()
    _wheels(env, "torch==2.5.1", "xformers==0.0.23", "typing-extensions", "sympy", "networkx", "filelock", "fsspec")
    _wheels(env, "jinja2", "mpmath", "numpy<2.3", "markupsafe", *NVIDIA)
    found = env.check()
    assert {item.code for item in found.findings} == {"CU236"}
    assert {item.subject.split("/")[0] for item in found.findings} == {"xformers"}
    code = "import torch; print(open('/proc/self/maps').read()); torch.ops.load_library(__import__('sys').argv[1])"
    command: list[str | Path] = [env.path / "bin/python3", "-c", code, env.site / "xformers/_C.so"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={})
    real = {word for word in done.stdout.split() if word.startswith(str(env.site)) and ".so" in word}
    mapped = {path for path in real if "/torch/_C." in path or "/torch/lib/" in path or "/nvidia/" in path}
    with closing(ElfFiles("x86_64")) as files:
        prefix = find_prefix(env.path)
        plan = linkage_plan(prefix, {}, files.look, frozenset(library_packages(prefix)))
        model = Process(loader_facts({}, "x86_64")[0], files.look)
        list(open_all(model, replace(plan, roots=())))
        foretold = {str(Path(item.path).resolve()) for item in model.objects}
    assert {path for path in foretold if path.startswith(str(env.site))} <= mapped
    assert len(mapped) > 15
    first = next(item for item in found.findings if item.subject == "xformers/_C.so").evidence[0]
    assert first in done.stderr


NVIDIA = (
    "nvidia-cublas-cu12==12.4.5.8",
    "nvidia-cuda-cupti-cu12==12.4.127",
    "nvidia-cuda-nvrtc-cu12==12.4.127",
    "nvidia-cuda-runtime-cu12==12.4.127",
    "nvidia-cudnn-cu12==9.1.0.70",
    "nvidia-cufft-cu12==11.2.1.3",
    "nvidia-curand-cu12==10.3.5.147",
    "nvidia-cusolver-cu12==11.6.1.9",
    "nvidia-cusparse-cu12==12.3.1.170",
    "nvidia-nccl-cu12==2.21.5",
    "nvidia-nvjitlink-cu12==12.4.127",
    "nvidia-nvtx-cu12==12.4.127",
)
