"""``cuenv run`` and ``cuenv shell-hook``: inside an environment without conda, as its activation leaves it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cases import collect
from channel_builder import pkg
from cuenv.core.errors import UsageError
from cuenv.prefix.io.activation import find_activation
from cuenv.prefix.io.environments import new_environment
from cuenv.prefix.shell_hook import Activation, activation_lines
from deliveries import cuenv, make_lock

ODD = 'it\'s "$HOME" `x` \\ a\nb'
SHOW = '#!/bin/sh\nprintf "%s|" "$CONDA_PREFIX" "$CONDA_SHLVL" "$PLAIN" "$ODD" "$OVER" "$MADE" "$@"\nexit 7\n'


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An environment with variables of packages, of its file, a script, and one for fish."""
    folder = tmp_path / "my envs" / "it's"
    for name in ("bin", "conda-meta", "etc/conda/activate.d", "etc/conda/deactivate.d", "etc/conda/env_vars.d"):
        (folder / name).mkdir(parents=True)
    (folder / "etc/conda/env_vars.d/p.json").write_text(json.dumps({"PLAIN": "of a package", "OVER": "package"}))
    state = {"env_vars": {"ODD": ODD, "OVER": "file", "GONE": "***unset***", "no name": "x"}}
    (folder / "conda-meta/state").write_text(json.dumps(state))
    (folder / "etc/conda/activate.d/b.sh").write_text('echo talk\nexport MADE="$MADE, then $OVER"\n')
    (folder / "etc/conda/activate.d/a.sh").write_text('export MADE="by $CONDA_PREFIX"\n')
    (folder / "etc/conda/activate.d/a.fish").write_text("set -gx MADE fish\n")
    (folder / "etc/conda/deactivate.d/a.sh").write_text("unset MADE; export LEFT=yes\n")
    (folder / "bin/show").write_text(SHOW)
    (folder / "bin/show").chmod(0o755)
    return folder


def expected(prefix: Path, *words: str) -> str:
    made = f"by {prefix}, then file"
    return "".join(f"{part}|" for part in (prefix, "1", "of a package", ODD, "file", made, *words))


def test_a_program_runs_inside(tmp_path: Path, prefix: Path) -> None:
    code, out, err = cuenv(tmp_path, "run", "-p", prefix, "--", "show", "a b", "-q", "--", "$x")
    assert (code, out) == (7, expected(prefix, "a b", "-q", "--", "$x"))
    assert err == "talk\n"


def test_an_environment_without_scripts_needs_no_shell(tmp_path: Path, prefix: Path) -> None:
    shutil.rmtree(prefix / "etc/conda/activate.d")
    (prefix / "bin/show").unlink()
    (prefix / "bin/show").symlink_to(shutil.which("env") or "/usr/bin/env")
    code, out, _ = cuenv(tmp_path, "run", "-p", prefix, "show", "-0", PATH="/nowhere")
    assert code == 0
    found = dict(item.split("=", 1) for item in out.split("\0") if item)
    assert found["PATH"] == f"{prefix}/bin:/nowhere"
    assert (found["ODD"], found["CONDA_DEFAULT_ENV"]) == (ODD, str(prefix))


@pytest.mark.parametrize("shell", ["bash", "sh", "dash", "zsh"])
def test_a_shell_evaluates_the_way_in(tmp_path: Path, prefix: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    _, lines, _ = cuenv(tmp_path, "shell-hook", "--prefix", prefix, "--shell", shell if shell != "dash" else "sh")
    done = subprocess.run([shell, "-c", 'eval "$1"; show', shell, lines], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, f"talk\n{expected(prefix)}")


def test_fish_evaluates_the_way_in(tmp_path: Path, prefix: Path) -> None:
    code, lines, _ = cuenv(tmp_path, "shell-hook", "--prefix", prefix, "--shell", "fish")
    assert code == 0
    assert "set -gx OVER 'file'\n" in lines
    assert lines.endswith(f"source '{prefix}/etc/conda/activate.d/a.fish'\n".replace("it's", "it\\'s"))
    fish = shutil.which("fish")
    if fish:
        done = subprocess.run([fish, "-c", f"{lines}\nshow"], capture_output=True, text=True, check=False)
        assert done.stdout.endswith("|fish|")


def test_the_environment_before_is_left(tmp_path: Path, prefix: Path) -> None:
    other = tmp_path / "envs" / "other"
    (other / "conda-meta").mkdir(parents=True)
    environ = {"CONDA_PREFIX": str(prefix), "CONDA_SHLVL": "1", "PATH": f"{prefix}/bin:/usr/bin", "ODD": ODD}
    found = find_activation(other, environ)
    assert found.sets["PATH"] == f"{other}/bin:/usr/bin"
    assert (found.sets["CONDA_SHLVL"], found.sets["CONDA_PREFIX_1"]) == ("2", str(prefix))
    assert found.sets["CONDA_DEFAULT_ENV"] == "other"
    assert set(found.removes) == {"ODD", "OVER", "PLAIN"}
    assert found.leaving["sh"] == (f"{prefix}/etc/conda/deactivate.d/a.sh",)
    again = find_activation(prefix, environ)
    assert (again.sets["CONDA_SHLVL"], again.sets["PATH"]) == ("1", f"{prefix}/bin:/usr/bin")
    assert "CONDA_PREFIX_1" not in again.sets


def test_a_venv_is_entered(tmp_path: Path) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/pyvenv.cfg").touch()
    found = find_activation(tmp_path / "venv", {"PATH": "/old/bin:/usr/bin", "VIRTUAL_ENV": "/old", "PYTHONHOME": "/x"})
    assert dict(found.sets) == {"VIRTUAL_ENV": f"{tmp_path}/venv", "PATH": f"{tmp_path}/venv/bin:/usr/bin"}
    assert found.removes == ("PYTHONHOME",)


def test_a_script_that_ends_the_shell_is_an_error(tmp_path: Path, prefix: Path) -> None:
    (prefix / "etc/conda/activate.d/z.sh").write_text("exit 0\n")
    code, out, err = cuenv(tmp_path, "run", "-p", prefix, "--", "show")
    assert (code, out) == (4, "")
    assert "ends the shell, so nothing was run" in err


def test_signals_and_pipes_are_those_of_the_program(tmp_path: Path, prefix: Path) -> None:
    words = [sys.executable, "-m", "cuenv", "run", "-p", str(prefix), "--", "sh", "-c"]
    environ = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run([*words, "kill -9 $$"], env=environ, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    done = subprocess.run([*words, "kill -s PIPE $$; echo ignored"], env=environ, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGPIPE, b"")


BAD = {
    "no command": (("run", "-p", "."), 2, "give a command to run"),
    "no environment": (("run", "--", "ls"), 2, "no environment is named"),
    "two environments": (("shell-hook", "-p", ".", "-n", "x"), 2, "exclude each other"),
    "no such program": (("run", "-p", "venv", "nosuch"), 2, "program nosuch was not found in "),
    "no program but a folder": (("run", "-p", "venv", "./venv/none"), 2, "program ./venv/none was not found"),
    "a name that conda does not know": (("run", "-n", "nosuch", "ls"), 2, "conda has no environment with this name"),
    "a folder that does not exist": (("shell-hook", "-p", "nowhere"), 3, "is not a folder"),
    "a folder that is none": (("shell-hook", "-p", "."), 3, "conda-meta and pyvenv.cfg are missing"),
    "a path with a colon": (("shell-hook", "-p", "a:b"), 3, "PATH cannot contain such a path"),
    "another shell": (("shell-hook", "-p", "venv", "--shell", "csh"), 2, "csh"),
}


@collect("name", BAD)
def test_bad_input_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / "a:b").mkdir()
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/pyvenv.cfg").touch()
    words, code, said = BAD[name]
    done = cuenv(tmp_path, *words)
    assert done[:2] == (code, "")
    assert said in done[2]
    assert "Traceback" not in done[2]


def test_an_installed_environment_is_entered_by_name(tmp_path: Path) -> None:
    tool = pkg("tool", files={"bin/tool": "#!/bin/sh\necho works\n"})
    lock, sources = make_lock(tmp_path / "made", {"conda-forge": [tool]}, "tool")
    code, out, err = cuenv(tmp_path, "install", lock, "-n", "train", sources=sources)
    assert code == 0, err
    prefix = tmp_path / ".conda/envs/train"
    assert f'use       eval "$(cuenv shell-hook --prefix {prefix})"' in out.splitlines()
    assert cuenv(tmp_path, "run", "-n", "train", "tool")[1] == "works\n"
    _, lines, _ = cuenv(tmp_path, "shell-hook", "-n", "train", "--json")
    assert json.loads(lines)["sets"]["CONDA_DEFAULT_ENV"] == "train"
    for words in (("-n", "base"), ("-n", "../x"), ("-n", ""), (), ("-n", "x", "-p", "y")):
        assert cuenv(tmp_path, "install", lock, *words, sources=sources)[0] == 2


def test_a_new_environment_is_where_conda_makes_it(tmp_path: Path) -> None:
    root = tmp_path / "mamba"
    environ = {"HOME": str(tmp_path), "MAMBA_ROOT_PREFIX": str(root)}
    assert new_environment("x", environ) == root / "envs/x"
    assert new_environment("x", {**environ, "CONDA_ENVS_DIRS": f"{tmp_path}/first"}) == tmp_path / "first/x"
    (root / "envs/known/conda-meta").mkdir(parents=True)
    assert new_environment("known", {**environ, "CONDA_ENVS_DIRS": f"{tmp_path}/first"}) == root / "envs/known"
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="the directories for environments are not writable"):
        new_environment("x", {"CONDA_ENVS_DIRS": f"{tmp_path}/file/envs"})


def test_values_are_text_for_every_shell() -> None:
    entry = Activation(prefix="/x", sets={"A": ODD, "PATH": "/a b:/c'd"}, removes=("B",), leaving={}, scripts={})
    fish = activation_lines(entry, "fish")
    assert "set -gx PATH '/a b' '/c\\'d'\n" in fish
    assert fish.startswith("set -e B\n")
    done = subprocess.run(
        ["sh", "-c", f'{activation_lines(entry, "sh")}printf %s "$A"'], capture_output=True, check=True
    )
    assert done.stdout.decode() == ODD
