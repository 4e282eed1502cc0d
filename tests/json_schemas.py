"""The JSON Schemas that ship, made from the types in `documents.py` of each package by `nox -s schemas`."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typing_extensions

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "src/cuenv").glob("*/documents.py"))
FOLDER = ROOT / "src/cuenv/data/schemas"
PAGE = ROOT / "docs/json.md"
_PLAIN = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
_HEAD = """# JSON documents

With `--json` every command prints one JSON document on stdout. Its key `schema` names it. `cuenv schema` lists the
documents, and `cuenv schema NAME` prints the [JSON Schema](https://json-schema.org/draft/2020-12) of one, to validate
with or to generate code from. Fields may be added to a document; the meaning of a field never changes under the same
name. Fields marked *optional* may be absent.

This page is made from the types in `src/cuenv/*/documents.py` by `nox -s schemas`.
"""


def classes() -> list[type]:
    """The types, in the order in which each package writes them."""
    modules = [import_module(f"cuenv.{path.parent.name}.documents") for path in MODULES]
    return [
        item
        for module in modules
        for item in vars(module).values()
        if typing_extensions.is_typeddict(item) and item.__module__ == module.__name__
    ]


def named() -> dict[str, list[type]]:
    """The documents by the name of their schema, such as `host`; several types may share one."""
    found: dict[str, list[type]] = {}
    for item in classes():
        if "schema" in item.__annotations__:
            (name,) = get_args(hints(item)["schema"])
            found.setdefault(name.split("/")[1], []).append(item)
    return dict(sorted(found.items()))


@cache
def hints(item: type) -> dict[str, Any]:
    return typing_extensions.get_type_hints(item)


@cache
def required(item: type) -> tuple[str, ...]:
    full: dict[str, Any] = typing_extensions.get_type_hints(item, include_extras=True)
    return tuple(name for name, kind in full.items() if not repr(kind).partition("[")[0].endswith("NotRequired"))


@cache
def described() -> dict[str, dict[str, str]]:
    """What the comment behind each field says, by type; of what a type inherits, that of its base."""
    own: dict[str, dict[str, str]] = {}
    bases: dict[str, list[str]] = {}
    for path in MODULES:
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [ast.unparse(base) for base in node.bases]
                own[node.name] = {
                    field.target.id: lines[field.lineno - 1].partition("  # ")[2]
                    for field in node.body
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
                }

    def said(name: str) -> dict[str, str]:
        inherited = [said(base) for base in bases.get(name, ())]
        return {field: text for part in (*inherited, own.get(name, {})) for field, text in part.items()}

    return {name: said(name) for name in own}


def shape(kind: Any) -> dict[str, Any]:
    """A type as a schema; objects are references."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin is Literal:
        return {"const": inner[0]} if len(inner) == 1 else {"enum": list(inner)}
    if origin is list:
        return {"type": "array", "items": shape(inner[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": shape(inner[1])}
    if typing_extensions.is_typeddict(kind):
        return {"$ref": f"#/$defs/{kind.__name__}"}
    parts = [shape(part) for part in inner]
    if all(part.keys() == {"type"} for part in parts):
        return {"type": [part["type"] for part in parts]}
    return {"anyOf": parts}


def mapping(item: type) -> dict[str, Any]:
    """A type as the schema of an object; what is not declared may be added later."""
    said, kinds = described()[item.__name__], hints(item)
    return {
        "type": "object",
        "description": str(item.__doc__),
        "required": list(required(item)),
        "properties": {
            name: {**shape(kind), **({"description": said[name]} if said[name] else {})} for name, kind in kinds.items()
        },
    }


def used(kind: Any) -> Iterator[type]:
    """The types that a type holds, itself not."""
    for part in hints(kind).values() if typing_extensions.is_typeddict(kind) else get_args(kind):
        if typing_extensions.is_typeddict(part):
            yield part
        if part is not kind:
            yield from used(part)


def schema(name: str) -> dict[str, Any]:
    """The schema of the documents of a name."""
    items = named()[name]
    inner = dict.fromkeys(part for item in items for part in used(item))
    roots = [mapping(item) for item in items]
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"cuenv/{name}/1",
        **(roots[0] if len(roots) == 1 else {"description": " Or: ".join(map(_says, items)), "anyOf": roots}),
    }
    if inner:
        made["$defs"] = {part.__name__: mapping(part) for part in inner}
    return made


def _says(item: type) -> str:
    return str(item.__doc__)


def _word(kind: Any) -> str:
    """A type in the words of a table."""
    if typing_extensions.is_typeddict(kind):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return "any"
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in inner)
    if origin is list:
        return f"list of {_word(inner[0])}"
    if origin is dict:
        return f"object of {_word(inner[1])}"
    return " or ".join(map(_word, inner))


def table(item: type) -> list[str]:
    """The fields of a type as rows."""
    said = described()[item.__name__]
    lines = [str(item.__doc__), "", "| field | type | meaning |", "| --- | --- | --- |"]
    for name, kind in hints(item).items():
        optional = "" if name in required(item) else "*optional* "
        lines.append(f"| `{name}` | {optional}{_word(kind)} | {said[name]} |")
    return [*lines, ""]


def page() -> str:
    """The page of the docs."""
    lines = [_HEAD]
    shown: dict[type, None] = {}
    for name, items in named().items():
        lines += [f"## cuenv/{name}/1", ""]
        for item in items:
            lines += table(item)
            shown |= dict.fromkeys(used(item))
    lines += ["## Parts of documents", ""]
    for item in sorted(
        set(shown) - {part for items in named().values() for part in items}, key=lambda item: item.__name__
    ):
        lines += [f"### {item.__name__}", "", *table(item)]
    for name, items in named().items():  # a document inside another one
        for item in items:
            lines = [line.replace(f"(#{item.__name__.lower()})", f"(#cuenv{name}1)") for line in lines]
    return "\n".join(lines).rstrip() + "\n"


def products() -> dict[Path, str]:
    """Every file that is made from the types, and its text."""
    texts = {FOLDER / f"{name}-1.json": json.dumps(schema(name), indent=1) + "\n" for name in named()}
    return {**texts, PAGE: page()}


def main() -> None:
    """Write the files, and remove those of documents that are gone."""
    made = products()
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.json"):
        if path not in made:
            path.unlink()
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(made)} files\n")


if __name__ == "__main__":
    main()
