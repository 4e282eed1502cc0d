"""The syntax of cuenv's source, read once for all tests about it."""

from __future__ import annotations

import ast
import gc
from functools import lru_cache
from pathlib import Path

import cuenv

SOURCE = Path(cuenv.__file__).parent
_LEAVES = ast.Name, ast.Constant, ast.expr_context


def tree_of(path: Path) -> ast.Module:
    """A source file, parsed."""
    return _parsed(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.Module:
    gc.disable()  # a tree has thousands of new objects, all of which stay: to look for what may go doubles the time
    try:
        return ast.parse(text)
    finally:
        gc.freeze()
        gc.enable()


def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All that stands in a source file, in the order of `ast.walk`."""
    return walked(tree_of(path))


@lru_cache(maxsize=1024)
def walked(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All that stands in a syntax tree, in the order of `ast.walk`, which takes four times as long."""
    found: list[ast.AST] = [tree]
    for node in found:
        if isinstance(node, _LEAVES):
            continue
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return tuple(found)
