"""What a lock sets aside, installed by a real pip with the commands that are printed: own packages, a local index."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from commands import run
from pip_index import index, pip_of_this_python, variables, wheel

HERE = f"3.{sys.version_info.minor}"
_SETUP = """\
import base64, hashlib, pathlib, zipfile
from importlib.metadata import version

{first}
WHEEL = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"


def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as archive:
        archive.writestr("{name}.py", "made = 1\\n")
        archive.writestr("{name}-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n")
        archive.writestr("{name}-1.0.dist-info/WHEEL", WHEEL)
        archive.writestr("{name}-1.0.dist-info/RECORD", "")
    return name


build_editable = build_wheel
"""


def project(folder: Path, name: str, *, first: str = "") -> Path:
    """A project of Python with a backend of its own, which runs ``first``, as the setup of a CUDA extension does."""
    folder.mkdir(parents=True)
    text = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (folder / "pyproject.toml").write_text(f'{text}[project]\nname = "{name}"\nversion = "1.0"\n')
    (folder / "backend.py").write_text(_SETUP.format(name=name, first=first))
    if first:
        (folder / "setup.py").write_text("from torch.utils.cpp_extension import CUDAExtension\n")
    return folder


def repository(folder: Path, name: str) -> str:
    """The same as a repository of git: its commit."""
    project(folder, name)
    user = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "."), (*user, "commit", "-q", "-m", "all of it")):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    return found.stdout.strip()


def pip_there(folder: Path) -> Path:
    """The programs of a new environment with the pip of this one."""
    pip = pip_of_this_python()
    venv.create(folder, with_pip=False)
    (folder / "lib" / f"python{HERE}" / "site-packages" / "pip").symlink_to(pip)
    return folder / "bin"


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheel of the test is for x86_64")
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commands_that_are_printed_install_what_was_set_aside(tmp_path: Path) -> None:
    files, here = tmp_path / "files", tmp_path / "project"
    tag = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-manylinux_2_17_x86_64"
    for version in ("2.14.1+cu126", "2.15.0+cu126"):
        wheel(files, "torch", version, tag=tag)
    wheel(files, "einops", "0.8.0")
    project(here / "ops", "ops", first="assert version('torch') == '2.14.1+cu126'")
    commit = repository(tmp_path / "tool", "tool")
    needs_newer = project(here / "greedy", "greedy") / "pyproject.toml"
    needs_newer.write_text(needs_newer.read_text() + 'dependencies = ["torch"]\n')
    asked = ["torch==2.14.1+cu126", "einops", "ops/", "-e ./greedy", f"git+file://{tmp_path}/tool@{commit}#egg=tool"]
    with index(files) as server:
        pip = [f"--index-url {server.url}/simple", *asked]
        lines = "\n".join(f"      - {item}" for item in pip)
        text = f"channels: [conda-forge]\ndependencies:\n  - python={HERE}\n  - pip\n  - pip:\n{lines}\n"
        (here / "environment.yml").write_text(text)
        options = ("--gpu", "GTX 1080", "--driver", "580.65.06", "--glibc", "2.35")
        user: dict[str, Any] = variables(tmp_path / "home", f"{server.url}/none")
        done = run("lock", "--format", "requirements", *options, folder=here, **user)
        assert done.returncode == 0, done.stdout + done.stderr
        says = next(line for line in done.stderr.splitlines() if line.startswith("then install in the environment"))
        afterwards = says.rpartition(": ")[2]
        assert "--no-build-isolation" in afterwards  # the setup of one of them imports torch
        found = pip_there(tmp_path / "environment")
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "PYTHON"))}
        mine |= {"PATH": f"{found}:{os.environ['PATH']}", "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
        for command in ("python -m pip install --require-hashes --no-deps -r requirements.lock.txt", afterwards):
            made = subprocess.run(
                ["/bin/sh", "-ec", command], cwd=here, env=mine, capture_output=True, text=True, check=False
            )
            assert made.returncode == 0, made.stdout + made.stderr
    there = found.parent / "lib" / f"python{HERE}" / "site-packages"
    assert {item.name for item in there.glob("*-*.dist-info")} == {
        "torch-2.14.1+cu126.dist-info",
        "einops-0.8.0.dist-info",
        "ops-1.0.dist-info",
        "greedy-1.0.dist-info",
        "tool-1.0.dist-info",
    }


def test_what_was_found_before_an_index_failed_is_told_before_the_reason(tmp_path: Path) -> None:
    text = "channels: [conda-forge]\ndependencies: [python=3.12, git, pip, {pip: [einops]}]\n"
    (tmp_path / "environment.yml").write_text(text)
    words = ("lock", "--format", "requirements", "--gpu", "RTX 4090", "--driver", "535.129.03", "--glibc", "2.35")
    told = run(*words, folder=tmp_path, UV_DEFAULT_INDEX="http://127.0.0.1:9/simple", UV_HTTP_RETRIES="0")
    assert told.returncode == 3
    first, _, last = told.stderr.partition("\nerror: ")
    assert "warning CU517 the lock contains only pip packages and leaves out conda packages: git" in first
    assert "cannot be reached" in last
