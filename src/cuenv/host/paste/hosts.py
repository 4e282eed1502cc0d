"""All hosts that a text tells of: cuenv's own JSON of one or many, and whatever a reader of a paste recognises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cuenv.core.errors import InputError
from cuenv.core.record import replace
from cuenv.core.urls import one_line
from cuenv.host import host_json
from cuenv.host.facts import HostFacts
from cuenv.host.paste.documents import Document, documents_of, looks_like_json
from cuenv.host.paste.reading import host_told, told_by
from cuenv.knowledge.base import Knowledge

HINT = "cuenv inspect --json > host.json, on that machine; or paste what nvidia-smi prints"


class Broken(NamedTuple):
    """A part of a text that tells no host: the number of its first line, why, and its file if there are several."""

    line: int
    says: str
    file: str = ""


class HostsTold(NamedTuple):
    """The hosts of a text in their order, and what of it could not be read."""

    hosts: tuple[HostFacts, ...]
    broken: tuple[Broken, ...] = ()


def hosts_told(text: str, knowledge: Knowledge, source: str, label: str = "") -> HostsTold:
    """Every host of a text.

    Args:
        text: as a person has it.
        knowledge: the tables, for what names and drivers tell.
        source: what to call the text in evidence and errors.
        label: what to call a host that tells no name.

    Raises:
        InputError: nothing in the text tells of a host.
    """
    if not text.strip():
        raise InputError(f"{source}: it is empty, expected a host", hint=HINT)
    if looks_like_json(text):
        return _of_documents(text, source, label or source)
    told = host_told(told_by(text), knowledge, label or source, source)
    if not told.says:
        raise InputError(f"{source}: it tells of no host", hint=HINT)
    return HostsTold((told.facts,))


def _of_documents(text: str, source: str, label: str) -> HostsTold:
    hosts: list[HostFacts] = []
    broken: list[Broken] = []
    documents = list(documents_of(text))
    for document in documents:
        fault = document.fault
        if not fault:
            try:
                hosts.extend(_own(document, source, label, alone=len(documents) == 1))
            except InputError as error:
                fault = error.message
        if fault:
            if len(documents) == 1:
                raise InputError(f"{source}: {fault.removeprefix(f'{source}: ')}", hint=host_json.HINT)
            broken.append(Broken(document.line, one_line(fault.removeprefix(f"{source}: "))))
    return HostsTold(tuple(hosts), tuple(broken))


def _own(document: Document, source: str, label: str, *, alone: bool) -> Iterator[HostFacts]:
    """The hosts of one document: a host, a pool as its members, or a list of hosts."""
    rows = document.data if isinstance(document.data, list) else [document.data]
    for row in rows:
        facts = host_json.read_plain(row, source, label)
        facts = replace(facts, name=document.node) if document.node and not facts.name else facts
        if alone and len(rows) == 1:
            yield facts
        else:
            yield from (_called(member, document.line) for member in facts.machines)


def _called(facts: HostFacts, line: int) -> HostFacts:
    """A host of many by its own name."""
    return replace(facts, label=facts.name or f"{facts.label}, line {line}")
