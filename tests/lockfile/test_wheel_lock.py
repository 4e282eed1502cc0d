"""Locks of the stack wheels, with conda and without: pylock.toml and requirements with hashes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.pylock import Pylock, is_valid_pylock_path
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.version import Version

from cases import collect, quick
from channel_builder import Server, pkg, write
from commands import inside as run
from cuenv.core.errors import ChannelError
from cuenv.core.io.files import load_toml
from cuenv.core.versions import parse_version_spec
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.host.select import HostOptions
from cuenv.knowledge.rows import WHEELS
from cuenv.lockfile.check import check
from cuenv.lockfile.files import LOCK_NAME, read_lock
from cuenv.lockfile.formats import LockPart
from cuenv.lockfile.lock import Locked, LockRequest, lock
from cuenv.resolver.resolve import resolve
from cuenv.solve import environment_yml
from cuenv.solve.io.pip import uv_program
from cuenv.solve.io.sources import Sources
from given import base, machine
from pip_index import index, variables, wheel

PASCAL = ("--gpu", "GTX 1080", "--driver", "580.65.06", "--glibc", "2.35")
HERE = f"3.{sys.version_info.minor}"
"""The Python that runs the tests, for which uv installs."""
MADE_FOR = [f"cp3{minor}-cp3{minor}-manylinux_2_28_x86_64" for minor in sorted({12, sys.version_info.minor})]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of torch as PyTorch's own index has them, and one that torch does not pin: nvjitlink."""
    files = tmp_path_factory.mktemp("index")
    pins = ("nvidia-cudnn-cu12==9.10.2.21", "nvidia-nccl-cu12==2.27.5", "nvidia-nvjitlink-cu12")
    for version in ("2.14.1+cu126", "2.14.1"):
        for tag in MADE_FOR:
            wheel(files, "torch", version, *pins, "nvidia-cuda-runtime-cu12==12.6.77", tag=tag)
    wheel(files, "nvidia-cudnn-cu12", "9.10.2.21", tag="py3-none-manylinux_2_27_x86_64")
    wheel(files, "nvidia-nccl-cu12", "2.27.5", tag="py3-none-manylinux_2_17_x86_64")
    wheel(files, "nvidia-cuda-runtime-cu12", "12.6.77", tag="py3-none-manylinux_2_17_x86_64")
    for version in ("12.6.85", "12.9.86"):
        wheel(files, "nvidia-nvjitlink-cu12", version, tag="py3-none-manylinux_2_17_x86_64")
    wheel(files, "einops", "0.8.0")
    return files


@pytest.fixture(scope="module")
def server(files: Path) -> Iterator[Server]:
    with index(files) as running:
        yield running


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    packages = [
        pkg("python", "3.12.7", "h1_0_cpython"),
        pkg("pip", "25.0", "pyh_0", subdir="noarch", noarch="python", depends=("python >=3.9",)),
    ]
    return write(tmp_path_factory.mktemp("channel"), {"conda-forge": packages})


def chosen(folder: Path, server: Server, host: HostFacts, *pip: str, python: str = "3.12") -> Path:
    """The file that resolve writes for a host, whose index is the one of the test."""
    asked = Request(stack=WHEELS, dev=False, pip=pip, python=parse_version_spec(python, what="python"))
    answer = resolve(host, asked, base())
    assert answer.spec is not None
    text = environment_yml.render(answer.spec)
    path = folder / "environment.yml"
    path.write_text(text.replace("https://download.pytorch.org/whl/cu126", f"{server.url}/simple"))
    return path


def options(folder: Path, server: Server, gpu: str = "6.1") -> HostOptions:
    """A host without any other index."""
    user = variables(folder / "home", UV_DEFAULT_INDEX=f"{server.url}/none")
    return HostOptions(gpus=(gpu,), driver="580.65.06", glibc="2.35", environ=user)


def locked(folder: Path, server: Server, kind: str, *pip: str, python: str = "3.12", **more: Any) -> Locked:
    path = chosen(folder, server, machine("6.1", driver="580.65.06"), *pip, python=python)
    request = LockRequest(path=path, host=options(folder, server), sources=Sources(), wheels=kind, **more)
    return lock(request, base())


def test_the_environment_of_the_stack_wheels_is_locked_with_hashes_and_checked(
    tmp_path: Path, channel: Sources, server: Server
) -> None:
    path = chosen(tmp_path, server, machine("6.1", driver="580.65.06"), "einops")
    made = lock(LockRequest(path=path, host=options(tmp_path, server), sources=channel), base())
    assert made.lock, made.report
    (solution,) = made.lock.solutions
    assert {item.name for item in solution.packages} == {"python", "pip"}
    names = {item.name: item.version for item in solution.pip}
    assert names["torch"] == "2.14.1+cu126"
    assert names["nvidia-nvjitlink-cu12"] == "12.9.86"  # which torch leaves open
    assert all(item.sha256 for item in solution.pip)
    assert made.lock.metadata["cuenv_minimum_driver"] == "525.60.13"
    fine = check(tmp_path / LOCK_NAME, options(tmp_path, server), base())
    assert not fine.report.errors
    newer = check(tmp_path / LOCK_NAME, options(tmp_path, server, "12.0"), base())
    assert "CU403" in {item.code for item in newer.report.errors}


@pytest.mark.slow
def test_pylock_is_one_of_pep_751_that_installers_take(tmp_path: Path, server: Server) -> None:
    made = locked(tmp_path, server, "pylock", "einops")
    assert made.lock, made.report
    (path,) = made.written
    assert is_valid_pylock_path(path)
    document = load_toml(path.read_text())
    pylock = Pylock.from_dict(document)
    assert str(pylock.requires_python) == "==3.12.*"
    machine_of_it: Any = {
        "python_version": "3.12",
        "python_full_version": "3.12.7",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
    }
    taken = {str(package.name): package.version for package, _ in pylock.select(environment=machine_of_it, tags=tags())}
    assert taken["torch"] == Version("2.14.1+cu126")
    assert taken.keys() == {package.name for package in pylock.packages}
    assert all(not package.marker for package in pylock.packages)  # one file is for one set of GPUs
    ours = document["tool"]["cuenv"]
    assert (ours["gpus"], ours["minimum_driver"], ours["minimum_glibc"]) == ("6.1", "525.60.13", "2.28")
    assert "6.1=native:525.60.13" in ours["served_linux-64"].split()


def tags() -> list[Tag]:
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(35, 4, -1)]
    return [*cpython_tags((3, 12), ["cp312"], platforms), *compatible_tags((3, 12), "cp312", platforms)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", quick(["pylock", "requirements"], first=1))
def test_uv_installs_what_was_written(tmp_path: Path, server: Server, kind: str) -> None:
    made = locked(tmp_path, server, kind, python=HERE)
    assert made.lock, made.report
    words = [uv_program(), "pip", "install", "--target", "there", "--python", sys.executable, "--no-deps"]
    words += ["--python-platform", "x86_64-manylinux_2_28"]
    done = subprocess.run(
        [*words, *(["--require-hashes"] if kind == "requirements" else []), "-r", str(made.written[0])],
        cwd=tmp_path,
        env=variables(tmp_path / "home", f"{server.url}/none"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there" / "torch-2.14.1+cu126.dist-info").is_dir()
    assert (tmp_path / "there" / "nvidia_nvjitlink_cu12-12.9.86.dist-info").is_dir()


@pytest.mark.parametrize("kind", quick(["pylock", "requirements"], first=1))
def test_check_says_fine_of_it_and_names_a_gpu_that_it_does_not_serve(
    tmp_path: Path, server: Server, kind: str
) -> None:
    made = locked(tmp_path, server, kind)
    (path,) = made.written
    assert not check(path, options(tmp_path, server), base()).report.errors
    found = check(path, options(tmp_path, server, "12.0"), base()).report.errors
    assert "CU403" in {item.code for item in found}


@pytest.mark.slow
def test_a_pylock_remembers_its_host(tmp_path: Path, server: Server) -> None:
    (path,) = locked(tmp_path, server, "pylock").written
    assert read_lock(path, LockPart()).metadata["cuenv_gpus"] == "6.1"
    done = run("check", path.name, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the lock was checked for the host it was made for" in done.stdout
    assert done.stdout.endswith("fine\n")


@pytest.mark.slow
@pytest.mark.parametrize("kind", quick(["pylock", "requirements"], first=1))
def test_lock_check_knows_whether_it_is_up_to_date(tmp_path: Path, server: Server, kind: str) -> None:
    (path,) = locked(tmp_path, server, kind).written
    source, text = tmp_path / "environment.yml", path.read_text()

    def checked(*words: str) -> tuple[int, str]:
        done = run("lock", "--check", *words, folder=tmp_path)
        return done.returncode, done.stdout + done.stderr

    assert checked() == (0, f"{path.name}\nfine\n")  # which lies beside the file, and names it
    assert checked("--format", kind, *PASCAL) == (0, f"{path.name}\nfine\n")
    code, said = checked("--format", kind, "--gpu", "RTX 4090", "--driver", "580.65.06", "--glibc", "2.39")
    assert code == 1
    assert "error CU107 gpus changed: locked for 6.1, but requested for 8.9" in said
    assert "error CU107 glibc changed: locked for 2.35, but requested for 2.39" in said
    assert f"--format {kind}" in said
    path.write_text(text.replace("12.9.86", "12.6.85"))
    code, said = checked()
    assert (code, "CU108" in said) == (1, True)
    assert "CU108" in run("check", path.name, folder=tmp_path).stdout
    path.write_text(text)
    source.write_text(source.read_text().replace("  - pip:\n", "  - pip:\n      - einops\n"))
    code, said = checked()
    assert (code, f"it has changed since {path.name} was made" in said) == (1, True)
    stale = run("check", path.name, folder=tmp_path)
    assert "asks pip for einops, but the lock for linux-64 does not contain it" in stale.stdout
    path.unlink()
    assert f"error CU107 {path.name} does not exist" in checked("--format", kind)[1]


@pytest.mark.slow
def test_lock_check_of_another_programs_pylock_says_so(tmp_path: Path, server: Server) -> None:
    (path,) = locked(tmp_path, server, "pylock").written
    path.write_text(path.read_text().partition("[tool.cuenv]")[0])
    assert "pylock.toml was not made by cuenv" in run("lock", "--check", "--format", "pylock", folder=tmp_path).stdout
    assert "conda-lock.yml does not exist" in run("lock", "--check", folder=tmp_path).stdout


@pytest.mark.slow
def test_a_lock_that_is_there_keeps_its_packages_until_they_are_updated(
    tmp_path: Path, server: Server, files: Path
) -> None:
    (path,) = locked(tmp_path, server, "pylock").written
    newer, older = (
        hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files.glob("nvidia_nvjitlink*"), reverse=True)
    )
    path.write_text(path.read_text().replace(newer, older).replace("12.9.86", "12.6.85"))
    kept = locked(tmp_path, server, "pylock")
    moved = locked(tmp_path, server, "pylock", update=("nvidia-nvjitlink-cu12",))
    found = [
        {item.name: item.version for item in made.lock.solutions[0].pip}["nvidia-nvjitlink-cu12"]
        for made in (kept, moved)
        if made.lock
    ]
    assert found == ["12.6.85", "12.9.86"]


@pytest.mark.slow
def test_packages_of_conda_are_named_that_it_leaves_out(tmp_path: Path, server: Server) -> None:
    path = chosen(tmp_path, server, machine("6.1", driver="580.65.06"))
    path.write_text(path.read_text().replace("  - pip\n", "  - pip\n  - ffmpeg\n"))
    made = lock(LockRequest(path=path, host=options(tmp_path, server), sources=Sources(), wheels="pylock"), base())
    assert made.lock
    assert [item.message for item in made.report.findings if item.code == "CU517"] == [
        "the lock contains only pip packages and leaves out conda packages: ffmpeg"
    ]


@collect(
    ("content", "code"),
    [
        ("dependencies: [python=3.12, numpy]\n", "CU517"),
        ("dependencies: [pip, {pip: [einops]}]\n", "CU515"),
        ("dependencies: [python=3.12, pip, {pip: ['torch==2.15.0+cu126']}]\n", "CU520"),
        ("dependencies: [python=3.9, pip, {pip: ['torch==2.14.1']}]\n", "CU110"),
        ("dependencies: [python=3.12, pip, {pip: ['torch==2.9.1']}]\n", "CU403"),
    ],
)
def test_what_cannot_be_locked_is_refused_with_the_reason(
    tmp_path: Path, server: Server, content: str, code: str
) -> None:
    path = tmp_path / "environment.yml"
    path.write_text(f"channels: [conda-forge]\n{content}")
    made = lock(LockRequest(path=path, host=options(tmp_path, server), sources=Sources(), wheels="pylock"), base())
    assert made.lock is None
    assert code in {item.code for item in made.report.errors}
    assert not (tmp_path / "pylock.toml").exists()


def test_resolve_and_lock_in_one_step_reads_no_channel(tmp_path: Path) -> None:
    with index(tmp_path / "none") as server:
        done = run(
            *("lock", "--resolve", "--format", "pylock", *PASCAL, "--offline"),
            folder=tmp_path,
            UV_DEFAULT_INDEX=f"{server.url}/simple",
            UV_CACHE_DIR=str(tmp_path / "cache"),
        )
        assert done.returncode == 3  # the index cannot be asked
        assert "torch" in done.stderr
        assert "conda.anaconda.org" not in done.stderr
    assert "torch==2.14.1+cu126" in (tmp_path / "environment.yml").read_text()
    assert not (tmp_path / "pylock.toml").exists()


@collect(
    ("words", "says"),
    [
        (("--check", "--update", "torch"), "--check changes nothing"),
        (("--resolve", "--stack", "conda-forge"), "the stack conda-forge installs torch with conda"),
        (("--engine", "conda-lock"), "solves for pip alone"),
        (("-o", "x.toml", "--platform", "linux-64", "--platform", "linux-aarch64"), "-o names one file"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    done = run("lock", "--format", "pylock", *words, folder=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.slow
def test_json_names_what_was_written(tmp_path: Path, server: Server) -> None:
    chosen(tmp_path, server, machine("6.1", driver="580.65.06"))
    user: dict[str, Any] = variables(tmp_path / "home", UV_DEFAULT_INDEX=f"{server.url}/none")
    done = run(
        *("lock", "--format", "pylock", "--json", "-o", "pylock.old.toml", *PASCAL),
        folder=tmp_path,
        **user,
    )
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    assert plain["written"] == ["pylock.old.toml"]
    assert plain["pip"] == {"linux-64": 5}


def test_a_torch_of_the_default_index_is_locked_by_its_real_metadata(tmp_path: Path) -> None:
    path = tmp_path / "environment.yml"
    path.write_text("channels: [conda-forge]\ndependencies: [python=3.12, pip, {pip: ['torch==2.12.0']}]\n")
    user = {name: value for name, value in os.environ.items() if not name.startswith("UV_") or name == "UV_CACHE_DIR"}
    host = HostOptions(gpus=("8.9",), driver="580.65.06", glibc="2.35", environ=user)
    try:
        made = lock(LockRequest(path=path, host=host, sources=Sources(), wheels="pylock"), base())
    except ChannelError as error:
        pytest.skip(f"no package index: {error.message[:60]}")
    assert made.lock, made.report
    names = {item.name: item for item in made.lock.solutions[0].pip}
    assert names["torch"].sha256
    assert {"cuda-bindings", "nvidia-cudnn-cu13", "triton"} <= names.keys()
    assert names["nvidia-nvjitlink"].version.startswith("13.")  # torch leaves it open, the lock does not
    assert made.lock.metadata["cuenv_minimum_driver"] == "580.65.06"
    assert not check(made.written[0], host, base()).report.errors


def test_offline_nobody_says_that_a_release_does_not_exist(tmp_path: Path, server: Server) -> None:
    path = chosen(tmp_path, server, machine("6.1", driver="580.65.06"))
    asked = LockRequest(path=path, host=options(tmp_path, server), sources=Sources(offline=True), wheels="pylock")
    with pytest.raises(ChannelError, match="--offline was given, but uv's cache does not have torch"):
        lock(asked, base())


@pytest.mark.parametrize("kind", ["pylock", "requirements"])
def test_what_a_lock_leaves_for_pip_is_checked_with_it(tmp_path: Path, server: Server, kind: str) -> None:
    text = "dependencies: [python=3.12, pip, {pip: [einops, 'git+https://example.org/a.git']}]\n"
    (tmp_path / "environment.yml").write_text(text.replace("{pip: [", f"{{pip: ['--index-url {server.url}/simple', "))
    request = LockRequest(
        path=tmp_path / "environment.yml", host=options(tmp_path, server), sources=Sources(), wheels=kind
    )
    made, rest = lock(request, base()).written
    (aside,) = read_lock(made, LockPart()).solutions[0].aside
    assert aside.text == "git+https://example.org/a.git"

    def checked() -> tuple[int, str]:
        done = run("lock", "--check", "--format", kind, folder=tmp_path)
        return done.returncode, done.stdout

    assert checked() == (0, f"{made.name}\nfine\n")
    assert "CU521 pip: git+https://example.org/a.git is not locked" in run("check", made.name, folder=tmp_path).stdout
    rest.write_text(rest.read_text() + "other\n")
    code, said = checked()
    assert code == 1
    assert f"error CU108 {rest.name} differs from {made.name}: other\n" in said
    rest.unlink()
    code, said = checked()
    assert code == 0
    leaves = f"{made.name} leaves 1 requirement for pip to install afterwards, but the file that lists it is missing"
    assert f"warning CU108 {leaves}: {rest.name}\n" in said
    assert f"fix: cuenv lock environment.yml --format {kind}\n" in said
