"""Every error that a user can meet says what to do: read from the source, so that a new one is not forgotten."""

from __future__ import annotations

import ast
import inspect
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from cases import collect
from commands import HOST, inside
from cuenv.cli.main import COMMANDS
from cuenv.core import errors
from cuenv.core.errors import ExitCode
from source_nodes import SOURCE, nodes_of

RAISED = {name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.CuenvError)}

WITHOUT = {
    # What is wrong with a text: the message names the line and what stands there, and that is what to change.
    "lint/dockerfile.py": 2,
    "lint/positions.py": 1,
    "core/yaml_read.py": 3,
    "lint/files.py": 1,
    "core/yaml_write.py": 1,
    # Names and values of a lock that a container or a workflow cannot hold: the message says which.
    "export/dockerfile.py": 2,
    "export/jobs.py": 1,
    # What cuenv.require raises has the fix of its finding.
    "api.py": 1,
    # Caught where it is raised, and told with a hint.
    "host/io/record.py": 1,
    # What one host of a fleet answered: the host is listed with it, and the others are asked.
    "fleet/answers.py": 6,
    "fleet/io/cluster.py": 3,
    # Tables that ship, and what uv and a probe of ours write: not a user's to change.
    "prefix/probes.py": 1,
    "solve/uv_output.py": 2,
    "knowledge/schema.py": 1,
    # What the one thread that failed tells the others: it is caught, and the failure itself is told.
    "solve/io/download.py": 1,
    # A crash of rattler, and records that it does not take: nothing that a user could change is known.
    "solve/io/channels.py": 1,
    "solve/io/solver.py": 2,
}
"""How many errors of a module have no hint, and why."""


def without_hint(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """Each error of ours that is made without saying what to do."""
    for node in nodes:
        if isinstance(node, ast.Call) and (
            (isinstance(node.func, ast.Name) and node.func.id in RAISED)
            or ast.unparse(node.func).endswith("faults.check")
        ):
            hint = next((word.value for word in node.keywords if word.arg == "hint"), None)
            if hint is None or (isinstance(hint, ast.Constant) and not hint.value):
                yield node


def test_every_error_has_a_hint() -> None:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        bare = list(without_hint(nodes_of(path)))
        if bare:
            found[path.relative_to(SOURCE).as_posix()] = [f"line {node.lineno}: {ast.unparse(node)}" for node in bare]
    assert len(RAISED) >= 6
    assert {name: len(bare) for name, bare in found.items()} == WITHOUT, found


def test_the_commands_of_hints_exist() -> None:
    names = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                names += re.findall(r"(?<!/)\bcuenv ([a-z-]+)", ast.unparse(node.value))
    assert len(names) > 50
    assert set(names) <= set(COMMANDS)


PATHS = {"path", "file", "lock", "folder", "output", "out", "prefix", "target", "save"}


QUOTES = ("shlex.join", "shlex.quote", "quote")


def unquoted(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Each path that stands as it is in a command that somebody shall copy: a blank in it would make two words."""
    for node in nodes:
        told = isinstance(node, ast.keyword) and node.arg in ("hint", "fix")
        kept = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("hint", "fix", "again")
        parts = [*ast.walk(node.value)] if told or kept else []  # type: ignore[attr-defined] # both have one
        calls = [part for part in parts if isinstance(part, ast.Call) and ast.unparse(part.func) in QUOTES]
        quoted = {part for call in calls for part in ast.walk(call)}
        for part in parts:
            bare = isinstance(part, ast.FormattedValue) and ast.unparse(part.value).rpartition(".")[2] in PATHS
            if bare and part not in quoted:
                yield part


def test_paths_in_commands_are_quoted() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        found = list(unquoted(nodes_of(path)))
        assert not found, [f"{path}: {ast.unparse(part)}" for part in found]
    assert list(unquoted(ast.walk(ast.parse("raise InputError('x', hint=f'cuenv lock {request.path}')"))))
    assert list(unquoted(ast.walk(ast.parse("hint = f'cuenv lock {file}'"))))
    assert not list(unquoted(ast.walk(ast.parse("hint = f'cuenv lock {quote(str(path))}'"))))


@collect(
    ("text", "count"),
    [
        ("raise UsageError('x')", 1),
        ("raise InputError('x', hint=None) from error", 1),
        ("return OutsideError('x', hint='')", 1),
        ("raise UsageError('x', hint='cuenv demo')", 0),
        ("raise ValueError('x')", 0),
        ("self.faults.check()", 1),
        ("faults.check(hint='cuenv lock')", 0),
    ],
)
def test_an_error_without_hint_is_found(text: str, count: int) -> None:
    assert len(list(without_hint(ast.walk(ast.parse(text))))) == count


@collect(
    ("words", "hint"),
    [
        (("bundle",), "cuenv lock"),
        (("install", "--prefix", "env"), "cuenv lock"),
        (("diff", "conda-lock.yml", "other"), "cuenv lock"),
        (("lint", "environment.yml"), "cuenv resolve -o environment.yml"),
        (("resolve", "--host", "rtx4090-53"), "cuenv resolve --host rtx4090-535"),
        (("resolve", "--host", "nope"), "cuenv inspect --record DIR, on that machine"),
        (("resolve", "--pytorch", "2.5+cu121"), "cuenv resolve --pytorch 2.5 --cuda 12.1"),
        (("resolve", "--pytorch", "==2.7.0+cu128"), "cuenv resolve --pytorch 2.7.0 --cuda 12.8"),
        (("resolve", "--pytorch", "2.6.0+cpu"), "cuenv resolve --pytorch 2.6.0 --cpu"),
        (("why-not", "pytorch=2.4.1+cu118", "--gpu", "8.9"), "cuenv resolve --pytorch 2.4.1 --cuda 11.8"),
        (("kb", "pytorch", "2.5+cu124"), "cuenv resolve --pytorch 2.5 --cuda 12.4"),
        (("resolve", "--cuda", "cu126"), "cuenv resolve --cuda 12.6"),
        (("resolve", "--cuda", "cuda-11.8"), "cuenv resolve --cuda 11.8"),
        (("resolve", "--cuda", "CUDA12"), "cuenv resolve --cuda 12"),
        (("resolve", "--python", "py312"), "cuenv resolve --python 3.12"),
        (("resolve", "--python", "cp39"), "cuenv resolve --python 3.9"),
        (("resolve", "--pytorch", "v2.5"), "cuenv resolve --pytorch 2.5"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, tuple) else "",
)
def test_a_hint_is_the_command_that_helps(tmp_path: Path, words: tuple[str, ...], hint: str) -> None:
    done = inside(*words, folder=tmp_path)
    assert done.returncode in (ExitCode.USAGE, ExitCode.INPUT)
    assert done.stderr.splitlines()[-1] == f"hint: {hint}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize(
    "words",
    [("lint", "x.yml"), ("lock", "x.yml", *HOST), ("check", "x.yml"), ("bundle", "x.yml"), ("diff", "x.yml", "x.yml")],
    ids=" ".join,
)
def test_a_file_that_may_not_be_read_is_an_input_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "x.yml").touch(0o000)
    done = inside(*words, folder=tmp_path)
    assert done.returncode == ExitCode.INPUT
    assert "permission denied" in done.stderr


def test_every_path_of_the_command_line_is_read_by_cuenv_alone() -> None:
    """click would look whether a file may be read, and call it a wrong option."""
    for path in (SOURCE / "cli").rglob("*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in ("click.Path", "click.File"), f"{path.name}:{node.lineno}"
