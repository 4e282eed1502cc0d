"""A pattern that is compiled at its first use does what one of `re` does."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import walk_packages

import pytest

import cuenv
from cases import collect
from cuenv.core.regex import regex

LATE = regex("x")


@collect("text", ["", "cu129", "CU12 cu13", "none"])
def test_a_late_pattern_finds_the_same(text: str) -> None:
    late, usual = regex(r"cu(\d+)", re.IGNORECASE), re.compile(r"cu(\d+)", re.IGNORECASE)
    for _ in range(2):
        assert late.findall(text) == usual.findall(text)
        assert late.sub("x", text) == usual.sub("x", text)
        assert bool(late.fullmatch(text)) is bool(usual.fullmatch(text))
    assert (late.pattern, late.flags, late.groups, repr(late)) == (
        usual.pattern,
        usual.flags,
        usual.groups,
        repr(usual),
    )


def test_a_wrong_pattern_is_an_error_of_its_use() -> None:
    late = regex("(")
    with pytest.raises(re.error, match="unterminated"):
        late.match("x")


def test_every_pattern_of_cuenv_is_one() -> None:
    names = [item.name for item in walk_packages(cuenv.__path__, "cuenv.") if not item.name.endswith("__main__")]
    late = [value for name in names for value in vars(import_module(name)).values() if isinstance(value, type(LATE))]
    assert len(late) > 200
    for one in late:
        assert one.flags is not None
