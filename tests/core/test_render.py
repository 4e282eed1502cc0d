"""Every command that prints findings prints them in each form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import inside as run
from cuenv.core.findings import FORMS, CheckResult, Finding, Report, counted, report
from cuenv.core.render import codequality, place_lines, report_lines, sarif

RECIPE = "channels: [conda-forge]\ndependencies: [pytorch-cuda=12.1, pytorch=2.5]\n"
HOST = ("--gpu", "V100", "--driver", "450.80.02", "--glibc", "2.35", "--platform", "linux-64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("forms")
    assert run("demo", "--dir", "demo", folder=made).returncode == 0
    (made / "environment.yml").write_text(RECIPE)
    (made / "train.log").write_text("step 1\ntorch.cuda.OutOfMemoryError: CUDA out of memory.\n")
    return made


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("words", "code", "finding"),
    [
        (("lint", "--strict"), 1, "CU104"),
        (("check", "demo/conda-lock.yml", *HOST), 1, "CU401"),
        (("diff", "demo/conda-lock.yml", "demo/conda-lock.yml", *HOST), 0, ""),
        (("diagnose", "train.log", *HOST), 1, "out-of-memory"),
        (("lock", "environment.yml", "--offline", *HOST), 1, "CU401"),
        (("lock", "demo/environment.yml", "--check"), 0, ""),
    ],
)
def test_each_format_holds_the_finding_and_the_exit_code(
    folder: Path, words: tuple[str, ...], code: int, finding: str, form: str
) -> None:
    done = run(*words, "--format", form, folder=folder)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if form == "text":
        assert done.stdout == run(*words, folder=folder).stdout
        return
    assert finding in done.stdout
    if form == "json":
        assert json.loads(done.stdout) == json.loads(run(*words, "--json", folder=folder).stdout)
    elif form == "sarif":
        assert json.loads(done.stdout)["version"] == "2.1.0"
    elif form == "codequality":
        rows = json.loads(done.stdout)
        assert all({"description", "check_name", "fingerprint", "severity", "location"} == row.keys() for row in rows)
        assert len({row["fingerprint"] for row in rows}) == len(rows)
    elif form == "github":
        assert all(line.startswith("::") for line in done.stdout.splitlines())
    else:
        assert done.stdout.startswith("### ")


def test_a_count_has_its_noun() -> None:
    assert [counted(count, "error") for count in (0, 1, 2)] == ["0 errors", "1 error", "2 errors"]
    finding = Finding(code="CU101", severity="error", subject="x", message="broken", at=(3, 5))
    made = Report(title="x", findings=(finding,))
    assert report_lines(made)[-1] == "1 error"
    assert place_lines([CheckResult(report=made, file="x.yml")]) == [
        "x.yml:3:5: error CU101 broken",
        "1 file: 1 error, 0 warnings",
    ]


def test_sarif_names_a_place_only_where_there_is_a_file() -> None:
    finding = Finding(code="CU101", severity="info", subject="x", message="broken")
    report = Report(title="x", findings=(finding,))
    first, second = json.loads(sarif([CheckResult(report=report), CheckResult(report=report, file="a b.yml")]))["runs"][
        0
    ]["results"]
    assert "locations" not in first
    assert second["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b.yml"


def test_code_quality_has_a_place_a_severity_and_a_fingerprint_of_its_own_for_each_finding() -> None:
    """As GitLab wants it: fingerprints stay when another finding comes or a line moves, and never appear twice."""
    findings = [
        Finding(code="CU101", severity="error", subject="x", message="broken", at=(7, 2)),
        Finding(code="CU101", severity="warning", subject="x", message="broken"),
        Finding(code="CU101", severity="info", subject="x", message="broken", at=(9, 1)),
    ]
    rows = json.loads(codequality([CheckResult(report=report("title", findings), file="a b.yml")]))
    assert [(row["severity"], row["location"]) for row in rows] == [
        ("critical", {"path": "a b.yml", "lines": {"begin": 7}}),
        ("minor", {"path": "a b.yml", "lines": {"begin": 1}}),
        ("info", {"path": "a b.yml", "lines": {"begin": 9}}),
    ]
    assert len({row["fingerprint"] for row in rows}) == 3
    moved = Finding(code="CU101", severity="error", subject="x", message="broken", at=(70, 2))
    (row,) = json.loads(codequality([CheckResult(report=report("title", [moved]), file="a b.yml")]))
    assert row["fingerprint"] == rows[0]["fingerprint"]
    (row,) = json.loads(codequality([CheckResult(report=report("title", [moved]))]))
    assert row["location"]["path"] == "title"
    assert json.loads(codequality([])) == []


def test_what_mends_several_findings_in_a_row_is_said_once() -> None:
    """Behind the last of them; another finding between them keeps its own."""
    fixes = ("cuenv lock", "cuenv lock", None, "cuenv lock", "add pip")
    findings = [
        Finding(code="CU101", severity="error", subject="a", message=f"number {number}", fix=fix)
        for number, fix in enumerate(fixes)
    ]
    said = [line.split()[-1] for line in report_lines(report("x", findings))[1:-1]]
    assert said == ["0", "1", "lock", "2", "3", "lock", "4", "pip"]
