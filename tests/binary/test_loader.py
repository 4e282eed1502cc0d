"""The loader's search and mapping, against the loader of the machine that runs the tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cases import collect, quick
from cuenv.binary.elf import Dynamic, Elf, Tables
from cuenv.binary.io.binaries import ElfFiles
from cuenv.binary.loader import Loaded, Process, System, candidates
from cuenv.prefix.io.linkage_plan import loader_facts
from linkage_trees import Linker, Tree, compile_library, needs_gcc, needs_loader, random_tree, traced


@contextmanager
def process(tree: Tree) -> Iterator[Process]:
    system, _ = loader_facts(tree.environ, "x86_64")
    with closing(ElfFiles("x86_64")) as files:
        yield Process(system, files.look)


def predicted(tree: Tree) -> list[tuple[str, str | None]]:
    """What the model maps, as the trace tells it: each path once, and the missing names."""
    with process(tree) as model:
        model.start(str(tree.program))
        found: list[tuple[str, str | None]] = [("", item.path) for item in model.objects[2:]]
        missing = {name for item in model.objects for name, became in item.needed if became is None}
        return found + [(name, None) for name in missing]


def same(tree: Tree) -> None:
    really = traced(tree.program, tree.environ, cwd=Path.cwd())
    foretold = predicted(tree)
    skip = "/lib64/ld-linux-x86-64.so.2"
    assert [path for _, path in foretold if path] == [path for _, path in really if path and path != skip], tree
    assert {name for name, path in foretold if path is None} == {name for name, path in really if path is None}, tree


@pytest.mark.slow
@needs_loader
@pytest.mark.parametrize("seed", quick(range(8), first=3))
def test_random_trees_are_mapped_as_the_machines_loader_does(seed: int, tmp_path: Path) -> None:
    same(random_tree(tmp_path / "tree", Linker(tmp_path), seed))


@needs_loader
@pytest.mark.slow
def test_many_random_trees_are_mapped_as_the_machines_loader_does(tmp_path: Path) -> None:
    linker = Linker(tmp_path)
    for seed in range(1000, 1200):
        same(random_tree(tmp_path / str(seed), linker, seed))


Paths = tuple[str, str] | None
Row = tuple[str, str | None, list[str], Paths]

RULES: dict[str, tuple[list[Row], Paths, dict[str, str], dict[str, str | None]]] = {
    "the RPATH of the executable serves what its libraries need": (
        [("a/liba.so", "liba.so", ["libb.so"], None), ("b/libb.so", "libb.so", [], None)],
        ("rpath", "$ORIGIN/../a:$ORIGIN/../b"),
        {},
        {"libb.so": "b/libb.so"},
    ),
    "its RUNPATH does not": (
        [("a/liba.so", "liba.so", ["libb.so"], None), ("b/libb.so", "libb.so", [], None)],
        ("runpath", "$ORIGIN/../a:$ORIGIN/../b"),
        {},
        {"libb.so": None},
    ),
    "the RPATH of a loader in between serves too": (
        [
            ("a/liba.so", "liba.so", ["libb.so"], ("rpath", "$ORIGIN/../b:$ORIGIN/../c")),
            ("b/libb.so", "libb.so", ["libc1.so"], None),
            ("c/libc1.so", "libc1.so", [], None),
        ],
        ("rpath", "$ORIGIN/../a"),
        {},
        {"libc1.so": "c/libc1.so"},
    ),
    "RUNPATH of the asker switches every RPATH off": (
        [
            ("a/liba.so", "liba.so", ["libb.so"], ("runpath", "$ORIGIN/../nowhere")),
            ("b/libb.so", "libb.so", [], None),
        ],
        ("rpath", "$ORIGIN/../a:$ORIGIN/../b"),
        {},
        {"libb.so": None},
    ),
    "RUNPATH of a loader in between switches only its own RPATH off": (
        [
            ("a/liba.so", "liba.so", ["libb.so"], ("runpath", "$ORIGIN/../b")),
            ("b/libb.so", "libb.so", ["libc1.so"], None),
            ("c/libc1.so", "libc1.so", [], None),
        ],
        ("rpath", "$ORIGIN/../a:$ORIGIN/../c"),
        {},
        {"libc1.so": "c/libc1.so"},
    ),
    "RPATH goes before LD_LIBRARY_PATH": (
        [("a/liba.so", "liba.so", [], None), ("b/liba.so", "liba.so", [], None)],
        ("rpath", "$ORIGIN/../a"),
        {"LD_LIBRARY_PATH": "{}/b"},
        {"liba.so": "a/liba.so"},
    ),
    "LD_LIBRARY_PATH goes before RUNPATH": (
        [("a/liba.so", "liba.so", [], None), ("b/liba.so", "liba.so", [], None)],
        ("runpath", "$ORIGIN/../a"),
        {"LD_LIBRARY_PATH": "{}/b"},
        {"liba.so": "b/liba.so"},
    ),
    "a SONAME that is loaded wins over a search": (
        [
            ("a/liba.so", "libb.so", [], None),
            ("a/libc1.so", "libc1.so", ["libb.so"], None),
            ("a/libb.so", "libb.so", [], None),
        ],
        ("rpath", "$ORIGIN/../a"),
        {},
        {"libb.so": "a/liba.so"},
    ),
    "LD_PRELOAD comes first": (
        [("a/liba.so", "liba.so", [], None), ("p/other.so", "liba.so", [], None)],
        ("rpath", "$ORIGIN/../a"),
        {"LD_PRELOAD": "{}/p/other.so"},
        {"liba.so": "p/other.so"},
    ),
    "$ORIGIN in LD_LIBRARY_PATH is the executable's folder, and a semicolon separates": (
        [("bin/liba.so", "liba.so", [], None)],
        None,
        {"LD_LIBRARY_PATH": "/nowhere;${{ORIGIN}}"},
        {"liba.so": "bin/liba.so"},
    ),
    "$ORIGINAL is no $ORIGIN": (
        [("binAL/liba.so", "liba.so", [], None), ("bin-1/liba.so", "liba.so", [], None)],
        ("rpath", "$ORIGINAL:$ORIGIN-1"),
        {},
        {"liba.so": "bin-1/liba.so"},
    ),
}


@needs_loader
@collect("rule", RULES, one_in=2)
def test_each_rule_of_the_search_holds_here_and_there(rule: str, tmp_path: Path) -> None:
    libraries, own, environ, expected = RULES[rule]
    linker, root = Linker(tmp_path / "work"), tmp_path / "tree"
    for place, soname, needs, paths in libraries:
        linker.library(root / place, soname=soname, needs=needs, paths=paths)
    asked = dict.fromkeys(Path(place).name for place, *_ in libraries)
    needs = [name for name in ("liba.so", "libc1.so") if name in asked and (name == "liba.so" or "SONAME" in rule)]
    program = root / "bin/program"
    linker.program(program, needs=needs, paths=own)
    tree = Tree(root=root, program=program, environ={name: text.format(root) for name, text in environ.items()})
    same(tree)
    with process(tree) as model:
        model.start(str(program))
        for name, expects in expected.items():
            became = {became for item in model.objects for request, became in item.needed if request == name}
            found = {Path(item.path).resolve() if item else None for item in became}
            assert found == {root / expects if expects else None}


@needs_loader
def test_one_file_under_two_names_is_loaded_once(tmp_path: Path) -> None:
    linker, root = Linker(tmp_path / "work"), tmp_path / "tree"
    linker.library(root / "a/liba.so", soname=None, needs=(), paths=None)
    (root / "a/libb.so").symlink_to("liba.so")
    linker.program(root / "bin/program", needs=["liba.so", "libb.so"], paths=("rpath", "$ORIGIN/../a"))
    tree = Tree(root=root, program=root / "bin/program")
    same(tree)
    with process(tree) as model:
        model.start(str(tree.program))
        assert model.by_name("libb.so") is model.by_name("liba.so") is not None


MAPS = "import ctypes, sys; [ctypes.CDLL(path) for path in sys.argv[1:]]; print(open('/proc/self/maps').read())"


@needs_gcc
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc here")
def test_opening_by_path_maps_what_python_maps(tmp_path: Path) -> None:
    inner = compile_library(tmp_path / "b/libinner.so.1", "int in(void) { return 1; }", soname="libinner.so.1")
    other = compile_library(tmp_path / "c/libinner.so.1", "int in(void) { return 2; }", soname="libinner.so.1")
    one = compile_library(tmp_path / "a/libone.so", soname="libone.so", needs=[inner], rpath="$ORIGIN/../b")
    two = compile_library(tmp_path / "a/libtwo.so", soname="libtwo.so", needs=[other], rpath="$ORIGIN/../c")
    for order in ((one, two), (two, one)):
        done = subprocess.run(
            [sys.executable, "-c", MAPS, *map(str, order)], env={}, capture_output=True, text=True, check=True
        )
        real = {word for word in done.stdout.split() if word.startswith(str(tmp_path))}
        with process(Tree(root=tmp_path, program=Path(sys.executable).resolve())) as model:
            assert model.start(str(Path(sys.executable).resolve())).missing == ()
            for path in order:
                assert model.open(str(path)).missing == ()
            mapped = {str(Path(item.path).resolve()) for item in model.objects if str(tmp_path) in item.path}
        assert mapped == real
        assert len(mapped) == 3


@needs_gcc
def test_what_fails_to_open_leaves_nothing_behind(tmp_path: Path) -> None:
    gone = compile_library(tmp_path / "gone/libgone.so", soname="libgone.so")
    fine = compile_library(tmp_path / "libfine.so", soname="libfine.so")
    bad = compile_library(tmp_path / "libbad.so", needs=[fine, gone], rpath="$ORIGIN")
    gone.unlink()
    with process(Tree(root=tmp_path, program=bad)) as model:
        opened = model.open(str(bad))
        assert [item.name for item in opened.missing] == ["libgone.so"]
        assert model.objects == ()
        assert model.open(str(tmp_path / "absent.so")).root is None


OPENS = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **names) {
  for (int i = 1; i < count; i++) if (!dlopen(names[i], RTLD_NOW)) puts(dlerror());
  FILE *maps = fopen("/proc/self/maps", "r");
  for (int c; (c = fgetc(maps)) != EOF;) putchar(c);
  return 0;
}
"""


@needs_loader
@pytest.mark.parametrize("kind", ["rpath", "runpath"])
def test_the_executables_rpath_applies_to_what_is_opened_later(kind: str, tmp_path: Path) -> None:
    """As conda's Python, whose RPATH is ``$ORIGIN/../lib``."""
    inner = compile_library(tmp_path / "lib/libinner.so.1", "int in(void) { return 1; }", soname="libinner.so.1")
    outer = compile_library(tmp_path / "site/ext.so", needs=[inner])
    rpath, runpath = ("$ORIGIN/../lib", None) if kind == "rpath" else (None, "$ORIGIN/../lib")
    program = compile_library(tmp_path / "bin/opens", OPENS, executable=True, rpath=rpath, runpath=runpath)
    done = subprocess.run([program, outer], env={}, capture_output=True, text=True, check=True)
    with process(Tree(root=tmp_path, program=program)) as model:
        model.start(str(program))
        opened = model.open(str(outer))
    assert (opened.missing == ()) == (str(inner) in done.stdout) == (kind == "rpath")


@needs_loader
def test_a_program_that_wants_no_default_folder_gets_none(tmp_path: Path) -> None:
    linker = Linker(tmp_path / "work")
    for number, more in enumerate(((), ("-z", "nodefaultlib"))):
        program = tmp_path / f"program{number}"
        linker.program(program, needs=["libm.so.6"], paths=None, more=more)
        tree = Tree(root=tmp_path, program=program)
        same(tree)
        assert predicted(tree)[0][1] is None or number == 0


def test_rpath_does_not_count_beside_runpath_nor_when_it_is_empty() -> None:
    def loaded(rpath: tuple[str, ...] | None, runpath: tuple[str, ...] | None) -> Loaded:
        dynamic = Dynamic(
            soname=None, needed=(), rpath=rpath, runpath=runpath, needs={}, defines=(), flags_1=0,
            tables=Tables(),
        )  # fmt: skip
        elf = Elf(machine="x86_64", kind="shared", sections=(), segments=(), interpreter=None, dynamic=dynamic)
        return Loaded(path="/a/b.so", elf=elf)

    assert loaded(("/x",), None).rpath == ("/x",)
    assert loaded(("/x",), ("/y",)).rpath == ()
    assert loaded(("",), None).rpath == ()
    empty = loaded(None, ("",))
    system = System(library_path="", defaults=())
    main = loaded(("/main",), None)
    assert [item.path for item in candidates("l.so", empty, main, system)] == []
    assert [item.path for item in candidates("l.so", loaded(None, None), main, system)] == ["/main/l.so"]


def test_tokens_and_relative_entries() -> None:
    system = System(library_path=":rel:/abs/$LIB:${PLATFORM}x", defaults=("/lib",), lib="lib64", platform="p", cwd="/w")
    assert [item.path for item in candidates("l.so", None, None, system)] == [
        *("/w/l.so", "/w/rel/l.so", "/abs/lib64/l.so", "/w/px/l.so", "/lib/l.so")
    ]
    assert [item.path for item in candidates("./l.so", None, None, system)] == ["/w/./l.so"]
