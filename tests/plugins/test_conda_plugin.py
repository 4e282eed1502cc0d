"""conda-cuenv: what conda shows, and that nothing which goes wrong with cuenv breaks a command of conda."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pluggy
import pytest

import conda_cuenv.hooks
import conda_types
from cases import collect
from commands import in_shell
from conda_cuenv import doctor, hints, program, solves, transactions

SOURCE = Path(conda_cuenv.hooks.__file__).parents[1]
HOOKS = (
    "conda_subcommands",
    "conda_health_checks",
    "conda_pre_solves",
    "conda_post_solves",
    "conda_settings",
    "conda_environment_specifiers",
    "conda_environment_exporters",
)


@pytest.fixture
def conda(monkeypatch: pytest.MonkeyPatch) -> conda_types.Context:
    """The types of conda 26.7 under conda's names; the context that a test sets."""
    made, context = conda_types.modules({"numpy": 0, "pytorch": 0, "cuda-nvcc": 0})
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(solves, "_wanted", set())
    monkeypatch.setattr(solves, "_said", set())
    return context


Made = Callable[[str], Path]


@pytest.fixture
def cuenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Put a program of a few shell lines in the place of cuenv."""

    def made(script: str) -> Path:
        path = tmp_path / "bin" / "cuenv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("CUENV_EXE", str(path))
        return path

    return made


@pytest.fixture
def plugins(conda: conda_types.Context) -> pluggy.PluginManager:
    """A real plugin manager with the hooks' names and arguments; ``check_pending`` finds a hook that conda lacks."""
    del conda
    manager = pluggy.PluginManager("conda")
    manager.add_hookspecs(conda_types.CondaSpecs)
    assert manager.register(conda_cuenv.hooks)
    manager.check_pending()
    return manager


def offered(manager: pluggy.PluginManager, hook: str, **values: Any) -> list[Any]:
    return [item for items in getattr(manager.hook, hook)(**values) for item in items]


def report(*findings: dict[str, Any], **more: Any) -> str:
    """A program that prints a report."""
    document = {"schema": "cuenv/report/1", "title": "t", "ok": not findings, "findings": list(findings), "notes": []}
    return f"cat <<'END'\n{json.dumps({**document, **more})}\nEND\nexit {1 if findings else 0}"


def finding(code: str = "CU405", severity: str = "error", **more: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "code": code,
        "severity": severity,
        "subject": "s",
        "message": f"says {code}",
        "evidence": [],
        "fix": None,
    }
    return {**shown, **more}


def bound(*entries: str, **more: Any) -> dict[str, Any]:
    edit = {"how": "add", "entries": list(entries), "pip": False, **more}
    return finding(fix="conda install 'libcudnn<9.11'", edits=[edit])


def environment(folder: Path, *packages: str) -> Path:
    """An environment by its records."""
    env = folder / "env"
    (env / "conda-meta").mkdir(parents=True)
    (env / "conda-meta" / "history").touch()
    for package in packages:
        name, version, build = package.rsplit("-", 2)
        url = f"https://conda.anaconda.org/conda-forge/linux-64/{package}.conda"
        record = {"name": name, "version": version, "build": build, "build_number": 0, "subdir": "linux-64"}
        more = {"url": url, "fn": f"{package}.conda", "channel": "conda-forge", "depends": [], "files": []}
        (env / "conda-meta" / f"{package}.json").write_text(json.dumps({**record, **more}))
    return env


CUDNN = ("python-3.12.4-0", "pytorch-2.7.1-cuda126_py312_0", "cuda-version-12.6-0", "libcudnn-9.13.0.50-0")
V100 = {"CUENV_GPU": "V100", "CUENV_DRIVER": "535.129.03", "CUENV_GLIBC": "2.35"}


# every conda


def test_conda_finds_every_hook_and_each_has_the_name_cuenv(plugins: pluggy.PluginManager) -> None:
    for hook in HOOKS:
        (item,) = offered(plugins, hook)
        assert item.name.startswith("cuenv"), hook
    assert offered(plugins, "conda_pre_transaction_actions") == []  # nobody asked for it
    assert "conda_virtual_packages" not in dir(conda_cuenv.hooks)  # a second __cuda_arch would break every command


def test_a_conda_that_lacks_a_type_gets_nothing_and_no_exception(
    conda: conda_types.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    del conda
    monkeypatch.setitem(sys.modules, "conda.plugins.types", ModuleType("conda.plugins.types"))
    for hook in HOOKS:
        assert getattr(conda_cuenv.hooks, hook)() == ()
    assert conda_cuenv.hooks.conda_error_hints(error=ValueError("__cuda")) == ()
    assert conda_cuenv.hooks.conda_pre_transaction_actions() == ()


def test_an_older_conda_gets_what_its_types_take(conda: conda_types.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    del conda
    types = sys.modules["conda.plugins.types"]
    older = {
        "CondaHealthCheck": lambda name, action: (name, action.__name__),
        "CondaEnvironmentSpecifier": lambda name, environment_spec: (name, environment_spec.__name__),
        "CondaEnvironmentExporter": lambda name, aliases, default_filenames, export: (name, export.__name__),
    }
    for name, kind in older.items():
        monkeypatch.setattr(types, name, kind)
    assert conda_cuenv.hooks.conda_health_checks() == (("cuenv", "_examine"),)
    assert conda_cuenv.hooks.conda_environment_specifiers() == (("cuenv", "ProfileSpec"),)
    assert conda_cuenv.hooks.conda_environment_exporters() == (("cuenv", "export"),)


def test_a_specifier_that_conda_could_not_make_is_not_offered(
    conda: conda_types.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conda 25.5 makes one for every file, and asks for another method: each environment file would fail."""
    del conda

    class OfConda255(conda_types.EnvironmentSpecBase):
        @abstractmethod
        def environment(self) -> Any: ...

    monkeypatch.setattr(sys.modules["conda.plugins.types"], "EnvironmentSpecBase", OfConda255)
    assert conda_cuenv.hooks.conda_environment_specifiers() == ()


def test_a_conda_that_lists_virtual_packages_the_old_way_is_understood(conda: conda_types.Context) -> None:
    packages = [SimpleNamespace(name="archspec", version="1"), SimpleNamespace(name="cuda", version="12.2")]
    conda.plugin_manager = SimpleNamespace(get_virtual_packages=lambda: packages)
    assert solves.driver_cuda() == "12.2"


OLD = """
import json, sys
from conda.plugins.hookspec import CondaSpecs
from conda.plugins.manager import CondaPluginManager
import conda_cuenv.hooks
manager = CondaPluginManager()
manager.add_hookspecs(CondaSpecs)
manager.load_plugins(conda_cuenv.hooks)
names = ("subcommands", "health_checks", "pre_solves", "post_solves", "settings", "virtual_packages", "pre_commands")
told = {name: [item.name for item in manager.get_hook_results(name)] for name in names}
manager.invoke_health_checks(sys.argv[1], False)
manager.invoke_pre_solves(frozenset(), frozenset())
manager.invoke_post_solves("repodata.json", (), ())
told["exit"] = manager.get_subcommands()["cuenv"].action(("--version",))
print(json.dumps(told))
"""


def test_the_conda_of_2024_that_conda_lock_brings_takes_what_it_knows(cuenv: Made, tmp_path: Path) -> None:
    cuenv(f'[ "$1" = check ] || exit 3\n{report()}')
    found = find_spec("conda_lock")
    assert found
    vendored = Path(str(found.origin)).parent / "_vendor"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OLD, str(environment(tmp_path))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), str(vendored)]), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("exit") == 3
    nothing: list[str] = []
    assert told == {
        "subcommands": ["cuenv"],
        "health_checks": ["cuenv"],
        "pre_solves": ["cuenv"],
        "post_solves": ["cuenv"],
        "settings": ["cuenv_lock"],
        "virtual_packages": nothing,
        "pre_commands": nothing,
    }
    assert "✅ cuenv found no mistake" in done.stdout
    assert "Error" not in done.stderr


def test_a_start_of_conda_imports_nothing_but_pluggy() -> None:
    code = (
        "import sys, pluggy, logging, typing, collections.abc; before = set(sys.modules);"
        "import conda_cuenv.hooks as h; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["conda_cuenv", "conda_cuenv.hooks"]


# conda cuenv


def test_arguments_and_exit_code_go_through(cuenv: Made, tmp_path: Path) -> None:
    cuenv(f'printf "%s\\n" "$@" > {tmp_path}/words; exit 3')
    assert conda_cuenv.hooks._run_cuenv(("--gpu", "RTX 4090", "resolve")) == 3
    assert (tmp_path / "words").read_text().splitlines() == ["--gpu", "RTX 4090", "resolve"]


def test_a_double_dash_that_argparse_swallowed_is_passed_on(
    cuenv: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuenv(f'printf "%s\\n" "$@" > {tmp_path}/words')
    monkeypatch.setattr(sys, "argv", ["conda", "cuenv", "run", "--", "python", "-V"])
    assert program.hand_over(("run", "python", "-V")) == 0
    assert (tmp_path / "words").read_text().split() == ["run", "--", "python", "-V"]


def test_death_by_a_signal_is_the_exit_code_of_a_shell(cuenv: Made) -> None:
    cuenv("kill -9 $$")
    assert program.hand_over(()) == 137


def test_without_cuenv_conda_cuenv_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere(monkeypatch, tmp_path)
    assert program.hand_over(("check",)) == 127
    assert "uv tool install cuenv" in capsys.readouterr().err
    monkeypatch.setenv("CUENV_EXE", str(tmp_path / "gone"))
    assert program.hand_over(("check",)) == 127
    assert "not a program that can be run" in capsys.readouterr().err


def nowhere(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A machine without cuenv."""
    for name in ("CUENV_EXE", "PIPX_HOME", "PIPX_BIN_DIR", "UV_TOOL_DIR", "UV_TOOL_BIN_DIR", "XDG_BIN_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(sys, "prefix", str(folder / "base"))


@collect(
    "place",
    [
        "home/.local/share/uv/tools/cuenv/bin/cuenv",
        "home/.local/share/pipx/venvs/cuenv/bin/cuenv",
        "home/.local/pipx/venvs/cuenv/bin/cuenv",
        "home/.local/bin/cuenv",
        "base/envs/cuenv/bin/cuenv",
        "base/bin/cuenv",
    ],
)
def test_cuenv_is_found_where_its_installers_put_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere(monkeypatch, tmp_path)
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    with pytest.raises(program.Unanswered):
        program.program()  # it cannot be run
    path.chmod(0o755)
    assert program.program() == str(path)


def test_uv_and_pipx_may_have_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuenv: Made) -> None:
    path = cuenv("")
    for variable, folder in (("UV_TOOL_DIR", "tools"), ("PIPX_HOME", "pipx"), ("PIPX_BIN_DIR", "bin")):
        nowhere(monkeypatch, tmp_path)
        below = {"tools": "cuenv/bin/cuenv", "pipx": "venvs/cuenv/bin/cuenv", "bin": "cuenv"}[folder]
        other = tmp_path / variable / below
        other.parent.mkdir(parents=True)
        other.symlink_to(path)
        monkeypatch.setenv(variable, str(tmp_path / variable))
        assert program.program() == str(other)


# what cuenv may do


BAD = {
    "missing": (None, "CUENV_EXE"),
    "garbage": ("echo no JSON", "did not print the JSON document"),
    "silence": ("exit 1", "did not print the JSON document that was expected (exit code 1)"),
    "other JSON": ("echo '[1, 2]'", "did not print the JSON document"),
    "not UTF-8": (r"printf '{\"schema\": \"cuenv/\377\"}'", "did not print the JSON document"),
    "nested": ("head -c 200000 /dev/zero | tr '\\0' '['", "did not print the JSON document"),
    "error": (
        """echo '{"schema": "cuenv/error/1", "error": {"message": "no \\u001b[31m host"}}'; exit 2""",
        "'cuenv check' failed: no [31m host",
    ),
    "no program": ("#", "did not print"),
    "endless": ("exec tr '\\0' x < /dev/zero", "printed more than 32 MB"),
    "hangs": ("sleep 30 & sleep 30", "did not answer within 0.3 seconds"),
    "closes its output and hangs": ("exec >&-; sleep 30", "did not answer within 0.3 seconds"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BAD)
def test_whatever_cuenv_does_the_doctor_goes_on(  # noqa: PLR0917 - fixtures
    kind: str,
    cuenv: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    plugins: pluggy.PluginManager,
) -> None:
    script, says = BAD[kind]
    if script is None:
        monkeypatch.setenv("CUENV_EXE", str(tmp_path / "gone"))
    else:
        cuenv(script)
    monkeypatch.setattr(doctor, "SECONDS", 0.3 if "hangs" in kind else 20)
    (check,) = offered(plugins, "conda_health_checks")
    start = time.monotonic()
    env = str(environment(tmp_path))
    check.action(env, False)
    assert time.monotonic() - start < 15
    told = capsys.readouterr().out
    assert told.startswith("❓ cuenv did not check CUDA and PyTorch: ")
    assert says in told
    assert check.fixer(env, SimpleNamespace(), pytest.fail) == 1


def test_a_program_that_the_system_cannot_start_is_told(cuenv: Made, capsys: pytest.CaptureFixture[str]) -> None:
    cuenv("").write_bytes(b"\x7fELF nonsense")
    doctor.examine("/nowhere", verbose=False)
    assert "cannot be started" in capsys.readouterr().out


# conda doctor


def test_the_doctor_tells_findings_and_with_verbose_notes(cuenv: Made, capsys: pytest.CaptureFixture[str]) -> None:
    cuenv(report(finding(), finding("CU103", "warning"), notes=[finding("CU408", "info")], host="a V100"))
    doctor.examine("/env", verbose=False)
    told = capsys.readouterr().out
    assert "❌ cuenv checked CUDA and PyTorch for a V100:" in told
    assert "  ❌ says CU405 (CU405)\n  ⚠️ says CU103 (CU103)\n" in told
    assert "CU408" not in told
    doctor.examine("/env", verbose=True)
    assert "  - says CU408 (CU408)" in capsys.readouterr().out


def test_what_was_not_compared_is_not_called_fine(cuenv: Made, capsys: pytest.CaptureFixture[str]) -> None:
    skipped = {"name": "host", "status": "skip", "says": "this machine has no known GPU", "codes": []}
    cuenv(report(checks=[skipped]))
    doctor.examine("/env", verbose=False)
    assert capsys.readouterr().out.startswith(
        "❓ cuenv did not compare the environment with a GPU: this machine has no"
    )
    cuenv(report(checks=[{**skipped, "status": "ok"}]))
    doctor.examine("/env", verbose=False)
    assert capsys.readouterr().out.startswith("✅")


def test_an_environment_without_cuda_is_passed_in_one_line(
    cuenv: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cuenv(f'exec {in_shell()} "$@"')
    doctor.examine(str(environment(tmp_path, "python-3.12.4-0", "numpy-2.0.1-py312_0")), verbose=False)
    assert capsys.readouterr().out == "✅ cuenv: neither a CUDA component nor an NVIDIA library is installed.\n\n"


def test_ctrl_c_is_for_cuenv_and_its_exit_code_comes_through(cuenv: Made, tmp_path: Path) -> None:
    cuenv(f"trap 'sleep 0.2; exit 42' INT; touch {tmp_path}/there; while :; do sleep 0.05; done")
    code = "import sys; from conda_cuenv.program import hand_over; sys.exit(hand_over(()))"
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen([sys.executable, "-c", code], env=environ, start_new_session=True) as process:
        end = time.monotonic() + 20
        while not (tmp_path / "there").exists() and time.monotonic() < end:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=20) == 42


def test_a_terminal_without_unicode_still_gets_the_report(cuenv: Made, tmp_path: Path) -> None:
    cuenv(report(finding()))
    code = "from conda_cuenv.doctor import examine; examine('/env', verbose=False)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "ascii"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "? says CU405 (CU405)" in done.stdout


def test_the_real_cuenv_finds_cudnn_and_the_fixer_pins_what_is_installed(
    cuenv: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cuenv(f'exec {in_shell()} "$@"')
    for name, value in V100.items():
        monkeypatch.setenv(name, value)
    env = environment(tmp_path, *CUDNN)
    doctor.examine(str(env), verbose=False)
    assert "but not compute capability 7.0 (V100) (CU405)" in capsys.readouterr().out
    asked: list[str] = []
    assert doctor.pin(str(env), SimpleNamespace(), asked.append) == 0
    assert asked == [f"Pin libcudnn <9.11 in {env}/conda-meta/pinned?"]
    assert (env / "conda-meta/pinned").read_text() == "libcudnn <9.11\n"
    assert "conda install -y -p" in capsys.readouterr().out
    assert doctor.pin(str(env), SimpleNamespace(), pytest.fail) == 0
    assert "no pin to add" in capsys.readouterr().out


def test_no_and_a_dry_run_write_nothing(cuenv: Made, tmp_path: Path) -> None:
    cuenv(report(bound("libcudnn<9.11")))
    env = environment(tmp_path, *CUDNN)

    def no(_: str) -> None:
        raise RuntimeError("conda raises here")

    with pytest.raises(RuntimeError, match="conda raises"):
        doctor.pin(str(env), SimpleNamespace(), no)
    assert sorted(path.name for path in (env / "conda-meta").iterdir() if path.suffix != ".json") == ["history"]


def test_pins_are_bounds_on_conda_packages_that_are_installed(cuenv: Made, tmp_path: Path) -> None:
    env = environment(tmp_path, *CUDNN)
    cuenv(
        report(
            bound("cudnn<9.11", "libcudnn<9.11", "libcudnn <9.11\nevil", "--help", "python;rm"),
            bound("python<3.13", how="write"),
            bound("pytorch<2.8", pip=True),
            finding(edits="nonsense"),
            finding(edits=[7, {"how": "add", "entries": 3}]),
        )
    )
    assert doctor.pin(str(env), SimpleNamespace(), lambda _: None) == 0
    assert (env / "conda-meta/pinned").read_text() == "libcudnn <9.11\n"


def test_existing_pins_stay_as_they_are(cuenv: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cuenv(report(bound("libcudnn<9.11", "python<3.13")))
    env = environment(tmp_path, *CUDNN)
    file = env / "conda-meta/pinned"
    file.write_bytes(b"# caf\xe9\nconda-forge::libcudnn 9.13.*")
    file.chmod(0o640)
    assert doctor.pin(str(env), SimpleNamespace(), lambda _: None) == 0
    assert file.read_bytes() == b"# caf\xe9\nconda-forge::libcudnn 9.13.*\npython <3.13\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert "libcudnn should be <9.11, but" in capsys.readouterr().out


def test_a_frozen_environment_is_left_alone(cuenv: Made, tmp_path: Path) -> None:
    cuenv(report(bound("libcudnn<9.11")))
    env = environment(tmp_path, *CUDNN)
    (env / "conda-meta/frozen").touch()
    assert doctor.pin(str(env), SimpleNamespace(protect_frozen_envs=object()), pytest.fail) == 1
    assert doctor.pin(str(env), SimpleNamespace(protect_frozen_envs=False), lambda _: None) == 0


def test_an_environment_that_cannot_be_written_is_told(
    cuenv: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cuenv(report(bound("libcudnn<9.11")))
    env = environment(tmp_path, *CUDNN)
    (env / "conda-meta/pinned.cuenv").mkdir()  # stands for a folder without permission, which stops not even root
    assert doctor.pin(str(env), SimpleNamespace(), lambda _: None) == 1
    assert "cannot be written" in capsys.readouterr().out
    assert doctor.pin(str(tmp_path / "gone"), SimpleNamespace(), pytest.fail) == 1
    assert "cannot be read" in capsys.readouterr().out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_an_environment_without_permission_is_told(
    cuenv: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cuenv(report(bound("libcudnn<9.11")))
    env = environment(tmp_path, *CUDNN)
    meta = env / "conda-meta"
    meta.chmod(0o555)
    assert doctor.pin(str(env), SimpleNamespace(), lambda _: None) == 1
    assert f"{meta}/pinned cannot be written: Permission denied" in capsys.readouterr().out
    meta.chmod(0)
    assert doctor.pin(str(env), SimpleNamespace(), pytest.fail) == 1
    assert f"{meta} cannot be read: Permission denied" in capsys.readouterr().out
    cuenv(f'exec {in_shell()} "$@"')
    doctor.examine(str(env), verbose=False)
    assert capsys.readouterr().out.startswith("❓ cuenv did not check CUDA and PyTorch: 'cuenv check' failed: ")
    meta.chmod(0o755)


# after a solve


def record(name: str, version: str, build: str, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(name=name, version=version, build=build, fn=f"{name}-{version}-{build}.conda", **more)


CPU = record("pytorch", "2.7.1", "cpu_generic_py312_h1_0")


def solved(plugins: pluggy.PluginManager, *link: Any) -> None:
    (after,) = offered(plugins, "conda_post_solves")
    after.action("repodata.json", (), link)


def test_a_cpu_build_on_a_gpu_machine_is_told_once(
    plugins: pluggy.PluginManager, conda: conda_types.Context, capsys: pytest.CaptureFixture[str]
) -> None:
    solved(plugins, CPU)
    assert capsys.readouterr() == ("", "")  # conda sees no GPU
    conda.cuda = "12.9"
    solved(plugins, record("libarrow", "20.0.0", "h1_3_cpu"), record("pytorch", "2.7.1", "cuda126_py312_0"))
    assert capsys.readouterr() == ("", "")  # one that nobody installs for the GPU, and a CUDA build
    solved(plugins, CPU, record("jaxlib", "0.6.0", "cpu_py312_0"))
    told = capsys.readouterr()
    assert told.out == ""
    assert "conda chose pytorch 2.7.1 cpu_generic_py312_h1_0, jaxlib 0.6.0 cpu_py312_0: CPU builds" in told.err
    assert "(__cuda 12.9)" in told.err
    solved(plugins, CPU)
    assert capsys.readouterr() == ("", "")


class Spec:
    def __init__(self, name: str, build: str | None = None) -> None:
        self.name, self._build = name, build

    def get_raw_value(self, field: str) -> str | None:
        return {"build": self._build}[field]


@pytest.mark.parametrize("spec", [Spec("pytorch", "cpu_*"), Spec("cpuonly"), Spec("pytorch-cpu")])
def test_who_asks_for_a_cpu_build_is_not_warned(
    spec: Spec, plugins: pluggy.PluginManager, conda: conda_types.Context, capsys: pytest.CaptureFixture[str]
) -> None:
    conda.cuda = "12.9"
    (before,) = offered(plugins, "conda_pre_solves")
    before.action(frozenset({spec}), frozenset())
    solved(plugins, CPU)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("setting", ["quiet", "json"])
def test_quiet_and_json_stay_so(
    setting: str, plugins: pluggy.PluginManager, conda: conda_types.Context, capsys: pytest.CaptureFixture[str]
) -> None:
    conda.cuda = "12.9"
    setattr(conda, setting, True)
    solved(plugins, CPU)
    assert capsys.readouterr() == ("", "")


def test_records_of_another_conda_break_no_solve(plugins: pluggy.PluginManager, conda: conda_types.Context) -> None:
    conda.cuda = "12.9"
    solved(plugins, object(), None)
    del conda.plugin_manager
    solved(plugins, CPU)


# next steps


class UnsatisfiableError(conda_types.CondaError):
    pass


class LibMambaUnsatisfiableError(UnsatisfiableError):
    pass


class PackagesNotFoundError(conda_types.CondaError):
    pass


LIBMAMBA = """Encountered problems while solving:
  - nothing provides __cuda >=13 needed by cuda-version-13.0-0

Could not solve for environment specs
└─ cuda-version 13.0** is not installable because it requires
   └─ __cuda >=13, which is missing on the system."""


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (LibMambaUnsatisfiableError(LIBMAMBA), ["cuenv_why_not", "cuenv_resolve", "cuenv_inspect"]),
        (UnsatisfiableError("pytorch-cuda=11.7 -> cuda 11.7"), ["cuenv_why_not", "cuenv_resolve"]),
        (PackagesNotFoundError("  - cudatoolkit=12.1"), ["cuenv_why_not", "cuenv_resolve"]),
        (PackagesNotFoundError("  - __cuda[version='>=13']"), ["cuenv_why_not", "cuenv_resolve", "cuenv_inspect"]),
        (UnsatisfiableError("feature:|@/linux-64::__cuda_arch==7.0"), ["cuenv_resolve", "cuenv_inspect"]),
        (UnsatisfiableError("numpy 2.0 conflicts with numba"), []),
        (UnsatisfiableError("my__cuda and barracuda-version"), []),
        (conda_types.CondaError("__cuda in another error"), []),
        (ValueError("cuda-version 13.0"), []),
    ],
)
def test_conflicts_about_cuda_have_next_steps(
    error: Exception, codes: list[str], plugins: pluggy.PluginManager
) -> None:
    assert [hint.hint_code for hint in offered(plugins, "conda_error_hints", error=error)] == codes


@collect("text", [LIBMAMBA, "  - __cuda[version='>=13']", "pytorch-cuda=13.0", "cuda-version 13.0.*"])
def test_the_release_that_was_asked_for_is_in_the_hint(text: str) -> None:
    assert dict(hints.hints(UnsatisfiableError(text)))["cuenv_why_not"].endswith("conda cuenv why-not cuda=13.0")


def test_an_error_that_cannot_be_printed_has_no_hint(plugins: pluggy.PluginManager) -> None:
    class BrokenError(UnsatisfiableError):
        def __str__(self) -> str:
            raise RuntimeError

    assert offered(plugins, "conda_error_hints", error=BrokenError()) == []


# a transaction


def verified(plugins: pluggy.PluginManager, *link: Any) -> Exception | None:
    (item,) = offered(plugins, "conda_pre_transaction_actions")
    action = item.action(None, "/env", (), link, (), (), ())
    refused: Exception | None = action.verify()
    assert action._verified is (refused is None)
    for step in (action.execute, action.reverse, action.cleanup):
        step()
    return refused


LOCKED = record("pytorch", "2.7.1", "cuda126_py312_0")


def test_a_machine_below_the_minimum_host_of_the_lock_is_refused(
    plugins: pluggy.PluginManager, conda: conda_types.Context, cuenv: Made, tmp_path: Path
) -> None:
    lock = tmp_path / "conda-lock.yml"
    lock.write_text(f"url: https://conda.anaconda.org/conda-forge/linux-64/{LOCKED.fn}\n")
    conda.plugins.cuenv_lock = str(lock)
    cuenv(report(finding("CU402"), finding("CU103"), finding("CU405", "warning")))
    refused = verified(plugins, LOCKED)
    assert isinstance(refused, conda_types.CondaVerificationError)
    assert str(refused) == f"cuenv: this machine cannot run the lock {lock}: says CU402 (CU402)"
    assert verified(plugins, record("requests", "2.32.0", "0")) is None  # the lock says nothing of it
    cuenv(report(finding("CU103")))
    assert verified(plugins, LOCKED) is None  # a fault of the lock, not of the machine


def test_the_real_cuenv_judges_a_real_lock(
    plugins: pluggy.PluginManager, conda: conda_types.Context, cuenv: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuenv(f'exec {in_shell()} "$@"')
    lock = Path(__file__).parents[2] / "locks/universal-dev/conda-lock.yml"
    conda.plugins.cuenv_lock = str(lock)
    (file,) = set(re.findall(r"/(pytorch-[0-9][^/\s]*\.conda)", lock.read_text()))
    for name, value in {"CUENV_GPU": "RTX 4090", "CUENV_DRIVER": "575.57.08", "CUENV_GLIBC": "2.35"}.items():
        monkeypatch.setenv(name, value)
    assert verified(plugins, SimpleNamespace(fn=file)) is None
    monkeypatch.setenv("CUENV_DRIVER", "450.80.02")
    assert "(CU40" in str(verified(plugins, SimpleNamespace(fn=file)))


@pytest.mark.parametrize("kind", BAD)
def test_a_lock_that_cannot_be_checked_refuses_nothing_and_says_so(  # noqa: PLR0917 - fixtures
    kind: str,
    plugins: pluggy.PluginManager,
    conda: conda_types.Context,
    cuenv: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lock = tmp_path / "conda-lock.yml"
    lock.write_text(LOCKED.fn)
    conda.plugins.cuenv_lock = str(lock)
    script, says = BAD[kind]
    if script is None:
        monkeypatch.setenv("CUENV_EXE", str(tmp_path / "gone"))
    else:
        cuenv(script)
    monkeypatch.setattr(transactions, "SECONDS", 0.3 if "hangs" in kind else 20)
    assert verified(plugins, LOCKED) is None
    assert says in capsys.readouterr().err
    lock.unlink()
    assert verified(plugins, LOCKED) is None
    assert "cannot be read" in capsys.readouterr().err
    assert verified(plugins, object()) is None


# environment files


def test_a_profile_becomes_an_environment_by_the_real_cuenv(
    plugins: pluggy.PluginManager, cuenv: Made, tmp_path: Path
) -> None:
    cuenv(f'exec {in_shell()} "$@"')
    file = tmp_path / "lab.cuenv.yml"
    file.write_text('name: lab\nstory: test\npytorch: "==2.7.1"\ngpus: [RTX 4090]\nlowest_driver: 535.129.03\n')
    (item,) = offered(plugins, "conda_environment_specifiers")
    spec = item.environment_spec(str(file))
    assert spec.can_handle()
    text = spec.env
    assert "pytorch=2.7.1=cuda126*" in text
    assert "platforms:" not in text  # conda warns of it
    for other in ("environment.yml", "lab.yml", "gone.cuenv.yml", ""):
        assert not item.environment_spec(str(tmp_path / other)).can_handle()


@pytest.mark.parametrize("script", ["exit 2", "echo dependencies:; exit 1", r"printf '\377dependencies:'", "echo x"])
def test_a_profile_that_cuenv_cannot_resolve_is_refused_with_the_command_that_says_why(
    script: str, plugins: pluggy.PluginManager, cuenv: Made, tmp_path: Path
) -> None:
    cuenv(script)
    (item,) = offered(plugins, "conda_environment_specifiers")
    with pytest.raises(conda_types.CondaValueError, match="conda cuenv resolve --profile"):
        _ = item.environment_spec(str(tmp_path / "lab.cuenv.yml")).env


def test_an_export_is_a_profile_that_the_real_cuenv_resolves(
    plugins: pluggy.PluginManager, cuenv: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (item,) = offered(plugins, "conda_environment_exporters")
    packages = [
        record("python", "3.12.4", "0"),
        CPU,
        record("cuda-version", "12.6", "0"),
        record("cuda-nvcc", "12.6.85", "0"),
        record("numpy", "2.0.1", "py312_0"),
        record("zlib", "1.3", "0"),
    ]
    made = SimpleNamespace(
        name='Lab 1: "x"',
        prefix="/env",
        explicit_packages=packages,
        requested_packages=[],
        external_packages={"pip": ["deepspeed==0.17.0", "nvidia-nccl-cu12==2.26.2"]},
    )
    text = item.export(made)
    assert 'pytorch: "==2.7.1"\n' in text
    assert 'with:\n  - "numpy=2.0.1"\npip:\n  - "deepspeed==0.17.0"\n' in text
    assert "zlib" not in text  # nobody asked for it
    cuenv(f'exec {in_shell()} "$@"')
    for name, value in V100.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "export.cuenv.yml"
    file.write_text(text)
    (reader,) = offered(plugins, "conda_environment_specifiers")
    assert "pytorch=2.7.1=cuda126*" in reader.environment_spec(str(file)).env


# conda as it is installed


@pytest.fixture
def installed(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A real conda with the plugin beside it; the test is skipped where there is none that has plugins."""
    import shutil

    exe = os.environ.get("CONDA_EXE") or shutil.which("conda")
    if not exe or not Path(exe).is_file():
        pytest.skip("no conda here")
    site = tmp_path / "site"
    about = site / "conda_cuenv-0.1.0.dist-info"
    about.mkdir(parents=True)
    (site / "conda_cuenv").symlink_to(SOURCE / "conda_cuenv")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: conda-cuenv\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("[conda]\ncuenv = conda_cuenv.hooks\n")

    def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
        variables = {**os.environ, "PYTHONPATH": path, "HOME": str(tmp_path), "CONDA_OFFLINE": "true", **environ}
        return subprocess.run([exe, *words], env=variables, capture_output=True, text=True, timeout=120, check=False)

    if "--fix" not in run("doctor", "--help").stdout:
        pytest.skip("this conda is older than 26.1: its conda doctor has no fixers")
    return run


def test_a_real_conda_hands_over_and_doctors(
    installed: Callable[..., subprocess.CompletedProcess[str]], cuenv: Made, tmp_path: Path
) -> None:
    cuenv(f'[ "$1" = check ] || {{ echo "$@"; exit 3; }}\n{report(bound("libcudnn<9.11"))}')
    done = installed("cuenv", "--gpu", "V100", "run", "--", "x", "--json")
    assert (done.returncode, done.stdout) == (3, "--gpu V100 run -- x --json\n"), done.stderr
    env = environment(tmp_path, *CUDNN)
    done = installed("doctor", "--prefix", str(env), "cuenv", "--fix", "--yes")
    assert "says CU405 (CU405)" in done.stdout, done.stderr
    assert (env / "conda-meta/pinned").read_text() == "libcudnn <9.11\n"
    (env / "conda-meta/frozen").touch()
    (env / "conda-meta/pinned").unlink()
    assert "is frozen" in installed("doctor", "--prefix", str(env), "cuenv", "--fix", "--yes").stdout
    done = installed("doctor", "--prefix", str(env), "cuenv", "--fix", "--yes", "--override-frozen")
    assert (env / "conda-meta/pinned").exists(), done.stderr
    cuenv("exit 1")
    assert installed("info").returncode == 0
