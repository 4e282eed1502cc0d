"""A command that was forked does what one that was started does: else the tests would be about something else."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import forking
from cases import collect
from commands import HOST, forks, in_shell, run

LOG = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"


@pytest.mark.slow
@collect(
    ("words", "text"),
    [
        (("schema", "decision"), ""),
        (("resolve", "--bogus"), ""),
        (("profile", "list", "--json"), ""),
        (("lock", "nowhere.yml"), ""),
        (("diagnose", "-", *HOST), LOG),
        (("explain", "gpu", "Zürich 東京 \udce9"), ""),
        (("inspect", "--json", "--redact"), ""),
        (("config",), ""),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
    one_in=2,
)
def test_it_prints_and_leaves_as_a_process_that_was_started(tmp_path: Path, words: tuple[str, ...], text: str) -> None:
    forked = run(*words, folder=tmp_path, text=text, CUENV_HOST="")
    started = run(*words, folder=tmp_path, text=text, CUENV_HOST="", python=("-I",))
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)
    assert forked.stdout or forked.stderr


def test_one_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    before = run("config", "--json", folder=tmp_path).stdout
    assert run("config", "--json", folder=tmp_path, CUENV_GPU="8.9").stdout != before
    assert run("config", "--json", folder=tmp_path).stdout == before
    assert not list(tmp_path.iterdir())


def test_a_shell_gets_its_words_streams_and_code(tmp_path: Path) -> None:
    script = f'{in_shell()} resolve --gpu "no card" > out; echo $?; {in_shell()} --version | tr a-z A-Z'
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("2\nCUENV")
    assert "no card" in done.stderr
    assert (tmp_path / "out").read_text() == ""


def test_ctrl_c_ends_it_with_its_own_code(tmp_path: Path) -> None:
    """What reads a pipe that nobody writes to waits; the signal is that of a terminal."""
    reading, writing = os.pipe()
    with (tmp_path / "out").open("w+") as out:
        streams = (reading, out.fileno(), out.fileno())
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        with forking.ask(forks(), ["diagnose", "-", *HOST], str(tmp_path), environ, streams) as connection:
            process = forking.answer(connection)
            wait_until_it_waits(process)
            os.kill(process, signal.SIGINT)
            assert forking.answer(connection) == 130
    os.close(reading)
    os.close(writing)


def wait_until_it_waits(process: int) -> None:
    quiet = 0
    while quiet < 5:
        time.sleep(0.05)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        quiet = quiet + 1 if state == "S" else 0
