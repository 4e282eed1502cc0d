"""Which cause leads: what ended the run, and never a notice, however many stand before it; and what is never clean."""

from __future__ import annotations

import textwrap
from functools import cache
from pathlib import Path

import pytest

from cases import collect, quick_and_slow
from cuenv.diagnosis.causes import Diagnosis
from failure_logs import CASES, LOGS, read, rows

OOM = (LOGS / "cuda-out-of-memory/torch25.log").read_bytes()
TRACEBACK = b'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n'
HEALTHY = b"{'loss': 1.25, 'epoch': 0.1}\n{'loss': 1.05, 'epoch': 0.2}\nSaving model checkpoint to out\n"
NOTICES = {
    "deepspeed": b"""
 [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.
 [WARNING]  async_io: please install the libaio-dev package with apt
 [WARNING]  If libaio is already installed, try setting the CFLAGS and LDFLAGS environment variables.
 [WARNING]  Please specify the CUTLASS repo directory as environment variable $CUTLASS_PATH
 [WARNING]  sparse_attn requires a torch version >= 1.5 but detected 2.2
 [WARNING]  using untested triton version (2.2.0), only 1.0.0 is known to be compatible
""",
    "accepted toolkit": b"Installed CUDA version 12.2 does not match the version torch was compiled with 12.1 "
    b"but since the APIs are compatible, accepting this combination\n",
    "torchvision": (LOGS / "torchvision-image-notice/symbol.log").read_bytes(),
    "pip": b"ERROR: pip's dependency resolver does not currently take into account all the packages that are "
    b"installed. This behaviour is the source of the following dependency conflicts.\n"
    b"torchaudio 2.0.1 requires torch==2.0.0, but you have torch 2.1.0 which is incompatible.\n"
    b"Successfully installed torch-2.1.0\n",
    "tensorflow": b"2024-05-01 10:00:00.1: E external/local_xla/xla/stream_executor/cuda/cuda_fft.cc:607] Unable to "
    b"register cuFFT factory: Attempting to register factory for plugin cuFFT when one has already been registered\n"
    b"2024-05-01 10:00:01.1: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find "
    b"TensorRT\n",
    "errors that may come": b"UserWarning: Found duplicate ['libcudart.so', 'libcudart.so.11.0'] files.\n"
    b"If you get `CUDA error: invalid device function` errors, the above might be the cause\n",
    "settings": b"""
Skip loading parameter 'cls_score.weight' to the model due to incompatible shapes: (81, 1024) but (3, 1024)
I0417 03:40:28.205917       1 main.go:276]
Running with config:
{
  "flags": {"migStrategy": "none", "failOnInitError": true}
}
I0417 03:40:28.305930       1 factory.go:107] Detected non-Tegra platform: /sys/devices/soc0/family file not found
""",
}


def ids(found: Diagnosis) -> list[str]:
    return [cause.symptom.id for cause in found.causes]


@cache
def is_failure(case: Path) -> bool:
    """Whether what a log tells is more than a warning."""
    return read(case.read_bytes()).causes[0].match.grade != "warning"


@pytest.mark.parametrize("step", quick_and_slow(32 * len(NOTICES), 1))
@collect("name", NOTICES)
def test_a_notice_before_a_failure_never_leads(name: str, step: int) -> None:
    """Quickly one of 32 failures has one of the notices before them, slowly each of them."""
    causes = [case for case in CASES if rows()[case.parent.name].kind == "cause"]
    failures = list(filter(is_failure, causes[list(NOTICES).index(name) % step :: step]))
    assert len(failures) > 150 // step
    for case in failures:
        found = read(NOTICES[name] + case.read_bytes())
        assert (found.verdict, ids(found)[0]) == ("known", case.parent.name)


@collect("name", NOTICES)
def test_a_healthy_log_with_notices_is_fine(name: str) -> None:
    assert read(NOTICES[name] + HEALTHY).fine


@collect("name", NOTICES)
def test_the_users_own_error_after_notices_is_shown_and_none_of_them_leads(name: str) -> None:
    error = b"json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
    found = read(NOTICES[name] + TRACEBACK + error + b"\n")
    assert (found.verdict, ids(found)[0]) == ("known", "data-refused")
    assert found.causes[0].match.text == error.decode()


def test_a_notice_is_a_cause_where_the_log_proves_it() -> None:
    proof = b"RuntimeError: Unable to JIT load the async_io op due to it not being compatible.\n"
    found = read(NOTICES["deepspeed"] + TRACEBACK + proof)
    assert (found.verdict, ids(found)[0]) == ("known", "libaio-missing")
    assert found.causes[0].kind == "cause"


def test_of_two_exceptions_the_one_that_ended_the_run_leads() -> None:
    first = TRACEBACK + b"ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory\n"
    last = TRACEBACK + OOM.replace(b"[rank0]: ", b"")
    found = read(first + b"plugin skipped\n" + last)
    assert ids(found) == ["cuda-out-of-memory", "libcudart-missing"]
    assert found.causes[0].reason == f"it is the exception that ended the run (line {found.lines})"


def test_of_chained_exceptions_the_first_is_the_cause() -> None:
    first = TRACEBACK + b"ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory\n"
    chain = b"\nDuring handling of the above exception, another exception occurred:\n\n"
    found = read(first + chain + TRACEBACK + b"RuntimeError: Failed to import the extension\n")
    assert (found.verdict, ids(found)) == ("known", ["libcudart-missing"])


def test_the_rank_that_failed_first_leads() -> None:
    log = b"""[rank0]: RuntimeError: CUDA error: an illegal memory access was encountered
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
train.py FAILED
Root Cause (first observed failure):
[0]:
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 1234)
"""
    found = read(log)
    assert ids(found)[0] == "cuda-out-of-memory"
    assert found.causes[0].reason.startswith("rank 3, which failed first, shows it")


def test_a_rank_that_torchrun_itself_stops_says_nothing_of_memory() -> None:
    """It sends SIGTERM to the ranks that are left, and SIGKILL after 30 seconds: they stand above the first failure."""
    table = b"""torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
train.py FAILED
Failures:
[1]:
  time      : 2026-09-07_13:03:29
  exitcode  : -9 (pid: 14689)
  traceback : Signal 9 (SIGKILL) received by PID 14689
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : %s (pid: 14690)
"""
    assert ids(read(table % b"1")) == ["child-failed"]
    assert ids(read(table % b"-9")) == ["process-killed"]


def test_an_allocator_that_refuses_a_pointer_leads_before_the_worker_that_it_ends() -> None:
    refused = b"src/tcmalloc.cc:283] Attempt to free invalid pointer 0x1\n"
    found = read(refused + TRACEBACK + b"RuntimeError: DataLoader worker (pid 2256) is killed by signal: Aborted.\n")
    assert ids(found)[0] == "heap-corrupted"


def test_an_error_of_the_users_own_program_is_not_explained_by_a_warning() -> None:
    warning = (LOGS / "driver-too-old-torch/torch-warning.log").read_bytes()
    own = read(warning + TRACEBACK + b"KeyError: 'labels'\n")
    assert (own.verdict, ids(own)[0]) == ("known", "program-key")
    of_gpu = read(warning + TRACEBACK + b"ValueError: this program needs a GPU\n")
    assert (of_gpu.verdict, ids(of_gpu)[0]) == ("known", "driver-too-old-torch")


def test_an_envelope_with_an_exception_inside_shows_the_exception() -> None:
    envelope = (LOGS / "child-failed/torchrun.log").read_bytes()
    found = read(TRACEBACK + b"KeyError: 'labels'\n" + envelope)
    assert (found.verdict, ids(found)[0]) == ("known", "program-key")
    strange = read(TRACEBACK + b"ValueError: bad\n" + envelope)
    assert strange.verdict == "unknown"
    assert "ValueError: bad" in [text for _, text in strange.unexplained]


@collect(
    "line",
    [
        "CMake Error at CMakeLists.txt:12 (find_package):",
        "foo.cu:103: bar: block: [0,0,0], thread: [3,0,0] Assertion `t >= 0` failed.",
        "  x No solution found when resolving dependencies:",
        "    exitcode  : 1 (pid: 4221)",
        "process exited with code 137",
        "make: *** [Makefile:12: all] Error 2",
        "./run.sh: line 3: 4711 Aborted                 (core dumped) python train.py",
        "terminate called after throwing an instance of 'c10::Error'",
        "OMP: Error #99: something",
        "hipErrorSomethingNew: no code object",
        "thread 'main' panicked at src/main.rs:2:5:",
        "Job failed with exit status 3",
        "could not open the camera",
        "ImportError: /opt/x.so: undefined symbol: foo_bar",
        "RuntimeError",
        "return code = -6",
        "Exit code: 3. Reason: the backend",
        "GGML_ASSERT: /src/ggml-backend.c:1526: n_inputs < GGML_SCHED_MAX_SPLIT_INPUTS",
        "*** Your MPI job will now abort.",
        "WARNING:root:kernel 0f1e2d3c-aaaa-bbbb-cccc-0123456789ab restarted",
        "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
        "CUDA is not available, falling back to CPU",
        "disabling CUDA because the driver is not found",
        '{"level": "ERROR", "message": "the shard failed", "span": {"name": "send_error"}}',
        '{"level":"error","msg":"the device plugin gave up"}',
        "E0801 10:00:00.123456 1234 model_repository_manager.cc:1242] version 1 is at UNAVAILABLE",
        "[E:onnxruntime:Default, cuda_call.cc:118 CudaCall] something odd ; GPU=0",
        "2019-08-20 03:11:33.2: F tensorflow/core/gpu_event_mgr.cc:274] Unexpected Event status: 1",
        "WARNING: the fold on GPU 0 failed with exit code 1",
        "slurmstepd: Exceeded step memory limit at some point.",
    ],
)
def test_what_fails_is_never_clean(line: str) -> None:
    for around in ("", "loading\nready\n"):
        found = read(f"{around}{line}\n".encode())
        assert not found.fine
        assert found.verdict in ("unknown", "effect", "known")
        if found.verdict == "unknown":
            assert line.strip()[:40] in " ".join(text for _, text in found.unexplained)


@collect(
    "log",
    [
        "12 passed, 0 failed in 3.1s\nerrors: 0\n",
        "retry_on_error=True errors='ignore'\nprocess exited with code 0\n",
        "UserWarning: optional backend is not available\nepoch 1: loss 0.3\nfinished\n",
        "2024-07-22 08:54:23.1: I tensorflow/dump_mlir_util.cc:268] disabling MLIR crash reproducer.\n",
        "[NeMo W 2022-11-29 02:35:59 optimizers:77] Could not import distributed_fused_adam optimizer from Apex\n",
        (
            "10:15:24 - torio.utils - DEBUG - Failed to load FFmpeg6 extension.\nTraceback (most recent call last):\n"
            '  File "/a/ctypes/__init__.py", line 376, in f\nOSError: libavutil.so.58: cannot open shared object file\n'
            "10:15:24 - torio.utils - DEBUG - Successfully loaded FFmpeg4\nstep 1 loss 2.0\n"
        ),
        "INFO checkpoint not found, starting from scratch\nstep 1 loss 2.0\nstep 2 loss 1.0\n",
        "export NCCL_ASYNC_ERROR_HANDLING=1\ndone\n",
        "The following error message 'operation scheduled before its operands' can be ignored.\nserver started\n",
        "      size    algbw   busbw  error     time   algbw   busbw  error\n        64     0.00    0.00  2e-07\n",
        '{"failOnInitError": false}\n',
        "Unable to find image 'ubuntu:latest' locally\nlatest: Pulling from library/ubuntu\n",
        "I1104 16:00:48.6 212076 nvc.c:391] dxcore initialization failed, continuing assuming a non-WSL environment\n",
        "WARNING tracing is enabled. It is suggested to be used for debugging hang or crashes only.\n",
        "INFO Received request chat-1: prompt: 'my program crashes with an error', params\n",
        "INFO Disabled all-reduce because it is not supported\nWARNING x is not supported. Falling back to y.\n",
    ],
)
def test_what_does_not_fail_is_clean(log: str) -> None:
    assert read(log.encode()).fine, read(log.encode()).unexplained


LONG = {
    "cuda-out-of-memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 158.00 MiB. GPU 0 has a total "
    "capacity of 23.69 GiB of which 115.69 MiB is free.",
    "driver-too-old-torch": "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please "
    "update your GPU driver by downloading and installing a new version",
    "glibcxx": "ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by "
    "/env/lib/python3.10/site-packages/torch/lib/libtorch_python.so)",
    "no-kernel-image": "RuntimeError: CUDA error: no kernel image is available for execution on the device, and CUDA "
    "kernel errors might be asynchronously reported at some other API call",
}


@collect("width", [60, 66, 72, 80, 100])
def test_a_message_that_is_broken_over_lines_or_stands_in_a_box_is_found(width: int) -> None:
    for name, text in LONG.items():
        words = textwrap.wrap(text, width)
        hard = [text[start : start + width] for start in range(0, len(text), width)]
        box = [f"╭{'─' * width}──╮", *(f"│ {line.ljust(width)} │" for line in words), f"╰{'─' * width}──╯"]
        for lines in (words, hard, box):
            found = read(TRACEBACK + "\n".join(lines).encode() + b"\n")
            assert (found.verdict, ids(found)) == ("known", [name]), lines
            assert found.causes[0].match.line >= 3


@collect(
    ("log", "name"),
    [
        ("OSError: [WinError 126] The specified module could not be found.", "scope-windows"),
        ("RuntimeError: HIP error: invalid device function", "scope-rocm"),
        ("NotImplementedError: 'aten::foo' is not currently implemented for the MPS device.", "scope-macos"),
    ],
)
def test_a_log_from_another_system_is_said_to_be_one(log: str, name: str) -> None:
    found = read(TRACEBACK + log.encode() + b"\nAssertionError: Torch not compiled with CUDA enabled\n")
    assert ids(found)[0] == name
    assert found.causes[0].reason == "the log is from a system that cuenv does not support"


WELL = {
    "collect_env": "ROCM used to build PyTorch: N/A\nIs CUDA available: True\nHIP runtime version: N/A\n"
    "MIOpen runtime version: N/A\ncuDNN version: Could not collect\n",
    "vllm": "INFO 05-21 11:34:45 selector.py:81] Cannot use FlashAttention-2 backend for Volta and Turing GPUs.\n"
    "INFO 05-21 11:34:45 selector.py:32] Using XFormers backend.\nINFO:     Uvicorn running on http://0.0.0.0:8000\n",
    "xformers": "A matching Triton is not available, some optimizations will not be enabled\n"
    "Error caught was: No module named 'triton'\nStarting server\n",
    "conda": "Solving environment: failed with initial frozen solve. Retrying with flexible solve.\n"
    "Solving environment: done\nExecuting transaction: done\n",
    "cmake": "-- Performing Test HAVE_FOO - Failed\n-- Looking for pthread_create in pthreads - not found\n"
    "-- Configuring done\n-- Generating done\n",
    "weights": "2024-05-02 10:00:01 - mmdet - WARNING - The model and loaded state dict do not match exactly\n\n"
    "size mismatch for head.weight: copying a param with shape torch.Size([80]) from checkpoint, the shape is [20].\n"
    "2024-05-02 10:00:09 - mmdet - INFO - Epoch [1][100/100] lr: 1e-3, loss_cls: 0.4\n",
    "git": "fatal: not a git repository (or any of the parent directories): .git\nSuccessfully built foo\n",
    "metrics": "top1_err 24.1 top5_error 7.2\ntest_error_rate: 0.013, failed requests: 0\nmean absolute error: 0.03\n",
    "nvcc": "nvcc warning : The 'compute_35' architectures are deprecated\nLoading extension module fused_adam...\n",
}


@collect("name", WELL)
def test_what_tools_print_when_all_is_well_is_fine(name: str) -> None:
    found = read(WELL[name].encode())
    assert found.fine, (ids(found), found.unexplained)


SAYS = "RuntimeError: the reactor was not told which colour to use"


def test_an_error_that_no_row_knows_leads_with_its_own_words_and_stays_unknown() -> None:
    found = read(TRACEBACK + SAYS.encode() + b"\n")
    assert (found.verdict, ids(found)) == ("unknown", ["error-in-words"])
    assert found.causes[0].match.text == SAYS
    assert (found.causes[0].kind, found.causes[0].command) == ("words", "")
    assert [text for _, text in found.unexplained] == [SAYS]
    build = b"  error: subprocess-exited-with-error\n  error: the widget cannot be bent so far\n"
    found = read(build + b"  ERROR: Failed building wheel for widget\n")
    assert ids(found) == ["error-in-words"]
    assert [one.symptom.id for one in found.causes[0].followers] == ["pip-build-failed"]


def test_an_exception_whose_message_stands_below_it_is_not_hidden_by_the_report_of_a_launcher() -> None:
    found = read(
        TRACEBACK + b"pkg.FooException: \n   You asked for blue\nsrun: error: n1: task 0: Exited with exit code 1\n"
    )
    assert found.verdict == "unknown"
    assert [text for _, text in found.unexplained] == ["pkg.FooException: You asked for blue"]


def test_a_record_of_json_that_says_in_words_what_failed_leads() -> None:
    says = '{"time": "10:00", "level": "ERROR", "message": "the shard is lost", "errors": 0, "on_error": "stop"}'
    found = read(f"starting\n{says}\n".encode())
    assert (found.verdict, ids(found)) == ("unknown", ["error-in-words"])
    assert found.causes[0].match.text == says


@collect(
    ("line", "name"),
    [
        ("slurmstepd: error: Detected 2 oom-kill event(s) in step 7.0 cgroup.", "host-out-of-memory"),
        ("mpirun noticed that process rank 2 with PID 0 on node a exited on signal 9 (Killed).", "process-killed"),
        ("mpirun noticed that process rank 2 with PID 0 on node a exited on signal 11 (X).", "segmentation-fault"),
        (
            "RuntimeError: Resource exhausted: Failed to allocate request for 2.00GiB on device 0",
            "cuda-oom-raw",
        ),
        ("[ 49.26] NVRM: GPU at 0000:01:00.0 has fallen off the bus.", "gpu-lost"),
        ("ptxas /tmp/a.ptx, line 6; error   : Feature '.bf16' requires .target sm_80 or higher", "ptx-feature"),
    ],
)
def test_the_end_of_a_process_is_read_in_the_words_of_each_launcher(line: str, name: str) -> None:
    found = read(f"step 1\n{line}\n".encode())
    assert (found.verdict, ids(found)[:1]) == ("known", [name])


@collect("name", ["AssertionError", "ValueError: bad", "RuntimeError: bad"])
def test_an_error_without_a_sentence_stays_unknown(name: str) -> None:
    found = read(TRACEBACK + name.encode() + b"\n")
    assert (found.verdict, ids(found)) == ("unknown", [])
    assert name in found.unexplained[-1][1]


def test_what_a_row_knows_leads_before_the_words_of_the_last_error() -> None:
    known = b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert (
        ids(
            read(
                TRACEBACK
                + known
                + b"\nDuring handling of the above exception, another exception occurred:\n\n"
                + TRACEBACK
                + SAYS.encode()
                + b"\n"
            )
        )[0]
        == "cuda-out-of-memory"
    )


def test_a_note_of_pip_does_not_lead_before_the_build_that_failed() -> None:
    note = (
        b"ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.\n"
    )
    found = read(note + b"  error: subprocess-exited-with-error\n  ERROR: Failed building wheel for h5py\n")
    assert (found.verdict, ids(found)[0]) == ("effect", "pip-build-failed")


def test_a_build_needs_no_gpu() -> None:
    """The notice of torch that it sees no GPU explains no failed build, and explains what fails for want of one."""
    notice = b"      No CUDA runtime is found, using CUDA_HOME='/usr/local/cuda'\n"
    built = b"  error: subprocess-exited-with-error\n" + notice + b"  ERROR: Failed building wheel for scan-kernels\n"
    assert (read(built).verdict, ids(read(built))[0]) == ("effect", "pip-build-failed")
    assert ids(read(notice)) == ["no-gpu-in-sight"]


STEPS = "{'loss': 1.1, 'epoch': 0.2}\n 10%|#         | 10/100 [00:10<01:30,  1.01it/s]\n"
SURVIVED = {
    "a library": "Could not load library libcudnn_cnn_train.so.8 . Error: /usr/lib/libcudnn.so.8: undefined symbol: f",
    "a notice": "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).",
    "an error of another program": "[NbConvertApp] ERROR | Notebook JSON is invalid: properties are not allowed",
    "a fall back": "flash_attn is not installed, falling back to sdpa: No module named 'flash_attn'",
}
ENDS = (
    "KeyboardInterrupt",
    "StopIteration",
    "NameError: name 'rank' is not defined",
    "AssertionError",
    "subprocess.CalledProcessError: Command '['python', 'x.py']' returned non-zero exit status 1.",
)


@collect(("name", "end"), [(name, end) for name in SURVIVED for end in ENDS])
def test_what_the_run_survived_did_not_end_it(name: str, end: str) -> None:
    found = read(f"{SURVIVED[name]}\n{STEPS}".encode() + TRACEBACK + end.encode() + b"\n")
    assert not found.in_words
    if own := {"KeyboardInterrupt": "interrupted", "NameError": "program-name", "StopIteration": "program-value"}.get(
        end.split(":", maxsplit=1)[0]
    ):
        assert ids(found)[0] == own
        return
    assert found.verdict == "unknown", ids(found)
    assert any(end[:30] in text for _, text in found.unexplained)


@collect(
    "line",
    [
        "[a:1] unable to open mca_btl_openib: librdmacm.so.1: cannot open shared object file: No such file (ignored)",
        "flash_attn is not installed, falling back to sdpa: No module named 'flash_attn'",
        "ERROR: Could not consume arg: --foo, continuing",
        "The error message 'operation scheduled before its operands' can be ignored.",
    ],
)
def test_what_a_line_itself_says_to_be_left_aside_is_fine_in_a_run_that_goes_on(line: str) -> None:
    assert read(f"starting\n{line}\n{STEPS}{STEPS}Saving model checkpoint to out\n".encode()).fine


def test_an_error_of_one_rank_is_not_survived_by_the_steps_of_another() -> None:
    log = f"[rank0]: RuntimeError: CUDA error: an illegal memory access was encountered\n{STEPS}[rank1]: "
    found = read(f"{log}".encode() + TRACEBACK + b"[rank1]: AssertionError\n")
    assert (found.verdict, ids(found)[:1]) == ("known", ["illegal-memory-access"])


def test_a_warning_does_not_lead_before_a_name_of_the_users_own_program() -> None:
    notice = b"Warning:  multi_tensor_applier is unavailable, possibly because apex was installed without --cuda_ext\n"
    assert ids(read(notice + TRACEBACK + b"NameError: name 'rank' is not defined\n"))[0] == "program-name"
    assert ids(read(notice + TRACEBACK + b"NameError: name '_C' is not defined\n"))[:1] == ["extension-cpu-only"]


HEADS = {
    "a rank": "[rank0]: ",
    "compose": "train-1  | ",
    "ray": "(TaskRunner pid=950199) ",
    "a container's engine": "2024-05-02T10:00:01.123456789Z stderr F ",
    "a runner": "2024-05-02T10:00:01.1234567Z ",
    "a host": "node1: ",
    "mpirun": "[1,0]<stderr>:",
    "srun": "3: ",
}
START = (
    " [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.\n"
    "UserWarning: The installed version of bitsandbytes was compiled without GPU support.\n"
    "[W socket.cpp:697] [c10d] The client socket cannot be initialized (errno: 97 - Address family not supported)\n"
)
TORCHRUN = (
    "E0801 13:23:20.000000 32974 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1)\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED\n  exitcode  : 1 (pid: 86)\n"
)


@collect("name", HEADS)
def test_what_leads_is_the_same_behind_any_head_of_a_line(name: str) -> None:
    for said, verdict in ((SAYS, "unknown"), ("RuntimeError: CUDA error: an illegal memory access", "known")):
        log = f"{STEPS}{TRACEBACK.decode()}{said} was encountered\n"
        found = read("".join(HEADS[name] + line for line in log.splitlines(keepends=True)).encode())
        assert (found.verdict, said in found.causes[0].match.text) == (verdict, True), ids(found)


def test_notices_of_the_start_never_lead_over_an_envelope_of_the_end() -> None:
    for end in (TORCHRUN, "[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)\n"):
        found = read(f"{START}{STEPS}{end}".encode())
        assert (found.verdict, found.causes[0].kind) == ("effect", "effect"), ids(found)


def test_frames_behind_the_head_of_a_logger_are_not_errors() -> None:
    head = "(EngineCore_DP0 pid=68) ERROR 05-07 02:14:18 [core.py:396] "
    log = f"{TRACEBACK.decode()}    engine = EngineCoreProc(a, b, c)\n             ^^^^^^^^^^\n{SAYS}\n"
    found = read("".join(head + line for line in log.splitlines(keepends=True)).encode())
    assert (found.verdict, found.causes[0].match.text) == ("unknown", head.partition(") ")[2] + SAYS)


def test_the_next_line_of_a_warning_is_a_warning() -> None:
    path = "/nix/store/ar0r42s7ygg1h1clhr5i3k50zbqyrf8c-python3-env/lib/python3.11/site-packages/vllm/usage/lib.py:19"
    warned = f"{path}: RuntimeWarning: Failed to read commit hash:\nNo module named 'vllm.commit_id'\n"
    own = b"RuntimeError: CUDA error: an illegal memory access was encountered\n"
    for head in ("", "[rank0]: "):
        log = f"{warned}{TRACEBACK.decode()}{own.decode()}"
        found = read("".join(head + line for line in log.splitlines(keepends=True)).encode())
        assert ids(found)[:1] == ["illegal-memory-access"]


def test_a_run_that_ends_in_weak_words_is_not_fine_because_it_began_with_a_notice() -> None:
    log = f"{START}{STEPS}a:1:1 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 has already checked in\n"
    assert read(log.encode()).verdict == "unknown"


FRAMES = 'Traceback (most recent call last):\n  File "/home/u/train.py", line 9, in <module>\n    main()\n'
DIRECT = "\n\nThe above exception was the direct cause of the following exception:\n\n"
AROUND = {
    "a lazy import": "{traced}{direct}{frames}RuntimeError: Failed to import transformers.models.x because of the "
    "following error (look up to see its traceback):\n",
    "an engine": "{traced}\n{frames}RuntimeError: Engine core initialization failed. See root cause above.\n",
    "a spawned process": "{frames}torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with "
    "the following error:\n{traced}\n",
    "a pool": 'concurrent.futures.process._RemoteTraceback: \n"""\n{traced}\n"""{direct}{traced}\n',
    "hydra": "Error executing job with overrides: ['a=4']\n{traced}\n\nSet the environment variable HYDRA_FULL_ERROR=1 "
    "for a complete stack trace.\n",
    "a notebook": "{name}                 Traceback (most recent call last)\n----> 1 trainer.train()\n\n{error}\n",
    "pytest": ">       f()\n\ntests/test_x.py:9: \nE   {error}\n\n/x/foo.py:88: {name}\n== 1 failed, 3 passed ==\n",
    "unittest": "ERROR: test_x (tests.test_x.T)\n-----\n{traced}\n\n-----\nRan 1 test in 0.1s\n\nFAILED (errors=1)\n",
    "Slurm": "{traced}\nsrun: error: node1: task 0: Exited with exit code 1\nsrun: Terminating StepId=1.0\n",
    "a runner": "{traced}\n##[error]Process completed with exit code 1.\n",
    "accelerate": "{traced}\n{frames}subprocess.CalledProcessError: Command '['x']' returned non-zero exit status 1.\n",
    "wandb": "{traced}\nwandb: Waiting for W&B process to finish... (failed 1). Press Control-C to abort syncing.\n",
    "a hook at the end": "{traced}\nError in sys.excepthook:\n{frames}ImportError: sys.meta_path is None, Python is "
    "likely shutting down\n",
    "an object that is freed": "{traced}\nException ignored in: <function Foo.__del__ at 0x7f>\n{frames}"
    "AttributeError: 'NoneType' object has no attribute 'close'\n",
    "an abort": "{traced}\nterminate called without an active exception\nAborted (core dumped)\n",
}
ROOTS = {
    "illegal-memory-access": "RuntimeError: CUDA error: an illegal memory access was encountered",
    "module-missing": "ModuleNotFoundError: No module named 'einops'",
    "shape-mismatch": "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 768x10)",
    "error-in-words": "ValueError: the mask has three channels and the image has one channel",
    "program-key": "KeyError: 'labels'",
}


@collect("around", AROUND)
def test_the_root_leads_whatever_hands_it_on(around: str) -> None:
    for name, error in ROOTS.items():
        about = {"error": error, "name": error.split(":")[0], "traced": FRAMES + error, "frames": FRAMES}
        log = AROUND[around].format(**about, direct=DIRECT)
        found = read(log.encode())
        if name != "program-key" or 'File "' in log:  # else nothing tells in which file it was raised
            assert ids(found)[:1] == [name], (name, found.unexplained)
            assert error in found.causes[0].match.text
        else:
            assert found.verdict == "unknown", ids(found)
            assert any(error in text for _, text in found.unexplained)


def test_an_exception_that_python_only_prints_ends_no_run() -> None:
    freed = (
        f"Exception ignored in: <function Foo.__del__ at 0x7f>\n{FRAMES}AttributeError: 'NoneType' object has no x\n"
    )
    assert read(f"{STEPS}Saving model checkpoint to out\n{freed}".encode()).fine
    assert read(b"Exception ignored in: <function Foo>\nloading\n" + SAYS.encode()).in_words
    assert not read(f"Error in sys.excepthook:\n{FRAMES}ImportError: sys.meta_path is None\n".encode()).fine
    for end in ENDS:
        assert not read(f"Exception ignored in: <function Foo>\n{STEPS}{FRAMES}{end}\n".encode()).fine


def test_the_network_below_nccl_leads_before_the_error_that_it_causes() -> None:
    log = b"""[rank1]: RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO for details)
node:14:15 [0] misc/ibvwrap.cc:182 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Invalid argument
"""
    assert ids(read(log))[0] == "nccl-infiniband"


def test_a_container_without_gpu_leads_before_what_its_programs_say_of_the_driver() -> None:
    log = b"""WARNING: The NVIDIA Driver was not detected. GPU functionality will not be available.
W0526 08:41:16.1 1 memory.cc:236] no pinned memory: CUDA driver version is insufficient for CUDA runtime version
"""
    assert ids(read(log))[0] == "no-driver"


def test_a_lock_that_finds_no_room_is_short_of_shared_memory_and_not_of_disk() -> None:
    lock = b"    sl = self._semlock = _multiprocessing.SemLock(\n"
    full = b"OSError: [Errno 28] No space left on device\n"
    assert ids(read(TRACEBACK + lock + full)) == ["shm-semaphore"]
    assert ids(read(TRACEBACK + full)) == ["disk-full"]


def test_what_an_exception_of_compiled_code_says_leads_before_the_abort() -> None:
    log = b"""terminate called after throwing an instance of 'std::runtime_error'
  what():  [/opt/dali/util/cuda_utils.h:80] CUDA driver api error "resource not mapped"
"""
    found = read(log)
    assert (found.verdict, ids(found)[0], found.unexplained[0][0]) == ("unknown", "error-in-words", 2)


def test_an_exception_whose_name_says_not_found_is_seen() -> None:
    found = read(TRACEBACK + b"etcd.EtcdKeyNotFound: Key not found : /torch/elastic/store\n")
    assert (found.verdict, ids(found)) == ("unknown", ["error-in-words"])


def test_an_error_of_cuda_by_its_number_is_known_however_it_is_introduced() -> None:
    assert ids(read(b"Cuda driver error 804 in call at file\n")) == ["err-804"]


REFUSED = b"train.py: error: argument --name: expected one argument\n"
LONG_RUN = b"".join(b"Epoch %d: loss 1.25 accuracy 0.5\n" % step for step in range(1000))


def test_an_error_that_a_run_goes_on_long_after_did_not_end_it() -> None:
    found = read(REFUSED + LONG_RUN)
    assert (found.verdict, found.survived, ids(found)) == ("unknown", True, ["options-refused"])
    assert not found.causes[0].command
    assert "a later run after it (line 1)" in found.causes[0].reason


def test_what_a_program_wrote_before_its_error_may_stand_behind_it() -> None:
    """Its output is written when the buffer of 8 KiB is full, or when it ends: the traceback has been there before."""
    found = read(OOM + LONG_RUN[:8192])
    assert (found.verdict, ids(found)[0]) == ("known", "cuda-out-of-memory")


def test_the_error_of_an_earlier_run_does_not_lead_over_that_of_the_last() -> None:
    memory = TRACEBACK + b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    found = read(REFUSED + LONG_RUN + memory)
    assert (found.verdict, ids(found)) == ("known", ["cuda-out-of-memory", "options-refused"])
    words = read(memory + LONG_RUN + TRACEBACK + b"ValueError: no file of the split val has the name 0017\n")
    assert (words.verdict, words.causes[0].match.text[:10]) == ("unknown", "ValueError")
    assert words.causes[1].reason.startswith("the log shows a later run")


def test_an_error_that_leaves_a_run_without_its_gpu_is_reported_where_the_run_goes_on() -> None:
    found = read((LOGS / "no-driver/lazy-init.log").read_bytes() + LONG_RUN)
    assert (found.verdict, ids(found)[0]) == ("known", "no-driver")


def test_of_two_runs_in_one_log_the_error_of_the_last_leads_in_its_own_words() -> None:
    first = TRACEBACK + b"RuntimeError: The size of tensor a (13) must match the size of tensor b (12)\n"
    last = TRACEBACK + b"ValueError: Could not find a format to read the specified file in mode 'i'\n"
    found = read(first + last)
    assert (found.verdict, ids(found)) == ("unknown", ["error-in-words", "shape-mismatch"])


def test_the_error_of_a_worker_leads_before_the_loader_that_misses_it() -> None:
    own = b"UnboundLocalError: local variable 'labels' referenced before assignment\n"
    died = b"RuntimeError: One or more background workers are no longer alive. Exiting.\n"
    found = read(TRACEBACK + own + b"Exception in thread Thread-4:\n" + TRACEBACK + died)
    assert (found.verdict, ids(found)) == ("known", ["program-name"])
    assert read(TRACEBACK + died).verdict == "effect"


def test_a_line_is_graded_by_the_level_behind_the_name_of_its_process() -> None:
    note = b"(Worker pid=7) DEBUG 04-21 06:57:28 [platforms.py:55] TPU is not available: No module named 'libtpu'\n"
    found = read(note + TRACEBACK + b"RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.\n")
    assert ids(found)[0] == "process-killed"
    words = b"[2023-11-20 09:57:27,760][root][INFO] - the fatal consequences might be prevented\n"
    assert read(words + HEALTHY).fine


def test_the_last_try_of_pip_explains_why_it_found_nothing() -> None:
    tries = b"WARNING: Retrying (Retry(total=%d, connect=None)) after connection broken by 'NewConnectionError(x)'\n"
    nothing = b"ERROR: Could not find a version that satisfies the requirement aiohttp==3.8.1 (from versions: none)\n"
    assert ids(read(tries % 0 + nothing))[0] == "download-failed"
    assert ids(read(tries % 4 + nothing))[0] == "pip-package-not-found"


def test_the_statement_that_raises_an_error_is_not_evidence_of_it() -> None:
    frame = b'  File "urllib3/response.py", line 40, in read\n    raise IncompleteRead(data, amt-len(data))\n'
    found = read(TRACEBACK + frame + b"urllib3.exceptions.ProtocolError: IncompleteRead(4835 bytes read)\n")
    assert (ids(found), found.causes[0].match.line) == (["download-failed"], 5)


def test_an_unexplained_error_of_an_earlier_run_does_not_lead_over_the_end_of_the_last() -> None:
    words = b"ValueError: Normalization stats not found for this config\n"
    end = b"slurmstepd: error: *** JOB 334949 ON dgx-03 CANCELLED AT 2026-01-06T04:52:18 ***\n"
    assert ids(read(TRACEBACK + words + LONG_RUN + end)) == ["slurm-cancelled"]
    assert ids(read(TRACEBACK + words + end))[0] == "error-in-words"


def test_a_pipe_that_breaks_behind_an_error_is_its_effect() -> None:
    memory = TRACEBACK + b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    assert ids(read(memory + TRACEBACK + b"BrokenPipeError: [Errno 32] Broken pipe\n")) == ["cuda-out-of-memory"]


LAUNCHER = b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
MORE_STEPS = b"".join(b"[rank0]: {'loss': 1.25, 'epoch': 0.%d}\n" % number for number in range(9))


def test_of_several_runs_of_several_ranks_the_last_one_leads() -> None:
    """What the launcher said to have failed was another run than the one that makes steps behind it."""
    first = TRACEBACK + b"[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    last = TRACEBACK + b"[rank0]: RuntimeError: CUDA error: device-side assert triggered\n"
    assert ids(read(first + last + LAUNCHER))[0] == "cuda-out-of-memory"
    assert ids(read(first + MORE_STEPS + last + LAUNCHER))[0] == "cuda-out-of-memory"  # one run, which prints late
    assert ids(read(first + LAUNCHER + MORE_STEPS + last + LAUNCHER))[0] == "device-assert"


def test_what_is_out_of_scope_leads_only_where_something_fails() -> None:
    windows = b"Platform: win-64\nC:\\env\\python.exe train.py\n"
    assert read(windows + b"the model is written\n").verdict == "harmless"
    assert read(windows + b"CondaError: KeyboardInterrupt\n").verdict == "known"
    assert ids(read(windows + OOM)) == ["cuda-out-of-memory", "scope-windows"]  # which every system has
    assert not read(windows + OOM).causes[0].command


def test_of_warnings_that_of_the_driver_leads() -> None:
    missing = "1: W tensorflow/dso_loader.cc:64] Could not load dynamic library '{0}'; dlerror: {0}: cannot open "
    both = "".join(f"{missing.format(name)}shared object file\n" for name in ("libcudart.so.11.0", "libcuda.so.1"))
    assert ids(read(both.encode())) == ["libcuda-missing", "libcudart-missing"]


def test_a_count_of_nothing_that_failed_is_not_a_failure() -> None:
    assert read(b"[build] Failed: No packages failed.\nDone\n").verdict == "clean"
    for summary in (b"========= ERROR SUMMARY: 0 errors\n", b"FAILED: 0, ERRORS: 0\n"):
        assert read(summary).verdict == read(summary + HEALTHY).verdict == "clean"
        assert read(summary.replace(b"0", b"2") + HEALTHY).verdict == "unknown"
    assert read(b"1 | INFO | tools | Failed indices: [543]\n" + HEALTHY).verdict == "clean"
    other = b"ERROR 07-31 16:21:40 [fa_utils.py:57] Cannot use FA version 2 is not supported due to FA2 needs 8.0\n"
    assert read(other + HEALTHY).verdict == "clean"  # vLLM takes another attention


def test_an_error_that_no_row_knows_and_that_the_run_survived_is_said_to_be_so() -> None:
    found = read(b"10:00 - ERROR - tools - Saving directory (out) should be a directory\n" + HEALTHY * 300)
    assert (found.verdict, found.survived, found.causes) == ("unknown", True, ())
    assert [number for number, _ in found.unexplained] == [1]


def test_what_goes_on_without_an_import_is_not_a_failure() -> None:
    """sglang imports every model that it knows, and leaves out those that it cannot."""
    line = b"[2026-01-04 07:00:35 TP1] Ignore import error when loading srt.models.some: No module named 'torchaudio'\n"
    assert read(line * 3 + HEALTHY).fine
    assert read(line * 3 + b"[2026-01-04 07:00:36 TP1] Load weight begin. avail mem=60.2 GB\n").verdict == "harmless"
    future = (
        b"/opt/x.py:256: UserWarning: The use of `x.T` is deprecated and it will throw an error in a future release.\n"
    )
    assert read(HEALTHY + future).fine


def test_the_job_that_slurm_cancelled_last_leads() -> None:
    """A log of several jobs: the errors of the first have not ended the last."""
    memory = TRACEBACK + b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    end = b"slurmstepd: error: *** JOB %d ON node1 CANCELLED AT 2026-01-06T04:52:18 ***\n"
    found = read(memory + end % 1 + MORE_STEPS + end % 2)
    assert (found.verdict, ids(found)[0]) == ("effect", "slurm-cancelled")
    assert "JOB 2 " in found.causes[0].match.text
    assert ids(read(memory + end % 1))[0] == "cuda-out-of-memory"


def test_a_warning_at_the_end_does_not_hide_what_ended_the_run() -> None:
    end = b"slurmstepd: error: *** JOB 1 ON node1 CANCELLED AT 2026-01-06T04:52:18 ***\n"
    assert (
        read(HEALTHY + end + b"W0000 00:00:17 1 cost.cc:699] Failed to guess the cost of a step\n").verdict == "effect"
    )


def test_a_traceback_whose_message_is_cut_off_is_not_clean() -> None:
    frame = b'  File "/opt/env/lib/python3.9/site-packages/accelerate/state.py", line 944, in __init__\n'
    found = read(frame + b"    raise ValueError(\nPlease make sure to initialize your accelerator first.\n")
    assert found.verdict == "unknown"
    assert [number for number, _ in found.unexplained] == [2]


def test_the_message_of_a_bare_exception_may_be_an_outer_error() -> None:
    text = b"RuntimeError: \n        CUDA Setup failed despite GPU being available. Please run python -m bitsandbytes\n"
    found = read(TRACEBACK + text)
    assert (found.verdict, ids(found)) == ("effect", ["bnb-setup-failed"])


def test_a_pod_that_kubernetes_ended_for_its_memory_is_not_clean() -> None:
    assert ids(read(b"    Last State:     Terminated\n      Reason:       OOMKilled\n")) == ["host-out-of-memory"]
    assert read(b"    Last State:     Terminated\n      Exit Code:    139\n").verdict != "clean"


def test_a_module_that_vllm_lacks_explains_why_it_knows_no_model() -> None:
    without = (
        b"WARNING 10-25 00:26:20 _custom_ops.py:19] Failed to import from vllm._C with No module named 'vllm._C'\n"
    )
    models = (LOGS / "vllm-model-unknown/architecture.log").read_bytes()
    outer = b"ERROR 10-25 00:26:40 registry.py:267] Error in inspecting model architecture 'LlamaForCausalLM'\n"
    assert ids(read(without + outer + TRACEBACK + models))[0] == "extension-not-installed"
    assert ids(read(outer + TRACEBACK + models)) == ["vllm-model-unknown"]


def test_the_driver_of_a_host_that_is_not_wsl_is_not_called_so() -> None:
    text = (LOGS / "container-wsl/request.log").read_bytes().replace(b"DESKTOP-1A2B3C4", b"core1")
    assert ids(read(text)) == ["container-driver-library"]


def test_an_exception_of_no_class_of_its_own_is_not_hidden_by_its_launcher() -> None:
    found = read(TRACEBACK + b"    raise Exception('no such split')\nException: no such split\n" + LAUNCHER)
    assert ids(found)[0] == "program-check"


def test_a_damaged_heap_leads_over_the_abort_that_it_ends_in() -> None:
    end = b"./run.sh: line 3: 1234 Aborted                 (core dumped) python train.py\n"
    assert ids(read(b"malloc(): unaligned tcache chunk detected\n" + end))[0] == "heap-corrupted"


def test_an_assertion_of_a_package_that_says_nothing_is_a_failure_of_its_code() -> None:
    frame = b'  File "/opt/env/lib/python3.9/site-packages/deepspeed/runtime/zero/stage3.py", line 1125, in reduce\n'
    bare = frame + b"    assert param.ds_id not in self.params_in_ipg_bucket\nAssertionError"
    found = read(TRACEBACK + bare + b"\n")
    assert (ids(found), found.causes[0].because[1:]) == (
        ["package-code"],
        ("the check there: assert param.ds_id not in self.params_in_ipg_bucket",),
    )
    assert ids(read(TRACEBACK + bare + b": a batch of no sample\n")) == ["value-refused"]


def test_what_an_engine_says_of_its_worker_is_an_outer_error() -> None:
    outer = (
        b"(EngineCore pid=1) ERROR 05-12 08:11:14 [core.py:866] Exception: WorkerProc initialization failed due to x\n"
    )
    end = b"(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.\n"
    assert read(outer + end).verdict == "effect"


def test_an_optional_part_of_a_package_is_installed_with_its_name() -> None:
    found = read(TRACEBACK + b"ImportError: Please install vllm[runai] optional dependency.\n")
    assert found.causes[0].command == "python -m pip install 'vllm[runai]'"


def test_a_stop_by_hand_leads_before_a_warning_and_behind_an_error() -> None:
    warning = b"UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).\n"
    assert ids(read(warning + TRACEBACK + b"KeyboardInterrupt\n"))[0] == "interrupted"
    memory = b"[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    assert ids(read(memory + TRACEBACK + b"[rank1]: KeyboardInterrupt\n"))[0] == "cuda-out-of-memory"


def test_a_bare_exception_belongs_to_the_line_that_raised_it() -> None:
    frame = b'  File "/opt/env/transformer_engine/pytorch/__init__.py", line 52, in _load_library\n'
    line = b'    so_path = next(so_dir.glob(f"{module_name}.*.{extension}"))\n'
    found = read(TRACEBACK + frame + line + b"StopIteration\n")
    assert (found.verdict, ids(found)) == ("known", ["transformer-engine-unusable"])


def test_a_warning_of_cargo_that_holds_an_error_of_nvcc_is_that_error() -> None:
    refused = b"warning: /usr/include/crt/host_config.h:139:2: error: #error -- unsupported GNU version! "
    log = (
        refused + b"gcc versions later than 10 are not supported!\nerror: failed to run custom build command for `x`\n"
    )
    assert ids(read(log))[0] == "gcc-too-new"


def test_a_report_of_deepspeed_whose_checks_find_no_command_is_not_a_failure() -> None:
    checks = b"/bin/sh: line 1: type: llvm-config-9: not found\n/bin/sh: line 1: type: cmake: not found\n"
    asks = b" [WARNING]  sparse_attn requires the 'cmake' command, but it does not exist!\n"
    assert read(checks + asks + b"sparse_attn ............ [NO] ....... [NO]\n").fine


def test_an_exception_without_traceback_is_of_the_package_that_its_name_tells() -> None:
    found = read(b"pkg_config.errors.ConfigValueError: the key a.b is not a number\n")
    assert (ids(found), found.causes[0].because) == (["value-refused"], ("its name belongs to pkg_config",))
    assert read(b"torch.distributed.ConfigValueError: the key a.b is not a number\n").verdict == "unknown"


def test_what_torch_and_nccl_say_at_the_start_of_a_run_is_a_notice() -> None:
    for name in ("nccl-notice", "socket-ipv6-notice"):
        for case in LOGS.joinpath(name).glob("*.log"):
            assert read(case.read_bytes() + HEALTHY).verdict == "harmless", case
            assert ids(read(case.read_bytes() + OOM))[0] == "cuda-out-of-memory"


def test_a_worker_of_ray_that_died_is_an_effect_whatever_hydra_says_after_it() -> None:
    died = b"(raylet) A worker died or was killed while executing a task by an unexpected system error.\n"
    assert read(died + b"Error executing job with overrides: ['a=b']\n").verdict == "effect"


def test_a_template_that_a_log_prints_is_not_its_error() -> None:
    printed = b"INFO 09-30 template: {{ raise_exception('Conversation roles must alternate user/assistant') }}\n"
    assert read(printed + HEALTHY).verdict == "clean"


def test_a_stop_by_hand_follows_from_an_exception_before_it_that_no_row_knows() -> None:
    stop = b"^C" + TRACEBACK + b"KeyboardInterrupt\n"
    failed = b'Traceback (most recent call last):\n  File "feed.py", line 3, in run\nfeeds.FeedError: no frames come\n'
    found = read(failed + stop)
    assert (found.verdict, ids(found)) == ("unknown", ["error-in-words"])
    assert [item.symptom.id for item in found.causes[0].followers] == ["interrupted"]
    assert ids(read(stop)) == ["interrupted"]


def test_an_exception_of_any_name_is_one_where_a_traceback_ends_with_it() -> None:
    found = read(
        b'Traceback (most recent call last):\n  File "feed.py", line 3, in run\nfeeds.NoFrames: the feed is empty\n'
    )
    assert (found.verdict, found.unexplained) == ("unknown", ((3, "feeds.NoFrames: the feed is empty"),))
    assert read(b"feeds.NoFrames: the feed is empty\n").verdict == "clean"
    ignored = b"Exception ignored in: <function Feed.__del__ at 0x7f>\n"
    assert read(ignored + TRACEBACK + b"feeds.NoFrames: the feed is empty\n").fine


def test_of_several_runs_of_a_launcher_in_one_log_the_last_counts() -> None:
    begin = b"[run.py:779] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
    end = (
        b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\nRoot Cause (first observed failure):\n"
        b"[0]:\n  rank      : %d (local_rank: %d)\n  exitcode  : 1 (pid: 1234)\n"
    )
    library = b"[rank0]: ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory\n"
    runs = begin + OOM + end % (0, 0) + begin + library + end % (0, 0)
    assert ids(read(runs)) == ["libcudart-missing", "cuda-out-of-memory"]
    assert read(runs).causes[1].match.survived
    twice = read(begin + library + end % (0, 0) + begin + library + end % (0, 0))
    assert twice.causes[0].match.line == 9


def test_a_traceback_in_a_record_of_json_is_read_as_its_lines() -> None:
    trace = r"Traceback (most recent call last):\n  File \"/srv/app/main.py\", line 12, in run\nKeyError: \"rows\""
    found = read(f'{{"level": "INFO", "msg": "start"}}\n{{"level": "ERROR", "exc_info": "{trace}"}}\n'.encode())
    assert (found.verdict, ids(found)) == ("known", ["program-key"])
    assert "/srv/app/main.py, line 12" in found.causes[0].because[0]


def test_lines_of_the_journal_are_read_without_what_it_puts_before_them() -> None:
    head = "Aug 17 18:42:18 box vllm[8052]: (APIServer pid=8052) "
    log = f"{FRAMES}    raise RuntimeError(\nRuntimeError: Engine core initialization failed. See root cause above.\n"
    found = read("".join(head + line for line in log.splitlines(keepends=True)).encode())
    assert (found.verdict, ids(found)) == ("effect", ["vllm-engine-died"])


def test_a_process_that_its_launcher_kills_says_nothing_of_memory() -> None:
    says = b"Received sigquit from a child process. It usually means the child failed.\nKilled\n"
    found = read(FRAMES.encode() + b"streams.StreamError: the part has no end\n\n" + says)
    assert found.verdict == "unknown"
    assert found.causes[0].match.text == "streams.StreamError: the part has no end"
    assert (read(says).verdict, ids(read(says))[0]) == ("effect", "child-failed")
    hung = read(b"[2026-01-18 04:11:55 TP0] Watchdog timeout (self.watchdog_timeout=300)\n" + says)
    assert (hung.verdict, ids(hung)[0]) == ("effect", "sglang-watchdog")


@pytest.mark.slow
def test_a_failure_deep_in_an_endless_line_is_found_at_its_number() -> None:
    bulk = b'{"id": 7, "text": "' + b"lorem ipsum " * 60_000
    found = read(b"start\n" + bulk + OOM.strip() + bulk + b'"}\n' + b"KeyError: 'after'\n")
    assert ids(found)[0] == "cuda-out-of-memory"
    assert found.causes[0].match.line == 2
    assert (found.lines, found.size) == (3, 2 * len(bulk) + len(OOM.strip()) + 27)


def test_the_condition_of_an_assertion_without_words_is_reported() -> None:
    plain = (
        'Traceback (most recent call last):\n  File "train.py", line 3, in run\n    assert rows > 0\nAssertionError\n'
    )
    box = (
        "╭──────── Traceback (most recent call last) ────────╮\n"
        "│ /env/lib/python3.8/site-packages/sums/sh.py:19 in │\n"
        "│ Harmonics                                         │\n"
        "│                                                   │\n"
        "│ ❱ 19 │   assert rows > 0                          │\n"
        "╰───────────────────────────────────────────────────╯\n"
        "AssertionError\n"
    )
    for log in (plain, box):
        assert read(log.encode()).causes[0].because[-1] == "the check there: assert rows > 0"


def test_the_words_of_cmake_lead_before_what_pip_says_of_the_build() -> None:
    words = "  OLD_OPTION is gone.  Use NEW_OPTION.\n"
    log = f"error: subprocess-exited-with-error\n\n  CMake Error at CMakeLists.txt:9 (message):\n  {words}"
    found = read(log.encode())
    assert [cause.symptom.id for cause in found.causes] == ["cmake-refused"]
    assert "it says: OLD_OPTION is gone. Use NEW_OPTION." in found.causes[0].because[0].replace("  ", " ")
    later = log + "  Could NOT find Eigen3 (missing: EIGEN3_DIR)\n"
    assert [cause.symptom.id for cause in read(later.encode()).causes] == ["cmake-package-missing"]


def test_a_plug_in_that_conda_does_without_ends_no_run() -> None:
    said = b"Error while loading conda entry point: conda-libmamba-solver (libarchive.so.20: cannot open)\n"
    assert read(said + b"Collecting package metadata: done\n").verdict == "harmless"


def test_what_a_build_only_tries_is_not_a_failure_where_pip_ends_well() -> None:
    tried = b"/tmp/a.cpp:1:10: fatal error: cusparseLt.h: No such file or directory\nld: cannot find -lcutensor\n"
    assert read(tried + b"Successfully installed fast-ops-1.0\n[notice] A new release of pip\n").verdict == "harmless"
    assert read(b"ERROR: Failed building wheel for x\n" + tried + b"Successfully installed y-1\n").verdict == "known"


def test_what_configure_says_leads_before_what_make_misses_afterwards() -> None:
    refused = (
        b"configure: error: fabric was asked for, and does not exist\nmake: *** No rule to make target 'all'.  Stop.\n"
    )
    assert [cause.symptom.id for cause in read(refused).causes] == ["configure-refused"]
    assert read(b"configure: error: Couldn't find nvcc\n").causes[0].symptom.id == "nvcc-not-found"


def test_a_cmake_that_asks_for_a_ninja_that_is_gone_is_reported_as_such() -> None:
    ninja = (
        "\n   '/tmp/pip-build-env-a1/overlay/bin/ninja' '--version'\n\n  failed with:\n\n   no such file or directory\n"
    )
    found = read(f"CMake Error at CMakeLists.txt:3 (project):\n  Running\n{ninja}".encode()).causes
    assert [cause.symptom.id for cause in found] == ["build-folder-stale"]


def test_a_glibc_that_every_linux_has_does_not_concern_the_system() -> None:
    old = b"Problem: nothing provides __glibc >=2.17 needed by sums-1.0\n"
    assert read(old).causes[0].symptom.id == "conda-too-old"
    assert read(old.replace(b"2.17", b"2.28")).causes[0].symptom.id == "glibc-of-solver"


def test_what_pip_finds_incompatible_is_known_without_its_head() -> None:
    line = b"torchvision 0.13.1+cpu requires torch==1.12.1, but you have torch 2.0.1 which is incompatible.\n"
    assert read(line).causes[0].symptom.id == "pip-conflict"
    assert read(line + b"Successfully installed torch-2.0.1\n").verdict == "harmless"


def test_a_wheel_that_no_release_lists_is_not_a_broken_download() -> None:
    frame = b'  File "/tmp/a/setup.py", line 9, in run\n    urllib.request.urlretrieve(wheel_url, wheel_filename)\n'
    asked = b"Traceback (most recent call last):\n" + frame
    missing = asked + b"urllib.error.HTTPError: HTTP Error 404: Not Found\n"
    ninja = b"subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.\n"
    assert [cause.symptom.id for cause in read(missing + ninja).causes] == ["wheel-not-prebuilt"]
    compiled = b'a.cu(3): error: identifier "AT_CHECK" is undefined\n' + missing + ninja
    assert [cause.symptom.id for cause in read(compiled).causes] == ["extension-source-too-old"]
    offline = asked + b"urllib.error.URLError: <urlopen error [Errno -2] Name or service not known>\n"
    assert [cause.symptom.id for cause in read(offline).causes] == ["download-failed"]


def test_a_build_that_goes_on_without_a_gpu_is_fine() -> None:
    notice = b"No CUDA runtime is found, using CUDA_HOME='/usr/local/cuda'\n"
    for line in (
        b"  /usr/local/cuda/bin/nvcc -I/x/include -c a.cu -o build/a.o -O3\n",
        b"[ 45%] Building CXX object a.cpp.o\n",
        b"  building 'amp_C' extension\n",
    ):
        assert read(notice + line).verdict == "harmless"
        assert read(notice + line + b"error: command '/usr/bin/gcc' failed with exit code 1\n").verdict != "harmless"


def test_a_warning_of_xla_without_its_time_is_a_notice_where_the_run_goes_on() -> None:
    note = (
        b"W external/local_xla/xla/service/gpu/nvptx_compiler.cc:930] The NVIDIA driver's CUDA version is 12.4 which "
        b"is older than the PTX compiler version 12.5.82. XLA is disabling parallel compilation, which may slow down.\n"
    )
    steps = b"Epoch 1/5\n1563/1563 [====================] - 12s 8ms/step - loss: 0.41\n"
    assert read(note + steps).verdict == "harmless"


def test_what_a_shown_command_would_print_is_not_a_message() -> None:
    shown = '[ -n "$X" ] || { echo -e "Error: CUDA_HOME is not set.\\n"; exit 1; }\n'
    comment = (
        '. ./env.sh && pip install numpy  # Workaround for "ImportError: numpy.core.multiarray failed to import"\n'
    )
    assert read((shown + comment + "Successfully installed numpy-1.19.1\n").encode()).verdict == "clean"
    assert read(b"ImportError: numpy.core.multiarray failed to import\n").verdict == "known"


def test_weak_words_right_above_an_effect_are_shown() -> None:
    log = b"Could not find libops.so in ../build.\nSet OPS_PATH to its place\nmake: *** [ops.done] Error 1\n"
    found = read(log)
    assert (found.verdict, [line for line, _ in found.unexplained]) == ("unknown", [1])


def test_cmake_that_found_nvcc_and_no_headers_lacks_no_compiler() -> None:
    said = 'Could NOT find CUDA (missing: CUDA_{}) (found version "10.1")\n'
    assert [cause.symptom.id for cause in read(said.format("INCLUDE_DIRS").encode()).causes] == ["header-missing"]
    assert [cause.symptom.id for cause in read(said.format("NVCC").encode()).causes] == ["nvcc-not-found"]


def test_a_container_without_nvidia_smi_has_no_driver_that_is_too_old() -> None:
    found = read(b"CUDA driver version is insufficient for CUDA runtime version\nbash: nvidia-smi: command not found\n")
    assert [cause.symptom.id for cause in found.causes] == ["smi-missing"]


def test_a_warning_of_a_future_error_is_not_a_failure() -> None:
    assert read(b"CMake Warning:\n  this warning will become a fatal error in future CMake releases.\n").fine


def test_a_wheel_that_pip_could_not_build_does_not_matter_where_it_installed_the_package_otherwise() -> None:
    failed = (
        "  Building wheel for lap (setup.py) ... error\n  error: invalid command 'bdist_wheel'\n"
        "  ERROR: Failed building wheel for lap\n    Running setup.py install for lap ... done\n"
    )
    assert read(f"{failed}Successfully installed lap-0.4.0 pycocotools-2.0.4\n".encode()).verdict == "harmless"
    assert read(f"{failed}Successfully installed pycocotools-2.0.4\n".encode()).verdict == "known"


def test_source_that_a_warning_quotes_is_no_failure() -> None:
    quoted = (
        'a.cu(37): warning #177-D: variable "err" was declared but never referenced\n  cudaError_t err = cudaSuccess;\n'
    )
    assert read(quoted.encode()).verdict == "clean"


def test_an_exception_that_has_only_a_place_in_a_source_file_does_not_lead() -> None:
    check = b"/b/spconv/src/cumm/conv/main/K.cu:104: void cumm::k(cumm::P): block: [1,0,0] Assertion `0` failed.\n"
    ended = b"RuntimeError: /b/spconv/src/cumm/Sync.cc(11)\nCUDA error 710\n"
    found = read(check + TRACEBACK + ended)
    assert (found.verdict, ids(found)[0]) == ("known", "kernel-arch-assert")


def test_a_weak_word_before_progress_or_a_default_is_no_failure() -> None:
    config = b"{'image_encoder'} was not found in config. Values will be initialized to default values.\n"
    assert read(b"Setting seed: 1\n" + config).fine
    assert read(b"Can't use GPU pipeline with CPU Physics. Changing pipeline to 'CPU'.\n").fine
    bar = b"Steps:   4%|1         | 20/500 [00:41<16:01,  2.00s/it, lr=0.0001, step_loss=0.0312]\n"
    assert read(b"the cache was not found\n" + bar).fine
    assert not read(bar + b"the cache was not found\n").fine


def test_a_warning_of_a_run_that_works_is_a_remark() -> None:
    warned = (
        b"W1114 10:01:12.4 1 logging.cc:46] Using an engine plan file across different models of devices is not ok\n"
    )
    for work in (
        b"I1114 10:01:15.9 1 http_server.cc:4694] Started HTTPService at 0.0.0.0:8000\n",
        b"[GIN] 2025/01/12 - 10:00:31 | 200 |  9.812s |  172.17.0.1 | POST /api/chat\n",
        b'INFO: 172.18.0.1:5501 - "POST /v1/chat/completions HTTP/1.1" 200\n',
        b"Prompt executed in 14.05 seconds\n",
    ):
        found = read(warned + work)
        assert found.verdict == "harmless", work
        assert {cause.kind for cause in found.causes} == {"remark"}
    assert read(warned).causes[0].kind == "cause"


def test_a_wrapped_message_does_not_reach_into_a_line_that_a_row_explains() -> None:
    opened = (
        b"I tensorflow/stream_executor/platform/dso_loader.cc:53] Successfully opened dynamic library libcublas.so.11\n"
    )
    missing = (
        b"W tensorflow/stream_executor/platform/dso_loader.cc:64] Could not load dynamic library 'libnvinfer.so.6'; "
        b"dlerror: libnvinfer.so.6: cannot open shared object file: No such file or directory\n"
    )
    assert [cause.symptom.id for cause in read(opened + missing).causes] == ["tensorflow-tensorrt-notice"]
