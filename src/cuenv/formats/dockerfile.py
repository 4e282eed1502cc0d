"""Reading a Dockerfile: instructions over several lines, comments, here-documents, another escape character.

https://docs.docker.com/reference/dockerfile/
"""

from __future__ import annotations

import re

from cuenv.errors import InputError
from cuenv.lint.instructions import Instruction
from cuenv.reading import lines_of

_DIRECTIVE = re.compile(r"#\s*(?P<name>[a-zA-Z]+)\s*=\s*(?P<value>\S+)\s*")
_NAME = re.compile(r"[ \t]*(?P<name>[A-Za-z]+)(?:[ \t]+|(?=[\\`]?\r?\n|$))")
# A word of its own: in `cat<<EOF`, `$((1<<N))` and `<<<word` BuildKit sees none.
_HERE = re.compile(r"(?<!\S)[0-9]*<<(?P<tabs>-?)(?P<quote>['\"]?)(?P<word>[^\s<'\"]+)(?P=quote)(?!\S)")
# The last character but for blanks; behind another one it is only a character.
_GOES_ON = {mark: re.compile(rf"(?<!{re.escape(mark)}){re.escape(mark)}[ \t]*\r?\n?\Z") for mark in "\\`"}
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
    lines = lines_of(text)
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
    last, goes_on = number, _GOES_ON[escape].search(lines[number])
    while goes_on and last + 1 < len(lines):
        last += 1
        if _code(lines[last]):  # blank lines and comments inside an instruction are passed over
            goes_on = _GOES_ON[escape].search(lines[last])
    name = _NAME.match(lines[number])
    if name and name["name"].upper() in _WITH_HERE:
        for found in _HERE.finditer("".join(filter(_code, lines[number : last + 1]))):
            rest = range(last + 1, len(lines))
            last = next((index for index in rest if _ends(lines[index], found["word"], found["tabs"])), last)
    return last


def _ends(line: str, word: str, tabs: str) -> bool:
    """Whether a line ends a here-document: the word alone, and after ``<<-`` behind tabs."""
    bare = line.rstrip("\r\n")
    return (bare.lstrip("\t") if tabs else bare) == word


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
