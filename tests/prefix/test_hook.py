"""The hook of an environment: sourced by real shells, it sets what builds need and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from commands import inside as run
from cuenv.core.errors import ExitCode
from cuenv.core.versions import Capability
from cuenv.lockfile.companions import hook_command
from cuenv.lockfile.files import read_lock
from cuenv.prefix.toolchain.hook import VARIABLES, Hook, activate_script, arch_list, deactivate_script, export_lines
from cuenv.solve.model import Lock, LockedPackage
from given import package, solution, spec
from thorough import examples
from trees import plant, program

SHELLS = {
    "sh": ("sh",),
    "dash": ("dash",),
    "bash": ("bash", "--norc", "--noprofile"),
    "bash as sh": ("bash", "--posix", "--norc"),
    "zsh": ("zsh", "-f"),
    "mksh": ("mksh",),
    "busybox": ("busybox", "sh"),
    "fish": ("fish", "--no-config"),
}
SHELLS_OWN = {"PATH", "PWD", "OLDPWD", "SHLVL", "_", "HOME", "LOGNAME", "USER"}
STRICTLY = """\
set -eu
while [ "$#" -gt 0 ]; do CONDA_PREFIX="$1"; . "$2"; shift 2; done
unset CONDA_PREFIX
set > /dev/null
exec env -0
"""
FISHY = """\
while count $argv > /dev/null; set CONDA_PREFIX $argv[1]; source $argv[2]; set -e argv[1..2]; end
set -e CONDA_PREFIX
set > /dev/null
exec env -0
"""
HERE = [name for name, words in SHELLS.items() if shutil.which(words[0])]
FULL = Hook(
    home="",
    includes=("targets/x86_64-linux/include", "targets/x86_64-linux/include/cccl"),
    libraries=("targets/x86_64-linux/lib",),
    arch_list="7.0;12.0",
)
GPUS = ("--gpu", "7.0", "--gpu", "12.0", "--driver", "575.57.08")


class Shell:
    """One shell process with the files of hooks at hand, and what it has afterwards."""

    def __init__(self, name: str, folder: Path) -> None:
        self.words, self.folder = SHELLS[name], folder
        self.ending = "fish" if name == "fish" else "sh"
        self.rest = (FISHY,) if name == "fish" else (STRICTLY, "shell")
        self.files = 0

    def file(self, text: str) -> str:
        self.files += 1
        path = self.folder / f"{self.files}.sh"
        path.write_text(text)
        return str(path)

    def activate(self, prefix: str, hook: Hook = FULL) -> tuple[str, ...]:
        return (prefix, self.file(activate_script(hook, self.ending)))

    def deactivate(self, prefix: str) -> tuple[str, ...]:
        return (prefix, self.file(deactivate_script(self.ending)))

    def run(self, *steps: tuple[str, ...], environ: dict[str, str] | None = None) -> dict[str, str]:
        """Source each file with its CONDA_PREFIX, strictly, and return every variable that there is then."""
        words = [word for step in steps for word in step]
        done = subprocess.run(
            [*self.words, "-c", *self.rest, *words],
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **(environ or {})},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        found = dict(item.split("=", 1) for item in done.stdout.split("\0") if item)
        return {name: value for name, value in found.items() if name not in SHELLS_OWN}


@pytest.fixture(params=HERE)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    return Shell(request.param, tmp_path)


@pytest.fixture(params=[name for name in HERE if name in ("dash", "bash", "zsh", "fish")])
def some_shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    return Shell(request.param, tmp_path)


def test_it_sets_what_builds_need(shell: Shell) -> None:
    found = shell.run(shell.activate("/env"), environ={"CPATH": "/mine"})
    assert {name: found[name] for name in VARIABLES} == {
        "CUDA_HOME": "/env",
        "CUDA_PATH": "/env",
        "CPATH": "/env/targets/x86_64-linux/include:/env/targets/x86_64-linux/include/cccl:/mine",
        "LIBRARY_PATH": "/env/targets/x86_64-linux/lib",
        "TORCH_CUDA_ARCH_LIST": "7.0;12.0",
    }
    assert not [name for name in found if name.startswith("_cuenv")]


@collect("old", [{}, {"CPATH": "", "CUDA_HOME": ""}, {"CPATH": "/a:/b", "LIBRARY_PATH": "s", "CUDA_HOME": "u"}])
def test_deactivation_restores_set_empty_and_unset(shell: Shell, old: dict[str, str]) -> None:
    assert shell.run(shell.activate("/env"), shell.deactivate("/env"), environ=old) == old


def test_activated_twice_nothing_is_doubled_and_the_first_values_come_back(shell: Shell) -> None:
    old = {"CPATH": "/mine", "CUDA_HOME": "/usr/local/cuda"}
    on, off = shell.activate("/env"), shell.deactivate("/env")
    assert shell.run(on, on, on, environ=old) == shell.run(on, environ=old)
    assert shell.run(on, on, off, environ=old) == old
    assert shell.run(on, off, off, environ=old) == old
    assert shell.run(off, environ=old) == old


def test_stacked_environments_come_off_one_by_one(shell: Shell) -> None:
    old = {"CPATH": "/mine"}
    first, second = shell.activate("/one"), shell.activate("/two", Hook(home="", arch_list="9.0"))
    alone, both = shell.run(first, environ=old), shell.run(first, second, environ=old)
    assert both["CUDA_HOME"] == "/two"
    assert both["CPATH"] == alone["CPATH"]
    # After a deactivation conda sources the scripts of the environment below once more.
    assert shell.run(first, second, shell.deactivate("/two"), first, environ=old) == alone
    steps = (first, second, shell.deactivate("/two"), first, shell.deactivate("/one"))
    assert shell.run(*steps, environ=old) == old


@collect("prefix", ["/a b", "/it's", '/"q"', "/a\nb", "/$(touch x)", "/`id`", "/*", "/a\\b", "/ü"])
def test_any_path_is_only_a_path(some_shell: Shell, prefix: str) -> None:
    hook = Hook(home="", includes=("in clude's",))
    found = some_shell.run(some_shell.activate(prefix, hook), some_shell.activate(prefix, hook))
    assert found["CUDA_HOME"] == prefix
    assert found["CPATH"] == f"{prefix}/in clude's"
    assert some_shell.run(some_shell.activate(prefix, hook), some_shell.deactivate(prefix)) == {}
    assert not (some_shell.folder / "x").exists()


@collect("depth", ["", "-1", "0", "08", "x", "999999999", "1; touch x", "$(id)"])
def test_a_level_that_is_none_is_taken_for_none(some_shell: Shell, depth: str) -> None:
    found = some_shell.run(
        some_shell.activate("/env"), some_shell.deactivate("/env"), environ={"_CUENV_HOOK_DEPTH": depth}
    )
    assert set(found) <= {"_CUENV_HOOK_DEPTH"}


def test_a_hook_that_was_rewritten_meanwhile_touches_only_what_was_kept(shell: Shell) -> None:
    """The script of an older release kept fewer variables than the one that restores knows."""
    fewer = " ".join(name for name in VARIABLES if name != "CPATH")
    older = activate_script(FULL, shell.ending).replace(" ".join(VARIABLES), fewer)
    found = shell.run(("/env", shell.file(older)), shell.deactivate("/env"), environ={"CPATH": "/mine"})
    assert found["CPATH"].endswith(":/mine")
    assert set(found) == {"CPATH"}


def test_without_an_active_environment_nothing_happens(shell: Shell) -> None:
    assert shell.run(shell.activate(""), shell.deactivate("")) == {}


@examples(15)
@given(steps=st.lists(st.sampled_from(["/one", "/two"]), max_size=6), old=st.text("a:/ '$", max_size=6))
def test_whatever_is_activated_comes_off_in_turn(
    steps: list[str], old: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shell = Shell("sh", tmp_path_factory.mktemp("walk"))
    once = list(dict.fromkeys(steps))
    walk = [shell.activate(prefix) for prefix in (*once, *once[-1:])]
    walk += [shell.deactivate(prefix) for prefix in reversed(once)]
    assert shell.run(*walk, environ={"CPATH": old}) == {"CPATH": old}


def test_what_another_shell_activated_comes_off_in_fish_and_the_other_way_round(tmp_path: Path) -> None:
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    old = {"CPATH": "/a::/b\n", "CUDA_HOME": ""}
    sh, fish = Shell("sh", tmp_path / "sh"), Shell("fish", tmp_path / "fish")
    sh.folder.mkdir()
    fish.folder.mkdir()
    for one, other in ((sh, fish), (fish, sh)):
        on = one.run(one.activate("/one"), one.activate("/t w\no"), environ=old)
        assert other.run(other.activate("/t w\no"), environ=on) == on
        assert other.run(other.deactivate("/t w\no"), other.deactivate("/one"), environ=on) == old


def test_the_lines_for_a_venv_are_what_a_shell_evaluates(shell: Shell) -> None:
    hook = Hook(home="lib/nvidia", includes=("a", "b"), libraries=("l",), arch_list="9.0")
    file = shell.file(export_lines(hook, "/it's $HOME", shell.ending))
    found = shell.run(("", file), ("", file), environ={"CPATH": "/mine"})  # twice: nothing stands there twice
    assert found == {
        "CUDA_HOME": "/it's $HOME/lib/nvidia",
        "CUDA_PATH": "/it's $HOME/lib/nvidia",
        "CPATH": "/it's $HOME/a:/it's $HOME/b:/mine",
        "LIBRARY_PATH": "/it's $HOME/l",
        "TORCH_CUDA_ARCH_LIST": "9.0",
    }


def test_a_library_without_a_link_is_said_with_the_command_that_makes_it(tmp_path: Path) -> None:
    """NVIDIA's wheels hold ``libcudart.so.13`` alone, and every extension is linked with ``-lcudart``."""
    cuda = tmp_path / "env/lib/python3.12/site-packages/nvidia/cu13"
    plant(tmp_path / "env", {"pyvenv.cfg": "home = /usr/bin\n", "bin/python3.12": ""})
    plant(cuda, {"include/cuda.h": "", "lib/libcudart.so.13": "", "lib/libcublas.so.13": ""})
    program(cuda / "bin/nvcc", "exit 1")
    words = ("hook", "--prefix", tmp_path / "env", "--print", *GPUS)
    told = run(*words, folder=tmp_path)
    link = f"ln -s libcudart.so.13 {cuda}/lib/libcudart.so"
    assert f"-lcudart finds no libcudart.so, so builds that need it cannot link; to correct this: {link}" in told.stderr
    subprocess.run(shlex.split(link), check=True)
    again = run(*words, folder=tmp_path)
    assert "cudart" not in again.stderr
    assert (again.returncode, again.stdout) == (0, told.stdout)


def test_gpus_that_nvcc_cannot_serve_are_left_out_and_said() -> None:
    gpus = [Capability.parse(text) for text in ("7.0", "9.0")]
    assert arch_list(gpus, gpus) == ("7.0;9.0", ())
    assert arch_list(gpus, ()) == ("7.0;9.0", ())
    found, notes = arch_list(gpus, gpus[1:])
    assert (found, len(notes)) == ("9.0", 1)
    assert arch_list(gpus[:1], gpus[1:])[0] is None


def test_a_gpu_that_nvcc_does_not_know_by_name_gets_the_code_that_runs_on_it() -> None:
    """The same as in the environment file that was composed for it."""
    ada, ampere, hopper = (Capability.parse(text) for text in ("8.9", "8.6", "9.0"))
    assert arch_list([ada], [ampere]) == ("8.6", ())
    assert arch_list([ampere, ada], [ampere, hopper]) == ("8.6", ())
    for home, libraries in product((None, ""), ((), ("lib",))):
        assert ("CUDA_HOME" in Hook(home=home, libraries=libraries).sets) == (home is not None)


def test_a_lock_with_the_nvcc_of_conda_forge_names_the_hook() -> None:
    def named(*packages: LockedPackage) -> str | None:
        made = Lock(channels=(), sources=(), solutions=(solution(*packages),))
        return hook_command(made, replace(spec("python"), name="my env"), Path("a dir"))

    assert named(package("cuda-nvcc", "12.9.86")) == "cuenv hook -n 'my env'"
    assert named(package("cuda-nvcc", "12.4.131", channel="nvidia/label/cuda-12.4.1")) is None
    assert named(package("pytorch", "2.7.1")) is None
    known = Lock(
        channels=(),
        sources=(),
        solutions=(solution(package("cuda-nvcc", "12.9.86")),),
        metadata={"cuenv_gpus": "8.9"},
    )
    line = hook_command(known, replace(spec("python"), name="x"), Path("a dir"))
    assert line == "cuenv hook -n x --lock 'a dir/conda-lock.yml'"  # builds are for its GPUs, wherever it is made


@pytest.fixture
def conda(tmp_path: Path) -> Path:
    """A conda environment with CUDA's headers where conda-forge puts them."""
    for name in ("conda-meta", "targets/x86_64-linux/include", "targets/x86_64-linux/lib/stubs"):
        (tmp_path / "my env" / name).mkdir(parents=True)
    return tmp_path / "my env"


def scripts(prefix: Path) -> tuple[Path, Path]:
    folder = prefix / "etc/conda"
    return folder / "activate.d/~cuenv_activate.sh", folder / "deactivate.d/~cuenv_deactivate.sh"


def test_the_command_writes_once_and_takes_away(conda: Path, tmp_path: Path) -> None:
    first = run("hook", "--prefix", conda, *GPUS, folder=tmp_path)
    assert first.returncode == 0, first.stderr
    on, off = scripts(conda)
    assert "TORCH_CUDA_ARCH_LIST='7.0;12.0'" in on.read_text()
    before = (on.stat().st_ino, off.stat().st_ino)
    again = run("hook", "-p", conda, *GPUS, folder=tmp_path)
    assert "hook    is up to date" in again.stderr
    assert (on.stat().st_ino, off.stat().st_ino) == before
    other = run("hook", "-p", conda, "--gpu", "9.0", "--driver", "575.57.08", folder=tmp_path)
    assert "wrote" in other.stderr
    assert "9.0" in on.read_text()
    gone = run("hook", "--prefix", conda, "--remove", folder=tmp_path)
    assert gone.returncode == 0
    assert not on.exists()
    assert not off.parent.exists()
    assert run("hook", "--prefix", conda, "--remove", folder=tmp_path).returncode == 0


def test_scripts_of_others_stay(conda: Path, tmp_path: Path) -> None:
    on, off = scripts(conda)
    on.parent.mkdir(parents=True)
    on.write_text("export MINE=1\n")
    refused = run("hook", "--prefix", conda, *GPUS, folder=tmp_path)
    assert refused.returncode == ExitCode.INPUT
    assert "was not written by cuenv" in refused.stderr
    assert not off.exists()
    kept = run("hook", "--prefix", conda, "--remove", "--json", folder=tmp_path)
    assert kept.returncode == ExitCode.NEGATIVE
    assert json.loads(kept.stdout)["kept"] == [str(on)]
    assert on.read_text() == "export MINE=1\n"
    on.unlink()
    on.symlink_to(tmp_path / "elsewhere.sh")
    assert run("hook", "--prefix", conda, *GPUS, folder=tmp_path).returncode == ExitCode.INPUT
    assert run("hook", "--prefix", conda, "--remove", folder=tmp_path).returncode == ExitCode.NEGATIVE
    assert on.is_symlink()


def test_the_active_environment_is_the_one_that_path_asks_first(conda: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    (base / "conda-meta").mkdir(parents=True)
    path = f"{conda}/bin:{base}/bin:{os.environ['PATH']}"
    done = run("hook", "--remove", "--json", folder=tmp_path, CONDA_PREFIX=str(base), VIRTUAL_ENV=str(conda), PATH=path)
    assert json.loads(done.stdout)["prefix"] == str(conda)
    assert run("hook", "--remove", folder=tmp_path).returncode == ExitCode.USAGE


def test_what_is_printed_is_what_is_written(conda: Path, tmp_path: Path) -> None:
    shown = run("hook", "--prefix", conda, "--print", *GPUS, folder=tmp_path)
    assert not (conda / "etc").exists()
    told = json.loads(run("hook", "--prefix", conda, "--json", *GPUS, folder=tmp_path).stdout)
    on, off = scripts(conda)
    assert shown.stdout == told["activate"] == on.read_text()
    assert told["deactivate"] == off.read_text()
    fishy = [path.with_suffix(".fish") for path in (off, on)]
    assert [told["fish"][what] for what in ("deactivate", "activate")] == [path.read_text() for path in fishy]
    assert told["written"] == [str(off), str(on), *map(str, fishy)]
    words = ("hook", "--prefix", conda, "--print", "--shell", "fish", *GPUS)
    assert run(*words, folder=tmp_path).stdout == fishy[1].read_text()
    assert told["sets"] == list(VARIABLES)


def test_the_gpus_come_from_the_lock_unless_they_are_named(conda: Path, tmp_path: Path) -> None:
    lock = Path(__file__).resolve().parents[2] / "locks/universal-dev/conda-lock.yml"
    words = ("hook", "-p", conda, "--lock", lock, "--print")
    locked = read_lock(lock).metadata["cuenv_gpus"].split()
    assert f"TORCH_CUDA_ARCH_LIST='{';'.join(locked)}'" in run(*words, folder=tmp_path).stdout
    named = run(*words, "--gpu", "9.0", "--driver", "580.65.06", folder=tmp_path)
    assert "TORCH_CUDA_ARCH_LIST=9.0" in named.stdout


@collect(
    ("words", "code", "said"),
    [
        (("--prefix", "missing"), ExitCode.INPUT, "is not a folder"),
        (("--prefix", "."), ExitCode.INPUT, "is not an environment"),
        (("--prefix", "bare"), ExitCode.INPUT, "neither nvcc nor CUDA headers"),
        (("--prefix", "a:b"), ExitCode.INPUT, "a path with a colon"),
        (("--prefix", "venv"), ExitCode.INPUT, 'eval "$(cuenv hook --prefix'),
        (("--prefix", "bare", "--name", "x"), ExitCode.USAGE, "exclude each other"),
        (("--prefix", "bare", "--remove", "--print"), ExitCode.USAGE, "exclude each other"),
        ((), ExitCode.USAGE, "no environment is named or active"),
        (("--prefix", "file"), ExitCode.OUTSIDE, "a part of the path is not a folder"),
    ],
)
def test_what_cannot_be_is_said(words: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    for name in ("bare/conda-meta", "a:b/conda-meta", "file/conda-meta", "file/targets/x86_64-linux/include"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file/etc").write_text("")
    include = tmp_path / "venv/lib/python3.12/site-packages/nvidia/cu13/include"
    include.mkdir(parents=True)
    (tmp_path / "venv/pyvenv.cfg").write_text("")
    done = run("hook", *words, *GPUS, folder=tmp_path)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
