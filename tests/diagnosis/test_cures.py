"""The one command of a diagnosis: filled from the log, for the host of the log, and no other torch than the log has."""

from __future__ import annotations

import re
import subprocess

import pytest

from cases import collect
from cuenv import api
from cuenv.core.record import replace
from cuenv.diagnosis.causes import Cause, Diagnosis, diagnose
from cuenv.diagnosis.cures.names import package_in
from cuenv.diagnosis.log.host import log_host
from cuenv.diagnosis.log.scan import scan
from cuenv.host.io.record import read_host
from cuenv.host.select import HostOptions
from failure_logs import read, tables

A100_470 = """\
| NVIDIA-SMI 470.129.06   Driver Version: 470.129.06   CUDA Version: 11.4     |
|   0  NVIDIA A100-SXM4-40GB   On   | 00000000:61:00.0 Off |                  0 |
"""
TOO_OLD = (
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver\n"
)
_SETUPTOOLS = "No module named 'setuptools'"
_LOOKED = "Looking in indexes: https://internal/simple, https://download.pytorch.org/whl/cu113\n"
AT = "ImportError: /opt/x/lib/python3.10/site-packages"
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


@pytest.mark.parametrize(
    ("glibc", "begins"), [("2.28", "python -m pip install torch==2.7.1+cu118 "), ("2.17", "cuenv resolve ")]
)
def test_no_wheel_is_proposed_that_the_c_library_of_the_host_is_too_old_for(glibc: str, begins: str) -> None:
    host = api.make_host("A100", driver="470.129.06", glibc=glibc)
    assert api.diagnose(f"PyTorch version: 2.7.1+cu128\n{TOO_OLD}", host).causes[0].command.startswith(begins)


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


@collect(
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
        ("Could not find any cudnn.h matching version '8' in any subdirectory:\n", "TF_CUDA_PATHS", "kb"),
        (f"Resolved 7 packages in 8ms\nModuleNotFoundError: {_SETUPTOOLS}\n", "uv pip install setuptools", "kb"),
        ("dpkg: dependency problems prevent configuration of words:\n", "--fix-broken", "kb"),
        ("a.c:6:10: fatal error: numpy/arrayobject.h: No such file or directory\n", "numpy.get_include()", "kb"),
        ("a.c:6:10: fatal error: longintrepr.h: No such file or directory\n", "python=3.10", "kb"),
        ("RuntimeError: Couldn't install torch.\nError code: -9\n", "PIP_NO_CACHE_DIR=1", "kb"),
        ("failed (exitcode: -9) local_rank: 0 (pid: 438) of binary: /opt/bin/python\n", "", "PIP_NO_CACHE_DIR"),
        ("nvidia-container-cli: mount error: failed to add device rules: bpf_prog_query\n", "", "restart docker"),
        ("nvidia-container-cli: mount error: mount operation failed: /e/f: operation not permitted\n", "", "docker"),
        ('failed to get sandbox runtime: no runtime for "nvidia" is configured\n', "restart containerd", "docker"),
        (
            "Loaded runtime CuDNN library: 6021 (compatibility version 6000) but source was compiled with 5110 (\n",
            "",
            "LD_LIBRARY_PATH",
        ),
        (f"{_LOOKED}ERROR: No matching distribution found for torch==1.12.1+cu113\n", "python=3.10 pip", "kb"),
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
            "torch==2.3.0+cu118 xformers==0.0.26.post1 --index-url https://download.pytorch.org/whl/cu118",
            "kb package",
        ),
        (
            "ImportError: /e/site-packages/torch_scatter/_scatter_cuda.so: undefined symbol: _ZN3c106detail14x\n",
            "data.pyg.org",
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
    assert "includes cuDNN 8" in cause.because[0]
    newer = led(f'torch 2.5.1+cu124\n  File "/x/lib/python3.10/site-packages/ctranslate2/a.py", line 1, in f\n{lost}')
    assert newer.command == "python -m pip install 'ctranslate2>=4.5'"


def test_a_solver_is_given_what_runs_by_minor_version_compatibility_and_nothing_else() -> None:
    asks = "  - nothing provides __cuda >=12.8 needed by pytorch-2.8.0-cuda128_mkl_py312\n"
    cause = led(f"{asks}       virtual packages : __cuda=12.2=0\n")
    assert cause.command == "export CONDA_OVERRIDE_CUDA=12.8"
    assert any("minor-version compatibility" in item for item in cause.because)
    older = led(f"{asks}       virtual packages : __cuda=11.4=0\n")
    assert "OVERRIDE_CUDA=12" not in older.command
    assert "--cuda 11" in older.command


def test_a_driver_for_which_nothing_is_built_gets_no_none() -> None:
    cause = led(TOO_OLD.replace("11040", "8000"))
    assert not cause.command
    assert "an administrator" in cause.remedy
    assert "None" not in " ".join([*cause.because, cause.remedy, cause.command])


def test_what_administrators_must_do_says_so() -> None:
    cause = led("Failed to initialize NVML: Driver/library version mismatch\n")
    assert cause.for_administrators
    assert not led(TOO_OLD).for_administrators


def test_two_drivers_in_one_log_are_not_mixed() -> None:
    cause = led(A100_470 + TOO_OLD.replace("11040", "9000"))
    assert "the driver supports CUDA 9.0" in cause.because[0]
    assert any("they are different machines" in item for item in cause.because)
    assert "470.129.06" not in cause.command


def test_where_no_driver_is_seen_the_command_is_filled_or_left_out() -> None:
    lost = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU\n"
    assert not led(lost).command
    assert "if nvidia-smi works on the host" in led(lost).remedy
    ran = f"$ docker run -it --rm ghcr.io/acme/trainer:1.2 python run.py\n{lost}"
    assert led(ran).command == "docker run --gpus all ghcr.io/acme/trainer:1.2"


@collect(
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
    "ModuleNotFoundError: No module named 'apex'": "git+https://github.com/NVIDIA/apex",
    "ModuleNotFoundError: No module named 'imp'": "python=3.11",
    "ImportError: libsndfile.so.1: cannot open shared object file: No such file or directory": "libsndfile1",
    "x.cpp:3:10: fatal error: glm/vec3.hpp: No such file or directory": "sudo apt-get install libglm-dev",
    "/usr/bin/ld: cannot find -lnuma": "sudo apt-get install libnuma-dev",
    "x.cu:1:10: fatal error: torch/extension.h: No such file or directory": "export CPATH=$(python -c",
    'k.cu(9): error: identifier "__shfl_sync" is undefined': "cuda-nvcc cuda-cudart-dev",
    'k.cu(9): error: class "cudaDeviceProp" has no member "memoryClockRate"': "cuda-version=12.9",
    "/usr/bin/python3: No module named pip": "python3-pip",
    "Could not find a version that satisfies the requirement torch==2.1.0+cu118": "--index-url https://download.pytorch",
    (
        "There are no g++ version bounds defined for CUDA version 12.1\n"
        "nvcc fatal   : Unsupported gpu architecture 'compute_37'"
    ): "export TORCH_CUDA_ARCH_LIST",
    (
        "nvcc -MD -DTORCH_EXTENSION_NAME=addone -gencode arch=compute_50,code=sm_50\n"
        "nvcc fatal   : Unsupported gpu architecture 'compute_50'"
    ): "export TORCH_CUDA_ARCH_LIST",
    "RuntimeError: Found incorrect download: cuda-nvcc. Aborting": "conda clean",
    "kernel.h:3:10: fatal error: cutlass/arch/new.h: No such file or directory": "git submodule update",
    "OSError: Cython needs to be installed in Python as a module": "python -m pip install cython",
    (
        "hint: This error likely indicates that `flash-attn@2.8.0` depends\n"
        "ModuleNotFoundError: No module named 'torch'\n"
    ): "--no-build-isolation flash-attn",
    (
        "mamba install scikit-image\nUnsatisfiableError: The following specifications were found\n"
        "to be incompatible with the existing python installation in your environment:\n"
    ): "conda create -n apart scikit-image",
    "Error: Package: 3:nvidia-driver-latest-dkms-520.61.05-1.el7.x86_64 (cuda-rhel7-x86_64)": "epel-release",
    "Could not find suitable Nvidia kernel module version for kernel kernel-4.18.0-553.el8.x86_64": "yum upgrade",
    "CMake Error: The following variables are used in this project, but they are set to NOTFOUND.\ncudnn\n": "cudnn",
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
    assert (
        "NVIDIA_DISABLE_REQUIRE"
        in led(f"$ docker run --rm acme/trainer:1.2\n{A100_470}{line}".replace("12.8", "11.8")).command
    )


def test_a_package_that_names_its_torch_brings_it() -> None:
    """A wheel of vLLM is the same file again: what is wrong is the torch beside it."""
    line = "ImportError: /e/lib/python3.11/site-packages/vllm/_C.abi3.so: undefined symbol: _ZN3c106detail4failEv\n"
    assert "--no-deps" not in led(line).command
    assert "vllm" in led(line).command
    assert "--no-deps" in led(line.replace("vllm/_C", "gsplat/csrc")).command


def test_an_extension_before_torch_wants_torch_first() -> None:
    cause = led("ImportError: ./raster_cuda.so: undefined symbol: THPVariableClass\n")
    assert cause.remedy.startswith("write import torch before")
    assert not cause.command


def test_poetry_is_given_a_python_that_the_wheel_is_for() -> None:
    cause = led(
        "  - Installing torch (2.5.1+cu124): Failed\n\n    Unable to find installation candidates for torch (2.5.1)\n"
    )
    assert cause.command == "poetry env use python3.12 && poetry install"


def test_apt_is_given_what_it_lacks() -> None:
    locked = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (apt)\n"
    assert led(locked).remedy.startswith("wait until")
    assert led("E: Could not open lock file /var/lib/dpkg/lock - open (13: Permission denied)\n").remedy.startswith(
        "run apt"
    )


# -- where the log is from


COMPILER = "/tmp/x.c: RuntimeError: Failed to find C compiler. Please specify via CC environment variable.\n"
NINJA = "RuntimeError: Ninja is required to load C++ extensions\n"
THERE = {
    f"$ uv run train.py\n{NINJA}": "uv pip install ninja",
    f'  File "/w/.pixi/envs/default/lib/python3.12/site-packages/x.py", line 1\n{NINJA}': "pixi run python -m pip",
    f'  File "/h/pypoetry/virtualenvs/x-py3.11/lib/python3.11/site-packages/x.py", line 1\n{NINJA}': "poetry run",
    f'  File "/usr/lib/python3/dist-packages/x.py", line 1, in f\n{COMPILER}': "sudo apt-get update && sudo apt-get",
    f'  File "/root/x.py", line 1\n  File "/usr/lib/python3/dist-packages/x.py", line 1\n{COMPILER}': "apt-get",
    f'  File "/opt/conda/envs/x/lib/python3.11/site-packages/x.py", line 1\n{COMPILER}': "conda install -c",
}


@collect("log", THERE)
def test_a_command_is_said_to_the_program_that_manages_the_environment(log: str) -> None:
    assert led(log).command.startswith(THERE[log])


def test_a_toolkit_comes_from_the_system_where_no_conda_is() -> None:
    log = (
        'File "/usr/local/lib/python3.10/dist-packages/x.py", line 1\nRuntimeError:\nThe detected CUDA version (12.4) '
    )
    log += "mismatches the version that was used to compile\nPyTorch (11.8). Please make sure\n"
    assert led(log).command.startswith(
        "sudo apt-get install -y cuda-toolkit-11-8 && export CUDA_HOME=/usr/local/cuda-11.8"
    )


NOTHING = {
    "x.so: undefined symbol: _ZN3c1010TensorImpl\n": "no package is named",
    "ImportError: /w/app/ops/k.cpython-38-x86_64-linux-gnu.so: undefined symbol: _ZN3c104impl\n": "beside the sources",
    "RuntimeError: CUDA error: an illegal memory access was encountered\n": "a defect of the program",
    "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: x\n": "another machine",
    "RuntimeError: DataLoader worker (pid 3) is killed by signal: Bus error\n": "an image that nobody names",
    "CUDA error: no kernel image is available for execution on the device\n  at /x/ggml-cuda.cu:9: error\n": "no torch",
    "[E:onnxruntime:, e.cc:3 Run] CUDA error: no kernel image is available for execution on the device\n": "no torch",
    "ExternalError: Cuda error(209), no kernel image is available. at (/paddle/paddle/a.cc:281)\n": "no torch",
    "triton.compiler.errors.CompilationError: at 34:23:\n": "a kernel that torch.compile did not make",
}


@collect("log", NOTHING)
def test_no_command_is_printed_that_could_not_help_there(log: str) -> None:
    cause = led(log)
    assert not re.search(r"\b(?:PACKAGE|IMAGE|TRAIN)\b", cause.command)
    assert not cause.command or log.startswith("CUDA error")
    assert cause.remedy


LIBRARIES = {
    "ImportError: libcublas.so.12: cannot open shared object file: x": "install nvidia-cublas-cu12 && export",
    "libcusolver.so.11: at load: libnvJitLink.so.12: cannot open shared object file": "nvidia-nvjitlink-cu12",
    "ImportError: libcudart.so.10.1: cannot open shared object file: x": "conda-forge cudatoolkit=10.1 &&",
    "ImportError: libcublas.so.10: cannot open shared object file: x": "conda-forge cudatoolkit=10.2 &&",
    "OSError: libcurand.so.10: cannot open shared object file: x": "install nvidia-curand-cu12 &&",
    "Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: cannot": "--target ~/cudnn8",
}


@collect("line", LIBRARIES)
def test_a_library_of_cuda_comes_from_the_wheel_that_holds_it(line: str) -> None:
    assert LIBRARIES[line] in led(line).command


def test_a_command_for_a_warning_beside_the_cause_is_not_printed() -> None:
    log = "UserWarning: Failed to load image Python extension: undefined symbol: _ZN3c10\n" + CPU
    causes = read(log.encode()).causes
    assert causes[0].command
    assert not any(cause.command for cause in causes[1:])


SAID = {
    "ImportError: transformers>=4.43 is required for a normal functioning of this module": "'transformers>=4.43'",
    "ImportError: Using the `Trainer` requires `accelerate>=0.20.1`: Please run `pip install accelerate`": ">=0.20.1'",
    "ERROR: Directory 'submodules/simple-knn' is not installable. Neither 'setup.py' nor": "git submodule update",
    "stderr: nvidia-container-cli: mount error: mount operation failed: /proc/driver/nvidia/params": "restart docker",
    'gathering device information while adding custom device "/dev/nvidia-uvm-tools": lstat x': "nvidia-modprobe",
    "ImportError: /opt/gcc/10/lib64/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /h/envs/t/x.so)": (
        "export LD_LIBRARY_PATH=$CONDA_PREFIX/lib"
    ),
    "Bootstrap : no socket interface found": "export NCCL_SOCKET_IFNAME=$(ip",
    "WARNING: Open MPI failed to TCP connect to a peer MPI process.": "export OMPI_MCA_btl_tcp_if_include=$(ip",
    "importlib.metadata.PackageNotFoundError: No package metadata was found for rsl-rl-lib": "pip install rsl-rl-lib",
    "ImportError: /e/site-packages/functorch/../torch/lib/libtorch_cuda_cpp.so: undefined symbol: _ZTIN4c10d4WorkE": (
        "'^torch[ =]'"
    ),
    "unable to execute '/usr/local/cuda/bin/nvcc': No such file or directory": "export CUDA_HOME=$CONDA_PREFIX",
}


@collect("line", SAID)
def test_what_the_message_itself_asks_for_is_the_cure(line: str) -> None:
    prefix = "Error response from daemon: " if "gathering" in line else ""
    assert SAID[line] in led(prefix + line + "\n").command


def test_a_failure_of_cublas_that_tells_no_second_copy_has_no_command() -> None:
    assert not led(
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n"
    ).command
    assert led("RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasSgemm(x)`\n").command


def test_a_slice_of_a_gpu_is_named_where_a_process_asks_for_a_second() -> None:
    cause = led("GPU 0: NVIDIA A100-SXM4-80GB-MIG-3g.40gb\nRuntimeError: CUDA error: invalid device ordinal\n")
    assert any("MIG" in says for says in cause.because)


def test_pip_does_not_put_its_torch_over_that_of_conda() -> None:
    line = "ImportError: /opt/conda/envs/x/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: "
    for symbol in ("_ZN3c104impl", "cusparseSpSM_analysis, version libcusparse.so.11"):
        cause = led(f"{line}{symbol}\n")
        assert not cause.command
        assert "by conda or pip as it was installed" in cause.remedy


def test_a_cache_is_emptied_by_the_program_that_has_it() -> None:
    tree = "$ uv sync\n  ╰─▶ Hash mismatch for `nvidia-nvtx-cu12==12.6.77`\n"
    assert (led(tree).symptom.id, led(tree).command) == ("pip-hash", "uv cache clean")


def test_the_versions_that_pip_lists_are_not_part_of_the_message() -> None:
    refused = "ERROR: Could not find a version that satisfies the requirement torch==2.3.1+cu121"
    lines = (f"{refused} (from versions: 2.3.1, 2.9.0+rocm6.4)", refused.replace("Could", "No"))
    assert led("\n".join(lines)).symptom.id in ("pip-no-distribution", "pip-package-not-found")


JAX = "CUDA backend failed to initialize: "
NO_KERNEL = "CUDA error: no kernel image is available for execution on the device\n"
NO_CUDNN = "(0) Unknown: Failed to get convolution algorithm. This is probably because cuDNN failed to initialize\n"
AMPERE = "RuntimeError: FlashAttention only supports Ampere GPUs or newer.\n"
NO_CUBLAS = "libonnxruntime_providers_cuda.so with error: libcublas.so.11: cannot open shared object file"
REFUSED = "a:1:1 [0] include/socket.h:390 NCCL WARN Connect to 10.0.0.2<21724> failed : Connection refused\n"
NO_COMPAT = "Error 804: forward compatibility was attempted on non supported HW\n"
NO_NVML = (
    "Failed to initialize NVML: could not load NVML library.\nIf this is a GPU node, did you set the {} to 'nvidia'?\n"
)


@collect(
    ("said", "command"),
    [
        (
            "Found cuDNN version 8600, but JAX was built against version 8906, which is newer.",
            "python -m pip install --upgrade 'nvidia-cudnn-cu12>=8.9.6,<9'",
        ),
        (
            "Found cuDNN version 8906, but JAX was built against version 90101, which is newer.",
            "python -m pip install --upgrade 'nvidia-cudnn-cu12>=9.1.1,<10'",
        ),
        (
            "Found cuBLAS version 120103, but JAX was built against version 120205, which is newer.",
            "python -m pip install --upgrade 'nvidia-cublas-cu12>=12.2.5,<13'",
        ),
        (
            "Found cuSOLVER version 11002, but JAX was built against version 11401, which is newer.",
            "python -m pip install --upgrade 'nvidia-cusolver-cu11>=11.4.1,<12'",
        ),
        ("Outdated cuSPARSE installation found.", "python -m pip install --upgrade nvidia-cusparse-cu12"),
        ("Outdated cuDNN installation found.", ""),
        ("Found CUPTI version 18, but JAX was built against version 20, which is newer.", ""),
    ],
)
def test_the_library_that_jax_names_is_the_one_that_is_renewed(said: str, command: str) -> None:
    assert led(f"{JAX}{said}\n").command == command


@collect(
    ("log", "command"),
    [
        (f"ggml-cuda/ggml-cuda.cu:97: CUDA error\n{NO_KERNEL}", ""),
        (f"import torch\n/x/site-packages/torch/nn/modules/conv.py\n{NO_KERNEL}", "cuenv resolve -o environment.yml"),
        (f"  File /x/tensorflow/python/client/session.py\n{NO_CUDNN}", "export TF_FORCE_GPU_ALLOW_GROWTH=true"),
        (f"  File /x/numba/cuda/cudadrv/driver.py\n{NO_KERNEL}", ""),
        (AMPERE, ""),
        (REFUSED, "export NCCL_SOCKET_IFNAME=$(ip -o -4 route show to default | awk '{print $5; exit}')"),
        (
            "RuntimeError: Gloo connectFullMesh failed with [gloo/transport/tcp/pair.cc:144] no error\n",
            "export GLOO_SOCKET_IFNAME=$(ip -o -4 route show to default | awk '{print $5; exit}')",
        ),
        (f"a:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0\n{REFUSED}", ""),
        (f"File /x/site-packages/vllm/worker/worker.py\n{AMPERE}", "export VLLM_ATTENTION_BACKEND=XFORMERS"),
        (NO_COMPAT, "sudo reboot"),
        (f"my-docker-web-1  | {NO_COMPAT}", ""),
    ],
)
def test_a_command_is_for_the_framework_that_the_log_names(log: str, command: str) -> None:
    assert led(log).command == command


def test_the_toolkit_of_the_operator_is_reported_where_the_driver_is() -> None:
    line = "nvidia-container-cli{}: initialization error: load library failed: libnvidia-ml.so.1\n"
    assert "driver.enabled=false" in led(line.format(".real")).remedy
    assert "driver.enabled=false" not in led(line.format("")).remedy


def test_a_node_gets_the_runtime_of_the_engine_that_the_log_names() -> None:
    assert "--runtime=docker " in led(NO_NVML.format("docker default runtime")).command
    assert "--runtime=containerd " in led(NO_NVML.format("runtime")).command


def test_jax_is_given_a_newer_ptxas_and_no_other_torch() -> None:
    log = "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: ptxas, line 9; fatal   : Unsupported .version 8.4; "
    cause = led(f"{log}current version is '8.2'\n")
    assert cause.command.startswith("python -m pip install --upgrade nvidia-cuda-nvcc-cu12 && export PATH=")


@collect(
    "log",
    [
        f"thread 'main' panicked at src/main.rs:6:8:\n{NO_CUBLAS}",
        f"\tat ai.onnxruntime.OrtSession.run(OrtSession.java:7)\n{NO_CUBLAS}",
        "Check failed: error == cudaSuccess (48 vs. 0)  no kernel image is available for execution on the device",
        "/tmp/onnxruntime-java1/libonnxruntime_providers_cuda.so: libcublasLt.so.12: cannot open shared object file\n",
        "Error: DriverError(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 'the provided PTX') when loading f32\n",
        "x@y:~$ uname -r\n4.9.140-tegra\nImportError: libcufft.so.10.0: cannot open shared object file\n",
        "jaxlib.X: the provided PTX was compiled with an unsupported toolchain.\n",
    ],
)
def test_what_is_not_a_program_for_torch_gets_no_command_of_pip_or_conda(log: str) -> None:
    cause = led(log)
    assert (cause.match.kind, cause.command) == ("cause", "")


@collect("address", ["git@github.com:", "git://github.com/"])
def test_git_is_given_the_address_that_everybody_may_read(address: str) -> None:
    line = f"fatal: clone of '{address}acme/ops' into submodule path '/src/third_party/ops' failed\n"
    assert led(line).command == f'git config --global url."https://github.com/".insteadOf {address}'
    assert not led(line.replace(address, "https://gitlab.example/")).command


def test_the_key_of_a_repository_is_its_own() -> None:
    def key(repository: str) -> str:
        return led(f"E: The repository '{repository}  InRelease' is not signed.\n").command

    assert "container-toolkit-keyring" in key("https://nvidia.github.io/libnvidia-container/stable/deb/amd64")
    assert "cuda-keyring" in key("https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64")
    assert not key("https://apt.example.com/stable")


def test_what_provides_a_thing_is_a_row_with_its_source() -> None:
    guidance = tables()[1]
    assert guidance.gives("module", "cv2") == "opencv-python-headless"
    assert not guidance.gives("module", "my_own_module")
    assert all(row.low or row.sources != ("gk_errata",) for row in guidance.providers)


def test_the_longest_beginning_of_a_header_tells_its_package() -> None:
    def package(header: str) -> str:
        return led(f"/src/view.cpp:3:10: fatal error: {header}: No such file or directory\n").command

    assert package("GL/glew.h").endswith(" libglew-dev")
    assert package("GL/gl.h").endswith(" libgl1-mesa-dev")


def test_the_program_that_is_launched_is_the_one_of_the_outermost_frame() -> None:
    twice = "Duplicate GPU detected : rank 3 and rank 2 both on CUDA device e2000\n"
    inner = '  File "/home/u/Megatron-LM/megatron/initialize.py", line 156, in _compile_dependencies\n'
    assert led(f"{inner}{twice}").command == ""
    outer = '  File "/home/u/Megatron-LM/pretrain.py", line 9, in <module>\n'
    assert led(f"{outer}{inner}{twice}").command == "torchrun --nproc_per_node=gpu /home/u/Megatron-LM/pretrain.py"


def test_a_file_name_tells_the_cuda_of_those_libraries_alone_that_count_as_cuda_does() -> None:
    missing = "cannot open shared object file: No such file or directory\n"
    assert any("every CUDA 12.x" in item for item in led(f"ImportError: libcublas.so.12: {missing}").because)
    assert not led(f"ImportError: libnccl.so.2: {missing}").because
    assert "nvidia-nccl-cu12" in led(f"ImportError: libnccl.so.2: {missing}").command


def test_the_torch_that_a_checkpoint_was_trained_with_is_not_the_one_that_runs() -> None:
    trained = "Model was trained with torch 1.10.0+cu102, yours is 2.5.1+cu124. Bad things might happen.\n"
    missing = (
        "Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: cannot open shared object\n"
    )
    assert led(trained + missing).because[0] == "torch 2.5.1+cu124 includes cuDNN 9, but cuDNN 8 is needed"


def test_a_library_that_a_variable_chose_is_cured_by_the_variable() -> None:
    log = (
        "WARNING: BNB_CUDA_VERSION=123 environment variable detected; loading libbitsandbytes_cuda123.so.\n"
        "Could not find the bitsandbytes CUDA binary at PosixPath('/opt/x/bitsandbytes/libbitsandbytes_cuda123.so')\n"
    )
    assert led(log).command == "unset BNB_CUDA_VERSION"


def test_spconv_comes_for_the_cuda_of_torch() -> None:
    frame = '  File "/opt/x/lib/python3.7/site-packages/spconv/pytorch/ops.py", line 164, in get_indice_pairs\n'
    log = f"PyTorch version: 1.8.0+cu101\n{frame}RuntimeError: SpconvOps.cc(65)\nnot implemented for CPU ONLY build.\n"
    assert led(log).command.endswith("pip install spconv-cu102")


@collect(
    ("line", "command"),
    [
        (
            "nvrtc: error: failed to open libnvrtc-builtins.so.11.2.",
            "conda install -c conda-forge cudatoolkit=11.2 && ",
        ),
        ("nvrtc: error: failed to open libnvrtc-builtins.so.12.8.", "pip install 'nvidia-cuda-nvrtc-cu12==12.8.*' && "),
        ("ValueError: This CTranslate2 package was not compiled with CUDA support", "--no-deps ctranslate2"),
        (f"{AT}/awq_inference_engine.cpython-310.so: undefined symbol: _ZN2atE", "autoawq.kernels"),
        (f"{AT}/autogptq_cuda_64.cpython-310.so: undefined symbol: _ZN2atE", "auto.gptq"),
    ],
)
def test_a_command_names_the_library_or_package_of_the_line(line: str, command: str) -> None:
    assert command in led(line + "\n").command


def test_a_host_without_an_address_is_not_found_by_more_patience() -> None:
    tried = (
        "ERROR: Retrying after connection broken by NewConnectionError(<pip._vendor.urllib3.connection>: "
        "Failed to establish a new connection: {}): /simple/torch/\n"
    )
    assert "PIP_DEFAULT_TIMEOUT" in led(tried.format("timed out")).command
    assert not led(tried.format("[Errno -2] Name or service not known")).command


def test_both_cuda_releases_are_read_where_the_message_was_never_filled() -> None:
    cause = led(
        "RuntimeError: ('The detected CUDA version (%s) mismatches the version that was used to compilePyTorch (%s). "
        "Please make sure to use the same CUDA versions.', '12.9', '13.0')\n"
    )
    assert "cuda-version=13.0" in cause.command


def test_weights_that_do_not_fit_on_the_disk_are_not_called_broken() -> None:
    cause = led(
        "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 122, "
        'kind: FilesystemQuotaExceeded, message: "over quota" })\n'
    )
    assert cause.symptom.id == "disk-full"


NO_CODE = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
GTX1080TI = "GPU 0: NVIDIA GeForce GTX 1080 Ti (UUID: GPU-4d0d2a4b-0000-0000-0000-000000000000)\n"
RTX5090 = "GPU 0: NVIDIA GeForce RTX 5090 (UUID: GPU-4d0d2a4b-0000-0000-0000-000000000000)\n"


def raised_in(file: str) -> str:
    return f'  File "/opt/x/lib/python3.10/site-packages/{file}", line 9, in f\n    f()\n{NO_CODE}'


@collect(
    ("log", "command"),
    [
        (RTX5090 + raised_in("flash_attn/interface.py"), "FLASH_ATTENTION_FORCE_BUILD=TRUE python -m pip install"),
        (RTX5090 + raised_in("torch_scatter/scatter.py"), 'FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST="12.0" python -m pip'),
        (raised_in("detectron2/layers/nms.py"), 'FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST="$(nvidia-smi --query-gpu=compute'),
        (raised_in("bitsandbytes/autograd.py"), "python -m pip install --upgrade --no-deps bitsandbytes"),
        (
            f"XlaRuntimeError: INTERNAL: jaxlib/gpu/prng.cc:33: {NO_CODE}",
            "python -m pip install --upgrade 'jax[cuda12]'",
        ),
        (
            "Error named symbol not found at line 1 in file bitsandbytes/csrc/ops.cu\n",
            "python -m pip install --upgrade",
        ),
        (RTX5090 + raised_in("transformers/models/a.py"), "cuenv resolve --gpu 12.0 -o environment.yml"),
        (GTX1080TI + raised_in("mamba_ssm/ops/scan.py"), ""),
        (GTX1080TI + raised_in("flash_attn/interface.py"), ""),
        (RTX5090 + raised_in("xformers/ops/fmha.py"), ""),
    ],
)
def test_a_kernel_without_code_for_the_gpu_is_fixed_in_its_own_package(log: str, command: str) -> None:
    cause = led(log)
    assert cause.symptom.id == "no-kernel-image"
    assert cause.command.startswith(command), cause.command
    assert bool(cause.command) == bool(command)


def test_an_old_tensorflow_is_not_offered_the_wheels_of_a_new_one() -> None:
    old = '  File "/opt/x/lib/python3.7/site-packages/tensorflow_core/a.py", line 1, in f\n'
    line = "W tensorflow/core/common_runtime/gpu/gpu_device.cc:1641] Cannot dlopen some GPU libraries.\n"
    assert led(line).command == "python -m pip install 'tensorflow[and-cuda]'"
    assert led(old + line).command == ""


def test_a_gpu_number_that_is_not_there_is_a_matter_of_ranks_only_where_there_are_several() -> None:
    line = "RuntimeError: CUDA error: invalid device ordinal\n"
    inner = '  File "/home/u/train.py", line 9, in <module>\n    main()\n'
    assert led(inner + line).command == ""
    assert led("".join(f"[rank1]: {one}\n" for one in (inner + line).splitlines())).command.startswith("torchrun")


def test_a_command_for_docker_is_not_given_where_apptainer_runs() -> None:
    missing = 'exec: "/usr/bin/nvidia-container-cli": stat /usr/bin/nvidia-container-cli: no such file or directory\n'
    assert led(f"FATAL:   container creation failed: {missing}").command.endswith("nvidia-container-toolkit")
    assert "systemctl restart docker" in led(f"docker: Error response from daemon: {missing}").command


def test_a_cudnn_that_does_not_start_is_cured_by_what_stopped_it() -> None:
    line = "E cuda_dnn.cc:502] {} CUDNN_STATUS_INTERNAL_ERROR\n"
    assert led(line.format("external/xla/xla/stream_executor")).command == "export XLA_PYTHON_CLIENT_PREALLOCATE=false"
    assert led("OSError: (External) Cudnn error, CUDNN_STATUS_INTERNAL_ERROR\n").command == ""


def test_a_torchvision_of_another_torch_is_replaced_by_the_one_that_belongs_to_it() -> None:
    asked = "The conflict is caused by:\n    The user requested torch==2.3.1+cu118\n"
    log = f"{asked}    torchvision 0.16.1+cu118 depends on torch==2.1.1+cu118\nERROR: ResolutionImpossible: see help\n"
    assert led(log).command == (
        "python -m pip install torch==2.3.1+cu118 torchvision==0.18.1+cu118 "
        "--index-url https://download.pytorch.org/whl/cu118"
    )
    there = "ERROR: pip's dependency resolver does not currently take into account all the packages.\n"
    log = f"{there}torchaudio 2.1.0 requires torch==2.1.0, but you have torch 2.3.1 which is incompatible.\n"
    assert led(log).command == "python -m pip install torch==2.3.1 torchaudio==2.3.1"
    assert led(f"{there}a 1.0 requires b<2, but you have b 2.1 which is incompatible.\n").command == (
        "python -m pip install 'b<2'"
    )
    clash = f"{there}a 1.0 requires b<2,>=1.4; extra == 'x', but you have b 2.1 which is incompatible.\n"
    log = f"{clash}c 3 requires d==1.0.*, but you have d 2 which is incompatible.\n"
    assert led(log).command == "python -m pip install 'b<2,>=1.4' 'd==1.0.*'"
    assert not led(f"{there}a 1.0 requires torch<2, but you have torch 2.1.0 which is incompatible.\n").command


def test_a_solver_is_not_given_a_driver_that_it_sees_to_be_older() -> None:
    found = led("  - package cudatoolkit-11.0.3-1 has constraint __cuda >=11.0 conflicting with __cuda-10.2-0\n")
    assert not found.command
    assert "supports CUDA 10.2" in found.because[0]


def test_uv_is_given_a_python_for_which_the_torch_has_wheels() -> None:
    because = "  ╰─▶ Because torch==1.12.0+cu113 has no wheels with a matching Python ABI tag, we can conclude\n"
    log = f"Using CPython {{}}\n  No solution found when resolving dependencies:\n{because}"
    assert led(log.format("3.11.13")).command == "uv venv --python 3.10"
    assert not led(log.format("3.10.13")).command


def test_uv_keeps_pypi_beside_the_index_of_pytorch() -> None:
    asked = "uv add torch --index-url https://download.pytorch.org/whl/cu124\n"
    found = led(f"{asked}  No solution found when resolving dependencies: jupyterlab was not found\n")
    assert found.command == "uv add torch --index https://download.pytorch.org/whl/cu124"


def test_a_driver_module_that_was_built_and_not_loaded_is_not_built_again() -> None:
    found = led("ERROR: Unable to load the kernel module 'nvidia.ko'. Improperly configured kernel sources\n")
    assert (found.command, "mokutil" in found.remedy) == ("", True)
    assert "linux-headers" in led("modprobe: FATAL: Module nvidia not found.\n").command


def test_a_newer_driver_comes_the_way_of_the_system_that_the_kernel_is_of() -> None:
    said = "Error! Bad return status for module build on kernel: {} (x86_64)\n"
    assert led(said.format("6.8.10-300.fc40.x86_64")).command.startswith("sudo dnf upgrade")
    assert led(said.format("6.17.0-5-generic")).command.endswith("ubuntu-drivers install")
    assert not led(said.format("5.5.9-918.native")).command
    assert led("The CC version check failed:\n").command == "export IGNORE_CC_MISMATCH=1"


def test_apt_takes_the_toolkit_without_the_driver_that_it_cannot_install() -> None:
    asked = "$ sudo apt-get install -y cuda-11-5\nThe following packages have unmet dependencies:\n"
    assert led(asked).command == "sudo apt-get install -y cuda-toolkit-11-5"
    depends = " cuda : Depends: cuda-11-4 (>= 11.4.2) but it is not going to be installed\n"
    assert led(depends).command == "sudo apt-get install -y cuda-toolkit-11-4"
    assert not led(asked.replace("cuda-11-5", "cuda-samples")).command
    gone = led("E: Package 'libtinfo5' has no installation candidate\n")
    assert (gone.command, "install its replacement" in gone.remedy) == ("", True)


def test_what_the_index_of_pip_lacks_comes_from_where_it_is() -> None:
    lacks = "ERROR: No matching distribution found for {}\n"
    index = "https://download.pytorch.org/whl/cu118"
    assert led(lacks.format("torchvision==0.15.2+cu118")).command == (
        f"python -m pip install torchvision==0.15.2+cu118 --index-url {index}"
    )
    assert "github.com/facebookresearch/pytorch3d" in led(lacks.format("pytorch3d")).command
    assert not led(lacks.format("some-package==1.0")).command
    alone = "have no matching distributions available for your environment:\n    sympy\n"
    found = led(f"ERROR: Cannot install torch==2.4.0+cu118 because these package versions have\n{alone}")
    assert found.command.endswith(f"--extra-index-url {index}")


def test_the_headers_of_torch_want_a_gcc_that_nvcc_supports_or_the_toolkit_of_torch() -> None:
    line = "/opt/e/lib/python3.9/site-packages/torch/include/ATen/a.h:54:3: error: {}\n"
    assert "gxx_linux-64=10.*" in led(line.format("expected primary-expression before token")).command
    old = f"torch.__version__  = 1.6.0+cu101\n{line.format('expected primary-expression')}"
    assert "gxx_linux-64=8.*" in led(old).command
    assert "torch.version.cuda" in led(line.format("'cusparseGetErrorName' was not declared")).command
    assert "-std=c++17" in led(line.format("'is_same_v' is not a member of 'std'")).remedy


def test_a_release_whose_wheels_are_for_older_pythons_gets_such_a_python() -> None:
    lacks = "ERROR: No matching distribution found for {}\n"
    found = led(lacks.format("tensorflow-gpu==2.5.1"))
    assert found.command == (
        "conda create -y -n old-python -c conda-forge python=3.9 pip && "
        "conda run -n old-python python -m pip install tensorflow-gpu==2.5.1"
    )
    assert "python=3.9 pip" in led(lacks.format("torchvision==0.9.1")).command
    assert not led(f"/opt/lib/python3.9/site-packages/a.py\n{lacks.format('tensorflow==2.5.0')}").command
    assert not led(lacks.format("tensorflow==9.9.0")).command


def test_an_image_that_is_gone_and_a_file_that_is_not_there_are_not_asked_for_again() -> None:
    gone = "Error response from daemon: manifest for nvidia/cuda:11.0-base not found: manifest unknown\n"
    assert led(f"docker: {gone}").command == "docker run --rm --gpus all ubuntu nvidia-smi"
    assert not led(gone).command
    assert "no such file" in led("2026-08-02 17:29:31 ERROR 404: Not Found.\n").remedy


def test_a_cupy_without_nvcc_is_installed_as_a_wheel() -> None:
    assert led("      nvcc command       : (not found)\n").command == "python -m pip install cupy-cuda12x"


def test_a_pip_that_memory_ends_does_without_its_cache() -> None:
    killed = "Collecting torch\n  Downloading torch-1.10.0-cp38-cp38-manylinux1_x86_64.whl (881.9 MB)\nKilled\n"
    assert led(killed).command == "python -m pip install --no-cache-dir torch"
    assert not led(f"Collecting torch\n$ python train.py --bf16\n{killed.splitlines()[-1]}\n").command


def test_an_nvcc_that_a_shell_misses_where_no_torch_is_comes_alone() -> None:
    assert "cuda-nvcc" in led("/bin/sh: 1: nvcc: not found\n").command
    assert "torch.version.cuda" in led("import torch.utils\n/bin/sh: 1: nvcc: not found\n").command
    image = led("docker build .\n/bin/sh: 1: nvcc: not found\n")
    assert (image.command, "devel image" in image.remedy) == ("", True)
    assert led("configure: error: Couldn't find nvcc\n").command.startswith("export PATH=/usr/local/cuda")
    assert "PATH=/usr/local" not in led("sh: 1: cicc: not found\n").command


def test_a_library_of_cuda_that_no_torch_asks_for_comes_without_torch() -> None:
    found = led("gcc -o miner a.o -lcudart\n/usr/bin/ld: cannot find -lcudart\n")
    assert (found.symptom.id, found.command.partition(" && ")[0]) == (
        "lib-missing-link",
        "conda install -c conda-forge cuda-cudart-dev",
    )


def test_a_python_for_which_the_index_has_nothing_is_replaced() -> None:
    lines = "ERROR: Could not find a version that satisfies the requirement torch==1.11.0+cu113 (from versions: {})\n"
    lacks = lines + "ERROR: No matching distribution found for torch==1.11.0+cu113\n"
    assert "python=3.10 " in led(lacks.format("none")).command
    assert led(lacks.format("1.11.0")).command.startswith("python -m pip install torch==1.11.0+cu113 --index-url")


def test_files_that_other_repositories_hold_are_submodules() -> None:
    assert led("error: package directory 'third_party/sums' does not exist\n").command.startswith(
        "git submodule update"
    )
    assert not led("g++: error: sums.cpp: No such file or directory\n").command


def test_what_pip_collects_for_a_build_is_not_what_is_built() -> None:
    lines = "Collecting setuptools>=40\nGetting requirements to build wheel\nNo module named 'torch'\n"
    said = lines.replace("No module", "ModuleNotFoundError: No module")
    assert "setuptools" not in led(said).command


def test_what_a_setup_refuses_is_reported_with_its_place() -> None:
    frame = '  File "/tmp/pip-req-build-a/setup.py", line 7, in <module>\n    raise RuntimeError(\n'
    found = led(f"Traceback (most recent call last):\n{frame}RuntimeError: Unsupported GPU\n")
    assert (found.symptom.id, found.because) == (
        "setup-refused",
        ("it was raised in /tmp/pip-req-build-a/setup.py, line 7",),
    )


def test_a_toolkit_whose_script_failed_comes_in_packages_without_one() -> None:
    failed = "LinkError: post-link script failed for package conda-forge::{}\n"
    assert led(failed.format("cudatoolkit-dev-11.7.0-h1de0b5d_6")).command == (
        "conda install -c nvidia/label/cuda-11.7.1 cuda-toolkit"
    )
    assert "TMPDIR" in led(failed.format("cudatoolkit-dev-10.1.243-h516909a_1")).command
    assert "clean" in led("[Errno 2] No such file or directory: '/opt/conda/pkgs/a-1-0/lib/a.so'\n").command
    isolated = (
        "Getting requirements to build wheel\nAssertionError: Unable to pre-compile ops without torch installed.\n"
    )
    assert led(isolated).command == "python -m pip install --no-build-isolation deepspeed"


def test_an_address_at_which_apt_finds_nothing_is_taken_out_of_its_lists() -> None:
    said = "E: The repository '{}  Release' does not have a Release file.\n"
    cuda = "https://developer.download.nvidia.com/compute"
    assert "nvidia-ml.list" in led(said.format(f"{cuda}/machine-learning/repos/ubuntu1804/x86_64")).command
    assert r"\|compute/cuda/repos//|d" in led(said.format(f"{cuda}/cuda/repos//")).command
    toolkit = led(said.format("https://nvidia.github.io/libnvidia-container/ubuntu24.04/amd64/")).command
    assert "stable/deb/nvidia-container-toolkit.list" in toolkit
    ppa = led(said.format("https://ppa.launchpadcontent.net/graphics-drivers/ppa/ubuntu")).command
    assert ppa.startswith("sudo add-apt-repository -y --remove ppa:graphics-drivers/ppa ")
    assert not led(said.format("https://mirror.example.org/ubuntu")).command


def test_packages_of_the_kernel_come_to_the_release_of_the_kernel() -> None:
    line = " - package {} requires {}, but none of the providers can be installed\n"
    kernel = led(line.format("akmods-0.5.7-9.fc37.noarch", "(kernel-devel-matched if kernel-core)"))
    assert kernel.command == "sudo dnf upgrade --refresh -y 'kernel*'"
    assert not led(line.format("a-1-2.fc37.noarch", "b")).command
    dkms = "  - nothing provides dkms needed by kmod-nvidia-latest-dkms-3:535.54-1.el8.x86_64 from cuda-rhel8\n"
    assert led(f"Error: \n{dkms}").command == "sudo dnf install -y epel-release"


def test_an_isolated_build_of_pixi_is_fixed_in_its_file_and_uv_names_the_package() -> None:
    missing = "ModuleNotFoundError: No module named 'torch'\n"
    pixi = led(
        f"Failed to update PyPI packages for environment 'default'\nFailed to build `flash-attn==2.8`\n{missing}"
    )
    assert (pixi.command, "no-build-isolation" in pixi.remedy) == ("", True)
    hint = "hint: This error likely indicates that `flash-attn@2.8.1` depends on `torch`. Run `uv pip install torch`\n"
    assert led(missing + hint).command == "uv pip install --no-build-isolation flash-attn"


def test_the_tree_of_uv_is_reported_in_its_first_line() -> None:
    because = "Because there is no version of torch==2.5.1, your requirements are unsatisfiable."
    found = led(f"  No solution found when resolving dependencies:\n  ╰─▶ {because}\n")
    assert found.because == (f"it says: {because.rstrip('.')}",)


def test_the_tree_of_uv_is_reported_without_its_conclusions_and_lists() -> None:
    head = "  x No solution found when resolving dependencies:\n"
    both = "  `-> Because a==1 depends on torch==2.6.0 and you require\n      a==1, we can conclude that it is so.\n"
    more = "      And because you require torch==2.7.0, we can conclude that it cannot be.\n"
    said = "it says: Because a==1 depends on torch==2.6.0 and you require a==1. And because you require torch==2.7.0"
    assert led(head + both + more).because == (said,)
    listed = "  `-> Because only the following versions of torch are available:\n    torch<=2.6.0\n    torch==2.7.0\n"
    lacks = "        torch==2.7.1\n      and your project depends on torch==2.5.1+cu124, we can conclude that\n"
    found = led(head + listed + lacks)
    assert "available: torch<=2.6.0 ... torch==2.7.1 and your project depends on torch==2.5.1+cu124" in found.because[0]
    assert found.command.startswith("export UV_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cu124 ")


def test_a_compiler_that_crashes_is_replaced_by_the_newest_of_torchs_major() -> None:
    crash = "nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)\n"
    assert "cuda-version=12.9 " in led(f"torch.__version__  = 2.4.0+cu121\n{crash}").command
    assert not led(crash).command
    ice = "a.cpp:3:1: internal compiler error: Segmentation fault\n"
    assert "gxx_linux-64=12.*" in led(f"torch.__version__  = 2.4.0+cu121\n{ice}").command
    assert not led(ice).command


def test_apt_that_reads_the_cuda_repository_twice_loses_the_file_of_the_image() -> None:
    url = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64/ /: /usr/share/keyrings/a.gpg !="
    twice = f"Conflicting values set for option Signed-By regarding source {url}\n"
    log = f"{twice}E: The list of sources could not be read.\n"
    assert "sources.list.d/cuda.list" in led(log).command


def test_a_disk_that_is_full_is_emptied_where_it_is_full() -> None:
    pip = led("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n")
    assert "TMPDIR=~/tmp" in pip.command
    assert led("#9 24.1 OSError: [Errno 28] No space left on device\n").command == "docker builder prune -f"
    assert not led("OSError: [Errno 28] No space left on device: 'checkpoint-500'\n").command
    enroot = led("docker image\nslurmstepd: error: pyxis:     Write failed because No space left on device\n")
    assert "ENROOT_TEMP_PATH" in enroot.remedy
    assert not enroot.command


def test_a_certificate_that_has_expired_is_not_made_good_by_a_setting() -> None:
    log = "SSLError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {} (_ssl.c:1108)\n"
    assert "REQUESTS_CA_BUNDLE" in led(log.format("self signed certificate in certificate chain")).command
    assert not led(log.format("certificate has expired")).command


def test_packages_for_a_newer_distribution_are_reported_as_such() -> None:
    wants = " a : Depends: libc6 (>= 2.34) but 2.31-13 is to be installed\n"
    assert "glibc 2.34" in led(f"The following packages have unmet dependencies:\n{wants}").because[0]


def test_apt_ends_what_was_left_half_done_where_it_says_so() -> None:
    log = "The following packages have unmet dependencies:\n cuda : Depends: cuda-7-5 but it is not installable\n"
    said = "E: Unmet dependencies. Try 'apt --fix-broken install' with no packages (or specify a solution).\n"
    assert led(log + said).command == "sudo apt-get --fix-broken install -y"
    assert not led(log).command


def test_a_log_of_another_platform_is_repaired_for_it() -> None:
    log = "ResolvePackageNotFound: \n  - pytorch=1.11.0\n   virtual packages : __glibc=2.35=0\n  __archspec=1=aarch64\n"
    assert "--repair --platform linux-aarch64 " in led(log).command


def of(name: str, log: str) -> Diagnosis:
    knowledge, guidance = tables()
    host = replace(read_host(name, str, knowledge), asked_as=name)
    return diagnose([log.encode()], guidance.symptoms, knowledge, host)


def test_a_host_that_is_named_has_its_own_driver_and_not_the_one_of_the_log() -> None:
    cause = of("v100-rtx5090-575", A100_470 + TOO_OLD).causes[0]
    assert not any("v100-rtx5090-575 has a driver that supports CUDA 11.4" in item for item in cause.because)
    assert cause.remedy.startswith("choose an environment for v100-rtx5090-575, where this did not happen")
    assert cause.command == "cuenv resolve --host v100-rtx5090-575 -o environment.yml"
    bare = of("no-gpu", A100_470 + TOO_OLD)
    assert not any("no-gpu has driver" in item for item in bare.causes[0].because)
    assert "the log shows driver 470.129.06, but no-gpu was given without a driver" in bare.contradictions


def test_a_log_that_tells_its_platform_alone_is_not_from_a_machine_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    knowledge, guidance = tables()
    here = replace(read_host("no-gpu", str, knowledge), detected=True)
    monkeypatch.setattr("cuenv.diagnosis.log.host.host_facts", lambda *_: here)
    text = b"sh: 1: nvcc: not found\ncreating build/lib.linux-x86_64-3.8\nerror: command 'g++' failed\n"
    found = log_host(scan([text], guidance.symptoms), HostOptions(environ={}), knowledge, lambda _: False)
    assert found.facts is not None
    assert found.facts.label == "the machine of this log"


def test_an_nvcc_for_another_cuda_than_torchs_does_not_help_where_torch_is_too_old_for_the_gpu() -> None:
    log = "torch.__version__  =  1.4.0+cu92\nnvcc fatal   : Unsupported gpu architecture 'compute_75'\n"
    assert led(log).command == "cuenv resolve -o environment.yml"


def test_an_older_release_is_asked_of_uv_only_where_the_c_library_is_too_old_for_the_wheel() -> None:
    said = (
        "error: Distribution `torch==2.7.0 @ registry+https://x` can't be installed because it doesn't have a source "
    )
    said += (
        "distribution or wheel for the current platform\nhint: You're on Linux (`manylinux_2_27_x86_64`), but `torch` "
    )
    said += "(v2.7.0) only has wheels for the following platforms: "
    assert led(f"{said}`manylinux_2_28_x86_64`, `win_amd64`\n").command == "uv add 'torch<2.7.0'"
    assert not led(f"{said}`macosx_11_0_arm64`\n").command


def test_the_module_of_dnf_is_enabled_for_nvidias_repository_and_disabled_for_rpm_fusion() -> None:
    line = " - package nvidia-settings-3:580.65.06-1.x86_64 from {} is filtered out by modular filtering\n"
    assert "module enable -y nvidia-driver:open-dkms" in led(line.format("cuda-rhel10-x86_64")).command
    assert "module disable" in led(line.format("rpmfusion-nonfree")).command


def test_a_wheel_for_another_python_is_installed_into_that_python() -> None:
    line = "ERROR: torch-1.6.0-cp36-cp36m-linux_aarch64.whl is not a supported wheel on this platform.\n"
    cause = led(line)
    assert "the file is for Python 3.6 on linux_aarch64" in cause.because
    assert cause.command.endswith("conda run -n py36 python -m pip install torch-1.6.0-cp36-cp36m-linux_aarch64.whl")


def test_the_gcc_that_is_named_is_one_for_the_nvcc_that_failed() -> None:
    line = "/usr/include/c++/{}/tuple:605:4: error: parameter packs not expanded with '...':\n"
    assert "gxx_linux-64=10.*" in led(line.format(11)).command
    assert not led(line.format(6)).command


def test_pixi_is_given_the_c_library_of_the_log() -> None:
    said = "Virtual package '__glibc >=2.28' does not match any of the available virtual\n"
    log = f"{said}packages on your machine: [__unix=0=0, __linux=3.10.0=0, __glibc=2.17=0]\n"
    assert led(log).command == "pixi workspace system-requirements add glibc 2.17"


def test_the_repository_of_the_container_toolkit_is_added_where_apt_does_not_know_it() -> None:
    command = led("E: Unable to locate package nvidia-container-toolkit-base\n").command
    assert "https://nvidia.github.io/libnvidia-container/stable/deb/nvidia-container-toolkit.list" in command


def test_the_headers_of_a_kernel_come_from_its_own_packages() -> None:
    """Fedora's are not named as Debian's."""
    said = "Error! echo\nYour kernel headers for kernel {} cannot be found at\n"
    assert (led(said.format("5.0.0-37-generic")).command or "").startswith("sudo apt-get install linux-headers-")
    assert (led(said.format("4.20.6-200.fc29.x86_64")).command or "").startswith("sudo dnf install -y kernel-devel-")


def test_an_operator_of_mmcv_without_its_gpu_part_is_built_with_it() -> None:
    found = read(b"RuntimeError: ms_deform_attn_impl_forward: implementation for device cuda:0 not found.\n")
    assert found.causes[0].command.startswith("MMCV_WITH_OPS=1 FORCE_CUDA=1 ")
    found = read(b"RuntimeError: Detectron2 is not compiled with GPU support!\n")
    assert "detectron2" in found.causes[0].command


def test_a_solver_of_conda_that_gives_up_is_replaced_and_what_an_environment_excludes_gets_its_own() -> None:
    classic = "UnsatisfiableError: The following specifications were found to be incompatible with each other:\n"
    assert "conda config --set solver libmamba" in led(classic).command
    tree = "LibMambaUnsatisfiableError: Encountered problems while solving:\n  - package scopy-1.0-0 requires a <2\n"
    assert led(f"$ conda install -y -c bio 'scopy>=1'\n{tree}").command == "conda create -n apart -c bio 'scopy>=1'"
    assert led(tree).command == ""
    missing = "  - nothing provides requested mutexlib ==4.5 2_x\n"
    assert "the channel that has mutexlib in" in led(f"{tree}{missing}").remedy


def test_packages_of_the_driver_that_hold_each_other_come_from_one_source() -> None:
    unmet = "The following packages have unmet dependencies:\n nvidia-driver-535 : Depends: nvidia-dkms-535 (= 535.1)\n"
    assert led(unmet).command.startswith("sudo apt-get purge -y '^nvidia-.*' '^libnvidia-.*' && ")
    assert led(unmet).command.endswith("sudo apt-get install -y nvidia-driver-535")
    assert led(unmet.replace("-535", "")).command == ""


def test_dnf_replaces_what_conflicts_where_it_offers_to() -> None:
    conflict = (
        "$ sudo dnf module install nvidia-driver:latest-dkms\nError:\n Problem: package kmod-x-1.el8.x86_64 from "
        "@System conflicts with kmod-y provided by kmod-y-1.el8.x86_64 from cuda\n"
    )
    offer = "(try to add '--allowerasing' to command line to replace conflicting packages)\n"
    assert led(conflict + offer).command == "sudo dnf module install nvidia-driver:latest-dkms --allowerasing"
    assert led(conflict).command == ""


@pytest.mark.parametrize(
    ("log", "command"),
    [
        (
            "Your kernel headers for kernel 4.18.0-553.el8_10.x86_64 cannot be found\n",
            "sudo dnf install -y kernel-devel-$(uname -r) && sudo dkms autoinstall",
        ),
        (
            "Your kernel headers for kernel 6.5.0-14-generic cannot be found\n",
            "sudo apt-get install linux-headers-$(uname -r) && sudo dkms autoinstall",
        ),
        (
            "$ dnf install x\n_a.c:39:20: fatal error: Python.h: No such file or directory\n",
            "sudo dnf install -y python3-devel",
        ),
    ],
)
def test_a_system_with_rpm_packages_gets_commands_for_dnf(log: str, command: str) -> None:
    assert led(log).command == command


def test_cmake_is_reported_in_the_words_below_its_error_and_not_by_a_warning_before() -> None:
    log = (
        "x.py:258: UserWarning: Failed to initialize NumPy: No module named 'numpy' (Triggered internally at a.cpp:8)\n"
        "CMake Error at CMakeLists.txt:3 (project):\n  Running\n\n   '/b/ninja' '--version'\n\n  failed with:\n\n"
        "   no such file or directory\n\n-- Configuring incomplete, errors occurred!\n"
    )
    cause = led(log)
    assert cause.symptom.id == "cmake-refused"
    assert cause.because == ("it says: Running '/b/ninja' '--version' failed with: no such file or directory",)


def test_a_wheel_that_has_no_cuda_for_aarch64_is_not_installed_again() -> None:
    log = "ValueError: This CTranslate2 package was not compiled with CUDA support\n"
    assert "--force-reinstall" in led(log).command
    assert led(f"PyTorch version: 2.1.0\nOS: Ubuntu 22.04.3 LTS (aarch64)\n{log}").command == ""


def test_the_library_that_cmake_lacks_and_the_architectures_that_it_cannot_ask_for_are_named() -> None:
    listed = 'CMake Error at a:1 (b):\n  Target "a" links to:\n\n    CUDA::{}\n\n  but the target was not found.\n'
    assert led(listed.format("cublas")).command.endswith(" libcublas-dev")
    assert led(listed.format("cudart_static")).command.endswith(" cuda-cudart-dev")
    assert led(listed.format("other")).command == ""
    fatal = "nvcc fatal   : Unsupported gpu architecture 'compute_No CUDA devices found.'\n"
    assert led(fatal).command == "export CUDAARCHS=all-major"


def test_a_notice_of_cmake_becomes_the_cause_where_it_gives_up() -> None:
    notice = (
        "-- Looking for a CUDA compiler - NOTFOUND\n-- Automatic GPU detection failed. Building for common archs.\n"
    )
    assert read(notice.encode()).verdict == "harmless"
    assert (
        led(f"{notice}CMake Error at a:1 (b):\n-- Configuring incomplete, errors occurred!\n").symptom.id
        == "cmake-no-nvcc"
    )


@pytest.mark.parametrize("word", ["Ошибка: ", "Erreur : ", "Błąd: "])
def test_an_error_in_another_language_is_never_clean(word: str) -> None:
    assert read(f"{word}xyz.rpm\n".encode()).verdict == "unknown"


def test_a_notice_of_pip_on_other_packages_is_not_what_a_build_failed_of() -> None:
    log = (
        "15 errors detected in the compilation of \"/tmp/x.ii\".\nerror: command '/a/nvcc' failed with exit status 1\n"
        "ERROR: one 0.7 has requirement two==1.15, but you'll have two 2.2 which is incompatible.\n"
    )
    assert read(log.encode()).verdict == "effect"


def test_a_constraint_on_the_driver_that_the_classic_solver_only_lists_is_not_the_cause() -> None:
    log = (
        "UnsatisfiableError: The following specifications were found to be incompatible with your system:\n\n"
        "  - feature:/linux-64::__cuda==12.2=0\n  - one -> two[version='>=1.13'] -> __cuda[version='>=11.8']\n\n"
        "Your installed version is: 12.2\n"
    )
    assert led(log).symptom.id == "conda-unsatisfiable"
    assert "conda config --set solver libmamba" in led(log).command


def test_a_file_that_was_gone_before_it_was_removed_is_not_a_failure() -> None:
    log = (
        "  Cleanup : cuda-nvcc  2/3\nwarning: file /usr/local/cuda/bin/nvcc: remove failed: No such file or directory\n"
    )
    assert read(log.encode()).fine


OVERLAY = "/tmp/pip-build-env-a/overlay/lib/python3.11/site-packages"
BUILT = f'      File "{OVERLAY}/setuptools/build_meta.py", line 317, in run_setup\n        exec(code, locals())\n'


@collect(
    ("module", "command"),
    [
        ("numpy", "install numpy && python -m pip install --no-build-isolation chumpy"),
        ("pip", "install pip setuptools wheel && python -m pip install --no-build-isolation chumpy"),
        ("ours", "python -m pip install --no-build-isolation chumpy"),
    ],
)
def test_what_an_isolated_build_lacks_is_installed_where_the_build_sees_it(module: str, command: str) -> None:
    error = f"ModuleNotFoundError: No module named '{module}'\n"
    log = f'Traceback (most recent call last):\n{BUILT}      File "<string>", line 9, in <module>\n      {error}'
    cause = led(f"{log}ERROR: Failed building wheel for chumpy\n")
    assert cause.symptom.id == "module-missing"
    assert cause.command.endswith(command)
    assert "a build has an environment of its own" in cause.because[0]
    later = led(f'{log}Traceback (most recent call last):\n  File "/home/u/a.py", line 1, in <module>\n{error}')
    assert later.because[:1] == cause.because[:1], "the first one counts"
    assert "isolation" not in led(f'Traceback (most recent call last):\n  File "/u/a.py", line 1\n{error}').command


def test_the_torch_that_pip_fetched_for_a_build_is_not_the_installed_one() -> None:
    frame = (
        f'  File "{OVERLAY}/torch/utils/cpp_extension.py", line 387, in _check_cuda_version\n    raise RuntimeError('
    )
    error = "RuntimeError:\nThe detected CUDA version (11.8) mismatches the version that was used to compile\n"
    cause = led(
        f"Traceback (most recent call last):\n{frame}\n{error}PyTorch (12.1). Please make sure to use the same\n"
    )
    assert "pip fetched it for the build alone" in cause.because[0]
    assert "--no-build-isolation" in cause.remedy
    other = led(
        f"Collecting torch==2.0.1+cu118\n{error}PyTorch (12.1). Please make sure to use the same CUDA versions.\n"
    )
    assert "11.8 and 12.1 have different major versions" in other.because[0]


def test_sources_of_a_repository_are_built_from_there() -> None:
    source = "git+https://github.com/u/fused@1272e21a"
    said = "Getting requirements to build wheel\n  ModuleNotFoundError: No module named 'torch'\n"
    for line in (
        f"Collecting {source} (from -r r.txt (line 2))\n{said}",
        f"{said}ERROR: Failed to build '{source}' when",
    ):
        assert led(line).command == f"python -m pip install --no-build-isolation {source}"


def test_a_setup_that_setuptools_runs_without_a_name_is_a_setup() -> None:
    def led_by(error: str) -> tuple[str, tuple[str, ...]]:
        found = led(
            f'Traceback (most recent call last):\n{BUILT}      File "<string>", line 9, in <module>\n      {error}\n'
        )
        return found.symptom.id, found.because

    place = ("it was raised in setup.py, line 9",)
    assert led_by("RuntimeError: This GPU is not supported") == ("setup-refused", place)
    assert led_by("KeyError: 'ROOT'") == ("setup-failed", place)


def test_a_repository_that_lacks_a_package_of_the_driver_is_reported() -> None:
    refused = "Error: Package: 3:nvidia-driver-{0}-1.el{1}.x86_64 (cuda)\n           Requires: {2}\n"
    assert led(refused.format("418.74", 7, "opencl-filesystem")).command == "sudo yum install -y epel-release"
    assert led(refused.format("418.74", 8, "dkms")).command == "sudo dnf install -y epel-release"
    assert "no nvidia-kmod-common of that" in led(refused.format("418.74", 7, "nvidia-kmod-common = 3:4")).because[0]


def test_a_certificate_that_apt_refuses_does_not_concern_variables() -> None:
    cause = led("  Certificate verification failed: The certificate is NOT trusted.  Could not handshake: Error\n")
    assert (cause.symptom.id, cause.command) == ("certificate", "")


def test_pacman_is_read_in_chinese() -> None:
    log = "错误\uff1a无法准备事务处理 (有冲突的依赖关系)\n"
    assert led(log).symptom.id == "pacman-refused"


def test_a_release_that_pip_left_out_for_its_python_gets_a_python() -> None:
    left = "ERROR: Ignored the following versions that require a different python version: "
    told = "1.6.2 Requires-Python >=3.7,<3.10; 1.9.0 Requires-Python >=3.8,<3.12\n"
    missing = "ERROR: No matching distribution found for scipy"
    cause = led(f"{left}{told}{missing}==1.6.2\n")
    assert cause.command == "conda create -y -n py39 python=3.9 && conda activate py39"
    assert "1.6.2 needs Python >=3.7,<3.10" in cause.because[0]
    assert "py311" in led(f"{left}{told}{missing}\n").command
    assert not led(f"{left}{told}{missing}==2.0\n").command


def test_a_header_of_a_submodule_is_not_fetched_into_an_archive() -> None:
    header = "a.h:22:10: fatal error: cutlass/gemm/gemm.h: No such file or directory\n"
    assert led(header).command.startswith("git submodule update")
    cause = led(f"fatal: not a git repository (or any of the parent directories): .git\n{header}")
    assert (cause.command, "git clone --recursive" in cause.remedy) == ("", True)


def test_an_extension_of_pyg_for_another_cuda_is_the_one_that_is_installed_again() -> None:
    said = "RuntimeError: Detected that PyTorch and torch_sparse were compiled with different CUDA versions.\n"
    assert led(said).command.startswith("python -m pip install --force-reinstall --no-deps torch-sparse -f ")


def test_a_step_of_a_dockerfile_that_is_killed_while_it_builds_has_too_many_jobs() -> None:
    step = '#9 ERROR: process "/bin/sh -c {}" did not complete successfully: exit code: 137\n'
    found = led(f"docker build\n{step.format('pip install flash-attn')}")
    assert "ENV MAX_JOBS=2" in found.remedy
    assert not found.command  # what is exported outside does not reach the step
    assert not led(f"docker build\n{step.format('python train.py')}").command


def test_older_releases_of_the_tensorrt_stub_are_stubs_too() -> None:
    assert not led("RuntimeError: Didn't find wheel for tensorrt_llm 0.16.0\n").command


def test_what_a_build_script_of_rust_wants_is_named_where_it_is_known() -> None:
    said = "error: failed to run custom build command for `{} v1.0`\n"
    assert led(said.format("openssl-sys")).command == "sudo apt-get install -y libssl-dev pkg-config"
    assert not led(said.format("other-sys")).command


def test_onnx_runtime_is_not_given_an_environment_for_torch() -> None:
    old = "onnxruntime::CudaCall [ONNXRuntimeError] : 1 : FAIL : CUDA failure 35: "
    assert led(f"{old}CUDA driver version is insufficient for CUDA runtime version\n").command == ""
    lost = "[E:onnxruntime:Default, x.cc:1 Get] Failed to load library libonnxruntime_providers_{}.so with error: {}: "
    missing = "cannot open shared object file: No such file or directory\n"
    assert (
        led(lost.format("cuda", "libcufft.so.10") + missing).command == "python -m pip install 'onnxruntime-gpu>=1.19'"
    )
    cause = led(lost.format("tensorrt", "libnvinfer.so.8") + missing)
    assert (cause.command, "install the TensorRT" in cause.remedy) == ("", True)


def test_a_builder_of_nix_is_given_no_command_of_pip_or_conda() -> None:
    missing = "CMake Error at x.cmake:37 (message):\n  Could not find nvcc executable in path\n"
    assert led(missing).command
    assert not led(f"error: builder for '/nix/store/a-magma.drv' failed with exit code 1;\n{missing}").command


def test_paddle_is_reinstalled_by_the_name_that_pip_has_for_it() -> None:
    lib = "/x/lib/python3.10/site-packages/paddle/libpaddle.so"
    said = f"ImportError: {lib}: undefined symbol: _dl_sym, version GLIBC_2.1\n"
    assert "'^paddlepaddle(-gpu)?[ =]'" in led(said).command


def test_a_key_that_yum_imports_itself_is_not_a_failure() -> None:
    asked = "Public key for nvidia-container-toolkit-1.17.4-1.x86_64.rpm is not installed\n"
    assert led(asked).command == "sudo rpm --import https://nvidia.github.io/libnvidia-container/gpgkey"
    assert not led(asked.replace("nvidia-container-toolkit", "cuda-toolkit-12-4")).command
    imported = f"{asked}Importing GPG key 0xF796ECB0:\n"
    assert read(f"{imported}Error: GPG check FAILED\n".encode()).causes[0].symptom.id == "rpm-key"
    assert read(f"{imported}Complete!\n".encode()).verdict == "harmless"


def test_wrong_hashes_of_a_lock_are_not_the_fault_of_a_cache() -> None:
    said = "THESE PACKAGES DO NOT MATCH THE HASHES FROM {}! If you have updated the package versions\n"
    assert led(said.format("THE REQUIREMENTS FILE")).command == "python -m pip cache purge"
    assert not led(said.format("Pipfile.lock")).command


def test_what_apt_does_not_find_is_reported_by_its_name() -> None:
    assert "contrib and non-free" in led("E: Package 'nvidia-cuda-toolkit' has no installation candidate\n").remedy
    assert "NVIDIA has no package cuda-toolkit-dev" in led("E: Unable to locate package cuda-toolkit-dev\n").remedy
    assert "cuda-keyring" in led("E: Unable to locate package cuda-toolkit-12-4\n").remedy


def test_the_curl_of_yum_without_certificates_gets_them_again() -> None:
    said = '{}[Errno 14] curl#77 - "Problem with the SSL CA cert (path? access rights?)"\n'
    assert led(said.format("https://x.org/repomd.xml: ")).command == "sudo yum reinstall -y ca-certificates"


def test_a_build_against_the_python_of_the_system_takes_its_compiler_from_there() -> None:
    said = "gcc: fatal error: cannot execute 'cc1plus': execvp: No such file or directory\n"
    assert led(said).command.startswith("conda install")
    assert "apt-get install -y build-essential" in led(f'nvcc -I "/usr/include/python3.8" -c a.cu\n{said}').command


def test_an_audio_library_for_amd_beside_a_torch_for_cuda_is_called_so() -> None:
    cause = led("OSError: libtorch_hip.so: cannot open shared object file: No such file or directory\n")
    assert (cause.symptom.id, cause.command) == ("torch-library-missing", "")
    assert "its build for AMD GPUs" in cause.remedy


def test_a_make_that_is_killed_gets_fewer_jobs_in_its_own_words() -> None:
    killed = "c++: internal compiler error: Killed (program cc1plus)\nmake[2]: *** [a.o] Error 4\n"
    assert led(killed).command == "make -j2"
    assert led(f"Building wheel for torch-scatter (setup.py)\n{killed}").command == "export MAX_JOBS=2"
    assert "ENV MAX_JOBS=2" in led(f"#9 1.25 Building wheel for apex (setup.py)\n#9 7.5 {killed}").remedy


def test_what_a_build_script_of_rust_says_is_reported() -> None:
    said = (
        "error: failed to run custom build command for `x-sys v1.0`\n  thread 'main' panicked at build.rs:1:2:\n  {}\n"
    )
    assert led(said.format("no libx here")).because == ("it says: no libx here",)
    assert led(said.format("Failed to execute `nvcc`: Os { code: 2, kind")).symptom.id == "nvcc-not-found"


def test_what_pixi_says_in_the_lines_of_its_tree_is_reported() -> None:
    assert led("Error:   \u00d7 Could not apply pin. It is not there:\n  │ libcute\n").because == (
        "it says: Could not apply pin. It is not there: libcute",
    )


def test_a_program_that_is_missing_comes_from_the_package_that_has_it() -> None:
    assert led("error: command 'swig' failed: No such file or directory\n").command.endswith("install -y swig")
    assert not led("error: command 'nobody' failed: No such file or directory\n").command


def test_a_package_for_another_release_of_the_system_is_reported_as_such() -> None:
    found = led(
        "The following packages have unmet dependencies:\n libx-1 : Depends: liburcu6 but it is not installable\n"
    )
    assert found.because == ("liburcu6 is not in the repositories of this system",)
    assert not found.command


def test_a_newer_meson_and_a_newer_swig_are_installed_where_the_old_one_is_refused() -> None:
    assert led("meson.build:1:0: ERROR: Meson version is 0.5 but project requires >=1.2\n").command.endswith("-U meson")
    assert led("swig error : Unrecognized option -doxygen\n").command.endswith("-U swig")
    assert not led("a.i:2: Error: Unable to find 'faiss/Index.h'\n").command


def test_a_build_that_asks_for_the_gpu_gets_its_compute_capability() -> None:
    asks = "`nvidia-smi` failed. Ensure that you have CUDA installed\n"
    assert not led(asks).command


def test_an_index_that_pip_searched_is_not_reported_again() -> None:
    lacks = (
        "ERROR: Could not find a version that satisfies the requirement torchvision==0.20.1+cu121 (from versions: {})\n"
    )
    assert "--index-url" in led(lacks.format("0.1.6, 0.21.0")).command
    assert "--index-url" not in led(lacks.format("0.1.6, 0.19.0+cu121")).command


def test_a_build_with_make_alone_does_not_ask_torch() -> None:
    lacks = "a.h:40:1: fatal error: cuda_runtime.h: No such file or directory\n"
    assert led(f"Building wheel for apex (setup.py)\n{lacks}make: *** [a.dep] Error 1\n").command
    assert not led(f"{lacks}make: *** [a.dep] Error 1\n").command


def test_a_runfile_that_fills_the_disk_reads_no_variable() -> None:
    assert not led("[ERROR]: boost::filesystem::copy_file: No space left on device: '/tmp/cuda'\n").command


def test_a_binary_without_torch_that_needs_a_newer_glibc_is_not_fixed_by_an_environment() -> None:
    needs = "ImportError: /lib/x86_64-linux-gnu/libm.so.6: version `GLIBC_2.33' not found (required by /opt/{}.so)\n"
    assert not led(needs.format("_dynet")).command
    assert led(needs.format("libtorch")).command


def test_the_libstdcxx_of_conda_is_made_newer_only_in_conda() -> None:
    lacks = "ImportError: {}/_driver.so: undefined symbol: __gxx_personality_v0\n"
    assert led(lacks.format("/opt/conda/lib")).command == "conda install -c conda-forge libstdcxx-ng"
    assert not led(lacks.format("/usr/lib/x")).command


def test_a_build_of_tensorflow_does_not_ask_torch() -> None:
    lacks = "clang-17: error: cannot find CUDA installation; provide its path via '--cuda-path'\n"
    assert not led(f"ERROR: Compiling tensorflow/core/kernels/a.cu.cc failed: (Exit 1): clang failed\n{lacks}").command
    assert not led("a.cc:17:10: fatal error: 'third_party/gpus/cudnn/cudnn.h' file not found\n").command


def test_the_list_of_a_makefile_is_made_shorter_before_another_nvcc_is_installed() -> None:
    old = "nvcc fatal   : Unsupported gpu architecture 'compute_70'\n"
    assert led(f"Building wheel for apex (setup.py)\n{old}make: *** [a.o] Error 1\n").command
    assert not led(f"{old}make: *** [a.o] Error 1\n").command


def test_a_header_of_a_newer_torch_is_not_sought_in_the_directories_of_an_older_one() -> None:
    lacks = "a.cpp:1:29: fatal error: torch/extension.h: No such file or directory\n"
    assert "CPATH" in led(lacks).command
    older = led(f"c++ -I/e/lib/python3.6/site-packages/torch/lib/include -c a.cpp -o a.o\n{lacks}")
    assert "torch 1.0" in older.remedy
    assert not older.command


def test_the_dot_in_a_cuda_of_torch_is_taken_out() -> None:
    found = led("ERROR: No matching distribution found for torch==1.7.1+cu11.0\n")
    assert found.command.endswith("torch==1.7.1+cu110 --index-url https://download.pytorch.org/whl/cu110")


def test_strict_priority_is_set_where_the_solver_reads_it() -> None:
    assert led("└─ b >=1.15.0 , which cannot be installed (excluded by strict repo priority).\n").command
    hidden = "└─ b 6.1.1 is excluded because due to strict channel priority not using this option from: 'C'\n"
    assert "manifest" in led(hidden).remedy


def test_float128_asks_for_the_standard_and_no_other_gcc() -> None:
    found = led('/opt/gcc/5.4.0/include/c++/5.4.0/type_traits(311): error: identifier "__float128" is undefined\n')
    assert "-std=c++11" in found.remedy
    assert not found.command


def test_a_step_of_docker_build_is_told_that_it_sees_no_driver() -> None:
    assert "docker build sees no driver" in led("#7 0.262 /bin/sh: 1: nvidia-smi: not found\n").remedy


def test_a_name_that_no_included_header_declares_gets_its_include_in_a_file_that_stays() -> None:
    undefined = 'impl.h(49): error: identifier "uint32_t" is undefined\n'
    assert led(f"submodules/raster/{undefined}").command == "sed -i '1i #include <cstdint>' submodules/raster/impl.h"
    unpacked = led(f"/tmp/pip-req-build-x/{undefined}")
    assert "<cstdint>" in unpacked.remedy
    assert not unpacked.command
    thrust = led('src/map.cuh(503): error: namespace "thrust" has no member "device"\n')
    assert thrust.command == "sed -i '1i #include <thrust/execution_policy.h>' src/map.cuh"
    std = led("a.cpp:9:3: error: 'numeric_limits' is not a member of 'std'\n")
    assert std.command == "sed -i '1i #include <limits>' a.cpp"
    assert "#include" not in led('a.cu(9): error: identifier "my_own" is undefined\n').remedy


def test_a_function_of_blas_or_cuda_is_named_with_its_library() -> None:
    assert "libopenblas-dev" in led("lib/libtorch_cuda.so: undefined reference to `dgemm_'\n").command
    cublas = led("a.o: undefined reference to `cublasCreate_v2'\n")
    assert "-lcublas" in cublas.remedy
    assert not cublas.command


def test_a_legacy_driver_is_not_updated_by_pacman() -> None:
    refused = "Error! Bad return status for module build on kernel: 6.4.1-arch1-1 (x86_64)\n"
    assert "pacman" in led(f"{refused}Consult /var/lib/dkms/nvidia/575.64/build/make.log\n").command
    old = led(f"{refused}Consult /var/lib/dkms/nvidia/390.157/build/make.log\n")
    assert "legacy branch" in " ".join(old.because)
    assert not old.command


def test_an_import_in_a_notebook_names_the_package_that_was_built_for_another_cuda() -> None:
    cell = "File ~/e/lib/python3.10/site-packages/mamba_ssm/ops/scan.py:16\n---> 16 import selective_scan_cuda\n"
    gone = "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory\n"
    assert "mamba.ssm" in led(f"{cell}\n{gone}").command


def test_uv_gets_the_index_of_a_cuda_that_has_the_release() -> None:
    tree = "  ╰─▶ Because there is no version of torch==2.7.0+{0} and your project depends on torch==2.7.0+{0}\n"
    ran = "$ uv add torch\n  \xd7 No solution found when resolving dependencies:\n"
    assert "whl/cu126" in led(f"{ran}{tree.format('cu126')}").command
    assert not led(f"{ran}{tree.format('cu101')}").command
    searched = (
        "$ uv add torch --index https://download.pytorch.org/whl/cu126\n  \xd7 No solution found when resolving\n"
    )
    assert not led(f"{searched}{tree.format('cu126')}").command


def test_a_prebuilt_module_that_is_not_there_yet_is_awaited() -> None:
    waits = "since no kernel module package kmod-nvidia-470.57.02-4.18.0 for kernel version 4.18.0 could be found\n"
    found = led(
        f"{waits} Problem 1: package kernel-modules-4.18.0.x86_64 requires kernel-uname-r = 4, but none\n"
        "  of the providers can be installed\n  - package kernel-core is filtered out by exclude filtering\n"
    )
    assert "keep the present kernel" in found.remedy
    assert not found.command


def test_what_an_isolated_build_lacks_is_not_installed_beside_it() -> None:
    asked = "ERROR Backend subprocess exited when trying to invoke get_requires_for_build_sdist\n"
    cut = f"ModuleNotFoundError: No module named 'wheel'\n{asked}"
    assert "--no-build-isolation" in led(cut).remedy


@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [
        ("mmcv>=2.0.0rc4, <2.2.0", "mim install 'mmcv>=2.0.0rc4,<2.2.0'"),
        ("mmcv>=1.3.8, <=1.7.0", "mim install 'mmcv-full>=1.3.8,<=1.7.0'"),
    ],
)
def test_the_bounds_of_mmcv_stay_as_the_program_names_them(bounds: str, wanted: str) -> None:
    found = led(f"AssertionError: MMCV==1.9.9 is used but incompatible. Please install {bounds}.\n")
    assert found.command.endswith(wanted)


@pytest.mark.parametrize(
    ("written", "read_up_to", "wanted"),
    [("7.3", "7.1", "cudatoolkit=11.1"), ("8.4", "8.2", "cuda-version=12.2 cuda-nvcc cuda-nvrtc"), ("8.4", "5.0", "")],
)
def test_numba_gets_the_toolkit_whose_ptx_the_driver_reads(written: str, read_up_to: str, wanted: str) -> None:
    found = led(
        "numba.cuda.cudadrv.driver.LinkerError: [222] Call to cuLinkAddData results in UNKNOWN_CUDA_ERROR\n"
        f"ptxas application ptx input, line 9; fatal   : Unsupported .version {written}; current version is "
        f"'{read_up_to}'\n"
    )
    assert found.command == (f"conda install -c conda-forge {wanted}" if wanted else "")


def test_a_kernel_of_a_package_without_a_row_is_not_answered_with_another_torch() -> None:
    frame = 'Traceback (most recent call last):\n  File "/e/lib/python3.11/site-packages/%s.py", line 64, in forward\n'
    error = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    own = led(f"{frame % 'flex_gemm/ops/conv'}    out = kernels.cuda.neighbour_map_cuda(\n{error}")
    assert "flex-gemm" in own.remedy
    assert not own.command
    of_torch = led(f"{frame % 'torch/nn/functional'}    return torch.conv2d(\n{error}")
    assert of_torch.command.startswith("cuenv resolve")


@pytest.mark.parametrize(
    ("package", "wanted"),
    [("torch_scatter", "torch-scatter -f "), ("xgboost", "--no-deps xgboost"), ("detectron2", "detectron2.git")],
)
def test_a_package_without_gpu_code_is_replaced_from_where_its_builds_are(package: str, wanted: str) -> None:
    log = f'Traceback (most recent call last):\n  File "/e/lib/python3.9/site-packages/{package}/a.py", line 1, in f\n'
    assert (
        wanted
        in led(f"{log}    f({package})\n{package}.core.Error: {package} not compiled with GPU support.\n").command
    )


def test_nvidia_uvm_is_reloaded_only_where_the_first_call_of_cuda_failed() -> None:
    first = "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. x\n"
    assert "modprobe" in led(first).command
    assert not led(f"docker run --gpus all image python train.py\n{first}").command
    later = led("RuntimeError: CUDA error: unknown error\n")
    assert "Xid" in later.remedy
    assert not later.command


def test_a_sample_of_nvidia_gets_no_environment() -> None:
    log = "cudaGetDeviceCount returned 35\n-> CUDA driver version is insufficient for CUDA runtime version\n"
    assert led(log).command
    assert not led(f"./deviceQuery Starting...\n\n{log}Result = FAIL\n").command


def test_horovod_is_built_again_with_nccl() -> None:
    found = led("ValueError: Internal error. Requested ReadyEvent with GPU device but not compiled with CUDA.\n")
    assert found.command.startswith("HOROVOD_GPU_OPERATIONS=NCCL ")


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ("E: 无法定位软件包 nvidia-docker2\n", "apt-package-missing"),
        ("E: Paket nvidia-driver-535 kann nicht gefunden werden.\n", "apt-package-missing"),
        ("下列软件包有未满足的依赖关系：\n nvidia-driver-535 : 依赖: libnvidia-gl-535\n", "apt-dependencies"),  # noqa: RUF001 - as apt writes it
        ("/usr/bin/ld: -lcuda kann nicht gefunden werden\n", "lcuda-missing"),
        ("/usr/bin/ld : ne peut trouver -lcudart\n", "lib-missing-link"),
        ("a.cpp:2:10: 致命错误 ： cuda_runtime.h ： 没有那个文件或目录\n", "header-missing"),  # noqa: RUF001 - as gcc writes it
        ("nvcc : commande introuvable\n", "nvcc-not-found"),
    ],
)
def test_apt_and_the_linker_are_read_in_other_languages(said: str, row: str) -> None:
    assert led(said).symptom.id == row


def test_a_folder_that_pip_builds_is_named_in_the_command() -> None:
    lacks = (
        'Processing /home/u/diff-gaussian-rasterization\n  File "/tmp/pip-build-env-x/setuptools/build_meta.py", line 3'
        ", in get_requires_for_build_wheel\nModuleNotFoundError: No module named 'torch'\n"
    )
    assert led(lacks).command == "python -m pip install --no-build-isolation /home/u/diff-gaussian-rasterization"


def test_cmake_is_told_every_architecture_where_it_sees_no_gpu() -> None:
    said = 'CUDA_ARCHITECTURES is set to "native", but no NVIDIA GPU was detected.\n'
    assert led(said).command == "export CUDAARCHS=all-major"
    assert "nvidia-smi" in led("CMAKE_CUDA_ARCHITECTURES must be non-empty if set.\n").command


def test_a_target_with_a_letter_is_named_as_the_source_requires_it() -> None:
    line = "ptxas /tmp/tmpxft_0000_mla.ptx, line 8; error : Feature 'wgmma.fence' requires .target sm_{} or higher\n"
    assert led(line.format("90a")).command == 'export TORCH_CUDA_ARCH_LIST="9.0a"'
    assert "nvidia-smi" in led(line.format("80")).command


def test_pixi_and_dpkg_say_the_reason_below_their_first_line() -> None:
    pixi = (
        "Error:   \xd7 failed to solve the pypi requirements of environment 'default' for platform 'linux-64'\n"
        "  \u2570\u2500\u25b6 Because torch==2.5.1 has no wheels with a matching Python ABI tag (e.g., `cp313`) and "
        "you require torch==2.5.1, we can conclude that your requirements are unsatisfiable.\n"
    )
    assert led(pixi).symptom.id == "uv-no-solution"
    assert "matching Python ABI tag" in led(pixi).because[0]
    dpkg = (
        "dpkg-divert: `diversion of /usr/lib/libGL.so.1 to /a by nvidia-a' clashes with `diversion of "
        "/usr/lib/libGL.so.1 to /b by nvidia-b'\ndpkg: error processing /a.deb (-unpack):\n"
    )
    assert led(dpkg).symptom.id == "apt-dependencies"


def test_dnf_asks_before_it_erases() -> None:
    refused = (
        "$ sudo dnf -y update\nError: \n Problem: package a-1.el9.x86_64 from cuda requires b = 1, but none of the "
        "providers can be installed\n(try to add '--allowerasing' to command line to replace conflicting packages)\n"
    )
    found = led(refused)
    assert found.command == "sudo dnf update --allowerasing"
    assert "asks before" in found.remedy


def test_a_driver_for_linux_is_removed_from_wsl() -> None:
    text = (
        "dpkg: dependency problems prevent configuration of cuda-drivers-550:\n"
        "Module build for kernel 5.15.90.1-microsoft-standard-WSL2 was skipped since the\n"
        "E: Sub-process /usr/bin/dpkg returned an error code (1)\n"
    )
    found = led(text)
    assert any("5.15.90.1 is that of WSL" in line for line in found.because)
    assert "purge -y '^cuda-drivers'" in found.command
    assert "fix-broken" in led(text.replace("microsoft-standard-WSL2", "generic")).command


def test_pip_searches_the_companion_release_for_the_installed_torch() -> None:
    at = "OSError: /usr/lib/python3/dist-packages/torchaudio/lib/libtorchaudio.so: undefined symbol: _ZN2at4_ops4call\n"
    assert 'install torchaudio "torch==$(' in led(at).command
    assert "torchaudio" in led(at).remedy


def test_an_interrupted_dpkg_is_finished_first() -> None:
    said = "E: dpkg was interrupted, you must manually run 'sudo dpkg --configure -a' to correct the problem.\n"
    assert led(said).command == "sudo dpkg --configure -a"


def test_an_option_of_the_host_compiler_asks_for_no_other_nvcc() -> None:
    refused = "nvcc fatal   : Unknown option '{}'\n"
    assert not led(refused.format("-fopenmp")).command
    assert led(refused.format("-generate-dependencies-with-compile")).command


def test_before_cuda_11_the_file_of_a_runtime_belongs_to_one_release() -> None:
    missing = "ImportError: libcudart.so.10.1: cannot open shared object file: No such file or directory\n"
    said = led(f"PyTorch version: 1.7.1\nCUDA used to build PyTorch: 10.2\n{missing}").because
    assert "the runtime of CUDA 10.1 has this file name" in said
    assert "torch here is built for CUDA 10.2, which is another release" in said


def test_a_link_with_the_name_of_a_runtime_does_not_replace_it() -> None:
    line = "ImportError: /e/lib/libcudart.so.10.0: version `libcudart.so.10.0' not found (required by /e/lib/a.so)\n"
    assert led(line).command.startswith("conda install -c conda-forge cudatoolkit=10.0 ")


def test_a_torchvision_of_another_torch_is_replaced_and_gets_no_second_runtime() -> None:
    log = (
        "PyTorch version: 2.3.1+cu121\nCUDA used to build PyTorch: 12.1\n[pip3] torchvision==0.15.2\n"
        "ImportError: /e/torchvision/_C.so: libcudart.so.11.0: cannot open shared object file: No such file\n"
    )
    assert "torchvision==0.18" in led(log).command


def test_a_source_checkout_without_a_library_is_built_whatever_a_variable_chose() -> None:
    log = (
        "WARNING: BNB_CUDA_VERSION=123 environment variable detected; loading libbitsandbytes_cuda123.so.\n"
        "Could not find the bitsandbytes CUDA binary at "
        "PosixPath('/w/bitsandbytes/bitsandbytes/libbitsandbytes_cuda123.so')\n"
    )
    assert led(log).command.startswith("cmake ")


def test_a_connection_that_stood_is_not_answered_with_another_interface() -> None:
    line = "node1:4:5 [0] misc/socket.cc:9 NCCL WARN Net : Call to %s 10.0.0.7<4000> failed : Connection timed out\n"
    assert not led(line % "recv from").command
    assert led(line % "connect to").command.startswith("export NCCL_SOCKET_IFNAME=")
    family = "node1:4:5 [0] NCCL WARN Net : Socket creation failed : Address family not supported by protocol\n"
    assert led(family).command == "export NCCL_SOCKET_FAMILY=AF_INET"


def test_the_container_toolkit_comes_with_its_repository() -> None:
    line = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n'
    command = led(line).command
    assert command.index("nvidia-container-toolkit.list") < command.index("apt-get install -y nvidia-container-toolkit")


def test_a_torch_that_pip_fetched_for_a_build_is_known_by_any_line_that_names_it() -> None:
    log = (
        "Building wheel for opsy (pyproject.toml) ... error\n"
        "/tmp/pip-build-env-x1/overlay/lib/python3.10/site-packages/torch/_tensor.py:1: UserWarning: no NumPy\n"
        "The detected CUDA version (11.7) mismatches the version that was used to compile\nPyTorch (12.4).\n"
    )
    assert led(log).command == "python -m pip install --no-build-isolation opsy"


def test_sources_in_a_folder_are_built_from_that_folder() -> None:
    log = (
        "Obtaining file:///w/opsy\n  Getting requirements to build editable ... error\n"
        "  ERROR: Command errored out with exit status 1:\n   in_process.py get_requires_for_build_editable /tmp/t\n"
        'Traceback (most recent call last):\n  File "setup.py", line 3, in <module>\n    import torch\n'
        "ModuleNotFoundError: No module named 'torch'\n"
    )
    assert led(log).command == "python -m pip install --no-build-isolation -e /w/opsy"


@pytest.mark.parametrize(
    ("frozen", "wanted"),
    [
        ("flash-attn @ file:///w/flash_attn-2.3.4%2Bcu122torch2.1-cp39-cp39-linux_x86_64.whl#sha256=ab", "==2.3.4"),
        ("flash-attn @ https://e.org/v2/flash_attn-2.7.4.post1+cu12-cp310-cp310-linux_x86_64.whl", "==2.7.4.post1"),
        ("flash-attn @ git+https://e.org/flash-attention@ab12", " @ git+https://e.org/flash-attention@ab12"),
        ("flash-attn==2.6.3", "==2.6.3"),
    ],
)
def test_a_package_from_a_wheel_file_is_built_again_by_its_release(frozen: str, wanted: str) -> None:
    command = led(f"{AT}/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorE\n").command
    script = re.search(r"sed -E '[^']+'", command)
    assert script
    found = subprocess.run(["sh", "-c", script[0]], input=frozen, capture_output=True, text=True, check=True).stdout
    assert found.strip() == f"flash-attn{wanted}"


def test_a_kernel_is_said_to_be_a_packages_only_where_the_line_names_it() -> None:
    frame = (
        'Traceback (most recent call last):\n  File "/e/lib/python3.11/site-packages/vllm/layers.py", line 6, in f\n'
    )
    said = led(
        f"{frame}    return gemm(x)\n"
        "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    )
    assert said.because == (
        "it was raised in vllm, which has kernels of its own: most often one of them lacks the code",
    )


def test_an_image_that_triton_made_is_first_a_matter_of_its_ptxas() -> None:
    cause = led("RuntimeError: Triton Error [CUDA]: device kernel image is invalid\n")
    assert "TRITON_PTXAS_PATH" in cause.remedy
    assert not cause.command


def test_what_the_message_itself_tells_to_install_is_the_command() -> None:
    needs = "ImportError: Loading a model requires optimum (`pip install optimum`) and the auto-gptq library"
    assert led(f"{needs} (`pip install auto-gptq`)\n").command == "python -m pip install optimum auto-gptq"
    assert not led("ModuleNotFoundError: No module named 'my_utils'\n").command


@pytest.mark.parametrize(
    ("offered", "asked", "begins"),
    [
        ("2.2.0, 2.2.1", "1.13.1+cu117", "conda create -y -n torch -c conda-forge python=3.10 "),
        ("1.4.0, 1.13.1", "1.13.1+cu117", "python -m pip install torch==1.13.1+cu117 --index-url "),
    ],
)
def test_the_releases_that_pip_was_offered_tell_a_python_that_is_too_new(offered: str, asked: str, begins: str) -> None:
    log = (
        f"ERROR: Could not find a version that satisfies the requirement torch=={asked} (from versions: {offered})\n"
        f"ERROR: No matching distribution found for torch=={asked}\n"
    )
    assert led(log).command.startswith(begins)


def test_an_environment_file_of_conda_is_a_sign_of_conda() -> None:
    assert led(f"conda env create -f linux.yml\n{CPU}").command.startswith("cuenv resolve ")


def test_ld_library_path_is_unset_only_where_it_is_known_to_hold_libraries() -> None:
    assert not led("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED\n").command
    assert not led("RuntimeError: GET was unable to find an engine to execute this computation\n").command


def test_an_assertion_of_the_host_is_none_of_a_kernel() -> None:
    text = "app: src/heads.cu:52: status_t lib::check_(status_t, const char*, int): Assertion `%s' failed.\nAborted\n"
    for said in ("false", "status == 0"):
        assert all(cause.symptom.id != "device-assert" for cause in read((text % said).encode()).causes)
    kernel = "a.cu:115: operator(): block: [0,0,0], thread: [1,0,0] Assertion `i >= 0 && i < size` failed.\n"
    assert led(kernel).symptom.id == "device-assert"


def test_xformers_comes_in_the_release_of_its_torch_and_from_the_index_that_has_it() -> None:
    built = "xFormers can't load C++/CUDA extensions. xFormers was built for:\n    PyTorch 2.3.0+cu121 with CUDA 1201 "
    old = led(f"{built}(you have 2.0.0+cu117)\n").command
    assert "--extra-index-url" in old
    assert " --index-url " in led(f"{built}(you have 2.1.0+cu118)\n").command


def test_the_module_of_the_driver_is_built_by_what_builds_it_there() -> None:
    failed = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    assert led(failed).command == "sudo dkms autoinstall && sudo reboot"
    assert led(f"$ rpm -q akmod-nvidia\n{failed}").command == "sudo akmods --force && sudo reboot"
    assert "dkms linux-headers" in led("modprobe: FATAL: Module nvidia not found.\n").command


def test_a_library_of_a_systems_toolkit_comes_from_its_repository() -> None:
    missing = (
        "CMake Error at CMakeLists.txt:13 (target_link_libraries):\n"
        '  Target "ops" links to:\n\n    CUDA::cublas\n\n  but the target was not found.\n'
    )
    found = '-- Found CUDAToolkit: /usr/local/cuda/include (found version "12.4.131")\n'
    assert led(missing).command == "conda install -c conda-forge libcublas-dev"
    assert led(found + missing).command == "sudo apt-get install -y libcublas-dev-12-4"


def test_the_library_that_cudnn_did_not_find_is_named_and_not_cudnn() -> None:
    said = "Could not load library libcudnn_cnn_infer.so.8. Error: "
    nvrtc = led(f"{said}libnvrtc.so: cannot open shared object file: No such file or directory\n")
    assert nvrtc.symptom.id == "cublas-missing"
    assert not nvrtc.command
    mixed = led(
        f"{said}/e/lib/libcudnn_cnn_infer.so.8: undefined symbol: _ZN1a4loadEb, version libcudnn_ops_infer.so.8\n"
    )
    assert mixed.symptom.id == "cudnn-sublibrary"
    own = f'{AT}/torch/__init__.py"'.replace("ImportError: ", '  File "') + ", line 2, in <module>\n"
    missing = "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory\n"
    assert led(own + missing).command == "python -m pip install 'nvidia-cudnn-cu12==8.*'"


def test_a_newer_c_library_for_one_package_is_not_answered_with_another_torch() -> None:
    needed = (
        "ImportError: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by /e/lib/python3.9/site-packages/"
    )
    assert "--no-binary torch-ops " in led(f"{needed}torch_ops_cuda.cpython-39-x86_64-linux-gnu.so)\n").command
    assert not led(f"{needed}libops.so)\n").command
    assert led(f"{needed}torch/lib/libtorch.so)\n").command.startswith("cuenv resolve")


def test_a_required_torch_is_no_package_of_the_name_pytorch() -> None:
    cause = led("ValueError: this trainer requires PyTorch >= 2.1.0\n")
    assert cause.symptom.id == "version-refused"
    assert not cause.command


def test_a_missing_module_is_named_whole() -> None:
    assert (
        "no distributed.checkpoint.more:"
        in led("ModuleNotFoundError: No module named 'torch.distributed.checkpoint.more'\n").why
    )


def test_a_build_with_a_torch_of_its_own_gets_nvcc_for_the_installed_one() -> None:
    log = (
        "/tmp/pip-build-env-x1/overlay/lib/python3.10/site-packages/torch/_tensor.py:1: UserWarning: no NumPy\n"
        "<string>:118: UserWarning: opsy was requested, but nvcc was not found.\ntorch.__version__  = 2.7.0+cu126\n"
        "  error: subprocess-exited-with-error\n"
    )
    assert led(log).command.endswith(" && python -m pip install --no-build-isolation opsy")
    assert "12.6" not in led(log).command


def test_memory_is_not_full_where_the_line_says_that_much_is_free() -> None:
    line = (
        "RuntimeError: CUDA out of memory. Tried to allocate %s MiB (GPU 0; 10.92 GiB total capacity; "
        "8.57 MiB already allocated; 9.28 GiB free; 4.6 MiB cached)\n"
    )
    assert any("not simply full" in item for item in led(line % "12.50").because)
    assert not any("not simply full" in item for item in led(line % "9600.00").because)


def test_an_index_of_wheels_tells_no_installed_torch() -> None:
    log = (
        "pip install torch-sparse -f https://data.pyg.org/whl/torch-1.9.0+cu111.html\n"
        "OSError: /e/lib/python3.7/site-packages/torch_sparse/_convert.so: undefined symbol: _ZNK2at6Tensor5zero_Ev\n"
    )
    assert "1.9.0" not in led(log).command
    conda = "# packages in environment at /e:\npytorch  2.3.1  cuda120_py310h2c91c31_300  conda-forge\n"
    assert led(conda + log).command == "conda install -c conda-forge pytorch_sparse"


def test_a_kernel_of_a_package_on_pypi_is_installed_with_its_package() -> None:
    assert "auto.gptq" in led("NameError: name 'autogptq_cuda_256' is not defined\n").command


def test_an_argument_that_another_release_knows_names_that_release() -> None:
    unknown = "TypeError: %s() got an unexpected keyword argument '%s'\n"
    assert led(unknown % ("LoraConfig.__init__", "corda")).command == "python -m pip install --upgrade peft"
    assert led(unknown % ("canonicalize_version", "strip_trailing_zero")).command.endswith("--upgrade packaging")
    assert not led(unknown % ("forward", "corda")).command


def test_a_jetson_gets_the_torch_of_its_jetpack_and_no_environment_of_servers() -> None:
    log = "Jetson Orin, JetPack 6\nRuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    cause = led(log)
    assert "JetPack" in cause.remedy
    assert not cause.command


def test_a_container_in_wsl_is_answered_with_the_driver_of_windows() -> None:
    line = "nvidia-container-cli: mount error: stat failed: /usr/lib/wsl/lib/libcuda.so.1: no such file or directory\n"
    cause = led(line)
    assert "Windows" in cause.remedy
    assert not cause.command


@pytest.mark.parametrize("said", ["torch 2.3.1+cu118", "- PyTorch: 2.3.1+cu118"])
def test_a_line_that_names_only_torch_and_its_release_is_read(said: str) -> None:
    assert read(f"{said}\n{CPU}".encode()).mentions["torch"] == "2.3.1+cu118"
    assert read(f"PyTorch: 2.3.1\n{CPU}".encode()).mentions["torch"] == "2.3.1"
