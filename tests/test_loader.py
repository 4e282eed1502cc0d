"""The loader's search and mapping, against the loader of the machine that runs the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cuenv.binary.process import Process
from cuenv.world.elf_files import ElfFiles
from cuenv.world.loader_facts import loader_facts
from linkage_trees import Linker, Tree, needs_loader, random_tree, traced


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


@needs_loader
@pytest.mark.parametrize("seed", range(12))
def test_random_trees_are_mapped_as_the_machines_loader_does(seed: int, tmp_path: Path) -> None:
    same(random_tree(tmp_path / "tree", Linker(tmp_path), seed))


@needs_loader
@pytest.mark.slow
def test_many_random_trees_are_mapped_as_the_machines_loader_does(tmp_path: Path) -> None:
    linker = Linker(tmp_path)
    for seed in range(1000, 1200):
        same(random_tree(tmp_path / str(seed), linker, seed))
