"""The syntax of cuenv's source, read once for all tests about it."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

import cuenv

SOURCE = Path(cuenv.__file__).parent


def tree_of(path: Path) -> ast.Module:
    """A source file, parsed."""
    return _parsed(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All that stands in a source file, in the order of `ast.walk`."""
    return walked(tree_of(path))


@lru_cache(maxsize=1024)
def walked(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All that stands in a syntax tree, in the order of `ast.walk`."""
    return tuple(ast.walk(tree))
