"""The strict reader: exact types, every fault with its path, nothing raw from a stranger."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.errors import ExitCode, InputError, KnowledgeError
from cuenv.core.reading import Faults, Reader, describe
from cuenv.core.versions import Capability
from thorough import examples

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def wrong(read: Callable[[Reader], Any], data: object) -> list[str]:
    """What a reading finds wrong."""
    faults = Faults("host.json")
    read(Reader(data, faults))
    return faults.items


def read_host(reader: Reader) -> None:
    """A small host, as the readers of files are written."""
    reader.text("name")
    reader.get("wsl", bool)
    reader.parsed("driver", Capability.parse)
    for gpu in reader.readers("gpus", required=True):
        gpu.get("index", int, required=True)
        gpu.parsed("capability", Capability.parse, required=True)
        gpu.done()
    inner = reader.reader("libc")
    if inner:
        inner.text("family")
        inner.done()
    reader.texts("tags")
    reader.parsed_list("served", Capability.parse)
    reader.done()


GOOD = {
    "name": "box",
    "wsl": False,
    "gpus": [{"index": 0, "capability": "8.6"}, {"index": 1, "capability": "9.0"}],
    "libc": {"family": "glibc"},
    "tags": ["a"],
    "served": ["8.6"],
}


def test_what_is_right_has_no_fault() -> None:
    assert wrong(read_host, GOOD) == []
    assert wrong(read_host, {"name": "box", "gpus": []}) == []


@collect(
    ("change", "path", "got"),
    [
        ({"name": 3}, "name", "3"),
        ({"name": None}, "name", "nothing"),
        ({"wsl": 1}, "wsl", "1"),
        ({"wsl": "no"}, "wsl", "'no'"),
        ({"gpus": {}}, "gpus", "a mapping of 0"),
        ({"gpus": [3]}, "gpus[0]", "3"),
        ({"gpus": [GOOD["gpus"][0], {"index": True, "capability": "8.6"}]}, "gpus[1].index", "True"),  # type: ignore[index] # a list
        ({"gpus": [{"index": 0, "capability": 8.6}]}, "gpus[0].capability", "8.6"),
        ({"gpus": [{"index": 0, "capability": "86"}]}, "gpus[0].capability", "'86'"),
        ({"gpus": [{"index": 0}]}, "gpus[0].capability", "nothing"),
        ({"libc": []}, "libc", "a list of 0"),
        ({"libc": {"family": 1}}, "libc.family", "1"),
        ({"tags": "a"}, "tags", "'a'"),
        ({"tags": ["a", 2]}, "tags[1]", "2"),
        ({"served": ["8.6", "x"]}, "served[1]", "'x'"),
        ({"driver": "x"}, "driver", "'x'"),
    ],
)
def test_a_fault_says_where_what_was_expected_and_what_was_there(change: dict[str, Any], path: str, got: str) -> None:
    (fault,) = wrong(read_host, {**GOOD, **change})
    assert fault.startswith(f"{path}: expected ")
    assert fault.endswith(f"got {got}")


@collect("data", [None, 3, "text", [], [GOOD]])
def test_another_thing_than_a_mapping_is_one_fault(data: object) -> None:
    (fault,) = wrong(read_host, data)
    assert fault.startswith(("expected a mapping", ": expected a mapping"))


def test_an_inner_thing_that_is_no_mapping_is_told_by_its_path() -> None:
    assert wrong(read_host, {**GOOD, "libc": 3}) == ["libc: expected a mapping, got 3"]


@collect(("key", "near"), [("drivr", "driver"), ("gpu", "gpus"), ("wls", "wsl"), ("zzz", None), ("capability", None)])
def test_an_unknown_key_is_refused_with_the_nearest(key: str, near: str | None) -> None:
    (fault,) = wrong(read_host, {**GOOD, key: 1})
    assert repr(key) in fault
    assert (f"did you mean {near!r}?" in fault) == (near is not None)
    if near is None:
        assert "did you mean" not in fault


def test_an_unknown_key_inside_is_told_by_the_path_of_its_mapping() -> None:
    (fault,) = wrong(read_host, {**GOOD, "gpus": [{"index": 0, "capability": "8.6", "nme": "x"}]})
    assert fault.startswith("gpus[0]: unknown key 'nme'")


def test_all_faults_come_at_once() -> None:
    data = {"name": 1, "wsl": 2, "gpus": [{"index": "x", "capability": "y", "z": 1}], "tags": [3], "extra": 4}
    found = wrong(read_host, data)
    paths = [fault.partition(":")[0] for fault in found]
    assert paths == ["name", "wsl", "gpus[0].index", "gpus[0].capability", "gpus[0]", "tags[0]", "unknown key 'extra'"]
    faults = Faults("host.json")
    read_host(Reader(data, faults))
    with pytest.raises(InputError) as caught:
        faults.check(hint="cuenv inspect --json")
    assert caught.value.exit == ExitCode.INPUT
    assert caught.value.hint == "cuenv inspect --json"
    assert caught.value.message.startswith("host.json: 7 faults\n")
    assert all(fault in caught.value.message for fault in found)


def test_many_faults_are_counted_and_not_all_shown() -> None:
    faults = Faults("big.yml")
    for index in range(100):
        faults.add(f"x[{index}]", "wrong")
    with pytest.raises(InputError) as caught:
        faults.check()
    lines = caught.value.message.splitlines()
    assert lines[0] == "big.yml: 100 faults"
    assert lines[-1].strip() == "... and 88 more"
    assert len(lines) == 14


def test_one_fault_is_one_line_and_none_is_silence() -> None:
    faults = Faults("x.yml", KnowledgeError)
    faults.check()
    faults.add("a", "wrong")
    with pytest.raises(KnowledgeError, match=re.escape("x.yml: a: wrong")):
        faults.check()


def test_null_is_absence() -> None:
    faults = Faults("x")
    reader = Reader({"a": None, "b": 0}, faults)
    assert not reader.has("a")
    assert reader.has("b")
    assert reader.get("a", str, "default") == "default"
    assert reader.raw("a") is None
    assert reader.reader("a") is None
    assert reader.texts("a") == ()
    reader.done()
    assert faults.items == []


@given(scalars | trees)
def test_a_description_is_short_and_plain(value: object) -> None:
    text = describe(value)
    assert text.isprintable()
    assert len(text) <= 60


def test_a_number_that_python_refuses_to_write_is_described() -> None:
    """TOML's 0xff... may be as long as anybody likes."""
    assert describe(16**5000) == describe(-(16**5000)) == "a whole number of thousands of digits"


@collect("key", ["\x1b[31mred", "a\nb", "\u202eevil", "\x00", "n\u0007me"])
def test_control_characters_never_come_out_raw(key: str) -> None:
    found = wrong(read_host, {**GOOD, key: 1, "name": 5, "tags": [{}], "wsl": key, "driver": key})
    assert len(found) == 5
    assert all(fault.isprintable() for fault in found)


@examples(60)
@given(trees)
def test_no_tree_of_a_stranger_breaks_the_reader(data: object) -> None:
    found = wrong(read_host, data)
    assert all(fault.isprintable() for fault in found)
    if not isinstance(data, dict):
        assert found


@examples(60)
@given(st.sampled_from(sorted(GOOD)), trees)
def test_no_value_at_a_known_place_breaks_the_reader(key: str, value: object) -> None:
    found = wrong(read_host, {**GOOD, key: value})
    assert all(fault.isprintable() and re.match(rf"{key}\b|unknown", fault) for fault in found)


def test_a_date_is_called_one() -> None:
    from datetime import date, datetime, timezone

    assert describe(date(2020, 1, 1)) == "the date 2020-01-01"
    assert describe(datetime(2020, 1, 1, tzinfo=timezone.utc)) == "the date 2020-01-01T00:00:00+00:00"
