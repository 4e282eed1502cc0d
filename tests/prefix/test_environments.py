"""Which environment is meant: the active one, and conda's by their names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuenv.core.errors import InputError, UsageError
from cuenv.lockfile.formats import LockPart
from cuenv.prefix.check import CheckRequest, parse_check_request
from cuenv.prefix.io.environments import active_environment, environments, named_environment


def env(path: Path) -> Path:
    (path / "conda-meta").mkdir(parents=True)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / ".conda").mkdir(parents=True)
    return folder


def environ(home: Path, **more: str | Path) -> dict[str, str]:
    """The variables of a process in which no settings of this machine count."""
    return {"HOME": str(home), **{name: str(value) for name, value in more.items()}}


@pytest.mark.parametrize("variable", ["CONDA_ENVS_DIRS", "CONDA_ENVS_PATH"])
def test_a_name_below_a_folder_of_a_variable(home: Path, tmp_path: Path, variable: str) -> None:
    made = env(tmp_path / "second/moe")
    places = os.pathsep.join((str(tmp_path / "first"), str(tmp_path / "second"), "relative"))
    assert named_environment("moe", environ(home, **{variable: places})) == made


def test_a_name_below_the_root_of_an_installation(home: Path, tmp_path: Path) -> None:
    conda, mamba = env(tmp_path / "conda"), env(tmp_path / "mamba")
    in_conda, in_mamba, in_home = env(conda / "envs/c"), env(mamba / "envs/m"), env(home / ".conda/envs/h")
    variables = environ(home, CONDA_EXE=conda / "bin/conda", MAMBA_ROOT_PREFIX=mamba)
    assert named_environment("c", variables) == in_conda
    assert named_environment("m", variables) == in_mamba
    assert named_environment("h", variables) == in_home
    assert named_environment("base", variables) == mamba
    assert named_environment("base", environ(home, CONDA_EXE=conda / "bin/conda")) == conda
    assert named_environment("c", environ(home, CONDA_PREFIX=in_conda)) == in_conda


def test_a_name_below_a_folder_of_condarc(home: Path, tmp_path: Path) -> None:
    made, other = env(home / "mine/moe"), env(tmp_path / "work/lab")
    (home / ".condarc").write_text("envs_dirs:\n  - ~/mine\n  - $WORK/work\n  - 3\n")
    assert named_environment("moe", environ(home, WORK=tmp_path)) == made
    assert named_environment("lab", environ(home, WORK=tmp_path)) == other
    (home / ".condarc").write_text("envs_dirs: here\n")
    with pytest.raises(UsageError):
        named_environment("moe", environ(home))


def test_a_name_that_only_the_list_knows(home: Path, tmp_path: Path) -> None:
    made = env(tmp_path / "far/away")
    (home / ".conda/environments.txt").write_text(f"{made}\n/nowhere/away\nrelative\n\n\x1b[31m\n")
    assert named_environment("away", environ(home)) == made
    second = env(tmp_path / "other/away")
    with (home / ".conda/environments.txt").open("a") as file:
        file.write(f"{second}\n{made}\n")
    with pytest.raises(UsageError, match="there are 2") as caught:
        named_environment("away", environ(home))
    assert str(second) in caught.value.message
    assert named_environment("away", environ(home, CONDA_ENVS_DIRS=tmp_path / "far")) == made


def test_the_list_may_be_anything(home: Path) -> None:
    os.mkfifo(home / ".conda/environments.txt")
    assert environments(environ(home)) == {}


@pytest.mark.parametrize("name", ["", "a/b", "/srv/env", "x\x1b[31m"])
def test_what_is_no_name_is_refused(home: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        named_environment(name, environ(home))
    assert "\x1b" not in caught.value.message


def test_an_unknown_name_is_told_what_is_near(home: Path) -> None:
    for name in ("universal-dev", "inference"):
        env(home / ".conda/envs" / name)
    with pytest.raises(UsageError, match="near: universal-dev") as caught:
        named_environment("universal", environ(home))
    assert caught.value.hint == "cuenv check --name universal-dev"
    with pytest.raises(UsageError, match="known: inference, universal-dev"):
        named_environment("zzz", environ(home))


def test_the_active_environment_is_the_one_that_path_asks_first() -> None:
    both = {"CONDA_PREFIX": "/c", "VIRTUAL_ENV": "/v"}
    assert active_environment({}) is None
    assert active_environment({"CONDA_PREFIX": "/c"}) == Path("/c")
    assert active_environment(both) == Path("/v")
    assert active_environment({**both, "PATH": "/usr/bin:/c/bin:/v/bin"}) == Path("/c")
    assert active_environment({**both, "PATH": "/v/bin:/c/bin"}) == Path("/v")


# what the arguments of cuenv check mean


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


LOCK = Path("conda-lock.yml")


def test_nothing_is_named(here: Path, home: Path, tmp_path: Path) -> None:
    active = env(tmp_path / "active")
    variables = environ(home, CONDA_PREFIX=active)
    with pytest.raises(InputError, match="does not exist, and no environment is active"):
        parse_check_request(None, environ(home))
    assert parse_check_request(None, variables) == CheckRequest(prefix=active)
    LOCK.write_text("")
    assert parse_check_request(None, environ(home)) == CheckRequest(lock=LOCK, against=LOCK)
    assert parse_check_request(None, variables) == CheckRequest(lock=LOCK, prefix=active, against=LOCK)
    (active / "condabin").mkdir()
    assert parse_check_request(None, variables) == CheckRequest(lock=LOCK, against=LOCK)


def test_the_venv_of_cuenv_is_not_that_of_the_lock(
    here: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "venv"
    own.mkdir()
    (own / "pyvenv.cfg").write_text("home = /usr/bin\n")
    variables = environ(home, VIRTUAL_ENV=own)
    monkeypatch.setattr("cuenv.prefix.io.environments.find_spec", lambda name: None)
    LOCK.write_text("")
    both = CheckRequest(lock=LOCK, prefix=own, against=LOCK)
    assert parse_check_request(None, variables) == both
    monkeypatch.setattr("sys.prefix", str(own))
    assert parse_check_request(None, variables) == CheckRequest(lock=LOCK, against=LOCK)
    assert parse_check_request(None, variables, prefix=own) == CheckRequest(prefix=own, against=LOCK)
    monkeypatch.setattr("cuenv.prefix.io.environments.find_spec", lambda name: object())
    assert parse_check_request(None, variables) == both
    LOCK.unlink()
    assert parse_check_request(None, variables) == CheckRequest(prefix=own)
    monkeypatch.setattr("cuenv.prefix.io.environments.find_spec", lambda name: None)
    with pytest.raises(InputError, match="does not exist, and the active environment contains cuenv but no torch"):
        parse_check_request(None, variables)


def test_the_part_that_is_meant_is_that_of_the_lock_at_hand(here: Path, home: Path, tmp_path: Path) -> None:
    part = LockPart(environment="gpu")
    variables = environ(home, CONDA_PREFIX=env(tmp_path / "active"))
    other = Path("pixi.lock")
    other.touch()
    assert parse_check_request(None, variables, part=part) == CheckRequest(lock=other, part=part)
    LOCK.touch()
    for found in (parse_check_request(None, environ(home), part=part), parse_check_request(None, variables, part=part)):
        assert (found.lock, found.against, found.part) == (LOCK, LOCK, part)


def test_what_is_named_counts_alone(here: Path, home: Path, tmp_path: Path) -> None:
    active, other = env(tmp_path / "active"), env(home / ".conda/envs/other")
    variables = environ(home, CONDA_PREFIX=active)
    path = Path("other.yml")
    assert parse_check_request(path, variables) == CheckRequest(lock=path)
    assert parse_check_request(None, variables, prefix=other) == CheckRequest(prefix=other)
    assert parse_check_request(None, variables, name="other") == CheckRequest(prefix=other)
    assert parse_check_request(None, variables, lock=path) == CheckRequest(prefix=active, against=path, named=True)
    assert parse_check_request(None, variables, prefix=other, lock=path) == CheckRequest(
        prefix=other, against=path, named=True
    )
    assert parse_check_request(path, variables, prefix=other) == CheckRequest(
        lock=path, prefix=other, against=path, named=True
    )
    LOCK.write_text("")
    assert parse_check_request(None, variables, prefix=other) == CheckRequest(prefix=other, against=LOCK)


def test_what_excludes_itself_is_refused(here: Path, home: Path) -> None:
    for words in ({"prefix": Path("a"), "name": "b"}, {"lock": Path("a")}):
        with pytest.raises(UsageError):
            parse_check_request(None, environ(home), **words)
    with pytest.raises(UsageError, match="given twice"):
        parse_check_request(Path("a"), environ(home), prefix=Path("b"), lock=Path("c"))


def test_a_name_that_conda_and_micromamba_both_have_is_asked_back(home: Path, tmp_path: Path) -> None:
    places = [env(tmp_path / root / "envs/x") for root in ("conda", "mamba")]
    variables = environ(home, CONDA_EXE=tmp_path / "conda/bin/conda", MAMBA_ROOT_PREFIX=tmp_path / "mamba")
    with pytest.raises(UsageError) as caught:
        named_environment("x", variables)
    assert all(str(place) in caught.value.message for place in places)
    same = environ(home, CONDA_EXE=tmp_path / "mamba/bin/conda", MAMBA_ROOT_PREFIX=tmp_path / "mamba")
    assert named_environment("x", same) == places[1]
