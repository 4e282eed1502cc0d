"""Lint of numbers in ``environment.yml``: ``python: 3.10`` is the number 3.1 to YAML, and a mapping to conda."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cuenv.lint import Edit, Lint, told
from cuenv.lint.tree import Node
from cuenv.lint.yaml_writing import WRITE, written
from cuenv.specs import parse_spec

_FLOAT = re.compile(r"[0-9]+\.[0-9]+")


def number_lints(tree: Node) -> Iterator[Lint]:
    """What is wrong with the numbers of an environment file."""
    dependencies = tree.get("dependencies")
    for item in dependencies.items if dependencies else ():
        for key, value in item.entries:
            if is_mapping(key, value):
                yield _requirement(item, key, value)
    variables = tree.get("variables")
    for key, value in variables.entries if variables else ():
        if _is_float(value):
            message = f"{key.text}: {value.text} is a number to YAML, {float(value.text)}: other clients drop its zeros"
            quoted = f'"{value.text}"'
            edit = Edit(start=value.start, end=value.end, text=quoted)
            yield told("CU303", "warning", value.start, key.text, message, f"{WRITE}{quoted}", edit)


def is_mapping(key: Node, value: Node) -> bool:
    """Whether a requirement is written ``name: version``; ``pip:`` may be empty, and a selector holds a whole one."""
    if key.text == "pip":
        return value.text[:1].isdigit()
    return value.scalar and not key.text.startswith("sel(")


def _requirement(item: Node, key: Node, value: Node) -> Lint:
    message = f"'{key.text}: {value.text}' is a mapping and no requirement"
    if _is_float(value):
        message += f", and YAML reads {value.text} as {float(value.text)}"
    entry = _meant(key.text, value.text)
    fix = f"{WRITE}{entry}" if entry else f"{WRITE}{key.text}=VERSION"
    end = item.end if key.start > item.start else value.end  # braces end with themselves, a block with its last value
    edits = [Edit(start=item.start, end=end, text=written(entry, plain=True))] if entry else []
    return told("CU303", "error", key.start, key.text, message, fix, *(edits if len(item.entries) == 1 else ()))


def _meant(name: str, version: str) -> str:
    """The requirement that a name and a version were meant for; empty where there is none."""
    joint = "" if not version or version[0] in "<>=!~" else "="
    text = f"{name}{joint}{version}"
    try:
        parse_spec(text)
    except ValueError:
        return ""
    return "" if "#" in text else text


def _is_float(node: Node) -> bool:
    return node.kind == "plain" and _FLOAT.fullmatch(node.text) is not None
