"""``cuenv kb format``: a row can be added anywhere, and what is wrong is named with its line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from cases import collect
from commands import inside
from cuenv.core.errors import ExitCode
from cuenv.core.io.files import DATA
from cuenv.maintain.maintain import row_lines

HEAD = '{"schema": "cuenv/kb/gpus/1",\n "rows": [\n'
ROW = '{"src": ["smi"], "name": "RTX 9990", "architecture": "Ada", "kind": "geforce", "capability": "8.9"}'
CANONICAL = '{"name": "RTX 9990", "capability": "8.9", "architecture": "Ada", "kind": "geforce", "src": ["smi"]}'


def copied(folder: Path) -> Path:
    """The tables that ship, in a folder."""
    place = folder / "data"
    for group in ("", "guidance", "delivery"):
        (place / group).mkdir()
        for path in Path(DATA, group).glob("*.json"):
            shutil.copy(path, place / group)
    return place


def texts(folder: Path) -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.json")}


def test_the_tables_that_ship_are_in_canonical_form(tmp_path: Path) -> None:
    done = inside("kb", "format", "--check", copied(tmp_path), folder=tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    count = len(texts(tmp_path / "data"))
    assert done.stdout == f"{count} of {count} files were in canonical form already\n"


def test_a_row_may_stand_anywhere_with_its_cells_in_any_order(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    path = folder / "gpus.json"
    before = path.read_text(encoding="utf-8")
    path.write_text(before.replace('"rows": [\n', f'"rows": [\n\n  {ROW},\n', 1), encoding="utf-8")
    asked = inside("kb", "format", "--check", folder, folder=tmp_path)
    assert asked.returncode == ExitCode.NEGATIVE
    assert asked.stdout.splitlines()[0] == f"{path} is not in canonical form"
    assert "\n\n" in path.read_text(encoding="utf-8")
    done = inside("kb", "format", folder, folder=tmp_path)
    assert done.stdout.splitlines()[0] == f"formatted {path}"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.removesuffix(",") != CANONICAL] == before.splitlines()
    assert lines == sorted(lines[:1]) + sorted(lines[1:-1], key=lambda line: json.loads(line.rstrip(","))["name"]) + [
        "]}"
    ]
    again = inside("kb", "format", "--json", folder, folder=tmp_path)
    assert json.loads(again.stdout) == json.loads(again.stdout) | {"changed": [], "written": False}


def test_a_folder_of_own_tables_rests_on_those_of_cuenv(tmp_path: Path) -> None:
    path = tmp_path / "own" / "gpus.json"
    path.parent.mkdir()
    path.write_text(f"{HEAD}{ROW}]}}", encoding="utf-8")
    done = inside("kb", "format", folder=path.parent)
    assert done.returncode == ExitCode.OK, done.stderr
    assert path.read_text(encoding="utf-8") == f'{{"schema": "cuenv/kb/gpus/1", "rows": [\n{CANONICAL}\n]}}\n'


@collect(
    ("rows", "says"),
    [
        (f"{ROW},\n{ROW.replace('8.9', 'x')}", "gpus.json:4: gpus[1].capability: expected 'X.Y', got 'x'"),
        (ROW.replace("smi", "nobody"), "gpus.json:3: gpus[0].src: no source has the id 'nobody'"),
        (f"\n\n{ROW.replace('name', 'nmae')}", "gpus.json:5: gpus[0]: unknown key 'nmae'"),
        (f"{ROW},\n\n{ROW}", "gpus.json:5: gpus[1]: has the key of gpus[0]"),
        (ROW.replace("8.9", "6.9"), "gpus.json:3: gpus[0].capability: the table generations has no row 6.9"),
        (f"{ROW},\n{ROW[:-1]}", "gpus.json:4: not JSON: "),
        (f'{ROW},\n{ROW[:-1]}, "name": "B"}}', "gpus.json:4: gpus[1]: the key 'name' appears twice in one mapping"),
        ("[" * 99999, "gpus.json: gpus: nested too deep for a table"),
        ("7", "gpus.json:3: gpus[0]: expected a mapping, got 7"),
    ],
)
def test_a_bad_row_is_named_with_file_and_line_and_nothing_is_written(rows: str, says: str, tmp_path: Path) -> None:
    good = tmp_path / "states.json"
    good.write_text('{"rows": [], "schema": "cuenv/kb/states/1"}', encoding="utf-8")
    (tmp_path / "gpus.json").write_text(f"{HEAD}{rows}]}}", encoding="utf-8")
    before = texts(tmp_path)
    done = inside("kb", "format", folder=tmp_path)
    assert done.returncode == ExitCode.INPUT
    assert says in done.stderr
    assert done.stderr.count("hint: ") == 1
    assert texts(tmp_path) == before


@collect(
    ("name", "content", "says"),
    [
        ("gpu.json", b'{"schema": "cuenv/kb/gpu/1", "rows": []}', "no such table 'gpu'"),
        ("gpus.json", b"\xff\xfe", "gpus.json: not text in UTF-8"),
        ("gpus.json", b'["a"]', "gpus.json: gpus: expected a mapping, got a list of 1"),
        ("gpus.txt", b"", "holds no table"),
    ],
)
def test_a_file_that_is_not_a_table_is_refused(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    done = inside("kb", "format", folder=tmp_path)
    assert done.returncode == ExitCode.INPUT
    assert says in done.stderr
    assert (tmp_path / name).read_bytes() == content


def test_faults_in_the_folders_beside_are_named_and_no_table_of_facts_changes(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    errata, gpus = folder / "guidance" / "errata.json", folder / "gpus.json"
    errata.write_text(errata.read_text(encoding="utf-8").replace('"id": "E', '"id": "F', 1), encoding="utf-8")
    gpus.write_text(gpus.read_text(encoding="utf-8").replace("\n", "\n\n"), encoding="utf-8")
    before = texts(folder)
    done = inside("kb", "format", folder, folder=tmp_path)
    assert done.returncode == ExitCode.INPUT
    assert "guidance/errata.json:2: errata[0].id: expected an id such as E03" in done.stderr
    assert texts(folder) == before


def test_the_line_of_each_row_is_that_where_it_begins() -> None:
    assert row_lines('{"schema": "x", "rows": [{"a": "},{"}, {\n"b": 1},\n\n 7 ]}') == [1, 1, 4]
    assert row_lines('{"rows": [{"a": 1},\n{"b": }]}') == [1, 2]
    assert row_lines("[]") == []
