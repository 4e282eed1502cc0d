"""Hosts in files: fleet files, records, what other tools print, and what Ansible keeps of the facts of its nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from cuenv.core.errors import InputError
from cuenv.core.io.files import exists, is_folder, names_in, read_text, shown
from cuenv.core.reading import describe
from cuenv.core.record import NamedTuple
from cuenv.core.regex import regex
from cuenv.fleet.answers import with_name
from cuenv.host import host_json
from cuenv.host.facts import HostFacts
from cuenv.host.paste.ansible import host_name, unpack
from cuenv.host.select import recorded_hosts
from cuenv.knowledge.base import Knowledge

_LIMIT = 16 * 1024 * 1024  # bytes that Ansible's facts of one node may have
_FACT = "the cuenv fact (ansible_local.cuenv)"
_LINE = regex(r", line ([0-9]+)$")


class HostSource(NamedTuple):
    """A host in a file, or why a part of the file is not a host."""

    where: str  # the file, and the line of one that is broken
    facts: HostFacts | None
    reason: str = ""
    own: bool = True  # it tells its name, and is not called by its label or file alone


def hosts_of_fleet_file(path: Path, knowledge: Knowledge) -> Iterator[HostSource]:
    """The hosts of an existing fleet file; empty if the file does not exist."""
    if not exists(path):
        return
    if not is_folder(path) and not read_text(path).strip():
        return
    try:
        yield from hosts_of_path(str(path), str, knowledge)
    except InputError as error:
        hint = "cuenv fleet gather --ssh 'gpu[001-064]' -o fleet.ndjson"
        raise InputError(
            f"-o {shown(path)}: it is not a fleet file, so it is not replaced: {error.message}", hint=hint
        ) from error


def hosts_of_path(path: str, stdin: Callable[[], str], knowledge: Knowledge) -> Iterator[HostSource]:
    """The hosts of a file, of the files in a folder, or of standard input (``-``).

    Raises:
        InputError: it is not there, or tells of no host at all.
    """
    broken: list[HostSource] = []
    where = "standard input" if path == "-" else shown(path)

    def note(file: str, line: int, says: str) -> None:
        broken.append(HostSource(f"{file or where}, line {line}", None, says))

    for facts in recorded_hosts(path, knowledge, note, stdin):
        name = facts.name or _LINE.sub(r"-\1", facts.label)
        yield HostSource(where, with_name(facts, name), own=bool(facts.name))
    yield from broken


def hosts_of_ansible(folders: Iterable[Path]) -> Iterator[HostSource]:
    """The hosts in Ansible's folders with one file each: its cache of facts as JSON, or the output of ``--tree``."""
    for folder in folders:
        names = [name for name in sorted(names_in(folder)) if not name.startswith(".")] if is_folder(folder) else []
        if not names:
            raise InputError(
                f"{shown(folder)} is not a folder with the facts of hosts",
                hint="ANSIBLE_CACHE_PLUGIN=jsonfile ANSIBLE_CACHE_PLUGIN_CONNECTION=facts ansible all -m setup",
            )
        yield from (_by_ansible(folder / name, name) for name in names)


def _by_ansible(path: Path, name: str) -> HostSource:
    try:
        name, facts = _facts(path, name)
        return HostSource(shown(path), _fact(facts, name))
    except InputError as error:
        return HostSource(name, None, error.message)


def _facts(path: Path, name: str) -> tuple[str, Any]:
    """The name of a host in Ansible's inventory, by its file name, and its facts."""
    try:
        whole: Any = json.loads(read_text(path, limit=_LIMIT))
        data: Any = unpack(whole)
    except (ValueError, RecursionError) as error:
        raise InputError("the file is not the JSON of Ansible's facts") from error
    return host_name(whole, name), data.get("ansible_facts", data) if isinstance(data, dict) else {}


def _fact(facts: Any, name: str) -> HostFacts:
    """The host record that cuenv wrote as a local fact."""
    local = facts.get("ansible_local") if isinstance(facts, dict) else None
    told = local.get("cuenv") if isinstance(local, dict) else None
    if isinstance(told, str):
        raise InputError(f"{_FACT} failed: {describe(told)}")
    if told is None:
        raise InputError(f"the facts do not contain {_FACT}")
    return with_name(host_json.read_plain(told, _FACT, name), name)
