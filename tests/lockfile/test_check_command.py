"""``cuenv check`` as it is typed: which reports it prints, in which form, with which exit code."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cases import collect
from commands import inside as run
from cuenv.core.errors import ExitCode
from cuenv.core.findings import CheckResult, Finding, judged, report
from cuenv.core.render import github, markdown
from cuenv.host.facts import HostFacts
from cuenv.host.io.probe import probe
from cuenv.host.io.record import Private, scrub_report
from cuenv.lockfile.formats.conda_lock import render
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.model import Lock
from given import package, solution
from prefixes import make_buildable

HOST = ("--host", "rtx4090-535")
V100 = ("--gpu", "V100", "--driver", "450.80.02", "--glibc", "2.35")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lock and the environment that was made from it."""
    folder = tmp_path_factory.mktemp("demo")
    done = run("demo", "--dir", "made", folder=folder)
    assert done.returncode == ExitCode.OK, done.stderr
    make_buildable(folder / "made/env")  # the compilers of the sample compile nothing
    return folder / "made"


def test_one_line_for_each_check(demo: Path) -> None:
    done = run("check", "--prefix", "env", *HOST, folder=demo)
    assert done.returncode == ExitCode.OK, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("env: conda environment, rtx4090-535: ")
    assert [line.split()[0] for line in lines[1:4]] == ["ok", "ok", "ok"]
    assert re.fullmatch(r"ok   packages +\d+ conda packages; against the lock", lines[1])
    assert lines[-1] == "fine"


def test_the_torch_of_a_lock_is_held_against_the_nvcc_on_path(demo: Path) -> None:
    told = json.loads(run("check", "conda-lock.yml", "--host", "rtx4090-560-nvcc101", "--json", folder=demo).stdout)
    (found,) = [item for item in told["findings"] if item["code"] == "CU412"]
    assert found["message"].startswith("nvcc 10.1.243 of ")
    assert "cannot build extensions for a torch of CUDA 12." in found["message"]


@collect(("platforms", "errors"), [(("linux-64", "linux-aarch64"), 0), (("linux-aarch64",), 1)])
def test_each_of_several_platforms_is_judged_for_itself_and_another_one_alone_is_an_error(
    tmp_path: Path, platforms: tuple[str, ...], errors: int
) -> None:
    made = tuple(solution(package("numpy", "2.3.1", subdir=item), platform=item) for item in platforms)
    lock = Lock(channels=("conda-forge",), sources=(), solutions=made, metadata={"cuenv_content": "edited"})
    spec = EnvironmentSpec(name="test", channels=("conda-forge",), pins=())
    (tmp_path / "conda-lock.yml").write_text(render(lock, spec))
    done = run("check", "conda-lock.yml", *HOST, "--json", folder=tmp_path)
    found = [item for item in json.loads(done.stdout)["findings"] if item["code"] == "CU106"]
    assert [item["severity"] for item in found] == ["error"] * errors, found


def test_without_arguments_both_are_reported_and_the_worse_counts(demo: Path, tmp_path: Path) -> None:
    shutil.copy(demo / "conda-lock.yml", tmp_path)
    shutil.copytree(demo / "env", tmp_path / "env", symlinks=True)
    active = str(tmp_path / "env")
    done = run("check", *HOST, folder=tmp_path, CONDA_PREFIX=active)
    assert done.returncode == ExitCode.OK, done.stderr
    lock, environment = done.stdout.split("\n\n")
    assert lock.startswith("conda-lock.yml: ")
    assert environment.startswith(f"{tmp_path}/env: conda environment, ")
    next((tmp_path / "env/conda-meta").glob("mkl-*.json")).unlink()
    told = run("check", "--json", *HOST, folder=tmp_path, CONDA_PREFIX=active)
    assert told.returncode == ExitCode.NEGATIVE
    data = json.loads(told.stdout)
    assert data["schema"] == data["environment"]["schema"] == "cuenv/report/1"
    assert (data["ok"], data["environment"]["ok"], data["findings"]) == (False, False, [])
    assert [item["code"] for item in data["environment"]["findings"]] == ["CU201"]
    (packages,) = [item for item in data["environment"]["checks"] if item["name"] == "packages"]
    assert (packages["status"], packages["codes"]) == ("fail", ["CU201"])
    (tmp_path / "conda-lock.yml").unlink()
    alone = run("check", *HOST, folder=tmp_path, CONDA_PREFIX=active)
    assert (alone.returncode, alone.stdout.count("conda environment")) == (ExitCode.OK, 1)


def test_a_lock_and_an_environment_are_two_reports(demo: Path) -> None:
    done = run("check", "conda-lock.yml", "-p", "env", *V100, "--format", "json", folder=demo)
    assert done.returncode == ExitCode.NEGATIVE
    data = json.loads(done.stdout)
    law = {(item["code"], item["subject"]) for item in data["findings"]}
    assert law == {(item["code"], item["subject"]) for item in data["environment"]["findings"]}
    assert ("CU401", "driver-floor") in law


def test_two_reports_look_at_the_machine_once(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(environ: Mapping[str, str], **more: Any) -> HostFacts:
        asked.append(environ["HOME"])
        return probe(environ, **more)

    monkeypatch.setattr("cuenv.host.io.probe.probe", counted)
    done = run("check", "conda-lock.yml", "-p", "env", folder=demo)
    assert done.stdout.count("env: conda environment, ") == 1, done.stderr
    assert asked == [str(demo)]


def test_an_environment_by_its_name(demo: Path) -> None:
    done = run("check", "-n", "env", *HOST, folder=demo, CONDA_ENVS_DIRS=str(demo))
    assert done.returncode == ExitCode.OK
    assert done.stdout.startswith(f"{demo}/env: ")
    done = run("check", "-n", "nev", *HOST, folder=demo, CONDA_ENVS_DIRS=str(demo))
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert "near: env" in done.stderr


@collect(
    ("words", "code"),
    [
        (("--prefix", "nowhere"), ExitCode.INPUT),
        (("--prefix", "channels"), ExitCode.INPUT),
        (("--prefix", "env", "--name", "env"), ExitCode.USAGE),
        (("--prefix", "env", "--lock", "nowhere.yml"), ExitCode.INPUT),
        (("--prefix", "env", "--lock", "environment.yml"), ExitCode.INPUT),
        (("--lock", "conda-lock.yml"), ExitCode.USAGE),
        (("--format", "xml"), ExitCode.USAGE),
    ],
)
def test_what_cannot_be_checked(demo: Path, words: tuple[str, ...], code: ExitCode) -> None:
    done = run("check", *words, *HOST, folder=demo)
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    if words[0] == "--lock" or words[1] == "nowhere":
        told = run("check", *words, *HOST, "--format", "json", folder=demo)
        assert (told.returncode, told.stderr) == (code, "")
        assert json.loads(told.stdout)["schema"] == "cuenv/error/1"


def test_strict_makes_warnings_count(demo: Path, tmp_path: Path) -> None:
    shutil.copytree(demo / "env", tmp_path / "env", symlinks=True)
    site = next((tmp_path / "env/lib").glob("python3*")) / "site-packages"
    (site / "cut-1.0.dist-info").mkdir()
    words = ("check", "--prefix", "env", *HOST)
    mild, strict = run(*words, folder=tmp_path), run(*words, "--strict", folder=tmp_path)
    assert (mild.returncode, mild.stdout.splitlines()[-1]) == (ExitCode.OK, "fine, 1 warning")
    assert (strict.returncode, strict.stdout.splitlines()[-1]) == (ExitCode.NEGATIVE, "not fine, 1 warning")
    assert json.loads(run(*words, "--strict", "--json", folder=tmp_path).stdout)["ok"] is False
    assert json.loads(run(*words, "--json", folder=tmp_path).stdout)["ok"] is True
    quiet = run(*words, "--strict", "-q", folder=tmp_path).stdout
    assert without_times(quiet) == without_times(strict.stdout)
    assert run(*words, "-q", folder=tmp_path).stdout == ""


def without_times(text: str) -> str:
    return re.sub(r"\(\d+\.\d s\)", "(s)", text)


def test_many_findings_of_one_code_are_cut_short_unless_verbose(demo: Path, tmp_path: Path) -> None:
    shutil.copytree(demo / "env", tmp_path / "env", symlinks=True)
    gone = [path for path in (tmp_path / "env/conda-meta").glob("*.json") if not path.name.startswith("python-3")]
    for path in gone:
        path.unlink()
    words = ("check", "--prefix", "env", "--lock", str(demo / "conda-lock.yml"), *HOST)
    short, long = run(*words, folder=tmp_path).stdout, run(*words, "-v", folder=tmp_path).stdout
    assert f"... and {len(gone) - 8} more CU201: -v shows them" in short
    assert (short.count("error CU201"), long.count("error CU201")) == (8, len(gone))
    told = [item["code"] for item in json.loads(run(*words, "--json", folder=tmp_path).stdout)["findings"]]
    assert told.count("CU201") == len(gone)


def test_annotations_and_tables_as_they_are_typed(demo: Path) -> None:
    github = run("check", "conda-lock.yml", *V100, "--format", "github", folder=demo)
    assert github.returncode == ExitCode.NEGATIVE
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in github.stdout.splitlines())
    assert "::error file=conda-lock.yml,line=1,title=CU401 driver-floor::" in github.stdout
    markdown = run("check", "--prefix", "env", *HOST, "--format", "markdown", folder=demo).stdout
    assert markdown.startswith("### env: fine\n")
    assert "| packages | ok | 25 conda packages; against the lock |" in markdown


def test_nothing_private_is_left(demo: Path, tmp_path: Path) -> None:
    home = tmp_path / "home" / "alice"
    shutil.copytree(demo / "env", home / "envs/alice-env", symlinks=True)
    (home / "envs/alice-env/conda-meta/cut-1-0.json").write_text("")
    words = ("check", "--prefix", str(home / "envs/alice-env"), *HOST, "-v")
    for form in ("text", "json"):
        plain = run(*words, "--format", form, folder=tmp_path, HOME=str(home), USER="alice").stdout
        shared = run(*words, "--format", form, "--redact", folder=tmp_path, HOME=str(home), USER="alice").stdout
        assert str(home) in plain.replace("\\", "")
        assert str(home) not in shared.replace("\\", "")
        assert "/envs/alice-env" in shared.replace("\\", "")


# the formats by themselves


def told(message: str = "x", **more: object) -> CheckResult:
    finding = Finding(
        code="CU999",
        severity="error",
        subject=str(more.pop("subject", "s")),
        message=message,
        evidence=("why",),
        fix="do",
    )
    made = report(str(more.pop("title", "env")), [finding], ("looked",))
    return CheckResult(report=made, host="h", checks=(judged("linkage", message, [finding]),), **more)  # type: ignore[arg-type]


def test_an_annotation_is_one_line_whatever_is_in_it() -> None:
    hostile = "100%\r\n::error file=/etc/passwd::pwned\x1b[31m"
    line = github([told(hostile, subject="a:b,c\n%", file="x,y:z.yml")], verbose=True)
    assert line == (
        "::error file=x%2Cy%3Az.yml,line=1,title=CU999 a%3Ab%2Cc%0A%25::"
        "100%25%0D%0A::error file=/etc/passwd::pwned\\x1b[31m%0A- why%0Afix: do"
    )
    other = github([told("x")])
    assert other == "::error title=CU999 s::env: x%0Afix: do"


def test_markdown_means_nothing_but_itself() -> None:
    hostile = "| a | <img src=x> `code` [l](http://evil.example) @team #1 ~~no~~\n\n## head\x1b[31m"
    text = markdown([told(hostile)], verbose=True)
    assert "<img" not in text.replace("\\<img", "")
    assert "\x1b" not in text
    assert "http://" not in text
    rows = [line for line in text.splitlines() if line.startswith("| CU999")]
    assert len(rows) == 1
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 5
    assert "## head" not in text.replace("\\#\\# head", "")
    assert text.startswith("### env: not fine\n")


def test_a_command_with_backticks_stays_one_cell() -> None:
    finding = Finding(code="CU999", severity="info", subject="s", message="m", fix="echo `a` | tee b")
    made = CheckResult(report=report("t", [finding]), host="h")
    assert "``echo `a` \\| tee b``" in markdown([made])


def test_scrubbing_reaches_every_text() -> None:
    secret = "/home/alice/env on nodeseven by alice"
    finding = Finding(code="CU999", severity="info", subject=secret, message=secret, evidence=(secret,), fix=secret)
    made = CheckResult(
        report=report(secret, [finding], (secret,)), host=secret, file=secret, checks=(judged("x", secret, [finding]),)
    )
    cleaned = repr(scrub_report(made, Private(home="/home/alice", user="alice", host="nodeseven")))
    assert "alice" not in cleaned
    assert "nodeseven" not in cleaned
