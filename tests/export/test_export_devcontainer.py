"""``cuenv export devcontainer``: a file by the public schema, whose first command checks the host."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cases import collect
from commands import inside as run
from cuenv.core.errors import ExitCode
from cuenv.core.versions import Capability
from cuenv.export.io.own_wheel import NAME
from cuenv.knowledge.io.load import load
from cuenv.lint import Machine
from cuenv.lint.dockerfile import parse
from cuenv.lint.files import lint

pytestmark = pytest.mark.io

LOCKS = Path(__file__).resolve().parents[2] / "locks"
A100 = ("--gpu", "A100", "--driver", "535.129.03", "--glibc", "2.35")
KEYS = {"name", "build", "hostRequirements", "runArgs", "remoteUser", "postStartCommand", "waitFor", "customizations"}
"""Those of devContainer.base.schema.json of github.com/devcontainers/spec that we use."""


def loaded(text: str) -> dict[str, Any]:
    """What an editor reads: JSON with comments on lines of their own."""
    data = json.loads("\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//")))
    assert isinstance(data, dict)
    return data


def export(folder: Path, *words: str) -> dict[str, Any]:
    done = run("export", "devcontainer", "-o", ".", *words, folder=folder)
    assert done.returncode == ExitCode.OK, done.stderr
    return loaded((folder / ".devcontainer" / "devcontainer.json").read_text())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LOCKS / "universal-dev", tmp_path / "project"))


def test_its_first_command_checks_the_host_and_the_editor_waits_for_it(project: Path) -> None:
    data = export(project)
    assert set(data) == KEYS
    assert data["hostRequirements"] == {"gpu": True}
    check = data["postStartCommand"].split()
    assert check[1:] == ["check", "--prefix", "/opt/env", "--lock", "/opt/cuenv/conda-lock.yml"]
    assert data["waitFor"] == "postStartCommand"
    assert data["build"] == {"dockerfile": "Dockerfile", "context": ".."}
    assert (project / NAME).exists()


def test_the_image_has_what_the_check_needs_and_passes_our_own_lint(project: Path) -> None:
    data = export(project)
    path = project / ".devcontainer" / "Dockerfile"
    steps = parse(path.read_text(), "Dockerfile")
    last = [item.text.strip() for item in steps[[item.name for item in steps].index("FROM", 5) :]]
    assert "--from=build /opt/cuenv /opt/cuenv" in last
    assert any("shell-hook --prefix /opt/env" in text for text in last)
    assert any(f"--uid 10001 --shell /bin/bash {data['remoteUser']}" in text for text in last)
    assert lint(path, None, Machine(gpus=(Capability.parse("8.0"),)), load(None)).lints == ()
    sent = (project / ".devcontainer" / "Dockerfile.dockerignore").read_text().splitlines()
    assert [line for line in sent if not line.startswith("#")] == ["*", "!conda-lock.yml", f"!{NAME}"]


@collect(
    ("words", "gpu", "lock"),
    [
        (A100, True, True),
        (("--gpu", "A100", "--cpu"), False, False),
        ((*A100, "--stack", "pytorch", "--cuda", "12.1"), True, False),
        (("--base", "cuda"), True, True),
    ],
)
def test_a_gpu_is_asked_for_where_one_is_needed(project: Path, words: tuple[str, ...], gpu: bool, lock: bool) -> None:
    data = export(project, *words)
    assert ("hostRequirements" in data) == gpu
    assert ("--lock" in data["postStartCommand"]) == lock
    assert "/opt/env/bin/python" in data["customizations"]["vscode"]["settings"].values()


def test_an_edited_file_is_kept_and_one_of_ours_is_not(project: Path) -> None:
    export(project)
    path = project / ".devcontainer" / "devcontainer.json"
    export(project, *A100)
    assert not path.with_name("devcontainer.json.bak").exists()
    path.write_text(path.read_text().replace("--ipc=host", "--shm-size=8g"))
    said = run("export", "devcontainer", "-o", ".", folder=project).stderr
    assert "--shm-size=8g" in path.with_name("devcontainer.json.bak").read_text()
    assert "kept" in said


def test_without_a_folder_the_file_is_printed_and_json_has_all(project: Path) -> None:
    done = run("export", "devcontainer", folder=project)
    assert loaded(done.stdout)["remoteUser"] == "work"
    assert not (project / ".devcontainer").exists()
    data = json.loads(run("export", "devcontainer", "--json", folder=project).stdout)
    assert [Path(name).name for name in data["files"]] == ["devcontainer.json", "Dockerfile", "Dockerfile.dockerignore"]


def test_what_cannot_be_built_is_refused(project: Path) -> None:
    (project / "empty.yml").write_text("")
    for words, code in (
        (("missing",), ExitCode.INPUT),
        (("empty.yml",), ExitCode.INPUT),
        (("--base", "pytorch"), ExitCode.USAGE),
        (("conda-lock.yml", "-o", "conda-lock.yml"), ExitCode.USAGE),
        ((str(LOCKS / "inference"), "-o", "."), ExitCode.USAGE),
        (("--digest", f"ubuntu:24.04=sha256:{'0' * 64}"), ExitCode.USAGE),
    ):
        done = run("export", "devcontainer", *words, folder=project)
        assert done.returncode == code, (words, done.stderr)
        assert "Traceback" not in done.stderr
        assert "export dockerfile" not in done.stderr
