"""Update on built channels, with the real solver: one leaf moves, the CUDA core stays, and naming it frees it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from channel_builder import PLATFORM, pkg, write
from commands import inside as run
from cuenv.core.errors import InputError, UsageError
from cuenv.demo.io.sample import Package
from cuenv.host.select import HostOptions
from cuenv.lockfile.files import LOCK_NAME, read_lock
from cuenv.lockfile.lock import Locked, LockRequest, lock
from cuenv.solve.io.sources import Sources
from given import base

FILE = "channels: [conda-forge]\ndependencies: [python, cuda-version=12.2, leaf, other]\n"
FIRST = [
    pkg("python", "3.12.1"),
    pkg("cuda-version", "12.2"),
    pkg("leaf", "1.0", depends=("python", "helper")),
    pkg("helper", "1.0"),
    pkg("other", "1.0", depends=("python",)),
]
LATER = [
    pkg("python", "3.13.0"),
    pkg("leaf", "1.5", depends=("python", "helper")),
    pkg("helper", "2.0"),
    pkg("other", "2.0", depends=("python",)),
]
HERE = HostOptions(hosts=("rtx4090-535",), environ={})
NOWHERE = HostOptions(environ={"CONDA_OVERRIDE_CUDA": "", "CONDA_OVERRIDE_GLIBC": "2.35"})


def begin(folder: Path, *later: Package) -> Sources:
    """A lock of the first packages, and a channel that has the later ones as well."""
    (folder / "environment.yml").write_text(FILE)
    assert locked(folder, write(folder / "first", {"conda-forge": FIRST}), host=HERE).lock
    return write(folder / "later", {"conda-forge": [*FIRST, *later]})


def locked(folder: Path, sources: Sources, *update: str, host: HostOptions = NOWHERE) -> Locked:
    request = LockRequest(path=folder / "environment.yml", host=host, sources=sources, update=update)
    return lock(request, base())


def versions(folder: Path) -> dict[str, str]:
    return {item.name: item.version for item in read_lock(folder / LOCK_NAME).solutions[0].packages}


def test_an_update_of_one_leaf_changes_exactly_that_leaf(tmp_path: Path) -> None:
    sources = begin(tmp_path, *LATER)
    before, kept = versions(tmp_path), read_lock(tmp_path / LOCK_NAME)
    assert locked(tmp_path, sources, "leaf").lock
    assert versions(tmp_path) == {**before, "leaf": "1.5"}
    after = read_lock(tmp_path / LOCK_NAME)
    assert after.solutions[0].virtual_packages == kept.solutions[0].virtual_packages
    assert after.metadata["cuenv_gpus"] == kept.metadata["cuenv_gpus"] == "8.9"


def test_several_packages_move_together(tmp_path: Path) -> None:
    sources = begin(tmp_path, *LATER)
    before = versions(tmp_path)
    assert locked(tmp_path, sources, "leaf", "other").lock
    assert versions(tmp_path) == {**before, "leaf": "1.5", "other": "2.0"}


def test_what_the_leaf_needs_moves_with_it(tmp_path: Path) -> None:
    sources = begin(tmp_path, *LATER, pkg("leaf", "1.7", depends=("python", "helper >=2", "fresh")), pkg("fresh"))
    before = versions(tmp_path)
    assert locked(tmp_path, sources, "leaf").lock
    assert versions(tmp_path) == {**before, "leaf": "1.7", "helper": "2.0", "fresh": "1.0"}


def test_an_update_that_needs_the_core_is_refused_and_says_what_frees_it(tmp_path: Path) -> None:
    sources = begin(tmp_path, pkg("python", "3.13.0"), pkg("leaf", "2.0", depends=("python >=3.13", "helper")))
    before = (tmp_path / LOCK_NAME).read_bytes()
    answer = locked(tmp_path, sources, "leaf")
    assert answer.lock is None
    (found,) = answer.report.errors
    assert found.code == "CU112"
    assert "these packages would change: python 3.12.1 0 (it would become 3.13.0 0)" in found.message
    assert found.fix == f"cuenv lock {tmp_path / 'environment.yml'} --update leaf --update python"
    assert (tmp_path / LOCK_NAME).read_bytes() == before


def test_naming_the_core_moves_it(tmp_path: Path) -> None:
    sources = begin(tmp_path, pkg("python", "3.13.0"), pkg("leaf", "2.0", depends=("python >=3.13", "helper")))
    before = versions(tmp_path)
    assert locked(tmp_path, sources, "leaf", "python").lock
    assert versions(tmp_path) == {**before, "leaf": "2.0", "python": "3.13.0"}


def test_a_newer_release_within_the_frozen_core_is_taken(tmp_path: Path) -> None:
    sources = begin(tmp_path, *LATER, pkg("leaf", "2.0", depends=("python >=3.13", "helper")))
    assert locked(tmp_path, sources, "leaf").lock
    assert versions(tmp_path)["leaf"] == "1.5"


def test_only_the_packages_that_must_move_stand_in_the_way(tmp_path: Path) -> None:
    """python and cuda-version would both move when they are free, but only one of them has to."""
    more = [pkg("python", "3.13.0"), pkg("leaf", "2.0", depends=("python >=3.13", "helper"))]
    sources = begin(tmp_path, *more, pkg("cuda-version", "12.2", "1", build_number=1))
    answer = locked(tmp_path, sources, "leaf")
    assert [item.subject for item in answer.report.errors] == ["leaf"]
    assert "cuda-version" not in answer.report.errors[0].message


def test_what_cannot_be_had_at_all_is_the_solvers_no(tmp_path: Path) -> None:
    sources = begin(tmp_path)
    (tmp_path / "environment.yml").write_text(FILE.replace("leaf", "leaf>=9"))
    answer = locked(tmp_path, sources, "leaf")
    assert answer.unsatisfiable
    assert "leaf" in answer.unsatisfiable.missing[0]
    assert "constraint" not in answer.unsatisfiable.text


def test_nothing_newer_leaves_the_files_as_they_are(tmp_path: Path) -> None:
    sources = begin(tmp_path)
    before = (tmp_path / LOCK_NAME).read_bytes()
    assert locked(tmp_path, sources, "leaf").lock
    assert (tmp_path / LOCK_NAME).read_bytes() == before


def test_there_must_be_a_lock_and_the_package_in_it(tmp_path: Path) -> None:
    sources = begin(tmp_path)
    with pytest.raises(UsageError, match=r"--update leef: .*the nearest are leaf"):
        locked(tmp_path, sources, "leef")
    (tmp_path / LOCK_NAME).unlink()
    with pytest.raises(InputError, match="nothing to update") as caught:
        locked(tmp_path, sources, "leaf", host=HERE)
    assert caught.value.hint == f"cuenv lock {tmp_path / 'environment.yml'}"


def test_the_command_names_what_moved(tmp_path: Path) -> None:
    begin(tmp_path, *LATER)
    mirror = f"conda-forge={tmp_path / 'later' / 'conda-forge'}"
    words = ("lock", "--update", "leaf", "--mirror", mirror)
    done = run(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "updated ~ leaf  1.0 -> 1.5\n" in done.stderr
    assert run(*words, "--check", folder=tmp_path).returncode == 2
    again = run(*words, folder=tmp_path)
    assert "updated nothing" in again.stderr
    (tmp_path / LOCK_NAME).unlink()
    none = run(*words, "--host", "rtx4090-535", "--json", folder=tmp_path)
    assert none.returncode == 3
    assert json.loads(none.stdout)["error"]["hint"] == "cuenv lock environment.yml"


@pytest.mark.slow
@pytest.mark.records
def test_a_leaf_of_a_real_lock_moves_alone(tmp_path: Path, records: Path) -> None:
    """numpy is put back to an older release, and one update takes it, and it alone, to where it was."""
    made = Path(__file__).resolve().parents[2] / "locks" / "universal-dev"
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "environment.yml").read_text()
    (tmp_path / "environment.yml").write_text(text + "\n")
    mirror = ("--mirror", f"conda-forge={records / 'conda-forge'}")
    newest = versions(tmp_path)
    older = text.replace("  - ninja\n", "  - ninja\n  - sympy<1.14\n")
    assert older != text
    (tmp_path / "environment.yml").write_text(older)
    assert run("lock", "--update", "sympy", *mirror, folder=tmp_path).returncode == 0
    before = versions(tmp_path)
    assert before != newest
    assert {name for name in newest if before.get(name) != newest[name]} == {"sympy"}
    (tmp_path / "environment.yml").write_text(text)
    done = run("lock", "--update", "sympy", *mirror, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert versions(tmp_path) == newest
    assert {item.subdir for item in read_lock(tmp_path / LOCK_NAME).solutions[0].packages} == {PLATFORM, "noarch"}


@pytest.mark.slow
@pytest.mark.records
def test_a_newer_torch_moves_only_with_its_twin_and_its_libraries(tmp_path: Path, records: Path) -> None:
    """pytorch alone is held by libtorch and python; the command of the finding frees them, and then it locks."""
    host = ("--gpu", "H200", "--driver", "535.129.03", "--glibc", "2.28")
    mirror = ("--mirror", f"conda-forge={records / 'conda-forge'}")
    made = run("resolve", *host, "--pytorch", "2.10", "--prove", *mirror, "-o", "environment.yml", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert run("lock", *host, *mirror, folder=tmp_path).returncode == 0
    before = versions(tmp_path)
    file = tmp_path / "environment.yml"
    text = file.read_text().replace("pytorch=2.10.0=cuda129*", "pytorch=2.12.0=cuda129*")
    file.write_text(text.replace("python=3.12", "python=3.13"))  # the records have 2.12.0 for that one
    refused = run("lock", "--update", "pytorch", *mirror, "--json", folder=tmp_path)
    assert refused.returncode == 1
    (found,) = [item for item in json.loads(refused.stdout)["findings"] if item["severity"] == "error"]
    assert found["code"] == "CU112"
    assert "libtorch 2.10.0" in found["message"]
    assert "python 3.12" in found["message"]
    command = found["fix"].split()
    freed = {command[index + 1] for index, word in enumerate(command) if word == "--update"}
    done = run(*command[1:], *mirror, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    after = versions(tmp_path)
    assert (after["pytorch"], after["libtorch"]) == ("2.12.0", "2.12.0")
    core = {name for name in ("python", "cuda-version", "cuda-nvcc", "nccl", "libcudnn") if name not in freed}
    assert core
    assert all(after[name] == before[name] for name in core)
