"""A lock that was edited after it was made: every field that an installer reads is vouched for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import quick_yaml
from cases import collect
from channel_builder import pkg, write
from commands import HOST
from commands import inside as run
from cuenv.core.errors import InputError
from cuenv.lockfile.files import read_lock
from cuenv.lockfile.formats.conda_lock import parse, render
from cuenv.resolver.solution_policy import edit_findings
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.model import Lock, PipLocked, content_digest

INSTALLED = ("name", "version", "manager", "platform", "url", "category", "optional", "hash.md5", "hash.sha256")
"""Fields of a package that micromamba, conda-lock or conda-lockfiles act on. Requirements are not among them: all that
is installed stands in the lock, one by one."""
NAMES = ("conda-linux-64.lock", "conda-linux-64.lock.yml", "conda-lock.yml")

SPEC = EnvironmentSpec(name="x", channels=("conda-forge",), pins=())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lock of two packages."""
    folder = tmp_path_factory.mktemp("made")
    write(folder / "channel", {"conda-forge": [pkg("leaf", depends=("base",)), pkg("base"), pkg("evil")]})
    (folder / "environment.yml").write_text(
        "channels: [conda-forge]\ndependencies: [leaf]\nvariables:\n  GOOD: 'yes'\n"
    )
    done = run("lock", *HOST, "--mirror", f"conda-forge={folder / 'channel/conda-forge'}", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def with_pip(made: Path) -> str:
    """The text of a lock that has a pip part as well."""
    lock = read_lock(made / "conda-lock.yml")
    wheel = "https://files.example.org/six-1.0-py3-none-any.whl"
    part = PipLocked(name="six", version="1.0", url=wheel, sha256="0" * 64)
    solutions = tuple(replace(item, pip=(part,)) for item in lock.solutions)
    sealed = replace(
        lock, solutions=solutions, metadata={**lock.metadata, "cuenv_content": content_digest(solutions, lock.metadata)}
    )
    return render(sealed, SPEC)


def seen(text: str) -> bool:
    """Whether an edit is refused by the reader or by the digest."""
    try:
        return bool(list(edit_findings(parse(text, "conda-lock.yml"))))
    except InputError:
        return True


def edits(field: str, old: Any) -> Iterator[Any]:
    """Other values that a reader could take for right."""
    if isinstance(old, bool):
        yield not old
    elif field.startswith("hash."):
        yield "f" * len(old)
    elif field == "url":
        yield old.replace("https://", "http://")
        yield old.replace("conda.anaconda.org", "evil.example.org").replace("files.example.org", "evil.example.org")
    elif field == "manager":
        yield {"conda": "pip", "pip": "conda"}[old]
    elif field == "category":
        yield "dev"
    elif field == "platform":
        yield "linux-aarch64"
    else:
        yield f"{old}1"


@collect("manager", ["conda", "pip"])
@collect("field", INSTALLED)
def test_an_edit_of_a_field_that_installers_read_is_seen(with_pip: str, manager: str, field: str) -> None:
    assert not seen(with_pip)
    data = quick_yaml.load(with_pip)
    index, entry = next((i, item) for i, item in enumerate(data["package"]) if item["manager"] == manager)
    place, key = (entry["hash"], field.partition(".")[2]) if field.startswith("hash.") else (entry, field)
    if key not in place:
        assert (manager, key) == ("pip", "md5")
        return
    for value in edits(field, place[key]):
        changed = quick_yaml.load(with_pip)
        target = changed["package"][index]
        (target["hash"] if field.startswith("hash.") else target)[key] = value
        assert seen(json.dumps(changed)), (manager, field, value)
    changed = quick_yaml.load(with_pip)
    target = changed["package"][index]
    del (target["hash"] if field.startswith("hash.") else target)[key]
    if field != "category":  # without one every installer takes the package
        assert seen(json.dumps(changed)), (manager, field, "removed")


@pytest.mark.parametrize("manager", ["conda", "pip"])
def test_a_package_that_is_added_removed_or_doubled_is_seen(with_pip: str, manager: str) -> None:
    def change(what: Callable[[list[Any], dict[str, Any]], None]) -> str:
        data = quick_yaml.load(with_pip)
        what(data["package"], next(item for item in data["package"] if item["manager"] == manager))
        return json.dumps(data)

    assert not seen(change(lambda _all, _one: None))
    assert seen(change(lambda all_, one: all_.remove(one)))
    other = {"name": "evil", "url": "https://conda.anaconda.org/conda-forge/linux-64/evil-1.0-0.tar.bz2"}
    assert seen(change(lambda all_, one: all_.append({**one, **other})))
    assert seen(change(lambda all_, one: all_.append({**one, "url": one["url"].replace("https", "http")})))
    assert seen(change(lambda all_, one: all_.append({**one, "hash": {**one["hash"], "sha256": "f" * 64}})))


def test_the_hosts_that_a_lock_says_it_runs_on_are_vouched_for(made: Path) -> None:
    lock = read_lock(made / "conda-lock.yml")
    assert not list(edit_findings(lock))
    assert list(edit_findings(replace(lock, metadata={**lock.metadata, "cuenv_minimum_glibc": "2.5"})))


EVIL = "https://conda.anaconda.org/conda-forge/linux-64/evil-1.0-0.tar.bz2#" + "0" * 32
EDITS = {
    "an explicit file with another hash": (NAMES[0], lambda text: text[:-3] + "00\n"),
    "an explicit file with another host": (NAMES[0], lambda text: text.replace("conda.anaconda.org", "evil.org")),
    "an explicit file with one more": (NAMES[0], lambda text: f"{text}{EVIL}\n"),
    "an explicit file with one less": (NAMES[0], lambda text: "\n".join(text.splitlines()[:-1]) + "\n"),
    "an explicit file that is none": (NAMES[0], lambda _: "\x1b[31mnothing\n"),
    "exact packages with one more": (NAMES[1], lambda text: below("dependencies", "- evil", text)),
    "exact packages of another version": (NAMES[1], lambda text: text.replace("leaf=1.0", "leaf=1.1")),
    "exact packages with another channel": (NAMES[1], lambda text: below("channels", "- https://evil.org/x", text)),
    "exact packages with pip": (NAMES[1], lambda text: below("dependencies", "- pip: [evil]", text)),
    "exact packages with a variable": (NAMES[1], lambda text: text.replace("GOOD:", "LD_PRELOAD:")),
}


def below(key: str, line: str, text: str) -> str:
    return text.replace(f"{key}:\n", f"{key}:\n  {line}\n")


@collect(("name", "change"), EDITS.values())
def test_a_file_beside_the_lock_that_was_edited_is_seen(
    made: Path, tmp_path: Path, name: str, change: Callable[[str], str]
) -> None:
    for file in (*NAMES, "environment.yml"):
        (tmp_path / file).write_bytes((made / file).read_bytes())
    assert run("check", *HOST, folder=tmp_path).returncode == 0
    text = (tmp_path / name).read_text()
    assert change(text) != text
    (tmp_path / name).write_text(change(text))
    for words in (("check",), ("lock", "--check")):
        done = run(*words, *HOST, folder=tmp_path)
        assert done.returncode == 1, done.stdout
        assert f"CU108 {name} differs from conda-lock.yml: " in done.stdout
        assert "\x1b" not in done.stdout
    if name == NAMES[0] and "\x1b" not in change(text):
        alone = run("check", name, *HOST, folder=tmp_path)
        assert alone.returncode == 1
        assert "CU108" in alone.stdout


def test_a_lock_of_another_program_says_nothing_about_other_files(made: Path, tmp_path: Path) -> None:
    lock: Lock = read_lock(made / "conda-lock.yml")
    foreign = replace(lock, metadata={})
    (tmp_path / "conda-lock.yml").write_text(render(foreign, SPEC))
    (tmp_path / NAMES[0]).write_text("@EXPLICIT\n")
    assert "CU108" not in run("check", *HOST, folder=tmp_path).stdout
