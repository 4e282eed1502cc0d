"""Texts of many nodes: headings of clush and dshbak, the prefixes of pdsh, and the titles of one host's pastes."""

from __future__ import annotations

import pytest

from cases import collect
from cuenv.core.errors import InputError
from cuenv.host.facts import HostFacts
from cuenv.host.paste.all_hosts import PastedHosts, read_pasted_hosts, split_by_host
from given import shipped_base

V100 = "GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-6b1d2a9c-0000-0000-0000-000000000001)"
H100 = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-6b1d2a9c-0000-0000-0000-000000000002)"
LDD = "ldd (Ubuntu GLIBC 2.35-0ubuntu3.8) 2.35"
RULE = "---------------"


def told(text: str) -> PastedHosts:
    return read_pasted_hosts(text, shipped_base(), "the paste")


def seen(hosts: tuple[HostFacts, ...]) -> dict[str, str]:
    return {host.name: "+".join(str(gpu.capability) for gpu in host.gpus) for host in hosts}


@collect(
    ("text", "hosts"),
    [
        (
            f"{RULE}\ngpu[001-003] (3)\n{RULE}\n{V100}\n{RULE}\nh1\n{RULE}\n{H100}\n",
            ["gpu001", "gpu002", "gpu003", "h1"],
        ),
        (f"$ clush -b -w a1,a2 nvidia-smi -L\n\n{RULE}\na1,a2 (2)\n{RULE}\n{V100}\n{V100}\n", ["a1", "a2"]),
        (f"==> a1 <==\n{V100}\n\n==> b.cluster.org <==\n{H100}\n", ["a1", "b.cluster.org"]),
        (f"==> a1.txt <==\n{V100}\n==> a2.txt <==\n{H100}\n", ["a1", "a2"]),
        (f"---- gpu[001-002] ----\r\n{V100}\r\n---- h1 ----\r\n{H100}\r\n", ["gpu001", "gpu002", "h1"]),
        (f"=== atlas ===\n{V100}\n=== titan ===\n{H100}\n", ["atlas", "titan"]),
        (f"[me@login ~]$ pdsh -a nvidia-smi -L\nn1: {V100}\nn2: {H100}\nn1: {V100}\n", ["n1", "n2"]),
        (f"n1: {V100}\nn1:\nn1: {LDD}\n", ["n1"]),
        ("n1: 535.129.03, NVIDIA L4\nn2: 535.129.03, NVIDIA L4\n", ["n1", "n2"]),
    ],
)
def test_each_host_of_a_text_is_one(text: str, hosts: list[str]) -> None:
    found = told(text)
    assert [host.name for host in found.hosts] == hosts
    assert all(host.gpus for host in found.hosts)
    assert found.broken == ()


@collect(
    "text",
    [
        f"=== nvidia-smi ===\n{V100}\n=== ldd ===\n{LDD}\n",
        f"---- GPU0 ----\n{V100}\n",
        f"== python3.11 ==\n{LDD}\n== cuda-12.1 ==\n{V100}\n",
        f"nvidia: {V100}\n",
        f"{RULE}\n{V100}\n{RULE}\n{LDD}\n",
        f"{V100}\nn2: {LDD}\n",
    ],
)
def test_titles_over_the_pastes_of_one_host_are_no_hosts(text: str) -> None:
    (host,) = told(text).hosts
    assert (host.name, len(host.gpus)) == ("", 1)


def test_evidence_names_the_line_of_the_whole_text() -> None:
    (host,) = told(f"n1: {LDD}\nn1: {V100}\n").hosts
    assert [item.source for item in host.evidence if item.fact == "gpus[0].name"] == ["the paste, line 2"]
    both = told(f"==> n1 <==\n{LDD}\n==> n2 <==\n{V100}\n{LDD}\n").hosts
    lines = [item.source for host in both for item in host.evidence if item.fact == "libc"]
    assert lines == ["the paste, line 2", "the paste, line 5"]


def test_the_same_host_in_two_commands_is_one() -> None:
    found = told(f"{RULE}\nn[1-2]\n{RULE}\n{V100}\n{RULE}\nn[1-2]\n{RULE}\n{LDD}\n").hosts
    assert seen(found) == {"n1": "7.0", "n2": "7.0"}
    assert all(host.libc and str(host.libc.version) == "2.35" for host in found)


def test_a_node_that_says_something_else_is_named_and_the_others_count() -> None:
    found = told(
        f"n1: {V100}\nn2: bash: nvidia-smi: command not found\npdsh@login: n2: ssh exited with exit code 127\n"
    )
    assert seen(found.hosts) == {"n1": "7.0"}
    assert [(line, says) for line, says, _ in found.broken] == [
        (2, "n2: it describes no host: bash: nvidia-smi: command not found")
    ]


def test_what_two_lines_tell_of_one_node_differently_is_of_that_node_alone() -> None:
    text = "n1: 535.129.03, NVIDIA L4\nn1: 550.54.15, NVIDIA L4\nn2: 550.54.15, NVIDIA L4\n"
    found = told(text)
    assert [host.driver.version for host in found.hosts if host.name == "n2" and host.driver] == ["550.54.15"]


@collect(
    "text",
    ["n1:\nn2:\n", f"{RULE}\nn1\n{RULE}\n", "==> n1 <==\n", "n1: no devices\n", f"{RULE}\nn[1-99999999]\n{RULE}\nx\n"],
)
def test_a_text_of_many_that_tells_of_none_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        told(text)


def test_a_text_of_thousands_of_nodes_is_split_in_time() -> None:
    text = "".join(f"n{number}: {V100}\n" for number in range(3000))
    assert len(split_by_host(text)) == 3000
    many = f"{RULE}\nn[1-99999999]\n{RULE}\n{V100}\n"
    (part,) = split_by_host(many)
    assert part.hosts == ("n1-99999999",)
