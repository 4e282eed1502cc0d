"""Update of the pip part, with the real solver and uv: what is named moves, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from channel_builder import pkg, write
from commands import HOST
from commands import inside as run
from cuenv.core.errors import UsageError
from cuenv.host.select import HostOptions
from cuenv.lockfile.files import LOCK_NAME, read_lock
from cuenv.lockfile.lock import Locked, LockRequest, lock
from given import base
from pip_index import index, variables, wheel

FILE = """\
channels: [conda-forge]
dependencies: [python, pip, leaf, other, {pip: [tool, big_tool]}]
"""
FIRST = [
    pkg("python", "3.12.7"),
    pkg("pip", "25.0", subdir="noarch", noarch="python", depends=("python",)),
    pkg("leaf", "1.0", depends=("python",)),
    pkg("other", "1.0", depends=("python",)),
]
LATER = [pkg("python", "3.13.0"), pkg("leaf", "1.5", depends=("python",)), pkg("other", "2.0", depends=("python",))]


class Team:
    """A folder with a lock, a channel and an index, both of which have newer releases by now."""

    def __init__(self, folder: Path, *newer: tuple[str, ...]) -> None:
        self.folder = folder
        (folder / "environment.yml").write_text(FILE)
        self.links = folder / "links"
        for name in ("tool", "big-tool", "base"):
            wheel(self.links, name, "1.0", *(["base"] if name != "base" else []))
        self.sources = write(folder / "first", {"conda-forge": FIRST})
        assert self.locked().lock
        self.sources = write(folder / "later", {"conda-forge": [*FIRST, *LATER]})
        for name, version, *requires in newer:
            wheel(self.links, name, version, *requires)

    def locked(self, *update: str) -> Locked:
        with index(self.links) as server:
            host = HostOptions(hosts=("rtx4090-535",), environ=variables(self.folder / "home", server.url))
            path = self.folder / "environment.yml"
            return lock(LockRequest(path=path, host=host, sources=self.sources, update=update), base())

    def versions(self) -> tuple[dict[str, str], dict[str, str]]:
        (solution,) = read_lock(self.folder / LOCK_NAME).solutions
        return {item.name: item.version for item in solution.packages}, {
            item.name: item.version for item in solution.pip
        }


NEWER = (("tool", "2.0", "base"), ("big-tool", "2.0", "base"), ("base", "2.0"))


@pytest.mark.parametrize("name", ["big-tool", "Big_Tool"])
def test_a_package_for_pip_moves_alone(tmp_path: Path, name: str) -> None:
    team = Team(tmp_path, *NEWER)
    conda, pip = team.versions()
    assert team.locked(name).lock
    assert team.versions() == (conda, {**pip, "big-tool": "2.0"})


def test_what_it_needs_moves_with_it(tmp_path: Path) -> None:
    team = Team(tmp_path, ("tool", "2.0", "base>=2"), ("big-tool", "2.0", "base"), ("base", "2.0"))
    conda, pip = team.versions()
    assert team.locked("tool").lock
    assert team.versions() == (conda, {**pip, "tool": "2.0", "base": "2.0"})


def test_a_conda_package_leaves_the_pip_part_alone(tmp_path: Path) -> None:
    team = Team(tmp_path, *NEWER)
    conda, pip = team.versions()
    assert team.locked("leaf").lock
    assert team.versions() == ({**conda, "leaf": "1.5"}, pip)


def test_both_kinds_in_one_update(tmp_path: Path) -> None:
    team = Team(tmp_path, *NEWER)
    conda, pip = team.versions()
    assert team.locked("leaf", "base").lock
    assert team.versions() == ({**conda, "leaf": "1.5"}, {**pip, "base": "2.0"})


def test_a_release_that_the_conda_part_forbids_is_not_taken(tmp_path: Path) -> None:
    team = Team(tmp_path, ("tool", "1.5", "base"), ("tool", "2.0", "leaf>=1.5"))
    conda, pip = team.versions()
    assert team.locked("tool").lock
    assert team.versions() == (conda, {**pip, "tool": "1.5"})


def test_what_the_file_asks_for_in_the_meantime_is_added(tmp_path: Path) -> None:
    team = Team(tmp_path, *NEWER)
    conda, pip = team.versions()
    (tmp_path / "environment.yml").write_text(FILE.replace("other,", "'other>=2',"))
    assert team.locked("tool").lock
    assert team.versions() == ({**conda, "other": "2.0"}, {**pip, "tool": "2.0"})


def test_a_name_that_is_nowhere(tmp_path: Path) -> None:
    team = Team(tmp_path)
    before = (tmp_path / LOCK_NAME).read_bytes()
    with pytest.raises(UsageError, match=r"--update big-tol: .* the nearest are big-tool"):
        team.locked("big-tol")
    assert (tmp_path / LOCK_NAME).read_bytes() == before


def test_the_command_says_what_moved(tmp_path: Path) -> None:
    team = Team(tmp_path, *NEWER)
    mirror = f"conda-forge={team.sources.mirrors[0].target}"
    with index(team.links) as server:
        words = ("lock", "--update", "base", *HOST, "--mirror", mirror)
        first, again = (
            run(*words, folder=tmp_path, UV_DEFAULT_INDEX=f"{server.url}/simple", NO_PROXY="*") for _ in range(2)
        )
    assert first.returncode == again.returncode == 0, first.stderr
    assert "updated - base==1.0\nupdated + base==2.0\n" in first.stderr
    assert "updated nothing" in again.stderr
