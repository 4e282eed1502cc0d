"""The hooks for pre-commit: what they take, and that their commands are commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import inside as run
from cuenv.lint.files import _kind_by_name


def hooks(root: Path) -> dict[str, Any]:
    return {hook["id"]: hook for hook in yaml.safe_load((root / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("environment.yml", True),
        ("sub/env.gpu.yaml", True),
        ("conda-lock.yml", True),
        ("docker/Dockerfile.gpu", True),
        ("ds_config_zero3.json", True),
        ("package.json", False),
        ("mkdocs.yml", False),
        ("environments.md", False),
    ],
)
def test_the_lint_hook_takes_what_lint_recognises(name: str, taken: bool, request: pytest.FixtureRequest) -> None:
    pattern = hooks(request.config.rootpath)["cuenv-lint"]["files"]
    assert bool(re.search(pattern, name)) == taken
    if taken:
        assert _kind_by_name(name.rpartition("/")[2])


def test_the_hooks_run_their_commands(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    entries = {name: shlex.split(hook["entry"]) for name, hook in hooks(request.config.rootpath).items()}
    (tmp_path / "environment.yml").write_text("channels: [conda-forge]\ndependencies: [numpy]\n", encoding="utf-8")
    assert entries["cuenv-lint"][0] == entries["cuenv-lock-check"][0] == "cuenv"
    assert run(*entries["cuenv-lint"][1:], "environment.yml", folder=tmp_path).returncode == 0
    missing = run(*entries["cuenv-lock-check"][1:], folder=tmp_path)
    assert missing.returncode == 1
    assert "conda-lock.yml does not exist" in missing.stdout + missing.stderr
