"""Names that another user put where everybody may write, and pipes in the place of files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from cases import collect
from commands import HOST
from cuenv.core.errors import InputError, OutsideError
from cuenv.core.io.files import make_folder, opened, read_text
from cuenv.core.io.writing import write_atomically
from cuenv.install.io.bundles import staging
from cuenv.install.io.installer import made_whole

OTHER = 12345
Theirs = Callable[[Path], None]


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder like ``/tmp``."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Theirs:
    """Give a name to another user: by root in truth, by others in what is seen of it."""
    real = os.lstat
    given: set[str] = set()

    def seen(path: str) -> os.stat_result:
        found = real(path)
        return os.stat_result((*found[:4], OTHER, *found[5:])) if str(path) in given else found

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.lchown(path, OTHER, -1)
            return
        given.add(str(path))
        monkeypatch.setattr(os, "lstat", seen)

    return give


def test_a_link_of_another_user_is_not_written_through(tmp_path: Path, shared: Path, theirs: Theirs) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "home").mkdir()
    for name, target in (("out.yml", victim), ("chain", shared / "second"), ("folder", tmp_path / "home")):
        (shared / name).symlink_to(target)
        theirs(shared / name)
    (shared / "second").symlink_to(victim)
    for path in (shared / "out.yml", shared / "chain", shared / "folder" / "x", shared / "folder" / ".." / "victim"):
        with pytest.raises(OutsideError, match="is another user's link in a folder to which everyone can write"):
            write_atomically(path, "mine")
    with pytest.raises(OutsideError, match="another user's link"):
        make_folder(shared / "folder" / "new")
    assert victim.read_text() == "precious"
    assert not list((tmp_path / "home").iterdir())


def test_a_file_or_folder_of_another_user_is_not_taken_over(shared: Path, theirs: Theirs) -> None:
    (shared / "out.yml").write_text("theirs")
    (shared / ".made.cuenv-part").mkdir()
    for name in ("out.yml", ".made.cuenv-part"):
        theirs(shared / name)
    with pytest.raises(OutsideError, match="is another user's file in a folder"):
        write_atomically(shared / "out.yml", "mine")
    assert (shared / "out.yml").read_text() == "theirs"
    with pytest.raises(OutsideError, match="is another user's folder in a folder"):
        staging(shared / "made", ExitStack())


def test_an_environment_is_not_made_through_such_a_link(tmp_path: Path, shared: Path, theirs: Theirs) -> None:
    (tmp_path / "home").mkdir()
    (shared / "env").symlink_to(tmp_path / "home")
    theirs(shared / "env")
    with pytest.raises(OutsideError, match="another user's link"), made_whole(shared / "env", "x"):
        raise AssertionError
    assert not list((tmp_path / "home").iterdir())


def test_links_and_files_of_ones_own_are_as_ever(tmp_path: Path, shared: Path, theirs: Theirs) -> None:
    (shared / "mine").symlink_to(tmp_path / "target")
    write_atomically(shared / "mine", "1")
    write_atomically(shared / "plain", "2")
    write_atomically(shared / "plain", "3")
    assert ((tmp_path / "target").read_text(), (shared / "plain").read_text()) == ("1", "3")
    (tmp_path / "project").mkdir(mode=0o755)
    (tmp_path / "project" / "link").symlink_to(tmp_path / "target")
    theirs(tmp_path / "project" / "link")  # whoever may write into this folder may do anything there
    write_atomically(tmp_path / "project" / "link", "4")
    assert (tmp_path / "target").read_text() == "4"


def cuenv(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    command = [sys.executable, "-m", "cuenv", *words]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
@collect(
    "words",
    [
        ("check", *HOST),
        ("lock", "--check", *HOST),
        ("bundle", "-o", "made"),
        ("install", "conda-lock.yml", "--prefix", "env"),
        ("diff", "conda-lock.yml", "conda-lock.yml"),
        ("lock", "environment.yml", *HOST),
        ("lint", "environment.yml"),
        ("resolve", "--host", "host.json"),
        ("resolve", *HOST, "--knowledge", "tables"),
    ],
    ids=" ".join,
    one_in=3,
)
def test_a_named_pipe_is_no_file_and_holds_nothing_up(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "tables").mkdir()
    for name in ("conda-lock.yml", "environment.yml", "host.json", "tables/gpus.json", "conda-linux-64.lock"):
        os.mkfifo(tmp_path / name)
    done = cuenv(tmp_path, *words)
    assert done.returncode in (1, 3), (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr


def test_a_condarc_that_is_a_named_pipe_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".condarc")
    (tmp_path / "environment.yml").write_text("dependencies: [python]\n")
    done = cuenv(tmp_path, "lock", *HOST)
    assert done.returncode == 3
    assert ".condarc: cannot be read: it is a named pipe, not a file" in done.stderr


def test_a_pipe_of_the_shell_is_read(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"text\n")
    os.close(writer)
    assert read_text(Path(f"/dev/fd/{reader}")) == "text\n"
    os.close(reader)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="it is a named pipe, not a file"):
        read_text(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        opened(tmp_path).close()
