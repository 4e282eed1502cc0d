"""The packages hold their order, and only `io` packages and the command line touch the machine.

Both are read from the imports themselves. Every import counts, also one inside a function or under TYPE_CHECKING: a
late import is about speed, and opens no way around the order. docs/architecture.md says what the order is for.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from cases import collect
from source_nodes import SOURCE, nodes_of, tree_of, walked

ORDER = (
    *("core", "knowledge", "host", "solve", "binary", "resolver", "lockfile", "prefix"),
    *("config", "lint", "diagnosis", "install", "export", "fleet", "report", "maintain", "demo", "api", "cli"),
)
"""A package imports itself and what stands before it."""

FRONT = {"cuenv", "cuenv.__main__", "cuenv.api", "cuenv.runtime"}
"""The root: the entry, the public API, and what the user's own code imports."""

PROBES = "cuenv.data.probes"
"""Files that the Python of another environment runs; they import nothing of cuenv."""

ONLY_IN = {
    "click": ("cuenv.cli",),
    "ClusterShell": ("cuenv.fleet.io",),
    "conda_lock": ("cuenv.lockfile.io",),
    "pynvml": ("cuenv.host.io.nvml",),
    "rattler": ("cuenv.solve.io", "cuenv.install.io", "cuenv.maintain.io"),
    "requests": ("cuenv.solve.io", "cuenv.install.io"),
    "uv": ("cuenv.solve.io", "cuenv.install.io"),
}
"""Libraries that one place wraps."""

MACHINE = {
    *("asyncio", "concurrent", "ctypes", "datetime", "getpass", "glob", "http", "io", "locale", "logging", "mmap"),
    *("multiprocessing", "os", "platform", "random", "secrets", "select", "selectors", "shutil", "signal", "socket"),
    *("ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib.request"),
}
"""Modules that reach files, processes, the clock or the network."""

CALLS = {"open", "input", "exec", "eval", "__import__", "breakpoint"}
METHODS = {
    *("read_text", "write_text", "read_bytes", "write_bytes", "exists", "is_file", "is_dir", "is_symlink", "iterdir"),
    *("rglob", "mkdir", "unlink", "rmdir", "touch", "lstat", "readlink", "symlink_to", "hardlink_to"),
}
"""Calls that touch files. A `Path` as a name is a value, and may stand anywhere."""


def modules_below(folder: Path) -> dict[str, ast.Module]:
    """Every module below the package's folder by its dotted name."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
        if not is_under(name, PROBES):
            found[name] = tree_of(path)
    return found


@lru_cache(maxsize=1)
def modules() -> Mapping[str, ast.Module]:
    return modules_below(SOURCE)


def is_under(name: str, root: str) -> bool:
    return name == root or name.startswith(f"{root}.")


def named_root(name: str, roots: Container[str]) -> str:
    """The one of some modules that a module is or lies below; empty where it is none."""
    parts = name.split(".")
    return next((root for end in range(1, len(parts) + 1) if (root := ".".join(parts[:end])) in roots), "")


def rank(module: str) -> int:
    """The place of a module's package in the order; the root stands last."""
    package = [*module.split("."), ""][1]
    return ORDER.index(package) if package in ORDER else len(ORDER)


def touches_the_machine(module: str) -> bool:
    """Whether the path of a module says that it may touch the machine."""
    return module in FRONT or is_under(module, "cuenv.cli") or "io" in module.split(".")


@lru_cache(maxsize=512)
def statements(tree: ast.Module) -> tuple[ast.AST, ...]:
    return tuple(node for node in walked(tree) if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call)))


def imports(tree: ast.Module, known: Mapping[str, object]) -> Iterator[str]:
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in known or not is_under(base, "cuenv") else base


def faults(known: Mapping[str, ast.Module]) -> list[str]:
    """Every import and call that stands where it must not, one sentence each."""
    found = []
    for name, tree in known.items():
        for target in dict.fromkeys(imports(tree, known)):
            if target.startswith("."):
                found.append(f"{name} imports {target}: write the whole name")
            elif is_under(target, "cuenv"):
                if target not in known:
                    found.append(f"{name} imports {target}, which does not exist")
                elif rank(target) > rank(name):
                    found.append(f"{name} imports {target}, which stands above it")
            elif not touches_the_machine(name) and named_root(target, MACHINE):
                found.append(f"{name} imports {target}; only io packages and cli may")
            homes = ONLY_IN.get(named_root(target, ONLY_IN))
            if homes and not any(is_under(name, home) for home in homes):
                found.append(f"{name} imports {target}; only {', '.join(homes)} may")
        found += [f"{name} calls {call}" for call in calls(tree, machine=touches_the_machine(name))]
    return found


def calls(tree: ast.Module, *, machine: bool) -> Iterator[str]:
    """Calls that a module must not make: nothing prints, and only io packages touch files."""
    for node in statements(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            if node.func.id == "print" or (not machine and node.func.id in CALLS):
                yield node.func.id
        elif isinstance(node.func, ast.Attribute) and not machine and node.func.attr in METHODS:
            yield node.func.attr


def circle(known: Mapping[str, ast.Module]) -> list[str]:
    graph = {name: {target for target in imports(tree, known) if target in known} for name, tree in known.items()}
    for name, targets in graph.items():
        targets.discard(name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def test_the_root_holds_packages_and_the_entry_alone() -> None:
    files = {path.name for path in SOURCE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "api.py", "py.typed", "runtime.py"}
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == {name for name in ORDER if name != "api"}


def test_no_import_and_no_call_stands_where_it_must_not() -> None:
    assert faults(modules()) == []


def test_the_page_on_architecture_lists_the_packages_in_their_order() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## The packages")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == ORDER
    rows = re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", table, re.MULTILINE)
    named = [(SOURCE / package, name) for package, begin in rows for name in re.findall(r"`([\w/]+(?:\.py|/))`", begin)]
    assert [name for folder, name in named if not ((folder / name).exists() or (SOURCE / name).exists())] == []


def test_no_module_imports_itself_by_a_detour() -> None:
    assert circle(modules()) == []


def test_no_class_name_stands_twice() -> None:
    names = Counter(node.name for tree in modules().values() for node in walked(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def test_probes_import_nothing_of_cuenv_and_run_on_an_old_python() -> None:
    files = list((SOURCE / "data" / "probes").glob("*.py"))
    assert len(files) > 5
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 8))
        named = {name.partition(".")[0] for name in imports(tree, {})}
        assert named <= {*sys.stdlib_module_names, "_told", "torch"}, path.name


@collect(
    ("place", "text", "said"),
    [
        ("host/facts.py", "import cuenv.resolver.rules", "cuenv.host.facts imports cuenv.resolver.rules, which stands"),
        ("host/facts.py", "from cuenv.resolver import rules", "imports cuenv.resolver.rules, which stands above it"),
        (
            "core/errors.py",
            "from cuenv.host.facts import X",
            "cuenv.core.errors imports cuenv.host.facts, which stands",
        ),
        ("resolver/rules.py", "import cuenv.cli.x", "cuenv.resolver.rules imports cuenv.cli.x, which stands above it"),
        ("resolver/rules.py", "from cuenv import check", "cuenv.resolver.rules imports cuenv, which stands above it"),
        ("host/facts.py", "from . import errors", "cuenv.host.facts imports ..errors: write the whole name"),
        ("host/facts.py", "import cuenv.gone", "cuenv.host.facts imports cuenv.gone, which does not exist"),
        ("host/facts.py", "import os.path", "cuenv.host.facts imports os.path; only io packages and cli may"),
        ("host/facts.py", "from urllib import parse, request", "cuenv.host.facts imports urllib.request; only io"),
        ("host/facts.py", "import urllib.parse, re, json", ""),
        ("host/facts.py", "from pathlib import Path", ""),
        (
            "resolver/rules.py",
            "from rattler.exceptions import X",
            "cuenv.resolver.rules imports rattler.exceptions.X; ",
        ),
        ("host/io/probe.py", "import pynvml", "cuenv.host.io.probe imports pynvml; only cuenv.host.io.nvml may"),
        ("host/io/probe.py", "import click", "cuenv.host.io.probe imports click; only cuenv.cli may"),
        ("cli/x.py", "import requests", "cuenv.cli.x imports requests; only cuenv.solve.io, cuenv.install.io may"),
        ("host/facts.py", "open('x')", "cuenv.host.facts calls open"),
        ("host/facts.py", "path.read_text()", "cuenv.host.facts calls read_text"),
        ("cli/x.py", "print('x')", "cuenv.cli.x calls print"),
        ("host/io/probe.py", "open('x')", ""),
        ("host/io/probe.py", "import os, subprocess", ""),
    ],
)
@collect("where", ["at the top", "in a function", "for types"])
def test_a_fault_is_found(tmp_path: Path, place: str, text: str, said: str, where: str) -> None:
    found = faults(plant(tmp_path, {place: hide(text, where)}))
    assert (said in "; ".join(found)) if said else found == []
    assert len(found) == bool(said)


def test_a_circle_is_found_through_a_function(tmp_path: Path) -> None:
    texts = {
        "host/facts.py": hide("import cuenv.core.errors", "in a function"),
        "core/errors.py": "import cuenv.host.facts",
    }
    assert set(circle(plant(tmp_path, texts))) == {"cuenv.host.facts", "cuenv.core.errors"}
    assert circle(plant(tmp_path, {"host/facts.py": "import cuenv.core.errors", "core/errors.py": ""})) == []


def hide(text: str, where: str) -> str:
    heads = {"in a function": "def f():\n    ", "for types": "if TYPE_CHECKING:\n    "}
    return heads.get(where, "") + text


def plant(folder: Path, files: Mapping[str, str]) -> dict[str, ast.Module]:
    places = ("__init__.py", "core/errors.py", "host/facts.py", "host/io/probe.py", "resolver/rules.py", "cli/x.py")
    for place in places:
        path = folder / "cuenv" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files.get(place, ""))
    return modules_below(folder / "cuenv")


_SENTENCES = {"message", "fix", "because", "hint"}
_LOOKS_AT = {"startswith", "endswith", "find", "index", "count"}
_LOOKS_FOR = {"search", "match", "fullmatch", "findall", "finditer", "sub"}
_READERS = {
    "core/arguments.py: error.hint.startswith('cuenv ')",  # a hint is a command, or a sentence
    "lockfile/check.py: platform in finding.message",  # a platform is not named twice
}


def readers_of_sentences(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Expressions that look into a sentence which cuenv wrote for people."""

    def sentence(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in _SENTENCES

    for node in nodes:
        if isinstance(node, ast.Compare):
            inside = any(isinstance(item, (ast.In, ast.NotIn)) for item in node.ops)
            found = inside and any(map(sentence, node.comparators))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            looks = node.func.attr in _LOOKS_AT and sentence(node.func.value)
            found = looks or (node.func.attr in _LOOKS_FOR and any(map(sentence, node.args)))
        else:
            continue
        if found:
            yield ast.unparse(node)


def test_no_code_reads_the_sentences_that_cuenv_writes() -> None:
    found = {
        f"{path.relative_to(SOURCE)}: {text}"
        for path in SOURCE.rglob("*.py")
        if "data" not in path.relative_to(SOURCE).parts
        for text in readers_of_sentences(nodes_of(path))
    }
    assert found == _READERS, "give the finding, error or verdict the value, and read that"


@collect(
    ("text", "reads"),
    [
        ("'x' in finding.message", True),
        ("finding.fix.startswith('install ')", True),
        ("re.search('x', verdict.because)", True),
        ("pattern.sub('', error.message)", True),
        ("finding.fix == other.fix", False),
        ("'x' in finding.about", False),
        ("message.startswith('x')", False),
    ],
)
def test_what_looks_into_a_sentence_is_found(text: str, reads: bool) -> None:
    assert bool([*readers_of_sentences(ast.walk(ast.parse(text)))]) == reads
