"""``cuenv export github-action``: a workflow that GitHub's schema takes, and steps that are commands of ours."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cases import collect
from commands import inside as run
from cuenv.core.errors import ExitCode, InputError
from cuenv.export.io.own_wheel import NAME
from cuenv.export.jobs import RUNNERS, Workflow, render_gitlab, render_workflow
from cuenv.export.tables import load_delivery
from deliveries import both_platforms
from oracles import text as text_of

LOCKS = Path(__file__).resolve().parents[2] / "locks"


def export(folder: Path, *words: str | Path) -> str:
    done = run("export", "github-action", *words, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(text: str) -> dict[str, Any]:
    data: dict[Any, Any] = yaml.safe_load(text)
    return {"on" if key is True else key: value for key, value in data.items()}  # YAML 1.1 reads `on` as true


def repository(folder: Path) -> Path:
    (folder / ".git").mkdir()
    place = folder / "my env"
    shutil.copytree(LOCKS / "universal-dev", place)
    return place


def steps(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in data["jobs"].values() for step in job["steps"]]


def flow(**given: Any) -> Workflow:
    base: dict[str, Any] = {
        "origin": "a test",
        "lock": "conda-lock.yml",
        "environment": "environment.yml",
        "own": ".github/workflows/e.yml",
        "platforms": tuple(RUNNERS),
        "host": (),
        "nvcc": True,
        "cuenv": f"cuenv-0-py3-none-any.whl#sha256={'0' * 64}",
        "wheel": True,
    }
    return Workflow(**{**base, **given})


def test_it_verifies_installs_and_checks(tmp_path: Path) -> None:
    repository(tmp_path)
    data = loaded(export(tmp_path, "my env"))
    assert data["env"]["LOCK"] == "my env/conda-lock.yml"
    assert data["env"]["ENVIRONMENT"] == "my env/environment.yml"
    commands = "\n".join(step.get("run", "") for step in steps(data))
    for words in (
        'cuenv lock --check "$ENVIRONMENT"',
        'cuenv check "$LOCK"',
        'cuenv check --prefix "$PREFIX" --lock "$LOCK"',
    ):
        assert words in commands
    (install,) = [step for step in steps(data) if "micromamba" in step.get("uses", "")]
    assert install["with"]["environment-file"] == "${{ env.LOCK }}"
    assert "hashFiles(env.LOCK)" in install["with"]["cache-environment-key"]
    assert data["permissions"] == {"contents": "read"}
    assert set(data["on"]) == {"push", "pull_request", "workflow_dispatch"}
    assert data["on"]["push"]["paths"] == [
        "my env/environment.yml",
        "my env/conda-lock.yml",
        ".github/workflows/environment.yml",
    ]


def test_what_the_workflow_runs_is_true_for_the_lock_as_it_stands(tmp_path: Path) -> None:
    """The steps that need no installation, run here word for word."""
    repository(tmp_path)
    data = loaded(export(tmp_path, "my env"))
    ours = [step["run"] for step in data["jobs"]["lock"]["steps"] if step.get("run", "").startswith("cuenv ")]
    assert len(ours) == 2
    for line in ours:
        words = shlex.split(
            line.replace('"$LOCK"', shlex.quote(data["env"]["LOCK"])).replace(
                '"$ENVIRONMENT"', shlex.quote(data["env"]["ENVIRONMENT"])
            )
        )
        done = run(*words[1:], folder=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_of_ours_in_the_workflow_is_one_with_these_options(tmp_path: Path) -> None:
    commands = [
        step["run"]
        for step in steps(loaded(export(tmp_path, LOCKS / "universal-dev")))
        if "cuenv " in step.get("run", "")
    ]
    assert {line.split()[1] for line in commands if line.startswith("cuenv ")} == {"lock", "check", "hook"}
    for line in commands:
        if not line.startswith("cuenv "):
            continue
        helped = run(line.split()[1], "--help", folder=tmp_path).stdout
        for option in re.findall(r"--[a-z-]+", line):
            assert option in helped
    plain = export(tmp_path, LOCKS / "inference")
    assert "cuenv hook" not in plain


def test_cuenv_comes_by_a_wheel_of_the_repository_or_a_url_with_its_hash(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    run("export", "github-action", "-o", "w.yml", folder=folder)
    data = loaded((folder / "w.yml").read_text(encoding="utf-8"))
    digest = hashlib.sha256((folder / NAME).read_bytes()).hexdigest()
    assert data["env"]["CUENV"] == f"my%20env/{NAME}#sha256={digest}"
    installs = [step["run"] for step in steps(data) if "pip install" in step.get("run", "")]
    assert len(installs) == 2
    assert all('--quiet "cuenv@file://$GITHUB_WORKSPACE/$CUENV"' in text for text in installs)
    url = f"https://example.org/c.whl#sha256={'0' * 64}"
    other = loaded(export(folder, "--cuenv", url))
    assert other["env"]["CUENV"] == f"cuenv@{url}"
    assert all('--quiet "$CUENV"' in step["run"] for step in steps(other) if "pip install" in step.get("run", ""))


def test_what_cuenv_writes_into_a_folder_passes_its_own_lint(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    run("export", "github-action", "-o", "environment-workflow.yml", folder=folder)
    run("export", "dockerfile", "-o", ".", folder=folder)
    done = run("lint", folder=folder)
    assert done.returncode == 0, done.stdout
    assert "environment-workflow.yml" not in done.stdout


def test_actions_are_named_by_commit_and_machines_by_release(tmp_path: Path) -> None:
    text = export(tmp_path, LOCKS / "universal-dev")
    for line in re.findall(r"uses: (\S+)", text):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", line), line
    assert "latest" not in text
    assert all(job["timeout-minutes"] for job in loaded(text)["jobs"].values())


def test_scripts_hold_no_expression_that_a_name_could_fill(tmp_path: Path) -> None:
    for step in steps(loaded(export(tmp_path, LOCKS / "universal-dev"))):
        assert "${{" not in step.get("run", "")
        if "run" in step:
            subprocess.run(["/bin/bash", "-n", "-c", step["run"]], check=True)


def test_each_platform_of_the_lock_is_installed_on_a_machine_of_its_own(tmp_path: Path) -> None:
    both_platforms(tmp_path)
    shutil.copy(LOCKS / "inference" / "environment.yml", tmp_path)
    data = loaded(export(tmp_path))
    rows = data["jobs"]["install"]["strategy"]["matrix"]["include"]
    assert [row["platform"] for row in rows] == ["linux-64", "linux-aarch64"]
    assert rows[1]["runner"].endswith("-arm")


def test_a_host_of_the_options_is_judged_in_every_check(tmp_path: Path) -> None:
    text = export(tmp_path, LOCKS / "universal-dev", "--gpu", "RTX 4090", "--driver", "535.129.03")
    assert text.count("--gpu 8.9 --driver 535.129.03") == 3


def test_it_is_written_in_its_place_whole(tmp_path: Path) -> None:
    repository(tmp_path)
    target = tmp_path / ".github/workflows/gpu env.yml"
    target.parent.mkdir(parents=True)
    target.write_text("on: push\n")
    assert export(tmp_path, "my env", "-o", target) == ""
    assert loaded(target.read_text())["on"]["push"]["paths"][-1] == ".github/workflows/gpu env.yml"
    assert target.with_name("gpu env.yml.bak").read_text() == "on: push\n"
    data = json.loads(run("export", "github-action", "my env", "--json", folder=tmp_path).stdout)
    assert (data["schema"], data["kind"]) == ("cuenv/export/1", "github-action")


@collect(
    "change",
    [
        {"host": ("--gpu", "${{ secrets.X }}")},
        {"host": ("a\nb",)},
        {"lock": "a${{ x }}.yml"},
        {"lock": "a\nb"},
        {"environment": "a*b"},
    ],
)
def test_what_would_be_an_expression_is_refused(change: dict[str, Any]) -> None:
    delivery = load_delivery()
    actions = (delivery.action("actions/checkout"), delivery.action("mamba-org/setup-micromamba"))
    with pytest.raises(InputError):
        render_workflow(flow(**change), *actions)
    with pytest.raises(InputError):
        render_gitlab(flow(**change), "image", ("gpu",))


def test_what_cannot_be_verified_is_refused(tmp_path: Path) -> None:
    shutil.copy(LOCKS / "universal-dev" / "conda-lock.yml", tmp_path / "alone.yml")
    (tmp_path / "bare").mkdir()
    shutil.copy(LOCKS / "universal-dev" / "conda-lock.yml", tmp_path / "bare")
    (tmp_path / "empty.yml").write_text("")
    shutil.copytree(LOCKS / "universal-dev", tmp_path / "whole")  # a wheel is put beside a lock
    for words, code in (
        (("missing",), ExitCode.INPUT),
        (("alone.yml",), ExitCode.USAGE),
        (("bare",), ExitCode.INPUT),
        (("empty.yml",), ExitCode.INPUT),
        ((LOCKS / "universal-dev" / "conda-linux-64.lock",), ExitCode.USAGE),
        (("whole", "-o", "empty.yml/folder/x.yml"), ExitCode.OUTSIDE),
        ((LOCKS / "universal-dev", "--gpu", "no such card"), ExitCode.USAGE),
    ):
        done = run("export", "github-action", *words, folder=tmp_path)
        assert done.returncode == code, (words, done.stderr)
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_public_schema_of_workflows_takes_it(tmp_path: Path) -> None:
    schema = json.loads(text_of("check-jsonschema==0.39.0", "vendor/github-workflows.json"))
    for words in ((LOCKS / "universal-dev",), (LOCKS / "zero3-offload", "--gpu", "A100", "--driver", "535.129.03")):
        jsonschema.validate(loaded(export(tmp_path, *words)), schema)
