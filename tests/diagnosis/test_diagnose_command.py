"""``cuenv diagnose`` and ``cuenv why CODE`` as they are typed."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

import cuenv
from cases import collect
from commands import HOST
from commands import inside as run
from commands import run as process
from cuenv.cli.main import COMMANDS
from cuenv.core.findings import CheckResult, Finding, report
from cuenv.core.versions import version
from cuenv.diagnosis.diagnose import diagnose_host
from cuenv.diagnosis.explain.code import code_page
from cuenv.host.select import HostOptions
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.rules import RULES
from cuenv.resolver.wheels import wheel_row
from failure_logs import CASES, LOGS, rows, tables
from given import base, candidate, machine, verdict

DRIVER = LOGS / "driver-insufficient/a800-470.log"
CUSPARSE = LOGS / "cusparse-header/fused-adam.log"


def test_a_log_is_explained_on_a_host(tmp_path: Path) -> None:
    done = run("diagnose", DRIVER, "--host", "a800-470", folder=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith("cause    the NVIDIA driver is too old for the CUDA major")
    assert "line 6: RuntimeError: CUDA error" in done.stdout
    assert "         cuenv resolve --host a800-470 --cuda 11.8 -o environment.yml\n" in done.stdout
    assert "codes    CU401, CU274: cuenv why CU401 names" in done.stdout


def test_the_command_that_it_gives_works(tmp_path: Path) -> None:
    """The cure for driver 470 is an environment that cuenv itself calls fit."""
    found = json.loads(run("diagnose", DRIVER, "--host", "a800-470", "--json", folder=tmp_path).stdout)
    words = found["causes"][0]["command"].split()
    assert words[0] == "cuenv"
    done = run(*words[1:], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "11.8" in (tmp_path / "environment.yml").read_text(encoding="utf-8")


def test_a_batch_job_without_input_uses_its_own_host(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "cuenv", "--no-config", "diagnose", *HOST]
    done = subprocess.run(words, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("rtx4090-535: ")


def test_standard_input_and_a_file_say_the_same(tmp_path: Path) -> None:
    text = CUSPARSE.read_text(encoding="utf-8")
    piped = run("diagnose", "-", *HOST, folder=tmp_path, text=text)
    named = run("diagnose", CUSPARSE, *HOST, folder=tmp_path)
    unsaid = run("diagnose", *HOST, folder=tmp_path, text=text)
    assert piped.stdout == named.stdout == unsaid.stdout
    assert piped.returncode == 1


def test_v_shows_the_lines_of_followers_and_the_sources(tmp_path: Path) -> None:
    brief = run("diagnose", CUSPARSE, *HOST, "-q", folder=tmp_path).stdout
    plain = run("diagnose", CUSPARSE, *HOST, folder=tmp_path).stdout
    full = run("diagnose", CUSPARSE, *HOST, "-v", folder=tmp_path).stdout
    assert len(brief.splitlines()) == 2
    assert "line 16: RuntimeError: Error building extension 'fused_adam'" in full
    assert "line 16:" not in plain
    assert "seen     deepspeedai/DeepSpeed#2684" in full


def test_json_has_all_of_it(tmp_path: Path) -> None:
    done = run("diagnose", CUSPARSE, *HOST, "--json", folder=tmp_path)
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert (found["schema"], found["verdict"], found["ok"]) == ("cuenv/diagnosis/1", "known", False)
    cause = found["causes"][0]
    assert (cause["symptom"], cause["line"], cause["layer"]) == ("cusparse-header", 4, "build")
    assert [item["symptom"] for item in cause["followers"]] == ["ninja-failed", "error-building-extension"]
    assert cause["sources"][0]["title"]


def test_an_unknown_log_says_so_and_what_to_send(tmp_path: Path) -> None:
    log = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: bad\n'
    done = run("diagnose", "-", *HOST, folder=tmp_path, text=log)
    assert done.returncode == 1
    assert done.stdout.startswith("unknown  3 lines: the log shows a failure that cuenv does not know")
    assert "line 3: ValueError: bad" in done.stdout
    assert "cuenv inspect --json > host.json" in done.stdout
    assert run("inspect", "--json", folder=tmp_path).returncode == 0


def test_a_clean_and_a_harmless_log_are_fine(tmp_path: Path) -> None:
    assert run("diagnose", "-", *HOST, folder=tmp_path, text="epoch 1 done\n").returncode == 0
    done = run("diagnose", LOGS / "min-max-capability-warning/gb10.log", *HOST, folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("harmless")


@collect(
    ("words", "text", "code", "says"),
    [
        (("diagnose", "nothing.log"), "", 3, "no such file"),
        (("diagnose", "."), "", 3, "it is a folder"),
        (("diagnose", "-"), "", 3, "standard input is empty"),
        (("diagnose", "-", "--host", "-"), "x", 2, "cannot both be standard input"),
        (("diagnose", "-", "--prefix", "nowhere"), "x", 3, "is not a folder"),
        (("diagnose", "-", "--gpu", "RTX 9999"), "x", 2, "unknown GPU name"),
        (("diagnose", "x\x1b[31m"), "", 3, "cannot read"),
        (("why", "CU999"), "", 2, "unknown code"),
        (("why", "CU20"), "", 2, "unknown code"),
    ],
)
def test_what_cannot_be_read_is_an_error(
    words: tuple[str, ...], text: str, code: int, says: str, tmp_path: Path
) -> None:
    done = run(*words, folder=tmp_path, text=text)
    assert done.returncode == code
    assert says in done.stderr
    assert "\x1b" not in done.stderr
    assert "Traceback" not in done.stderr
    shown = json.loads(run(*words, "--json", folder=tmp_path, text=text).stdout)
    assert shown["schema"] == "cuenv/error/1"


@collect(
    ("name", "data", "says"),
    [
        ("log", bytes(range(256)) * 500 + b"ERROR: boom\n", "is a binary file, not a log"),
        ("a.out", b"\x7fELF" + b"\x02\x01\x01" * 90, "is a program or library (ELF), not a log"),
        ("log.zip", b"PK\x03\x04 text", "is a zip archive, not a log"),
        ("log.gz", b"\x1f\x8b\x08broken", "cannot unpack log.gz"),
        ("log.zst", b"\x28\xb5\x2f\xfdbroken", "cannot unpack log.zst"),
    ],
)
def test_what_is_not_a_log_is_called_so(name: str, data: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    done = run("diagnose", name, *HOST, folder=tmp_path)
    assert done.returncode == 3
    assert says in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.slow
@collect("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_a_packed_log_is_read_like_its_text(suffix: str, tmp_path: Path) -> None:
    text = b"{'loss': 1.5}\n" * 60_000 + CUSPARSE.read_bytes()
    packs: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.compress,
        ".bz2": bz2.compress,
        ".xz": lzma.compress,
        ".zst": zstandard.compress,
    }
    pack = packs[suffix]
    (tmp_path / f"train.log{suffix}").write_bytes(pack(text[:40]) + pack(text[40:]))  # as a rotation appends
    found = json.loads(run("diagnose", f"train.log{suffix}", *HOST, "--json", folder=tmp_path).stdout)
    assert (found["bytes"], found["lines"]) == (len(text), text.count(b"\n"))
    assert found["causes"][0]["symptom"] == "cusparse-header"
    assert (found["causes"][0]["rank"], found["causes"][0]["leads"][:14]) == (1, "it is an error")


def test_a_reader_that_goes_away_causes_no_traceback(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = process("diagnose", CUSPARSE, *HOST, folder=tmp_path, stdout=write)
    os.close(write)
    assert "Traceback" not in done.stderr


def on_a_terminal(folder: Path, *words: str, **environ: str) -> tuple[int, str]:
    """Run ``cuenv diagnose`` with a terminal as its standard input."""
    leader, follower = pty.openpty()
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "cuenv", "diagnose", *words],
        stdin=follower,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=folder,
        env={**kept, "HOME": str(folder), "NO_COLOR": "1", **environ},
    )
    os.close(leader)
    os.close(follower)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def test_without_a_log_the_host_is_looked_at(tmp_path: Path) -> None:
    code, text = on_a_terminal(tmp_path, "--host", "rtx4090-535")
    assert code == 0
    assert "fine    driver: 535.129.03, which supports CUDA 12.2" in text
    code, text = on_a_terminal(tmp_path, "--host", "no-gpu", "--json")
    found = json.loads(text)
    assert (code, found["verdict"], found["ok"]) == (1, "fails", False)
    assert found["findings"][0]["code"] == "CU409"
    assert "no-driver" in found["findings"][0]["shows_as"]


def test_a_library_path_that_shadows_is_not_called_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment tells which library wins (CU232), which says more than that one could (CU312)."""
    host = json.loads(run("inspect", *HOST, "--json", folder=tmp_path).stdout)
    host["environment"]["library_path"] = [{"path": "/usr/local/cuda/lib64", "libraries": ["libcublas.so.12"]}]
    (tmp_path / "host.json").write_text(json.dumps(host))
    options = HostOptions(hosts=(str(tmp_path / "host.json"),), environ={})
    alone = diagnose_host(options, base())
    assert "CU312" in {item.code for item in alone.report.findings}
    wins = Finding(code="CU232", severity="warning", subject="libcublas.so.12", message="it wins")
    seen = CheckResult(report=report("env", [wins]), host="")
    (tmp_path / "env" / "conda-meta").mkdir(parents=True)
    monkeypatch.setattr("cuenv.prefix.check.run_check_request", lambda *_: (seen,))
    told = diagnose_host(options, base(), tmp_path / "env")
    assert {item.code for item in told.report.findings} & {"CU232", "CU312"} == {"CU232"}
    assert not [line for line in (*alone.fine, *told.fine) if line.startswith("LD_LIBRARY_PATH")]
    _, text = on_a_terminal(tmp_path, "-q", "--host", "host.json")
    assert "fine    " not in text
    assert "CU312" in text


@pytest.mark.slow
def test_without_a_log_the_active_environment_is_looked_at(tmp_path: Path) -> None:
    for name in ("gone", "."):  # one that was removed, and a folder that is not an environment
        _, text = on_a_terminal(tmp_path, CONDA_PREFIX=str(tmp_path / name))
        assert "no environment is active" in text
    (tmp_path / "env" / "conda-meta").mkdir(parents=True)
    _, text = on_a_terminal(tmp_path, CONDA_PREFIX=str(tmp_path / "env"))
    assert text.startswith(f"this machine: {tmp_path / 'env'}\n")
    code, text = on_a_terminal(tmp_path, "--prefix", str(tmp_path / "env"), "--json")
    assert code in (0, 1)
    assert json.loads(text)["fine"]


@pytest.mark.slow
def test_without_a_log_a_lock_in_the_folder_is_judged(tmp_path: Path) -> None:
    assert run("demo", "--dir", "made", folder=tmp_path).returncode == 0
    code, text = on_a_terminal(tmp_path / "made", *HOST)
    assert "conda-lock.yml" in text.splitlines()[0]
    assert code in (0, 1)


# -- codes and symptoms, linked both ways


def test_a_code_says_what_it_means_what_finds_it_and_what_it_prevents(tmp_path: Path) -> None:
    done = run("why", "cu203", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("CU203 (error")
    assert "): A package is installed that the lock does not contain" in done.stdout
    assert "\nfound by  cuenv check --prefix DIR\n" in done.stdout
    assert "torch-cpu-build" in done.stdout
    found = json.loads(run("why", "CU401", "--json", folder=tmp_path).stdout)
    assert (found["schema"], found["code"], found["rule"]) == ("cuenv/code/1", "CU401", "driver-floor")
    assert "driver-insufficient" in {item["symptom"] for item in found["symptoms"]}
    assert {item["id"] for item in found["errata"]} >= {"E35"}


def test_the_page_of_a_code_names_the_rule_that_declares_it() -> None:
    guidance = tables()[1]
    assert {rule.code for rule in RULES} <= {row.code for row in guidance.codes}
    judging = {rule.name: rule.code for rule in RULES if rule.locked}
    assert len(set(judging.values())) == len(judging)  # of a lock, a code names one rule
    pages = [code_page(row.code, guidance) for row in guidance.codes]
    assert {page.rule: page.code for page in pages if page.rule} == judging


DEVICES = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!\n"
)


def test_tensors_on_two_devices_in_the_users_own_code_name_what_finds_them(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(DEVICES, encoding="utf-8")
    done = run("diagnose", "log", *HOST, folder=tmp_path)
    assert "cuenv.runtime import check_same_device" in done.stdout
    assert "deepspeed" not in done.stdout.partition("remedy")[2].lower()
    assert "python -m" not in done.stdout
    (tmp_path / "log").write_text(f"deepspeed info: version=0.14.1\n{DEVICES}", encoding="utf-8")
    assert "python -m pip install 'deepspeed>=0.14.3'" in run("diagnose", "log", *HOST, folder=tmp_path).stdout


def test_an_environment_file_that_lies_here_is_repaired_and_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR\n", encoding="utf-8")
    assert (
        "cuenv resolve --host rtx4090-535 -o environment.yml" in run("diagnose", "log", *HOST, folder=tmp_path).stdout
    )
    recipe = (
        "channels: [pytorch, nvidia, conda-forge]\n"
        "dependencies: [pytorch=2.3.1, cuda-toolkit=11.8, cudatoolkit-dev=11.8, deepspeed]\n"
    )
    (tmp_path / "environment.yml").write_text(recipe, encoding="utf-8")
    told = run("diagnose", "log", *HOST, folder=tmp_path).stdout
    assert "cuenv lock --repair --host rtx4090-535 -o environment.new.yml" in told
    assert "-o environment.yml" not in told
    (tmp_path / "log").write_text("RuntimeError: CUDA error: no kernel image is available\n", encoding="utf-8")
    assert (
        "-o environment.yml" not in run("diagnose", "log", "--gpu", "P100", "--driver", "535", folder=tmp_path).stdout
    )
    linted = run("lint", folder=tmp_path).stdout
    assert "CHANNEL::PACKAGE=RELEASE" in linted  # there, a repair has nothing to do for a warning
    (tmp_path / "environment.yml").write_text(f"# Written by cuenv 0.1.0\n{recipe}", encoding="utf-8")
    linted = run("lint", folder=tmp_path).stdout
    assert "fix: cuenv lock --repair -o environment.new.yml" in linted
    (tmp_path / "environment.yml").rename(tmp_path / "my env.yml")
    linted = run("lint", "my env.yml", folder=tmp_path).stdout
    assert "fix: cuenv lock 'my env.yml' --repair -o 'my env.new.yml'" in linted
    assert "fix: cuenv lock 'my env.yml' --repair -o" in run("lock", "my env.yml", *HOST, folder=tmp_path).stderr


def test_every_code_of_a_symptom_exists_and_the_commands_that_find_it_do() -> None:
    codes = {row.code: row for row in tables()[1].codes}
    for row in rows().values():
        assert set(row.codes) <= set(codes), row.id
    for found in codes.values():
        for text in found.by:
            assert text.split()[0] == "cuenv"
            assert text.split()[1] in COMMANDS


LOOKS = re.compile(
    r"(?:sudo )?(?:nvidia-smi|lspci|grep|find|ldconfig -p|df|dmesg|sinfo|ds_report|python -m pip (?:check|show|index)|"
    r"cuenv (?:check|lint|kb|why|inspect)|export (?:CUDA_LAUNCH_BLOCKING|NCCL_DEBUG|TORCH_DISTRIBUTED_DEBUG))\b"
)
"""Commands that only look: what they are for stands in the sentence."""


def test_the_commands_of_symptoms_are_commands(tmp_path: Path) -> None:
    """What follows ``cuenv`` in a cure is a command with these options."""
    words = {row.command.split()[1] for row in rows().values() if row.command.startswith("cuenv ")}
    for word in words:
        assert run(word, "--help", folder=tmp_path).returncode == 0, word
    for row in rows().values():
        assert re.fullmatch(r"[ -~]*", row.command), row.id
        assert row.kind == "cause" or row.proof or not row.command, row.id
        assert not LOOKS.match(row.command), row.id
    assert len(CASES) > len(rows())


@collect("driver", ["470.57.02", "525", "525.60.13", "570", None])
@collect("level", ["11.4", "12.0", "12.9"])
def test_a_driver_is_judged_as_resolve_judges_it(driver: str | None, level: str) -> None:
    """Also one that names only its branch, and one of which only the CUDA version is known."""
    log = "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version\ntorch==2.9.1+cu129\n"
    facts = machine("8.0", driver=driver, level=level)
    (cause,) = cuenv.diagnose(log, facts).causes
    found = verdict("driver-floor", candidate("2.13.0", "cuda129*"), facts)
    assert cause.because[1:] == (() if found.outcome == "pass" else (f"{found.because} (CU401)",))
    assert ("install torch for CUDA 11" in cause.remedy) == (found.outcome == "reject")


@collect(("sm", "outcome"), [("12.0", "reject"), ("8.6", "pass"), ("3.7", "reject")])
def test_the_device_code_of_a_wheel_is_judged_as_resolve_judges_it(sm: str, outcome: str) -> None:
    log = "RuntimeError: CUDA error: no kernel image is available for execution on the device\ntorch==2.7.1+cu126\n"
    facts = machine(sm, driver="570.26")
    (cause,) = cuenv.diagnose(log, facts).causes
    row = wheel_row(version("2.7.1+cu126"), "", None, "linux-64", base())
    found = verdict("device-code", Candidate(build=row, cuda=row.cuda, python="3.12"), facts)
    assert found.outcome == outcome
    said = found.because + ("" if outcome == "pass" else " (CU403)")
    assert cause.because == (f"torch 2.7.1 for CUDA 12.6: {said}",)
