"""``cuenv lock --engine conda-lock``: the real conda-lock, driven whole, gives what the embedded solver gives."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases import collect
from channel_builder import pkg, request, write
from commands import HOST, run
from cuenv.core.errors import ChannelError, ExitCode, OutsideError, UsageError
from cuenv.core.io.process import run as run_program
from cuenv.host.facts import VirtualPackage
from cuenv.lockfile.engines import Engine, verify_answer
from cuenv.lockfile.files import LOCK_NAME, read_lock
from cuenv.lockfile.io import conda_lock as conda_lock_input
from cuenv.lockfile.io.conda_client import find_client
from cuenv.lockfile.io.conda_lock import reach
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.io.solver import solve
from cuenv.solve.io.sources import Mirror, Sources, parse_mirror
from cuenv.solve.match_spec import parse_spec
from cuenv.solve.model import Solution
from pip_index import index, stock

FORGE = "https://conda.anaconda.org/conda-forge"
OLD = ("--gpu", "A800", "--driver", "470.129.06", "--glibc", "2.31")
NAMES = ("conda-linux-64.lock", "conda-linux-64.lock.yml", LOCK_NAME)
ENVIRONMENT = """\
name: team
channels: [conda-forge]
platforms: [linux-64]
dependencies:
  - conda-forge::app=1.*=b*  # the newest [linux]
  - lib<3
  - lib>=1
  - fast
"""
PACKAGES = (
    pkg("app", "1.2", "b_1", depends=("lib >=1,<4 cuda*", "__glibc >=2.17", "tool"), constrains=("old <2",)),
    pkg("app", "1.3", "c_0"),
    pkg("lib", "1.0", "cuda126_0"),
    pkg("lib", "2.0", "cuda126_0"),
    pkg("lib", "2.0", "cpu_1"),
    pkg("lib", "3.0", "cuda126_0"),
    pkg("fast", "1.0"),
    pkg("fast", "2.0", depends=("__cuda >=12",)),
    pkg("tool", "1.0", subdir="noarch", noarch="generic"),
)

Lock = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def client(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a program ``conda`` that behaves in some way."""

    def make(mode: str) -> Path:
        program = tmp_path / "bin" / "conda"
        program.parent.mkdir(exist_ok=True)
        script = Path(__file__).parents[1] / "stand_in_conda.py"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" {mode} "{tmp_path}/log" "$@"\n')
        program.chmod(0o755)
        return program

    return make


@pytest.fixture
def lock(tmp_path: Path) -> Lock:
    """Locks in a folder that is made for it, on a channel that lies beside it."""
    write(tmp_path / "mirror", {"forge": PACKAGES})

    def do(
        folder: str, *words: str | Path, host: tuple[str, ...] = HOST, text: str = ENVIRONMENT, **environ: Any
    ) -> subprocess.CompletedProcess[str]:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "environment.yml").write_text(text)
        mirror = f"conda-forge={tmp_path}/mirror/forge"
        return run("lock", *host, "--mirror", mirror, *words, folder=tmp_path / folder, **environ)

    return do


def calls(folder: Path) -> list[dict[str, Any]]:
    """What the stand-in was asked, in order."""
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


def packages(folder: Path) -> dict[str, tuple[str, str | None, str | None]]:
    (solution,) = read_lock(folder / LOCK_NAME).solutions
    return {item.name: (item.url, item.md5, item.sha256) for item in solution.packages}


@pytest.mark.slow
def test_both_engines_write_the_same(tmp_path: Path, lock: Lock, client: Callable[[str], Path]) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "virtual-packages.yml").write_text("subdirs: nonsense, which conda-lock must not meet")
    assert lock("ours").returncode == ExitCode.OK
    done = lock("theirs", "--engine", "conda-lock", "--conda", client("solve"), CONDA_OVERRIDE_CUDA="11.0")
    assert (done.returncode, done.stdout) == (ExitCode.OK, ""), done.stderr
    for name in NAMES:
        ours, theirs = ((tmp_path / folder / name).read_text() for folder in ("ours", "theirs"))
        if name == LOCK_NAME:
            assert '"conda-lock 4' in theirs
            kept = [[line for line in text.splitlines() if "cuenv_solver" not in line] for text in (ours, theirs)]
            assert kept[0] == kept[1]
        else:
            assert ours == theirs
    assert packages(tmp_path / "theirs")["lib"][0] == f"{FORGE}/linux-64/lib-2.0-cuda126_0.tar.bz2"
    assert packages(tmp_path / "theirs")["fast"][0].endswith("fast-2.0-0.tar.bz2")
    assert '"lib": ">=1,<4 cuda*"' in (tmp_path / "theirs" / LOCK_NAME).read_text()
    assert not list((tmp_path / "theirs").glob("cuenv-*"))


@pytest.mark.slow
def test_the_virtual_packages_are_ours(tmp_path: Path, lock: Lock, client: Callable[[str], Path]) -> None:
    """Driver 470 supports CUDA 11.4: fast 2.0, which needs more, is not locked. `lib` is for CUDA 12 and allowed."""
    done = lock("old", "--engine", "conda-lock", "--conda", client("solve"), "--allow", "CU401", host=OLD)
    assert done.returncode == ExitCode.OK, done.stderr
    assert packages(tmp_path / "old")["fast"][0].endswith("fast-1.0-0.tar.bz2")
    seen = calls(tmp_path)[-1]["environ"]
    assert (seen["CONDA_OVERRIDE_CUDA"], seen["CONDA_OVERRIDE_CUDA_ARCH"]) == ("11.4", "8.0")
    assert (seen["CONDA_OVERRIDE_GLIBC"], seen["CONDA_OVERRIDE_ARCHSPEC"]) == ("2.31", "x86_64")


@pytest.mark.slow
def test_a_second_platform_is_locked_too(tmp_path: Path, lock: Lock, client: Callable[[str], Path]) -> None:
    both = ("--platform", "linux-64", "--platform", "linux-aarch64")
    text = ENVIRONMENT.replace("[linux-64]", "[linux-64, linux-aarch64]")
    from cuenv.demo.io.sample import write_channel

    arm = [pkg(item.name, item.version, item.build, subdir="linux-aarch64", depends=item.depends) for item in PACKAGES]
    write_channel(tmp_path / "mirror" / "forge", arm, subdirs=("linux-aarch64",))
    for folder, words in (("ours", ()), ("theirs", ("--engine", "conda-lock", "--conda", client("solve")))):
        done = lock(folder, *both, *words, text=text)
        assert done.returncode == ExitCode.OK, done.stderr
    ours, theirs = (read_lock(tmp_path / folder / LOCK_NAME).solutions for folder in ("ours", "theirs"))
    assert [item.packages for item in ours] == [item.packages for item in theirs]
    assert len(theirs) == 2


@pytest.mark.slow
def test_nothing_of_the_callers_world_gets_in(tmp_path: Path, lock: Lock, client: Callable[[str], Path]) -> None:
    environ = {"CONDA_FLAGS": "--bogus", "CONDA_CHANNELS": "evil", "SECRET": "s3cretpw", "HTTPS_PROXY": "http://p:1"}
    done = lock("theirs", "--engine", "conda-lock", "--conda", client("solve"), **environ)
    assert done.returncode == ExitCode.OK, done.stderr
    seen = calls(tmp_path)[-1]
    assert seen["environ"]["HTTPS_PROXY"] == "http://p:1"
    assert not {"CONDA_CHANNELS", "SECRET"} & set(seen["environ"])
    assert "--bogus" not in seen["argv"]
    assert "--no-default-packages" in seen["argv"]
    assert not Path(seen["environ"]["CONDARC"]).exists()


@pytest.mark.slow
def test_credentials_are_in_no_argument_and_in_no_product(
    tmp_path: Path, lock: Lock, client: Callable[[str], Path]
) -> None:
    mirror = "other=http://user:s3cretpw@127.0.0.1:9/t/tk-123456789/other"
    text = ENVIRONMENT.replace("[conda-forge]", "[conda-forge, other]")
    done = lock("theirs", "--engine", "conda-lock", "--conda", client("far"), "--mirror", mirror, text=text)
    assert done.returncode == ExitCode.INPUT
    seen = calls(tmp_path)
    assert "other" in seen[-1]["argv"]
    everything = json.dumps([call["argv"] for call in seen]) + done.stderr + done.stdout
    assert "s3cretpw" not in everything
    assert "tk-123456789" not in everything
    assert "\x1b" not in done.stderr
    assert "HTTP 000 CONNECTION FAILED" in done.stderr


@pytest.mark.slow
def test_an_answer_that_is_not_what_was_asked_is_refused(
    tmp_path: Path, lock: Lock, client: Callable[[str], Path]
) -> None:
    done = lock("theirs", "--engine", "conda-lock", "--conda", client("lie"))
    assert done.returncode == ExitCode.NEGATIVE
    assert "error CU113 the solution of conda-lock 4" in done.stderr
    assert "lib<3" in done.stderr
    assert "there is conda-forge::lib 3.0" in done.stderr
    assert not (tmp_path / "theirs" / LOCK_NAME).exists()


@pytest.mark.slow
def test_the_pip_part_stays_with_uv(tmp_path: Path, lock: Lock, client: Callable[[str], Path]) -> None:
    """conda-lock never hears of it: it would download a table of names, and resolve for another machine."""
    from cuenv.demo.io.sample import write_channel

    more = [pkg("python", "3.12.7", "h1_0_cpython"), pkg("pip", "25.0", subdir="noarch", noarch="generic")]
    write_channel(tmp_path / "mirror" / "forge", [*PACKAGES, *more], subdirs=("linux-64", "noarch"))
    text = ENVIRONMENT + "  - python=3.12\n  - pip\n  - pip: [psutil]\n"
    with index(stock(tmp_path / "index")) as server:
        environ = {"UV_DEFAULT_INDEX": f"{server.url}/simple", "NO_PROXY": "*"}
        for folder, words in (("ours", ()), ("theirs", ("--engine", "conda-lock", "--conda", client("solve")))):
            done = lock(folder, *words, text=text, **environ)
            assert done.returncode == ExitCode.OK, done.stderr
    for name in ("requirements-linux-64.lock.txt", "conda-linux-64.lock"):
        assert (tmp_path / "ours" / name).read_text() == (tmp_path / "theirs" / name).read_text()
    assert read_lock(tmp_path / "theirs" / LOCK_NAME).pip == ("psutil==6.0",)
    assert not [word for word in calls(tmp_path)[-1]["argv"] if "psutil" in word]


@pytest.mark.slow
def test_another_hash_than_the_channels_is_refused(lock: Lock, client: Callable[[str], Path]) -> None:
    done = lock("theirs", "--engine", "conda-lock", "--conda", client("hash"))
    assert done.returncode == ExitCode.INPUT
    assert f"its sha256 is {'0' * 64} in the client's answer" in done.stderr


@pytest.mark.slow
def test_unsatisfiable_is_a_negative_answer(lock: Lock, client: Callable[[str], Path]) -> None:
    done = lock(
        "theirs", "--engine", "conda-lock", "--conda", client("solve"), text=ENVIRONMENT.replace("lib>=1", "lib!=1,!=2")
    )
    assert done.returncode == ExitCode.NEGATIVE
    assert "error CU120 the channels cannot satisfy the environment file" in done.stderr
    assert "lib" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "words"), [("crash", "Segmentation fault"), ("nonsense", "Failed to parse json")])
def test_a_client_that_fails_is_a_failure_of_the_outside(
    lock: Lock, client: Callable[[str], Path], mode: str, words: str
) -> None:
    done = lock("theirs", "--engine", "conda-lock", "--conda", client(mode))
    assert done.returncode == ExitCode.OUTSIDE
    assert done.stderr.startswith("error: conda-lock with conda 26.7.1 failed: ")
    assert words in done.stderr
    for secret in ("s3cretpw", "tk-123456789", "\x1b", "Traceback"):
        assert secret not in done.stderr


@pytest.mark.slow
def test_ctrl_c_ends_the_client_as_well(tmp_path: Path, lock: Lock, client: Callable[[str], Path]) -> None:
    lock("theirs", "--version")
    words = ["lock", *HOST, "--mirror", f"conda-forge={tmp_path}/mirror/forge", "--engine", "conda-lock", "--conda"]
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "cuenv", *words, str(client("hang"))],
        cwd=tmp_path / "theirs",
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not ((tmp_path / "log").exists() and len(calls(tmp_path)) > 2):
        time.sleep(0.05)
    pid = calls(tmp_path)[-1]["pid"]
    assert calls(tmp_path)[-1]["argv"][0] == "create"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=10)
    assert process.returncode == ExitCode.INTERRUPTED, stderr
    assert not list(temporary.iterdir())
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the client goes on")


def test_options_that_do_not_go_together(tmp_path: Path, lock: Lock) -> None:
    engine = ("--engine", "conda-lock", "--conda", "/nonexistent/conda")
    for words, said in (
        (engine, "--conda /nonexistent/conda: no such program"),
        ((*engine, "--update", "lib"), "--update needs the embedded solver"),
        ((*engine, "--repair", "-o", "new.yml"), "--repair needs the embedded solver"),
        (("--conda", "conda"), "--conda names the client for conda-lock; add --engine conda-lock"),
        (("--engine", "mamba"), "is not one of 'embedded', 'conda-lock'"),
    ):
        done = lock("theirs", *words)
        assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
        assert said in done.stderr
    assert not (tmp_path / "theirs" / LOCK_NAME).exists()


def test_check_needs_no_engine(lock: Lock) -> None:
    assert lock("ours").returncode == ExitCode.OK
    done = lock("ours", "--check", "--engine", "conda-lock", PATH="/nonexistent")
    assert done.returncode == ExitCode.OK, done.stderr


def real_client() -> str | None:
    return next(filter(None, map(shutil.which, ("conda", "mamba", "micromamba"))), None)


@pytest.mark.slow
@pytest.mark.skipif(real_client() is None, reason="no conda, mamba or micromamba on PATH")
@pytest.mark.parametrize("host", [HOST, OLD])
def test_a_real_client_gives_the_same_lock(tmp_path: Path, lock: Lock, host: tuple[str, ...]) -> None:
    assert lock("ours", host=host).returncode == ExitCode.OK
    more = {name: os.environ[name] for name in ("CONDA_SOLVER",) if name in os.environ}
    done = lock("theirs", "--engine", "conda-lock", "--conda", str(real_client()), host=host, **more)
    assert done.returncode == ExitCode.OK, done.stderr
    assert packages(tmp_path / "ours") == packages(tmp_path / "theirs")


def test_the_client_is_looked_for_in_order(tmp_path: Path, client: Callable[[str], Path]) -> None:
    program = client("solve")
    path = str(program.parent)
    assert find_client(None, {"PATH": path}).path == str(program)
    assert find_client("conda", {"PATH": path}).path == str(program)
    other = tmp_path / "micromamba"
    other.write_text("#!/bin/sh\necho 2.8.1\n")
    other.chmod(0o755)
    found = find_client(None, {"PATH": path, "MAMBA_EXE": str(other), "CONDA_EXE": "/nonexistent/conda"})
    assert (found.path, str(found)) == (str(other), "micromamba 2.8.1")
    with pytest.raises(OutsideError, match="there is no conda, mamba or micromamba"):
        find_client(None, {"PATH": "/nonexistent", "CONDA_EXE": str(tmp_path)})
    with pytest.raises(UsageError, match="no such program"):
        find_client(str(tmp_path), {"PATH": path})
    other.write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(OutsideError, match="it answers 'hello'"):
        find_client(str(other), {"PATH": path})


@pytest.mark.slow
def test_a_program_that_takes_its_time_is_waited_for() -> None:
    ticks: list[float] = []
    done = run_program(["sleep", "1.3"], None, tick=lambda: ticks.append(time.monotonic()))
    assert (done.code, done.reason, len(ticks)) == (0, None, 1)


def test_requirements_on_one_name_become_one() -> None:
    """conda-lock would keep the last one."""
    pins = tuple(map(parse_spec, ("a<3", "conda-forge::a", "a=1|=2=b*", "b", "a>=1", "__cuda>=12")))
    joined = conda_lock_input.joined(pins[:3] + pins[3:5])
    assert [pin.yaml_text() for pin in joined] == ["conda-forge::a[version='<3,==1,>=1|<3,==2,>=1',build='b*']", "b"]
    spec = EnvironmentSpec(name="", channels=("conda-forge",), pins=pins, pip=("accelerate",))
    text = conda_lock_input.environment_input(spec, ("forge",), {"conda-forge": "forge"}, "linux-64")
    data = json.loads(text)
    assert (data["channels"], data["platforms"]) == (["forge"], ["linux-64"])
    assert [item.partition("[")[0] for item in data["dependencies"]] == ["forge::a", "b"]


def test_virtual_packages_as_conda_lock_reads_them() -> None:
    made = (VirtualPackage("__cuda", "12.2"), VirtualPackage("__archspec", "1", "x86_64"))
    text = conda_lock_input.virtual_packages(made, "linux-64")
    assert json.loads(text) == {
        "subdirs": {"linux-64": {"packages": {"__cuda": "12.2", "__archspec": "1 x86_64"}}},
    }


def answer(tmp_path: Path, **changes: Any) -> tuple[list[Solution], Sources]:
    """The embedded solver's answer to ``app``, with another package in place of app, as if conda-lock had given it."""
    sources = write(tmp_path / "channel", {"conda-forge": PACKAGES})
    found = solve(request("app", "lib"), sources)
    assert isinstance(found, Solution)
    app = found.package("app")
    assert app
    changed = replace(app, depends=("lib >=1,<4",), constrains=(), **changes)
    return [replace(found, packages=(changed, *(item for item in found.packages if item is not app)))], sources


SPEC = EnvironmentSpec(name="", channels=("conda-forge",), pins=(Pin(name="app"),))
STOCK = Engine(name="conda-lock")


def test_the_records_complete_an_answer(tmp_path: Path) -> None:
    given, sources = answer(tmp_path)
    (whole,), findings = verify_answer(STOCK, SPEC, given, sources)
    (app,) = [item for item in whole.packages if item.name == "app"]
    assert (app, findings) == (solve(request("app", "lib"), sources).package("app"), [])  # type: ignore[union-attr]
    assert verify_answer(Engine(), SPEC, given, sources) == (given, [])


def test_the_other_archive_format_keeps_its_hashes(tmp_path: Path) -> None:
    url = f"{FORGE}/linux-64/app-1.3-c_0.conda"
    given, sources = answer(tmp_path, url=url, md5="1" * 32, sha256=None)
    (whole,), findings = verify_answer(STOCK, SPEC, given, sources)
    app = whole.package("app")
    assert app
    assert (app.url, app.md5, app.depends, findings) == (url, "1" * 32, (), [])


def test_a_package_without_record_is_refused(tmp_path: Path) -> None:
    given, sources = answer(tmp_path, version="9", url=f"{FORGE}/linux-64/app-9-c_0.conda")
    _, (finding,) = verify_answer(STOCK, SPEC, given, sources)
    assert (finding.code, finding.severity) == ("CU113", "error")
    assert "the channels do not contain app 9 c_0" in finding.message


def test_channels_that_only_conda_reaches_are_said(tmp_path: Path) -> None:
    given, _ = answer(tmp_path)
    lost = Sources(mirrors=(Mirror(origin=FORGE, target=str(tmp_path / "gone")),))
    (same,), (finding,) = verify_answer(STOCK, SPEC, given, lost)
    assert same == given[0]
    assert (finding.code, finding.severity) == ("CU114", "warning")
    assert "are recorded without builds: channel conda-forge" in finding.message


def test_what_conda_reads_means_the_same_to_conda_lock(tmp_path: Path) -> None:
    module = pytest.importorskip("conda_lock.src_parser.environment_yaml")
    texts = ("a", "a=1.2", "a==1.2", "a>=1,<2", "a=1.2=b*", "ch::a=2.7.*=b*", "ch::a[version='>=1,<2',build='b*']")
    for text in texts:
        spec = EnvironmentSpec(name="", channels=("ch",), pins=(parse_spec(text),))
        path = tmp_path / "environment.yml"
        path.write_text(conda_lock_input.environment_input(spec, ("ch",), {}, "linux-64"))
        (found,) = module.parse_environment_file(path, ["linux-64"], mapping_url="").dependencies["linux-64"]
        (pin,) = spec.pins
        assert (found.name, found.build or "", found.conda_channel or "") == (pin.name, pin.build, pin.channel)
        assert found.version.removeprefix("==") == pin.condition().removeprefix("==")


def test_how_conda_is_told_of_channels(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    sources = Sources(
        mirrors=(
            parse_mirror("conda-forge=https://user:pw@mirror.example/x/conda-forge"),
            parse_mirror(f"nvidia={tmp_path}/folder"),
        ),
        proxies=(("https", "http://u:pw@proxy:1"),),
        certificates="/etc/ca.pem",
    )
    (tmp_path / "folder" / "label" / "cuda-11.8.0").mkdir(parents=True)
    label = "nvidia/label/cuda-11.8.0"
    plan = reach(("conda-forge", label, "https://me:pw@own.example/a/b"), (label,), sources, tmp_path / "s")
    assert plan.channels == ("conda-forge", label, "a/b")
    assert plan.names == {label: label}
    assert plan.settings["custom_channels"] == {
        "conda-forge": "https://user:pw@mirror.example/x",
        label: f"file://{tmp_path}/s/0",
        "a/b": "https://me:pw@own.example",
    }
    assert plan.settings["channel_priority"] == "strict"
    assert plan.settings["ssl_verify"] == "/etc/ca.pem"
    assert plan.links == ((tmp_path / "s" / "0" / label, tmp_path / "folder" / "label" / "cuda-11.8.0"),)
    assert ("https://mirror.example/x/conda-forge", FORGE) in plan.origins
    assert "pw" not in repr(plan)


def test_defaults_are_told_by_their_parts(tmp_path: Path) -> None:
    plan = reach(("defaults",), (), Sources(default_channels=("https://own.example/pkgs/main",)), tmp_path)
    assert plan.channels == ("defaults",)
    assert plan.settings["default_channels"] == ["https://own.example/pkgs/main"]
    assert plan.settings["custom_channels"] == {"pkgs/main": "https://own.example"}


@collect(
    ("channels", "target", "error", "words"),
    [
        (("conda-forge",), "https://user:pw@mirror.example/cf", UsageError, "ends with /conda-forge, and this one is"),
        (("conda-forge", "https://own.example/conda-forge"), "", UsageError, "distinguish two channels"),
        (("../../etc",), "", UsageError, "is not a channel that conda can use"),
        (("conda-forge",), "/nonexistent/folder", ChannelError, "/nonexistent/folder is not a folder"),
    ],
)
def test_what_conda_cannot_be_told(
    tmp_path: Path, channels: tuple[str, ...], target: str, error: type[Exception], words: str
) -> None:
    mirrors = (Mirror(origin=FORGE, target=target),) if target else ()
    with pytest.raises(error, match=words) as caught:
        reach(channels, (), Sources(mirrors=mirrors), tmp_path)
    assert "pw" not in str(caught.value)


def test_offline_needs_folders(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="conda-lock does not cache channels"):
        reach(("conda-forge",), (), Sources(offline=True), tmp_path)
    (tmp_path / "f").mkdir()
    mirrors = (Mirror(origin=FORGE, target=str(tmp_path / "f")),)
    assert reach(("conda-forge",), (), Sources(offline=True, mirrors=mirrors), tmp_path).settings["offline"] is True


def test_a_pin_is_compared_with_the_answer() -> None:
    """Every way in which a foreign answer can be wrong is named once."""
    from cuenv.solve.io.solver import unmet
    from given import package, solution

    app = package("app", depends=("lib 1.0 cuda*", "gone", "__cuda >=13"), constrains=("lib <1", "absent <1"))
    found = solution(app, package("lib", build="cpu_0", channel="other"))
    pins = (Pin(name="app", version="2.0"), Pin(name="missing"), Pin(name="__cuda", version=">=12"))
    said = list(unmet(pins, found, ("conda-forge",), Sources()))
    assert said == [
        "app=2.0: there is conda-forge::app 1.0 0",
        "missing: it does not exist",
        "__cuda>=12: it does not exist",
        "app needs lib 1.0 cuda*: there is other::lib 1.0 cpu_0",
        "app needs gone: it does not exist",
        "app needs __cuda >=13: it does not exist",
        "app allows lib <1: there is other::lib 1.0 cpu_0",
        "lib comes from other",
    ]
    fine = solution(package("app", depends=("lib 1.0 cuda*",)), package("lib", build="cuda_0"))
    assert list(unmet((Pin(name="app", version="1.0"),), fine, ("conda-forge",), Sources())) == []
