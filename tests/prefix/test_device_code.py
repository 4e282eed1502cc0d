"""The check of device code: environments whose libraries hold fat binaries of known targets."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import collect
from channel_builder import PLATFORM
from cuenv.core.findings import Finding
from cuenv.core.versions import version
from cuenv.host.select import HostOptions
from cuenv.prefix.check import check_prefix
from cuenv.prefix.device_code import bitsandbytes_choice, bitsandbytes_libraries
from cuenv.prefix.io.prefix import find_prefix
from elf_files import CUBIN, EXACT, LZ4, PTX, container, cubins, elf, entry, fatbin
from given import base
from prefixes import installed, package, put, standard, torch_files, venv, wheel_file

QUIET = {"CONDA_OVERRIDE_CUDA": "", "CONDA_OVERRIDE_GLIBC": "2.35", "HOME": "/nowhere"}
TORCH = "torch/version.py"
TOLD = "__version__ = '2.9.1+cu128'\ncuda: Optional[str] = '12.8'\n"


def library(*objects: bytes) -> bytes:
    return elf(fatbin(*objects))


def torch(folder: Path, *objects: bytes) -> Path:
    files: dict[str, bytes | str] = {TORCH: TOLD, "torch/lib/libtorch_cuda.so": library(*objects)}
    return wheel_file(folder, "torch", "2.9.1", files)


def told(env: Path, *gpus: str, driver: str | None = "575.57.08", **environ: str) -> tuple[str, list[Finding]]:
    options = HostOptions(gpus=gpus, driver=driver, glibc="2.35", platform=PLATFORM, environ=QUIET | environ)
    if not gpus:
        options = HostOptions(hosts=("no-gpu",), environ=QUIET | environ)
    found = check_prefix(env, options, base())
    (one,) = [item for item in found.checks if item.name == "device_code"]
    return f"{one.status} {one.says}", list(one.findings)


def short(env: Path, *gpus: str, driver: str | None = "575.57.08", **environ: str) -> list[tuple[str, str, str]]:
    return [(item.code, item.severity, item.subject) for item in told(env, *gpus, driver=driver, **environ)[1]]


def test_a_gpu_that_torch_holds_nothing_for(tmp_path: Path) -> None:
    env = venv(tmp_path / "env", torch(tmp_path, cubins(75, 80, 90), cubins(75, 80, 90)))
    line, (finding,) = told(env, "7.0", "8.9")
    assert line == "fail 1 libraries of torch 2.9.1+cu128; for 7.0, 8.9"
    assert (finding.code, finding.severity, finding.subject) == ("CU290", "error", "torch on 7.0")
    assert (
        finding.message
        == "torch 2.9.1+cu128: libtorch_cuda.so has code for 7.5 8.0 9.0, but not for the GPU of compute capability 7.0"
    )
    assert finding.fix == "cuenv resolve --gpu 7.0 -o environment.new.yml"
    assert short(env, "8.9", "9.0") == []


def test_what_is_made_for_one_generation_alone_counts_for_no_other(tmp_path: Path) -> None:
    hopper = container(entry(CUBIN, 90, flags=LZ4 | EXACT))
    env = venv(tmp_path / "env", torch(tmp_path, cubins(80), hopper))
    assert short(env, "8.0") == []


@pytest.mark.parametrize(("served", "severity"), [(1, "error"), (3, "warning")])
def test_an_architecture_in_some_objects_does_not_serve_the_others(tmp_path: Path, served: int, severity: str) -> None:
    objects = [cubins(80, 120)] * served + [cubins(80)] * (4 - served)
    env = venv(tmp_path / "env", torch(tmp_path, *objects))
    (finding,) = told(env, "12.0")[1]
    assert (finding.code, finding.severity) == ("CU290", severity)
    assert f"in {4 - served} of 4 code objects" in finding.message


@pytest.mark.parametrize(
    ("driver", "severity", "words"),
    [
        (
            "575.57.08",
            "warning",
            "which a driver that supports CUDA 12.0 must compile at the first start; this driver supports CUDA 12.9",
        ),
        ("470.129.06", "error", "which needs a driver that supports CUDA 12.0; this driver supports CUDA 11.4"),
        (None, "info", "the driver is not known"),
    ],
)
def test_ptx_needs_a_driver_that_knows_it(tmp_path: Path, driver: str | None, severity: str, words: str) -> None:
    ptx = container(entry(CUBIN, 75), entry(PTX, 80, isa=(8, 0)))
    env = venv(tmp_path / "env", torch(tmp_path, ptx))
    (finding,) = told(env, "8.6", driver=driver)[1]
    assert (finding.code, finding.severity) == ("CU290", severity)
    assert words in finding.message


def test_libraries_that_sit_on_torch_by_their_metadata(tmp_path: Path) -> None:
    wheels = [
        torch(tmp_path, cubins(70, 80, 90)),
        wheel_file(tmp_path, "flash-attn", "2.8.3", {"flash_attn_2_cuda.so": library(cubins(80, 90))}, ("torch",)),
        wheel_file(tmp_path, "own-ops", "1.0", {"own/_C.so": library(cubins(90)), "own/text.so": "x"}, ("torch>=2",)),
        wheel_file(tmp_path, "render", "1.0", {"render/_C.so": library(cubins(90))}, ("torchlike",)),
        wheel_file(tmp_path, "nvidia-thing-cu12", "1.0", {"nvidia/thing/lib/x.so": library(cubins(90))}, ("torch",)),
    ]
    env = venv(tmp_path / "env", *wheels)
    assert short(env, "7.0") == [
        ("CU291", "error", "flash-attn on 7.0"),
        ("CU291", "error", "own-ops on 7.0"),
    ]
    fix = told(env, "7.0")[1][0].fix
    assert fix is not None
    assert fix.startswith(
        f"TORCH_CUDA_ARCH_LIST=7.0 uv pip install --python {env}/bin/python --no-build-isolation --no-binary flash-attn"
    )


def test_ops_that_were_compiled_on_another_machine(tmp_path: Path) -> None:
    env = venv(tmp_path / "env", torch(tmp_path, cubins(70, 80)))
    python = (find_prefix(env).python or "").replace(".", "")
    folder = tmp_path / f"home/.cache/torch_extensions/py{python}_cu128/fused_adam"
    put(folder, {"fused_adam.so": library(cubins(80))})
    home = str(tmp_path / "home")
    (finding,) = told(env, "7.0", HOME=home)[1]
    assert (finding.code, finding.subject) == ("CU291", "fused_adam (compiled on first use) on 7.0")
    assert finding.fix == f"rm -r {folder}"
    assert short(env, "8.0", HOME=home) == []
    elsewhere = {"HOME": home, "TORCH_EXTENSIONS_DIR": str(tmp_path / "elsewhere")}
    assert short(env, "7.0", **elsewhere) == []


def bnb(folder: Path, number: str, **libraries: bytes) -> Path:
    files = {f"bitsandbytes/libbitsandbytes_{name}.so": data for name, data in libraries.items()}
    return wheel_file(folder, "bitsandbytes", number, files, ("torch",))


def test_only_the_library_that_bitsandbytes_loads_counts(tmp_path: Path) -> None:
    wheels = (
        torch(tmp_path, cubins(70, 80)),
        bnb(tmp_path, "0.46.1", cuda126=library(cubins(70, 80)), cuda128=library(cubins(80))),
    )
    env = venv(tmp_path / "env", *wheels)
    assert short(env, "8.0") == []
    (finding,) = told(env, "7.0")[1]
    assert (finding.code, finding.subject, finding.fix) == (
        "CU291",
        "bitsandbytes on 7.0",
        "export BNB_CUDA_VERSION=126",
    )
    assert short(env, "7.0", BNB_CUDA_VERSION="126") == []


def test_bitsandbytes_without_a_library_for_torchs_cuda(tmp_path: Path) -> None:
    wheels = (torch(tmp_path, cubins(80)), bnb(tmp_path, "0.46.1", cuda118=library(cubins(80)), cpu=b""))
    (finding,) = told(venv(tmp_path / "env", *wheels), "8.0")[1]
    assert (finding.code, finding.severity) == ("CU292", "error")
    assert "has libraries for CUDA 11.8, but torch was built with CUDA 12.8" in finding.message
    assert finding.fix == f"uv pip install --python {tmp_path}/env/bin/python --upgrade bitsandbytes"


@collect(
    ("release", "cuda", "taken"),
    [("0.46.1", "12.8", "12.8"), ("0.46.1", "12.7", None), ("0.50.2", "12.7", "12.6"), ("0.50.2", "12.0", "12.1"),
     ("0.50.2", "13.1", None)],
)  # fmt: skip
def test_which_library_bitsandbytes_loads(release: str, cuda: str, taken: str | None) -> None:
    names = [
        "libbitsandbytes_cuda121.so",
        "libbitsandbytes_cuda126.so",
        "libbitsandbytes_cuda128.so",
        "libbitsandbytes_cpu.so",
    ]
    there = bitsandbytes_libraries(names)
    found = bitsandbytes_choice(there, version(cuda), version(release), base().extension("bitsandbytes"))
    assert found == (version(taken) if taken else None)


def test_the_activation_script_against_the_binary(tmp_path: Path) -> None:
    packages = [item for item in standard() if item.name != "pytorch"]
    packages.append(package("pytorch", "2.7.1", "cuda128_py312_0", files=torch_files("2.7.1", "12.8")))
    env, _ = installed(tmp_path, packages)
    put(env, {"lib/libtorch_cuda.so": library(cubins(75, 80, 90))})
    script = "etc/conda/activate.d/libtorch_activate.sh"
    put(env, {script: 'export CF_TORCH_CUDA_ARCH_LIST="7.5;8.0;9.0+PTX"\n'})
    assert short(env, "8.0") == []
    put(env, {script: 'export CF_TORCH_CUDA_ARCH_LIST="7.0;7.5;12.0+PTX"\n'})
    (finding,) = told(env, "8.0")[1]
    assert (finding.code, finding.severity) == ("CU293", "warning")
    assert "lists 7.0, 12.0" in finding.message
    put(env, {script: 'export CF_TORCH_CUDA_ARCH_LIST="all of them"\n'})
    assert short(env, "8.0") == []


def test_a_library_that_is_cut_off(tmp_path: Path) -> None:
    env = venv(tmp_path / "env", torch(tmp_path, cubins(80)))
    site = Path(find_prefix(env).site_packages[0])
    put(site, {"torch/lib/libtorch_cuda_linalg.so": library(cubins(80))[:-40]})
    (finding,) = told(env, "8.0")[1]
    assert (finding.code, finding.severity, finding.subject) == ("CU294", "warning", "libtorch_cuda_linalg.so")


def test_without_device_code_or_without_a_gpu(tmp_path: Path) -> None:
    assert told(venv(tmp_path / "empty"), "8.0") == ("skip the environment contains no library with device code", [])
    env = venv(tmp_path / "env", torch(tmp_path, cubins(80)))
    line, findings = told(env)
    assert line == "ok 1 libraries of torch 2.9.1+cu128; the host has no known GPU: name it with --gpu"
    assert findings == []


def test_paths_that_lead_out_of_the_environment_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.so"
    outside.write_bytes(library(cubins(50)))
    env = venv(tmp_path / "env", torch(tmp_path, cubins(80)))
    site = Path(find_prefix(env).site_packages[0])
    rows = f"{outside},,\n../../../../outside.so,,\n"
    put(site, {"bad-1.0.dist-info/METADATA": "Requires-Dist: torch\n", "bad-1.0.dist-info/RECORD": rows})
    assert short(env, "8.0") == []
