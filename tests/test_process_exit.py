"""Entering and leaving the process: the exit code is right whatever happens, and nothing is a traceback but a bug."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cases import collect
from channel_builder import pkg, serve, write

CUENV = [sys.executable, "-m", "cuenv"]
STAND_IN = """
import sys, types
command = types.ModuleType("cuenv.cli.main")
sys.modules["cuenv.cli.main"] = command
{before}
def run(argv):
    {body}
command.run = run
from cuenv.__main__ import main
main()
"""
SOLVE = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from channel_builder import request, write, pkg
from cuenv.solve.io.solver import solve
solve(request("a"), write(Path({folder!r}), {{"conda-forge": [pkg("a")]}}))
"""


def stand_in(body: str, before: str = "", **options: object) -> subprocess.CompletedProcess[str]:
    """Leave through the real entry point, with a stand-in for the commands; standard input tells it nothing."""
    code = STAND_IN.format(body=body.replace("\n", "\n    "), before=before)
    options = {"capture_output": True, **options}
    return subprocess.run([sys.executable, "-c", code], text=True, check=False, **options)  # type: ignore[call-overload,no-any-return] # options vary


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 130])
def test_the_code_of_the_command_is_the_code_of_the_process(code: int) -> None:
    done = stand_in(f"print('product'); return {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "product\n", "")


@pytest.mark.parametrize("runs", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_the_code_is_right_after_rattler_in_every_run(runs: int, tmp_path: Path) -> None:
    """py-rattler kills some percent of interpreters that finalise: the slow suite makes 30 runs, and 200."""
    body = SOLVE.format(tests=str(Path(__file__).parent), folder=str(tmp_path)) + "return 3"
    assert [stand_in(body).returncode for _ in range(runs)] == [3] * runs


@pytest.mark.slow
@pytest.mark.parametrize("_", range(10))
def test_the_code_is_right_in_200_of_200_demos(_: int) -> None:
    done = [subprocess.run([*CUENV, "demo"], capture_output=True, check=False) for _ in range(20)]
    assert [(run.returncode, run.stderr) for run in done] == [(0, b"")] * 20


@pytest.mark.parametrize("options", [["--nonsense"], ["nonsense"], ["resolve", "--gpu", "GTX 99999"]])
def test_wrong_usage_ends_with_2(options: list[str]) -> None:
    done = subprocess.run([*CUENV, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_bug_shows_itself_without_credentials_and_control_characters() -> None:
    done = stand_in(r"raise ValueError('\x1b[31m https://user:secret@host/t/tk-1/x')")
    assert done.returncode == 4
    assert "Traceback (most recent call last):" in done.stderr
    assert "error: this is a bug in cuenv; please report it" in done.stderr
    assert "ValueError: \\x1b[31m https://host/x\n" in done.stderr


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("from cuenv.core.errors import InputError; raise InputError('no', hint='do')", 3, "error: no\nhint: do\n"),
        ("raise PermissionError(13, 'Permission denied', '/x')", 4, "error: /x: Permission denied\n"),
        ("raise SystemExit(2)", 2, ""),
        ("raise SystemExit", 0, ""),
        ("raise KeyboardInterrupt", 130, ""),
        ("raise BrokenPipeError(32, 'Broken pipe')", 0, ""),
        ("try:\n    raise BrokenPipeError\nexcept OSError:\n    sys.exit(1)", 0, ""),
    ],
)
def test_what_escapes_becomes_a_code(body: str, code: int, words: str) -> None:
    done = stand_in(body)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", words)


FINDER = """
import os, signal, time
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "cuenv.cli.main":
            {action}
del sys.modules["cuenv.cli.main"]
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize(
    "action",
    ["os.kill(os.getpid(), signal.SIGINT); time.sleep(5)", "raise ImportError('wrapped') from KeyboardInterrupt()"],
)
def test_ctrl_c_during_an_import_is_130_without_traceback(action: str) -> None:
    done = stand_in("return 0", before=FINDER.format(action=action))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


IN_A_CALLBACK = """
import os, signal, time, weakref
class Item: pass
item = Item()
there = weakref.ref(item, lambda _: (os.kill(os.getpid(), signal.SIGINT), time.sleep(0.2)))
del item
time.sleep(20)
"""


def test_ctrl_c_within_a_callback_of_the_interpreter_is_not_lost() -> None:
    done = stand_in(IN_A_CALLBACK)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.slow
def test_ctrl_c_while_a_channel_is_read_is_130_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("name: x\nchannels: [conda-forge]\ndependencies: [a]\n")
    write(tmp_path / "served", {"conda-forge": [pkg("a")]})
    with serve(tmp_path / "served") as server:
        command = [*CUENV, "lock", "--mirror", f"conda-forge={server.url}/conda-forge"]
        child = subprocess.Popen(
            command,
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "CUENV_CACHE_DIR": str(tmp_path / "cache")},
        )

        def interrupt(_: str) -> None:
            if child.poll() is None:
                os.kill(child.pid, signal.SIGINT)
                child.wait(timeout=20)

        server.answer = interrupt
        _, told = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "Traceback" not in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "environment.yml", "served"]


def test_a_full_disk_on_standard_output_is_4() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*CUENV, "kb"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 4
    assert "No space left on device" in done.stderr
    assert "standard output" in done.stderr
    assert "Traceback" not in done.stderr


@collect("streams", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
@collect("words", [("kb", "--json"), ("--version",)], ids=" ".join, one_in=2)
def test_a_closed_stream_is_no_traceback_and_the_code_is_right(streams: str, words: tuple[str, ...]) -> None:
    """What has a product fails when nobody can get it; nothing else is needed."""
    done = subprocess.run(
        ["sh", "-c", f'"$@" {streams}', "sh", *CUENV, *words], capture_output=True, text=True, check=False
    )
    lost = ">&-" in streams.split()
    assert done.returncode == (4 if lost else 0)
    said = "cannot write to standard output: it is closed"
    assert done.stderr.count(said) == (1 if lost and "2>&-" not in streams else 0)
    assert "Traceback" not in done.stderr
    assert (done.stdout == "") is lost


def test_a_command_without_a_product_needs_no_standard_output(tmp_path: Path) -> None:
    words = ("resolve", "--host", "rtx4090-535", "-o", "environment.yml")
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *CUENV, *words], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert (tmp_path / "environment.yml").stat().st_size > 100


def test_what_is_printed_to_a_closed_stream_does_not_land_in_a_file(tmp_path: Path) -> None:
    body = f"f = open({str(tmp_path / 'lock')!r}, 'w'); print('junk'); f.write('good'); f.close(); return 0"
    code = STAND_IN.format(body=body, before="")
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", sys.executable, "-c", code], check=False)
    assert done.returncode == 4
    assert (tmp_path / "lock").read_text() == "good"


def test_a_reader_that_goes_away_is_no_failure() -> None:
    body = "for _ in range(100000): print('a line of the product')\nreturn 0"
    code = STAND_IN.format(body=body.replace("\n", "\n    "), before="")
    script = '"$@" | head -1; echo "${PIPESTATUS[0]}"'
    done = subprocess.run(["bash", "-c", script, "bash", sys.executable, "-c", code], capture_output=True, check=False)
    assert done.stdout == b"a line of the product\n0\n"
    assert done.stderr == b""


def test_text_that_the_terminal_cannot_show_is_escaped() -> None:
    done = stand_in("print('größer'); return 0", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout) == (0, "gr\\xf6\\xdfer\n")
