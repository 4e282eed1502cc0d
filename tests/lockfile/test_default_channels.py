"""The default channels that conda adds to those of an environment file: what they bring, and why they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from channel_builder import pkg, write
from cuenv.host.select import HostOptions
from cuenv.lockfile.lock import Locked, LockRequest, lock
from cuenv.solve.io.sources import DEFAULTS, Sources
from given import base

HOST = HostOptions(hosts=("rtx4090-535",), environ={})
MAIN, R = DEFAULTS


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    own = [pkg("mine", depends=("python >=3.8",)), pkg("numpy", "1.0")]
    return write(tmp_path / "channels", {"team": own, MAIN: [pkg("python", "3.12.1"), pkg("numpy", "2.0")], R: []})


def locked(folder: Path, sources: Sources, dependencies: str, channels: str = "team") -> Locked:
    text = f"channels: [{channels}]\ndependencies: [{dependencies}]\n"
    (folder / "environment.yml").write_text(text)
    return lock(LockRequest(path=folder / "environment.yml", host=HOST, sources=sources), base())


def test_a_name_that_no_channel_of_the_file_has_comes_from_them_and_is_said(tmp_path: Path, sources: Sources) -> None:
    answer = locked(tmp_path, sources, "mine, python>=3.8, numpy")
    assert answer.lock
    homes = {item.name: item.channel for item in answer.lock.solutions[0].packages}
    assert homes["python"] == MAIN
    assert homes["numpy"] != MAIN, "channel priority is strict"
    assert answer.lock.channels == ("team", "defaults")
    said = [item for item in answer.report.findings if item.code == "CU118"]
    assert [item.severity for item in said] == ["warning"]
    assert said[0].message.startswith("python comes from conda's default channels")


def test_a_file_that_forbids_them_or_needs_none_gets_none(tmp_path: Path, sources: Sources) -> None:
    answer = locked(tmp_path, sources, "mine, python>=3.8", "team, nodefaults")
    assert answer.unsatisfiable
    assert "default channels" not in answer.unsatisfiable.text
    alone = locked(tmp_path, sources, "numpy")
    assert alone.lock
    assert alone.lock.channels == ("team",)
    assert alone.report.findings == ()
    newer = locked(tmp_path, sources, "numpy>=2")
    assert newer.unsatisfiable
    assert "default channels" not in newer.unsatisfiable.text, "strict priority hides their numpy"


def test_a_channel_that_one_entry_names_is_read_behind_those_of_the_file(tmp_path: Path) -> None:
    lab = [pkg("tool", "2.1.0", depends=("python >=3.8", "part")), pkg("part"), pkg("python", "3.9.1")]
    sources = write(tmp_path / "channels", {"team": [pkg("python", "3.8.2")], "lab": lab, MAIN: [], R: []})
    answer = locked(tmp_path, sources, "python, 'lab::tool=2.1.0'", "team, nodefaults")
    assert answer.lock
    homes = {item.name: item.channel_name for item in answer.lock.solutions[0].packages}
    assert homes == {"tool": "lab", "part": "lab", "python": "team"}
    assert answer.lock.channels == ("team", "lab")
    without = write(tmp_path / "others", {"lab": lab, MAIN: [], R: []})
    answer = locked(tmp_path, without, "python, 'lab::tool=2.1.0'", "")
    assert answer.lock
    assert answer.lock.channels == ("defaults", "lab")


@pytest.mark.parametrize(
    ("there", "says"),
    [(False, "they cannot be read here: "), (True, "they do not have it either")],
)
def test_why_they_do_not_help_stands_before_the_words_of_the_solver(tmp_path: Path, there: bool, says: str) -> None:
    made = write(tmp_path / "channels", {"team": [pkg("mine")]} | ({MAIN: [], R: []} if there else {}))
    offline = Sources(mirrors=made.mirrors, cache=made.cache, offline=not there)
    answer = locked(tmp_path, offline, "mine, python>=3.8")
    assert answer.unsatisfiable
    assert answer.unsatisfiable.missing == ("python>=3.8",)
    first = answer.unsatisfiable.text.splitlines()[0]
    assert first.startswith("The channels of the file do not have python. conda adds its default channels (")
    assert says in first


def test_a_name_that_only_a_package_of_the_file_requires_comes_from_them_as_well(
    tmp_path: Path, sources: Sources
) -> None:
    answer = locked(tmp_path, sources, "mine")
    assert answer.lock
    assert {item.name for item in answer.lock.solutions[0].packages} == {"mine", "python"}
