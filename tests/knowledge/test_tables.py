"""The tables as files: canonical text, strict reading, laying a folder over them."""

from __future__ import annotations

import copy
import json
import re
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import table_columns
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.errors import ExitCode, KnowledgeError
from cuenv.core.io.files import DATA
from cuenv.core.versions import Capability, version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.io.load import load, load_from
from cuenv.knowledge.schema import REQUIRED
from cuenv.knowledge.tables import TABLES, dump, merge, parse, rows_of
from thorough import examples


def text(knowledge: Knowledge) -> str:
    """All tables as their files: what two knowledge bases are compared by."""
    return "".join(dump(knowledge, name) for name in TABLES)


@lru_cache(maxsize=1)
def base() -> Knowledge:
    return load_from(DATA)


@lru_cache(maxsize=1)
def decoded() -> dict[str, Any]:
    return {name: json.loads(Path(DATA, f"{name}.json").read_bytes()) for name in TABLES}


def table(name: str, *rows: object) -> dict[str, object]:
    return {name: {"schema": f"cuenv/kb/{name}/1", "rows": list(rows)}}


def first(name: str) -> dict[str, Any]:
    """The row of a table with the most cells, to be bent."""
    return copy.deepcopy(max(decoded()[name]["rows"], key=len))


def refuse(overlay: dict[str, Any], *texts: str) -> str:
    with pytest.raises(KnowledgeError) as caught:
        merge(base(), overlay, "overlay")
    for text in texts:
        assert text in caught.value.message
    assert caught.value.exit is ExitCode.INPUT
    return caught.value.message


def laid_or_refused(overlay: dict[str, Any]) -> tuple[Knowledge | None, str]:
    try:
        return merge(base(), overlay), ""
    except KnowledgeError as error:
        return None, error.message


@collect("name", TABLES)
def test_each_file_is_its_canonical_text(name: str) -> None:
    assert Path(DATA, f"{name}.json").read_text(encoding="utf-8") == dump(base(), name)


def test_the_tables_are_whole() -> None:
    """Each key once, in order, with sources and rows that are there: to read one table asks for less."""
    assert text(parse(decoded(), "data")) == text(base())


def test_the_folder_holds_these_tables_and_no_other() -> None:
    assert {path.stem for path in Path(DATA).glob("*.json")} == set(TABLES)


def test_every_table_is_needed() -> None:
    for name in TABLES:
        rest = {key: {**value, "rows": []} for key, value in decoded().items() if key != name}
        with pytest.raises(KnowledgeError, match=f"{name}: expected a table, got nothing"):
            parse(rest)


def test_the_edition_is_needed() -> None:
    tables = copy.deepcopy(decoded())
    del tables["sources"]["edition"]
    with pytest.raises(KnowledgeError, match=r"sources\.edition: expected a day"):
        parse(tables)
    tables["sources"]["edition"] = "today"
    with pytest.raises(KnowledgeError, match=r"sources\.edition: expected a day YYYY-MM-DD, got 'today'"):
        parse(tables)


JUNK: list[object] = [None, 3.5, {"a": 1}, [[]], "\x1b[2J", [True, None]]


@collect(
    ("name", "key", "junk"),
    [(name, column.key, junk) for name, table in TABLES.items() for column in table.schema.columns for junk in JUNK],
    one_in=9,
)
def test_a_cell_of_another_type_is_named_with_its_path(name: str, key: str, junk: object) -> None:
    row = first(name)
    row[key] = junk
    refuse(table(name, row), f"overlay: {name}[0].{key}")


@collect("name", TABLES)
def test_a_row_with_an_unknown_key_is_refused_with_the_keys_there_are(name: str) -> None:
    refuse(table(name, {**first(name), "verison": "1"}), f"{name}[0]: unknown key 'verison'; choose from ")


@collect(
    ("name", "key"),
    [(name, item.key) for name, table in TABLES.items() for item in table.schema.columns if item.default is REQUIRED],
)
def test_a_row_without_a_needed_cell_is_refused(name: str, key: str) -> None:
    row = first(name)
    del row[key]
    refuse(table(name, row), f"{name}[0].{key}: expected a value, got nothing")


@collect(
    ("name", "cells", "says"),
    [
        ("torch", {"cuda": "12.7"}, "torch[0].cuda: the table cudas has no row 12.7"),
        ("torch", {"arch_list": "8.0;8.4"}, "torch[0].arch_list: the table generations has no row 8.4"),
        ("torch", {"arch_list": "80"}, "torch[0].arch_list: expected 'X.Y'"),
        ("torch", {"arch_list": "8.0 8.6"}, "torch[0].arch_list: expected '8.0;8.6', got '8.0 8.6'"),
        ("torch", {"src": ["nobody"]}, "torch[0].src: no source has the id 'nobody'"),
        ("torch", {"src": []}, "torch[0].src: expected at least one entry"),
        ("torch", {"src": ["cf", "cf"]}, "torch[0].src: expected every entry once"),
        ("torch", {"platform": "win-64"}, "torch[0].platform: expected one of linux-64, linux-aarch64, got 'win-64'"),
        ("torch", {"stack": "pip"}, "torch[0].stack: expected one of conda-forge, pytorch"),
        ("torch", {"pythons": ["3.12", "3"]}, "torch[0].pythons[1]: expected a Python minor X.Y, got '3'"),
        ("torch", {"version": "2.x"}, "torch[0].version: expected a version, got '2.x'"),
        ("torch", {"version": " 2.9.1"}, "torch[0].version: expected '2.9.1', got ' 2.9.1'"),
        ("torch", {"cuda": "12.09"}, "torch[0].cuda: expected '12.9', got '12.09'"),
        ("torch", {"cudnn": "cudnn ~=9"}, "torch[0].cudnn: expected"),
        ("torch", {"cudnn": "a b >=9"}, "torch[0].cudnn: expected '[package ]>=A,<B'"),
        ("toolkits", {"driver": "about 550"}, "toolkits[0].driver: expected a driver version"),
        ("toolkits", {"version": "12.7.0"}, "toolkits[0].version: the table cudas has no row 12.7"),
        ("toolkits", {"branch": -1}, "toolkits[0].branch: expected a whole number from 0"),
        ("toolkits", {"branch": True}, "toolkits[0].branch: expected a whole number, got True"),
        ("gpus", {"capability": "8.4"}, "gpus[0].capability: the table generations has no row 8.4"),
        ("gpus", {"pci": ["2B85"]}, "gpus[0].pci[0]: expected four hex digits in lower case"),
        ("gpus", {"name": "a\x1b[31m"}, "gpus[0].name: expected printable text, got 'a\\x1b[31m'"),
        ("cudas", {"targets": ["9.9"]}, "cudas[0].targets: the table generations has no row 9.9"),
        ("cudas", {"labels": ["12.4"]}, "cudas[0].labels[0]: expected a release X.Y.Z"),
        ("layers", {"serves_from": "9.9"}, "layers[0].serves_from: the table generations has no row 9.9"),
        ("labels", {"cuda": "12.7"}, "labels[0].cuda: the table cudas has no row 12.7"),
        ("generations", {"module": "closed"}, "generations[0].module: expected one of any, open, proprietary"),
        ("sources", {"read_on": "yesterday"}, "sources[0].read_on: expected a day YYYY-MM-DD"),
        ("sources", {"id": "A B"}, "sources[0].id: expected a word"),
    ],
)
def test_a_lie_in_an_overlay_is_named_with_its_path(name: str, cells: dict[str, object], says: str) -> None:
    refuse(table(name, {**first(name), **cells}), f"overlay: {says}")


def test_all_faults_of_an_overlay_are_reported_at_once() -> None:
    bad = {**first("torch"), "cuda": 12.9, "stack": "pip"}
    message = refuse(table("torch", first("torch"), bad) | table("gpus", 7))
    assert message.splitlines()[0] == "overlay: 3 faults"
    assert "torch[1].cuda: expected a string, got 12.9" in message
    assert "torch[1].stack: expected one of" in message
    assert "gpus[0]: expected a mapping, got 7" in message


def test_a_row_twice_is_refused() -> None:
    refuse(table("gpus", first("gpus"), first("gpus")), "gpus[1]: has the key of gpus[0]")


@collect(
    ("overlay", "says"),
    [
        ({"torch": []}, "torch: expected a mapping, got a list of 0"),
        ({"torch": {"rows": []}}, "torch.schema: expected 'cuenv/kb/torch/1', got nothing"),
        ({"torch": {"schema": "cuenv/kb/torch/2", "rows": []}}, "torch.schema: expected 'cuenv/kb/torch/1'"),
        ({"torch": {"schema": "cuenv/kb/torch/1"}}, "torch.rows: expected a list, got nothing"),
        ({"torch": {"schema": "cuenv/kb/torch/1", "rows": [], "edition": "x"}}, "torch: unknown key 'edition'"),
        ({"gpu": {"schema": "cuenv/kb/gpu/1", "rows": []}}, "no such table 'gpu'; choose from sources, toolkits"),
    ],
)
def test_a_table_of_another_shape_is_refused(overlay: dict[str, Any], says: str) -> None:
    refuse(overlay, says)


def test_an_overlay_replaces_a_row_with_its_key_and_adds_the_others() -> None:
    source = {"id": "own", "title": "Own builds", "publisher": "we", "locator": "shelf", "read_on": "2026-11-20"}
    changed = {**first("torch"), "pythons": ["3.12"], "src": ["own"]}
    added = {**changed, "version": "2.99.0", "src": ["own", "cf"]}
    gpu = {
        "name": "B400",
        "capability": "10.3",
        "architecture": "Blackwell Ultra",
        "kind": "datacenter",
        "src": ["own"],
    }
    overlay = table("sources", source) | table("torch", changed, added) | table("gpus", gpu)
    laid = merge(base(), overlay)
    assert len(laid.torch) == len(base().torch) + 1
    assert len(laid.gpus) == len(base().gpus) + 1
    assert next(row for row in laid.torch if row.sources == ("own",)).pythons == ("3.12",)
    assert [row.version for row in laid.torch if "own" in row.sources][-1] == version("2.99.0")
    assert laid.sources["own"].publisher == "we"
    assert laid.edition == base().edition
    assert dump(laid, "cudas") == dump(base(), "cudas")


def test_an_overlay_that_says_nothing_changes_nothing() -> None:
    assert text(merge(base(), {})) == text(base())
    assert text(merge(base(), decoded())) == text(base())


def test_laying_over_keeps_canonical_order() -> None:
    overlay = table("gpus", {**first("gpus"), "name": "AAA"}, {**first("gpus"), "name": "ZZZ"})
    laid = merge(base(), overlay)
    names = [row.name for row in laid.gpus]
    assert names == sorted(names)
    again = {name: json.loads(dump(laid, name)) for name in TABLES}
    assert text(parse(again)) == text(laid)


def test_cells_arrive_as_their_types() -> None:
    build = next(row for row in base().torch if row.version == version("2.12.0") and row.cuda == version("12.9"))
    assert build.code is not None
    assert build.code.isa == version("12.9")
    assert build.code.ptx[-1].capability == Capability(12, 0)
    assert build.cudnn is not None
    assert build.cudnn.package == "libcudnn"
    assert all(row.code is not None and row.code.sass == () for row in base().torch if row.cuda is None)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@examples(60)
@given(data=st.data())
def test_whatever_stands_in_a_row_it_is_read_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(TABLES)))
    row = copy.deepcopy(data.draw(st.sampled_from(decoded()[name]["rows"])))
    for _ in range(data.draw(st.integers(1, 3))):
        key = data.draw(st.sampled_from([column.key for column in TABLES[name].schema.columns]) | st.text(max_size=6))
        if data.draw(st.booleans()):
            row.pop(key, None)
        else:
            row[key] = data.draw(junk)
    laid, message = laid_or_refused(table(name, row))
    if laid is None:
        assert f"{name}[0]" in message
        assert all(line.isprintable() for line in message.splitlines())
        return
    assert all(line.isprintable() for line in dump(laid, name).splitlines())
    assert text(parse({each: json.loads(dump(laid, each)) for each in TABLES})) == text(laid)


@examples(60)
@given(tables=st.dictionaries(st.sampled_from([*TABLES, "other"]), junk, max_size=3))
def test_whatever_stands_for_a_table_it_is_read_or_refused(tables: dict[str, Any]) -> None:
    laid, message = laid_or_refused(tables)
    assert bool(message) is bool(tables)
    assert laid is None or text(laid) == text(base())


@examples(60)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_whatever_bytes_a_file_holds_they_are_read_or_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "gpus.json").write_bytes(content)
        with pytest.raises(KnowledgeError):
            load(Path(folder))


def test_a_folder_is_laid_over_the_tables(tmp_path: Path) -> None:
    (tmp_path / "gpus.json").write_text(json.dumps(table("gpus", {**first("gpus"), "name": "B400"})["gpus"]))
    (tmp_path / "README.md").write_text("notes are left alone")
    assert "B400" in {row.name for row in load(tmp_path).gpus}


@collect(
    ("name", "content", "says"),
    [
        ("gpus.json", b"", "is not a table"),
        ("gpus.json", b"\xff\xfe\x00", "is not a table"),
        ("gpus.json", b"[" * 100_000, "nested too deep"),
        ("gpus.json", b'{"schema": 1, "schema": 2}', "the key 'schema' appears twice"),
        ("gpus.json", b"[]", "gpus: expected a mapping"),
        ("gpu.json", b'{"schema": "cuenv/kb/gpu/1", "rows": []}', "no such table 'gpu'"),
        ("notes.txt", b"", "holds no table"),
    ],
)
def test_a_bad_folder_is_refused_with_its_name(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(KnowledgeError, match=says) as caught:
        load(tmp_path)
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeError, match="No such file or directory"):
        load(tmp_path / "nowhere")
    (tmp_path / "torch.json").mkdir()
    with pytest.raises(KnowledgeError, match=r"torch\.json: cannot be read: Is a directory"):
        load(tmp_path)


def test_rows_by_name_are_those_of_the_base() -> None:
    assert rows_of(base(), "torch") == base().torch
    assert {row.id for row in rows_of(base(), "sources")} == set(base().sources)


def test_the_readme_shows_every_column_as_it_is_declared() -> None:
    assert table_columns.PAGE.read_text(encoding="utf-8") == table_columns.page()


def test_a_seldom_asked_table_is_read_when_it_is_asked_for() -> None:
    known = load_from.__wrapped__(DATA)
    later = {"extensions", "wheels"}
    assert later & vars(known).keys() == set()
    assert known.extensions is known.extensions
    assert later & vars(known).keys() == {"extensions"}
    assert known.wheels
    with pytest.raises(AttributeError, match="no_table"):
        getattr(known, "no_table")  # noqa: B009 - a type checker knows that there is none


@pytest.mark.parametrize("table", ["extensions", "regressions"])
def test_a_table_of_packages_is_read_only_for_a_package_that_it_has(table: str) -> None:
    """Also where the name stands in another column: DeepSpeed compiles with ninja."""
    named = {row.package for row in getattr(base(), table)}
    known = load_from.__wrapped__(DATA)
    ask = known.extension if table == "extensions" else known.regression
    assert not any(ask(package) for package in ("ninja", "python", "zlib", 'a "quoted" name') if package not in named)
    assert table not in vars(known)
    assert all(ask(package) for package in named)
    assert table in vars(known)


def test_a_fault_in_a_table_is_said_with_its_place_when_the_cell_is_asked_for(tmp_path: Path) -> None:
    for name in TABLES:
        (tmp_path / f"{name}.json").write_text(Path(DATA, f"{name}.json").read_text())
    rows = '[{"version": 1, "cuda": "12.6", "pythons": ["3.12", 3]}, 1]'
    (tmp_path / "wheels.json").write_text(f'{{"schema": "cuenv/kb/wheels/1", "rows": {rows[:-4]}]}}')
    known = load_from.__wrapped__(tmp_path)
    assert known.extensions
    (wheel,) = known.wheels
    assert str(wheel.cuda) == "12.6"
    assert wheel.code is None
    for field, says in (
        ("version", "wheels[0].version: expected a string, got 1"),
        ("pythons", "wheels[0].pythons[1]: expected a string, got 3"),
        ("platform", "wheels[0].platform: expected a value, got nothing"),
    ):
        with pytest.raises(KnowledgeError, match=re.escape(says)) as caught:
            getattr(wheel, field)
        assert str(tmp_path) in caught.value.message
    (tmp_path / "wheels.json").write_text(f'{{"schema": "cuenv/kb/wheels/1", "rows": {rows}}}')
    with pytest.raises(KnowledgeError, match=r"wheels\[1\]: expected a mapping, got 1"):
        _ = load_from.__wrapped__(tmp_path).wheels
