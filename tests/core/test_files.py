"""Reading and writing files: every failure says what and why, and nothing is ever half written."""

from __future__ import annotations

import io
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.errors import ExitCode, InputError, OutsideError
from cuenv.core.io.files import (
    exists,
    is_file,
    is_folder,
    names_in,
    path_text,
    read_stdin,
    read_text,
)
from cuenv.core.io.writing import write_atomically, write_together

not_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")


@contextmanager
def small_disk(size: int) -> Iterator[None]:
    """No file may grow past ``size`` bytes: what a full disk looks like to one process."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_a_new_file_gets_the_mode_of_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", "text\n")
    finally:
        os.umask(old)
    assert (tmp_path / "new").read_text() == "text\n"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert names_in(tmp_path) == ("new",)


def test_an_old_file_keeps_its_mode_and_gets_a_new_inode(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_text("old")
    path.chmod(0o604)
    before = path.stat()
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert path.stat().st_ino != before.st_ino


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/file")
    write_atomically(tmp_path / "link", "one")
    write_atomically(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real/file").read_text() == "two"
    assert names_in(tmp_path / "real") == ("file",)


def test_of_several_files_none_changes_when_one_cannot_be_written(tmp_path: Path) -> None:
    good, also, bad = tmp_path / "good", tmp_path / "also", tmp_path / "folder"
    good.write_text("old")
    bad.mkdir()
    (bad / "inside").write_text("kept")
    for wrong in (tmp_path / "no" / "where", bad, Path("/dev/full")):
        with pytest.raises(OutsideError):
            write_together([(good, "new"), (wrong, "text"), (also, "text")])
        assert good.read_text() == "old"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "good"]
    write_together([(good, "new"), (also, b"text")])
    assert (good.read_text(), also.read_text()) == ("new", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["also", "folder", "good"]


def test_a_device_is_written_and_not_replaced() -> None:
    write_atomically(Path("/dev/null"), "text")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_full_disk_is_said() -> None:
    with pytest.raises(OutsideError, match="cannot write /dev/full: the disk is full"):
        write_atomically(Path("/dev/full"), "text")


def test_a_write_that_breaks_off_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("old and whole")
    with small_disk(100), pytest.raises(OutsideError) as caught:
        write_atomically(path, "x" * 200)
    assert caught.value.exit == ExitCode.OUTSIDE
    assert str(path) in caught.value.message
    assert path.read_text() == "old and whole"
    assert names_in(tmp_path) == ("lock",)


def test_a_killed_writer_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("0" * 200_000)
    code = (
        "import sys, itertools; from pathlib import Path; from cuenv.core.io.writing import write_atomically\n"
        "for turn in itertools.cycle('123'):\n"
        "    write_atomically(Path(sys.argv[1]), turn * 200_000); print(turn, flush=True)"
    )
    for wait in (0.0, 0.003, 0.007):
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(wait)
            writer.send_signal(signal.SIGKILL)
        text = path.read_text()
        assert len(text) == 200_000
        assert len(set(text)) == 1


def test_whether_anything_lies_there_is_an_error_where_nobody_can_tell(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to("nothing")
    (tmp_path / "loop").symlink_to("loop")
    assert [exists(tmp_path / name) for name in (".", "gone", "nothing/below", "nul\0")] == [True, False, False, False]
    with pytest.raises(InputError, match="loop: its symbolic links form a loop") as caught:
        exists(tmp_path / "loop")
    assert caught.value.hint == f"ls -ld {tmp_path / 'loop'}"


@not_root
def test_a_file_in_a_forbidden_folder_is_input_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0)
    with pytest.raises(InputError, match="folder/file: permission denied"):
        exists(tmp_path / "folder" / "file")


@collect(
    ("name", "says"),
    [
        ("missing/file", "there is no folder"),
        ("folder", "it is a folder"),
        ("file/below", "a part of the path is not a folder"),
        ("loop", "form a loop"),
        ("n" * 300, "the name is too long"),
        ("nul\0", "the path is invalid"),
    ],
)
def test_what_cannot_be_written_says_why(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutsideError) as caught:
        write_atomically(tmp_path / name, "text")
    assert says in caught.value.message
    assert caught.value.message.isprintable()
    there = tmp_path / name if name in ("folder", "loop") else (tmp_path / name).parent
    hint = f"mkdir -p {there}" if name == "missing/file" else f"ls -ld {there}"
    assert caught.value.hint == hint
    assert names_in(tmp_path) == ("file", "folder", "loop")


@not_root
def test_a_write_protected_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("kept")
    path.chmod(0o444)
    with pytest.raises(OutsideError, match="permission denied"):
        write_atomically(path, "new")
    assert path.read_text() == "kept"


@not_root
def test_a_forbidden_file_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(InputError, match="permission denied"):
        read_text(path)


@collect(
    ("data", "says"),
    [
        (b"\xff{\x00", "byte 0 is not UTF-8 text"),
        (b"\xff\xfe{\x00}", "byte 4 is not UTF-16 text"),
        (b"a\0b", "it is a binary file"),
        (b"x" * 11, "larger than 10 bytes"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(InputError, match=says):
        read_text(tmp_path / "file", limit=10)


@collect(
    ("name", "hint"),
    [
        ("nothing", "ls ."),
        ("nothing/", "ls ."),
        ("below/nothing", "ls below"),
        ("no/such/file", "ls ."),
        ("/no", "ls /"),
    ],
)
def test_the_command_for_a_file_that_is_missing_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    with pytest.raises(InputError) as caught:
        read_text(name)
    assert caught.value.hint == hint


@collect(("name", "says"), [("nothing", "no such file"), (".", "it is a folder"), ("a\0b", "invalid")])
def test_what_cannot_be_read_says_why(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read_text(tmp_path / name)
    assert says in caught.value.message
    assert caught.value.exit == ExitCode.INPUT


def test_a_pipe_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbf{}")
    assert read_text(tmp_path / "bom") == "{}"
    reader, writer = os.pipe()
    os.write(writer, b"from a pipe")
    os.close(writer)
    try:
        assert read_text(Path(f"/dev/fd/{reader}")) == "from a pipe"
    finally:
        os.close(reader)


def test_standard_input_is_read_within_a_limit_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"text")))
    assert read_stdin() == "text"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(InputError, match="standard input: byte 0"):
        read_stdin()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x" * 20)))
    with pytest.raises(InputError, match="larger than 10"):
        read_stdin(limit=10)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="closed"):
        read_stdin()


def test_looking_never_fails(tmp_path: Path) -> None:
    assert names_in(tmp_path / "nothing") == ()
    assert names_in("a\0b") == ()
    assert not is_file(tmp_path)
    assert is_folder(tmp_path)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_a_text_comes_back(text: str) -> None:
    kept = "x" + text.replace("\0", "")
    path = Path(tempfile.gettempdir()) / f"cuenv-test-{os.getpid()}"
    try:
        write_atomically(path, kept)
        assert read_text(path) == kept
    finally:
        path.unlink()


def test_paths_in_messages_are_printable() -> None:
    assert path_text("/plain/path") == "/plain/path"
    assert path_text("/with\x1b[31m").isprintable()
    assert path_text("") == "''"
