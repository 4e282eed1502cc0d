"""Names of nodes in short, and hosts that the rules cannot tell apart."""

from __future__ import annotations

import random
import re
from typing import Any

from cases import collect
from cuenv.core.record import replace
from cuenv.fleet.nodes import FleetNode, fold, kinds, missing_facts, nodes_without_facts
from cuenv.host.facts import Gpu, HostFacts, glibc
from fleets import host


@collect(
    ("names", "short"),
    [
        ("gpu001 gpu002 gpu003", "gpu[001-003]"),
        ("gpu1 gpu2 gpu10 gpu9", "gpu[1-2,9-10]"),
        ("gpu08 gpu09 gpu10 gpu12", "gpu[08-10,12]"),
        ("gpu009 gpu10", "gpu009,gpu10"),
        ("a1.rack2 a2.rack2 a3.rack3", "a3.rack3,a[1-2].rack2"),
        ("rack1-n1 rack1-n2 rack2-n1", "rack1-n[1-2],rack2-n1"),
        ("login", "login"),
        ("n1 n1", "n1"),
        ("n0 n1", "n[0-1]"),
        ("n99999999999999999999", "n99999999999999999999"),
        ("7 8", "[7-8]"),
        ("", ""),
    ],
)
def test_names_are_folded(names: str, short: str) -> None:
    assert fold(names.split()) == short


def unfolded(text: str) -> set[str]:
    """The names again, written apart from `fold`."""
    found = set()
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        ranges = re.fullmatch(r"(.*)\[(.*)\](.*)", part)
        if ranges is None:
            found.add(part)
            continue
        for piece in ranges[2].split(","):
            first, _, last = piece.partition("-")
            for number in range(int(first), int(last or first) + 1):
                found.add(f"{ranges[1]}{number:0{len(first)}}{ranges[3]}")
    return found


def test_folding_loses_and_invents_no_name() -> None:
    chance = random.Random(5)
    for _ in range(400):
        names = {
            f"{chance.choice(['gpu', 'n-', ''])}{chance.randint(0, 120):0{chance.choice([0, 2, 3])}}"
            f"{chance.choice(['', '', '.dc1', 'x'])}"
            for _ in range(chance.randint(1, 30))
        }
        assert unfolded(fold(names)) == names


def test_kinds_do_not_depend_on_the_order_and_forget_what_no_rule_reads() -> None:
    one, other = host("A100", "535.129.03"), host("A100", "470.129.06")
    several = replace(one, kernel="5.4.0", gpus=tuple(replace(one.gpus[0], index=at) for at in range(8)))
    nodes = [FleetNode("b", several), FleetNode("a", one), FleetNode("c", other)]
    found = kinds(nodes)
    assert [kind.names for kind in found] == [("c",), ("a", "b")]
    assert kinds(reversed(nodes)) == found
    assert [kind.says for kind in found] == [
        "A100, driver 470.129.06, glibc 2.31",
        "A100, driver 535.129.03, glibc 2.31",
    ]


@collect(
    ("change", "lacks"),
    [
        ({}, ()),
        ({"driver": None}, ("driver",)),
        ({"libc": None}, ("glibc",)),
        ({"libc": None, "driver": None}, ("driver", "glibc")),
        ({"gpus": (Gpu(index=0, name="Oddity 9", capability=None),)}, ("compute capability",)),
        ({"gpus": ()}, ()),
        ({"libc": glibc("2.17")}, ()),
    ],
)
def test_a_fact_that_is_missing_is_named(change: dict[str, Any], lacks: tuple[str, ...]) -> None:
    facts: HostFacts = replace(host("A100", "535.129.03"), **change)
    assert missing_facts(facts) == lacks
    assert [item.lacks for item in nodes_without_facts([FleetNode("a", facts)])] == ([lacks] if lacks else [])
    assert len(kinds([FleetNode("a", facts)])) == (not lacks)
