"""The README and the docs are true: the session is what cuenv prints, every code and command is named."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from commands import inside as run
from cuenv.cli.main import COMMANDS, SECTIONS
from cuenv.core.errors import ExitCode

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND_PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
DECIDING = (ROOT / "docs" / "deciding.md").read_text(encoding="utf-8")
SOURCES = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "cuenv").rglob("*.py")]


def _sessions(text: str) -> list[tuple[str, list[str]]]:
    """Each command of the console blocks with the lines it printed."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found and block.startswith("$ "):
                found[-1][1].append(line)
    return found


def _run(command: str, folder: Path) -> list[str]:
    words = shlex.split(command)
    assert words[0] == "cuenv"
    done = run(*words[1:], folder=folder)
    return (done.stderr + done.stdout).splitlines()


def test_the_session_of_the_readme_is_what_cuenv_prints(tmp_path: Path) -> None:
    command, lines = next(found for found in _sessions(README) if found[0].startswith("cuenv why-not"))
    assert lines
    printed = _run(command, tmp_path)
    for line in lines:
        assert line in printed


def test_the_session_on_records_is_what_cuenv_prints(tmp_path: Path, records: Path) -> None:
    sessions = dict(_sessions(README))
    mirror = ["--mirror", f"conda-forge={records / 'conda-forge'}"]
    lock = next(command for command in sessions if command.startswith("cuenv lock --resolve"))
    check = next(command for command in sessions if command.startswith("cuenv check"))
    for command, printed in (
        (lock, _run(shlex.join([*shlex.split(lock), *mirror]), tmp_path)),
        (check, _run(check, tmp_path)),
    ):
        for line in sessions[command]:
            assert line in printed


def test_every_command_of_the_docs_exists() -> None:
    for text in (README, COMMAND_PAGE, DECIDING, REFERENCE):
        for name in re.findall(r"`cuenv ([a-z][a-z-]*)", text):
            assert name in COMMANDS


def test_every_command_and_exit_code_stands_on_the_page_of_commands() -> None:
    for title, names in SECTIONS.items():
        section = COMMAND_PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
        listed = re.findall(r"^\| `cuenv ([a-z-]+)` \|", section, re.MULTILINE)
        assert tuple(listed) == names, title
    for code in ExitCode:
        assert f"| {code.value} |" in COMMAND_PAGE


def test_the_readme_is_short_and_leads_to_the_page_of_commands() -> None:
    assert len(README.splitlines()) <= 120
    assert "(docs/commands.md)" in README


def test_every_finding_code_is_documented_and_used() -> None:
    used = {code for text in SOURCES for code in re.findall(r'"(CU\d{3})"', text)}
    documented = set(re.findall(r"^\| (CU\d{3}) \|", REFERENCE, re.MULTILINE))
    assert used == documented


def test_the_python_of_the_readme_runs() -> None:
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert code
    done = subprocess.run([sys.executable, "-c", code[1]], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "pytorch" in done.stdout
