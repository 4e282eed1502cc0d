"""Texts that tell of many hosts: cuenv's own JSON, one document after another, with broken parts between them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cuenv
from cases import collect
from cuenv.core.errors import InputError
from cuenv.host.host_json import dump
from cuenv.host.paste.all_hosts import PastedHosts, UnreadablePart, read_pasted_hosts
from given import shipped_base
from trees import plant


def line(name: str, capability: str = "8.6", **more: object) -> str:
    """A host on one line."""
    gpus = [{"index": 0, "name": "", "capability": capability}]
    return json.dumps({"schema": "cuenv/host/1", "name": name, "platform": "linux-64", "gpus": gpus, **more})


def told(text: str) -> PastedHosts:
    return read_pasted_hosts(text, shipped_base(), "the file")


@collect(
    "text",
    [
        f"{line('a')}\n{line('b')}\n",
        f"\ufeff{line('a')}\r\n\r\n{line('b')}",
        f"[{line('a')}, {line('b')}]",
        f"{json.dumps(json.loads(line('a')), indent=2)}\n{json.dumps(json.loads(line('b')), indent=2)}\n",
        f"a: {line('')}\nb: {line('')}\n",
    ],
)
def test_many_hosts_of_one_text(text: str) -> None:
    assert [(host.name, host.label) for host in told(text).hosts] == [("a", "a"), ("b", "b")]


def test_a_broken_part_is_named_by_its_line_and_the_others_count() -> None:
    found = told(f'srun: job 7 queued\n{line("a")}\nssh: no route to b\n{{"schema": \n{line("c")}\n{{}}\n{line("d")}\n')
    assert [host.name for host in found.hosts] == ["a", "c", "d"]
    assert [item.line for item in found.broken] == [1, 3, 4, 6]
    assert "got 'ssh: no route to b'" in found.broken[1].says
    assert found.broken[2].says.startswith("not JSON: ")
    assert "3 faults" in found.broken[3].says


def test_json_of_something_else_is_not_read_to_its_end() -> None:
    with pytest.raises(InputError, match="it is the JSON of something else: keys a"):
        told('{"a": 1}\n' * 20_000)
    found = told(f"{line('a')}\n" + '{"a": 1}\n' * 2000 + line("b"))
    assert ([host.name for host in found.hosts], len(found.broken)) == (["a"], 1001)
    assert found.broken[-1].says == "1000 parts before this one are not hosts, so the rest was not read"


def test_a_host_without_a_name_is_called_by_its_line() -> None:
    assert [host.label for host in told(f"{line('')}\n0: {line('')}").hosts] == ["the file, line 1", "the file, line 2"]


def test_a_pool_is_its_machines() -> None:
    hosts = cuenv.pool(cuenv.read_host("a800-470"), cuenv.read_host("no-gpu"))
    assert [host.label for host in told(dump(hosts, compact=True) * 2).hosts][:2] == [
        "a800-470",
        "no-gpu",
    ]


def test_the_api_reads_files_and_folders(tmp_path: Path) -> None:
    plant(tmp_path, {"fleet/n1.json": line("n1"), "fleet/n2": line(""), "fleet/.x": "", "fleet/bad": "{"})
    with pytest.raises(InputError, match="bad line 1: not JSON"):
        cuenv.read_hosts(tmp_path / "fleet")
    broken: list[UnreadablePart] = []
    hosts = cuenv.read_hosts(
        tmp_path / "fleet", broken=lambda file, at, says: broken.append(UnreadablePart(at, says, file))
    )
    assert [host.name for host in hosts] == ["n1", "n2"]
    assert [(item.file, item.line) for item in broken] == [("bad", 1)]
    assert cuenv.read_host(tmp_path / "fleet/n1.json").name == "n1"


def test_several_faults_of_a_record_are_told_on_one_line() -> None:
    with pytest.raises(InputError) as caught:
        told('{"schema": "cuenv/host/1"}')
    assert str(caught.value).startswith("the file: 2 faults: platform: expected a string, got nothing; gpus: ")
