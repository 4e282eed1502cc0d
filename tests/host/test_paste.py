"""What people paste of a host: the readers, logs around pastes, and pastes that are cut or contradict themselves."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect, quick
from cuenv.host.describe import host_options
from cuenv.host.paste.one_host import READERS, Passages, PastedHost, pasted_host, read_facts, traceback_paths
from cuenv.host.paste.reader import PastedFact
from failure_logs import tables
from thorough import examples

SMI = """\
Tue Mar  5 10:11:12 2024
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.161.07             Driver Version: 535.161.07   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|=========================================+======================+======================|
|   0  NVIDIA A10                     On  | 00000000:00:1E.0 Off |                    0 |
|  0%   28C    P8               9W / 150W |      4MiB / 23028MiB |      0%      Default |
|   1  Tesla V100-SXM2...             On  | 00000000:00:1F.0 Off |                    0 |
| N/A   33C    P0              38W / 300W |      4MiB / 32768MiB |      0%      Default |
+-----------------------------------------+----------------------+----------------------+
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|    0   N/A  N/A      1234      C   python                                      300MiB |
"""
NEW_SMI = "| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |\n"
CSV = """\
name, driver_version, memory.total [MiB], compute_cap
NVIDIA L4, 550.90.07, 23034 MiB, 8.9
NVIDIA L4, 550.90.07, 23034 MiB, 8.9
"""
ENVIRONMENT = """\
Collecting environment information...
PyTorch version: 2.3.0+cu118
CUDA used to build PyTorch: 11.8
ROCM used to build PyTorch: N/A
OS: Ubuntu 20.04.6 LTS (x86_64)
GCC version: (Ubuntu 9.4.0-1ubuntu1~20.04.2) 9.4.0
Libc version: glibc-2.31
Python version: 3.10.14 (main) [GCC 11.2.0] (64-bit runtime)
CUDA runtime version: 11.3.109
GPU models and configuration:
GPU 0: Tesla P40
GPU 1: Tesla P40
Nvidia driver version: 470.223.02
[pip3] xformers==0.0.26
[conda] pytorch-cuda 11.8 h7e8668a_5 pytorch
"""
CONDA = """\
     active environment : base
       virtual packages : __archspec=1=skylake
                          __cuda=12.4=0
                          __glibc=2.28=0
               platform : linux-64
"""


def told(text: str) -> PastedHost:
    return pasted_host(read_facts(text), tables()[0], "the paste", "the paste")


def gathered(text: str, block: int = 1 << 20) -> PastedHost:
    return pasted_host(read_in_blocks(text, block), tables()[0], "the log")


def read_in_blocks(text: str, block: int) -> tuple[PastedFact, ...]:
    """As a log is read: block by block, of whole lines."""
    passages, number = Passages(), 1
    lines = text.encode().splitlines(keepends=True)
    step = max(1, block)
    for at in range(0, len(lines), step):
        part = b"".join(lines[at : at + step])
        passages.look(part, number)
        number += part.count(b"\n")
    return passages.facts()


def test_the_table_of_nvidia_smi() -> None:
    found = told(SMI)
    assert found.facts.driver is not None
    assert (found.facts.driver.version, str(found.facts.driver.cuda)) == ("535.161.07", "12.2")
    assert [(gpu.name, str(gpu.capability), gpu.memory_mib) for gpu in found.facts.gpus] == [
        ("NVIDIA A10", "8.6", 23028),
        ("Tesla V100-SXM2...", "7.0", 32768),
    ]
    driver = found.facts.evidence_for("driver.version")
    assert driver is not None
    assert driver.source == "the paste, line 3"
    assert "535.161.07" in driver.text
    assert {gap.fact for gap in found.facts.gaps} == {"libc"}


def test_drivers_from_610_on_name_themselves_otherwise() -> None:
    driver = told(NEW_SMI).facts.driver
    assert driver is not None
    assert driver.version == "610.57.04"


def test_csv_by_header_and_by_shape() -> None:
    for text in (CSV, CSV.partition("\n")[2]):
        found = told(text)
        assert [str(gpu.capability) for gpu in found.facts.gpus] == ["8.9", "8.9"]
        assert found.facts.driver is not None
        assert found.facts.driver.version == "550.90.07"


def test_collect_env_tells_host_and_packages() -> None:
    found = told(ENVIRONMENT)
    assert host_options(found.facts) == ("--gpu", "6.1", "--driver", "470.223.02", "--glibc", "2.31")
    assert [gpu.name for gpu in found.facts.gpus] == ["Tesla P40", "Tesla P40"]
    assert found.others["torch"] == "2.3.0+cu118"
    assert (found.others["cuda"], found.others["nvcc"], found.others["python"]) == ("11.8", "11.3", "3.10")
    assert found.packages["xformers"] == "0.0.26"
    assert found.builds["pytorch-cuda"] == "h7e8668a_5"
    assert not found.system


def test_conda_info_tells_a_level_and_no_driver() -> None:
    found = told(CONDA)
    assert found.facts.driver is not None
    assert (found.facts.driver.version, str(found.facts.driver.cuda)) == (None, "12.4")
    assert found.facts.libc is not None
    assert str(found.facts.libc.version) == "2.28"
    asked = told("error: nothing provides __cuda >=12.8 needed by pytorch-2.9\n  virtual packages : __unix=0\n")
    assert asked.facts.driver is None


def test_ds_report_tells_no_gpu() -> None:
    found = told(
        "DeepSpeed general environment info:\n"
        "torch install path ............... ['/opt/x/lib/python3.10/site-packages/torch']\n"
        "torch version .................... 2.1.2+cu121\n"
        "deepspeed info ................... 0.12.6, unknown, unknown\n"
        "torch cuda version ............... 12.1\n"
        "nvcc version ..................... 11.5\n"
        "shared memory (/dev/shm) size .... 64.00 MB\n"
    )
    assert found.facts.driver is None
    assert not found.facts.gpus
    assert (found.others["nvcc"], found.others["cuda"], found.packages["deepspeed"]) == ("11.5", "12.1", "0.12.6")
    assert found.facts.resources.shm_mib == 64


@collect(
    ("text", "system"),
    [
        ("PyTorch version: 2.1.0\nOS: Microsoft Windows 11 Pro\n", "Windows"),
        ("PyTorch version: 2.1.0\nOS: macOS 14.1 (arm64)\n", "macOS"),
        ("PyTorch version: 2.4.0\nROCM used to build PyTorch: 6.1.40091\n", "ROCm"),
        (
            "|   0  NVIDIA GeForce RTX 3060      WDDM  | 0000 On | 5%      4MiB /  9MiB |",
            "Windows",
        ),
    ],
)
def test_what_is_no_linux_with_nvidia_is_said(text: str, system: str) -> None:
    assert told(text).system == system


def test_two_drivers_are_a_contradiction_and_no_fact() -> None:
    found = told(SMI + ENVIRONMENT)
    assert found.facts.driver is None
    assert any("line 3 says 535.161.07" in item and "470.223.02" in item for item in found.contradictions)
    assert "driver.version" in {gap.fact for gap in found.facts.gaps}


def test_the_libcuda_of_an_image_does_not_become_the_drivers_level() -> None:
    found = told("| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 12.2      |\n")
    assert found.facts.driver is not None
    assert str(found.facts.driver.cuda) == "11.4"
    assert "forward-compatibility" in found.contradictions[0]


def test_a_name_that_is_cut_counts_only_where_all_that_begin_so_are_alike() -> None:
    row = (
        "|   0  {:<24} Off  | 00000000:03:00.0  On |                  N/A |\n"
        "|  0%   35C    P5    24W / 250W |    569MiB / {}MiB |      1%  Default |\n"
    )
    assert [str(gpu.capability) for gpu in told(row.format("GeForce GTX 108...", 11171)).facts.gpus] == ["6.1"]
    found = told(row.format("NVIDIA GeForce ...", 9999999))
    assert [gpu.capability for gpu in found.facts.gpus] == [None]
    assert any("may be several GPUs" in gap.reason for gap in found.facts.gaps)


def test_the_parts_of_a_log_are_found_in_blocks_of_any_size() -> None:
    noise = "".join(f"step {step} loss 0.1\n" for step in range(300))
    log = f"{noise}{SMI}{noise}nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 11.5, V11.5.119\n"
    for block in (1, 7, 100_000):
        found = gathered(log, block)
        assert [str(gpu.capability) for gpu in found.facts.gpus] == ["8.6", "7.0"], block
        assert found.others["nvcc"] == "11.5"
        driver = found.facts.evidence_for("driver.version")
        assert driver is not None
        assert driver.source == "the log, line 303"


@pytest.mark.parametrize("seed", quick(range(6), first=1))
def test_a_mark_inside_its_own_passage_tells_the_same_in_blocks_of_any_size(seed: int) -> None:
    chance = random.Random(seed)
    told = [line for text in (SMI, ENVIRONMENT, CONDA) for line in text.splitlines()]
    lines = [chance.choice(told) if chance.random() < 0.1 else f"step {step}" for step in range(1500)]
    whole = read_in_blocks("\n".join(lines), len(lines))
    assert read_in_blocks("\n".join(lines), 1) == whole
    assert read_in_blocks("\n".join(lines), 60) == whole


def test_gpustat_tells_driver_and_gpus() -> None:
    lines = (
        "node7                Fri Jun 14 10:00:00 2024  535.161.07",
        "[0] NVIDIA A100-SXM4-80GB | 34°C,   0 % |     0 / 81920 MB |",
        "[1] GeForce GTX 1080 Ti   | 55'C,   2 % |   340 / 11178 MB | someone(300M)",
    )
    found = told("\n".join(lines))
    assert [(gpu.name, str(gpu.capability)) for gpu in found.facts.gpus] == [
        ("NVIDIA A100-SXM4-80GB", "8.0"),
        ("GeForce GTX 1080 Ti", "6.1"),
    ]
    assert found.facts.driver is not None
    assert (found.facts.driver.version, str(found.facts.driver.cuda)) == ("535.161.07", "12.2")
    assert [str(gpu.capability) for gpu in gathered("\n".join(lines)).facts.gpus] == ["8.0", "6.1"]


def test_one_gpu_that_several_lines_name_is_one() -> None:
    found = told(
        "NVIDIA GeForce RTX 5080 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n"
        "Device: cuda:0 NVIDIA GeForce RTX 5080 : native\n"
        "GPU 0: NVIDIA GeForce RTX 5080 (UUID: GPU-0)\n"
    )
    assert [str(gpu.capability) for gpu in found.facts.gpus] == ["12.0"]


def test_files_of_a_traceback_are_told_but_temporary_ones() -> None:
    text = (
        '  File "/srv/app/train.py", line 3, in <module>\n  File "/tmp/pip-install-x/setup.py", line 1, in <module>\n'
    )
    assert traceback_paths(read_facts(text)) == ("/srv/app/train.py",)


@given(st.integers(0, 4000), st.sampled_from([SMI, CSV, ENVIRONMENT, CONDA]), st.integers(0, 12))
@examples(80)
def test_a_cut_paste_tells_less_and_never_something_else(cut: int, text: str, without: int) -> None:
    lines = text[:cut].split("\n")
    whole = told(text)
    found = told("\n".join(line for number, line in enumerate(lines[:-1]) if number != without))
    assert {gpu.capability for gpu in found.facts.gpus if gpu.capability} <= set(whole.facts.capabilities)
    assert found.facts.driver is None or found.facts.driver.version in (
        None,
        whole.facts.driver and whole.facts.driver.version,
    )


@given(st.text(max_size=400), st.sampled_from([mark for reader in READERS for mark in reader.marks]))
@examples(60)
def test_no_text_brings_a_reader_down(text: str, mark: str) -> None:
    assert pasted_host(read_facts(f"{mark}{text}\n{mark} : {text}"), tables()[0], "x") is not None
