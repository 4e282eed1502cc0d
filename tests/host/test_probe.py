"""The probe over trees of files and scripts: sources in their order, evidence, gaps, and what it does not start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from cases import collect
from cuenv.core.errors import UsageError
from cuenv.core.io.process import Completed, run
from cuenv.core.versions import Capability, version
from cuenv.host.describe import evidence_lines, host_lines
from cuenv.host.facts import Driver, Evidence, Gap, Gpu, HostFacts, Resources
from cuenv.host.io import nvml as smi
from cuenv.host.io import toolkits
from cuenv.host.io.observation import ProbeResult
from cuenv.host.io.probe import MachineAccess, probe
from cuenv.host.io.surroundings import surroundings
from trees import OPEN, PROPRIETARY, information, plant, program

ROW = "NVIDIA GeForce RTX 4090, 8.9, 24564, 535.129.03"
OLD_ROW = "Tesla V100-SXM2-32GB, 32768, 470.129.06"
BANNER = "| NVIDIA-SMI 535.129.03   Driver Version: 535.129.03   CUDA Version: 12.2     |"
CU124 = "__version__ = '2.5.1+cu124'\ncuda: Optional[str] = '12.4'\n"
CPU = "__version__ = '1.13.1'\ncuda: Optional[str] = None\n"
NAMES = {"Tesla V100-SXM2-32GB": Capability(7, 0), "NVIDIA GeForce RTX 3090": Capability(8, 6)}


def never(library: Path | None) -> ProbeResult:
    raise AssertionError(f"NVML was asked for {library} on a machine without a driver")


def silent(_: Path | None) -> ProbeResult:
    return ProbeResult(gaps=(Gap("driver", "nvml:nvmlInit", "NVML Shared Library Not Found (NVML error 12)"),))


def outside(
    nvml: Callable[[Path | None], ProbeResult] = silent, uname: tuple[str, str] = ("Linux", "x86_64")
) -> MachineAccess:
    return MachineAccess(nvml=nvml, uname=uname, confstr=lambda _: "glibc 2.35")


SILENT = outside()
LEVELS = {"470.129.06": version("11.4"), "535.129.03": version("12.2")}


def look(
    root: Path, environ: Mapping[str, str] | None = None, *, outside: MachineAccess = SILENT, deep: bool = False
) -> HostFacts:
    return probe(environ or {}, root, level_of=LEVELS.get, name_to_capability=NAMES.get, deep=deep, outside=outside)


def source_of(facts: HostFacts, fact: str) -> str:
    found = facts.evidence_for(fact)
    assert found is not None, facts.evidence
    return found.source


def test_without_a_driver_nothing_heavy_is_asked(tmp_path: Path) -> None:
    facts = look(tmp_path, outside=outside(never))
    assert (facts.driver, facts.gpus, facts.platform) == (None, (), "linux-64")
    assert {(gap.fact, gap.source) for gap in facts.gaps} >= {
        ("driver", "nvml"),
        ("driver", "nvidia-smi"),
        ("driver.kernel_module", "/proc/driver/nvidia/version"),
    }
    assert all(gap.reason for gap in facts.gaps)
    assert facts.detected


def test_without_a_driver_pynvml_and_subprocess_are_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from cuenv.host.io.probe import probe;"
        f"probe({{}}, Path({str(tmp_path)!r}));"
        "print(sorted({'pynvml', 'subprocess', 'rattler', 'ctypes.util', 'cuenv.host.io.toolkits'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_idle_nvidia_device_is_named(tmp_path: Path) -> None:
    device = "sys/bus/pci/devices/0000:01:00.0"
    plant(
        tmp_path,
        {
            f"{device}/vendor": "0x10de\n",
            f"{device}/class": "0x030000\n",
            f"{device}/device": "0x2684\n",
            f"{device}/driver": "-> ../../../../bus/pci/drivers/nouveau",
            "sys/bus/pci/devices/0000:01:00.1/vendor": "0x10de\n",
            "sys/bus/pci/devices/0000:01:00.1/class": "0x040300\n",
            "sys/bus/pci/devices/0000:02:00.0/vendor": "0x8086\n",
            "sys/bus/pci/devices/0000:02:00.0/class": "0x030000\n",
        },
    )
    facts = look(tmp_path, outside=outside(never))
    named = [gap.reason for gap in facts.gaps if gap.fact == "gpus"]
    assert named == ["GPU on the PCI bus (device '0x2684'), but no NVIDIA driver is loaded: it is bound to nouveau"]
    facts = look(plant(tmp_path, {"etc/nv_tegra_release": "# R36\n"}), outside=outside(never))
    assert any("Jetson" in gap.reason for gap in facts.gaps)


def test_a_complete_nvml_needs_no_nvidia_smi(tmp_path: Path) -> None:
    program(tmp_path / "bin/nvidia-smi", f": > {tmp_path}/asked")
    seen = ProbeResult(
        driver=Driver(version="535.129.03", cuda=version("12.2")),
        gpus=(Gpu(index=0, name="x", capability=Capability(8, 9)),),
        evidence=(Evidence("driver.version", "nvml:nvmlSystemGetDriverVersion", "535.129.03"),),
    )
    plant(tmp_path, {"proc/driver/nvidia/version": PROPRIETARY})
    facts = look(tmp_path, {"PATH": f"{tmp_path}/bin"}, outside=outside(lambda _: seen))
    assert facts.driver == Driver(
        version="535.129.03", cuda=version("12.2"), kernel_module="535.129.03", module_kind="proprietary"
    )
    assert not (tmp_path / "asked").exists()
    assert [gap.fact for gap in facts.gaps] == ["gpus", "kernel", "resources.memory_mib", "resources.shm_mib"]


def test_nvidia_smi_answers_where_nvml_does_not(tmp_path: Path) -> None:
    script = f'case "$1" in --query*) echo "{ROW}"; echo "{ROW}";; "") echo "{BANNER}";; esac'
    program(tmp_path / "bin/nvidia-smi", script)
    plant(tmp_path, {"proc/driver/nvidia/version": PROPRIETARY})
    facts = look(tmp_path, {"PATH": f"{tmp_path}/bin"})
    assert facts.driver == Driver(
        version="535.129.03", cuda=version("12.2"), kernel_module="535.129.03", module_kind="proprietary"
    )
    assert facts.gpus == tuple(
        Gpu(index=index, name="NVIDIA GeForce RTX 4090", capability=Capability(8, 9), memory_mib=24564)
        for index in range(2)
    )
    assert source_of(facts, "driver.version") == "nvidia-smi"
    assert source_of(facts, "driver.cuda") == "nvidia-smi"
    assert [gap.source for gap in facts.gaps if gap.fact == "driver"] == ["nvml:nvmlInit"]


def test_an_old_nvidia_smi_that_refuses_compute_cap(tmp_path: Path) -> None:
    refusal = 'Field "compute_cap" is not a valid field to query.'
    script = (
        f'case "$1" in *compute_cap*) echo \'{refusal}\'; exit 2;; --query*) echo "{OLD_ROW}";; '
        '"") echo "CUDA Version: 11.4";; esac'
    )
    program(tmp_path / "bin/nvidia-smi", script)
    facts = look(tmp_path, {"PATH": f"{tmp_path}/bin"})
    assert [(gpu.name, gpu.capability, gpu.memory_mib) for gpu in facts.gpus] == [
        ("Tesla V100-SXM2-32GB", Capability(7, 0), 32768)
    ]
    assert source_of(facts, "gpus[0].capability") == "table of GPU names"
    assert Gap("gpus", "nvidia-smi", "too old to know the field compute_cap") in facts.gaps
    assert facts.driver == Driver(version="470.129.06", cuda=version("11.4"))


@pytest.mark.parametrize("refused", ["driver_version", ""])
def test_an_nvidia_smi_of_branch_610_names_the_driver_by_its_new_names(tmp_path: Path, refused: str) -> None:
    """The field driver_version is deprecated there, and the banner has other labels."""
    refusal = f'Field "{refused}" is not a valid field to query.'
    row = ROW.replace("535.129.03", "610.57.04" + ("" if refused else " [Deprecated; will be removed in CUDA 14.0]"))
    banner = "| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |"
    script = (
        f'case "$1" in *{refused or "nothing"}*) echo \'{refusal}\'; exit 2;; --query*) echo "{row}";; '
        f'"") echo "{banner}";; esac'
    )
    program(tmp_path / "bin/nvidia-smi", script)
    facts = look(tmp_path, {"PATH": f"{tmp_path}/bin"})
    assert facts.driver == Driver(version="610.57.04", cuda=version("13.3"))
    assert [gap.fact for gap in facts.gaps if gap.source == "nvidia-smi"] == ["gpus.modes"]


@collect(
    ("script", "reason"),
    [
        (
            "echo 'NVIDIA-SMI has failed because it could not communicate'; exit 9",
            "exit status 9: 'NVIDIA-SMI has failed",
        ),
        ("echo 'Failed to initialize NVML: Driver/library version mismatch' >&2; exit 18", "exit status 18"),
        ("kill -9 $$", "killed by signal 9"),
    ],
)
def test_an_nvidia_smi_that_fails_is_a_gap(tmp_path: Path, script: str, reason: str) -> None:
    program(tmp_path / "bin/nvidia-smi", script)
    plant(
        tmp_path,
        {
            "proc/driver/nvidia/version": PROPRIETARY,
            "proc/driver/nvidia/gpus/0000:01:00.0/information": information("NVIDIA GeForce RTX 3090"),
            "proc/driver/nvidia/gpus/0000:02:00.0/information": information("Tesla V100-SXM2-32GB", "Yes"),
            "proc/driver/nvidia/gpus/0000:03:00.0/information": information("Unknown"),
        },
    )
    facts = look(tmp_path, {"PATH": f"{tmp_path}/bin"})
    assert reason in next(gap.reason for gap in facts.gaps if gap.source == "nvidia-smi")
    assert [(gpu.index, gpu.name, gpu.capability) for gpu in facts.gpus] == [
        (0, "NVIDIA GeForce RTX 3090", Capability(8, 6)),
        (1, "", None),
    ]
    assert facts.driver is not None
    assert (facts.driver.version, facts.driver.cuda) == ("535.129.03", version("12.2"))
    assert source_of(facts, "driver.version") == "/proc/driver/nvidia/version"
    assert source_of(facts, "driver.cuda") == "knowledge base"
    assert "configured to ignore" in next(gap.reason for gap in facts.gaps if gap.fact == "gpus")


def test_no_devices_by_nvidia_smi_is_a_fact(tmp_path: Path) -> None:
    program(tmp_path / "bin/nvidia-smi", "echo 'No devices were found'; exit 6")
    plant(tmp_path, {"proc/driver/nvidia/version": PROPRIETARY})
    facts = look(tmp_path, {"PATH": f"{tmp_path}/bin"})
    assert facts.gpus == ()
    assert source_of(facts, "gpus") == "nvidia-smi"


def test_only_sys_knows_the_module(tmp_path: Path) -> None:
    facts = look(plant(tmp_path, {"sys/module/nvidia/version": "470.129.06\n"}))
    assert facts.driver == Driver(version="470.129.06", cuda=version("11.4"), kernel_module="470.129.06")


def test_wsl_finds_its_own_nvidia_smi(tmp_path: Path) -> None:
    program(
        tmp_path / "usr/lib/wsl/lib/nvidia-smi", f'case "$1" in --query*) echo "{ROW}";; "") echo "{BANNER}";; esac'
    )
    plant(tmp_path, {"dev/dxg": "", "proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"})
    facts = look(tmp_path)
    assert facts.environment.wsl
    assert len(facts.gpus) == 1
    assert any("Windows" in line for line in host_lines(facts))


def test_other_systems_are_refused_plainly(tmp_path: Path) -> None:
    for uname in (("Darwin", "arm64"), ("Linux", "ppc64le"), ("Windows", "AMD64")):
        with pytest.raises(UsageError, match="Linux and WSL2"):
            look(tmp_path, outside=outside(uname=uname))
    assert surroundings(tmp_path, ("Linux", "aarch64")).platform == "linux-aarch64"


def test_cuda_visible_devices_changes_nothing(tmp_path: Path) -> None:
    program(tmp_path / "bin/nvidia-smi", f'case "$1" in --query*) echo "{ROW}";; "") echo "{BANNER}";; esac')
    path = {"PATH": f"{tmp_path}/bin"}
    assert look(tmp_path, path) == look(tmp_path, path | {"CUDA_VISIBLE_DEVICES": ""})


def test_a_shallow_probe_starts_no_program_for_an_nvcc_whose_files_tell(tmp_path: Path) -> None:
    def forbidden(argv: Sequence[str], timeout: float, environ: Mapping[str, str]) -> Completed:
        raise AssertionError(f"started {argv}")

    cuda = tmp_path / "usr/local/cuda-12.6"
    program(cuda / "bin/nvcc", "exit 1")
    plant(cuda, {"version.json": '{"cuda": {"name": "CUDA SDK", "version": "12.6.3"}}'})
    ask = MachineAccess(run=forbidden, nvml=never, uname=("Linux", "x86_64"), confstr=lambda _: "glibc 2.35")
    facts = look(tmp_path, {"PATH": f"{cuda}/bin"}, outside=ask)
    assert [(item.release, item.on_path, item.via) for item in facts.toolkits] == [("12.6.3", True, "PATH")]
    assert facts.compilers == ()
    assert facts.torch == ()


def test_a_deep_probe_sees_toolkits_compilers_and_torch(tmp_path: Path) -> None:
    local = tmp_path / "usr/local"
    program(local / "cuda-12.6/bin/nvcc", "echo 'Cuda compilation tools, release 12.6, V12.6.85'")
    plant(
        local,
        {
            "cuda-12.6/version.json": '{"cuda": {"version": "12.6.3"}}',
            "cuda": "-> cuda-12.6",
            "cuda-10.1/version.txt": "CUDA Version 10.1.243\n",
            "cuda-11.8/lib64/libcudart.so.11.8.89": "",
            "cuda-keyring/x": "",
        },
    )
    program(tmp_path / "bin/gcc", "echo 11.4.0")
    program(tmp_path / "bin/clang", "echo nonsense")
    venv = plant(
        tmp_path / "venv",
        {
            "pyvenv.cfg": "home = /usr/bin\n",
            "lib/python3.11/site-packages/torch/version.py": CU124,
            "lib/python3.11/site-packages/torch-2.5.1.dist-info/INSTALLER": "uv\n",
        },
    )
    plant(tmp_path / "libs", {"libcudart.so.12": "", "libcublas.so.12.4.5.8": "", "libfoo.so": "", "libcuda.so.1": ""})
    facts = look(
        tmp_path,
        {
            "PATH": f"{tmp_path}/bin:{local}/cuda/bin",
            "CUDA_HOME": f"{local}/cuda-10.1",
            "CUDA_PATH": "/nowhere/cuda",
            "VIRTUAL_ENV": str(venv),
            "LD_LIBRARY_PATH": f"/nowhere::{tmp_path}/libs:{tmp_path}/libs",
        },
        deep=True,
    )
    assert [(Path(item.path).name, item.release, item.on_path, item.via) for item in facts.toolkits] == [
        ("cuda-10.1", "10.1.243", False, "CUDA_HOME"),
        ("cuda-12.6", "12.6.3", True, "PATH"),
        ("cuda-11.8", None, False, "directory"),
    ]
    assert [(item.name, item.version) for item in facts.compilers] == [("gcc", "11.4.0")]
    assert [(item.where, item.version, item.cuda, item.origin) for item in facts.torch] == [
        ("active environment", "2.5.1+cu124", "12.4", "pip")
    ]
    assert [entry.libraries for entry in facts.environment.library_path] == [("libcublas", "libcuda", "libcudart")]
    assert Gap("toolkits", "CUDA_PATH", "/nowhere/cuda: no such folder") in facts.gaps
    assert any(gap.fact == "compilers.clang" and "nonsense" in gap.reason for gap in facts.gaps)
    text = "\n".join(host_lines(facts))
    assert "CUDA 12.6.3" in text
    assert "first on PATH" in text
    assert "2.5.1+cu124 for CUDA 12.4 by pip" in text
    assert "toolkits[1].release: 12.6.3" in "\n".join(evidence_lines(facts))


@collect(
    ("files", "release"),
    [
        ({"conda-meta/cuda-nvcc-impl-12.6.85-h85509e4_0.json": "{}"}, "12.6"),
        ({"include/cuda_runtime_api.h": "/* */\n#define CUDART_VERSION  11080\n"}, "11.8"),
        ({"targets/sbsa-linux/include/cuda_runtime_api.h": "#define CUDART_VERSION 13000\n"}, "13.0"),
        ({"version.json": "[1]", "version.txt": "nothing"}, "12.9"),
    ],
)
def test_where_a_release_is_read(tmp_path: Path, files: dict[str, str], release: str) -> None:
    program(tmp_path / "bin/nvcc", "echo 'Cuda compilation tools, release 12.9, V12.9.86'")
    plant(tmp_path, files)
    found = toolkits.find_toolkits({"PATH": f"{tmp_path}/bin"}, tmp_path, run, deep=False)
    assert [(item.path, item.release) for item in found.toolkits] == [(str(tmp_path), release)]


def test_a_wrapper_script_leads_to_the_toolkit_it_names(tmp_path: Path) -> None:
    real = plant(tmp_path / "opt/cuda-13.0", {"version.json": '{"cuda": {"version": "13.0.2"}}'})
    program(real / "bin/nvcc", "exit 1")
    program(tmp_path / "bin/nvcc", f'exec {real}/bin/nvcc "$@"')
    found = toolkits.find_toolkits({"PATH": f"{tmp_path}/bin"}, tmp_path, run, deep=False)
    assert [(item.path, item.release, item.on_path) for item in found.toolkits] == [(str(real), "13.0.2", True)]


def test_torch_of_a_conda_environment_and_of_python_on_path(tmp_path: Path) -> None:
    conda = plant(
        tmp_path / "envs/train",
        {
            "conda-meta/pytorch-2.5.1-cuda126_generic_py312.json": "{}",
            "conda-meta/pytorch-lightning-2.4.0-pyhd8ed1ab_0.json": "{}",
            "lib/python3.12/site-packages/torch/version.py": '__version__ = "2.5.1"\ncuda = "12.6"\n',
            "bin/python3.12": "\x7fELF",
            "bin/python3": "-> python3.12",
        },
    )
    user = plant(
        tmp_path,
        {
            "base/lib/python3.10/site-packages/torch/version.py": CPU,
            "home/.local/lib/python3.10/site-packages/torch/version.py": "__version__ = '2.0.0'\ncuda = '11.8'\n",
        },
    )
    python = user / "base/bin/python"
    python.parent.mkdir()
    python.write_bytes(b"\x7fELF")
    python.chmod(0o755)
    environ = {"CONDA_PREFIX": str(conda), "PATH": str(python.parent), "HOME": f"{tmp_path}/home"}
    found = toolkits.find_torch(environ, run)
    assert [(item.where, item.version, item.cuda, item.origin) for item in found.torch] == [
        ("active environment", "2.5.1", "12.6", "conda"),
        ("python on PATH", "2.0.0", "11.8", "unknown"),  # a user's own site shadows the interpreter's
    ]
    without = toolkits.find_torch({"PATH": str(python.parent)}, run)
    assert [(item.version, item.cuda) for item in without.torch] == [("1.13.1", None)]


def test_the_torch_of_an_active_environment_is_listed_once(tmp_path: Path) -> None:
    venv = plant(
        tmp_path / "venv",
        {
            "pyvenv.cfg": "home = /usr/bin\n",
            "lib/python3.11/site-packages/torch/version.py": CU124,
            "bin/python": "-> ../../base/bin/python",
        },
    )
    plant(tmp_path, {"base/bin/python": "\x7fELF"})
    (tmp_path / "base/bin/python").chmod(0o755)
    found = toolkits.find_torch({"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin"}, run)
    assert [(item.where, item.path) for item in found.torch] == [("active environment", str(venv))]
    alone = toolkits.find_torch({"PATH": f"{venv}/bin"}, run)
    assert [(item.where, item.path) for item in alone.torch] == [("python on PATH", str(venv))]


def test_a_shim_of_python_is_asked_for_its_prefix(tmp_path: Path) -> None:
    plant(
        tmp_path / "real", {"lib/python3.11/site-packages/torch/version.py": "__version__ = '2.1.0'\ncuda = '12.1'\n"}
    )
    program(tmp_path / "shims/python", f"echo {tmp_path}/real")
    found = toolkits.find_torch({"PATH": f"{tmp_path}/shims"}, run)
    assert [(item.path, item.version) for item in found.torch] == [(f"{tmp_path}/real", "2.1.0")]


def test_a_torch_without_a_version_is_a_gap(tmp_path: Path) -> None:
    plant(tmp_path, {"lib/python3.11/site-packages/torch/version.py": "print('hello')\n"})
    found = toolkits.find_torch({"CONDA_PREFIX": str(tmp_path), "PATH": ""}, run)
    assert found.torch == ()
    assert [gap.reason for gap in found.gaps] == ["it names no version"]


def test_the_open_module_is_told_and_its_builder_is_not(tmp_path: Path) -> None:
    facts = look(plant(tmp_path, {"proc/driver/nvidia/version": OPEN}))
    assert facts.driver is not None
    assert (facts.driver.kernel_module, facts.driver.module_kind) == ("560.35.03", "open")
    assert "their-box" not in "".join(item.text for item in facts.evidence)


def test_rows_of_nvidia_smi_that_make_no_sense_are_gaps() -> None:
    seen = smi.parse_query(
        "[N/A], [N/A], [N/A], [N/A]\nonly, two\n", ("name", "compute_cap", "memory.total", "driver_version")
    )
    assert seen.gpus == (Gpu(index=0, name="", capability=None),)
    assert seen.driver is None
    assert {gap.fact for gap in seen.gaps} == {"gpus", "gpus[0].capability", "driver.version"}
    assert smi.parse_query("", ("name",)).gpus is None


@collect(
    ("text", "level"),
    [
        ("CUDA Version: 12.2 ", "12.2"),
        ("| NVIDIA-SMI 610.57.04     KMD Version: 610.57.04     CUDA UMD Version: 13.3     |", "13.3"),
        ("CUDA Version: N/A", None),
        ("CUDA Version: ERR!", None),
        ("", None),
    ],
)
def test_the_cuda_version_is_read_from_the_banner(text: str, level: str | None) -> None:
    found = smi.parse_banner(text)
    assert (str(found) if found else None) == level


def test_a_program_that_hangs_floods_or_is_missing_is_a_value(tmp_path: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin"}
    assert run(["no-such-program-here"], 1, environ) == Completed(code=None, reason="not on PATH")
    hanging = program(tmp_path / "hang", "sleep 60 & wait")
    begun = time.monotonic()
    assert run([str(hanging)], 0.2, environ).reason == "no answer within 0.2 s"
    assert time.monotonic() - begun < 30
    flood = program(
        tmp_path / "flood", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"
    )
    flooded = run([str(flood)], 20, environ)
    assert "wrote more than" in (flooded.reason or "")
    assert len(flooded.out) <= 1024 * 1024
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x00\x01")
    broken.chmod(0o755)
    assert (run([str(broken)], 1, environ).reason or "").startswith("cannot be started")


def test_a_program_gets_a_clean_environment(tmp_path: Path) -> None:
    shown = program(tmp_path / "show", 'echo "$LC_ALL|$SECRET|$CUDA_VISIBLE_DEVICES|$LD_LIBRARY_PATH"')
    done = run(
        [str(shown)], 5, {"SECRET": "x", "CUDA_VISIBLE_DEVICES": "1", "LD_LIBRARY_PATH": "/libs", "LC_ALL": "de_DE"}
    )
    assert (done.code, done.out, done.reason) == (0, "C|||/libs\n", None)


def test_an_idle_gpu_has_the_name_of_its_pci_id(tmp_path: Path) -> None:
    device = "sys/bus/pci/devices/0000:01:00.0"
    files = {f"{device}/vendor": "0x10de\n", f"{device}/class": "0x030200\n", f"{device}/device": "0x2330\n"}
    root = plant(tmp_path, files)
    names, levels = {"0x2330": "H100"}, {"H100": Capability(9, 0)}
    facts = probe({}, root, device_to_name=names.get, name_to_capability=levels.get, outside=outside(never))
    (gap,) = [gap for gap in facts.gaps if gap.fact == "gpus"]
    assert gap.reason == "GPU on the PCI bus: H100 (9.0), but no NVIDIA driver is loaded: it is bound to no driver"
    plant(root, {f"{device}/driver": "-> ../../../../bus/pci/drivers/nvidia"})
    (gap,) = [gap for gap in look(root, outside=outside(never)).gaps if gap.fact == "gpus"]
    assert gap.reason == "GPU on the PCI bus (device '0x2330'), but its driver is not reachable from here"


def test_a_gpu_without_a_model_has_the_name_of_its_pci_id(tmp_path: Path) -> None:
    files = {
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19\n",
        "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t Unknown\nIRQ:   \t\t 1\n",
        "sys/bus/pci/devices/0000:01:00.0/device": "0x2330\n",
    }
    names, levels = {"0x2330": "H100"}, {"H100": Capability(9, 0)}
    root = plant(tmp_path, files)
    facts = probe({}, root, device_to_name=names.get, name_to_capability=levels.get, outside=outside(silent))
    assert [(gpu.name, str(gpu.capability)) for gpu in facts.gpus] == [("H100", "9.0")]
    assert source_of(facts, "gpus[0].name") == "table of PCI ids"


def measured(root: Path, **more: str) -> HostFacts:
    def space(_: Path) -> tuple[int, int]:
        return 64 * 1024 * 1024, 0

    facts = plant(root, {"proc/meminfo": "MemTotal:       527923456 kB\nMemFree: 1 kB\n", **more})
    ask = MachineAccess(nvml=silent, uname=("Linux", "x86_64"), confstr=lambda _: "glibc 2.35", space=space)
    return probe({}, facts, outside=ask)


def test_memory_is_that_of_the_machine_or_the_bound_of_its_container(tmp_path: Path) -> None:
    facts = measured(tmp_path)
    assert facts.resources == Resources(memory_mib=515550, shm_mib=64)
    assert source_of(facts, "resources.memory_mib") == "/proc/meminfo"
    plant(tmp_path, {"sys/fs/cgroup/memory.max": "max\n"})
    assert measured(tmp_path).resources.memory_mib == 515550
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{8 * 1024**3}\n")
    bound = measured(tmp_path)
    assert bound.resources.memory_mib == 8192
    assert source_of(bound, "resources.memory_mib") == "/sys/fs/cgroup/memory.max"


@collect("text", ["", "MemTotal: lots kB", "MemTotal:  " + "9" * 30 + " kB", "\x00"])
def test_memory_that_is_not_told_is_a_gap(tmp_path: Path, text: str) -> None:
    facts = measured(tmp_path, **{"proc/meminfo": text})
    assert facts.resources.memory_mib is None
    assert any(gap.fact == "resources.memory_mib" for gap in facts.gaps)


def test_free_disk_is_looked_at_only_where_everything_is(tmp_path: Path) -> None:
    assert look(tmp_path).resources.disk_mib is None
    deep = look(tmp_path, deep=True)
    assert deep.resources.disk_mib is not None
    assert source_of(deep, "resources.disk_mib") == "statvfs of the working folder"


def test_the_device_nodes_of_nvidia_alone(tmp_path: Path) -> None:
    names = ("nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia0x", "null", "dxg", "nvidiana")
    facts = look(plant(tmp_path, {f"dev/{name}": "" for name in names}))
    assert facts.environment.device_nodes == ("dxg", "nvidia-uvm", "nvidia0", "nvidia12", "nvidiactl")


def test_the_libcuda_that_goes_first(tmp_path: Path) -> None:
    own = "usr/lib/x86_64-linux-gnu"
    compat = "usr/local/cuda-12.8/compat"
    root = plant(
        tmp_path,
        {
            "proc/driver/nvidia/version": PROPRIETARY,
            f"{own}/libcuda.so.535.129.03": "",
            f"{own}/libcuda.so.1": "-> libcuda.so.535.129.03",
            f"{compat}/libcuda.so.570.26": "",
            f"{compat}/libcuda.so.1": "-> libcuda.so.570.26",
            "env/cuda-compat/libcuda.so.580.65.06": "",
            "env/lib/libcuda.so.1": "-> ../cuda-compat/libcuda.so.580.65.06",
        },
    )

    def libcuda(**environ: str) -> tuple[str | None, str, bool]:
        facts = look(root, environ)
        found = facts.environment.libcuda
        assert found
        assert source_of(facts, "environment.libcuda") == found.via
        assert facts.driver
        assert facts.driver.version == "535.129.03"
        return found.version, found.via, found.forward

    assert libcuda() == ("535.129.03", "loader", False)
    assert libcuda(LD_LIBRARY_PATH=f"/nowhere:{root}/{compat}") == ("570.26", "LD_LIBRARY_PATH", True)
    first = libcuda(LD_LIBRARY_PATH=f"{root}/{compat}", CONDA_PREFIX=f"{root}/env")
    assert first == ("580.65.06", "CONDA_PREFIX", True)
    assert look(tmp_path / "empty", {"LD_LIBRARY_PATH": f"{root}/{compat}"}).environment.libcuda is None


def test_driver_capabilities_are_those_of_a_container(tmp_path: Path) -> None:
    asked = {"NVIDIA_DRIVER_CAPABILITIES": "utility"}
    assert look(tmp_path, asked).environment.driver_capabilities is None
    facts = look(plant(tmp_path, {".dockerenv": ""}), asked)
    assert facts.environment.driver_capabilities == "utility"
    assert source_of(facts, "environment.driver_capabilities") == "NVIDIA_DRIVER_CAPABILITIES"


HELD = """
import ctypes, os, time
libc, me, (ready, told) = ctypes.CDLL(None), os.getpid(), os.pipe()
libc.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER: anybody
child = os.fork()
if child == 0:
    os.setsid()
    for handle in (0, 1, 2):
        os.close(handle)
    os.write(told, b"1" if libc.ptrace(0x4206, me, None, None) == 0 else b"0")  # PTRACE_SEIZE
    time.sleep(60)
    os._exit(0)
print(child, os.read(ready, 1).decode(), flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_a_program_that_cannot_even_be_killed_is_given_up(tmp_path: Path) -> None:
    """As nvidia-smi on a driver that hangs: here a tracer keeps what was killed from its parent."""
    (tmp_path / "held.py").write_text(HELD)
    code = (
        "import sys, time\nfrom cuenv.core.io.process import run\nbegan = time.monotonic()\n"
        "done = run([sys.executable, sys.argv[1]], 1)\n"
        "print(*done.out.split(), time.monotonic() - began, done.reason)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "held.py")]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=80).stdout.split(" ", 3)
    os.kill(int(told[0]), signal.SIGKILL)
    if told[1] != "1":
        pytest.skip("no process may trace another here")
    assert float(told[2]) < 20
    assert told[3] == "no answer within 1 s\n"
