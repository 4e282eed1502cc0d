"""docs/deliver.md is true: every command of ours on it is run."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from cases import collect
from commands import inside as run

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "deliver.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for line in re.findall(r"^\$ (cuenv .*)$", block, re.MULTILINE)
]


def test_the_page_shows_every_export() -> None:
    assert {shlex.split(line)[2] for line in COMMANDS} == {
        *("apptainer", "devcontainer", "dockerfile", "github-action", "gitlab-ci"),
        *("shell", "uv"),
    }


@collect("line", COMMANDS)
def test_a_command_of_the_page_runs(line: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "locks" / "universal-dev", tmp_path, dirs_exist_ok=True)
    done = run(*shlex.split(line)[1:], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in re.findall(r"-o (\S+)", line):
        assert (tmp_path / name).exists()
