"""``cuenv cache``: where it is, how large, and emptied without touching anything else."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases import collect
from channel_builder import pkg, write
from commands import HOST, inside, run
from cuenv.core.errors import ExitCode
from cuenv.solve.io import cache
from cuenv.solve.io.sources import Sources
from faulty_server import Faulty, faulty


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Faulty]:
    write(tmp_path / "served", {"conda-forge": [pkg("leaf")]})
    with faulty(tmp_path / "served") as running:
        yield running


def locked(folder: Path, server: Faulty, place: str = "") -> None:
    """Read a channel, so that a cache is made."""
    (folder / "environment.yml").write_text("channels: [conda-forge]\ndependencies: [leaf]\n")
    words = ("lock", *HOST, "--mirror", f"conda-forge={server.url}/conda-forge")
    assert run(*words, folder=folder, CUENV_CACHE_DIR=place).returncode == 0


@pytest.mark.slow
def test_a_cache_is_shown_and_emptied(tmp_path: Path, server: Faulty) -> None:
    locked(tmp_path, server)
    folder = tmp_path / ".cache/cuenv"
    assert (folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    (folder / "archives/abc").mkdir(parents=True)
    (folder / "archives/abc/one.conda").write_bytes(bytes(2_000_000))
    os.link(folder / "archives/abc/one.conda", folder / "archives/abc/two.conda")
    (folder / "of-the-user").write_text("mine")
    shown = run("cache", "info", folder=tmp_path)
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == f"cache     {folder}"
    assert lines[2].startswith("archives    2.0 MB  1 files: downloaded packages")
    assert shown.stderr == "hint: empty it: cuenv cache clean\n"
    dry = run("cache", "clean", "--dry-run", folder=tmp_path)
    assert dry.stdout.startswith(f"would remove from {folder}:\n")
    assert (folder / "archives/abc/one.conda").exists()
    one = json.loads(run("cache", "clean", "archives", "--json", folder=tmp_path).stdout)
    assert (one["schema"], one["folder"], one["removed"]) == ("cuenv/cache/1", str(folder), True)
    assert one["kinds"] == [{"kind": "archives", "files": 1, "bytes": 2_000_000}]
    assert (folder / "repodata").exists()
    rest = run("cache", "clean", folder=tmp_path)
    assert rest.returncode == 0
    assert rest.stdout.startswith(f"removed from {folder}:\nrepodata")
    assert sorted(path.name for path in folder.iterdir()) == [".cuenv-in-use", "CACHEDIR.TAG", "of-the-user"]
    assert "nothing to remove" in run("cache", "clean", folder=tmp_path).stdout
    locked(tmp_path, server)


def test_a_cache_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert "does not exist yet" in inside("cache", "info", folder=tmp_path).stdout
    assert inside("cache", "clean", folder=tmp_path).returncode == 0
    assert not (tmp_path / ".cache").exists()


def filled(folder: Path) -> Path:
    """A folder that looks like a cache and that cuenv did not make."""
    (folder / "pkgs").mkdir(parents=True, exist_ok=True)
    (folder / "pkgs/precious").write_text("mine")
    return folder


def test_a_folder_that_cuenv_did_not_make_is_not_emptied(tmp_path: Path) -> None:
    home = filled(tmp_path)
    other = filled(tmp_path / "conda")
    tagged = filled(tmp_path / "other-cache")
    (tagged / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n# of another program\n")
    for folder, words in (
        (home, "is or contains your home folder"),
        (Path("/"), "is or contains your home folder"),
        (other, "has no CACHEDIR.TAG of cuenv"),
        (tagged, "has no CACHEDIR.TAG of cuenv"),
    ):
        for more in ((), ("--dry-run",), ("pkgs",)):
            done = inside("cache", "clean", *more, folder=tmp_path, CUENV_CACHE_DIR=str(folder))
            assert done.returncode == ExitCode.INPUT, done.stdout
            assert words in done.stderr
    assert [path.read_text() for path in sorted(tmp_path.rglob("precious"))] == ["mine"] * 3


@pytest.mark.slow
def test_using_a_folder_that_is_there_does_not_make_it_ours(tmp_path: Path, server: Faulty) -> None:
    filled(tmp_path / "conda")
    locked(tmp_path, server, str(tmp_path / "conda"))
    assert not (tmp_path / "conda/CACHEDIR.TAG").exists()
    assert inside("cache", "clean", folder=tmp_path, CUENV_CACHE_DIR=str(tmp_path / "conda")).returncode == 3
    assert (tmp_path / "conda/pkgs/precious").exists()
    locked(tmp_path, server, str(tmp_path / "fresh"))
    assert inside("cache", "clean", folder=tmp_path, CUENV_CACHE_DIR=str(tmp_path / "fresh")).returncode == 0


def test_nothing_behind_a_link_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / ".cache/cuenv"
    folder.mkdir(parents=True)
    filled(tmp_path / "elsewhere")
    (folder / "pkgs").symlink_to(tmp_path / "elsewhere/pkgs")
    (folder / "archives").mkdir()
    (folder / "archives/link").symlink_to(tmp_path / "elsewhere")
    done = inside("cache", "clean", folder=tmp_path)
    assert (done.returncode, "is a link" in done.stderr) == (ExitCode.INPUT, True)
    (folder / "pkgs").unlink()
    assert inside("cache", "clean", folder=tmp_path).returncode == 0
    assert not (folder / "archives").exists()
    assert (tmp_path / "elsewhere/pkgs/precious").read_text() == "mine"


def test_a_cache_that_is_in_use_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    cache.use(Sources(cache=str(folder)))
    (folder / "pkgs").mkdir()
    done = run("cache", "clean", folder=tmp_path, CUENV_CACHE_DIR=str(folder))
    assert (done.returncode, "another cuenv uses the cache" in done.stderr) == (ExitCode.OUTSIDE, True)
    assert (folder / "pkgs").exists()
    fcntl.flock(cache._held[folder], fcntl.LOCK_UN)
    assert run("cache", "clean", folder=tmp_path, CUENV_CACHE_DIR=str(folder)).returncode == 0


@collect("words", [("clean", "everything"), ("clean", "../x"), ("clear",), ("info", "x"), ("clean", "--x")])
def test_what_is_mistyped_is_an_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = inside("cache", *words, folder=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert "Traceback" not in done.stderr
