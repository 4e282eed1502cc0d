"""An environment is run: real processes of this Python, over a stand-in of torch, as wrong as a test wants it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from cases import collect
from commands import run
from cuenv.core.findings import Check
from cuenv.prefix.check import run_probes
from cuenv.prefix.io.prefix import find_prefix
from cuenv.prefix.io.probe import probe_setup, run_probe
from cuenv.prefix.probes import MARK, PROBES, ProbeContext, probe_check
from torch_standin import H100, NCCL, V100, make_venv, torch_like

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


def probe(
    prefix: Path, name: str, *, gpus: int = 0, timeout: float = 20, environ: Mapping[str, str] | None = None
) -> Check:
    """The check that one probe makes of an environment."""
    found = find_prefix(prefix)
    with probe_setup(found, {**ENVIRON, **(environ or {})}) as place:
        around = ProbeContext(prefix=found.path, python=place.python, gpus=gpus, environ=place.given)
        return probe_check(next(item for item in PROBES if item.name == name), run_probe(name, place, timeout), around)


def code(check: Check) -> str:
    (finding,) = check.findings
    return f"{finding.severity} {finding.code}"


def test_a_torch_that_imports_says_which_it_is(tmp_path: Path) -> None:
    check = probe(make_venv(tmp_path / "env", torch=torch_like(cuda="12.6")), "torch")
    assert check.status == "ok"
    assert check.says.startswith("torch 2.7.1+standin CUDA 12.6, Python 3.")


@collect(
    ("body", "expected", "said", "seen"),
    [
        ("raise ImportError('libcudart.so.12: cannot open')", "CU270", "ImportError: libcudart.so.12", "__init__.py"),
        ("import nowhere", "CU270", "ModuleNotFoundError: No module named 'nowhere'", "__init__.py"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "CU271", "killed by SIGSEGV", "Segmentation fault"),
        ("os.abort()", "CU271", "killed by SIGABRT", "Aborted"),
        ("sys.stderr.write('last words\\n'); sys.exit(3)", "CU273", "exit status 3", "last words"),
        ("os._exit(0)", "CU273", "exited without a readable result", ""),
        (f"os.write(1, b'{MARK}[[[\\n'); os._exit(0)", "CU273", "exited without a readable result", ""),
        ("while True: os.write(1, b'x' * 65536)", "CU273", "wrote more than 1048576 bytes", ""),
    ],
)
def test_what_a_child_may_do_is_a_finding(tmp_path: Path, body: str, expected: str, said: str, seen: str) -> None:
    check = probe(make_venv(tmp_path / "env", torch=torch_like(body)), "torch")
    assert check.status == "fail"
    assert code(check) == f"error {expected}"
    assert said in check.findings[0].message
    assert seen in "\n".join(check.findings[0].evidence)


@pytest.mark.slow
def test_a_child_that_hangs_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = f"""
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(note)!r}, "w").write(str(child.pid))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""
    check = probe(make_venv(tmp_path / "env", torch=torch_like(body)), "torch", timeout=2)
    assert code(check) == "error CU272"
    assert "no answer within 2 s" in check.findings[0].message
    assert "torch/__init__.py" in "\n".join(check.findings[0].evidence), "where it hangs"
    assert f"--prefix {tmp_path}/env" in (check.findings[0].fix or "")
    for _ in range(100):
        if not _runs(int(note.read_text())):
            return
        time.sleep(0.02)
    pytest.fail("the child of the child still runs")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_noise_does_not_hide_the_answer(tmp_path: Path) -> None:
    body = "print('no line end', end=''); sys.stdout.write(chr(27) + '[2J'); sys.stdout = None"
    assert probe(make_venv(tmp_path / "env", torch=torch_like(body)), "torch").status == "ok"


def test_a_child_that_answers_and_then_dies_is_a_warning(tmp_path: Path) -> None:
    body = "import atexit; atexit.register(lambda: os.kill(os.getpid(), signal.SIGSEGV))"
    check = probe(make_venv(tmp_path / "env", torch=torch_like(body)), "torch")
    assert code(check) == "warning CU283"
    assert "killed by SIGSEGV" in check.findings[0].message


def test_control_characters_of_a_child_are_escaped(tmp_path: Path) -> None:
    body = "sys.stderr.write(chr(27) + '[2J gone'); raise RuntimeError(chr(27) + ']0;title' + chr(7))"
    (finding,) = probe(make_venv(tmp_path / "env", torch=torch_like(body)), "torch").findings
    assert all(text.isprintable() for text in (finding.message, *finding.evidence))
    assert "\\x1b]0;title" in finding.message


def test_a_torch_from_elsewhere_is_a_warning(tmp_path: Path) -> None:
    prefix = make_venv(tmp_path / "env")
    other = make_venv(tmp_path / "other", torch=torch_like())
    site = next((other / "lib").iterdir()) / "site-packages"
    check = probe(prefix, "torch", environ={"PYTHONPATH": str(site)})
    assert code(check) == "warning CU282"
    assert check.findings[0].fix == "unset PYTHONPATH"
    assert f"PYTHONPATH={site}" in "".join(check.findings[0].evidence)


def test_variables_that_do_not_count_do_not_reach_a_child(tmp_path: Path) -> None:
    told = "raise RuntimeError(' '.join(sorted(n for n in os.environ if n in ('SECRET', 'NCCL_DEBUG', 'VIRTUAL_ENV'))))"
    prefix = make_venv(tmp_path / "env", torch=torch_like(told))
    check = probe(prefix, "torch", environ={"SECRET": "x", "NCCL_DEBUG": "INFO"})
    assert check.findings[0].message.endswith("RuntimeError: NCCL_DEBUG VIRTUAL_ENV")
    assert check.findings[0].evidence[-1] == "with NCCL_DEBUG=INFO"


def test_an_environment_of_conda_is_run_as_activated(tmp_path: Path) -> None:
    told = "raise RuntimeError(' '.join(os.environ[n] for n in ('CONDA_PREFIX', 'FROM_SCRIPT', 'KEPT')))"
    prefix = make_venv(tmp_path / "my env", torch=torch_like(told))
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta" / "state").write_text(
        json.dumps({"env_vars": {"KEPT": "by conda", "bad=name": "x", "n": 1}})
    )
    scripts = prefix / "etc" / "conda" / "activate.d"
    scripts.mkdir(parents=True)
    (scripts / "a.sh").write_text('echo noise; export FROM_SCRIPT="$CONDA_PREFIX/x"\n')
    check = probe(prefix, "torch")
    assert check.findings[0].message.endswith(f"{prefix} {prefix}/x by conda")


def test_an_interpreter_that_leads_nowhere_is_a_finding(tmp_path: Path) -> None:
    prefix = make_venv(tmp_path / "env", torch=torch_like())
    (prefix / "bin" / "python").unlink()
    (prefix / "bin" / "python").symlink_to("/nonexistent/python3")
    check = probe(prefix, "torch")
    assert code(check) == "error CU273"
    assert "cannot be started" in check.findings[0].message


def test_a_host_with_gpus_that_torch_does_not_see(tmp_path: Path) -> None:
    prefix = make_venv(tmp_path / "env", torch=torch_like(cuda="12.6"))
    check = probe(prefix, "cuda", gpus=2)
    assert code(check) == "error CU274"
    assert check.findings[0].message == (
        "torch detects no GPU of the 2 GPUs of this host: Found no NVIDIA driver on your system."
    )
    assert probe(prefix, "cuda").status == "skip"
    hidden = probe(prefix, "cuda", gpus=2, environ={"CUDA_VISIBLE_DEVICES": ""})
    assert code(hidden) == "warning CU274"
    assert hidden.findings[0].fix == "unset CUDA_VISIBLE_DEVICES"
    wrong = probe(prefix, "cuda", gpus=2, environ={"CUDA_VISIBLE_DEVICES": "7"})
    assert code(wrong) == "error CU274"
    assert wrong.findings[0].fix == "unset CUDA_VISIBLE_DEVICES"


def test_a_build_without_cuda_says_so(tmp_path: Path) -> None:
    check = probe(make_venv(tmp_path / "env", torch=torch_like()), "cuda", gpus=1)
    assert code(check) == "error CU274"
    assert "it is a build without CUDA" in check.findings[0].message


def test_gpus_are_told_with_their_memory(tmp_path: Path) -> None:
    prefix = make_venv(tmp_path / "env", torch=torch_like(cuda="12.6", gpus=(H100, V100)))
    assert probe(prefix, "cuda", gpus=2).says.startswith(
        "cuda:0 NVIDIA H100 (9.0), 70.0 of 80.0 GiB free; cuda:1 Tesla V100 (7.0), 30.0 of 80.0 GiB free"
    )
    assert code(probe(prefix, "cuda", gpus=3)) == "warning CU274"


def test_products_are_compared_with_the_cpu(tmp_path: Path) -> None:
    gpus = (H100, V100, ("busy", 8, 0, 1024))
    check = probe(make_venv(tmp_path / "env", torch=torch_like(cuda="12.6", gpus=gpus)), "matmul")
    assert check.status == "ok"
    assert check.says.startswith(
        "cpu (float32); cuda:0 (float32, bfloat16, float16); cuda:1 (float32, float16); "
        "cuda:2 has less than 512 MiB free"
    )


@pytest.mark.parametrize(
    ("error", "failing"),
    [({"cpu": 0.1}, ["float32 on cpu"]), ({"cuda:0": 5e-4}, ["float32 on cuda:0"]), ({"cuda:0": float("nan")}, None)],
)
def test_a_wrong_product_is_found(tmp_path: Path, error: dict[str, float], failing: list[str] | None) -> None:
    text = torch_like(cuda="12.6", gpus=(H100,), error=error).replace("nan}", "float('nan')}")
    check = probe(make_venv(tmp_path / "env", torch=text), "matmul")
    found = [item.message.partition("(")[2].partition(")")[0] for item in check.findings]
    assert {item.code for item in check.findings} == {"CU275"}
    assert found == (failing or [f"{name} on cuda:0" for name in ("float32", "bfloat16", "float16")])


def test_nccl_adds_over_all_gpus(tmp_path: Path) -> None:
    check = probe(make_venv(tmp_path / "env", torch=torch_like(NCCL, cuda="12.6", gpus=(H100, H100, H100))), "nccl")
    assert check.status == "ok", check.findings
    assert check.says.startswith("NCCL 2.27.3 over 3 GPUs")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("EXTRA = 1", "the sum is 4.0, not 3.0"),
        ("\nif sys.argv[1:2] == ['1']: sys.exit('ncclSystemError: no socket interface')", "ncclSystemError"),
    ],
)
def test_a_rank_that_fails_is_named_and_ends_the_others(tmp_path: Path, more: str, said: str) -> None:
    text = torch_like(NCCL + more, cuda="12.6", gpus=(H100, H100))
    check = probe(make_venv(tmp_path / "env", torch=text), "nccl")
    assert {item.code for item in check.findings} == {"CU276"}
    assert said in check.findings[0].message


def test_a_library_that_is_there_and_does_not_import_is_found_without_a_gpu(tmp_path: Path) -> None:
    broken = "raise ImportError('flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi')"
    prefix = make_venv(tmp_path / "env", torch=torch_like(cuda="12.6"), flash_attn=broken)
    check = probe(prefix, "flash_attn")
    assert code(check) == "error CU280"
    assert "undefined symbol: _ZN3c104cuda9SetDeviceEi" in check.findings[0].message
    assert probe(prefix, "bitsandbytes").says == "bitsandbytes is not installed"


def test_a_compiler_that_fails_is_quoted(tmp_path: Path) -> None:
    prefix = make_venv(tmp_path / "env", torch=torch_like())
    site = next((prefix / "lib").iterdir()) / "site-packages" / "torch" / "utils"
    site.mkdir()
    (site / "__init__.py").touch()
    (site / "cpp_extension.py").write_text(
        "verify_ninja_availability = lambda: None\n"
        "def load_inline(*args, **kwargs):\n"
        "    raise RuntimeError('Error\\n[1/2] nvcc\\nx.h:3:10: fatal error: cusparse.h: No such file\\nstop')\n"
    )
    check = probe(prefix, "extension", environ={"CXX": "true"})
    assert code(check) == "error CU277"
    assert check.findings[0].message.endswith("x.h:3:10: fatal error: cusparse.h: No such file")
    assert probe(prefix, "extension", environ={"CXX": "no-such-compiler"}).status == "skip"


def test_without_torch_the_rest_is_left_out(tmp_path: Path) -> None:
    checks = tuple(run_probes(find_prefix(make_venv(tmp_path / "env")), 0, ENVIRON, timeout=20))
    assert [check.name for check in checks] == [f"run:{item.name}" for item in PROBES]
    assert {check.status for check in checks} == {"skip"}
    assert checks[0].says == "torch is not installed"
    assert checks[1].says == "torch is not installed"


def test_a_driver_that_kills_is_asked_once(tmp_path: Path) -> None:
    body = "\ncuda.is_available = lambda: os.kill(os.getpid(), signal.SIGSEGV)"
    checks = tuple(run_probes(find_prefix(make_venv(tmp_path / "env", torch=torch_like(body))), 1, ENVIRON, timeout=20))
    assert [check.status for check in checks] == ["ok", "fail", *["skip"] * (len(PROBES) - 2)]


def test_the_command_runs_what_is_there_and_says_what_is_not(tmp_path: Path) -> None:
    prefix = make_venv(tmp_path / "env", torch=torch_like())
    done = run("check", "--prefix", prefix, "--run", "--json", folder=tmp_path, CXX="no-such-compiler")
    assert done.returncode == 0, done.stdout + done.stderr
    told = {item["name"]: item for item in json.loads(done.stdout)["checks"]}
    assert told["run:torch"]["status"] == told["run:matmul"]["status"] == "ok"
    assert told["run:nccl"] == {"name": "run:nccl", "status": "skip", "says": "no GPU", "codes": []}
    assert not list(prefix.rglob("*.pyc"))
    broken = make_venv(tmp_path / "broken", torch=torch_like("os.abort()"))
    done = run("check", "--prefix", broken, "--run", "--timeout", "20", folder=tmp_path)
    assert done.returncode == 1
    assert "error CU271 run:torch crashed: killed by SIGABRT" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--timeout", "5"), "--timeout is what --run gives"),
        (("--run", "--timeout", "0"), "0 is not in the range"),
        (("--run", "--timeout", "nan"), "not a valid integer"),
        (("conda-lock.yml", "--run"), "--run needs an environment"),
    ],
)
def test_wrong_options_are_usage(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = run("check", *words, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_ctrl_c_leaves_nothing_running(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = f"open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    prefix = make_venv(tmp_path / "env", torch=torch_like(body))
    environ = {**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "cuenv", "check", "--prefix", prefix, "--run"],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        for _ in range(500):
            if note.exists() and note.read_text():
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    assert not _runs(int(note.read_text()))
    assert not list(tmp_path.glob("cuenv-run-*"))
