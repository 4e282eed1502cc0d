"""``cuenv`` alone: what lies here, and what to type next."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from cases import collect
from commands import inside as run
from commands import run as process
from cuenv.cli.main import COMMANDS
from cuenv.core.io.process import setup_command
from cuenv.demo.next_step import next_step

SPEC = "name: x\nchannels: [conda-forge]\ndependencies: [numpy]\n"


def first(folder: Path, environ: dict[str, str] | None = None) -> str:
    return next_step(folder, environ or {}).commands[0][0]


def test_an_empty_folder_begins_with_the_demo(tmp_path: Path) -> None:
    assert first(tmp_path) == "cuenv demo"
    done = run(folder=tmp_path)
    assert done.returncode == 0
    assert "environment.yml: not in this folder" in done.stdout
    assert "cuenv lock --resolve" in done.stdout
    assert "all commands: cuenv --help" in done.stdout


def test_a_list_of_requirements_is_named_and_locked(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch\n", encoding="utf-8")
    assert first(tmp_path) == "cuenv lock requirements.txt"
    done = run(folder=tmp_path).stdout
    assert "requirements.txt: found" in done
    assert max(map(len, done.splitlines())) < 150


def test_an_environment_file_is_linted_and_locked(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(SPEC, encoding="utf-8")
    assert [command for command, _ in next_step(tmp_path, {}).commands] == ["cuenv lint", "cuenv lock"]


def test_what_cuenv_wrote_is_locked_for_the_machine_that_it_names(tmp_path: Path) -> None:
    run("resolve", "--gpu", "V100", "--driver", "535", "--glibc", "2.31", "-o", "environment.yml", folder=tmp_path)
    assert next_step(tmp_path, {}).commands[1][0].endswith("--gpu 7.0 --driver 535 --glibc 2.31")
    file = tmp_path / "environment.yml"
    file.write_text("# Written by cuenv\n#   cuenv lock environment.yml; reboot\n" + SPEC, encoding="utf-8")
    assert next_step(tmp_path, {}).commands[1][0] == "cuenv lock"
    file.write_bytes(b"\xff")
    assert next_step(tmp_path, {}).commands[1][0] == "cuenv lock"


def test_a_fresh_lock_is_checked_and_a_stale_one_made_again(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source = request.config.rootpath / "locks/universal-dev"
    for name in ("environment.yml", "conda-lock.yml"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    assert first(tmp_path) == "cuenv check"
    (tmp_path / "environment.yml").write_text(SPEC, encoding="utf-8")
    step = next_step(tmp_path, {})
    assert step.commands[0][0] == "cuenv lock"
    assert "changed" in step.found[1]
    (tmp_path / "environment.yml").write_text("dependencies: [", encoding="utf-8")
    assert "line 2, column 1" in next_step(tmp_path, {}).found[1]
    (tmp_path / "environment.yml").unlink()
    assert first(tmp_path) == "cuenv check"


def test_a_lock_is_compared_with_the_file_that_it_names(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source = request.config.rootpath / "locks/universal-dev"
    text = (source / "conda-lock.yml").read_text(encoding="utf-8")
    (tmp_path / "conda-lock.yml").write_text(text.replace('"environment.yml"', '"mended.yml"'), encoding="utf-8")
    (tmp_path / "mended.yml").write_bytes((source / "environment.yml").read_bytes())
    (tmp_path / "environment.yml").write_text(SPEC, encoding="utf-8")  # what was refused
    step = next_step(tmp_path, {})
    assert step.found == ("mended.yml: found", "conda-lock.yml: found")
    assert step.commands[0][0] == "cuenv check"
    done = run("lock", "--check", folder=tmp_path)
    assert "environment.yml changed" not in done.stdout
    assert "mended.yml, which conda-lock.yml was made from" in done.stderr
    named = run("lock", "--check", "environment.yml", folder=tmp_path)
    assert named.returncode == 1
    assert "environment.yml changed" in named.stdout


def test_the_active_environment_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "my env"
    folder.mkdir()
    commands = [command for command, _ in next_step(tmp_path, {"CONDA_PREFIX": str(folder)}).commands]
    assert shlex.split(commands[-1]) == ["cuenv", "check", "--prefix", str(folder)]
    assert "active" not in " ".join(next_step(tmp_path, {"CONDA_PREFIX": "/nowhere"}).found)
    venv = tmp_path / "venv"
    venv.mkdir()
    both = {"CONDA_PREFIX": str(folder), "VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:{folder}/bin"}
    assert next_step(tmp_path, both).commands[-1][0] == f"cuenv check --prefix {venv}"


def test_what_it_names_are_commands(tmp_path: Path) -> None:
    for words in re.findall(r"^  cuenv ([a-z-]+)", run(folder=tmp_path).stdout, re.MULTILINE):
        assert words in COMMANDS


@collect("called", ["bin/cuenv", "./bin/cuenv", "ABSOLUTE/bin/cuenv", "a b's/bin/cuenv"])
@collect("environment", [True, False])
def test_the_commands_that_are_printed_work_where_cuenv_is_not_on_path(
    tmp_path: Path, called: str, *, environment: bool
) -> None:
    program = Path(called.replace("ABSOLUTE", str(tmp_path)))
    folder = (tmp_path / program).parent
    folder.mkdir(parents=True)
    (folder / "cuenv").write_text("#!/bin/sh\necho it runs\n")
    (folder / "cuenv").chmod(0o755)
    if environment:
        (folder / "activate").write_text(f"PATH={shlex.quote(str(folder))}:$PATH\n")
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        line = setup_command({"PATH": "/usr/bin:/bin"}, called.replace("ABSOLUTE", str(tmp_path)))
    finally:
        os.chdir(here)
    script = f"{line}\ncuenv --version"
    bare = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=bare, capture_output=True, check=True)
    assert done.stdout == b"it runs\n"
    assert line.startswith(". ") == environment


@pytest.mark.slow
def test_where_cuenv_is_on_path_nothing_is_typed_before(tmp_path: Path) -> None:
    (tmp_path / "cuenv").write_text("#!/bin/sh\n")
    (tmp_path / "cuenv").chmod(0o755)
    assert setup_command({"PATH": f"/nowhere:{tmp_path}"}, ".venv/bin/cuenv") == ""
    assert setup_command({}, "/x/cuenv/__main__.py").startswith("alias cuenv=")
    nowhere = {"PATH": "/usr/bin:/bin"}
    for words in ((), ("demo",)):
        assert setup_command(nowhere) in process(*words, folder=tmp_path, PATH="/usr/bin:/bin").stdout
        assert "alias cuenv=" in process(*words, folder=tmp_path, PATH="/usr/bin:/bin").stdout
