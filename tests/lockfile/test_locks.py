"""The locks in the repository: each passes its check, is up to date, and is made again byte for byte."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from cases import collect, quick
from commands import inside as run
from cuenv.solve.environment_yml import parse

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(path.parent for path in (ROOT / "locks").glob("*/conda-lock.yml"))


def _host(folder: Path) -> list[str]:
    """The host options that the environment file itself names."""
    lines = (folder / "environment.yml").read_text(encoding="utf-8").splitlines()
    command = next(line for line in lines if "cuenv lock environment.yml" in line)
    return command.split("environment.yml", 1)[1].split()


def _without_pip(folder: Path) -> list[str]:
    """What pip adds names the index of whoever locks, so the locks in the repository leave it out, and say so."""
    spec, _ = parse((folder / "environment.yml").read_text(encoding="utf-8"), "environment.yml")
    return ["--allow", "CU501"] if spec.pip else []


def test_there_is_a_lock_for_every_profile() -> None:
    assert {folder.name for folder in FOLDERS} == {path.stem for path in (ROOT / "profiles").glob("*.yml")}


@collect("folder", FOLDERS)
def test_the_head_says_what_pip_adds(folder: Path) -> None:
    spec, _ = parse((folder / "environment.yml").read_text(encoding="utf-8"), "environment.yml")
    for file in folder.glob("conda-*.lock*"):
        if file.suffix == ".lock" or file.name.endswith(".lock.yml"):
            text = file.read_text(encoding="utf-8")
            assert ("# Not locked (--allow CU501): what pip adds: " in text) == bool(spec.pip)
            assert all(item in text for item in spec.pip)


@collect("folder", FOLDERS)
def test_a_committed_lock_is_fine_and_up_to_date(folder: Path, tmp_path: Path) -> None:
    checked = run("check", folder / "conda-lock.yml", "--json", *_host(folder), folder=tmp_path)
    report = json.loads(checked.stdout)
    assert checked.returncode == 0
    assert report["findings"] == []
    assert run("lock", folder / "environment.yml", "--check", folder=tmp_path).returncode == 0


@collect("folder", FOLDERS)
def test_a_committed_lock_names_the_canonical_host_alone(folder: Path) -> None:
    for file in folder.iterdir():
        hosts = set(re.findall(r"https?://[^/\s\"]+", file.read_text(encoding="utf-8")))
        assert hosts <= {"https://conda.anaconda.org"}


@collect("folder", FOLDERS)
def test_a_committed_decision_names_its_profile_and_no_path_of_whoever_made_it(folder: Path) -> None:
    text = (folder / "decision.json").read_text(encoding="utf-8")
    assert set(re.findall(r"--profile ([^\s\"]+)", text)) <= {f"../../profiles/{folder.name}.yml"}
    assert not re.search(r"[\s\"]/(?:home|root|tmp|work|Users)/", text)


@pytest.mark.slow
@pytest.mark.parametrize("folder", quick(FOLDERS, first=2), ids=lambda folder: folder.name)
def test_a_committed_lock_is_made_again_byte_for_byte(folder: Path, tmp_path: Path, records: Path) -> None:
    shutil.copy(folder / "environment.yml", tmp_path / "environment.yml")
    places = [f"{name}={records / name}" for name in ("conda-forge", "pytorch", "nvidia")]
    mirrors = [word for place in places for word in ("--mirror", place)]
    done = run("lock", *_host(folder), *_without_pip(folder), *mirrors, folder=tmp_path, CONDA_OVERRIDE_LINUX="4.18")
    assert done.returncode == 0, done.stderr
    for file in (*folder.glob("conda*"), *folder.glob("requirements*")):
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()
