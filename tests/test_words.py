"""The words of what cuenv says: no string uses a private word where conda, NVIDIA or PyTorch have one.

Every string literal of the source with two words or more is read over the syntax tree, docstrings left out, and the
texts of the tables in ``data/guidance``. Whoever meets a failure says it in the words on the right.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache

import pytest

from source_nodes import SOURCE, nodes_of, tree_of

FORBIDDEN = {
    r"\bspeaks? CUDA\b": "supports CUDA",
    r"\bclose[sd]? on the channels\b": "the channels can satisfy it; it is satisfiable",
    r"\bcannot be had\b": "does not exist",
    r"\bis kept out\b": "the build string excludes it",
    r"\bputs? a second torch\b": "installs torch over",
    r"\bbelow the floor\b": "older than the minimum driver",
    r"\blayer that cuts\b": "names the limiting component",
    r"(?<!there )\bis no (?:environment|regular file|lock)\b": "is not a ...",
    r"(?<!there )(?<!There )\bis no (?:valid|folder|channel|package|path|file|wheel|bundle|version)\b": "is not a",
    r"\bspeaks? \{": "supports",
    r"\bcannot close\b|\bthat closes\b": "can satisfy; is satisfiable",
    r"(?i)\bno row (?:says|knows|vouches)\b": "the cuenv tables do not list or say",
    r"(?<!-)\b(?:serves?|served) (?:\{|\d|GPUs)|\bnot served\b": "supports",
    r"\bdrives? (?:\{|NVIDIA|GPU|the GPU)": "supports",
    r"\bdriver's level\b|\bCUDA level\b": "the driver's CUDA version",
    r"\bsits? on torch\b": "uses PyTorch",
    r"(?i)\bnobody (?:has|knows|saw)\b": "it is not known",
    r"\bpassed over\b": "skipped or ignored",
    r"\basked of pip\b": "pip requirements",
    r"\b(?:version )?wish\b(?!:)": "request or version spec",
    r"\b(?:cannot compile|compiles) for \d": "compute capability X.Y",
    r"\(s\)(?!\w)": "a plural by number",
    r": the same$": "the whole meaning",
    r"\banew\b": "again",
    r"\bin the place of\b": "instead of",
    r"\btells? of (?!twice)": "names, describes or shows",
    r"\bspeaks? of\b": "names",
    r"\bis not there\b": "does not exist; is missing",
    r"\bthat (?:is|are) there\b": "installed, existing",
    r"\bmay not be (?:read|written)\b": "is not readable, is not writable",
    r"\bstands? (?:twice|behind|below|before (?!it))": "appears, follows, precedes",
    r"\ban (?:envelope|outer error)\b": "this line only reports the failure",
    r"\bvery (?:release|torch|minor|CUDA)\b": "exactly the release",
    r"\bare no (?!longer)": "are not",
    r"\bnothing (?:serves|tells|says)\b": "no build supports; the file does not name",
    r"\bbroke off\b": "ended",
    r"\bfolder of the build\b": "build directory",
    r"\bplays? no part\b": "does not matter; does not cause",
    r"\btake (?:\{[^}]*\}|\w+) out\b": "remove",
    r"\bnothing supports\b": "no environment supports",
}
"""A pattern, and what to say instead."""
EXEMPT = {
    "cli/output.py": "the pattern that colours a count of errors",
    "core": "the pattern that colours a count of errors",
}
"""Paths, with the reason."""


def _docstrings(nodes: tuple[ast.AST, ...]) -> set[int]:
    bodies = (getattr(node, "body", None) for node in nodes)
    firsts = (statement for body in bodies if isinstance(body, list) for statement in body)
    return {id(item.value) for item in firsts if isinstance(item, ast.Expr)}


@cache
def strings() -> tuple[tuple[str, str], ...]:
    """Each string that a person may read, with its place."""
    return tuple(_strings())


def _strings() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        documented = _docstrings(nodes_of(path))
        for node in nodes_of(path):
            if not isinstance(node, ast.Constant) or id(node) in documented:
                continue
            if isinstance(node.value, str) and " " in node.value.strip():
                yield f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}", node.value
    for path in sorted((SOURCE / "data" / "guidance").glob("*.json")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for key in ("means", "why", "cause", "remedy", "says"):
                found = re.search(rf'"{key}": "((?:[^"\\]|\\.)*)"', line)
                if found:
                    yield f"{path.relative_to(SOURCE).as_posix()}:{number}", found[1]


@pytest.mark.slow
def test_no_string_uses_a_private_word() -> None:
    read = [(place, text) for place, text in strings() if not place.startswith(tuple(EXEMPT))]
    together = "\n".join(text for _, text in read)
    found = {pattern: better for pattern, better in FORBIDDEN.items() if re.search(pattern, together, re.MULTILINE)}
    wrong = [
        f"{place}: {text!r}: say {better!r}"
        for place, text in read
        for pattern, better in found.items()
        if re.search(pattern, text)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_remedy_and_a_cure_begin_with_what_to_do() -> None:
    noun = re.compile(
        r"(?i)(?:an?|the|another|both|more|fewer|smaller|others?|no|none|nothing|what|which|where|these)\b"
    )
    columns = (("symptoms", "remedy"), ("codes", "cure"))
    texts = [
        f"{name}: {row[column]}"
        for name, column in columns
        for row in json.loads((SOURCE / "data" / "guidance" / f"{name}.json").read_text(encoding="utf-8"))["rows"]
        if noun.match(row[column])
    ]
    assert not texts, "\n".join(texts)


def test_no_docstring_of_the_public_interface_uses_a_private_word() -> None:
    tree = tree_of(SOURCE / "api.py")
    public = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    texts = {node.name: ast.get_docstring(node) or "" for node in public}
    assert len(texts) > 10
    assert not [
        f"{name}: {pattern}" for name, text in texts.items() for pattern in FORBIDDEN if re.search(pattern, text)
    ]


def test_no_docstring_and_no_comment_uses_the_words_of_drivers_otherwise_than_nvidia() -> None:
    private = re.compile(r"\bspeaks? CUDA\b|\bCUDA level\b|\bdriver's level\b|\bbelow the floor\b|\bsits? on torch\b")
    wrong = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if private.search(line)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_no_class_has_a_private_name() -> None:
    private = {"Wish", "Floor", "Generation", "Twin", "Layer", "Ground", "Ending", "Workshop", "Case", "Sighting"}
    nodes = (node for path in SOURCE.rglob("*.py") for node in nodes_of(path))
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    assert len(classes) > 100
    assert not classes & private


@pytest.mark.slow
def test_the_strings_are_found() -> None:
    assert len(strings()) > 500
