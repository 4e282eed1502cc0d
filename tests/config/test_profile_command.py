"""``cuenv profile``, and the profiles that a project keeps."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cases import collect
from commands import HOST
from commands import inside as run
from cuenv.config.io.profiles import shipped_names
from cuenv.config.profiles import first_sentence, render, template
from cuenv.core.errors import ExitCode, InputError
from cuenv.core.yaml_read import load
from cuenv.host.request import parse

LAB = {"pytorch": "2.7", "python": "3.12", "gpus": ["A100"], "dev": False, "with": ["transformers>=4.36"]}
CONFIG = (
    "profile-dir = 'wishes'\n[profiles.lab]\npytorch = '2.7'\npython = '3.12'\ngpus = ['A100']\ndev = false\n"
    "with = ['transformers>=4.36']\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A profile in the settings, one in the folder, one in both, and one that hides a shipped one."""
    (tmp_path / "cuenv.toml").write_text(CONFIG)
    folder = tmp_path / "wishes"
    folder.mkdir()
    (folder / "lab.yml").write_text("name: other\nstory: Hidden.\n")
    (folder / "team.yml").write_text("name: team\nstory: >-\n  One sentence. And\n  more.\npytorch: '2.6'\n")
    (folder / "inference.yml").write_text("name: inference\nstory: Ours\ncuda: '12.4'\n")
    return tmp_path


def plain(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(done.stdout)
    assert data["schema"] == "cuenv/profile/1"
    return data


def test_the_shipped_ones_are_listed(tmp_path: Path) -> None:
    done = run("profile", "list", folder=tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    heads = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert heads == [f"{name}  (ships with cuenv)" for name in shipped_names()]
    assert "    Serving a finished model on rented T4, L4 and A10 machines.\n" in done.stdout


def test_a_list_says_where_each_stands_and_what_it_hides(project: Path) -> None:
    found = {item["name"]: item for item in plain(run("profile", "list", "--json", folder=project))["profiles"]}
    assert found["lab"] == {"name": "lab", "origin": "cuenv.toml: profiles.lab", "ok": True, "story": ""}
    assert found["team"] == {"name": "team", "origin": "wishes/team.yml", "ok": True, "story": "One sentence."}
    assert found["inference"]["origin"] == "wishes/inference.yml"
    text = run("profile", "list", folder=project).stdout
    assert "lab  (cuenv.toml: profiles.lab; hides wishes/lab.yml)" in text
    assert "inference  (wishes/inference.yml; hides the shipped one)" in text
    (project / "wishes" / "team.yml").write_text("name: 3\n")
    broken = run("profile", "list", folder=project)
    assert broken.returncode == ExitCode.OK
    assert "    not valid; see: cuenv profile validate team" in broken.stdout


@pytest.mark.parametrize(("name", "torch"), [("lab", "=2.7.1="), ("team", "=2.6.0="), ("./wishes/team.yml", "=2.6.0=")])
def test_resolve_takes_them_in_order(project: Path, name: str, torch: str) -> None:
    done = run("resolve", *HOST, "--profile", name, folder=project)
    assert done.returncode == ExitCode.OK, done.stderr
    assert torch in done.stdout
    assert f"name: {Path(name).stem}\n" in done.stdout
    by_variable = run("resolve", *HOST, folder=project, CUENV_PROFILE=name)
    assert by_variable.stdout == done.stdout


def test_a_name_that_does_not_exist_gets_the_names_that_exist(project: Path) -> None:
    done = run("resolve", *HOST, "--profile", "nothing", folder=project)
    assert done.returncode == ExitCode.USAGE
    assert "choose from lab, inference, team, " in done.stderr
    assert "universal-dev" in done.stderr


def test_a_profile_of_the_settings_is_refused_with_its_path(project: Path) -> None:
    (project / "cuenv.toml").write_text("[profiles.lab]\npython = 3.12\ngpu = ['V100']\nlowest_driver = '535.129.03'\n")
    done = run("resolve", *HOST, "--profile", "lab", folder=project)
    assert (done.returncode, done.stdout) == (ExitCode.INPUT, "")
    assert "profiles.lab.python: expected a string, got 3.12" in done.stderr
    assert "profiles.lab: unknown key 'gpu' (did you mean 'gpus'?)" in done.stderr
    assert "profiles.lab.lowest_driver: a driver needs gpus" in done.stderr
    assert run("resolve", *HOST, folder=project).returncode == ExitCode.OK  # nobody asked for it


def test_show_is_yaml_that_is_the_same_profile(project: Path) -> None:
    done = run("profile", "show", "lab", folder=project)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert done.stdout.startswith("# cuenv.toml: profiles.lab\n")
    assert yaml.safe_load(done.stdout) == {"name": "lab", **LAB}
    team = run("profile", "show", "team", folder=project).stdout
    assert team == "# wishes/team.yml\n" + (project / "wishes" / "team.yml").read_text()
    data = plain(run("profile", "show", "lab", "--json", folder=project))
    assert (data["name"], data["origin"]) == ("lab", "cuenv.toml: profiles.lab")
    assert data["profile"] == {"name": "lab", "story": "", **LAB}


@pytest.mark.parametrize(
    ("name", "code"), [("nothing", ExitCode.USAGE), ("./no.yml", ExitCode.INPUT), ("./cuenv.toml", ExitCode.INPUT)]
)
def test_show_of_what_is_none(project: Path, name: str, code: ExitCode) -> None:
    done = run("profile", "show", name, folder=project)
    assert (done.returncode, done.stdout) == (code, "")


def test_new_is_valid_and_replaces_nothing(tmp_path: Path) -> None:
    assert run("profile", "new", "lab", folder=tmp_path).stdout == template("lab")
    done = run("profile", "new", "lab", "-o", "lab.yml", folder=tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.OK, "")
    assert "next: cuenv profile validate lab.yml" in done.stderr
    assert run("profile", "validate", "lab.yml", folder=tmp_path).stdout == "lab.yml: valid\n"
    (tmp_path / "lab.yml").write_text("mine")
    again = run("profile", "new", "lab", "-o", "lab.yml", folder=tmp_path)
    assert again.returncode == ExitCode.USAGE
    (tmp_path / "link.yml").symlink_to("lab.yml")
    assert run("profile", "new", "lab", "-o", "link.yml", folder=tmp_path).returncode == ExitCode.USAGE
    assert (tmp_path / "lab.yml").read_text() == "mine"
    gone = run("profile", "new", "lab", "-o", "lab.yml/below.yml", folder=tmp_path)
    assert gone.returncode == ExitCode.OUTSIDE
    data = plain(run("profile", "new", "lab", "-o", "b.yml", "--json", folder=tmp_path))
    assert (data["name"], data["written"], data["text"]) == ("lab", "b.yml", (tmp_path / "b.yml").read_text())


@collect("name", ["a/b", "-", "", "a b", "..", "é\x1b"])
def test_new_refuses_what_is_not_a_name(tmp_path: Path, name: str) -> None:
    done = run("profile", "new", "--", name, folder=tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert "\x1b" not in done.stderr


def test_every_line_of_the_template_is_a_key_that_there_is() -> None:
    text = template("3.10")
    opened = "\n".join(
        line.removeprefix("# ") if ": " in line and line[2:3].islower() else line for line in text.split("\n")
    )
    profile = parse(load(opened, "template"), "template")
    assert (profile.name, profile.gpus, profile.lowest_driver) == ("3.10", ("RTX 3090", "A100", "9.0"), "535.129.03")
    assert (str(profile.pytorch), profile.packages, profile.prefer) == (">=2.5", ("transformers>=4.36",), "newest")
    assert parse(load(text, "template"), "template").gpus == ()


def test_validate_names_every_fault_of_every_file(project: Path) -> None:
    (project / "a.yml").write_text("name: 3\nstory: x\npython: 3.10\n")
    (project / "b.yml").write_text("name: [\n")
    words = ("profile", "validate", "a.yml", "lab", "b.yml", "./no.yml")
    done = run(*words, folder=project)
    assert (done.returncode, done.stdout) == (ExitCode.INPUT, "lab: valid\n")
    for said in (
        "a.yml: 2 faults",
        "name: expected a string, got 3",
        "python: expected",
        "b.yml: not valid YAML",
        "no.yml",
    ):
        assert said in done.stderr
    found = plain(run(*words, "--json", folder=project))["profiles"]
    assert [item["ok"] for item in found] == [False, True, False, False]
    assert [bool(item["fault"]) for item in found] == [True, False, True, True]
    hints = [line for line in done.stderr.splitlines() if line.startswith("hint: ")]
    assert hints == [
        "hint: cuenv profile new NAME shows every key of a profile; a version needs quotes: python: '3.12'",
        "hint: cuenv profile new NAME shows what a profile looks like",
        "hint: ls .",
    ]


def test_a_file_that_is_named_without_its_path_is_found_by_the_hint(tmp_path: Path) -> None:
    (tmp_path / "team").touch()
    (tmp_path / "lab.yml").touch()
    for name, file in (("team", "./team"), ("lab", "./lab.yml")):
        done = run("profile", "show", name, folder=tmp_path)
        assert f"error: no profile has the name '{name}'; choose from " in done.stderr
        assert f"hint: to use the file in this folder: {file}\n" in done.stderr


def test_validate_without_files_takes_the_projects_own(project: Path) -> None:
    done = run("profile", "validate", folder=project)
    assert done.returncode == ExitCode.OK, done.stderr
    assert done.stdout == "lab: valid\ninference: valid\nteam: valid\n"
    (project / "cuenv.toml").unlink()
    assert run("profile", "validate", folder=project).returncode == ExitCode.USAGE


def test_validate_decides_for_the_host_that_is_named(project: Path) -> None:
    done = run("profile", "validate", "lab", *HOST, folder=project)
    assert (done.returncode, done.stdout) == (ExitCode.OK, "lab: fits\n")
    assert "choice  pytorch 2.7.1" in done.stderr
    (project / "any.yml").write_text(template("any"))
    newer = run("profile", "validate", "any.yml", *HOST, folder=project)
    (hint,) = [line for line in newer.stderr.splitlines() if line.startswith("hint: ")]
    assert hint.endswith(" --profile any.yml")
    no = run("profile", "validate", "lab", "team", "--gpu", "K80", "--driver", "470.129.06", folder=project)
    assert no.returncode == ExitCode.NEGATIVE
    assert "lab: nothing fits\n" in no.stdout
    (project / "bad.yml").write_text("name: 3\n")
    both = run("profile", "validate", "lab", "bad.yml", "--host", "no-gpu", "--json", folder=project)
    assert both.returncode == ExitCode.INPUT  # what cannot be read goes before what does not fit
    assert [item["fits"] for item in plain(both)["profiles"]] == [False, None]
    assert run("profile", "validate", "lab", "--host", "nowhere", folder=project).returncode == ExitCode.USAGE


def test_the_first_sentence_of_a_text_is_found() -> None:
    assert first_sentence("Driver 2.7 and\n more. Then this.") == "Driver 2.7 and more."
    assert first_sentence("no stop") == "no stop"
    assert first_sentence("") == ""


def test_a_rendered_profile_is_read_back() -> None:
    data = {"name": "yes", "story": 'a "quoted": text\n', "dev": True, "with": ["x=1", "no"], "python": "3.10"}
    assert load(render(data), "x") == data
    with pytest.raises(InputError):
        parse(load("3", "x"), "x")
