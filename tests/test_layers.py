"""The house holds its shape: cli > flows > world > formats > stations > tools, read from the imports themselves.

Every import counts, also one inside a function or under TYPE_CHECKING: to import late is about speed, and no way
around a layer.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import cuenv

SOURCE = Path(cuenv.__file__).parent
LAYERS = ("tools", "stations", "formats", "world", "flows", "cli")
TOOLS = {"cuenv.errors", "cuenv.reading", "cuenv.urls", "cuenv.versions"}
FOLDERS = {"formats", "world", "flows", "cli"}
FRONT = {"cuenv", "cuenv.__main__", "cuenv.arguments", "cuenv.ask", "cuenv.runtime"}
"""The public API, also that for users' own code, and the entry point stand beside the commands: nothing below may ask
for them."""

PROBES = "cuenv.data.probes"
"""Files that the Python of another environment runs: no part of the house."""

PURE = {"tools", "stations", "formats"}
ONLY_IN = {
    "click": "cuenv.cli",
    "conda_lock": "cuenv.world",
    "pynvml": "cuenv.world.nvml",
    "rattler": "cuenv.world",
    "requests": "cuenv.world",
    "uv": "cuenv.world",
}
WORLDLY = {
    *("asyncio", "concurrent", "ctypes", "datetime", "getpass", "glob", "http", "importlib", "io", "locale", "logging"),
    *("mmap", "multiprocessing", "os", "pathlib", "platform", "random", "secrets", "select", "selectors", "shutil"),
    *("signal", "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib.request"),
}
WORLDLY_CALLS = {"open", "print", "input", "exec", "eval", "__import__", "breakpoint"}
WORLDLY_METHODS = {"read_text", "write_text", "read_bytes", "write_bytes", "import_module"}


def read(folder: Path) -> dict[str, ast.Module]:
    """Every module below the package's folder by its dotted name."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        if is_under(name, PROBES):
            continue
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


def layer(module: str) -> str:
    """The layer of a module by its place; the tools alone are named."""
    if module in FRONT:
        return "cli"
    folder = module.split(".")[1]
    if folder in FOLDERS:
        return folder
    return "tools" if module in TOOLS else "stations"


def imported(tree: ast.Module, modules: Mapping[str, object]) -> Iterator[str]:
    """What a module imports, anywhere in it; its own version is a constant, and no import of the public API."""
    for node in spoken(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if inner != "cuenv.__version__":
                    yield inner if inner in modules or not is_under(base, "cuenv") else base


@lru_cache(maxsize=512)
def spoken(tree: ast.Module) -> tuple[ast.AST, ...]:
    """The imports and calls of a module; a module is walked through once."""
    return tuple(node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call)))


def is_under(name: str, root: str) -> bool:
    return name == root or name.startswith(f"{root}.")


def breaches(modules: Mapping[str, ast.Module]) -> list[str]:
    """Every import and call that stands where it must not, one sentence each."""
    found = []
    for name, tree in modules.items():
        own = layer(name)
        for target in dict.fromkeys(imported(tree, modules)):
            if target.startswith("."):
                found.append(f"{name} imports {target}: write the whole name")
            elif is_under(target, "cuenv"):
                if target not in modules:
                    found.append(f"{name} imports {target}, which is not there")
                elif LAYERS.index(layer(target)) > LAYERS.index(own):
                    found.append(f"{name} ({own}) imports {target} ({layer(target)})")
            elif own in PURE and any(is_under(target, root) for root in WORLDLY):
                found.append(f"{name} ({own}) imports {target}")
            for root, home in ONLY_IN.items():
                if is_under(target, root) and not is_under(name, home):
                    found.append(f"{name} imports {target}; only {home} may")
        found += [f"{name} ({own}) calls {call}" for call in calls(tree, pure=own in PURE)]
    return found


def calls(tree: ast.Module, *, pure: bool) -> Iterator[str]:
    """Calls that a module must not make: nothing prints, and what is pure touches no file."""
    for node in spoken(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            if node.func.id == "print" or (pure and node.func.id in WORLDLY_CALLS):
                yield node.func.id
        elif isinstance(node.func, ast.Attribute) and pure and node.func.attr in WORLDLY_METHODS:
            yield node.func.attr


def circle(modules: Mapping[str, ast.Module]) -> list[str]:
    """A circle of imports, if there is one."""
    graph = {
        name: {target for target in imported(tree, modules) if target in modules} for name, tree in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


@lru_cache(maxsize=1)
def house() -> Mapping[str, ast.Module]:
    """The modules of cuenv; to read them takes two seconds, which is no business of a collection."""
    return read(SOURCE)


def test_every_layer_has_modules() -> None:
    assert {layer(name) for name in house()} == set(LAYERS)
    assert set(house()) >= TOOLS
    assert len(house()) > 50


def test_nothing_imports_or_calls_what_its_layer_forbids() -> None:
    assert breaches(house()) == []


def test_probes_need_nothing_of_the_house_and_an_old_python() -> None:
    files = list((SOURCE / "data" / "probes").glob("*.py"))
    assert len(files) > 5
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 8))
        named = {name.partition(".")[0] for name in imported(tree, {})}
        assert named <= {*sys.stdlib_module_names, "_told", "torch"}, path.name


def test_no_module_imports_itself_by_a_detour() -> None:
    assert circle(house()) == []


@pytest.mark.parametrize(
    ("place", "text", "said"),
    [
        ("facts.py", "import cuenv.world.probe", "cuenv.facts (stations) imports cuenv.world.probe (world)"),
        ("facts.py", "from cuenv.world import probe", "cuenv.facts (stations) imports cuenv.world.probe (world)"),
        ("errors.py", "from cuenv.facts import HostFacts", "cuenv.errors (tools) imports cuenv.facts (stations)"),
        ("formats/a.py", "from cuenv.flows.b import c", "cuenv.formats.a (formats) imports cuenv.flows.b (flows)"),
        ("world/probe.py", "import cuenv.cli.x", "cuenv.world.probe (world) imports cuenv.cli.x (cli)"),
        ("flows/b.py", "from cuenv import check", "cuenv.flows.b (flows) imports cuenv (cli)"),
        ("facts.py", "from . import errors", "cuenv.facts imports ..errors: write the whole name"),
        ("facts.py", "import cuenv.gone", "cuenv.facts imports cuenv.gone, which is not there"),
        ("facts.py", "import os.path", "cuenv.facts (stations) imports os.path"),
        ("formats/a.py", "from pathlib import Path", "cuenv.formats.a (formats) imports pathlib.Path"),
        ("facts.py", "from urllib import parse, request", "cuenv.facts (stations) imports urllib.request"),
        ("facts.py", "import urllib.parse, re, json", ""),
        ("facts.py", "import urllib.request", "cuenv.facts (stations) imports urllib.request"),
        (
            "flows/b.py",
            "from rattler.exceptions import X",
            "cuenv.flows.b imports rattler.exceptions.X; only cuenv",
        ),
        ("world/probe.py", "import pynvml", "cuenv.world.probe imports pynvml; only cuenv.world.nvml may"),
        ("world/probe.py", "import click", "cuenv.world.probe imports click; only cuenv.cli may"),
        ("cli/x.py", "import requests", "cuenv.cli.x imports requests; only cuenv.world may"),
        ("facts.py", "open('x')", "cuenv.facts (stations) calls open"),
        ("facts.py", "path.read_text()", "cuenv.facts (stations) calls read_text"),
        ("cli/x.py", "print('x')", "cuenv.cli.x (cli) calls print"),
        ("world/probe.py", "open('x')", ""),
        ("world/probe.py", "import rattler, os, subprocess", ""),
        ("cli/x.py", "from cuenv import __version__", ""),
    ],
)
@pytest.mark.parametrize("where", ["at the top", "in a function", "for types"])
def test_a_breach_is_found(tmp_path: Path, place: str, text: str, said: str, where: str) -> None:
    found = breaches(plant(tmp_path, {place: hide(text, where)}))
    assert (said in "; ".join(found)) if said else found == []
    assert len(found) == bool(said)


def test_a_circle_is_found_through_a_function(tmp_path: Path) -> None:
    modules = plant(
        tmp_path, {"facts.py": hide("import cuenv.errors", "in a function"), "errors.py": "import cuenv.facts"}
    )
    assert set(circle(modules)) == {"cuenv.facts", "cuenv.errors"}
    assert circle(plant(tmp_path, {"facts.py": "import cuenv.errors", "errors.py": ""})) == []


def hide(text: str, where: str) -> str:
    heads = {"in a function": "def f():\n    ", "for types": "if TYPE_CHECKING:\n    "}
    return heads.get(where, "") + text


def plant(folder: Path, files: Mapping[str, str]) -> dict[str, ast.Module]:
    house = ("__init__.py", "errors.py", "facts.py", "formats/a.py", "world/probe.py", "flows/b.py", "cli/x.py")
    for place in house:
        path = folder / "cuenv" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files.get(place, ""))
    return read(folder / "cuenv")
