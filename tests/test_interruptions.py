"""Locking that is stopped, doubled or out of room: the files of one run, whole, or those that were there before."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cases import collect, quick
from channel_builder import pkg, write
from commands import HOST, Begun, run
from cuenv.core.errors import ExitCode, OutsideError
from cuenv.core.io import writing
from cuenv.core.io.writing import NAME, defer_signals, only_writer, write_together
from cuenv.lockfile.companions import companion_findings
from cuenv.lockfile.files import read_lock

CHANNEL = "conda-forge"
NAMES = ("conda-linux-64.lock", "conda-linux-64.lock.yml", "conda-lock.yml")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that is locked for ``one``, with a channel beside it."""
    write(tmp_path / "channel", {CHANNEL: [pkg("one"), pkg("two")]})
    folder = tmp_path / "project"
    folder.mkdir()
    ask(folder, "one")
    done = run("lock", *words(folder), folder=folder)
    assert done.returncode == 0, done.stderr
    return folder


def ask(folder: Path, name: str, file: str = "environment.yml") -> None:
    (folder / file).write_text(f"channels: [{CHANNEL}]\ndependencies: [{name}]\n")


def words(folder: Path) -> tuple[str, ...]:
    return (*HOST, "--mirror", f"{CHANNEL}={folder.parent / 'channel' / CHANNEL}")


def products(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in NAMES if (folder / name).exists()}


def started(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "cuenv", "lock", *more, *words(folder)]
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def forked(folder: Path, *more: str) -> Begun:
    """The same without the start of an interpreter: what is stopped is at work."""
    return Begun(["lock", *more, *words(folder)], folder, {"PATH": os.environ["PATH"], "HOME": str(folder)})


def whole(folder: Path) -> bool:
    """Whether the products are those of one run, by what `cuenv check` compares."""
    lock = folder / "conda-lock.yml"
    return not list(companion_findings(read_lock(lock), lock))


Start = Callable[[Path], "subprocess.Popen[bytes] | Begun"]


def interrupted(project: Path, runs: int, number: signal.Signals, seed: int, start: Start) -> set[int | None]:
    """Stop so many runs at random moments, and look after each; the exit codes."""
    chance = random.Random(seed)
    ask(project, "two")
    old = products(project)
    began = time.monotonic()
    with start(project) as process:
        assert process.wait(60) == 0
    length = time.monotonic() - began
    new = products(project)
    assert new.keys() == old.keys()
    codes: set[int | None] = set()
    for _ in range(runs):
        for name, data in old.items():
            (project / name).write_bytes(data)
        with start(project) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, 1.1 * length))
            process.send_signal(number)
            stderr = process.communicate()[1]
        if b"Fatal Python error: " in stderr or b"Traceback" in stderr:  # Python alone, at its own start
            assert b"__main__.py" not in stderr, stderr
        else:
            assert process.returncode != 1, stderr
            codes.add(process.returncode)
        there = products(project)
        mixed = {name for name in NAMES if there[name] not in (old[name], new[name])}
        assert not mixed
        if number != signal.SIGKILL:
            assert there in (old, new)
        assert there in (old, new) or not whole(project)  # killed between two names: cuenv check says it
    with start(project) as process:  # with the same tables: those of a test are of another day
        assert process.wait(60) == 0
    assert products(project) == new
    assert not [path.name for path in project.iterdir() if path.name.startswith(".cuenv")]
    return codes


@pytest.mark.slow
@pytest.mark.parametrize("number", quick([signal.SIGINT, signal.SIGKILL, signal.SIGTERM], first=2))
def test_a_lock_that_is_stopped_leaves_the_old_files_or_the_new(project: Path, number: signal.Signals) -> None:
    interrupted(project, 7, number, 1, forked)


@pytest.mark.slow
@collect(
    ("number", "code"),
    [
        (signal.SIGINT, ExitCode.INTERRUPTED),
        (signal.SIGTERM, ExitCode.TERMINATED),
        (signal.SIGHUP, ExitCode.TERMINATED),
    ],
    one_in=2,
)
@collect("command", [("diagnose", "-"), ("check", "-"), ("install", "env.yml", "--prefix", "env")])
def test_every_command_ends_alike_when_it_is_stopped(
    tmp_path: Path, command: tuple[str, ...], number: signal.Signals, code: int
) -> None:
    from faulty_server import Answer, faulty

    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored here, as nohup has it, and so by every process that is started")
    with faulty(tmp_path) as server:
        server.fault = lambda *_: Answer(wait=60)
        if command[0] == "install":
            (tmp_path / "env.yml").write_text(f"@EXPLICIT\n{server.url}/c/linux-64/a-1-0.conda#{'0' * 64}\n")
        more = HOST if command[0] == "check" else ()
        line = [sys.executable, "-m", "cuenv", *command, *more]
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        process = subprocess.Popen(
            line, cwd=tmp_path, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with process:
            begun = time.monotonic()
            while not _handles(process.pid) and time.monotonic() - begun < 20:
                time.sleep(0.02)
            time.sleep(0.2)
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
    assert process.returncode == code, (out, err)
    assert b"Traceback" not in err, err
    assert not [path for path in tmp_path.iterdir() if path.name not in {"env.yml", ".cache"}]


def _handles(process: int) -> bool:
    """Whether a process has come so far that it handles SIGTERM."""
    status = Path(f"/proc/{process}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_67_locks_that_are_stopped_at_random_moments(project: Path, number: signal.Signals) -> None:
    codes = interrupted(project, 67, number, 2, started)
    expected = {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, 0)
    assert codes <= {0, expected, -number}  # -number: Python had not come to us yet


def test_a_writer_that_is_killed_between_two_names_is_noticed_and_healed(project: Path) -> None:
    old = products(project)
    ask(project, "two")
    assert run("lock", *words(project), folder=project).returncode == 0
    (project / "conda-lock.yml").write_bytes(old["conda-lock.yml"])  # the last name was not taken
    (project / ".cuenv-0123456789abcdef.tmp").write_bytes(b"half")
    (project / NAME).touch()
    ask(project, "one")
    for command in (("check",), ("lock", "--check")):
        done = run(*command, *HOST, folder=project)
        assert done.returncode == ExitCode.NEGATIVE
        assert "CU108" in done.stdout
        assert "conda-linux-64.lock differs from conda-lock.yml: " in done.stdout
    assert run("lock", *words(project), folder=project).returncode == 0
    assert products(project) == old
    assert (
        sorted(path.name for path in project.iterdir() if path.name[0] == ".")
        == [".cache"] * (project / ".cache").exists()
    )
    assert run("lock", "--check", *HOST, folder=project).returncode == 0


def test_two_locks_at_once_leave_the_files_of_one(project: Path) -> None:
    ask(project, "two", "two.yml")
    for _ in range(2):
        with forked(project) as one, forked(project, "two.yml") as other:
            assert [one.wait(60), other.wait(60)] == [0, 0], (one.communicate(), other.communicate())
        assert whole(project)
        assert not [path.name for path in project.iterdir() if path.name.startswith(".cuenv")]


def test_writers_take_turns(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b", "c", "d")]
    failed: list[BaseException] = []

    def writer(text: str) -> None:
        try:
            for _ in range(25):
                write_together([(path, text) for path in files])
        except BaseException as error:  # noqa: BLE001 - the test tells it
            failed.append(error)

    threads = [threading.Thread(target=writer, args=(text,)) for text in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len({path.read_text() for path in files}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "d"]


def test_a_writer_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PATIENCE", 0.05)
    with only_writer([tmp_path]):
        with pytest.raises(OutsideError, match="another process has been writing there"):
            write_together([(tmp_path / "a", "text")])
        assert not (tmp_path / "a").exists()
    write_together([(tmp_path / "a", "text")])
    assert (tmp_path / "a").read_text() == "text"


def test_a_link_in_place_of_the_writers_mark_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / NAME).symlink_to(tmp_path / "elsewhere")
    write_together([(tmp_path / "folder" / "a", "text")])
    assert (tmp_path / "folder" / "a").read_text() == "text"
    assert not (tmp_path / "elsewhere").exists()


def test_ctrl_c_waits_for_the_end_of_a_short_block() -> None:
    steps = []

    def block() -> None:
        with defer_signals():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            steps.append("the end")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert steps == ["the end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@contextmanager
def full_disk(size: str = "200k") -> Iterator[Path]:
    """A file system so small that it is full; only root may make one."""
    mount = shutil.which("mount")
    with tempfile.TemporaryDirectory() as name:
        command = [mount or "mount", "-t", "tmpfs", "-o", f"size={size}", "none", name]
        if not mount or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("a file system cannot be mounted here")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "-l", name], check=True)


def test_a_full_disk_leaves_the_old_files(project: Path) -> None:
    with full_disk() as disk:
        for name in NAMES:
            shutil.copy(project / name, disk / name)
        ask(disk, "two")
        old = products(disk)
        fill(disk / "filler")
        done = run("lock", *words(project), folder=disk, XDG_CACHE_HOME=str(project), TMPDIR=str(project))
        assert done.returncode == ExitCode.OUTSIDE, done.stderr
        assert "error: cannot write conda-linux-64.lock: the disk is full" in done.stderr
        assert products(disk) == old
        assert sorted(path.name for path in disk.iterdir()) == sorted([*NAMES, "environment.yml", "filler"])


def fill(path: Path) -> None:
    with suppress(OSError), path.open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))


def test_a_limit_on_the_size_of_files_leaves_the_old_files(project: Path) -> None:
    old = products(project)
    ask(project, "two")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    command = [sys.executable, "-B", "-m", "cuenv", "lock", *words(project)]
    environ = {"PATH": os.environ["PATH"], "HOME": str(project)}
    done = subprocess.run(
        command, cwd=project, env=environ, capture_output=True, text=True, preexec_fn=limit, check=False
    )
    assert done.returncode == ExitCode.OUTSIDE
    assert "error: cannot write " in done.stderr
    assert products(project) == old
    assert not list(project.glob(".cuenv*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only_is_said(project: Path) -> None:
    old = products(project)
    ask(project, "two")
    project.chmod(0o555)
    try:
        done = run("lock", *words(project), folder=project, XDG_CACHE_HOME=str(project.parent))
    finally:
        project.chmod(0o755)
    assert done.returncode == ExitCode.OUTSIDE, done.stderr
    assert "error: cannot write conda-linux-64.lock: permission denied" in done.stderr
    assert products(project) == old


def test_a_file_system_that_is_read_only_is_said(project: Path) -> None:
    with full_disk() as disk:
        ask(disk, "two")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = run("lock", *words(project), folder=disk, XDG_CACHE_HOME=str(project), TMPDIR=str(project))
        assert done.returncode == ExitCode.OUTSIDE, done.stderr
        assert "error: cannot write conda-linux-64.lock: the file system is read-only" in done.stderr
        assert [path.name for path in disk.iterdir()] == ["environment.yml"]
