"""Reading a log: cascades, hosts and environments, what is unknown, and logs that mean harm."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.version import Version

import cuenv
from cases import collect, quick_and_slow
from cuenv.core.versions import Capability
from cuenv.diagnosis.causes import Diagnosis, diagnose
from cuenv.diagnosis.lead import group_by_cause
from cuenv.diagnosis.log.scan import scan
from cuenv.diagnosis.log.seek import MANY
from cuenv.diagnosis.log.text import LINE
from cuenv.host.facts import Compiler, Driver, FoundToolkit, Gpu, HostFacts, Libc, LibraryPath, Surroundings
from cuenv.host.io.record import read_host
from cuenv.prefix.inventory import Prefix, Wheel
from cuenv.solve.model import LockedPackage
from failure_logs import CASES, LOGS, read, tables
from thorough import examples

CUSPARSE = (LOGS / "cusparse-header/fused-adam.log").read_bytes()
OOM = (LOGS / "cuda-out-of-memory/torch25.log").read_bytes()


def names(found: Diagnosis) -> list[str]:
    return [cause.symptom.id for cause in found.causes]


def followers(found: Diagnosis) -> list[str]:
    return [item.symptom.id for item in found.causes[0].followers]


def host(**changes: Any) -> HostFacts:
    return replace(read_host("rtx4090-535", str, tables()[0]), **changes)


def venv(**wheels: str) -> Prefix:
    found = tuple(
        Wheel(name=name.replace("_", "-"), version=version, folder="/env/lib/python3.11/site-packages")
        for name, version in wheels.items()
    )
    return Prefix(path="/env with space", kind="venv", python="3.11", site_packages=(), wheels=found)


def conda(**packages: tuple[str, str]) -> Prefix:
    found = tuple(
        LockedPackage(
            name=name.replace("_", "-"),
            version=version,
            build=build,
            url=f"https://conda.anaconda.org/conda-forge/linux-64/{name}-{version}-{build}.conda",
            subdir="linux-64",
            channel="https://conda.anaconda.org/conda-forge",
            md5=None,
            sha256=None,
        )
        for name, (version, build) in packages.items()
    )
    return Prefix(path="/opt/env", kind="conda", python="3.11", site_packages=(), conda=found)


def on(log: str, facts: HostFacts | None = None, prefix: Prefix | None = None) -> Diagnosis:
    knowledge, guidance = tables()
    return diagnose([(LOGS / log).read_bytes()], guidance.symptoms, knowledge, facts, prefix)


# -- cascades


def test_the_first_cause_leads_and_envelopes_are_folded() -> None:
    found = read(CUSPARSE)
    assert names(found) == ["cusparse-header"]
    assert followers(found) == ["ninja-failed", "error-building-extension"]
    assert found.causes[0].match.line == 4


def test_a_cause_that_stands_after_its_followers_still_leads() -> None:
    watchdog = (LOGS / "nccl-timeout/allreduce.log").read_bytes()
    child = (LOGS / "child-failed/torchrun.log").read_bytes()
    found = read(watchdog + child + OOM)
    assert names(found) == ["cuda-out-of-memory"]
    assert followers(found) == ["nccl-timeout", "child-failed"]


@pytest.mark.parametrize("step", quick_and_slow(6, 1))
def test_every_cause_explains_every_report_of_it(step: int) -> None:
    envelope = (LOGS / "error-building-extension/alone.log").read_bytes()
    _, guidance = tables()
    causes = {row.id for row in guidance.symptoms if row.kind == "cause" and "any" not in row.follows}
    for case in CASES[::step]:
        if case.parent.name in causes:
            found = read(envelope + case.read_bytes())
            last = found.causes[-1]
            if last.match.grade == "warning" and last.symptom.layer in ("solve", "device", "driver"):
                continue  # the installation went on after it, or a build does not need what it warns of
            assert names(found) == [case.parent.name], case
            assert "error-building-extension" in followers(found)


def test_what_ended_the_run_leads_whatever_was_told_before() -> None:
    notice = (LOGS / "numpy2/warning.log").read_bytes()
    assert names(read(notice + OOM)) == names(read(OOM + notice)) == ["cuda-out-of-memory", "numpy2"]
    cpp = (LOGS / "cxx-compiler-missing/which.log").read_bytes()
    assert names(read(cpp + OOM)) == ["cxx-compiler-missing", "cuda-out-of-memory"]


def test_a_harmless_warning_never_leads() -> None:
    warning = (LOGS / "min-max-capability-warning/gb10.log").read_bytes()
    found = read(warning + OOM)
    assert names(found) == ["cuda-out-of-memory", "min-max-capability-warning"]
    assert found.verdict == "known"
    assert read(warning).verdict == "harmless"


def test_a_report_of_a_failure_alone_is_not_a_cause() -> None:
    found = read((LOGS / "error-building-extension/alone.log").read_bytes())
    assert found.verdict == "effect"
    assert not found.fine


def test_a_driver_that_is_too_old_explains_why_cuda_is_not_available() -> None:
    found = read((LOGS / "cuda-unavailable/printed.log").read_bytes() + (LOGS / "no-driver/deepspeed.log").read_bytes())
    assert names(found) == ["no-driver"]
    assert followers(found) == ["cuda-unavailable"]


@pytest.mark.parametrize(
    ("driver", "says"),
    [
        ("525", "driver 525 is only a branch number, and CUDA 12.x needs driver 525.60.13 or later (CU401)"),
        ("525.85.12", "supports CUDA 12.0"),
    ],
)
def test_a_branch_is_judged_as_resolve_judges_it(driver: str, says: str) -> None:
    """Resolve does not refuse a branch that holds the floor, so the driver is not said to be too old here."""
    gpu = host(driver=Driver(version=driver, cuda=tables()[0].cuda_of(driver)))
    cause = on("driver-insufficient/a800-470.log", gpu, venv(torch="2.5.1+cu121")).causes[0]
    told = " ".join([*cause.because, cause.remedy])
    assert says in told
    assert "install torch for CUDA 11" not in told


def test_lines_that_show_a_symptom_again_are_counted() -> None:
    found = read(OOM * 5)
    assert found.causes[0].match.count == 5
    assert found.causes[0].match.line == 1
    assert read(OOM * (MANY + 50)).causes[0].match.count == MANY


@given(st.lists(st.sampled_from(CASES), min_size=1, max_size=6))
@example([LOGS / "command-missing" / "apptainer.log", LOGS / "cuda-unavailable" / "fp16.log"])  # a ring of three
@examples(60)
def test_nothing_is_lost_by_folding(cases: list[Path]) -> None:
    _, guidance = tables()
    found = scan([b"".join(case.read_bytes() for case in cases)], guidance.symptoms).matches
    told = [name.symptom.id for root, under in group_by_cause(found) for name in (root, *under)]
    assert sorted(told) == sorted(item.symptom.id for item in found)


# -- why on this host


def test_driver_470_under_cuda_12_gets_a_build_for_11_8_now_and_a_driver_later() -> None:
    cause = on(
        "driver-insufficient/a800-470.log", replace(read_host("a800-470", str, tables()[0]), asked_as="a800-470")
    ).causes[0]
    assert cause.because == (
        "driver 470.129.06 supports CUDA 11.4",
        "CUDA 12.x needs driver 525.60.13 or later, but a800-470 has driver 470.129.06 (CU401)",
    )
    assert "CUDA 11.8" in cause.remedy
    assert "525.60.13 or later" in cause.remedy
    assert "LD_LIBRARY_PATH does not help" in cause.remedy
    assert cause.command == "cuenv resolve --host a800-470 --cuda 11.8 -o environment.yml"


def test_the_level_in_torchs_message_is_decoded_and_goes_before_the_host() -> None:
    cause = on("driver-too-old-torch/torch-warning.log").causes[0]
    assert "is the driver's CUDA version, 11.4," in cause.why
    assert cause.because[0] == "the driver supports CUDA 11.4"
    assert cause.because[1].startswith("CUDA 12.x needs driver 525.60.13 or later, but the machine of this log has")


def test_a_driver_that_is_new_enough_is_not_blamed() -> None:
    cause = on("driver-insufficient/a800-470.log", host(), venv(torch="2.5.1+cu121")).causes[0]
    assert cause.because == ("driver 535.129.03 supports CUDA 12.2",)


def test_bitsandbytes_asks_torch_and_not_nvcc() -> None:
    cause = on(
        "bnb-missing-lib/cuda126.log", read_host("rtx4090-560-nvcc101", str, tables()[0]), venv(bitsandbytes="0.44.1")
    ).causes[0]
    text = " ".join(cause.because)
    assert "installed is bitsandbytes 0.44.1" in text
    assert "nvcc 10.1 on PATH does not matter" in text
    assert "library for CUDA 12.6 since 0.45" in text
    assert cause.command == "'/env with space'/bin/python -m pip install --upgrade --no-deps 'bitsandbytes>=0.45'"


def test_bitsandbytes_is_not_upgraded_beyond_the_releases_with_the_library() -> None:
    line = "/x/site-packages/bitsandbytes/libbitsandbytes_cuda114.so: cannot open shared object file: No such file\n"
    assert (
        read(line.encode()).causes[0].command == "python -m pip install --upgrade --no-deps 'bitsandbytes>=0.37,<0.43'"
    )


def test_the_two_bad_releases_of_deepspeed_are_named() -> None:
    bad = on("zero3-offload-norm/stage3.log", prefix=venv(deepspeed="0.14.2")).causes[0]
    assert "deepspeed 0.14.2 has this bug" in bad.because[0]
    assert "the configuration is correct" in bad.why
    good = on("zero3-offload-norm/stage3.log", prefix=venv(deepspeed="0.15.4")).causes[0]
    assert good.because == ("deepspeed 0.15.4 is not one of 0.14.1, 0.14.2",)


def test_headers_are_those_of_torchs_own_cuda() -> None:
    prefix = conda(pytorch=("2.5.1", "cuda126_py311h_0"), libcusparse_dev=("12.5", "0"))
    cause = on("cusparse-header/fused-adam.log", host(), prefix).causes[0]
    assert cause.command.startswith("conda install -p /opt/env -c conda-forge cuda-version=12.6 cuda-nvcc ")
    assert "libcusolver-dev" in cause.command
    assert any("holds no nvcc" in item and "libcublas-dev" in item for item in cause.because)
    old = on("cusparse-header/fused-adam.log", host(), venv(torch="2.3.1+cu118")).causes[0]
    assert "-c nvidia/label/cuda-11.8.0 cuda-toolkit" in old.command


def test_headers_that_are_there_are_only_not_looked_for() -> None:
    names = ("cuda-nvcc", "cuda-cudart-dev", "libcusparse-dev", "libcublas-dev", "libcusolver-dev", "libcurand-dev")
    prefix = conda(pytorch=("2.5.1", "cuda126_py311h_0"), **dict.fromkeys(names, ("12.6", "0")))
    cause = on("cusparse-header/fused-adam.log", host(), prefix).causes[0]
    assert cause.command == "cuenv hook --prefix /opt/env"


def test_the_cuda_of_a_plain_wheel_is_that_of_its_runtime() -> None:
    cause = on("cuda-home-unset/torch.log", host(), venv(torch="2.7.1", nvidia_cuda_runtime_cu12="12.6.77")).causes[0]
    assert "torch is built for CUDA 12.6" in cause.because


def test_a_cpu_build_explains_why_cuda_is_not_available() -> None:
    cause = on("cuda-unavailable/printed.log", host(), conda(pytorch=("2.5.1", "cpu_generic_py311h_0"))).causes[0]
    assert cause.because[0] == "torch 2.5.1 of this environment is a CPU build"
    old = on("cuda-unavailable/printed.log", read_host("a800-470", str, tables()[0]), venv(torch="2.5.1+cu121")).causes[
        0
    ]
    assert "needs driver 525.60.13" in old.because[1]


def test_why_cuda_is_not_available_is_not_guessed_without_the_build() -> None:
    cause = on("cuda-unavailable/printed.log", read_host("a800-470", str, tables()[0])).causes[0]
    assert cause.because == ("the driver supports CUDA 11.4; it runs builds for CUDA up to 11.8",)
    assert "torch.version.cuda" in cause.remedy
    assert not cause.command
    told = on("cuda-unavailable/collect-env.log", read_host("a800-470", str, tables()[0])).causes[0]
    assert told.because[1].startswith(
        "torch is built for CUDA 11.3: driver 470.129.06 meets the minimum driver 450.80.02"
    )


def test_a_check_is_skipped_only_where_the_driver_reaches_the_minimum_driver() -> None:
    below = on("container-requirement/cli.log", read_host("a800-470", str, tables()[0])).causes[0]
    assert "skipping the check does not help" in below.because[1]
    assert "--cuda 11.8" in below.command
    above = on("container-requirement/cli.log", host()).causes[0]
    assert "NVIDIA_DISABLE_REQUIRE=true" in above.remedy


def test_code_for_the_gpu_is_looked_up_in_the_tables() -> None:
    cause = on("sm-not-compatible/rtx5090.log", prefix=conda(pytorch=("2.5.1", "cuda126_py311h_0"))).causes[0]
    assert "has only PTX (9.0) for compute capability 12.0" in cause.because[0]
    assert cause.because[0].endswith("but the driver is not known (CU403)")
    assert "--gpu 12.0" in cause.command


def test_the_c_library_is_compared() -> None:
    old = on("glibc/centos7.log", host(libc=Libc(family="glibc", version=Version("2.17")))).causes[0]
    (said,) = old.because
    assert said == "the file of this line needs glibc 2.28 or later, but rtx4090-535 has glibc 2.17 (CU407)"
    (other,) = on("glibc/centos7.log", host(libc=Libc(family="musl", version=Version("1.2")))).causes[0].because
    assert other.endswith("but rtx4090-535 has musl (CU407)")
    late = on("glibc/centos7.log", host(libc=Libc(family="glibc", version=Version("2.28")))).causes[0]
    assert late.because == ("glibc 2.28 is new enough, because the packages need glibc 2.28 or later",)


def test_nvcc_is_given_the_targets_that_it_knows() -> None:
    toolkit = FoundToolkit(path="/usr/local/cuda-11.4", release="11.4", on_path=True, via="PATH")
    cause = on("nvcc-unsupported-arch/rtx4090.log", host(toolkits=(toolkit,))).causes[0]
    assert cause.command == 'export TORCH_CUDA_ARCH_LIST="8.6"'
    assert "nvcc 11.8 and later support 8.9" in cause.because
    assert "CU404" not in " ".join(cause.because)
    young = host(toolkits=(toolkit,), gpus=(Gpu(index=0, name="NVIDIA H100 PCIe", capability=Capability(9, 0)),))
    refused = on("nvcc-unsupported-arch/rtx4090.log", young).causes[0]
    assert "TORCH_CUDA_ARCH_LIST" not in refused.command  # nothing that this nvcc compiles runs on the GPU
    assert any(item.endswith("(CU404)") for item in refused.because)


def test_the_library_path_is_named_where_it_can_be_meant() -> None:
    surroundings = Surroundings(
        library_path=(LibraryPath(path="/usr/local/cuda/lib64", libraries=("libcublas.so.12",)),)
    )
    cause = on("nvjitlink-symbol/import-torch.log", host(environment=surroundings)).causes[0]
    assert "LD_LIBRARY_PATH names /usr/local/cuda/lib64" in cause.because[0]


def test_the_host_compiler_is_compared() -> None:
    compiler = Compiler(name="gcc", path="/usr/bin/gcc", version="13.2.0")
    cause = on("gcc-too-new/nvcc.log", host(compilers=(compiler,))).causes[0]
    assert "gcc 13.2.0 at /usr/bin/gcc" in cause.because
    named = 'export NVCC_PREPEND_FLAGS="-ccbin $CONDA_PREFIX/bin/x86_64-conda-linux-gnu-g++"'
    assert cause.command == f"conda install -c conda-forge 'gxx_linux-64=11.*' && {named}"
    arm = on("gcc-too-new/nvcc.log", host(platform="linux-aarch64"), conda(pytorch=("2.5.1", "cuda126_py311h_0")))
    assert arm.causes[0].command == "conda install -p /opt/env -c conda-forge 'gxx_linux-aarch64=11.*'"


def test_a_runtime_of_another_major_is_distinguished_from_one_that_is_not_found() -> None:
    other = on("libcudart-missing/import.log", prefix=venv(torch="2.5.1+cu121")).causes[0]
    assert any("built for CUDA 12.1, which is another major version" in item for item in other.because)
    same = on("libcudart-missing/import.log", prefix=venv(torch="2.3.1+cu118")).causes[0]
    assert any("which has this major version" in item for item in same.because)


def test_fragmentation_is_reported_by_its_numbers() -> None:
    cause = read(OOM).causes[0]
    assert cause.command == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    full = OOM.replace(b"910.35 MiB is reserved", b"1.35 MiB is reserved")
    assert not read(full).causes[0].command


def test_what_the_log_says_in_passing_is_used() -> None:
    found = read(b"| NVIDIA-SMI 470.129.06   Driver Version: 470.129.06   CUDA Version: 11.4 |\n" + CUSPARSE)
    assert found.mentions["driver"] == "470.129.06"
    found = read(b"torch 2.3.1+cu118\n" + CUSPARSE)
    assert "cuda-11.8.0" in found.causes[0].command


# -- unknown and clean

FOREIGN = [
    b'Exception in thread "main" java.lang.NullPointerException: x\n\tat Foo.main(Foo.java:3)\n',
    b'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nValueError: bad\n',
    b"thread 'main' panicked at src/main.rs:2:5:\nindex out of bounds\nerror: process didn't exit successfully\n",
    b"E: The widget of foo is missing\nERROR: executor failed running\n",
    b"Fehler: gescheitert\nERROR: Abbruch\n",
    "エラー: 失敗しました\nERROR: 終了\n".encode(),
    b"Ambiguous value for argument.\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
    b"node1:21:21 [0] NCCL WARN Something that no row knows\n",
]


@collect("log", FOREIGN)
def test_what_no_row_knows_is_unknown_and_never_guessed(log: bytes) -> None:
    found = read(log)
    assert found.verdict == "unknown"
    assert not found.causes
    assert found.unexplained
    assert not found.fine


@collect(
    "log",
    [
        b"{'loss': 1.2, 'eval_error': 0.02}\nerror: 0.013\n0 errors, 3 warnings\nall done\n",
        b"step 1\rstep 2\rstep 3\n",
        b"val_error=0.1 best_error: 0.02\nNo exception was raised\n",
        b"nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.6\n",
        b"libcudart.so.12 => /env/lib/libcudart.so.12 (0x00007f)\nTrue\n",
        b"Successfully installed bitsandbytes-0.45.0 torch-2.5.1\n",
        b"torch.cuda.is_available(): True\n",
        b"n1:21:21 [3] NCCL INFO libnccl-net.so: cannot open shared object file: No such file or directory\n",
    ],
)
def test_a_log_in_which_nothing_fails_is_clean(log: bytes) -> None:
    found = read(log)
    assert (found.verdict, found.causes) == ("clean", ())
    assert found.fine


# -- logs that mean harm


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@given(st.binary(max_size=3000), st.integers(1, 700))
@examples(60)
def test_any_bytes_are_read_and_what_is_shown_is_printable(data: bytes, size: int) -> None:
    knowledge, guidance = tables()
    mixed = data + b"\x1b[31mCUDA out of memory\x1b[0m " + data + b"\nKeyError: " + data
    found = diagnose(pieces(mixed, size), guidance.symptoms, knowledge)
    assert found.size == len(mixed)
    for text in (*(cause.match.text for cause in found.causes), *(text for _, text in found.unexplained)):
        assert text.isprintable()


@given(st.lists(st.sampled_from([case.read_bytes() for case in CASES]), max_size=4), st.integers(1, 4000))
@examples(60)
def test_how_the_log_arrives_changes_nothing(logs: list[bytes], size: int) -> None:
    _, guidance = tables()
    data = b"".join(logs)
    assert scan(pieces(data, size), guidance.symptoms) == scan([data], guidance.symptoms)


def test_line_numbers_are_those_of_an_editor() -> None:
    found = read(b"one\r\ntwo\rtwo\n\x1b[31m\nCUDA error: out of memory")
    assert found.causes[0].match.line == 4
    assert found.lines == 4


@pytest.mark.slow
def test_an_endless_line_is_read_in_bounded_memory() -> None:
    _, guidance = tables()

    def endless() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * (LINE // 2)
        yield b"RuntimeError: CUDA out of mem"
        yield b"ory. Tried to allocate 2.00 GiB"

    scan(endless(), guidance.symptoms)  # the patterns are compiled now, and kept
    tracemalloc.start()
    found = scan(endless(), guidance.symptoms)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [item.symptom.id for item in found.matches] == ["cuda-out-of-memory"]
    assert found.matches[0].line == 1
    assert len(found.matches[0].text) < 400
    assert peak < 24 * LINE


@pytest.mark.slow
def test_a_long_line_of_marks_is_read_in_linear_time() -> None:
    """Four times the length takes about four times the time of this process, also where everything almost matches."""
    _, guidance = tables()
    unit = b" ".join(mark.encode() for row in guidance.symptoms if not row.beside for mark in row.marks) + b" "

    def seconds(size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        best = 9e9
        for _ in range(2):
            start = time.process_time()
            scan(pieces(text, 1 << 20), guidance.symptoms)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(1 << 19) < 9 * seconds(1 << 17) + 0.2


def test_credentials_and_escapes_of_a_log_are_not_shown() -> None:
    log = b"\x1b]0;title\x07CUDA error: out of memory at https://user:secret@host/t/tk-12345678901234/x \x07\x9b31m\n"
    shown = read(log).causes[0].match.text
    assert "secret" not in shown
    assert "tk-12345678901234" not in shown
    assert "\x1b" not in shown
    assert shown.isprintable()


@pytest.mark.slow
def test_a_hundred_megabytes_on_standard_input(tmp_path: Path) -> None:
    line = b"[rank1]: {'loss': 1.25, 'grad_norm': 0.5, 'epoch': 0.01}  12%|##   | 123/1000 [00:12<01:23, 1.2it/s]\n"
    words = [sys.executable, "-m", "cuenv", "diagnose", "-", "--host", "rtx4090-535", "--no-config"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdin
        assert process.stdout
        for _ in range(100):
            process.stdin.write(line * ((1 << 20) // len(line)))
        process.stdin.write(OOM)
        process.stdin.close()
        text = process.stdout.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 1
    assert "cuda-out-of-memory" in text
    assert usage.ru_maxrss < 400 * 1024  # kilobytes


# -- in Python


def test_the_public_function_takes_text_and_bytes() -> None:
    for log in (CUSPARSE, CUSPARSE.decode()):
        found = cuenv.diagnose(log, cuenv.read_host("a800-470"))
        assert found.causes[0].symptom.id == "cusparse-header"
    assert cuenv.diagnose("CUDA out of memory \udcff").causes[0].symptom.id == "cuda-out-of-memory"
    assert cuenv.diagnose("").verdict == "clean"


@collect(
    "line",
    [
        "critical libmamba Found incorrect downloads. Aborting",
        "error    libmamba Could not open lockfile",
        "2026-11-22T10:00:00Z critical libmamba Multiple errors occurred:",
    ],
)
def test_what_micromamba_calls_an_error_is_never_clean(line: str) -> None:
    found = read(f"Transaction starting\n{line}\n".encode())
    assert found.verdict == "known"
    assert line in found.causes[0].match.text


def test_what_micromamba_only_says_is_clean() -> None:
    assert (
        read(b"info     libmamba Searching index cache file\nwarning  libmamba no critical thing\n").verdict == "clean"
    )


DS_REPORT = """\
DeepSpeed general environment info:
torch version .................... 1.9.0
torch cuda version ............... 11.1
nvcc version ..................... {}
"""


def test_an_nvcc_that_cannot_build_for_the_torch_beside_it_is_reported_in_the_words_of_the_rule() -> None:
    found = read(DS_REPORT.format("10.1").encode())
    assert found.contradictions == ("nvcc 10.1 cannot build extensions for a torch of CUDA 11.1 (CU412)",)
    assert not read(DS_REPORT.format("11.5").encode()).contradictions


def test_a_torch_that_conda_may_have_brought_is_not_taken_away_with_pip() -> None:
    frame = b'  File "/home/u/%s/lib/python3.10/site-packages/torch/cuda/__init__.py", line 239, in _lazy_init\n'
    error = b"AssertionError: Torch not compiled with CUDA enabled\n"
    assert read(frame % b"anaconda3/envs/t" + error).causes[0].command.startswith("cuenv resolve")
    assert "pip uninstall -y torch" in read(frame % b"venv" + error).causes[0].command
    assert "pip" in read(frame % b"anaconda3/envs/t" + b"PyTorch version: 2.4.0+cpu\n" + error).causes[0].command
