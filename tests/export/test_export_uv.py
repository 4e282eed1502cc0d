"""``cuenv export uv``: tables that the real uv locks, each group with the torch of its GPUs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cases import collect
from channel_builder import Server
from commands import inside as run
from cuenv.core.errors import UsageError
from cuenv.core.io.files import load_toml
from cuenv.core.versions import parse_version_spec
from cuenv.export.uv_project import export_uv
from cuenv.host.request import Request
from cuenv.host.select import HostOptions
from cuenv.lockfile.check import check
from cuenv.lockfile.files import read_lock
from cuenv.lockfile.formats import LockPart
from cuenv.resolver.wheels import INDEX
from cuenv.solve.io.pip import uv_program
from given import base
from pip_index import index, variables, wheel

BOTH = ("old=GTX 1080,V100@580.65.06", "new=RTX 5090@580.65.06")
TAGS = {"cu126": ("nvidia-cuda-runtime-cu12", "12.6.77"), "cu130": ("cuda-toolkit", "13.0.3.0")}


def host(*gpus: str, driver: str = "580.65.06") -> HostOptions:
    return HostOptions(gpus=gpus, driver=driver, glibc="2.35", platform="linux-64", environ={})


def exported(*sets: str, on: HostOptions | None = None, **wishes: Any) -> dict[str, Any]:
    versions = {name: parse_version_spec(wishes.pop(name), what=name) for name in ("pytorch",) if name in wishes}
    asked: dict[str, Any] = {**versions, **wishes}
    return load_toml(export_uv(sets, on or host(), Request(**asked), base()).product)


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """An index for each tag, with torch and torchvision of its local version."""
    with ExitStack() as stack:
        found = {}
        for tag, (name, version) in TAGS.items():
            files = tmp_path_factory.mktemp(tag)
            wheel(files, "torch", f"2.14.1+{tag}", f"{name}=={version}")
            wheel(files, "torchvision", f"0.29.2+{tag}", "torch")
            wheel(files, name, version)
            found[tag] = stack.enter_context(index(files))
        plain = tmp_path_factory.mktemp("plain")
        for name, version in TAGS.values():
            wheel(plain, name, version)
        wheel(plain, "torch", "2.14.1")  # of PyPI, which no group may take
        found["plain"] = stack.enter_context(index(plain))
        yield found


def uv_lock(folder: Path, tables: str, indexes: dict[str, Server], head: str = "") -> Path:
    """What the real uv makes of a project with the tables."""
    project = f'[project]\nname = "train"\nversion = "1"\nrequires-python = ">=3.10,<3.15"\n{head}\n'
    for tag in TAGS:
        tables = tables.replace(f"{INDEX}{tag}", f"{indexes[tag].url}/simple")
    (folder / "pyproject.toml").write_text(project + tables)
    user = variables(folder / "home", indexes["plain"].url)
    done = subprocess.run(
        [uv_program(), "lock"], cwd=folder, env=user, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return folder / "uv.lock"


def torch_of(path: Path, *groups: str) -> dict[str, str]:
    lock = read_lock(path, LockPart(groups=groups))
    return {item.name: item.version for item in lock.solutions[0].pip}


@pytest.mark.slow
def test_several_sets_are_groups_that_exclude_each_other_and_each_has_its_torch(
    tmp_path: Path, indexes: dict[str, Server]
) -> None:
    made = export_uv(
        BOTH, host(), Request(pytorch=parse_version_spec("2.14", what="pytorch"), packages=("torchvision",)), base()
    )
    path = uv_lock(tmp_path, made.product, indexes)
    assert torch_of(path, "old")["torch"] == "2.14.1+cu126"
    assert torch_of(path, "new")["torch"] == "2.14.1+cu130"
    assert torch_of(path, "new")["torchvision"] == "0.29.2+cu130"
    fine = check(path, host("RTX 5090"), base(), part=LockPart(groups=("new",)))
    assert not {item.code for item in fine.report.errors} & {"CU401", "CU403", "CU405"}
    other = check(path, host("RTX 5090"), base(), part=LockPart(groups=("old",)))
    assert "CU403" in {item.code for item in other.report.errors}


def test_one_set_needs_no_group_and_holds_torch_whatever_the_project_asks(
    tmp_path: Path, indexes: dict[str, Server]
) -> None:
    made = export_uv((), host("GTX 1080"), Request(), base())
    path = uv_lock(tmp_path, made.product, indexes, 'dependencies = ["torch>=2"]')
    assert torch_of(path)["torch"] == "2.14.1+cu126"


def test_the_tables() -> None:
    found = exported(*BOTH, pytorch="2.8")
    assert found["dependency-groups"] == {"old": ["torch==2.8.0+cu126"], "new": ["torch==2.8.0+cu129"]}
    assert found["tool"]["uv"]["conflicts"] == [[{"group": "old"}, {"group": "new"}]]
    assert [item["explicit"] for item in found["tool"]["uv"]["index"]] == [True, True]
    assert found["tool"]["uv"]["environments"] == ["sys_platform == 'linux' and platform_machine == 'x86_64'"]
    one = exported(on=host("GTX 1080"))
    assert "conflicts" not in one["tool"]["uv"]
    assert one["tool"]["uv"]["constraint-dependencies"] == ["torch==2.14.1+cu126"]


def test_a_set_may_be_recorded_hosts(tmp_path: Path) -> None:
    record = run("inspect", "--host", "rtx4090-535", "--json", folder=tmp_path)
    (tmp_path / "node.json").write_text(record.stdout)
    found = exported(f"lab={tmp_path / 'node.json'}", on=HostOptions(environ={}))
    assert found["dependency-groups"]["lab"] == ["torch==2.14.1+cu126"]


def test_gpus_that_no_wheel_serves_together_are_told_apart() -> None:
    made = export_uv((), host("GTX 1080", "RTX 5090"), Request(), base())
    assert made.refused is not None
    assert made.product == ""
    assert made.refused.hint == "cuenv export uv --set cu126=6.1 --set cu130=12.0 --driver 580.65.06 --glibc 2.35"


@collect(
    ("sets", "wishes", "says"),
    [
        (("old",), {}, "expected NAME=GPU"),
        (("a=V100", "a=A100"), {}, "appears twice"),
        (("a=Voodoo 2",), {}, "unknown GPU"),
        ((), {"stack": "conda-forge"}, "--stack conda-forge requests another build"),
        ((), {"cpu": True}, "--cpu requests another build"),
        ((), {"packages": ("ffmpeg",)}, "--with ffmpeg is a conda package"),
    ],
)
def test_what_is_asked_wrongly(sets: tuple[str, ...], wishes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        export_uv(sets, host("V100"), Request(**wishes), base())


def test_the_command_writes_the_tables_and_their_document(tmp_path: Path) -> None:
    words = ("export", "uv", "--set", BOTH[0], "--set", BOTH[1], "--glibc", "2.35")
    plain = run(*words, folder=tmp_path)
    assert plain.returncode == 0, plain.stderr
    assert load_toml(plain.stdout)["dependency-groups"].keys() == {"old", "new"}
    data = json.loads(run(*words, "--json", folder=tmp_path).stdout)
    assert [(item["name"], item["build"]) for item in data["groups"]] == [("old", "cu126"), ("new", "cu130")]
    old = run("export", "uv", "--gpu", "RTX 5090", "--driver", "550.54.14", folder=tmp_path)
    assert old.returncode == 1
    assert "needs driver 570 or later" in old.stderr


def test_a_release_that_no_wheel_brings_to_the_host_is_refused_for_what_its_wheels_lack(tmp_path: Path) -> None:
    old = ("--gpu", "GTX 1080", "--driver", "470.129.06", "--glibc", "2.31")
    told = run("export", "uv", *old, "--pytorch", "2.8", folder=tmp_path)
    assert told.returncode == 1
    assert "CUDA 12.x needs driver 525.60.13 or later, but the given host has driver 470.129.06" in told.stderr
    assert "cuenv resolve --stack wheels --pytorch 2.8 --gpu 6.1 --driver 470.129.06 --glibc 2.31" in told.stderr
