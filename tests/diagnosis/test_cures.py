"""The one command of a diagnosis: filled from the log, for the host of the log, and no other torch than the log has."""

from __future__ import annotations

import pytest

from cases import collect
from cuenv.diagnosis.causes import Cause
from cuenv.diagnosis.cures import package_in
from failure_logs import read

A100_470 = """\
| NVIDIA-SMI 470.129.06   Driver Version: 470.129.06   CUDA Version: 11.4     |
|   0  NVIDIA A100-SXM4-40GB   On   | 00000000:61:00.0 Off |                  0 |
"""
TOO_OLD = (
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver\n"
)
CPU = "AssertionError: Torch not compiled with CUDA enabled\n"


def led(text: str) -> Cause:
    return read(text.encode()).causes[0]


def test_the_release_of_the_log_stays_and_only_its_cuda_build_changes() -> None:
    cause = led(f"torch version: 2.1.0+cu121\n[pip3] torchvision==0.16.0+cu121\n{A100_470}{TOO_OLD}")
    assert cause.command == (
        "python -m pip install torch==2.1.0+cu118 torchvision==0.16.0+cu118 "
        "--index-url https://download.pytorch.org/whl/cu118"
    )
    assert "in the long run: driver 525.60.13" in cause.remedy


def test_companions_that_the_log_mentions_change_with_torch() -> None:
    log = f"import torchvision\nPyTorch version: 2.3.1+cu121\nNvidia driver version: 510.47.03\n{TOO_OLD}"
    assert "torch==2.3.1+cu118 torchvision==0.18.1+cu118 --index-url" in led(log.replace("11040", "11060")).command


def test_without_a_release_the_host_of_the_log_is_resolved_for() -> None:
    cause = led(A100_470 + TOO_OLD)
    assert cause.command == "cuenv resolve --gpu 8.0 --driver 470.129.06 --cuda 11.8 -o environment.yml"


def test_a_build_of_conda_is_never_replaced_by_a_wheel() -> None:
    rows = "# packages in environment at /opt/x:\npytorch  2.1.0  py3.10_cuda12.1_cudnn8.9.2_0  pytorch\n"
    assert led(rows + A100_470 + TOO_OLD).command.startswith("cuenv resolve --gpu 8.0 ")


def test_nothing_of_this_machine_stands_in_a_command_for_another() -> None:
    cause = led(TOO_OLD)
    assert cause.command == "cuenv resolve --cuda 11.8 -o environment.yml"
    assert any("run the command on the machine of the log" in item for item in cause.because)
    assert not any("this machine" in item for item in cause.because)


def test_a_cpu_build_is_replaced_by_the_cuda_build_of_the_same_release() -> None:
    cause = led(f"torch version: 2.4.1\nPyTorch version: 2.4.1+cpu\n{CPU}")
    assert cause.command == "python -m pip uninstall -y torch && python -m pip install torch==2.4.1"


@pytest.mark.parametrize(
    ("log", "has", "lacks"),
    [
        (
            (
                "RuntimeError:\nThe detected CUDA version (12.4) mismatches the version that was used to compile\n"
                "PyTorch (11.8). Please make sure to use the same CUDA versions.\n"
            ),
            "nvidia/label/cuda-11.8.0 cuda-toolkit",
            "resolve",
        ),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_86'\n", "conda install", '"8.6"'),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_20'\n", "get_device_capability", "2.0"),
        (
            (
                "Collecting causal_conv1d\n  Preparing metadata (setup.py): error\n"
                "      ModuleNotFoundError: No module named 'torch'\n  Getting requirements to build wheel\n"
            ),
            "--no-build-isolation causal",
            "PACKAGE",
        ),
        ("ERROR: No matching distribution found for torch==2.7.1+cu128\n", "whl/cu128", "kb"),
        ("ERROR: No matching distribution found for torch==1.12.1\n", "python=3.10 pip", "2.5"),
        (
            "ImportError: /lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by x.so)\n",
            "libstdcxx-ng>=13",
            "{needed}",
        ),
        (
            (
                "torch.distributed.DistBackendError: NCCL error: unhandled system error, NCCL version 2.19.3\n"
                "Last error:\nsocketProgress: Connection refused\n"
            ),
            "NCCL_SOCKET_IFNAME",
            "shm",
        ),
        (
            (
                "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:\n"
                "    PyTorch 2.5.1+cu121 with CUDA 1201 (you have 2.3.0+cu118)\n"
            ),
            "torch==2.3.0+cu118 xformers --index-url https://download.pytorch.org/whl/cu118",
            "kb package",
        ),
        (
            "ImportError: /e/site-packages/torch_scatter/_scatter_cuda.so: undefined symbol: _ZN3c106detail14x\n",
            "^torch.scatter[ =]",
            "PACKAGE",
        ),
        (
            (
                "mmcv-full==1.7.0\nImportError: /e/site-packages/mmcv/_ext.cpython-38-x86_64-linux-gnu.so: "
                "undefined symbol: _ZN3c1010TensorImpl\n"
            ),
            "^mmcv(-full)?[ =]",
            "--no-deps mmcv",
        ),
        (
            "ImportError: /lib64/libc.so.6: version `GLIBC_2.32' not found (required by /e/flash_attn_2_cuda.so)\n",
            "FLASH_ATTENTION_FORCE_BUILD=TRUE python -m pip install",
            "cuenv resolve",
        ),
        (
            "ImportError: /lib64/libm.so.6: version `GLIBC_2.27' not found (required by /e/torch/libcurand.so)\n",
            "cuenv resolve",
            "pip",
        ),
        (
            "   jaxlib 0.4.23 would require\n         __cuda *, for which no candidates were found.\n",
            "pixi workspace system-requirements add cuda 12",
            "cuenv lock",
        ),
        (
            "Virtual package '__cuda' does not match any of the available virtual packages on your machine\n",
            "CONDA_OVERRIDE_CUDA=12.0 pixi install",
            "cuenv lock",
        ),
        (
            (
                "[ONNXRuntimeError] : 1 : FAIL : Failed to load library libonnxruntime_providers_cuda.so with error: "
                "libcublasLt.so.12: cannot open shared object file: No such file or directory\n"
            ),
            "'onnxruntime-gpu[cuda,cudnn]'",
            "1.18",
        ),
        (
            "AssertionError: MMCV==1.7.0 is used but incompatible. Please install mmcv>=2.0.0rc4, <2.1.0.\n",
            ">=2.0.0rc4",
            "{",
        ),
    ],
)
def test_the_numbers_and_names_of_the_message_fill_the_command(log: str, has: str, lacks: str) -> None:
    command = led(log).command
    assert has in command
    assert lacks not in command


def test_a_library_that_torch_brings_is_put_on_the_search_path_and_nothing_is_upgraded() -> None:
    name = "libcudnn_ops_infer.so.8"
    lost = f"Could not load library {name}. Error: {name}: cannot open shared object file\n"
    cause = led(f"torch 2.0.1+cu117\n{lost}Aborted (core dumped)\n")
    assert cause.command.startswith("export LD_LIBRARY_PATH=$(python -c ")
    assert "brings cuDNN 8" in cause.because[0]
    newer = led(f'torch 2.5.1+cu124\n  File "/x/lib/python3.10/site-packages/ctranslate2/a.py", line 1, in f\n{lost}')
    assert newer.command == "python -m pip install 'ctranslate2>=4.5'"


def test_a_solver_is_told_what_runs_by_minor_version_compatibility_and_nothing_else() -> None:
    asks = "  - nothing provides __cuda >=12.8 needed by pytorch-2.8.0-cuda128_mkl_py312\n"
    cause = led(f"{asks}       virtual packages : __cuda=12.2=0\n")
    assert cause.command == "export CONDA_OVERRIDE_CUDA=12.8"
    assert any("minor-version compatibility" in item for item in cause.because)
    older = led(f"{asks}       virtual packages : __cuda=11.4=0\n")
    assert "OVERRIDE_CUDA=12" not in older.command
    assert "--cuda 11" in older.command


def test_a_driver_for_which_nothing_is_built_gets_no_none() -> None:
    cause = led(TOO_OLD.replace("11040", "8000"))
    assert cause.command == "cuenv kb driver"
    assert "None" not in " ".join([*cause.because, cause.remedy, cause.command])


def test_what_administrators_must_do_says_so() -> None:
    cause = led("Failed to initialize NVML: Driver/library version mismatch\n")
    assert cause.for_administrators
    assert not led(TOO_OLD).for_administrators


def test_two_drivers_in_one_log_are_not_mixed() -> None:
    cause = led(A100_470 + TOO_OLD.replace("11040", "9000"))
    assert "the driver supports CUDA 9.0" in cause.because[0]
    assert any("they are not one machine" in item for item in cause.because)
    assert "470.129.06" not in cause.command


def test_where_no_driver_is_seen_the_command_is_filled_or_asks_first() -> None:
    lost = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU\n"
    assert led(lost).command == "nvidia-smi"
    ran = f"$ docker run -it --rm ghcr.io/acme/trainer:1.2 python run.py\n{lost}"
    assert led(ran).command == "docker run --gpus all ghcr.io/acme/trainer:1.2 nvidia-smi"


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("/env/lib/python3.10/site-packages/vllm/_C.cpython-310-x86_64-linux-gnu.so: undefined symbol", "vllm"),
        ("ImportError: flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: x", "flash-attn"),
        ("/env/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: undefined symbol", ""),
    ],
)
def test_the_package_of_a_line(line: str, package: str) -> None:
    assert package_in(line) == package


# -- what no row knows, by its form


MISSING = {
    "ModuleNotFoundError: No module named 'cv2'": "python -m pip install opencv-python-headless",
    "ModuleNotFoundError: No module named 'torch_sparse'": '-f "https://data.pyg.org/whl/torch-',
    "ModuleNotFoundError: No module named 'apex'": "grep -rni",
    "ModuleNotFoundError: No module named 'imp'": "python=3.11",
    "ImportError: libsndfile.so.1: cannot open shared object file: No such file or directory": "libsndfile1",
    "ImportError: libstrange.so.4: cannot open shared object file: No such file or directory": "libstrange.so*",
    "x.cpp:3:10: fatal error: glm/vec3.hpp: No such file or directory": "sudo apt-get install libglm-dev",
    "/usr/bin/ld: cannot find -lnuma": "sudo apt-get install libnuma-dev",
    "ImportError: /e/lib/python3.10/site-packages/fast_ops/_k.so: undefined symbol: go": "--no-build-isolation",
}


@collect("line", MISSING)
def test_what_is_missing_is_had_from_the_package_that_holds_it(line: str) -> None:
    found = read(line.encode())
    assert found.verdict == "known"
    assert MISSING[line] in found.causes[0].command


STATUSES = {
    "RuntimeError: CUDA driver error: CUDA_ERROR_LAUNCH_FAILED": "launch-failure",
    "CUDA failure 217: could not map the buffer": "peer-access",
    "cuda error 700 at kernel.cu:12": "illegal-memory-access",
    "Error: cusparse returned CUSPARSE_STATUS_ALLOC_FAILED": "cuda-oom-raw",
    "what():  CUFFT_ALLOC_FAILED, error in plan": "cuda-oom-raw",
    "RuntimeError: cudaErrorSomethingThatIsNew in f": "cuda-status",
}


@collect("line", STATUSES)
def test_a_status_of_cuda_means_the_same_in_every_form(line: str) -> None:
    assert [cause.symptom.id for cause in read(line.encode()).causes] == [STATUSES[line]]


def test_a_general_reading_gives_way_to_a_row_that_knows_more() -> None:
    chain = b"ImportError: cannot import name 'csrc' from 'gsplat' (/e/gsplat/__init__.py)\nnvcc: command not found\n"
    assert [cause.symptom.id for cause in read(chain).causes] == ["nvcc-not-found"]
    assert read(b"n1:21 [3] NCCL INFO cudaErrorIllegalAddress was handled\nstep 12\n").verdict != "known"


def test_a_requirement_of_an_image_is_not_skipped_while_the_driver_is_not_known() -> None:
    line = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver\n"
    assert "NVIDIA_DISABLE_REQUIRE" not in led(line).command
    assert "driver_version" in led(line).command


def test_java_gets_no_command_of_pip() -> None:
    line = (
        "/tmp/onnxruntime-java123/libonnxruntime_providers_cuda.so: libcublasLt.so.12: cannot open shared object file\n"
    )
    assert "pip" not in led(line).command
