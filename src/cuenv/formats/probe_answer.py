"""The line that a probe prints: its mark, and JSON after it. What stands around it is a library's noise."""

from __future__ import annotations

import json
from types import MappingProxyType

from cuenv.errors import InputError
from cuenv.installed.probing import Answer, Failure
from cuenv.reading import Faults, Reader, once
from cuenv.urls import printable

MARK = "cuenv-probe:"
"""As ``data/probes/_told.py`` writes it."""

_FACTS = ("version", "cuda", "path", "python", "build", "count", "why", "nccl")


def read_answer(out: str) -> Answer | None:
    """The last answer in what a probe printed; ``None`` when there is none, or what follows the mark is no answer."""
    line = next((line for line in reversed(out.splitlines()) if line.startswith(MARK)), None)
    if line is None:
        return None
    faults = Faults("the probe's answer")
    try:
        reader = Reader(json.loads(line.removeprefix(MARK), object_pairs_hook=once), faults)
        answer = _answer(reader)
        faults.check()
    except (ValueError, RecursionError, InputError):
        return None
    return answer


def _answer(reader: Reader) -> Answer:
    facts = reader.reader("facts")
    failed = tuple(_failure(item) for item in reader.readers("failed", required=True))
    answer = Answer(
        done=_clean(reader.texts("done", required=True)),
        failed=failed,
        skipped=_clean(reader.texts("skipped", required=True)),
        facts=MappingProxyType(_facts(facts) if facts else {}),
    )
    reader.done()
    return answer


def _failure(reader: Reader) -> Failure:
    found = Failure(
        what=printable(reader.text("what")),
        why=printable(reader.text("why")),
        where=_clean(reader.texts("where", required=True)),
    )
    reader.done()
    return found


def _facts(reader: Reader) -> dict[str, str | int | None]:
    found: dict[str, str | int | None] = {}
    for name in _FACTS:
        value = reader.raw(name)
        if isinstance(value, str):
            found[name] = printable(value)
        elif value is None or type(value) is int:
            found[name] = value
        else:
            reader.faults.add(reader.at(name), "expected a string or a whole number")
    reader.done()
    return found


def _clean(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(printable(text) for text in texts)
