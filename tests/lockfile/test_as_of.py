"""Environments as of a day: only builds that existed then are chosen and locked, and what tells no day is said."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from cases import collect
from channel_builder import PLATFORM, edit, pkg, write
from commands import inside
from cuenv.core.errors import UsageError
from cuenv.host.io.surroundings import is_day, today
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, check_day
from cuenv.knowledge.rows import TorchWheel
from cuenv.lockfile.lock import Locked, LockRequest, lock
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.decision import decide
from cuenv.resolver.rules import Context
from cuenv.resolver.why import why_not
from cuenv.solve.io.sources import Sources
from given import base, machine
from pip_index import index, variables, wheel

DAY = "2025-06-01"
HOST = ("--gpu", "RTX 4090", "--driver", "535.129.03", "--glibc", "2.35")
STAMPS = {
    "tool-1.0": 1_717_200_000_000,  # 2024-06-01
    "tool-2.0": 1_748_822_399_000,  # the last second of 2025-06-01
    "tool-3.0": 1_748_822_400_000,  # the first of the next day
    "python-3.12.1": 1_700_000_000_000,
    "python-3.12.9": 1_760_000_000_000,
    "pip-25.0": 1_700_000_000_000,
}
"""Milliseconds, as channels have them."""


def stamped(data: dict[str, Any]) -> None:
    for name, record in data["packages"].items():
        stamp = STAMPS.get("-".join(name.split("-")[:2]))
        if stamp:
            record["timestamp"] = stamp


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    tools = [pkg("tool", release, depends=("python",)) for release in ("1.0", "2.0", "3.0")]
    more = [pkg("python", release) for release in ("3.12.1", "3.12.9")]
    made = write(tmp_path / "channels", {"team": [*tools, *more, pkg("pip", "25.0"), pkg("old", "0.1")]})
    edit(tmp_path / "channels" / "team" / PLATFORM, stamped)
    return made


def mirror(folder: Path) -> tuple[str, str]:
    return "--mirror", f"team={folder / 'channels' / 'team'}"


def asked(folder: Path, *dependencies: str, pip: tuple[str, ...] = (), head: str = "") -> Path:
    lines = ["channels: [team, nodefaults]", "dependencies:", *(f"  - {item}" for item in dependencies)]
    lines += ["  - pip:", *(f"    - {item}" for item in pip)] if pip else []
    path = folder / "environment.yml"
    path.write_text(head + "\n".join([*lines, ""]))
    return path


def locked(path: Path, sources: Sources, **environ: str) -> Locked:
    host = HostOptions(hosts=("rtx4090-535",), environ=environ)
    return lock(LockRequest(path=path, host=host, sources=sources), base())


def releases(answer: Locked) -> dict[str, str]:
    assert answer.lock, answer.report.findings
    one = answer.lock.solutions[0]
    return {item.name: item.version for item in one.packages} | {item.name: item.version for item in one.pip}


def test_a_day_holds_only_the_records_that_were_there_by_its_end(tmp_path: Path, sources: Sources) -> None:
    path = asked(tmp_path, "tool")
    assert inside("lock", path, *HOST, *mirror(tmp_path), "--as-of", DAY, folder=tmp_path).returncode == 0
    text = (tmp_path / "conda-lock.yml").read_text()
    assert "tool-2.0-" in text
    assert "python-3.12.1-" in text
    assert f'"cuenv_as_of": "{DAY}"' in text
    anew = inside("lock", path, *HOST, *mirror(tmp_path), "--as-of", "2025-06-02", "--json", folder=tmp_path)
    assert json.loads(anew.stdout)["as_of"] == "2025-06-02"
    (tmp_path / "conda-lock.yml").unlink()
    assert releases(locked(path, sources))["tool"] == "3.0"


def test_a_release_that_came_later_is_not_there(tmp_path: Path, sources: Sources) -> None:
    asked(tmp_path, "tool=3")
    said = inside("lock", *HOST, *mirror(tmp_path), "--as-of", DAY, folder=tmp_path)
    assert said.returncode == 1
    assert f"the channels as of {DAY} have no tool=3" in said.stdout + said.stderr
    (hint,) = [line for line in said.stderr.splitlines() if line.startswith("hint: ")]
    assert hint.endswith(f" --as-of {DAY}"), "on the channels of today nothing has to be repaired"


def test_a_record_without_a_day_is_taken_only_where_nothing_else_does_and_is_said(
    tmp_path: Path, sources: Sources
) -> None:
    path = asked(tmp_path, "tool", "old")
    said = inside("lock", path, *HOST, *mirror(tmp_path), "--as-of", DAY, "--json", folder=tmp_path)
    document = json.loads(said.stdout)
    found = [item for item in document["findings"] if item["code"] == "CU119"]
    assert [item["subject"] for item in found] == ["old"]
    assert f"it is unknown whether it existed as of {DAY}" in found[0]["message"]
    assert "tool-2.0-" in (tmp_path / "conda-lock.yml").read_text(), "a build of a known day still counts"
    strict = inside("lock", path, *HOST, *mirror(tmp_path), "--as-of", DAY, "--strict", folder=tmp_path)
    assert strict.returncode == 1


def test_check_and_update_know_the_day_of_the_lock(tmp_path: Path, sources: Sources) -> None:
    path = asked(tmp_path, "tool")
    assert inside("lock", path, *HOST, *mirror(tmp_path), "--as-of", "2024-06-02", folder=tmp_path).returncode == 0
    assert "tool-1.0-" in (tmp_path / "conda-lock.yml").read_text()
    assert inside("lock", "--check", path, folder=tmp_path).returncode == 0
    other = inside("lock", "--check", path, "--as-of", DAY, folder=tmp_path)
    assert other.returncode == 1
    assert f"locked as of 2024-06-02, but requested as of {DAY}" in other.stdout + other.stderr
    update = ("lock", path, "--update", "tool", *HOST, *mirror(tmp_path))
    assert inside(*update, folder=tmp_path).returncode == 0
    assert "tool-1.0-" in (tmp_path / "conda-lock.yml").read_text(), "the day of the lock holds"
    assert inside(*update, "--as-of", DAY, folder=tmp_path).returncode == 0
    text = (tmp_path / "conda-lock.yml").read_text()
    assert "tool-2.0-" in text
    (tmp_path / "conda-lock.yml").write_text(text.replace(f'"cuenv_as_of": "{DAY}"', '"cuenv_as_of": "2025-01-01"'))
    edited = inside("lock", "--check", path, folder=tmp_path)
    assert edited.returncode == 1, "the day is under the digest of the lock"


def test_a_lock_of_today_in_place_of_one_of_a_day_is_said(tmp_path: Path, sources: Sources) -> None:
    path = asked(tmp_path, "tool")
    words = ("lock", path, *HOST, *mirror(tmp_path))
    assert "was made as of" not in inside(*words, "--as-of", DAY, folder=tmp_path).stderr
    again = inside(*words, folder=tmp_path)
    assert again.returncode == 0
    assert f"was made as of {DAY}" in again.stdout + again.stderr
    assert "was made as of" not in inside(*words, folder=tmp_path).stderr


def test_a_lock_in_place_of_that_of_another_file_is_said(tmp_path: Path, sources: Sources) -> None:
    path = asked(tmp_path, "tool")
    other = tmp_path / "other.yml"
    shutil.copy(path, other)
    for file, said in ((path, ()), (path, ()), (other, (path.name,)), (other, ()), (path, ("other.yml",))):
        texts = [f"this lock replaces the one of {name}" for name in said]
        assert [text for text in locked(file, sources).warnings if "nodefaults" not in text] == texts


def test_the_head_of_a_file_of_ours_names_the_day(tmp_path: Path, sources: Sources) -> None:
    made = inside("resolve", *HOST, "--as-of", DAY, "-o", "environment.yml", folder=tmp_path)
    head = (tmp_path / "environment.yml").read_text().partition("name:")[0]
    assert f"--as-of {DAY}" in head
    assert f"stack conda-forge, as of {DAY}" in made.stderr
    assert f"candidates fit the host as of {DAY}" in made.stderr
    path = asked(tmp_path, "tool", head=head)
    answer = locked(path, sources)
    assert releases(answer)["tool"] == "2.0"
    assert answer.lock
    assert answer.lock.metadata["cuenv_as_of"] == DAY


def test_the_day_of_an_upload_counts_for_pip(tmp_path: Path, sources: Sources) -> None:
    files = tmp_path / "files"
    for release in ("1.0", "2.0"):
        wheel(files, "alpha", release)
    wheel(files, "silent", "1.0")
    times = {"alpha-1.0": "2025-06-01T23:59:59Z", "alpha-2.0": "2025-06-02T00:00:00Z"}
    on_day = Sources(mirrors=sources.mirrors, cache=sources.cache, as_of=DAY)
    with index(files, uploaded=times) as server:
        path = asked(tmp_path, "tool", "python", pip=("alpha",))
        home = variables(tmp_path / "home", server.url)
        assert releases(locked(path, on_day, **home))["alpha"] == "1.0"
        refused = locked(asked(tmp_path, "tool", "python", pip=("silent",)), on_day, **home)
    assert refused.lock is None
    said = next(item for item in refused.report.findings if item.code == "CU510")
    assert f"as of {DAY}" in f"{said.message} {said.evidence}"


def test_a_wheel_of_torch_counts_by_the_tables_and_a_url_is_said(tmp_path: Path, sources: Sources) -> None:
    files = tmp_path / "files"
    wheel(files, "torch", "2.7.0+cu126")
    wheel(files, "torch", "2.7.1+cu126")
    own = wheel(files, "mine", "1.0")
    on_day = Sources(mirrors=sources.mirrors, cache=sources.cache, as_of=DAY)
    with index(files, uploaded={}) as server:
        home = variables(tmp_path / "home", server.url)
        url = f"{server.url}/{own.name}#sha256={hashlib.sha256(own.read_bytes()).hexdigest()}"
        path = asked(tmp_path, "tool", "python", pip=("torch==2.7.0+cu126", f"'mine @ {url}'"))
        answer = locked(path, on_day, **home)
        later = locked(asked(tmp_path, "tool", "python", pip=("torch==2.7.1+cu126",)), on_day, **home)
    assert releases(answer)["torch"] == "2.7.0+cu126"
    found = [item for item in answer.report.findings if item.code == "CU119"]
    assert [item.subject for item in found] == ["mine"]
    assert later.lock is None, "PyTorch 2.7.1 was released on 2025-06-04"


def test_the_rule_decides_and_explains() -> None:
    case = Context(facts=machine("8.9", driver="580.65.06"), request=Request(as_of=DAY), knowledge=base())
    decision = decide(case)
    assert decision.chosen
    assert str(decision.chosen.candidate.build.version) == "2.7.0"
    answer = why_not(decision, "pytorch=2.7.1")
    told = [verdict for verdict, _ in answer.verdicts if verdict.rule == "as-of"]
    assert [verdict.outcome for verdict in told] == ["reject"]
    assert any("released on 2025-06-04" in reason.says for reason in told[0].reasons)
    unknown = {
        (str(item.candidate.build.version), item.candidate.build.seen)
        for item in decision.fitting
        if item.verdict("as-of").outcome == "unknown" and item.candidate.cuda == item.candidate.build.cuda
    }
    assert unknown
    assert all(seen is None or seen > DAY for _, seen in unknown)
    for item in decision.assessments:
        row = base().released(item.candidate.build.version)
        if item.verdict("as-of").outcome == "pass":
            seen = item.candidate.build.seen
            assert seen
            assert seen <= DAY
        elif item.verdict("as-of").outcome == "reject":
            assert row
            assert row.released > DAY


def test_a_build_counts_from_the_oldest_day_of_its_row_on() -> None:
    row = next(row for row in base().torch if str(row.version) == "2.7.1" and row.seen)
    assert row.seen
    assert row.seen > "2025-06-20"
    dated = row.replaced(since="2025-06-20")
    for day, outcome in (("2025-06-19", "unknown"), ("2025-06-20", "pass"), ("2025-06-01", "reject")):
        case = Context(facts=machine("8.9", driver="580.65.06"), request=Request(as_of=day), knowledge=base())
        found = decide(case, [Candidate(build=dated, cuda=row.cuda, label=None, python="3.12")])
        assert found.assessments[0].verdict("as-of").outcome == outcome


def test_wheels_are_of_the_day_of_their_release() -> None:
    case = Context(
        facts=machine("6.1", driver="580.65.06"), request=Request(as_of=DAY, stack="wheels"), knowledge=base()
    )
    chosen = decide(case).chosen
    assert chosen
    assert isinstance(chosen.candidate.build, TorchWheel)
    assert chosen.candidate.build.released == "2025-04-23"


@pytest.mark.parametrize("form", ["pylock", "requirements"])
def test_a_lock_without_conda_keeps_the_day(tmp_path: Path, form: str) -> None:
    files = tmp_path / "files"
    for release in ("1.0", "2.0"):
        wheel(files, "alpha", release)
    times = {"alpha-1.0": "2025-05-01T00:00:00Z", "alpha-2.0": "2025-06-02T00:00:00Z"}
    path = asked(tmp_path, "python=3.12", pip=("alpha",))
    with index(files, uploaded=times) as server:
        home = variables(tmp_path / "home", server.url)
        words = ("lock", path, *HOST, "--format", form, "-o", "made.txt" if form == "requirements" else "pylock.toml")
        said = inside(*words, "--as-of", DAY, folder=tmp_path, **home)
    assert said.returncode == 0, said.stderr
    text = (tmp_path / words[-1]).read_text()
    assert "alpha" in text
    assert not re.search(r"alpha(-|==)2\.0", text)
    same = inside("lock", "--check", path, *words[-4:], "--as-of", DAY, folder=tmp_path)
    other = inside("lock", "--check", path, *words[-4:], "--as-of", "2025-06-02", folder=tmp_path)
    assert (same.returncode, other.returncode) == (0, 1), same.stderr
    assert f"locked as of {DAY}, but requested as of 2025-06-02" in other.stdout + other.stderr


@collect("text", ["2025-6-1", "20250601", "yesterday", "2025-02-30", "", "2025-06-01T00:00"])
def test_what_is_no_day_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected a day YYYY-MM-DD"):
        check_day(text, base())
    assert not is_day(text)


def test_a_day_ahead_or_before_the_tables_is_refused(tmp_path: Path) -> None:
    assert check_day(today(), base()) == today()
    assert check_day(base().first_day, base()) == base().first_day
    ahead = inside("resolve", *HOST, "--as-of", "2999-01-01", folder=tmp_path)
    before = inside("lock", "--as-of", "2012-01-01", folder=tmp_path)
    assert (ahead.returncode, before.returncode) == (2, 2)
    assert "is in the future" in ahead.stderr
    assert "before the cuenv tables begin" in before.stderr


def test_conda_lock_cannot_solve_as_of_a_day(tmp_path: Path) -> None:
    path = asked(tmp_path, "tool")
    said = inside("lock", path, *HOST, "--engine", "conda-lock", "--as-of", DAY, folder=tmp_path)
    assert said.returncode == 2
    assert "--as-of needs the embedded solver" in said.stderr


@pytest.mark.slow
@pytest.mark.records
def test_the_real_channels_close_on_what_was_there(tmp_path: Path, records: Path) -> None:
    mirrors = [
        word for item in ("conda-forge", "pytorch", "nvidia") for word in ("--mirror", f"{item}={records / item}")
    ]
    said = inside("lock", "--resolve", *HOST, "--no-dev", "--as-of", DAY, *mirrors, folder=tmp_path)
    assert said.returncode == 0, said.stderr
    text = (tmp_path / "conda-lock.yml").read_text()
    assert "/pytorch-2.7.0-cuda126" in text
    names = [line.rpartition("/")[2].strip('"') for line in text.splitlines() if line.strip().startswith("url: ")]
    stamps: dict[str, int] = {}
    for subdir in ("linux-64", "noarch"):
        data = json.loads((records / "conda-forge" / subdir / "repodata.json").read_text())
        stamps |= {
            name: item.get("timestamp", 0) for key in ("packages", "packages.conda") for name, item in data[key].items()
        }
    assert names
    assert all(0 < stamps[name] < STAMPS["tool-3.0"] for name in names)


def test_a_toolkit_counts_where_a_wheel_was_built_with_it() -> None:
    """PyTorch 2.8.0 of 2025-08-06 is the first with CUDA 12.9, so nothing tells of that toolkit in 2024."""
    case = Context(facts=machine("8.9", driver="580.65.06"), request=Request(as_of="2024-12-01"), knowledge=base())
    decision = decide(case)
    assert decision.chosen
    assert decision.chosen.verdict("as-of").outcome == "pass"
    newer = [item for item in decision.fitting if str(item.candidate.cuda) == "12.9"]
    assert newer
    assert {item.verdict("as-of").outcome for item in newer} == {"unknown"}
