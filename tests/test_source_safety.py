"""The source itself: nothing in it runs foreign text, trusts foreign YAML, or leaves temporary files to others."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from cases import collect
from source_nodes import SOURCE, nodes_of

PROBES = SOURCE / "data" / "probes"
"""Files that another Python runs: they must compile and run what they test."""

_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "tempfile.mktemp", "input", "breakpoint"}
_CALLS |= {"yaml.unsafe_load", "yaml.full_load", "yaml.load_all", "yaml.unsafe_load_all", "yaml.safe_load"}
_CALLS |= {"tempfile.NamedTemporaryFile", "tempfile.mkstemp", "os.chmod", "os.tmpnam"}
_MODULES = {"pickle", "marshal", "shelve", "dbm", "xml", "telnetlib", "ftplib", "pty", "cgi", "code", "commands"}
_EVENTS = "xml.parsers.expat"
"""Builds no tree; `cuenv.host.paste.smi` refuses what declares a document type or an entity."""
_SPAWNERS = {"subprocess", "multiprocessing", "pty"}
_SPAWN = ("os.exec", "os.spawn", "os.fork", "os.posix_spawn", "asyncio.create_subprocess")
_SAFE_LOADERS = {"LOADER"}
"""Of `cuenv.core.yaml_read`: a safe loader, used on one scalar or on a stream of events."""


def faults(nodes: Iterable[ast.AST], *, spawns: bool = False) -> Iterator[str]:
    """What a source file must not do; ``spawns`` for the one module that starts programs."""
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            names = {module} if module else {alias.name for alias in node.names}
            for name in sorted(names):
                top = name.partition(".")[0]
                if (top in _MODULES and name != _EVENTS) or (top in _SPAWNERS and not spawns):
                    yield f"line {node.lineno}: import {name}"
        if isinstance(node, ast.Call):
            yield from (f"line {node.lineno}: {what}" for what in _call(node, spawns=spawns))


def _dotted(function: ast.expr) -> str:
    """What is called, as it is written; names and attributes of names quicker than `ast.unparse` does."""
    parts = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    parts.append(function.id if isinstance(function, ast.Name) else ast.unparse(function))
    return ".".join(reversed(parts))


def _call(node: ast.Call, *, spawns: bool) -> Iterator[str]:
    name = _dotted(node.func)
    words = {word.arg: word.value for word in node.keywords}
    if name in _CALLS or (name.startswith(_SPAWN) and not (spawns and name == "os.execve")):
        yield name
    if name == "yaml.load" and not (
        set(map(ast.unparse, [words["Loader"]] if "Loader" in words else [])) & _SAFE_LOADERS
    ):
        yield "yaml.load without a safe loader"
    if isinstance(shell := words.get("shell"), ast.Constant) and shell.value:
        yield "shell=True"
    if isinstance(verify := words.get("verify"), ast.Constant) and verify.value is False:
        yield "verify=False"
    if name.endswith((".extractall", ".extract", "unpack_archive")):
        yield name
    if name == "tempfile.TemporaryDirectory" and "dir" in words:
        yield "a temporary folder in a place of its own"


@collect(
    "text",
    [
        "import yaml\nyaml.load(text)",
        "import yaml\nyaml.load(text, Loader=yaml.Loader)",
        "import yaml\nyaml.unsafe_load(text)",
        "run(words, shell=True)",
        "import subprocess",
        "from subprocess import run",
        "import xml.etree.ElementTree",
        "from pickle import loads",
        "import os\nos.system('ls')",
        "eval(text)",
        "import os\nos.execvp('ls', [])",
        "tempfile.mktemp()",
        "requests.get(url, verify=False)",
        "tar.extractall(folder)",
    ],
)
def test_what_must_not_stand_there_is_seen(text: str) -> None:
    assert list(faults(ast.walk(ast.parse(text))))


def test_nothing_of_it_stands_in_the_source() -> None:
    files = [path for path in SOURCE.rglob("*.py") if PROBES not in path.parents]
    assert len(files) > 100
    found = {
        f"{path.relative_to(SOURCE)}: {what}"
        for path in files
        for what in faults(nodes_of(path), spawns=path.relative_to(SOURCE).as_posix() == "core/io/process.py")
    }
    assert not found


def test_the_loader_of_yaml_is_a_safe_one() -> None:
    import yaml

    from cuenv.core.yaml_read import LOADER

    assert issubclass(LOADER, (yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def test_a_program_that_is_started_sees_nothing_of_the_environment_but_what_it_needs() -> None:
    from cuenv.core.io.process import run

    environ = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "AWS_SECRET_ACCESS_KEY": "canary", "LD_PRELOAD": "canary"}
    done = run(["env"], 10, environ, more={"MINE": "1"})
    assert done.reason is None
    names = {line.partition("=")[0] for line in done.out.splitlines()}
    assert names <= {"PATH", "HOME", "LC_ALL", "LANGUAGE", "MINE", "PWD", "SHLVL", "_", "OLDPWD"}
    assert "canary" not in done.out
