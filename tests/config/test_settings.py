"""Settings: which value counts, where it came from, and what is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from commands import HOST
from commands import inside as run
from commands import run as process
from cuenv.cli.main import cli
from cuenv.config.io.configuration import Configuration, read_configuration
from cuenv.config.settings import (
    KINDS,
    MACHINE,
    Setting,
    disables_config,
    merge,
    parse_table,
    parse_variables,
    unknown_variables,
)
from cuenv.core.errors import ExitCode, InputError, UsageError
from cuenv.core.reading import Faults

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")

# Per setting: three values as they are typed, the parameter of click, and the same values as click gives them.
LADDER: dict[str, tuple[str, tuple[str, str, str]]] = {
    "profile": ("profile", ("inference", "universal-dev", "own")),
    "stack": ("stack", ("conda-forge", "pytorch", "conda-forge")),
    "pytorch": ("pytorch", ("2.5", "2.6", ">=2.4,<2.7")),
    "cuda": ("cuda", ("12.4", "12.6", "11.8")),
    "python": ("python", ("3.10", "3.11", "3.12")),
    "prefer": ("prefer", ("newest", "native", "newest")),
    "dev": ("dev", ("1", "0", "1")),
    "hosts": ("hosts", ("a800-470", "no-gpu", "gh200-570")),
    "gpus": ("gpus", ("8.9", "RTX 4090", "V100")),
    "driver": ("driver", ("535.129.03", "550.54.14", "470.129.06")),
    "glibc": ("glibc", ("2.28", "2.31", "2.35")),
    "platforms": ("platforms", ("linux-64", "linux-aarch64", "linux-64")),
    "mirrors": ("mirrors", ("bioconda=/a", "bioconda=/b", "bioconda=/c")),
    "offline": ("offline", ("1", "0", "1")),
    "knowledge": ("tables", ("/a", "/b", "/c")),
    "engine": ("engine", ("conda-lock", "embedded", "conda-lock")),
    "color": ("color", ("always", "never", "auto")),
    "no-progress": ("no_progress", ("1", "0", "1")),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, away from the settings of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("CUENV_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def params(*words: str, command: str = "resolve") -> dict[str, Any]:
    """What a command would be called with."""
    root = click.Context(cli, info_name="cuenv")
    found = cli.get_command(root, command)
    assert found
    with found.make_context(command, list(words), parent=root) as context:
        return context.params


def toml(name: str, text: str) -> str:
    kind = KINDS[name]
    if kind.type is bool:
        return f"{name} = {'true' if text == '1' else 'false'}\n"
    return f"{name} = [{text!r}]\n" if kind.type is tuple else f"{name} = {text!r}\n"


def as_given(name: str, text: str) -> object:
    kind = KINDS[name]
    if kind.type is bool:
        return text == "1"
    if kind.type is tuple:
        return (text,)
    return Path(text) if name == "knowledge" else text


def test_every_option_with_a_setting_is_on_the_ladder() -> None:
    assert set(LADDER) == {name for name, kind in KINDS.items() if kind.flag}


@collect("name", LADDER)
def test_the_command_line_goes_before_variables_before_the_file(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, (param, (low, middle, high)) = KINDS[name], LADDER[name]
    command = {"engine": "lock"}.get(name, "resolve")
    default = params(command=command)[param]
    assert default == kind.default
    (folder / "cuenv.toml").write_text(toml(name, low))
    assert params(command=command)[param] == as_given(name, low)
    monkeypatch.setenv(kind.variable, middle)
    assert params(command=command)[param] == as_given(name, middle)
    assert params("--no-config", command=command)[param] == as_given(name, middle)
    words = [kind.flag] if kind.type is bool else [kind.flag, high]
    assert params(*words, command=command)[param] == as_given(name, high)
    monkeypatch.setenv(kind.variable, " ")
    assert params(command=command)[param] == as_given(name, low)
    assert params("--no-config", command=command)[param] == default
    monkeypatch.setenv("CUENV_NO_CONFIG", "1")
    assert params(command=command)[param] == default


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("'90'", 90)])
def test_the_timeout_reaches_whoever_asks_channels(folder: Path, text: str, seconds: int) -> None:
    from cuenv.cli.options import channel_sources

    (folder / "cuenv.toml").write_text(f"timeout = {text}\n")
    root = click.Context(cli, info_name="cuenv")
    with click.Context(click.Command("lock"), parent=root):
        assert channel_sources({"mirrors": (), "offline": False, "no_progress": False}).timeout == seconds


@collect("text", ["0", "-5", "'x'", "1.5", "true", "1000000", "''"])
def test_a_timeout_that_is_invalid_is_an_error(folder: Path, text: str) -> None:
    (folder / "cuenv.toml").write_text(f"timeout = {text}\n")
    with pytest.raises(InputError, match=r"cuenv\.toml: timeout: expected"):
        read_configuration({})
    with pytest.raises(UsageError, match="CUENV_TIMEOUT: expected seconds"):
        read_configuration({"CUENV_TIMEOUT": "soon", "CUENV_NO_CONFIG": "1"}, files=False)


@collect("name", KINDS)
def test_the_origin_of_every_setting(name: str, folder: Path) -> None:
    text = LADDER[name][1][0] if name in LADDER else "90" if name == "timeout" else "/somewhere"
    variable = KINDS[name].variable
    assert read_configuration({}).settings[name] == Setting(name=name, value=KINDS[name].default, origin="default")
    (folder / "pyproject.toml").write_text(f"[tool.cuenv]\n{toml(name, text)}")
    assert read_configuration({}).settings[name].origin == f"pyproject.toml: tool.cuenv.{name}"
    if variable:
        assert read_configuration({variable: text}).settings[name].origin == variable


def test_every_setting_is_documented() -> None:
    section = PAGE.partition("## Settings")[2].partition("\n## ")[0]
    rows = [[cell.strip("` ") for cell in line.split("|")] for line in section.splitlines() if line.startswith("|")]
    told = {(row[3], row[2]) for row in rows}
    assert told >= {(name, kind.variable) for name, kind in KINDS.items()}
    assert ("", "CUENV_NO_CONFIG") in told


def test_lists_replace_and_are_not_joined(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cuenv.toml").write_text("gpus = ['V100', 'A100']\n")
    assert params()["gpus"] == ("V100", "A100")
    monkeypatch.setenv("CUENV_GPU", "8.9, RTX 5090")
    assert params()["gpus"] == ("8.9", "RTX 5090")
    assert params("--gpu", "T4", "--gpu", "L4")["gpus"] == ("T4", "L4")


def test_the_nearest_file_counts_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cuenv.toml").write_text("cuda = '12.4'\npython = '3.12'\n")
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert read_configuration({}).settings["cuda"].origin == f"{folder}/cuenv.toml: cuda"
    (folder / "a" / "pyproject.toml").write_text("[project]\nname = 'cuenv-user'\n")  # says nothing to cuenv
    assert params()["cuda"] == "12.4"
    (folder / "a" / "pyproject.toml").write_text("[tool.cuenv]\ncuda = '12.6'\n")
    assert params()["cuda"] == "12.6"
    assert params()["python"] is None


def test_cuenv_toml_wins_in_its_folder_and_says_so(folder: Path) -> None:
    (folder / "cuenv.toml").write_text("cuda = '12.4'\n")
    (folder / "pyproject.toml").write_text("[tool.cuenv]\ncuda = '12.6'\n")
    found = read_configuration({})
    assert (found.settings["cuda"].value, found.path) == ("12.4", "cuenv.toml")
    assert found.warnings == ("pyproject.toml: [tool.cuenv] is ignored, because cuenv.toml exists",)
    done = run("resolve", *HOST, folder=folder)
    assert done.stderr.count("warning pyproject.toml") == 1
    assert "set     --cuda 12.4 by cuenv.toml; not with --no-config\n" in done.stderr
    assert "set     --cuda 12.6 by CUENV_CUDA\n" in run("resolve", *HOST, folder=folder, CUENV_CUDA="12.6").stderr
    assert run("resolve", *HOST, "--json", folder=folder).stderr == ""


def test_paths_of_a_file_are_beside_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "knowledge = 'tables'\nprofile = './lab.yml'\nprofile-dir = 'p'\ncache-dir = '~/c'\n"
        "hosts = ['node.json', 'a800-470', '/x/y', '-']\nmirrors = ['bioconda=./m', 'nvidia=https://m.example.com/n']\n"
    )
    (folder / "cuenv.toml").write_text(text)
    here = read_configuration({}).settings
    assert here["hosts"].value == ("node.json", "a800-470", "/x/y", "-")
    (folder / "in").mkdir()
    monkeypatch.chdir(folder / "in")
    values = {name: item.value for name, item in read_configuration({}).settings.items()}
    assert values["knowledge"] == f"{folder}/tables"
    assert values["profile"] == f"{folder}/lab.yml"
    assert values["profile-dir"] == f"{folder}/p"
    assert values["cache-dir"] == "~/c"
    assert values["hosts"] == (f"{folder}/node.json", "a800-470", "/x/y", "-")
    assert values["mirrors"] == (f"bioconda={folder}/m", "nvidia=https://m.example.com/n")


BROKEN: dict[str, tuple[bytes, str]] = {
    "no TOML": (b"gpus = [\n", "invalid TOML"),
    "a key twice": (b"cuda = '12.4'\ncuda = '12.6'\n", "invalid TOML"),
    "no UTF-8": (b"cuda = '\xff'\n", "UTF-8"),
    "a binary file": (b"\x7fELF\x00\x00", "binary"),
    "a long number": (b"x = " + b"9" * 5000 + b"\n", "invalid TOML"),
    "nested deep": (b"x = " + b"[" * 5000 + b"]" * 5000 + b"\n", "nested too deep|invalid TOML|unknown key"),
    "larger than any settings": (b"#" * (1024 * 1024 + 1), "larger than"),
    "an unknown key": (b"gpu = ['V100']\n", "unknown key 'gpu' \\(did you mean 'gpus'\\?\\)"),
    "a number for a text": (b"python = 3.12\n", "python: expected a string, got 3.12"),
    "a text for a switch": (b"dev = 'yes'\n", "dev: expected true or false, got 'yes'"),
    "a text for a list": (b"gpus = 'V100'\n", "gpus: expected a list, got 'V100'"),
    "a number in a list": (b"gpus = ['V100', 8.9]\n", r"gpus\[1\]: expected a string, got 8.9"),
    "an empty text": (b"driver = ''\n", "driver: expected a value"),
    "a date": (b"cuda = 2024-01-01\n", "cuda: expected a string"),
    "no stack": (b"stack = 'nvidia'\n", "stack: expected one of conda-forge, pytorch, wheels, got 'nvidia'"),
    "no version": (b"pytorch = 'new'\n", "pytorch: .*'new'"),
    "no driver": (b"driver = 'abc'\n", "driver: .*'abc'"),
    "no glibc": (b"glibc = 'musl'\n", "glibc: .*musl"),
    "no platform": (b"platforms = ['linux-64', 'win-64']\n", r"platforms\[1\]: expected one of"),
    "no mirror": (b"mirrors = ['https://u:secret@m.example.com']\n", r"mirrors\[0\]: expected FROM=TO"),
    "no table of profiles": (b"profiles = 3\n", "profiles: expected a mapping, got 3"),
    "no table of a profile": (b"profiles.lab = 3\n", "profiles.lab: expected a mapping, got 3"),
    "the table of the other file": (b"[tool.cuenv]\ncuda = '12.4'\n", "unknown key 'tool'"),
}


@collect(("data", "said"), BROKEN.values())
def test_a_broken_file_is_refused_with_the_way_out(folder: Path, data: bytes, said: str) -> None:
    (folder / "cuenv.toml").write_bytes(data)
    with pytest.raises(InputError, match=said) as caught:
        read_configuration({})
    assert caught.value.message.startswith(("cuenv.toml:", "cannot read cuenv.toml:"))
    assert caught.value.hint
    assert "secret" not in caught.value.message
    assert params("--no-config")["cuda"] is None


def test_all_faults_at_once_with_their_paths(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.cuenv]\ngpus = ['V100', 3]\ndev = 1\ncudda = '12.4'\n")
    with pytest.raises(InputError) as caught:
        read_configuration({})
    lines = caught.value.message.splitlines()
    assert lines[0] == "pyproject.toml: 3 faults"
    assert {line.split(":")[0].strip() for line in lines[1:]} == {"tool.cuenv", "tool.cuenv.dev", "tool.cuenv.gpus[1]"}
    done = run("resolve", *HOST, folder=folder)
    assert (done.returncode, done.stdout) == (ExitCode.INPUT, "")
    assert run("resolve", *HOST, "--no-config", folder=folder).returncode == ExitCode.OK
    assert run("resolve", *HOST, folder=folder, CUENV_NO_CONFIG="1").returncode == ExitCode.OK
    for words in (("--help",), ("resolve", "--help"), ("profile", "list", "--help")):
        assert run(*words, folder=folder).returncode == ExitCode.OK  # help never depends on a file


@pytest.mark.parametrize("data", [b"[tool]\ncuenv = 3\n", b"tool.cuenv = [1]\n"])
def test_a_table_that_is_invalid(folder: Path, data: bytes) -> None:
    (folder / "pyproject.toml").write_bytes(data)
    with pytest.raises(InputError, match=r"tool\.cuenv: expected a mapping"):
        read_configuration({})


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfcuda = '12.4'\n", b"cuda = '12.4'\r\npython = '3.12'\r\n"])
def test_a_byte_order_mark_and_windows_line_ends_are_read(folder: Path, data: bytes) -> None:
    (folder / "cuenv.toml").write_bytes(data)
    assert read_configuration({}).settings["cuda"].value == "12.4"


def test_what_is_not_a_file(folder: Path) -> None:
    own = folder / "cuenv.toml"
    own.symlink_to("nowhere")
    assert read_configuration({}).path == ""
    own.unlink()
    own.symlink_to("cuenv.toml")
    with pytest.raises(InputError, match="loop"):
        read_configuration({})
    own.unlink()
    os.mkfifo(own)
    with pytest.raises(InputError, match="not a regular file"):
        read_configuration({})
    own.unlink()
    own.mkdir()
    with pytest.raises(InputError, match=r"cannot read cuenv\.toml: it is not a regular file"):
        read_configuration({})
    own.rmdir()
    (folder / "pyproject.toml").mkdir()
    assert read_configuration({}).path == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(folder: Path) -> None:
    (folder / "cuenv.toml").touch(0o000)
    with pytest.raises(InputError, match="permission denied"):
        read_configuration({})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_strangers_file_in_a_folder_of_everyone_is_ignored(folder: Path) -> None:
    (folder / "cuenv.toml").write_text("mirrors = ['conda-forge=https://evil.example.com']\n")
    os.chown(folder / "cuenv.toml", 12345, 12345)
    assert read_configuration({}).path == "cuenv.toml"  # a colleague's, in a folder of the team
    folder.chmod(0o1777)
    found = read_configuration({})
    assert found.settings["mirrors"].value == ()
    assert len(found.warnings) == 1
    assert "another user" in found.warnings[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_no_file_of_another_user_says_where_to_write(folder: Path) -> None:
    (folder / "cuenv.toml").write_text("cache-dir = '/srv/elsewhere'\nglibc = '2.31'\n")
    assert read_configuration({}).settings["cache-dir"].value == "/srv/elsewhere"
    os.chown(folder / "cuenv.toml", 12345, 12345)
    found = read_configuration({})
    assert found.settings["cache-dir"].value is None
    assert found.settings["glibc"].value == "2.31"
    (warning,) = found.warnings
    assert "cache-dir" in warning
    assert "CUENV_CACHE_DIR" in warning
    assert read_configuration({"CUENV_CACHE_DIR": "/mine"}).settings["cache-dir"].value == "/mine"


def test_every_value_that_a_file_sets_is_said_and_so_is_the_cache(folder: Path) -> None:
    (folder / "cuenv.toml").write_text(
        "cache-dir = 'elsewhere'\noffline = true\ndev = false\ngpus = ['V100', 'RTX 5090']\ndriver = '575.57.08'\n"
        "mirrors = ['conda-forge=https://me:secret@evil.example.com/conda-forge']\n"
    )
    said = run("resolve", "--prove", folder=folder).stderr
    line = next(line for line in said.splitlines() if line.startswith("set     "))
    for text in (
        "--gpu V100 --gpu 'RTX 5090'",
        "--driver 575.57.08",
        "--mirror conda-forge=https://evil.example.com/conda-forge",
        "--offline",
        "--no-dev",
        "cache-dir elsewhere",
    ):
        assert text in line
    assert "secret" not in said


def test_a_working_folder_that_is_gone(folder: Path) -> None:
    folder.rmdir()
    assert read_configuration({}).path == ""


@collect(
    ("variable", "text", "said"),
    [
        ("CUENV_DEV", "maybe", "expected 1 or 0, got 'maybe'"),
        ("CUENV_STACK", "nvidia", "expected one of"),
        ("CUENV_PYTORCH", "x.y", "x.y"),
        ("CUENV_DRIVER", "abc", "abc"),
        ("CUENV_GPU", "V100,,T4", "empty text"),
        ("CUENV_MIRROR", "u:secret@x", "FROM=TO"),
        ("CUENV_COLOR", "\x1b[31m", "expected one of"),
    ],
)
def test_a_wrong_variable_is_a_usage_error(folder: Path, variable: str, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_variables({variable: text})
    assert caught.value.message.startswith(f"{variable}: ")
    assert said in caught.value.message
    assert "\x1b" not in caught.value.message
    assert caught.value.hint == f"unset {variable}"
    environ: dict[str, Any] = {variable: text}
    done = run("resolve", *HOST, folder=folder, **environ)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")


def test_an_error_about_a_setting_names_its_origin(folder: Path) -> None:
    (folder / "cuenv.toml").write_text("gpus = ['RTX 9999']\n")
    done = run("resolve", folder=folder)
    assert done.returncode == ExitCode.USAGE
    assert "(--gpu is set by cuenv.toml: gpus)" in done.stderr
    typed = run("resolve", "--gpu", "RTX 9998", folder=folder)
    assert "is set by" not in typed.stderr


def test_a_host_that_is_named_replaces_the_machine_below() -> None:
    def level(**values: str) -> dict[str, Setting]:
        return {name: Setting(name=name, value=value, origin="x") for name, value in values.items()}

    low = level(gpus="V100", driver="1", glibc="2", platforms="p", cuda="12.4")
    by_host = merge(level(hosts="a800-470"), low)
    assert {name for name in MACHINE if by_host[name].origin != "default"} == {"hosts"}
    assert by_host["cuda"].value == "12.4"
    by_gpu = merge(level(gpus="T4"), low | level(hosts="h"))
    assert {name: by_gpu[name].value for name in MACHINE} == {
        "gpus": "T4", "glibc": "2", "platforms": "p", "hosts": (), "driver": None
    }  # fmt: skip
    by_driver = merge(level(driver="2"), low)
    assert (by_driver["gpus"].value, by_driver["driver"].value) == ("V100", "2")


def test_what_is_typed_replaces_the_machine_of_the_settings(folder: Path) -> None:
    (folder / "cuenv.toml").write_text("gpus = ['V100', 'RTX 5090']\ndriver = '575.57.08'\nglibc = '2.35'\n")
    ours = run("resolve", folder=folder)
    assert "V100 (7.0) + RTX 5090 (12.0)" in ours.stderr
    assert "set     --gpu V100 --gpu 'RTX 5090', --driver 575.57.08, --glibc 2.35 by cuenv.toml" in ours.stderr
    other = run("resolve", *HOST, folder=folder)
    assert other.stdout == run("resolve", *HOST, "--no-config", folder=folder).stdout
    assert "set  " not in other.stderr
    older = run("resolve", "--driver", "535.129.03", folder=folder)
    assert "driver 535.129.03" in older.stderr
    assert "V100" in older.stderr


def test_several_platforms_of_the_settings(folder: Path) -> None:
    """They count for commands that make one environment for several; others judge what their file is for."""
    (folder / "cuenv.toml").write_text("platforms = ['linux-64', 'linux-aarch64']\n")
    hopper = ("--gpu", "9.0", "--driver", "570.86.15", "--glibc", "2.35")
    typed = ("--platform", "linux-64", "--platform", "linux-aarch64")
    by_file = run("resolve", *hopper, folder=folder)
    assert "platforms:\n  - linux-64\n  - linux-aarch64\n" in by_file.stdout
    assert "set     --platform linux-64 --platform linux-aarch64 by cuenv.toml" in by_file.stderr
    assert by_file.stdout == run("resolve", *hopper, *typed, "--no-config", folder=folder).stdout
    by_variable = run("resolve", *hopper, "--no-config", folder=folder, CUENV_PLATFORM="linux-64, linux-aarch64")
    assert by_variable.stdout == by_file.stdout
    assert params(command="check")["platform"] is None
    assert params("--platform", "linux-64", command="check")["platform"] == "linux-64"
    named = run("resolve", *HOST, folder=folder)
    assert named.stdout == run("resolve", *HOST, "--no-config", folder=folder).stdout
    assert "set  " not in named.stderr
    assert run("resolve", folder=folder, CUENV_PLATFORM="linux-64,win-64").returncode == 2


def test_a_platform_of_the_settings_is_one_of_several(folder: Path) -> None:
    (folder / "cuenv.toml").write_text("platforms = ['linux-aarch64']\n")
    assert params(command="check")["platform"] == "linux-aarch64"
    assert params()["platforms"] == ("linux-aarch64",)
    assert params("--platform", "linux-64")["platforms"] == ("linux-64",)
    ours = run("resolve", "--gpu", "9.0", "--driver", "570.86.15", "--glibc", "2.35", folder=folder)
    assert "linux-aarch64" in ours.stdout
    named = run("resolve", *HOST, folder=folder)
    assert named.returncode == ExitCode.OK
    assert named.stdout == run("resolve", *HOST, "--no-config", folder=folder).stdout


def test_cpu_sets_the_cuda_of_the_settings_aside(folder: Path) -> None:
    (folder / "cuenv.toml").write_text("cuda = '12.4'\n")
    assert "cpu" in run("resolve", *HOST, "--cpu", folder=folder).stdout
    assert run("resolve", *HOST, "--cpu", "--cuda", "12.4", folder=folder).returncode == ExitCode.USAGE


def test_inspect_looks_at_this_machine(folder: Path) -> None:
    (folder / "cuenv.toml").write_text("hosts = ['a800-470']\ncolor = 'never'\n")
    assert params(command="inspect")["hosts"] == ()
    assert params(command="inspect")["color"] == "never"
    assert params(command="check")["hosts"] == ("a800-470",)


def test_the_cache_folder_is_a_setting(folder: Path) -> None:
    from cuenv.cli.options import channel_sources

    (folder / "cuenv.toml").write_text("cache-dir = 'here'\n")
    root = click.Context(cli, info_name="cuenv")
    with root:
        cli.get_command(root, "resolve")
        assert channel_sources({"mirrors": (), "offline": False, "no_progress": False}).cache == "here"


def test_where_nothing_is_set_nothing_is_imported(folder: Path) -> None:
    def imported() -> set[str]:
        done = process("resolve", *HOST, folder=folder, python=("-X", "importtime"))
        assert done.returncode == ExitCode.OK
        return set(re.findall(r"import time:\s+\d+ \|\s+\d+ \|\s+(\S+)", done.stderr))

    names = {"cuenv.config.settings", "cuenv.config.io.configuration", "tomllib", "tomli"}
    assert imported() & names == set()
    (folder / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert imported() & {"tomllib", "tomli"} == set()  # a project that does not know cuenv costs no TOML
    (folder / "pyproject.toml").write_text("[tool.cuenv]\nglibc = '2.35'\n")
    assert len(imported() & names) == 3


def test_unknown_variables_are_reported() -> None:
    assert unknown_variables({"CUENV_PYTROCH": "2", "CUENV_CUDA": "12.4", "CUENV_XYZZY": "", "PATH": ""}) == [
        "CUENV_PYTROCH: no such variable; did you mean CUENV_PYTORCH?"
    ]


@collect(("text", "off"), [("", False), ("0", False), ("No", False), ("1", True), ("yes", True)])
def test_the_switch(text: str, off: bool) -> None:
    assert disables_config(text) is off


def test_credentials_are_not_shown() -> None:
    setting = Setting(name="mirrors", value=("a=https://u:secret@m.example.com/t/token/a",), origin="x")
    assert "secret" not in repr(setting)
    assert setting.shown() == ("a=https://m.example.com/a",)
    assert "secret" not in repr(Configuration(settings={"mirrors": setting}))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*KINDS, "profiles", "x"]), VALUES, max_size=6) | VALUES)
def test_any_table_is_read_or_refused(data: object) -> None:
    faults = Faults("cuenv.toml")
    found, profiles = parse_table(data, faults, path="", folder="/f")
    assert faults.items or (set(found) <= set(KINDS) and isinstance(profiles, dict))


@given(st.dictionaries(st.sampled_from([kind.variable for kind in KINDS.values() if kind.variable]), st.text()))
def test_any_variables_are_read_or_refused(environ: dict[str, str]) -> None:
    try:
        found = parse_variables(environ)
    except UsageError as error:
        assert error.hint  # noqa: PT017 - whether it is refused is not known
    else:
        assert all(environ[item.origin].strip() for item in found.values())
