"""Words of a Dockerfile that carry foreign text: values of ENV, paths of COPY, lines of RUN and of comments."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping

from cuenv.errors import InputError
from cuenv.urls import one_line

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPED = re.compile(r'[\\"$]')
_PATH = re.compile(r"[A-Za-z0-9_.+@/ -]+")


def comments(lines: Iterable[str], width: int = 110) -> list[str]:
    """Lines as comments, folded; whatever they hold, none ends a comment early."""
    found = []
    for line in lines:
        parts = textwrap.wrap(
            one_line(line), width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        found += [f"# {part}".rstrip() for part in parts or [""]]
    return found


def env(values: Mapping[str, str]) -> str:
    """An ENV instruction.

    Raises:
        InputError: a name that is none, or a value that no ENV can hold.
    """
    pairs = []
    for name, value in values.items():
        if not _NAME.fullmatch(name):
            raise InputError(f"{name!r} is no name for a variable of a container")
        if not value.isprintable():
            raise InputError(f"the value of {name} holds characters that no ENV of a Dockerfile can hold: {value!r}")
        pairs.append(f'{name}="{_ESCAPED.sub(_escape, value)}"')
    return "ENV " + " \\\n    ".join(pairs)


def _escape(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


def context_path(path: str) -> str:
    """A path inside the build context, as COPY and .dockerignore read it alike.

    Raises:
        InputError: it holds what one of them takes for a pattern, a variable or a quote.
    """
    if not _PATH.fullmatch(path) or path.startswith(("/", " ")) or path.endswith(" ") or ".." in path.split("/"):
        raise InputError(
            f"a Dockerfile cannot copy {path!r}: only letters, digits, spaces and _ . + @ / - are safe there",
            hint="name it conda-lock.yml, in the folder that the image is built from",
        )
    return path


def copy(source: str, target: str) -> str:
    """A COPY instruction, in the form that takes spaces."""
    return f"COPY {json.dumps([context_path(source), target])}"


def run(*commands: str) -> str:
    """A RUN instruction of several commands, each of which has to succeed."""
    return "RUN " + " \\\n    && ".join(command.replace("\n", " \\\n    ") for command in commands)
