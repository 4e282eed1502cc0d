"""The tables of container images and actions: canonical, sourced, and lawful."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cases import collect
from cuenv.core.errors import KnowledgeError
from cuenv.core.versions import minor, version
from cuenv.export.tables import FOLDER, TABLES, Delivery, load_delivery, parse_delivery
from cuenv.knowledge.io.load import load
from cuenv.knowledge.schema import table_text


def shipped() -> Delivery:
    return load_delivery()


def raw() -> dict[str, Any]:
    return {name: json.loads(Path(FOLDER, f"{name}.json").read_bytes()) for name in TABLES}


@collect("name", TABLES)
def test_a_file_is_its_canonical_text(name: str) -> None:
    rows = shipped().sources.values() if name == "sources" else getattr(shipped(), name)
    assert Path(FOLDER, f"{name}.json").read_text(encoding="utf-8") == table_text(name, TABLES[name], rows)


def test_there_is_no_file_without_a_table_and_every_source_is_cited() -> None:
    assert {path.stem for path in Path(FOLDER).glob("*.json")} == set(TABLES)
    cited = {source for row in (*shipped().images, *shipped().actions) for source in row.sources}
    assert set(shipped().sources) == cited


def test_a_tag_says_what_the_row_says_and_is_never_a_moving_one() -> None:
    for row in shipped().images:
        assert row.tag not in ("latest", "devel", "runtime")
        assert any(mark.isdigit() for mark in row.tag)
        if row.role == "cuda":
            release = version(row.tag.partition("-")[0])
            assert len(release.release) == 3
            assert minor(release) == row.cuda
            assert "-devel-" in row.tag
        if row.role == "pytorch":
            assert row.tag.startswith(f"{row.torch}-cuda{row.cuda}-cudnn")
            assert row.tag.endswith("-devel")
        assert row.low == bool(row.note) == (row.role == "pytorch")
        if row.role in ("cuda", "micromamba", "run"):
            assert row.glibc is not None


def test_every_toolkit_of_an_image_is_one_that_the_tables_know() -> None:
    facts = load(None)
    for row in shipped().images:
        if row.role == "cuda" and row.cuda:
            assert facts.cuda(row.cuda) is not None, row.tag
        if row.role == "pytorch":
            assert any((item.version, item.cuda) == (row.torch, row.cuda) for item in facts.torch), row.tag


def test_the_same_distribution_has_the_same_c_library() -> None:
    known: dict[str, set[str]] = {}
    for row in shipped().images:
        for name in ("ubuntu22.04", "ubuntu24.04", "debian12", "debian13"):
            if name in f"{row.image}{row.tag}".replace("/", ""):
                known.setdefault(name, set()).add(str(row.glibc))
    assert known == {
        name: {libc}
        for name, libc in sorted(
            {
                "ubuntu22.04": "2.35",
                "ubuntu24.04": "2.39",
                "debian12": "2.36",
                "debian13": "2.41",
            }.items()
        )
    }


@collect(
    ("table", "change", "says"),
    [
        ("images", {"role": "devel"}, "role: expected one of"),
        ("images", {"tag": "a b"}, "expected a tag"),
        ("images", {"image": "UPPER"}, "expected an image"),
        ("images", {"src": ["nobody"]}, "no source has the id 'nobody'"),
        ("images", {"platforms": ["win-64"]}, "expected one of"),
        ("actions", {"sha": "v3"}, "expected a commit of 40 hex digits"),
        ("actions", {"more": 1}, "unknown key 'more'"),
    ],
)
def test_a_bad_row_is_refused_with_its_path(table: str, change: dict[str, Any], says: str) -> None:
    tables = raw()
    tables[table]["rows"][0] |= change
    with pytest.raises(KnowledgeError, match=says) as caught:
        parse_delivery(tables)
    assert f"{table}[0]" in caught.value.message


def test_a_row_stands_once() -> None:
    tables = raw()
    tables["images"]["rows"].append(tables["images"]["rows"][0])
    with pytest.raises(KnowledgeError, match=r"images\[36\]: has the key of images\[0\]"):
        parse_delivery(tables)
