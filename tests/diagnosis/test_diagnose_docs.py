"""docs/diagnose.md is true: its session is what cuenv prints, its commands exist, its Python runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args

from commands import inside as run
from cuenv.diagnosis.lead import Verdict

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "diagnose.md").read_text(encoding="utf-8")
LOG = ROOT / "tests/logs/driver-insufficient/a800-470.log"


def test_every_command_of_the_page_runs_and_its_session_is_what_it_prints(tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    for name in ("train.log", "build.log"):
        (tmp_path / name).write_bytes(LOG.read_bytes())
    node = run("inspect", "--json", folder=tmp_path)
    (tmp_path / "node.json").write_text(node.stdout, encoding="utf-8")
    (tmp_path / "env" / "conda-meta").mkdir(parents=True)
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    printed: list[str] = []
    seen = 0
    for line in "".join(blocks).splitlines():
        if line.startswith("$ "):
            text = line.removeprefix("$ ").rpartition("| ")[2].replace("$CONDA_PREFIX", "env")
            words = shlex.split(text)
            assert words[0] == "cuenv"
            done = run(*words[1:], folder=tmp_path, text=LOG.read_text(encoding="utf-8"))
            assert done.returncode == (0 if words[1] == "why" else 1), (line, done.stderr)
            printed = done.stdout.splitlines()
            seen += 1
        else:
            assert line in printed
    assert seen >= 6


def test_every_verdict_and_word_is_reported() -> None:
    for verdict in get_args(Verdict):
        assert f"| `{verdict}` |" in PAGE
    text = (ROOT / "src/cuenv/diagnosis/report.py").read_text(encoding="utf-8")
    for word in re.findall(r'f?"(why|here|do|codes|follows|line|cause|also)\b', text):
        assert f"| `{word}` |" in PAGE


def test_its_python_runs() -> None:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code
    done = subprocess.run([sys.executable, "-c", code[1]], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith("cuda-out-of-memory "), done.stderr
