"""Reading a Dockerfile: instructions over several lines, comments, here-documents, another escape character.

https://docs.docker.com/reference/dockerfile/
"""

from __future__ import annotations

import re

from cuenv.errors import InputError
from cuenv.lint.instructions import Instruction

_DIRECTIVE = re.compile(r"#\s*(?P<name>[a-zA-Z]+)\s*=\s*(?P<value>\S+)\s*")
_NAME = re.compile(r"[ \t]*(?P<name>[A-Za-z]+)(?:[ \t]+|(?=[\\`]?\r?\n|$))")
_HERE = re.compile(r"<<-?(?P<quote>['\"]?)(?P<word>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)")
_WITH_HERE = ("RUN", "COPY", "ADD")
_NAMES = frozenset(
    (
        *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER"),
        *("ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
    )
)


def parse(text: str, source: str) -> tuple[Instruction, ...]:
    """The instructions of a Dockerfile, in order.

    Raises:
        InputError: a line that begins no instruction; none at all.
    """
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: list[Instruction] = []
    escape, number = _escape(lines), 0
    while number < len(lines):
        line = lines[number].lstrip("\ufeff") if number == 0 else lines[number]
        if not line.strip() or line.lstrip().startswith("#"):
            number += 1
            continue
        last = _last_line(lines, number, escape)
        at = starts[number] + (len(lines[number]) - len(line))
        instruction = _instruction(text[at : starts[last + 1]], at)
        if instruction is None:
            raise InputError(f"{source}: line {number + 1}: no instruction of a Dockerfile: {line.strip()[:60]!a}")
        found.append(instruction)
        number = last + 1
    if not found:
        raise InputError(f"{source}: the file holds no instruction")
    return tuple(found)


def _escape(lines: list[str]) -> str:
    """The escape character: a directive in the first lines may set the back quote."""
    for line in lines:
        found = _DIRECTIVE.fullmatch(line.strip())
        if not found:
            break
        if found["name"].lower() == "escape" and found["value"] in ("`", "\\"):
            return str(found["value"])
    return "\\"


def _last_line(lines: list[str], number: int, escape: str) -> int:
    """The last line of the instruction that begins here, its here-documents included."""
    last = number
    while last + 1 < len(lines) and (
        lines[last].rstrip().endswith(escape) or (last > number and _between(lines, last, escape))
    ):
        last += 1
    name = _NAME.match(lines[number])
    if name and name["name"].upper() in _WITH_HERE:
        words = [found["word"] for line in lines[number : last + 1] for found in _HERE.finditer(line)]
        for word in words:
            end = next((index for index in range(last + 1, len(lines)) if lines[index].strip() == word), None)
            last = last if end is None else end
    return last


def _between(lines: list[str], number: int, escape: str) -> bool:
    """Whether a comment or blank line stands inside an instruction that goes on."""
    line = lines[number].strip()
    inside = not line or line.startswith("#")
    before = next((lines[index] for index in range(number - 1, -1, -1) if _code(lines[index])), "")
    return inside and before.rstrip().endswith(escape)


def _code(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith("#")


def _instruction(text: str, start: int) -> Instruction | None:
    at, name = 0, "ONBUILD"
    while name == "ONBUILD":
        found = _NAME.match(text, at)
        if not found or found["name"].upper() not in _NAMES:
            return None
        name, at = found["name"].upper(), found.end()
    return Instruction(name=name, start=start, at=start + at, text=text[at:])
