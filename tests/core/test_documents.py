"""The JSON Schemas that ship: made from the types, valid themselves, and printed by `cuenv schema`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

import cuenv
import json_schemas
from cases import collect
from commands import hold_to_schema
from commands import inside as run

SOURCE = Path(cuenv.__file__).parent


def test_the_files_are_as_the_types_say() -> None:
    stale = [path.name for path, text in json_schemas.products().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "write them with: nox -s schemas"
    assert {path for path in json_schemas.products() if path.suffix == ".json"} == set(
        json_schemas.FOLDER.glob("*.json")
    )


def test_every_document_that_the_source_names_has_a_schema() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    named = {name for text in texts for name in re.findall(r'"cuenv/([a-z-]+)/1"', text)}
    assert named == set(json_schemas.named())


@pytest.mark.slow
def test_every_schema_is_one(tmp_path: Path) -> None:
    listed = json.loads(run("schema", "--json", folder=tmp_path).stdout)["schemas"]
    lines = run("schema", folder=tmp_path).stdout
    for name in listed:
        middle = name.split("/")[1]
        assert re.search(rf"(?m)^{middle} +\S", lines)
        texts = {run("schema", word, folder=tmp_path).stdout for word in (name, middle, f"{middle}/1")}
        assert len(texts) == 1
        schema = json.loads(texts.pop())
        jsonschema.Draft202012Validator.check_schema(schema)
        assert (schema["title"], "description" in schema) == (name, True)


def test_a_name_that_is_unknown_is_hinted(tmp_path: Path) -> None:
    done = run("schema", "reprot", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("hint: cuenv schema report\n")


@collect("change", [{"extra": 1}, {"error": {"code": "input", "message": 3, "hint": None}}, {"error": {}}])
def test_the_helper_of_the_tests_refuses_what_the_schema_does_not_say(change: dict[str, object]) -> None:
    data = {"schema": "cuenv/error/1", "error": {"code": "input", "message": "x", "hint": None}}
    hold_to_schema(["check", "--json"], json.dumps(data))
    with pytest.raises(AssertionError):
        hold_to_schema(["check", "--format", "json"], json.dumps(data | change))
