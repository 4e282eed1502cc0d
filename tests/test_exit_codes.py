"""Every exit code as a process leaves with it, and every error as JSON when that was asked for.

130 (Ctrl-C) has tests of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import ANY

import pytest

from commands import HOST, inside, run
from cuenv.core.errors import ExitCode

NEGATIVE = {
    "no GPU": ("resolve", "--host", "no-gpu"),
    "an impossible wish": ("resolve", *HOST, "--pytorch", "99"),
    "a driver that is too old for the GPU": ("resolve", "--host", "rtx5090-560"),
    "a CUDA build and no __cuda": ("lock", "--host", "no-gpu"),
    "no lock yet": ("lock", "good.yml", "--check"),
    "a lock that another machine cannot run": ("check", "made/conda-lock.yml", "--host", "a800-470"),
    "a lock for other options": ("lock", "made/environment.yml", "--check", "--driver", "550.54.14", "--gpu", "8.9"),
}
USAGE = {
    "an unknown flag": ("resolve", "--bogus"),
    "an unknown command": ("bogus",),
    "a flag without its value": ("resolve", "--gpu"),
    "an unknown GPU": ("resolve", "--gpu", "RTX 9999"),
    "an unknown host name": ("resolve", "--host", "nowhere"),
    "a driver string that is none": ("resolve", "--gpu", "8.9", "--driver", "abc"),
    "a driver without a GPU": ("resolve", "--driver", "535.129.03"),
    "a glibc that is none": ("resolve", *HOST, "--glibc", "musl"),
    "a platform that is not served": ("resolve", "--gpu", "8.9", "--platform", "win-64"),
    "a wish that is not a version": ("resolve", *HOST, "--pytorch", "x.y"),
    "a package that is no spec": ("resolve", *HOST, "--with", "==="),
    "a profile that does not ship": ("resolve", "--profile", "nothing"),
    "CPU and CUDA at once": ("resolve", *HOST, "--cpu", "--cuda", "12.4"),
    "two platforms at once": ("resolve", "--host", "rtx4090-535", "--host", "gh200-570"),
    "an unknown question": ("why-not", "colour=red", *HOST),
    "an unknown topic": ("kb", "weather", "today"),
    "a code that is none": ("lock", "good.yml", *HOST, "--allow", "everything"),
    "a code that no finding has": ("lock", "good.yml", *HOST, "--allow", "CU999"),
    "a mirror that is none": ("lock", "good.yml", *HOST, "--mirror", "conda-forge"),
    "a demo in a full folder": ("demo", "--dir", "made"),
    "a name that no environment can have": ("resolve", *HOST, "--name", "a/b"),
}
INPUT = {
    "a missing host file": ("resolve", "--host", "nowhere.json"),
    "a host that is not valid JSON": ("resolve", "--host", "broken.json"),
    "a host that is a binary file": ("resolve", "--host", "./binary"),
    "a host folder without a host": ("resolve", "--host", "./made"),
    "a profile that is not valid": ("resolve", "--profile", "./broken.yml"),
    "a missing environment file": ("lock", "nowhere.yml"),
    "an environment file that is not valid": ("lock", "broken.yml"),
    "an environment file that is empty": ("lock", "empty.yml"),
    "an environment file that is a folder": ("lock", "made"),
    "a missing lock": ("check", "nowhere.yml"),
    "a lock that is none": ("check", "good.yml"),
    "a lock behind links in a circle": ("check", "circle"),
    "a lock that is a binary file": ("check", "binary"),
    "tables that are not there": ("resolve", *HOST, "--knowledge", "nowhere"),
    "tables that are no tables": ("resolve", *HOST, "--knowledge", "tables"),
    "a channel that does not exist": ("lock", "good.yml", *HOST, "--mirror", "conda-forge=/nowhere"),
}
OUTSIDE = {
    "a parent that is a file": ("resolve", *HOST, "-o", "binary/environment.yml"),
    "a parent that cannot be made": ("resolve", *HOST, "-o", "binary/below/environment.yml"),
    "a folder below a file": ("demo", "--dir", "binary/demo"),
    "a full disk": ("resolve", *HOST, "-o", "/dev/full"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good files, made by cuenv itself, and bad ones of every kind."""
    home = tmp_path_factory.mktemp("codes")
    assert run("demo", "--dir", "made", folder=home).returncode == ExitCode.OK
    for name in ("environment.yml", "good.yml"):
        assert run("resolve", *HOST, "-o", name, folder=home).returncode == ExitCode.OK
    (home / "broken.json").write_text('{"schema": ')
    (home / "broken.yml").write_text("dependencies: 3\nchannels: [1]\n")
    (home / "empty.yml").touch()
    (home / "binary").write_bytes(b"\x7fELF\x00\xff\xfe")
    (home / "circle").symlink_to("circle")
    (home / "tables").mkdir()
    (home / "tables" / "gpus.json").write_text('{"rows": 3}')
    return home


def test_what_succeeds_ends_with_0(folder: Path) -> None:
    for words in (
        ("resolve", *HOST),
        ("check", "made/conda-lock.yml", *HOST),
        ("kb",),
        ("inspect",),
        ("why", "pytorch", *HOST),
    ):
        done = run(*words, folder=folder)
        assert done.returncode == ExitCode.OK, (words, done.stderr)
        assert done.stdout


@pytest.mark.parametrize("words", NEGATIVE.values(), ids=NEGATIVE)
def test_a_negative_answer_is_1(folder: Path, words: tuple[str, ...]) -> None:
    before = files(folder)
    done = run(*words, folder=folder)
    assert done.returncode == ExitCode.NEGATIVE, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout + done.stderr
    as_json = inside(words[0], "--json", *words[1:], folder=folder)
    assert (as_json.returncode, as_json.stderr) == (ExitCode.NEGATIVE, "")
    assert json.loads(as_json.stdout)["schema"] in {"cuenv/decision/1", "cuenv/report/1"}
    assert files(folder) == before


@pytest.mark.parametrize("words", USAGE.values(), ids=USAGE)
def test_a_wrong_command_line_is_2(folder: Path, words: tuple[str, ...]) -> None:
    refused(folder, words, ExitCode.USAGE, {"usage"})


def test_a_wrong_option_is_answered_with_the_help_of_its_command(folder: Path) -> None:
    for words in ("resolve", "profile show"):
        done = inside(*words.split(), "--bogus", "--json", folder=folder)
        assert json.loads(done.stdout)["error"]["hint"] == f"cuenv {words} --help"


@pytest.mark.parametrize("words", INPUT.values(), ids=INPUT)
def test_bad_input_is_3(folder: Path, words: tuple[str, ...]) -> None:
    refused(folder, words, ExitCode.INPUT, {"input", "knowledge", "channel"})


@pytest.mark.parametrize("words", OUTSIDE.values(), ids=OUTSIDE)
def test_a_failing_world_is_4(folder: Path, words: tuple[str, ...]) -> None:
    refused(folder, words, ExitCode.OUTSIDE, {"outside"})


@pytest.mark.parametrize("words", [("resolve", *HOST), ("resolve", *HOST, "--json"), ("--help",)], ids=" ".join)
def test_a_full_disk_behind_stdout_is_4(folder: Path, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = run(*words, folder=folder, stdout=full.fileno())
    assert done.returncode == ExitCode.OUTSIDE
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def refused(folder: Path, words: tuple[str, ...], code: ExitCode, kinds: set[str]) -> None:
    """The same error in words, from a process, and as JSON; and nothing was written."""
    before = files(folder)
    done = run(*words, folder=folder)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "\nerror: " in f"\n{done.stderr}"
    assert "Traceback" not in done.stderr
    as_json = inside(words[0], "--json", *words[1:], folder=folder)
    assert (as_json.returncode, as_json.stderr) == (code, "")
    answer = json.loads(as_json.stdout)
    assert set(answer) == {"schema", "error"}
    assert answer["schema"] == "cuenv/error/1"
    assert set(answer["error"]) == {"code", "message", "hint"}
    assert answer["error"]["code"] in kinds
    assert answer["error"]["message"].splitlines()[0] in done.stderr
    assert files(folder) == before


def files(folder: Path) -> dict[str, bytes]:
    """What stands in the folder, caches aside."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_a_path_that_cannot_be_looked_at_is_said_in_json_too(folder: Path) -> None:
    name = "x" * 300
    done = run("lock", f"{name}/environment.yml", "--json", folder=folder)
    assert (done.returncode, done.stderr) == (ExitCode.INPUT, "")
    error = json.loads(done.stdout)["error"]
    assert error == {
        "code": "input",
        "message": f"cannot read {name}/environment.yml: the name is too long",
        "hint": ANY,
    }
    assert error["hint"].startswith("ls -ld ")


def test_an_error_that_knows_nothing_better_names_the_help_of_its_command(folder: Path) -> None:
    (folder / "keys.yml").write_text("{{a: 1}: 2}\n")
    done = run("check", "keys.yml", folder=folder)
    assert done.returncode == ExitCode.INPUT
    assert done.stderr.splitlines()[-1] == "hint: cuenv check --help"
