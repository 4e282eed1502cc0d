"""Both platforms in one file and one lock: on built channels with the real solver, and on the real records."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Barrier, current_thread, main_thread
from typing import Any

import pytest

from cases import collect
from channel_builder import pkg
from commands import inside as run
from cuenv.core.errors import ChannelError
from cuenv.core.urls import channel_url
from cuenv.demo.io.sample import Package, write_channel
from cuenv.host.facts import HostFacts, Resources
from cuenv.host.request import Request
from cuenv.install.make_bundle import platform_here
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lockfile.files import LOCK_NAME, read_lock, recorded_host
from cuenv.lockfile.host_check import candidate_of
from cuenv.resolver.candidates import environment_key
from cuenv.resolver.resolve import Resolution, resolve
from cuenv.solve.io import solver
from cuenv.solve.io.sources import Mirror, Sources
from cuenv.solve.model import Solution, SolveRequest, Unsatisfiable
from given import base, decided, fitting, options, version_spec

BOTH = ("--platform", "linux-64", "--platform", "linux-aarch64")
H200 = ("--gpu", "H200", "--driver", "535.129.03", "--glibc", "2.28")
DEV = ("cuda-nvcc", "cuda-cudart-dev", "libcusparse-dev", "libcublas-dev", "libcusolver-dev", "libcurand-dev")


def packages(platform: str, torch: tuple[str, ...]) -> list[Package]:
    """What an environment with CUDA 12.9 needs, for one platform; gcc 13 is the newest that only one has."""
    made = [
        pkg("cuda-version", "12.9", subdir=platform),
        pkg("python", "3.12.4", subdir=platform),
        pkg("libcudnn", "9.10.1", subdir=platform),
        pkg("cudnn", "9.10.1", subdir=platform),
        pkg("nccl", "2.27.1", subdir=platform),
        pkg("ninja", "1.12", subdir=platform),
        pkg("gxx", "14.3.0" if platform == "linux-64" else "13.3.0", subdir=platform),
        pkg("gxx", "15.2.0", subdir=platform),
    ]
    made += [pkg(name, "12.9.1", subdir=platform) for name in DEV]
    return made + [pkg("pytorch", item, "cuda129_py312h0_0", subdir=platform, depends=("python",)) for item in torch]


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A channel whose newest PyTorch that both platforms have is 2.9.1; 2.10.0 is missing on linux-aarch64."""
    folder = tmp_path_factory.mktemp("both")
    torch = {"linux-64": ("2.10.0", "2.9.1", "2.8.0"), "linux-aarch64": ("2.9.1", "2.8.0")}
    made = [package for platform in PLATFORMS for package in packages(platform, torch[platform])]
    write_channel(folder, made, subdirs=(*PLATFORMS, "noarch"))
    return folder


def together(prove: Sources | None = None, tables: Knowledge | None = None, **wishes: str) -> Resolution:
    request = Request(**{name: version_spec(text) for name, text in wishes.items()})  # type: ignore[arg-type] # wishes alone
    host = options("9.0", driver="535.129.03", libc="2.28")
    return resolve(host, request, tables or base(), platforms=PLATFORMS, prove=prove)


def test_a_profile_that_asks_for_memory_is_told_of_one_platform_and_of_two() -> None:
    """The request is read for several platforms as for one: CU418 was lost with two."""
    small = replace(
        options("9.0", driver="535.129.03", libc="2.28"), detected=True, resources=Resources(memory_mib=1024)
    )
    request = Request(host_memory_gb=64)
    for platforms in ((), PLATFORMS[:1], PLATFORMS):
        found = resolve(small, request, base(), platforms=platforms).findings
        assert [item.code for item in found].count("CU418") == 1, platforms


def without_arm(*releases: str, pythons: tuple[str, ...] = ()) -> Knowledge:
    """The tables as they would be had some releases never been built for linux-aarch64, or for these Pythons alone."""
    rows = []
    for row in base().torch:
        if row.platform != "linux-aarch64" or str(row.version) not in releases:
            rows.append(row)
        elif pythons:
            rows.append(row.replaced(pythons=pythons))
    return replace(base(), torch=tuple(rows))


def test_the_choice_is_the_best_that_fits_on_both() -> None:
    answer = together()
    chosen = answer.decision.chosen
    assert chosen
    assert str(chosen.candidate.build.version) == "2.13.0"
    fits = [fitting(options("9.0", driver="535.129.03", libc="2.28", platform=name)) for name in PLATFORMS]
    common = {environment_key(item) for item in fits[0]} & {environment_key(item) for item in fits[1]}
    first = decided(options("9.0", driver="535.129.03", libc="2.28")).fitting
    best = next(item for item in first if environment_key(item.candidate) in common)
    assert environment_key(chosen.candidate) == environment_key(best.candidate)
    fewer = together(tables=without_arm("2.13.0", "2.12.1", "2.12.0", "2.11.0")).decision
    assert fewer.chosen
    assert str(fewer.chosen.candidate.build.version) == "2.10.0"
    assert "2.13.0" in {str(candidate.build.version) for candidate, _ in fewer.skipped}
    assert {missing for _, missing in fewer.skipped} == {"it does not exist for linux-aarch64"}


def test_the_python_is_one_that_both_have() -> None:
    chosen = together(pytorch="2.5.1", tables=without_arm("2.5.1", pythons=("3.10", "3.11"))).decision.chosen
    assert chosen
    assert chosen.candidate.python == "3.11"  # linux-64 alone would take 3.12


def test_the_file_has_no_pin_that_only_one_platform_has() -> None:
    spec = together().spec
    assert spec
    assert spec.platforms == PLATFORMS
    names = {pin.name for pin in spec.pins}
    assert not any(name.endswith(PLATFORMS) for name in names)
    compiler = spec.pin("gxx")
    assert compiler
    assert compiler.match_spec() == "conda-forge::gxx[version='<15']"
    assert "linux-64 and linux-aarch64." in spec.header[1]


def test_what_fits_on_one_alone_is_refused_with_what_each_has(tmp_path: Path) -> None:
    answer = together(pytorch="2.7.1", tables=without_arm("2.7.1"))
    assert answer.spec is None
    (found,) = [item for item in answer.findings if item.code == "CU110"]
    assert "only for linux-64: pytorch 2.7.1" in found.message
    assert "linux-aarch64: no candidate, the build does not match --pytorch 2.7.1" in found.message
    done = run("resolve", *H200, *BOTH, "--pytorch", "2.1", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")


def test_proving_asks_both_and_says_which_lacks_what(channel: Path) -> None:
    sources = Sources(mirrors=(Mirror(origin=channel_url("conda-forge"), target=str(channel)),))
    answer = together(sources)
    chosen = answer.decision.chosen
    assert chosen
    assert str(chosen.candidate.build.version) == "2.9.1"
    skipped = {(str(candidate.build.version), missing) for candidate, missing in answer.decision.skipped}
    assert ("2.10.0", "linux-aarch64: the channels have no conda-forge::pytorch=2.10.0=cuda129*") in skipped


def test_commands_for_another_platform_than_this_one_say_so(channel: Path, tmp_path: Path) -> None:
    """conda makes such an environment without a word, and micromamba an empty one."""
    here = platform_here()
    other = next(name for name in PLATFORMS if name != here)
    for name, said in (
        (here, "create the environment with one of:"),
        (other, f"create the environment on {other} with"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "environment.yml").write_text("channels: [conda-forge]\ndependencies: [ninja]\n")
        made = run("lock", *H200, "--platform", name, "--mirror", f"conda-forge={channel}", folder=tmp_path / name)
        assert made.returncode == 0, made.stderr
        assert said in made.stderr


def test_one_lock_for_both_and_each_is_judged(channel: Path, tmp_path: Path) -> None:
    mirror = ("--mirror", f"conda-forge={channel}")
    done = run("resolve", *H200, *BOTH, "--prove", *mirror, "-o", "environment.yml", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "both    one environment for linux-64 and linux-aarch64" in done.stderr
    made = run("lock", *H200, *mirror, folder=tmp_path)
    assert made.returncode == 0, made.stderr
    kept = read_lock(tmp_path / LOCK_NAME)
    assert [item.platform for item in kept.solutions] == list(PLATFORMS)
    for solution in kept.solutions:
        assert {package.subdir for package in solution.packages} == {solution.platform}
        gxx = solution.package("gxx")
        assert gxx
        assert gxx.version.split(".")[0] in ("14", "13")
        machine = {item.name: item.build for item in solution.virtual_packages}["__archspec"]
        assert machine == {"linux-64": "x86_64", "linux-aarch64": "aarch64"}[solution.platform]
        assert f"create the environment on {solution.platform} with one of:\n" in made.stderr
        assert f" --file conda-{solution.platform}.lock\n" in made.stderr
        for name in (f"conda-{solution.platform}.lock", f"conda-{solution.platform}.lock.yml"):
            assert (tmp_path / name).exists()
    for name in (*PLATFORMS, "osx-arm64"):
        host = recorded_host(kept, HostFacts(label="a machine without GPU", platform=name), base())
        assert host
        assert host.platform == (name if name in PLATFORMS else PLATFORMS[0])
    checked = run("check", *H200, folder=tmp_path)
    assert (checked.returncode, checked.stdout.splitlines()[-1]) == (0, "fine")
    old = run("check", "--gpu", "H200", "--driver", "470.129.06", "--glibc", "2.28", "--json", folder=tmp_path)
    assert "CU401" in {item["code"] for item in json.loads(old.stdout)["findings"]}
    for name in PLATFORMS:
        assert run("check", *H200, "--platform", name, folder=tmp_path).returncode == 0
    before = (tmp_path / LOCK_NAME).read_bytes()
    assert run("lock", *H200, *BOTH[2:], *BOTH[:2], *mirror, folder=tmp_path).returncode == 0
    assert (tmp_path / LOCK_NAME).read_bytes() == before
    assert run("lock", "--check", *BOTH, folder=tmp_path).returncode == 0
    (tmp_path / "h200.json").write_text(run("inspect", *H200, "--json", folder=tmp_path).stdout)
    assert run("lock", "--check", "--host", "h200.json", folder=tmp_path).returncode == 0  # the file says both
    one = run("lock", "--check", "--platform", "linux-64", "--json", folder=tmp_path)
    assert one.returncode == 1
    assert json.loads(one.stdout)["findings"][0]["fix"].endswith("--platform linux-64")


def beside(ask: Callable[[SolveRequest], object], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Ask a function before the solver where it answers beside others; the platforms that it was asked for."""
    real, asked = solver.solve, set()

    def solve(request: SolveRequest, sources: Sources, **more: Any) -> Solution | Unsatisfiable:
        if current_thread() is not main_thread():
            asked.add(request.platform)
            ask(request)
        return real(request, sources, **more)

    monkeypatch.setattr(solver, "solve", solve)
    return asked


def test_platforms_are_solved_side_by_side(channel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = ("--mirror", f"conda-forge={channel}")
    assert run("resolve", *H200, *BOTH, "--prove", *mirror, "-o", "environment.yml", folder=tmp_path).returncode == 0
    one_after_another = {}
    for name in PLATFORMS:
        assert run("lock", *H200, "--platform", name, *mirror, folder=tmp_path).returncode == 0
        one_after_another[name] = (tmp_path / f"conda-{name}.lock").read_bytes()
        (tmp_path / LOCK_NAME).unlink()
    both = Barrier(len(PLATFORMS), timeout=60)
    asked = beside(lambda _: both.wait(), monkeypatch)
    assert run("lock", *H200, *mirror, folder=tmp_path).returncode == 0
    assert asked == set(PLATFORMS)
    assert {name: (tmp_path / f"conda-{name}.lock").read_bytes() for name in PLATFORMS} == one_after_another


@collect("fails", [PLATFORMS[:1], PLATFORMS[1:], PLATFORMS])
def test_what_fails_beside_others_is_asked_again_alone(
    channel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: tuple[str, ...]
) -> None:
    first = set(fails)

    def ask(request: SolveRequest) -> None:
        if request.platform in first:
            first.discard(request.platform)
            raise ChannelError("the cache was mended meanwhile")

    mirror = ("--mirror", f"conda-forge={channel}")
    assert run("resolve", *H200, *BOTH, "--prove", *mirror, "-o", "environment.yml", folder=tmp_path).returncode == 0
    asked = beside(ask, monkeypatch)
    done = run("lock", *H200, *mirror, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert asked >= set(fails)
    assert [item.platform for item in read_lock(tmp_path / LOCK_NAME).solutions] == list(PLATFORMS)


def test_of_several_platforms_the_first_in_order_is_told(channel: Path, tmp_path: Path) -> None:
    mirror = ("--mirror", f"conda-forge={channel}")
    named = "".join(f"  - {name}\n" for name in PLATFORMS)
    (tmp_path / "environment.yml").write_text(
        f"name: x\nchannels: [conda-forge, nodefaults]\nplatforms:\n{named}dependencies:\n  - nowhere=1.0\n"
    )
    said = {
        name: run("lock", *H200, *mirror, "--platform", name, folder=tmp_path).stderr.splitlines()[:4]
        for name in PLATFORMS
    }
    both = run("lock", *H200, *mirror, folder=tmp_path)
    assert both.returncode == 1
    assert both.stderr.splitlines()[:4] == said[PLATFORMS[0]]
    assert not list(tmp_path.glob("conda-*"))


@pytest.mark.slow
def test_an_update_moves_the_leaf_on_both(channel: Path, tmp_path: Path) -> None:
    mirror = ("--mirror", f"conda-forge={channel}")
    assert run("resolve", *H200, *BOTH, "--prove", *mirror, "-o", "environment.yml", folder=tmp_path).returncode == 0
    assert run("lock", *H200, *mirror, folder=tmp_path).returncode == 0
    file = tmp_path / "environment.yml"
    file.write_text(
        file.read_text().replace("platforms:\n  - linux-64\n  - linux-aarch64\n", "")
    )  # the lock knows them
    torch = {"linux-64": ("2.9.1",), "linux-aarch64": ("2.9.1",)}
    newer = [package for name in PLATFORMS for package in packages(name, torch[name])]
    newer += [pkg("ninja", "1.13", subdir=name) for name in PLATFORMS]
    write_channel(tmp_path / "newer", newer, subdirs=(*PLATFORMS, "noarch"))
    done = run("lock", "--update", "ninja", "--mirror", f"conda-forge={tmp_path / 'newer'}", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("updated ~ ninja  1.12 -> 1.13\n") == len(PLATFORMS)
    assert done.stderr.count("updated ") == len(PLATFORMS)


def test_an_unknown_platform_among_several_is_refused(tmp_path: Path) -> None:
    for command in ("resolve", "lock"):
        done = run(command, *H200, *BOTH, "--platform", "win-64", folder=tmp_path)
        assert done.returncode == 2
        assert "win-64" in done.stderr


def test_the_json_names_the_platforms(tmp_path: Path) -> None:
    data = json.loads(run("resolve", *H200, *BOTH, "--json", folder=tmp_path).stdout)
    assert data["platforms"] == list(PLATFORMS)
    assert data["chosen"]["pytorch"] == "2.13.0"
    assert all(hint["command"].endswith(" ".join(BOTH)) for hint in data["hints"])


@pytest.mark.slow  # the made channel shows it above, and test_decisions_proven.py solves each platform for real
@pytest.mark.records
def test_both_platforms_close_on_the_real_records(records: Path, tmp_path: Path) -> None:
    mirror = ("--mirror", f"conda-forge={records / 'conda-forge'}")
    done = run("resolve", *H200, *BOTH, "--prove", *mirror, "-o", "environment.yml", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "choice  pytorch 2.10.0 (cuda129*), CUDA 12.9, python 3.12" in done.stderr
    assert run("lock", *H200, *mirror, folder=tmp_path).returncode == 0
    kept = read_lock(tmp_path / LOCK_NAME)
    chosen = [candidate_of(item, base()) for item in kept.solutions]
    assert len(chosen) == len(PLATFORMS)
    assert {environment_key(item)[1:] for item in chosen if item} == {
        environment_key(item)[1:] for item in chosen[:1] if item
    }
    for solution in kept.solutions:
        compiler = solution.package(f"gxx_{solution.platform}")
        assert compiler
        assert compiler.version.startswith("14.")  # nvcc brings it, and gxx binds its release
    assert run("check", *H200, folder=tmp_path).returncode == 0
