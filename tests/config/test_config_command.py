"""``cuenv config``: every value, where it came from, and no credential."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from commands import inside as run
from cuenv.config.settings import KINDS
from cuenv.core.errors import ExitCode


def shown(folder: Path, *words: str, **environ: Any) -> dict[str, Any]:
    done = run("config", "--json", *words, folder=folder, **environ)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    data: dict[str, Any] = json.loads(done.stdout)
    assert data["schema"] == "cuenv/config/1"
    return data


def rows(data: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    found = {row["name"]: (row["value"], row["origin"]) for row in data["settings"]}
    assert len(found) == len(data["settings"])
    return found


def test_nothing_set_shows_the_defaults(tmp_path: Path) -> None:
    data = shown(tmp_path, NO_COLOR="")
    found = rows(data)
    assert {name for name, (_, origin) in found.items() if origin == "default"} == set(KINDS)
    assert found["color"] == ("auto", "default")
    assert (data["file"], data["profiles"], data["warnings"]) == (None, [], [])
    assert set(found) - set(KINDS) == {"NO_COLOR"}
    assert run("config", "-q", folder=tmp_path).stdout == "NO_COLOR  1  NO_COLOR\n"


def test_each_value_has_its_origin(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.cuenv]\ngpus = ['V100', 'T4']\ndev = false\ncuda = '12.4'\n[tool.cuenv.profiles.lab]\n"
    )
    environ: dict[str, Any] = {"CUENV_CUDA": "12.6", "CONDA_OVERRIDE_CUDA": "12.4", "CUENV_PYTROCH": "2"}
    data = shown(tmp_path, "--color", "never", **environ)
    found = rows(data)
    assert found["gpus"] == (["V100", "T4"], "pyproject.toml: tool.cuenv.gpus")
    assert found["dev"] == (False, "pyproject.toml: tool.cuenv.dev")
    assert found["cuda"] == ("12.6", "CUENV_CUDA")
    assert found["color"] == ("never", "--color")
    assert found["CONDA_OVERRIDE_CUDA"] == ("12.4", "CONDA_OVERRIDE_CUDA")
    assert (data["file"], data["profiles"]) == ("pyproject.toml", ["lab"])
    assert data["warnings"] == ["CUENV_PYTROCH: no such variable; did you mean CUENV_PYTORCH?"]
    done = run("config", folder=tmp_path, **environ)
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines()}
    assert lines["gpus"] == ["gpus", "V100,", "T4", "pyproject.toml:", "tool.cuenv.gpus"]
    assert lines["dev"][1:] == ["false", "pyproject.toml:", "tool.cuenv.dev"]
    assert lines["python"][1:] == ["-", "default"]
    assert "warning CUENV_PYTROCH" in done.stderr
    without = rows(shown(tmp_path, "--no-config"))
    assert without["cuda"] == (None, "default")


def test_condarc_is_shown_without_credentials(tmp_path: Path) -> None:
    (tmp_path / ".condarc").write_text(
        "channel_alias: https://u:secret@conda.example.com/t/token\n"
        "custom_channels: {lab: 'https://u:secret@lab.example.com'}\n"
        "default_channels: ['https://u:secret@one.example.com/main']\n"
        "proxy_servers: {https: 'http://u:secret@proxy.example.com:3128'}\nssl_verify: false\n"
    )
    more = tmp_path / "more.yml"
    more.write_text("default_channels: ['https://two.example.com/main']\nssl_verify: true\noffline: true\n")
    (tmp_path / "cuenv.toml").write_text("mirrors = ['conda-forge=https://u:secret@m.example.com/cf']\n")
    data = shown(tmp_path, CONDARC=str(more))
    found, first = rows(data), str(tmp_path / ".condarc")
    assert found["condarc.channel_alias"] == ("https://conda.example.com", first)
    assert found["condarc.custom_channels.lab"] == ("https://lab.example.com/lab", first)
    assert found["condarc.proxy_servers.https"] == ("http://proxy.example.com:3128", first)
    assert found["condarc.ssl_verify"] == (True, str(more))
    assert found["condarc.offline"] == (True, str(more))
    assert found["condarc.default_channels"] == (
        ["https://two.example.com/main", "https://one.example.com/main"],
        f"{more}, {first}",
    )
    assert found["mirrors"] == (["conda-forge=https://m.example.com/cf"], "cuenv.toml: mirrors")
    text = run("config", folder=tmp_path, CONDARC=str(more))
    for word in ("secret", "token"):
        assert word not in json.dumps(data) + text.stdout + text.stderr


def test_a_broken_file_is_3_and_a_broken_variable_2(tmp_path: Path) -> None:
    (tmp_path / "cuenv.toml").write_text("cuda = 12.4\n")
    done = run("config", folder=tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.INPUT, "")
    assert "cuenv.toml: cuda: expected a string, got 12.4" in done.stderr
    assert "hint: --no-config" in done.stderr
    wrong = run("config", "--no-config", "--json", folder=tmp_path, CUENV_DEV="maybe")
    assert wrong.returncode == ExitCode.USAGE
    assert json.loads(wrong.stdout)["error"]["code"] == "usage"
    (tmp_path / "cuenv.toml").unlink()
    (tmp_path / ".condarc").write_text("channel_alias: 3\n")
    assert run("config", folder=tmp_path).returncode == ExitCode.INPUT


def test_control_characters_never_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "cuenv.toml").write_text('gpus = ["\\u001b[31mV100"]\n["profiles"."a\\u001b"]\n')
    for words in (("config",), ("profile", "list"), ("profile", "validate")):
        done = run(*words, folder=tmp_path)
        assert "\x1b" not in done.stdout + done.stderr
