"""``cuenv install``: real packages and wheels, whole or not at all, whatever happens in between."""

from __future__ import annotations

import io
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from channel_builder import pkg, self_signed, serve
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import SetAside
from deliveries import HERE, TOOLS, cuenv, make_lock, mirrors, python, tree, wheel_of
from pip_index import index, wheel


@pytest.fixture
def lock(tmp_path: Path) -> tuple[Path, Sources]:
    return make_lock(tmp_path / "made", {"conda-forge": TOOLS}, "tool", "words")


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def left(folder: Path) -> list[str]:
    """What lies beside: nothing of ours may stay."""
    return sorted(item.name for item in folder.iterdir() if item.name not in ("made", ".cache"))


@pytest.mark.parametrize("name", ["conda-lock.yml", "conda-linux-64.lock", ""])
def test_a_lock_becomes_an_environment(tmp_path: Path, lock: tuple[Path, Sources], name: str) -> None:
    code, out, err = cuenv(tmp_path, "install", lock[0].parent / name, "--prefix", "env", sources=lock[1])
    assert code == 0, err
    prefix = tmp_path / "env"
    assert out.splitlines() == [
        f"installed 3 packages: {prefix}",
        f"check     cuenv check --prefix {prefix}",
        f'use       eval "$(cuenv shell-hook --prefix {prefix})"',
        f"   or     cuenv run --prefix {prefix} -- python",
        f"   or     conda activate {prefix}",
        f"   or     micromamba activate {prefix}",
    ]
    assert err == ""
    assert subprocess.run([prefix / "bin" / "tool"], capture_output=True, check=True).stdout == b"works\n"
    assert left(tmp_path) == ["env"]


def test_the_hook_for_builds_is_named_before_the_check(tmp_path: Path) -> None:
    channels = {"conda-forge": [*TOOLS, pkg("cuda-nvcc", "12.9.86")]}
    path, sources = make_lock(tmp_path / "made", channels, "tool", "cuda-nvcc")
    _, out, _ = cuenv(tmp_path, "install", path, "--prefix", "env", sources=sources)
    assert out.splitlines()[1:3] == [
        f"build     cuenv hook --prefix {tmp_path}/env",
        f"check     cuenv check --prefix {tmp_path}/env",
    ]


VARIABLES = '{"TORCH_CUDA_ARCH_LIST": "8.0;9.0"}'


def test_the_variables_of_the_environment_file_are_set_by_activation(tmp_path: Path) -> None:
    """As conda keeps them, which micromamba reads as well."""
    path, sources = make_lock(tmp_path / "made", {"conda-forge": TOOLS}, "tool", variables=VARIABLES)
    assert cuenv(tmp_path, "install", path, "--prefix", "env", sources=sources)[0] == 0
    state = json.loads((tmp_path / "env/conda-meta/state").read_text())
    assert state == {"version": 1, "env_vars": {"TORCH_CUDA_ARCH_LIST": "8.0;9.0"}}


@pytest.mark.parametrize("text", ["[]", '{"A B": "x"}', '{"A": 3}', '{"A": "\\u001b[31m"}', "[" * 100_000, "{"])
def test_variables_that_are_none_are_an_error(tmp_path: Path, text: str) -> None:
    path, sources = make_lock(tmp_path / "made", {"conda-forge": TOOLS}, "tool", variables=text)
    code, _, err = cuenv(tmp_path, "install", path, "--prefix", "env", sources=sources)
    assert code == 3
    assert "metadata.custom_metadata: " in err
    assert not (tmp_path / "env").exists()


def test_variables_that_were_put_into_a_lock_are_an_edit(tmp_path: Path) -> None:
    path, sources = make_lock(tmp_path / "made", {"conda-forge": TOOLS}, "tool", variables=VARIABLES)
    path.write_text(path.read_text().replace("8.0;9.0", "7.0"))
    code, out, _ = cuenv(tmp_path, "install", path, "--prefix", "env", sources=sources)
    assert code == 1
    assert "CU108" in out


def test_conda_reads_what_was_made(tmp_path: Path, lock: tuple[Path, Sources]) -> None:
    assert cuenv(tmp_path, "install", lock[0], "--prefix", "env", sources=lock[1])[0] == 0
    meta = tmp_path / "env" / "conda-meta"
    history = (meta / "history").read_text().splitlines()
    assert history[0].startswith("==> 20")
    assert history[1] == "# cmd: cuenv install"
    assert "+https://conda.anaconda.org/conda-forge/noarch::words-1!2.0-0" in history
    records = [json.loads(path.read_text()) for path in sorted(meta.glob("*.json"))]
    assert [item["name"] for item in records] == ["library", "tool", "words"]
    assert all(item["url"].startswith("https://conda.anaconda.org/conda-forge/") for item in records)
    assert sorted(item.name for item in meta.iterdir() if item.suffix != ".json") == ["cuenv", "history"]


def test_as_json_and_a_second_time(tmp_path: Path, lock: tuple[Path, Sources]) -> None:
    told = []
    for _ in range(2):
        code, out, _ = cuenv(tmp_path, "install", lock[0], "--prefix", "env", "--json", sources=lock[1])
        assert code == 0
        told.append(json.loads(out))
    first, second = told
    assert first["schema"] == "cuenv/report/1"
    assert (first["installed"], first["changed"], second["changed"]) == (True, True, False)
    assert (first["packages"], first["pip"], first["platform"]) == (3, 0, "linux-64")
    assert cuenv(tmp_path, "install", lock[0], "--prefix", "env", sources=lock[1])[1].startswith("unchanged 3 packages")


def test_an_edited_lock_is_refused(tmp_path: Path, lock: tuple[Path, Sources]) -> None:
    text = lock[0].read_text()
    start = text.index("sha256:") + 10
    lock[0].write_text(text[:start] + ("0" if text[start] != "0" else "1") + text[start + 1 :])
    code, out, _ = cuenv(tmp_path, "install", lock[0], "--prefix", "env", sources=lock[1])
    assert code == 1
    assert "CU108" in out
    assert out.endswith("nothing was installed\n")
    code, out, _ = cuenv(tmp_path, "install", lock[0], "--prefix", "env", "--json", sources=lock[1])
    assert code == 1
    assert (json.loads(out)["ok"], json.loads(out)["installed"]) == (False, False)
    assert left(tmp_path) == []


def test_a_lock_without_hashes_is_refused(tmp_path: Path, lock: tuple[Path, Sources]) -> None:
    explicit = lock[0].with_name("conda-linux-64.lock")
    explicit.write_text("\n".join(line.partition("#")[0] or line for line in explicit.read_text().splitlines()))
    code, out, _ = cuenv(tmp_path, "install", explicit, "--prefix", "env", sources=lock[1])
    assert code == 1
    assert "CU105" in out
    assert left(tmp_path) == []


INPUT = {
    "no lock": (("nowhere.yml",), "no such file"),
    "a folder without lock": (("made/channels",), "no such file"),
    "a platform that is not in it": (
        ("made/conda-lock.yml", "--platform", "linux-aarch64"),
        "nothing for linux-aarch64",
    ),
    "a bundle that does not exist": (("nowhere.tar",), "no such file"),
    "a tar that is none": (("made/none.tar",), "is not a complete tar file"),
    "a binary file": (("made/channels/conda-forge/linux-64/tool-1.0-0.tar.bz2",), "not UTF-8"),
}


@pytest.mark.parametrize("name", INPUT)
def test_bad_input_is_said(tmp_path: Path, lock: tuple[Path, Sources], name: str) -> None:
    (tmp_path / "made" / "none.tar").write_bytes(b"none" * 300)
    words, said = INPUT[name]
    code, out, err = cuenv(tmp_path, "install", *words, "--prefix", "env", sources=lock[1])
    assert (code, out) == (3, "")
    assert said in err
    assert "Traceback" not in err
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("prefix", "said"),
    [("/", "is the root"), ("a\nb", "unprintable characters"), ("a\x1b[2J", "unprintable characters")],
)
def test_a_place_that_is_invalid(tmp_path: Path, lock: tuple[Path, Sources], prefix: str, said: str) -> None:
    for words in (("install", lock[0], "--prefix", prefix), ("bundle", lock[0], "-o", prefix)):
        code, _, err = cuenv(tmp_path, *words, sources=lock[1])
        assert code == 2
        assert said in err
        assert "\x1b" not in err
    assert left(tmp_path) == []


def test_a_folder_of_somebody_else_stays(tmp_path: Path, lock: tuple[Path, Sources]) -> None:
    prefix = tmp_path / "env"
    (prefix / "conda-meta").mkdir(parents=True)
    (prefix / "conda-meta" / "history").touch()
    (prefix / "thesis.tex").write_text("mine")
    for more in ((), ("--replace",)):
        code, _, err = cuenv(tmp_path, "install", lock[0], "--prefix", "env", *more, sources=lock[1])
        assert code == 3
        assert "is not empty" in err
    assert sorted(tree(prefix)) == ["conda-meta/history", "thesis.tex"]


def test_an_environment_of_ours_is_replaced_when_requested(tmp_path: Path, lock: tuple[Path, Sources]) -> None:
    assert cuenv(tmp_path, "install", lock[0], "--prefix", "env", sources=lock[1])[0] == 0
    other, sources = make_lock(tmp_path / "made" / "b", {"conda-forge": [pkg("tool", "2.0")]}, "tool")
    code, _, err = cuenv(tmp_path, "install", other, "--prefix", "env", sources=sources)
    assert code == 3
    assert "hint: replace it, when nothing runs from it: cuenv install --replace" in err
    assert cuenv(tmp_path, "install", other, "--prefix", "env", "--replace", sources=sources)[0] == 0
    assert [path.name for path in (tmp_path / "env" / "conda-meta").glob("*.json")] == ["tool-2.0-0.json"]
    assert left(tmp_path) == ["env"]


def test_one_that_was_changed_since_is_not_called_unchanged(tmp_path: Path, lock: tuple[Path, Sources]) -> None:
    words = ("install", lock[0], "--prefix", "env")
    assert cuenv(tmp_path, *words, sources=lock[1])[0] == 0
    (tmp_path / "env" / "conda-meta" / "tool-1.0-0.json").unlink()  # as `conda remove` does
    code, _, err = cuenv(tmp_path, *words, sources=lock[1])
    assert code == 3
    assert "or one that was changed" in err
    assert cuenv(tmp_path, *words, "--replace", sources=lock[1])[1].startswith("installed 3 packages")


@pytest.mark.parametrize("archive", ["tool-1.0-0.tar.bz2", "library-1.0-0.tar.bz2"])
def test_a_failed_update_leaves_the_old(tmp_path: Path, lock: tuple[Path, Sources], archive: str) -> None:
    first, sources = make_lock(tmp_path / "made" / "b", {"conda-forge": [pkg("old", "2.0")]}, "old")
    assert cuenv(tmp_path, "install", first, "--prefix", "env", sources=sources)[0] == 0
    before = tree(tmp_path / "env")
    spoil(lock[0].parent / "channels" / "conda-forge" / "linux-64" / archive)
    code, _, err = cuenv(tmp_path, "install", lock[0], "--prefix", "env", "--replace", sources=lock[1])
    assert code == 3
    assert archive in err
    assert tree(tmp_path / "env") == before
    assert left(tmp_path) == ["env"]


@pytest.mark.slow
def test_from_a_server_then_offline_from_what_it_sent(tmp_path: Path, lock: tuple[Path, Sources]) -> None:
    with serve(lock[0].parent / "channels") as server:
        words = ("install", lock[0], "--mirror", f"https://conda.anaconda.org={server.url}")
        code, _, err = cuenv(tmp_path, *words, "--prefix", "env", NO_PROXY="*")
        assert code == 0, err
        count = len(server.asked)
        code, _, err = cuenv(tmp_path, *words, "--prefix", "env2", "--offline", NO_PROXY="*")
        assert code == 0, err
        assert len(server.asked) == count == 3
    nobody = ("--offline", "--prefix", "env3")
    code, _, err = cuenv(tmp_path, "install", lock[0], *nobody, CUENV_CACHE_DIR=str(tmp_path / ".cache" / "other"))
    assert code == 3
    assert "--offline was given, but " in err
    assert left(tmp_path) == ["env", "env2"]


@pytest.fixture
def with_pip(tmp_path: Path) -> tuple[Path, Sources]:
    wheels = tmp_path / "made" / "wheels"
    files = [wheel(wheels, "psutil", "6.0"), wheel(wheels, "accelerate", "1.0", "torch>=2", "psutil")]
    pip = tuple(wheel_of(path) for path in files)
    return make_lock(tmp_path / "made", {"conda-forge": [*TOOLS, python()]}, "tool", "python", pip=pip)


def test_the_pip_part_is_installed(tmp_path: Path, with_pip: tuple[Path, Sources]) -> None:
    code, out, err = cuenv(tmp_path, "install", with_pip[0], "--prefix", "env", "--offline", sources=with_pip[1])
    assert code == 0, err
    assert out.startswith("installed 3 packages and 2 for pip: ")
    site = tmp_path / "env" / "lib" / f"python{HERE}" / "site-packages"
    assert sorted(path.name for path in site.glob("*.dist-info")) == [
        "accelerate-1.0.dist-info",
        "psutil-6.0.dist-info",
    ]
    assert not list(site.glob("*/direct_url.json"))
    assert sorted(path.name for path in (tmp_path / "env").iterdir()) == [
        *("CACHEDIR.TAG", "bin", "conda-meta", "lib", "pyvenv.cfg")
    ]
    assert cuenv(tmp_path, "install", with_pip[0], "--prefix", "env", sources=with_pip[1])[1].startswith("unchanged")


def test_a_changed_wheel_is_refused_and_nothing_stays(tmp_path: Path, with_pip: tuple[Path, Sources]) -> None:
    spoil(tmp_path / "made" / "wheels" / "psutil-6.0-py3-none-any.whl")
    code, _, err = cuenv(tmp_path, "install", with_pip[0], "--prefix", "env", sources=with_pip[1])
    assert code == 3
    assert "psutil-6.0-py3-none-any.whl: its sha256 is" in err
    assert left(tmp_path) == []


def test_a_python_of_another_folder_is_refused(tmp_path: Path) -> None:
    """uv would install where that Python belongs, and not into the environment."""
    stranger = pkg("python", f"{HERE}.9", "h_0", files={"bin/python": f'#!/bin/sh\nexec {sys.executable} "$@"\n'})
    pip = (wheel_of(wheel(tmp_path / "made" / "wheels", "psutil", "6.0")),)
    path, sources = make_lock(tmp_path / "made", {"conda-forge": [stranger]}, "python", pip=pip)
    code, _, err = cuenv(tmp_path, "install", path, "--prefix", "env", sources=sources)
    assert code == 4
    assert "not to the environment" in err
    assert left(tmp_path) == []


@pytest.mark.slow
def test_wheels_come_from_an_index_with_a_login(tmp_path: Path) -> None:
    files = tmp_path / "made" / "wheels"
    made = wheel(files, "psutil", "6.0")
    with index(files, login="me:hunter2") as server:
        pip = (wheel_of(made, f"{server.url}/{made.name}"),)
        path, sources = make_lock(tmp_path / "made", {"conda-forge": [python()]}, "python", pip=pip)
        words = ("install", path, "--prefix", "env")
        code, _, err = cuenv(tmp_path, *words, sources=sources, NO_PROXY="*")
        assert code == 3
        assert "401: it requires a login" in err
        login = {
            "UV_INDEX": f"own={server.url}/simple",
            "UV_INDEX_OWN_USERNAME": "me",
            "UV_INDEX_OWN_PASSWORD": "hunter2",
        }
        code, out, err = cuenv(tmp_path, *words, sources=sources, NO_PROXY="*", **login)
        assert code == 0, err
    assert "hunter2" not in out + err + "".join(map(str, tree(tmp_path / "env")))


BACKEND = """
from zipfile import ZipFile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    with ZipFile(f"{folder}/built-1.0-py3-none-any.whl", "w") as made:
        made.writestr("built-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: built\\nVersion: 1.0\\n")
        made.writestr("built-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        made.writestr("built-1.0.dist-info/RECORD", "")
    return "built-1.0-py3-none-any.whl"
"""


@pytest.mark.slow
def test_what_a_source_is_built_with_comes_by_the_authorities_of_condarc(tmp_path: Path) -> None:
    pem, files = self_signed(tmp_path), tmp_path / "made" / "wheels"
    wheel(files, "helper", "1.0")
    text = '[build-system]\nrequires = ["helper"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    with tarfile.open(files / "built-1.0.tar.gz", "w:gz") as archive:
        for name, content in {"PKG-INFO": "Name: built\n", "pyproject.toml": text, "backend.py": BACKEND}.items():
            entry = tarfile.TarInfo(f"built-1.0/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content.encode()))
    pip = (wheel_of(files / "built-1.0.tar.gz"),)
    path, sources = make_lock(tmp_path / "made", {"conda-forge": [python()]}, "python", pip=pip)
    words = ("install", path, "--prefix", "env")
    with index(files, certificate=pem) as server:
        where = {"UV_DEFAULT_INDEX": f"{server.url}/simple", "NO_PROXY": "*"}
        assert cuenv(tmp_path, *words, sources=sources, **where)[0] == 4
        (tmp_path / ".condarc").write_text(f"ssl_verify: {tmp_path / 'cert'}\n")
        code, _, err = cuenv(tmp_path, *words, sources=sources, **where)
    assert code == 0, err
    assert any("/simple/helper/" in asked for asked, _ in server.asked)


def test_another_platform_without_its_python(tmp_path: Path, with_pip: tuple[Path, Sources]) -> None:
    text = with_pip[0].read_text().replace("linux-64", "linux-aarch64").replace("cuenv_content", "other_content")
    with_pip[0].write_text(text)
    words = ("install", with_pip[0], "--prefix", "env", "--platform", "linux-aarch64")
    code, _, err = cuenv(tmp_path, *words, sources=with_pip[1])
    assert code == 3
    assert "only linux-aarch64's own Python can install" in err


def begun(tmp_path: Path, lock: tuple[Path, Sources], **more: str) -> subprocess.Popen[bytes]:
    words = ["install", str(lock[0]), "--prefix", "env", "--replace", *mirrors(lock[1])]
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / ".cache"), **more}
    return subprocess.Popen(
        [sys.executable, "-m", "cuenv", *words],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_at_any_moment_the_old_one_is_there(
    tmp_path: Path, with_pip: tuple[Path, Sources], sent: signal.Signals
) -> None:
    """After SIGINT and SIGTERM at once; after SIGKILL as soon as cuenv runs again."""
    first, sources = make_lock(tmp_path / "made" / "b", {"conda-forge": [pkg("old", "2.0")]}, "old")
    assert cuenv(tmp_path, "install", first, "--prefix", "env", sources=sources)[0] == 0
    before = tree(tmp_path / "env")
    began = time.monotonic()
    assert begun(tmp_path, with_pip).wait(60) == 0
    whole = time.monotonic() - began
    new = set(tree(tmp_path / "env"))
    chance = random.Random(sent)
    for _ in range(6):
        assert cuenv(tmp_path, "install", first, "--prefix", "env", "--replace", sources=sources)[0] == 0
        child = begun(tmp_path, with_pip)
        time.sleep(chance.uniform(0.1, whole))
        child.send_signal(sent)
        code = child.wait(60)
        if sent == signal.SIGKILL:
            assert code in (0, -signal.SIGKILL)
            cuenv(tmp_path, "install", first, "--prefix", "env", sources=sources)
        found = tree(tmp_path / "env")
        assert set(found) in (set(before), new), code
        assert left(tmp_path) == ["env"]
        if code == 0:
            assert set(found) == new
        elif sent == signal.SIGINT:
            assert code in (130, -signal.SIGINT)


@pytest.mark.slow
def test_a_full_disk_leaves_nothing(tmp_path: Path, lock: tuple[Path, Sources]) -> None:
    code = (
        "import resource, signal, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nfrom cuenv.__main__ import main\n"
        "sys.argv = ['cuenv', *sys.argv[1:]]\nmain()\n"
    )
    words = [sys.executable, "-B", "-c", code, "install", str(lock[0]), "--prefix", "env", *mirrors(lock[1])]
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / ".cache")}
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert "hint: df -h" in done.stderr
    assert left(tmp_path) == []


def test_a_place_that_is_not_ours_to_write(tmp_path: Path, lock: tuple[Path, Sources]) -> None:
    if os.geteuid() == 0:
        code, _, err = cuenv(tmp_path, "install", lock[0], "--prefix", "/proc/cuenv/env", sources=lock[1])
    else:
        (tmp_path / "closed").mkdir(mode=0o500)
        code, _, err = cuenv(tmp_path, "install", lock[0], "--prefix", "closed/env", sources=lock[1])
    assert code == 4
    assert "error: " in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_two_at_once_do_not_harm_each_other(tmp_path: Path, with_pip: tuple[Path, Sources]) -> None:
    """They take turns; in the end the environment is whole."""
    children = [begun(tmp_path, with_pip) for _ in range(2)]
    assert [child.wait(60) for child in children] == [0, 0]
    code, out, err = cuenv(tmp_path, "install", with_pip[0], "--prefix", "env", sources=with_pip[1])
    assert code == 0, err
    assert out.startswith("unchanged 3 packages and 2 for pip")
    assert left(tmp_path) == ["env"]


@pytest.mark.slow
def test_what_another_run_holds_is_waited_for(tmp_path: Path, lock: tuple[Path, Sources]) -> None:
    import fcntl

    marker = tmp_path / "env" / ".cuenv-unfinished"
    marker.parent.mkdir()
    marker.touch()
    with marker.open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        child = begun(tmp_path, lock)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
        assert marker.exists()
    assert child.wait(30) == 0
    assert (tmp_path / "env/bin/tool").exists()


def test_what_the_lock_sets_aside_is_named(tmp_path: Path) -> None:
    aside = (
        SetAside(text="-e .", why="it is a folder", build=True),
        SetAside(text="a @ git+https://x.example/a", why="x"),
    )
    path, sources = make_lock(tmp_path / "made", {"conda-forge": [python()]}, "python", aside=aside)
    code, out, err = cuenv(tmp_path, "install", path, "--prefix", "env", "--json", sources=sources)
    assert code == 0, err
    python_there = shlex.quote(str(tmp_path / "env" / "bin" / "python"))
    command = json.loads(out)["afterwards"]
    assert command == (
        f"cd {shlex.quote(str(path.parent))} && {python_there} -m pip install --no-build-isolation "
        "-r requirements-linux-64.unlocked.txt"
    )
