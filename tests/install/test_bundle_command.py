"""``cuenv bundle``, its install script, and bundles that were changed on the way."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

from cases import quick
from channel_builder import pkg, serve
from commands import in_shell
from cuenv.core.io.exclusive import hold, retry_while_busy
from cuenv.install.io.bundles import publish
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import SetAside
from deliveries import HERE, NVIDIA, TOOLS, cuenv, make_lock, mirrors, program, python, script, tree, wheel_of
from pip_index import source, wheel

CHANNELS = {"conda-forge": [*TOOLS, python()], "nvidia/label/cuda-12.9.1": NVIDIA}


@pytest.fixture(scope="module")
def lock(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sources]:
    folder = tmp_path_factory.mktemp("lock")
    pip = (wheel_of(wheel(folder / "wheels", "psutil", "6.0")),)
    pins = ("tool", "words", "python", Pin(name="driverless", channel="nvidia/label/cuda-12.9.1"))
    return make_lock(folder, CHANNELS, *pins, pip=pip)


@pytest.fixture(scope="module")
def made(lock: tuple[Path, Sources], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the same bundle twice: ``b`` and ``b.tar``."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("b", "b.tar"):
        code, _, err = cuenv(folder, "bundle", lock[0], "-o", name, sources=lock[1])
        assert code == 0, err
    return folder


def copy(made: Path, folder: Path) -> Path:
    shutil.copytree(made / "b", folder / "b")
    return folder / "b"


def left(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir() if item.name != ".cache")


def test_everything_is_in_it_by_its_own_name(made: Path, lock: tuple[Path, Sources]) -> None:
    found = tree(made / "b")
    assert sorted(found) == [
        "README.txt",
        "SHA256SUMS",
        "channel/conda-forge/linux-64/library-1.0-0.tar.bz2",
        f"channel/conda-forge/linux-64/python-{HERE}.9-h_0.tar.bz2",
        "channel/conda-forge/linux-64/repodata.json",
        "channel/conda-forge/linux-64/tool-1.0-0.tar.bz2",
        "channel/conda-forge/noarch/repodata.json",
        "channel/conda-forge/noarch/words-1!2.0-0.tar.bz2",
        "channel/nvidia/label/cuda-12.9.1/linux-64/driverless-1.0-0.tar.bz2",
        "channel/nvidia/label/cuda-12.9.1/linux-64/repodata.json",
        "channel/nvidia/label/cuda-12.9.1/noarch/repodata.json",
        "conda-lock.yml",
        "explicit-linux-64.txt",
        "install.sh",
        "requirements-linux-64.txt",
        "wheels/linux-64/psutil-6.0-py3-none-any.whl",
    ]
    sums = (made / "b" / "SHA256SUMS").read_text()
    assert sums == "".join(f"{text}  {place}\n" for place, text in sorted(found.items()) if place != "SHA256SUMS")
    assert (made / "b" / "conda-lock.yml").read_text() == lock[0].read_text()
    assert left(made) == ["b", "b.tar"]


def test_its_channels_are_channels(made: Path, tmp_path: Path) -> None:
    """The lock can be made again from the bundle alone, channel pins included."""
    folder = made / "b" / "channel"
    record = json.loads((folder / "conda-forge/linux-64/repodata.json").read_text())["packages"]["tool-1.0-0.tar.bz2"]
    assert (record["depends"], record["subdir"]) == (["library"], "linux-64")
    pins = "dependencies:\n- tool\n- nvidia/label/cuda-12.9.1::driverless\n"
    text = f"channels: [conda-forge, nvidia/label/cuda-12.9.1]\n{pins}"
    (tmp_path / "environment.yml").write_text(text)
    words = [f"--mirror={name}={folder / name}" for name in CHANNELS]
    code, _, err = cuenv(tmp_path, "lock", *words, "--offline", "--host", "rtx4090-535")
    assert code == 0, err
    assert "driverless-1.0-0.tar.bz2" in (tmp_path / "conda-linux-64.lock").read_text()


def test_the_tar_has_the_same_bytes_every_time(made: Path, lock: tuple[Path, Sources], tmp_path: Path) -> None:
    time.sleep(0.01)
    assert cuenv(tmp_path, "bundle", lock[0], "-o", "other.tar", "--jobs", "1", sources=lock[1])[0] == 0
    assert (tmp_path / "other.tar").read_bytes() == (made / "b.tar").read_bytes()
    with tarfile.open(made / "b.tar") as tar:
        assert {(item.uid, item.gid, item.uname, item.mtime) for item in tar} == {(0, 0, "", 315532800)}
        assert tar.getnames() == ["cuenv-bundle", *(f"cuenv-bundle/{name}" for name in _places(made / "b"))]


def _places(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*"))]


@pytest.mark.parametrize("name", ["b", "b.tar"])
def test_cuenv_installs_it_without_anything_else(made: Path, tmp_path: Path, name: str) -> None:
    code, out, err = cuenv(tmp_path, "install", made / name, "--prefix", "env", "--offline")
    assert code == 0, err
    assert out.startswith("installed 5 packages and 1 for pip")
    assert (tmp_path / "env" / "share" / "driverless").read_text() == "nothing\n"
    assert (tmp_path / "env" / "lib" / f"python{HERE}" / "site-packages" / "psutil-6.0.dist-info").is_dir()
    meta = json.loads((tmp_path / "env/conda-meta/driverless-1.0-0.json").read_text())
    assert meta["url"].startswith("https://conda.anaconda.org/nvidia/label/cuda-12.9.1/linux-64/")
    assert left(tmp_path) == ["env"]


def stand_in(folder: Path, name: str) -> Path:
    """Another installer of explicit files: our own, which takes no option that it does not know."""
    text = f"""
echo "$@" >> {folder}/asked
[ "$1" = create ] || exit 9
while [ $# -gt 0 ]; do
  case $1 in --prefix) prefix=$2; shift ;; --file) file=$2; shift ;; --offline) offline=--offline ;; esac
  shift
done
exec {in_shell()} install "$file" --prefix "$prefix" $offline
"""
    return program(folder / "bin", name, text)


@pytest.mark.parametrize("tool", ["micromamba", "conda", "cuenv"])
def test_the_script_keeps_the_variables_of_the_environment_file(tmp_path: Path, tool: str) -> None:
    text = '{"TORCH_CUDA_ARCH_LIST": "8.0;9.0"}'
    path, sources = make_lock(tmp_path / "made", {"conda-forge": TOOLS}, "tool", variables=text)
    assert cuenv(tmp_path, "bundle", path, "-o", "b", sources=sources)[0] == 0
    cuenv_itself = f'exec {in_shell()} "$@"'
    where = program(tmp_path / "bin", "cuenv", cuenv_itself) if tool == "cuenv" else stand_in(tmp_path, tool)
    done = script(tmp_path / "b", "env", path=where, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "env/conda-meta/state").read_text())["env_vars"] == json.loads(text)


@pytest.mark.slow
def test_the_script_prints_a_path_with_a_space_for_a_shell(made: Path, tmp_path: Path) -> None:
    done = script(made / "b", "e 6's", path=stand_in(tmp_path, "micromamba"), home=tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("use it: ")]
    assert shlex.split(line)[2:] == ["micromamba", "activate", f"{tmp_path}/e 6's"]
    refused = script(made / "b", "e 7", path=stand_in(tmp_path / "c", "conda"), home=tmp_path)
    assert (refused.returncode, (tmp_path / "e 7").exists()) == (2, False)
    assert "conda makes no environment in a path with a space" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", quick(["micromamba", "conda"], first=1))
def test_the_script_installs_with_what_is_there(made: Path, tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "a dir, é #1 & 100%"
    shutil.copytree(made / "b", bundle)
    done = script(bundle, "env", path=stand_in(tmp_path, name), home=tmp_path)
    assert done.returncode == 0, done.stderr
    prefix = tmp_path / "env"
    assert done.stdout.endswith(f"made {prefix} with {name}\nuse it: {name} activate {prefix}\n")
    assert "--offline" in (tmp_path / "asked").read_text()
    assert (prefix / "share" / "words").exists()
    assert list(prefix.glob("lib/*/site-packages/psutil-6.0.dist-info"))


@pytest.mark.slow
def test_the_script_installs_with_cuenv(made: Path, tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "cuenv", f'exec {in_shell()} "$@"')
    done = script(made / "b", "env", path=path, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"installed 5 packages and 1 for pip: {tmp_path / 'env'}")


@pytest.mark.skipif(shutil.which("conda") is None, reason="no conda here")
def test_the_script_installs_with_the_real_conda(tmp_path: Path) -> None:
    path, sources = make_lock(tmp_path / "made", {"conda-forge": TOOLS}, "tool", "words")
    assert cuenv(tmp_path, "bundle", path, "-o", "b", sources=sources)[0] == 0
    conda = Path(str(shutil.which("conda"))).parent
    done = script(tmp_path / "b", tmp_path / "env", "conda", path=conda, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "env" / "share" / "words").exists()


REFUSED = {
    "nothing said": ((), 2, "usage: sh install.sh PREFIX"),
    "an unknown option": (("--help",), 2, "usage: sh install.sh PREFIX"),
    "an unknown tool": (("env", "pip"), 2, "pip is none of cuenv, micromamba, conda"),
    "a tool that does not exist": (("env", "micromamba"), 4, "micromamba is not on PATH"),
    "no tool": (("env",), 4, "neither cuenv nor micromamba nor conda is on PATH"),
    "a folder in use": (("full",), 3, "is not empty"),
    "a file": (("full/thesis.tex",), 3, "is in use"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_script_refuses(made: Path, tmp_path: Path, name: str) -> None:
    words, code, said = REFUSED[name]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    (tmp_path / "bin").mkdir()
    done = script(made / "b", *words, path=tmp_path / "bin", home=tmp_path)
    if name in ("no tool", "a tool that does not exist") and done.returncode != code:
        pytest.skip("an installer lies in /usr/bin")
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert sorted(tree(tmp_path)) == ["full/thesis.tex"]


def test_a_bundle_for_a_place_that_cannot_be_shows_that_place(made: Path, tmp_path: Path) -> None:
    code, _, err = cuenv(tmp_path, "install", made / "b.tar", "--prefix", "/dev/null/env", "--offline")
    assert code == 4
    assert err.splitlines()[-1] == "hint: ls -ld /dev/null"


def test_a_lock_of_nothing_is_not_a_bundle(tmp_path: Path) -> None:
    lock: dict[str, object] = {"channels": [], "platforms": [], "sources": [], "content_hash": {}}
    (tmp_path / "conda-lock.yml").write_text(json.dumps({"version": 1, "metadata": lock, "package": []}))
    for words in (("bundle", "-o", "b"), ("install", "--prefix", "env")):
        code, _, err = cuenv(tmp_path, *words)
        assert (code, "holds no packages" in err) == (3, True)
    assert left(tmp_path) == ["conda-lock.yml"]


@pytest.mark.parametrize("how", ["one byte", "missing", "longer"])
@pytest.mark.parametrize(
    "place",
    [
        "channel/conda-forge/noarch/words-1!2.0-0.tar.bz2",
        "explicit-linux-64.txt",
        "wheels/linux-64/psutil-6.0-py3-none-any.whl",
    ],
)
def test_a_changed_bundle_is_refused_by_name(made: Path, tmp_path: Path, how: str, place: str) -> None:
    bundle = copy(made, tmp_path)
    file = bundle / place
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(data if how == "one byte" else file.read_bytes() + b"\n")
    code, _, err = cuenv(tmp_path, "install", bundle, "--prefix", "env")
    assert code == 3
    assert place in err
    done = script(bundle, "env", path=stand_in(tmp_path, "micromamba"), home=tmp_path)
    assert done.returncode == 3
    assert place in done.stderr
    assert "the bundle is not whole: copy it again" in done.stderr
    assert not (tmp_path / "env").exists()


def test_a_lock_in_it_vouches_as_well(made: Path, tmp_path: Path) -> None:
    """Whoever changes a file and its sum has still the lock against them."""
    import hashlib

    bundle = copy(made, tmp_path)
    file = bundle / "channel/conda-forge/noarch/words-1!2.0-0.tar.bz2"
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_bytes(file.read_bytes() + b"\n")
    sums = bundle / "SHA256SUMS"
    sums.write_text(sums.read_text().replace(before, hashlib.sha256(file.read_bytes()).hexdigest()))
    code, _, err = cuenv(tmp_path, "install", bundle, "--prefix", "env")
    assert code == 3
    assert "words-1!2.0-0.tar.bz2: its sha256 is" in err


def test_an_installer_that_fails_leaves_nothing(made: Path, tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "micromamba", 'mkdir -p env/half\necho "no space left" >&2\nexit 7')
    done = script(made / "b", "env", path=path, home=tmp_path)
    assert done.returncode == 1
    assert not (tmp_path / "env").exists()


def test_an_edited_lock_is_not_bundled(lock: tuple[Path, Sources], tmp_path: Path) -> None:
    text = lock[0].read_text()
    changed = tmp_path / "conda-lock.yml"
    changed.write_text(text.replace("psutil-6.0", "psutil-6.1"))
    code, out, _ = cuenv(tmp_path, "bundle", changed, "-o", "b", sources=lock[1])
    assert (code, "CU108" in out) == (1, True)
    assert left(tmp_path) == ["conda-lock.yml"]


def test_an_explicit_lock_with_a_token(lock: tuple[Path, Sources], tmp_path: Path) -> None:
    """Explicit files are bundled too, md5 alone is enough, and no login is written."""
    text = lock[0].with_name("conda-linux-64.lock").read_text()
    token = text.replace("https://conda.anaconda.org/", "https://me:hunter2@conda.anaconda.org/t/secrettoken/")
    (tmp_path / "in.lock").write_text(token)
    code, out, err = cuenv(tmp_path, "bundle", "in.lock", "-o", "b", "--json", sources=lock[1])
    assert code == 0, err
    told = json.loads(out)
    assert (told["schema"], told["bundled"], told["packages"]) == ("cuenv/report/1", True, {"linux-64": 5})
    files = b"".join(path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file())
    assert b"hunter2" not in files
    assert b"secrettoken" not in files
    assert cuenv(tmp_path, "install", "b", "--prefix", "env")[0] == 0


def test_a_source_is_built_on_the_other_side(tmp_path: Path) -> None:
    """Offline, a source has what the environment has; one whose setup fails leaves nothing."""
    made = source(tmp_path / "made" / "wheels", "deepspeed", "0.14.4")
    path, sources = make_lock(tmp_path / "made", {"conda-forge": [python()]}, "python", pip=(wheel_of(made),))
    assert cuenv(tmp_path, "bundle", path, "-o", "b", sources=sources)[0] == 0
    code, _, err = cuenv(tmp_path, "install", "b", "--prefix", "env")
    assert code == 4
    assert "the pip part cannot be installed" in err
    assert "not in a test" in err
    assert left(tmp_path) == ["b", "made"]


BAD = {
    "no lock": (("nowhere.yml", "-o", "b"), 3, "no such file"),
    "a compressed tar": (("{lock}", "-o", "b.tar.gz"), 2, "a bundle is a folder or a .tar"),
    "a folder of somebody else": (("{lock}", "-o", "full"), 3, "is not a cuenv bundle"),
    "a file of somebody else": (("{lock}", "-o", "full/other.tar"), 3, "is not a cuenv bundle"),
    "no folder above": (("{lock}", "-o", "a/b/c"), 4, "mkdir -p"),
    "a file above": (("{lock}", "-o", "full/other.tar/b"), 4, "cannot write"),
    "a platform that is not in it": (("{lock}", "--platform", "linux-aarch64"), 3, "nothing for linux-aarch64"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_said(lock: tuple[Path, Sources], tmp_path: Path, name: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "other.tar").write_text("mine")
    words, code, said = BAD[name]
    found = cuenv(tmp_path, "bundle", *(word.format(lock=lock[0]) for word in words), sources=lock[1])
    assert found[0] == code, found[2]
    assert said in found[2]
    assert "Traceback" not in found[2]
    assert tree(tmp_path / "full").keys() == {"other.tar"}


def test_a_run_that_broke_off_goes_on(lock: tuple[Path, Sources], tmp_path: Path) -> None:
    with serve(lock[0].parent / "channels") as server:
        words = ("bundle", lock[0], "-o", "b", "--jobs", "1", "--mirror", f"https://conda.anaconda.org={server.url}")
        server.answer = lambda path: (404, b"") if "words" in path else None
        code, _, err = cuenv(tmp_path, *words, NO_PROXY="*")
        assert code == 3
        assert "words-1!2.0-0.tar.bz2: the server answers 404" in err
        assert left(tmp_path) == [".b.cuenv-part"]
        have = {f"/{path.relative_to(tmp_path / '.b.cuenv-part/channel')}" for path in tmp_path.rglob("*.tar.bz2")}
        assert "/conda-forge/linux-64/library-1.0-0.tar.bz2" in have
        server.asked.clear()
        server.answer = lambda _: None
        code, _, err = cuenv(tmp_path, *words, NO_PROXY="*")
        assert code == 0, err
        asked = {path for path, _ in server.asked}
        assert "/conda-forge/noarch/words-1!2.0-0.tar.bz2" in asked
        assert have & asked == set()
        server.asked.clear()
        assert cuenv(tmp_path, *words, NO_PROXY="*")[0] == 0
        assert server.asked == []
    assert left(tmp_path) == ["b"]


def test_what_another_lock_left_is_not_a_part_of_it(made: Path, lock: tuple[Path, Sources], tmp_path: Path) -> None:
    rest = tmp_path / ".b.cuenv-part" / "channel" / "old"
    rest.mkdir(parents=True)
    (rest / "old-1-0.conda.part").touch()
    assert cuenv(tmp_path, "bundle", lock[0], "-o", "b", sources=lock[1])[0] == 0
    assert tree(tmp_path / "b") == tree(made / "b")


@pytest.mark.slow
def test_a_full_disk_leaves_the_old(lock: tuple[Path, Sources], made: Path, tmp_path: Path) -> None:
    bundle = copy(made, tmp_path)
    before = tree(bundle)
    code = (
        "import resource, signal, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nfrom cuenv.__main__ import main\n"
        "sys.argv = ['cuenv', *sys.argv[1:]]\nmain()\n"
    )
    for out in ("b", "b.tar"):
        words = [sys.executable, "-B", "-c", code, "bundle", str(lock[0]), "-o", out, *mirrors(lock[1])]
        environ = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / ".cache")}
        done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 4, done.stderr
        assert "cannot write" in done.stderr
        assert "Traceback" not in done.stderr
    assert tree(bundle) == before
    assert not (tmp_path / "b.tar").exists()


def test_what_another_run_still_clears_away_is_not_an_obstacle(tmp_path: Path) -> None:
    """It gave its bundle the name, and removes the one before it while this run is done already."""
    for name in ("new", "b", ".b.cuenv-old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    publish(tmp_path / "new", tmp_path / "b")
    assert (tmp_path / "b" / "file").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b"]


@pytest.mark.slow
def test_several_at_one_place_take_turns(lock: tuple[Path, Sources], tmp_path: Path) -> None:
    words = [sys.executable, "-m", "cuenv", "bundle", str(lock[0]), "-o", "b", *mirrors(lock[1])]
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / ".cache")}
    children = [subprocess.Popen(words, cwd=tmp_path, env=environ, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert (tmp_path / "b" / "SHA256SUMS").exists()
    assert not (tmp_path / ".b.cuenv-part").exists()


@pytest.mark.slow
def test_what_is_waited_for_is_reported(tmp_path: Path) -> None:
    told: list[str] = []

    def attempt() -> None:
        with hold(tmp_path, tmp_path / "b"):
            pass

    with hold(tmp_path, tmp_path / "b"):
        done = threading.Thread(target=lambda: retry_while_busy(attempt, told.append))
        done.start()
        done.join(1)
        assert done.is_alive()
    done.join(10)
    assert told[0] == f"waiting: another cuenv is working on {tmp_path / 'b'}"


@pytest.mark.slow
@pytest.mark.parametrize("out", ["b", "b.tar"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_at_any_moment_old_or_new_is_whole(
    tmp_path: Path, lock: tuple[Path, Sources], sent: signal.Signals, out: str
) -> None:
    other, sources = make_lock(tmp_path / "made", {"conda-forge": [pkg("other", "2.0")]}, "other")
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / ".cache")}
    words = [sys.executable, "-m", "cuenv", "bundle", str(lock[0]), "-o", out, *mirrors(lock[1])]
    chance = random.Random(sent)
    for _ in range(5):
        assert cuenv(tmp_path, "bundle", other, "-o", out, sources=sources)[0] == 0
        child = subprocess.Popen(words, cwd=tmp_path, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.1, 0.8))
        child.send_signal(sent)
        child.wait(60)
        if not (tmp_path / out).exists():  # killed between two renames: the next run puts it back
            assert sent == signal.SIGKILL
            assert cuenv(tmp_path, "bundle", other, "-o", out, "--offline", sources=sources)[0] == 0
        code, told, err = cuenv(tmp_path, "install", out, "--prefix", "env")
        assert code == 0, err
        assert told.startswith(("installed 1 package: ", "installed 5 packages and 1 for pip: "))
        shutil.rmtree(tmp_path / "env")


def test_what_the_lock_sets_aside_is_said_to_be_missing(tmp_path: Path) -> None:
    aside = (SetAside(text="-e .", why="it is a folder"),)
    path, sources = make_lock(tmp_path / "made", {"conda-forge": [python()]}, "python", aside=aside)
    code, out, err = cuenv(tmp_path, "bundle", path, "-o", "out", sources=sources)
    assert code == 0, err
    assert "left out, because no hash pins it (linux-64): -e .\n" in out
    code, out, err = cuenv(tmp_path, "install", "out", "--prefix", "env", "--json", sources=sources)
    assert code == 0, err
    assert json.loads(out)["afterwards"].endswith("/env/bin/python -m pip install -e .")
