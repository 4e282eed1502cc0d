"""Pages of docs/ that begin with `RUN`, as scripts: what a reader types, and what is shown of the answer.

A block ``console`` whose lines begin with ``$`` is run, in the order of the page and in one folder; a line without
``$`` must be printed by the command above it. Comments before a block say what a reader has and a test has not:

``<!-- machine: NAME -->``         from here on this machine is a recorded host
``<!-- file: NAME -->``            the next block is the text of a file
``<!-- given: NAME is the host H -->``  a recorded host lies there as a file
``<!-- needs: a GPU -->``          the next block is only read: commands and options must exist
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

RUN = "<!-- run: every line below is held true by tests/test_docs.py -->"
"""How a page begins that is run."""

_BLOCK = re.compile(r"^<!-- (\w+): (.*?) -->$|^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_GIVEN = re.compile(r"(\S+) is the host (\S+)")
MARKS = ("run", "machine", "file", "given", "needs")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing on a page.

    Attributes:
        kind: ``run``, ``read``, ``file``, ``given`` or ``machine``.
        name: the command, the file or the host.
        lines: what the command prints, or the text of the file.
    """

    kind: str
    name: str
    lines: list[str] = field(default_factory=list)


def steps(text: str) -> list[Step]:
    """What a page does, in its order."""
    found: list[Step] = []
    mark = ("", "")
    for said, what, language, body in _BLOCK.findall(text):
        if said:
            assert said in MARKS, f"<!-- {said}: ... --> is no mark"
            mark = (said, what)
            if said in ("run", "machine", "given"):
                found += [] if said == "run" else [Step(kind=said, name=what)]
                mark = ("", "")
            continue
        if mark[0] == "file":
            found.append(Step(kind="file", name=mark[1], lines=body.splitlines()))
        elif language == "console":
            found += _commands(body, "read" if mark[0] == "needs" else "run")
        mark = ("", "")
    assert not mark[0], f"<!-- {mark[0]}: {mark[1]} --> stands before no block"
    return found


def _commands(body: str, kind: str) -> list[Step]:
    found: list[Step] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(Step(kind=kind, name=line[2:]))
        else:
            assert found, f"{line!r} stands before the first command"
            found[-1].lines.append(line)
    return found


def commands(text: str) -> list[str]:
    """Every line of a page, whichever it is, that is typed into a shell."""
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def given(what: str) -> tuple[str, str]:
    """The file and the host of a mark ``given``."""
    found = _GIVEN.fullmatch(what)
    assert found, f"<!-- given: {what} -->: write 'FILE is the host NAME'"
    return found[1], found[2]
