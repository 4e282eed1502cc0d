"""The locks of pixi, uv and pip: what is read of them, for which platform and Python, and which part."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cases import collect
from commands import HOST
from commands import inside as run
from cuenv import check
from cuenv.core.errors import InputError, UsageError
from cuenv.lockfile.formats import LockPart, parse_lock, reader_of
from cuenv.lockfile.formats.others.uv_lock import no_wheels
from cuenv.lockfile.pip_findings import pip_findings
from cuenv.lockfile.wheel_target import WheelTarget, pythons
from cuenv.solve.model import Lock, content_digest
from foreign_locks import FILES, LONG, MD5, PYLOCK, REQUIREMENTS, SHA, UV, conda_url, pixi
from pip_index import variables, wheel


def of(lock: Lock, platform: str = "linux-64") -> dict[str, str]:
    """Names and versions of a platform."""
    solution = lock.solution(platform)
    assert solution
    conda = {item.name: item.version for item in solution.packages}
    return conda | {item.name: item.version for item in solution.pip}


def said(lock: Lock) -> list[str]:
    """The remarks on linux-64."""
    solution = lock.solution("linux-64")
    return [item.message for item in solution.remarks] if solution else []


def test_each_file_is_known_by_its_content() -> None:
    texts = {"pixi.lock": pixi({"default": {"linux-64": []}}), "uv.lock": UV, "pylock.toml": PYLOCK}
    for file, text in {**texts, "requirements.txt": REQUIREMENTS}.items():
        assert reader_of(text).file == file


def test_pixi_the_default_environment_and_every_platform() -> None:
    text = pixi(
        {
            "gpu": {"linux-64": [conda_url("pytorch", "cuda129_x")]},
            "default": {"linux-64": [conda_url("b"), conda_url("a"), "Huggingface.Hub==0.1"], "win-64": []},
        }
    )
    lock = parse_lock(text, "pixi.lock")
    assert of(lock) == {"a": "1.0", "b": "1.0", "huggingface-hub": "0.1"}
    assert of(lock, "win-64") == {}
    assert (lock.channels, lock.program, lock.part) == (("conda-forge",), "pixi", "environment default of 2")
    first = lock.solutions[0].packages[0]
    assert (first.md5, first.sha256, first.depends, first.channel_name) == (MD5, SHA, ("python >=3.9",), "conda-forge")
    assert said(lock) == ["the environment default has no PyTorch; 1 of 2 environments have it: gpu"]
    assert of(parse_lock(text, "pixi.lock", LockPart(environment="gpu"))) == {"pytorch": "1.0"}
    with pytest.raises(UsageError, match="no environment 'cuda'; it has gpu, default"):
        parse_lock(text, "pixi.lock", LockPart(environment="cuda"))


def test_pixi_without_a_default_environment_the_one_with_torch() -> None:
    text = pixi({"docs": {"linux-64": [conda_url("a")]}, "train": {"linux-64": ["torch==2.7.1"]}})
    assert parse_lock(text, "pixi.lock").part == "environment train of 2"


def test_pixi_7_the_variant_of_a_platform_with_cuda() -> None:
    platforms = [
        {"name": "p1", "subdir": "linux-64"},
        {"name": "p2", "subdir": "linux-64", "virtual-packages": ["__cuda=12.9", "__unix=0=0"]},
        {"name": "osx-arm64"},
    ]
    rows = {"p1": [conda_url("a")], "p2": [conda_url("b")], "osx-arm64": []}
    lock = parse_lock(pixi({"default": rows}, version=7, platforms=platforms), "pixi.lock")
    assert of(lock) == {"b": "1.0"}
    assert [item.platform for item in lock.solutions] == ["linux-64", "osx-arm64"]
    assert "__cuda=12.9=0" in map(str, lock.solutions[0].virtual_packages)
    assert said(lock) == ["the file has 2 variants of linux-64; p2 was checked, not p1"]


def test_uv_the_newest_python_with_wheels_and_the_usual_group() -> None:
    lock = parse_lock(UV, "uv.lock")
    assert of(lock) == {"leaf": "2.0", "tool": "1.0", "further": "1.0"}
    assert lock.part == "Python 3.12, group dev"
    assert said(lock) == [
        (
            "the part of the lock that was read has no PyTorch; with one of these options it has: "
            "--extra cu126, --extra cpu"
        )
    ]


def test_uv_a_member_of_a_workspace_with_torch_is_named() -> None:
    lock = parse_lock(
        uv_lock(
            ("root", "0.1", "virtual", ".", ()),
            ("member", "0.1", "editable", "member", ("torch",)),
            ("torch", "2.7.1", "registry", "https://pypi.org/simple", ()),
            members=("root", "member"),
        ),
        "uv.lock",
    )
    assert of(lock) == {}
    (finding,) = lock.solutions[0].remarks
    assert finding.message.endswith("; member, another member of the workspace, has it with --extra gpu")
    export = "uv export --frozen --package member --extra gpu --format pylock.toml --output-file pylock.toml"
    assert finding.fix == f"{export} && cuenv check pylock.toml"


def uv_lock(*packages: tuple[str, str, str, str, tuple[str, ...]], members: tuple[str, ...]) -> str:
    lines = ["version = 1", 'requires-python = "==3.12.*"', "[manifest]", f"members = {[*members]}"]
    for name, version, kind, place, extra in packages:
        lines += ["[[package]]", f'name = "{name}"', f'version = "{version}"', f'source = {{ {kind} = "{place}" }}']
        if extra:
            needs = ", ".join(f'{{ name = "{item}" }}' for item in extra)
            lines += ["[package.optional-dependencies]", f"gpu = [{needs}]"]
    return "\n".join(lines) + "\n"


def test_uv_extras_that_exclude_each_other() -> None:
    lock = parse_lock(UV, "uv.lock", LockPart(extras=("cu126",)))
    assert of(lock)["torch"] == "2.7.1"
    torch = next(item for item in lock.solutions[0].pip if item.name == "torch")
    assert (torch.url, torch.sha256, str(torch.glibc)) == (LONG, SHA, "2.28")
    assert of(parse_lock(UV, "uv.lock", LockPart(extras=("cpu",))))["torch"] == "2.7.1+cpu"
    older = parse_lock(UV, "uv.lock", LockPart(extras=("cpu",), groups=("docs",), python="3.11"))
    assert of(older) | {"leaf": "1.0", "page": "1.0"} == of(older)
    assert "neither a wheel for linux-64 and Python 3.11 nor a source of torch 2.7.1+cpu" in said(older)[0]
    assert not [*pip_findings(older.solutions[0], "uv")]  # what has no file there lacks no hash
    with pytest.raises(UsageError, match="no extra 'cu130'; it has cpu, cu126"):
        parse_lock(UV, "uv.lock", LockPart(extras=("cu130",)))


def test_uv_a_patch_of_python_is_read_as_it_is_asked_for() -> None:
    lock = parse_lock(UV.replace('">=3.11, <3.13"', '"==3.12.8"'), "uv.lock")
    assert (lock.part, lock.solutions[0].python) == ("Python 3.12.8, group dev", "3.12.8")
    assert pythons("==3.12.8") == ["3.12.8"]
    assert pythons(">=3.11,<3.12.4") == ["3.12.3", "3.11"]


def test_wheels_that_the_platform_lacks_are_one_finding_whose_command_helps() -> None:
    arm, both = "a-1-cp311-cp311-manylinux_2_28_aarch64.whl", "a-1-cp311-cp311-manylinux_2_28_x86_64.whl"
    target = WheelTarget("linux-aarch64", "3.12")
    (lacking,) = no_wheels({"a 1": [both], "b 2": [both]}, target, "uv.lock", by_uv=True)
    assert lacking.message == "pip: the lock has neither a wheel for linux-aarch64 nor a source of a 1, b 2"
    assert (lacking.fix or "").endswith("to required-environments in [tool.uv], and: uv lock")
    (other,) = no_wheels({"a 1": [both, arm]}, target, "my.lock", by_uv=False)
    assert (other.subject, other.fix) == ("a", "cuenv check my.lock --python 3.11")


def test_uv_extras_and_groups_of_which_one_is_possible() -> None:
    with pytest.raises(UsageError, match="has extra cpu and extra cu126 only one at a time"):
        parse_lock(UV, "uv.lock", LockPart(extras=("cpu", "cu126")))
    text = UV.replace('package = "mine", extra = "cpu"', 'package = "mine", group = "dev"')
    text = text.replace('package = "mine", extra = "cu126"', 'package = "mine", group = "docs"')
    assert parse_lock(text, "uv.lock", LockPart(groups=("docs",))).part == "Python 3.12, group docs"  # dev makes room


PROJECT = """
[project]
name = "mine"
version = "1.0"
requires-python = ">=3.10"
dependencies = ["leaf", "old==1.0; python_version < '3.12'", "old==2.0; python_version >= '3.12'", "Far.Off[more]"]
[project.optional-dependencies]
first = ["torch==2.6.0"]
second = ["torch==2.9.0"]
[dependency-groups]
dev = ["tool; sys_platform == 'linux'", "never; sys_platform == 'win32'"]
docs = ["page>1"]
[tool.uv]
conflicts = [[{ extra = "first" }, { extra = "second" }]]
"""


@pytest.mark.slow
def test_what_is_read_is_what_uv_would_install(tmp_path: Path) -> None:
    from packaging.requirements import Requirement
    from uv import find_uv_bin

    links = tmp_path / "links"
    for name, version, *needs in (
        ("torch", "2.6.0", "triton==3.2; platform_machine == 'x86_64'", "leaf"),
        *(("torch", "2.9.0", "triton==3.5", "cuda-leaf"), ("triton", "3.2"), ("triton", "3.5"), ("cuda-leaf", "1.0")),
        *(
            ("leaf", "1.0"),
            ("old", "1.0", "older"),
            ("old", "2.0"),
            ("older", "1.0"),
            ("tool", "1.0"),
            ("never", "1.0"),
        ),
        *(("page", "1.0"), ("page", "2.0", "leaf"), ("extra-of-far", "1.0")),
    ):
        wheel(links, name, version, *needs)
    wheel(links, "far-off", "1.0", "extra-of-far; extra == 'more'", extras=["more"])
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(PROJECT)
    environ = {**variables(tmp_path), "UV_OFFLINE": "1", "UV_NO_CONFIG": "1", "UV_PYTHON": sys.executable}

    def uv(*words: str) -> str:
        command = [find_uv_bin(), *words, "--no-index", "--find-links", str(links), "-q"]
        made = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        return made.stdout

    uv("lock")
    uv("sync", "--no-install-project", "--extra", "first")
    synced = run("check", "--prefix", ".venv", "--lock", "uv.lock", "--extra", "first", *HOST, folder=project)
    assert "ok   packages" in synced.stdout, synced.stdout
    other = run("check", "--prefix", ".venv", "--lock", "uv.lock", "--extra", "second", *HOST, folder=project)
    assert "CU202 torch is 2.6.0, but the pip part of the lock has 2.9.0" in other.stdout
    for python in ("3.11", "3.13"):
        target = WheelTarget("linux-64", python)
        for chosen in (LockPart(), LockPart(extras=("first",)), LockPart(extras=("second",), groups=("docs",))):
            part = chosen._replace(python=python)
            words = [word for name in part.extras for word in ("--extra", name)]
            words += [word for name in part.groups for word in ("--group", name)]
            told = uv("export", "--frozen", "--no-hashes", "--no-header", "--no-annotate", "--no-emit-project", *words)
            lines = map(Requirement, told.splitlines())
            wanted = {item.name: str(item.specifier)[2:] for item in lines if target.meets(str(item.marker or ""))}
            read = parse_lock((project / "uv.lock").read_text(), "uv.lock", part)
            assert of(read) == wanted
            exported = uv("export", "--frozen", "--format", "pylock.toml", "--no-emit-project", *words)
            assert of(parse_lock(exported, "pylock.toml", LockPart(python=python))) == wanted
            exported = uv("export", "--frozen", "--no-emit-project", *words)
            assert of(parse_lock(exported, "requirements.txt", LockPart(python=python))) == wanted


def test_a_wheel_for_a_recent_glibc_alone_gives_way_to_one_for_every_machine() -> None:
    target = WheelTarget("linux-64", "3.12")
    own = [f"a-1-cp312-cp312-manylinux_2_{glibc}_x86_64.whl" for glibc in (34, 28)]
    plain = "a-1-py2.py3-none-any.whl"
    assert target.best((name, name) for name in (own[0], plain)) == plain
    assert target.best((name, name) for name in (*own, plain)) == own[1]
    assert target.best([(own[0], own[0])]) == own[0]


def test_pylock_extras_groups_and_the_wheel_for_the_oldest_glibc() -> None:
    lock = parse_lock(PYLOCK, "pylock.toml")
    assert of(lock) == {"leaf": "1.0"}
    assert "no PyTorch; the file has it where" in said(lock)[0]
    lock = parse_lock(PYLOCK, "pylock.toml", LockPart(extras=("gpu",), groups=("test",)))
    assert of(lock) == {"leaf": "1.0", "torch": "2.7.1", "tester": "1.0"}
    assert lock.part == "Python 3.12, extra gpu, group test"
    torch = next(item for item in lock.solutions[0].pip if item.name == "torch")
    assert str(torch.glibc) == "2.17"


def test_requirements_the_newest_python_with_torch() -> None:
    text = f'torch==1.12.1 ; python_version < "3.11" --hash=sha256:{SHA}\nold==1 ; python_version < "3.9"\nnew==2\n'
    lock = parse_lock(text, "requirements.txt")
    assert (of(lock), lock.part) == ({"torch": "1.12.1", "new": "2"}, "Python 3.10")
    assert not any(item.from_source for item in lock.solutions[0].pip)


def test_a_mirror_of_a_known_channel_is_that_channel() -> None:
    text = pixi({"default": {"linux-64": [conda_url("a"), conda_url("b")]}})
    at = "https://mirror.example/some/conda-forge"
    lock = parse_lock(text.replace("https://conda.anaconda.org/conda-forge/linux-64/b", f"{at}/linux-64/b"), "x")
    assert [item.channel_name for item in lock.solutions[0].packages] == ["conda-forge"] * 2
    assert lock.solutions[0].packages[1].url.startswith(at)


def test_requirements_with_hashes() -> None:
    lock = parse_lock(REQUIREMENTS, "requirements.txt")
    assert of(lock) == {"torch": "2.7.1", "direct": "3.1"}
    assert lock.part == "Python 3.11 of its head"
    assert all(item.sha256 for item in lock.solutions[0].pip)
    assert "secret" not in repr(lock)
    assert said(lock) == ["the file refers to other files and folders, which were not checked: -e ."]
    assert "old" in of(parse_lock(REQUIREMENTS, "requirements.txt", LockPart(python="3.10")))


@collect(
    ("text", "said"),
    [
        (UV.replace("version = 1\n", "version = 2\n", 1), "a uv.lock of version 2; cuenv reads version 1"),
        (pixi({"default": {"linux-64": []}}, version=99), "a pixi.lock of version 99; cuenv reads the versions 4 to 7"),
        (pixi({"default": {"linux-64": []}}, version=3), "a pixi.lock of version 3; cuenv reads the versions 4 to 7"),
        (PYLOCK.replace('"1.0"', '"2.0"', 1), "a pylock.toml of version 2.0; cuenv reads version 1.0"),
        (UV[: UV.index("[package.opt")] + "version = {{\n", "at line"),
        (UV.replace("python_full_version < '3.12'\" }", 'python <<< 3" }'), "a marker cannot be understood"),
        (UV.replace(">=3.11, <3.13", "whatever"), "expected a range such as '>=3.10', got 'whatever'"),
        (UV.replace(SHA, "zz"), "expected 64 hexadecimal digits, got 'zz'"),
        (PYLOCK.replace('created-by = "hand"', ""), "Missing required value in 'created-by'"),
        (pixi({"default": {"linux-64": [conda_url("a")]}}).replace('"sha256"', '"sha"').replace(MD5, "1"), "32 hex"),
        (pixi({"default": {"linux-64": [conda_url("a")]}}).split("packages:\n")[0], "the list of packages lacks"),
        (pixi({"\x1b[2J": {"linux-64": []}}), "a name is not one of letters"),
        ("# This file is automatically @generated by Poetry 1.8\n[[package]]\n", "is a lock of Poetry"),
        ('[[package]]\nname = "a"\npython-versions = "*"\n', "is a lock of Poetry"),
        ("# packages in environment at /x:\n#\nnumpy 1.26 py39\n", "is an output of conda list"),
        ("numpy=1.26=py39_0\npytorch=2.1=x\n", "is an output of conda list --export"),
        ("[workspace]\nchannels = []\n", "is a manifest of pixi"),
        ("# syntax=docker/dockerfile:1\nFROM ubuntu:24.04\n", "is a Dockerfile, which cuenv does not read as a lock"),
        ('{"train_batch_size": 8}\n', "is a configuration of DeepSpeed, which cuenv does not read"),
        (
            'version = 4\n\n[[package]]\nname = "serde"\n',
            "is not a lock that cuenv reads: conda-lock.yml, explicit",
        ),
        ("torch\nnumpy>=1.26 # why\n", "is a list of requirements that are not pinned"),
        ("-r base.txt\ngit+https://git.example/x\n", "is a list of requirements that are not pinned"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_lock(text, "some.lock")
    assert said in caught.value.message
    assert caught.value.message.isprintable() or "\n" in caught.value.message


@pytest.mark.parametrize("text", ["torch==2.5.1\nnumpy\n", "# why\nnumpy>=1.26\nscipy[all]\ntorch==2.5.1\n"])
def test_a_line_that_leaves_its_release_open_hides_nothing_of_the_others(tmp_path: Path, text: str) -> None:
    (tmp_path / "requirements.txt").write_text(text)
    told = run("check", "requirements.txt", "--gpu", "RTX 5090", "--driver", "575.57.08", folder=tmp_path)
    assert told.returncode == 1, told.stderr
    open_ = "1 of 2 requirements is" if "why" not in text else "2 of 3 requirements are"
    assert f"error CU523 {open_} not pinned to one release by ==" in told.stdout
    assert "error CU403 torch 2.5.1+cu124 has code for" in told.stdout
    assert "fix: uv pip compile --generate-hashes requirements.txt" in told.stdout
    with pytest.raises(InputError, match="not pinned"):
        parse_lock("numpy\nscipy\n", "requirements.txt")


def test_only_check_and_diff_take_the_locks_of_other_programs(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text(UV)
    (tmp_path / "new.lock").write_text(UV.replace('"2.0"', '"2.1"').replace("leaf-2.0", "leaf-2.1"))
    (tmp_path / ".python-version").write_text("3.11\n")
    told = run("check", *HOST, folder=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "uv.lock: 3 packages for pip (Python 3.11 of .python-version, group dev)" in told.stdout
    assert "fix: cuenv check uv.lock --extra" in told.stdout
    (tmp_path / "pyproject.toml").write_text("[tool.uv]\ndefault-groups = ['docs']\n")
    told = run("check", *HOST, folder=tmp_path)
    assert "uv.lock: 2 packages for pip (Python 3.11 of .python-version, group docs)" in told.stdout
    (tmp_path / "pyproject.toml").write_text("[tool.uv]\ndefault-groups = 'all'\n")
    assert "groups dev, docs" in run("check", *HOST, folder=tmp_path).stdout
    differ = run("diff", "uv.lock", "new.lock", "--python", "3.12", *HOST, folder=tmp_path)
    assert differ.returncode == 1
    assert "leaf==2.1" in differ.stdout
    assert "\n(Python 3.12, groups dev, docs) -> (Python 3.12, groups dev, docs)\n" in differ.stdout
    plain = json.loads(run("check", "uv.lock", "--python", "3.12", "--json", *HOST, folder=tmp_path).stdout)
    assert plain["part"] == "Python 3.12, groups dev, docs"
    found = check(tmp_path / "uv.lock", "rtx4090-535", extras="cu126", groups=["docs"], python="3.12")
    assert (found.part, found.report.errors) == ("Python 3.12, extra cu126, groups dev, docs", ())
    linted = run("lint", folder=tmp_path)
    assert linted.returncode == 0, linted.stdout
    (tmp_path / "uv.lock").write_text(UV.replace(f', hash = "sha256:{SHA}"', ""))
    linted = run("lint", folder=tmp_path)
    assert linted.returncode == 0
    assert "warning CU513 pip: 2 of 2 packages have no sha256 hash" in linted.stdout
    assert "uv installs them without verifying" in linted.stdout
    assert "fix:" not in linted.stdout, "an index without hashes gives none the second time"
    refused = run("install", "uv.lock", "-n", "x", folder=tmp_path)
    assert refused.returncode == 3
    assert "uv.lock is a lock of uv, which cuenv checks and compares, but does not install" in refused.stderr
    for text in ("abc", "2.7", "3.12; x"):
        wrong = run("check", "uv.lock", "--python", text, folder=tmp_path)
        assert (wrong.returncode, "--python expects a release such as 3.12" in wrong.stderr) == (2, True)
    wrong = run("check", "uv.lock", "--environment", "gpu", folder=tmp_path)
    assert wrong.returncode == 2
    assert (
        "--environment has no effect on uv.lock, which is read as uv.lock; it takes --extra, --group, --python"
        in wrong.stderr
    )


def test_a_platform_that_the_lock_lacks_and_packages_without_hash(tmp_path: Path) -> None:
    (tmp_path / "pixi.lock").write_text(pixi({"default": {"osx-arm64": [], "win-64": []}}))
    told = run("check", "pixi.lock", *HOST, folder=tmp_path)
    assert told.returncode == 1
    assert "CU106 the lock is for osx-arm64, win-64, but rtx4090-535 is linux-64" in told.stdout
    text = pixi({"default": {"linux-64": ["one==1.0", "two==1.0", "six==1.0"]}}).replace("sha256", "other")
    (tmp_path / "pixi.lock").write_text(text)
    told = run("check", "pixi.lock", *HOST, folder=tmp_path)
    assert told.stdout.count("warning CU513") == 1
    assert "3 of 3 packages have no sha256 hash (one 1.0, six 1.0, two 1.0)" in told.stdout
    assert "fix:" not in told.stdout
    assert "CU515" not in told.stdout  # pixi needs no pip in the environment


def test_a_list_in_utf_16_as_powershell_writes_it(tmp_path: Path) -> None:
    text = f"@EXPLICIT\n{conda_url('leaf')}#{MD5}\n"
    (tmp_path / "list.txt").write_bytes(text.encode("utf-16"))
    told = run("check", "list.txt", *HOST, folder=tmp_path)
    assert (told.returncode, told.stdout.split(",")[0]) == (0, "list.txt: 1 package")


def test_a_cpu_build_of_torch_on_a_host_with_gpus(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(f"@EXPLICIT\n{conda_url('pytorch', 'py3.8_cpu_0')}#{MD5}\n")
    (tmp_path / "uv.lock").write_text(UV)
    told = run("check", "list.txt", *HOST, folder=tmp_path)
    assert told.returncode == 0
    assert "warning CU103 pytorch 1.0 py3.8_cpu_0 is a CPU build, so it does not use the GPUs of rtx4090" in told.stdout
    one = check(tmp_path / "list.txt", host="rtx4090-535").report.findings
    assert [(item.code, item.unknown) for item in one] == [("CU103", False)]
    with (tmp_path / "list.txt").open("a") as file:
        file.write(f"{conda_url('libcublas').replace('conda-forge', 'nvidia')}#{MD5}\n")
    beside = check(tmp_path / "list.txt", host="rtx4090-535").report.findings
    assert [(item.code, item.severity, item.unknown) for item in beside] == [("CU103", "error", False)]  # said once
    told = run("check", "uv.lock", "--extra", "cpu", *HOST, folder=tmp_path)
    assert "warning CU103 the wheel of torch 2.7.1+cpu for linux-64 is not a CUDA build" in told.stdout
    assert "CU103" not in run("check", "uv.lock", "--extra", "cu126", *HOST, folder=tmp_path).stdout


def test_findings_of_another_platform_are_not_those_of_the_host(tmp_path: Path) -> None:
    good, bad = conda_url("a"), conda_url("b", subdir="win-64")
    text = pixi({"default": {"linux-64": [good], "win-64": [bad]}})
    (tmp_path / "pixi.lock").write_text(
        text.replace(f'"conda": "{bad}", "sha256": "{SHA}", "md5": "{MD5}"', f'"conda": "{bad}"')
    )
    told = run("check", "pixi.lock", *HOST, folder=tmp_path)
    assert told.returncode == 0
    assert "win-64" not in told.stdout
    assert "1 package (environment default, 1 of 2 platforms)" in told.stdout


def test_pins_without_hashes_are_one_finding(tmp_path: Path) -> None:
    (tmp_path / "freeze.txt").write_text("".join(f"package{n}=={n}.0\n" for n in range(30)))
    told = run("check", "freeze.txt", *HOST, folder=tmp_path)
    assert told.returncode == 1
    assert told.stdout.count("CU513") == 1
    assert "30 of 30 packages have no sha256 hash (package0 0.0, " in told.stdout
    assert "fix: uv pip compile --generate-hashes freeze.txt --output-file" in told.stdout


def test_a_wheel_that_is_built_already_needs_no_nvcc(tmp_path: Path) -> None:
    wheel = f"{FILES}/flash_attn-2.8.3%2Bcu12torch2.7-cp312-cp312-linux_x86_64.whl"
    pins = f"torch==2.7.1 --hash=sha256:{SHA}\nflash-attn @ {wheel} --hash=sha256:{SHA}\n"
    (tmp_path / "pins.txt").write_text(pins)
    told = run("check", "pins.txt", *HOST, folder=tmp_path)
    assert (told.returncode, "flash-attn" in told.stdout) == (0, False), told.stdout


def conda_lock(platforms: tuple[str, ...], custom: str = "") -> str:
    """A conda-lock.yml that mixes two CUDA channels on its last platform."""
    entries = []
    for platform in platforms:
        both = platform == platforms[-1]
        for name, channel in (("cuda-cudart", "conda-forge"), ("libcublas", "nvidia" if both else "conda-forge")):
            url = f"https://conda.anaconda.org/{channel}/{platform}/{name}-12.9.1-0.conda"
            entries.append(
                f"- {{name: {name}, version: 12.9.1, manager: conda, platform: {platform}, dependencies: {{}}, "
                f"url: {url}, hash: {{md5: {MD5}}}, category: main, optional: false}}"
            )
    metadata = (
        f"  content_hash: {{}}\n  channels: [conda-forge]\n  platforms: [{', '.join(platforms)}]\n  sources: []\n"
    )
    return f"version: 1\nmetadata:\n{metadata}{custom}package:\n" + "\n".join(entries) + "\n"


def test_a_conda_lock_is_judged_for_the_platform_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "conda-lock.yml").write_text(conda_lock(("linux-64", "win-64")))
    told = run("check", *HOST, folder=tmp_path)
    assert told.returncode == 0, told.stdout
    assert "2 packages (1 of 2 platforms)" in told.stdout
    assert "CU101" not in told.stdout
    text = conda_lock(("linux-64", "linux-aarch64"))
    digest = content_digest(parse_lock(text, "x").solutions)
    own = conda_lock(("linux-64", "linux-aarch64"), f"  custom_metadata: {{cuenv_content: {digest}}}\n")
    (tmp_path / "conda-lock.yml").write_text(own)
    told = run("check", *HOST, folder=tmp_path)
    assert "CU101 linux-aarch64: CUDA components come from 2 channels" in told.stdout
    (tmp_path / "conda-lock.yml").write_text(text)
    mixed = check(tmp_path / "conda-lock.yml", host="gh200-570").report.findings
    assert {item.code: item.fix == "cuenv lock" for item in mixed} == {"CU101": True}


@collect(
    "mark", ["\n", " \n", "#\n", "\t", "a", "- \n", "[[package]]\n", "version = 1\n", "--hash=\n", "a \\\n"], one_in=3
)
def test_a_large_text_of_nothing_is_refused_in_time(mark: str) -> None:
    began = time.monotonic()
    with pytest.raises(InputError):
        parse_lock(mark * (400_000 // len(mark)) + "x", "some.lock")
    assert time.monotonic() - began < 20
