"""The plain form of YAML means what PyYAML makes of it, and nothing else is read as that form."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cuenv.core.errors import InputError
from cuenv.core.yaml_events import document
from cuenv.core.yaml_read import load, plain_document
from cuenv.core.yaml_write import quote, scalar
from thorough import examples

INDENTS = st.sampled_from(["", "", "  ", "  ", "    ", "   ", "\t"])
DASHES = st.sampled_from(["", "", "", "- ", "-", "- - "])
KEYS = st.sampled_from(["a: ", "b: ", 'c": ', '"d": ', "a:", "b:", '"on": ', "yes: ", "", "", "x::y: ", "? ", "1: "])
WORDS = r'"t" "\"" "\x23" "\n" "" x x::y=1.2=b* 0 7 007 12345678901 1.2 true false True no null ~ [] {} [a] {a "open'
OTHERS = (
    "",
    "x y",
    "# c",
    "x # c",
    "a: b",
    "&a x",
    "*a",
    "|",
    "> ",
    "<<",
    "---",
    "...",
    "%x",
    "x:",
    "\u00e9",
    "\x7f",
    "-",
)
VALUES = st.sampled_from([*WORDS.split(), *OTHERS])
LINES = st.builds(lambda *parts: "".join(parts), INDENTS, DASHES, KEYS, VALUES)


@examples(400)
@given(st.lists(LINES, max_size=7).map("\n".join))
@example("a: x\n  y")
@example("a:\n- b: x\n  a: y\nb:\n  - x\n")
@example("a:\n  - x\n b: y")
@example("a: x\na: y")
@example("- a:\n- b")
def test_a_plain_document_is_what_pyyaml_reads(text: str) -> None:
    found = plain_document(text)
    if found is not None:
        assert found == document(text, "x")


texts = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.dictionaries(st.from_regex(r"[a-m][a-z_]{0,8}", fullmatch=True), texts, min_size=1, max_size=4))
def test_what_cuenv_writes_of_plain_ascii_needs_no_pyyaml(found: dict[str, str]) -> None:
    text = "".join(f"{quote(key)}:\n  - {scalar(value)}\n  - k: {quote(value)}\n" for key, value in found.items())
    wanted = {key: [value, {"k": value}] for key, value in found.items()}
    assert load(text, "x") == wanted
    if all(value.isascii() and value.isprintable() for value in found.values()):
        assert plain_document(text) == wanted


def test_depth_is_bounded() -> None:
    deep = "".join(f"{'  ' * depth}a:\n" for depth in range(30))
    assert plain_document(deep + "  " * 30 + "a: 1") is None
    with pytest.raises(InputError, match="deeper than 24"):
        load(deep + "  " * 30 + "a: 1", "x")
