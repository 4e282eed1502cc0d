"""What recipes say and what is true: the tables, and ``cuenv explain``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import cuenv
from cases import collect
from commands import inside as run
from cuenv.core.errors import KnowledgeError
from cuenv.knowledge.guidance import TABLES, Guidance, parse_guidance
from cuenv.knowledge.io.load import GUIDANCE, load, load_guidance
from cuenv.knowledge.schema import table_text


def shipped() -> Guidance:
    return load_guidance(load(None))


def raw() -> dict[str, Any]:
    return {name: json.loads((Path(GUIDANCE) / f"{name}.json").read_bytes()) for name in TABLES}


@collect("name", TABLES)
def test_a_file_is_its_canonical_text(name: str) -> None:
    rows = shipped().sources.values() if name == "sources" else getattr(shipped(), name)
    assert (Path(GUIDANCE) / f"{name}.json").read_text(encoding="utf-8") == table_text(name, TABLES[name], rows)


def test_there_is_no_file_without_a_table() -> None:
    assert {path.stem for path in Path(GUIDANCE).glob("*.json")} == set(TABLES)


def test_every_source_of_its_own_is_cited_and_none_hides_one_of_the_facts() -> None:
    guidance, facts = shipped(), load(None)
    cited = {
        source
        for name in TABLES
        if name not in ("sources", "codes")
        for row in getattr(guidance, name)
        for source in row.sources
    }
    rules = "".join(path.read_text(encoding="utf-8") for path in (Path(cuenv.__file__).parent / "lint").glob("*.py"))
    assert set(guidance.sources) <= cited | {name for name in guidance.sources if f'"{name}"' in rules}
    assert not set(guidance.sources) & set(facts.sources)


def test_ids_are_unique_and_what_rests_on_general_knowledge_is_low() -> None:
    rows = shipped().errata
    assert len({row.id for row in rows}) == len(rows) >= 40
    for row in rows:
        assert row.low == ("gk_errata" in row.sources), row.id
        assert bool(row.note) == row.low, row.id
    for advice in shipped().advice:
        assert advice.low == ("gk_errata" in advice.sources), advice.id


def test_every_finding_that_an_erratum_names_is_documented(request: pytest.FixtureRequest) -> None:
    documented = (request.config.rootpath / "docs/reference.md").read_text(encoding="utf-8")
    for row in shipped().errata:
        for code in row.codes:
            assert f"| {code} |" in documented, row.id


def test_the_commands_that_errata_give_are_commands(tmp_path: Path) -> None:
    """Whatever follows ``cuenv`` in the advice is taken by the command line."""
    for words in sorted({word for row in shipped().errata for word in re.findall(r"cuenv ([a-z-]+)", row.do or "")}):
        done = run(words, "--help", folder=tmp_path)
        assert done.returncode == 0, words


@collect(
    ("table", "change", "says"),
    [
        ("errata", {"verdict": "true"}, "verdict: expected one of"),
        ("errata", {"src": ["nobody"]}, "no source has the id 'nobody'"),
        ("errata", {"src": []}, "src: expected"),
        ("errata", {"id": "X1"}, "expected an id such as E03"),
        ("errata", {"true": "a\x1b[31m"}, "expected printable text"),
        ("errata", {"more": 1}, "unknown key 'more'"),
        ("sources", {"read_on": "today"}, "expected a day"),
    ],
)
def test_a_wrong_row_is_refused_with_its_path(table: str, change: dict[str, Any], says: str) -> None:
    tables = raw()
    tables[table]["rows"][0] |= change
    with pytest.raises(KnowledgeError) as error:
        parse_guidance(tables, frozenset(load(None).sources))
    assert f"{table}[0]" in error.value.message
    assert says in error.value.message


def test_a_row_that_stands_twice_and_a_table_that_is_missing_are_refused() -> None:
    tables = raw()
    tables["errata"]["rows"].append(tables["errata"]["rows"][-1])
    with pytest.raises(KnowledgeError, match=r"errata\[\d+\]: has the key of errata"):
        parse_guidance(tables, frozenset(load(None).sources))
    del tables["errata"]
    with pytest.raises(KnowledgeError, match="errata: expected a mapping"):
        parse_guidance(tables, frozenset(load(None).sources))


def test_a_topic_is_explained_with_what_is_true_and_its_source(tmp_path: Path) -> None:
    done = run("explain", "libcudart", "-v", folder=tmp_path)
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert "libcudart.so.11.0 is the SONAME of the runtime of every 11.x toolkit" in text
    assert "source:" in text
    assert "PyTorch, torch/utils/cpp_extension.py" in text
    short = run("explain", "libcudart", folder=tmp_path).stdout
    assert "source:" not in short
    assert short.endswith("add -v for the sources\n")


def test_without_a_topic_each_is_listed_once(tmp_path: Path) -> None:
    done = run("explain", folder=tmp_path)
    assert done.returncode == 0
    listed = [line.split()[0] for line in done.stdout.splitlines()[1:-1]]
    assert tuple(listed) == shipped().topics


def test_an_id_and_words_of_the_text_find_it_too(tmp_path: Path) -> None:
    assert "H800 is Hopper" in run("explain", "e29", folder=tmp_path).stdout
    found = json.loads(run("explain", "libcudart.so.11.0", "--json", folder=tmp_path).stdout)
    assert found["schema"] == "cuenv/explain/1"
    assert {entry["id"] for entry in found["entries"]} >= {"E03", "E31"}
    assert all(entry["sources"][0]["title"] for entry in found["entries"])


@collect("topic", ["", "x", "deepsped", "\x1b[31m", "a" * 5000, "🦆"])
def test_an_unknown_topic_is_a_usage_error_with_the_nearest(topic: str, tmp_path: Path) -> None:
    done = run("explain", topic, folder=tmp_path)
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "no such topic" in done.stderr
    if topic == "deepsped":
        assert "hint: cuenv explain deepspeed" in done.stderr


@pytest.mark.parametrize(("topic", "hint"), [("torch", "cuenv kb pytorch 2.3"), ("cudas", "cuenv kb cuda 12.1")])
def test_a_table_that_is_not_a_topic_leads_to_the_nearest_topic(topic: str, hint: str, tmp_path: Path) -> None:
    done = run("kb", topic, folder=tmp_path)
    assert done.returncode == 2
    assert f"hint: {hint}" in done.stderr


def test_a_gpu_is_explained_by_what_it_is_and_can_do(tmp_path: Path) -> None:
    assert run("explain", "gpu", "out", "of", "memory", folder=tmp_path).stdout.startswith(
        "How do I use less GPU memory"
    )
    done = run("explain", "gpu", "RTX 4090", "-v", folder=tmp_path)
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert "24 GB" in text
    assert "tensor cores for tf32, bf16, fp16, fp8" in text
    assert "NCCL_P2P_DISABLE=1" in text
    assert "pin_memory=True" in text
    assert text.count("source:") >= 6


@collect(
    ("gpu", "has", "lacks"),
    [
        ("T4", "A03", "A02"),
        ("V100", "A03", "A01"),
        ("A100", "A02", "A05"),
        ("RTX 4090", "A05", "A03"),
        ("8.9", "A04", "A05"),
        ("H100", "A04", "A05"),
    ],
)
def test_advice_goes_to_the_gpus_that_it_concerns(gpu: str, has: str, lacks: str) -> None:
    from cuenv.diagnosis.explain.gpu import page

    ids = {row.id for row in page(gpu, shipped(), load(None)).advice}
    assert has in ids
    assert lacks not in ids
    assert {"A06", "A07"} <= ids


def test_a_question_and_the_name_of_a_gpu_need_no_quotes(tmp_path: Path) -> None:
    for command, words in (("explain", "what is ptx"), ("explain", "gpu RTX 4090"), ("kb", "gpu RTX 4090")):
        topic, _, name = words.partition(" ")
        quoted = (topic, name) if topic == "gpu" else (words,)
        found = run(command, *words.split(), folder=tmp_path)
        assert found.returncode == 0
        assert found.stdout == run(command, *quoted, folder=tmp_path).stdout


def test_a_gpu_that_is_unknown_is_refused(tmp_path: Path) -> None:
    for words in (("gpu",), ("gpu", "RTX 9999"), ("gpu", "\x1b[31m")):
        done = run("explain", *words, folder=tmp_path)
        assert done.returncode == 2
        assert "hint: " in done.stderr
        assert "\x1b" not in done.stderr
    told = json.loads(run("explain", "gpu", "H100", "--json", folder=tmp_path).stdout)
    assert (told["gpu"], told["capability"]) == ("H100", "9.0")
    assert all(entry["sources"] for entry in told["entries"])
