"""Odd machines: a clock that is wrong, no home, the C locale, Windows line ends, paths that nobody would choose."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from cases import quick
from channel_builder import pkg, serve, write
from commands import HOST, run

FILE = "channels: [conda-forge]\ndependencies: [leaf]\n"
NAMES = ("conda-linux-64.lock", "conda-linux-64.lock.yml", "conda-lock.yml")
ODD = {
    "spaces, quotes and globs": ' two  it\'s "so" `x` $HOME *[a-z]?{x,y}~#% ',
    "line ends, escapes and letters": "one\ntwo \x1b[31m Zürich 東京 ✓",
    "what looks like options and URLs": "-rf --help/http:/%2e%2e?q#f",
}
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(which, now);
    if (which == CLOCK_REALTIME) now->tv_sec = atol(getenv("WRONG_CLOCK"));
    return code;
}
"""

NOBODY = """
#include <pwd.h>
#include <stddef.h>
struct passwd *getpwuid(uid_t who) { return NULL; }
int getpwuid_r(uid_t who, struct passwd *entry, char *text, size_t size, struct passwd **found) {
    *found = NULL;
    return 0;
}
"""


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("channel")
    write(folder, {"conda-forge": [pkg("leaf", depends=("base",)), pkg("base")]})
    return folder / "conda-forge"


def products(folder: Path) -> dict[str, bytes]:
    """The files of a lock without the day of the tables: a process of its own reads those that ship."""
    return {name: re.sub(rb'"cuenv_knowledge": "[0-9-]+"', b"", (folder / name).read_bytes()) for name in NAMES}


@pytest.fixture(scope="module")
def usual(channel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What is locked on a machine without oddities."""
    folder = tmp_path_factory.mktemp("usual")
    (folder / "environment.yml").write_text(FILE)
    done = run("lock", *HOST, "--mirror", f"conda-forge={channel}", folder=folder)
    assert done.returncode == 0, done.stderr
    return products(folder)


@pytest.mark.parametrize("name", ODD.values(), ids=ODD)
def test_a_lock_is_made_at_any_path(tmp_path: Path, channel: Path, usual: dict[str, bytes], name: str) -> None:
    folder = tmp_path / name
    folder.mkdir(parents=True)
    mirror = folder / "mirror"
    shutil.copytree(channel, mirror)
    (folder / "environment.yml").write_text(FILE)
    path = folder / "environment.yml"
    done = run("lock", path, *HOST, "--mirror", f"conda-forge={mirror}", folder=folder)
    assert done.returncode == 0, done.stderr
    assert products(folder) == usual
    assert all(line.isprintable() for line in done.stderr.splitlines())
    as_json = run("check", folder, *HOST, "--json", folder=tmp_path)
    assert as_json.returncode == 0, as_json.stdout
    assert json.loads(as_json.stdout)["ok"] is True
    gone = run("lock", folder / "nothing.yml", *HOST, folder=tmp_path)
    assert gone.returncode == 3
    assert gone.stderr.count("error: ") == 1
    assert all(line.isprintable() for line in gone.stderr.splitlines())
    fresh = run("lock", "--check", path, *HOST, folder=tmp_path)
    assert fresh.returncode == 0, fresh.stdout


@pytest.mark.parametrize("where", ["channel", "project"])
def test_a_path_that_the_solver_cannot_be_told_is_refused(tmp_path: Path, channel: Path, where: str) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    odd.mkdir()
    mirror = odd if where == "channel" else tmp_path / "mirror"
    folder = odd if where == "project" else tmp_path
    shutil.copytree(channel, mirror, dirs_exist_ok=True)
    (folder / "environment.yml").write_text(FILE)
    # started and not forked: rattler asks for its folders as it is loaded
    done = run("lock", *HOST, "--mirror", f"conda-forge={mirror}", folder=folder, python=("-B",))
    assert done.returncode == 3, done.stderr
    assert "the solver takes no path that is not UTF-8: " in done.stderr
    assert "caf\\udce9" in done.stderr
    assert run("resolve", *HOST, "-o", "new.yml", folder=folder).returncode == 0  # which needs no solver


@pytest.mark.parametrize("name", [ODD["spaces, quotes and globs"], ODD["what looks like options and URLs"], "Zürich"])
def test_the_command_that_is_shown_can_be_copied(tmp_path: Path, channel: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "environment.yml").write_text(FILE)
    mirror = f"conda-forge={channel}"
    done = run("lock", folder / "environment.yml", *HOST, "--mirror", mirror, folder=tmp_path)
    line = next(line for line in done.stderr.splitlines() if "conda create" in line)
    assert shlex.split(line)[-1] == str(folder / "conda-linux-64.lock")
    (folder / "conda-lock.yml").unlink()
    missing = run("lock", "--check", folder / "environment.yml", folder=tmp_path)
    assert missing.returncode == 1
    fix = next(line for line in missing.stdout.splitlines() if "fix: " in line).partition("fix: ")[2]
    assert shlex.split(fix) == ["cuenv", "lock", str(folder / "environment.yml")]


def test_windows_line_ends_and_a_byte_order_mark_change_no_lock(
    tmp_path: Path, channel: Path, usual: dict[str, bytes]
) -> None:
    (tmp_path / "environment.yml").write_bytes(b"\xef\xbb\xbf" + FILE.replace("\n", "\r\n").encode())
    done = run("lock", *HOST, "--mirror", f"conda-forge={channel}", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert products(tmp_path) == usual
    for name in NAMES:
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes().replace(b"\n", b"\r\n"))
    for words in (("check",), ("lock", "--check"), ("check", "conda-linux-64.lock")):
        done = run(*words, *HOST, folder=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("home", quick([{}, {"HOME": "/nonexistent"}], first=1), ids=["none", "gone"])
def test_a_lock_is_made_without_a_home(
    tmp_path: Path, channel: Path, usual: dict[str, bytes], home: dict[str, str]
) -> None:
    (tmp_path / "environment.yml").write_text(FILE)
    command = [sys.executable, "-m", "cuenv"]
    mirror = f"conda-forge={channel}"
    environ = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for words in (("lock", *HOST, "--mirror", mirror), ("check", *HOST), ("inspect", "--json")):
        done = subprocess.run(
            [*command, *words], cwd=tmp_path, env=environ | home, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert products(tmp_path) == usual


@pytest.mark.slow
def test_a_lock_is_made_for_a_user_whom_the_machine_does_not_know(
    tmp_path: Path, channel: Path, usual: dict[str, bytes]
) -> None:
    (tmp_path / "environment.yml").write_text(FILE)
    library = tmp_path / "nobody.so"
    (tmp_path / "nobody.c").write_text(NOBODY)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "nobody.c"], check=True)
    environ = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(library)}

    def typed(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cuenv", *words]
        return subprocess.run(
            command, cwd=tmp_path, env={**environ, **more}, capture_output=True, text=True, check=False
        )

    words = ("lock", *HOST, "--mirror", f"conda-forge={channel}")
    done = typed(*words)
    assert (done.returncode, done.stderr.splitlines()[1:]) == (3, ["hint: export HOME=/tmp"]), done.stderr
    assert "HOME is not set, and user " in done.stderr
    assert typed("lock", *HOST, "--offline", CUENV_CACHE_DIR=str(tmp_path / "cache")).returncode == 3
    done = typed(*words, CUENV_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert products(tmp_path) == usual
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("~")] == []
    for others in (("check", *HOST), ("config",), ("inspect",)):
        assert typed(*others).returncode == 0, others


@pytest.mark.parametrize(
    "words",
    [
        ("lock", *HOST, "--mirror", "conda-forge=~nobody-of-that-name/forge"),
        ("lock", *HOST, "--engine", "conda-lock", "--conda", "~nobody-of-that-name/conda"),
        ("install", "conda-lock.yml", "--prefix", "~nobody-of-that-name/env"),
    ],
    ids=lambda words: words[-1],
)
def test_a_home_that_nobody_knows_is_not_found(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "environment.yml").write_text(FILE)
    done = run(*words, folder=tmp_path)
    assert done.returncode in (2, 3)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("locale", quick(["C", "no_WHERE"], first=1))
def test_a_lock_is_made_in_the_c_locale(tmp_path: Path, channel: Path, usual: dict[str, bytes], locale: str) -> None:
    folder = tmp_path / ODD["line ends, escapes and letters"]
    folder.mkdir()
    (folder / "environment.yml").write_text(f"# Zürich 東京 ✓\n{FILE}", encoding="utf-8")
    more: dict[str, Any] = {"LC_ALL": locale, "LANG": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    mirror = f"conda-forge={channel}"
    done = run("lock", folder / "environment.yml", *HOST, "--mirror", mirror, folder=tmp_path, **more)
    assert done.returncode == 0, done.stderr
    assert products(folder) == usual
    assert run("check", folder, *HOST, folder=tmp_path, **more).returncode == 0
    assert run("explain", "gpu", "RTX 4090", folder=tmp_path, **more).returncode == 0


@pytest.mark.parametrize("clock", quick(["0", "4102444800"]), ids=["1970", "2100"])
def test_a_lock_is_made_when_the_clock_is_wrong(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, channel: Path, usual: dict[str, bytes], clock: str
) -> None:
    library = tmp_path_factory.getbasetemp() / f"clock-{os.getpid()}.so"
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc here to make a wrong clock with")
    if not library.exists():
        subprocess.run([gcc, "-shared", "-fPIC", "-xc", "-", "-o", library, "-ldl"], input=CLOCK.encode(), check=True)
    wrong: dict[str, Any] = {"LD_PRELOAD": str(library), "WRONG_CLOCK": clock}
    (tmp_path / "environment.yml").write_text(FILE)
    with serve(channel.parent) as server:
        words = ("lock", *HOST, "--mirror", f"conda-forge={server.url}/conda-forge")
        for more in (wrong, {}, wrong):  # a cache from the future or the past, and back
            done = run(*words, folder=tmp_path, **more)
            assert done.returncode == 0, done.stderr
            assert products(tmp_path) == usual
    assert run("check", *HOST, folder=tmp_path, **wrong).returncode == 0


@pytest.mark.parametrize(("columns", "length"), [(40, 39), (0, 79)])
def test_progress_fits_the_terminal_so_that_it_can_be_written_over(columns: int, length: int) -> None:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    code = (
        "from cuenv.cli.output import progress\nwith progress(quiet=False) as show: show('trying pytorch 2.5.1 ' * 20)"
    )
    done = subprocess.run([sys.executable, "-c", code], stderr=follower, check=True, timeout=60)
    shown = os.read(leader, 4096).decode().removeprefix("\r\x1b[K").removesuffix("\r\x1b[K")
    os.close(follower)
    os.close(leader)
    assert (done.returncode, len(shown)) == (0, length)
