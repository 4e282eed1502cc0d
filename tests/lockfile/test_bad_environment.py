"""Environment files of somebody's editor, habit or neighbour: a right answer or a clear no, nothing half-written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

import quick_yaml
from cases import collect
from channel_builder import Server, pkg, write
from commands import HOST
from commands import inside as run
from cuenv.core.errors import InputError
from cuenv.lockfile.files import read_environment
from cuenv.lockfile.formats import PLATFORM, formats
from cuenv.solve.environment_spec import WRITTEN_BY
from pip_index import index, wheel

LOCKS = {"conda-linux-64.lock", "conda-linux-64.lock.yml", "conda-lock.yml"}
KNOWN = {item.file.replace(PLATFORM, "linux-64") for item in formats()}
PIP = "channels: [conda-forge]\ndependencies: [python, pip, {pip: [%s]}]\n"
HASH = "0" * 64


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> str:
    packages = [
        pkg("python", "3.11.9"),
        pkg("python", "3.12.7"),
        pkg("pip", "25.0", subdir="noarch", noarch="python", depends=("python",)),
        pkg("a", "1.0"),
    ]
    return f"conda-forge={write(tmp_path_factory.mktemp('channel'), {'conda-forge': packages}).mirrors[0].target}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("index")
    wheel(folder, "tool", "1.0", "more; extra == 'big'", extras=["big"])
    wheel(folder, "more", "1.0")
    with index(folder) as running:
        yield running


def locked(folder: Path, text: str, mirror: str, url: str, *more: str) -> tuple[int, str, set[str]]:
    """The exit code, what was said, and what lies there beside the environment file."""
    (folder / "environment.yml").write_bytes(text.encode())
    words = ("lock", *HOST, "--mirror", mirror, "--no-progress", *more)
    done = run(*words, folder=folder, UV_DEFAULT_INDEX=f"{url}/simple", NO_PROXY="*", UV_HTTP_RETRIES="0")
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    written = {path.name for path in folder.iterdir() if not path.name.startswith(".")} - {"environment.yml"}
    return done.returncode, done.stderr, written


REFUSED = {
    "tabs": ("channels:\n\t- conda-forge\ndependencies: [python]\n", 3, "indented with spaces, not tabs"),
    "a duplicate key": ("dependencies: [python]\nchannels: [conda-forge]\ndependencies: [a]\n", 3, "appears twice"),
    "an alias to nothing": ("channels: *c\ndependencies: [python]\n", 3, "alias"),
    "a merge key": ("b: &b {name: x}\n<<: *b\nchannels: [conda-forge]\ndependencies: [python]\n", 3, "merge keys"),
    "nodefaults alone": ("channels: [nodefaults]\ndependencies: [python]\n", 3, "leaves no channel"),
    "two Pythons": ("channels: [conda-forge]\ndependencies: [python=3.11, python=3.12]\n", 1, "both apply"),
    "an extra that is none": (PIP % "'tool[big'", 1, "CU514"),
    "an entry in quotes": (PIP % "'\"tool\"'", 1, "write the line without quotes"),
    "a marker that is none": (PIP % "'tool; python_verison < 3'", 1, "CU514"),
    "an index that is no URL": (PIP % "'--index-url simple'", 1, "it is not a URL"),
    "a package that nobody has": (PIP % "nobody-has-this", 3, "has nobody-has-this"),
    "an escape sequence": (PIP % '"tool\\e[2J"', 3, "on one line"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_clear_no_and_nothing_written(name: str, tmp_path: Path, mirror: str, server: Server) -> None:
    text, code, says = REFUSED[name]
    found, said, written = locked(tmp_path, text, mirror, server.url)
    assert (found, written) == (code, set()), said
    assert says in said
    assert "hunter2" not in said


ASIDE = {
    "a URL": (PIP % "'https://x.example/t-1.0-py3-none-any.whl'", "a URL without a name"),
    "a URL with a name": (PIP % "'t @ https://x.example/t-1.0.tar.gz'", "NAME @ URL#sha256=HASH"),
    "a local path": (PIP % "./tool", "it is a folder, which does not exist"),
    "a git reference": (PIP % "'tool @ git+https://me:hunter2@x.example/tool.git@main'", "which can move"),
}


@collect("name", ASIDE)
def test_what_no_hash_pins_is_set_aside(name: str, tmp_path: Path, mirror: str, server: Server) -> None:
    text, says = ASIDE[name]
    code, said, written = locked(tmp_path, text, mirror, server.url)
    assert code == 0, said
    assert written >= {*LOCKS, "requirements-linux-64.unlocked.txt"}
    assert "requirements-linux-64.lock.txt" not in written
    assert "CU521" in said
    assert says in said
    assert "hunter2" not in said + "".join((tmp_path / name).read_text() for name in written)


GOOD = {
    "CRLF": ("channels:\r\n- conda-forge\r\ndependencies:\r\n- python=3.12\r\n", "", {"python": "3.12.7"}),
    "anchors": ("channels: &c [conda-forge]\nx: *c\ndependencies: [&p python]\n", "'x': ignored", {"python": "3.12.7"}),
    "selectors": (
        "channels: [conda-forge]\ndependencies:\n- python\n- a  # [win]\n",
        "line 4: left out, because [win] selects another system than Linux",
        {"python": "3.12.7"},
    ),
    "nodefaults": (
        "channels: [conda-forge, nodefaults]\ndependencies: [python=3.11]\n",
        "'nodefaults': conda's default channels are not added",
        {"python": "3.11.9"},
    ),
    "a byte order mark": ("\ufeffchannels: [conda-forge]\ndependencies: [a]\n", "", {"a": "1.0"}),
    "an extra": (PIP % "'tool[big]'", "", {"pip": "25.0", "python": "3.12.7", "tool": "1.0", "more": "1.0"}),
    "a marker that holds": (
        PIP % "\"tool; sys_platform == 'linux'\"",
        "",
        {"pip": "25.0", "python": "3.12.7", "tool": "1.0"},
    ),
    "a marker that does not hold": (PIP % "'tool; os_name == \"nt\"'", "", {"pip": "25.0", "python": "3.12.7"}),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_is_only_unusual_is_locked(name: str, tmp_path: Path, mirror: str, server: Server) -> None:
    text, says, packages = GOOD[name]
    code, said, written = locked(tmp_path, text, mirror, server.url)
    assert code == 0, said
    assert LOCKS <= written <= KNOWN
    assert says in said
    entries = quick_yaml.load((tmp_path / "conda-lock.yml").read_text())["package"]
    assert {item["name"]: item["version"] for item in entries} == packages


def test_a_marker_that_never_holds_can_be_checked(tmp_path: Path, mirror: str, server: Server) -> None:
    """Nothing is locked for pip then, and the lock is whole all the same."""
    assert locked(tmp_path, GOOD["a marker that does not hold"][0], mirror, server.url)[0] == 0
    assert run("lock", "--check", folder=tmp_path).returncode == 0
    checked = run("check", *HOST, folder=tmp_path)
    assert checked.returncode == 0, checked.stdout


def test_an_index_that_is_down_leaves_the_old_lock(tmp_path: Path, mirror: str, server: Server) -> None:
    assert locked(tmp_path, PIP % "tool", mirror, server.url)[0] == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    code, said, _ = locked(tmp_path, PIP % "tool, more", mirror, "http://127.0.0.1:9")
    assert code == 3
    assert "cannot be reached" in said
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert {**after, "environment.yml": before["environment.yml"]} == before


def test_a_package_without_hashes(tmp_path: Path, mirror: str, server: Server) -> None:
    with index(server.folder, hashes="") as bare:
        code, said, written = locked(tmp_path, PIP % "tool", mirror, bare.url)
    assert code == 0, said
    assert written >= LOCKS | {"requirements-linux-64.lock.txt"}  # uv hashes the file itself
    assert "--hash=sha256:" in (tmp_path / "requirements-linux-64.lock.txt").read_text()
    with index(server.folder, hashes="md5") as weak:
        (tmp_path / "weak").mkdir()
        code, said, written = locked(tmp_path / "weak", PIP % "tool", mirror, weak.url)
    assert code == 0
    assert written >= {*LOCKS, "requirements-linux-64.unlocked.txt"}
    assert "requirements-linux-64.lock.txt" not in written
    assert "CU521 pip: tool==1.0 is not locked but set aside: the index has no sha256 for it" in said


def test_a_repair_is_not_promised_for_a_slip_and_says_what_it_drops(
    tmp_path: Path, mirror: str, server: Server
) -> None:
    said = locked(tmp_path, PIP % "'tool[big'", mirror, server.url)[1]
    assert "--repair" not in said
    code, said, written = locked(
        tmp_path, PIP % "'tool[big'", mirror, server.url, "--repair", "-o", str(tmp_path / "new")
    )
    assert (code, written) == (0, {"new"})
    assert "CU514" in said
    assert "dropped   pip: tool[big: " in said
    assert "it is not a valid requirement" in said


def test_what_is_no_yaml_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "broken.yml").write_text("channels:\n  - conda-forge\ndependencies:\n  - a\n b: - c\n")
    told = run("lock", "broken.yml", *HOST, folder=tmp_path)
    assert told.returncode == 3
    assert "broken.yml: not valid YAML: line 5, column 2: " in told.stderr
    assert "hint: correct the file, then: cuenv lock broken.yml" in told.stderr


def test_an_environment_file_is_locked_before_it_is_checked(tmp_path: Path) -> None:
    (tmp_path / "ok.yml").write_text("dependencies: [python=3.12]\n")
    assert "hint: cuenv lock ok.yml && cuenv check conda-lock.yml\n" in run("check", "ok.yml", folder=tmp_path).stderr
    host = ["--gpu", "RTX 4090", "--driver", "535.129.03"]
    both = (
        "cuenv lock ok.yml --gpu 'RTX 4090' --driver 535.129.03 && cuenv check conda-lock.yml --gpu 'RTX 4090' --driver"
    )
    assert f"hint: {both}" in run("check", "ok.yml", *host, folder=tmp_path).stderr
    (tmp_path / "conda-lock.yml").write_text("version: 1\n")
    assert "hint: cuenv check conda-lock.yml" in run("check", "ok.yml", folder=tmp_path).stderr


def test_two_profiles_for_one_environment(tmp_path: Path) -> None:
    done = run("resolve", *HOST, "--profile", "inference", "--profile", "jit-dev", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--profile is given as 'inference' and 'jit-dev'" in done.stderr
    same = run("resolve", *HOST, "--profile", "inference", "--profile", "inference", folder=tmp_path)
    assert same.returncode == 0, same.stderr


def test_a_profile_that_contradicts_itself(tmp_path: Path) -> None:
    (tmp_path / "odd.yml").write_text("name: odd\nstory: two wishes\npytorch: '2.7'\nwith: ['pytorch=2.4']\n")
    done = run("resolve", *HOST, "--profile", "odd.yml", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pytorch=2.4: cuenv chooses the version of pytorch" in done.stderr


def test_a_list_of_requirements_is_read_as_an_environment(tmp_path: Path) -> None:
    lists = {
        "# torch\n\ntorch==2.4.1\n": "torch==2.4.1",
        "--extra-index-url https://x.example\ntorch\n": "torch",
        "einops[all]>=0.7 ; python_version > '3'\n": "einops[all]>=0.7 ; python_version > '3'",
        "git+https://x.example/a.git\n": "git+https://x.example/a.git",
        "'torch==2.4.1'\n": "'torch==2.4.1'",
    }
    for name in ("requirements.txt", "my list.in"):
        for text, line in lists.items():
            (tmp_path / name).write_text(text)
            spec, remarks = read_environment(tmp_path / name)
            assert (spec.channels, [pin.yaml_text() for pin in spec.pins]) == (("conda-forge",), ["python", "pip"])
            assert (spec.pip[-1], remarks) == (line, ())
        for nothing in ("", "# torch\n\n"):
            (tmp_path / name).write_text(nothing)
            with pytest.raises(InputError, match="names no package"):
                read_environment(tmp_path / name)
    (tmp_path / ".python-version").write_text("2.7\n")
    (tmp_path / "requirements.txt").write_text("torch\n")
    assert read_environment(tmp_path / "requirements.txt")[1][0].startswith(".python-version is not used")
    (tmp_path / "env.txt").write_text("name: x\ndependencies: [python]\n")
    assert [pin.name for pin in read_environment(tmp_path / "env.txt")[0].pins] == ["python"]


@pytest.mark.slow
def test_a_list_of_requirements_is_locked_and_its_changes_are_seen(tmp_path: Path, mirror: str, server: Server) -> None:
    (tmp_path / "requirements.txt").write_text("tool\n")
    (tmp_path / ".python-version").write_text("3.11\n")
    hint = run("lock", folder=tmp_path).stderr.splitlines()[-1]
    assert hint == "hint: cuenv lock requirements.txt"
    with index(server.folder) as wheels:
        code, said, files = locked(tmp_path, "x", mirror, wheels.url, "requirements.txt")
        assert code == 0, said
        assert files >= LOCKS
        assert "it names no Python, but .python-version names 3.11" in said
        assert "python-3.11." in (tmp_path / "conda-lock.yml").read_text(encoding="utf-8")
        assert run("check", *HOST, folder=tmp_path).returncode == 0
        (tmp_path / "requirements.txt").write_text("tool\nother\n")
        told = run("check", *HOST, folder=tmp_path)
        assert "CU107 requirements.txt asks pip for other" in told.stdout
        assert "fix: cuenv lock requirements.txt" in told.stdout
        (tmp_path / "requirements.txt").write_text("# ours\ntool==99\n")
        code, said, files = locked(tmp_path, "x", mirror, wheels.url, "requirements.txt")
        assert (code, "--repair -o requirements.new.txt" in said) == (1, True)
        words = ("requirements.txt", "--repair", "-o", "requirements.new.txt")
        code, said, files = locked(tmp_path, "x", mirror, wheels.url, *words)
        assert code == 0, said
        text = (tmp_path / "requirements.new.txt").read_text(encoding="utf-8")
        assert re.search(r"^tool==[0-9.]+\n\Z", text, re.MULTILINE)
        assert locked(tmp_path, "x", mirror, wheels.url, "requirements.new.txt")[0] == 0


@pytest.mark.slow
def test_a_list_is_locked_for_the_newest_python_with_which_it_resolves(
    tmp_path: Path, mirror: str, server: Server
) -> None:
    wheel(server.folder, "aged", "1.0", tag="cp311-cp311-linux_x86_64")
    wheel(server.folder, "aged", "2.0", tag="cp310-cp310-linux_x86_64")
    with index(server.folder) as wheels:
        for lines, python in (("tool", "3.12"), ("tool\naged==1.0", "3.11")):
            (tmp_path / "requirements.txt").write_text(f"{lines}\n")
            code, said, _ = locked(tmp_path, "x", mirror, wheels.url, "requirements.txt")
            assert code == 0, said
            other = {"3.12": "3.11", "3.11": "3.10"}[python]
            assert f"it names no Python; cuenv uses {python}; for another one: echo {other} > .python-version" in said
            assert run("check", *HOST, folder=tmp_path).returncode == 0
            assert f"python-{python}." in (tmp_path / "conda-lock.yml").read_text(encoding="utf-8")
        (tmp_path / "environment.yml").unlink()
        assert run("lock", "--check", folder=tmp_path).returncode == 0
        texts = []
        for _ in range(2):  # the second one keeps what the first one holds
            locked(tmp_path, "x", mirror, wheels.url, "requirements.txt", "--format", "requirements")
            texts.append((tmp_path / "requirements.lock.txt").read_text(encoding="utf-8"))
        assert "aged==1.0" in texts[0]
        (tmp_path / "requirements.txt").write_text("tool @ git+https://x.example/tool.git\n")
        words = ("requirements.txt", "--format", "requirements", "-o", "nothing.txt")
        code, said, written = locked(tmp_path, "x", mirror, wheels.url, *words)
        assert (code, "nothing.txt" in written) == (1, False)
        assert "CU517 no pip requirement of requirements.txt can be locked: all are set aside" in said
        assert texts[1] == texts[0]
        before = (tmp_path / "conda-lock.yml").read_bytes()
        for lines in ("aged==2.0", "aged==9"):
            (tmp_path / "requirements.txt").write_text(f"{lines}\n")
            code, said, _ = locked(tmp_path, "x", mirror, wheels.url, "requirements.txt")
            assert (code, "CU510" in said) == (1, True), said
            assert said.count("error CU510") == 1
        assert (tmp_path / "conda-lock.yml").read_bytes() == before


@pytest.mark.slow
def test_an_environment_that_leaves_python_open_takes_one_with_which_pip_resolves(
    tmp_path: Path, mirror: str, server: Server
) -> None:
    wheel(server.folder, "aged", "1.0", tag="cp311-cp311-linux_x86_64")
    with index(server.folder) as wheels:
        for python in ("python", "python>=3.9"):
            text = f"channels: [conda-forge]\ndependencies: ['{python}', pip, {{pip: [aged==1.0]}}]\n"
            code, said, _ = locked(tmp_path, text, mirror, wheels.url)
            assert code == 0, said
            assert "it leaves Python open; cuenv uses 3.11, with which its pip part can be locked" in said
            assert "python-3.11." in (tmp_path / "conda-lock.yml").read_text(encoding="utf-8")
            assert run("lock", "--check", folder=tmp_path).returncode == 0
            (tmp_path / "conda-lock.yml").unlink()
        text = "channels: [conda-forge]\ndependencies: [python=3.12, pip, {pip: [aged==1.0]}]\n"
        code, said, _ = locked(tmp_path, text, mirror, wheels.url)
        assert (code, "CU510" in said) == (1, True)


def test_a_torch_that_is_left_open_is_one_that_runs(tmp_path: Path, mirror: str) -> None:
    """On driver 535 CUDA 13 does not run; on 470 nor does CUDA 12, and torch 2.0 has no wheel for Python 3.12."""
    folder = tmp_path / "wheels"
    for release, tag in (("2.15.0", "py3-none-any"), ("2.10.0", "py3-none-any"), ("2.0.1", "cp311-cp311-linux_x86_64")):
        wheel(folder, "torch", release, tag=tag)
    for release in ("1.26.4", "2.1.0"):
        wheel(folder, "numpy", release)
    with index(folder) as wheels:
        environ = {"UV_DEFAULT_INDEX": f"{wheels.url}/simple", "NO_PROXY": "*"}
        (tmp_path / "requirements.txt").write_text("torch\nnumpy\n")
        for driver, pins in (
            ("535.129.03", ("torch==2.10.0", "numpy==2.1.0")),
            ("470.129.06", ("torch==2.0.1", "numpy==1.26.4")),
        ):
            words = ("--gpu", "A100", "--driver", driver, "--glibc", "2.35", "--mirror", mirror, "--format", "pylock")
            done = run("lock", "requirements.txt", *words, folder=tmp_path, **environ)
            assert done.returncode == 0, done.stderr
            assert "CU520 the file leaves torch open, and " in done.stderr
            text = (tmp_path / "pylock.toml").read_text(encoding="utf-8")
            for pin in pins:
                name, _, release = pin.partition("==")
                assert f'name = "{name}"\nversion = "{release}"' in text
            assert ("CU116 numpy<2 is used" in done.stderr) == (driver < "5")
            (tmp_path / "pylock.toml").unlink()


@collect(
    ("name", "text", "said", "command"),
    [
        ("pyproject.toml", "[project]\nname = 'x'\n", "is a project file of Python", "uv lock && cuenv check uv.lock"),
        (
            "pyproject.toml",
            "[tool.poetry]\nname = 'x'\n",
            "is a project file of Poetry",
            "poetry lock && poetry export",
        ),
        ("pixi.toml", "[workspace]\nchannels = []\n", "is a manifest of pixi", "pixi lock && cuenv check pixi.lock"),
        ("compose.yml", "services:\n  a:\n    build: .\n", "is a compose file", "cuenv lint Dockerfile"),
        (
            "compose.yml",
            "services:\n\n  a: &a # ours\n    build:\n      context: gpu\n      dockerfile: b.Dockerfile\n",
            "is a compose file",
            "cuenv lint gpu/b.Dockerfile",
        ),
        (
            "compose.yml",
            "services:\n  a:\n    image: x/y:1\n",
            "is a compose file that names no Dockerfile",
            "cuenv lint --help",
        ),
        ("poetry.lock", "# @generated by Poetry 2\n[[package]]\n", "is a lock of Poetry", "poetry export --output"),
        ("uv.lock", 'version = 1\nrequires-python = ">=3.10"\n', "is a lock already (uv.lock)", "cuenv check uv.lock"),
        ("pixi.lock", "version: 6\nenvironments:\n  default: {}\n", "is a lock already (pixi.lock)", "cuenv check"),
        (
            "pins.txt",
            f"a==1 --hash=sha256:{'0' * 64}\n",
            "is a lock already (requirements.txt)",
            "cuenv check pins.txt",
        ),
        ("Dockerfile", "ARG A=1\nFROM ubuntu:24.04\nRUN true\n", "is a Dockerfile", "cuenv lint Dockerfile"),
        ("ds_config.json", '{"train_batch_size": 8}', "is a configuration of DeepSpeed", "cuenv lint ds_config.json"),
    ],
)
def test_a_file_of_another_kind_is_called_what_it_is(
    name: str, text: str, said: str, command: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    told = run("lock", name, *HOST, folder=tmp_path)
    assert told.returncode == 3
    assert f"{name} {said}; cuenv lock reads an environment file" in told.stderr
    assert f"hint: {command}" in told.stderr


def test_lint_names_a_project_file_and_the_command_for_it(tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").write_text("[workspace]\nname = 'x'\n")
    told = run("lint", "pixi.toml", folder=tmp_path)
    assert "pixi.toml is a manifest of pixi, which lint does not read" in told.stderr
    assert "hint: pixi lock && cuenv check pixi.lock" in told.stderr
    (tmp_path / "pixi.lock").touch()
    assert "hint: cuenv check pixi.lock" in run("lint", "pixi.toml", folder=tmp_path).stderr
    (tmp_path / "pyproject.toml").write_text("[build-system]\nrequires = ['torch']\n")
    told = run("lint", "pyproject.toml", folder=tmp_path)
    assert "pyproject.toml is a project file of Python without the table [project], which lint does not" in told.stderr
    assert "hint: uv pip compile --generate-hashes -o requirements.lock.txt setup.py && " in told.stderr


def test_a_file_of_cuenv_that_is_refused_does_not_wait_for_its_solve(
    tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The solve of such a file begins while it is judged; neither its answer nor its error counts then."""
    begun, end = Event(), Event()

    def solve(_job: object) -> None:
        if not begun.is_set():  # what follows is the solve of a repair, which the message promises or does not
            begun.set()
            end.wait(30)
        raise InputError("of the solve")

    monkeypatch.setattr("cuenv.lockfile.lock._solve", solve)
    pins = "pytorch=2.4, pytorch-cuda=12.1, cudatoolkit=11.8"
    text = f"{WRITTEN_BY} 0.1.0.\nchannels: [pytorch, nvidia]\ndependencies: [{pins}]\n"
    try:
        code, said, written = locked(tmp_path, text, mirror, "http://127.0.0.1:1")
        assert begun.wait(30)
    finally:
        end.set()
    assert (code, written) == (1, set())
    assert "CU1" in said
    assert "of the solve" not in said
